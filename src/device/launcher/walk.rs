//! Class space: launches of `kernels/walk.cu`, one hop after the other in place.

use super::inputs::{DeviceReach, DeviceRows, DeviceScope, DeviceWalk, DeviceWeights, LongRows, WalkMatrix};
use super::project::{DeviceHops, padded};
use super::reduce::partial_sums;
use super::walk_panels::CsrRows;
use super::{Blocks, Buffer, DeviceInputs, Driver, Grid, Launcher, THREADS, abi, by_states, stretches};
use crate::architecture::Layout;
use crate::config::States;
use crate::device::no_walk;
use crate::plan::BatchSizes;
use harmonia_graph::error::{Error, Result};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

const ROWS4: [&str; 3] = by_states!("walk_rows4");
const ROWS: [&str; 3] = by_states!("walk_rows");
const LONG: [&str; 3] = by_states!("walk_long");
pub(super) const START: [&str; 3] = by_states!("walk_start");
const WEIGHTED: [&str; 3] = by_states!("walk_weighted");
const WEIGHTED_START: [&str; 3] = by_states!("walk_weighted_start");
/// Lanes that share a row at least.
const TEAM: u32 = 8;

/// How the lanes of a block are handed to rows of this width.
pub(super) struct Lanes {
    /// By element type.
    pub(super) kernels: &'static [&'static str; 3],
    /// Columns of a tile.
    pub(super) tile: usize,
    /// Lanes over columns.
    group: u32,
    /// Lanes over entries.
    entries: u32,
}

impl Lanes {
    pub(super) fn of(width: usize) -> Lanes {
        let (kernels, columns) = if width.is_multiple_of(4) { (&ROWS4, 4) } else { (&ROWS, 1) };
        let group = ((width / columns) as u32).next_power_of_two().min(32);
        Lanes { kernels, tile: columns * group as usize, group, entries: (TEAM / group).max(1) }
    }

    /// (blocks, rows of a block).
    pub(super) fn blocks(&self, items: usize, most: Blocks) -> (u64, u64) {
        let at_once = abi::HARMONIA_ROW_THREADS / (self.group * self.entries);
        stretches(items as u64, u64::from(at_once), most.rows)
    }
}

