//! Many predictions as their terms, to a file: one row per term, or one JSON object per prediction.
//!
//! Nodes by feature go together, by one pass of the engine; other keys, and graphs, go one by one, side by side on all threads.

use super::Arguments;
use super::local::targets;
use crate::answers::{About, Explained, local_json};
use crate::cli::output::OutputFile;
use crate::cli::predict::field;
use crate::cli::reading::table;
use crate::cli::{say, signals, voice};
use crate::explain::{By, Explanation, Target};
use crate::runs::{Names, TrainedRun};
use harmonia_data::frame::{Cells, parquet_bytes};
use harmonia_graph::error::Result;
use rayon::prelude::*;
use serde_json::json;
use std::fmt::Write;
use std::path::Path;

pub fn run(arguments: &Arguments, out: &Path) -> Result<()> {
    let file = OutputFile::new("--out", out, &["csv", "jsonl", "parquet"])?.beside_json("--out", arguments.json)?;
    let run = arguments.opened()?;
    let names = Names::of(&run);
    let wanted = targets(arguments, &run, &names)?;
    let all = explained(arguments, &run, &names, &wanted)?;
    match file.ending() {
        "jsonl" => {
            let line = |one: &Explained| {
                format!("{}\n", local_json(&one.about(&run, &names, arguments.centre.name()), &one.explanation))
            };
            file.write(&all.par_iter().map(line).collect::<Vec<_>>().concat())?;
        }
        ending => {
            let of = |one: &Explained| rows(&one.about(&run, &names, arguments.centre.name()), &one.explanation);
            let rows: Vec<Row> = all.par_iter().flat_map_iter(of).collect();
            let columns = Columns { unit: names.unit(), by: arguments.by(), term: run.factors.structure().key() };
            match ending {
                "parquet" => file.write_bytes(&parquet_bytes(&columns.cells(&rows))?)?,
                _ => file.write(&columns.csv(&rows))?,
            }
        }
    }
    let terms: usize = all.iter().map(|one| one.explanation.terms.len()).sum();
    let residual = all.iter().map(|one| one.explanation.residual).fold(0.0, f64::max);
    if arguments.json {
        let said = json!({ "out": out, "units": all.len(), "terms": terms, "largest_residual": residual });
        return say(&format!("{said:#}\n"));
    }
    let lines = [
        vec![format!("{}s explained", names.unit()), all.len().to_string()],
        vec!["terms".into(), terms.to_string()],
        vec!["largest residual".into(), format!("{residual:.1e}")],
    ];
    if file.is_stdout() {
        voice::line(table(&lines, 1).trim_end());
        return Ok(());
    }
    let written = [&lines[..], &[vec!["written to".into(), out.display().to_string()]]].concat();
    say(&table(&written, 1))
}

fn explained(arguments: &Arguments, run: &TrainedRun, names: &Names<'_>, targets: &[Target]) -> Result<Vec<Explained>> {
    let (by, top, centre) = (arguments.by(), arguments.most(), arguments.centre.of(run)?);
    let score = |logits: &[f64]| names.score(arguments.class.as_deref(), arguments.versus.as_deref(), logits);
    Explained::all(run, targets, by, &score, (top, &centre), &signals::stop())
}

/// A term with what it is a term of.
struct Row {
    unit: i64,
    name: Option<String>,
    prediction: String,
    class: String,
    /// Logit, intercept, rest, residual.
    numbers: [f64; 4],
    feature: Option<String>,
    x: Option<String>,
    source: Option<String>,
    hop: Option<usize>,
    adds: f64,
}

fn rows(about: &About<'_>, explanation: &Explanation) -> Vec<Row> {
    let names = about.names;
    let (prediction, class) = (names.predicted(about.logits), about.class());
    let Explanation { logit, intercept, rest, residual, .. } = *explanation;
    let row = |term: &crate::explain::Term| Row {
        unit: about.id() as i64,
        name: about.name().map(String::from),
        prediction: prediction.clone(),
        class: class.clone(),
        numbers: [logit, intercept, rest, residual],
        feature: term.feature.map(|feature| names.group(feature)),
        // As JSON has it: a number with all its digits.
        x: about.source(term).zip(term.feature).map(|(node, feature)| match names.value_json(node, feature) {
            serde_json::Value::String(text) => text,
            number => number.to_string(),
        }),
        source: term.node.map(|node| names.node_text(node)),
        hop: term.hop,
        adds: term.value,
    };
    explanation.terms.iter().map(row).collect()
}

/// Which columns there are.
struct Columns {
    unit: &'static str,
    by: By,
    /// What a walk length is called.
    term: &'static str,
}

impl Columns {
    fn cells(&self, rows: &[Row]) -> Vec<(String, Cells)> {
        let texts = |of: &dyn Fn(&Row) -> Option<String>| Cells::Texts(rows.iter().map(of).collect());
        let numbers = |at: usize| Cells::Numbers(rows.iter().map(|row| Some(row.numbers[at])).collect());
        let mut columns: Vec<(String, Cells)> = vec![
            (self.unit.into(), Cells::Whole(rows.iter().map(|row| row.unit).collect())),
            ("name".into(), texts(&|row| row.name.clone())),
            ("prediction".into(), texts(&|row| Some(row.prediction.clone()))),
            ("class".into(), texts(&|row| Some(row.class.clone()))),
        ];
        columns.extend(
            ["logit", "intercept", "rest", "residual"]
                .iter()
                .enumerate()
                .map(|(at, name)| (name.to_string(), numbers(at))),
        );
        if self.by.feature {
            columns.push(("feature".into(), texts(&|row| row.feature.clone())));
            columns.push(("x".into(), texts(&|row| row.x.clone())));
        }
        if self.by.node {
            columns.push(("source".into(), texts(&|row| row.source.clone())));
        }
        if self.by.hop {
            columns
                .push((self.term.into(), Cells::Whole(rows.iter().map(|row| row.hop.unwrap_or(0) as i64).collect())));
        }
        columns.push(("adds".into(), Cells::Numbers(rows.iter().map(|row| Some(row.adds)).collect())));
        columns
    }

    fn csv(&self, rows: &[Row]) -> String {
        let head: Vec<String> = self.cells(&[]).into_iter().map(|(name, _)| name).collect();
        let line = |row: &Row| {
            let text = |cell: &Option<String>| field(cell.as_deref().unwrap_or_default());
            let mut line = format!("{},{},{},{}", row.unit, text(&row.name), field(&row.prediction), field(&row.class));
            // Writing to a string cannot fail.
            row.numbers.iter().for_each(|number| {
                let _ = write!(line, ",{number}");
            });
            if self.by.feature {
                let _ = write!(line, ",{},{}", text(&row.feature), text(&row.x));
            }
            if self.by.node {
                let _ = write!(line, ",{}", text(&row.source));
            }
            if self.by.hop {
                let _ = write!(line, ",{}", row.hop.unwrap_or(0));
            }
            line + &format!(",{}\n", row.adds)
        };
        head.join(",") + "\n" + &rows.par_iter().map(line).collect::<Vec<_>>().concat()
    }
}
