//! What the page shows, as plain values: everything `page.js` reads is declared here and nowhere else.
//!
//! The structs are written as JSON into the page under these names. Every part is optional: a part that is `None` or empty
//! hides its section. All numbers are finite; what is not known is `None`, never a NaN.

use crate::loss::{DetailsOfParts, Reliabilities, Scores};
use harmonia_graph::dataset::Level;
use serde::{Deserialize, Serialize};

/// A whole page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// What was trained on what, and how good it is.
    pub summary: Summary,
    /// Epochs in order. Empty: no learning curves.
    pub history: Vec<Epoch>,
    /// Columns of the readout, in order: all lists "per output" below are in this order.
    pub outputs: Vec<Output>,
    /// The features shown, the most important first; some two hundred at most, so that the page stays light. Empty: no
    /// sections about features.
    pub features: Vec<Feature>,
    /// How many features the model has.
    pub features_total: usize,
    /// By what the features are ordered, as the end of a sentence: "mean absolute contribution on the test nodes".
    pub features_order: String,
    /// How importance was measured. `None`: no importance section.
    pub importance_about: Option<ImportanceAbout>,
    /// The experts that responses are mixed from. `None`: no routing section.
    pub experts: Option<Experts>,
    /// Walk lengths. `None`: no section about them.
    pub hops: Option<Hops>,
    /// Explained nodes or graphs. Empty: no section about single predictions.
    pub locals: Vec<Local>,
    /// What the graph permits to conclude. `None`: no diagnostics section.
    pub diagnostics: Option<Diagnostics>,
    /// The same model trained from other seeds. `None`: no stability section.
    pub stability: Option<Stability>,
    /// The command that makes a fuller page than this one, such as `harmonia report runs/cora`.
    pub more: Option<String>,
    /// Why nothing is said about single units and about the graph, as a sentence: the data are not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// What was trained on what, and how good it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the dataset.
    pub dataset: String,
    /// Which run: "seed 0" or "seed 0, fold 3".
    pub run: String,
    /// Whether nodes or graphs are predicted; `None` only on an empty page.
    pub level: Option<Level>,
    /// Nodes of all graphs.
    pub nodes: usize,
    /// Directed edges of all graphs.
    pub directed_edges: usize,
    /// 1 for a single graph.
    pub graphs: usize,
    /// Features: columns of the table, or of X.
    pub features: usize,
    /// Names of the classes or, where a unit has several labels, of the labels. A binary task has two classes and one
    /// output.
    pub classes: Vec<String>,
    /// Trained numbers of the model.
    pub parameters: usize,
    /// Epochs trained, over all sittings.
    pub epochs: usize,
    /// Epoch whose parameters were kept, counted from 1; 0 for none.
    pub best_epoch: usize,
    /// Whether patience ended the run.
    pub stopped_early: bool,
    /// Whether the model learned more than the frequencies of classes.
    pub learned: bool,
    /// Seconds of training, over all sittings.
    pub seconds: f64,
    /// Where it was computed.
    pub device: String,
    /// Whether the model predicts numbers; [`Summary::classes`] are then the names of its targets.
    pub regression: bool,
    /// Which scores there are, in the order shown.
    pub kinds: Vec<Kind>,
    /// Scores of the best epoch, a part of the units each, in the order shown: test, validation, train.
    pub scores: Vec<PartScores>,
    /// Test scores of simpler predictions; [`PartScores::part`] is what they are called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<PartScores>,
    /// Which classes are taken for which, PR-AUC, Brier score, a threshold. `None`: no section about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<DetailsOfParts>,
    /// How far probabilities can be trusted. `None`: no section about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reliability: Option<Reliabilities>,
    /// Sentences that are shown as warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// All settings, as TOML.
    pub settings: String,
    /// Sentences shown below the scores.
    pub notes: Vec<String>,
    /// Synthetic data: what was found again of the generator, a table of fixed-width text.
    pub recovery: Option<String>,
    /// Synthetic data: the generator's own negative log-likelihood on the test units.
    pub generator_nll: Option<f64>,
}

/// Scores on a part of the units; `None` where one is not defined. Shares, not percentages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartScores {
    /// "test", "validation" or "train".
    pub part: String,
    /// How many units it has.
    pub units: Option<usize>,
    /// By name, those of [`Summary::kinds`].
    #[serde(flatten)]
    pub scores: Scores,
}

/// How a score is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// Its key in [`PartScores`] and [`Epoch`].
    pub name: String,
    /// In full.
    pub title: String,
    /// Whether it is a share.
    pub percent: bool,
    /// Whether it is drawn epoch by epoch.
    pub drawn: bool,
    /// Whether it is the loss itself.
    pub loss: bool,
}

/// One epoch of the learning curves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Counted from 1.
    pub epoch: usize,
    /// Mean training loss.
    pub train_loss: f64,
    /// Scores of the validation units that are drawn, by name.
    #[serde(flatten)]
    pub scores: Scores,
}

