//! `train.*`: how parameters are fitted, and when that ends. One enum for each setting that is a word.

use super::{ClassWeights, Smoothness};
use crate::loss::LossChoice;
use serde::{Deserialize, Serialize};

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
    /// `learning_rate` over the root of the number of the epoch.
    Root,
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
    /// Factor on the learning rate of hop weights, and of a filter's.
    pub hop_rate: f64,
    /// Factor on the learning rate of the readout's weights; 0: one over the mean number of nodes that it sums over, so
    /// that a step moves the logits of graphs of any size alike.
    pub readout_rate: f64,
    /// `plain` or `orthogonal`: what free hop weights are learned in.
    pub hop_basis: HopBasis,
    /// `constant`, `cosine` or `root`: over the root of the number of the epoch.
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
    /// Penalty on responses that bend (`model/smoothness.rs` has the formula); 0: none. A list such as `[0, 1e-3, 1e-2]`: each is
    /// trained, and the run goes on with the best by validation.
    pub smoothness: Smoothness,
    /// Of `nbm`, `nam` and `gp-nam`: what the mean square of all responses to the nodes of a step costs, as NAM has it; 0: nothing.
    #[serde(default)]
    pub output_penalty: f64,
    /// `none`, `balanced` or a list such as `["yes=3", "no=1"]`: how much units of each class count while the model is fitted.
    pub class_weights: ClassWeights,
    /// Every run draws how much each training unit counts (a Bayesian bootstrap), so that runs of several seeds show what other
    /// data would have changed.
    pub bagging: bool,
    /// Probability of dropping, in [0, 1).
    pub dropout: f64,
    /// `input`, `feature`, `hidden` or `none`.
    pub dropout_place: DropoutPlace,
}

impl Default for Train {
    fn default() -> Self {
        Train {
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
            smoothness: Smoothness::from(0.0),
            output_penalty: 0.0,
            class_weights: ClassWeights::None,
            bagging: false,
            dropout: 0.0,
            dropout_place: DropoutPlace::Input,
        }
    }
}
