//! A dataset as one run sees it.

use crate::config::Config;
use harmonia_graph::dataset::{Dataset, Normalise, Scaling, SplitRule};
use harmonia_graph::error::Result;
use std::fmt;
use std::sync::Arc;

/// Which run of a session: a seed, and in a cross-validation a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunName {
    /// Seed of everything random.
    pub seed: u64,
    /// The fold that tests.
    pub fold: Option<usize>,
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fold {
            Some(fold) => write!(f, "seed {}, fold {fold}", self.seed),
            None => write!(f, "seed {}", self.seed),
        }
    }
}

/// The dataset of one run: its split drawn, its features rescaled, and what that took.
///
/// # Errors
/// The dataset is too small for the split, or scaling leaves numbers that are not finite.
pub fn prepare(dataset: &Dataset, config: &Config, run: RunName) -> Result<(Dataset, Option<Scaling>)> {
    let rule = match run.fold {
        Some(fold) => SplitRule::Fold { folds: config.run.folds, fold },
        None => SplitRule::parse(&config.data.split)?,
    };
    let mut prepared = dataset.clone();
    rule.apply(&mut prepared, run.seed)?;
    let mut scaling = None;
    if config.data.normalise != Normalise::None {
        let (features, taken) = config.data.normalise.apply(&prepared)?;
        (prepared.features, scaling) = (Arc::new(features), taken);
    }
    Ok((prepared, scaling))
}