/// What one hop reads and writes beside the matrix. Pointers are null where the hop has no use for them.
struct HopStep<'a, V: Driver> {
    /// Rows that are computed; none stands for all.
    rows: Option<&'a DeviceRows<V>>,
    /// Rows whose states may be other than zero; none stands for all.
    sources: Option<&'a DeviceRows<V>>,
    next: *mut c_void,
    logits: *mut f32,
    added: *const c_void,
    state: *const c_void,
    bias: *const f32,
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn walk_forward(
        &self,
        logits: &mut Buffer<V, f32>,
        hops: &mut DeviceHops<V>,
        parameters: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        scope: Option<&DeviceScope<V>>,
        layout: &Layout,
    ) -> Result<()> {
        self.check_hops(hops, inputs, layout)?;
        let outputs = layout.architecture.outputs;
        check_logits(logits.len(), inputs, outputs)?;
        let within = |steps| DeviceScope::within(scope, steps, inputs.nodes);
        let bias = self.at(parameters, layout.readout_bias.start);
        let logits = self.at_mut(logits, 0);
        let walk = match &inputs.reach {
            DeviceReach::Walk(walk) => walk,
            DeviceReach::Weights(weights) => {
                check_weights(weights, hops)?;
                let arguments = abi::WalkWeighted {
                    logits,
                    states: self.at(&hops.states, 0).cast(),
                    node_weights: self.at(&weights.values, 0),
                    bias,
                    graph_ptr: self.at(&inputs.graph_ptr, 0),
                    graphs: inputs.graphs() as u32,
                    columns: hops.columns() as u32,
                    width: hops.width as u32,
                    outputs: outputs as u32,
                    hops: hops.hops as u32,
                };
                let grid = Grid::flat(inputs.graphs() * outputs * 32);
                // SAFETY: logits are graphs x L, states n x columns, weights n x T, and graph_ptr ends at n.
                return unsafe { self.run(WEIGHTED[self.states as usize], grid, &arguments) };
            }
            DeviceReach::Table(_) => return Err(no_walk()),
        };
        for t in (1..hops.hops.saturating_sub(1)).rev() {
            let next = self.hop_at(hops, t);
            let state = self.hop_at(hops, t + 1).cast_const();
            let (rows, added) = (within(t)?, next.cast_const());
            let step = HopStep { rows, sources: None, next, logits: null_mut(), added, state, bias: null() };
            self.step(&step, hops, walk, walk.matrix(), outputs)?;
        }
        let state = if hops.hops > 1 { self.hop_at(hops, 1).cast_const() } else { null() };
        let added = self.hop_at(hops, 0).cast_const();
        let step = HopStep { rows: within(0)?, sources: None, next: null_mut(), logits, added, state, bias };
        self.step(&step, hops, walk, walk.matrix(), outputs)
    }

    pub(super) fn walk_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        hops: &mut DeviceHops<V>,
        d_logits: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        scope: Option<&DeviceScope<V>>,
        layout: &Layout,
    ) -> Result<()> {
        self.check_hops(hops, inputs, layout)?;
        let outputs = layout.architecture.outputs;
        check_logits(d_logits.len(), inputs, outputs)?;
        let rows = (d_logits.len() / outputs) as u64;
        let d_bias = self.at_mut(gradient, layout.readout_bias.start);
        // SAFETY: d_logits hold rows x L, the gradient the whole layout.
        unsafe { self.sum_columns(d_bias, self.at(d_logits, 0), rows, outputs, true)? };
        // Gradients are averages over the targets: far below the smallest half where there are many.
        if self.states == States::F16 {
            // What is stored is divided by degrees, which weights below one make small.
            let (inverse_degree, factor) = match &inputs.reach {
                DeviceReach::Walk(walk) => (Some(&walk.inverse_degree), 1.0),
                DeviceReach::Weights(weights) => (None, weights.largest),
                DeviceReach::Table(_) => return Err(no_walk()),
            };
            self.half_scale(&mut hops.scale, d_logits, outputs, inverse_degree, factor)?;
        }
        let mut start = abi::WalkStart {
            state: self.hop_at(hops, 0),
            d_logits: self.at(d_logits, 0),
            inverse_degree: null(),
            node_weights: null(),
            graph_of: null(),
            scale: self.at(&hops.scale, 0),
            rows: hops.rows as u64,
            columns: hops.columns() as u32,
            width: hops.width as u32,
            outputs: outputs as u32,
            hops: hops.hops as u32,
        };
        let kind = self.states as usize;
        match &inputs.reach {
            DeviceReach::Walk(walk) => {
                start.inverse_degree = self.at(&walk.inverse_degree, 0);
                // SAFETY: d_logits are n x L, degrees n, states n x columns.
                unsafe { self.run(START[kind], Grid::flat(hops.rows * hops.width), &start)? };
                for t in 1..hops.hops {
                    let (next, state) = (self.hop_at(hops, t), self.hop_at(hops, t - 1).cast_const());
                    let sources = DeviceScope::within(scope, t - 1, inputs.nodes)?;
                    let (logits, added, bias) = (null_mut(), null(), null());
                    let step = HopStep { rows: None, sources, next, logits, added, state, bias };
                    self.step(&step, hops, walk, walk.transposed(), outputs)?;
                }
                Ok(())
            }
            DeviceReach::Weights(weights) => {
                check_weights(weights, hops)?;
                start.node_weights = self.at(&weights.values, 0);
                start.graph_of = self.at(&weights.graph_of, 0);
                let grid = Grid::flat(hops.rows * hops.columns());
                // SAFETY: d_logits are graphs x L, graph_of n numbers below graphs, weights n x T, states n x columns.
                unsafe { self.run(WEIGHTED_START[kind], grid, &start) }
            }
            DeviceReach::Table(_) => Err(no_walk()),
        }
    }

    /// Where the columns of a hop begin.
    fn hop_at(&self, hops: &mut DeviceHops<V>, t: usize) -> *mut c_void {
        self.at_mut(&mut hops.states, t * hops.width * self.states.bytes()).cast()
    }

    /// One step over all rows.
    fn step(
        &self,
        step: &HopStep<'_, V>,
        hops: &DeviceHops<V>,
        walk: &DeviceWalk<V>,
        matrix: &WalkMatrix<V>,
        outputs: usize,
    ) -> Result<()> {
        matrix.each(self, step.rows, &mut |part| self.step_rows(step, hops, walk, part, outputs))
    }

    /// One step over some rows: short ones at once, long ones by segments.
    fn step_rows(
        &self,
        step: &HopStep<'_, V>,
        hops: &DeviceHops<V>,
        walk: &DeviceWalk<V>,
        part: &CsrRows<'_, V>,
        outputs: usize,
    ) -> Result<()> {
        let (rows, width, first) = (part.rows, hops.width, part.first);
        // Where the first of the rows is, as states and as logits.
        let states = first * hops.columns() * self.states.bytes();
        let behind = |at: *mut c_void| if at.is_null() { at } else { at.wrapping_byte_add(states) };
        let logits = if step.logits.is_null() { step.logits } else { step.logits.wrapping_add(first * outputs) };
        let lanes = Lanes::of(width);
        let (blocks, block_items) = lanes.blocks(rows, self.blocks);
        let mut arguments = abi::WalkRows {
            next: behind(step.next),
            logits,
            sums: null_mut(),
            added: behind(step.added.cast_mut()).cast_const(),
            state: step.state,
            inverse_degree: self.at(&walk.inverse_degree, first),
            bias: step.bias,
            begin: part.begin,
            end: part.begin.wrapping_add(1),
            col_idx: part.col_idx,
            weights: part.weights,
            rows: step.rows.map_or(null(), |rows| self.at(&rows.members, first / u64::BITS as usize)),
            sources: step.sources.map_or(null(), |rows| self.at(&rows.members, 0)),
            items: rows as u64,
            block_items,
            columns: hops.columns() as u32,
            width: width as u32,
            outputs: outputs as u32,
            group: lanes.group,
            entry_lanes: lanes.entries,
        };
        let kernel = lanes.kernels[self.states as usize];
        let grid = |blocks| Grid::new([width.div_ceil(lanes.tile) as u64, blocks], [abi::HARMONIA_ROW_THREADS, 1]);
        // SAFETY: states are n x columns, `width` of which belong to a hop, logits n x L; offsets end at col_idx, columns of the
        // matrix are below n (checked by `Graph`), sets of rows have a bit for each (`DeviceScope::within`), and parts begin at a
        // word of them; a width that is a multiple of four keeps rows aligned for four.
        unsafe { self.run(kernel, grid(blocks), &arguments)? };
        let Some(LongRows { rows: long_rows, first_segment, begin, end }) = part.long else { return Ok(()) };
        if step.state.is_null() {
            return Ok(());
        }
        let mut sums = self.allocate::<f32>(begin.len() * width)?;
        let mut finish = abi::WalkLong {
            step: arguments,
            segment_sums: self.at(&sums, 0),
            long_rows: self.at(long_rows, 0),
            first_segment: self.at(first_segment, 0),
            long_row_count: long_rows.len() as u32,
        };
        let (blocks, block_items) = lanes.blocks(begin.len(), self.blocks);
        arguments.sums = self.at_mut(&mut sums, 0);
        (arguments.begin, arguments.end) = (self.at(begin, 0), self.at(end, 0));
        (arguments.items, arguments.block_items) = (begin.len() as u64, block_items);
        // Segments are those of rows that are computed.
        arguments.rows = null();
        finish.step.sums = null_mut();
        // SAFETY: segments lie inside their rows and have `width` sums each; the rest as above.
        unsafe {
            self.run(kernel, grid(blocks), &arguments)?;
            self.run(LONG[self.states as usize], Grid::flat(long_rows.len() * width), &finish)
        }
    }

    /// Bytes of sums alive in a step, at most.
    pub(super) fn walk_scratch(&self, batch: &BatchSizes, layout: &Layout) -> usize {
        let a = &layout.architecture;
        // As in `propagate_scratch`.
        let segments = 2 * (batch.entries + batch.nodes) / abi::HARMONIA_LONG_ROW as usize;
        let largest = THREADS as usize * 4;
        size_of::<f32>() * (segments * padded(a.outputs) + partial_sums(batch.rows, a.outputs) + largest)
    }
}

/// Refuses logits of another number of rows: kernels write one per node, or one per graph.
fn check_logits<V: Driver>(length: usize, inputs: &DeviceInputs<V>, outputs: usize) -> Result<()> {
    let rows = match &inputs.reach {
        DeviceReach::Walk(_) => inputs.nodes,
        DeviceReach::Weights(_) => inputs.graphs(),
        DeviceReach::Table(_) => return Err(no_walk()),
    };
    if length == rows * outputs {
        return Ok(());
    }
    Err(Error::Device(format!("{length} logits where this batch has {rows} rows of {outputs}")))
}

/// Refuses weights of another number of hops.
fn check_weights<V: Driver>(weights: &DeviceWeights<V>, hops: &DeviceHops<V>) -> Result<()> {
    if weights.hops == hops.hops {
        return Ok(());
    }
    Err(Error::Device(format!("the batch has node weights of {} hops, the model {} hops", weights.hops, hops.hops)))
}
