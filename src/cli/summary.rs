//! The result of training, for people.

use crate::loss::metrics::{mean, standard_deviation};
use crate::loss::{Objective, ScoreKind};
use crate::runs::Outcome;
use crate::runs::RunSummary;
use std::fmt::Write;

/// Columns of the table: the scores that the runs have.
fn shown(outcome: &Outcome) -> Vec<&'static ScoreKind> {
    let names: Vec<&str> = outcome.runs.first().map_or(Vec::new(), |run| run.test.names().collect());
    let all = Objective::ALL.iter().flat_map(|objective| objective.scores());
    let mut kinds: Vec<&ScoreKind> = Vec::new();
    for kind in all.filter(|kind| names.contains(&kind.name)) {
        if kinds.iter().all(|known| known.name != kind.name) {
            kinds.push(kind);
        }
    }
    kinds
}

/// Test and validation scores, one line per seed and their mean, what was recovered of a generator, and where the run is.
pub fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, outcome);
    out
}

fn write(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let many = outcome.runs.len() > 1;
    let shown = shown(outcome);
    write!(out, "\n{:<12}", "test")?;
    for kind in &shown {
        let head = if kind.percent { format!("{} %", kind.label) } else { kind.label.to_string() };
        write!(out, "{head:>18}")?;
    }
    writeln!(out)?;
    if outcome.cross_validated() {
        for runs in outcome.repeats() {
            write!(out, "{:<12}", format!("seed {}", runs[0].seed))?;
            row(out, &shown, |key| {
                let values: Vec<f64> = runs.iter().filter_map(|run| run.test.get(key)).collect();
                mean(values.iter().copied()).map(|mean| (mean, standard_deviation(&values)))
            })?;
        }
    } else {
        for run in &outcome.runs {
            write!(out, "{:<12}", run.name().to_string())?;
            row(out, &shown, |key| run.test.get(key).map(|value| (value, None)))?;
        }
    }
    if many {
        write!(out, "{:<12}", "mean")?;
        row(out, &shown, |key| {
            let (mean, std) = outcome.spread(|run| &run.test, key);
            mean.map(|mean| (mean, std))
        })?;
    }
    write!(out, "{:<12}", "validation")?;
    row(out, &shown, |key| {
        let (mean, std) = outcome.spread(|run| &run.validation, key);
        mean.map(|mean| (mean, std))
    })?;
    if outcome.cross_validated() {
        folds(out, outcome, &shown)?;
    }
    for run in &outcome.runs {
        recovery(out, run, many)?;
    }
    if let Some(path) = &outcome.run_dir {
        writeln!(out, "\nrun directory: {}", path.display())?;
    }
    Ok(())
}

/// What the deviations of a cross-validation are taken over: folds of one dealing share data, dealings do not.
fn folds(out: &mut String, outcome: &Outcome, shown: &[&ScoreKind]) -> std::fmt::Result {
    let repeats = outcome.repeats().count();
    let folds = outcome.runs.len() / repeats.max(1);
    writeln!(
        out,
        "\n{folds}-fold cross-validation, {repeats} times: a line per seed is mean and deviation over its folds, the mean is over all \
         {} runs",
        outcome.runs.len()
    )?;
    if repeats > 1 {
        write!(out, "{:<12}", "repeats ±")?;
        row(out, shown, |key| outcome.between_repeats(|run| &run.test, key).map(|std| (std, None)))?;
    }
    Ok(())
}

fn row(out: &mut String, shown: &[&ScoreKind], score: impl Fn(&str) -> Option<(f64, Option<f64>)>) -> std::fmt::Result {
    for kind in shown {
        let (factor, decimals) = if kind.percent { (100.0, 2) } else { (1.0, 4) };
        let text = match score(kind.name) {
            Some((value, Some(std))) => format!("{:.decimals$} ± {:.decimals$}", value * factor, std * factor),
            Some((value, None)) => format!("{:.decimals$}", value * factor),
            None => "-".into(),
        };
        write!(out, "{text:>18}")?;
    }
    writeln!(out)
}

fn recovery(out: &mut String, run: &RunSummary, many: bool) -> std::fmt::Result {
    let Some(recovery) = &run.recovery else { return Ok(()) };
    let seed = if many { format!(" ({})", run.name()) } else { String::new() };
    writeln!(out, "\nwhat the model found again of the generator{seed}\n{recovery}")?;
    if let (Some(own), Some(model)) = (run.generator_nll, run.test.get("nll")) {
        writeln!(out, "test NLL {model:.4}, the generator's own {own:.4}")?;
    }
    Ok(())
}
