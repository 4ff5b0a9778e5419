//! The settings of a run: every key and its default. What values they may have is in `check.rs`.

mod check;

use crate::architecture::{Architecture, HopWeights};
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
    /// Which of the five synthetic datasets, 0..4.
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
}

/// Where dropout acts while training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DropoutPlace {
    /// Nowhere.
    None,
    /// Entries of X: zero with probability p, else scaled by 1 / (1 - p).
    #[default]
    Input,
    /// Whole responses: f_k is zero for every node with probability p, else scaled by 1 / (1 - p).
    Feature,
    /// Hidden units of the experts, separately for every node and feature.
    Hidden,
}

/// How parameters start (`model/init.rs` has the formulas).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Initialisation {
    /// Factor on the readout's usual start; 0 starts from the intercept alone.
    pub readout_scale: f64,
    /// Hop logits start at 1 + hop_growth * t.
    pub hop_growth: f64,
    /// psi(1) - psi(0) of each expert's bases, root mean square; 0 leaves experts uncalibrated.
    pub response_slope: f64,
    /// psi(0) of calibrated experts.
    pub response_level: f64,
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
            warm_start: false,
        }
    }
}

/// The coordinates free hop weights are learned in. Saved models and explanations have the weights themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HopBasis {
    /// The weight of each walk length.
    #[default]
    Plain,
    /// Combinations of walk lengths that do not resemble each other on the dataset at hand.
    Orthogonal,
}

/// Which update rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// Weight decay as L2 in the gradient.
    Adam,
    /// Decoupled weight decay.
    AdamW,
}

/// How the learning rate moves over epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// It does not.
    Constant,
    /// Half a cosine from `learning_rate` to `final_learning_rate` over `epochs`.
    Cosine,
}

/// What early stopping and the choice of the best epoch look at, on the validation units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Share of units classified correctly.
    Accuracy,
    /// Area under the ROC curve.
    RocAuc,
    /// The loss itself; of classes, the negative log-likelihood.
    Loss,
    /// Share of the variance of numbers that is explained.
    R2,
    /// Root of the mean squared error of numbers.
    Rmse,
    /// Mean absolute error of numbers.
    Mae,
}

impl Metric {
    /// The score it looks at; a loss that has none of that name is looked at itself.
    pub fn score_name(self) -> &'static str {
        match self {
            Metric::Accuracy => "accuracy",
            Metric::RocAuc => "roc_auc",
            Metric::Loss => "loss",
            Metric::R2 => "r2",
            Metric::Rmse => "rmse",
            Metric::Mae => "mae",
        }
    }
}

/// How parameters are fitted, and when that ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// `adam` or `adamw`.
    pub optimizer: Optimizer,
    /// Step size at the start.
    pub learning_rate: f64,
    /// Weight decay on every parameter.
    pub weight_decay: f64,
    /// Factor on the noise that routing is learned with; 0: features are routed without.
    pub router_noise: f64,
    /// Factor on the learning rate of hop weights.
    pub hop_rate: f64,
    /// Factor on the learning rate of the readout's weights; 0: one over the mean number of nodes that it sums over, so
    /// that a step moves the logits of graphs of any size alike.
    pub readout_rate: f64,
    /// `plain` or `orthogonal`: what free hop weights are learned in.
    pub hop_basis: HopBasis,
    /// `constant` or `cosine`.
    pub schedule: Schedule,
    /// Where the cosine ends.
    pub final_learning_rate: f64,
    /// Largest gradient norm; 0: no clipping.
    pub clip_norm: f64,
    /// Graphs a step sees (on one graph: training nodes a step is scored on); 0: everything at once.
    pub batch_size: usize,
    /// Most epochs; patience may end a run before.
    pub epochs: usize,
    /// Epochs without improvement before stopping, counted once the model has begun to learn; 0: never stop early.
    pub patience: usize,
    /// `accuracy`, `roc_auc`, `loss`, or of numbers `r2`, `rmse`, `mae`; one that the task does not have means `loss`.
    pub metric: Metric,
    /// Divide logits by a temperature, and of a binary task shift them, as fits the validation units of the best epoch.
    pub calibrate: bool,
    /// `auto` (by the labels), `softmax`, `sigmoid` or `squared`.
    pub loss: LossChoice,
    /// Probability of dropping, in [0, 1).
    pub dropout: f64,
    /// `input`, `feature`, `hidden` or `none`.
    pub dropout_place: DropoutPlace,
}

