//! How good predictions are: accuracy, ROC-AUC, negative log-likelihood, macro-F1.
//!
//! A binary task has one logit and predicts class 1 where it is above 0; a multi-label task is as many binary tasks,
//! averaged. Multi-class ROC-AUC is the mean over classes of one class against the rest.

use crate::loss::Objective;
use harmonia_graph::dataset::Labels;
use serde::{Deserialize, Serialize};

/// Scores of one set of units. `None` where a score is not defined (no units, or only one class present).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Share classified correctly.
    pub accuracy: Option<f64>,
    /// Area under the ROC curve, ties counted half.
    pub roc_auc: Option<f64>,
    /// Mean negative log-likelihood (summed over labels for multi-label tasks).
    pub nll: Option<f64>,
    /// Unweighted mean over classes of the F1 score.
    pub macro_f1: Option<f64>,
}

/// Names of the scores, as in `--json` and `metrics.jsonl`.
pub const SCORE_NAMES: [&str; 4] = ["accuracy", "roc_auc", "nll", "macro_f1"];

impl Scores {
    /// Scores `logits` (units x L, in the order of `units`).
    pub fn new(labels: &Labels, units: &[u32], logits: &[f32]) -> Scores {
        if units.is_empty() {
            return Scores::default();
        }
        let outputs = labels.outputs();
        let rows: Vec<Vec<f64>> =
            logits.chunks_exact(outputs).map(|row| row.iter().map(|&z| f64::from(z)).collect()).collect();
        let codes: Vec<Vec<i32>> = units.iter().map(|&unit| labels.codes(unit as usize).collect()).collect();
        match Objective::of(labels) {
            Objective::Softmax => multi_class(&rows, &codes, outputs),
            Objective::Sigmoid => binary(&rows, &codes, outputs),
        }
    }

    /// By name.
    pub fn get(&self, name: &str) -> Option<f64> {
        match name {
            "accuracy" => self.accuracy,
            "roc_auc" => self.roc_auc,
            "nll" => self.nll,
            "macro_f1" => self.macro_f1,
            _ => None,
        }
    }
}

fn multi_class(rows: &[Vec<f64>], codes: &[Vec<i32>], classes: usize) -> Scores {
    let truth: Vec<usize> = codes.iter().map(|code| code[0] as usize).collect();
    let predicted: Vec<usize> = rows.iter().map(|row| arg_max(row)).collect();
    let count = rows.len() as f64;
    let correct = truth.iter().zip(&predicted).filter(|(a, b)| a == b).count();
    let partition: Vec<f64> = rows.iter().map(|row| log_sum_exp(row)).collect();
    let nll: f64 = rows.iter().zip(&partition).zip(&truth).map(|((row, log_sum), &class)| log_sum - row[class]).sum();
    let areas = (0..classes).filter_map(|class| {
        // Probabilities, not logits: the classes of a row compete.
        let scores: Vec<f64> = rows.iter().zip(&partition).map(|(row, log_sum)| row[class] - log_sum).collect();
        let positive: Vec<bool> = truth.iter().map(|&other| other == class).collect();
        roc_auc(&scores, &positive)
    });
    let f1 = (0..classes).filter_map(|class| f1(&truth, &predicted, class));
    Scores { accuracy: Some(correct as f64 / count), roc_auc: mean(areas), nll: Some(nll / count), macro_f1: mean(f1) }
}

fn binary(rows: &[Vec<f64>], codes: &[Vec<i32>], outputs: usize) -> Scores {
    let (mut accuracy, mut nll) = (0.0, 0.0);
    let (mut areas, mut f1s) = (Vec::new(), Vec::new());
    for output in 0..outputs {
        let scores: Vec<f64> = rows.iter().map(|row| row[output]).collect();
        let truth: Vec<usize> = codes.iter().map(|code| code[output] as usize).collect();
        let predicted: Vec<usize> = scores.iter().map(|&z| usize::from(z > 0.0)).collect();
        accuracy += truth.iter().zip(&predicted).filter(|(a, b)| a == b).count() as f64;
        nll +=
            scores.iter().zip(&truth).map(|(&z, &y)| z.max(0.0) - z * y as f64 + (-z.abs()).exp().ln_1p()).sum::<f64>();
        areas.extend(roc_auc(&scores, &truth.iter().map(|&y| y == 1).collect::<Vec<_>>()));
        // One label: the mean over both classes. Several labels: each label is a class of its own.
        let classes = if outputs == 1 { 0..2 } else { 1..2 };
        f1s.extend(classes.filter_map(|class| f1(&truth, &predicted, class)));
    }
    let count = rows.len() as f64;
    Scores {
        accuracy: Some(accuracy / (count * outputs as f64)),
        roc_auc: mean(areas),
        nll: Some(nll / count),
        macro_f1: mean(f1s),
    }
}

