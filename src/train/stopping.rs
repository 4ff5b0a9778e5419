//! Which epoch is best, and when to stop looking for a better one.
//!
//! An epoch is better if its validation metric is, or if the metric ties and the validation loss is lower. Patience
//! does not run while the model still sits on its starting plateau, where it predicts little more than the class
//! frequencies: with small learning rates the first hundred epochs can look exactly like that. A model has left the
//! plateau once, at the same epoch, its training loss is clearly below that of predicting class frequencies and its
//! validation metric is clearly above chance. Where units are weighted, so are both losses: what is fitted is what chooses. Other
//! metrics count every unit once.

use crate::config::Metric;
use crate::loss::{Chance, Objective, ScoreKind, Scores, WEIGHTED_LOSS};
use serde::{Deserialize, Serialize};

/// Training loss must fall below this share of the loss of class frequencies.
const LEARNED_LOSS: f64 = 0.98;
/// The metric must cover this share of the way from chance to perfect.
const LEARNED_SHARE: f64 = 0.05;
/// Validation loss is noisier and saturates early: a smaller step counts.
const LEARNED_VALIDATION_LOSS: f64 = 0.995;
/// Share of the step from chance to "has learned" that later epochs must have brought, for more of them to be worth advising ...
const WORTH_MORE: f64 = 0.1;
/// ... or share of all that was gained: a model that creeps along its starting plateau gains little, but no less than before. What
/// gains less and less has settled: a rate that has fallen to nothing makes the last of such epochs the best.
const UNABATED: f64 = 0.1;

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
    /// The best score after the first epoch, and after 2^(k-1) and 2^k epochs, the last such numbers: whether the later part of a
    /// run, however long, was worth its time.
    #[serde(default)]
    marks: [Option<f64>; 3],
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
        Stopping {
            best_epoch: None,
            best_score: f64::MIN,
            best_loss: f64::MAX,
            learned_at: None,
            counted_from: None,
            marks: [None; 3],
        }
    }
}

impl Stopping {
    /// The score of the best epoch, as a merit: larger is better.
    pub fn best_score(&self) -> f64 {
        self.best_score
    }

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
        if (epoch + 1).is_power_of_two() {
            let [first, _, last] = self.marks;
            self.marks = [first.or(Some(self.best_score)), last, Some(self.best_score)];
        }
        let since =
            self.learned_at.max(self.best_epoch).max(self.counted_from).map_or(0, |start| epoch - start.min(epoch));
        Decision { best, stop: patience > 0 && self.learned_at.is_some() && since >= patience }
    }
}

impl Stopping {
    /// Whether validation was still getting better when so many epochs were over, so that more of them may help: the best epoch is
    /// in their last tenth, and what came after their first half (or quarter) has brought something.
    pub fn is_learning(&self, epochs: usize, goal: &Goal) -> bool {
        let Some(best) = self.best_epoch else { return false };
        let since = |mark: Option<f64>| self.best_score - mark.unwrap_or(f64::NEG_INFINITY);
        let [all, late] = [since(self.marks[0]), since(self.marks[1])];
        let unabated = late > 0.0 && late >= UNABATED * all;
        best + 1 + epochs / 10 >= epochs && (late >= WORTH_MORE * goal.step() || unabated)
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
    /// Of a run; a metric that the loss does not have means the loss itself, that of weighted units where they are.
    pub fn new(objective: Objective, metric: Metric, chance: Chance, weighted: bool) -> Goal {
        let (score, plain) = (objective.score_kind(metric.score_name()), objective.loss_score());
        let loss = if weighted { &WEIGHTED_LOSS } else { plain };
        Goal { score: if score.name == plain.name { loss } else { score }, loss, chance }
    }

    /// What epochs are chosen by.
    pub fn score(&self) -> &'static ScoreKind {
        self.score
    }

    /// `score`: as a merit, larger is better.
    fn is_learned(&self, train_loss: f64, score: f64) -> bool {
        train_loss < LEARNED_LOSS * self.chance.train_loss && score > self.score.merit(self.by_chance()) + self.step()
    }

