//! Successive halving: many settings on a small budget, the best third of them on three times as much, and so on.
//!
//! A rung either trains for a part of the epochs (a run of its own, so that a cosine is complete) or on a part of the
//! seeds. The starting settings stay to the end: what is found is compared with them at full budget.

use std::cmp::Ordering;

/// One of how many goes on.
const KEPT: usize = 3;
/// Settings that need no halving.
const FEW: usize = 3;

/// How good a trial is on some runs; the greater the better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Merit {
    /// The criterion, larger is better.
    pub score: f64,
    /// Validation loss, which decides between equals.
    pub loss: f64,
}

impl Merit {
    /// Of a run that diverged.
    pub const WORST: Merit = Merit { score: f64::NEG_INFINITY, loss: f64::INFINITY };

    /// Over several runs: one that diverged spoils the mean.
    pub fn mean(merits: &[Merit]) -> Merit {
        let mean = |of: fn(&Merit) -> f64| merits.iter().map(of).sum::<f64>() / merits.len() as f64;
        let merit = Merit { score: mean(|merit| merit.score), loss: mean(|merit| merit.loss) };
        if merit.score.is_finite() && merit.loss.is_finite() { merit } else { Merit::WORST }
    }

    /// Best first.
    fn before(self, other: Merit) -> Ordering {
        other.score.total_cmp(&self.score).then(self.loss.total_cmp(&other.loss))
    }
}

/// A trial and how good it is.
pub type Standing = (usize, Merit);

/// Sorts best first; of equals, the earlier trial.
pub fn sort(standings: &mut [Standing]) {
    standings.sort_by(|a, b| a.1.before(b.1).then(a.0.cmp(&b.0)));
}

/// One round of trainings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    /// Settings that are tried, not counting the starting ones where they had dropped out.
    pub candidates: usize,
    /// Epochs are divided by this.
    pub divisor: usize,
    /// Runs of each: the first so many of the group.
    pub runs: usize,
}

/// The rungs, at most `most`, for so many trials, each on so many runs: by seeds where there are at least three, else by
/// epochs.
pub fn schedule(trials: usize, runs: usize, most: usize) -> Vec<Rung> {
    let mut divisors: Vec<usize> = match trials {
        ..=FEW => vec![1],
        _ if trials <= FEW * KEPT => vec![KEPT, 1],
        _ => vec![KEPT * KEPT, KEPT, 1],
    };
    divisors.drain(..divisors.len().saturating_sub(most.max(1)));
    let by_runs = runs >= KEPT;
    if by_runs {
        // The same number of runs twice would drop settings for nothing learned.
        divisors.dedup_by_key(|divisor| runs.div_ceil(*divisor));
    }
    let mut candidates = trials;
    let mut rungs = Vec::new();
    for divisor in divisors {
        rungs.push(match by_runs {
            true => Rung { candidates, divisor: 1, runs: runs.div_ceil(divisor) },
            false => Rung { candidates, divisor, runs },
        });
        candidates = kept(candidates);
    }
    rungs
}

/// How many of so many go on.
pub fn kept(candidates: usize) -> usize {
    candidates.div_ceil(KEPT)
}

/// Splits sorted standings into trials that go on and those that do not, both best first.
pub fn halve(standings: &[Standing], kept: usize) -> (Vec<usize>, Vec<usize>) {
    let trials: Vec<usize> = standings.iter().map(|(trial, _)| *trial).collect();
    let (best, rest) = trials.split_at(kept.min(trials.len()));
    let start = rest.iter().copied().filter(|trial| *trial == 0);
    (best.iter().copied().chain(start).collect(), rest.iter().copied().filter(|trial| *trial != 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_have_a_third_of_the_settings_and_three_times_the_budget() {
        let by_epochs = |candidates, divisor| Rung { candidates, divisor, runs: 1 };
        assert_eq!(schedule(27, 1, 2), [by_epochs(27, 3), by_epochs(9, 1)]);
        assert_eq!(schedule(27, 1, 1), [by_epochs(27, 1)]);
        assert_eq!(schedule(27, 1, 3), [by_epochs(27, 9), by_epochs(9, 3), by_epochs(3, 1)]);
        assert_eq!(schedule(9, 1, 3), [by_epochs(9, 3), by_epochs(3, 1)]);
        assert_eq!(schedule(3, 1, 3), [by_epochs(3, 1)]);
        let by_runs = |candidates, runs| Rung { candidates, divisor: 1, runs };
        assert_eq!(schedule(27, 9, 3), [by_runs(27, 1), by_runs(9, 3), by_runs(3, 9)]);
        assert_eq!(schedule(27, 5, 3), [by_runs(27, 1), by_runs(9, 2), by_runs(3, 5)]);
        // One seed, and then again one seed, would be the same.
        assert_eq!(schedule(27, 3, 3), [by_runs(27, 1), by_runs(9, 3)]);
        assert_eq!(schedule(27, 2, 3)[0], Rung { candidates: 27, divisor: 9, runs: 2 });
    }

    #[test]
    fn the_best_third_and_the_start_go_on() {
        let merit = |score| Merit { score, loss: 0.0 };
        let mut standings = vec![(0, merit(0.1)), (1, merit(0.5)), (2, Merit::WORST), (3, merit(0.9)), (4, merit(0.5))];
        sort(&mut standings);
        assert_eq!(standings.iter().map(|(trial, _)| *trial).collect::<Vec<_>>(), [3, 1, 4, 0, 2]);
        assert_eq!(halve(&standings, kept(5)), (vec![3, 1, 0], vec![4, 2]));
        assert_eq!(halve(&standings, 4), (vec![3, 1, 4, 0], vec![2]));
    }

    #[test]
    fn a_run_that_diverged_is_worst_and_equals_are_told_apart_by_loss() {
        let (good, bad) = (Merit { score: 0.5, loss: 0.1 }, Merit { score: 0.5, loss: 0.2 });
        assert_eq!(Merit::mean(&[good, Merit::WORST]), Merit::WORST);
        let mut standings = vec![(0, Merit::WORST), (1, bad), (2, good)];
        sort(&mut standings);
        assert_eq!(standings[0].0, 2);
        assert_eq!(standings[2].0, 0);
    }
}
