//! Launches of `kernels/knots.cu`: look-ups and sums over pieces. Tables are made, and sums turned into gradients, by
//! `compile`.

use super::compile::{DeviceKnots, padded, planned_bytes};
use super::inputs::DeviceFeatures;
use super::sparse::SparseFeatures;
use super::{Blocks, Buffer, DeviceInputs, Driver, Grid, Launcher, abi, masks, stretches};
use crate::architecture::{Architecture, Layout};
use crate::config::DropoutPlace;
use crate::device::mixed_forms;
use crate::device::{Dropout, Responses, Routing};
use crate::knots::planned_pieces;
use crate::plan::BatchSizes;
use harmonia_graph::error::{Error, Result};
use std::ptr::null_mut;

/// Shared memory for the tables of a block in the forward pass up to which two blocks fit every multiprocessor. Larger tables
/// have one to themselves, as far as it goes, and a block of twice the warps: lanes that look up pieces in global memory read
/// from as many places as there are features.
const TABLE_BYTES: usize = 48 << 10;
/// What every GPU of compute capability 8.0 or more has for a block.
pub(super) const SUM_BYTES: usize = 99 << 10;
/// Shared memory that the system keeps of every block's.
const RESERVED_BYTES: usize = 1 << 10;
/// What sums of chunks may take before there are fewer chunks.
const SCRATCH_BYTES: u64 = 64 << 20;
/// Lanes of a warp.
const LANES: usize = 32;
/// Warps of a block; of the backward pass at most.
pub(super) const FORWARD_WARPS: u32 = 8;
/// Of the forward pass with large tables.
pub(super) const ALONE_WARPS: u32 = 16;
pub(super) const BACKWARD_WARPS: u32 = 8;
/// Rows a block takes at least: its tables are worth loading.
const ROWS: u64 = 256;
/// Rows of a warp of the backward pass, at least: its sums are worth writing.
const CHUNK_ROWS: u64 = 256;

/// How features and rows are handed to the blocks of a pass.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Features of a warp.
    pub(super) lanes: usize,
    /// Blocks along features.
    tiles: u64,
    /// Blocks along rows; in the backward pass, warps along rows, each with sums of its own.
    pub(super) chunks: u64,
    rows: u64,
    warps: u32,
    /// 0: tables and sums stand in global memory.
    pub(super) shared_bytes: usize,
}

impl Cut {
    pub(super) fn forward(nodes: usize, features: usize, stride: usize, most: Blocks) -> Cut {
        let bytes = (padded(stride) + 2 * stride) * LANES * size_of::<f32>();
        let (lanes, tiles) = tiles(features);
        let (chunks, rows) = stretches(nodes as u64, ROWS, (most.nodes / tiles).max(1));
        let shared_bytes = if bytes <= most.shared.min(SUM_BYTES) { bytes } else { 0 };
        let warps = if (TABLE_BYTES..).contains(&shared_bytes) { ALONE_WARPS } else { FORWARD_WARPS };
        Cut { lanes, tiles, chunks, rows, warps, shared_bytes }
    }

    /// A chunk of rows for each warp. Chunks, and so the order of sums, depend on the sizes of batch and model alone: `planned`
    /// is the number of pieces they are planned for. Warps of a block: as many as keep most of them on a multiprocessor, which has
    /// what a block can have; that decides no sum.
    pub(super) fn backward(nodes: usize, features: usize, planned: usize, stride: usize, room: Room) -> Cut {
        let (lanes, tiles) = tiles(features);
        let (chunks, rows) = chunk_rows(nodes, features, planned, room.most);
        let bytes = |warps: u32| (padded(stride) + warps as usize * 2 * stride) * LANES * size_of::<f32>();
        let resident =
            |warps: &u32| (room.shared + RESERVED_BYTES) / (bytes(*warps) + RESERVED_BYTES) * *warps as usize;
        let warps = (1..=BACKWARD_WARPS).max_by_key(resident).unwrap_or(1);
        let shared_bytes = if bytes(warps) <= room.shared { bytes(warps) } else { 0 };
        Cut { lanes, tiles, chunks, rows, warps, shared_bytes }
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::new([self.tiles, self.chunks], [LANES as u32, self.warps]);
        grid.shared_bytes = self.shared_bytes as u32;
        grid
    }

