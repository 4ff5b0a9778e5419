//! Mixture of Neural Bases by pieces: every response is a line on each piece, found by counting thresholds.
//!
//! Forward   p = piece(x), F[i,k] = slope[k,p] x + intercept[k,p]
//! Backward  G1[k,p] = sum of g x, G0[k,p] = sum of g over the points in p, in f64; [`Tables::finish`] does the rest
//! The cost of a point does not depend on the widths of experts or the number of bases. Nodes are gone through in tiles, a
//! feature at a time, so that one table at a time is in use. Deterministic: sums over nodes are taken in stretches that
//! depend on sizes only.

use super::element::Element;
use super::inputs::{InputFeatures, SparseColumns};
use super::panels::{Panel, Panels};
use super::pool::Loan;
use super::{Cpu, CpuInputs, Ops, chunks};
use crate::architecture::Layout;
use crate::config::DropoutPlace;
use crate::device::{Dropout, Posted, Responses, Routing, mixed_forms};
use crate::knots::{Tables, planned_pieces};
use crate::real::Real;
use harmonia_graph::error::Result;
use harmonia_graph::simd::simd;
use rayon::prelude::*;

/// Nodes of a tile, whose pieces are found together: with a hundred features it stays in the first cache.
const TILE: usize = 64;
/// Non-zeros of a column whose pieces are found together; many columns have few.
const LANES: usize = 16;
/// Copies of every sum: points that follow each other often share a piece, and need not wait for each other.
pub const COPIES: usize = 4;
/// Tiles of a task.
const TILES: usize = 8;
/// Stretches that sums over nodes are cut into, at most.
const JOBS: usize = 16;

/// Experts to pieces.
pub fn compile<T: Ops>(
    _: &Cpu<T>,
    _: &mut Posted,
    tables: &mut Tables<T>,
    routing: &Routing<Cpu<T>>,
    parameters: &[T],
    layout: &Layout,
) -> Result<()> {
    let (layout, parameters) = layout.plain(parameters);
    tables.compile(&routing.experts, &routing.gates, &parameters, layout);
    Ok(())
}

/// F = ...
pub fn forward<T: Ops>(
    cpu: &Cpu<T>,
    responses: &mut Responses<Cpu<T>>,
    tables: &Tables<T>,
    inputs: &CpuInputs<T>,
    dropout: Option<&Dropout>,
    layout: &Layout,
) -> Result<()> {
    let d = layout.architecture.features;
    match (responses, &inputs.features) {
        (Responses::Sparse(responses), InputFeatures::Sparse(x)) => {
            let (constants, values) = responses.split_at_mut(d);
            respond_sparse(constants, values, tables, x, dropout, d);
        }
        (Responses::Sparse(_), _) | (_, InputFeatures::Sparse(_)) => return Err(mixed_forms()),
        (Responses::Dense(responses), _) => respond(cpu, responses, tables, inputs, dropout, d),
    }
    Ok(())
}

