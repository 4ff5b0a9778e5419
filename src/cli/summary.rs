//! The result of training, for people.

use crate::loss::metrics::{mean, standard_deviation};
use crate::runs::Outcome;
use crate::runs::RunSummary;
use std::fmt::Write;

/// (name shown, key, factor)
const SHOWN: [(&str, &str, f64); 4] = [
    ("accuracy %", "accuracy", 100.0),
    ("ROC-AUC %", "roc_auc", 100.0),
    ("NLL", "nll", 1.0),
    ("macro-F1 %", "macro_f1", 100.0),
];

/// Test and validation scores, one line per seed and their mean, what was recovered of a generator, and where the run is.
pub fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, outcome);
    out
}

fn write(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let many = outcome.runs.len() > 1;
    writeln!(out, "\n{:<12}{:>18}{:>18}{:>18}{:>18}", "test", SHOWN[0].0, SHOWN[1].0, SHOWN[2].0, SHOWN[3].0)?;
    if outcome.cross_validated() {
        for runs in outcome.repeats() {
            write!(out, "{:<12}", format!("seed {}", runs[0].seed))?;
            row(out, |key| {
                let values: Vec<f64> = runs.iter().filter_map(|run| run.test.get(key)).collect();
                mean(values.iter().copied()).map(|mean| (mean, standard_deviation(&values)))
            })?;
        }
    } else {
        for run in &outcome.runs {
            write!(out, "{:<12}", run.name().to_string())?;
            row(out, |key| run.test.get(key).map(|value| (value, None)))?;
        }
    }
    if many {
        write!(out, "{:<12}", "mean")?;
        row(out, |key| {
            let (mean, std) = outcome.spread(|run| &run.test, key);
            mean.map(|mean| (mean, std))
        })?;
    }
    write!(out, "{:<12}", "validation")?;
    row(out, |key| {
        let (mean, std) = outcome.spread(|run| &run.validation, key);
        mean.map(|mean| (mean, std))
    })?;
    if outcome.cross_validated() {
        folds(out, outcome)?;
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
fn folds(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
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
        row(out, |key| outcome.between_repeats(|run| &run.test, key).map(|std| (std, None)))?;
    }
    Ok(())
}

fn row(out: &mut String, score: impl Fn(&str) -> Option<(f64, Option<f64>)>) -> std::fmt::Result {
    for (_, key, factor) in SHOWN {
        let decimals = if factor == 1.0 { 4 } else { 2 };
        let text = match score(key) {
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
    if let (Some(own), Some(model)) = (run.generator_nll, run.test.nll) {
        writeln!(out, "test NLL {model:.4}, the generator's own {own:.4}")?;
    }
    Ok(())
}
