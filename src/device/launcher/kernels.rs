//! Every kernel with the block it is launched in: what occupancy is computed from.
//!
//! Invariant: the table names exactly the kernels there are (`tests/doctor.rs` compares it with the host engine and with
//! ptxas), and every launch of a debug build checks its block against it, so that neither can go stale.

use super::{THREADS, abi, compile, knots, monb, route, table as walk_table};
use crate::architecture::Architecture;
use crate::loss::Objective;
use std::sync::LazyLock;

/// A kernel as the launcher starts it.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Its symbol: the name of the function in `kernels/`.
    pub name: &'static str,
    /// Threads of a block in x and y. `route_forward` and `knots_backward` take fewer in y where shared memory is short,
    /// `knots_forward` where its tables are small.
    pub block: [u32; 2],
    /// Bytes of dynamic shared memory of a block, by the sizes of the model; none: it has no such memory. Of the kernels of
    /// `knots.cu`, at most: how many pieces experts have is known when they are compiled.
    pub dynamic_shared: Option<fn(&Architecture) -> usize>,
}

impl Kernel {
    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.block[0] * self.block[1]
    }

    /// Threads of a block, and bytes of its dynamic shared memory, where a block can have `shared` bytes. Experts have the pieces
    /// that there is room for at first.
    pub fn launched(&self, architecture: &Architecture, shared: usize) -> (u32, usize) {
        match knots::block(self.name, architecture, shared) {
            Some(block) => block,
            None => (self.threads(), self.dynamic_bytes(architecture)),
        }
    }

    /// Bytes of dynamic shared memory of a block.
    pub fn dynamic_bytes(&self, architecture: &Architecture) -> usize {
        self.dynamic_shared.map_or(0, |bytes| bytes(architecture))
    }
}

/// All kernels, sorted by name.
pub fn kernels() -> &'static [Kernel] {
    static ALL: LazyLock<Vec<Kernel>> = LazyLock::new(table);
    &ALL
}

/// A kernel by name.
pub fn kernel(name: &str) -> Option<&'static Kernel> {
    let all = kernels();
    all.binary_search_by_key(&name, |kernel| kernel.name).ok().map(|at| &all[at])
}

/// Whether a launch is one the table knows.
pub(super) fn knows(name: &str, block: [u32; 2], shared_bytes: u32) -> bool {
    kernel(name).is_some_and(|kernel| {
        let [x, y] = kernel.block;
        block[0] == x && (1..=y).contains(&block[1]) && (shared_bytes == 0 || kernel.dynamic_shared.is_some())
    })
}

/// One-dimensional blocks of the usual size.
const LINEAR: [&str; 40] = [
    "adam",
    "bends",
    "draw_noise",
    "graph_sum_backward",
    "graph_sum_forward",
    "half_scale",
    "hop_weights_backward",
    "hop_weights_forward",
    "judge_loss",
    "judge_norm",
    "keep",
    "keep_signs",
    "largest",
    "monb_finish_coefficients",
    "monb_finish_gates",
    "monb_finish_hidden",
    "monb_fold",
    "project_hops_gradient",
    "project_readout_gradient",
    "project_sparse_finish",
    "project_weights",
    "read_rows",
    "readout_bias",
    "retarget",
    "route_backward_embeddings",
    "select_columns",
    "select_entries",
    "select_graphs",
    "select_nodes",
    "select_nonzeros",
    "select_segments",
    "square_sums",
    "sum_ranks",
    "table_finish",
    "table_own",
    "table_row_sums",
    "table_walks_finish",
    "table_walks_forward",
    "table_walks_sums",
    "table_weights",
];
/// Sums of columns: 32 columns x 8 slices of rows.
const COLUMN_SUMS: [&str; 3] = ["column_sums", "knots_sums", "monb_finish_outputs"];

