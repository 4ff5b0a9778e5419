//! One look at the features of a neighbourhood: responses, block by block, and what they add up to.

use super::local::Case;
use super::response::{Block, LANES};
use harmonia_graph::dataset::Values;
use harmonia_graph::simd::simd;
use harmonia_graph::simd::{Cache, request};
use rayon::prelude::*;
use std::ops::Range;

/// Nodes of a task; fixed, so that sums do not depend on threads.
const PORTION: usize = 16 * LANES;
/// Rows of features that memory is asked for in advance.
const ROWS_AHEAD: usize = 8;

/// What some nodes of a neighbourhood add up to.
#[derive(Clone, Debug, Default)]
pub(super) struct Pass {
    /// `sum_j r_t[j] f_k(x[j,k])`, T x d.
    pub sums: Vec<f64>,
    /// Outputs the responses were projected onto.
    pub outputs: Vec<usize>,
    /// `G_t[j] = sum_k w[k] theta[t,k] f_k(x[j,k])` of the nodes that have a weight, nodes x outputs, for every t.
    pub projected: Vec<Vec<f64>>,
}

impl Case<'_> {
    /// All positions.
    pub(super) fn everything(&self) -> Range<usize> {
        0..self.ball.nodes.len()
    }

    /// Features of a node of the ball, as the model sees them.
    pub(super) fn row<'s>(&'s self, at: usize, scratch: &'s mut Vec<f32>) -> &'s [f32] {
        let node = self.ball.nodes[at];
        match self.replaced.get(&node) {
            Some(features) => features,
            None => self.dataset.features.row(node as usize, scratch),
        }
    }

    /// Asks memory for a row that will be read soon; nothing happens behind the last. Sparse rows are short.
    fn request_row(&self, at: usize) {
        let (Some(&node), cols) = (self.ball.nodes.get(at), self.dataset.features.cols) else { return };
        let span = node as usize * cols..(node as usize + 1) * cols;
        match self.dataset.features.values() {
            Values::Dense(values) => request(values, span, Cache::First),
            Values::Half(values) => request(values, span, Cache::First),
            Values::Sparse(_) => {}
        }
    }

    /// r_t of the nodes at some positions, for the walk lengths that reach any of them.
    pub(super) fn reach(&self, places: &Range<usize>) -> Vec<(usize, [f64; LANES])> {
        let weight =
            |t: usize, lane: usize| if lane < places.len() { self.ball.weight(t, places.start + lane) } else { 0.0 };
        (0..self.ball.hops())
            .map(|t| (t, std::array::from_fn(|lane| weight(t, lane))))
            .filter(|(_, weights): &(usize, [f64; LANES])| weights.iter().any(|weight| *weight != 0.0))
            .collect()
    }

    /// Visits the responses at some positions of the ball, in parallel by portions; what they make, in order. A visit is of
    /// a few positions: `responses[k][lane]` is f_k of the node at that place of them.
    pub(super) fn portions<R: Send>(
        &self,
        places: Range<usize>,
        begin: impl Fn() -> R + Sync,
        visit: impl Fn(&mut R, Range<usize>, &[[f64; LANES]]) + Sync,
    ) -> Vec<R> {
        let starts: Vec<usize> = places.clone().step_by(PORTION).collect();
        let portion = |(block, scratch): &mut (Block, Vec<f32>), &start: &usize| {
            let mut made = begin();
            let end = places.end.min(start + PORTION);
            for first in (start..end).step_by(LANES) {
                let together = first..end.min(first + LANES);
                for (lane, at) in together.clone().enumerate() {
                    self.request_row(at + ROWS_AHEAD);
                    block.set(lane, self.row(at, scratch));
                }
                visit(&mut made, together, block.responses(self.factors.responses()));
            }
            made
        };
        starts.par_iter().map_init(|| (Block::new(self.factors.features()), Vec::new()), portion).collect()
    }

    /// Looks at some positions.
    pub(super) fn pass(&self, places: Range<usize>, outputs: &[usize]) -> Pass {
        let (d, hops) = (self.factors.features(), self.factors.hops());
        let begin = || Pass { sums: vec![0.0; hops * d], outputs: outputs.to_vec(), projected: vec![Vec::new(); hops] };
        let parts = self.portions(places, begin, |pass, places, responses| {
            for (t, weights) in self.ball.weights.iter().enumerate() {
                let reached = places.start.min(weights.len())..places.end.min(weights.len());
                if !reached.is_empty() {
                    add_up(&mut pass.sums[t * d..][..d], &weights[reached.clone()], responses);
                    self.project(&mut pass.projected[t], t, outputs, reached.len(), responses);
                }
            }
        });
        let mut all = begin();
        for part in parts {
            all.sums.iter_mut().zip(part.sums).for_each(|(sum, part)| *sum += part);
            all.projected.iter_mut().zip(part.projected).for_each(|(all, part)| all.extend(part));
        }
        all
    }

    /// Appends G_t of the first `count` lanes.
    fn project(&self, to: &mut Vec<f64>, t: usize, outputs: &[usize], count: usize, responses: &[[f64; LANES]]) {
        let (factors, width, first) = (self.factors, outputs.len(), to.len());
        to.resize(first + count * width, 0.0);
        for (at, &output) in outputs.iter().enumerate() {
            let mut sums = [0.0; LANES];
            simd(
                #[inline(always)]
                || {
                    for (k, responses) in responses.iter().enumerate() {
                        let weight = factors.theta(t, k) * factors.weight[k * factors.outputs() + output];
                        sums.iter_mut().zip(responses).for_each(|(sum, f)| *sum += weight * f);
                    }
                },
            );
            to[first + at..].iter_mut().step_by(width).zip(sums).for_each(|(value, sum)| *value = sum);
        }
    }
}

/// `sums[k]` += weights . `responses[k]`, over the lanes that have a weight.
fn add_up(sums: &mut [f64], weights: &[f64], responses: &[[f64; LANES]]) {
    let mut of_lane = [0.0; LANES];
    of_lane[..weights.len()].copy_from_slice(weights);
    simd(
        #[inline(always)]
        || sums.iter_mut().zip(responses).for_each(|(sum, f)| *sum += dot(&of_lane, f)),
    );
}

/// In several sums side by side: one sum would wait for every addition.
#[inline(always)]
fn dot(a: &[f64; LANES], b: &[f64; LANES]) -> f64 {
    const SUMS: usize = 16;
    let mut sums = [0.0; SUMS];
    for (a, b) in a.as_chunks::<SUMS>().0.iter().zip(b.as_chunks::<SUMS>().0) {
        for at in 0..SUMS {
            sums[at] += a[at] * b[at];
        }
    }
    sums.iter().sum()
}
