//! Random-walk propagation in feature space, streaming: the current state, the next state and the accumulator, nothing
//! else.
//!
//! Forward   H = sum_t theta_t (*) M^t F:          z' = M z,    H += theta_t (*) z'
//! Backward  dF = sum_t theta_t (*) (M^T)^t dH:    y' = M^T y,  dF += theta_t (*) y',  dtheta_t = <F, y'> by column
//!
//! M = D^-1 A is never scaled edge by edge: forward divides the gathered sum by the degree of the target, backward
//! divides the state by the degree of the source before it is gathered. Deterministic: each row is summed in CSR
//! order, column sums over stretches of rows that depend on the graph only. Of a few scored rows, z_t is computed within
//! T - 1 - t steps, y_t within t steps, from what is within t - 1: the same bits as from everything.

use super::chunks::{self, Parts};
use super::element::Element;
use super::gather::{self, Part};
use super::inputs::CpuWalk;
use super::panels::{Panel, Panels, panel_width};
use super::pool::Pool;
use super::walk::{self, within};
use super::{Cpu, CpuInputs, ROW_CHUNK};
use crate::config::States;
use crate::real::Real;
use harmonia_graph::error::Result;
use harmonia_graph::graph::Neighbourhood;
use harmonia_graph::simd::simd;
use rayon::prelude::*;

/// From this many nodes on, panels are taken one after the other: their rows are work enough for all threads.
const MANY_NODES: usize = 1 << 14;

/// A panel to write to, and the same columns of F.
type Pair<'a, T> = (Panel<&'a mut [T]>, Panel<&'a [T]>);

/// H from F.
pub fn forward<T: Real>(
    cpu: &Cpu<T>,
    state: &mut Panels<T>,
    responses: &Panels<T>,
    hop_weights: &[T],
    inputs: &CpuInputs<T>,
    scope: Option<&Neighbourhood>,
) -> Result<()> {
    let walk = inputs.walk()?;
    match cpu.states {
        States::F32 => forward_as(cpu, &cpu.reals, state, responses, hop_weights, walk, scope),
        States::F16 => forward_as(cpu, &cpu.halves, state, responses, hop_weights, walk, scope),
        States::Bf16 => forward_as(cpu, &cpu.bfloats, state, responses, hop_weights, walk, scope),
    }
    Ok(())
}

/// dF in place of dH, and dtheta (T x d).
pub fn backward<T: Real>(
    cpu: &Cpu<T>,
    gradient: &mut Panels<T>,
    d_hop_weights: &mut [T],
    responses: &Panels<T>,
    hop_weights: &[T],
    inputs: &CpuInputs<T>,
    scope: Option<&Neighbourhood>,
) -> Result<()> {
    let walk = inputs.walk()?;
    match cpu.states {
        States::F32 => {
            backward_as(cpu, &cpu.reals, gradient, d_hop_weights, responses, hop_weights, walk, scope, T::one());
        }
        States::F16 => {
            let largest = |panel: Panel<&[T]>| walk::largest_by_degree(panel.data, &walk.inverse_degree, panel.width);
            let scale = walk::half_scale(gradient.panels().map(largest).reduce(T::zero, T::max));
            backward_as(cpu, &cpu.halves, gradient, d_hop_weights, responses, hop_weights, walk, scope, scale);
        }
        States::Bf16 => {
            backward_as(cpu, &cpu.bfloats, gradient, d_hop_weights, responses, hop_weights, walk, scope, T::one());
        }
    }
    Ok(())
}

/// Bytes of states alive at once: one panel per thread, or one at all where there are many nodes.
pub fn scratch_bytes<T>(nodes: usize, features: usize, hops: usize, states: States) -> usize {
    let element = if states == States::F32 { size_of::<T>() } else { states.bytes() };
    // The current state and the next one; the last hop writes none.
    let alive = hops.saturating_sub(1).min(2);
    let width = panel_width::<T>(nodes).min(features);
    let threads = if nodes >= MANY_NODES { 1 } else { rayon::current_num_threads() };
    alive * features.div_ceil(width).min(threads) * nodes * width * element
}

