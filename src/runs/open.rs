//! A trained run, opened to be read: its model, its settings, and its data as the model sees them.

use super::centres::read_centres;
use super::directory::MODEL_VERSION;
use super::fingerprint::Fingerprint;
use super::matching::{Matched, are_names, match_classes, match_columns};
use super::{ModelMetadata, RunSummary};
use crate::config::Config;
use crate::explain::stability::Compared;
use crate::explain::{Factors, Groups, centre};
use crate::model::{Checkpoint, FittedModel};
use crate::settings::Layers;
use crate::train::EpochRecord;
use crate::train::{RunName, prepare};
use harmonia_graph::dataset::{Dataset, Features, Level, Normalise, Schema};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// The one thing that every version says.
#[derive(serde::Deserialize)]
struct Version {
    #[serde(default)]
    version: u32,
}

/// A trained model without any data.
#[derive(Clone)]
pub struct SavedModel {
    /// Settings it was trained with.
    pub config: Config,
    /// What the model file says about itself.
    pub metadata: ModelMetadata,
    /// Parameters of the best epoch.
    pub model: FittedModel,
    /// The same model as the sum it is.
    pub factors: Factors,
}

impl SavedModel {
    /// Reads the model of a run directory.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn open(path: &Path) -> Result<SavedModel> {
        let file = path.join(MODEL);
        let metadata = Checkpoint::read(&file)?.metadata;
        // First of all: what a later version says of a model may be anything.
        let version: Option<Version> = metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
        if let Some(Version { version }) = version.filter(|found| found.version > MODEL_VERSION) {
            return Err(Error::file(
                &file,
                format!(
                    "holds a model of a later version of this program: expected format {MODEL_VERSION} or earlier, found {version}; read \
                     it with the version that trained it, or a later one"
                ),
            ));
        }
        let metadata: ModelMetadata = (metadata.as_deref().and_then(|text| serde_json::from_str(text).ok()))
            .ok_or_else(|| {
                Error::file(&file, "does not say what model it holds; expected best.safetensors of a run")
            })?;
        let model = FittedModel::load(&file)?;
        if metadata.parameters_sha256.as_ref().is_some_and(|known| *known != model.parameters_sha256()) {
            return Err(Error::file(
                &file,
                "is damaged: its parameters are not those that were written (by their SHA-256)",
            ));
        }
        if let Some(schema) = &metadata.schema {
            schema.check(metadata.own_features()).map_err(|error| Error::file(&file, error.to_string()))?;
        }
        let factors = grouped_factors(&model, metadata.shown_schema())?;
        let config = saved_layers(path)?.finish()?;
        Ok(SavedModel { config, metadata, model, factors })
    }

    /// Mean response of each feature over the nodes of training; none where training did not leave them for this very model.
    ///
    /// # Errors
    /// The file that training left is damaged.
    pub fn centres(&self, path: &Path) -> Result<Option<Vec<f64>>> {
        read_centres(path, self.factors.features())
    }
}

/// A model as the sum it is, shown by the columns of its table.
///
/// # Errors
/// Its parameters are not those of a model.
pub fn grouped_factors(model: &FittedModel, schema: Option<&Schema>) -> Result<Factors> {
    let factors = Factors::of(model)?;
    Ok(match schema {
        Some(schema) => factors.grouped(Groups::of(schema, model.layout.architecture.features)),
        None => factors,
    })
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
    /// Features before they were rescaled: what is shown to people.
    pub raw: Arc<Features>,
    /// `None` where training was not finished.
    pub summary: Option<RunSummary>,
    /// What the user should know where the data are not those it was trained on.
    pub changed: Option<String>,
}

impl TrainedRun {
    /// Opens a run directory that holds a model; `load` fetches the data its settings name.
    ///
    /// # Errors
    /// A file is missing or damaged, or the data are others than those the model was trained on.
    pub fn open(path: &Path, load: impl FnOnce(&Config) -> Result<Dataset>) -> Result<TrainedRun> {
        let file = path.join(MODEL);
        let SavedModel { config, metadata, model, factors } = SavedModel::open(path)?;
        let (whole, changed) = as_trained(path, load(&config)?, &metadata, &model)?;
        let name = RunName { seed: config.run.seed, fold: None };
        let dataset = match &changed {
            None => prepare(&whole, &config, name)?.0,
            // Other data are rescaled as the model knows it, not by their own means.
            Some(_) => {
                let mut plain = config.clone();
                plain.data.normalise = Normalise::None;
                let (mut dataset, _) = prepare(&whole, &plain, name)?;
                if let Some(scaling) = &model.scaling {
                    dataset.features = Arc::new(scaling.apply(&dataset)?);
                }
                dataset
            }
        };
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
        if !model.objective.fits(&dataset.labels) {
            let message = format!("holds a model of another kind of task than the labels of {} are", dataset.name);
            return Err(Error::file(&file, message));
        }
        let (path, summary, raw) = (path.to_path_buf(), read_summary(path)?, whole.features);
        Ok(TrainedRun { path, config, metadata, model, factors, dataset, raw, summary, changed })
    }

    /// Opens the model of a run directory for other data, as `load` makes them: the columns of [`ModelMetadata::table`] in
    /// its order, or named. The data of training are not looked at.
    ///
    /// # Errors
    /// A file is missing or damaged, or the data lack something that the model reads.
    pub fn open_for(path: &Path, load: impl FnOnce(&ModelMetadata, &Config) -> Result<Dataset>) -> Result<TrainedRun> {
        let saved = SavedModel::open(path)?;
        let dataset = load(&saved.metadata, &saved.config)?;
        TrainedRun::on(path, saved, read_summary(path)?, dataset)
    }

