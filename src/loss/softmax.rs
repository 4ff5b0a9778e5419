//! Softmax cross-entropy: one class per unit, out of three or more.
//!
//! l = log sum_c exp(z_c) - z_y          dz = softmax(z) - onehot(y)

use super::metrics::{arg_max, f1, mean, summary};
use super::ranking::roc_auc_of_classes;
use super::{Chance, Guess, Line, Loss, ScoreKind, Scored, Scores, TargetScaling, calibration, chance};
use crate::real::Real;
use harmonia_graph::dataset::Labels;
use rayon::prelude::*;

/// See the module.
pub struct Softmax;

/// The scores of classification.
pub(super) const CLASS_SCORES: &[ScoreKind] = &[
    ScoreKind {
        name: "accuracy",
        label: "accuracy",
        title: "Accuracy",
        percent: true,
        higher: true,
        drawn: true,
        undefined: 0.0,
    },
    ScoreKind {
        name: "roc_auc",
        label: "ROC-AUC",
        title: "ROC-AUC",
        percent: true,
        higher: true,
        drawn: true,
        undefined: 0.5,
    },
    ScoreKind {
        name: "nll",
        label: "NLL",
        title: "Negative log-likelihood",
        percent: false,
        higher: false,
        drawn: false,
        undefined: f64::MAX,
    },
    ScoreKind {
        name: "macro_f1",
        label: "macro-F1",
        title: "Macro-F1",
        percent: true,
        higher: true,
        drawn: false,
        undefined: 0.0,
    },
];

impl Loss for Softmax {
    type Target = i32;
    const KERNEL: &'static str = "loss_softmax";
    const SCORES: &'static [ScoreKind] = CLASS_SCORES;
    const LOSS: &'static str = "nll";

    fn fits(labels: &Labels) -> bool {
        matches!(labels, Labels::Classes { classes: 3.., .. })
    }

    fn width(_: usize) -> usize {
        1
    }

    fn target(to: &mut [i32], labels: &Labels, unit: usize, _: Option<&TargetScaling>) {
        to.iter_mut().zip(labels.codes(unit)).for_each(|(to, code)| *to = code);
    }

    fn row<T: Real>(d_row: &mut [T], row: &[T], targets: &[i32]) -> f64 {
        let label = targets[0] as usize;
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

    fn predict(row: &mut [f64]) {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|logit| (logit - largest).exp()).sum();
        row.iter_mut().for_each(|logit| *logit = (*logit - largest).exp() / sum);
    }

    fn score(scored: &Scored<'_>) -> Scores {
        let (classes, count) = (scored.labels.outputs(), scored.units.len() as f64);
        let rows = || scored.logits.chunks_exact(classes);
        let truth = self::classes(scored);
        let (predicted, partition): (Vec<usize>, Vec<f64>) =
            scored.logits.par_chunks_exact(classes).map(summary).unzip();
        let correct = truth.iter().zip(&predicted).filter(|(a, b)| a == b).count();
        let likely = |((row, log_sum), &class): ((&[f32], &f64), &usize)| log_sum - f64::from(row[class]);
        let nll: f64 = rows().zip(&partition).zip(&truth).map(likely).sum();
        // Probabilities, not logits: the classes of a row compete.
        let score = |row: usize, class: usize| f64::from(scored.logits[row * classes + class]) - partition[row];
        let areas = roc_auc_of_classes(&truth, classes, score);
        let f1 = f1(&truth, &predicted, classes);
        Scores::new([
            ("accuracy", Some(correct as f64 / count)),
            ("roc_auc", mean(areas.into_iter().flatten())),
            ("nll", Some(nll / count)),
            ("macro_f1", mean(f1.into_iter().flatten())),
        ])
    }

    fn chance(labels: &Labels, train: &[u32], valid: &[u32], _: Option<&TargetScaling>) -> Chance {
        chance::of_frequencies(labels, train, valid)
    }

    fn guesses(scored: &Scored<'_>) -> Vec<Guess> {
        let guess = |(row, truth): (&[f32], usize)| {
            let mut row: Vec<f64> = row.iter().map(|&z| f64::from(z)).collect();
            let predicted = arg_max(&row);
            Self::predict(&mut row);
            Guess { confidence: row[predicted], predicted, truth }
        };
        scored.logits.par_chunks_exact(scored.labels.outputs()).zip(classes(scored)).map(guess).collect()
    }

    fn line(scored: &Scored<'_>, weights: &[f64]) -> Option<Line> {
        calibration::softmax_line(&scored.rows(), &classes(scored), weights)
    }
}

/// The class of each unit.
fn classes(scored: &Scored<'_>) -> Vec<usize> {
    let code = |&unit: &u32| scored.labels.codes(unit as usize).next().unwrap_or(0) as usize;
    scored.units.iter().map(code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_by_hand() {
        let labels = Labels::Classes { ids: vec![0, 1, 2, 1], classes: 3 };
        let logits = [2.0, 0.0, 0.0, /**/ 0.0, 1.0, 0.0, /**/ 0.0, 5.0, 0.0, /**/ 0.0, 3.0, 0.0];
        let scored = Scored { labels: &labels, units: &[0, 1, 2, 3], logits: &logits, scaling: None };
        let scores = Softmax::score(&scored);
        assert_eq!(scores.get("accuracy"), Some(0.75));
        // F1: class 0 1, class 1 2*2/(2+3), class 2 0
        assert!((scores.get("macro_f1").unwrap() - (1.0 + 0.8 + 0.0) / 3.0).abs() < 1e-12);
        let e = f64::exp;
        let nll = ((e(2.0) + 2.0).ln() - 2.0)
            + ((e(1.0) + 2.0).ln() - 1.0)
            + (e(5.0) + 2.0).ln()
            + ((e(3.0) + 2.0).ln() - 3.0);
        assert!((scores.get("nll").unwrap() - nll / 4.0).abs() < 1e-12);
    }
}