/// A column of the readout: a class, a label, or the one logit of a binary task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Name of the class or label; of a binary task, its positive class.
    pub name: String,
    /// What a logit below zero speaks for: the other class of a binary task. `None` for a class among several and for a
    /// label.
    pub negative: Option<String>,
}

/// One feature of the model: a column of the table, which may be several columns of X.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Feature {
    /// k, its first column of X.
    pub index: usize,
    /// Its name; may be empty.
    pub name: String,
    /// What the response of the first column, less its mean, is multiplied by for each output: w[k, output] times the sum of theta,
    /// which is one where hop weights are shares.
    pub weight: Vec<f64>,
    /// theta[t, k] for t = 0..T-1: of several columns, those of the one that matters most.
    pub theta: Vec<f64>,
    /// Which one that is; `None` where there is one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// Importance for each output, >= 0.
    pub importance: Option<Vec<f64>>,
    /// Mean signed contribution to each output where the feature is large against where it is small, or the like:
    /// positive where more of the feature speaks for the output.
    pub signed: Option<Vec<f64>>,
    /// Importance over all outputs, >= 0.
    pub overall: Option<f64>,
    /// `rising` or `falling`: the way its effect on what is predicted was kept to, exactly and everywhere. `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monotone: Option<String>,
    /// The response f_k to its numbers. `None`: the feature has no curve on the page.
    pub shape: Option<Curve>,
    /// What each value of a category adds, and a gap. Empty for numbers without gaps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<FeatureValue>,
    /// Gate of each expert, of the same column as [`Feature::theta`]; `None` for an expert that it does not use.
    pub gates: Vec<Option<f64>>,
}

/// One value of a feature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FeatureValue {
    /// As the table has it.
    pub name: String,
    /// Whether it is a gap.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// Nodes that have it; `None` where that is not known.
    pub count: Option<u64>,
    /// What it adds to each output, less the mean over all nodes.
    pub effects: Vec<f64>,
    /// Lowest and highest over seeds, for each output. Empty for one seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<[f64; 2]>,
}

/// A response f_k: straight lines between knots and beyond them, exact unless `sampled`. The page draws w[k, output] (f_k(x) - centre).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// (x, f_k(x)) where the slope changes, increasing in x, in the units of the data as users know them. At least one
    /// point: a straight line has one anywhere on it.
    pub knots: Vec<[f64; 2]>,
    /// Slope left of the first knot.
    pub left_slope: f64,
    /// Slope right of the last knot.
    pub right_slope: f64,
    /// Smallest and largest value in the data.
    pub range: [f64; 2],
    /// Unit of the values, where it is not the table's own: days of a date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// How often which values occur.
    pub density: Option<Histogram>,
    /// The constant that is subtracted from f_k for display, since it cannot be told from the intercept; usually its mean
    /// over the data. `knots` are those of f_k before.
    pub centre: f64,
    /// Spread over seeds.
    pub bands: Option<Bands>,
    /// Whether f_k is smooth: knots are then points of it over the range of the data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sampled: bool,
    /// What is added beside the curve, for each output, because the value is there: of a column with gaps. Empty for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub present: Vec<f64>,
}

/// Counts between edges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Increasing; one more than counts.
    pub edges: Vec<f64>,
    /// Values from each edge to the next.
    pub counts: Vec<u64>,
}

/// w[k, output] (f_k(x) - centre) over seeds, each seed centred by itself, because responses of different seeds may
/// differ by scale and constants that the readout takes back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bands {
    /// Increasing.
    pub x: Vec<f64>,
    /// One per output.
    pub outputs: Vec<Band>,
}

/// Spread over seeds at each point of [`Bands::x`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// Mean over seeds.
    pub mean: Vec<f64>,
    /// Lowest over seeds.
    pub low: Vec<f64>,
    /// Highest over seeds.
    pub high: Vec<f64>,
}

/// How importance was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportanceAbout {
    /// Which units: "test", "all".
    pub split: String,
    /// Units averaged over.
    pub units: usize,
    /// One or two plain sentences.
    pub text: String,
}

/// The experts that responses are mixed from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experts {
    /// C, how many there are.
    pub count: usize,
    /// m, how many each feature uses.
    pub active: usize,
    /// Of all features, not only those shown, how many use each expert. Empty: not known.
    pub used_by: Vec<usize>,
    /// Experts that no feature uses.
    pub unused: Vec<usize>,
    /// Pairs that compute nearly the same.
    pub near_duplicates: Vec<NearDuplicate>,
}

/// Two experts that compute nearly the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NearDuplicate {
    /// The lower number.
    pub a: usize,
    /// The higher number.
    pub b: usize,
    /// 1 for the same.
    pub similarity: f64,
}

