//! Launches of `kernels/knots.cu`, and the part of the op that stays on the host.
//!
//! Experts are compiled, and sums turned into gradients, by the same code as on the CPU: [`Tables`]. Both are work on some
//! hundred pieces, far too branchy and too little for a GPU; what crosses the bus per step are the experts' parameters one way
//! and tables and sums of pieces the other, some hundred kilobytes. The copies wait for the device, which a step does anyway
//! for its loss.

use super::inputs::DeviceFeatures;
use super::reduce::partial_sums;
use super::sparse::SparseFeatures;
use super::{Blocks, Buffer, DeviceInputs, Driver, Grid, Launcher, abi, masks, stretches};
use crate::architecture::{Architecture, Layout};
use crate::config::DropoutPlace;
use crate::device::mixed_forms;
use crate::device::{Dropout, Responses, Routing};
use crate::knots::{Tables, most_pieces};
use crate::plan::BatchSizes;
use harmonia_graph::error::{Error, Result};
use std::ptr::null;

/// Shared memory for the tables of a block in the forward pass: two blocks fit every multiprocessor.
pub(super) const TABLE_BYTES: usize = 48 << 10;
/// Shared memory for thresholds and sums of a block in the backward pass: what every GPU from compute capability 8.0 on can
/// give; [`Blocks::shared`] where a device has less.
pub(super) const SUM_BYTES: usize = 88 << 10;
/// What sums of chunks may take before there are fewer chunks.
const SCRATCH_BYTES: u64 = 64 << 20;
/// Lanes of a warp.
const LANES: usize = 32;
/// Warps of a block; of the backward pass at most.
pub(super) const FORWARD_WARPS: u32 = 8;
pub(super) const BACKWARD_WARPS: u32 = 4;
/// Rows a block takes at least: its tables are worth loading.
const ROWS: u64 = 256;
/// Pieces of an expert are about as many as its hidden units (Hanin and Rolnick, 2019); a plan counts this many times more.
const PLANNED_PIECES: usize = 4;

/// Compiled experts on the device, and what they were compiled from.
pub struct DeviceKnots<V: Driver> {
    tables: Tables<f32>,
    /// Experts' parameters and coefficients, which come first.
    parameters: Vec<f32>,
    experts: Vec<u32>,
    gates: Vec<f32>,
    /// Longest thresholds of a feature.
    most_thresholds: usize,
    host: TableStaging,
    thresholds: Buffer<V, f32>,
    first_threshold: Buffer<V, u32>,
    threshold_count: Buffer<V, u32>,
    lines: Buffer<V, f32>,
    sums: Buffer<V, f32>,
    gradient: Buffer<V, f32>,
}

/// What is on its way to or from the device.
#[derive(Default)]
struct TableStaging {
    thresholds: Vec<f32>,
    first_threshold: Vec<u32>,
    threshold_count: Vec<u32>,
    /// stride x 2 x d.
    sums: Vec<f32>,
    /// d x stride.
    pairs: Vec<[f64; 2]>,
    gradient: Vec<f32>,
    d_gates: Vec<f32>,
}

/// How features and rows are handed to the blocks of a pass.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Features of a warp.
    pub(super) lanes: usize,
    /// Blocks along features.
    tiles: u64,
    /// Blocks along rows: chunks with sums of their own, in the backward pass.
    pub(super) chunks: u64,
    rows: u64,
    warps: u32,
    /// 0: tables and sums stand in global memory.
    pub(super) shared_bytes: usize,
}

impl Cut {
    /// `thresholds` and `stride` of the features with the most.
    pub(super) fn forward(nodes: usize, features: usize, thresholds: usize, stride: usize, most: Blocks) -> Cut {
        let bytes = (thresholds + 2 * stride) * LANES * size_of::<f32>();
        let (lanes, tiles) = tiles(features, 1);
        let (chunks, rows) = stretches(nodes as u64, ROWS, (most.nodes / tiles).max(1));
        let shared_bytes = if bytes <= TABLE_BYTES { bytes } else { 0 };
        Cut { lanes, tiles, chunks, rows, warps: FORWARD_WARPS, shared_bytes }
    }

