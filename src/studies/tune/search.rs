//! Which trainings there are, and which settings they choose. Knows validation scores alone.
//!
//! Runs that share their test units are a group, and settings are compared by their mean over the group. In a
//! cross-validation every fold is a group of its own, with one or several validation parts, none of them its test part:
//! the validation part of one fold is the test part of another, so what a fold drops or chooses may depend on its own only. Over all groups there is one more choice, of the settings to
//! write down; no test score is taken of it.

use super::halving::{Merit, Rung, Standing, halve, kept, sort};
use crate::loss::{Objective, ScoreKind, Scores};
use crate::train::RunName;
use harmonia_graph::error::Result;
use std::collections::{HashMap, HashSet};

/// A run, and which part of its data validates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Seed and fold.
    pub name: RunName,
    /// How much further on than the fold that tests the one is that validates, from 1; 1 without folds.
    pub valid: usize,
}

/// A trial to be trained on one run, at some share of its epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Number of the trial.
    pub trial: usize,
    /// What it is trained on.
    pub round: Round,
    /// Epochs are divided by this.
    pub divisor: usize,
    /// In which rung, counted from 1; after the last rung, the comparison over all runs.
    pub rung: usize,
}

/// What came of a [`Job`].
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Scores of the validation units at the best epoch.
    pub validation: Scores,
    /// Epoch they are from, counted from 1.
    pub best_epoch: usize,
    /// Most epochs.
    pub epochs: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// Why it counts as worst: it diverged, or the settings do not fit the data.
    pub failed: Option<String>,
}

/// What settings are compared by.
#[derive(Clone, Copy, Debug)]
pub struct Criterion {
    /// The score that decides.
    pub score: &'static ScoreKind,
    /// The loss, which decides between equal scores.
    pub loss: &'static ScoreKind,
}

impl Criterion {
    /// By the name of a score; `loss` is that of the task.
    pub fn new(objective: Objective, name: &str) -> Criterion {
        Criterion { score: objective.score_kind(name), loss: objective.loss_score() }
    }

    fn merit(&self, measured: &Measured) -> Merit {
        if measured.failed.is_some() {
            return Merit::WORST;
        }
        let value = measured.validation.get(self.score.name).unwrap_or(self.score.undefined);
        let loss = measured.validation.get(self.loss.name).unwrap_or(f64::INFINITY);
        Merit { score: self.score.merit(value), loss }
    }
}

/// Why a training that was not begun counts as worst.
pub const NOT_BEGUN: &str = "the budget was over";

/// What a search ends with.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rungs as they were trained: a budget may have left fewer settings than were planned.
    pub rungs: Vec<Rung>,
    /// Settings that were trained at all.
    pub tried: usize,
    /// The choice of each group, by its own validation part.
    pub winners: Vec<usize>,
    /// Settings that were trained in full on all runs, best mean first.
    pub finalists: Vec<Finalist>,
}

/// Settings that were trained in full on all runs.
#[derive(Clone, Debug)]
pub struct Finalist {
    /// Number of the trial.
    pub trial: usize,
    /// Mean place in the groups, counted from 1.
    pub place: f64,
    /// One per run.
    pub measured: Vec<Measured>,
}

/// Trains jobs; the results in their order.
pub type Train<'a> = dyn FnMut(&[Job]) -> Result<Vec<Measured>> + 'a;

/// How many of so many settings may go into a rung, counted from 0; after the last one, into the comparison over all runs.
pub type Allow<'a> = dyn Fn(usize, usize) -> usize + 'a;