fn forward_as<T: Real, S: Element<T>>(
    cpu: &Cpu<T>,
    pool: &Pool<S>,
    state: &mut Panels<T>,
    responses: &Panels<T>,
    hop_weights: &[T],
    walk: &CpuWalk<T>,
    scope: Option<&Neighbourhood>,
) {
    let d = responses.cols();
    let hops = hop_weights.len() / d;
    let panel = |(out, source): Pair<'_, T>| {
        let Panel { first, width, data: accumulated } = out;
        let theta = |t: usize| &hop_weights[t * d + first..][..width];
        for (out, from) in accumulated.chunks_exact_mut(width).zip(source.data.chunks_exact(width)) {
            out.iter_mut().zip(from).zip(theta(0)).for_each(|((out, &from), &theta)| *out = theta * from);
        }
        if hops == 1 {
            return;
        }
        let mut current = pool.take(accumulated.len(), S::default());
        copy(&mut current, source.data, |_| T::one(), width);
        let mut next = pool.take(if hops > 2 { accumulated.len() } else { 0 }, S::default());
        let (csr, bounds) = walk.matrix();
        for t in 1..hops {
            let theta = theta(t);
            // The last state is only accumulated, never read again.
            let next_width = if t + 1 < hops { width } else { 0 };
            let parts = Parts { a: &mut *accumulated, b: &mut next[..next_width * csr.rows()], c: &mut [(); 0] };
            let at = |bound: usize| [bounds[bound] * width, bounds[bound] * next_width, 0];
            let from = &current[..];
            let part = Part { rows: within(scope, hops - 1 - t), sources: None };
            chunks::split(0..bounds.len() - 1, parts, &at, &|stretch, Parts { a: accumulated, b: next, .. }| {
                simd(
                    #[inline(always)]
                    || {
                        let rows = bounds[stretch]..bounds[stretch + 1];
                        let base = rows.start;
                        gather::rows(&cpu.parts, from, width, csr, part, rows, |i, column, sums| {
                            let (scale, at) = (walk.inverse_degree[i], (i - base) * width + column);
                            let accumulated = &mut accumulated[at..][..sums.len()];
                            for ((to, &sum), &theta) in accumulated.iter_mut().zip(sums).zip(&theta[column..]) {
                                *to += theta * (sum * scale);
                            }
                            if next_width > 0 {
                                let next = next[at..].iter_mut();
                                next.zip(sums).for_each(|(next, &sum)| *next = S::store(sum * scale));
                            }
                        });
                    },
                );
            });
            std::mem::swap(&mut current, &mut next);
        }
    };
    if responses.rows() >= MANY_NODES {
        state.panels_mut_in_order().zip(responses.panels_in_order()).for_each(panel);
    } else {
        state.panels_mut().zip(responses.panels()).for_each(panel);
    }
}

