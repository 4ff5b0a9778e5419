//! Every kernel that multiplies rows by columns, once, on matrices of more than 2^32 elements: an index that is computed in 32
//! bits is out of bounds there ([`Host::at_the_far_end`]). Memory is reserved, not taken; of a grid the last blocks run.

#![allow(unsafe_code)] // launches
#![allow(clippy::unwrap_used)] // a test may stop at the first surprise

mod common;

use common::host_library::checked_kernels;
use harmonia::device::host::{Host, Memory};
use harmonia::device::launcher::{Driver, Launch, abi};
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Rows behind the 2^32nd element: more than the last blocks take.
const BEHIND: u64 = 1 << 14;
/// Most blocks along y.
const BLOCKS: u64 = 60_000;
/// Columns of class space: T hops of some width.
const COLUMNS: u64 = 64;

struct Far {
    host: Host,
    held: RefCell<Vec<Memory>>,
}

/// So many rows of this width have more than 2^32 elements.
fn rows_of(width: u64) -> u64 {
    (1 << 32) / width + BEHIND
}

/// (blocks, rows of one).
fn stretches(rows: u64) -> (u64, u64) {
    let size = rows.div_ceil(BLOCKS).max(8);
    (rows.div_ceil(size), size)
}

impl Far {
    /// Zeros.
    fn zeros<T>(&self, length: u64) -> *mut T {
        let mut memory = self.host.allocate(length as usize * size_of::<T>()).unwrap();
        self.host.clear(&mut memory).unwrap();
        let address = self.host.address(&memory);
        self.held.borrow_mut().push(memory);
        address as *mut T
    }

    fn values<T: Copy>(&self, values: &[T]) -> *mut T {
        let to = self.zeros::<T>(values.len() as u64);
        // SAFETY: as many were just allocated.
        unsafe { std::slice::from_raw_parts_mut(to, values.len()) }.copy_from_slice(values);
        to
    }

    /// Offsets of rows, all empty but the last, which has two entries: (offsets, columns).
    fn matrix(&self, rows: u64) -> (*const u64, *const u32) {
        let offsets = self.zeros::<u64>(rows + 1);
        // SAFETY: the last of them.
        unsafe { *offsets.add(rows as usize) = 2 };
        (offsets, self.values(&[rows as u32 - 1, rows as u32 - 2]))
    }

    fn launch<A>(&self, kernel: &'static str, grid: [u64; 2], block: [u32; 2], shared_bytes: u32, arguments: &A) {
        let launch = Launch {
            kernel,
            grid: [u32::try_from(grid[0]).unwrap(), u32::try_from(grid[1]).unwrap(), 1],
            block: [block[0], block[1], 1],
            shared_bytes,
            arguments: std::ptr::from_ref(arguments).cast(),
        };
        // SAFETY: the arguments are what the kernel takes; whether it stays inside is the test.
        unsafe { self.host.launch(&launch) }.unwrap();
    }

    fn flat<A>(&self, kernel: &'static str, elements: u64, arguments: &A) {
        self.launch(kernel, [elements.div_ceil(256), 1], [256, 1], 0, arguments);
    }

    /// Gives the memory back.
    fn clear(&self) {
        self.held.borrow_mut().clear();
    }
}

