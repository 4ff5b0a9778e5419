//! Does importance predict what is missed? Remove features by importance, train anew, and compare.
//!
//! As in the paper: the same share of the columns of X is taken from the top, from the bottom, or at random out of the
//! ranking by validation importance; a new model is trained from scratch on what is left, with the same settings, split
//! and seed. No test label plays a part in what is removed. The outcome is about prediction after retraining, not about
//! causes in the world.

use crate::device::cpu::Cpu;
use crate::explain::{Importance, ranking};
use crate::loss::Scores;
use crate::runs::TrainedRun;
use crate::session::{Observer, Session};
use crate::train::RunName;
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::seed::{Purpose, Stream};
use harmonia_graph::stop::Stop;
use harmonia_graph::watch::Watch;
use serde::Serialize;
use std::sync::Arc;

/// Which features are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Which {
    /// The most important.
    Top,
    /// The least important.
    Bottom,
    /// Drawn from the seed of the run.
    Random,
}

impl Which {
    /// All three, as they are trained and shown.
    pub const ALL: [Which; 3] = [Which::Top, Which::Bottom, Which::Random];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Which::Top => "top",
            Which::Bottom => "bottom",
            Which::Random => "random",
        }
    }
}

/// One model trained without some features.
#[derive(Clone, Debug, Serialize)]
pub struct Removal {
    /// Seed of the run.
    pub seed: u64,
    /// The fold that tested, in a cross-validation.
    pub fold: Option<usize>,
    /// By which rule they were chosen.
    pub which: Which,
    /// Their columns, increasing.
    pub removed: Vec<usize>,
    /// Test scores without them.
    pub test: Scores,
    /// Test scores of the full model.
    pub full: Scores,
    /// Of always predicting the most frequent class, or the mean.
    pub constant: Scores,
}

impl Removal {
    /// Change of a score: without minus with.
    pub fn change(&self, score: &str) -> Option<f64> {
        Some(self.test.get(score)? - self.full.get(score)?)
    }
}

/// The columns to remove, increasing, out of a ranking (most important first).
pub fn columns(ranking: &[usize], fraction: f64, which: Which, seed: u64) -> Vec<usize> {
    let count = ((ranking.len() as f64 * fraction).round() as usize).clamp(1, ranking.len().saturating_sub(1).max(1));
    let mut removed = match which {
        Which::Top => ranking[..count].to_vec(),
        Which::Bottom => ranking[ranking.len() - count..].to_vec(),
        Which::Random => {
            let mut all: Vec<usize> = (0..ranking.len()).collect();
            Stream::new(seed, Purpose::Removal, 0).rng().shuffle(&mut all);
            all[..count].to_vec()
        }
    };
    removed.sort_unstable();
    removed
}

/// Trains a run three times without a share of its features; `progress` hears which, and how many, before each.
///
/// # Errors
/// The run is not complete, has no features to spare, or training failed.
pub fn remove_retrain(
    run: &TrainedRun,
    fraction: f64,
    observer: &mut dyn Observer,
    progress: &dyn Fn(Which, usize),
    stop: &Stop,
) -> Result<Vec<Removal>> {
    if !(fraction > 0.0 && fraction < 1.0) {
        return Err(Error::Config(format!("--fraction {fraction}: expected a number above 0 and below 1")));
    }
    let Some(summary) = &run.summary else {
        return Err(Error::file(&run.path, "is not complete: continue it with harmonia-train --resume"));
    };
    if run.factors.features() < 2 {
        return Err(Error::file(&run.path, "has a single feature; nothing would be left"));
    }
    if run.dataset.copies() > 1 {
        let kind = run.config.model.kind.name();
        let what = format!(
            "holds a model of kind {kind}, which reads a copy of every feature for each class; expected harmonia, nbm or nam"
        );
        return Err(Error::file(&run.path, what));
    }
    let split = &run.dataset.split;
    let units = if split.valid.is_empty() { &split.train } else { &split.valid };
    let importance = Importance::measure(
        &run.model,
        &run.factors,
        &run.dataset,
        units,
        &run.centres()?,
        &Watch::new(&|_| (), stop.clone()),
    )?;
    let ranking = ranking(&importance.overall(&run.factors));
    let device = Cpu::new();
    let session = Session { device: &device, config: &run.config, stop };
    let seed = run.config.run.seed;
    let mut removals = Vec::new();
    for which in Which::ALL {
        stop.check()?;
        let removed = columns(&ranking, fraction, which, seed);
        progress(which, removed.len());
        let dataset = without(&run.dataset, &removed);
        let trained = session.run_one(&dataset, None, RunName { seed, fold: None }, None, observer);
        let (outcome, _) = trained.map_err(|error| match error {
            // There is nothing to resume: what was trained so far is not kept.
            Error::Interrupted { .. } => Error::Cancelled,
            other => other,
        })?;
        removals.push(Removal {
            seed,
            fold: run.metadata.fold,
            which,
            removed,
            constant: outcome.baselines.first().map_or_else(Scores::default, |constant| constant.test.clone()),
            test: outcome.test,
            full: summary.test.clone(),
        });
    }
    Ok(removals)
}

/// A dataset without some of its columns.
pub(super) fn without(dataset: &Dataset, removed: &[usize]) -> Dataset {
    let kept: Vec<usize> = (0..dataset.features.cols).filter(|k| removed.binary_search(k).is_err()).collect();
    Dataset {
        features: Arc::new(dataset.features.columns(&kept)),
        feature_names: kept.iter().filter_map(|&k| dataset.feature_names.get(k).cloned()).collect(),
        // Both speak of all columns.
        truth: None,
        structure: None,
        ..dataset.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_from_the_end_asked_for() {
        let ranking = [3, 1, 4, 0, 2, 9, 8, 7, 6, 5];
        assert_eq!(columns(&ranking, 0.2, Which::Top, 0), [1, 3]);
        assert_eq!(columns(&ranking, 0.3, Which::Bottom, 0), [5, 6, 7]);
        let random = columns(&ranking, 0.5, Which::Random, 1);
        assert_eq!(random.len(), 5);
        assert!(random.windows(2).all(|pair| pair[0] < pair[1]));
        assert_ne!(random, columns(&ranking, 0.5, Which::Random, 2));
        // Something is removed and something is left.
        assert_eq!(columns(&ranking, 0.01, Which::Top, 0).len(), 1);
        assert_eq!(columns(&ranking, 0.99, Which::Top, 0).len(), 9);
    }
}