    /// A model with other data than those of training, which have the columns of [`ModelMetadata::table`] in its order, or named.
    ///
    /// # Errors
    /// The data lack something that the model reads.
    pub fn on(path: &Path, saved: SavedModel, summary: Option<RunSummary>, mut dataset: Dataset) -> Result<TrainedRun> {
        let SavedModel { config, metadata, model, factors } = saved;
        let own = metadata.own_features();
        if dataset.features.cols != own {
            let found = dataset.features.cols;
            return Err(Error::Data(format!("the model reads {own} features, {} has {found}", dataset.name)));
        }
        if let Some(level) = metadata.level.filter(|&level| level != dataset.level) {
            let word = |level| if level == Level::Node { "nodes" } else { "graphs" };
            let (expected, found) = (word(level), word(dataset.level));
            return Err(Error::Data(format!("the model predicts {expected}, {} has labels of {found}", dataset.name)));
        }
        let mut changed = None;
        let refused = |why: String| Error::Data(format!("{why}: expected the same names of columns, in any order"));
        match match_columns(&mut dataset, &metadata.own_names()).map_err(refused)? {
            Matched::Alike => {}
            Matched::Reordered => {
                changed = Some(format!("columns of {} are taken by name: they come in another order", dataset.name));
            }
            Matched::ByNumber => {
                changed = Some(format!("columns of {} are taken by number: there are no names to go by", dataset.name));
            }
        }
        if let Some(structure) = &model.structure {
            dataset = structure.append(&dataset)?;
        }
        config.walk.check(&dataset.graph)?;
        let raw = Arc::clone(&dataset.features);
        if let Some(scaling) = &model.scaling {
            dataset.features = Arc::new(scaling.apply(&dataset)?);
        }
        let path = path.to_path_buf();
        Ok(TrainedRun { path, config, metadata, model, factors, dataset, raw, summary, changed })
    }

    /// Its model beside those of other seeds; `centres` are its own.
    pub fn compared<'a>(&'a self, centres: &'a [f64]) -> Compared<'a> {
        Compared { factors: &self.factors, scaling: self.model.scaling.as_ref(), centres }
    }

    /// As [`read_history`].
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn history(&self) -> Result<Vec<EpochRecord>> {
        read_history(&self.path)
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

/// Every epoch that was logged in a run directory; lines that a kill cut off are left out.
///
/// # Errors
/// The log cannot be read.
pub fn read_history(path: &Path) -> Result<Vec<EpochRecord>> {
    let path = path.join("metrics.jsonl");
    if path.symlink_metadata().is_err() {
        return Ok(Vec::new());
    }
    Ok(files::read_text(&path)?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The scores of a run; none where training was not finished.
///
/// # Errors
/// The file is damaged.
pub fn read_summary(path: &Path) -> Result<Option<RunSummary>> {
    let file = path.join("summary.json");
    if file.symlink_metadata().is_err() {
        return Ok(None);
    }
    let text = files::read_text(&file)?;
    serde_json::from_str(&text).map(Some).map_err(|error| Error::file(&file, format!("is not a run summary: {error}")))
}

/// The data that a run names, with structural features: as they are where they are those it was trained on, else with
/// columns and classes matched by name, and a note that says so.
///
/// # Errors
/// They are others, and nothing says which column is which.
fn as_trained(
    path: &Path,
    mut whole: Dataset,
    metadata: &ModelMetadata,
    model: &FittedModel,
) -> Result<(Dataset, Option<String>)> {
    let append = |whole: &Dataset| match &model.structure {
        Some(structure) => structure
            .append(whole)
            .map_err(|error| Error::file(path, format!("{error}: give the data it was trained on"))),
        None => Ok(whole.clone()),
    };
    let names = &metadata.own_names()[..];
    let appended = append(&whole)?;
    let differ = match Fingerprint::read(path)? {
        Some(known) => known.differences(&Fingerprint::of(&appended)),
        // An earlier version kept names alone.
        None if are_names(names) && whole.feature_names != names => vec!["names of features".into()],
        None => Vec::new(),
    };
    if differ.is_empty() || whole.features.cols != names.len() {
        return Ok((appended, None));
    }
    drop(appended);
    let name = whole.name.clone();
    let refused = |why: String| {
        let message = format!(
            "was trained on other data than {name} is now ({} changed), and {why}: give the data it was trained on",
            differ.join(", ")
        );
        Error::file(path, message)
    };
    // Of a large store the parts are files: features.npy, features_idx.npy, ...
    let same_columns = differ.iter().all(|part| !part.starts_with("features") && part != "names of features");
    let how = match match_columns(&mut whole, names).map_err(refused)? {
        Matched::ByNumber if same_columns => "its features are as they were",
        Matched::ByNumber => return Err(refused("its columns have no names to match them by".into())),
        Matched::Alike => "they have the same names in the same order",
        Matched::Reordered => "columns are taken by name: they come in another order",
    };
    match_classes(&mut whole, &metadata.class_names).map_err(refused)?;
    let note = format!("{name} is not as it was when this run was trained ({} changed); {how}", differ.join(", "));
    Ok((append(&whole)?, Some(note)))
}
