//! What single scores do not say of predicted classes: which are taken for which, how well the positive class is ranked where it
//! is rare, how far probabilities are off, and where to put the threshold.

use super::{Guess, Objective, Scored};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Classes up to which a confusion matrix is kept: beyond, nobody reads it.
const MOST_CLASSES: usize = 64;
/// Probabilities that are held at a time: of more units and classes they are computed again, a few columns after the others.
const MOST_CHANCES: usize = 8 << 20;
/// A class rarer than this share makes a task imbalanced: a threshold of 1/2 then serves the other.
const IMBALANCED: f64 = 0.4;

/// Of some units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// Units by true class (row) and predicted class (column); of several labels and of many classes none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confusion: Vec<Vec<usize>>,
    /// Area under the curve of precision over recall (average precision); of several classes or labels their mean.
    pub pr_auc: Option<f64>,
    /// Mean squared distance of probabilities from what happened: of two classes and of labels (p - y)^2, of more the sum over
    /// classes.
    pub brier: Option<f64>,
}

/// Of the parts of a run that say something about other data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DetailsOfParts {
    /// Test units.
    pub test: Option<Details>,
    /// Validation units.
    pub validation: Option<Details>,
    /// Of two classes of which one is rare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Threshold>,
}

/// A probability of the positive class from which on to predict it, chosen by the validation units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// The probability.
    pub probability: f64,
    /// Macro-F1 of the validation units, which chose it.
    pub validation_macro_f1: f64,
    /// Macro-F1 of the test units with it; none without test units.
    pub test_macro_f1: Option<f64>,
    /// Their accuracy with it.
    pub test_accuracy: Option<f64>,
}

impl Objective {
    /// Details of predictions; none of numbers, and of no units.
    pub fn details(self, scored: &Scored<'_>) -> Option<Details> {
        if self.is_regression() || scored.units.is_empty() {
            return None;
        }
        let (labels, outputs) = (scored.labels, scored.labels.outputs());
        let names = labels.names();
        let count = scored.units.len();
        let is = |unit: u32, column: usize| {
            let mut codes = labels.codes(unit as usize);
            match (labels.is_classes(), outputs) {
                // Of two classes the second alone.
                (true, 1) => codes.next() == Some(1),
                (true, _) => codes.next() == Some(column as i32),
                (false, _) => codes.nth(column) == Some(1),
            }
        };
        let mut brier = 0.0;
        let mut areas = Vec::new();
        let width = (MOST_CHANCES / count).clamp(1, outputs);
        for first in (0..outputs).step_by(width) {
            let panel = first..(first + width).min(outputs);
            let chances = self.chances(scored, &panel);
            let of_column = |column: usize| {
                let chance = |(row, &unit): (&[f64], &u32)| (row[column - first], is(unit, column));
                let mut units: Vec<(f64, bool)> =
                    chances.chunks_exact(panel.len()).zip(scored.units).map(chance).collect();
                let squares: f64 = units.iter().map(|&(p, y)| (p - f64::from(y)).powi(2)).sum();
                (squares, average_precision(&mut units))
            };
            let each: Vec<(f64, Option<f64>)> = panel.clone().into_par_iter().map(of_column).collect();
            brier += each.iter().map(|(squares, _)| squares).sum::<f64>();
            areas.extend(each.into_iter().filter_map(|(_, area)| area));
        }
        let labels_each = if labels.is_classes() { 1.0 } else { outputs as f64 };
        let mut confusion = Vec::new();
        if labels.is_classes() && names <= MOST_CLASSES {
            confusion = vec![vec![0; names]; names];
            self.guesses(scored).iter().for_each(|guess| confusion[guess.truth][guess.predicted] += 1);
        }
        Some(Details {
            confusion,
            pr_auc: super::metrics::mean(areas),
            brier: Some(brier / (count as f64 * labels_each)),
        })
    }