/// Searches. `train` is asked for one rung after the other, `allow` before each of them.
///
/// # Errors
/// Those of `train`.
pub fn search(
    trials: usize,
    groups: &[Vec<Round>],
    rungs: &[Rung],
    criterion: Criterion,
    train: &mut Train<'_>,
    allow: &Allow<'_>,
) -> Result<Outcome> {
    let mut rungs = rungs.to_vec();
    rungs[0].candidates = allow(0, trials);
    let mut alive: Vec<Vec<usize>> = vec![(0..rungs[0].candidates).collect(); groups.len()];
    // All trials of a group, best first: of those that dropped out earlier, the later ones.
    let mut rankings: Vec<Vec<usize>> = vec![(rungs[0].candidates..trials).collect(); groups.len()];
    let mut tried = 0;
    for at in 0..rungs.len() {
        let standings = stand(groups, &alive, rungs[at], at + 1, criterion, &mut |jobs| {
            let measured = train(jobs)?;
            let begun = jobs.iter().zip(&measured).filter(|(_, run)| run.failed.as_deref() != Some(NOT_BEGUN));
            tried = tried.max(begun.map(|(job, _)| job.trial).collect::<HashSet<_>>().len());
            Ok(measured)
        })?;
        let keep = kept(rungs[at].candidates);
        let next = rungs.len().min(at + 1);
        if let Some(rung) = rungs.get_mut(next) {
            rung.candidates = allow(next, keep);
        }
        for (group, standings) in standings.into_iter().enumerate() {
            let (on, out) = match rungs.get(next) {
                None => (Vec::new(), standings.iter().map(|(trial, _)| *trial).collect()),
                Some(rung) => halve(&standings, rung.candidates),
            };
            rankings[group].splice(0..0, out);
            alive[group] = on;
        }
    }
    let winners = rankings.iter().map(|ranking| ranking[0]).collect();
    let compared = allow(rungs.len(), rungs.last().map_or(1, |rung| rung.candidates));
    let finalists = compare([trials, compared], groups, &rankings, rungs.len() + 1, criterion, train)?;
    Ok(Outcome { rungs, tried, winners, finalists })
}

/// Trains a rung; in each group, its trials best first.
fn stand(
    groups: &[Vec<Round>],
    alive: &[Vec<usize>],
    rung: Rung,
    number: usize,
    criterion: Criterion,
    train: &mut Train<'_>,
) -> Result<Vec<Vec<Standing>>> {
    let rounds = |group: usize| groups[group].iter().take(rung.runs);
    let mut jobs = Vec::new();
    for (group, trials) in alive.iter().enumerate() {
        let job = |trial, &round| Job { trial, round, divisor: rung.divisor, rung: number };
        jobs.extend(trials.iter().flat_map(|&trial| rounds(group).map(move |round| job(trial, round))));
    }
    let measured = train(&jobs)?;
    let mut merits = measured.iter().map(|measured| criterion.merit(measured));
    let mut standings = Vec::new();
    for (group, trials) in alive.iter().enumerate() {
        let runs = rounds(group).count();
        let mut these: Vec<Standing> = (trials.iter())
            .map(|&trial| (trial, Merit::mean(&merits.by_ref().take(runs).collect::<Vec<_>>())))
            .collect();
        // Where nothing was trained (a budget was over), they stay as the rung before has left them: best first.
        if these.iter().any(|(_, merit)| *merit != Merit::WORST) {
            sort(&mut these);
        }
        standings.push(these);
    }
    Ok(standings)
}

/// The settings with the best places, and the starting ones, in full on all runs.
fn compare(
    [trials, compared]: [usize; 2],
    groups: &[Vec<Round>],
    rankings: &[Vec<usize>],
    rung: usize,
    criterion: Criterion,
    train: &mut Train<'_>,
) -> Result<Vec<Finalist>> {
    let places = mean_places(trials, rankings);
    let mut order: Vec<usize> = (0..trials).collect();
    order.sort_by(|&a, &b| places[a].total_cmp(&places[b]).then(a.cmp(&b)));
    order.truncate(compared);
    if !order.contains(&0) {
        order.push(0);
    }
    let rounds: Vec<Round> = groups.concat();
    let job = |trial, &round| Job { trial, round, divisor: 1, rung };
    let jobs: Vec<Job> = order.iter().flat_map(|&trial| rounds.iter().map(move |round| job(trial, round))).collect();
    let measured = train(&jobs)?;
    let mut by_trial: HashMap<usize, Vec<Measured>> =
        order.iter().copied().zip(measured.chunks(rounds.len()).map(<[_]>::to_vec)).collect();
    let merit = |runs: &[Measured]| Merit::mean(&runs.iter().map(|run| criterion.merit(run)).collect::<Vec<_>>());
    let mut standings: Vec<Standing> = by_trial.iter().map(|(&trial, runs)| (trial, merit(runs))).collect();
    sort(&mut standings);
    if standings.iter().all(|(_, merit)| *merit == Merit::WORST) {
        // Nothing was trained in full (a budget was over): what came furthest and was best there.
        standings.sort_by(|a, b| places[a.0].total_cmp(&places[b.0]).then(a.0.cmp(&b.0)));
    }
    let finalist = |(trial, _): Standing| Finalist {
        trial,
        place: places[trial],
        measured: by_trial.remove(&trial).unwrap_or_default(),
    };
    Ok(standings.into_iter().map(finalist).collect())
}

