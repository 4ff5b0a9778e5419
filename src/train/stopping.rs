//! Which epoch is best, and when to stop looking for a better one.
//!
//! An epoch is better if its validation metric is, or if the metric ties and the validation loss is lower. Patience
//! does not run while the model still sits on its starting plateau, where it predicts little more than the class
//! frequencies: with small learning rates the first hundred epochs can look exactly like that. A model has left the
//! plateau once, at the same epoch, its training loss is clearly below that of predicting class frequencies and its
//! validation metric is clearly above chance.

use crate::config::Metric;
use crate::loss::Scores;
use harmonia_graph::dataset::{Dataset, Labels};
use serde::{Deserialize, Serialize};

/// Training loss must fall below this share of the loss of class frequencies.
const LEARNED_LOSS: f64 = 0.98;
/// The metric must cover this share of the way from chance to perfect.
const LEARNED_SHARE: f64 = 0.05;
/// Validation loss is noisier and saturates early: a smaller step counts.
const LEARNED_VALIDATION_LOSS: f64 = 0.995;

/// What a model that only knows class frequencies would get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    /// Its training loss.
    pub train_loss: f64,
    /// Its validation loss.
    pub valid_loss: f64,
    /// Its validation accuracy.
    pub valid_accuracy: f64,
}

impl Chance {
    /// Frequencies are those of the training units.
    pub fn new(dataset: &Dataset) -> Chance {
        let labels = &dataset.labels;
        let (train, valid) = (&dataset.split.train, &dataset.split.valid);
        let columns = match labels {
            Labels::Classes { classes, .. } => vec![frequencies(labels, train, 0, *classes)],
            Labels::Multi { width, .. } => (0..*width).map(|c| frequencies(labels, train, c, 2)).collect(),
        };
        let loss = |units: &[u32]| {
            let sum: f64 = (units.iter())
                .flat_map(|&unit| labels.codes(unit as usize).zip(&columns))
                .map(|(code, column)| -column[code as usize].max(1e-12).ln())
                .sum();
            sum / units.len().max(1) as f64
        };
        let guesses: Vec<usize> = columns.iter().map(|column| largest(column)).collect();
        let hits: usize = (valid.iter())
            .map(|&unit| labels.codes(unit as usize).zip(&guesses).filter(|&(code, &g)| code as usize == g).count())
            .sum();
        // On the validation units, always naming their own largest class is the better guess.
        let own = match labels {
            Labels::Classes { classes, .. } => frequencies(labels, valid, 0, *classes).into_iter().fold(0.0, f64::max),
            Labels::Multi { .. } => 0.0,
        };
        let accuracy = hits as f64 / (valid.len().max(1) * columns.len()) as f64;
        Chance { train_loss: loss(train), valid_loss: loss(valid), valid_accuracy: accuracy.max(own) }
    }
}

fn frequencies(labels: &Labels, units: &[u32], column: usize, classes: usize) -> Vec<f64> {
    let mut counts = vec![0.0; classes];
    for &unit in units {
        if let Some(code) = labels.codes(unit as usize).nth(column) {
            counts[code as usize] += 1.0 / units.len() as f64;
        }
    }
    counts
}

fn largest(values: &[f64]) -> usize {
    values.iter().enumerate().fold(0, |best, (i, &value)| if value > values[best] { i } else { best })
}

/// The state of early stopping; part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stopping {
    /// Epoch with the best validation score so far, counted from 0.
    pub best_epoch: Option<usize>,
    best_score: f64,
    best_loss: f64,
    /// First epoch after the starting plateau.
    pub learned_at: Option<usize>,
}

/// What an epoch means for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Keep these parameters.
    pub best: bool,
    /// Patience is over.
    pub stop: bool,
}

impl Default for Stopping {
    fn default() -> Self {
        Stopping { best_epoch: None, best_score: f64::MIN, best_loss: f64::MAX, learned_at: None }
    }
}

