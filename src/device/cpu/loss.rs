//! The loss over the targets of a batch, value and gradient together; the formulas are those of [`crate::loss`].
//!
//! Deterministic: summed in f64 over fixed chunks of rows.

use super::{Cpu, CpuInputs, ROW_CHUNK};
use crate::device::Posted;
use crate::loss::{Loss, Target, on_loss};
use crate::real::Real;
use harmonia_graph::error::Result;
use rayon::prelude::*;

/// d_logits = ..., and the mean loss, weighted where rows are.
pub fn loss<T: Real>(
    _: &Cpu<T>,
    verdict: &mut Posted,
    d_logits: &mut [T],
    logits: &[T],
    inputs: &CpuInputs<T>,
) -> Result<()> {
    verdict.now.loss = on_loss!(inputs.objective, L => mean::<T, L>(d_logits, logits, inputs))?;
    Ok(())
}

fn mean<T: Real, L: Loss>(d_logits: &mut [T], logits: &[T], inputs: &CpuInputs<T>) -> Result<f64> {
    let (outputs, count) = (inputs.outputs, inputs.units.max(1) as f64);
    let width = L::width(outputs);
    let targets = L::Target::of(&inputs.targets)?;
    let scale = T::from_f64(1.0 / count);
    let partial: Vec<f64> = (d_logits.par_chunks_mut(ROW_CHUNK * outputs))
        .zip(logits.par_chunks(ROW_CHUNK * outputs))
        .zip(targets.par_chunks(ROW_CHUNK * width))
        .enumerate()
        .map(|(chunk, ((d_logits, logits), targets))| {
            // Times 1 is exact: without weights every bit is as if there were none.
            let weight = |row: usize| inputs.weights.as_ref().map_or(1.0, |weights| weights[chunk * ROW_CHUNK + row]);
            let mut sum = 0.0;
            let rows = d_logits.chunks_exact_mut(outputs).zip(logits.chunks_exact(outputs));
            for (at, ((d_row, row), targets)) in rows.zip(targets.chunks_exact(width)).enumerate() {
                if targets[0].is_present() {
                    let weight = weight(at);
                    sum += f64::from(weight) * L::row(d_row, row, targets);
                    let scale = scale * T::from_f32(weight);
                    d_row.iter_mut().for_each(|value| *value *= scale);
                } else {
                    d_row.fill(T::zero());
                }
            }
            sum
        })
        .collect();
    Ok(partial.iter().sum::<f64>() / count)
}
