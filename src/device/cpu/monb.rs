//! Mixture of Neural Bases, evaluated directly.
//!
//! F[i,k] = a_k . sum_s gate_s psi_s(x) with psi_s(x) = U_s h_s(x) + u_s is regrouped as
//! F[i,k] = sum_s gate_s (v_s . h_s(x) + w_s), v_s = U_s^T a_k, w_s = u_s . a_k: the linear output layer is applied
//! once per (feature, expert) instead of once per point, so its cost does not grow with nodes.
//! Backward needs, per (feature, slot), only S = sum_p g_p h(x_p) and G = sum_p g_p:
//!   dgate = v.S + w G,  dv = gate S,  dw = gate G, and from dv, dw the output layer and the coefficients.
//! Hidden activations are recomputed. Deterministic: parts are cut by sizes only and combined in order.

use super::expert::{HiddenMask, LANES, PackedExpert, Scratch, TILE, lane_sum};
use super::inputs::InputFeatures;
use super::panels::Panel;
use super::points::{ColumnSource, RowSource, Source};
use super::{Cpu, CpuInputs, Ops, chunks, fourier};
use crate::architecture::{Form, Layout};
use crate::config::DropoutPlace;
use crate::device::{Dropout, Responses, Routing, mixed_forms};
use crate::real::Real;
use harmonia_graph::error::Result;
use harmonia_graph::simd::simd;
use rayon::prelude::*;
use std::ops::Range;

/// Tasks a backward pass is cut into: enough to balance many cores, few enough to add up cheaply.
pub(super) const JOBS: usize = 32;

/// F = ...
pub fn forward<T: Ops>(
    _: &Cpu<T>,
    responses: &mut Responses<Cpu<T>>,
    inputs: &CpuInputs<T>,
    routing: &Routing<Cpu<T>>,
    parameters: &[T],
    dropout: Option<&Dropout>,
    layout: &Layout,
) -> Result<()> {
    if layout.architecture.form() == Form::Fourier {
        return fourier::forward(responses, inputs, parameters, dropout, layout);
    }
    let model = Evaluator::new(routing, parameters, dropout, layout);
    let (cols, maskable) = (layout.architecture.features, inputs.maskable());
    match (responses, &inputs.features) {
        (Responses::Sparse(responses), InputFeatures::Sparse(columns)) => {
            let (constants, values) = responses.split_at_mut(cols);
            let source = ColumnSource { columns, gradient: None, dropout, cols };
            let chunks = (&columns.col_ptr[..], values);
            chunks::each_column(&columns.col_chunks, (1, constants), chunks, &|range, constants, mut values| {
                let mut scratch = Scratch::new(&layout.architecture.hidden);
                for (k, constant) in range.zip(constants) {
                    let mut at_points = vec![T::zero(); source.points(k)];
                    model.respond(&mut scratch, &source, k, &mut at_points, 1);
                    *constant = at_points[0];
                    let (here, rest) = values.split_at_mut(at_points.len() - 1);
                    here.iter_mut().zip(&at_points[1..]).for_each(|(to, &value)| *to = value - at_points[0]);
                    values = rest;
                }
            });
        }
        (Responses::Sparse(_), _) | (_, InputFeatures::Sparse(_)) => return Err(mixed_forms()),
        (Responses::Dense(responses), features) => {
            responses.panels_mut().for_each(|Panel { first, width, data }| {
                data.par_chunks_mut(TILE * width).enumerate().for_each_init(
                    || Scratch::new(&layout.architecture.hidden),
                    |scratch, (chunk, rows)| {
                        let start = chunk * TILE;
                        let rows_here = start..start + rows.len() / width;
                        let source = RowSource { features, rows: rows_here, gradient: None, dropout, maskable, cols };
                        for c in 0..width {
                            model.respond(scratch, &source, first + c, &mut rows[c..], width);
                        }
                    },
                );
            });
        }
    }
    Ok(())
}

