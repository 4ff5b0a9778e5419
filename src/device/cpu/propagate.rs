//! Random-walk propagation, streaming: the current state, the next state and the accumulator, nothing else.
//!
//! Forward   H = sum_t theta_t (*) M^t F:          z' = M z,    H += theta_t (*) z'
//! Backward  dF = sum_t theta_t (*) (M^T)^t dH:    y' = M^T y,  dF += theta_t (*) y',  dtheta_t = <F, y'> by column
//!
//! M = D^-1 A is never scaled edge by edge: forward divides the gathered sum by the degree of the target, backward
//! divides the state by the degree of the source before it is gathered. Deterministic: each row is summed in CSR
//! order, column sums over fixed chunks of rows.

use super::panels::{Panel, Panels, panel_width};
use super::{CpuInputs, ROW_CHUNK, simd};
use crate::device::Real;
use crate::graph::Csr;
use rayon::prelude::*;

/// H from F.
pub fn forward<T: Real>(state: &mut Panels<T>, responses: &Panels<T>, hop_weights: &[T], inputs: &CpuInputs<T>) {
    let d = responses.cols();
    let matrix = inputs.transition.matrix();
    state.panels_mut().zip(responses.panels()).for_each(|(out, source)| {
        let Panel { first, width, data: accumulated } = out;
        let theta = |t: usize| &hop_weights[t * d + first..][..width];
        let hops = hop_weights.len() / d;
        scaled_copy(accumulated, source.data, theta(0));
        let mut current = Vec::new();
        for t in 1..hops {
            let theta = theta(t);
            let from = if t == 1 { source.data } else { &current[..] };
            // The last state is only accumulated, never read again.
            let mut next = vec![T::zero(); if t + 1 < hops { accumulated.len() } else { 0 }];
            row_chunks(width, accumulated, &mut next).for_each(|(chunk, accumulated, mut next)| {
                simd(
                    #[inline(always)]
                    || {
                        let mut row = vec![T::zero(); width];
                        for (r, accumulated) in accumulated.chunks_exact_mut(width).enumerate() {
                            let i = chunk * ROW_CHUNK + r;
                            gather(&mut row, from, matrix, i);
                            let scale = inputs.inverse_degree[i];
                            row.iter_mut().for_each(|value| *value *= scale);
                            add_products(accumulated, theta, &row);
                            if let Some(next) = &mut next {
                                next[r * width..][..width].copy_from_slice(&row);
                            }
                        }
                    },
                );
            });
            current = next;
        }
    });
}

/// dF in place of dH, and dtheta (T x d).
pub fn backward<T: Real>(
    gradient: &mut Panels<T>,
    d_hop_weights: &mut [T],
    responses: &Panels<T>,
    hop_weights: &[T],
    inputs: &CpuInputs<T>,
) {
    let d = responses.cols();
    let hops = hop_weights.len() / d;
    let transposed = inputs.transition.transposed();
    let d_theta: Vec<(usize, Vec<Vec<T>>)> = (gradient.panels_mut().zip(responses.panels()))
        .map(|(out, source)| {
            let Panel { first, width, data: gradient } = out;
            let theta = |t: usize| &hop_weights[t * d + first..][..width];
            let mut d_theta = Vec::with_capacity(hops);
            // y_0 = dH: its inner products with F, then the scaled state, then the first term of dF.
            d_theta.push(column_sums(width, source.data, gradient));
            let mut current = Vec::with_capacity(if hops > 1 { gradient.len() } else { 0 });
            if hops > 1 {
                for (row, &scale) in gradient.chunks_exact(width).zip(&inputs.inverse_degree) {
                    current.extend(row.iter().map(|&value| value * scale));
                }
            }
            for row in gradient.chunks_exact_mut(width) {
                row.iter_mut().zip(theta(0)).for_each(|(value, &theta)| *value *= theta);
            }
            for t in 1..hops {
                let theta = theta(t);
                let mut next = vec![T::zero(); if t + 1 < hops { gradient.len() } else { 0 }];
                let partial: Vec<Vec<T>> = row_chunks(width, gradient, &mut next)
                    .map(|(chunk, gradient, mut next)| {
                        simd(
                            #[inline(always)]
                            || {
                                let mut row = vec![T::zero(); width];
                                let mut sums = vec![T::zero(); width];
                                for (r, gradient) in gradient.chunks_exact_mut(width).enumerate() {
                                    let j = chunk * ROW_CHUNK + r;
                                    gather(&mut row, &current, transposed, j);
                                    let response = &source.data[j * width..][..width];
                                    add_products(gradient, theta, &row);
                                    add_products(&mut sums, response, &row);
                                    if let Some(next) = &mut next {
                                        let scale = inputs.inverse_degree[j];
                                        let next = &mut next[r * width..][..width];
                                        next.iter_mut().zip(&row).for_each(|(next, &value)| *next = value * scale);
                                    }
                                }
                                sums
                            },
                        )
                    })
                    .collect();
                d_theta.push(add_up(width, &partial));
                current = next;
            }
            (first, d_theta)
        })
        .collect();
    for (first, rows) in d_theta {
        for (t, row) in rows.iter().enumerate() {
            d_hop_weights[t * d + first..][..row.len()].copy_from_slice(row);
        }
    }
}