/// Gradients of experts and coefficients += ..., d_gates = ...
#[allow(clippy::too_many_arguments)]
pub fn backward<T: Ops>(
    cpu: &Cpu<T>,
    gradient: &mut [T],
    d_gates: &mut [T],
    d_responses: &Responses<Cpu<T>>,
    tables: &mut Tables<T>,
    inputs: &CpuInputs<T>,
    routing: &Routing<Cpu<T>>,
    parameters: &[T],
    dropout: Option<&Dropout>,
    layout: &Layout,
) -> Result<()> {
    let d = layout.architecture.features;
    // (G1, G0) of each piece of each feature.
    let mut sums = cpu.pairs.take(d * tables.stride(), [0.0; 2]);
    match (d_responses, &inputs.features) {
        (Responses::Sparse(d_responses), InputFeatures::Sparse(x)) => {
            let (totals, values) = d_responses.split_at(d);
            sum_up_sparse(&mut sums, totals, values, tables, x, dropout, d);
        }
        (Responses::Sparse(_), _) | (_, InputFeatures::Sparse(_)) => return Err(mixed_forms()),
        (Responses::Dense(d_responses), _) => {
            sum_up(cpu, &mut sums, d_responses, tables, inputs, dropout, d);
        }
    }
    if let Some(dropout) = dropout.filter(|dropout| dropout.place == DropoutPlace::Feature) {
        for (k, sums) in sums.chunks_exact_mut(tables.stride()).enumerate() {
            let factor = feature_factor::<f64>(Some(dropout), k);
            sums.iter_mut().for_each(|sum| *sum = sum.map(|value| value * factor));
        }
    }
    let (experts, gates) = (&routing.experts, &routing.gates);
    if layout.is_plain() {
        tables.finish(gradient, d_gates, &sums, experts, gates, parameters, layout);
        return Ok(());
    }
    let (plain, made) = layout.plain(parameters);
    let mut of_plain = vec![T::zero(); plain.len()];
    tables.finish(&mut of_plain, d_gates, &sums, experts, gates, &made, plain);
    layout.add_from_plain(gradient, parameters, &of_plain);
    Ok(())
}

/// Bytes of the sums over nodes, and of tiles of X, with as many pieces as plans count with.
pub fn scratch_bytes<T>(nodes: usize, layout: &Layout) -> usize {
    let a = &layout.architecture;
    let jobs = nodes.div_ceil(job_rows(nodes));
    let tiles = rayon::current_num_threads() * TILE * a.features * (size_of::<T>() + size_of::<u32>());
    a.features * planned_pieces(a) * (1 + jobs * COPIES) * size_of::<[f64; 2]>() + tiles
}

/// Nodes whose sums one job takes.
fn job_rows(rows: usize) -> usize {
    rows.div_ceil(TILE).div_ceil(JOBS).max(TILES) * TILE
}

/// Factor on f_k: 1, or the mask of the feature.
fn feature_factor<T: Real>(dropout: Option<&Dropout>, k: usize) -> T {
    match dropout {
        Some(dropout) if dropout.place == DropoutPlace::Feature => {
            T::from_f64(if dropout.drops(k as u64) { 0.0 } else { dropout.scale() })
        }
        _ => T::one(),
    }
}

fn respond<T: Real>(
    cpu: &Cpu<T>,
    responses: &mut Panels<T>,
    tables: &Tables<T>,
    inputs: &CpuInputs<T>,
    dropout: Option<&Dropout>,
    d: usize,
) {
    responses.panels_mut().for_each(|Panel { first, width, data }| {
        data.par_chunks_mut(TILE * TILES * width).enumerate().for_each(|(task, rows)| {
            let mut tile = Tile::new(cpu, inputs, dropout, [first, width, d]);
            for (part, out) in rows.chunks_mut(TILE * width).enumerate() {
                let count = out.len() / width;
                simd(
                    #[inline(always)]
                    || {
                        tile.load((task * TILES + part) * TILE, count);
                        for c in 0..width {
                            let (combination, lines) = tables.feature(first + c);
                            let factor = feature_factor::<T>(dropout, first + c);
                            let x = tile.points(c);
                            let pieces = combination.pieces_of(x);
                            for r in 0..count {
                                let [slope, intercept] = lines[pieces[r] as usize];
                                out[r * width + c] = (slope * x[r] + intercept) * factor;
                            }
                        }
                    },
                );
            }
        });
    });
}

