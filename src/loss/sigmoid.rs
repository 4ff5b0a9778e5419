//! Sigmoid cross-entropy: a binary task with one logit, or several yes/no labels, each with its own.
//!
//! l = sum_c max(z,0) - z y + log(1 + exp(-|z|))   dz = sigmoid(z) - y
//!
//! A binary task predicts class 1 where its logit is above 0; a multi-label task is as many binary tasks: its loss is
//! their sum, its other scores their mean.

use super::metrics::{f1, mean};
use super::ranking::roc_auc;
use super::softmax::CLASS_SCORES;
use super::{Chance, Guess, Line, Loss, ScoreKind, Scored, Scores, TargetScaling, calibration, chance};
use crate::real::Real;
use harmonia_graph::dataset::Labels;

/// See the module.
pub struct Sigmoid;

impl Loss for Sigmoid {
    type Target = i32;
    const KERNEL: &'static str = "loss_sigmoid";
    const SCORES: &'static [ScoreKind] = CLASS_SCORES;
    const LOSS: &'static str = "nll";

    fn fits(labels: &Labels) -> bool {
        matches!(labels, Labels::Classes { classes: 2, .. } | Labels::Multi { .. })
    }

    fn target(to: &mut [i32], labels: &Labels, unit: usize, _: Option<&TargetScaling>) {
        to.iter_mut().zip(labels.codes(unit)).for_each(|(to, code)| *to = code);
    }

    fn row<T: Real>(d_row: &mut [T], row: &[T], targets: &[i32]) -> f64 {
        d_row.iter_mut().zip(row).zip(targets).map(|((d, &z), &y)| binary(d, z, y)).sum::<f64>()
    }

    fn predict(row: &mut [f64]) {
        row.iter_mut().for_each(|logit| *logit = 1.0 / (1.0 + (-*logit).exp()));
    }

    fn score(scored: &Scored<'_>) -> Scores {
        let (outputs, labels) = (scored.labels.outputs(), labels(scored));
        let (mut accuracy, mut nll) = (0.0, 0.0);
        let (mut areas, mut f1s) = (Vec::new(), Vec::new());
        for output in 0..outputs {
            let scores: Vec<f64> = scored.logits.iter().skip(output).step_by(outputs).map(|&z| f64::from(z)).collect();
            let truth: Vec<usize> = labels.iter().skip(output).step_by(outputs).copied().collect();
            let predicted: Vec<usize> = scores.iter().map(|&z| usize::from(z > 0.0)).collect();
            accuracy += truth.iter().zip(&predicted).filter(|(a, b)| a == b).count() as f64;
            nll += scores
                .iter()
                .zip(&truth)
                .map(|(&z, &y)| z.max(0.0) - z * y as f64 + (-z.abs()).exp().ln_1p())
                .sum::<f64>();
            areas.extend(roc_auc(scores.iter().copied(), truth.iter().map(|&y| y == 1)));
            // One label: the mean over both classes. Several labels: each label is a class of its own.
            let classes = if outputs == 1 { 0..2 } else { 1..2 };
            f1s.extend(f1(&truth, &predicted, 2)[classes].iter().flatten());
        }
        let count = scored.units.len() as f64;
        Scores::new([
            ("accuracy", Some(accuracy / (count * outputs as f64))),
            ("roc_auc", mean(areas)),
            ("nll", Some(nll / count)),
            ("macro_f1", mean(f1s)),
        ])
    }

    fn chance(labels: &Labels, train: &[u32], valid: &[u32], _: Option<&TargetScaling>) -> Chance {
        chance::of_frequencies(labels, train, valid)
    }

    fn guesses(scored: &Scored<'_>) -> Vec<Guess> {
        let guess = |(&z, truth): (&f32, usize)| {
            // The probability of the predicted of the two.
            Guess { confidence: crate::real::sigmoid(f64::from(z).abs()), predicted: usize::from(z > 0.0), truth }
        };
        scored.logits.iter().zip(labels(scored)).map(guess).collect()
    }

    fn line(scored: &Scored<'_>, weights: &[f64]) -> Option<Line> {
        let logits: Vec<f64> = scored.logits.iter().map(|&z| f64::from(z)).collect();
        // An offset that several labels share would suit none of them.
        calibration::sigmoid_line(&logits, &labels(scored), weights, scored.labels.outputs() == 1)
    }
}

/// Yes or no for each logit.
fn labels(scored: &Scored<'_>) -> Vec<usize> {
    scored.units.iter().flat_map(|&unit| scored.labels.codes(unit as usize)).map(|code| code as usize).collect()
}

fn binary<T: Real>(d: &mut T, z: T, label: i32) -> f64 {
    let y = T::from_f64(f64::from(label));
    *d = crate::real::sigmoid(z) - y;
    (z.max(T::zero()) - z * y + (-z.abs()).exp().ln_1p()).widen()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(labels: &Labels, units: &[u32], logits: &[f32]) -> Scores {
        Sigmoid::score(&Scored { labels, units, logits, scaling: None })
    }

    #[test]
    fn binary_and_multi_label_scores_by_hand() {
        let labels = Labels::Classes { ids: vec![1, 0, 1], classes: 2 };
        let scores = score(&labels, &[0, 1, 2], &[1.0, -1.0, -2.0]);
        assert_eq!(scores.get("accuracy"), Some(2.0 / 3.0));
        assert_eq!(scores.get("roc_auc"), Some(0.5));
        let nll = 2.0 * f64::exp(-1.0).ln_1p() + 2.0 + f64::exp(-2.0).ln_1p();
        assert!((scores.get("nll").unwrap() - nll / 3.0).abs() < 1e-12);

        let labels = Labels::Multi { bits: vec![1, 0, 0, 1], width: 2 };
        let scores = score(&labels, &[0, 1], &[1.0, -1.0, 1.0, 1.0]);
        assert_eq!(scores.get("accuracy"), Some(0.75));
        assert_eq!(scores.get("roc_auc"), Some(0.75));
        assert!((scores.get("macro_f1").unwrap() - (2.0 / 3.0 + 1.0) / 2.0).abs() < 1e-12);
    }
}
