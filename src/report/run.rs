//! The page of a model without a look at its graph: what can be read off a finished run and what was measured on its data.
//!
//! Responses, walk weights and routing are functions of the parameters alone; the data only say where responses are used and how much
//! features matter. Curves are given in the units of the data, before any scaling of columns.

use super::data::{
    Band, Bands, Curve, Data, Epoch, Experts, Feature, FeatureValue, Histogram, Hops, ImportanceAbout, Kind,
    NearDuplicate, Output, PartScores, Stability, Summary,
};
use crate::config::Config;
use crate::explain::stability::{self, Compared, mean_spearman};
use crate::explain::{Distribution, FeatureShape, experts, ranking};
use crate::loss::{Objective, ScoreKind, Scores};
use crate::runs::{Measured, ModelMetadata, RunSummary};
use crate::settings::to_toml;
use crate::train::EpochRecord;
use crate::train::baselines::Baseline;
use crate::train::monotone;
use harmonia_graph::dataset::{Level, Scaling};
use harmonia_graph::error::Result;
use std::ops::Range;

/// Features a page shows: more would make it heavy, and nobody reads them.
pub(super) const MOST_FEATURES: usize = 200;

/// A finished run.
pub struct Trained<'a> {
    /// Shown in full at the end of the page.
    pub config: &'a Config,
    /// Scores and how training went.
    pub summary: &'a RunSummary,
    /// Epochs in order.
    pub history: &'a [EpochRecord],
    /// The model shown, and the same settings with other seeds.
    pub members: &'a [Member<'a>],
}

/// One trained model.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    /// What the model file says about itself.
    pub metadata: &'a ModelMetadata,
    /// What it multiplies, how features were scaled, mean responses.
    pub model: Compared<'a>,
    /// What was measured on the data; none where nobody did.
    pub measured: Option<&'a Measured>,
}

/// What the page of a run shows without a look at its graph.
///
/// # Errors
/// The configuration cannot be written as TOML.
pub fn of_run(run: &Trained<'_>) -> Result<Data> {
    let shown_member = &run.members[0];
    let factors = shown_member.model.factors;
    let overall = run.overall();
    let order = match &overall {
        Some(overall) => ranking(&overall[0]),
        None => ranking(&(0..factors.groups().len()).map(|feature| run.shape(feature, 1).spread()).collect::<Vec<_>>()),
    };
    let shown: Vec<usize> = order.into_iter().take(MOST_FEATURES).collect();
    let mut classes = shown_member.metadata.class_names.clone();
    if classes.is_empty() {
        classes = (0..factors.outputs()).map(|class| class.to_string()).collect();
    }
    let level = shown_member.metadata.level;
    let importance = shown_member.measured.and_then(|measured| measured.importance.as_ref());
    let objective = shown_member.metadata.model.objective;
    let units = if level == Some(Level::Graph) { "graphs" } else { "nodes" };
    Ok(Data {
        summary: summary(run, classes.clone())?,
        history: run.history.iter().map(|record| epoch(objective, record)).collect(),
        outputs: outputs(objective, factors.outputs(), &classes),
        features: shown.iter().map(|&feature| run.feature(feature)).collect(),
        features_total: factors.groups().len(),
        features_order: match importance {
            Some(importance) => format!("mean absolute contribution on the {} {units}", importance.part),
            None => "how far their curves reach over the data".into(),
        },
        importance_about: importance.map(|importance| ImportanceAbout {
            split: importance.part.clone(),
            units: importance.measured.units,
            text: format!(
                "Importance is the mean size of what a feature adds to a {}, its response centred at its mean; no label is used.",
                if objective.is_regression() { "prediction" } else { "logit" }
            ),
        }),
        experts: run.experts(),
        hops: Some(Hops { count: factors.hops(), warning: None, gamma: None }),
        stability: overall.and_then(|overall| run.stability(&overall, &shown)),
        ..Data::default()
    })
}