macro_rules! propagate_kernels {
    ($($type:literal),*) => {
        /// Row kernels of `propagate.cu`.
        const ROWS: &[&str] = &[$(
            concat!("propagate_forward_wide4_", $type), concat!("propagate_forward_wide_", $type),
            concat!("propagate_forward_medium_", $type), concat!("propagate_forward_narrow_", $type),
            concat!("propagate_backward_wide4_", $type), concat!("propagate_backward_wide_", $type),
            concat!("propagate_backward_medium_", $type), concat!("propagate_backward_narrow_", $type),
            concat!("propagate_partial_wide4_", $type), concat!("propagate_partial_wide_", $type),
            concat!("propagate_partial_medium_", $type), concat!("propagate_partial_narrow_", $type),
        )*];
        /// Hop 0: 32 columns x 8 rows.
        const STARTS: &[&str] = &[$(
            concat!("propagate_start_forward_", $type), concat!("propagate_start_backward_", $type),
        )*];
        /// One thread per element of the long rows.
        const LONG: &[&str] = &[$(
            concat!("propagate_long_forward_", $type), concat!("propagate_long_backward_", $type),
        )*];
    };
}
propagate_kernels!("f32", "f16", "bf16");

macro_rules! class_space_kernels {
    ($($type:literal),*) => {
        /// One thread per element of states, or a warp per logit.
        const STATES: &[&str] = &[$(
            concat!("project_load_", $type), concat!("walk_long_", $type), concat!("walk_start_", $type),
            concat!("walk_weighted_", $type), concat!("walk_weighted_start_", $type),
        )*];
        /// Lanes over the columns and entries of a row, or eight per non-zero.
        const TEAMS: &[&str] = &[$(
            concat!("project_sparse_backward_", $type), concat!("walk_rows4_", $type), concat!("walk_rows_", $type),
        )*];
        /// 32 columns x 8 rows, segments or slices of rows.
        const TILES: &[&str] = &[$(
            concat!("project_sparse_forward_", $type), concat!("project_sparse_sums_", $type),
            concat!("project_totals_", $type),
        )*];
    };
}
class_space_kernels!("f32", "f16", "bf16");
/// Floats need no storing.
const STORES: [&str; 2] = ["project_store_bf16", "project_store_f16"];
/// A warp per segment, or per feature.
const KNOT_WARPS: [&str; 5] =
    ["knots_gates", "knots_lines", "knots_sparse_backward", "knots_sparse_finish", "knots_sparse_forward"];
/// A block per expert.
const EXPERTS: [&str; 3] = ["knots_experts", "knots_experts_backward", "knots_parts"];

fn table() -> Vec<Kernel> {
    let rows = abi::HARMONIA_ROW_THREADS;
    let columns = [abi::HARMONIA_SUM_COLUMNS, abi::HARMONIA_SUM_SLICES];
    let mut all: Vec<Kernel> = Vec::new();
    let mut add = |names: &[&'static str], block: [u32; 2], dynamic_shared: Option<fn(&Architecture) -> usize>| {
        all.extend(names.iter().map(|&name| Kernel { name, block, dynamic_shared }));
    };
    add(&LINEAR, [THREADS, 1], None);
    Objective::ALL.iter().for_each(|objective| add(&[objective.kernel()], [THREADS, 1], None));
    add(LONG, [THREADS, 1], None);
    add(&COLUMN_SUMS, columns, None);
    add(ROWS, [rows, 1], None);
    add(STARTS, [32, rows / 32], None);
    add(STATES, [THREADS, 1], None);
    add(&STORES, [THREADS, 1], None);
    add(TEAMS, [rows, 1], None);
    add(TILES, [32, rows / 32], None);
    add(&KNOT_WARPS, [32, knots::FORWARD_WARPS], None);
    add(&EXPERTS, [compile::THREADS, 1], None);
    add(&walk_table::SUMS, [THREADS, 1], None);
    add(&walk_table::FORWARD, [THREADS, 1], Some(|_| walk_table::WEIGHT_BYTES));
    add(&["knots_forward"], [32, knots::ALONE_WARPS], Some(|_| knots::SUM_BYTES));
    add(&["knots_backward"], [32, knots::BACKWARD_WARPS], Some(|_| knots::SUM_BYTES));
    for (variant, dynamic) in monb::VARIANTS {
        add(&[variant.forward, variant.backward], [variant.threads, 1], dynamic);
    }
    add(&["route_forward"], [32, route::WARPS], Some(route::shared_bytes));
    add(&["route_backward_router"], [route::ROUTER_THREADS, 1], None);
    all.sort_by_key(|kernel| kernel.name);
    all
}
