//! The preset `own`: settings for data that no other preset knows, chosen by what the data are.
//!
//! `presets/own.toml` has what all such data share. What depends on sizes and kinds is laid over it here, below whatever the user
//! sets. Only sizes and forms are asked, never a label or a score.

use crate::architecture::Kind;
use crate::config::Config;
use harmonia_graph::dataset::{Dataset, Level, SplitRule, Values};
use harmonia_graph::error::Result;
use harmonia_graph::graph::Graph;
use std::fmt::{Display, Write};

/// Its name.
pub const NAME: &str = "own";
/// What does not depend on the data.
pub const COMMON: &str = include_str!("presets/own.toml");

/// Features up to which the readout may move at the full rate: with more, a step that moves every weight by the rate would move a
/// logit by more than it can bear.
const WIDE: usize = 64;
/// Training units from which a step sees a part of them: fewer steps over everything would not arrive, more would take hours.
const MANY: usize = 50_000;
/// Steps of an epoch then.
const STEPS: usize = 16;
/// Graphs of a step.
const GRAPHS: usize = 64;
/// What bent responses may cost: what columns that act along straight lines need is too much for those that do not, and nothing but
/// validation knows which they are.
const SMOOTHNESS: &str = "[0.0, 1e-3, 1e-2]";
/// Numbers that a hop reads up to which that is tried: a training takes seconds there, and all of them four times as long.
const QUICK: usize = 1 << 22;
/// Epochs up to which it does: those of own.toml. Whoever asks for more is not kept waiting for three such trainings first.
const BRIEF: usize = 1000;

/// Standard deviation of ln(1 + degree) from which on nodes have few neighbours or very many: where a node stands is then worth
/// features of its own, because walks divide by degrees and no prediction knows them. (Tolokers 1.5, a graph at random 0.3.)
const UNEVEN: f64 = 1.0;
/// Sum of squared degrees up to which returns and triangles are counted in half a minute of processor time.
const COUNTED: f64 = 1e10;

/// What was chosen for a dataset, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Settings, as TOML.
    pub toml: String,
    /// For people: what was chosen and why, in a few words each.
    pub reasons: Vec<String>,
}

/// The settings for a dataset; of `config`, the split, the kind of model and the length of a training are asked.
///
/// # Errors
/// The dataset is too small for the split.
pub fn choose(dataset: &Dataset, config: &Config) -> Result<Choice> {
    let units = match config.run.folds {
        0 => {
            let mut drawn = dataset.clone();
            SplitRule::parse(&config.data.split)?.apply(&mut drawn, config.run.seed)?;
            drawn.split.train.len()
        }
        folds => dataset.units() * folds.saturating_sub(2) / folds,
    };
    let asked = Asked {
        monotone: !config.model.monotone.is_empty(),
        harmonia: config.model.kind == Kind::Harmonia,
        brief: config.train.epochs <= BRIEF,
    };
    Ok(by_sizes(dataset, units, asked))
}

/// What of the settings the choice depends on.
#[derive(Clone, Copy)]
struct Asked {
    /// Effects are told which way to go.
    monotone: bool,
    /// The model is HARMONIA, not another of the family.
    harmonia: bool,
    /// A training has no more epochs than those that this preset asks for.
    brief: bool,
}

