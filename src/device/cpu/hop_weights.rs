//! Hop weights theta (T x d) from hop logits alpha (T x d).
//!
//! simplex   s = alpha^2 + 1e-8, theta[t,k] = s[t,k] / sum_u s[u,k]
//!           dalpha[t,k] = 2 alpha[t,k] (dtheta[t,k] - sum_u theta[u,k] dtheta[u,k]) / sum_u s[u,k]
//! absolute  s = |alpha| + 1e-8, as simplex with the slope sign(alpha) in place of 2 alpha
//! signed    theta[t,k] = alpha[t,k] / S, S = sum_u (|alpha[u,k]| + 1e-8)
//!           dalpha[t,k] = (dtheta[t,k] - sign(alpha[t,k]) sum_u theta[u,k] dtheta[u,k]) / S
//! free      theta = alpha, dalpha = dtheta; in a basis U (T x T): theta = U alpha, dalpha = U' dtheta

use super::Cpu;
use crate::architecture::{Architecture, HopWeights, Layout};
use crate::device::HOP_EPSILON;
use crate::real::Real;
use harmonia_graph::error::Result;

/// theta = ...
pub fn forward<T: Real>(
    _: &Cpu<T>,
    hop_weights: &mut [T],
    parameters: &[T],
    basis: Option<&Vec<T>>,
    layout: &Layout,
) -> Result<()> {
    match layout.hop_logits.is_empty() {
        // Not walks: what there is of them, the node itself, counts as it is.
        true => hop_weights.fill(T::one()),
        false => {
            weights(hop_weights, &parameters[layout.hop_logits.clone()], basis.map(Vec::as_slice), &layout.architecture)
        }
    }
    Ok(())
}

/// The formula.
pub fn weights<T: Real>(hop_weights: &mut [T], hop_logits: &[T], basis: Option<&[T]>, architecture: &Architecture) {
    let (d, kind) = (architecture.features, architecture.hop_weights);
    if kind == HopWeights::Free {
        match basis {
            Some(basis) => {
                hop_weights.fill(T::zero());
                add_product(hop_weights, hop_logits, d, |t, u| basis[t * architecture.hops + u]);
            }
            None => hop_weights.copy_from_slice(hop_logits),
        }
        return;
    }
    let sums = normalisers(hop_logits, d, kind);
    for (weights, logits) in hop_weights.chunks_exact_mut(d).zip(hop_logits.chunks_exact(d)) {
        for ((weight, &alpha), &sum) in weights.iter_mut().zip(logits).zip(&sums) {
            *weight = if kind == HopWeights::Signed { alpha } else { strength(alpha, kind) } / sum;
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
    basis: Option<&Vec<T>>,
    layout: &Layout,
) -> Result<()> {
    if layout.hop_logits.is_empty() {
        return Ok(());
    }
    let (d_logits, hop_logits) = (&mut gradient[layout.hop_logits.clone()], &parameters[layout.hop_logits.clone()]);
    let (d, kind) = (layout.architecture.features, layout.architecture.hop_weights);
    if kind == HopWeights::Free {
        match basis {
            Some(basis) => add_product(d_logits, d_hop_weights, d, |u, t| basis[t * layout.architecture.hops + u]),
            None => d_logits.iter_mut().zip(d_hop_weights).for_each(|(to, &from)| *to += from),
        }
        return Ok(());
    }
    let sums = normalisers(hop_logits, d, kind);
    let mut mean = vec![T::zero(); d];
    for (weights, gradients) in hop_weights.chunks_exact(d).zip(d_hop_weights.chunks_exact(d)) {
        mean.iter_mut().zip(weights).zip(gradients).for_each(|((mean, &w), &g)| *mean += w * g);
    }
    for (at, d_logit) in d_logits.iter_mut().enumerate() {
        let (k, slope) = (at % d, slope(hop_logits[at], kind));
        *d_logit += match kind {
            HopWeights::Signed => (d_hop_weights[at] - slope * mean[k]) / sums[k],
            _ => slope * (d_hop_weights[at] - mean[k]) / sums[k],
        };
    }
    Ok(())
}

/// to += A from, for a T x T matrix A and T x d arrays.
fn add_product<T: Real>(to: &mut [T], from: &[T], d: usize, matrix: impl Fn(usize, usize) -> T) {
    for (row, to) in to.chunks_exact_mut(d).enumerate() {
        for (column, from) in from.chunks_exact(d).enumerate() {
            let factor = matrix(row, column);
            to.iter_mut().zip(from).for_each(|(to, &from)| *to += factor * from);
        }
    }
}

/// What a walk length has of the sum over all of them.
fn strength<T: Real>(alpha: T, kind: HopWeights) -> T {
    let strength = if kind == HopWeights::Simplex { alpha * alpha } else { alpha.abs() };
    strength + T::from_f64(HOP_EPSILON)
}

/// Its derivative; at zero, of what lies to the right.
fn slope<T: Real>(alpha: T, kind: HopWeights) -> T {
    match kind {
        HopWeights::Simplex => T::from_f64(2.0) * alpha,
        _ if alpha < T::zero() => -T::one(),
        _ => T::one(),
    }
}

fn normalisers<T: Real>(hop_logits: &[T], d: usize, kind: HopWeights) -> Vec<T> {
    let mut sums = vec![T::zero(); d];
    for logits in hop_logits.chunks_exact(d) {
        sums.iter_mut().zip(logits).for_each(|(sum, &alpha)| *sum += strength(alpha, kind));
    }
    sums
}
