//! What can be measured: names, data and settings.
//!
//! Invariant: a case has the same data and the same settings on every machine, whatever is in the user's own files.

use crate::config::Config;
use crate::settings::Layers;
use crate::settings::presets::{self, Recipe};
use harmonia_data::generate::{self, GraphShape};
use harmonia_graph::error::{Error, Result, suggestion};

/// Epochs on one graph.
pub struct EpochCase {
    /// What `--case` takes.
    pub name: &'static str,
    /// Name of the preset whose settings it has.
    pub preset: &'static str,
    pub source: Source,
    /// PyTorch variants that are compared with.
    pub peers: &'static [&'static str],
    /// Those that take minutes.
    pub slow_peers: &'static [&'static str],
}

/// Where the data come from.
#[derive(Clone, Copy)]
pub enum Source {
    /// A dataset of the catalogue.
    Known(&'static str),
    /// Made: the shape of a known dataset, times a factor, every edge both ways.
    Like(&'static str, f64),
    /// Generated with these sizes.
    Made(GraphShape),
}

/// A graph that takes no time.
const TINY: GraphShape = GraphShape {
    nodes: 2000,
    edge_rows: 8000,
    features: 12,
    classes: 5,
    directed: false,
    train: 400,
    valid: 400,
    test: 1200,
    split_by_id: false,
};

const EPOCHS: [EpochCase; 5] = [
    EpochCase {
        name: "cora",
        preset: "cora",
        source: Source::Known("cora"),
        peers: &["plain", "routed", "table", "table-classes"],
        slow_peers: &[],
    },
    EpochCase {
        name: "arxiv",
        preset: "ogbn-arxiv",
        source: Source::Like("ogbn-arxiv", 1.0),
        peers: &["routed", "classes"],
        slow_peers: &["plain-checkpoint"],
    },
    EpochCase {
        name: "tenth",
        preset: "ogbn-products",
        source: Source::Like("ogbn-products", 0.1),
        peers: &["routed", "classes"],
        slow_peers: &["plain-checkpoint"],
    },
    EpochCase {
        name: "products",
        preset: "ogbn-products",
        source: Source::Like("ogbn-products", 1.0),
        peers: &[],
        slow_peers: &[],
    },
    EpochCase {
        name: "tiny",
        preset: "ogbn-products",
        source: Source::Made(TINY),
        peers: &["routed"],
        slow_peers: &["classes"],
    },
];

/// Graph tasks that are cross-validated.
const GRAPHS: [&str; 5] = ["mutag", "proteins", "dd", "aids", "mutagenicity"];
/// The case that takes all of them.
const ALL_GRAPHS: &str = "graphs";
const SCALING: &str = "scaling";
const ACCURACY: &str = "time-to-accuracy";
/// Cases that tests use and help does not show.
const HIDDEN: [&str; 3] = ["tiny", "tiny-scaling", "tiny-to-accuracy"];

/// One thing to measure.
#[derive(Clone, Copy)]
pub enum BenchCase {
    Epochs(&'static EpochCase),
    /// A graph task by name.
    Graphs(&'static str),
    /// How long training takes to be good; tests take a graph that is small.
    Accuracy {
        tiny: bool,
    },
    /// How time grows; tests take a graph that is small.
    Scaling {
        tiny: bool,
    },
}

/// The cases a user named, in the order they were named.
pub fn select(names: &[String]) -> Result<Vec<BenchCase>> {
    let mut cases = Vec::new();
    for name in names {
        let lower = name.trim().to_lowercase();
        if let Some(case) = EPOCHS.iter().find(|case| case.name == lower) {
            cases.push(BenchCase::Epochs(case));
        } else if let Some(graphs) = GRAPHS.iter().find(|graphs| **graphs == lower) {
            cases.push(BenchCase::Graphs(graphs));
        } else if lower == ALL_GRAPHS {
            cases.extend(GRAPHS.iter().map(|graphs| BenchCase::Graphs(graphs)));
        } else if lower == SCALING || lower == HIDDEN[1] {
            cases.push(BenchCase::Scaling { tiny: lower == HIDDEN[1] });
        } else if lower == ACCURACY || lower == HIDDEN[2] {
            cases.push(BenchCase::Accuracy { tiny: lower == HIDDEN[2] });
        } else {
            return Err(unknown(name));
        }
    }
    Ok(cases)
}

fn unknown(name: &str) -> Error {
    let known: Vec<&str> = (EPOCHS.iter().map(|case| case.name))
        .chain([ALL_GRAPHS, SCALING, ACCURACY])
        .chain(GRAPHS)
        .filter(|name| !HIDDEN.contains(name))
        .collect();
    Error::Config(format!(
        "--case {name}: there is no such case{}\nknown cases: {}",
        suggestion(name, known.iter().copied()),
        known.join(", ")
    ))
}

impl Source {
    /// Sizes of what is made; none where nothing is.
    pub fn shape(self) -> Result<Option<GraphShape>> {
        match self {
            Source::Known(_) => Ok(None),
            Source::Made(shape) => Ok(Some(shape)),
            Source::Like(name, factor) => {
                let Some(shape) = generate::like(name) else {
                    return Err(Error::Config(format!("there is no shape `{name}` to generate")));
                };
                Ok(Some(GraphShape { directed: false, ..shape.scaled(factor)? }))
            }
        }
    }
}

/// Settings of a case: preset as published, then `own`, then what the user sets.
pub fn config(preset: &str, own: &[&str], user: &[String]) -> Result<Config> {
    let mut layers = Layers::new()?;
    let recipe = presets::lay(&mut layers, preset, Recipe::Paper)?;
    layers.value("preset", preset, "preset")?;
    layers.value("recipe", recipe.name(), "recipe")?;
    for assignment in own.iter().copied().chain(user.iter().map(String::as_str)) {
        layers.set(assignment)?;
    }
    layers.finish()
}

/// What an epoch is measured with: one step over the whole graph, without a table and without dropout, because the PyTorch epochs have none;
/// and a readout that is not zero, because every gradient behind a zero is.
pub const EPOCH_SETTINGS: [&str; 4] =
    ["train.batch_size=0", "train.dropout=0", "init.readout_scale=1", "engine.table=off"];

/// The graph on which training is timed until it is good.
pub fn accuracy_source(tiny: bool) -> Source {
    if tiny { Source::Made(TINY) } else { Source::Like("ogbn-products", 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_settings_and_data_of_the_size_it_names() {
        for case in &EPOCHS {
            let config = config(case.preset, &EPOCH_SETTINGS, &[]).unwrap();
            assert_eq!((config.train.batch_size, config.train.dropout), (0, 0.0), "{}", case.name);
            if let Some(shape) = case.source.shape().unwrap() {
                shape.check().unwrap();
                assert!(!shape.directed, "{}", case.name);
            }
        }
        let sizes = |name: &str| {
            let case = EPOCHS.iter().find(|case| case.name == name).unwrap();
            let shape = case.source.shape().unwrap().unwrap();
            let model = config(case.preset, &EPOCH_SETTINGS, &[]).unwrap().model;
            let model = [model.hops, model.experts, model.bases, model.active];
            ([shape.nodes, shape.edge_rows, shape.features, shape.classes], model)
        };
        assert_eq!(sizes("arxiv"), ([169_343, 1_166_243, 128, 40], [8, 4, 8, 2]));
        assert_eq!(sizes("products"), ([2_449_029, 61_859_140, 100, 47], [4, 4, 8, 2]));
        for name in GRAPHS {
            config(name, &[], &[]).unwrap();
        }
    }

    #[test]
    fn names_are_found_in_any_case_and_others_refused_with_a_suggestion() {
        let names = |text: &str| text.split(',').map(str::to_string).collect::<Vec<_>>();
        assert_eq!(select(&names("Cora,graphs,scaling")).unwrap().len(), 7);
        let error = select(&names("cora,arxvi")).err().unwrap().to_string();
        assert!(error.contains("`arxiv`") && error.contains("known cases: cora, arxiv"), "{error}");
        assert!(!error.contains("tiny"), "{error}");
    }

    #[test]
    fn the_user_has_the_last_word() {
        let config = config("cora", &EPOCH_SETTINGS, &["train.dropout=0.4".into()]).unwrap();
        assert_eq!(config.train.dropout, 0.4);
    }
}
