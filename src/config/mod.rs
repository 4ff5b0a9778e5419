//! The settings of a run: every key and its default. What values they may have is in `check.rs`.

mod check;
mod class_weights;
mod engine;
mod monotone;
mod smoothness;
mod train;

pub use class_weights::ClassWeights;
pub use engine::{Engine, MOST_TABLE_POINTS, MOST_WALKS, Monb, Propagate, ShareUse, Sparse, States, TableUse};
pub use monotone::Monotone;
pub use smoothness::Smoothness;
pub use train::{DropoutPlace, HopBasis, Metric, Optimizer, Schedule, Train};

use crate::architecture::{Architecture, Family, Form, HopWeights, Kind, Routes, Spread};
use crate::loss::{LossChoice, Objective};
use harmonia_graph::dataset::{Labels, Normalise, StructureWord};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::Walk;
use serde::{Deserialize, Serialize};

/// Everything that decides the outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the preset the settings started from; empty for none.
    pub preset: String,
    /// Which settings of the preset: `paper` (as published) or `tuned`; empty without a preset.
    pub recipe: String,
    /// What to train on.
    pub data: Data,
    /// Which random walk carries responses from node to node.
    pub walk: Walk,
    /// Sizes of the model.
    pub model: Model,
    /// How parameters start.
    pub init: Initialisation,
    /// How parameters are fitted, and when that ends.
    pub train: Train,
    /// How it is computed.
    pub engine: Engine,
    /// Seeds and machine.
    pub run: RunSettings,
}

/// What to train on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Name of a dataset, or the path of a store directory.
    pub dataset: String,
    /// Directory of datasets; empty: the environment variable HARMONIA_DATA, or the user's cache directory.
    pub dir: String,
    /// Which synthetic dataset: 0..4 are the five of the paper, others follow the same rule.
    pub index: u32,
    /// `default` (the dataset's own; of several, that of the seed), `own:0`, `per-class:20/500/1000`,
    /// `fractions:60/20/20` or `folds:10/0` (random, by run seed; `folds:10/0/2`: another fold validates).
    pub split: String,
    /// `none`, `row` (divide each row of X by its sum), `standardise` (columns, by the training nodes) or `auto` (columns of
    /// numbers; those of 0 and 1, and sparse X, stay).
    pub normalise: Normalise,
    /// Columns added to X that say where a node stands in its graph: `degree`, `log-degree`, `returns`, `triangles`,
    /// `label-by-degree`, `bias`.
    #[serde(deserialize_with = "StructureWord::list")]
    pub structure: Vec<StructureWord>,
    /// Enter every edge both ways.
    pub undirected: bool,
}

/// Sizes of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// `harmonia`, or another of the family: `nbm`, `nam`, `gp-nam`, `gnan`, `g-namrff`, `dnn-rrwp`.
    #[serde(default)]
    pub kind: Kind,
    /// Of `gnan`: the largest distance that counts; 0: the largest there is.
    #[serde(default)]
    pub horizon: usize,
    /// Of `gp-nam` and `g-namrff`: the length on which responses vary, in the units that the model reads.
    #[serde(default = "default_bandwidth")]
    pub bandwidth: f64,
    /// Of `nam`: first layers of units clip(exp(w) (x - c), 0, 1) in place of ReLU.
    #[serde(default)]
    pub exu: bool,
    /// Of `nbm`: batch norm behind every layer; the model that is saved has it in its weights.
    #[serde(default)]
    pub batch_norm: bool,
    /// Of `dnn-rrwp`: hidden units of the network that weighs pairs of nodes.
    #[serde(default = "default_pair_hidden")]
    pub pair_hidden: usize,
    /// C, experts.
    pub experts: usize,
    /// m, experts each feature uses.
    pub active: usize,
    /// B, bases of each expert.
    pub bases: usize,
    /// Hidden widths of each expert.
    pub hidden: Vec<usize>,
    /// q, embedding width.
    pub embedding: usize,
    /// T, walk lengths 0..T-1.
    pub hops: usize,
    /// `simplex`, `absolute` (the same weights, learned otherwise), `signed` or `free`.
    pub hop_weights: HopWeights,
    /// Features that may only raise (`age=+`) or only lower (`age=-`) the logit of the positive class, or the number.
    pub monotone: Vec<Monotone>,
}

/// How parameters start (`model/init.rs` has the formulas).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Initialisation {
    /// Factor on the readout's usual start; 0 starts from the intercept alone.
    pub readout_scale: f64,
    /// Hop logits start at 1 + hop_growth * t, a filter at (I - hop_growth L)^R.
    pub hop_growth: f64,
    /// psi(1) - psi(0) of each expert's bases, root mean square; 0 leaves experts uncalibrated.
    pub response_slope: f64,
    /// psi(0) of calibrated experts.
    pub response_level: f64,
    /// Start the intercept where it predicts how frequent classes are among the training units, instead of at 0: a rare class need
    /// not be unlearned first.
    pub frequencies: bool,
    /// Start from the best weights of the responses as they start, a convex problem: graph tasks of two classes with free hop
    /// weights.
    pub warm_start: bool,
}

impl Default for Initialisation {
    fn default() -> Self {
        Initialisation {
            readout_scale: 0.0,
            hop_growth: 0.0,
            response_slope: 0.3,
            response_level: 0.3,
            frequencies: false,
            warm_start: false,
        }
    }
}