/// Expert and coefficient gradients += ..., d_gates = ...
#[allow(clippy::too_many_arguments)]
pub fn backward<T: Ops>(
    _: &Cpu<T>,
    gradient: &mut [T],
    d_gates: &mut [T],
    d_responses: &Responses<Cpu<T>>,
    inputs: &CpuInputs<T>,
    routing: &Routing<Cpu<T>>,
    parameters: &[T],
    dropout: Option<&Dropout>,
    layout: &Layout,
) -> Result<()> {
    if layout.architecture.form() == Form::Fourier {
        return fourier::backward(gradient, d_responses, inputs, dropout, layout);
    }
    let model = Evaluator::new(routing, parameters, dropout, layout);
    let (cols, maskable) = (layout.architecture.features, inputs.maskable());
    let parts: Vec<PartialGradients<T>> = match (d_responses, &inputs.features) {
        (Responses::Sparse(d_responses), InputFeatures::Sparse(columns)) => {
            let source = ColumnSource { columns, gradient: Some(d_responses), dropout, cols };
            cut(cols, JOBS).into_par_iter().map(|features| model.accumulate(&source, features)).collect()
        }
        (Responses::Sparse(_), _) | (_, InputFeatures::Sparse(_)) => return Err(mixed_forms()),
        (Responses::Dense(d_responses), features) => {
            let rows = cut(d_responses.rows().div_ceil(TILE), JOBS / 2);
            let columns = cut(cols, JOBS / rows.len().max(1));
            let grid: Vec<(Range<usize>, Range<usize>)> =
                rows.iter().flat_map(|r| columns.iter().map(|f| (r.clone(), f.clone()))).collect();
            (grid.into_par_iter())
                .map(|(tiles, columns)| {
                    let rows = tiles.start * TILE..(tiles.end * TILE).min(d_responses.rows());
                    let source = RowSource { features, rows, gradient: Some(d_responses), dropout, maskable, cols };
                    model.accumulate(&source, columns)
                })
                .collect()
        }
    };
    model.finish(gradient, d_gates, parts);
    Ok(())
}

/// 0..length in at most `parts` nearly equal ranges; depends on nothing else.
pub(super) fn cut(length: usize, parts: usize) -> Vec<Range<usize>> {
    let parts = parts.clamp(1, length.max(1));
    (0..parts).map(|p| length * p / parts..length * (p + 1) / parts).collect()
}

/// Gradients of a range of features, from one thread: hidden layers of all experts, and (S, G) of each slot of its features.
struct PartialGradients<T> {
    experts: Vec<T>,
    features: Range<usize>,
    heads: Vec<T>,
}

/// The responses of one step: routing, heads and masks resolved.
struct Evaluator<'a, T: Ops> {
    routing: &'a Routing<Cpu<T>>,
    parameters: &'a [T],
    layout: &'a Layout,
    dropout: Option<&'a Dropout>,
    /// Factor on f_k: 1, or the feature-dropout mask.
    factors: Vec<T>,
    /// v (`width` of them) and w of each slot; d x m x (width + 1).
    heads: Vec<T>,
    /// Last hidden width of an expert.
    width: usize,
    /// Hidden layers of every expert.
    experts: Vec<PackedExpert<T>>,
}

impl<'a, T: Ops> Evaluator<'a, T> {
    fn new(
        routing: &'a Routing<Cpu<T>>,
        parameters: &'a [T],
        dropout: Option<&'a Dropout>,
        layout: &'a Layout,
    ) -> Self {
        let architecture = &layout.architecture;
        let factors = (0..architecture.features)
            .map(|k| match dropout {
                Some(dropout) if dropout.place == DropoutPlace::Feature => {
                    T::from_f64(if dropout.drops(k as u64) { 0.0 } else { dropout.scale() })
                }
                _ => T::one(),
            })
            .collect();
        let width = architecture.hidden.last().copied().unwrap_or(1);
        let heads = fold_heads(routing, parameters, layout, width);
        let experts = layout.experts.iter().map(|layers| PackedExpert::new(&layers[..layers.len() - 1], parameters));
        Evaluator { routing, parameters, layout, dropout, factors, heads, width, experts: experts.collect() }
    }

