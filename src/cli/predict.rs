//! `harmonia predict`: the class and the probabilities of every unit, as CSV, JSON lines or Parquet.

use super::output::OutputFile;
use super::reading::{RunArgument, table};
use super::{new_data, say, voice};
use crate::loss::Scored;
use crate::runs::{Names, TrainedRun};
use clap::Args;
use harmonia_data::frame::{Cells, parquet_bytes};
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::Result;
use harmonia_graph::graph::Split;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  harmonia predict runs/cora-1 --out predictions.csv
      every node of the data the model was trained on
  harmonia predict runs/customers-1 new/ --out predictions.csv
      new tables (nodes.csv, edges.csv), with or without labels: columns are found by name
  harmonia predict runs/cora-1 other-store --out predictions.jsonl
      another store, one JSON object per line; .parquet: the columns of the CSV with their types";

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgument,
    /// Other data to predict: a directory of tables, a store, or the name of a dataset
    #[arg(value_name = "DATA")]
    data: Option<String>,
    /// The same
    #[arg(long, value_name = "STORE", visible_alias = "dataset", conflicts_with = "data")]
    store: Option<String>,
    #[command(flatten)]
    tables: new_data::TableFlags,
    /// File to write, by its ending: .csv, .jsonl or .parquet; - is standard output, as CSV. Id, name, part of the split, label,
    /// prediction, one probability per class
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print what was written as one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.run.with(|| predict(arguments))
}

fn predict(arguments: &Arguments) -> Result<()> {
    let out =
        OutputFile::new("--out", &arguments.out, &["csv", "jsonl", "parquet"])?.beside_json("--out", arguments.json)?;
    let other = arguments.data.as_deref().or(arguments.store.as_deref());
    let run = new_data::asked(&arguments.run, other, &arguments.tables)?;
    let names = Names::of(&run);
    // Features are as the model sees them already.
    let model = crate::model::FittedModel { scaling: None, ..run.model.clone() };
    let logits = model.logits(&run.dataset)?;
    if names.is_regression() {
        return numbers(arguments, &out, &run, &names, &logits);
    }
    let (text, parts) = csv(&run, &names, &logits);
    write(&out, &run, &names, &logits, text)?;
    let units = run.dataset.units();
    let share = |right: usize, labelled: usize| (labelled > 0).then(|| right as f64 / labelled as f64);
    let shares = |part: &Part| [share(part.right, part.labelled()), share(part.most_frequent(), part.labelled())];
    let mut total = Part::default();
    parts.iter().for_each(|(_, part)| total.add(part));
    if arguments.json {
        let by_split = |at: usize| -> Map<String, Value> {
            parts.iter().map(|(name, part)| (name.to_string(), json!(shares(part)[at]))).collect()
        };
        let [accuracy, majority] = shares(&total);
        let object = json!({
            "out": arguments.out, "units": units, "labelled": total.labelled(), "accuracy": accuracy, "majority": majority,
            "accuracy_by_split": by_split(0), "majority_by_split": by_split(1), "classes": names.classes(),
        });
        return say(&format!("{object:#}\n"));
    }
    let mut rows = vec![vec![format!("{}s predicted", names.unit()), units.to_string()]];
    for (name, part) in &parts {
        if let [Some(right), Some(majority)] = shares(part) {
            let [right, majority] = [right, majority].map(|share| format!("{:.2} %", 100.0 * share));
            rows.push(vec![
                format!("right, of {} {name}", part.labelled()),
                right,
                format!("always the most frequent class: {majority}"),
            ]);
        }
    }
    if out.is_stdout() {
        voice::line(table(&rows, 1).trim_end());
        return Ok(());
    }
    rows.push(vec!["written to".into(), arguments.out.display().to_string()]);
    say(&table(&rows, 1))
}

/// Labels of a part of the units, and how many predictions of them are right.
#[derive(Default)]
struct Part {
    right: usize,
    by_label: BTreeMap<String, usize>,
}

impl Part {
    fn labelled(&self) -> usize {
        self.by_label.values().sum()
    }

    /// What the best constant prediction would get right.
    fn most_frequent(&self) -> usize {
        self.by_label.values().copied().max().unwrap_or(0)
    }

    fn add(&mut self, other: &Part) {
        self.right += other.right;
        other.by_label.iter().for_each(|(label, count)| *self.by_label.entry(label.clone()).or_default() += count);
    }
}