    /// Probabilities in some columns, units x panel.
    fn chances(self, scored: &Scored<'_>, panel: &Range<usize>) -> Vec<f64> {
        let mut chances = vec![0.0; scored.units.len() * panel.len()];
        let rows = scored.logits.par_chunks_exact(scored.labels.outputs());
        chances.par_chunks_mut(panel.len().max(1)).zip(rows).for_each_init(Vec::new, |row, (chances, logits)| {
            row.clear();
            row.extend(logits.iter().map(|&z| f64::from(z)));
            self.predict(row);
            chances.copy_from_slice(&row[panel.clone()]);
        });
        chances
    }

    /// Bytes that scores of so many units take beside their logits, at most.
    pub fn scoring_bytes(units: usize, outputs: usize) -> usize {
        let threads = rayon::current_num_threads().min(outputs);
        let chances = (units * outputs).min(MOST_CHANCES.max(units)) * size_of::<f64>();
        // A guess and three numbers of each unit; in each thread scores of a column, with labels, and the same sorted.
        chances + units * (size_of::<Guess>() + 24 + threads * 40)
    }

    /// The threshold that the validation units like best, where one of two classes is rare; none elsewhere.
    pub fn threshold(self, validation: &Scored<'_>, test: &Scored<'_>) -> Option<Threshold> {
        let ids = validation.labels.class_ids().filter(|_| validation.labels.outputs() == 1)?;
        let part = |scored: &Scored<'_>| -> Vec<(f64, bool)> {
            let chances = self.chances(scored, &(0..1)).into_iter();
            chances.zip(scored.units.iter().map(|&unit| ids[unit as usize] == 1)).collect()
        };
        let mut units = part(validation);
        let share = units.iter().filter(|(_, positive)| *positive).count() as f64 / units.len().max(1) as f64;
        if share == 0.0 || share.min(1.0 - share) >= IMBALANCED || share == 1.0 {
            return None;
        }
        units.sort_by(|a, b| a.0.total_cmp(&b.0));
        // From "all are positive" upwards: what lies below the threshold turns negative.
        let positives = units.iter().filter(|(_, positive)| *positive).count();
        let mut table = [[0, units.len() - positives], [0, positives]];
        let (mut probability, mut best) = (units[0].0, macro_f1(table));
        for pair in 0..units.len() {
            let truth = usize::from(units[pair].1);
            table[truth][1] -= 1;
            table[truth][0] += 1;
            let Some(next) = units.get(pair + 1) else { break };
            if next.0 > units[pair].0 && macro_f1(table) > best {
                (probability, best) = ((units[pair].0 + next.0) / 2.0, macro_f1(table));
            }
        }
        let tested = part(test);
        let mut table = [[0; 2]; 2];
        tested.iter().for_each(|&(p, positive)| table[usize::from(positive)][usize::from(p >= probability)] += 1);
        let any = !tested.is_empty();
        Some(Threshold {
            probability,
            validation_macro_f1: best,
            test_macro_f1: any.then(|| macro_f1(table)),
            test_accuracy: any.then(|| (table[0][0] + table[1][1]) as f64 / tested.len() as f64),
        })
    }
}

/// Of two classes, from units by truth and prediction; a class that neither occurs nor is predicted does not count.
fn macro_f1(table: [[usize; 2]; 2]) -> f64 {
    let each = (0..2).filter_map(|class| {
        let total = table[class][0] + table[class][1] + table[0][class] + table[1][class];
        (total > 0).then(|| 2.0 * table[class][class] as f64 / total as f64)
    });
    super::metrics::mean(each).unwrap_or(0.0)
}