impl Trained<'_> {
    fn shown(&self) -> &Member<'_> {
        &self.members[0]
    }

    /// Importance over all outputs, models x features; none where it was not measured of all.
    fn overall(&self) -> Option<Vec<Vec<f64>>> {
        let of = |member: &Member<'_>| {
            let importance = member.measured?.importance.as_ref()?;
            Some(importance.measured.of_features(member.model.factors))
        };
        self.members.iter().map(of).collect()
    }

    /// A feature, with its spread over the first so many models.
    fn shape(&self, feature: usize, models: usize) -> FeatureShape {
        let member = self.shown();
        let all: Vec<Compared<'_>> = self.members.iter().take(models).map(|member| member.model).collect();
        let known = member.measured.map(|measured| &measured.columns[..]);
        FeatureShape::of(&all, feature, member.metadata.column(feature), known)
    }

    fn feature(&self, feature: usize) -> Feature {
        let member = self.shown();
        let (factors, outputs) = (member.model.factors, 0..member.model.factors.outputs());
        let shape = self.shape(feature, self.members.len());
        let importance = member.measured.and_then(|measured| Some(&measured.importance.as_ref()?.measured));
        let columns = shape.columns.clone();
        let size = |k: usize| match importance {
            Some(importance) => outputs.clone().map(|output| importance.of(factors, k, output)).sum::<f64>(),
            None => 0.0,
        };
        let telling = columns.clone().fold(columns.start, |best, k| if size(k) > size(best) { k } else { best });
        let values = shape.values.iter().map(|value| FeatureValue {
            name: value.name.clone(),
            missing: value.missing,
            count: value.count,
            effects: value.effects.clone(),
            spread: value.spread.clone(),
        });
        Feature {
            index: columns.start,
            name: member.metadata.feature_name(feature, factors),
            weight: shape.weights.clone(),
            theta: (0..factors.hops()).map(|t| factors.theta(t, telling)).collect(),
            column: (columns.len() > 1).then(|| member.metadata.feature_names.get(telling).cloned()).flatten(),
            importance: importance
                .map(|measured| outputs.clone().map(|o| measured.of_feature(factors, feature, o)).collect()),
            signed: importance
                .map(|measured| outputs.clone().map(|o| measured.signed_of_feature(factors, feature, o)).collect()),
            overall: importance.map(|measured| {
                outputs.clone().map(|o| measured.of_feature(factors, feature, o)).sum::<f64>() / outputs.len() as f64
            }),
            values: values.collect(),
            monotone: self.monotone(columns),
            shape: if shape.is_by_value() { None } else { curve(&shape) },
            gates: experts::gates(factors, telling),
        }
    }

    /// Which way a feature of these columns was to go.
    fn monotone(&self, columns: Range<usize>) -> Option<String> {
        let names = self.shown().metadata.feature_names.get(columns)?;
        let wanted = self.config.model.monotone.iter().find(|wanted| names.contains(&wanted.feature))?;
        Some(if wanted.rising { "rising" } else { "falling" }.into())
    }

    fn experts(&self) -> Option<Experts> {
        let member = self.shown();
        let factors = member.model.factors;
        let (a, used_by) = (&factors.monb()?.layout.architecture, experts::used_by(factors));
        let similar = member.measured.map_or(Vec::new(), |measured| {
            experts::near_duplicates(factors, Distribution::joint_range(&measured.columns))
        });
        Some(Experts {
            count: a.experts,
            active: a.active,
            unused: (0..a.experts).filter(|&expert| used_by[expert] == 0).collect(),
            used_by,
            near_duplicates: (similar.into_iter())
                .map(|pair| NearDuplicate { a: pair.a, b: pair.b, similarity: pair.similarity })
                .collect(),
        })
    }

    /// How importance agrees between seeds. Folds differ by their data: that is another question.
    fn stability(&self, overall: &[Vec<f64>], shown: &[usize]) -> Option<Stability> {
        let seeds = self.members.len() > 1 && self.members.iter().all(|member| member.metadata.fold.is_none());
        seeds.then(|| Stability {
            seeds: self.members.iter().map(|member| member.metadata.seed).collect(),
            spearman: mean_spearman(overall),
            importance: overall.iter().map(|of_run| shown.iter().map(|&k| of_run[k]).collect()).collect(),
        })
    }
}