/// Settings by kinds and sizes; `units` train.
fn by_sizes(dataset: &Dataset, units: usize, Asked { monotone, harmonia, brief }: Asked) -> Choice {
    let features = dataset.features.cols;
    let sparse = matches!(dataset.features.values(), Values::Sparse(_));
    let (mut model, mut train, mut rest) = (String::new(), String::new(), String::new());
    let mut reasons = Vec::new();
    match (dataset.level, sparse) {
        (Level::Graph, _) => {
            set(&mut train, &[("batch_size", &GRAPHS), ("epochs", &120), ("patience", &0), ("readout_rate", &"0.0")]);
            // The middle of what searches on sets of graphs found.
            set(&mut train, &[("learning_rate", &"1e-2"), ("weight_decay", &"1e-3")]);
            reasons.push(format!("graphs: {GRAPHS} a step, 120 epochs, the readout learns by the size of graphs"));
        }
        (Level::Node, true) => {
            // What the searches on Cora and CiteSeer have in common.
            set(&mut model, &[("hop_weights", &"\"absolute\""), ("hops", &6)]);
            set(&mut train, &[("learning_rate", &"1e-3"), ("dropout", &"0.5"), ("hop_basis", &"\"plain\"")]);
            rest += "[walk]\nself_loops = true\n";
            reasons.push("X is sparse, as of words: a low rate, half of the entries dropped, walks may stay".into());
        }
        (Level::Node, false) if monotone => {}
        (Level::Node, false) => {
            reasons.push("hop weights are free, because neighbours may speak against a class".into());
            let (spread, squares) = degrees(&dataset.graph);
            if spread >= UNEVEN && dataset.truth.is_none() {
                let (words, names) = match squares <= COUNTED {
                    true => ("\"log-degree\", \"log-returns\", \"triangles\"", "degree, returns and triangles"),
                    false => ("\"log-degree\"", "degree"),
                };
                rest += &format!("[data]\nstructure = [{words}]\n");
                reasons.push(format!(
                    "degrees are uneven: {names} of a node are features too (data.structure = [] for none)"
                ));
            }
        }
    }
    // Words have such hop weights in any case.
    if monotone && !(dataset.level == Level::Node && sparse) {
        set(&mut model, &[("hop_weights", &"\"absolute\"")]);
        set(&mut train, &[("hop_basis", &"\"plain\"")]);
        reasons.push("hop weights are shares, because effects are to go one way at every distance".into());
    }
    if dataset.level == Level::Node && units >= MANY {
        set(&mut train, &[("batch_size", &units.div_ceil(STEPS)), ("epochs", &60), ("patience", &15)]);
        reasons.push(format!("{units} units train: {STEPS} steps an epoch, 60 epochs"));
    }
    let read = (dataset.graph.nodes() + dataset.graph.directed_edges()).saturating_mul(features);
    if dataset.level == Level::Node && features <= WIDE && read <= QUICK && harmonia && brief && has_numbers(dataset) {
        set(&mut train, &[("smoothness", &SMOOTHNESS)]);
        reasons.push("how smooth responses are to be, three trainings tell beforehand".into());
    }
    if dataset.level == Level::Node && !sparse && features > WIDE {
        let rate = format!("{:.2e}", WIDE as f64 / features as f64);
        set(&mut train, &[("readout_rate", &rate)]);
        reasons
            .push(format!("{features} features: the readout learns {rate} times as fast, so that logits do not jump"));
    }
    let mut toml = rest;
    for (section, keys) in [("model", model), ("train", train)] {
        if !keys.is_empty() {
            toml += &format!("[{section}]\n{keys}");
        }
    }
    Choice { toml, reasons }
}

/// Whether a column is more than 0 and 1: nothing else can bend.
fn has_numbers(dataset: &Dataset) -> bool {
    match dataset.features.values() {
        Values::Dense(values) => values.iter().any(|&value| value != 0.0 && value != 1.0),
        Values::Half(values) => values.iter().any(|value| value.to_f32() != 0.0 && value.to_f32() != 1.0),
        Values::Sparse(_) => false,
    }
}

/// Standard deviation of ln(1 + degree), and the sum of squared degrees.
fn degrees(graph: &Graph) -> (f64, f64) {
    let degrees = || graph.adjacency().row_ptr.windows(2).map(|pair| (pair[1] - pair[0]) as f64);
    let mean = |of: &dyn Fn(f64) -> f64| degrees().map(of).sum::<f64>() / graph.nodes().max(1) as f64;
    let centre = mean(&f64::ln_1p);
    (mean(&|degree| (degree.ln_1p() - centre).powi(2)).sqrt(), degrees().map(|degree| degree * degree).sum())
}

