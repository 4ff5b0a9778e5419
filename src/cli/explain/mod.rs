//! `harmonia explain`: one prediction as its terms, or what the model does over many.

mod batch;
mod global;
mod local;

use super::reading::{Centre, RunArgument};
use crate::cli::new_data;
use crate::explain::By;
use crate::model::FittedModel;
use crate::runs::TrainedRun;
use clap::{Args, ValueEnum};
use harmonia_graph::error::Result;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  harmonia explain runs/cora-1 --node 42
      what speaks for the predicted class of node 42, by feature
  harmonia explain runs/cora-1 --node 42 --by node,hop --top 20
      by source node and walk length
  harmonia explain runs/cora-1 --node 42 --class Theory --versus Neural_Networks
      why one class and not the other
  harmonia explain runs/mutag-1 --graph 7 --by node,feature
      terms of one graph
  harmonia explain runs/customers-1 --data new/ --node C10962
      a node of new tables, which need no labels
  harmonia explain runs/customers-1 --data new/ --node @ids.txt --out terms.parquet
      many nodes, one name or number in a line, to a file: .csv, .jsonl or .parquet; without --node, all of them
  harmonia explain runs/cora-1 --global
      importances, signed effects, hop profiles, routing; with several seeds, how well they agree";

/// A key that terms are added up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Key {
    /// Column of X
    Feature,
    /// Source node
    Node,
    /// Walk length
    Hop,
}

/// Units to measure on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Training units
    Train,
    /// Validation units
    #[value(alias = "validation")]
    Valid,
    /// Test units
    Test,
    /// All units
    All,
}

impl Part {
    pub fn units(self, run: &TrainedRun) -> Vec<u32> {
        let split = &run.dataset.split;
        match self {
            Part::Train => split.train.clone(),
            Part::Valid => split.valid.clone(),
            Part::Test => split.test.clone(),
            Part::All => (0..run.dataset.units() as u32).collect(),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Part::Train => "train",
            Part::Valid => "validation",
            Part::Test => "test",
            Part::All => "all",
        }
    }
}

#[derive(Args)]
#[command(group(clap::ArgGroup::new("target").args(["node", "graph", "global"])))]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgument,
    /// Other data to look at: a directory of tables, a store, or the name of a dataset [default: what it was trained on]
    #[arg(long, value_name = "DATA")]
    data: Option<String>,
    #[command(flatten)]
    tables: new_data::TableFlags,
    /// Node to explain: its name, or its number in the source of the data; may be repeated. @FILE: those in a file, one in a line
    #[arg(long, value_name = "NODE")]
    node: Vec<String>,
    /// Graph to explain, by its number; may be repeated
    #[arg(long, value_name = "NUMBER")]
    graph: Vec<usize>,
    /// File for the terms of many predictions, by its ending: .csv, .jsonl or .parquet; - is standard output, as CSV. Without --node
    /// and --graph, of all of them
    #[arg(long, value_name = "FILE", conflicts_with = "global")]
    out: Option<PathBuf>,
    /// What the model does over a whole split
    #[arg(long)]
    global: bool,
    /// Class to explain, by name or number [default: the predicted one; of a binary task, class 1, which its one logit
    /// speaks for]
    #[arg(long, value_name = "NAME", conflicts_with = "global", allow_hyphen_values = true)]
    class: Option<String>,
    /// Explain the difference to this class
    #[arg(long, value_name = "NAME", conflicts_with = "global", allow_hyphen_values = true)]
    versus: Option<String>,
    /// What terms are added up by; any of the three, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "feature", conflicts_with = "global")]
    by: Vec<Key>,
    /// Largest terms to list; the others are added up as the rest. 0 lists all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// What is taken off every response before terms are formed
    #[arg(long, value_enum, default_value_t = Centre::Mean)]
    centre: Centre,
    /// --global: units to measure on
    #[arg(long, value_enum, default_value_t = Part::Test, conflicts_with_all = ["node", "graph"])]
    split: Part,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// What terms are added up by.
    fn by(&self) -> By {
        let has = |key| self.by.contains(&key);
        By { feature: has(Key::Feature), node: has(Key::Node), hop: has(Key::Hop) }
    }

    /// Terms to list.
    fn most(&self) -> usize {
        if self.top == 0 { usize::MAX } else { self.top }
    }

    /// The model, with the data that are asked for.
    fn opened(&self) -> Result<TrainedRun> {
        new_data::asked(&self.run, self.data.as_deref(), &self.tables)
    }
}

/// A line that says what was done to the logits, where something was.
fn calibrated(model: &FittedModel) -> String {
    let calibration = model.calibration.as_ref();
    calibration.map_or(String::new(), |line| format!("calibrated logits ({})\n", line.text()))
}

pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.run.with(|| match (arguments.global, &arguments.out) {
        (true, _) => global::run(arguments),
        (false, Some(out)) => batch::run(arguments, out),
        (false, None) => local::run(arguments),
    })
}