    /// Blocks of as many chunks as they have warps.
    fn grid_of_warps(&self) -> Grid {
        let mut grid = self.grid();
        grid.blocks[1] = self.chunks.div_ceil(u64::from(self.warps));
        grid
    }
}

/// (chunks, rows of one) of the backward pass.
pub(super) fn chunk_rows(nodes: usize, features: usize, planned: usize, most: Blocks) -> (u64, u64) {
    let sum_bytes = (2 * planned * features * size_of::<f32>()) as u64;
    let most = (most.backward / tiles(features).1).min(SCRATCH_BYTES / sum_bytes.max(1)).max(1);
    stretches(nodes as u64, CHUNK_ROWS, most)
}

/// (threads of a block, bytes of its shared memory) of a kernel of this file that depends on pieces, for those that are planned.
pub(super) fn block(kernel: &str, architecture: &Architecture, shared: usize) -> Option<(u32, usize)> {
    let (features, stride) = (architecture.features, planned_pieces(architecture));
    let most = Blocks::default();
    let cut = match kernel {
        "knots_forward" => Cut::forward(0, features, stride, Blocks { shared: shared.min(most.shared), ..most }),
        "knots_backward" => Cut::backward(0, features, stride, stride, Room { most, shared }),
        _ => return None,
    };
    Some((cut.warps * LANES as u32, cut.shared_bytes))
}

/// What blocks of the backward pass are cut to.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) most: Blocks,
    /// Bytes of shared memory a block can have.
    pub(super) shared: usize,
}