    /// As many warps as have room for their sums.
    pub(super) fn backward(nodes: usize, features: usize, thresholds: usize, stride: usize, most: Blocks) -> Cut {
        let bytes = |warps: u32| (thresholds + warps as usize * 2 * stride) * LANES * size_of::<f32>();
        let fitting = (1..=BACKWARD_WARPS).rev().find(|&warps| bytes(warps) <= SUM_BYTES.min(most.shared));
        let (lanes, tiles) = tiles(features, if fitting.is_some() { 1 } else { LANES });
        let sum_bytes = (2 * stride * features * size_of::<f32>()) as u64;
        let most = (most.backward / tiles).min(SCRATCH_BYTES / sum_bytes.max(1)).max(1);
        let (chunks, rows) = stretches(nodes as u64, ROWS, most);
        let (warps, shared_bytes) = fitting.map_or((1, 0), |warps| (warps, bytes(warps)));
        Cut { lanes, tiles, chunks, rows, warps, shared_bytes }
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::new([self.tiles, self.chunks], [LANES as u32, self.warps]);
        grid.shared_bytes = self.shared_bytes as u32;
        grid
    }
}

/// (features of a warp, blocks along features). Lanes without a feature of their own take other rows.
fn tiles(features: usize, least: usize) -> (usize, u64) {
    let lanes = features.next_power_of_two().clamp(least, LANES);
    (lanes, features.div_ceil(lanes) as u64)
}

