//! Class space: logits from the states of all hops, and back.
//!
//! Forward   Horner: A_{T-1} = G_{T-1}, A_t = G_t + M A_{t+1}, logits = beta + A_0
//! Backward  Y_0 = dlogits, Y_{t+1} = M^T Y_t. Kept is Z_t = D^-1 Y_t, because Z_{t+1} = D^-1 A^T Z_t is a step like that of
//!           the forward pass: gathered, then divided by the degree of the row. Whoever reads Y_t multiplies by the degree.
//! A graph task has no walk but weights: logits = beta + sum_j sum_t v_t[j] G_t[j], Y_t[j] = v_t[j] dlogits of its graph.
//! Where responses reach targets otherwise than by walks, `shells`, `filter` and `pairs` do the same; where processes have nodes of
//! their own, `shared_walk`.
//! dbeta = column sums of dlogits. Deterministic: every row is summed in the order of its entries.
//! Where few rows are scored, A_t is computed within t steps of them only, and Y_t, zero elsewhere, summed from those within
//! t - 1 steps: the same bits as from everything.

use super::element::Element;
use super::gather::{self, Part};
use super::hops::{Hops, with_states};
use super::inputs::{CpuReach, CpuWalk};
use super::{Cpu, CpuInputs, ROW_CHUNK, chunks, filter, pairs, shared_walk, shells};
use crate::architecture::{Layout, Spread};
use crate::device::no_walk;
use crate::real::Real;
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Neighbourhood, RowSet};
use harmonia_graph::simd::simd;
use rayon::prelude::*;

/// Size the largest stored gradient is brought to in IEEE half precision; from hop to hop it can only shrink.
const HALF_SIZE: f64 = 16384.0;
/// Graphs a task handles at least.
const GRAPHS: usize = 8;

/// logits = ...; the states are gone.
pub fn forward<T: Real>(
    cpu: &Cpu<T>,
    logits: &mut [T],
    hops: &mut Hops<T>,
    parameters: &[T],
    inputs: &CpuInputs<T>,
    scope: Option<&Neighbourhood>,
    layout: &Layout,
) -> Result<()> {
    let bias = &layout.intercept_in(parameters)[..];
    match layout.architecture.spread() {
        Spread::Walks | Spread::Itself => {}
        Spread::Shells => return shells::forward(logits, hops, parameters, inputs, scope, layout),
        Spread::Filter => return filter::forward(logits, hops, parameters, inputs, layout),
        Spread::Pairs => return pairs::forward(logits, hops, parameters, inputs, scope, layout),
    }
    if let CpuReach::Walk(walk) = &inputs.reach
        && let Some(halo) = &walk.halo
    {
        return shared_walk::forward(cpu, logits, hops, bias, walk, halo);
    }
    let (rows, width, count) = (hops.rows, hops.width, hops.hops);
    with_states!(&mut hops.states, states => match &inputs.reach {
        CpuReach::Walk(walk) => horner(cpu, logits, states, width, bias, walk, scope),
        CpuReach::Weights(weights) => weighted_sums(logits, states, [rows, width, count], bias, weights, &inputs.graph_ptr),
        CpuReach::Table(..) => return Err(no_walk()),
    });
    Ok(())
}

