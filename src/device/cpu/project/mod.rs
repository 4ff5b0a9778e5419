//! Class space: from responses to the states of all hops, and back.
//!
//! Forward   G_t = F (theta_t (*) Wo)
//! Backward  S_t = F^T Y_t: dWo += sum_t theta_t (*) S_t, dtheta[t,k] = <Wo[k,:], S_t[k,:]>; dF = sum_t Y_t (theta_t (*) Wo)^T
//! The weights of all hops side by side are one matrix W, d x (T width), and so are the S_t.
//! What differs where X is sparse is in `sparse`.
//! Deterministic: sums over rows are taken in stretches that depend on sizes only.

mod sparse;

use super::element::Element;
use super::hops::{Hops, padded, with_states};
use super::inputs::{CpuReach, InputFeatures};
use super::{Cpu, CpuInputs, Ops, chunks};
use crate::architecture::Layout;
use crate::device::gemm::{View, gemm};
use crate::device::{Responses, mixed_forms};
use crate::real::Real;
use harmonia_graph::error::Result;
use harmonia_graph::simd::simd;
use rayon::prelude::*;

/// Rows multiplied at a time: their responses and states stay in a core's cache.
const BLOCK: usize = 256;
/// Hops multiplied at once.
const GROUP: usize = 8;
/// Stretches that sums over rows are cut into, at most.
const JOBS: usize = 32;

/// G_t = ...
pub fn forward<T: Ops>(
    cpu: &Cpu<T>,
    hops: &mut Hops<T>,
    responses: &Responses<Cpu<T>>,
    hop_weights: &[T],
    parameters: &[T],
    inputs: &CpuInputs<T>,
    layout: &Layout,
) -> Result<()> {
    let sizes = Sizes::new(hops, layout);
    let mut weights = cpu.reals.take(sizes.features * sizes.columns, T::zero());
    fill_weights(&mut weights, hop_weights, &layout.readout_in(parameters), sizes);
    let weights = &weights[..];
    match responses {
        Responses::Dense(responses) => {
            let responses = responses.as_rows()?;
            with_states!(&mut hops.states, states => {
                each_group(states, sizes, |first, group| multiply(cpu, group, responses, weights, first, sizes));
            });
        }
        Responses::Sparse(responses) => {
            let (constants, values) = responses.split_at(sizes.features);
            let InputFeatures::Sparse(x) = &inputs.features else { return Err(mixed_forms()) };
            let mut base = cpu.reals.filled(sizes.columns, T::zero());
            for (&constant, row) in constants.iter().zip(weights.chunks_exact(sizes.columns)) {
                base.iter_mut().zip(row).for_each(|(sum, &weight)| *sum += constant * weight);
            }
            let base = &base[..];
            with_states!(&mut hops.states, states => {
                each_group(states, sizes, |first, group| sparse::multiply(group, base, x, values, weights, first, sizes));
            });
        }
    }
    Ok(())
}

/// Calls `work(first column of W, states)` for every [`GROUP`] of hops; those that are not there are empty.
fn each_group<S>(states: &mut [S], sizes: Sizes, mut work: impl FnMut(usize, [&mut [S]; GROUP])) {
    let size = sizes.rows * sizes.width;
    for (at, group) in states.chunks_mut((GROUP * size).max(1)).enumerate() {
        let mut matrices = group.chunks_mut(size.max(1));
        work(at * GROUP * sizes.width, [(); GROUP].map(|()| matrices.next().unwrap_or_default()));
    }
}

