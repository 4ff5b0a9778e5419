//! States from a table of walks: no edge is stepped along.
//!
//! With the responses f_q of the grid's points, delta_q = f_q - f_0, and a cell u of column (t, q) worth low + step u,
//! Forward   H[i,k] = theta_0k F[i,k] + sum_t theta_tk (size_i f_0 + sum_q (low + step u[i,t,q]) delta_q)
//! Backward  S[t,q] = sum_i dH[i,k] (low + step u[i,t,q]), N = sum_i size_i dH[i,k];
//!           dtheta[t,k] = N f_0 + sum_q S[t,q] delta_q, df_q = sum_t theta_tk S[t,q], df_0 = sum_t theta_tk (N - sum_q S[t,q]);
//!           a unit's own response gets theta_0k dH[i,k], and dtheta[0,k] their products with F.
//! Rows of graphs have no response of their own, and columns for t = 0. Where inputs are dropped, f_q stands for
//! (1 - p) f_q + p f(0), see [`crate::batch::TableRows`]. What sampled walks add is in [`super::table_walks`]. Every cell is read once forward and once backward, in order; sums over
//! rows are taken in stretches that depend on sizes only.

use super::panels::Panels;
use super::table_rows::{add_rows, add_scaled, dot, lanes, multiply, request_cells, sum, with_cells};
use super::table_walks::Walks;
use super::{Cpu, CpuInputs, Ops};
use crate::real::Real;
use harmonia_graph::dataset::Level;
use harmonia_graph::error::Result;
use harmonia_graph::simd::simd;
use harmonia_graph::walk_table::{Block, WalkTable, is_interleaved};
use rayon::prelude::*;

/// Rows of a task.
pub(super) const ROWS: usize = 64;
/// Stretches that sums over rows are cut into, at most.
pub(super) const JOBS: usize = 16;
/// Rows that cells are asked for ahead of their turn.
const AHEAD: usize = 16;

/// What the op reads of a batch: a table, its rows, and which rows of F are what.
struct Tabulated<'a, T> {
    table: &'a WalkTable,
    rows: &'a [u32],
    sizes: &'a [T],
    own: usize,
    /// Rows of F before the ends of walks.
    first_end: usize,
    dropped: T,
    d: usize,
}

impl<'a, T: Real> Tabulated<'a, T> {
    fn of(inputs: &'a CpuInputs<T>, d: usize) -> Result<Self> {
        let (table, sizes) = inputs.table()?;
        let dropped = T::from_f64(table.dropped);
        let (own, first_end) = (table.own(), table.first_end());
        Ok(Tabulated { table: &table.table, rows: &table.rows, sizes, own, first_end, dropped, d })
    }

    fn has_own(&self) -> bool {
        self.table.contents.level == Level::Node
    }

    /// The response of feature k at point q, as walks average it.
    fn point(&self, responses: &[T], k: usize, q: usize) -> T {
        let at = |row: usize| responses[(self.own + row) * self.d + k];
        if self.dropped == T::zero() {
            return at(q);
        }
        (T::one() - self.dropped) * at(q) + self.dropped * at(self.table.grid.most())
    }

    /// Per column of each block what a cell counts, per feature what a row counts whatever its cells, once and by its size.
    fn weights(&self, responses: &[T], theta: &[T]) -> (Vec<Vec<T>>, Vec<[T; 2]>) {
        let (grid, first, steps) = (&self.table.grid, self.table.contents.first_hop(), self.table.contents.steps());
        let mut constants = vec![[T::zero(); 2]; self.d];
        let weights = (self.table.blocks().iter())
            .map(|block| {
                let mut weights = vec![T::zero(); block.width()];
                for k in block.features.clone() {
                    let zero = self.point(responses, k, 0);
                    let mut columns = self.table.columns(block, k).iter();
                    for t in 0..steps {
                        let theta = theta[(first + t) * self.d + k];
                        constants[k][1] += theta * zero;
                        for (q, column) in (1..=grid.stored(k)).zip(&mut columns) {
                            let weight = theta * (self.point(responses, k, q) - zero);
                            let [low, step] = block.scales[column].map(T::from_f32);
                            constants[k][0] += weight * low;
                            weights[column] = weight * step;
                        }
                    }
                }
                weights
            })
            .collect();
        (weights, constants)
    }
}