/// The file, and what is right in each part.
fn csv(run: &TrainedRun, names: &Names<'_>, logits: &[f32]) -> (String, [(&'static str, Part); 4]) {
    let (dataset, outputs) = (&run.dataset, run.factors.outputs());
    let classes = names.classes();
    let part = parts_of(dataset);
    let mut text = format!("{},name,split,label,prediction", names.unit());
    classes.iter().for_each(|class| text += &format!(",{}", field(&format!("p({class})"))));
    text += "\n";
    let mut parts = ["test", "validation", "train", "in no part"].map(|name| (name, Part::default()));
    let comparable = names.is_comparable();
    for (unit, row) in logits.chunks_exact(outputs).enumerate() {
        let row: Vec<f64> = row.iter().map(|&logit| f64::from(logit)).collect();
        let (id, name) = match dataset.level {
            Level::Node => (dataset.original_id(unit), names.node(unit).unwrap_or("")),
            Level::Graph => (unit, ""),
        };
        let (prediction, truth) = (names.predicted(&row), names.truth(unit));
        if let (Some(truth), true) = (&truth, comparable) {
            let at = parts.iter().position(|(name, _)| *name == part[unit]).unwrap_or(parts.len() - 1);
            parts[at].1.right += usize::from(*truth == prediction);
            *parts[at].1.by_label.entry(truth.clone()).or_default() += 1;
        }
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{id},{},{},{},{}",
            field(name),
            part[unit],
            field(&truth.unwrap_or_default()),
            field(&prediction)
        );
        names.probabilities(&row).iter().for_each(|p| {
            let _ = write!(text, ",{p:.6}");
        });
        text += "\n";
    }
    (text, parts)
}

/// Writes the file in the form that its ending asks for; `csv` is that form of it.
fn write(out: &OutputFile, run: &TrainedRun, names: &Names<'_>, logits: &[f32], csv: String) -> Result<()> {
    match out.ending() {
        "jsonl" => out.write(&lines(run, names, logits)),
        "parquet" => out.write_bytes(&parquet_bytes(&columns(run, names, logits))?),
        _ => out.write(&csv),
    }
}

/// The columns of the CSV, with their types.
fn columns(run: &TrainedRun, names: &Names<'_>, logits: &[f32]) -> Vec<(String, Cells)> {
    let (dataset, outputs) = (&run.dataset, run.factors.outputs());
    let (part, is_node) = (parts_of(dataset), dataset.level == Level::Node);
    let rows: Vec<Vec<f64>> =
        logits.chunks_exact(outputs).map(|row| row.iter().map(|&logit| f64::from(logit)).collect()).collect();
    let units = 0..rows.len();
    let id = |unit: usize| if is_node { dataset.original_id(unit) } else { unit } as i64;
    let name = |unit: usize| names.node(unit).filter(|_| is_node).map(String::from);
    let mut columns = vec![
        (names.unit().to_string(), Cells::Whole(units.clone().map(id).collect())),
        ("name".into(), Cells::Texts(units.clone().map(name).collect())),
        ("split".into(), Cells::Texts(part.iter().map(|&part| Some(part.to_string())).collect())),
    ];
    if names.is_regression() {
        let targets = names.classes();
        let comparable = run.model.objective.fits(&dataset.labels) && dataset.labels.outputs() == outputs;
        let called = |what: &str, target: &str| if outputs == 1 { what.into() } else { format!("{what}({target})") };
        for (at, target) in targets.iter().enumerate() {
            let label = |unit: usize| {
                let value = if comparable { dataset.labels.values(unit)[at] } else { f32::NAN };
                Some(f64::from(value)).filter(|value| !value.is_nan())
            };
            columns.push((called("label", target), Cells::Numbers(units.clone().map(label).collect())));
        }
        for (at, target) in targets.iter().enumerate() {
            let predicted = rows.iter().map(|row| Some(row[at])).collect();
            columns.push((called("prediction", target), Cells::Numbers(predicted)));
        }
        return columns;
    }
    columns.push(("label".into(), Cells::Texts(units.map(|unit| names.truth(unit)).collect())));
    columns.push(("prediction".into(), Cells::Texts(rows.iter().map(|row| Some(names.predicted(row))).collect())));
    let probabilities: Vec<Vec<f64>> = rows.iter().map(|row| names.probabilities(row)).collect();
    for (at, class) in names.classes().iter().enumerate() {
        let column = probabilities.iter().map(|row| row.get(at).copied()).collect();
        columns.push((format!("p({class})"), Cells::Numbers(column)));
    }
    columns
}

/// One JSON object per unit.
fn lines(run: &TrainedRun, names: &Names<'_>, logits: &[f32]) -> String {
    let (dataset, part) = (&run.dataset, parts_of(&run.dataset));
    let mut text = String::new();
    for (unit, row) in logits.chunks_exact(run.factors.outputs()).enumerate() {
        let row: Vec<f64> = row.iter().map(|&logit| f64::from(logit)).collect();
        let node = dataset.level == Level::Node;
        let mut object = json!({
            names.unit(): if node { dataset.original_id(unit) } else { unit },
            "name": if node { names.node(unit) } else { None },
            "split": Some(part[unit]).filter(|part| !part.is_empty()),
            "label": names.truth(unit),
            "prediction": names.predicted(&row),
        });
        if names.is_regression() {
            object["prediction"] = if let [value] = row[..] { json!(value) } else { json!(row) };
        } else {
            let classes = names.classes().into_iter().zip(names.probabilities(&row));
            object["probabilities"] = classes.map(|(class, p)| (class, json!(p))).collect::<Map<_, _>>().into();
        }
        text += &format!("{object}\n");
    }
    text
}

