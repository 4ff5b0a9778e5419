//! Which epoch is best, and when to stop looking for a better one.
//!
//! An epoch is better if its validation metric is, or if the metric ties and the validation loss is lower. Patience
//! does not run while the model still sits on its starting plateau, where it predicts little more than the class
//! frequencies: with small learning rates the first hundred epochs can look exactly like that. A model has left the
//! plateau once, at the same epoch, its training loss is clearly below that of predicting class frequencies and its
//! validation metric is clearly above chance.

use crate::config::Metric;
use crate::loss::{Chance, Objective, ScoreKind, Scores};
use serde::{Deserialize, Serialize};

/// Training loss must fall below this share of the loss of class frequencies.
const LEARNED_LOSS: f64 = 0.98;
/// The metric must cover this share of the way from chance to perfect.
const LEARNED_SHARE: f64 = 0.05;
/// Validation loss is noisier and saturates early: a smaller step counts.
const LEARNED_VALIDATION_LOSS: f64 = 0.995;

/// The state of early stopping; part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stopping {
    /// Epoch with the best validation score so far, counted from 0.
    pub best_epoch: Option<usize>,
    best_score: f64,
    best_loss: f64,
    /// First epoch after the starting plateau.
    pub learned_at: Option<usize>,
    /// Epoch that patience is counted from at the earliest: where it had ended a run that was then extended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counted_from: Option<usize>,
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
        Stopping { best_epoch: None, best_score: f64::MIN, best_loss: f64::MAX, learned_at: None, counted_from: None }
    }
}

impl Stopping {
    /// Counts patience anew after so many epochs.
    pub fn count_from(&mut self, epochs: usize) {
        self.counted_from = epochs.checked_sub(1);
    }

    /// Takes note of an epoch. Without validation units the last epoch is always the best.
    pub fn update(&mut self, epoch: usize, train_loss: f64, valid: &Scores, patience: usize, goal: &Goal) -> Decision {
        let Some(loss) = valid.get(goal.loss.name) else {
            self.best_epoch = Some(epoch);
            return Decision { best: true, stop: false };
        };
        let score = goal.score.merit(valid.get(goal.score.name).unwrap_or(goal.score.undefined));
        if self.learned_at.is_none() && goal.is_learned(train_loss, score) {
            self.learned_at = Some(epoch);
        }
        let best = self.best_epoch.is_none() || (score, -loss) > (self.best_score, -self.best_loss);
        if best {
            (self.best_epoch, self.best_score, self.best_loss) = (Some(epoch), score, loss);
        }
        let since =
            self.learned_at.max(self.best_epoch).max(self.counted_from).map_or(0, |start| epoch - start.min(epoch));
        Decision { best, stop: patience > 0 && self.learned_at.is_some() && since >= patience }
    }
}

/// What epochs are compared by, and what counts as having learned something.
#[derive(Clone, Debug)]
pub struct Goal {
    /// The score that is to be good.
    score: &'static ScoreKind,
    /// The loss, which decides between equals.
    loss: &'static ScoreKind,
    /// What a constant prediction gets.
    chance: Chance,
}

impl Goal {
    /// Of a run; a metric that the loss does not have means the loss itself.
    pub fn new(objective: Objective, metric: Metric, chance: Chance) -> Goal {
        Goal { score: objective.score_kind(metric.score_name()), loss: objective.loss_score(), chance }
    }

    /// `score`: as a merit, larger is better.
    fn is_learned(&self, train_loss: f64, score: f64) -> bool {
        let chance = self.chance.valid.get(self.score.name).unwrap_or(self.score.undefined);
        let threshold = match self.score.higher {
            true => chance + LEARNED_SHARE * (1.0 - chance),
            false => -LEARNED_VALIDATION_LOSS * chance,
        };
        train_loss < LEARNED_LOSS * self.chance.train_loss && score > threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal() -> Goal {
        Goal::new(Objective::Softmax, Metric::Accuracy, Chance { train_loss: 1.9, valid: scores(0.3, 1.9) })
    }

    fn scores(accuracy: f64, nll: f64) -> Scores {
        Scores::new([("accuracy", Some(accuracy)), ("nll", Some(nll))])
    }

    fn run(epochs: &[(f64, f64, f64)], patience: usize) -> (Option<usize>, usize) {
        let mut stopping = Stopping::default();
        for (epoch, &(train_loss, accuracy, loss)) in epochs.iter().enumerate() {
            if stopping.update(epoch, train_loss, &scores(accuracy, loss), patience, &goal()).stop {
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
    fn patience_that_is_counted_anew_ends_a_run_that_much_later() {
        let mut stopping = Stopping::default();
        let after = |stopping: &mut Stopping, epoch: usize| {
            let accuracy = if epoch == 0 { 0.6 } else { 0.5 };
            stopping.update(epoch, 1.0, &scores(accuracy, 1.2), 10, &goal()).stop
        };
        assert_eq!((0..50).find(|&epoch| after(&mut stopping, epoch)), Some(10));
        stopping.count_from(11);
        assert_eq!((11..50).find(|&epoch| after(&mut stopping, epoch)), Some(20));
        assert_eq!(stopping.best_epoch, Some(0));
    }

    #[test]
    fn without_validation_units_the_last_epoch_is_best() {
        let mut stopping = Stopping::default();
        for epoch in 0..5 {
            let decision = stopping.update(epoch, 1.0, &Scores::default(), 1, &goal());
            assert_eq!(decision, Decision { best: true, stop: false });
        }
    }

    #[test]
    fn a_metric_the_loss_does_not_have_means_the_loss() {
        let goal =
            Goal::new(Objective::Squared, Metric::Accuracy, Chance { train_loss: 0.5, valid: Scores::default() });
        assert_eq!(goal.score.name, "loss");
        let goal = Goal::new(Objective::Squared, Metric::Rmse, Chance { train_loss: 0.5, valid: Scores::default() });
        assert_eq!((goal.score.name, goal.loss.name), ("rmse", "loss"));
        let mut stopping = Stopping::default();
        let scores = |rmse, loss| Scores::new([("rmse", Some(rmse)), ("loss", Some(loss))]);
        assert!(stopping.update(0, 0.4, &scores(2.0, 0.4), 5, &goal).best);
        assert!(stopping.update(1, 0.4, &scores(1.0, 0.3), 5, &goal).best);
        assert!(!stopping.update(2, 0.4, &scores(1.5, 0.2), 5, &goal).best);
    }
}
