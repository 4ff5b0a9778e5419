//! Mixture of Neural Bases, evaluated directly.
//!
//! F[i,k] = a_k . sum_s gate_s psi_s(x) with psi_s(x) = U_s h_s(x) + u_s is regrouped as
//! F[i,k] = sum_s gate_s (v_s . h_s(x) + w_s), v_s = U_s^T a_k, w_s = u_s . a_k: the linear output layer is applied
//! once per (feature, expert) instead of once per point, so its cost does not grow with nodes.
//! Backward needs, per (feature, slot), only S = sum_p g_p h(x_p) and G = sum_p g_p:
//!   dgate = v.S + w G,  dv = gate S,  dw = gate G, and from dv, dw the output layer and the coefficients.
//! Hidden activations are recomputed. Deterministic: jobs are cut by sizes only and combined in order.

use super::expert::{HiddenMask, LANES, PackedExpert, Scratch, TILE, lane_sum};
use super::inputs::{Coded, InputFeatures};
use super::panels::{Panel, Panels};
use super::points::{PointSource, Points, RowSource, Source};
use super::{Cpu, CpuInputs, ROW_CHUNK, simd};
use crate::device::{Dropout, DropoutPlace, Real, Routing};
use crate::model::Layout;
use rayon::prelude::*;
use std::ops::Range;

/// Tasks a backward pass is cut into: enough to balance many cores, few enough to add up cheaply.
const JOBS: usize = 32;

/// F = ...
pub fn forward<T: Real>(
    responses: &mut Panels<T>,
    inputs: &CpuInputs<T>,
    routing: &Routing<Cpu<T>>,
    parameters: &[T],
    dropout: Option<&Dropout>,
    layout: &Layout,
) {
    let model = Evaluator::new(routing, parameters, dropout, layout);
    if let Some((coded, points)) = model.table(inputs) {
        let mut table = vec![T::zero(); points.x.len()];
        (by_feature(&mut table, &points.offsets).into_par_iter().enumerate()).for_each_init(
            || Scratch::new(&layout.architecture.hidden),
            |scratch, (k, out)| model.respond(scratch, &PointSource { points: &points, g: &[] }, k, out, 1),
        );
        responses.panels_mut().for_each(|Panel { first, width, data }| {
            data.par_chunks_mut(ROW_CHUNK * width).enumerate().for_each(|(chunk, rows)| {
                for (r, row) in rows.chunks_exact_mut(width).enumerate() {
                    let i = chunk * ROW_CHUNK + r;
                    points.visit_row(coded, i, first, width, dropout, |column, point| row[column] = table[point]);
                }
            });
        });
        return;
    }
    responses.panels_mut().for_each(|Panel { first, width, data }| {
        data.par_chunks_mut(TILE * width).enumerate().for_each_init(
            || Scratch::new(&layout.architecture.hidden),
            |scratch, (chunk, rows)| {
                let start = chunk * TILE;
                let source = RowSource {
                    features: &inputs.features,
                    rows: start..start + rows.len() / width,
                    gradient: None,
                    dropout,
                    cols: layout.architecture.features,
                };
                for c in 0..width {
                    model.respond(scratch, &source, first + c, &mut rows[c..], width);
                }
            },
        );
    });
}