/// The part of the split that each unit is in; empty for none.
fn parts_of(dataset: &Dataset) -> Vec<&'static str> {
    let mut part = vec![""; dataset.units()];
    let Split { train, valid, test } = &dataset.split;
    for (name, units) in [("train", train), ("validation", valid), ("test", test)] {
        units.iter().for_each(|&unit| part[unit as usize] = name);
    }
    part
}

/// A regression: the numbers themselves, in the units of the target, and how far off they are.
fn numbers(arguments: &Arguments, out: &OutputFile, run: &TrainedRun, names: &Names<'_>, values: &[f32]) -> Result<()> {
    let (dataset, outputs) = (&run.dataset, run.factors.outputs());
    let (targets, part) = (names.classes(), parts_of(dataset));
    let comparable = run.model.objective.fits(&dataset.labels) && dataset.labels.outputs() == outputs;
    let column = |what: &str, target: &String| if outputs == 1 { what.into() } else { format!("{what}({target})") };
    let head = ["label", "prediction"].iter().flat_map(|what| targets.iter().map(move |target| column(what, target)));
    let mut text =
        format!("{},name,split,{}\n", names.unit(), head.map(|name| field(&name)).collect::<Vec<_>>().join(","));
    for (unit, row) in values.chunks_exact(outputs).enumerate() {
        let (id, name) = match dataset.level {
            Level::Node => (dataset.original_id(unit), names.node(unit).unwrap_or("")),
            Level::Graph => (unit, ""),
        };
        let truth = if comparable { dataset.labels.values(unit) } else { &[] };
        let known =
            |output: usize| truth.get(output).filter(|value| !value.is_nan()).map_or(String::new(), f32::to_string);
        let cells = (0..outputs).map(known).chain(row.iter().map(f32::to_string));
        text += &format!("{id},{},{},{}\n", field(name), part[unit], cells.collect::<Vec<_>>().join(","));
    }
    write(out, run, names, values, text)?;
    let mut scores = Vec::new();
    for name in ["test", "validation", "train", ""] {
        let of_part = |unit: &u32| part[*unit as usize] == name && dataset.labels.is_labelled(*unit as usize);
        let units: Vec<u32> = (0..dataset.units() as u32).filter(|unit| comparable && of_part(unit)).collect();
        if !units.is_empty() {
            let logits: Vec<f32> =
                units.iter().flat_map(|&unit| &values[unit as usize * outputs..][..outputs]).copied().collect();
            let scored = Scored { labels: &dataset.labels, units: &units, logits: &logits, scaling: None };
            let shown = if name.is_empty() { "in no part" } else { name };
            // Without the scale of training there is no loss to speak of.
            scores.push((shown, units.len(), run.model.objective.score(&scored).only(|score| score != "loss")));
        }
    }
    if arguments.json {
        let by_split: Map<String, Value> =
            scores.iter().map(|(part, _, scores)| (part.to_string(), json!(scores))).collect();
        let labelled: usize = scores.iter().map(|(_, units, _)| units).sum();
        let object = json!({
            "out": arguments.out, "units": dataset.units(), "labelled": labelled, "scores_by_split": by_split,
            "targets": targets,
        });
        return say(&format!("{object:#}\n"));
    }
    let mut rows = vec![vec![format!("{}s predicted", names.unit()), dataset.units().to_string()]];
    for (part, units, scores) in &scores {
        let words = |name: &str| scores.get(name).map_or(String::new(), |value| format!("{name} {value:.4}"));
        rows.push(vec![format!("{units} {part}"), ["r2", "rmse", "mae"].map(words).join(", ")]);
    }
    rows.push(vec!["written to".into(), arguments.out.display().to_string()]);
    say(&table(&rows, 1))
}

/// A field of a CSV file, quoted where it has to be. A text that a spreadsheet would take for a formula gets a `'` in
/// front; numbers stay as they are.
pub fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let text = &if formula { format!("'{text}") } else { text.to_string() };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn a_name_that_begins_like_a_formula_is_none_in_a_spreadsheet() {
        assert_eq!(field("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        assert_eq!((field("@sum").as_str(), field("+a").as_str(), field("-b").as_str()), ("'@sum", "'+a", "'-b"));
        assert_eq!((field("-1").as_str(), field("+1.5e3").as_str(), field("a=b").as_str()), ("-1", "+1.5e3", "a=b"));
    }
}
