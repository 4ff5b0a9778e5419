//! A dataset by what the user calls it: a known name, or the path of a store.

use crate::obtain::{self, Context};
use crate::{catalogue, locate, synthetic};
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result, suggestion};
use harmonia_graph::store;
use std::path::Path;

/// Loads a dataset: a known name (its files below `directory`), the synthetic study with a data index, or a store.
///
/// # Errors
/// Unknown name, missing or damaged files, or data that does not fit together.
pub fn named(dataset: &str, directory: Option<&Path>, index: u32, context: &Context) -> Result<Dataset> {
    match dataset.to_lowercase().as_str() {
        SYNTHETIC => synthetic::generate(index),
        name => match catalogue::find(name) {
            Some(entry) => obtain::dataset(entry, directory, context),
            None if is_store(dataset) => store::read(Path::new(dataset)),
            None => Err(unknown(dataset)),
        },
    }
}

/// Whether a dataset can be loaded without fetching anything; it may be damaged all the same.
pub fn is_here(dataset: &str, directory: Option<&Path>) -> bool {
    match dataset.to_lowercase().as_str() {
        SYNTHETIC => true,
        name => match (catalogue::find(name), locate::data_directory(directory)) {
            (Some(entry), Ok(directory)) => {
                let raw = locate::find_raw(entry, &directory);
                raw.is_some() || !matches!(obtain::existing(entry, &directory, None), Ok(None))
            }
            (Some(_), Err(_)) => false,
            (None, _) => Path::new(dataset).exists(),
        },
    }
}

/// The dataset that is made, not read.
const SYNTHETIC: &str = "synthetic";

/// Whether `dataset` means a directory rather than a known name.
pub fn is_store(dataset: &str) -> bool {
    !dataset.eq_ignore_ascii_case(SYNTHETIC) && catalogue::find(dataset).is_none() && Path::new(dataset).is_dir()
}

fn unknown(given: &str) -> Error {
    let names = || [SYNTHETIC].into_iter().chain(catalogue::ALL.iter().map(|entry| entry.name));
    if Path::new(given).is_file() {
        return Error::file(Path::new(given), "is a file; convert it to a store, then give its directory");
    }
    Error::Config(format!(
        "there is no dataset and no directory `{given}`{}\nknown datasets: {}; or give the path of a store directory",
        suggestion(given, names()),
        names().collect::<Vec<_>>().join(", ")
    ))
}
