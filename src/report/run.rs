//! The page that training writes: what can be read off a finished run without another pass over the graph.
//!
//! Responses, walk weights and routing are functions of the parameters alone; the data only says where responses are used.
//! Curves are given in the units of the data, before any scaling of columns.

use super::data::{Curve, Data, Epoch, Experts, Feature, Histogram, Hops, Kind, Output, PartScores, Summary};
use crate::config::Config;
use crate::explain::{self, Distribution, Factors, Units, experts, ranking};
use crate::loss::{Objective, ScoreKind, Scores};
use crate::runs::RunSummary;
use crate::settings::to_toml;
use crate::train::EpochRecord;
use harmonia_graph::dataset::{Dataset, Scaling};
use harmonia_graph::error::Result;

/// Features a page shows: more would make it heavy, and nobody reads them.
pub(super) const MOST_FEATURES: usize = 200;

/// A finished run.
pub struct Trained<'a> {
    /// What it was trained on, scaled as the model sees it.
    pub dataset: &'a Dataset,
    /// Shown in full at the end of the page.
    pub config: &'a Config,
    /// The loss it was trained with.
    pub objective: Objective,
    /// Scores and how training went.
    pub summary: &'a RunSummary,
    /// Epochs in order.
    pub history: &'a [EpochRecord],
    /// How the features were scaled.
    pub scaling: Option<&'a Scaling>,
    /// What the best epoch's model multiplies.
    pub factors: &'a Factors,
    /// Mean response of each feature.
    pub centres: &'a [f64],
}

/// What the page of a run shows at the end of training.
///
/// # Errors
/// The configuration cannot be written as TOML.
pub fn of_run(run: &Trained<'_>) -> Result<Data> {
    let d = run.factors.features();
    let everything: Vec<usize> = (0..d).collect();
    let distributions = Distribution::of(&run.dataset.features, &everything);
    let reach: Vec<f64> = (0..d).map(|k| run.reach(k, &distributions[k])).collect();
    let shown: Vec<usize> = ranking(&reach).into_iter().take(MOST_FEATURES).collect();
    let experts = run.factors.monb().map(|monb| {
        let (a, used_by) = (&monb.layout.architecture, experts::used_by(run.factors));
        let unused = (0..a.experts).filter(|&expert| used_by[expert] == 0).collect();
        Experts { count: a.experts, active: a.active, used_by, unused, near_duplicates: Vec::new() }
    });
    let classes = class_names(run.dataset);
    Ok(Data {
        summary: summary(run, classes.clone())?,
        history: run.history.iter().map(|record| epoch(run.objective, record)).collect(),
        outputs: outputs(run.dataset, &classes),
        features: shown.iter().map(|&k| run.feature(k, &distributions[k])).collect(),
        features_total: d,
        features_order: "how far their curves reach over the data".into(),
        experts,
        hops: Some(Hops { count: run.factors.hops(), warning: None, gamma: None }),
        ..Data::default()
    })
}

impl Trained<'_> {
    fn shape(&self, k: usize, distribution: &Distribution) -> explain::Shape {
        explain::Shape::over(self.factors, k, distribution.range).in_units(Units::of(self.scaling, k))
    }

    /// How much a curve rises or falls over the data, times the size of its readout weights.
    fn reach(&self, k: usize, distribution: &Distribution) -> f64 {
        let units = Units::of(self.scaling, k);
        let [low, high] = distribution.range.map(|x| units.own(x));
        let shape = self.shape(k, distribution);
        let inside = shape.knots.iter().filter(|knot| knot[0] > low && knot[0] < high).map(|knot| knot[1]);
        let values = inside.chain([shape.value(low), shape.value(high)]);
        let [least, most] = values.fold([f64::INFINITY, f64::NEG_INFINITY], |[a, b], f| [a.min(f), b.max(f)]);
        let outputs = self.factors.outputs();
        let weight: f64 = self.factors.weight[k * outputs..][..outputs].iter().map(|w| w.abs()).sum();
        (most - least) * weight
    }

    pub(super) fn feature(&self, k: usize, distribution: &Distribution) -> Feature {
        let (factors, outputs) = (self.factors, self.factors.outputs());
        Feature {
            index: k,
            name: self.dataset.feature_names.get(k).cloned().unwrap_or_default(),
            weight: factors.weight[k * outputs..][..outputs].to_vec(),
            theta: (0..factors.hops()).map(|t| factors.theta(t, k)).collect(),
            shape: self.curve(k, distribution),
            gates: experts::gates(factors, k),
            ..Feature::default()
        }
    }

    /// The response where the page draws it: knots farther from the data than it is wide are left out. `None` for values
    /// beyond what a page can show.
    fn curve(&self, k: usize, distribution: &Distribution) -> Option<Curve> {
        let units = Units::of(self.scaling, k);
        let [low, high] = distribution.range.map(|x| units.own(x));
        let room = if high > low { high - low } else { low.abs().max(1.0) };
        let shape = self.shape(k, distribution);
        let first = shape.knots.partition_point(|knot| knot[0] < low - room);
        let end = shape.knots.partition_point(|knot| knot[0] <= high + room);
        let knots = shape.knots[first..end].to_vec();
        let curve = Curve {
            left_slope: shape.slope_before(first),
            right_slope: shape.slope_before(end),
            knots: if knots.is_empty() { vec![[low, shape.value(low)]] } else { knots },
            range: [low, high],
            density: (high > low).then(|| Histogram {
                edges: distribution.edges().into_iter().map(|x| units.own(x)).collect(),
                counts: distribution.counts.clone(),
            }),
            centre: self.centres[k],
            bands: None,
            sampled: !shape.exact,
        };
        let numbers = curve.knots.as_flattened().iter().chain(&curve.range);
        let finite =
            numbers.chain([&curve.left_slope, &curve.right_slope, &curve.centre]).all(|value| value.is_finite());
        finite.then_some(curve)
    }
}

