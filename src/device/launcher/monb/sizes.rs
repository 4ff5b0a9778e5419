//! Which MoNB kernels run, in how many blocks and with how much memory: functions of sizes alone, so that plans of memory
//! and counts of bytes ask the same ones as launches.

use crate::architecture::{Architecture, Layout};
use crate::config::DropoutPlace;
use crate::device::Dropout;
use crate::device::launcher::{Blocks, abi};

/// What sums of teams, and workspaces of blocks, may take together before there are fewer blocks.
const SCRATCH_BYTES: u64 = 256 << 20;
/// Shared memory of the generic kernels beside that for activations: their tiles of X and dF.
const TILE_BYTES: usize = 11 << 10;
/// Threads of a block of the generic kernels, and nodes it evaluates at a time.
const ANY_THREADS: u32 = 128;
const ANY_POINTS: usize = 32;

/// Which kernels evaluate an expert.
pub struct Variant {
    pub forward: &'static str,
    pub backward: &'static str,
    /// Of a block.
    pub threads: u32,
    /// Groups of threads of a block that add up gradients of their own.
    teams: u64,
    points: Points,
}

/// What a kernel goes over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Points {
    /// Tiles of X, experts of a shape known to the compiler.
    Tiles,
    /// Tiles of X, any experts.
    Any,
    /// Columns of a sparse X, any experts.
    Columns,
}

/// Bytes of dynamic shared memory of a block, by the sizes of the model.
type SharedBytes = fn(&Architecture) -> usize;

static SMALL: Variant = Variant {
    forward: "monb_forward_16_8",
    backward: "monb_backward_16_8",
    threads: 128,
    teams: 4,
    points: Points::Tiles,
};
static LARGE: Variant = Variant {
    forward: "monb_forward_64_32",
    backward: "monb_backward_64_32",
    threads: 256,
    teams: 1,
    points: Points::Tiles,
};
pub static ANY: Variant = Variant {
    forward: "monb_forward_any",
    backward: "monb_backward_any",
    threads: ANY_THREADS,
    teams: 1,
    points: Points::Any,
};
pub static SPARSE: Variant = Variant {
    forward: "monb_sparse_forward",
    backward: "monb_sparse_backward",
    threads: ANY_THREADS,
    teams: 1,
    points: Points::Columns,
};

/// All of them, with their dynamic shared memory.
pub static VARIANTS: [(&Variant, Option<SharedBytes>); 4] =
    [(&SMALL, None), (&LARGE, None), (&ANY, Some(shared_workspace)), (&SPARSE, Some(shared_workspace))];

impl Variant {
    pub fn of(architecture: &Architecture, dropout: Option<&Dropout>) -> &'static Variant {
        // Masks of hidden units would double the registers of the specialised kernels.
        let plain = dropout.is_none_or(|dropout| dropout.place != DropoutPlace::Hidden);
        match architecture.hidden.as_slice() {
            [16, 8] if plain => &SMALL,
            [64, 32] if plain => &LARGE,
            _ => &ANY,
        }
    }

    pub fn is_generic(&self) -> bool {
        self.points != Points::Tiles
    }
}

/// Sizes all MoNB kernels share.
pub struct Sizes {
    /// Parameters of an expert.
    pub expert: u64,
    /// Those of its hidden layers, which come first.
    pub hidden: u64,
    /// Last hidden width, 1 without hidden layers.
    pub width: usize,
    /// Elements of heads: d x m x (width + 1).
    pub heads: usize,
}

impl Sizes {
    pub fn new(layout: &Layout) -> Self {
        let a = &layout.architecture;
        let expert = layout.coefficients.start / a.experts;
        let width = a.hidden.last().copied().unwrap_or(1);
        Sizes {
            expert: expert as u64,
            hidden: (expert - a.bases * (width + 1)) as u64,
            width,
            heads: a.features * a.active * (width + 1),
        }
    }
}

/// How nodes are cut in a backward pass.
pub struct Chunks {
    /// Blocks along features; further tiles are strided over.
    pub feature_blocks: u64,
    /// Stretches of nodes.
    pub chunks: u64,
    /// Nodes of a stretch; 0 where columns are taken whole.
    pub rows: u64,
}

impl Chunks {
    /// `workspace` is what a block takes of global memory beside its sums.
    pub fn new(
        nodes: usize,
        architecture: &Architecture,
        sizes: &Sizes,
        variant: &Variant,
        workspace: usize,
        most: Blocks,
    ) -> Self {
        let sum_bytes = architecture.experts as u64 * sizes.hidden * 4 * variant.teams;
        let blocks = most.backward.min(SCRATCH_BYTES / (sum_bytes + workspace as u64).max(1)).max(1);
        if variant.points == Points::Columns {
            // Every column belongs to one block.
            return Chunks { feature_blocks: blocks.min(architecture.features as u64), chunks: 1, rows: 0 };
        }
        let feature_blocks = feature_tiles(architecture).min(blocks);
        let tile = u64::from(abi::HARMONIA_MONB_ROWS);
        let tiles = (nodes as u64).div_ceil(tile);
        let wanted = (blocks / feature_blocks).clamp(1, tiles.max(1));
        let rows = tiles.div_ceil(wanted).max(1) * tile;
        Chunks { feature_blocks, chunks: (nodes as u64).div_ceil(rows), rows }
    }

    pub fn teams(&self, variant: &Variant) -> u64 {
        self.feature_blocks * self.chunks * variant.teams
    }
}

fn feature_tiles(architecture: &Architecture) -> u64 {
    (architecture.features as u64).div_ceil(u64::from(abi::HARMONIA_MONB_FEATURES))
}

/// Blocks of a forward pass along features and nodes; further nodes are strided over.
pub fn forward_grid(nodes: usize, architecture: &Architecture, variant: &Variant, most: Blocks) -> [u64; 2] {
    if variant.points == Points::Columns {
        let most = most.nodes.min(SCRATCH_BYTES / (global_workspace(architecture, variant, most) as u64).max(1)).max(1);
        return [most.min(architecture.features as u64), 1];
    }
    let node_tiles = (nodes as u64).div_ceil(u64::from(abi::HARMONIA_MONB_ROWS));
    let column_bytes = feature_tiles(architecture) * global_workspace(architecture, variant, most) as u64;
    let most = most.nodes.min(SCRATCH_BYTES / column_bytes.max(1)).max(1);
    [feature_tiles(architecture), node_tiles.min(most)]
}

/// What a block of the generic kernels works in: x, all activations, and two layers of gradients.
pub fn workspace_bytes(architecture: &Architecture) -> usize {
    let widest = architecture.hidden.iter().copied().max().unwrap_or(0);
    let units = 1 + architecture.hidden.iter().sum::<usize>() + 2 * widest;
    units * ANY_POINTS * size_of::<f32>()
}

/// Bytes of it in shared memory, where that is not short: all or nothing.
fn shared_workspace(architecture: &Architecture) -> usize {
    if fits(architecture, Blocks::default()) { workspace_bytes(architecture) } else { 0 }
}

/// Whether a workspace fits shared memory beside the tiles.
fn fits(architecture: &Architecture, most: Blocks) -> bool {
    workspace_bytes(architecture) + TILE_BYTES <= most.shared
}

/// Bytes a block takes of global memory: none where shared memory will do.
pub fn global_workspace(architecture: &Architecture, variant: &Variant, most: Blocks) -> usize {
    if variant.is_generic() && !fits(architecture, most) { workspace_bytes(architecture) } else { 0 }
}