/// Mean place of every trial in rankings of all of them, counted from 1.
fn mean_places(trials: usize, rankings: &[Vec<usize>]) -> Vec<f64> {
    let mut sums = vec![0.0; trials];
    for ranking in rankings {
        for (place, &trial) in ranking.iter().enumerate() {
            sums[trial] += (place + 1) as f64;
        }
    }
    sums.into_iter().map(|sum| sum / rankings.len() as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::tune::halving::schedule;

    fn folds(count: usize) -> Vec<Vec<Round>> {
        (0..count).map(|fold| vec![Round { name: RunName { seed: 0, fold: Some(fold) }, valid: 1 }]).collect()
    }

    fn measured(nll: f64) -> Measured {
        let failed = (!nll.is_finite()).then(|| "diverged".to_string());
        let validation = Scores::new([("nll", Some(nll))]);
        Measured { validation, best_epoch: 1, epochs: 1, seconds: 0.0, failed }
    }

    fn searched(trials: usize, groups: &[Vec<Round>], nll: &dyn Fn(&Job) -> f64) -> (Outcome, Vec<Job>) {
        let mut all = Vec::new();
        let criterion = Criterion::new(Objective::Softmax, "loss");
        let rungs = schedule(trials, groups[0].len(), 3);
        let outcome = search(
            trials,
            groups,
            &rungs,
            criterion,
            &mut |jobs: &[Job]| {
                all.extend_from_slice(jobs);
                Ok(jobs.iter().map(|job| measured(nll(job))).collect())
            },
            &|_, most| most,
        );
        (outcome.unwrap(), all)
    }

    #[test]
    fn settings_that_a_budget_leaves_out_are_last_and_are_not_counted_as_tried() {
        let one = vec![vec![Round { name: RunName { seed: 0, fold: None }, valid: 1 }]];
        let rungs = schedule(27, 1, 3);
        let mut jobs = Vec::new();
        // Later trials are better, and trial 26 would be best; there is time for eight settings, then two, then one.
        let mut train = |these: &[Job]| {
            jobs.extend_from_slice(these);
            Ok(these.iter().map(|job| measured(100.0 - job.trial as f64)).collect())
        };
        let allow = |at: usize, most: usize| most.min([8, 2, 1, 1][at]);
        let criterion = Criterion::new(Objective::Softmax, "loss");
        let outcome = search(27, &one, &rungs, criterion, &mut train, &allow).unwrap();
        assert_eq!(outcome.rungs.iter().map(|rung| rung.candidates).collect::<Vec<_>>(), [8, 2, 1]);
        assert_eq!((outcome.tried, outcome.winners), (8, vec![7]));
        let at = |rung: usize| jobs.iter().filter(|job| job.rung == rung).map(|job| job.trial).collect::<Vec<_>>();
        assert_eq!((at(2), at(3)), (vec![7, 6, 0], vec![7, 0]));
        // One is compared, and the start with it.
        assert_eq!(outcome.finalists.iter().map(|finalist| finalist.trial).collect::<Vec<_>>(), [7, 0]);
    }

    /// Validation loss of trials in three folds. Over all folds trial 1 is best by far, but in fold 2 trial 2 is: whoever
    /// looks at other folds takes trial 1 there.
    fn leaky(job: &Job) -> f64 {
        match (job.trial, job.round.name.fold) {
            (1, Some(2)) => 0.6,
            (1, _) => 0.1,
            (2, Some(2)) => 0.5,
            (2, _) => 0.9,
            (trial, _) => 1.0 + trial as f64,
        }
    }

    #[test]
    fn a_fold_chooses_by_its_own_validation_part_where_the_mean_would_choose_otherwise() {
        for trials in [3, 9, 27] {
            let (outcome, _) = searched(trials, &folds(3), &leaky);
            assert_eq!(outcome.winners, [1, 1, 2]);
            // What is written down may look at all of them.
            assert_eq!(outcome.finalists[0].trial, 1);
        }
    }

    #[test]
    fn what_a_fold_trains_and_chooses_does_not_depend_on_other_folds() {
        let hash = |job: &Job, salt: u64| {
            let mixed =
                (job.trial as u64 * 31 + job.round.name.fold.unwrap_or(0) as u64 * 17 + job.divisor as u64 + salt)
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (mixed >> 11) as f64 / (1u64 << 53) as f64
        };
        for fold in 0..4 {
            let own = |job: &Job, salt| hash(job, if job.round.name.fold == Some(fold) { 0 } else { salt });
            let (first, first_jobs) = searched(27, &folds(4), &|job| own(job, 1));
            let (second, second_jobs) = searched(27, &folds(4), &|job| own(job, 2));
            assert_eq!(first.winners[fold], second.winners[fold]);
            let of_fold = |jobs: &[Job]| {
                let rungs = jobs.iter().filter(|job| job.rung <= 3 && job.round.name.fold == Some(fold));
                rungs.copied().collect::<Vec<_>>()
            };
            assert_eq!(of_fold(&first_jobs), of_fold(&second_jobs));
        }
    }

    #[test]
    fn the_comparison_over_all_folds_does_not_enter_the_choice_of_a_fold() {
        // Trial 1 drops out of fold 2 on a short budget; in full it would be best there too.
        let nll = |job: &Job| match (job.trial, job.round.name.fold, job.divisor) {
            (1, Some(2), 1) => 0.0,
            (1, Some(2), _) => 9.0,
            (1, ..) => 0.1,
            // No other is good everywhere.
            (trial, fold, _) => 1.0 + 0.01 * ((trial + 9 * fold.unwrap_or(0)) % 27) as f64,
        };
        let (outcome, jobs) = searched(27, &folds(3), &nll);
        assert!(jobs.iter().any(|job| (job.trial, job.round.name.fold, job.divisor, job.rung) == (1, Some(2), 1, 4)));
        assert_eq!((outcome.winners, outcome.finalists[0].trial), (vec![1, 1, 9], 1));
    }

    #[test]
    fn where_nothing_was_trained_in_full_the_best_of_the_last_rung_is_chosen() {
        let one = vec![vec![Round { name: RunName { seed: 0, fold: None }, valid: 1 }]];
        // Trials 5 and 3 are best on the cheapest rung; nothing more was finished.
        let nll = |job: &Job| match (job.rung, job.trial) {
            (1, 5) => 0.1,
            (1, 3) => 0.2,
            (1, _) => 1.0,
            _ => f64::NAN,
        };
        let (outcome, _) = searched(9, &one, &nll);
        assert_eq!(outcome.finalists[0].trial, 5);
    }

    #[test]
    fn seeds_of_one_split_choose_together_and_a_trial_that_diverged_is_last() {
        let seeds = vec![(0..5).map(|seed| Round { name: RunName { seed, fold: None }, valid: 1 }).collect::<Vec<_>>()];
        let nll = |job: &Job| match (job.trial, job.round.name.seed) {
            (1, 4) => f64::NAN,
            (1, _) => 0.0,
            (trial, seed) => trial as f64 + seed as f64,
        };
        let (outcome, jobs) = searched(9, &seeds, &nll);
        assert_eq!(outcome.winners, [0]);
        assert_eq!(outcome.finalists.iter().map(|finalist| finalist.trial).collect::<Vec<_>>(), [0, 2, 1]);
        assert!(outcome.finalists.iter().all(|finalist| finalist.measured.len() == 5));
        // All epochs, and two of five seeds in the first rung.
        assert!(jobs.iter().all(|job| job.divisor == 1));
        assert_eq!(jobs.iter().filter(|job| job.rung == 1).count(), 18);
    }
}