/// Probability that a random positive scores above a random negative, ties counting half.
fn roc_auc(scores: &[f64], positive: &[bool]) -> Option<f64> {
    let positives = positive.iter().filter(|&&p| p).count();
    let negatives = positive.len() - positives;
    if positives == 0 || negatives == 0 {
        return None;
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    // Sum of the ranks of positives, ties sharing their mean rank.
    let (mut rank_sum, mut before) = (0.0, 0);
    for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let mean_rank = before as f64 + (tied.len() + 1) as f64 / 2.0;
        rank_sum += mean_rank * tied.iter().filter(|&&i| positive[i]).count() as f64;
        before += tied.len();
    }
    let least = (positives * (positives + 1)) as f64 / 2.0;
    Some((rank_sum - least) / (positives as f64 * negatives as f64))
}

/// F1 of one class; `None` where it neither occurs nor is predicted.
fn f1(truth: &[usize], predicted: &[usize], class: usize) -> Option<f64> {
    let count = |values: &[usize]| values.iter().filter(|&&value| value == class).count();
    let hits = truth.iter().zip(predicted).filter(|&(&a, &b)| a == class && b == class).count();
    let total = count(truth) + count(predicted);
    (total > 0).then(|| 2.0 * hits as f64 / total as f64)
}

fn arg_max(row: &[f64]) -> usize {
    row.iter().enumerate().fold(0, |best, (i, &value)| if value > row[best] { i } else { best })
}

fn log_sum_exp(row: &[f64]) -> f64 {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + row.iter().map(|&z| (z - largest).exp()).sum::<f64>().ln()
}

/// Mean, or `None` of nothing.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sample standard deviation (n - 1), or `None` of fewer than two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let centre = mean(values.iter().copied())?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auc_by_counting_pairs() {
        let positive = [true, false, true, false, false];
        assert_eq!(roc_auc(&[3.0, 1.0, 2.0, 0.0, 1.5], &positive), Some(1.0));
        assert_eq!(roc_auc(&[0.0; 5], &positive), Some(0.5));
        // Pairs (positive, negative): 2>1, 2>0, 2=2 half; 1=1 half, 1>0, 1<2: 4 of 6.
        assert_eq!(roc_auc(&[2.0, 1.0, 1.0, 0.0, 2.0], &positive), Some(4.0 / 6.0));
        assert_eq!(roc_auc(&[1.0, 2.0], &[true, true]), None);
    }

    #[test]
    fn multi_class_by_hand() {
        let labels = Labels::Classes { ids: vec![0, 1, 2, 1], classes: 3 };
        let logits = [2.0, 0.0, 0.0, /**/ 0.0, 1.0, 0.0, /**/ 0.0, 5.0, 0.0, /**/ 0.0, 3.0, 0.0];
        let scores = Scores::new(&labels, &[0, 1, 2, 3], &logits);
        assert_eq!(scores.accuracy, Some(0.75));
        // F1: class 0 1, class 1 2*2/(2+3), class 2 0
        assert!((scores.macro_f1.unwrap() - (1.0 + 0.8 + 0.0) / 3.0).abs() < 1e-12);
        let e = f64::exp;
        let nll = ((e(2.0) + 2.0).ln() - 2.0)
            + ((e(1.0) + 2.0).ln() - 1.0)
            + (e(5.0) + 2.0).ln()
            + ((e(3.0) + 2.0).ln() - 3.0);
        assert!((scores.nll.unwrap() - nll / 4.0).abs() < 1e-12);
    }

    #[test]
    fn binary_and_multi_label_by_hand() {
        let labels = Labels::Classes { ids: vec![1, 0, 1], classes: 2 };
        let scores = Scores::new(&labels, &[0, 1, 2], &[1.0, -1.0, -2.0]);
        assert_eq!(scores.accuracy, Some(2.0 / 3.0));
        assert_eq!(scores.roc_auc, Some(0.5));
        let nll = 2.0 * f64::exp(-1.0).ln_1p() + 2.0 + f64::exp(-2.0).ln_1p();
        assert!((scores.nll.unwrap() - nll / 3.0).abs() < 1e-12);

        let labels = Labels::Multi { bits: vec![1, 0, 0, 1], width: 2 };
        let scores = Scores::new(&labels, &[0, 1], &[1.0, -1.0, 1.0, 1.0]);
        assert_eq!(scores.accuracy, Some(0.75));
        assert_eq!(scores.roc_auc, Some(0.75));
        assert!((scores.macro_f1.unwrap() - (2.0 / 3.0 + 1.0) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn spread_is_the_sample_deviation() {
        assert_eq!(standard_deviation(&[1.0, 2.0, 3.0]), Some(1.0));
        assert_eq!(standard_deviation(&[1.0]), None);
        assert_eq!(mean([]), None);
    }
}
