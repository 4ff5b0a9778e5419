//! How the time of an epoch grows with the graph, its edges alone, walk lengths, features and the width of experts, one
//! at a time.

use super::case::{self, EPOCH_SETTINGS};
use super::child::{self, Answer};
use super::epochs::{self, Measured};
use super::fit::Power;
use super::job::Job;
use super::stores::Stores;
use crate::cli::voice;
use harmonia_data::generate::GraphShape;
use harmonia_graph::error::Result;
use serde_json::{Value, json};

/// Settings the series start from: T = 4, C = 4, m = 2, B = 8, hidden [16, 8].
pub const PRESET: &str = "ogbn-products";
/// The way all points are computed: a choice by cost would change it along the way, and bend the line.
const SPACE: &str = "engine.propagate=classes";
/// Few features and many edges per node, so that walks are most of an epoch once edges are multiplied.
const BASE: GraphShape = GraphShape {
    nodes: 100_000,
    edge_rows: 2_000_000,
    features: 32,
    classes: 16,
    directed: false,
    train: 50_000,
    valid: 25_000,
    test: 25_000,
    split_by_id: false,
};
/// The same for tests.
const TINY: GraphShape =
    GraphShape { nodes: 500, edge_rows: 2000, features: 8, classes: 4, train: 250, valid: 100, test: 150, ..BASE };
/// What the base is multiplied by.
const FACTORS: [usize; 4] = [1, 2, 4, 8];
const HIDDEN: [[usize; 2]; 4] = [[16, 8], [32, 16], [64, 32], [128, 64]];

/// Times against one quantity.
pub struct Series {
    /// The quantity, as an axis names it.
    pub against: &'static str,
    /// Key of the JSON object.
    key: &'static str,
    pub points: Vec<Point>,
}

/// The time of an epoch at one size.
pub struct Point {
    pub x: f64,
    /// x as people write it.
    pub label: String,
    pub seconds: f64,
    /// Seconds of the ops that walk along edges.
    pub walk_seconds: f64,
    /// The whole measurement, for the JSON object.
    measured: Measured,
}

impl Series {
    /// Fit of the time of an epoch.
    pub fn epoch(&self) -> Option<Power> {
        Power::fit(&self.points.iter().map(|point| (point.x, point.seconds)).collect::<Vec<_>>())
    }

    /// Fit of the part that walks along edges.
    pub fn walk(&self) -> Option<Power> {
        Power::fit(&self.points.iter().map(|point| (point.x, point.walk_seconds)).collect::<Vec<_>>())
    }

    pub fn json(&self) -> Value {
        let points = self.points.iter().map(|point| {
            json!({
                "x": point.x, "label": point.label, "seconds": point.seconds, "walk_seconds": point.walk_seconds,
                "measured": point.measured,
            })
        });
        json!({
            "against": self.key,
            "points": points.collect::<Vec<_>>(),
            "exponent": self.epoch().map(|power| power.exponent),
            "walk_exponent": self.walk().map(|power| power.exponent),
        })
    }
}

/// What differs from the base in one point.
struct Variation {
    shape: GraphShape,
    setting: String,
    label: String,
    /// Of a measurement, where it stands on the axis.
    x: fn(&Measured, f64) -> f64,
    nominal: f64,
}

/// Measures all series.
///
/// # Errors
/// Bad settings, or the user asked to stop. A point that cannot be measured is an answer.
pub fn measure(tiny: bool, user: &[String], run: &super::BenchRun, stores: &Stores) -> Result<Answer<Vec<Series>>> {
    let base = if tiny { TINY } else { BASE };
    let mut all = Vec::new();
    for (against, key, variations) in variations(base) {
        let mut points = Vec::new();
        for Variation { shape, setting, label, x, nominal } in variations {
            let settings: Vec<String> = [SPACE.to_string()].into_iter().chain(user.to_vec()).chain([setting]).collect();
            voice::line(format_args!("scaling: {against} {label}"));
            let store = match stores.made(shape)? {
                Ok(store) => store,
                Err(error) => return Ok(Err(error)),
            };
            let mut config = case::config(PRESET, &EPOCH_SETTINGS, &settings)?;
            config.data.dataset = store.display().to_string();
            config.run.threads = run.threads;
            let (epochs, warmup) = (run.epochs, run.warmup);
            let job = Job::Epochs(epochs::EpochsJob { config, epochs, warmup, copy: false, parameters: None });
            match child::job::<Measured>(&job)? {
                Ok(measured) => points.push(Point {
                    x: x(&measured, nominal),
                    label,
                    seconds: measured.seconds,
                    walk_seconds: measured.walk_seconds(),
                    measured,
                }),
                Err(error) => return Ok(Err(format!("{against} {label}: {error}"))),
            }
        }
        all.push(Series { against, key, points });
    }
    Ok(Ok(all))
}

fn variations(base: GraphShape) -> Vec<(&'static str, &'static str, Vec<Variation>)> {
    let hops = |t: usize| format!("model.hops={t}");
    let of = |shape: GraphShape, setting: String, label: String, nominal: usize| Variation {
        shape,
        setting,
        label,
        x: |_, nominal| nominal,
        nominal: nominal as f64,
    };
    // Edges drawn twice are merged: what counts is how many there are.
    let counted = |shape: GraphShape, factor: usize| Variation {
        x: |measured, _| measured.entries as f64,
        ..of(shape, hops(4), format!("x{factor}"), factor)
    };
    let graphs = FACTORS.map(|factor| {
        // From twice the base on, states are larger than the caches: below, growth would be that of leaving them.
        let times = 2 * factor;
        let [nodes, train, valid, test] = [base.nodes, base.train, base.valid, base.test].map(|count| times * count);
        counted(GraphShape { nodes, train, valid, test, edge_rows: times * base.edge_rows, ..base }, factor)
    });
    let edges = FACTORS.map(|factor| counted(GraphShape { edge_rows: factor * base.edge_rows, ..base }, factor));
    let walks = FACTORS.map(|factor| of(base, hops(2 * factor), (2 * factor).to_string(), 2 * factor));
    let features = FACTORS.map(|factor| {
        let features = factor * base.features / 2;
        of(GraphShape { features, ..base }, hops(4), features.to_string(), features)
    });
    let hidden = HIDDEN.map(|[first, second]| {
        let widths = format!("[{first}, {second}]");
        of(base, format!("model.hidden={widths}"), widths, first)
    });
    vec![
        ("directed edges, nodes in proportion", "graph", graphs.into()),
        ("directed edges, nodes fixed", "edges", edges.into()),
        ("walk lengths T", "hops", walks.into()),
        ("features d", "features", features.into()),
        ("first hidden width of an expert", "hidden", hidden.into()),
    ]
}