    fn hidden_dropout(&self) -> Option<&'a Dropout> {
        self.dropout.filter(|dropout| dropout.place == DropoutPlace::Hidden)
    }

    /// Chosen expert, head (v and w) and effective gate of a slot.
    fn slot(&self, k: usize, slot: usize) -> (usize, &[T], T) {
        let at = k * self.layout.architecture.active + slot;
        let head = &self.heads[at * (self.width + 1)..][..self.width + 1];
        (self.routing.experts[at] as usize, head, self.routing.gates[at] * self.factors[k])
    }

    /// out[p * stride] = f_k(x_p) for all points of the source.
    fn respond(&self, scratch: &mut Scratch<T>, source: &impl Source<T>, k: usize, out: &mut [T], stride: usize) {
        let active = self.layout.architecture.active;
        let (mut x, mut sums) = ([T::zero(); TILE], [T::zero(); TILE]);
        for start in (0..source.points(k)).step_by(TILE) {
            let (count, padded) = load(source, k, start, &mut x, &mut []);
            let (x, sums) = (&x[..padded], &mut sums[..padded]);
            sums.fill(T::zero());
            for slot in 0..active {
                let (expert, head, gate) = self.slot(k, slot);
                let point = |p| source.element(k, start + p) * active as u64 + slot as u64;
                let mask = self.hidden_dropout().map(|dropout| HiddenMask { dropout, point: &point });
                simd(
                    #[inline(always)]
                    || {
                        scratch.forward(&self.experts[expert], x, mask.as_ref());
                        let constant = gate * head[self.width];
                        sums.iter_mut().for_each(|sum| *sum += constant);
                        let groups = scratch.last(x, self.width).chunks_exact(self.width * LANES);
                        for (sums, group) in sums.chunks_exact_mut(LANES).zip(groups) {
                            for (h, &v) in group.chunks_exact(LANES).zip(head) {
                                let slope = gate * v;
                                sums.iter_mut().zip(h).for_each(|(sum, &h)| *sum += slope * h);
                            }
                        }
                    },
                );
            }
            for (p, &sum) in sums[..count].iter().enumerate() {
                out[(start + p) * stride] = sum;
            }
        }
    }

    /// Gradients of the given features over all points of the source.
    fn accumulate(&self, source: &impl Source<T>, features: Range<usize>) -> PartialGradients<T> {
        let active = self.layout.architecture.active;
        let size = self.width + 1;
        let mut experts = vec![T::zero(); self.layout.coefficients.start];
        let mut heads = vec![T::zero(); features.len() * active * size];
        let mut scratch = Scratch::new(&self.layout.architecture.hidden);
        let (mut x, mut g) = (vec![T::zero(); TILE], vec![T::zero(); TILE]);
        let mut slopes = vec![T::zero(); self.width];
        for (at, sums) in heads.chunks_exact_mut(size).enumerate() {
            let (k, slot) = (features.start + at / active, at % active);
            let (expert, head, gate) = self.slot(k, slot);
            let expert = &self.experts[expert];
            slopes.iter_mut().zip(head).for_each(|(slope, &v)| *slope = gate * v);
            for start in (0..source.points(k)).step_by(TILE) {
                let (_, padded) = load(source, k, start, &mut x, &mut g);
                let (x, g) = (&x[..padded], &g[..padded]);
                let point = |p| source.element(k, start + p) * active as u64 + slot as u64;
                let mask = self.hidden_dropout().map(|dropout| HiddenMask { dropout, point: &point });
                let keep = mask.as_ref().map_or(T::one(), |mask| T::from_f64(mask.dropout.scale()));
                simd(
                    #[inline(always)]
                    || {
                        scratch.forward(expert, x, mask.as_ref());
                        scratch.add_last_dots(&mut sums[..self.width], x, g);
                        sums[self.width] += lane_sum(g);
                        scratch.backward(&mut experts, expert, x, g, &slopes, keep);
                    },
                );
            }
        }
        PartialGradients { experts, features, heads }
    }

    /// Adds up the parts in order, and takes (S, G) through the folded output layer.
    fn finish(&self, gradient: &mut [T], d_gates: &mut [T], parts: Vec<PartialGradients<T>>) {
        let architecture = &self.layout.architecture;
        let (active, bases, size) = (architecture.active, architecture.bases, self.width + 1);
        let (coefficients, learned) =
            (self.layout.coefficients_in(self.parameters), !self.layout.coefficients.is_empty());
        let mut heads = vec![T::zero(); self.heads.len()];
        for part in parts {
            gradient.iter_mut().zip(&part.experts).for_each(|(sum, &value)| *sum += value);
            let mine = &mut heads[part.features.start * active * size..];
            mine.iter_mut().zip(&part.heads).for_each(|(sum, &value)| *sum += value);
        }
        for (at, sums) in heads.chunks_exact_mut(size).enumerate() {
            let (k, slot) = (at / active, at % active);
            let (expert, head, gate) = self.slot(k, slot);
            // w and G sit behind v and S: the constant is one more unit, always on.
            d_gates[at] = self.factors[k] * head.iter().zip(sums.iter()).map(|(&v, &s)| v * s).sum::<T>();
            sums.iter_mut().for_each(|sum| *sum *= gate);
            let layers = &self.layout.experts[expert];
            let output = &layers[layers.len() - 1];
            let first = self.layout.coefficients.start + k * bases;
            for b in 0..bases {
                let a = coefficients[k * bases + b];
                let row = output.weight.start + b * self.width;
                let bias = output.bias.start + b;
                let mut d_coefficient = self.parameters[bias] * sums[self.width];
                for unit in 0..self.width {
                    d_coefficient += self.parameters[row + unit] * sums[unit];
                    gradient[row + unit] += a * sums[unit];
                }
                gradient[bias] += a * sums[self.width];
                if learned {
                    gradient[first + b] += d_coefficient;
                }
            }
        }
    }
}

