//! `harmonia predict`: the class and the probabilities of every unit, as a CSV file.

use super::output::OutputFile;
use super::reading::{RunArgument, table};
use super::{say, voice, watch};
use crate::runs::load_dataset;
use crate::runs::{Names, TrainedRun};
use clap::Args;
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

pub const EXAMPLES: &str = "\
Examples:
  harmonia predict runs/cora-1 --out predictions.csv
      every node of the data the model was trained on
  harmonia predict runs/cora-1 --store other-store --out predictions.csv
      other data with the same features";

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgument,
    /// Other data to predict: a store directory or the name of a dataset
    #[arg(long, value_name = "STORE", visible_alias = "dataset")]
    store: Option<String>,
    /// File to write: id, name, part of the split, label, prediction, one probability per class; - is standard output
    #[arg(long, value_name = "FILE.csv")]
    out: PathBuf,
    /// Print what was written as one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.run.with(|| predict(arguments))
}

fn predict(arguments: &Arguments) -> Result<()> {
    let out = OutputFile::new("--out", &arguments.out, &["csv"])?.beside_json("--out", arguments.json)?;
    let mut run = arguments.run.first()?;
    if let Some(other) = &arguments.store {
        let dataset = other_data(arguments, other, &run)?;
        run.dataset = dataset;
    }
    let names = Names::of(&run);
    // Features are as the model sees them already.
    let model = crate::model::FittedModel { scaling: None, ..run.model.clone() };
    let logits = model.logits(&run.dataset)?;
    let (text, parts) = csv(&run, &names, &logits);
    out.write(&text)?;
    let units = run.dataset.units();
    let share = |[right, labelled]: [usize; 2]| (labelled > 0).then(|| right as f64 / labelled as f64);
    let total = parts.iter().fold([0, 0], |[a, b], (_, [right, labelled])| [a + right, b + labelled]);
    if arguments.json {
        let by_split: Map<String, Value> =
            parts.iter().map(|(part, counts)| (part.to_string(), json!(share(*counts)))).collect();
        let object = json!({
            "out": arguments.out, "units": units, "labelled": total[1], "accuracy": share(total),
            "accuracy_by_split": by_split, "classes": names.classes(),
        });
        return say(&format!("{object:#}\n"));
    }
    let mut rows = vec![vec![format!("{}s predicted", names.unit()), units.to_string()]];
    for (part, counts) in parts {
        if let Some(share) = share(counts) {
            rows.push(vec![format!("right, of {} {part}", counts[1]), format!("{:.2} %", 100.0 * share)]);
        }
    }
    if out.is_stdout() {
        voice::line(table(&rows, 1).trim_end());
        return Ok(());
    }
    rows.push(vec!["written to".into(), arguments.out.display().to_string()]);
    say(&table(&rows, 1))
}

/// Other data, rescaled as the model asks.
fn other_data(arguments: &Arguments, name: &str, run: &TrainedRun) -> Result<Dataset> {
    let mut data = run.config.data.clone();
    data.dataset = name.to_string();
    if let Some(directory) = &arguments.run.directory.data_dir {
        data.dir = directory.display().to_string();
    }
    let mut dataset = watch::with(&arguments.run.access.access(), |context| load_dataset(&data, context))?;
    let (expected, found) = (run.factors.features(), dataset.features.cols);
    if expected != found {
        return Err(Error::Data(format!("the model reads {expected} features, {} has {found}", dataset.name)));
    }
    if dataset.level != run.dataset.level {
        let level = |level| if level == Level::Node { "nodes" } else { "graphs" };
        return Err(Error::Data(format!(
            "the model predicts {}, {} has labels of {}",
            level(run.dataset.level),
            dataset.name,
            level(dataset.level)
        )));
    }
    by_name(&mut dataset, &run.metadata.feature_names);
    if let Some(scaling) = &run.model.scaling {
        dataset.features = Arc::new(scaling.apply(&dataset.features)?);
    }
    Ok(dataset)
}

/// Puts columns in the order of the model's names, where the same names are there.
fn by_name(dataset: &mut Dataset, names: &[String]) {
    let Some(k) = (0..names.len()).find(|&k| dataset.feature_names.get(k) != names.get(k)) else { return };
    let place: HashMap<&String, usize> = dataset.feature_names.iter().zip(0..).collect();
    let columns: Option<Vec<usize>> = names.iter().map(|name| place.get(name).copied()).collect();
    match columns.filter(|_| place.len() == names.len()) {
        Some(columns) => {
            voice::note(format_args!("columns of {} are taken by name: they come in another order", dataset.name));
            dataset.features = Arc::new(dataset.features.columns(&columns));
            dataset.feature_names = names.to_vec();
        }
        None => voice::note(format_args!(
            "feature {k} is called `{}` in the model and `{}` in {}; columns are taken by number",
            names[k], dataset.feature_names[k], dataset.name
        )),
    }
}

/// A part of the units, how many predictions in it are right, and how many could be.
type PartCounts = (&'static str, [usize; 2]);

/// The file, and counts of each part.
fn csv(run: &TrainedRun, names: &Names<'_>, logits: &[f32]) -> (String, [PartCounts; 4]) {
    let (dataset, outputs) = (&run.dataset, run.factors.outputs());
    let classes = names.classes();
    let mut part = vec![""; dataset.units()];
    for (name, units) in
        [("train", &dataset.split.train), ("validation", &dataset.split.valid), ("test", &dataset.split.test)]
    {
        units.iter().for_each(|&unit| part[unit as usize] = name);
    }
    let mut text = format!("{},name,split,label,prediction", names.unit());
    classes.iter().for_each(|class| text += &format!(",{}", field(&format!("p({class})"))));
    text += "\n";
    let mut parts: [PartCounts; 4] =
        [("test", [0; 2]), ("validation", [0; 2]), ("train", [0; 2]), ("in no part", [0; 2])];
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
            parts[at].1[0] += usize::from(*truth == prediction);
            parts[at].1[1] += 1;
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

/// A field of a CSV file, quoted where it has to be.
pub fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}