fn set(section: &mut String, keys: &[(&str, &dyn Display)]) {
    for (key, value) in keys {
        // Writing to a string cannot fail.
        let _ = writeln!(section, "{key} = {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Schedule;
    use crate::settings::Layers;
    use harmonia_graph::dataset::{Features, Labels};
    use harmonia_graph::graph::{Direction, Graph, Split};

    const PLAIN: Asked = Asked { monotone: false, harmonia: true, brief: true };

    fn nodes(features: Features) -> Dataset {
        let count = features.rows;
        let graph = Graph::from_edges(count, &[(0, 1)], None, Direction::Undirected).unwrap();
        let labels = Labels::Classes { ids: (0..count as u32).map(|unit| unit % 2).collect(), classes: 2 };
        let split = Split { train: vec![0, 1], valid: vec![2], test: vec![3] };
        Dataset::nodes("n", graph, features, labels, split).unwrap()
    }

    fn config(dataset: &Dataset, units: usize) -> Config {
        let mut layers = Layers::new().unwrap();
        layers.toml(COMMON, "own").unwrap();
        layers.toml(&by_sizes(dataset, units, PLAIN).toml, "chosen").unwrap();
        layers.finish().unwrap()
    }

    #[test]
    fn a_small_table_is_trained_at_once_and_a_large_one_in_steps() {
        let dataset = nodes(Features::new(4, 2, vec![0.5; 8]).unwrap());
        let small = config(&dataset, 1500);
        assert_eq!((small.train.batch_size, small.train.readout_rate), (0, 1.0));
        assert_eq!(small.train.schedule, Schedule::Cosine);
        assert!(small.train.calibrate && small.data.structure.is_empty());
        // A few trainings are tried where each takes seconds, of the model whose responses can be made smooth.
        assert_eq!(small.train.smoothness.choices(), [0.0, 1e-3, 1e-2]);
        for other in [Asked { harmonia: false, ..PLAIN }, Asked { brief: false, ..PLAIN }] {
            assert!(!by_sizes(&dataset, 1500, other).toml.contains("smoothness"));
        }
        let large = config(&dataset, 1_000_000);
        assert_eq!(large.train.batch_size, 62_500);
        let flags = nodes(Features::new(4, 2, vec![0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0]).unwrap());
        assert_eq!(config(&flags, 1500).train.smoothness.settled(), Some(0.0), "nothing can bend");
        // As many steps as of a small one, or nearly.
        assert!(large.train.epochs * STEPS >= 900 && large.train.epochs < small.train.epochs);
        assert_eq!(choose(&dataset, &small).unwrap(), by_sizes(&dataset, 2, PLAIN));
    }

    #[test]
    fn many_features_slow_the_readout_down_and_words_have_settings_of_their_own() {
        let wide = config(&nodes(Features::new(4, 640, vec![0.5; 2560]).unwrap()), 100);
        assert_eq!((wide.train.readout_rate, wide.train.smoothness.settled()), (0.1, Some(0.0)));
        let mut words = vec![0.0; 4 * 640];
        words[7] = 1.0;
        let words = config(&nodes(Features::new(4, 640, words).unwrap().compact()), 100);
        assert_eq!((words.train.readout_rate, words.train.dropout), (1.0, 0.5));
        assert!(words.walk.self_loops);
    }

    #[test]
    fn what_takes_seconds_tries_more_than_one_smoothness() {
        // Everybody knows everybody: 400 nodes and 159,600 directed edges.
        let edges: Vec<(u32, u32)> = (0..400).flat_map(|i| (i + 1..400).map(move |j| (i, j))).collect();
        let graph = Graph::from_edges(400, &edges, None, Direction::Undirected).unwrap();
        for (features, tried) in [(26, 3), (27, 1)] {
            let known = nodes(Features::new(400, features, vec![0.5; 400 * features]).unwrap());
            let dataset = Dataset { graph: graph.clone(), ..known };
            assert_eq!(config(&dataset, 200).train.smoothness.choices().len(), tried, "{features}");
        }
    }

    #[test]
    fn nodes_of_uneven_degree_have_features_of_their_place() {
        // Hubs that everybody knows, and nodes that know hubs alone.
        let star = |hubs: u32| {
            let edges: Vec<(u32, u32)> = (hubs..400).flat_map(|i| (0..hubs).map(move |hub| (i, hub))).collect();
            let graph = Graph::from_edges(400, &edges, None, Direction::Undirected).unwrap();
            let labels = Labels::Classes { ids: (0..400).map(|unit| unit % 2).collect(), classes: 2 };
            let split = Split { train: vec![0, 1], valid: vec![2], test: vec![3] };
            Dataset::nodes("n", graph, Features::new(400, 1, vec![0.5; 400]).unwrap(), labels, split).unwrap()
        };
        let uneven = star(40);
        let (spread, squares) = degrees(&uneven.graph);
        // By hand: 40 of 400 have 360 neighbours, the others 40.
        let apart = (361f64 / 41.0).ln() * (0.1f64 * 0.9).sqrt();
        assert!((spread - apart).abs() < 1e-12 && squares == 40.0 * 360.0 * 360.0 + 360.0 * 40.0 * 40.0);
        assert!(config(&uneven, 200).data.structure.is_empty(), "a spread of {spread}");
        let uneven = star(1);
        assert!(config(&uneven, 200).data.structure.is_empty());
        let edges: Vec<(u32, u32)> = (1..100).flat_map(|i| (i + 1..100).map(move |j| (i, j))).collect();
        let graph = Graph::from_edges(400, &edges, None, Direction::Undirected).unwrap();
        let uneven = Dataset { graph, ..star(1) };
        assert!(degrees(&uneven.graph).0 > UNEVEN);
        assert_eq!(config(&uneven, 200).data.structure.len(), 3);
        assert!(by_sizes(&uneven, 200, PLAIN).reasons.iter().any(|why| why.contains("degrees are uneven")));
    }

    #[test]
    fn graphs_come_in_batches() {
        let features = Features::new(4, 2, vec![0.5; 8]).unwrap();
        let graph = Graph::from_edges(4, &[(0, 1)], None, Direction::Undirected).unwrap();
        let labels = Labels::Classes { ids: vec![0, 1], classes: 2 };
        let dataset =
            Dataset::new("g", graph, vec![0, 2, 4], features, labels, Level::Graph, Split::default()).unwrap();
        let config = config(&dataset, 200_000);
        assert_eq!((config.train.batch_size, config.train.readout_rate, config.train.epochs), (GRAPHS, 0.0, 120));
    }
}