/// Responses turn into their gradient; dWo += ..., dtheta = ...
#[allow(clippy::too_many_arguments)]
pub fn backward<T: Ops>(
    cpu: &Cpu<T>,
    gradient: &mut [T],
    d_hop_weights: &mut [T],
    responses: &mut Responses<Cpu<T>>,
    hops: &Hops<T>,
    hop_weights: &[T],
    parameters: &[T],
    inputs: &CpuInputs<T>,
    layout: &Layout,
) -> Result<()> {
    let sizes = Sizes::new(hops, layout);
    let readout = &layout.readout_in(parameters)[..];
    let mut weights = cpu.reals.take(sizes.features * sizes.columns, T::zero());
    fill_weights(&mut weights, hop_weights, readout, sizes);
    let scaled = Scaled { unscale: T::one() / hops.scale, inputs };
    let mut sums = cpu.reals.take(sizes.features * sizes.columns, T::zero());
    match responses {
        Responses::Dense(responses) => {
            let responses = responses.as_rows_mut()?;
            let cost = T::from_f64(2.0 * layout.output_penalty / (sizes.rows * sizes.features) as f64);
            with_states!(&hops.states, states => {
                differentiate(cpu, &mut sums, responses, states, &weights, scaled, cost, sizes);
            });
        }
        Responses::Sparse(responses) => {
            let InputFeatures::Sparse(x) = &inputs.features else { return Err(mixed_forms()) };
            with_states!(&hops.states, states => {
                sparse::differentiate(cpu, &mut sums, responses, x, states, &weights, scaled, sizes);
            });
        }
    }
    // Nobody learns how copies of columns belong to classes, or what the only walk counts.
    if layout.readout_weight.is_empty() {
        return Ok(());
    }
    let d_readout = &mut gradient[layout.readout_weight.clone()];
    let outputs = sizes.outputs;
    for (k, sums) in sums.chunks_exact(sizes.columns).enumerate() {
        let (d_row, row) = (&mut d_readout[k * outputs..][..outputs], &readout[k * outputs..][..outputs]);
        for (t, sums) in sums.chunks_exact(sizes.width).enumerate() {
            let at = t * sizes.features + k;
            let theta = hop_weights[at];
            d_row.iter_mut().zip(sums).for_each(|(d, &sum)| *d += theta * sum);
            d_hop_weights[at] = row.iter().zip(sums).map(|(&weight, &sum)| weight * sum).sum();
        }
    }
    Ok(())
}

/// Bytes of working memory, at most: W, the S_t, and their parts.
pub fn scratch_bytes<T>(nodes: usize, layout: &Layout) -> usize {
    let a = &layout.architecture;
    let columns = a.hops * padded(a.outputs);
    let blocks = rayon::current_num_threads() * BLOCK * columns;
    ((2 + nodes.div_ceil(BLOCK).min(JOBS)) * a.features * columns + blocks) * size_of::<T>()
}

#[derive(Clone, Copy)]
struct Sizes {
    /// n.
    rows: usize,
    /// d.
    features: usize,
    /// L.
    outputs: usize,
    /// L, padded.
    width: usize,
    /// T width.
    columns: usize,
}

impl Sizes {
    fn new<T>(hops: &Hops<T>, layout: &Layout) -> Self {
        Sizes {
            rows: hops.rows,
            features: layout.architecture.features,
            outputs: layout.architecture.outputs,
            width: hops.width,
            columns: hops.hops * hops.width,
        }
    }
}

/// What turns stored states into Y_t.
#[derive(Clone, Copy)]
struct Scaled<'a, T> {
    unscale: T,
    inputs: &'a CpuInputs<T>,
}

impl<T: Real> Scaled<'_, T> {
    /// Factor on row i.
    #[inline(always)]
    fn factor(&self, i: usize) -> T {
        match &self.inputs.reach {
            CpuReach::Walk(walk) => self.unscale * T::from_f64(walk.degree()[i]),
            CpuReach::Weights(_) | CpuReach::Table(..) => self.unscale,
        }
    }
}

/// `W[k, t width + class]` = theta[t,k] Wo[k,class]; zero where padded.
fn fill_weights<T: Real>(weights: &mut [T], hop_weights: &[T], readout: &[T], sizes: Sizes) {
    weights.par_chunks_mut(sizes.columns).with_min_len(BLOCK).enumerate().for_each(|(k, row)| {
        let readout = &readout[k * sizes.outputs..][..sizes.outputs];
        for (t, row) in row.chunks_exact_mut(sizes.width).enumerate() {
            let theta = hop_weights[t * sizes.features + k];
            let (used, padding) = row.split_at_mut(sizes.outputs);
            used.iter_mut().zip(readout).for_each(|(to, &weight)| *to = theta * weight);
            padding.fill(T::zero());
        }
    });
}