/// The states hold Y_t, or Z_t where there is a walk, times `hops.scale`; dbeta += ...
pub fn backward<T: Real>(
    cpu: &Cpu<T>,
    gradient: &mut [T],
    hops: &mut Hops<T>,
    d_logits: &[T],
    inputs: &CpuInputs<T>,
    scope: Option<&Neighbourhood>,
    layout: &Layout,
) -> Result<()> {
    let outputs = layout.architecture.outputs;
    let mut partial = cpu.sums.filled(d_logits.len().div_ceil(outputs * ROW_CHUNK) * outputs, 0.0);
    (partial.par_chunks_mut(outputs).zip(d_logits.par_chunks(outputs * ROW_CHUNK))).for_each(|(sums, rows)| {
        for row in rows.chunks_exact(outputs) {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value.widen());
        }
    });
    for (class, sum) in gradient[layout.readout_bias.clone()].iter_mut().enumerate() {
        *sum += T::from_f64(partial[class..].iter().step_by(outputs).sum());
    }
    match layout.architecture.spread() {
        Spread::Walks | Spread::Itself => {}
        Spread::Shells => return shells::backward(gradient, hops, d_logits, inputs, layout),
        Spread::Filter => return filter::backward(gradient, hops, d_logits, inputs, layout),
        Spread::Pairs => return pairs::backward(gradient, hops, d_logits, inputs, layout),
    }
    if let CpuReach::Walk(walk) = &inputs.reach
        && let Some(halo) = &walk.halo
    {
        return shared_walk::backward(cpu, hops, d_logits, outputs, walk, halo);
    }
    let is_half = matches!(hops.states, super::hops::Stored::F16(_));
    hops.scale = match &inputs.reach {
        _ if !is_half => T::one(),
        CpuReach::Walk(walk) => half_scale(largest_by_degree(d_logits, &walk.inverse_degree, outputs)),
        CpuReach::Weights(weights) => half_scale(largest(d_logits) * weights.iter().copied().fold(T::one(), T::max)),
        CpuReach::Table(..) => return Err(no_walk()),
    };
    let (rows, width, count, scale) = (hops.rows, hops.width, hops.hops, hops.scale);
    with_states!(&mut hops.states, states => match &inputs.reach {
        CpuReach::Walk(walk) => {
            let (first, mut rest) = states.split_at_mut(rows * width);
            let start = first.par_chunks_mut(width * ROW_CHUNK).zip(d_logits.par_chunks(outputs * ROW_CHUNK));
            start.zip(walk.inverse_degree.par_chunks(ROW_CHUNK)).for_each(|((states, d_logits), inverse)| {
                let rows = states.chunks_exact_mut(width).zip(d_logits.chunks_exact(outputs));
                for ((state, d_row), &inverse) in rows.zip(inverse) {
                    let scale = scale * inverse;
                    state.iter_mut().zip(d_row).for_each(|(to, &d)| *to = Element::store(d * scale));
                }
            });
            let mut from = &*first;
            for t in 1..count {
                let (next, others) = rest.split_at_mut(rows * width);
                let part = Part { rows: within(scope, t), sources: within(scope, t - 1) };
                step(cpu, next, from, width, walk, part);
                (from, rest) = (&*next, others);
            }
        }
        CpuReach::Weights(weights) => {
            for (t, state) in states.chunks_exact_mut(rows * width).enumerate() {
                for (d_row, range) in d_logits.chunks_exact(outputs).zip(inputs.graph_ptr.windows(2)) {
                    let state = &mut state[range[0] * width..range[1] * width];
                    for (state, v) in state.chunks_exact_mut(width).zip(weights[range[0] * count..].chunks_exact(count)) {
                        let v = v[t] * scale;
                        state.iter_mut().zip(d_row).for_each(|(to, &d)| *to = Element::store(d * v));
                    }
                }
            }
        }
        CpuReach::Table(..) => return Err(no_walk()),
    });
    Ok(())
}

/// The power of two that brings the largest of what is stored to about [`HALF_SIZE`].
pub fn half_scale<T: Real>(largest: T) -> T {
    let exponent = (HALF_SIZE / largest.widen()).log2().floor();
    T::from_f64(if exponent.is_finite() { exponent.clamp(-100.0, 100.0).exp2() } else { 1.0 })
}

/// Largest |value|.
fn largest<T: Real>(values: &[T]) -> T {
    values.par_iter().with_min_len(ROW_CHUNK).map(|value| value.abs()).reduce(T::zero, T::max)
}

/// Largest |value / degree of its row| of rows of `width`: Z_t = D^-1 Y_t is what is stored, and degrees of weighted edges
/// may be far below one.
pub fn largest_by_degree<T: Real>(values: &[T], inverse_degree: &[T], width: usize) -> T {
    let rows = values.par_chunks(width * ROW_CHUNK).zip(inverse_degree.par_chunks(ROW_CHUNK));
    let chunk = |(values, inverse): (&[T], &[T])| {
        let row = |row: &[T]| row.iter().fold(T::zero(), |largest, value| largest.max(value.abs()));
        values
            .chunks_exact(width)
            .zip(inverse)
            .fold(T::zero(), |largest, (values, &inverse)| largest.max(row(values) * inverse))
    };
    rows.map(chunk).reduce(T::zero, T::max)
}

/// The rows within so many steps of those that are scored; none stands for all.
pub fn within(scope: Option<&Neighbourhood>, steps: usize) -> Option<&RowSet> {
    scope.and_then(|scope| scope.within(steps))
}

