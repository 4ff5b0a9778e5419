//! `harmonia runs`: what was trained, side by side, and gone.

mod compare;
mod list;
mod remove;
mod when;

use crate::loss::{Objective, ScoreKind};
use crate::runs::KnownRun;
use clap::{Args, Subcommand};
use harmonia_graph::error::Result;
use serde_json::{Map, Value, json};

pub const EXAMPLES: &str = "\
Examples:
  harmonia runs list
      every run in ./runs: data, when, epochs, finished or not, scores
  harmonia runs compare runs/cora-1 runs/cora-2
      settings that differ side by side, and scores
  harmonia runs rm runs/cora-1
      remove it, having asked; --yes does not ask";

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every run: name, data, when, epochs, finished or not, scores
    List(list::Arguments),
    /// Settings that differ between runs, and their scores, side by side
    Compare(compare::Arguments),
    /// Remove runs, having asked
    Rm(remove::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        Command::List(arguments) => list::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Rm(arguments) => remove::run(arguments),
    }
}

/// A score by its name.
fn kind(name: &str) -> Option<&'static ScoreKind> {
    Objective::ALL.iter().flat_map(|objective| objective.scores()).find(|kind| kind.name == name)
}

/// Mean and deviation of a score, for people.
fn score_text(name: &str, (mean, deviation): (Option<f64>, Option<f64>)) -> String {
    let Some(mean) = mean else { return "-".into() };
    let percent = kind(name).is_some_and(|kind| kind.percent);
    let (factor, decimals, unit) = if percent { (100.0, 2, " %") } else { (1.0, 4, "") };
    let deviation = deviation.map_or(String::new(), |deviation| format!(" ± {:.decimals$}", deviation * factor));
    format!("{:.decimals$}{deviation}{unit}", mean * factor)
}

/// Every score of one part, by name.
fn scores_json(run: &KnownRun, of: impl Fn(&str) -> (Option<f64>, Option<f64>)) -> Map<String, Value> {
    let score = |name: String| {
        let (mean, std) = of(&name);
        (name, json!({ "mean": mean, "std": std }))
    };
    run.score_names().into_iter().map(score).collect()
}
