//! `harmonia predict`: the class and the probabilities of every unit, as a CSV file.

use super::output::OutputFile;
use super::reading::{RunArgument, table};
use super::{say, voice, watch};
use crate::loss::Scored;
use crate::runs::load_dataset;
use crate::runs::{Matched, Names, TrainedRun, match_columns};
use clap::Args;
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::Split;
use serde_json::{Map, Value, json};
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
    if names.is_regression() {
        return numbers(arguments, &out, &run, &names, &logits);
    }
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

/// Other data as the model asks for them: columns in its order, structural ones added, rescaled.
fn other_data(arguments: &Arguments, name: &str, run: &TrainedRun) -> Result<Dataset> {
    let mut data = run.config.data.clone();
    data.dataset = name.to_string();
    if let Some(directory) = &arguments.run.directory.data_dir {
        data.dir = directory.display().to_string();
    }
    let mut dataset = watch::with(&arguments.run.access.access(), |context| load_dataset(&data, context))?;
    let (expected, found) = (run.dataset.own_features(), dataset.features.cols);
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
    let names = &run.metadata.feature_names;
    by_name(&mut dataset, &names[..expected.min(names.len())])?;
    if let Some(structure) = &run.model.structure {
        dataset = structure.append(&dataset)?;
    }
    if let Some(scaling) = &run.model.scaling {
        dataset.features = Arc::new(scaling.apply(&dataset)?);
    }
    Ok(dataset)
}

/// Puts columns in the order of the model's names, where there are names.
fn by_name(dataset: &mut Dataset, names: &[String]) -> Result<()> {
    let refused = |why| Error::Data(format!("{why}: expected the same names of columns, in any order"));
    match match_columns(dataset, names).map_err(refused)? {
        Matched::Alike => {}
        Matched::Reordered => {
            voice::note(format_args!("columns of {} are taken by name: they come in another order", dataset.name));
        }
        Matched::ByNumber => {
            voice::note(format_args!("columns of {} are taken by number: there are no names to go by", dataset.name));
        }
    }
    Ok(())
}

/// A part of the units, how many predictions in it are right, and how many could be.
type PartCounts = (&'static str, [usize; 2]);

/// The file, and counts of each part.
fn csv(run: &TrainedRun, names: &Names<'_>, logits: &[f32]) -> (String, [PartCounts; 4]) {
    let (dataset, outputs) = (&run.dataset, run.factors.outputs());
    let classes = names.classes();
    let part = parts_of(dataset);
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
    out.write(&text)?;
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
