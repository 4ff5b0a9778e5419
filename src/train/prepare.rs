//! A run made ready: its data as it sees them, and everything its first step needs, computed once.

use super::{hop_basis, warm_start};
use crate::architecture::{HopWeights, Layout};
use crate::config::{Config, HopBasis};
use crate::device::Device;
use crate::loss::Objective;
use crate::model::MemoryPlan;
use crate::plan::Plan;
use crate::tabulate::{Builder, Tables, Tabulation};
use harmonia_graph::dataset::{Dataset, Normalise, Scaling, SplitRule, Structure};
use harmonia_graph::error::Result;
use harmonia_graph::graph::Walk;
use harmonia_graph::walk_table::WalkTable;
use harmonia_graph::watch::Watch;
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

/// A dataset with the structural features that the settings ask for; as it is where it has some. They are the same for
/// every run of a session, which therefore adds them once, before splits are drawn.
///
/// # Errors
/// There would be too many columns.
pub fn structured(dataset: Dataset, config: &Config) -> Result<Dataset> {
    match config.data.structure.is_empty() || dataset.structure.is_some() {
        true => Ok(dataset),
        false => Structure::of(&dataset, config.walk, &config.data.structure)?.append(&dataset),
    }
}

/// The dataset of one run: its structural features added, its split drawn, its features rescaled, and what that took.
///
/// # Errors
/// As [`structured`]; the dataset is too small for the split, or scaling leaves numbers that are not finite.
pub fn prepare(dataset: &Dataset, config: &Config, run: RunName) -> Result<(Dataset, Option<Scaling>)> {
    let rule = match run.fold {
        Some(fold) => SplitRule::Fold { folds: config.run.folds, fold, valid: 1 },
        None => SplitRule::parse(&config.data.split)?,
    };
    config.walk.check(&dataset.graph)?;
    let mut prepared = structured(dataset.clone(), config)?;
    rule.apply(&mut prepared, run.seed)?;
    let mut scaling = None;
    if config.data.normalise != Normalise::None {
        let (features, taken) = config.data.normalise.apply(&prepared)?;
        (prepared.features, scaling) = (Arc::new(features), taken);
    }
    Ok((prepared, scaling))
}

/// A run that is ready to train.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its seed and fold.
    pub name: RunName,
    /// The data: split drawn, features rescaled.
    pub dataset: Dataset,
    /// What was done to the features, for the model to remember.
    pub scaling: Option<Scaling>,
    /// Where each parameter is.
    pub layout: Layout,
    /// How a step is computed.
    pub plan: Plan,
    /// Settled by the labels and `train.loss`.
    pub objective: Objective,
    /// Whether steps read a table of walks.
    pub tabulation: Tabulation,
    /// That table, once it is made.
    pub table: Option<Arc<WalkTable>>,
}

impl Prepared {
    /// A run of a dataset: draws its split, rescales its features.
    ///
    /// # Errors
    /// As [`prepare`]; settings that do not fit the data.
    pub fn new(whole: &Dataset, config: &Config, name: RunName) -> Result<Prepared> {
        let (dataset, scaling) = prepare(whole, config, name)?;
        Prepared::of(dataset, scaling, config, name)
    }

    /// A run on a dataset whose split is settled.
    ///
    /// # Errors
    /// Settings that do not fit the data.
    pub fn of(dataset: Dataset, scaling: Option<Scaling>, config: &Config, name: RunName) -> Result<Prepared> {
        let mut layout = Layout::new(config.architecture(dataset.features.cols, dataset.labels.outputs()))?;
        if (config.train.hop_basis, config.model.hop_weights) == (HopBasis::Orthogonal, HopWeights::Free) {
            layout.hop_basis = Some(hop_basis::orthogonal(&dataset, config.walk, config.model.hops));
        }
        let plan = Plan::new(config, &dataset, &layout);
        let objective = config.objective(&dataset.labels)?;
        if config.init.warm_start {
            warm_start::check(&dataset, &layout, objective)?;
        }
        let tabulation = Tabulation::choose(config, &dataset, &layout, plan)?;
        Ok(Prepared { name, dataset, scaling, layout, plan, objective, tabulation, table: None })
    }

    /// Makes the table that steps read, or finds it, where they read one.
    ///
    /// # Errors
    /// A stop was asked for, or a disk is full or not writable.
    pub fn tabulate(&mut self, tables: &Tables, walk: Walk, watch: &Watch<'_>) -> Result<()> {
        if let (Some(plan), None) = (self.tabulation.plan(), &self.table) {
            self.table = Some(tables.table(&self.dataset, walk, plan, watch)?);
        }
        Ok(())
    }

    /// The table that steps read: the one that was made, or made now, in memory.
    ///
    /// # Errors
    /// None but what stops a build.
    pub fn walk_table(&self, walk: Walk) -> Result<Option<Arc<WalkTable>>> {
        let made =
            || self.tabulation.plan().map(|plan| Builder::new(&self.dataset, walk, plan).table(&Watch::silent()));
        match &self.table {
            Some(table) => Ok(Some(Arc::clone(table))),
            None => Ok(made().transpose()?.map(Arc::new)),
        }
    }

    /// Memory that training takes.
    pub fn memory<D: Device<Real = f32>>(&self, device: &D, config: &Config) -> MemoryPlan {
        MemoryPlan::new(device, &self.layout, self.plan, &self.dataset, config, self.tabulation.plan())
    }
}
