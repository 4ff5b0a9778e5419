//! The dataset that settings name.

use crate::config::Data;
use harmonia_data::obtain::Context;
use harmonia_graph::dataset::{Dataset, Normalise};
use harmonia_graph::error::{Error, Result};
use std::path::Path;

/// Whether what `data` asks for is on this machine, so that it can be loaded without a download.
pub fn is_here(data: &Data) -> bool {
    let directory = Some(Path::new(&data.dir)).filter(|directory| !directory.as_os_str().is_empty());
    harmonia_data::is_here(&data.dataset, directory)
}

/// Whether what `data` asks for is neither on this machine nor a dataset that could be fetched.
pub fn is_gone(data: &Data) -> bool {
    !is_here(data) && harmonia_data::catalogue::find(&data.dataset).is_none()
}

/// Loads what `data` asks for: a known name, or the path of a store. Split and scaling are settled by
/// [`prepare`](crate::train::prepare).
///
/// # Errors
/// Unknown name, missing or damaged files, or data that does not fit together.
pub fn load_dataset(data: &Data, context: &Context) -> Result<Dataset> {
    let directory = Some(Path::new(&data.dir)).filter(|directory| !directory.as_os_str().is_empty());
    let mut dataset = harmonia_data::named(&data.dataset, directory, data.index, context)?;
    if dataset.truth.is_some() && (data.normalise != Normalise::None || data.undirected) {
        let message = "data.normalise and data.undirected would change what the synthetic truth was made from";
        return Err(Error::Config(message.into()));
    }
    if data.undirected {
        dataset.graph = dataset.graph.undirected()?;
    }
    Ok(dataset)
}
