//! Squared error: numbers to be fitted, one or several per unit.
//!
//! l = sum_c (z_c - y_c)^2 / 2           dz = z - y
//!
//! y are standardised targets ([`TargetScaling`]), so that the loss of a constant prediction is 1/2 per output whatever the
//! units. RMSE, MAE and R2 are in the units of the target, means over outputs.

use super::metrics::mean;
use super::{Chance, Loss, ScoreKind, Scored, Scores, TargetScaling};
use crate::real::Real;
use harmonia_graph::dataset::Labels;

/// See the module.
pub struct Squared;

/// The scores of regression.
pub(super) const VALUE_SCORES: &[ScoreKind] = &[
    ScoreKind { name: "r2", label: "R2", title: "R2", percent: false, higher: true, drawn: true, undefined: 0.0 },
    ScoreKind {
        name: "rmse",
        label: "RMSE",
        title: "Root mean squared error",
        percent: false,
        higher: false,
        drawn: false,
        undefined: f64::MAX,
    },
    ScoreKind {
        name: "mae",
        label: "MAE",
        title: "Mean absolute error",
        percent: false,
        higher: false,
        drawn: false,
        undefined: f64::MAX,
    },
    ScoreKind {
        name: "loss",
        label: "loss",
        title: "Loss",
        percent: false,
        higher: false,
        drawn: false,
        undefined: f64::MAX,
    },
];

impl Loss for Squared {
    type Target = f32;
    const KERNEL: &'static str = "loss_squared";
    const SCORES: &'static [ScoreKind] = VALUE_SCORES;
    const LOSS: &'static str = "loss";
    const REGRESSION: bool = true;

    fn fits(labels: &Labels) -> bool {
        labels.is_values()
    }

    fn target(to: &mut [f32], labels: &Labels, unit: usize, scaling: Option<&TargetScaling>) {
        scaled_targets(to, labels, unit, scaling);
    }

    fn row<T: Real>(d_row: &mut [T], row: &[T], targets: &[f32]) -> f64 {
        let half = T::from_f64(0.5);
        let mut sum = T::zero();
        for ((d, &z), &y) in d_row.iter_mut().zip(row).zip(targets) {
            *d = z - T::from_f32(y);
            sum += half * *d * *d;
        }
        sum.widen()
    }

    fn predict(_: &mut [f64]) {}

    fn score(scored: &Scored<'_>) -> Scores {
        value_scores(scored, |error| 0.5 * error * error)
    }

    fn chance(labels: &Labels, train: &[u32], valid: &[u32], scaling: Option<&TargetScaling>) -> Chance {
        constant_values(labels, train, valid, scaling, Self::score)
    }
}

/// The numbers of a unit as training sees them.
pub(super) fn scaled_targets(to: &mut [f32], labels: &Labels, unit: usize, scaling: Option<&TargetScaling>) {
    for (output, (to, &value)) in to.iter_mut().zip(labels.values(unit)).enumerate() {
        *to = scaling.map_or(value, |scaling| scaling.scaled(output, f64::from(value)) as f32);
    }
}

/// Scores of numbers; `loss` is that of one standardised error.
pub(super) fn value_scores(scored: &Scored<'_>, loss: impl Fn(f64) -> f64) -> Scores {
    let (rows, outputs, count) = (scored.rows(), scored.labels.outputs(), scored.units.len() as f64);
    let (mut total, mut squares, mut sizes, mut explained) = (0.0, 0.0, 0.0, Vec::new());
    for output in 0..outputs {
        let truth: Vec<f64> =
            scored.units.iter().map(|&unit| f64::from(scored.labels.values(unit as usize)[output])).collect();
        let errors: Vec<f64> = rows.iter().zip(&truth).map(|(row, truth)| row[output] - truth).collect();
        let deviation = scored.scaling.map_or(1.0, |scaling| scaling.deviation[output]);
        total += errors.iter().map(|error| loss(error / deviation)).sum::<f64>();
        let residual: f64 = errors.iter().map(|error| error * error).sum();
        squares += residual;
        sizes += errors.iter().map(|error| error.abs()).sum::<f64>();
        let centre = truth.iter().sum::<f64>() / count;
        let spread: f64 = truth.iter().map(|value| (value - centre).powi(2)).sum();
        explained.extend((spread > 0.0).then(|| 1.0 - residual / spread));
    }
    let entries = count * outputs as f64;
    Scores::new([
        ("r2", mean(explained)),
        ("rmse", Some((squares / entries).sqrt())),
        ("mae", Some(sizes / entries)),
        ("loss", Some(total / count)),
    ])
}

/// What always predicting the training mean gets.
pub(super) fn constant_values(
    labels: &Labels,
    train: &[u32],
    valid: &[u32],
    scaling: Option<&TargetScaling>,
    score: fn(&Scored<'_>) -> Scores,
) -> Chance {
    let mean: Vec<f32> = match scaling {
        Some(scaling) => scaling.mean.iter().map(|&mean| mean as f32).collect(),
        None => vec![0.0; labels.outputs()],
    };
    let of = |units: &[u32]| {
        let logits: Vec<f32> = units.iter().flat_map(|_| mean.iter().copied()).collect();
        score(&Scored { labels, units, logits: &logits, scaling })
    };
    Chance { train_loss: of(train).get("loss").unwrap_or(0.0), valid: of(valid) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_in_the_units_of_the_target() {
        // One output: 10, 20, 30, 40 predicted as 12, 18, 30, 44.
        let labels = Labels::Values { values: vec![10.0, 20.0, 30.0, 40.0], width: 1 };
        let scaling = TargetScaling::of(&labels, &[0, 1, 2, 3]).unwrap();
        let scored = Scored {
            labels: &labels,
            units: &[0, 1, 2, 3],
            logits: &[12.0, 18.0, 30.0, 44.0],
            scaling: Some(&scaling),
        };
        let scores = Squared::score(&scored);
        let is = |name: &str, expected: f64| {
            assert!((scores.get(name).unwrap() - expected).abs() < 1e-12, "{name} {:?}", scores.get(name));
        };
        is("rmse", (24f64 / 4.0).sqrt());
        is("mae", 2.0);
        is("r2", 1.0 - 24.0 / 500.0);
        // The variance is 125.
        is("loss", 0.5 * 24.0 / 125.0 / 4.0);
        let chance = Squared::chance(&labels, &[0, 1, 2, 3], &[0, 1, 2, 3], Some(&scaling));
        assert!((chance.train_loss - 0.5).abs() < 1e-12);
        assert!(chance.valid.get("r2").unwrap().abs() < 1e-12);
    }

    #[test]
    fn the_gradient_is_that_of_half_the_square() {
        let (mut d, row, targets) = ([0.0f64; 2], [1.5, -2.0], [1.0f32, 0.5]);
        let loss = Squared::row(&mut d, &row, &targets);
        assert_eq!((loss, d), (0.5 * (0.25 + 6.25), [0.5, -2.5]));
    }
}