#[allow(clippy::too_many_arguments)]
fn backward_as<T: Real, S: Element<T>>(
    cpu: &Cpu<T>,
    pool: &Pool<S>,
    gradient: &mut Panels<T>,
    d_hop_weights: &mut [T],
    responses: &Panels<T>,
    hop_weights: &[T],
    walk: &CpuWalk<T>,
    scope: Option<&Neighbourhood>,
    scale: T,
) {
    let d = responses.cols();
    let hops = hop_weights.len() / d;
    // dtheta of a panel, T x width, side by side.
    let mut d_theta = cpu.reals.filled(hop_weights.len(), T::zero());
    let panel = |((out, source), d_theta): (Pair<'_, T>, &mut [T])| {
        let Panel { first, width, data: gradient } = out;
        let theta = |t: usize| &hop_weights[t * d + first..][..width];
        // y_0 = dH: its inner products with F, then the scaled state, then the first term of dF.
        column_sums(cpu, &mut d_theta[..width], source.data, gradient);
        let mut current = pool.take(if hops > 1 { gradient.len() } else { 0 }, S::default());
        let mut next = pool.take(if hops > 2 { gradient.len() } else { 0 }, S::default());
        if hops > 1 {
            copy(&mut current, gradient, |i| scale * walk.inverse_degree[i], width);
        }
        for row in gradient.chunks_exact_mut(width) {
            row.iter_mut().zip(theta(0)).for_each(|(value, &theta)| *value *= theta);
        }
        let (csr, bounds) = walk.transposed();
        let stretches = bounds.len() - 1;
        let mut partial = cpu.reals.take(stretches * width, T::zero());
        let unscale = T::one() / scale;
        for t in 1..hops {
            let theta = theta(t);
            let next_width = if t + 1 < hops { width } else { 0 };
            let parts = Parts { a: &mut *gradient, b: &mut next[..next_width * csr.rows()], c: &mut partial[..] };
            let at = |bound: usize| [bounds[bound] * width, bounds[bound] * next_width, bound * width];
            let from = &current[..];
            let part = Part { rows: within(scope, t), sources: within(scope, t - 1) };
            chunks::split(0..stretches, parts, &at, &|stretch, Parts { a: gradient, b: next, c: products }| {
                simd(
                    #[inline(always)]
                    || {
                        products.fill(T::zero());
                        let rows = bounds[stretch]..bounds[stretch + 1];
                        let base = rows.start;
                        gather::rows(&cpu.parts, from, width, csr, part, rows, |j, column, sums| {
                            let at = (j - base) * width + column;
                            let response = &source.data[j * width + column..][..sums.len()];
                            let rows = gradient[at..].iter_mut().zip(&mut products[column..]).zip(response);
                            for (((d, product), &response), (&sum, &theta)) in
                                rows.zip(sums.iter().zip(&theta[column..]))
                            {
                                let sum = sum * unscale;
                                *d += theta * sum;
                                *product += response * sum;
                            }
                            if next_width > 0 {
                                let inverse = walk.inverse_degree[j];
                                let next = next[at..].iter_mut();
                                next.zip(sums).for_each(|(next, &sum)| *next = S::store(sum * inverse));
                            }
                        });
                    },
                );
            });
            let sums = &mut d_theta[t * width..][..width];
            for part in partial.chunks_exact(width) {
                sums.iter_mut().zip(part).for_each(|(sum, &part)| *sum += part);
            }
            std::mem::swap(&mut current, &mut next);
        }
    };
    let size = hops * gradient.width();
    if responses.rows() >= MANY_NODES {
        let panels = gradient.panels_mut_in_order().zip(responses.panels_in_order());
        panels.zip(d_theta.chunks_mut(size)).for_each(panel);
    } else {
        gradient.panels_mut().zip(responses.panels()).zip(d_theta.par_chunks_mut(size)).for_each(panel);
    }
    side_by_side(d_hop_weights, &d_theta, hops, size);
}

/// d_hop_weights (T x d) from those of panels, T x width each; all but the last take `size` numbers.
fn side_by_side<T: Real>(d_hop_weights: &mut [T], panels: &[T], hops: usize, size: usize) {
    let d = d_hop_weights.len() / hops;
    for (p, panel) in panels.chunks(size).enumerate() {
        let first = p * size / hops;
        let width = panel.len() / hops;
        for (t, row) in panel.chunks_exact(width).enumerate() {
            d_hop_weights[t * d + first..][..width].copy_from_slice(row);
        }
    }
}

/// to[i] = from[i] * factor(i), row by row.
fn copy<T: Real, S: Element<T>>(to: &mut [S], from: &[T], factor: impl Fn(usize) -> T + Sync, width: usize) {
    let size = ROW_CHUNK * width;
    (to.par_chunks_mut(size).zip(from.par_chunks(size)).enumerate()).for_each(|(chunk, (to, from))| {
        for (r, (to, from)) in to.chunks_exact_mut(width).zip(from.chunks_exact(width)).enumerate() {
            let factor = factor(chunk * ROW_CHUNK + r);
            to.iter_mut().zip(from).for_each(|(to, &from)| *to = S::store(from * factor));
        }
    });
}

/// <a[:,c], b[:,c]> for every column c.
fn column_sums<T: Real>(cpu: &Cpu<T>, sums: &mut [T], a: &[T], b: &[T]) {
    let width = sums.len();
    let size = ROW_CHUNK * width;
    let mut partial = cpu.reals.filled(a.len().div_ceil(size) * width, T::zero());
    (partial.par_chunks_mut(width).zip(a.par_chunks(size).zip(b.par_chunks(size)))).for_each(|(sums, (a, b))| {
        for (a, b) in a.chunks_exact(width).zip(b.chunks_exact(width)) {
            sums.iter_mut().zip(a).zip(b).for_each(|((sum, &a), &b)| *sum += a * b);
        }
    });
    sums.fill(T::zero());
    for part in partial.chunks_exact(width) {
        sums.iter_mut().zip(part).for_each(|(sum, &part)| *sum += part);
    }
}
