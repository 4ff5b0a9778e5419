//! Class space of a sparse X: F = 1 f(0)^T + S with S on the non-zeros only, so G_t = 1 (f(0)^T W_t) + S W_t, and backward
//! needs column sums of Y_t beside what happens on the non-zeros. Neither F nor dF is ever dense.

use super::{BLOCK, GROUP, JOBS, Scaled, Sizes, load_states};
use crate::device::cpu::element::Element;
use crate::device::cpu::gather::{self, Matrix};
use crate::device::cpu::inputs::SparseColumns;
use crate::device::cpu::{Cpu, chunks};
use crate::real::Real;
use harmonia_graph::simd::simd;
use rayon::prelude::*;

/// Columns multiplied at once.
const LANES: usize = 8;

/// states = 1 base + S W_t for a group of hops.
pub(super) fn multiply<T: Real, S: Element<T>>(
    states: [&mut [S]; GROUP],
    base: &[T],
    x: &SparseColumns,
    values: &[T],
    weights: &[T],
    first: usize,
    sizes: Sizes,
) {
    let Sizes { width, columns, .. } = sizes;
    let span = first..columns.min(first + GROUP * width);
    let base = &base[span.clone()];
    let matrix = Matrix {
        row_ptr: &x.by_rows.row_ptr,
        col_idx: &x.by_rows.col_idx,
        weight: |e: usize| values[x.places[e] as usize],
    };
    chunks::each_of(&x.row_chunks, width, states, &|rows, mut states| {
        simd(
            #[inline(always)]
            || {
                let start = rows.start;
                gather::columns(weights, columns, span.clone(), matrix, rows, |i, first, sums| {
                    for (at, (&sum, &base)) in (first..).zip(sums.iter().zip(&base[first..])) {
                        states[at / width][(i - start) * width + at % width] = S::store(base + sum);
                    }
                });
            },
        );
    });
}

/// sums (d x columns) = S_t of all hops; `responses` turn into d sums over columns of dF, then dF of each non-zero.
#[allow(clippy::too_many_arguments)]
pub(super) fn differentiate<T: Real, S: Element<T>>(
    cpu: &Cpu<T>,
    sums: &mut [T],
    responses: &mut [T],
    x: &SparseColumns,
    states: &[S],
    weights: &[T],
    scaled: Scaled<'_, T>,
    sizes: Sizes,
) {
    let Sizes { rows, features, width, columns, .. } = sizes;
    let (constants, values) = responses.split_at_mut(features);
    let mut d_values = cpu.reals.filled(values.len(), T::zero());
    // As many hops at a time as a gather takes columns.
    let hops = columns / width;
    let group = (gather::MOST_COLUMNS / width).clamp(1, hops);
    let mut loaded = cpu.reals.take(rows * group * width, T::zero());
    for first in (0..hops).step_by(group) {
        let span = first * width..columns.min((first + group) * width);
        let here = span.len();
        let (from, loaded) = (&states[first * rows * width..], &mut loaded[..rows * here]);
        loaded.par_chunks_mut(BLOCK * here).enumerate().for_each(|(block, loaded)| {
            let sizes = Sizes { columns: here, ..sizes };
            let states = &from[..rows * here];
            load_states(loaded, states, block * BLOCK, loaded.len() / here, scaled, sizes);
        });
        let (loaded, values) = (&*loaded, &*values);
        let parts = (&x.col_ptr[..], &mut d_values[..]);
        chunks::each_column(&x.col_chunks, (columns, &mut *sums), parts, &|cols, sums, d_values| {
            simd(
                #[inline(always)]
                || {
                    let matrix = Matrix { row_ptr: &x.offsets, col_idx: &x.rows, weight: |e: usize| values[e] };
                    gather::columns(loaded, here, 0..here, matrix, cols.clone(), |k, at, gathered| {
                        let to = (k - cols.start) * columns + span.start + at;
                        sums[to..][..gathered.len()].copy_from_slice(gathered);
                    });
                    let base = x.col_ptr[cols.start];
                    for k in cols.clone() {
                        let weights = &weights[k * columns..][span.clone()];
                        for e in x.col_ptr[k]..x.col_ptr[k + 1] {
                            d_values[e - base] += dot(&loaded[x.rows[e] as usize * here..][..here], weights);
                        }
                    }
                },
            );
        });
    }
    values.copy_from_slice(&d_values);
    // Column sums of all Y_t: what the constant part of every response meets.
    let mut totals = cpu.reals.take(columns, T::zero());
    column_sums(cpu, &mut totals, states, scaled, sizes);
    let totals = &totals[..];
    for ((constant, sums), weights) in
        constants.iter_mut().zip(sums.chunks_exact_mut(columns)).zip(weights.chunks_exact(columns))
    {
        sums.iter_mut().zip(totals).for_each(|(sum, &total)| *sum += *constant * total);
        *constant = totals.iter().zip(weights).map(|(&total, &weight)| total * weight).sum();
    }
}

/// <state, weights>.
#[inline(always)]
fn dot<T: Real>(state: &[T], weights: &[T]) -> T {
    let mut lanes = [T::zero(); LANES];
    let (states, state_rest) = state.as_chunks::<LANES>();
    let (blocks, weight_rest) = weights.as_chunks::<LANES>();
    for (state, weights) in states.iter().zip(blocks) {
        for lane in 0..LANES {
            lanes[lane] = state[lane].mul_add(weights[lane], lanes[lane]);
        }
    }
    let rest: T = state_rest.iter().zip(weight_rest).map(|(&state, &weight)| state * weight).sum();
    rest + lanes.iter().copied().sum()
}

/// totals (columns) = sums over all rows of Y_t.
fn column_sums<T: Real, S: Element<T>>(
    cpu: &Cpu<T>,
    totals: &mut [T],
    states: &[S],
    scaled: Scaled<'_, T>,
    sizes: Sizes,
) {
    let Sizes { rows, width, columns, .. } = sizes;
    let job_rows = rows.div_ceil(JOBS).max(BLOCK);
    let jobs = rows.div_ceil(job_rows);
    let mut partial = cpu.sums.filled(jobs * columns, 0.0);
    partial.par_chunks_mut(columns).enumerate().for_each(|(job, sums)| {
        let span = job * job_rows..((job + 1) * job_rows).min(rows);
        for (state, sums) in states.chunks_exact(rows * width).zip(sums.chunks_exact_mut(width)) {
            for i in span.clone() {
                let factor = scaled.factor(i);
                let state = &state[i * width..][..width];
                sums.iter_mut().zip(state).for_each(|(sum, state)| *sum += (state.load() * factor).widen());
            }
        }
    });
    for (c, total) in totals.iter_mut().enumerate() {
        *total = T::from_f64(partial[c..].iter().step_by(columns).sum());
    }
}
