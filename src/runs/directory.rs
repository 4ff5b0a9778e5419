//! What a run keeps on disk, and how it survives being killed.
//!
//! One process at a time writes it, the one that holds its lock; readers need none.
//!
//! `config.toml` (effective settings), `data.json` (what data it is trained on), `metrics.jsonl` (one line per epoch; in other forms too where `run.metrics` asks for them),
//! `best.safetensors` (parameters of the best epoch), `last.safetensors` (everything needed to go on), and written at the
//! end: `centres.npy` (mean response of each feature; `centres.json` says of which model), `measured.jsonl` (where values of the data lie,
//! how much features matter), `summary.json` and `report.html`.
//! `last.safetensors` alone decides where a resumed run starts: it is replaced atomically, and whatever the other
//! files say about later epochs is cut off.

use super::{Fingerprint, metrics};
use crate::architecture::Layout;
use crate::config::{Config, MetricsFile};
use crate::explain::Factors;
use crate::model::{Checkpoint, FittedModel, ModelDescription};
use crate::settings::to_toml;
use crate::train::EpochRecord;
use crate::train::trainer::{Progress, State};
use harmonia_graph::dataset::{Level, Schema, Structure, TableColumn};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::lock::{self, Lock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Of what a model file says about itself; files of a later one are refused.
pub(super) const MODEL_VERSION: u32 = 1;

/// What `best.safetensors` says about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelMetadata {
    /// Of this form; earlier versions did not say.
    #[serde(default)]
    pub version: u32,
    /// SHA-256 of the parameters; earlier versions did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_sha256: Option<String>,
    /// Dataset it was trained on.
    pub dataset: String,
    /// Seed of the run.
    pub seed: u64,
    /// The fold that tested, in a cross-validation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// Epoch the parameters are from, counted from 1.
    pub epoch: usize,
    /// Names of the columns of X, so that the model can be read without its data.
    #[serde(default)]
    pub feature_names: Vec<String>,
    /// Names of the classes.
    #[serde(default)]
    pub class_names: Vec<String>,
    /// The columns of a table that features are made of, where they are more than numbers: other tables are read by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// Whether it predicts nodes or graphs; earlier versions did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Whether edges have a direction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub directed: bool,
    /// Whether edges have weights.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub weighted: bool,
    /// What is needed to use the parameters.
    #[serde(flatten)]
    pub model: ModelDescription,
}

impl ModelMetadata {
    /// Columns of X that are not structural.
    pub fn own_features(&self) -> usize {
        let all = self.feature_names.len();
        self.model.structure.as_ref().map_or(all, |structure| structure.features().min(all))
    }

    /// Their names.
    pub fn own_names(&self) -> Vec<String> {
        match &self.model.structure {
            Some(structure) => structure.own_names(&self.feature_names),
            None => self.feature_names.clone(),
        }
    }

    /// What a feature is in its table; none of a plain column of X.
    pub fn column(&self, feature: usize) -> Option<&TableColumn> {
        self.shown_schema().and_then(|schema| schema.columns.get(feature))
    }

    /// The columns of its table that features are shown by: of copies for every class, each is a feature for itself.
    pub fn shown_schema(&self) -> Option<&Schema> {
        let copies = self.model.structure.as_ref().map_or(1, Structure::copies);
        self.schema.as_ref().filter(|_| copies == 1)
    }

    /// Name of a feature of its model: of a column of X, or of the column of a table that several of them are.
    pub fn feature_name(&self, feature: usize, factors: &Factors) -> String {
        let first = factors.groups().columns(feature).start;
        let plain = || self.feature_names.get(first).cloned().unwrap_or_default();
        self.column(feature).map_or_else(plain, |column| column.name.clone())
    }

    /// The columns that it reads from a table.
    pub fn table(&self) -> Schema {
        match &self.schema {
            Some(schema) => schema.clone(),
            None => Schema::of_numbers(&self.own_names()),
        }
    }
}

/// A run directory open for writing.
pub struct RunDirectory {
    path: PathBuf,
    metrics: File,
    /// The same log in other forms.
    copies: Vec<Box<dyn metrics::LogCopy>>,
    _lock: Lock,
}