/// states = F W_t for a group of hops, whose weights begin at column `first`.
fn multiply<T: Real, S: Element<T>>(
    cpu: &Cpu<T>,
    states: [&mut [S]; GROUP],
    responses: &[T],
    weights: &[T],
    first: usize,
    sizes: Sizes,
) {
    let Sizes { rows, features, width, columns, .. } = sizes;
    let used = columns.saturating_sub(first).min(GROUP * width);
    let weights = View::new(weights, features, columns).columns(first, used);
    let mut bounds = cpu.places.take(rows.div_ceil(BLOCK) + 1, 0);
    bounds.iter_mut().enumerate().for_each(|(at, bound)| *bound = (at * BLOCK).min(rows));
    chunks::each_of(&bounds, width, states, &|span, states| {
        let mut products = cpu.reals.take(span.len() * used, T::zero());
        let responses = View::new(&responses[span.start * features..], span.len(), features);
        gemm(&mut products, responses, weights, false);
        simd(
            #[inline(always)]
            || {
                for (t, state) in states.into_iter().enumerate().filter(|(_, state)| !state.is_empty()) {
                    for (to, from) in state.chunks_exact_mut(width).zip(products.chunks_exact(used)) {
                        let from = &from[t * width..][..width];
                        to.iter_mut().zip(from).for_each(|(to, &value)| *to = S::store(value));
                    }
                }
            },
        );
    });
}

/// sums (d x columns) = S_t of all hops; F turns into dF, and `cost` F of it is what the penalty on its squares adds.
#[allow(clippy::too_many_arguments)]
fn differentiate<T: Real, S: Element<T>>(
    cpu: &Cpu<T>,
    sums: &mut [T],
    responses: &mut [T],
    states: &[S],
    weights: &[T],
    scaled: Scaled<'_, T>,
    cost: T,
    sizes: Sizes,
) {
    let Sizes { rows, features, columns, .. } = sizes;
    let blocks = rows.div_ceil(BLOCK).div_ceil(JOBS).max(1);
    let job_rows = blocks * BLOCK;
    let mut partial = cpu.reals.filled(rows.div_ceil(job_rows) * features * columns, T::zero());
    let weights = View::new(weights, features, columns).transposed();
    let jobs = partial.par_chunks_mut(features * columns).zip(responses.par_chunks_mut(job_rows * features));
    jobs.enumerate().for_each(|(job, (sums, responses))| {
        let mut states_here = cpu.reals.take(BLOCK * columns, T::zero());
        for (block, responses) in responses.chunks_mut(BLOCK * features).enumerate() {
            let first = job * job_rows + block * BLOCK;
            let count = responses.len() / features;
            load_states(&mut states_here, states, first, count, scaled, sizes);
            let here = View::new(&states_here, count, columns);
            gemm(sums, View::new(responses, count, features).transposed(), here, true);
            let costs = cost > T::zero();
            if costs {
                responses.iter_mut().for_each(|response| *response *= cost);
            }
            gemm(responses, here, weights, costs);
        }
    });
    sums.fill(T::zero());
    for part in partial.chunks_exact(features * columns) {
        sums.iter_mut().zip(part).for_each(|(sum, &part)| *sum += part);
    }
}

/// here (count x columns) = Y_t of all hops side by side, for some rows.
fn load_states<T: Real, S: Element<T>>(
    here: &mut [T],
    states: &[S],
    first: usize,
    count: usize,
    scaled: Scaled<'_, T>,
    sizes: Sizes,
) {
    let Sizes { rows, width, columns, .. } = sizes;
    simd(
        #[inline(always)]
        || {
            for (t, state) in states.chunks_exact(rows * width).enumerate() {
                let state = &state[first * width..(first + count) * width];
                for (r, state) in state.chunks_exact(width).enumerate() {
                    let factor = scaled.factor(first + r);
                    let here = &mut here[r * columns + t * width..][..width];
                    here.iter_mut().zip(state).for_each(|(to, state)| *to = state.load() * factor);
                }
            }
        },
    );
}