fn sum_up<T: Real>(
    cpu: &Cpu<T>,
    sums: &mut [[f64; 2]],
    d_responses: &Panels<T>,
    tables: &Tables<T>,
    inputs: &CpuInputs<T>,
    dropout: Option<&Dropout>,
    d: usize,
) {
    let (rows, stride) = (d_responses.rows(), tables.stride());
    let job_rows = job_rows(rows);
    let mut partial = cpu.copies.filled(rows.div_ceil(job_rows) * sums.len(), [[0.0; 2]; COPIES]);
    partial.par_chunks_mut(sums.len()).enumerate().for_each(|(job, sums)| {
        for Panel { first, width, data } in d_responses.panels_in_order() {
            let mut tile = Tile::new(cpu, inputs, dropout, [first, width, d]);
            for start in (job * job_rows..((job + 1) * job_rows).min(rows)).step_by(TILE) {
                let count = TILE.min(rows - start);
                let g = &data[start * width..(start + count) * width];
                simd(
                    #[inline(always)]
                    || {
                        tile.load(start, count);
                        for c in 0..width {
                            let (combination, _) = tables.feature(first + c);
                            let sums = &mut sums[(first + c) * stride..][..stride];
                            let x = tile.points(c);
                            let pieces = combination.pieces_of(x);
                            for r in 0..count {
                                let g = g[r * width + c].widen();
                                let sum = &mut sums[pieces[r] as usize][r % COPIES];
                                *sum = [sum[0] + g * x[r].widen(), sum[1] + g];
                            }
                        }
                    },
                );
            }
        }
    });
    sums.fill([0.0; 2]);
    for part in partial.chunks_exact(sums.len()) {
        for (sum, part) in sums.iter_mut().zip(part) {
            part.iter().for_each(|part| *sum = [sum[0] + part[0], sum[1] + part[1]]);
        }
    }
}

/// x of some nodes, a column of X after the other.
struct Tile<'a, T> {
    /// width x TILE.
    values: Loan<'a, T>,
    /// Random words of the elements, row by row; none without dropout of inputs.
    words: Option<Loan<'a, u32>>,
    features: &'a InputFeatures,
    dropout: Option<&'a Dropout>,
    /// Rows that masks of inputs apply to.
    maskable: usize,
    /// First column, number of columns, and d.
    columns: [usize; 3],
}

impl<'a, T: Real> Tile<'a, T> {
    fn new(cpu: &'a Cpu<T>, inputs: &'a CpuInputs<T>, dropout: Option<&'a Dropout>, columns: [usize; 3]) -> Self {
        let dropout = dropout.filter(|dropout| dropout.place == DropoutPlace::Input);
        let size = columns[1] * TILE;
        let words = dropout.map(|_| cpu.words.take(size, 0));
        // Points behind the last node are looked up too: they must be numbers.
        let values = cpu.reals.filled(size, T::zero());
        Tile { values, words, features: &inputs.features, dropout, maskable: inputs.maskable(), columns }
    }

    /// Fetches `count` nodes from `start` on.
    #[inline(always)]
    fn load(&mut self, start: usize, count: usize) {
        let [first, width, d] = self.columns;
        for r in 0..count {
            let at = (start + r) * d + first;
            match self.features {
                InputFeatures::Dense(x) => {
                    let row = &x[at..at + width];
                    for (c, &x) in row.iter().enumerate() {
                        self.values[c * TILE + r] = T::from_f32(x);
                    }
                }
                InputFeatures::Half(x) => {
                    let row = &x[at..at + width];
                    for (c, &x) in row.iter().enumerate() {
                        self.values[c * TILE + r] = Element::load(x);
                    }
                }
                InputFeatures::Sparse(_) => {}
            }
        }
        let (Some(dropout), Some(words)) = (self.dropout, &mut self.words) else { return };
        let count = count.min(self.maskable.saturating_sub(start));
        if width == d {
            dropout.stream.fill((start * d) as u64, &mut words[..count * width]);
        } else {
            for r in 0..count {
                dropout.stream.fill(((start + r) * d + first) as u64, &mut words[r * width..][..width]);
            }
        }
        let (threshold, scale) = (dropout.threshold(), T::from_f64(dropout.scale()));
        for r in 0..count {
            let words = &words[r * width..][..width];
            for (c, &word) in words.iter().enumerate() {
                let x = &mut self.values[c * TILE + r];
                *x = if word < threshold { T::zero() } else { *x * scale };
            }
        }
    }

