//! `harmonia runs list`: a line per run.

use super::when::utc;
use super::{kind, score_text, scores_json};
use crate::cli::reading::{short, table};
use crate::cli::{say, voice};
use crate::runs::{KnownRun, RunState};
use clap::Args;
use harmonia_graph::error::Result;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Where training puts runs.
const USUAL: &str = "runs";

#[derive(Args)]
pub struct Arguments {
    /// Directories of runs, or runs [default: runs]
    #[arg(value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let usual = [PathBuf::from(USUAL)];
    let directories = match arguments.directories.is_empty() {
        // Nobody named it: that it is not there means that nothing was trained.
        true if !usual[0].exists() => &[][..],
        true => &usual,
        false => &arguments.directories,
    };
    let (mut runs, mut damaged) = (Vec::new(), Vec::new());
    for directory in directories {
        for (path, read) in KnownRun::below(directory)? {
            match read {
                Ok(run) => runs.push(run),
                Err(error) => damaged.push((path, error)),
            }
        }
    }
    if arguments.json {
        let damaged: Vec<_> =
            (damaged.iter()).map(|(path, error)| json!({ "run_dir": path, "error": error.to_string() })).collect();
        let object = json!({ "runs": runs.iter().map(as_json).collect::<Vec<_>>(), "damaged": damaged });
        return say(&format!("{object:#}\n"));
    }
    for (path, error) in &damaged {
        voice::note(format_args!("{} is left out: {error}", path.display()));
    }
    if runs.is_empty() {
        let places: Vec<String> = directories.iter().map(|path| path.display().to_string()).collect();
        let places = if places.is_empty() { USUAL.to_string() } else { places.join(", ") };
        return say(&format!("no runs in {places}: harmonia-train makes one\n"));
    }
    say(&text(&runs))
}

fn text(runs: &[KnownRun]) -> String {
    let head = ["run", "name", "dataset", "last change, UTC", "state", "runs", "epochs", "score", "test", "validation"];
    let mut rows = vec![head.map(String::from).to_vec()];
    // A column of nothing is left out.
    let has_names = runs.iter().any(|run| !run.config.run.name.is_empty());
    for run in runs {
        let score = shown_score(run);
        let of = |found: Option<(Option<f64>, Option<f64>)>| {
            score.as_deref().zip(found).map_or("-".into(), |(name, found)| score_text(name, found))
        };
        rows.push(vec![
            run.path.display().to_string(),
            short(&run.config.run.name),
            short(&run.dataset),
            run.changed.map_or("-".into(), |moment| utc(moment).replace('T', " ")[..16].to_string()),
            run.state.name().into(),
            count(run),
            epochs(run),
            score.as_deref().and_then(kind).map_or("-".into(), |kind| kind.label.into()),
            of(score.as_deref().map(|name| run.test(name))),
            of(score.as_deref().map(|name| run.validation(name))),
        ]);
    }
    if !has_names {
        rows.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    table(&rows, if has_names { 8 } else { 7 })
}

/// The one that people ask for: what chose the epoch, or where that is the loss the first score of the task.
fn shown_score(run: &KnownRun) -> Option<String> {
    let names = run.score_names();
    let chosen = run.config.train.metric.score_name();
    let chosen = names.iter().find(|name| *name == chosen && *name != "loss");
    chosen.or(names.first()).cloned()
}

/// Seeds and folds, and how many of them are complete where not all are.
fn count(run: &KnownRun) -> String {
    let (all, settings) = (run.members.len(), &run.config.run);
    let what = match (settings.seeds, settings.folds) {
        (1, 0) => return "1".into(),
        (seeds, 0) => format!("{seeds} seeds"),
        (1, folds) => format!("{folds} folds"),
        (seeds, folds) => format!("{seeds} x {folds} folds"),
    };
    match run.members.iter().filter(|member| member.summary.is_some()).count() {
        done if done < all => format!("{done} of {what}"),
        _ => what,
    }
}

/// Of its runs from the shortest to the longest; of one that is not complete, of how many.
fn epochs(run: &KnownRun) -> String {
    let done = || run.members.iter().map(|member| member.epochs);
    let (least, most) = (done().min().unwrap_or(0), done().max().unwrap_or(0));
    let text = if least == most { most.to_string() } else { format!("{least}-{most}") };
    match run.state {
        RunState::Finished => text,
        _ => format!("{text} of {}", run.config.train.epochs),
    }
}

fn as_json(run: &KnownRun) -> Value {
    let config = &run.config;
    let members = run.members.iter().map(|member| {
        json!({
            "run_dir": member.path, "seed": member.name.seed, "fold": member.name.fold, "epochs": member.epochs,
            "finished": member.summary.is_some(),
            "best_epoch": member.best.as_ref().map(|record| record.epoch),
            "stopped_early": member.summary.as_ref().map(|summary| summary.stopped_early),
            "seconds": member.summary.as_ref().map(|summary| summary.seconds),
        })
    });
    json!({
        "run_dir": run.path, "name": config.run.name, "dataset": run.dataset, "preset": config.preset,
        "recipe": config.recipe, "state": run.state.name(), "changed": run.changed.map(utc),
        "seeds": config.run.seeds, "folds": config.run.folds, "most_epochs": config.train.epochs,
        "test": scores_json(run, |name| run.test(name)),
        "validation": scores_json(run, |name| run.validation(name)),
        "runs": members.collect::<Vec<_>>(),
    })
}