/// Element type of propagated states. Sums are always taken in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum States {
    /// Single precision.
    #[default]
    F32,
    /// IEEE half: half the traffic of a hop, 11 bits.
    F16,
    /// bfloat16: half the traffic, 8 bits, the range of f32.
    Bf16,
}

impl States {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            States::F32 => 4,
            States::F16 | States::Bf16 => 2,
        }
    }
}

/// How responses are evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Monb {
    /// Every expert network at every point: the reference, and the only way where hidden units are dropped.
    Direct,
    /// Experts compiled to their pieces once per step, then a look-up per point.
    #[default]
    Knots,
}

/// What is carried along walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Propagate {
    /// Responses: d columns, then the readout.
    Features,
    /// The readout first: L columns per hop. Graph tasks: nothing, every node has its weight in advance.
    Classes,
    /// Whichever the cost model finds cheaper.
    #[default]
    Auto,
}

/// Whether zeros of X are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sparse {
    /// Never: X is made dense.
    Off,
    /// Where X is held as sparse rows and the readout comes first.
    #[default]
    Auto,
}

/// Whether training reads a table of walks instead of walking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableUse {
    /// Where that saves time: at no price where features have few values, else where it saves much.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Always; an error where it cannot be.
    Force,
}

/// Points of a feature in a table, at most.
pub const MOST_TABLE_POINTS: usize = 65;
/// Walks of a unit and step that correct a table, at most.
pub const MOST_WALKS: usize = 64;

/// How it is computed. All choices but `states` and `table` give the same numbers up to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Engine {
    /// `knots` or `direct`.
    pub monb: Monb,
    /// `auto`, `features` or `classes`.
    pub propagate: Propagate,
    /// `auto` or `off`.
    pub sparse: Sparse,
    /// Element type of propagated states: `f32`, `f16` or `bf16`.
    pub states: States,
    /// `auto`, `off` or `force`: whether steps and validation read a table of walks. Saved, scored and explained is the exact
    /// model.
    pub table: TableUse,
    /// Points that walks of a feature are tabulated at; what lies between them is interpolated. 1: nothing is tabulated, sampled
    /// walks say what is far.
    pub table_points: usize,
    /// Bits of a number in a table: 8, 16 or 32; 0: 32 where the table is small, else 8, and 16 where a finer table turns out to
    /// be needed.
    pub table_bits: usize,
    /// Bytes a table may have; points are fewer where it would have more.
    pub table_bytes: usize,
    /// Walks sampled from each unit in each step, where a table has too few points to be trusted; 0: never, and no such table
    /// is made. Twice as many where losses show that these are too few.
    pub walks: usize,
    /// Bytes that training may take of a GPU's memory; what has no room comes in panels. 0: what is free. Results do not depend
    /// on it.
    pub device_memory: usize,
}

impl Default for Engine {
    fn default() -> Self {
        Engine {
            monb: Monb::default(),
            propagate: Propagate::default(),
            sparse: Sparse::default(),
            states: States::default(),
            table: TableUse::default(),
            table_points: 9,
            table_bits: 0,
            table_bytes: 4 << 30,
            walks: 4,
            device_memory: 0,
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
                experts: 4,
                active: 2,
                bases: 8,
                hidden: vec![16, 8],
                embedding: 16,
                hops: 4,
                hop_weights: HopWeights::Simplex,
            },
            init: Initialisation::default(),
            train: Train {
                optimizer: Optimizer::AdamW,
                learning_rate: 1e-3,
                weight_decay: 1e-4,
                router_noise: 1.0,
                hop_rate: 1.0,
                readout_rate: 1.0,
                hop_basis: HopBasis::Plain,
                schedule: Schedule::Constant,
                final_learning_rate: 1e-6,
                clip_norm: 0.0,
                batch_size: 0,
                epochs: 500,
                patience: 100,
                metric: Metric::Loss,
                calibrate: false,
                loss: LossChoice::Auto,
                dropout: 0.0,
                dropout_place: DropoutPlace::Input,
            },
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

impl Config {
    /// The sizes of the model for a dataset with this many features and outputs.
    pub fn architecture(&self, features: usize, outputs: usize) -> Architecture {
        let Model { experts, active, bases, hidden, embedding, hops, hop_weights } = self.model.clone();
        Architecture { features, outputs, experts, active, bases, hidden, embedding, hops, hop_weights }
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