impl RunDirectory {
    /// Makes a new directory with settings in it.
    ///
    /// # Errors
    /// It exists and is not empty, another process is making it, or it cannot be made; nothing is left behind.
    pub fn create(path: &Path, config: &Config) -> Result<()> {
        let text = to_toml(config)?;
        files::check_directory(path)?;
        let existed = path.is_dir();
        fs::create_dir_all(path).map_err(Error::io("create directory", path))?;
        let write = || {
            // First of all: nothing is touched in a directory that is somebody else's.
            check_empty(path)?;
            let _lock = lock::claim(path)?;
            files::remove_unfinished(path);
            check_empty(path)?;
            files::write_atomic(&path.join("config.toml"), text.as_bytes())
        };
        let written = write();
        if written.is_err() && !existed {
            // Best effort: the error that matters is the first one.
            let _ = fs::remove_dir(path);
        }
        written
    }

    /// Opens a directory that has settings, to start or to go on.
    ///
    /// # Errors
    /// Another process is writing it, or `metrics.jsonl` cannot be written.
    pub fn open(path: &Path) -> Result<RunDirectory> {
        let lock = lock::claim(path)?;
        files::remove_unfinished(path);
        Ok(RunDirectory { path: path.to_path_buf(), metrics: open_log(path)?, copies: Vec::new(), _lock: lock })
    }

    /// Ties the run to the data it is trained on, and refuses any other.
    ///
    /// # Errors
    /// It was begun with other data, or the disk is full or not writable.
    pub fn bind(&self, data: &Fingerprint) -> Result<()> {
        match Fingerprint::read(&self.path)? {
            Some(_) => check_data(&self.path, data),
            None => data.write(&self.path),
        }
    }

    /// Where `config.toml`, checkpoints and results are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state to go on from and the seconds spent so far; `None` where no checkpoint was written yet.
    /// Cuts `metrics.jsonl` back to that state.
    ///
    /// # Errors
    /// A file is damaged or does not fit the model.
    pub fn restore(&mut self, layout: &Layout) -> Result<Option<(State, f64)>> {
        let path = self.path.join("last.safetensors");
        if !path.exists() {
            self.truncate_metrics(0)?;
            return Ok(None);
        }
        let checkpoint = Checkpoint::read(&path)?;
        let progress: Progress = (checkpoint.metadata.as_deref())
            .and_then(|text| serde_json::from_str(text).ok())
            .ok_or_else(|| Error::file(&path, "has no training state; it is not a checkpoint of a run"))?;
        let state = State {
            parameters: checkpoint.parameters(layout, "")?,
            first_moment: checkpoint.parameters(layout, "adam.first.")?,
            second_moment: checkpoint.parameters(layout, "adam.second.")?,
            best: checkpoint.parameters(layout, "best.")?,
            progress,
        };
        self.truncate_metrics(state.progress.epoch)?;
        let seconds = self.history()?.last().map_or(0.0, |record| record.seconds);
        Ok(Some((state, seconds)))
    }

