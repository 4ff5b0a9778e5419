//! The additive family: every kind of model against a dense oracle of its formula, gradients against central differences, counts
//! against published formulas, explanations against logits, and files that keep all of it.
//!
//! The formulas are in [`oracle`] and held in [`formulas`], forms that leave no trace in a saved model in [`variants`]; what is done
//! with a trained model is in [`models`].

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "family/formulas.rs"]
mod formulas;
#[path = "family/models.rs"]
mod models;
#[path = "family/oracle.rs"]
mod oracle;
#[path = "family/variants.rs"]
mod variants;

use harmonia::architecture::Kind;
use harmonia::config::{Config, Monb};
use harmonia::dataset::{Dataset, Features, Labels, Level};
use harmonia::device::Machine;
use harmonia::graph::{Direction, Graph, Split};
use harmonia::model::{FittedModel, initial_parameters};
use harmonia::plan::{Plan, Space};
use harmonia::seed::{Purpose, Stream};
use harmonia::train::{Prepared, RunName, structured};
use harmonia::{Stop, fit};

const KINDS: [Kind; 6] = [Kind::Nbm, Kind::Nam, Kind::GpNam, Kind::Gnan, Kind::GNamrff, Kind::DnnRrwp];
/// Logits are f32, of a few dozen terms.
const F32_TOLERANCE: f64 = 2e-5;

/// Random graphs: the first has an isolated node, the last is one node.
fn dataset(seed: u32, level: Level, classes: usize, direction: Direction) -> Dataset {
    let stream = Stream::new(11, Purpose::Initialisation, seed);
    let graph_ptr = vec![0, 9, 14, 15];
    let mut edges = Vec::new();
    for pair in graph_ptr.windows(2) {
        let size = pair[1] - pair[0];
        for at in 0..size + 2 {
            let pick = |salt: usize| {
                let draw = stream.uniform((1000 + 2 * (pair[0] * 40 + at) + salt) as u64);
                // Never the first node of a graph: it is alone.
                1 + ((draw * (size as f64 - 1.0)) as usize).min(size.saturating_sub(2))
            };
            if size > 2 {
                edges.push(((pair[0] + pick(0)) as u32, (pair[0] + pick(1)) as u32));
            }
        }
    }
    let graph = Graph::from_edges(15, &edges, None, direction).unwrap();
    // Continuous, few values, mostly zero.
    let value = |i: usize, k: usize| {
        let x = stream.normal((i * 3 + k) as u64);
        [x, x.round(), if x > 0.3 { 1.0 } else { 0.0 }][k] as f32
    };
    let x = (0..15).flat_map(|i| (0..3).map(move |k| (i, k))).map(|(i, k)| value(i, k)).collect();
    let units = if level == Level::Node { 15 } else { 3 };
    let ids = (0..units).map(|unit| (unit % classes) as u32).collect();
    let labels = Labels::Classes { ids, classes };
    let split = match level {
        Level::Node => Split { train: (0..9).collect(), valid: vec![9, 10, 14], test: vec![11, 12, 13] },
        Level::Graph => Split { train: vec![0, 1], valid: vec![2], test: vec![] },
    };
    Dataset::new("f", graph, graph_ptr, Features::new(15, 3, x).unwrap(), labels, level, split).unwrap()
}

fn config(kind: Kind) -> Config {
    let mut config = Config::default();
    config.model.kind = kind;
    config.model.hidden = vec![5, 4];
    config.model.bases = 6;
    config.model.bandwidth = 0.8;
    (config.model.experts, config.model.active, config.model.embedding) = (3, 2, 3);
    (config.model.hops, config.model.pair_hidden) = (4, 5);
    config.init.response_slope = 0.0;
    config.init.readout_scale = 1.0;
    config.train.epochs = 6;
    config.train.learning_rate = 0.02;
    config
}

/// A layout on data that have a column per class where the kind wants them, and parameters of a fair size.
fn prepared(kind: Kind, data: &Dataset) -> (Prepared, Vec<f64>) {
    let config = config(kind);
    let data = structured(data.clone(), &config).unwrap();
    let run = Prepared::of(data, None, &config, RunName { seed: 3, fold: None }).unwrap();
    let stream = Stream::new(5, Purpose::Initialisation, 77);
    let start = initial_parameters::<f64>(&run.layout, config.init, 3);
    let parameters = start.iter().enumerate().map(|(at, p)| p + 0.3 * stream.normal(at as u64)).collect();
    (run, parameters)
}

fn plans(kind: Kind) -> Vec<Plan> {
    let all = [Monb::Direct, Monb::Knots].into_iter().flat_map(|monb| {
        [(Space::Features, false), (Space::Classes, false), (Space::Classes, true)].map(|(space, sparse)| Plan {
            monb,
            space,
            sparse,
        })
    });
    let waves = matches!(kind, Kind::GpNam | Kind::GNamrff);
    let by_feature = matches!(kind, Kind::Nbm | Kind::Nam);
    all.filter(|plan| (!waves || plan.monb == Monb::Direct) && (by_feature || plan.space == Space::Classes)).collect()
}

/// Directed or not, nodes or graphs, two classes or three.
fn problems(kind: Kind) -> Vec<Dataset> {
    let mut all = Vec::new();
    for (at, (level, classes, direction)) in [
        (Level::Node, 2, Direction::Undirected),
        (Level::Node, 3, Direction::Directed),
        (Level::Graph, 2, Direction::Directed),
        (Level::Graph, 3, Direction::Undirected),
    ]
    .into_iter()
    .enumerate()
    {
        all.push(dataset(10 * kind as u32 + at as u32, level, classes, direction));
    }
    all
}

fn machine() -> Machine {
    Machine::open("cpu", Default::default()).unwrap()
}

fn trained(kind: Kind, data: &Dataset) -> FittedModel {
    fit(data, &config(kind), &machine(), &Stop::new()).unwrap()
}