/// H = ...
pub fn forward<T: Ops>(
    _: &Cpu<T>,
    state: &mut Panels<T>,
    responses: &Panels<T>,
    theta: &[T],
    inputs: &CpuInputs<T>,
) -> Result<()> {
    let d = state.cols();
    let tabulated = Tabulated::of(inputs, d)?;
    let responses = responses.as_rows()?;
    let (weights, constants) = tabulated.weights(responses, theta);
    let Tabulated { table, rows, sizes, .. } = tabulated;
    let blocks = table.blocks();
    let ends: Vec<Vec<usize>> = blocks.iter().map(|block| ends(table, block)).collect();
    let weight_lanes: Vec<_> = weights.iter().map(|weights| lanes(weights)).collect();
    (state.as_rows_mut()?.par_chunks_mut(ROWS * d.max(1)).enumerate()).for_each(|(task, out)| {
        let first = task * ROWS;
        simd(
            #[inline(always)]
            || {
                for (at, state) in out.chunks_exact_mut(d).enumerate() {
                    let size = sizes.get(first + at).copied().unwrap_or(T::one());
                    for (k, value) in state.iter_mut().enumerate() {
                        *value = constants[k][0] + size * constants[k][1];
                    }
                    if tabulated.has_own() {
                        let own = &responses[(first + at) * d..][..d];
                        for ((value, &own), &theta) in state.iter_mut().zip(own).zip(theta) {
                            *value += theta * own;
                        }
                    }
                }
                let mut products = vec![T::zero(); weights.iter().map(Vec::len).max().unwrap_or(0)];
                let count = out.len() / d.max(1);
                for (b, ((block, weights), ends)) in blocks.iter().zip(&weights).zip(&ends).enumerate() {
                    let products = &mut products[..block.width()];
                    let interleaved = is_interleaved(&table.grid, &block.features);
                    with_cells!(block, cells => {
                        for (at, state) in out.chunks_exact_mut(d).enumerate() {
                            let row = &cells[rows[first + at] as usize * block.width()..][..block.width()];
                            if interleaved {
                                let ahead = at + AHEAD;
                                let (soon, ahead) = if ahead < count { (b, ahead) } else { (b + 1, ahead - count) };
                                if let (Some(block), Some(&row)) = (blocks.get(soon), rows.get(first + ahead)) {
                                    request_cells(block, row as usize, 0..block.width());
                                }
                                dot(&mut state[block.features.clone()], row, &weight_lanes[b]);
                                continue;
                            }
                            multiply(products, row, weights);
                            let mut start = 0;
                            for (value, &end) in state[block.features.clone()].iter_mut().zip(ends) {
                                *value += sum(&products[start..end]);
                                start = end;
                            }
                        }
                    });
                }
            },
        );
    });
    if let Some(walks) = walks(inputs, d)? {
        walks.forward(state.as_rows_mut()?, responses, theta);
    }
    Ok(())
}

/// What sampled walks add, where the batch has some.
fn walks<T: Real>(inputs: &CpuInputs<T>, d: usize) -> Result<Option<Walks<'_>>> {
    let (table, _) = inputs.table()?;
    Ok(Walks::of(table, inputs.dense_features()?, d))
}