    fn by_chance(&self) -> f64 {
        self.chance.valid.get(self.score.name).unwrap_or(self.score.undefined)
    }

    /// From chance to what counts as learned, in the merit of the score.
    fn step(&self) -> f64 {
        match self.score.higher {
            true => LEARNED_SHARE * (1.0 - self.by_chance()),
            false => (1.0 - LEARNED_VALIDATION_LOSS) * self.by_chance(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal() -> Goal {
        Goal::new(Objective::Softmax, Metric::Accuracy, Chance { train_loss: 1.9, valid: scores(0.3, 1.9) }, false)
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
    fn more_epochs_are_advised_where_late_ones_have_brought_something() {
        let goal =
            Goal::new(Objective::Softmax, Metric::Loss, Chance { train_loss: 1.0, valid: scores(0.5, 1.0) }, false);
        let learning = |losses: &dyn Fn(usize) -> f64, epochs: usize| {
            let mut stopping = Stopping::default();
            (0..epochs).for_each(|epoch| {
                stopping.update(epoch, 1.0, &scores(0.5, losses(epoch)), 0, &goal);
            });
            stopping.is_learning(epochs, &goal)
        };
        // On its way down, also slowly.
        for epochs in [1, 2, 3, 10, 100, 1000] {
            assert!(learning(&|epoch| 1.0 - 1e-3 * epoch as f64 / epochs as f64 * 2.0, epochs), "{epochs}");
        }
        for epochs in [20, 100, 1000] {
            // Along the starting plateau: little is gained, but ever more.
            assert!(learning(&|epoch| 1.0 - 1e-6 * (epoch as f64 / epochs as f64).powi(2), epochs), "{epochs}");
            // Settled: every epoch is better than the one before, by less and less.
            assert!(!learning(&|epoch| 1.0 - 1e-3 * (1.0 - (-20.0 * epoch as f64 / epochs as f64).exp()), epochs));
        }
        // The best was long ago.
        assert!(!learning(&|epoch| (epoch as f64 - 50.0).abs(), 100));
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
        let goal = Goal::new(
            Objective::Squared,
            Metric::Accuracy,
            Chance { train_loss: 0.5, valid: Scores::default() },
            false,
        );
        assert_eq!(goal.score.name, "loss");
        let goal =
            Goal::new(Objective::Squared, Metric::Rmse, Chance { train_loss: 0.5, valid: Scores::default() }, false);
        assert_eq!((goal.score.name, goal.loss.name), ("rmse", "loss"));
        let mut stopping = Stopping::default();
        let scores = |rmse, loss| Scores::new([("rmse", Some(rmse)), ("loss", Some(loss))]);
        assert!(stopping.update(0, 0.4, &scores(2.0, 0.4), 5, &goal).best);
        assert!(stopping.update(1, 0.4, &scores(1.0, 0.3), 5, &goal).best);
        assert!(!stopping.update(2, 0.4, &scores(1.5, 0.2), 5, &goal).best);
    }

    #[test]
    fn weighted_units_are_chosen_by_their_weighted_loss() {
        let chance = Chance { train_loss: 0.7, valid: Scores::new([("nll", Some(0.7)), ("weighted_loss", Some(0.7))]) };
        let goal = Goal::new(Objective::Sigmoid, Metric::Loss, chance.clone(), true);
        let scores = |nll, weighted| Scores::new([("nll", Some(nll)), ("weighted_loss", Some(weighted))]);
        let mut stopping = Stopping::default();
        assert!(stopping.update(0, 0.6, &scores(0.4, 0.6), 5, &goal).best);
        assert!(stopping.update(1, 0.6, &scores(0.5, 0.5), 5, &goal).best);
        assert!(!stopping.update(2, 0.6, &scores(0.3, 0.55), 5, &goal).best);
        // A metric of its own counts every unit once.
        assert_eq!(Goal::new(Objective::Sigmoid, Metric::RocAuc, chance, true).score.name, "roc_auc");
    }
}
