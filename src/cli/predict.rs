//! `harmonia predict`: the class and the probabilities of every unit, as a CSV file.

use super::reading::{RunArgument, table};
use super::{say, watch};
use crate::datasets::{Dataset, Labels, Level};
use crate::error::{Error, Result};
use crate::explain::{Names, Run};
use crate::{datasets, files, store};
use clap::Args;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

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
    /// File to write: id, name, part of the split, label, prediction, one probability a class
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
    let mut run = arguments.run.first()?;
    if let Some(other) = &arguments.store {
        let dataset = other_data(arguments, other, &run)?;
        run.dataset = dataset;
    }
    let names = Names::of(&run);
    // Features are as the model sees them already.
    let model = crate::model::FittedModel { scaling: None, ..run.model.clone() };
    let logits = model.logits(&run.dataset)?;
    let (text, right, labelled) = csv(&run, &names, &logits);
    files::write_atomic(&arguments.out, text.as_bytes())?;
    let units = run.dataset.units();
    let accuracy = (labelled > 0).then(|| right as f64 / labelled as f64);
    if arguments.json {
        let object = json!({
            "out": arguments.out, "units": units, "labelled": labelled, "accuracy": accuracy, "classes": names.classes(),
        });
        return say(&format!("{object:#}\n"));
    }
    let mut rows = vec![vec![format!("{}s predicted", names.unit()), units.to_string()]];
    if let Some(accuracy) = accuracy {
        rows.push(vec![format!("right, of {labelled} with a label"), format!("{:.2} %", 100.0 * accuracy)]);
    }
    rows.push(vec!["written to".into(), arguments.out.display().to_string()]);
    say(&table(&rows, 1))
}

/// Other data, rescaled as the model asks.
fn other_data(arguments: &Arguments, name: &str, run: &Run) -> Result<Dataset> {
    let mut data = run.config.data.clone();
    data.dataset = name.to_string();
    if let Some(directory) = &arguments.run.directory.data_dir {
        data.dir = directory.display().to_string();
    }
    let mut dataset = match std::path::Path::new(name).is_dir() {
        true => store::read(std::path::Path::new(name))?,
        false => watch::with(&arguments.run.access.access(), |context| datasets::load(&data, context))?,
    };
    if data.undirected {
        dataset.graph = dataset.graph.undirected()?;
    }
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
    let own = &run.metadata.feature_names;
    if let Some(k) = (0..found).find(|&k| own.get(k).is_some_and(|own| *own != dataset.feature_names[k])) {
        eprintln!(
            "note: feature {k} is called `{}` in the model and `{}` in {}; columns are taken by number",
            own[k], dataset.feature_names[k], dataset.name
        );
    }
    if let Some(scaling) = &run.model.scaling {
        dataset.features = std::sync::Arc::new(scaling.apply(&dataset.features)?);
    }
    Ok(dataset)
}

/// The file, how many predictions are right, and how many units have a label that is comparable.
fn csv(run: &Run, names: &Names<'_>, logits: &[f32]) -> (String, usize, usize) {
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
    let (mut right, mut labelled) = (0, 0);
    let comparable = matches!(&dataset.labels, Labels::Classes { classes: count, .. } if *count == classes.len());
    for (unit, row) in logits.chunks_exact(outputs).enumerate() {
        let row: Vec<f64> = row.iter().map(|&logit| f64::from(logit)).collect();
        let (id, name) = match dataset.level {
            Level::Node => (dataset.original_id(unit), names.node(unit).unwrap_or("")),
            Level::Graph => (unit, ""),
        };
        let (prediction, truth) = (names.predicted(&row), names.truth(unit));
        if let (Some(truth), true) = (&truth, comparable) {
            labelled += 1;
            right += usize::from(*truth == prediction);
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
    (text, right, labelled)
}

/// A field of a CSV file, quoted where it has to be.
pub fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}
