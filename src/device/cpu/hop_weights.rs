//! Hop weights theta (T x d) from hop logits alpha (T x d).
//!
//! Forward   s = alpha^2 + 1e-8, theta[t,k] = s[t,k] / sum_u s[u,k]
//! Backward  dalpha[t,k] = 2 alpha[t,k] (dtheta[t,k] - sum_u theta[u,k] dtheta[u,k]) / sum_u s[u,k]
//! Unconstrained (`free`): theta = alpha, dalpha = dtheta.

use super::Cpu;
use crate::architecture::{Architecture, HopWeights, Layout};
use crate::device::HOP_EPSILON;
use crate::real::Real;
use harmonia_graph::error::Result;

/// theta = ...
pub fn forward<T: Real>(_: &Cpu<T>, hop_weights: &mut [T], parameters: &[T], layout: &Layout) -> Result<()> {
    weights(hop_weights, &parameters[layout.hop_logits.clone()], &layout.architecture);
    Ok(())
}

/// The formula.
pub fn weights<T: Real>(hop_weights: &mut [T], hop_logits: &[T], architecture: &Architecture) {
    if architecture.hop_weights == HopWeights::Free {
        hop_weights.copy_from_slice(hop_logits);
        return;
    }
    let d = architecture.features;
    let sums = normalisers(hop_logits, d);
    for (weights, logits) in hop_weights.chunks_exact_mut(d).zip(hop_logits.chunks_exact(d)) {
        for ((weight, &alpha), &sum) in weights.iter_mut().zip(logits).zip(&sums) {
            *weight = strength(alpha) / sum;
        }
    }
}

/// dalpha += ...
pub fn backward<T: Real>(
    _: &Cpu<T>,
    gradient: &mut [T],
    d_hop_weights: &[T],
    hop_weights: &[T],
    parameters: &[T],
    layout: &Layout,
) -> Result<()> {
    let (d_logits, hop_logits) = (&mut gradient[layout.hop_logits.clone()], &parameters[layout.hop_logits.clone()]);
    if layout.architecture.hop_weights == HopWeights::Free {
        d_logits.iter_mut().zip(d_hop_weights).for_each(|(to, &from)| *to += from);
        return Ok(());
    }
    let d = layout.architecture.features;
    let sums = normalisers(hop_logits, d);
    let mut mean = vec![T::zero(); d];
    for (weights, gradients) in hop_weights.chunks_exact(d).zip(d_hop_weights.chunks_exact(d)) {
        mean.iter_mut().zip(weights).zip(gradients).for_each(|((mean, &w), &g)| *mean += w * g);
    }
    let two = T::from_f64(2.0);
    for (at, d_logit) in d_logits.iter_mut().enumerate() {
        let k = at % d;
        *d_logit += two * hop_logits[at] * (d_hop_weights[at] - mean[k]) / sums[k];
    }
    Ok(())
}

fn strength<T: Real>(alpha: T) -> T {
    alpha * alpha + T::from_f64(HOP_EPSILON)
}

fn normalisers<T: Real>(hop_logits: &[T], d: usize) -> Vec<T> {
    let mut sums = vec![T::zero(); d];
    for logits in hop_logits.chunks_exact(d) {
        sums.iter_mut().zip(logits).for_each(|(sum, &alpha)| *sum += strength(alpha));
    }
    sums
}
