//! Adam (weight decay added to the gradient) and AdamW (weight decay taken off the parameter).
//!
//! scale = clip / norm where the norm is longer than that, else 1
//! g = scale * gradient (+ decay * p for Adam);  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
//! p = p - lr * (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)   (after p = p (1 - lr * decay) for AdamW)

use super::Cpu;
use crate::device::{ADAM_BETA1, ADAM_BETA2, ADAM_EPSILON, AdamStep, Posted};
use crate::real::Real;
use harmonia_graph::error::Result;
use rayon::prelude::*;
use std::ops::Range;

/// Elements a task updates.
const CHUNK: usize = 1 << 14;

/// Updates parameters and both moments.
#[allow(clippy::too_many_arguments)]
pub fn step<T: Real>(
    _: &Cpu<T>,
    parameters: &mut [T],
    first: &mut [T],
    second: &mut [T],
    gradient: &[T],
    verdict: &Posted,
    range: &Range<usize>,
    step: AdamStep,
) -> Result<()> {
    if verdict.now.is_halted() {
        return Ok(());
    }
    let real = T::from_f64;
    let power = step.step.min(i32::MAX as u64) as i32;
    let (b1, b2, epsilon) = (real(ADAM_BETA1), real(ADAM_BETA2), real(ADAM_EPSILON));
    // Taken in f64: 1 - 0.999 in f32 is off by 1e-5 and would not match the bias correction.
    let (c1, c2) = (real(1.0 - ADAM_BETA1), real(1.0 - ADAM_BETA2));
    let rate = real(step.learning_rate / (1.0 - ADAM_BETA1.powi(power)));
    let correction = real(1.0 / (1.0 - ADAM_BETA2.powi(power)).sqrt());
    let norm = verdict.now.norm;
    let clipped = step.clip_norm > 0.0 && norm > step.clip_norm;
    let scale = real(if clipped { step.clip_norm / norm } else { 1.0 });
    let (added, shrink) = if step.decoupled {
        (T::zero(), real(1.0 - step.learning_rate * step.weight_decay))
    } else {
        (real(step.weight_decay), T::one())
    };
    (parameters[range.clone()].par_chunks_mut(CHUNK))
        .zip(first[range.clone()].par_chunks_mut(CHUNK))
        .zip(second[range.clone()].par_chunks_mut(CHUNK))
        .zip(gradient[range.clone()].par_chunks(CHUNK))
        .for_each(|(((p, m), v), g)| {
            for i in 0..p.len() {
                let g = scale * g[i] + added * p[i];
                m[i] = b1 * m[i] + c1 * g;
                v[i] = b2 * v[i] + c2 * g * g;
                p[i] = p[i] * shrink - rate * m[i] / (v[i].sqrt() * correction + epsilon);
            }
        });
    Ok(())
}

/// Euclidean norm, in f64.
pub fn norm<T: Real>(_: &Cpu<T>, verdict: &mut Posted, values: &[T]) -> Result<()> {
    let partial: Vec<f64> =
        values.par_chunks(CHUNK).map(|chunk| chunk.iter().map(|v| v.widen() * v.widen()).sum()).collect();
    verdict.now.norm = partial.iter().sum::<f64>().sqrt();
    verdict.now.diverged |= !(verdict.now.norm.is_finite() && verdict.now.loss.is_finite());
    Ok(())
}

/// values = 0
pub fn clear<T: Real>(_: &Cpu<T>, values: &mut [T]) -> Result<()> {
    values.fill(T::zero());
    Ok(())
}