/// One of three names, by the size of states: float, half.
fn of_states(names: [&'static str; 2], bytes: u64) -> &'static str {
    names[usize::from(bytes == 2)]
}

fn propagate(far: &Far, cols: u64, bytes: u64, kernels: [[&'static str; 2]; 3], tile: u64) {
    let rows = rows_of(cols);
    let (blocks, block_items) = stretches(rows);
    let (begin, col_idx) = far.matrix(rows);
    let states = || far.zeros::<u8>(rows * cols * bytes).cast::<c_void>();
    let arguments = abi::Propagate {
        accumulated: far.zeros(rows * cols),
        next: states(),
        partial: far.zeros(blocks * cols),
        state: states(),
        responses: far.zeros(rows * cols),
        inverse_degree: far.zeros(rows),
        hop_weights: far.zeros(cols),
        begin,
        end: begin.wrapping_add(1),
        col_idx,
        weights: null(),
        rows: null(),
        sources: null(),
        state_scale: far.values(&[1.0f32]),
        items: rows,
        block_items,
        cols: cols as u32,
        group: (cols as u32).next_power_of_two().clamp(8, 32),
    };
    let grid = [cols.div_ceil(tile), blocks];
    let [forward, backward, partial] = kernels.map(|names| of_states(names, bytes));
    far.launch(forward, grid, [256, 1], 0, &arguments);
    far.launch(backward, grid, [256, 1], 0, &arguments);
    let segments = abi::Propagate { partial: far.zeros(rows * cols), ..arguments };
    far.launch(partial, grid, [256, 1], 0, &segments);

    let start = abi::PropagateStart {
        accumulated: arguments.accumulated,
        state: arguments.next,
        partial: arguments.partial,
        responses: arguments.responses,
        inverse_degree: arguments.inverse_degree,
        hop_weights: arguments.hop_weights,
        state_scale: arguments.state_scale,
        rows,
        block_rows: block_items,
        cols: cols as u32,
    };
    let grid = [cols.div_ceil(32), blocks];
    for names in [
        ["propagate_start_forward_f32", "propagate_start_forward_f16"],
        ["propagate_start_backward_f32", "propagate_start_backward_f16"],
    ] {
        far.launch(of_states(names, bytes), grid, [32, 8], 0, &start);
    }
    let long = abi::PropagateLong {
        accumulated: arguments.accumulated,
        next: arguments.next,
        partial: far.zeros(cols),
        segment_sums: far.zeros(cols),
        responses: arguments.responses,
        inverse_degree: arguments.inverse_degree,
        hop_weights: arguments.hop_weights,
        long_rows: far.values(&[rows as u32 - 1]),
        first_segment: far.values(&[0u32, 1]),
        state_scale: arguments.state_scale,
        long_row_count: 1,
        cols: cols as u32,
    };
    far.flat(of_states(["propagate_long_forward_f32", "propagate_long_forward_f16"], bytes), cols, &long);
    far.flat(of_states(["propagate_long_backward_f32", "propagate_long_backward_f16"], bytes), cols, &long);
    far.clear();
}

#[test]
fn hops_of_features() {
    let Some(far) = far() else { return };
    for bytes in [4, 2] {
        propagate(
            &far,
            128,
            bytes,
            [
                ["propagate_forward_wide4_f32", "propagate_forward_wide4_f16"],
                ["propagate_backward_wide4_f32", "propagate_backward_wide4_f16"],
                ["propagate_partial_wide4_f32", "propagate_partial_wide4_f16"],
            ],
            128,
        );
        propagate(
            &far,
            33,
            bytes,
            [
                ["propagate_forward_wide_f32", "propagate_forward_wide_f16"],
                ["propagate_backward_wide_f32", "propagate_backward_wide_f16"],
                ["propagate_partial_wide_f32", "propagate_partial_wide_f16"],
            ],
            32,
        );
        propagate(
            &far,
            31,
            bytes,
            [
                ["propagate_forward_medium_f32", "propagate_forward_medium_f16"],
                ["propagate_backward_medium_f32", "propagate_backward_medium_f16"],
                ["propagate_partial_medium_f32", "propagate_partial_medium_f16"],
            ],
            32,
        );
        for cols in [3, 4] {
            propagate(
                &far,
                cols,
                bytes,
                [
                    ["propagate_forward_narrow_f32", "propagate_forward_narrow_f16"],
                    ["propagate_backward_narrow_f32", "propagate_backward_narrow_f16"],
                    ["propagate_partial_narrow_f32", "propagate_partial_narrow_f16"],
                ],
                4,
            );
        }
    }
}

#[test]
fn hops_of_classes() {
    let Some(far) = far() else { return };
    let rows = rows_of(COLUMNS);
    let (blocks, block_items) = stretches(rows);
    for bytes in [4, 2] {
        let states = || far.zeros::<u8>(rows * COLUMNS * bytes).cast::<c_void>();
        for (width, names) in [(16, ["walk_rows4_f32", "walk_rows4_f16"]), (2, ["walk_rows_f32", "walk_rows_f16"])] {
            let (begin, col_idx) = far.matrix(rows);
            let group = if width == 16 { 4 } else { 2 };
            let step = abi::WalkRows {
                next: states(),
                logits: null_mut(),
                sums: null_mut(),
                added: states(),
                state: states(),
                inverse_degree: far.zeros(rows),
                bias: far.zeros(width),
                begin,
                end: begin.wrapping_add(1),
                col_idx,
                weights: null(),
                rows: null(),
                sources: null(),
                items: rows,
                block_items,
                columns: COLUMNS as u32,
                width: width as u32,
                outputs: width as u32,
                group,
                entry_lanes: 8 / group,
            };
            // Of the last hop: rows of the next begin behind those of this one.
            let last = ((COLUMNS - width) * bytes) as usize;
            let at = |states: *mut c_void| states.wrapping_byte_add(last);
            let step = abi::WalkRows {
                next: at(step.next),
                added: at(step.added.cast_mut()),
                state: at(step.state.cast_mut()),
                ..step
            };
            far.launch(of_states(names, bytes), [1, blocks], [256, 1], 0, &step);
            let logits = abi::WalkRows { logits: far.zeros(rows * width), ..step };
            far.launch(of_states(names, bytes), [1, blocks], [256, 1], 0, &logits);
            let long = abi::WalkLong {
                step,
                segment_sums: far.zeros(width),
                long_rows: far.values(&[rows as u32 - 1]),
                first_segment: far.values(&[0u32, 1]),
                long_row_count: 1,
            };
            far.flat(of_states(["walk_long_f32", "walk_long_f16"], bytes), width, &long);
            far.clear();
        }
        let start = abi::WalkStart {
            state: states(),
            d_logits: far.zeros(rows * COLUMNS),
            inverse_degree: far.zeros(rows),
            node_weights: far.zeros(rows * 4),
            graph_of: far.zeros(rows),
            scale: far.values(&[1.0f32]),
            rows,
            columns: COLUMNS as u32,
            width: COLUMNS as u32,
            outputs: COLUMNS as u32,
            hops: 4,
        };
        far.flat(of_states(["walk_start_f32", "walk_start_f16"], bytes), rows * COLUMNS, &start);
        let graphs = abi::WalkStart { d_logits: far.zeros(16), width: 16, outputs: 16, ..start };
        far.flat(of_states(["walk_weighted_start_f32", "walk_weighted_start_f16"], bytes), rows * COLUMNS, &graphs);
        let weighted = abi::WalkWeighted {
            logits: far.zeros(16),
            states: start.state,
            node_weights: start.node_weights,
            bias: far.zeros(16),
            graph_ptr: far.values(&[rows - 40, rows]),
            graphs: 1,
            columns: COLUMNS as u32,
            width: 16,
            outputs: 16,
            hops: 4,
        };
        far.flat(of_states(["walk_weighted_f32", "walk_weighted_f16"], bytes), 16 * 32, &weighted);
        project(&far, bytes, start.state);
        far.clear();
    }
}

/// Class space around its products.
fn project(far: &Far, bytes: u64, states: *mut c_void) {
    let rows = rows_of(COLUMNS);
    let (blocks, block_rows) = stretches(rows);
    let columns = COLUMNS as u32;
    let load = abi::ProjectStates {
        states,
        values: far.zeros(rows * COLUMNS),
        inverse_degree: far.zeros(rows),
        scale: far.values(&[1.0f32]),
        rows,
        part_rows: block_rows,
        columns,
    };
    far.flat(of_states(["project_load_f32", "project_load_f16"], bytes), rows * COLUMNS, &load);
    if bytes == 2 {
        far.flat("project_store_f16", rows * COLUMNS, &load);
    }
    let totals = abi::ProjectStates { values: far.zeros(blocks * COLUMNS), ..load };
    far.launch(of_states(["project_totals_f32", "project_totals_f16"], bytes), [2, blocks], [32, 8], 0, &totals);
    let (row_ptr, _) = far.matrix(rows);
    let forward = abi::ProjectSparseForward {
        states,
        responses: far.zeros(3),
        weights: far.zeros(COLUMNS),
        base: far.zeros(COLUMNS),
        row_ptr,
        col_idx: far.zeros(2),
        places: far.zeros(2),
        rows,
        block_rows,
        columns,
        features: 1,
    };
    let name = of_states(["project_sparse_forward_f32", "project_sparse_forward_f16"], bytes);
    far.launch(name, [2, blocks], [32, 8], 0, &forward);
    let backward = abi::ProjectSparseBackward {
        sums: far.zeros(COLUMNS),
        segment_sums: far.zeros(COLUMNS),
        responses: far.zeros(3),
        states,
        weights: far.zeros(COLUMNS),
        inverse_degree: load.inverse_degree,
        scale: load.scale,
        x: abi::SparseColumns {
            column_ptr: far.values(&[0u64, 2]),
            rows: far.values(&[rows as u32 - 2, rows as u32 - 1]),
            values: far.zeros(2),
            begin: far.values(&[0u64]),
            end: far.values(&[2u64]),
            segment_column: far.values(&[0u32]),
            first_segment: far.values(&[0u32, 1]),
            segments: 1,
            features: 1,
        },
        columns,
    };
    let name = of_states(["project_sparse_sums_f32", "project_sparse_sums_f16"], bytes);
    far.launch(name, [1, 2], [32, 8], 0, &backward);
    let name = of_states(["project_sparse_backward_f32", "project_sparse_backward_f16"], bytes);
    far.launch(name, [1, 1], [256, 1], 0, &backward);
}

fn no_dropout() -> abi::Dropout {
    let place = abi::HARMONIA_DROP_NONE;
    abi::Dropout { key: [0; 2], purpose: 0, step: 0, threshold: 0, place, scale: 1.0, elements: 0, first: 0 }
}

#[test]
fn experts() {
    let Some(far) = far() else { return };
    // As many tiles of rows as blocks along y.
    let (d, active) = (1024, 2);
    let rows = rows_of(d);
    let (features, gradients) = (far.zeros(rows * d), far.zeros(rows * d));
    let tiles = rows.div_ceil(128);
    for (forward, backward, threads, teams, hidden, width) in [
        ("monb_forward_16_8", "monb_backward_16_8", 128, 4, 168, 8),
        ("monb_forward_64_32", "monb_backward_64_32", 256, 1, 2208, 32),
    ] {
        let heads = far.zeros(d * active * (width + 1));
        let (gates, chosen) = (far.zeros(d * active), far.zeros(d * active));
        let parameters = far.zeros(hidden + width + 1);
        let arguments = abi::MonbForward {
            responses: gradients,
            workspace: null_mut(),
            features,
            heads,
            gates,
            experts: chosen,
            parameters,
            widths: null(),
            nodes: rows,
            expert_size: hidden + width + 1,
            workspace_size: 0,
            feature_count: d as u32,
            active: active as u32,
            layers: 2,
            head_width: width as u32,
            dropout: no_dropout(),
        };
        far.launch(forward, [d / 8, tiles], [threads, 1], 0, &arguments);
        let arguments = abi::MonbBackward {
            expert_sums: far.zeros(d / 8 * tiles * teams * hidden),
            head_sums: far.zeros(tiles * d * active * (width + 1)),
            workspace: null_mut(),
            d_responses: gradients,
            features,
            heads,
            gates,
            experts: chosen,
            parameters,
            widths: null(),
            nodes: rows,
            chunk_rows: 128,
            expert_size: hidden + width + 1,
            hidden_size: hidden,
            workspace_size: 0,
            feature_count: d as u32,
            expert_count: 1,
            active: active as u32,
            layers: 2,
            head_width: width as u32,
            dropout: no_dropout(),
        };
        far.launch(backward, [d / 8, tiles], [threads, 1], 0, &arguments);
    }
    let (blocks, block_rows) = stretches(rows);
    let knots = abi::Knots {
        thresholds: null(),
        threshold_count: far.zeros(d),
        piece_count: far.values(&vec![1u32; d as usize]),
        lines: far.zeros(2 * d),
        features: d as u32,
        stride: 1,
        most_thresholds: 0,
        lanes: 32,
        in_shared: 1,
    };
    let dropout = no_dropout();
    let forward = abi::KnotsForward { responses: gradients, features, nodes: rows, block_rows, knots, dropout };
    far.launch("knots_forward", [d / 32, blocks], [32, 8], 2 * 32 * 4, &forward);
    let sums = far.zeros(blocks * 2 * d);
    let backward = abi::KnotsBackward {
        sums,
        tables: null_mut(),
        d_responses: gradients,
        features,
        nodes: rows,
        chunk_rows: block_rows,
        chunks: blocks as u32,
        knots,
        dropout,
    };
    // A chunk of rows for each of four warps.
    far.launch("knots_backward", [d / 32, blocks.div_ceil(4)], [32, 4], 4 * 2 * 32 * 4, &backward);
}

#[test]
fn sums_and_losses() {
    let Some(far) = far() else { return };
    let rows = rows_of(COLUMNS);
    let (blocks, block_rows) = stretches(rows);
    let (length, columns) = (rows * COLUMNS, COLUMNS as u32);
    let (values, others) = (far.zeros(length), far.zeros(length));
    let sums = abi::ColumnSums {
        sums: far.zeros(blocks * COLUMNS),
        values,
        rows,
        part_rows: block_rows,
        columns: COLUMNS,
        accumulate: 0,
    };
    far.launch("column_sums", [2, blocks], [32, 8], 0, &sums);
    let block_length = 1 << 16;
    let parts = length.div_ceil(block_length);
    let squares = abi::SquareSums { partial: far.zeros(parts), values, length, block_length };
    far.launch("square_sums", [parts, 1], [256, 1], 0, &squares);
    let largest = abi::Largest {
        partial: far.zeros(parts),
        values,
        inverse_degree: far.zeros(rows),
        length,
        block_length,
        columns,
    };
    far.launch("largest", [parts, 1], [256, 1], 0, &largest);
    far.flat("readout_bias", length, &abi::Bias { logits: values, bias: far.zeros(COLUMNS), rows, outputs: columns });
    let graph_ptr = far.values(&[rows - 40, rows]);
    let graphs = abi::GraphSum { pooled: far.zeros(COLUMNS), nodes: values, graph_ptr, graphs: 1, features: columns };
    far.flat("graph_sum_forward", COLUMNS, &graphs);
    far.flat("graph_sum_backward", COLUMNS, &graphs);
    for (kernel, width) in [("loss_softmax", 1), ("loss_sigmoid", COLUMNS), ("loss_squared", COLUMNS)] {
        let targets = far.zeros(rows * width);
        let loss = abi::Loss {
            d_logits: others,
            partial: far.zeros(blocks),
            logits: values,
            targets,
            rows,
            block_rows,
            outputs: columns,
            stride: width as u32,
            scale: 1.0,
        };
        far.launch(kernel, [blocks, 1], [256, 1], 0, &loss);
    }
    let adam = abi::Adam {
        parameters: values,
        first_moment: others,
        second_moment: far.zeros(length),
        gradient: far.zeros(length),
        verdict: far.zeros(1),
        length,
        clip_norm: 0.0,
        beta1: 0.9,
        beta2: 0.99,
        one_minus_beta1: 0.1,
        one_minus_beta2: 0.01,
        rate: 0.1,
        correction: 1.0,
        epsilon: 1e-8,
        added_decay: 0.0,
        shrink: 1.0,
    };
    far.flat("adam", length, &adam);
    // One rank: rows of others do not end where the memory does.
    far.flat("sum_ranks", length, &abi::SumRanks { sum: others, parts: values, length, ranks: 1 });
}

#[test]
fn tables_of_walks() {
    let Some(far) = far() else { return };
    let rows = rows_of(COLUMNS);
    let (blocks, stretch) = stretches(rows);
    // One feature with a column for each cell of a row; a batch of two rows, the last of the table.
    let picked = far.values(&[rows as u32 - 2, rows as u32 - 1]);
    for (forward, sums, bytes) in [
        ("table_forward_u8", "table_sums_u8", 1),
        ("table_forward_u16", "table_sums_u16", 2),
        ("table_forward_f32", "table_sums_f32", 4),
    ] {
        let cells = far.zeros::<u8>(rows * COLUMNS * bytes).cast::<c_void>();
        let arguments = abi::TableForward {
            state: far.zeros(2),
            cells,
            rows: picked,
            sizes: null(),
            own: null(),
            hop_weights: far.zeros(4),
            weights: far.zeros(COLUMNS),
            constants: far.zeros(2),
            column_ptr: far.values(&[0u32, COLUMNS as u32]),
            row_count: 2,
            features: 1,
            first_feature: 0,
            block_features: 1,
            width: COLUMNS as u32,
            longest: 0,
        };
        far.flat(forward, 2, &arguments);
        let arguments = abi::TableSums {
            partial: far.zeros(COLUMNS),
            d_state: far.zeros(2),
            cells,
            rows: picked,
            column_feature: far.zeros(COLUMNS),
            row_count: 2,
            stretch: 2,
            features: 1,
            first_column: 0,
            width: COLUMNS as u32,
        };
        far.launch(sums, [1, 1], [256, 1], 0, &arguments);
    }
    let d_state = far.zeros(rows * COLUMNS);
    let arguments = abi::TableRowSums {
        partial: far.zeros(blocks * 3 * COLUMNS),
        d_state,
        sizes: null(),
        own: d_state,
        row_count: rows,
        stretch,
        features: COLUMNS as u32,
    };
    far.launch("table_row_sums", [1, blocks], [256, 1], 0, &arguments);
    let arguments = abi::TableOwn {
        responses: far.zeros(rows * COLUMNS),
        d_state,
        hop_weights: far.zeros(COLUMNS),
        row_count: rows,
        features: COLUMNS as u32,
    };
    far.flat("table_own", rows * COLUMNS, &arguments);
    // A walk of one step from every row.
    let arguments = abi::TableWalks {
        state: arguments.responses,
        partial: far.zeros(blocks * 3 * COLUMNS),
        responses: far.zeros(rows * COLUMNS),
        ends: d_state,
        points: far.zeros(2 * COLUMNS),
        grid: far.zeros(2 * COLUMNS),
        hop_weights: far.zeros(2 * COLUMNS),
        d_state,
        column_ptr: far.zeros(COLUMNS + 1),
        row_count: rows,
        stretch,
        features: COLUMNS as u32,
        walks: 1,
        steps: 1,
        most: 2,
        share: 1.0,
    };
    far.flat("table_walks_forward", rows * COLUMNS, &arguments);
    far.launch("table_walks_sums", [1, blocks], [256, 1], 0, &arguments);
}

/// None without a C++ compiler, or where so much cannot be reserved; which is said.
fn far() -> Option<Far> {
    let host = Host::load(&checked_kernels()?).unwrap().at_the_far_end();
    if host.allocate(1 << 37).is_err() {
        println!("skipped: this machine reserves no memory beyond what it has");
        return None;
    }
    Some(Far { host, held: RefCell::default() })
}
