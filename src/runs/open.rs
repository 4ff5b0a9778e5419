//! A trained run, opened to be read: its model, its settings, and its data as the model sees them.

use super::centres::read_centres;
use super::{ModelMetadata, RunSummary};
use crate::config::Config;
use crate::explain::stability::Compared;
use crate::explain::{Factors, centre};
use crate::model::{Checkpoint, FittedModel};
use crate::settings::Layers;
use crate::train::EpochRecord;
use crate::train::{RunName, prepare};
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use std::path::{Path, PathBuf};

pub(super) const MODEL: &str = "best.safetensors";

/// The settings of a run directory, to be finished.
///
/// # Errors
/// It is no run directory, or its settings are damaged.
pub fn saved_layers(directory: &Path) -> Result<Layers> {
    files::check_directory(directory)?;
    let path = directory.join("config.toml");
    if !path.is_file() {
        return Err(Error::file(directory, "is not a run directory: expected a config.toml in it"));
    }
    let mut layers = Layers::new()?;
    layers.toml(&files::read_text(&path)?, &path.display().to_string())?;
    Ok(layers)
}

/// The directories of the trained models at `path`: itself, or those of the seeds and folds in it, in order.
///
/// # Errors
/// There is none.
pub fn members(path: &Path) -> Result<Vec<PathBuf>> {
    files::check_directory(path)?;
    if path.join(MODEL).is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    if !path.is_dir() {
        return Err(Error::file(path, "is not a run directory: train one with harmonia-train --out DIR"));
    }
    let mut directories = Vec::new();
    for prefix in ["seed-", "fold-"] {
        let mut numbered: Vec<(usize, PathBuf)> = (std::fs::read_dir(path).map_err(Error::io("read", path))?.flatten())
            .filter_map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                Some((name.strip_prefix(prefix)?.parse().ok()?, entry.path()))
            })
            .collect();
        numbered.sort();
        for (_, directory) in numbered {
            match directory.join(MODEL).is_file() {
                true => directories.push(directory),
                // A seed of a cross-validation holds folds; one that was not begun holds nothing.
                false => directories.extend(members(&directory).unwrap_or_default()),
            }
        }
    }
    match directories.is_empty() {
        true => {
            Err(Error::file(path, format!("holds no trained model: expected {MODEL}, in it or in seed-0, seed-1, ...")))
        }
        false => Ok(directories),
    }
}

/// One trained model with its data.
pub struct TrainedRun {
    /// Where everything below was read from.
    pub path: PathBuf,
    /// Settings it was trained with, of this seed and fold alone.
    pub config: Config,
    /// What the model file says about itself.
    pub metadata: ModelMetadata,
    /// Parameters of the best epoch.
    pub model: FittedModel,
    /// The same model as the sum it is.
    pub factors: Factors,
    /// The data: split settled, features rescaled.
    pub dataset: Dataset,
    /// `None` where training was not finished.
    pub summary: Option<RunSummary>,
}

impl TrainedRun {
    /// Opens a run directory that holds a model; `load` fetches the data its settings name.
    ///
    /// # Errors
    /// A file is missing or damaged, or the data are others than those the model was trained on.
    pub fn open(path: &Path, load: impl FnOnce(&Config) -> Result<Dataset>) -> Result<TrainedRun> {
        let file = path.join(MODEL);
        let metadata = Checkpoint::read(&file)?.metadata;
        let metadata: ModelMetadata = (metadata.as_deref().and_then(|text| serde_json::from_str(text).ok()))
            .ok_or_else(|| {
                Error::file(&file, "does not say what model it holds; expected best.safetensors of a run")
            })?;
        let model = FittedModel::load(&file)?;
        let config = saved_layers(path)?.finish()?;
        let mut whole = load(&config)?;
        if let Some(structure) = &model.structure {
            let message = |error| format!("{error}: give the data it was trained on");
            whole = structure.append(&whole).map_err(|error| Error::file(path, message(error)))?;
        }
        let (dataset, _) = prepare(&whole, &config, RunName { seed: config.run.seed, fold: None })?;
        let a = &model.layout.architecture;
        let (found, expected) = ((dataset.features.cols, dataset.labels.outputs()), (a.features, a.outputs));
        if found != expected {
            return Err(Error::file(
                path,
                format!(
                    "was trained on {} features and {} outputs, but its dataset {} now has {} and {}: give the data it \
                     was trained on",
                    expected.0, expected.1, dataset.name, found.0, found.1
                ),
            ));
        }
        let summary = path.join("summary.json");
        let summary = match summary.is_file() {
            true => Some(
                serde_json::from_str(&files::read_text(&summary)?)
                    .map_err(|error| Error::file(&summary, format!("is not a run summary: {error}")))?,
            ),
            false => None,
        };
        let factors = Factors::of(&model)?;
        Ok(TrainedRun { path: path.to_path_buf(), config, metadata, model, factors, dataset, summary })
    }

    /// Its model beside those of other seeds; `centres` are its own.
    pub fn compared<'a>(&'a self, centres: &'a [f64]) -> Compared<'a> {
        Compared { factors: &self.factors, scaling: self.model.scaling.as_ref(), centres }
    }

    /// Every epoch that was logged; lines that a kill cut off are left out.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn history(&self) -> Result<Vec<EpochRecord>> {
        let path = self.path.join("metrics.jsonl");
        if !path.is_file() {
            return Ok(Vec::new());
        }
        Ok(files::read_text(&path)?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Mean response of each feature over all nodes: what training left in the directory for this very model, or computed
    /// anew.
    ///
    /// # Errors
    /// The file that training left is damaged.
    pub fn centres(&self) -> Result<Vec<f64>> {
        match read_centres(&self.path, self.factors.features())? {
            Some(means) => Ok(means),
            None => Ok(centre::mean_responses(&self.factors, &self.dataset.features)),
        }
    }
}