/// Walk lengths; the weights are [`Feature::theta`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hops {
    /// T: walks of 0..T-1 steps.
    pub count: usize,
    /// What not to conclude from the weights, in plain words.
    pub warning: Option<String>,
    /// gamma_T of the graph: how well walk lengths can be told apart.
    pub gamma: Option<f64>,
}

/// One explained node or graph. For every output: intercept + all parts + residual = logit, whichever way it is split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Local {
    /// The node or graph, as users number it.
    pub id: usize,
    /// As the dataset calls it; `None` where it has no name.
    pub name: Option<String>,
    /// Whether a node or a graph is explained; a graph has no distances.
    pub level: Option<Level>,
    /// Why it is shown: "the surest mistake".
    pub reason: Option<String>,
    /// Name of its true class.
    pub truth: Option<String>,
    /// Name of the predicted class.
    pub predicted: String,
    /// Probability of each class of [`Summary::classes`], both of a binary task.
    pub probabilities: Vec<f64>,
    /// One per output.
    pub outputs: Vec<LocalOutput>,
    /// Split over features.
    pub by_feature: ByFeature,
    /// Split over source nodes.
    pub by_node: ByNode,
    /// Split over walk lengths, all of them.
    pub by_hop: Vec<HopPart>,
    /// Edges among the nodes of [`Local::by_node`], as pairs of positions there.
    pub edges: Vec<[usize; 2]>,
    /// Sentences shown below the picture.
    pub notes: Vec<String>,
}

/// A logit and what is left of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LocalOutput {
    /// What the model computed.
    pub logit: f64,
    /// What is there before any feature speaks.
    pub intercept: f64,
    /// Logit minus intercept and parts: rounding.
    pub residual: f64,
}

/// A logit split over features, the largest parts one by one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ByFeature {
    /// The parts shown, the largest first.
    pub parts: Vec<FeaturePart>,
    /// Sum of all other parts, per output. Empty for none.
    pub rest: Vec<f64>,
    /// How many parts that are.
    pub rest_count: usize,
}

/// What one feature adds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FeaturePart {
    /// k, its first column of X.
    pub index: usize,
    /// Its name; may be empty.
    pub name: String,
    /// Its value at the explained node itself, where it is a number.
    pub value: Option<f64>,
    /// The value where it is none: a category, a date, a gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What it adds to each output.
    pub values: Vec<f64>,
}

/// A logit split over source nodes, the largest parts one by one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ByNode {
    /// The parts shown. Of an explained node, it is the first one; some forty at most can be told apart in the picture.
    pub parts: Vec<NodePart>,
    /// Sum of all other parts, per output. Empty for none.
    pub rest: Vec<f64>,
    /// How many parts that are.
    pub rest_count: usize,
}

/// What one source node adds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodePart {
    /// The node, as users number it.
    pub id: usize,
    /// As the dataset calls it; `None` where nodes have no names.
    pub name: Option<String>,
    /// Steps to it from the explained node. `None` in an explained graph.
    pub distance: Option<usize>,
    /// What it adds to each output.
    pub values: Vec<f64>,
}

/// What walks of one length add.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HopPart {
    /// Steps.
    pub t: usize,
    /// What they add to each output.
    pub values: Vec<f64>,
}

/// What the graph permits to conclude.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diagnostics {
    /// Findings, each with its reading.
    pub findings: Vec<Finding>,
    /// D_t: what one step more can still change after t steps. Empty: no picture of it.
    pub decay: Vec<Decay>,
    /// Changes below this count as none.
    pub epsilon: Option<f64>,
    /// H_epsilon: first t from which on D_t <= epsilon.
    pub horizon: Option<usize>,
    /// The theorem's bound on it.
    pub bound: Option<usize>,
    /// T that reaches the horizon.
    pub recommended: Option<usize>,
    /// Largest eigenvalue of the walk other than 1: the smoothest signal that is not constant.
    pub lambda_2: Option<f64>,
    /// Smallest eigenvalue of the walk: the roughest signal.
    pub lambda_min: Option<f64>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What was measured.
    pub title: String,
    /// What came out, with its unit or error.
    pub value: String,
    /// What that means, in plain words.
    pub reading: String,
    /// Whether to be careful.
    pub level: FindingLevel,
}

/// Whether a finding asks for care.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingLevel {
    /// As one would wish.
    #[default]
    Ok,
    /// Be careful.
    Warn,
}

/// D_t, or what it lies between.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decay {
    /// Steps.
    pub t: usize,
    /// At least.
    pub lower: f64,
    /// At most; the same where D_t is known.
    pub upper: f64,
}

/// The same model trained from other seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stability {
    /// One per run, the one shown first.
    pub seeds: Vec<u64>,
    /// Mean over pairs of seeds of the rank correlation of importance, over all features.
    pub spearman: Option<f64>,
    /// Overall importance, seeds x the features of [`Data::features`].
    pub importance: Vec<Vec<f64>>,
}