    /// Replaces both checkpoints: `best`, whose outputs are in the units of the target, and the state to go on from.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn save(&self, state: &State, best: &FittedModel, metadata: &ModelMetadata) -> Result<()> {
        let layout = &best.layout;
        let json =
            |value: serde_json::Result<String>| value.map_err(|error| Error::file(&self.path, error.to_string()));
        // The log first: a checkpoint must not know of epochs that the log could lose with the power.
        let log = self.path.join("metrics.jsonl");
        self.metrics.sync_data().map_err(Error::io("write", &log))?;
        self.save_model(best, metadata)?;
        let mut tensors = Checkpoint::named(layout, &state.parameters, "");
        tensors.extend(Checkpoint::named(layout, &state.first_moment, "adam.first."));
        tensors.extend(Checkpoint::named(layout, &state.second_moment, "adam.second."));
        tensors.extend(Checkpoint::named(layout, &state.best, "best."));
        let metadata = json(serde_json::to_string(&state.progress))?;
        Checkpoint::write(&self.path.join("last.safetensors"), tensors, Some(metadata))
    }

    /// Replaces `best.safetensors` alone: at the end of a run, by the calibrated model.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn save_model(&self, best: &FittedModel, metadata: &ModelMetadata) -> Result<()> {
        let tensors = Checkpoint::named(&best.layout, &best.parameters, "");
        let parameters_sha256 = Some(best.parameters_sha256());
        let metadata = ModelMetadata { version: MODEL_VERSION, parameters_sha256, ..metadata.clone() };
        let metadata = serde_json::to_string(&metadata).map_err(|error| Error::file(&self.path, error.to_string()))?;
        Checkpoint::write(&self.path.join("best.safetensors"), tensors, Some(metadata))
    }

    /// Adds a line to `metrics.jsonl`.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn log(&mut self, record: &EpochRecord) -> Result<()> {
        let path = self.path.join("metrics.jsonl");
        let mut line = serde_json::to_string(record).map_err(|error| Error::file(&path, error.to_string()))?;
        line.push('\n');
        self.metrics.write_all(line.as_bytes()).map_err(Error::io("write", &path))?;
        self.copies.iter_mut().try_for_each(|copy| copy.add(record))
    }

    /// Keeps the log in these forms too, with what is in it already.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn copy_metrics(&mut self, forms: &[MetricsFile]) -> Result<()> {
        let history = self.history()?;
        let copies = forms.iter().map(|&form| metrics::begin(form, &self.path, &history));
        self.copies = copies.collect::<Result<_>>()?;
        Ok(())
    }

    /// Writes a whole file of the directory.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        files::write_atomic(&self.path.join(name), text.as_bytes())
    }

    /// Every epoch logged so far. A line cut off by a kill is left out.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn history(&self) -> Result<Vec<EpochRecord>> {
        let text = files::read_text(&self.path.join("metrics.jsonl"))?;
        Ok(text.lines().map_while(|line| serde_json::from_str(line).ok()).collect())
    }

    fn truncate_metrics(&mut self, epochs: usize) -> Result<()> {
        let path = self.path.join("metrics.jsonl");
        let mut text = String::new();
        for record in self.history()?.iter().take_while(|record| record.epoch <= epochs) {
            text += &serde_json::to_string(record).map_err(|error| Error::file(&path, error.to_string()))?;
            text.push('\n');
        }
        files::write_atomic(&path, text.as_bytes())?;
        self.metrics = open_log(&self.path)?;
        Ok(())
    }
}

/// Refuses data that a run was not begun with.
///
/// # Errors
/// They are others.
pub(super) fn check_data(path: &Path, data: &Fingerprint) -> Result<()> {
    let Some(known) = Fingerprint::read(path)? else { return Ok(()) };
    match known.differences(data) {
        changed if changed.is_empty() => Ok(()),
        changed => Err(Error::file(
            path,
            format!(
                "was begun with other data: {} of {} changed since; a run goes on with the data it began with, so put these \
                 back or train anew",
                changed.join(", "),
                data.dataset
            ),
        )),
    }
}

/// The log, to add to.
fn open_log(directory: &Path) -> Result<File> {
    let path = directory.join("metrics.jsonl");
    if path.exists() && !path.is_file() {
        return Err(Error::file(&path, "is not a regular file; remove it"));
    }
    File::options().create(true).append(true).open(&path).map_err(Error::io("write", &path))
}

/// Refuses a directory that holds anything but what passes away by itself.
fn check_empty(path: &Path) -> Result<()> {
    let mut entries = fs::read_dir(path).map_err(Error::io("read", path))?.flatten();
    match entries.any(|entry| !files::is_passing(&entry.file_name())) {
        true => Err(Error::file(
            path,
            "is not empty: choose another directory (--out), or continue the run in it (--resume)",
        )),
        false => Ok(()),
    }
}

/// Makes a new directory `runs/<name>-<number>` below the current one with settings in it, of the lowest number that is
/// free. One that a kill left empty is free.
///
/// # Errors
/// It cannot be made.
pub fn create_next(name: &str, config: &Config) -> Result<PathBuf> {
    let parent = Path::new("runs");
    // The name comes from data: it must stay one component below `runs`.
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = name.trim_start_matches('.').chars().take(80).map(safe).collect();
    let name = if name.is_empty() { "store" } else { &name };
    fs::create_dir_all(parent).map_err(Error::io("create directory", parent))?;
    for number in 1.. {
        let path = parent.join(format!("{name}-{number}"));
        // Creating decides, so that two processes never share a directory.
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("create directory", &path)(error)),
        }
        match RunDirectory::create(&path, config) {
            Ok(()) => return Ok(path),
            // It is somebody's, or has become so.
            Err(Error::File { .. }) if path.exists() => {}
            Err(error) => {
                let _ = fs::remove_dir(&path);
                return Err(error);
            }
        }
    }
    Err(Error::file(parent, "has no free number left"))
}