/// v = U^T a_k and w = u . a_k of every slot; d x m x (width + 1).
fn fold_heads<T: Ops>(routing: &Routing<Cpu<T>>, parameters: &[T], layout: &Layout, width: usize) -> Vec<T> {
    let (active, bases) = (layout.architecture.active, layout.architecture.bases);
    let coefficients = layout.coefficients_in(parameters);
    let mut heads = vec![T::zero(); routing.experts.len() * (width + 1)];
    (heads.par_chunks_mut(width + 1).zip(&routing.experts).enumerate()).for_each(|(at, (head, &expert))| {
        let layers = &layout.experts[expert as usize];
        let output = &layers[layers.len() - 1];
        let (weight, bias) = (&parameters[output.weight.clone()], &parameters[output.bias.clone()]);
        for (b, &a) in coefficients[at / active * bases..][..bases].iter().enumerate() {
            head.iter_mut().zip(&weight[b * width..][..width]).for_each(|(v, &u)| *v += a * u);
            head[width] += a * bias[b];
        }
    });
    heads
}

/// Loads a tile and pads it with zeros to a whole number of lanes; returns (points, padded points).
fn load<T: Real>(source: &impl Source<T>, k: usize, start: usize, x: &mut [T], g: &mut [T]) -> (usize, usize) {
    let count = (source.points(k) - start).min(TILE);
    let padded = count.next_multiple_of(LANES);
    let with_gradient = count.min(g.len());
    source.load(k, start, &mut x[..count], &mut g[..with_gradient]);
    x[count..padded].fill(T::zero());
    if !g.is_empty() {
        g[count..padded].fill(T::zero());
    }
    (count, padded)
}