/// The response where the page draws it: knots farther from the data than it is wide are left out. `None` for values
/// beyond what a page can show.
fn curve(feature: &FeatureShape) -> Option<Curve> {
    let shape = feature.curve.as_ref()?;
    let [low, high] = feature.range();
    let room = if high > low { high - low } else { low.abs().max(1.0) };
    let first = shape.knots.partition_point(|knot| knot[0] < low - room);
    let end = shape.knots.partition_point(|knot| knot[0] <= high + room);
    let knots = shape.knots[first..end].to_vec();
    let known = feature.distribution.as_ref().filter(|_| high > low);
    let curve = Curve {
        left_slope: shape.slope_before(first),
        right_slope: shape.slope_before(end),
        knots: if knots.is_empty() { vec![[low, shape.value(low)]] } else { knots },
        range: [low, high],
        unit: feature.unit.map(String::from),
        density: known.map(|known| Histogram { edges: known.edges(), counts: known.counts.clone() }),
        centre: feature.centre,
        bands: feature.bands.as_ref().map(bands),
        sampled: !shape.exact,
        present: if feature.columns.len() > 1 { feature.present.clone() } else { Vec::new() },
    };
    let numbers = curve.knots.as_flattened().iter().chain(&curve.range).chain(&curve.present);
    let finite = numbers.chain([&curve.left_slope, &curve.right_slope, &curve.centre]).all(|value| value.is_finite());
    finite.then_some(curve)
}

fn bands((x, bands): &(Vec<f64>, Vec<stability::Band>)) -> Bands {
    let drawn = |values: &Vec<f64>| values.iter().map(|&value| drawn(value)).collect();
    let band =
        |band: &stability::Band| Band { mean: drawn(&band.mean), low: drawn(&band.low), high: drawn(&band.high) };
    Bands { x: x.clone(), outputs: bands.iter().map(band).collect() }
}

/// A number that is only drawn: six digits, so that pages stay light.
fn drawn(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

fn summary(run: &Trained<'_>, classes: Vec<String>) -> Result<Summary> {
    let (member, summary) = (run.shown(), run.summary);
    let metadata = member.metadata;
    let objective = metadata.model.objective;
    let units = |name: &str| {
        let parts = member.measured.iter().flat_map(|measured| measured.parts);
        parts.into_iter().find(|(part, _)| *part == name).map(|(_, units)| units)
    };
    let part =
        |name: &str, scores: &Scores| PartScores { part: name.into(), units: units(name), scores: scores.clone() };
    let baseline = |baseline: &Baseline| PartScores {
        part: baseline.name.clone(),
        units: units("test"),
        scores: baseline.test.clone(),
    };
    let sentence = |text: &str| {
        let mut signs = text.chars();
        let first: String = signs.next().into_iter().flat_map(char::to_uppercase).collect();
        format!("{first}{}.", signs.as_str())
    };
    let mut notes = Vec::new();
    if matches!(member.model.scaling, Some(Scaling::Rows)) {
        notes.push("Every node's features were divided by their sum; curves are over the divided values.".into());
    }
    if let Some(structure) = metadata.model.structure.as_ref().filter(|structure| structure.added() > 0) {
        let (added, words) = (structure.added() * structure.copies(), structure.words());
        notes.push(format!("The last {added} features say where a node stands in its graph ({words})."));
    }
    notes.extend(monotone::line(run.config).as_deref().map(sentence));
    if let Some(calibration) = &summary.calibration {
        notes.push(format!(
            "Logits are calibrated ({}): negative log-likelihood of the validation units {:.4}, before {:.4}.",
            calibration.text(),
            calibration.validation_nll_after,
            calibration.validation_nll_before
        ));
    }
    let sizes = member.measured.map_or([0; 3], |known| [known.nodes, known.directed_edges, known.graphs]);
    Ok(Summary {
        dataset: metadata.dataset.clone(),
        run: summary.name().to_string(),
        level: metadata.level,
        nodes: sizes[0],
        directed_edges: sizes[1],
        graphs: sizes[2],
        features: member.model.factors.groups().len(),
        classes,
        parameters: summary.parameters,
        epochs: summary.epochs,
        best_epoch: summary.best_epoch,
        stopped_early: summary.stopped_early,
        learned: summary.learned,
        seconds: summary.seconds,
        device: summary.device.clone(),
        regression: objective.is_regression(),
        kinds: kinds(objective),
        scores: vec![
            part("test", &summary.test),
            part("validation", &summary.validation),
            part("train", &summary.train),
        ],
        baselines: summary.baselines.iter().map(baseline).collect(),
        details: summary.details.clone(),
        reliability: summary.reliability.clone(),
        warnings: summary.warnings.iter().map(|warning| sentence(warning)).collect(),
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

fn outputs(objective: Objective, count: usize, classes: &[String]) -> Vec<Output> {
    match (objective.is_regression(), count, classes) {
        (false, 1, [negative, positive]) => {
            vec![Output { name: positive.clone(), negative: Some(negative.clone()) }]
        }
        _ => classes.iter().map(|name| Output { name: name.clone(), negative: None }).collect(),
    }
}