/// dF = ..., dtheta = ...
pub fn backward<T: Ops>(
    _: &Cpu<T>,
    responses: &mut Panels<T>,
    d_theta: &mut [T],
    state: &Panels<T>,
    theta: &[T],
    inputs: &CpuInputs<T>,
) -> Result<()> {
    let d = state.cols();
    let tabulated = Tabulated::of(inputs, d)?;
    let d_state = state.as_rows()?;
    let responses = responses.as_rows_mut()?;
    let sums = Sums::over_rows(&tabulated, responses, d_state);
    // These read F, which is gone afterwards.
    let walked = walks(inputs, d)?.map(|walks| walks.backward(responses, d_state, theta));
    let Tabulated { table, own, dropped, .. } = tabulated;
    let (grid, first, steps) = (&table.grid, table.contents.first_hop(), table.contents.steps());
    let real = T::from_f64;
    let mut d_points = vec![0.0; (tabulated.first_end - own) * d];
    let mut offset = 0;
    for (block, k) in table.blocks().iter().flat_map(|block| block.features.clone().map(move |k| (block, k))) {
        let zero = tabulated.point(responses, k, 0).widen();
        let mut columns = table.columns(block, k).iter();
        for t in 0..steps {
            let theta = theta[(first + t) * d + k].widen();
            let (mut d_theta_t, mut rest) = (sums.sized[k] * zero, sums.sized[k]);
            for (q, column) in (1..=grid.stored(k)).zip(&mut columns) {
                let [low, step] = block.scales[column].map(f64::from);
                let sum = low * sums.plain[k] + step * sums.columns[offset + column];
                d_theta_t += sum * (tabulated.point(responses, k, q).widen() - zero);
                d_points[q * d + k] += theta * sum;
                rest -= sum;
            }
            d_points[k] += theta * rest;
            d_theta[(first + t) * d + k] = real(d_theta_t);
        }
        if k + 1 == block.features.end {
            offset += block.width();
        }
    }
    let (own_rows, points) = responses.split_at_mut(own * d);
    if tabulated.has_own() {
        d_theta[..d].iter_mut().zip(&sums.own).for_each(|(to, &sum)| *to = real(sum));
        own_rows.par_chunks_mut(ROWS * d.max(1)).zip(d_state.par_chunks(ROWS * d.max(1))).for_each(|(rows, d_rows)| {
            for (row, d_row) in rows.chunks_exact_mut(d).zip(d_rows.chunks_exact(d)) {
                row.iter_mut().zip(d_row).zip(theta).for_each(|((to, &d_state), &theta)| *to = theta * d_state);
            }
        });
    }
    if dropped > T::zero() {
        // f_q stood for (1 - p) f_q + p f(0).
        let (points, zeros) = d_points.split_at_mut(grid.most() * d);
        for row in points.chunks_exact_mut(d) {
            for (value, zero) in row.iter_mut().zip(zeros.iter_mut()) {
                *zero += dropped.widen() * *value;
                *value *= 1.0 - dropped.widen();
            }
        }
    }
    if let Some(walked) = walked {
        d_points.iter_mut().zip(&walked.points).for_each(|(to, value)| *to += value);
        for (to, &value) in d_theta[first * d..].iter_mut().zip(&walked.hop_weights) {
            *to += real(value);
        }
    }
    points.iter_mut().zip(&d_points).for_each(|(to, &value)| *to = real(value));
    Ok(())
}

/// Sums over the rows of a batch.
struct Sums {
    /// Of dH times cell, columns of all blocks in order.
    columns: Vec<f64>,
    /// Of dH, per feature.
    plain: Vec<f64>,
    /// The same, with the sizes of graphs as weights.
    sized: Vec<f64>,
    /// Of dH times F, per feature; zero without rows of their own.
    own: Vec<f64>,
}

impl Sums {
    fn zeros(table: &WalkTable, d: usize) -> Sums {
        Sums { columns: vec![0.0; table.width()], plain: vec![0.0; d], sized: vec![0.0; d], own: vec![0.0; d] }
    }