/// Mean over positives of the precision at their score, ties taken together; none without positives. Sorts the units.
fn average_precision(units: &mut [(f64, bool)]) -> Option<f64> {
    let positives = units.iter().filter(|(_, positive)| *positive).count();
    units.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let (mut seen, mut hits, mut sum) = (0, 0, 0.0);
    for tied in units.chunk_by(|a, b| a.0 == b.0) {
        let here = tied.iter().filter(|(_, positive)| *positive).count();
        seen += tied.len();
        hits += here;
        sum += here as f64 * hits as f64 / seen as f64;
    }
    (positives > 0).then(|| sum / positives as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::dataset::Labels;

    #[test]
    fn average_precision_by_hand() {
        // In order of scores: positive, negative, positive, negative: (1 + 2/3) / 2.
        let mut units = [(3.0, false), (4.0, true), (1.0, false), (2.0, true)];
        assert_eq!(average_precision(&mut units), Some((1.0 + 2.0 / 3.0) / 2.0));
        // All tied: the share of positives.
        assert_eq!(average_precision(&mut units.map(|(_, positive)| (0.0, positive))), Some(0.5));
        assert_eq!(average_precision(&mut [(1.0, false)]), None);
    }

    #[test]
    fn two_classes_by_hand() {
        let labels = Labels::Classes { ids: vec![1, 0, 1], classes: 2 };
        let scored = Scored { labels: &labels, units: &[0, 1, 2], logits: &[0.0, -1e9, -1e9], scaling: None };
        let details = Objective::Sigmoid.details(&scored).unwrap();
        // p = 1/2 is no positive prediction.
        assert_eq!(details.confusion, [[1, 0], [2, 0]]);
        assert_eq!(details.brier, Some((0.25 + 0.0 + 1.0) / 3.0));
    }

    #[test]
    fn three_classes_labels_and_numbers() {
        let labels = Labels::Classes { ids: vec![2, 0], classes: 3 };
        let logits = [0.0, 0.0, 1e6, 0.0, 1e6, 0.0];
        let scored = Scored { labels: &labels, units: &[0, 1], logits: &logits, scaling: None };
        let details = Objective::Softmax.details(&scored).unwrap();
        assert_eq!(details.confusion, [[0, 1, 0], [0, 0, 0], [0, 0, 1]]);
        assert_eq!(details.brier, Some(1.0));
        let labels = Labels::Multi { bits: vec![1, 0], width: 2 };
        let scored = Scored { labels: &labels, units: &[0], logits: &[0.0, 0.0], scaling: None };
        let details = Objective::Sigmoid.details(&scored).unwrap();
        assert_eq!((details.confusion, details.brier), (vec![], Some(0.25)));
        let labels = Labels::Values { values: vec![1.0], width: 1 };
        let scored = Scored { labels: &labels, units: &[0], logits: &[0.0], scaling: None };
        assert_eq!(Objective::Squared.details(&scored), None);
    }

    #[test]
    fn the_threshold_is_the_best_of_all() {
        // Two of eight are positive, ranked first and third, all far below 1/2.
        let labels = Labels::Classes { ids: vec![1, 0, 1, 0, 0, 0, 0, 0], classes: 2 };
        let logits: Vec<f32> = (0..8).map(|i| -2.0 - i as f32).collect();
        let units: Vec<u32> = (0..8).collect();
        let scored = Scored { labels: &labels, units: &units, logits: &logits, scaling: None };
        let found = Objective::Sigmoid.threshold(&scored, &scored).unwrap();
        let slow = |at: f64| {
            let mut table = [[0; 2]; 2];
            for i in 0..8 {
                let p = 1.0 / (1.0 + (-f64::from(logits[i])).exp());
                table[usize::from(i == 0 || i == 2)][usize::from(p >= at)] += 1;
            }
            macro_f1(table)
        };
        let best = (0..2000).map(|at| slow(f64::from(at) / 2000.0)).fold(0.0, f64::max);
        assert_eq!((found.validation_macro_f1, slow(found.probability)), (best, best));
        assert_eq!(found.test_macro_f1, Some(best));
        let balanced = Labels::Classes { ids: vec![1, 0, 1, 0, 1, 0, 1, 0], classes: 2 };
        let scored = Scored { labels: &balanced, units: &units, logits: &logits, scaling: None };
        assert_eq!(Objective::Sigmoid.threshold(&scored, &scored), None);
    }
}
