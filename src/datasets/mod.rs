//! Datasets: what a task is ([`Dataset`]) and where tasks come from, one source a file.

mod dataset;
pub mod pickle;
pub mod planetoid;
mod split_rule;
pub mod synthetic;

pub use dataset::{Dataset, Features, Labels, Level, Objective, UNLABELLED};
pub use split_rule::SplitRule;

use crate::config::Data;
use crate::error::{Error, Result, suggestion};
use crate::{presets, store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Environment variable that names the directory of raw files.
pub const DATA_VARIABLE: &str = "HARMONIA_DATA";

/// Loads what `data` asks for: a known name, or the path of a store. Random splits follow `seed`.
///
/// # Errors
/// Unknown name, missing or damaged files, or data that does not fit together.
pub fn load(data: &Data, seed: u64) -> Result<Dataset> {
    let rule = SplitRule::parse(&data.split)?;
    let mut dataset = match data.dataset.to_lowercase().as_str() {
        "synthetic" => synthetic::generate(data.index)?,
        "cora" => planetoid::load("Cora", &raw_directory(data, "cora")?)?,
        "citeseer" => planetoid::load("CiteSeer", &raw_directory(data, "citeseer")?)?,
        _ if is_store(&data.dataset) => store::read(Path::new(&data.dataset))?,
        name => return Err(unknown(name, &data.dataset)),
    };
    if data.row_normalise {
        if dataset.truth.is_some() {
            return Err(Error::Config("data.row_normalise would change what the synthetic truth was made from".into()));
        }
        Arc::make_mut(&mut dataset.features).normalise_rows();
        // Rows of mixed signs can sum to almost nothing.
        dataset.check()?;
    }
    rule.apply(&mut dataset, seed)?;
    Ok(dataset)
}

/// Datasets that are read or made by name.
const READABLE: [&str; 3] = ["synthetic", "cora", "citeseer"];

/// Whether `dataset` means a directory rather than a known name.
pub fn is_store(dataset: &str) -> bool {
    !READABLE.contains(&dataset.to_lowercase().as_str()) && Path::new(dataset).is_dir()
}

fn raw_directory(data: &Data, name: &str) -> Result<PathBuf> {
    if !data.dir.is_empty() {
        return Ok(PathBuf::from(&data.dir));
    }
    match std::env::var_os(DATA_VARIABLE).filter(|value| !value.is_empty()) {
        Some(directory) => Ok(PathBuf::from(directory)),
        None => Err(Error::Config(format!(
            "dataset `{name}` is read from files: give their directory with --data-dir DIR or {DATA_VARIABLE}=DIR"
        ))),
    }
}

fn unknown(name: &str, given: &str) -> Error {
    if presets::find(name).is_some() {
        return Error::Config(format!(
            "dataset `{name}` has a preset but no reader yet; convert it to a store directory and use \
             --dataset DIR --preset {name} (readers so far: {})",
            READABLE.join(", ")
        ));
    }
    Error::Config(format!(
        "there is no dataset and no directory `{given}`{}\nknown datasets: {}; or give the path of a store directory",
        suggestion(given, READABLE),
        READABLE.join(", ")
    ))
}
