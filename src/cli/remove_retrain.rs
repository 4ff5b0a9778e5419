//! `harmonia remove-retrain`: what is lost when the most, the least or any features are taken away.

use super::output::OutputFile;
use super::progress::ProgressBars;
use super::reading::{RunArgument, table};
use super::{say, voice};
use crate::cli::signals;
use crate::loss::metrics::{mean, standard_deviation};
use crate::loss::{Objective, ScoreKind, Scores};
use crate::studies::remove_retrain::{Removal, Which, remove_retrain};
use clap::Args;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  harmonia remove-retrain runs/cora-1 --fraction 0.2
      three new models: without the top, the bottom and a random fifth of the features by validation importance
  harmonia remove-retrain runs/cora-2 --fraction 0.1 --plot removal.svg
      of a run with several seeds, every seed";

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgument,
    /// Share of the features to take away
    #[arg(long, value_name = "F", default_value_t = 0.2, allow_negative_numbers = true)]
    fraction: f64,
    /// Picture to write [default: remove-retrain.svg in the run directory]
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The two scores that are shown: of classes accuracy and ROC-AUC, of numbers R2 and RMSE.
fn shown(removals: &[Removal]) -> [&'static ScoreKind; 2] {
    let is_regression = removals.first().is_some_and(|removal| removal.full.names().any(|name| name == "r2"));
    match is_regression {
        true => ["r2", "rmse"].map(|name| Objective::Squared.score_kind(name)),
        false => ["accuracy", "roc_auc"].map(|name| Objective::Softmax.score_kind(name)),
    }
}

/// What a score is multiplied by to be shown.
fn factor(kind: &ScoreKind) -> f64 {
    if kind.percent { 100.0 } else { 1.0 }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.run.with(|| {
        let plot = arguments.plot.clone().unwrap_or_else(|| arguments.run.run.join("remove-retrain.svg"));
        let file = arguments.run.run.join("remove-retrain.json");
        // Before hours of training, not after.
        let picture = OutputFile::new("--plot", &plot, &["svg"])?.beside_json("--plot", arguments.json)?;
        files::check_writable(&file)?;
        let mut removals = Vec::new();
        let runs = arguments.run.all()?;
        for run in &runs {
            let progress = |which: Which, count: usize| {
                let all = run.factors.features();
                voice::line(format_args!("without {count} of {all} features: {}", which.name()));
            };
            let mut observer = ProgressBars::new(run.model.objective, run.config.train.metric);
            removals.extend(remove_retrain(run, arguments.fraction, &mut observer, &progress, &signals::stop())?);
        }
        let object = to_json(&runs[0].dataset.name, &removals, arguments.fraction);
        let text = serde_json::to_string_pretty(&object).map_err(|error| Error::file(&file, error.to_string()))?;
        files::write_atomic(&file, text.as_bytes())?;
        picture.write(&svg(&runs[0].dataset.name, &removals, arguments.fraction))?;
        if arguments.json {
            return say(&format!("{object:#}\n"));
        }
        let mut out = format!(
            "{}: test scores after removing {:.0} % of the features and training anew, {} run(s)\n\n",
            runs[0].dataset.name,
            100.0 * arguments.fraction,
            runs.len()
        );
        out += &text_table(&removals);
        if picture.is_stdout() {
            voice::line(out.trim_end());
            return Ok(());
        }
        out += &format!("\nwritten: {}, {}\n", file.display(), plot.display());
        say(&out)
    })
}

fn changes(removals: &[Removal], which: Which, score: &str) -> Vec<f64> {
    removals.iter().filter(|removal| removal.which == which).filter_map(|removal| removal.change(score)).collect()
}