    /// x of column c.
    #[inline(always)]
    fn points(&self, c: usize) -> &[T; TILE] {
        &self.values.as_chunks().0[c]
    }
}

/// x of the non-zeros of a column after dropout.
struct Masked<'a, T> {
    columns: &'a SparseColumns,
    dropout: Option<&'a Dropout>,
    scale: T,
    d: usize,
}

impl<'a, T: Real> Masked<'a, T> {
    fn new(columns: &'a SparseColumns, dropout: Option<&'a Dropout>, d: usize) -> Self {
        let dropout = dropout.filter(|dropout| dropout.place == DropoutPlace::Input);
        Masked { columns, dropout, scale: dropout.map_or(T::one(), |dropout| T::from_f64(dropout.scale())), d }
    }

    /// Those of column k, [`LANES`] at a time: calls `visit(first place, number of them, x)`.
    #[inline(always)]
    fn each(&self, k: usize, mut visit: impl FnMut(usize, usize, &[T; LANES])) {
        let SparseColumns { col_ptr, rows, values, .. } = self.columns;
        let end = col_ptr[k + 1];
        for first in (col_ptr[k]..end).step_by(LANES) {
            let count = LANES.min(end - first);
            let mut x = [T::zero(); LANES];
            for lane in 0..count {
                x[lane] = T::from_f32(values[first + lane]) * self.scale;
            }
            if let Some(dropout) = self.dropout {
                for lane in 0..count {
                    let element = u64::from(rows[first + lane]) * self.d as u64 + k as u64;
                    x[lane] = if dropout.drops(element) { T::zero() } else { x[lane] };
                }
            }
            visit(first, count, &x);
        }
    }
}

fn respond_sparse<T: Real>(
    constants: &mut [T],
    values: &mut [T],
    tables: &Tables<T>,
    x: &SparseColumns,
    dropout: Option<&Dropout>,
    d: usize,
) {
    let masked = Masked::new(x, dropout, d);
    chunks::each_column(&x.col_chunks, (1, constants), (&x.col_ptr, values), &|cols, constants, values| {
        simd(
            #[inline(always)]
            || {
                let base = x.col_ptr[cols.start];
                for (k, constant) in cols.clone().zip(constants) {
                    let (combination, lines) = tables.feature(k);
                    let factor = feature_factor::<T>(dropout, k);
                    let [_, zero] = lines[combination.piece(T::zero())];
                    *constant = zero * factor;
                    masked.each(k, |first, count, x| {
                        let pieces = combination.pieces_of(x);
                        for lane in 0..count {
                            let [slope, intercept] = lines[pieces[lane] as usize];
                            values[first + lane - base] = (slope * x[lane] + (intercept - zero)) * factor;
                        }
                    });
                }
            },
        );
    });
}

fn sum_up_sparse<T: Real>(
    sums: &mut [[f64; 2]],
    totals: &[T],
    values: &[T],
    tables: &Tables<T>,
    x: &SparseColumns,
    dropout: Option<&Dropout>,
    d: usize,
) {
    let masked = Masked::new(x, dropout, d);
    let stride = tables.stride();
    chunks::each(&x.col_chunks, stride, sums, &|cols, sums| {
        simd(
            #[inline(always)]
            || {
                for (k, sums) in cols.zip(sums.chunks_exact_mut(stride)) {
                    let (combination, _) = tables.feature(k);
                    sums.fill([0.0; 2]);
                    // What the non-zeros do not take belongs to x = 0.
                    let mut rest = totals[k].widen();
                    masked.each(k, |first, count, x| {
                        let pieces = combination.pieces_of(x);
                        for lane in 0..count {
                            let g = values[first + lane].widen();
                            let sum = &mut sums[pieces[lane] as usize];
                            *sum = [sum[0] + g * x[lane].widen(), sum[1] + g];
                            rest -= g;
                        }
                    });
                    sums[combination.piece(T::zero())][1] += rest;
                }
            },
        );
    });
}