fn summary(run: &Trained<'_>, classes: Vec<String>) -> Result<Summary> {
    let (dataset, summary) = (run.dataset, run.summary);
    let part = |name: &str, units: &[u32], scores: &Scores| PartScores {
        part: name.into(),
        units: Some(units.len()),
        scores: scores.clone(),
    };
    let mut notes = Vec::new();
    if matches!(run.scaling, Some(Scaling::Rows)) {
        notes.push("Every node's features were divided by their sum; curves are over the divided values.".into());
    }
    if let Some(structure) = &dataset.structure {
        let (added, words) = (structure.added(), structure.words());
        notes.push(format!("The last {added} features say where a node stands in its graph ({words})."));
    }
    if let Some(calibration) = &summary.calibration {
        notes.push(format!(
            "Logits are calibrated ({}): negative log-likelihood of the validation units {:.4}, before {:.4}.",
            calibration.text(),
            calibration.validation_nll_after,
            calibration.validation_nll_before
        ));
    }
    let sentence = |text: &String| {
        let mut signs = text.chars();
        let first: String = signs.next().into_iter().flat_map(char::to_uppercase).collect();
        format!("{first}{}.", signs.as_str())
    };
    Ok(Summary {
        dataset: dataset.name.clone(),
        run: summary.name().to_string(),
        level: Some(dataset.level),
        nodes: dataset.graph.nodes(),
        directed_edges: dataset.graph.directed_edges(),
        graphs: dataset.graphs(),
        features: dataset.features.cols,
        classes,
        parameters: summary.parameters,
        epochs: summary.epochs,
        best_epoch: summary.best_epoch,
        stopped_early: summary.stopped_early,
        learned: summary.learned,
        seconds: summary.seconds,
        device: summary.device.clone(),
        regression: run.objective.is_regression(),
        kinds: kinds(run.objective),
        scores: vec![
            part("test", &dataset.split.test, &summary.test),
            part("validation", &dataset.split.valid, &summary.validation),
            part("train", &dataset.split.train, &summary.train),
        ],
        reliability: summary.reliability.clone(),
        warnings: summary.warnings.iter().map(sentence).collect(),
        settings: to_toml(run.config)?,
        notes,
        recovery: summary.recovery.as_ref().map(ToString::to_string),
        generator_nll: summary.generator_nll,
    })
}

fn kinds(objective: Objective) -> Vec<Kind> {
    let loss = objective.loss_score().name;
    let kind = |kind: &ScoreKind| Kind {
        name: kind.name.into(),
        title: kind.title.into(),
        percent: kind.percent,
        drawn: kind.drawn,
        loss: kind.name == loss,
    };
    objective.scores().iter().map(kind).collect()
}

fn epoch(objective: Objective, record: &EpochRecord) -> Epoch {
    let kept = |name: &str| {
        let kind = objective.score_kind(name);
        kind.name == name && (kind.drawn || name == objective.loss_score().name)
    };
    Epoch { epoch: record.epoch, train_loss: record.train_loss, scores: record.validation.only(kept) }
}

/// Names of classes, labels or targets, made up where the dataset has none.
fn class_names(dataset: &Dataset) -> Vec<String> {
    let names = 0..dataset.labels.names();
    names.map(|class| dataset.class_names.get(class).cloned().unwrap_or_else(|| class.to_string())).collect()
}

fn outputs(dataset: &Dataset, classes: &[String]) -> Vec<Output> {
    match (dataset.labels.is_classes(), classes) {
        (true, [negative, positive]) => {
            vec![Output { name: positive.clone(), negative: Some(negative.clone()) }]
        }
        _ => classes.iter().map(|name| Output { name: name.clone(), negative: None }).collect(),
    }
}