/// Pieces of a feature that a memory plan counts with. Should experts have more, the plan's reserve has room for them.
pub(super) fn planned_pieces(architecture: &Architecture) -> usize {
    let units: usize = architecture.hidden.iter().sum();
    architecture.active * (PLANNED_PIECES * units).min(most_pieces(&architecture.hidden) - 1) + 1
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn new_knots(&self, layout: &Layout) -> Result<DeviceKnots<V>> {
        let a = &layout.architecture;
        let slots = a.features * a.active;
        Ok(DeviceKnots {
            tables: Tables::default(),
            parameters: vec![0.0; layout.coefficients.end],
            experts: vec![0; slots],
            gates: vec![0.0; slots],
            most_thresholds: 0,
            host: TableStaging { d_gates: vec![0.0; slots], ..TableStaging::default() },
            thresholds: self.allocate(0)?,
            first_threshold: self.allocate(a.features)?,
            threshold_count: self.allocate(a.features)?,
            lines: self.allocate(0)?,
            sums: self.allocate(0)?,
            gradient: self.allocate(layout.coefficients.end)?,
        })
    }

    pub(super) fn knots_compile(
        &self,
        knots: &mut DeviceKnots<V>,
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        layout: &Layout,
    ) -> Result<()> {
        self.fetch_first(&mut knots.parameters, parameters)?;
        self.fetch_into(&mut knots.experts, &routing.experts)?;
        self.fetch_into(&mut knots.gates, &routing.gates)?;
        let DeviceKnots { tables, host, .. } = knots;
        tables.compile(&knots.experts, &knots.gates, &knots.parameters, layout);
        host.thresholds.clear();
        let places: Vec<(u32, u32)> = (tables.combinations().iter())
            .map(|combination| {
                let first = host.thresholds.len() as u32;
                host.thresholds.extend_from_slice(combination.thresholds());
                (first, combination.thresholds().len() as u32)
            })
            .collect();
        knots.most_thresholds = places.iter().map(|&(_, count)| count as usize).max().unwrap_or(0);
        host.first_threshold.clear();
        host.threshold_count.clear();
        for &combination in tables.of_feature() {
            let (first, count) = places[combination as usize];
            host.first_threshold.push(first);
            host.threshold_count.push(count);
        }
        self.place(&mut knots.thresholds, &host.thresholds)?;
        self.overwrite(&mut knots.first_threshold, &host.first_threshold)?;
        self.overwrite(&mut knots.threshold_count, &host.threshold_count)?;
        self.place(&mut knots.lines, tables.lines().as_flattened())
    }

    pub(super) fn knots_forward(
        &self,
        responses: &mut Responses<Self>,
        knots: &DeviceKnots<V>,
        inputs: &DeviceInputs<V>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        let (d, stride) = (layout.architecture.features, compiled(knots, dropout)?);
        match (responses, &inputs.features) {
            (Responses::Dense(responses), DeviceFeatures::Dense(features)) => {
                let cut = Cut::forward(inputs.nodes, d, knots.most_thresholds, stride, self.blocks);
                let arguments = abi::KnotsForward {
                    responses: self.at_mut(&mut responses.values, 0),
                    features: self.at(features, 0),
                    nodes: inputs.nodes as u64,
                    block_rows: cut.rows,
                    knots: self.table(knots, d, Some(&cut)),
                    dropout: masks(dropout, inputs.maskable(d)),
                };
                // SAFETY: X and F are n x d; tables are those `compile` made of these features, and what a block copies of
                // them has the shared memory `Cut` counts.
                unsafe { self.run("knots_forward", cut.grid(), &arguments) }
            }
            (Responses::Sparse(responses), DeviceFeatures::Sparse(x)) => {
                let arguments = abi::KnotsSparseForward {
                    responses: self.at_mut(responses, 0),
                    x: x.columns(self),
                    knots: self.table(knots, d, None),
                    dropout: masks(dropout, inputs.maskable(d)),
                };
                // SAFETY: responses are d + nnz, segments lie inside the columns; tables as above.
                unsafe { self.run("knots_sparse_forward", warps(x.segments()), &arguments) }
            }
            _ => Err(mixed_forms()),
        }
    }

    #[allow(clippy::too_many_arguments)] // what the op takes
    pub(super) fn knots_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_gates: &mut Buffer<V, f32>,
        d_responses: &Responses<Self>,
        knots: &mut DeviceKnots<V>,
        inputs: &DeviceInputs<V>,
        // Those the knots were compiled from.
        _routing: &Routing<Self>,
        _parameters: &Buffer<V, f32>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        let (d, stride) = (layout.architecture.features, compiled(knots, dropout)?);
        let length = 2 * stride * d;
        self.reserve(&mut knots.sums, length)?;
        let sums = self.at_mut(&mut knots.sums, 0);
        match (d_responses, &inputs.features) {
            (Responses::Dense(d_responses), DeviceFeatures::Dense(features)) => {
                let cut = Cut::backward(inputs.nodes, d, knots.most_thresholds, stride, self.blocks);
                let elements = cut.chunks as usize * length;
                let mut chunk_sums =
                    if cut.shared_bytes > 0 { self.allocate(elements)? } else { self.zeroed(elements)? };
                let arguments = abi::KnotsBackward {
                    sums: self.at_mut(&mut chunk_sums, 0),
                    d_responses: self.at(&d_responses.values, 0),
                    features: self.at(features, 0),
                    nodes: inputs.nodes as u64,
                    chunk_rows: cut.rows,
                    knots: self.table(knots, d, Some(&cut)),
                    dropout: masks(dropout, inputs.maskable(d)),
                };
                // SAFETY: X and dF are n x d, tables as in the forward pass; a chunk has stride x 2 x d sums, zero where a
                // block adds to them directly.
                unsafe {
                    self.run("knots_backward", cut.grid(), &arguments)?;
                    self.sum_columns(sums, arguments.sums, cut.chunks, length, false)?;
                }
            }
            (Responses::Sparse(d_responses), DeviceFeatures::Sparse(x)) => {
                let mut segment_sums = self.allocate(x.segments() * 2 * stride)?;
                let arguments = abi::KnotsSparseBackward {
                    sums,
                    segment_sums: self.at_mut(&mut segment_sums, 0),
                    d_responses: self.at(d_responses, 0),
                    x: x.columns(self),
                    knots: self.table(knots, d, None),
                    dropout: masks(dropout, inputs.maskable(d)),
                };
                // SAFETY: d_responses are d + nnz, a segment has stride x 2 sums, a feature as many.
                unsafe {
                    self.run("knots_sparse_backward", warps(x.segments()), &arguments)?;
                    self.run("knots_sparse_finish", warps(d), &arguments)?;
                }
            }
            _ => return Err(mixed_forms()),
        }
        self.finish_knots(gradient, d_gates, knots, layout)
    }

    /// From sums of pieces to gradients of experts, coefficients and gates.
    fn finish_knots(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_gates: &mut Buffer<V, f32>,
        knots: &mut DeviceKnots<V>,
        layout: &Layout,
    ) -> Result<()> {
        let DeviceKnots { tables, parameters, experts, gates, host, sums, gradient: part, .. } = knots;
        let (d, stride) = (layout.architecture.features, tables.stride());
        host.sums.resize(2 * stride * d, 0.0);
        self.fetch_first(&mut host.sums, sums)?;
        host.pairs.resize(d * stride, [0.0; 2]);
        for (piece, rows) in host.sums.chunks_exact(2 * d).enumerate() {
            let (g_x, g) = rows.split_at(d);
            for (pair, (&g_x, &g)) in host.pairs[piece..].iter_mut().step_by(stride).zip(g_x.iter().zip(g)) {
                *pair = [f64::from(g_x), f64::from(g)];
            }
        }
        host.gradient.clear();
        host.gradient.resize(parameters.len(), 0.0);
        tables.finish(&mut host.gradient, &mut host.d_gates, &host.pairs, experts, gates, parameters, layout);
        self.overwrite(d_gates, &host.d_gates)?;
        self.overwrite(part, &host.gradient)?;
        // SAFETY: experts and coefficients come first in the gradient; adding is a sum over one row.
        unsafe { self.sum_columns(self.at_mut(gradient, 0), self.at(part, 0), 1, part.len(), true) }
    }

    /// Bytes of tables and sums, at most.
    pub(super) fn knots_scratch(&self, batch: &BatchSizes, layout: &Layout, sparse: bool) -> usize {
        let a = &layout.architecture;
        let stride = planned_pieces(a);
        let thresholds = stride.next_power_of_two() - 1;
        // Every feature may have a combination of its own; buffers may be twice what is in them.
        let combinations = a.features.min(combinations(a));
        let tables = 2 * (combinations * thresholds + 2 * stride * a.features) + 2 * a.features;
        let length = 2 * stride * a.features;
        let cut = Cut::backward(batch.nodes, a.features, thresholds, stride, self.blocks);
        let sums = match sparse.then_some(batch.nonzeros) {
            Some(entries) => SparseFeatures::<V>::most_segments(a.features, entries) * 2 * stride,
            None => cut.chunks as usize * length + partial_sums(cut.chunks as usize, length),
        };
        size_of::<f32>() * (tables + sums + 2 * length + layout.coefficients.end)
    }

    fn table(&self, knots: &DeviceKnots<V>, features: usize, cut: Option<&Cut>) -> abi::Knots {
        abi::Knots {
            thresholds: if knots.thresholds.is_empty() { null() } else { self.at(&knots.thresholds, 0) },
            first_threshold: self.at(&knots.first_threshold, 0),
            threshold_count: self.at(&knots.threshold_count, 0),
            lines: self.at(&knots.lines, 0),
            features: features as u32,
            stride: knots.tables.stride() as u32,
            most_thresholds: knots.most_thresholds as u32,
            lanes: cut.map_or(LANES, |cut| cut.lanes) as u32,
            in_shared: u32::from(cut.is_some_and(|cut| cut.shared_bytes > 0)),
        }
    }
}

/// Sets of `active` experts there are.
fn combinations(architecture: &Architecture) -> usize {
    let (experts, active) = (architecture.experts, architecture.active.min(architecture.experts));
    (0..active.min(experts - active)).fold(1usize, |sets, at| sets.saturating_mul(experts - at) / (at + 1))
}

/// A warp an item.
fn warps(items: usize) -> Grid {
    Grid::new([(items as u64).div_ceil(u64::from(FORWARD_WARPS)), 1], [LANES as u32, FORWARD_WARPS])
}

/// Pieces of a feature. Refused is what no plan leads to.
fn compiled<V: Driver>(knots: &DeviceKnots<V>, dropout: Option<&Dropout>) -> Result<usize> {
    if dropout.is_some_and(|dropout| dropout.place == DropoutPlace::Hidden) {
        return Err(Error::Device("pieces have no hidden units to drop; set engine.monb = direct".into()));
    }
    match knots.tables.stride() {
        0 => Err(Error::Device("experts must be compiled before their pieces are looked up".into())),
        stride => Ok(stride),
    }
}
