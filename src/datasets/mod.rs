//! Datasets: what a task is ([`Dataset`]) and where tasks come from, one source a file.
//!
//! A known name goes through [`obtain`]: located or fetched ([`catalogue`], [`locate`], [`download`]), converted to a
//! store ([`convert`] and a reader a format), and opened. [`prepare`] then settles split and scaling for one run.

pub mod archive;
pub mod catalogue;
pub mod convert;
mod dataset;
pub mod download;
mod features;
pub mod generate;
pub mod heterophilous;
pub mod igb;
pub mod locate;
mod normalise;
pub mod npz;
pub mod obtain;
pub mod ogb;
pub mod pickle;
pub mod planetoid;
pub mod smiles;
mod split_rule;
pub mod statistics;
pub mod synthetic;
pub mod table;
mod tarball;
pub mod text;
pub mod tudataset;

pub use dataset::{Dataset, Labels, Level, NodeOrder, Objective, UNLABELLED};
pub use features::{Features, SparseRows, Values};
pub use locate::DATA_VARIABLE;
pub use normalise::{Normalise, Scaling};
pub use split_rule::SplitRule;

use crate::config::{Config, Data};
use crate::error::{Error, Result, suggestion};
use crate::store;
use crate::train::RunName;
use obtain::Context;
use std::path::Path;
use std::sync::Arc;

/// Loads what `data` asks for: a known name, or the path of a store. Split and scaling are settled by [`prepare`].
///
/// # Errors
/// Unknown name, missing or damaged files, or data that does not fit together.
pub fn load(data: &Data, context: &Context) -> Result<Dataset> {
    let mut dataset = match data.dataset.to_lowercase().as_str() {
        SYNTHETIC => synthetic::generate(data.index)?,
        name => match catalogue::find(name) {
            Some(entry) => {
                let directory = Some(Path::new(&data.dir)).filter(|directory| !directory.as_os_str().is_empty());
                obtain::dataset(entry, directory, context)?
            }
            None if is_store(&data.dataset) => store::read(Path::new(&data.dataset))?,
            None => return Err(unknown(&data.dataset)),
        },
    };
    if dataset.truth.is_some() && (data.normalise != Normalise::None || data.undirected) {
        let message = "data.normalise and data.undirected would change what the synthetic truth was made from";
        return Err(Error::Config(message.into()));
    }
    if data.undirected {
        dataset.graph = dataset.graph.undirected()?;
    }
    Ok(dataset)
}

/// The dataset as one run sees it: its split drawn, its features rescaled, and what that took.
///
/// # Errors
/// The dataset is too small for the split, or scaling leaves numbers that are not finite.
pub fn prepare(dataset: &Dataset, config: &Config, run: RunName) -> Result<(Dataset, Option<Scaling>)> {
    let rule = match run.fold {
        Some(fold) => SplitRule::Fold { folds: config.run.folds, fold },
        None => SplitRule::parse(&config.data.split)?,
    };
    let mut prepared = dataset.clone();
    rule.apply(&mut prepared, run.seed)?;
    let mut scaling = None;
    if config.data.normalise != Normalise::None {
        let (features, taken) = config.data.normalise.apply(&prepared)?;
        (prepared.features, scaling) = (Arc::new(features), taken);
    }
    Ok((prepared, scaling))
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
        return Error::file(
            Path::new(given),
            "is a file; make a store of it with harmonia data convert, then give its directory",
        );
    }
    Error::Config(format!(
        "there is no dataset and no directory `{given}`{}\nknown datasets: {}; or give the path of a store directory",
        suggestion(given, names()),
        names().collect::<Vec<_>>().join(", ")
    ))
}
