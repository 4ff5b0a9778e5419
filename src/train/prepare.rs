//! A run made ready: its data as it sees them, and everything its first step needs, computed once.

use super::{distribution, hop_basis, monotone, warm_start, weights};
use crate::architecture::{Architecture, HopWeights, Layout, Spread};
use crate::config::{Config, HopBasis};
use crate::device::Device;
use crate::loss::Objective;
use crate::model::{MemoryPlan, pair_bytes};
use crate::plan::{Plan, SharedPlan, pairs};
use crate::tabulate::{Builder, Tables, Tabulation};
use crate::team::Share;
use harmonia_graph::dataset::{Dataset, Normalise, Scaling, SplitRule, Structure};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{ShellSearch, Transition, Walk};
use harmonia_graph::memory;
use harmonia_graph::walk_table::WalkTable;
use harmonia_graph::watch::Watch;
use rayon::prelude::*;
use std::fmt;
use std::sync::Arc;

/// Bytes of activations up to which runs are trained side by side.
const SMALL: usize = 64 << 20;

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
    let copies = config.model.kind.copies(dataset.labels.outputs());
    match (config.data.structure.is_empty() && copies == 1) || dataset.structure.is_some() {
        true => Ok(dataset),
        false => {
            Structure::of(&dataset, config.walk, &config.data.structure)?.copied(&dataset, copies).append(&dataset)
        }
    }
}

/// The sizes of the model of a run. A reach that is left to the data is the largest distance there.
///
/// # Errors
/// Finding that distance would take too long; labels that the kind of model does not fit; more pairs of nodes than there is memory for.
fn architecture(dataset: &Dataset, config: &Config) -> Result<Architecture> {
    let mut sizes = config.architecture(dataset.features.cols, dataset.labels.outputs());
    let kind = config.model.kind;
    if kind.is_per_class() && config.objective(&dataset.labels)?.is_regression() {
        return Err(Error::Config(format!(
            "model.kind = {} is for classes, and the labels of {} are numbers; harmonia, nbm and nam fit numbers",
            kind.name(),
            dataset.name
        )));
    }
    if kind.spread() == Spread::Shells && sizes.family.reach == 0 {
        sizes.family.reach = farthest(dataset, config.walk)?;
    }
    match pair_bytes(dataset, &sizes) {
        Some(needed) => check_pairs(dataset, needed).map(|()| sizes),
        None => Ok(sizes),
    }
}

/// Where the parameters of a run are, and what batch norm takes its means of.
///
/// # Errors
/// As `architecture`.
pub fn layout(dataset: &Dataset, config: &Config) -> Result<Layout> {
    let mut layout = Layout::new(architecture(dataset, config)?)?;
    if layout.architecture.family.batch_norm {
        layout.distribution = distribution::of_training(dataset);
    }
    Ok(layout)
}

/// Refuses what all pairs of nodes have no room for, before any pair is looked at.
fn check_pairs(dataset: &Dataset, needed: u128) -> Result<()> {
    let Some(there) = memory::allowed() else { return Ok(()) };
    if needed <= there as u128 {
        return Ok(());
    }
    let gibibytes = |size: f64| format!("{:.1} GiB", size / (1u64 << 30) as f64);
    Err(Error::Device(format!(
        "out of memory: model.kind = dnn-rrwp keeps what walks say of every pair of nodes, {} for the {} pairs of {}, and there \
         are {}; it is for small graphs: set model.kind = harmonia, whose walks need no pairs",
        gibibytes(needed as f64),
        pairs(dataset),
        dataset.name,
        gibibytes(there as f64)
    )))
}

/// Entries that searches for the largest distance may go over.
const MOST_SEARCHED: u128 = 1 << 37;

/// The largest distance of any two nodes of which one reads from the other.
fn farthest(dataset: &Dataset, walk: Walk) -> Result<usize> {
    let graphs = dataset.graph_ptr.windows(2).map(|pair| {
        let entries = dataset.graph.adjacency().row_ptr[pair[1]] - dataset.graph.adjacency().row_ptr[pair[0]];
        (pair[1] - pair[0]) as u128 * u128::from(entries)
    });
    if graphs.sum::<u128>() > MOST_SEARCHED {
        return Err(Error::Config(format!(
            "model.horizon is 0 (every distance counts), which takes a search over all of {} from each of its {} nodes in \
             every step: set model.horizon = 2, or a few more",
            dataset.name,
            dataset.graph.nodes()
        )));
    }
    let transition = Transition::new(&dataset.graph, walk);
    let of_node = |search: &mut ShellSearch, i: u32| {
        search.run(transition.matrix(), transition.transposed(), i, usize::MAX);
        search.farthest()
    };
    let nodes = 0..dataset.graph.nodes() as u32;
    // At least one: a model that hears no neighbour of any node has a weight for them all the same.
    Ok(nodes.into_par_iter().map_init(ShellSearch::new, of_node).max().unwrap_or(0).max(1))
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
    /// How much each unit counts while the model is fitted, where they do not count alike.
    pub weights: Option<Arc<[f32]>>,
    /// Whether steps read a table of walks.
    pub tabulation: Tabulation,
    /// That table, once it is made.
    pub table: Option<Arc<WalkTable>>,
    /// What of its steps is this process's, where several share them.
    pub share: Option<Arc<Share>>,
    /// What each of them sends and has.
    pub shared: Option<Arc<SharedPlan>>,
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
        let mut layout = layout(&dataset, config)?;
        let walks = layout.architecture.spread() == Spread::Walks;
        if walks && (config.train.hop_basis, config.model.hop_weights) == (HopBasis::Orthogonal, HopWeights::Free) {
            layout.hop_basis = Some(hop_basis::orthogonal(&dataset, config.walk, config.model.hops));
        }
        layout.output_penalty = config.train.output_penalty;
        let plan = Plan::new(config, &dataset, &layout);
        let objective = config.objective(&dataset.labels)?;
        if config.init.warm_start {
            warm_start::check(&dataset, &layout, objective)?;
        }
        monotone::check(&dataset, scaling.as_ref(), &layout, objective, config)?;
        let weights = weights::of_run(&dataset, &config.train, name.seed)?;
        let tabulation = Tabulation::choose(config, &dataset, &layout, plan)?;
        Ok(Prepared {
            name,
            dataset,
            scaling,
            layout,
            plan,
            objective,
            weights,
            tabulation,
            table: None,
            share: None,
            shared: None,
        })
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

    /// Whether training leaves most threads waiting and does not suffer from a neighbour: as results do not depend on threads,
    /// several such runs may as well have one each.
    pub fn is_small<D: Device<Real = f32>>(&self, device: &D, config: &Config) -> bool {
        !device.copies() && self.share.is_none() && self.memory(device, config).device_bytes() <= SMALL
    }

    /// Memory that training takes; of several processes that share it, this one's.
    pub fn memory<D: Device<Real = f32>>(&self, device: &D, config: &Config) -> MemoryPlan {
        self.memory_of(device, config, self.shared.as_ref().map(|shared| shared.rank))
    }

    /// The same of any of them; of none, all of it.
    pub fn memory_of<D: Device<Real = f32>>(&self, device: &D, config: &Config, rank: Option<usize>) -> MemoryPlan {
        let own = self.shared.as_deref().zip(rank).map(|(shared, rank)| (shared, &shared.own[rank]));
        MemoryPlan::new(device, &self.layout, self.plan, &self.dataset, config, self.tabulation.plan(), own)
    }
}
