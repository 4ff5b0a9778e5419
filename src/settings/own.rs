//! The preset `own`: settings for data that no other preset knows, chosen by what the data are.
//!
//! `presets/own.toml` has what all such data share. What depends on sizes and kinds is laid over it here, below whatever the user
//! sets. Only sizes and forms are asked, never a label or a score.

use crate::config::Config;
use harmonia_graph::dataset::{Dataset, Level, SplitRule, Values};
use harmonia_graph::error::Result;
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

/// What was chosen for a dataset, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Settings, as TOML.
    pub toml: String,
    /// For people: what was chosen and why, in a few words each.
    pub reasons: Vec<String>,
}

/// The settings for a dataset; of `config`, the split alone is asked.
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
    Ok(by_sizes(dataset, units))
}

/// Settings by kinds and sizes; `units` train.
fn by_sizes(dataset: &Dataset, units: usize) -> Choice {
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
        (Level::Node, false) => {
            reasons.push("hop weights are free, because neighbours may speak against a class".into());
        }
    }
    if dataset.level == Level::Node && units >= MANY {
        set(&mut train, &[("batch_size", &units.div_ceil(STEPS)), ("epochs", &60), ("patience", &15)]);
        reasons.push(format!("{units} units train: {STEPS} steps an epoch, 60 epochs"));
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
        layers.toml(&by_sizes(dataset, units).toml, "chosen").unwrap();
        layers.finish().unwrap()
    }

    #[test]
    fn a_small_table_is_trained_at_once_and_a_large_one_in_steps() {
        let dataset = nodes(Features::new(4, 2, vec![0.5; 8]).unwrap());
        let small = config(&dataset, 1500);
        assert_eq!((small.train.batch_size, small.train.readout_rate), (0, 1.0));
        assert_eq!(small.train.schedule, Schedule::Cosine);
        assert!(small.train.calibrate && small.data.structure.is_empty());
        let large = config(&dataset, 1_000_000);
        assert_eq!(large.train.batch_size, 62_500);
        // As many steps as of a small one, or nearly.
        assert!(large.train.epochs * STEPS >= 900 && large.train.epochs < small.train.epochs);
        assert_eq!(choose(&dataset, &small).unwrap(), by_sizes(&dataset, 2));
    }

    #[test]
    fn many_features_slow_the_readout_down_and_words_have_settings_of_their_own() {
        let wide = config(&nodes(Features::new(4, 640, vec![0.5; 2560]).unwrap()), 100);
        assert_eq!(wide.train.readout_rate, 0.1);
        let mut words = vec![0.0; 4 * 640];
        words[7] = 1.0;
        let words = config(&nodes(Features::new(4, 640, words).unwrap().compact()), 100);
        assert_eq!((words.train.readout_rate, words.train.dropout), (1.0, 0.5));
        assert!(words.walk.self_loops);
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
