//! What always predicting the same gets: the frequencies of classes among the training units, or their mean. Every score is
//! shown beside it, because nothing below it has learned anything.

use super::{Objective, Scored, Scores, TargetScaling};
use harmonia_graph::dataset::Labels;

/// Frequencies are kept this far from 0 and 1: a class that training has not seen must not cost infinitely much.
const RAREST: f64 = 1e-6;

impl Objective {
    /// What the constant prediction is called: that of the largest class, or the mean.
    pub fn constant_name(self) -> &'static str {
        if self.is_regression() { "mean" } else { "majority" }
    }

    /// Outputs of the best constant prediction: numbers in the units of the target, or logits of frequencies.
    pub fn constant(self, labels: &Labels, train: &[u32]) -> Vec<f32> {
        self.weighted_constant(labels, train, None)
    }

    /// The same of units that do not count alike.
    pub fn weighted_constant(self, labels: &Labels, train: &[u32], weights: Option<&[f32]>) -> Vec<f32> {
        let outputs = labels.outputs();
        let weight = |unit: u32| weights.map_or(1.0, |weights| f64::from(weights[unit as usize]));
        let total = if train.is_empty() { 1.0 } else { train.iter().map(|&unit| weight(unit)).sum::<f64>() };
        let mean = |value: &dyn Fn(usize) -> f64| {
            train.iter().map(|&unit| weight(unit) * value(unit as usize)).sum::<f64>() / total
        };
        let share = |output: usize| {
            let is = |unit: usize| match labels.class_ids() {
                // Of two classes the second has the logit.
                Some(ids) if outputs == 1 => ids[unit] == 1,
                Some(ids) => ids[unit] as usize == output,
                None => labels.codes(unit).nth(output) == Some(1),
            };
            mean(&|unit| f64::from(is(unit))).clamp(RAREST, 1.0 - RAREST)
        };
        let each = |output: usize| match self {
            _ if labels.is_values() => mean(&|unit| f64::from(labels.values(unit)[output])),
            Objective::Softmax => share(output).ln(),
            _ => (share(output) / (1.0 - share(output))).ln(),
        };
        (0..outputs).map(|output| each(output) as f32).collect()
    }

    /// Scores of that prediction on some units.
    pub fn constant_scores(
        self,
        labels: &Labels,
        train: &[u32],
        units: &[u32],
        scaling: Option<&TargetScaling>,
    ) -> Scores {
        let logits = self.constant(labels, train).repeat(units.len());
        self.score(&Scored { labels, units, logits: &logits, scaling })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_classes_by_hand() {
        let labels = Labels::Classes { ids: vec![0, 0, 0, 1, 1, 0], classes: 2 };
        let scores = Objective::Sigmoid.constant_scores(&labels, &[0, 1, 2, 3], &[4, 5], None);
        assert_eq!((scores.get("accuracy"), scores.get("roc_auc")), (Some(0.5), Some(0.5)));
        let nll = -(0.25f64.ln() + 0.75f64.ln()) / 2.0;
        assert!((scores.get("nll").unwrap() - nll).abs() < 1e-6, "{scores:?}");
        // Never seen, and yet not infinite.
        let one = Objective::Sigmoid.constant_scores(&labels, &[0, 1], &[3], None);
        assert!(one.get("nll").unwrap() > 10.0 && one.get("nll").unwrap().is_finite());
    }

    #[test]
    fn three_classes_several_labels_and_numbers() {
        let labels = Labels::Classes { ids: vec![0, 1, 1, 2], classes: 3 };
        let scores = Objective::Softmax.constant_scores(&labels, &[0, 1, 2, 3], &[0, 1, 2, 3], None);
        assert_eq!(scores.get("accuracy"), Some(0.5));
        let nll = -(0.25f64.ln() * 2.0 + 0.5f64.ln() * 2.0) / 4.0;
        assert!((scores.get("nll").unwrap() - nll).abs() < 1e-6);
        let labels = Labels::Multi { bits: vec![1, 0, 1, 1], width: 2 };
        assert_eq!(
            Objective::Sigmoid.constant_scores(&labels, &[0, 1], &[0, 1], None).get("accuracy"),
            // The first label is always there, the second half of the time.
            Some(0.75)
        );
        let labels = Labels::Values { values: vec![1.0, 3.0, 8.0], width: 1 };
        let scores = Objective::Squared.constant_scores(&labels, &[0, 1], &[2], None);
        assert_eq!((scores.get("rmse"), Objective::Squared.constant_name()), (Some(6.0), "mean"));
    }
}
