//! Launches of `kernels/adam.cu`.

use super::verdict::DeviceVerdict;
use super::{Buffer, Driver, Grid, Launcher, abi};
use crate::device::{ADAM_BETA1, ADAM_BETA2, ADAM_EPSILON, AdamStep};
use harmonia_graph::error::Result;
use std::ops::Range;

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    #[allow(clippy::too_many_arguments)] // what the op takes
    pub(super) fn adam(
        &self,
        parameters: &mut Buffer<V, f32>,
        first_moment: &mut Buffer<V, f32>,
        second_moment: &mut Buffer<V, f32>,
        gradient: &Buffer<V, f32>,
        verdict: &DeviceVerdict<V>,
        range: &Range<usize>,
        step: AdamStep,
    ) -> Result<()> {
        let power = step.step.min(i32::MAX as u64) as i32;
        let lengths = [parameters.len(), first_moment.len(), second_moment.len(), gradient.len()];
        assert!(lengths.iter().all(|&length| range.start <= range.end && range.end <= length));
        let (start, length) = (range.start, range.len());
        let arguments = abi::Adam {
            parameters: self.at_mut(parameters, start),
            first_moment: self.at_mut(first_moment, start),
            second_moment: self.at_mut(second_moment, start),
            gradient: self.at(gradient, start),
            verdict: self.verdict_at(verdict),
            length: length as u64,
            clip_norm: step.clip_norm,
            beta1: ADAM_BETA1 as f32,
            beta2: ADAM_BETA2 as f32,
            // Taken in f64: 1 - 0.999 in f32 is off by 1e-5 and would not match the bias correction.
            one_minus_beta1: (1.0 - ADAM_BETA1) as f32,
            one_minus_beta2: (1.0 - ADAM_BETA2) as f32,
            rate: (step.learning_rate / (1.0 - ADAM_BETA1.powi(power))) as f32,
            correction: (1.0 / (1.0 - ADAM_BETA2.powi(power)).sqrt()) as f32,
            epsilon: ADAM_EPSILON as f32,
            added_decay: if step.decoupled { 0.0 } else { step.weight_decay as f32 },
            shrink: if step.decoupled { (1.0 - step.learning_rate * step.weight_decay) as f32 } else { 1.0 },
        };
        // SAFETY: all four arrays have `length` elements from `start` on.
        unsafe { self.run("adam", Grid::flat(length), &arguments) }
    }

    /// A copy of values in a buffer of their length; nobody waits.
    pub(super) fn keep_values(&self, kept: &mut Buffer<V, f32>, values: &Buffer<V, f32>) -> Result<()> {
        assert_eq!(kept.len(), values.len(), "a copy keeps its length");
        let length = values.len() as u64;
        let arguments = abi::Keep { kept: self.at_mut(kept, 0), values: self.at(values, 0), length };
        // SAFETY: both have `length` elements.
        unsafe { self.run("keep", Grid::flat(values.len()), &arguments) }
    }

    /// Values of the wrong sign turn into zeros; nobody waits.
    pub(super) fn keep_value_signs(&self, values: &mut Buffer<V, f32>, signs: &Buffer<V, f32>) -> Result<()> {
        assert_eq!(values.len(), signs.len(), "a sign for each");
        let length = values.len() as u64;
        let arguments = abi::KeepSigns { values: self.at_mut(values, 0), signs: self.at(signs, 0), length };
        // SAFETY: both have `length` elements.
        unsafe { self.run("keep_signs", Grid::flat(values.len()), &arguments) }
    }

    pub(super) fn clear(&self, buffer: &mut Buffer<V, f32>) -> Result<()> {
        self.wipe(buffer)
    }
}
