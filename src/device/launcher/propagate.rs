//! Launches of `kernels/propagate.cu`: one hop after the other, states in two alternating buffers.

use super::inputs::{DeviceCsr, DeviceRows, DeviceScope, DeviceWalk, LongRows};
use super::reduce::partial_sums;
use super::{Blocks, Buffer, DeviceInputs, DeviceMatrix, Driver, Grid, Launcher, abi, by_states, stretches};
use crate::architecture::Layout;
use crate::config::States;
use crate::plan::BatchSizes;
use harmonia_graph::error::Result;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Below this a warp that moves four columns per lane would leave most of its lanes idle.
const WIDE4_COLUMNS: usize = 96;

/// Kernels of one direction, by element type.
pub(super) struct Kernels {
    pub(super) start: [&'static str; 3],
    wide4: [&'static str; 3],
    wide: [&'static str; 3],
    medium: [&'static str; 3],
    narrow: [&'static str; 3],
    long: [&'static str; 3],
}

pub(super) const FORWARD: Kernels = Kernels {
    start: by_states!("propagate_start_forward"),
    wide4: by_states!("propagate_forward_wide4"),
    wide: by_states!("propagate_forward_wide"),
    medium: by_states!("propagate_forward_medium"),
    narrow: by_states!("propagate_forward_narrow"),
    long: by_states!("propagate_long_forward"),
};

pub(super) const BACKWARD: Kernels = Kernels {
    start: by_states!("propagate_start_backward"),
    wide4: by_states!("propagate_backward_wide4"),
    wide: by_states!("propagate_backward_wide"),
    medium: by_states!("propagate_backward_medium"),
    narrow: by_states!("propagate_backward_narrow"),
    long: by_states!("propagate_long_backward"),
};

/// Sums of segments of long rows; they have no start and no end of their own.
const PARTIAL: Kernels = Kernels {
    start: [""; 3],
    wide4: by_states!("propagate_partial_wide4"),
    wide: by_states!("propagate_partial_wide"),
    medium: by_states!("propagate_partial_medium"),
    narrow: by_states!("propagate_partial_narrow"),
    long: [""; 3],
};

impl Kernels {
    /// The row kernel for this many columns, and how many of them one of its blocks takes.
    pub(super) fn for_columns(&self, cols: usize) -> (&[&'static str; 3], usize) {
        match cols {
            ..=4 => (&self.narrow, 4),
            5..32 => (&self.medium, 32),
            _ if cols.is_multiple_of(4) && cols >= WIDE4_COLUMNS => (&self.wide4, 128),
            _ => (&self.wide, 32),
        }
    }
}

/// What one hop does: everything but the matrix. Pointers are null where the direction has no use for them.
struct Hop<'a, V: Driver> {
    /// Rows that are computed, forward; none stands for all.
    rows: Option<&'a DeviceRows<V>>,
    /// Rows whose states may be other than zero; none stands for all.
    sources: Option<&'a DeviceRows<V>>,
    accumulated: *mut f32,
    next: *mut c_void,
    partial: *mut f32,
    state: *const c_void,
    responses: *const f32,
    hop_weights: *const f32,
    state_scale: *const f32,
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn propagate_forward(
        &self,
        state: &mut DeviceMatrix<V>,
        responses: &DeviceMatrix<V>,
        hop_weights: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        scope: Option<&DeviceScope<V>>,
    ) -> Result<()> {
        let walk = inputs.walk()?;
        let (rows, cols) = (responses.rows, responses.cols);
        let hops = hop_weights.len() / cols;
        // States as wide as F start as F itself.
        let copied = self.states != States::F32 && hops > 1;
        let mut states = self.alternating(rows * cols, hops, copied)?;
        let scale = self.state_scale(&responses.values, cols, None)?;
        let state_scale = scale.as_ref().map_or(null(), |scale| self.at(scale, 0));
        let start = abi::PropagateStart {
            accumulated: self.at_mut(&mut state.values, 0),
            state: if copied { self.at_mut(&mut states[0], 0).cast() } else { null_mut() },
            partial: null_mut(),
            responses: self.at(&responses.values, 0),
            inverse_degree: self.at(&walk.inverse_degree, 0),
            hop_weights: self.at(hop_weights, 0),
            rows: rows as u64,
            block_rows: 0,
            cols: cols as u32,
            state_scale,
        };
        self.start(&FORWARD, start)?;
        let mut current: *const c_void = if copied { start.state } else { start.responses.cast() };
        for t in 1..hops {
            let next = if t + 1 < hops {
                self.at_mut(&mut states[(t - 1 + usize::from(copied)) % 2], 0).cast()
            } else {
                null_mut()
            };
            let hop = Hop {
                rows: DeviceScope::within(scope, hops - 1 - t, rows)?,
                sources: None,
                accumulated: start.accumulated,
                next,
                partial: null_mut(),
                state: current,
                responses: null(),
                hop_weights: self.at(hop_weights, t * cols),
                state_scale,
            };
            self.hop(&FORWARD, walk, walk.matrix().resident()?, [rows, cols], &hop)?;
            current = next;
        }
        Ok(())
    }

    pub(super) fn propagate_backward(
        &self,
        gradient: &mut DeviceMatrix<V>,
        d_hop_weights: &mut Buffer<V, f32>,
        responses: &DeviceMatrix<V>,
        hop_weights: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        scope: Option<&DeviceScope<V>>,
    ) -> Result<()> {
        let walk = inputs.walk()?;
        let (rows, cols) = (responses.rows, responses.cols);
        let hops = hop_weights.len() / cols;
        let mut states = self.alternating(rows * cols, hops, true)?;
        let (blocks, _) = row_blocks(rows, cols, self.blocks);
        let long = walk.transposed().resident()?.long.as_ref().map_or(0, |long| long.rows.len());
        // <F, y> of each block of rows and of each long row.
        let mut partial = self.allocate::<f32>((blocks as usize + long) * cols)?;
        let partial_rows = |t: usize| blocks + if t == 0 { 0 } else { long as u64 };
        // Gradients are averages over the targets: far below the smallest half where there are many.
        let scale = self.state_scale(&gradient.values, cols, Some(&walk.inverse_degree))?;
        let state_scale = scale.as_ref().map_or(null(), |scale| self.at(scale, 0));
        let start = abi::PropagateStart {
            accumulated: self.at_mut(&mut gradient.values, 0),
            state: if hops > 1 { self.at_mut(&mut states[0], 0).cast() } else { null_mut() },
            partial: self.at_mut(&mut partial, 0),
            responses: self.at(&responses.values, 0),
            inverse_degree: self.at(&walk.inverse_degree, 0),
            hop_weights: self.at(hop_weights, 0),
            rows: rows as u64,
            block_rows: 0,
            cols: cols as u32,
            state_scale,
        };
        self.start(&BACKWARD, start)?;
        let mut current: *const c_void = start.state;
        for t in 0..hops {
            if t > 0 {
                let next = if t + 1 < hops { self.at_mut(&mut states[t % 2], 0).cast() } else { null_mut() };
                let hop = Hop {
                    rows: None,
                    sources: DeviceScope::within(scope, t - 1, rows)?,
                    accumulated: start.accumulated,
                    next,
                    partial: start.partial,
                    state: current,
                    responses: start.responses,
                    hop_weights: self.at(hop_weights, t * cols),
                    state_scale,
                };
                self.hop(&BACKWARD, walk, walk.transposed().resident()?, [rows, cols], &hop)?;
                current = next;
            }
            let d_theta = self.at_mut(d_hop_weights, t * cols);
            // SAFETY: the start writes one row of `partial` per block, a hop also one per long row; d_theta is row t of T x d.
            unsafe { self.sum_columns(d_theta, start.partial, partial_rows(t), cols, false)? };
        }
        Ok(())
    }

    /// Bytes of states and partial sums alive in a pass, at most.
    pub(super) fn propagate_scratch(&self, batch: &BatchSizes, layout: &Layout) -> usize {
        let a = &layout.architecture;
        let states = a.hops.saturating_sub(1).min(2) * batch.nodes * a.features * self.states.bytes();
        let blocks = row_blocks(batch.nodes, a.features, self.blocks).0 as usize;
        // A long row has more than HARMONIA_LONG_ROW entries, and one segment more than full ones; lazy walks and
        // self-loops add one entry per row.
        let long = (batch.entries + batch.nodes) / abi::HARMONIA_LONG_ROW as usize;
        let sums = (blocks + long + 2 * long) * a.features + partial_sums(blocks + long, a.features);
        states + sums * size_of::<f32>()
    }

    /// What states are multiplied by, where they are stored as half.
    fn state_scale(
        &self,
        values: &Buffer<V, f32>,
        columns: usize,
        inverse_degree: Option<&Buffer<V, f32>>,
    ) -> Result<Option<Buffer<V, f32>>> {
        if self.states != States::F16 {
            return Ok(None);
        }
        let mut scale = self.allocate(1)?;
        self.half_scale(&mut scale, values, columns, inverse_degree, 1.0)?;
        Ok(Some(scale))
    }

    /// Two buffers for states, as far as this many hops need them.
    fn alternating(&self, elements: usize, hops: usize, first_is_copied: bool) -> Result<[Buffer<V, u8>; 2]> {
        let needed = hops.saturating_sub(if first_is_copied { 1 } else { 2 });
        let size = |at: usize| if needed > at { elements * self.states.bytes() } else { 0 };
        Ok([self.allocate(size(0))?, self.allocate(size(1))?])
    }

    /// Hop 0.
    fn start(&self, kernels: &Kernels, mut arguments: abi::PropagateStart) -> Result<()> {
        let (blocks, block_rows) = row_blocks(arguments.rows as usize, arguments.cols as usize, self.blocks);
        arguments.block_rows = block_rows;
        let grid = Grid::new([u64::from(arguments.cols).div_ceil(32), blocks], [32, abi::HARMONIA_ROW_THREADS / 32]);
        // SAFETY: the callers' matrices are rows x cols, hop weights hold a row, `partial` one row per block.
        unsafe { self.run(kernels.start[self.states as usize], grid, &arguments) }
    }

    /// One hop over all rows: short ones at once, long ones by segments.
    fn hop(
        &self,
        kernels: &Kernels,
        walk: &DeviceWalk<V>,
        matrix: &DeviceCsr<V>,
        [rows, cols]: [usize; 2],
        hop: &Hop<'_, V>,
    ) -> Result<()> {
        let (blocks, block_items) = row_blocks(rows, cols, self.blocks);
        let mut arguments = abi::Propagate {
            accumulated: hop.accumulated,
            next: hop.next,
            partial: hop.partial,
            state: hop.state,
            responses: hop.responses,
            inverse_degree: self.at(&walk.inverse_degree, 0),
            hop_weights: hop.hop_weights,
            begin: self.at(&matrix.row_ptr, 0),
            end: self.at(&matrix.row_ptr, 1),
            col_idx: self.at(&matrix.col_idx, 0),
            weights: matrix.weights.as_ref().map_or(null(), |weights| self.at(weights, 0)),
            rows: hop.rows.map_or(null(), |rows| self.at(&rows.members, 0)),
            sources: hop.sources.map_or(null(), |rows| self.at(&rows.members, 0)),
            items: rows as u64,
            block_items,
            cols: cols as u32,
            group: group(cols),
            state_scale: hop.state_scale,
        };
        self.rows(kernels, blocks, &arguments)?;
        let long = hop.rows.map_or(&matrix.long, |rows| &rows.long);
        let Some(LongRows { rows: long_rows, first_segment, begin, end }) = long else { return Ok(()) };
        let mut sums = self.allocate::<f32>(begin.len() * cols)?;
        let (segment_blocks, block_items) = row_blocks(begin.len(), cols, self.blocks);
        arguments.partial = self.at_mut(&mut sums, 0);
        // Segments are those of rows that are computed.
        arguments.rows = null();
        (arguments.begin, arguments.end) = (self.at(begin, 0), self.at(end, 0));
        (arguments.items, arguments.block_items) = (begin.len() as u64, block_items);
        self.rows(&PARTIAL, segment_blocks, &arguments)?;
        let finish = abi::PropagateLong {
            accumulated: hop.accumulated,
            next: hop.next,
            // Behind the rows of the blocks.
            partial: if hop.partial.is_null() { null_mut() } else { hop.partial.wrapping_add(blocks as usize * cols) },
            segment_sums: self.at(&sums, 0),
            responses: hop.responses,
            inverse_degree: arguments.inverse_degree,
            hop_weights: hop.hop_weights,
            long_rows: self.at(long_rows, 0),
            first_segment: self.at(first_segment, 0),
            long_row_count: long_rows.len() as u32,
            cols: cols as u32,
            state_scale: hop.state_scale,
        };
        let grid = Grid::flat(long_rows.len() * cols);
        // SAFETY: segment sums hold segments x cols, `partial` one row per long row behind those of the blocks.
        unsafe { self.run(kernels.long[self.states as usize], grid, &finish) }
    }

    /// The kernel for this many columns.
    fn rows(&self, kernels: &Kernels, blocks: u64, arguments: &abi::Propagate) -> Result<()> {
        let cols = arguments.cols as usize;
        let (names, tile) = kernels.for_columns(cols);
        let grid = Grid::new([cols.div_ceil(tile) as u64, blocks], [abi::HARMONIA_ROW_THREADS, 1]);
        // SAFETY: the callers' matrices are n x cols, offsets end at col_idx, columns are below n (checked by `Graph`), sets of
        // rows have a bit for each (`DeviceScope::within`);
        // buffers are 256-byte aligned, so rows of a multiple of four columns are aligned for four.
        unsafe { self.run(names[self.states as usize], grid, arguments) }
    }
}

/// (blocks, rows of a block) of the row kernels: at least as many rows as a block takes at once.
pub(super) fn row_blocks(rows: usize, cols: usize, blocks: Blocks) -> (u64, u64) {
    let at_once = abi::HARMONIA_ROW_THREADS / if cols < 32 { group(cols) } else { 32 };
    stretches(rows as u64, u64::from(at_once), blocks.rows)
}

/// Lanes that share a row in the kernels for fewer than 32 columns.
fn group(cols: usize) -> u32 {
    (cols as u32).next_power_of_two().clamp(8, 32)
}