fn text_table(removals: &[Removal]) -> String {
    let shown = shown(removals);
    let text =
        |kind: &ScoreKind, value: Option<f64>| value.map_or("-".into(), |value| format!("{:.2}", factor(kind) * value));
    let mut header = vec!["removed".to_string(), "features".into()];
    for kind in shown {
        let unit = if kind.percent { " %" } else { "" };
        header.extend([format!("{}{unit}", kind.label), "change".into()]);
    }
    let whole = |first: [&str; 2], part: fn(&Removal) -> &Scores| {
        let mut row = first.map(String::from).to_vec();
        for kind in shown {
            let tops = removals.iter().filter(|removal| removal.which == Which::Top);
            row.extend([text(kind, mean(tops.filter_map(|removal| part(removal).get(kind.name)))), String::new()]);
        }
        row
    };
    let mut rows = vec![header, whole(["nothing", "0"], |removal| &removal.full)];
    for which in Which::ALL {
        let mut these = removals.iter().filter(|removal| removal.which == which).peekable();
        let count = these.peek().map_or(0, |removal| removal.removed.len());
        let mut row = vec![which.name().to_string(), count.to_string()];
        let these: Vec<&Removal> = these.collect();
        for kind in shown {
            row.push(text(kind, mean(these.iter().filter_map(|removal| removal.test.get(kind.name)))));
            let (changes, factor) = (changes(removals, which, kind.name), factor(kind));
            let spread = standard_deviation(&changes).map_or(String::new(), |std| format!(" ± {:.2}", factor * std));
            row.push(mean(changes).map_or("-".into(), |mean| format!("{:+.2}{spread}", factor * mean)));
        }
        rows.push(row);
    }
    rows.push(whole(["(a constant)", ""], |removal| &removal.constant));
    table(&rows, 1)
}

fn to_json(dataset: &str, removals: &[Removal], fraction: f64) -> Value {
    let change = |which: Which| {
        let scores = shown(removals).map(|kind| {
            let changes = changes(removals, which, kind.name);
            (
                kind.name.to_string(),
                json!({ "mean": mean(changes.iter().copied()), "std": standard_deviation(&changes) }),
            )
        });
        (which.name().to_string(), scores.into_iter().collect::<serde_json::Map<_, _>>().into())
    };
    json!({
        "dataset": dataset,
        "fraction": fraction,
        "change": Which::ALL.map(change).into_iter().collect::<serde_json::Map<String, Value>>(),
        "runs": removals,
    })
}

/// Bars of the change of the first score, one per kind of removal, with a dot per seed.
fn svg(dataset: &str, removals: &[Removal], fraction: f64) -> String {
    let (width, height, left, top) = (520.0, 280.0, 64.0, 44.0);
    let kind = shown(removals)[0];
    // R2 is drawn in hundredths, as a share is.
    let all: Vec<(Which, Vec<f64>)> = Which::ALL.map(|which| (which, changes(removals, which, kind.name))).into();
    let values = || all.iter().flat_map(|(_, changes)| changes.iter().map(|change| 100.0 * change));
    let low = values().fold(-1.0f64, f64::min);
    let high = values().fold(1.0f64, f64::max);
    let y = |value: f64| top + (high - value) / (high - low) * (height - top - 40.0);
    let escaped = super::xml::escape(dataset);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"system-ui,sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"22\" font-size=\"14\">{escaped}: change of test {} without {:.0} % of the features</text>\n",
        if kind.percent { kind.label.to_string() } else { format!("{} x 100", kind.label) },
        100.0 * fraction
    );
    for value in [low, 0.0, high] {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{1:.1}\" y2=\"{1:.1}\" stroke=\"#bbb\"/><text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{value:+.1}</text>",
            width - 16.0,
            y(value),
            left - 6.0,
            y(value) + 4.0
        );
    }
    for (at, (which, changes)) in all.iter().enumerate() {
        let x = left + 40.0 + 140.0 * at as f64;
        if let Some(mean) = mean(changes.iter().copied()) {
            let (a, b) = (y(100.0 * mean), y(0.0));
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" width=\"70\" y=\"{:.1}\" height=\"{:.1}\" fill=\"#2b6cb0\" opacity=\"0.6\"/>",
                a.min(b),
                (a - b).abs()
            );
        }
        for change in changes {
            let _ = writeln!(out, "<circle cx=\"{}\" cy=\"{:.1}\" r=\"3\"/>", x + 35.0, y(100.0 * change));
        }
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x + 35.0,
            height - 14.0,
            which.name()
        );
    }
    out + "</svg>\n"
}