/// A_t = G_t + M A_{t+1} in place, hop by hop; the last hop writes the logits.
fn horner<T: Real, S: Element<T>>(
    cpu: &Cpu<T>,
    logits: &mut [T],
    states: &mut [S],
    width: usize,
    bias: &[T],
    walk: &CpuWalk<T>,
    scope: Option<&Neighbourhood>,
) {
    let outputs = bias.len();
    let (csr, bounds) = walk.matrix();
    let inverse_degree = &walk.inverse_degree[..];
    let computed = |t: usize| Part { rows: within(scope, t), sources: None };
    let size = csr.rows() * width;
    let hops = states.len() / size.max(1);
    for t in (1..hops.saturating_sub(1)).rev() {
        let (before, from) = states.split_at_mut((t + 1) * size);
        let from = &from[..size];
        chunks::each(bounds, width, &mut before[t * size..], &|rows, out| {
            simd(
                #[inline(always)]
                || {
                    let base = rows.start;
                    gather::rows(&cpu.parts, from, width, csr, computed(t), rows, |i, first, sums| {
                        let scale = inverse_degree[i];
                        let out = &mut out[(i - base) * width + first..][..sums.len()];
                        out.iter_mut().zip(sums).for_each(|(out, &sum)| *out = S::store(out.load() + sum * scale));
                    });
                },
            );
        });
    }
    let (first, rest) = states.split_at_mut(size);
    let from = &rest[..size.min(rest.len())];
    chunks::each(bounds, outputs, logits, &|rows, out| {
        simd(
            #[inline(always)]
            || {
                let base = rows.start;
                for (i, out) in rows.clone().zip(out.chunks_exact_mut(outputs)) {
                    if computed(0).rows.is_some_and(|rows| !rows.contains(i)) {
                        continue;
                    }
                    let state = &first[i * width..][..outputs];
                    out.iter_mut().zip(bias).zip(state).for_each(|((out, &bias), state)| *out = bias + state.load());
                }
                if from.is_empty() {
                    return;
                }
                gather::rows(&cpu.parts, from, width, csr, computed(0), rows, |i, first, sums| {
                    let scale = inverse_degree[i];
                    let end = outputs.min(first + sums.len());
                    let out = &mut out[(i - base) * outputs..][first..end.max(first)];
                    out.iter_mut().zip(sums).for_each(|(out, &sum)| *out += sum * scale);
                });
            },
        );
    });
}

/// next = D^-1 A' from; rows that are left out are zero.
fn step<T: Real, S: Element<T>>(
    cpu: &Cpu<T>,
    next: &mut [S],
    from: &[S],
    width: usize,
    walk: &CpuWalk<T>,
    part: Part<'_>,
) {
    let (csr, bounds) = walk.transposed();
    let inverse_degree = &walk.inverse_degree[..];
    chunks::each(bounds, width, next, &|rows, out| {
        simd(
            #[inline(always)]
            || {
                let base = rows.start;
                if part.rows.is_some() {
                    out.fill(S::default());
                }
                gather::rows(&cpu.parts, from, width, csr, part, rows, |i, first, sums| {
                    let scale = inverse_degree[i];
                    let out = &mut out[(i - base) * width + first..][..sums.len()];
                    out.iter_mut().zip(sums).for_each(|(out, &sum)| *out = S::store(sum * scale));
                });
            },
        );
    });
}

/// logits = beta + sum over the nodes of a graph and all hops of v_t G_t.
fn weighted_sums<T: Real, S: Element<T>>(
    logits: &mut [T],
    states: &[S],
    [nodes, width, hops]: [usize; 3],
    bias: &[T],
    weights: &[T],
    graph_ptr: &[usize],
) {
    let graphs = logits.par_chunks_exact_mut(bias.len()).zip(graph_ptr.par_windows(2)).with_min_len(GRAPHS);
    graphs.for_each(|(row, range)| {
        row.copy_from_slice(bias);
        for t in 0..hops {
            let state = &states[(t * nodes + range[0]) * width..(t * nodes + range[1]) * width];
            for (state, v) in state.chunks_exact(width).zip(weights[range[0] * hops..].chunks_exact(hops)) {
                row.iter_mut().zip(state).for_each(|(sum, state)| *sum += v[t] * state.load());
            }
        }
    });
}
