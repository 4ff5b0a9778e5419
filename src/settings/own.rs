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
            rest += "[data]\nstructure = [\"log-degree\"]\n";
            reasons.push("hop weights free: neighbours may speak against a class; log-degree is a column too".into());
        }
    }
    if dataset.level == Level::Node && units >= MANY {
        set(&mut train, &[("batch_size", &units.div_ceil(STEPS)), ("epochs", &60), ("patience", &15)]);
        reasons.push(format!("{units} units train: {STEPS} steps an epoch, 60 epochs"));
    }
    if dataset.level == Level::Node && !sparse && features > WIDE {
        let rate = format!("{:.2e}", WIDE as f64 / features as f64);
        set(&mut train, &[("readout_rate", &rate)]);
        reasons.push(format!("{features} features: the readout learns {rate} times as fast, so that logits do not jump"));
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
