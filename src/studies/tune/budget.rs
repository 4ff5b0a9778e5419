//! How much of a search fits into a time: fewer settings where all of them would not be finished.
//!
//! Asked before every rung, with what trainings have taken so far. Rungs stay as they were planned, so that trainings that are
//! finished count whatever the budget: the same search with more time goes on from them.

use super::halving::{Rung, kept};
use super::search::Round;

/// Trainings that tell how long others will take, before the first rung is planned.
pub const FIRST: usize = 3;

/// Most settings, up to `most` and at least one, that may go into rung `at` (counted from 0; after the last one, into the comparison
/// over all runs) where `trainings` in full fit into the time. `known` of those settings' trainings in that rung are finished, the
/// first ones first.
pub fn affordable(
    rungs: &[Rung],
    groups: &[Vec<Round>],
    at: usize,
    most: usize,
    trainings: f64,
    known: usize,
) -> usize {
    let fits = |&candidates: &usize| needed(rungs, groups, at, candidates, known) <= trainings;
    (1..=most).rev().find(fits).unwrap_or(1)
}

/// Trainings in full that are to be made from rung `at` on, where so many settings go into it.
fn needed(rungs: &[Rung], groups: &[Vec<Round>], at: usize, candidates: usize, known: usize) -> f64 {
    let (mut candidates, mut needed) = (candidates, 0.0);
    for (number, rung) in rungs.iter().enumerate().skip(at) {
        candidates = candidates.min(rung.candidates);
        // The start goes along where it is not among the best.
        let settings = candidates + usize::from(number > 0);
        let before = number.checked_sub(1).map(|before| rungs[before]).filter(|before| before.divisor == rung.divisor);
        let done = before.map_or(0, |before| before.runs);
        let runs: usize = groups.iter().map(|group| group.len().min(rung.runs).saturating_sub(done)).sum();
        let finished = if number == at { known.min(settings * runs) } else { 0 };
        needed += (settings * runs - finished) as f64 / rung.divisor as f64;
        if number + 1 < rungs.len() {
            candidates = kept(candidates);
        }
    }
    // Where every group chooses for itself, the best of all are trained on all runs.
    let compared = if groups.len() > 1 { (candidates + 1) * groups.iter().map(Vec::len).sum::<usize>() } else { 0 };
    needed + compared as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::tune::halving::schedule;
    use crate::train::RunName;

    fn groups(count: usize, runs: usize) -> Vec<Vec<Round>> {
        let round = |seed| Round { name: RunName { seed, fold: None }, valid: 1 };
        vec![(0..runs as u64).map(round).collect(); count]
    }

    #[test]
    fn what_a_search_needs_is_the_sum_of_its_rungs() {
        let (rungs, one) = (schedule(27, 1, 3), groups(1, 1));
        // 27 of a ninth, 9 and the start of a third, 3 and the start in full.
        assert!((needed(&rungs, &one, 0, 27, 0) - (3.0 + 10.0 / 3.0 + 4.0)).abs() < 1e-12);
        assert!((needed(&rungs, &one, 0, 27, 9) - (2.0 + 10.0 / 3.0 + 4.0)).abs() < 1e-12);
        assert!((needed(&rungs, &one, 1, 4, 0) - (5.0 / 3.0 + 3.0)).abs() < 1e-12);
        // By runs: one of each setting, then two of the best and of the start, of which one is there, then five.
        let rungs = schedule(27, 5, 3);
        assert_eq!(needed(&rungs, &groups(1, 5), 0, 27, 0), 27.0 + 10.0 + 4.0 * 3.0);
        // Two groups of one run each, then the comparison.
        let rungs = schedule(3, 1, 3);
        assert_eq!(needed(&rungs, &groups(2, 1), 0, 3, 0), 6.0 + 8.0);
        assert_eq!(needed(&rungs, &groups(2, 1), 1, 3, 0), 8.0);
    }

    #[test]
    fn as_many_settings_as_fit_and_at_least_one() {
        let (rungs, one) = (schedule(27, 1, 3), groups(1, 1));
        let fit = |trainings| affordable(&rungs, &one, 0, 27, trainings, 0);
        assert_eq!(fit(1000.0), 27);
        assert_eq!(fit(0.0), 1);
        for trainings in [3.0, 5.0, 7.0, 9.0] {
            let settings = fit(trainings);
            assert!(needed(&rungs, &one, 0, settings, 0) <= trainings, "{trainings}");
            assert!(needed(&rungs, &one, 0, settings + 1, 0) > trainings, "{trainings}");
        }
        // The next rung is asked anew, and never has more than the schedule.
        assert_eq!(affordable(&rungs, &one, 1, 9, 1000.0, 0), 9);
        assert!(affordable(&rungs, &one, 1, 9, 4.0, 0) < 9);
    }
}