    fn over_rows<T: Real>(tabulated: &Tabulated<'_, T>, responses: &[T], d_state: &[T]) -> Sums {
        let (table, d) = (tabulated.table, tabulated.d);
        let rows = tabulated.rows.len();
        let job_rows = rows.div_ceil(ROWS).div_ceil(JOBS).max(1) * ROWS;
        let parts: Vec<Sums> = (0..rows.div_ceil(job_rows))
            .into_par_iter()
            .map(|job| {
                let mut sums = Sums::zeros(table, d);
                for first in (job * job_rows..((job + 1) * job_rows).min(rows)).step_by(ROWS) {
                    sums.add(tabulated, responses, d_state, first..(first + ROWS).min(rows));
                }
                sums
            })
            .collect();
        let mut total = Sums::zeros(table, d);
        let add = |to: &mut [f64], from: &[f64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        for part in &parts {
            add(&mut total.columns, &part.columns);
            add(&mut total.plain, &part.plain);
            add(&mut total.sized, &part.sized);
            add(&mut total.own, &part.own);
        }
        total
    }

    /// Some rows: columns are summed as `T` among them, then widened.
    fn add<T: Real>(&mut self, from: &Tabulated<'_, T>, responses: &[T], d_state: &[T], span: std::ops::Range<usize>) {
        let Tabulated { table, rows, sizes, d, .. } = *from;
        let has_own = from.has_own();
        simd(
            #[inline(always)]
            || {
                let mut columns = vec![T::zero(); table.blocks().iter().map(Block::width).max().unwrap_or(0)];
                for i in span.clone() {
                    let size = sizes.get(i).map_or(1.0, |size| size.widen());
                    let d_row = &d_state[i * d..][..d];
                    for ((plain, sized), value) in self.plain.iter_mut().zip(&mut self.sized).zip(d_row) {
                        *plain += value.widen();
                        *sized += size * value.widen();
                    }
                    if has_own {
                        let own = &responses[i * d..][..d];
                        for ((sum, value), own) in self.own.iter_mut().zip(d_row).zip(own) {
                            *sum += value.widen() * own.widen();
                        }
                    }
                }
                let mut offset = 0;
                let blocks = table.blocks();
                for (b, block) in blocks.iter().enumerate() {
                    let width = block.width();
                    let (columns, ends) = (&mut columns[..width], ends(table, block));
                    columns.fill(T::zero());
                    let interleaved = is_interleaved(&table.grid, &block.features);
                    with_cells!(block, cells => {
                        if interleaved {
                            let row = |i: usize| &cells[rows[i] as usize * width..][..width];
                            let d_row = |i: usize| &d_state[i * d..][..d][block.features.clone()];
                            let (next, ahead) = blocks.get(b + 1).map_or((&blocks[0], span.len()), |next| (next, 0));
                            let soon = |i: usize, columns| {
                                if let Some(&row) = rows.get(i + ahead) {
                                    request_cells(next, row as usize, columns);
                                }
                            };
                            add_rows(columns, span.clone(), row, d_row, soon);
                        }
                        for i in span.clone().filter(|_| !interleaved) {
                            let row = &cells[rows[i] as usize * width..][..width];
                            let d_row = &d_state[i * d..][..d][block.features.clone()];
                            let mut start = 0;
                            for (&d_value, &end) in d_row.iter().zip(&ends) {
                                add_scaled(&mut columns[start..end], d_value, &row[start..end]);
                                start = end;
                            }
                        }
                    });
                    for (sum, column) in self.columns[offset..offset + width].iter_mut().zip(columns.iter()) {
                        *sum += column.widen();
                    }
                    offset += width;
                }
            },
        );
    }
}

/// Where the columns of each feature of a block end, as long as they lie side by side.
fn ends(table: &WalkTable, block: &Block) -> Vec<usize> {
    block.features.clone().map(|k| table.columns(block, k)).map(|columns| columns.first + columns.count).collect()
}