/// A form of the log beside `metrics.jsonl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricsFile {
    /// `metrics.csv`: a line per epoch.
    Csv,
    /// `events.out.tfevents.*`: for TensorBoard.
    Tensorboard,
}

/// Seeds and machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    /// What people call it; names the directory where none is given. Empty: like the dataset.
    pub name: String,
    /// Seed of the first run: below 2^63, with room for all seeds.
    pub seed: u64,
    /// Number of runs, or of repeats of a cross-validation, with seeds seed, seed + 1, ...
    pub seeds: usize,
    /// Folds of a cross-validation; 0: none.
    pub folds: usize,
    /// `auto`, `cpu`, `cuda` (or `cuda:1`, ...) or `host`.
    pub device: String,
    /// Threads; 0: one per core. Results do not depend on it.
    pub threads: usize,
    /// Fit linear models too, with and without means of neighbours, and show their scores.
    pub baselines: bool,
    /// Seeds and folds trained at a time, which share the threads; 0: small ones side by side, others one by one. Results do not
    /// depend on it.
    pub jobs: usize,
    /// Forms that epochs are logged in beside `metrics.jsonl`: `csv`, `tensorboard`.
    pub metrics: Vec<MetricsFile>,
    /// Least seconds between two checkpoints; 0: after every epoch. Results do not depend on it.
    pub checkpoint_seconds: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            preset: String::new(),
            recipe: String::new(),
            data: Data {
                dataset: "synthetic".into(),
                dir: String::new(),
                index: 0,
                split: "default".into(),
                normalise: Normalise::None,
                structure: Vec::new(),
                undirected: false,
            },
            walk: Walk::default(),
            model: Model {
                kind: Kind::Harmonia,
                horizon: 0,
                bandwidth: default_bandwidth(),
                exu: false,
                batch_norm: false,
                pair_hidden: default_pair_hidden(),
                experts: 4,
                active: 2,
                bases: 8,
                hidden: vec![16, 8],
                embedding: 16,
                hops: 4,
                hop_weights: HopWeights::Simplex,
                monotone: Vec::new(),
            },
            init: Initialisation::default(),
            train: Train::default(),
            engine: Engine::default(),
            run: RunSettings {
                name: String::new(),
                seed: 0,
                seeds: 1,
                folds: 0,
                device: "auto".into(),
                threads: 0,
                baselines: false,
                jobs: 0,
                metrics: Vec::new(),
                checkpoint_seconds: 10.0,
            },
        }
    }
}

/// As GP-NAM has it.
fn default_bandwidth() -> f64 {
    0.2
}

/// Enough for a few kinds of pairs.
fn default_pair_hidden() -> usize {
    32
}

impl Config {
    /// The sizes of the model for a dataset with this many features and outputs.
    pub fn architecture(&self, features: usize, outputs: usize) -> Architecture {
        let Model {
            kind,
            horizon,
            bandwidth,
            exu,
            batch_norm,
            pair_hidden,
            experts,
            active,
            bases,
            hidden,
            embedding,
            hops,
            hop_weights,
            ..
        } = self.model.clone();
        if kind == Kind::Harmonia {
            let family = Family::default();
            return Architecture {
                features,
                outputs,
                experts,
                active,
                bases,
                hidden,
                embedding,
                hops,
                hop_weights,
                family,
            };
        }
        let copies = kind.copies(outputs);
        let family = Family {
            kind,
            reach: match kind.spread() {
                Spread::Walks | Spread::Itself => 0,
                Spread::Shells => horizon,
                Spread::Filter | Spread::Pairs => hops.saturating_sub(1),
            },
            bandwidth: if kind.form() == Form::Fourier { bandwidth } else { 0.0 },
            exu,
            batch_norm,
        };
        let (experts, bases) = match kind.routes() {
            Routes::Own => (features / copies, copies),
            Routes::Learned => (experts, bases),
            Routes::Single => (1, bases),
        };
        let (active, embedding, hops, hop_weights) = match kind.routes() {
            // Terms are the hidden units of pairs, and their bias.
            Routes::Learned => (active, embedding, pair_hidden.saturating_add(1), HopWeights::Free),
            Routes::Single | Routes::Own => (1, 0, 1, HopWeights::default()),
        };
        Architecture { features, outputs, experts, active, bases, hidden, embedding, hops, hop_weights, family }
    }

    /// What of these settings has no kernels, so that the CPU trains; none where all have.
    pub fn without_kernels(&self) -> Option<&'static str> {
        let kind = self.model.kind;
        let lacking = [
            (!kind.has_kernels(), kind.name()),
            (self.train.output_penalty > 0.0, "train.output_penalty"),
            (self.model.batch_norm, "model.batch_norm"),
        ];
        lacking.into_iter().find(|(lacks, _)| *lacks).map(|(_, what)| what)
    }

    /// The loss for labels.
    ///
    /// # Errors
    /// `train.loss` names one that is not made for them.
    pub fn objective(&self, labels: &Labels) -> Result<Objective> {
        match self.train.loss {
            LossChoice::Auto => Ok(Objective::of(labels)),
            LossChoice::Named(objective) if objective.fits(labels) => Ok(objective),
            LossChoice::Named(objective) => Err(Error::Config(format!(
                "train.loss is {}, which is not made for the labels of this dataset; {} is",
                objective.name(),
                Objective::of(labels).name()
            ))),
        }
    }
}
