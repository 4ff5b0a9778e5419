//! Data that a trained model has not seen: a directory of tables, read by the columns of the model, a store, or a known dataset.

use super::reading::RunArgument;
use super::{voice, watch};
use crate::runs::{ModelMetadata, TrainedRun, load_dataset};
use harmonia_data::table::{self, Loaded, Options, Scoring};
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// The first model of a run, opened for other data.
///
/// # Errors
/// As [`TrainedRun::open_for`], or the data cannot be read.
pub fn open(arguments: &RunArgument, data: &str) -> Result<TrainedRun> {
    let run = TrainedRun::open_for(&arguments.first_member()?, |metadata, config| {
        let directory = Path::new(data);
        if directory.is_dir() && !directory.join("meta.json").exists() {
            return of_tables(directory, metadata);
        }
        let mut named = config.data.clone();
        named.dataset = data.to_string();
        if let Some(directory) = &arguments.directory.data_dir {
            named.dir = directory.display().to_string();
        }
        watch::with(&arguments.access.access(), |context| load_dataset(&named, context))
    })?;
    if let Some(changed) = &run.changed {
        voice::note(changed);
    }
    Ok(run)
}

/// Tables, by the names of their columns; labels are read where there are any.
fn of_tables(directory: &Path, metadata: &ModelMetadata) -> Result<Dataset> {
    let schema = metadata.table();
    schema.check(metadata.own_features()).map_err(|error| {
        Error::file(directory, format!("cannot be read by the names of the model ({error}); convert it to a store"))
    })?;
    let mut options = Options {
        directory: directory.to_path_buf(),
        directed: metadata.directed,
        model: Some(Scoring {
            schema: Arc::new(schema),
            level: metadata.level.unwrap_or(Level::Node),
            class_names: metadata.class_names.clone(),
        }),
        ..Options::default()
    };
    options.columns.regression = metadata.model.objective.is_regression();
    let name = directory.file_name().map_or("data".into(), |name| name.to_string_lossy().into_owned());
    let Loaded { dataset, notes } = table::load_noted(&name, &options)?;
    notes.iter().for_each(voice::note);
    Ok(dataset)
}