/// (features of a warp, blocks along features). Lanes without a feature of their own take other rows.
fn tiles(features: usize) -> (usize, u64) {
    let lanes = features.next_power_of_two().clamp(1, LANES);
    (lanes, features.div_ceil(lanes) as u64)
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn knots_forward(
        &self,
        responses: &mut Responses<Self>,
        knots: &DeviceKnots<V>,
        inputs: &DeviceInputs<V>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        has_no_hidden_masks(dropout)?;
        let d = layout.architecture.features;
        match (responses, &inputs.features) {
            (Responses::Dense(responses), DeviceFeatures::Dense(_) | DeviceFeatures::Panels(_)) => {
                let window = inputs.window(self)?;
                let cut = Cut::forward(window.rows, d, knots.stride, self.blocks);
                let arguments = abi::KnotsForward {
                    responses: self.at_mut(&mut responses.values, 0),
                    features: window.features,
                    nodes: window.rows as u64,
                    block_rows: cut.rows,
                    knots: self.table(knots, d, Some(&cut)),
                    dropout: abi::Dropout { first: (window.first * d) as u64, ..masks(dropout, inputs.maskable(d)) },
                };
                // SAFETY: X and F are n x d, or have the rows of a panel; tables are those `compile` made of these features, and
                // what a block copies of them has the shared memory `Cut` counts.
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
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        has_no_hidden_masks(dropout)?;
        let (d, stride) = (layout.architecture.features, knots.stride);
        let sums = self.at_mut(&mut knots.sums, 0);
        match (d_responses, &inputs.features) {
            (Responses::Dense(d_responses), DeviceFeatures::Dense(_) | DeviceFeatures::Panels(_)) => {
                let window = inputs.window(self)?;
                let planned = planned_pieces(&layout.architecture);
                let cut = Cut::backward(inputs.nodes, d, planned, stride, self.knots_room());
                let mut chunk_sums = match knots.carried.take().filter(|_| !window.is_first()) {
                    Some(sums) => sums,
                    None => self.allocate::<f32>(cut.chunks as usize * 2 * stride * d)?,
                };
                // Panels end where chunks do.
                let (first, here) =
                    (window.first as u64 / cut.rows, Cut { chunks: (window.rows as u64).div_ceil(cut.rows), ..cut });
                let mut tables = match cut.shared_bytes {
                    0 => Some(self.allocate::<f32>((cut.tiles * here.chunks) as usize * 2 * stride * LANES)?),
                    _ => None,
                };
                let arguments = abi::KnotsBackward {
                    sums: self.at_mut(&mut chunk_sums, first as usize * 2 * stride * d),
                    tables: tables.as_mut().map_or(null_mut(), |tables| self.at_mut(tables, 0)),
                    d_responses: self.at(&d_responses.values, 0),
                    features: window.features,
                    nodes: window.rows as u64,
                    chunk_rows: cut.rows,
                    chunks: here.chunks as u32,
                    knots: self.table(knots, d, Some(&cut)),
                    dropout: abi::Dropout { first: (window.first * d) as u64, ..masks(dropout, inputs.maskable(d)) },
                };
                // SAFETY: X and dF are n x d or have the rows of a panel, tables as in the forward pass; a chunk has stride x 2 x d
                // sums.
                unsafe { self.run("knots_backward", here.grid_of_warps(), &arguments)? };
                if !window.is_last() {
                    knots.carried = Some(chunk_sums);
                    return Ok(());
                }
                let total = abi::KnotsSums {
                    sums,
                    chunk_sums: self.at(&chunk_sums, 0),
                    piece_count: self.at(&knots.piece_count, 0),
                    chunks: cut.chunks as u32,
                    features: d as u32,
                    stride: stride as u32,
                };
                let columns = [abi::HARMONIA_SUM_COLUMNS, abi::HARMONIA_SUM_SLICES];
                let tiles = (d as u64).div_ceil(u64::from(abi::HARMONIA_SUM_COLUMNS));
                // SAFETY: as above, for all chunks.
                unsafe { self.run("knots_sums", Grid::new([tiles * 2 * stride as u64, 1], columns), &total)? };
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
        self.finish_knots(gradient, d_gates, knots, routing, parameters, layout)
    }

    /// Bytes of tables and sums, at most.
    pub(super) fn knots_scratch(&self, batch: &BatchSizes, layout: &Layout, sparse: bool) -> usize {
        let a = &layout.architecture;
        let stride = planned_pieces(a);
        let cut = Cut::backward(batch.nodes, a.features, stride, stride, self.knots_room());
        let sums = match sparse.then_some(batch.nonzeros) {
            Some(entries) => SparseFeatures::<V>::most_segments(a.features, entries) * 2 * stride,
            None => {
                let tables = if cut.shared_bytes == 0 { (cut.tiles * cut.chunks) as usize * LANES } else { 0 };
                (cut.chunks as usize * a.features + tables) * 2 * stride
            }
        };
        planned_bytes(a) + size_of::<f32>() * sums
    }

    fn knots_room(&self) -> Room {
        Room { most: self.blocks, shared: self.driver.shared_limit() }
    }

    fn table(&self, knots: &DeviceKnots<V>, features: usize, cut: Option<&Cut>) -> abi::Knots {
        abi::Knots {
            thresholds: self.at(&knots.thresholds, 0),
            threshold_count: self.at(&knots.threshold_count, 0),
            piece_count: self.at(&knots.piece_count, 0),
            lines: self.at(&knots.lines, 0),
            features: features as u32,
            stride: knots.stride as u32,
            most_thresholds: padded(knots.stride) as u32,
            lanes: cut.map_or(LANES, |cut| cut.lanes) as u32,
            in_shared: u32::from(cut.is_some_and(|cut| cut.shared_bytes > 0)),
        }
    }
}

/// A warp an item.
pub(super) fn warps(items: usize) -> Grid {
    Grid::new([(items as u64).div_ceil(u64::from(FORWARD_WARPS)), 1], [LANES as u32, FORWARD_WARPS])
}

/// No plan leads here.
fn has_no_hidden_masks(dropout: Option<&Dropout>) -> Result<()> {
    match dropout {
        Some(dropout) if dropout.place == DropoutPlace::Hidden => {
            Err(Error::Device("pieces have no hidden units to drop; set engine.monb = direct".into()))
        }
        _ => Ok(()),
    }
}
