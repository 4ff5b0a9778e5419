//! The result of training, for people.

use crate::loss::metrics::{mean, standard_deviation};
use crate::loss::{Objective, Reliability, ScoreKind, Scores};
use crate::runs::Outcome;
use crate::runs::RunSummary;
use std::fmt::Write;

const FIRST_COLUMN: usize = 12;
const COLUMN: usize = 18;

/// Expected calibration error: no score of a loss, but a column where there is room for it.
const ECE: ScoreKind = ScoreKind {
    name: "ece",
    label: "ECE",
    title: "Expected calibration error",
    percent: true,
    higher: false,
    drawn: false,
    undefined: 1.0,
};

/// The outcome with the calibration error among the scores, where the terminal is wide enough for a column of it.
fn with_calibration_error(outcome: &Outcome, width: Option<usize>) -> Outcome {
    let mut outcome = outcome.clone();
    let needed = FIRST_COLUMN + COLUMN * (shown(&outcome).len() + 1);
    if width.is_some_and(|width| width >= needed) {
        for run in &mut outcome.runs {
            let Some(reliability) = &run.reliability else { continue };
            let with = |scores: &Scores, part: &Option<Reliability>| {
                scores.clone().with(ECE.name, part.as_ref().map(|part| part.ece))
            };
            run.test = with(&run.test, &reliability.test);
            run.validation = with(&run.validation, &reliability.validation);
        }
    }
    outcome
}

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
    kinds.extend(names.contains(&ECE.name).then_some(&ECE));
    kinds
}

/// Test and validation scores, one line per seed and their mean, what was recovered of a generator, and where the run is.
/// `width` is that of the terminal, if there is one.
pub fn text(outcome: &Outcome, width: Option<usize>) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, &with_calibration_error(outcome, width));
    out
}

fn write(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let many = outcome.runs.len() > 1;
    let shown = shown(outcome);
    write!(out, "\n{:<FIRST_COLUMN$}", "test")?;
    for kind in &shown {
        let head = if kind.percent { format!("{} %", kind.label) } else { kind.label.to_string() };
        write!(out, "{head:>COLUMN$}")?;
    }
    writeln!(out)?;
    if outcome.cross_validated() {
        for runs in outcome.repeats() {
            write!(out, "{:<FIRST_COLUMN$}", format!("seed {}", runs[0].seed))?;
            row(out, &shown, |key| {
                let values: Vec<f64> = runs.iter().filter_map(|run| run.test.get(key)).collect();
                mean(values.iter().copied()).map(|mean| (mean, standard_deviation(&values)))
            })?;
        }
    } else {
        for run in &outcome.runs {
            write!(out, "{:<FIRST_COLUMN$}", run.name().to_string())?;
            row(out, &shown, |key| run.test.get(key).map(|value| (value, None)))?;
        }
    }
    if many {
        write!(out, "{:<FIRST_COLUMN$}", "mean")?;
        row(out, &shown, |key| {
            let (mean, std) = outcome.spread(|run| &run.test, key);
            mean.map(|mean| (mean, std))
        })?;
    }
    write!(out, "{:<FIRST_COLUMN$}", "validation")?;
    row(out, &shown, |key| {
        let (mean, std) = outcome.spread(|run| &run.validation, key);
        mean.map(|mean| (mean, std))
    })?;
    baselines(out, outcome, &shown)?;
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

/// What simpler predictions get on the test units (without any, on the validation units), mean and deviation over the runs.
fn baselines(out: &mut String, outcome: &Outcome, shown: &[&ScoreKind]) -> std::fmt::Result {
    let Some(first) = outcome.runs.first() else { return Ok(()) };
    if first.baselines.len() > 1 {
        writeln!(out, "\nsimpler predictions, test")?;
    }
    for (at, baseline) in first.baselines.iter().enumerate() {
        // Names longer than the column have a line of their own.
        if baseline.name.len() > FIRST_COLUMN {
            write!(out, "{}\n{:<FIRST_COLUMN$}", baseline.name, "")?;
        } else {
            write!(out, "{:<FIRST_COLUMN$}", baseline.name)?;
        }
        row(out, shown, |key| {
            let these = outcome.runs.iter().filter_map(|run| run.baselines.get(at));
            let values: Vec<f64> = these
                .filter_map(|baseline| match baseline.test.is_defined() {
                    true => baseline.test.get(key),
                    false => baseline.validation.get(key),
                })
                .collect();
            mean(values.iter().copied()).map(|mean| (mean, standard_deviation(&values)))
        })?;
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
        write!(out, "{:<FIRST_COLUMN$}", "repeats ±")?;
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
        write!(out, "{text:>COLUMN$}")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calibration_error_is_a_column_where_it_fits() {
        let run: RunSummary = serde_json::from_value(serde_json::json!({
            "seed": 0, "run_dir": null, "parameters": 1, "epochs": 1, "best_epoch": 1, "stopped_early": false, "learned": true,
            "seconds": 0.0, "device": "cpu", "train": {"accuracy": 1.0}, "test": {"accuracy": 0.5, "nll": 1.0},
            "validation": {"accuracy": 0.5, "nll": 1.0},
            "reliability": {"test": {"ece": 0.1234, "bins": []}, "validation": null},
        }))
        .unwrap();
        let outcome = Outcome {
            dataset: "d".into(),
            preset: String::new(),
            recipe: String::new(),
            run_dir: None,
            runs: vec![run],
        };
        let lines = |width| text(&outcome, width).lines().map(String::from).collect::<Vec<_>>();
        assert_eq!(lines(Some(65)), lines(None));
        assert!(lines(None).iter().all(|line| !line.contains("ECE")));
        let wide = lines(Some(66));
        assert!(wide[1].ends_with("             ECE %") && wide[1].len() == 66, "{wide:?}");
        assert!(wide[2].ends_with(" 12.34") && wide[3].ends_with(" -"), "{wide:?}");
    }
}