/// Bytes of states alive at once: one panel a thread.
pub fn scratch_bytes<T>(nodes: usize, features: usize, hops: usize) -> usize {
    // The current state and the next one; the last hop writes none.
    let states = hops.saturating_sub(1).min(2);
    let width = panel_width::<T>(nodes).min(features);
    let panels = features.div_ceil(width).min(rayon::current_num_threads());
    states * panels * nodes * width * size_of::<T>()
}

/// Fixed chunks of rows of the accumulator with the same rows of the next state (`None` where there is none).
fn row_chunks<'a, T: Real>(
    width: usize,
    accumulated: &'a mut [T],
    next: &'a mut [T],
) -> impl IndexedParallelIterator<Item = (usize, &'a mut [T], Option<&'a mut [T]>)> {
    let size = ROW_CHUNK * width;
    let chunks = accumulated.len().div_ceil(size);
    let mut parts: Vec<Option<&mut [T]>> = next.chunks_mut(size).map(Some).collect();
    parts.resize_with(chunks, || None);
    (accumulated.par_chunks_mut(size).zip(parts).enumerate()).map(|(chunk, (rows, next))| (chunk, rows, next))
}

/// row = sum over the entries of CSR row i of weight * from[column].
#[inline(always)]
fn gather<T: Real>(row: &mut [T], from: &[T], csr: &Csr, i: usize) {
    match row.len() {
        32.. => gather_lanes::<T, 32>(row, from, csr, i),
        16.. => gather_lanes::<T, 16>(row, from, csr, i),
        8.. => gather_lanes::<T, 8>(row, from, csr, i),
        4.. => gather_lanes::<T, 4>(row, from, csr, i),
        2.. => gather_lanes::<T, 2>(row, from, csr, i),
        _ => gather_lanes::<T, 1>(row, from, csr, i),
    }
}

/// The same, `LANES` columns in registers at a time. The last block overlaps the one before it instead of leaving a
/// remainder: summing a column twice gives the same sum twice.
#[inline(always)]
fn gather_lanes<T: Real, const LANES: usize>(row: &mut [T], from: &[T], csr: &Csr, i: usize) {
    let entries = csr.row(i);
    let columns = &csr.col_idx[entries.clone()];
    let weights = csr.weights.as_ref().map(|weights| &weights[entries]);
    let width = row.len();
    for block in 0..width.div_ceil(LANES) {
        let offset = (block * LANES).min(width - LANES);
        let mut sum = [T::zero(); LANES];
        match weights {
            None => {
                for &j in columns {
                    let values = &from[j as usize * width + offset..][..LANES];
                    for lane in 0..LANES {
                        sum[lane] += values[lane];
                    }
                }
            }
            Some(weights) => {
                for (&j, &weight) in columns.iter().zip(weights) {
                    let values = &from[j as usize * width + offset..][..LANES];
                    let weight = T::from_f32(weight);
                    for lane in 0..LANES {
                        sum[lane] += weight * values[lane];
                    }
                }
            }
        }
        row[offset..][..LANES].copy_from_slice(&sum);
    }
}

/// sum[c] += a[c] * b[c].
#[inline(always)]
fn add_products<T: Real>(sum: &mut [T], a: &[T], b: &[T]) {
    sum.iter_mut().zip(a).zip(b).for_each(|((sum, &a), &b)| *sum += a * b);
}

fn scaled_copy<T: Real>(out: &mut [T], from: &[T], theta: &[T]) {
    for (out, from) in out.chunks_exact_mut(theta.len()).zip(from.chunks_exact(theta.len())) {
        out.iter_mut().zip(from).zip(theta).for_each(|((out, &from), &theta)| *out = theta * from);
    }
}

/// <a[:,c], b[:,c]> for every column c.
fn column_sums<T: Real>(width: usize, a: &[T], b: &[T]) -> Vec<T> {
    let size = ROW_CHUNK * width;
    let partial: Vec<Vec<T>> = (a.par_chunks(size).zip(b.par_chunks(size)))
        .map(|(a, b)| {
            let mut sums = vec![T::zero(); width];
            for (a, b) in a.chunks_exact(width).zip(b.chunks_exact(width)) {
                add_products(&mut sums, a, b);
            }
            sums
        })
        .collect();
    add_up(width, &partial)
}

fn add_up<T: Real>(width: usize, partial: &[Vec<T>]) -> Vec<T> {
    let mut total = vec![T::zero(); width];
    for part in partial {
        total.iter_mut().zip(part).for_each(|(total, &part)| *total += part);
    }
    total
}
