//! `--set [NODE:]FEATURE=VALUE`: a feature of one node with another value, read as the data have it.
//!
//! A column of a table is set as a whole: a number fills its gap, a category takes the place of another.

use crate::answers::Setting;
use crate::cli::reading::{number, short};
use crate::cli::voice;
use crate::explain::{Distribution, Target, Units};
use crate::runs::{Names, TrainedRun};
use harmonia_graph::dataset::Scaling;
use harmonia_graph::error::{Error, Result};
use serde_json::Value;

/// What the flags ask for, checked: every value at most once.
pub fn settings(flags: &[String], run: &TrainedRun, names: &Names<'_>, target: Target) -> Result<Vec<Setting>> {
    let mut all: Vec<Setting> = Vec::new();
    let by_row = matches!(run.model.scaling, Some(Scaling::Rows));
    for flag in flags {
        let (node, feature, text) = parsed(flag, names, target)?;
        if all.iter().any(|known| known.place() == (node, feature)) {
            let (name, node) = (names.group(feature), names.node_text(node));
            return Err(Error::Config(format!("--set {flag}: {name} of node {node} is set twice")));
        }
        let setting = Setting::new(run, names, (node, feature), text.trim()).map_err(|error| match error {
            Error::Config(what) => Error::Config(format!("--set {flag}: {what}")),
            other => other,
        })?;
        if let Some(number) = setting.number() {
            note_outside(run, run.factors.groups().columns(feature).start, &names.group(feature), number);
        }
        all.push(setting);
    }
    if by_row && !all.is_empty() {
        voice::note(
            "features of a node are divided by their sum (data.normalise = row): --set gives the divided value, and the others \
             stay as they are",
        );
    }
    Ok(all)
}

/// Says so where a number lies beyond those of the data.
fn note_outside(run: &TrainedRun, k: usize, name: &str, after: f64) {
    let units = Units::of(run.model.scaling.as_ref(), k);
    let [low, high] = Distribution::of(&run.dataset.features, &[k])[0].range.map(|x| units.own(x));
    // Rounding must not put a value outside that is an end.
    let slack = 1e-5 * (high - low).abs().max(low.abs()).max(high.abs());
    if after < low - slack || after > high + slack {
        voice::note(format_args!(
            "{name} = {after} lies outside of the data, {} to {}: there the response goes on along its last slope",
            number(low),
            number(high)
        ));
    }
}

/// Names and values may hold `=` and `:`: the last split that leaves a feature, and where there is one a node, is taken.
fn parsed<'a>(flag: &'a str, names: &Names<'_>, target: Target) -> Result<(usize, usize, &'a str)> {
    let mut wrong = None;
    for (at, _) in flag.rmatch_indices('=') {
        match place(flag, flag[..at].trim(), names, target) {
            Ok((node, feature)) => return Ok((node, feature, &flag[at + 1..])),
            Err(error) => wrong = wrong.or(Some(error)),
        }
    }
    Err(wrong.unwrap_or_else(|| {
        Error::Config(format!("--set {flag}: expected FEATURE=VALUE or NODE:FEATURE=VALUE, as in age=50"))
    }))
}

/// The node and the feature of `[NODE:]FEATURE`.
fn place(flag: &str, left: &str, names: &Names<'_>, target: Target) -> Result<(usize, usize)> {
    let own = match target {
        Target::Node(node) => names.find_group(left).map(|feature| (node, feature)),
        Target::Graph(_) => {
            Err(Error::Config(format!("--set {flag}: of a graph, name the node too: NODE:FEATURE=VALUE")))
        }
    };
    let wrong = match own {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    let mut closest = None;
    for (at, _) in left.match_indices(':') {
        match (names.find_node(left[..at].trim()), names.find_group(left[at + 1..].trim())) {
            (Ok(node), Ok(feature)) => return Ok((node, feature)),
            // Where one half is known, the other says what is wrong with it.
            (Ok(_), Err(error)) | (Err(error), Ok(_)) => closest = closest.or(Some(error)),
            _ => {}
        }
    }
    Err(closest.unwrap_or(wrong))
}

/// A value for a line of text.
fn shown(value: &Value) -> String {
    value.as_f64().map_or_else(|| short(value.as_str().unwrap_or_default()), number)
}

/// A setting for people.
pub fn text(setting: &Setting, names: &Names<'_>) -> String {
    let (node, feature) = setting.place();
    let (feature, node) = (short(&names.group(feature)), names.node_text(node));
    format!("{feature} of node {node} = {} (was {})", shown(&setting.after), shown(&setting.before))
}
