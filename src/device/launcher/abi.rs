//! What Rust and the kernels agree on. Made from kernels/abi.h by bindgen: do not edit.
//!
//! To renew: HARMONIA_RENEW_ABI=1 cargo test --test abi
#![allow(missing_docs, rustdoc::all)]

pub const HARMONIA_HOPS_SIMPLEX: u32 = 0;
pub const HARMONIA_HOPS_ABSOLUTE: u32 = 1;
pub const HARMONIA_HOPS_SIGNED: u32 = 2;
pub const HARMONIA_HOPS_FREE: u32 = 3;
pub const HARMONIA_HALT_NUMBER: u32 = 1;
pub const HARMONIA_HALT_ROOM: u32 = 2;
/// features of a MoNB tile: 32 bytes of a row of X, one full sector
pub const HARMONIA_MONB_FEATURES: u32 = 8;
/// nodes of a MoNB tile
pub const HARMONIA_MONB_ROWS: u32 = 128;
/// neighbours beyond which a row of the walk is cut into segments
pub const HARMONIA_LONG_ROW: u32 = 1024;
/// threads of a block of the kernels that walk over rows
pub const HARMONIA_ROW_THREADS: u32 = 256;
/// columns of a block of `column_sums`
pub const HARMONIA_SUM_COLUMNS: u32 = 32;
/// slices of rows it adds up in parallel
pub const HARMONIA_SUM_SLICES: u32 = 8;
/// threads of a block that adds up sizes of graphs
pub const HARMONIA_SELECT_THREADS: u32 = 256;
pub const HARMONIA_DROP_NONE: u32 = 0;
pub const HARMONIA_DROP_INPUT: u32 = 1;
pub const HARMONIA_DROP_FEATURE: u32 = 2;
pub const HARMONIA_DROP_HIDDEN: u32 = 3;
/// Masks of one step: entry `index` is dropped where Philox word `index` of the stream is below `threshold`.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Dropout {
    pub key: [u32; 2usize],
    pub purpose: u32,
    pub step: u32,
    pub threshold: u32,
    pub place: u32,
    pub scale: f32,
    /// entries of X from here on keep their inputs: points of a grid
    pub elements: u64,
    /// entry of X that the rows at hand begin with
    pub first: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Dropout"][::core::mem::size_of::<Dropout>() - 48usize];
    ["Alignment of Dropout"][::core::mem::align_of::<Dropout>() - 8usize];
};
/// Non-zeros of X by columns. A column is cut into segments of at most HARMONIA_LONG_ROW non-zeros, at least one.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct SparseColumns {
    /// d + 1: first place of each column
    pub column_ptr: *const u64,
    /// nnz: row of each place
    pub rows: *const u32,
    /// nnz
    pub values: *const f32,
    /// first place of each segment
    pub begin: *const u64,
    /// place behind its last
    pub end: *const u64,
    /// its column
    pub segment_column: *const u32,
    /// d + 1: of each column, and the end
    pub first_segment: *const u32,
    pub segments: u32,
    pub features: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SparseColumns"][::core::mem::size_of::<SparseColumns>() - 64usize];
    ["Alignment of SparseColumns"][::core::mem::align_of::<SparseColumns>() - 8usize];
};
/// noise.cu
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct DrawNoise {
    /// standard normal numbers times scale
    pub noise: *mut f32,
    pub length: u64,
    pub key: [u32; 2usize],
    pub purpose: u32,
    pub step: u32,
    pub scale: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of DrawNoise"][::core::mem::size_of::<DrawNoise>() - 40usize];
    ["Alignment of DrawNoise"][::core::mem::align_of::<DrawNoise>() - 8usize];
};
/// route.cu
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct RouteForward {
    /// d x m
    pub experts: *mut u32,
    /// d x m
    pub gates: *mut f32,
    /// d x m
    pub noise_scale: *mut f32,
    /// d x q
    pub embeddings: *const f32,
    /// q x C
    pub router_gate: *const f32,
    /// q x C
    pub router_noise: *const f32,
    /// d x C, optional
    pub noise: *const f32,
    pub features: u32,
    pub expert_count: u32,
    pub active: u32,
    pub embedding: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of RouteForward"][::core::mem::size_of::<RouteForward>() - 72usize];
    ["Alignment of RouteForward"][::core::mem::align_of::<RouteForward>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct RouteBackward {
    /// d x q, +=
    pub d_embeddings: *mut f32,
    /// q x C, +=
    pub d_router_gate: *mut f32,
    /// q x C, +=
    pub d_router_noise: *mut f32,
    /// d x m
    pub d_gates: *const f32,
    /// d x m
    pub experts: *const u32,
    /// d x m
    pub gates: *const f32,
    /// d x m
    pub noise_scale: *const f32,
    /// d x q
    pub embeddings: *const f32,
    /// q x C
    pub router_gate: *const f32,
    /// q x C
    pub router_noise: *const f32,
    /// d x C, optional
    pub noise: *const f32,
    pub features: u32,
    pub expert_count: u32,
    pub active: u32,
    pub embedding: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of RouteBackward"][::core::mem::size_of::<RouteBackward>() - 104usize];
    ["Alignment of RouteBackward"][::core::mem::align_of::<RouteBackward>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct HopWeightsForward {
    /// T x d
    pub hop_weights: *mut f32,
    /// T x d
    pub hop_logits: *const f32,
    /// U, T x T, or null
    pub basis: *const f32,
    pub features: u32,
    pub hops: u32,
    /// HARMONIA_HOPS_...
    pub kind: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of HopWeightsForward"][::core::mem::size_of::<HopWeightsForward>() - 40usize];
    ["Alignment of HopWeightsForward"][::core::mem::align_of::<HopWeightsForward>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct HopWeightsBackward {
    /// T x d, +=
    pub d_hop_logits: *mut f32,
    /// T x d
    pub d_hop_weights: *const f32,
    /// T x d
    pub hop_weights: *const f32,
    /// T x d
    pub hop_logits: *const f32,
    /// U, T x T, or null
    pub basis: *const f32,
    pub features: u32,
    pub hops: u32,
    pub kind: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of HopWeightsBackward"][::core::mem::size_of::<HopWeightsBackward>() - 56usize];
    ["Alignment of HopWeightsBackward"][::core::mem::align_of::<HopWeightsBackward>() - 8usize];
};
/// monb.cu. The hidden layers of expert c start at parameters + c * expert_size: weight (out x in), bias, next layer.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct MonbFold {
    /// d x m x (w + 1): v = U^T a_k, then u . a_k
    pub heads: *mut f32,
    /// all of them
    pub parameters: *const f32,
    /// d x B
    pub coefficients: *const f32,
    /// d x m
    pub experts: *const u32,
    pub expert_size: u64,
    /// parameters of the hidden layers, behind which U starts
    pub hidden_size: u64,
    pub features: u32,
    pub active: u32,
    pub bases: u32,
    /// w: last hidden width
    pub head_width: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of MonbFold"][::core::mem::size_of::<MonbFold>() - 64usize];
    ["Alignment of MonbFold"][::core::mem::align_of::<MonbFold>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct MonbForward {
    /// n x d
    pub responses: *mut f32,
    /// generic kernel: one piece per block; null: shared memory
    pub workspace: *mut f32,
    /// n x d
    pub features: *const f32,
    /// d x m x (w + 1)
    pub heads: *const f32,
    /// d x m
    pub gates: *const f32,
    /// d x m
    pub experts: *const u32,
    pub parameters: *const f32,
    /// 1, hidden widths; generic kernel
    pub widths: *const u32,
    pub nodes: u64,
    pub expert_size: u64,
    /// floats of one piece
    pub workspace_size: u64,
    pub feature_count: u32,
    pub active: u32,
    /// hidden layers
    pub layers: u32,
    pub head_width: u32,
    pub dropout: Dropout,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of MonbForward"][::core::mem::size_of::<MonbForward>() - 152usize];
    ["Alignment of MonbForward"][::core::mem::align_of::<MonbForward>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct MonbBackward {
    /// teams x C x hidden_size, += : gradients of hidden layers, one slice a team
    pub expert_sums: *mut f32,
    /// chunks x d x m x (w + 1), += : S = sum g h, then G = sum g
    pub head_sums: *mut f32,
    /// as in MonbForward
    pub workspace: *mut f32,
    /// n x d
    pub d_responses: *const f32,
    /// n x d
    pub features: *const f32,
    /// d x m x (w + 1)
    pub heads: *const f32,
    /// d x m
    pub gates: *const f32,
    /// d x m
    pub experts: *const u32,
    pub parameters: *const f32,
    /// 1, hidden widths; generic kernel
    pub widths: *const u32,
    pub nodes: u64,
    /// nodes of a chunk, a multiple of HARMONIA_MONB_ROWS
    pub chunk_rows: u64,
    pub expert_size: u64,
    /// parameters of the hidden layers of an expert
    pub hidden_size: u64,
    pub workspace_size: u64,
    pub feature_count: u32,
    pub expert_count: u32,
    pub active: u32,
    pub layers: u32,
    pub head_width: u32,
    pub dropout: Dropout,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of MonbBackward"][::core::mem::size_of::<MonbBackward>() - 192usize];
    ["Alignment of MonbBackward"][::core::mem::align_of::<MonbBackward>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct MonbFinish {
    /// d x m
    pub d_gates: *mut f32,
    /// d x B, +=
    pub d_coefficients: *mut f32,
    /// all of them, +=: output layers, and hidden layers from expert_sums
    pub d_parameters: *mut f32,
    /// d x m x (w + 1)
    pub sums: *const f32,
    /// d x m x (w + 1)
    pub heads: *const f32,
    /// d x m
    pub gates: *const f32,
    /// d x m
    pub experts: *const u32,
    pub parameters: *const f32,
    /// d x B
    pub coefficients: *const f32,
    /// C x hidden_size
    pub expert_sums: *const f32,
    pub expert_size: u64,
    /// the output layer follows
    pub hidden_size: u64,
    pub features: u32,
    pub expert_count: u32,
    pub active: u32,
    pub bases: u32,
    pub head_width: u32,
    pub dropout: Dropout,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of MonbFinish"][::core::mem::size_of::<MonbFinish>() - 168usize];
    ["Alignment of MonbFinish"][::core::mem::align_of::<MonbFinish>() - 8usize];
};
/// Every column of a sparse X: zero, then its non-zeros.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct MonbSparseForward {
    /// responses: d + nnz
    pub monb: MonbForward,
    pub x: SparseColumns,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of MonbSparseForward"][::core::mem::size_of::<MonbSparseForward>() - 216usize];
    ["Alignment of MonbSparseForward"][::core::mem::align_of::<MonbSparseForward>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct MonbSparseBackward {
    /// d_responses: d + nnz; expert_sums: blocks x C x hidden_size; head_sums: d x m x (w + 1)
    pub monb: MonbBackward,
    pub x: SparseColumns,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of MonbSparseBackward"][::core::mem::size_of::<MonbSparseBackward>() - 256usize];
    ["Alignment of MonbSparseBackward"][::core::mem::align_of::<MonbSparseBackward>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Verdict {
    pub loss: f64,
    pub norm: f64,
    /// HARMONIA_HALT_...: updates leave everything as it is
    pub halted: u32,
    /// of the expert that has most; what it would have had at least, where there was no room
    pub pieces: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Verdict"][::core::mem::size_of::<Verdict>() - 24usize];
    ["Alignment of Verdict"][::core::mem::align_of::<Verdict>() - 8usize];
};
/// compile.cu. The parameters of expert c start at parameters + c * expert_size: weight (out x in), bias, next layer. Level l
/// is what layer l reads: x itself, then the units of each hidden layer, lines on every piece that the layers before make.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Compiled {
    /// C x room: where an expert changes piece, increasing
    pub thresholds: *mut f32,
    /// C x room x B
    pub slopes: *mut f64,
    /// C x room x B
    pub intercepts: *mut f64,
    /// C x (units x room): level after level, pieces x width each
    pub level_slopes: *mut f64,
    /// C x (units x room)
    pub level_intercepts: *mut f64,
    /// C x layers x room: the piece of the level before that holds a piece
    pub parents: *mut u32,
    /// C x layers: pieces of each level; of the last, those of the expert
    pub counts: *mut u32,
    /// C: pieces there should be room for; above `room`: the expert was given up
    pub needed: *mut u32,
    pub parameters: *const f32,
    /// layers + 1: 1, hidden widths, B
    pub widths: *const u32,
    pub expert_size: u64,
    pub expert_count: u32,
    pub layers: u32,
    /// of all levels
    pub units: u32,
    /// of all layers
    pub widest: u32,
    pub bases: u32,
    /// pieces of an expert, at most
    pub room: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Compiled"][::core::mem::size_of::<Compiled>() - 112usize];
    ["Alignment of Compiled"][::core::mem::align_of::<Compiled>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct KnotsExperts {
    pub compiled: Compiled,
    /// C x room x widest: units of the layer at hand before ReLU, on each piece of its inputs
    pub unit_slopes: *mut f64,
    /// C x room x widest
    pub unit_intercepts: *mut f64,
    /// C x room x widest: where they switch inside the piece, else infinity
    pub unit_ends: *mut f32,
    /// C x room x widest: whether they are on where the piece begins
    pub unit_on: *mut u32,
    /// C x 2 x room x widest: whether they are the first to switch there; places before theirs
    pub unit_ranks: *mut u32,
    /// C x 3 x room: of the pieces, of those of the next level, of their parts
    pub ends: *mut f32,
    /// C x 4 x room: first part of each piece; piece, idleness and place of each part
    pub parts: *mut u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of KnotsExperts"][::core::mem::size_of::<KnotsExperts>() - 168usize];
    ["Alignment of KnotsExperts"][::core::mem::align_of::<KnotsExperts>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct KnotsLines {
    /// d x most
    pub thresholds: *mut f32,
    /// d
    pub threshold_count: *mut u32,
    /// d
    pub piece_count: *mut u32,
    /// d x stride x 2
    pub lines: *mut f32,
    /// d x m x 2 x room: slopes and then intercepts of a_k . psi of each slot
    pub folded: *mut f32,
    /// d x stride: thresholds of all slots
    pub sorted: *mut f32,
    pub verdict: *mut Verdict,
    pub compiled: Compiled,
    /// d x m
    pub experts: *const u32,
    /// d x m
    pub gates: *const f32,
    /// d x B
    pub coefficients: *const f32,
    pub features: u32,
    pub active: u32,
    /// pieces of a feature, at most
    pub stride: u32,
    /// thresholds of a feature, padded
    pub most: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of KnotsLines"][::core::mem::size_of::<KnotsLines>() - 208usize];
    ["Alignment of KnotsLines"][::core::mem::align_of::<KnotsLines>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct KnotsFinish {
    /// of all experts, +=
    pub gradient: *mut f32,
    /// d x B, +=
    pub d_coefficients: *mut f32,
    /// d x m
    pub d_gates: *mut f32,
    /// d x m x 2 x room: sums of g x and of g over the pieces of each slot's expert
    pub slot_sums: *mut f64,
    /// stretches x C x 2 x room x B: gradients of lines over the features of each stretch
    pub parts: *mut f64,
    /// C x 2 x room x widest: of the layer at hand
    pub d_outputs: *mut f64,
    /// C x 2 x room x widest
    pub d_inputs: *mut f64,
    pub compiled: Compiled,
    /// stride x 2 x d
    pub sums: *const f32,
    /// d x most
    pub thresholds: *const f32,
    /// d
    pub piece_count: *const u32,
    /// d x m x 2 x room
    pub folded: *const f32,
    /// d x m
    pub experts: *const u32,
    /// d x m
    pub gates: *const f32,
    /// d x B
    pub coefficients: *const f32,
    pub features: u32,
    pub active: u32,
    pub most: u32,
    /// features of a stretch
    pub stretch: u32,
    pub stretches: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of KnotsFinish"][::core::mem::size_of::<KnotsFinish>() - 248usize];
    ["Alignment of KnotsFinish"][::core::mem::align_of::<KnotsFinish>() - 8usize];
};
/// knots.cu. Thresholds of a feature: increasing, then infinities up to one less than a power of two.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Knots {
    /// d x most_thresholds
    pub thresholds: *const f32,
    /// d: one less than a power of two
    pub threshold_count: *const u32,
    /// d
    pub piece_count: *const u32,
    /// d x stride x 2: slope and intercept of each piece
    pub lines: *const f32,
    pub features: u32,
    /// pieces of a feature, at most
    pub stride: u32,
    /// of a feature, at most
    pub most_thresholds: u32,
    /// features of a warp: a power of two up to 32; the rest of its lanes are rows
    pub lanes: u32,
    /// tables and sums of a block stand in shared memory
    pub in_shared: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Knots"][::core::mem::size_of::<Knots>() - 56usize];
    ["Alignment of Knots"][::core::mem::align_of::<Knots>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct KnotsForward {
    /// n x d
    pub responses: *mut f32,
    /// n x d
    pub features: *const f32,
    pub nodes: u64,
    pub block_rows: u64,
    pub knots: Knots,
    pub dropout: Dropout,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of KnotsForward"][::core::mem::size_of::<KnotsForward>() - 136usize];
    ["Alignment of KnotsForward"][::core::mem::align_of::<KnotsForward>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct KnotsBackward {
    /// chunks x stride x 2 x d: sum of g x, then of g
    pub sums: *mut f32,
    /// tiles x chunks x stride x 2 x 32: sums that do not fit shared memory, or null
    pub tables: *mut f32,
    /// n x d
    pub d_responses: *const f32,
    /// n x d
    pub features: *const f32,
    pub nodes: u64,
    /// rows of a warp
    pub chunk_rows: u64,
    pub chunks: u32,
    pub knots: Knots,
    pub dropout: Dropout,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of KnotsBackward"][::core::mem::size_of::<KnotsBackward>() - 160usize];
    ["Alignment of KnotsBackward"][::core::mem::align_of::<KnotsBackward>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct KnotsSums {
    /// stride x 2 x d
    pub sums: *mut f32,
    /// chunks x stride x 2 x d
    pub chunk_sums: *const f32,
    /// d
    pub piece_count: *const u32,
    pub chunks: u32,
    pub features: u32,
    pub stride: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of KnotsSums"][::core::mem::size_of::<KnotsSums>() - 40usize];
    ["Alignment of KnotsSums"][::core::mem::align_of::<KnotsSums>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct KnotsSparseForward {
    /// d + nnz: f(0), then f(x) - f(0)
    pub responses: *mut f32,
    pub x: SparseColumns,
    pub knots: Knots,
    pub dropout: Dropout,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of KnotsSparseForward"][::core::mem::size_of::<KnotsSparseForward>() - 176usize];
    ["Alignment of KnotsSparseForward"][::core::mem::align_of::<KnotsSparseForward>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct KnotsSparseBackward {
    /// stride x 2 x d
    pub sums: *mut f32,
    /// segments x stride x 2
    pub segment_sums: *mut f32,
    /// d + nnz: sums over columns, then non-zeros
    pub d_responses: *const f32,
    pub x: SparseColumns,
    pub knots: Knots,
    pub dropout: Dropout,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of KnotsSparseBackward"][::core::mem::size_of::<KnotsSparseBackward>() - 192usize];
    ["Alignment of KnotsSparseBackward"][::core::mem::align_of::<KnotsSparseBackward>() - 8usize];
};
/// project.cu. States of all hops stand side by side: row i holds T x width columns, of which those of hop t begin at
/// t * width; width is L padded, and what is padded is zero. States are float, half or bfloat16 by the kernel's suffix.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ProjectWeights {
    /// d x (T width): theta_t[k] Wo[k], side by side
    pub weights: *mut f32,
    /// T x d
    pub hop_weights: *const f32,
    /// d x L
    pub readout: *const f32,
    pub features: u32,
    pub hops: u32,
    pub outputs: u32,
    pub width: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ProjectWeights"][::core::mem::size_of::<ProjectWeights>() - 40usize];
    ["Alignment of ProjectWeights"][::core::mem::align_of::<ProjectWeights>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ProjectGradients {
    /// d x L, +=
    pub d_readout: *mut f32,
    /// T x d
    pub d_hop_weights: *mut f32,
    /// d x (T width): S = F^T Y
    pub sums: *const f32,
    /// T x d
    pub hop_weights: *const f32,
    /// d x L
    pub readout: *const f32,
    pub features: u32,
    pub hops: u32,
    pub outputs: u32,
    pub width: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ProjectGradients"][::core::mem::size_of::<ProjectGradients>() - 56usize];
    ["Alignment of ProjectGradients"][::core::mem::align_of::<ProjectGradients>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ProjectStates {
    /// rows x columns, stored; project_load: input
    pub states: *mut ::core::ffi::c_void,
    /// rows x columns; project_store: input; project_totals: parts x columns
    pub values: *mut f32,
    /// rows; null: all 1
    pub inverse_degree: *const f32,
    /// as in WalkStart: what is loaded is divided by it
    pub scale: *const f32,
    pub rows: u64,
    /// project_totals: rows of a part
    pub part_rows: u64,
    pub columns: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ProjectStates"][::core::mem::size_of::<ProjectStates>() - 56usize];
    ["Alignment of ProjectStates"][::core::mem::align_of::<ProjectStates>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ProjectSparseForward {
    /// n x columns
    pub states: *mut ::core::ffi::c_void,
    /// d + nnz
    pub responses: *const f32,
    /// d x columns
    pub weights: *const f32,
    /// columns: f(0) W
    pub base: *const f32,
    /// n + 1
    pub row_ptr: *const u64,
    /// nnz, row by row
    pub col_idx: *const u32,
    /// nnz: place of each entry of the rows, column by column
    pub places: *const u32,
    pub rows: u64,
    pub block_rows: u64,
    pub columns: u32,
    pub features: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ProjectSparseForward"][::core::mem::size_of::<ProjectSparseForward>() - 80usize];
    ["Alignment of ProjectSparseForward"][::core::mem::align_of::<ProjectSparseForward>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ProjectSparseBackward {
    /// d x columns: S
    pub sums: *mut f32,
    /// segments x columns
    pub segment_sums: *mut f32,
    /// d + nnz: F in, dF of non-zeros out
    pub responses: *mut f32,
    /// n x columns
    pub states: *const ::core::ffi::c_void,
    /// d x columns
    pub weights: *const f32,
    /// n; null: all 1
    pub inverse_degree: *const f32,
    /// as in ProjectStates
    pub scale: *const f32,
    pub x: SparseColumns,
    pub columns: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ProjectSparseBackward"][::core::mem::size_of::<ProjectSparseBackward>() - 128usize];
    ["Alignment of ProjectSparseBackward"][::core::mem::align_of::<ProjectSparseBackward>() - 8usize];
};
/// walk.cu. States as in project.cu.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct WalkStart {
    /// n x columns: hop 0, or all hops of a graph task
    pub state: *mut ::core::ffi::c_void,
    /// rows x L
    pub d_logits: *const f32,
    /// n; walk_start
    pub inverse_degree: *const f32,
    /// n x T: v_t; walk_weighted_start
    pub node_weights: *const f32,
    /// n; walk_weighted_start
    pub graph_of: *const u32,
    /// 1: factor on stored states, of half_scale; states that are not half: not read
    pub scale: *const f32,
    /// n
    pub rows: u64,
    pub columns: u32,
    pub width: u32,
    pub outputs: u32,
    pub hops: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of WalkStart"][::core::mem::size_of::<WalkStart>() - 72usize];
    ["Alignment of WalkStart"][::core::mem::align_of::<WalkStart>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct WalkRows {
    /// n x columns: out = added + sum / degree
    pub next: *mut ::core::ffi::c_void,
    /// n x L: the last step forward; or null
    pub logits: *mut f32,
    /// items x width: plain sums of segments; or null
    pub sums: *mut f32,
    /// n x columns: what is added; or null
    pub added: *const ::core::ffi::c_void,
    /// n x columns: gathered from; null: nothing is
    pub state: *const ::core::ffi::c_void,
    /// n
    pub inverse_degree: *const f32,
    /// L; with logits
    pub bias: *const f32,
    /// first entry of each item
    pub begin: *const u64,
    /// entry behind the last of each item
    pub end: *const u64,
    pub col_idx: *const u32,
    /// of entries; null: all 1
    pub weights: *const f32,
    /// a bit per row: those that are computed; null: all
    pub rows: *const u64,
    /// a bit per row: states that may be other than zero; null: all
    pub sources: *const u64,
    /// rows of the matrix, or segments of long rows
    pub items: u64,
    /// items of a block
    pub block_items: u64,
    pub columns: u32,
    pub width: u32,
    pub outputs: u32,
    /// lanes of an item over columns
    pub group: u32,
    /// lanes of an item over entries
    pub entry_lanes: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of WalkRows"][::core::mem::size_of::<WalkRows>() - 144usize];
    ["Alignment of WalkRows"][::core::mem::align_of::<WalkRows>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct WalkLong {
    /// what becomes of the sums
    pub step: WalkRows,
    /// segments x width
    pub segment_sums: *const f32,
    /// which rows
    pub long_rows: *const u32,
    /// of each long row, and the end
    pub first_segment: *const u32,
    pub long_row_count: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of WalkLong"][::core::mem::size_of::<WalkLong>() - 176usize];
    ["Alignment of WalkLong"][::core::mem::align_of::<WalkLong>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct WalkWeighted {
    /// graphs x L
    pub logits: *mut f32,
    /// n x columns
    pub states: *const ::core::ffi::c_void,
    /// n x T: v_t
    pub node_weights: *const f32,
    /// L
    pub bias: *const f32,
    /// graphs + 1
    pub graph_ptr: *const u64,
    pub graphs: u32,
    pub columns: u32,
    pub width: u32,
    pub outputs: u32,
    pub hops: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of WalkWeighted"][::core::mem::size_of::<WalkWeighted>() - 64usize];
    ["Alignment of WalkWeighted"][::core::mem::align_of::<WalkWeighted>() - 8usize];
};
/// propagate.cu. States are float, half or bfloat16 by the kernel's suffix.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct PropagateStart {
    /// n x d: H = theta_0 F; backward: dH in, theta_0 dH out
    pub accumulated: *mut f32,
    /// n x d: the state hop 1 gathers from; null where there is none to write
    pub state: *mut ::core::ffi::c_void,
    /// backward: blocks x d, <F, dH> over the rows of each block
    pub partial: *mut f32,
    /// n x d: F
    pub responses: *const f32,
    /// n
    pub inverse_degree: *const f32,
    /// d: theta_0
    pub hop_weights: *const f32,
    /// 1: factor on stored states, of half_scale; states that are not half: not read
    pub state_scale: *const f32,
    pub rows: u64,
    /// rows of a block
    pub block_rows: u64,
    pub cols: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of PropagateStart"][::core::mem::size_of::<PropagateStart>() - 80usize];
    ["Alignment of PropagateStart"][::core::mem::align_of::<PropagateStart>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Propagate {
    /// n x d: H or dF, +=
    pub accumulated: *mut f32,
    /// n x d: the next state; null after the last hop
    pub next: *mut ::core::ffi::c_void,
    /// backward: blocks x d; partial sums: items x d
    pub partial: *mut f32,
    /// n x d: gathered from
    pub state: *const ::core::ffi::c_void,
    /// n x d: F; backward
    pub responses: *const f32,
    /// n
    pub inverse_degree: *const f32,
    /// d: theta_t
    pub hop_weights: *const f32,
    /// first entry of each item
    pub begin: *const u64,
    /// entry behind the last of each item
    pub end: *const u64,
    pub col_idx: *const u32,
    /// of entries; null: all 1
    pub weights: *const f32,
    /// forward, a bit per row: those that are computed; null: all
    pub rows: *const u64,
    /// a bit per row: states that may be other than zero; null: all
    pub sources: *const u64,
    /// as in PropagateStart
    pub state_scale: *const f32,
    /// rows of the matrix, or segments of long rows
    pub items: u64,
    /// items of a block
    pub block_items: u64,
    pub cols: u32,
    /// lanes of an item in the kernels for fewer than 32 columns
    pub group: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Propagate"][::core::mem::size_of::<Propagate>() - 136usize];
    ["Alignment of Propagate"][::core::mem::align_of::<Propagate>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct PropagateLong {
    /// n x d, +=
    pub accumulated: *mut f32,
    /// n x d, optional
    pub next: *mut ::core::ffi::c_void,
    /// backward: long rows x d, <F, y> of the row
    pub partial: *mut f32,
    /// segments x d
    pub segment_sums: *const f32,
    /// n x d; backward
    pub responses: *const f32,
    /// n
    pub inverse_degree: *const f32,
    /// d
    pub hop_weights: *const f32,
    /// which rows
    pub long_rows: *const u32,
    /// of each long row, and the end
    pub first_segment: *const u32,
    /// as in PropagateStart
    pub state_scale: *const f32,
    pub long_row_count: u32,
    pub cols: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of PropagateLong"][::core::mem::size_of::<PropagateLong>() - 88usize];
    ["Alignment of PropagateLong"][::core::mem::align_of::<PropagateLong>() - 8usize];
};
/// bends.cu
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Bends {
    /// points x d: F at the points in, the penalty's gradient by it out
    pub responses: *mut f32,
    /// T x d
    pub d_hop_weights: *mut f32,
    /// d x L, +=
    pub d_readout: *mut f32,
    /// d
    pub penalties: *mut f32,
    /// points x d: of each feature, then any numbers
    pub points: *const f32,
    /// d: points of a feature
    pub counts: *const f32,
    /// T x d
    pub hop_weights: *const f32,
    /// d x L
    pub readout: *const f32,
    pub strength: f64,
    /// points of the feature that has most
    pub rows: u32,
    pub features: u32,
    pub hops: u32,
    pub outputs: u32,
    /// whether hop weights have a size of their own
    pub free_hops: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Bends"][::core::mem::size_of::<Bends>() - 96usize];
    ["Alignment of Bends"][::core::mem::align_of::<Bends>() - 8usize];
};
/// readout.cu
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Bias {
    /// rows x L
    pub logits: *mut f32,
    /// L
    pub bias: *const f32,
    pub rows: u64,
    pub outputs: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Bias"][::core::mem::size_of::<Bias>() - 32usize];
    ["Alignment of Bias"][::core::mem::align_of::<Bias>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct GraphSum {
    /// graphs x d; backward: input
    pub pooled: *mut f32,
    /// n x d: input; backward: output
    pub nodes: *mut f32,
    /// graphs + 1
    pub graph_ptr: *const u64,
    pub graphs: u32,
    pub features: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of GraphSum"][::core::mem::size_of::<GraphSum>() - 32usize];
    ["Alignment of GraphSum"][::core::mem::align_of::<GraphSum>() - 8usize];
};
/// loss.cu
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Loss {
    /// rows x L
    pub d_logits: *mut f32,
    /// one per block
    pub partial: *mut f64,
    /// rows x L
    pub logits: *const f32,
    /// words that the loss reads as its own type; a row without a target says so in its first
    pub targets: *const u32,
    pub rows: u64,
    pub block_rows: u64,
    pub outputs: u32,
    /// words of a row of targets: those of the loss, and perhaps its weight
    pub stride: u32,
    /// 1 / targets
    pub scale: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Loss"][::core::mem::size_of::<Loss>() - 64usize];
    ["Alignment of Loss"][::core::mem::align_of::<Loss>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Retarget {
    /// rows of logits x width
    pub targets: *mut u32,
    /// which
    pub rows: *const u32,
    /// count x width: their targets; null: they have none
    pub words: *const u32,
    pub count: u64,
    pub width: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Retarget"][::core::mem::size_of::<Retarget>() - 40usize];
    ["Alignment of Retarget"][::core::mem::align_of::<Retarget>() - 8usize];
};
/// select.cu. Of the dataset: "all"; the rest is of the batch.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct SelectGraphs {
    /// B + 1: nodes, entries of the walk, non-zeros of X before each graph; null: nobody asks
    pub offsets: [*mut u64; 3usize],
    /// of all rows; null: rows themselves are counted
    pub row_ptr: [*const u64; 3usize],
    /// B: which
    pub graphs: *const u32,
    /// first node of all graphs, and the end
    pub graph_ptr: *const u64,
    /// B
    pub count: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SelectGraphs"][::core::mem::size_of::<SelectGraphs>() - 72usize];
    ["Alignment of SelectGraphs"][::core::mem::align_of::<SelectGraphs>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Selected {
    /// B: which
    pub graphs: *const u32,
    /// B + 1
    pub graph_ptr: *const u64,
    pub all_graph_ptr: *const u64,
    pub nodes: u64,
    /// B
    pub count: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Selected"][::core::mem::size_of::<Selected>() - 40usize];
    ["Alignment of Selected"][::core::mem::align_of::<Selected>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct SelectNodes {
    /// n: node of the dataset
    pub sources: *mut u32,
    /// n: graph of the batch
    pub graph_of: *mut u32,
    pub batch: Selected,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SelectNodes"][::core::mem::size_of::<SelectNodes>() - 56usize];
    ["Alignment of SelectNodes"][::core::mem::align_of::<SelectNodes>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct SelectEntries {
    /// n + 1
    pub row_ptr: *mut u64,
    /// entries
    pub col_idx: *mut u32,
    /// entries; null: all 1
    pub weights: *mut f32,
    /// B + 1: first entry of each graph
    pub offsets: *const u64,
    /// n
    pub sources: *const u32,
    /// n
    pub graph_of: *const u32,
    pub all_row_ptr: *const u64,
    pub all_col_idx: *const u32,
    pub all_weights: *const f32,
    pub entries: u64,
    pub batch: Selected,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SelectEntries"][::core::mem::size_of::<SelectEntries>() - 120usize];
    ["Alignment of SelectEntries"][::core::mem::align_of::<SelectEntries>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct SelectColumns {
    /// d x B: first place of a column's non-zeros of a graph in the dataset
    pub firsts: *mut u32,
    /// d x B: how many they are; select_segments: first place in the batch
    pub places: *mut u32,
    /// d + 1
    pub column_ptr: *mut u64,
    /// as in SparseColumns
    pub segment_begin: *mut u64,
    pub segment_end: *mut u64,
    pub segment_column: *mut u32,
    /// d + 1
    pub first_segment: *mut u32,
    /// d + 1
    pub all_column_ptr: *const u64,
    pub all_rows: *const u32,
    pub features: u32,
    /// that there is room for
    pub segments: u32,
    pub batch: Selected,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SelectColumns"][::core::mem::size_of::<SelectColumns>() - 120usize];
    ["Alignment of SelectColumns"][::core::mem::align_of::<SelectColumns>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct SelectNonzeros {
    /// n + 1
    pub row_ptr: *mut u64,
    /// non-zeros
    pub col_idx: *mut u32,
    /// non-zeros
    pub places: *mut u32,
    /// non-zeros, by place
    pub rows: *mut u32,
    /// non-zeros, by place
    pub values: *mut f32,
    /// B + 1: first non-zero of each graph
    pub offsets: *const u64,
    /// n
    pub sources: *const u32,
    /// n
    pub graph_of: *const u32,
    /// d x B
    pub firsts: *const u32,
    /// d x B: first place in the batch
    pub starts: *const u32,
    pub all_row_ptr: *const u64,
    pub all_col_idx: *const u32,
    pub all_places: *const u32,
    /// by place
    pub all_rows: *const u32,
    /// by place
    pub all_values: *const f32,
    pub nonzeros: u64,
    pub batch: Selected,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SelectNonzeros"][::core::mem::size_of::<SelectNonzeros>() - 168usize];
    ["Alignment of SelectNonzeros"][::core::mem::align_of::<SelectNonzeros>() - 8usize];
};
/// table.cu: columns are (feature, hop, hat), features in order; those of a block of features stand in an array of their own.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct TableWeights {
    /// columns: what a cell counts
    pub weights: *mut f32,
    /// d x 2: what a row counts whatever its cells, once and times its size
    pub constants: *mut f32,
    /// responses at the points of the grid, then perhaps at zero; x d
    pub points: *const f32,
    /// T x d
    pub hop_weights: *const f32,
    /// columns x 2: low, step
    pub scales: *const f32,
    /// d + 1: first column of each feature
    pub column_ptr: *const u32,
    pub features: u32,
    pub first_hop: u32,
    pub hops: u32,
    /// row of `points` with the responses at zero
    pub zero: u32,
    /// probability that inputs are dropped; 0: `zero` is not read
    pub dropped: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of TableWeights"][::core::mem::size_of::<TableWeights>() - 72usize];
    ["Alignment of TableWeights"][::core::mem::align_of::<TableWeights>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct TableForward {
    /// rows x d: H
    pub state: *mut f32,
    /// table rows x width
    pub cells: *const ::core::ffi::c_void,
    /// row of the table of each row
    pub rows: *const u32,
    /// rows; null: all 1
    pub sizes: *const f32,
    /// rows x d: F of the units themselves; null: none
    pub own: *const f32,
    /// T x d
    pub hop_weights: *const f32,
    /// columns
    pub weights: *const f32,
    /// d x 2
    pub constants: *const f32,
    /// d + 1
    pub column_ptr: *const u32,
    pub row_count: u64,
    pub features: u32,
    /// of the block
    pub first_feature: u32,
    pub block_features: u32,
    /// columns of the block
    pub width: u32,
    /// columns of the feature that has most; 0: weights stay in global memory
    pub longest: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of TableForward"][::core::mem::size_of::<TableForward>() - 104usize];
    ["Alignment of TableForward"][::core::mem::align_of::<TableForward>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct TableSums {
    /// stretches x width: sums of dH times cell
    pub partial: *mut f32,
    /// rows x d
    pub d_state: *const f32,
    /// table rows x width
    pub cells: *const ::core::ffi::c_void,
    /// row of the table of each row
    pub rows: *const u32,
    /// columns
    pub column_feature: *const u32,
    pub row_count: u64,
    /// rows of a stretch
    pub stretch: u64,
    pub features: u32,
    /// of the block
    pub first_column: u32,
    pub width: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of TableSums"][::core::mem::size_of::<TableSums>() - 72usize];
    ["Alignment of TableSums"][::core::mem::align_of::<TableSums>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct TableRowSums {
    /// stretches x 3 x d: sums of dH, of size times dH, of F times dH
    pub partial: *mut f32,
    /// rows x d
    pub d_state: *const f32,
    /// rows; null: all 1
    pub sizes: *const f32,
    /// rows x d; null: none
    pub own: *const f32,
    pub row_count: u64,
    pub stretch: u64,
    pub features: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of TableRowSums"][::core::mem::size_of::<TableRowSums>() - 56usize];
    ["Alignment of TableRowSums"][::core::mem::align_of::<TableRowSums>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct TableFinish {
    /// in: responses at points, out: their gradients; x d
    pub points: *mut f32,
    /// T x d
    pub d_hop_weights: *mut f32,
    /// columns
    pub sums: *const f32,
    /// 3 x d
    pub row_sums: *const f32,
    /// T x d
    pub hop_weights: *const f32,
    /// columns x 2
    pub scales: *const f32,
    /// d + 1
    pub column_ptr: *const u32,
    pub features: u32,
    pub first_hop: u32,
    pub hops: u32,
    /// points of the feature that has most
    pub most: u32,
    /// as in TableWeights; the row of zeros is row `most`
    pub dropped: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of TableFinish"][::core::mem::size_of::<TableFinish>() - 80usize];
    ["Alignment of TableFinish"][::core::mem::align_of::<TableFinish>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct TableOwn {
    /// rows x d: out theta_0 dH
    pub responses: *mut f32,
    /// rows x d
    pub d_state: *const f32,
    /// T x d
    pub hop_weights: *const f32,
    pub row_count: u64,
    pub features: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of TableOwn"][::core::mem::size_of::<TableOwn>() - 40usize];
    ["Alignment of TableOwn"][::core::mem::align_of::<TableOwn>() - 8usize];
};
/// table_walks.cu
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct TableWalks {
    /// rows x d: H, added to; not read by the sums
    pub state: *mut f32,
    /// stretches x (steps + most) x d, of the sums
    pub partial: *mut f32,
    /// rows x walks x steps x d: F at the ends of walks; the sums leave dF there
    pub responses: *mut f32,
    /// the same of X
    pub ends: *const f32,
    /// most x d: responses at the points of the grid
    pub points: *const f32,
    /// most x d: X there
    pub grid: *const f32,
    /// T x d
    pub hop_weights: *const f32,
    /// rows x d: dH, of the sums
    pub d_state: *const f32,
    /// d + 1: first column of each feature
    pub column_ptr: *const u32,
    pub row_count: u64,
    /// rows of a stretch, of the sums
    pub stretch: u64,
    pub features: u32,
    /// R
    pub walks: u32,
    /// T - 1
    pub steps: u32,
    /// points of the feature that has most
    pub most: u32,
    /// (1 - p) / R
    pub share: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of TableWalks"][::core::mem::size_of::<TableWalks>() - 112usize];
    ["Alignment of TableWalks"][::core::mem::align_of::<TableWalks>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct TableWalksFinish {
    /// T x d, added to
    pub d_hop_weights: *mut f32,
    /// most x d: gradients at points, added to
    pub points: *mut f32,
    /// (steps + most) x d
    pub sums: *const f32,
    pub features: u32,
    pub steps: u32,
    pub most: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of TableWalksFinish"][::core::mem::size_of::<TableWalksFinish>() - 40usize];
    ["Alignment of TableWalksFinish"][::core::mem::align_of::<TableWalksFinish>() - 8usize];
};
/// reduce.cu
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ColumnSums {
    /// parts x columns, or columns with one part
    pub sums: *mut f32,
    /// rows x columns
    pub values: *const f32,
    pub rows: u64,
    /// rows of a part
    pub part_rows: u64,
    pub columns: u64,
    /// +=
    pub accumulate: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ColumnSums"][::core::mem::size_of::<ColumnSums>() - 48usize];
    ["Alignment of ColumnSums"][::core::mem::align_of::<ColumnSums>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct SquareSums {
    /// one per block
    pub partial: *mut f64,
    pub values: *const f32,
    pub length: u64,
    pub block_length: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SquareSums"][::core::mem::size_of::<SquareSums>() - 32usize];
    ["Alignment of SquareSums"][::core::mem::align_of::<SquareSums>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Largest {
    /// one per block
    pub partial: *mut f32,
    /// rows x columns
    pub values: *const f32,
    /// rows; null: all 1
    pub inverse_degree: *const f32,
    /// rows x columns
    pub length: u64,
    pub block_length: u64,
    pub columns: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Largest"][::core::mem::size_of::<Largest>() - 48usize];
    ["Alignment of Largest"][::core::mem::align_of::<Largest>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct HalfScale {
    /// 1: the power of two that brings the largest to about `size`; 1 where there is nothing to scale
    pub scale: *mut f32,
    /// of `largest`
    pub partial: *const f32,
    pub length: u64,
    /// on the largest
    pub factor: f32,
    pub size: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of HalfScale"][::core::mem::size_of::<HalfScale>() - 32usize];
    ["Alignment of HalfScale"][::core::mem::align_of::<HalfScale>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Judge {
    pub verdict: *mut Verdict,
    /// of the loss, or of the squares of a gradient
    pub partial: *const f64,
    pub length: u64,
    /// judge_loss: what the loss is a mean over
    pub count: f64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Judge"][::core::mem::size_of::<Judge>() - 32usize];
    ["Alignment of Judge"][::core::mem::align_of::<Judge>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ReadRows {
    /// rows x width
    pub out: *mut f32,
    pub values: *const f32,
    /// which
    pub rows: *const u32,
    pub row_count: u64,
    pub width: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ReadRows"][::core::mem::size_of::<ReadRows>() - 40usize];
    ["Alignment of ReadRows"][::core::mem::align_of::<ReadRows>() - 8usize];
};
/// adam.cu
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Adam {
    pub parameters: *mut f32,
    pub first_moment: *mut f32,
    pub second_moment: *mut f32,
    pub gradient: *const f32,
    pub verdict: *const Verdict,
    pub length: u64,
    /// longest gradient; 0: any
    pub clip_norm: f64,
    pub beta1: f32,
    pub beta2: f32,
    pub one_minus_beta1: f32,
    pub one_minus_beta2: f32,
    /// learning rate over the first bias correction
    pub rate: f32,
    /// of the second moment
    pub correction: f32,
    pub epsilon: f32,
    /// Adam: times the parameter, added to the gradient
    pub added_decay: f32,
    /// AdamW: factor on the parameter
    pub shrink: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Adam"][::core::mem::size_of::<Adam>() - 96usize];
    ["Alignment of Adam"][::core::mem::align_of::<Adam>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct KeepSigns {
    pub values: *mut f32,
    /// 1, -1, or 0 where any number will do
    pub signs: *const f32,
    pub length: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of KeepSigns"][::core::mem::size_of::<KeepSigns>() - 24usize];
    ["Alignment of KeepSigns"][::core::mem::align_of::<KeepSigns>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Keep {
    pub kept: *mut f32,
    pub values: *const f32,
    pub length: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Keep"][::core::mem::size_of::<Keep>() - 24usize];
    ["Alignment of Keep"][::core::mem::align_of::<Keep>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct SumRanks {
    /// length
    pub sum: *mut f32,
    /// ranks x length
    pub parts: *const f32,
    pub length: u64,
    pub ranks: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SumRanks"][::core::mem::size_of::<SumRanks>() - 32usize];
    ["Alignment of SumRanks"][::core::mem::align_of::<SumRanks>() - 8usize];
};
