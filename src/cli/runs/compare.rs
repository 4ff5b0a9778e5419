//! `harmonia runs compare`: settings that differ, and what came of them.

use super::{kind, score_text, scores_json};
use crate::cli::reading::table;
use crate::cli::say;
use crate::runs::KnownRun;
use crate::settings::flattened;
use clap::Args;
use harmonia_graph::error::Result;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

#[derive(Args)]
pub struct Arguments {
    /// Run directories, two or more
    #[arg(value_name = "RUN", required = true, num_args = 2..)]
    runs: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let runs = arguments.runs.iter().map(|path| KnownRun::read(path)).collect::<Result<Vec<_>>>()?;
    let settings = differing(&runs)?;
    if arguments.json {
        return say(&format!("{:#}\n", as_json(&runs, &settings)));
    }
    say(&text(&runs, &settings))
}

/// A setting and its value in each run, as TOML.
type Setting = (String, Vec<String>);

/// Settings that are not the same in all runs.
fn differing(runs: &[KnownRun]) -> Result<Vec<Setting>> {
    let all = runs.iter().map(|run| flattened(&run.config)).collect::<Result<Vec<_>>>()?;
    let keys = all[0].iter().enumerate();
    let settings = keys.map(|(at, (key, _))| (key.clone(), all.iter().map(|run| run[at].1.clone()).collect()));
    Ok(settings.filter(|(_, values): &Setting| values.iter().any(|value| *value != values[0])).collect())
}

fn text(runs: &[KnownRun], settings: &[Setting]) -> String {
    let heads: Vec<String> = runs.iter().map(|run| run.path.display().to_string()).collect();
    let row = |name: String, cells: &mut dyn Iterator<Item = String>| [name].into_iter().chain(cells).collect();
    let mut rows: Vec<Vec<String>> = vec![row(String::new(), &mut heads.into_iter())];
    let blank = |rows: &mut Vec<Vec<String>>, title: &str| {
        rows.push(Vec::new());
        rows.push(vec![title.to_string()]);
    };
    if settings.is_empty() {
        blank(&mut rows, "settings: all the same");
    } else {
        blank(&mut rows, "settings that differ");
        rows.extend(settings.iter().map(|(key, values)| row(key.clone(), &mut values.iter().cloned())));
    }
    blank(&mut rows, "results");
    rows.push(row("dataset".into(), &mut runs.iter().map(|run| run.dataset.clone())));
    rows.push(row("state".into(), &mut runs.iter().map(|run| run.state.name().into())));
    rows.push(row("epochs".into(), &mut runs.iter().map(|run| counts(run, |member| Some(member.epochs)))));
    let best = |run| counts(run, |member| member.best.as_ref().map(|record| record.epoch));
    rows.push(row("best epoch".into(), &mut runs.iter().map(best)));
    let seconds = runs.iter().map(seconds).map(|time| time.map_or("-".into(), |time| format!("{time:.1}")));
    rows.push(row("seconds".into(), &mut seconds.into_iter()));
    for name in names(runs) {
        let label = kind(&name).map_or(name.as_str(), |kind| kind.label);
        let test = runs.iter().map(|run| score_text(&name, run.test(&name)));
        rows.push(row(format!("test {label}"), &mut test.into_iter()));
        let constant = runs.iter().map(|run| score_text(&name, run.constant(&name)));
        rows.push(row("  of a constant".into(), &mut constant.into_iter()));
        let validation = runs.iter().map(|run| score_text(&name, run.validation(&name)));
        rows.push(row(format!("validation {label}"), &mut validation.into_iter()));
    }
    table(&rows, 1)
}

/// Scores that any of them has, in order.
fn names(runs: &[KnownRun]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in runs.iter().flat_map(KnownRun::score_names) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A number of each seed and fold: from the least to the largest.
fn counts(run: &KnownRun, of: impl Fn(&crate::runs::KnownMember) -> Option<usize>) -> String {
    let values = || run.members.iter().filter_map(&of);
    match (values().min(), values().max()) {
        (Some(least), Some(most)) if least < most => format!("{least}-{most}"),
        (Some(least), _) => least.to_string(),
        _ => "-".into(),
    }
}

/// Of all that are complete.
fn seconds(run: &KnownRun) -> Option<f64> {
    let all = run.members.iter().map(|member| Some(member.summary.as_ref()?.seconds));
    all.flatten().fold(None, |sum, seconds| Some(sum.unwrap_or(0.0) + seconds))
}

fn as_json(runs: &[KnownRun], settings: &[Setting]) -> Value {
    let settings: Map<String, Value> = settings.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
    let runs = runs.iter().map(|run| {
        json!({
            "run_dir": run.path, "name": run.config.run.name, "dataset": run.dataset, "state": run.state.name(),
            "epochs": run.members.iter().map(|member| member.epochs).collect::<Vec<_>>(),
            "seconds": seconds(run),
            "test": scores_json(run, |name| run.test(name)),
            "constant": scores_json(run, |name| run.constant(name)),
            "validation": scores_json(run, |name| run.validation(name)),
        })
    });
    json!({ "runs": runs.collect::<Vec<_>>(), "settings": settings })
}
