//! Data that a trained model has not seen: a directory of tables, read by the columns of the model, a store, or a known dataset.

use super::reading::RunArgument;
use super::{roles, voice, watch};
use crate::runs::{ModelMetadata, TrainedRun, load_dataset};
use clap::Args;
use harmonia_data::table::{self, Loaded, Options, Scoring};
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// How new tables are read, where they are not as the tables of training were.
#[derive(Args, Clone, Debug)]
pub struct TableFlags {
    /// New tables: leave out rows of edges that are wrong, and count them
    #[arg(long)]
    drop_bad_rows: bool,
    /// New tables: only edges with this value in this column, as in kind=follows
    #[arg(long, value_name = "NAME=VALUE")]
    relation: Option<String>,
    /// New tables: a file by its role, as in edges=links.csv; may be repeated
    #[arg(long, value_name = "ROLE=FILE")]
    table: Vec<String>,
    /// New tables: a column by its role, as in source=from; may be repeated
    #[arg(long, value_name = "ROLE=NAME")]
    column: Vec<String>,
    /// New tables: a column to pass over; may be repeated
    #[arg(long, value_name = "NAME")]
    ignore: Vec<String>,
}

impl TableFlags {
    /// Refuses flags that nothing would obey.
    ///
    /// # Errors
    /// One is given.
    pub fn refuse(&self) -> Result<()> {
        let lists = [&self.table, &self.column, &self.ignore];
        match self.drop_bad_rows || self.relation.is_some() || lists.iter().any(|words| !words.is_empty()) {
            true => Err(Error::Config(
                "--drop-bad-rows, --relation, --table, --column and --ignore are for new tables: name their directory"
                    .into(),
            )),
            false => Ok(()),
        }
    }
}

/// A relation by its column and value.
///
/// # Errors
/// It is no NAME=VALUE.
pub fn relation(word: &str) -> Result<(String, String)> {
    match word.split_once('=').filter(|(column, _)| !column.is_empty()) {
        Some((column, value)) => Ok((column.to_string(), value.to_string())),
        None => Err(Error::Config(format!("--relation {word}: expected NAME=VALUE, as in kind=follows"))),
    }
}

/// The first model of a run with other data, where some are named, or with those of training.
///
/// # Errors
/// As [`open`] and [`RunArgument::first`], or flags of new tables without any.
pub fn asked(arguments: &RunArgument, data: Option<&str>, flags: &TableFlags) -> Result<TrainedRun> {
    match data {
        Some(data) => open(arguments, data, flags),
        None => {
            flags.refuse()?;
            arguments.first()
        }
    }
}

/// The first model of a run, opened for other data.
///
/// # Errors
/// As [`TrainedRun::open_for`], or the data cannot be read.
pub fn open(arguments: &RunArgument, data: &str, flags: &TableFlags) -> Result<TrainedRun> {
    let run = TrainedRun::open_for(&arguments.first_member()?, |metadata, config| {
        let directory = Path::new(data);
        if directory.is_dir() && !directory.join("meta.json").exists() {
            return of_tables(directory, metadata, flags);
        }
        flags.refuse()?;
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
fn of_tables(directory: &Path, metadata: &ModelMetadata, flags: &TableFlags) -> Result<Dataset> {
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
    options.columns.ignore.clone_from(&flags.ignore);
    roles::files(&mut options, &flags.table)?;
    roles::columns(&mut options.columns, &flags.column)?;
    options.drop_bad_rows = flags.drop_bad_rows;
    options.relation = flags.relation.as_deref().map(relation).transpose()?;
    let name = directory.file_name().map_or("data".into(), |name| name.to_string_lossy().into_owned());
    let Loaded { dataset, notes } = table::load_noted(&name, &options)?;
    notes.iter().for_each(voice::note);
    Ok(dataset)
}
