//! What logits are held against, in the type the loss reads: codes of classes, or numbers.
//!
//! Devices take both as words of 32 bits; a row that is no target holds [`Target::ABSENT`].

use harmonia_graph::dataset::Labels;
use harmonia_graph::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Targets of a batch, one row per row of the logits.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// The class, or 0/1 per output; -1 where the row is no target.
    Codes(Vec<i32>),
    /// One number per output; NaN where the row is no target.
    Values(Vec<f32>),
}

impl Targets {
    /// As devices take them.
    pub fn words(&self) -> &[u32] {
        match self {
            Targets::Codes(codes) => bytemuck::cast_slice(codes),
            Targets::Values(values) => bytemuck::cast_slice(values),
        }
    }

    /// Numbers of all rows.
    pub fn len(&self) -> usize {
        self.words().len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One target: of which type, and which value stands for none.
pub trait Target: bytemuck::Pod + Send + Sync + PartialEq {
    /// No target.
    const ABSENT: Self;

    /// Whether there is a target.
    fn is_present(self) -> bool;

    /// All targets of a batch.
    fn wrap(targets: Vec<Self>) -> Targets;

    /// Those of a batch, where they are of this type.
    ///
    /// # Errors
    /// They are of another: the batch was made for another loss.
    fn of(targets: &Targets) -> Result<&[Self]>;
}

fn other_loss() -> Error {
    Error::Device("the targets of a batch are not of the type its loss reads".into())
}

impl Target for i32 {
    const ABSENT: i32 = -1;

    #[inline(always)]
    fn is_present(self) -> bool {
        self >= 0
    }

    fn wrap(targets: Vec<i32>) -> Targets {
        Targets::Codes(targets)
    }

    fn of(targets: &Targets) -> Result<&[i32]> {
        match targets {
            Targets::Codes(codes) => Ok(codes),
            Targets::Values(_) => Err(other_loss()),
        }
    }
}

impl Target for f32 {
    const ABSENT: f32 = f32::NAN;

    #[inline(always)]
    fn is_present(self) -> bool {
        !self.is_nan()
    }

    fn wrap(targets: Vec<f32>) -> Targets {
        Targets::Values(targets)
    }

    fn of(targets: &Targets) -> Result<&[f32]> {
        match targets {
            Targets::Values(values) => Ok(values),
            Targets::Codes(_) => Err(other_loss()),
        }
    }
}

/// Mean and deviation of numbers to be fitted, per output: training sees (target - mean) / deviation, so that learning
/// rates mean the same for prices and for fractions; whatever people see is in the units of the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetScaling {
    /// Mean over the training units.
    pub mean: Vec<f64>,
    /// Standard deviation over the training units; 1 where all are the same.
    pub deviation: Vec<f64>,
}

impl TargetScaling {
    /// By the training units; none where there are no numbers to fit.
    pub fn of(labels: &Labels, train: &[u32]) -> Option<TargetScaling> {
        if !labels.is_values() {
            return None;
        }
        let (width, count) = (labels.outputs(), train.len().max(1) as f64);
        let column = |output: usize| train.iter().map(move |&unit| f64::from(labels.values(unit as usize)[output]));
        let mean: Vec<f64> = (0..width).map(|output| column(output).sum::<f64>() / count).collect();
        let deviation = |output: usize| {
            let squares: f64 = column(output).map(|value| (value - mean[output]).powi(2)).sum();
            let deviation = (squares / count).sqrt();
            if deviation > 0.0 && deviation.is_finite() { deviation } else { 1.0 }
        };
        Some(TargetScaling { deviation: (0..width).map(deviation).collect(), mean })
    }

    /// A number as training sees it.
    pub fn scaled(&self, output: usize, value: f64) -> f64 {
        (value - self.mean[output]) / self.deviation[output]
    }

    /// Turns outputs (rows x L) of training into the units of the target.
    pub fn restore(&self, outputs: &mut [f32]) {
        for row in outputs.chunks_exact_mut(self.mean.len()) {
            for ((value, mean), deviation) in row.iter_mut().zip(&self.mean).zip(&self.deviation) {
                *value = (f64::from(*value) * deviation + mean) as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_is_undone_and_a_constant_target_survives_it() {
        let labels = Labels::Values { values: vec![1.0, 7.0, 3.0, 7.0, 100.0, 7.0], width: 2 };
        let scaling = TargetScaling::of(&labels, &[0, 1]).unwrap();
        assert_eq!((&scaling.mean[..], &scaling.deviation[..]), (&[2.0, 7.0][..], &[1.0, 1.0][..]));
        let mut outputs: Vec<f32> = (0..2).map(|output| scaling.scaled(output, 5.0) as f32).collect();
        scaling.restore(&mut outputs);
        assert_eq!(outputs, [5.0, 5.0]);
        assert_eq!(TargetScaling::of(&Labels::Classes { ids: vec![0, 1], classes: 2 }, &[0]), None);
    }

    #[test]
    fn targets_of_another_loss_are_refused() {
        assert!(<i32 as Target>::of(&Targets::Values(vec![1.0])).is_err());
        assert!(<f32 as Target>::of(&Targets::Codes(vec![1])).is_err());
        assert_eq!(Targets::Values(vec![1.0]).words(), [0x3f80_0000]);
        assert!(!f32::ABSENT.is_present() && !i32::ABSENT.is_present());
    }
}