impl Stopping {
    /// Takes note of an epoch. Without validation units the last epoch is always the best.
    pub fn update(
        &mut self,
        epoch: usize,
        train_loss: f64,
        valid: &Scores,
        metric: Metric,
        patience: usize,
        chance: &Chance,
    ) -> Decision {
        let Some(loss) = valid.nll else {
            self.best_epoch = Some(epoch);
            return Decision { best: true, stop: false };
        };
        let score = match metric {
            Metric::Accuracy => valid.accuracy.unwrap_or(0.0),
            Metric::RocAuc => valid.roc_auc.unwrap_or(0.5),
            Metric::Loss => -loss,
        };
        if self.learned_at.is_none() && learned(train_loss, score, metric, chance) {
            self.learned_at = Some(epoch);
        }
        let best = self.best_epoch.is_none() || (score, -loss) > (self.best_score, -self.best_loss);
        if best {
            (self.best_epoch, self.best_score, self.best_loss) = (Some(epoch), score, loss);
        }
        let since = self.learned_at.max(self.best_epoch).map_or(0, |start| epoch - start.min(epoch));
        Decision { best, stop: patience > 0 && self.learned_at.is_some() && since >= patience }
    }
}

fn learned(train_loss: f64, score: f64, metric: Metric, chance: &Chance) -> bool {
    let threshold = match metric {
        Metric::Accuracy => chance.valid_accuracy + LEARNED_SHARE * (1.0 - chance.valid_accuracy),
        Metric::RocAuc => 0.5 + LEARNED_SHARE * 0.5,
        Metric::Loss => -LEARNED_VALIDATION_LOSS * chance.valid_loss,
    };
    train_loss < LEARNED_LOSS * chance.train_loss && score > threshold
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANCE: Chance = Chance { train_loss: 1.9, valid_loss: 1.9, valid_accuracy: 0.3 };

    fn scores(accuracy: f64, nll: f64) -> Scores {
        Scores { accuracy: Some(accuracy), nll: Some(nll), ..Scores::default() }
    }

    fn run(epochs: &[(f64, f64, f64)], patience: usize) -> (Option<usize>, usize) {
        let mut stopping = Stopping::default();
        for (epoch, &(train_loss, accuracy, loss)) in epochs.iter().enumerate() {
            let verdict =
                stopping.update(epoch, train_loss, &scores(accuracy, loss), Metric::Accuracy, patience, &CHANCE);
            if verdict.stop {
                return (stopping.best_epoch, epoch);
            }
        }
        (stopping.best_epoch, epochs.len())
    }

    #[test]
    fn a_lucky_first_epoch_and_a_long_plateau_do_not_stop_a_run() {
        let mut epochs = vec![(2.0, 0.33, 1.95)];
        epochs.extend(vec![(1.9, 0.3, 1.93); 200]);
        epochs.extend((0..20).map(|i| (1.5 - 0.05 * f64::from(i), 0.4 + 0.02 * f64::from(i), 1.5)));
        epochs.extend(vec![(0.2, 0.5, 1.5); 100]);
        assert_eq!(run(&epochs, 30), (Some(220), 250));
    }

    #[test]
    fn a_model_that_never_learns_runs_to_the_end() {
        assert_eq!(run(&vec![(1.89, 0.3, 1.9); 500], 10).1, 500);
        // Memorising the training set without any validation gain is not learning either.
        assert_eq!(run(&vec![(0.1, 0.3, 3.0); 500], 10).1, 500);
    }

    #[test]
    fn ties_go_to_the_lower_validation_loss() {
        let epochs = [(1.0, 0.6, 1.2), (1.0, 0.6, 1.1), (1.0, 0.6, 1.15), (1.0, 0.5, 0.9)];
        assert_eq!(run(&epochs, 10).0, Some(1));
    }

    #[test]
    fn patience_counts_from_the_best_epoch_and_zero_never_stops() {
        let mut epochs = vec![(1.0, 0.6, 1.2)];
        epochs.extend(vec![(1.0, 0.5, 1.2); 50]);
        assert_eq!(run(&epochs, 10), (Some(0), 10));
        assert_eq!(run(&epochs, 0), (Some(0), 51));
    }

    #[test]
    fn without_validation_units_the_last_epoch_is_best() {
        let mut stopping = Stopping::default();
        for epoch in 0..5 {
            let verdict = stopping.update(epoch, 1.0, &Scores::default(), Metric::Accuracy, 1, &CHANCE);
            assert_eq!(verdict, Decision { best: true, stop: false });
        }
    }
}