/// Expert and coefficient gradients += ..., d_gates = ...
#[allow(clippy::too_many_arguments)]
pub fn backward<T: Real>(
    gradient: &mut [T],
    d_gates: &mut [T],
    d_responses: &Panels<T>,
    inputs: &CpuInputs<T>,
    routing: &Routing<Cpu<T>>,
    parameters: &[T],
    dropout: Option<&Dropout>,
    layout: &Layout,
) {
    let model = Evaluator::new(routing, parameters, dropout, layout);
    let d = layout.architecture.features;
    if let Some((coded, points)) = model.table(inputs) {
        let g = points.gather_gradient(coded, d_responses, dropout);
        let jobs: Vec<Job<T>> = (cut(d, JOBS).into_par_iter())
            .map(|features| model.accumulate(&PointSource { points: &points, g: &g }, features))
            .collect();
        model.finish(gradient, d_gates, jobs);
        return;
    }
    let rows = cut(d_responses.rows().div_ceil(TILE), JOBS / 2);
    let features = cut(d, JOBS / rows.len());
    let grid: Vec<(Range<usize>, Range<usize>)> =
        rows.iter().flat_map(|r| features.iter().map(|f| (r.clone(), f.clone()))).collect();
    let jobs = (grid.into_par_iter())
        .map(|(tiles, features)| {
            let source = RowSource {
                features: &inputs.features,
                rows: tiles.start * TILE..(tiles.end * TILE).min(d_responses.rows()),
                gradient: Some(d_responses),
                dropout,
                cols: d,
            };
            model.accumulate(&source, features)
        })
        .collect();
    model.finish(gradient, d_gates, jobs);
}

/// 0..length in at most `parts` nearly equal ranges; depends on nothing else.
fn cut(length: usize, parts: usize) -> Vec<Range<usize>> {
    let parts = parts.clamp(1, length.max(1));
    (0..parts).map(|p| length * p / parts..length * (p + 1) / parts).collect()
}

/// Gradients one job found: hidden layers of all experts, and (S, G) of each slot of its features.
struct Job<T> {
    experts: Vec<T>,
    features: Range<usize>,
    heads: Vec<T>,
}

/// The responses of one step: routing, heads and masks resolved.
struct Evaluator<'a, T: Real> {
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

impl<'a, T: Real> Evaluator<'a, T> {
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

    /// The table of distinct values, where the features have one and no mask tells equal values apart.
    fn table<'i>(&self, inputs: &'i CpuInputs<T>) -> Option<(&'i Coded, Points<T>)> {
        match &inputs.features {
            InputFeatures::Coded(coded) if self.hidden_dropout().is_none() => {
                Some((coded, Points::new(coded, self.dropout)))
            }
            _ => None,
        }
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
    fn accumulate(&self, source: &impl Source<T>, features: Range<usize>) -> Job<T> {
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
        Job { experts, features, heads }
    }

    /// Adds up the jobs in order, and takes (S, G) through the folded output layer.
    fn finish(&self, gradient: &mut [T], d_gates: &mut [T], jobs: Vec<Job<T>>) {
        let architecture = &self.layout.architecture;
        let (active, bases, size) = (architecture.active, architecture.bases, self.width + 1);
        let mut heads = vec![T::zero(); self.heads.len()];
        for job in jobs {
            gradient.iter_mut().zip(&job.experts).for_each(|(sum, &value)| *sum += value);
            let mine = &mut heads[job.features.start * active * size..];
            mine.iter_mut().zip(&job.heads).for_each(|(sum, &value)| *sum += value);
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
                let a = self.parameters[first + b];
                let row = output.weight.start + b * self.width;
                let bias = output.bias.start + b;
                let mut d_coefficient = self.parameters[bias] * sums[self.width];
                for unit in 0..self.width {
                    d_coefficient += self.parameters[row + unit] * sums[unit];
                    gradient[row + unit] += a * sums[unit];
                }
                gradient[bias] += a * sums[self.width];
                gradient[first + b] += d_coefficient;
            }
        }
    }
}

/// v = U^T a_k and w = u . a_k of every slot; d x m x (width + 1).
fn fold_heads<T: Real>(routing: &Routing<Cpu<T>>, parameters: &[T], layout: &Layout, width: usize) -> Vec<T> {
    let (active, bases) = (layout.architecture.active, layout.architecture.bases);
    let coefficients = &parameters[layout.coefficients.clone()];
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

/// One slice a feature.
fn by_feature<'t, T>(mut table: &'t mut [T], offsets: &[usize]) -> Vec<&'t mut [T]> {
    let mut parts = Vec::with_capacity(offsets.len());
    for range in offsets.windows(2) {
        let (part, rest) = table.split_at_mut(range[1] - range[0]);
        parts.push(part);
        table = rest;
    }
    parts
}
