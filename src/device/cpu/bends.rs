//! What responses cost that bend, and what that does to them: `model::Smoothness` has the formula.
//!
//! Feature by feature, in f64: a bend is a difference of differences.

use super::{Cpu, Ops, Panels};
use crate::architecture::{HopWeights, Layout};
use crate::device::Bends;

/// Responses at the points (points x d) turn into the gradient by them.
pub fn bend<T: Ops>(
    bends: &mut Bends<Cpu<T>>,
    responses: &mut Panels<T>,
    gradient: &mut [T],
    hop_weights: &[T],
    parameters: &[T],
    layout: &Layout,
) {
    let a = &layout.architecture;
    let (d, outputs) = (a.features, a.outputs);
    let f = responses.to_row_major();
    let mut d_responses = vec![T::zero(); f.len()];
    let readout = layout.readout_weight.start;
    let theta = |t: usize, k: usize| hop_weights[t * d + k].widen();
    for k in 0..d {
        let point = |q: usize| bends.points[q * d + k].widen();
        let count = bends.counts[k].widen() as usize;
        let weights = readout + k * outputs..readout + (k + 1) * outputs;
        let squared: f64 = parameters[weights.clone()].iter().map(|w| w.widen() * w.widen()).sum();
        let reach = match a.hop_weights {
            HopWeights::Free => (0..a.hops).map(|t| theta(t, k).powi(2)).sum(),
            HopWeights::Simplex | HopWeights::Absolute | HopWeights::Signed => 1.0,
        };
        let at = |q: usize| f[q * d + k].widen();
        let (factor, mut sum) = (2.0 * (count as f64 - 1.0), 0.0);
        let mut slopes = vec![0.0; count];
        for q in 1..count.max(2) - 1 {
            let (before, after) = (point(q) - point(q - 1), point(q + 1) - point(q));
            let share = after / (before + after);
            let bend = factor * (at(q) - share * at(q - 1) - (1.0 - share) * at(q + 1));
            sum += bend * bend;
            let slope = 2.0 * factor * bend;
            slopes[q] += slope;
            slopes[q - 1] -= share * slope;
            slopes[q + 1] -= (1.0 - share) * slope;
        }
        let strength = bends.strength;
        bends.penalties[k] = T::from_f64(strength * squared * reach * sum);
        for (q, slope) in slopes.iter().enumerate() {
            d_responses[q * d + k] = T::from_f64(strength * squared * reach * slope);
        }
        for at in weights {
            gradient[at] += T::from_f64(2.0 * strength * parameters[at].widen() * reach * sum);
        }
        for t in 0..a.hops {
            bends.d_hop_weights[t * d + k] = T::from_f64(2.0 * strength * theta(t, k) * squared * sum);
        }
    }
    *responses = Panels::from_row_major(&d_responses, d);
}
