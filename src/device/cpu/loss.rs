//! Cross-entropy over the targets of a batch, value and gradient together.
//!
//! Softmax   l = log sum_c exp(z_c) - z_y          dz = (softmax(z) - onehot(y)) / targets
//! Sigmoid   l = sum_c max(z,0) - z y + log(1 + exp(-|z|))   dz = (sigmoid(z) - y) / targets
//! Deterministic: summed in f64 over fixed chunks of rows.

use super::{Cpu, CpuInputs, ROW_CHUNK, sigmoid};
use crate::loss::Objective;
use crate::real::Real;
use harmonia_graph::error::Result;
use rayon::prelude::*;

/// d_logits = ..., returns the mean loss.
pub fn loss<T: Real>(_: &Cpu<T>, d_logits: &mut [T], logits: &[T], inputs: &CpuInputs<T>) -> Result<f64> {
    let (outputs, count) = (inputs.outputs, inputs.targets.max(1) as f64);
    let width = if inputs.objective == Objective::Softmax { 1 } else { outputs };
    let scale = T::from_f64(1.0 / count);
    let partial: Vec<f64> = (d_logits.par_chunks_mut(ROW_CHUNK * outputs))
        .zip(logits.par_chunks(ROW_CHUNK * outputs))
        .zip(inputs.codes.par_chunks(ROW_CHUNK * width))
        .map(|((d_logits, logits), codes)| {
            let mut sum = 0.0;
            let rows = d_logits.chunks_exact_mut(outputs).zip(logits.chunks_exact(outputs));
            for ((d_row, row), codes) in rows.zip(codes.chunks_exact(width)) {
                if codes[0] < 0 {
                    d_row.fill(T::zero());
                    continue;
                }
                sum += match inputs.objective {
                    Objective::Softmax => softmax(d_row, row, codes[0] as usize),
                    Objective::Sigmoid => {
                        d_row.iter_mut().zip(row).zip(codes).map(|((d, &z), &y)| binary(d, z, y)).sum::<f64>()
                    }
                };
                d_row.iter_mut().for_each(|value| *value *= scale);
            }
            sum
        })
        .collect();
    Ok(partial.iter().sum::<f64>() / count)
}

fn softmax<T: Real>(d_row: &mut [T], row: &[T], label: usize) -> f64 {
    let largest = row.iter().copied().fold(T::neg_infinity(), T::max);
    let mut total = T::zero();
    for (d, &z) in d_row.iter_mut().zip(row) {
        *d = (z - largest).exp();
        total += *d;
    }
    d_row.iter_mut().for_each(|value| *value /= total);
    d_row[label] -= T::one();
    (total.ln() + largest - row[label]).widen()
}

fn binary<T: Real>(d: &mut T, z: T, label: i32) -> f64 {
    let y = T::from_f64(f64::from(label));
    *d = sigmoid(z) - y;
    (z.max(T::zero()) - z * y + (-z.abs()).exp().ln_1p()).widen()
}
