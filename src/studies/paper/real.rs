//! Datasets of the world in studies: loaded where they are, never fetched, and trained on in memory.

use super::rows::Row;
use super::study::Scene;
use crate::config::Config;
use crate::device::Machine;
use crate::explain::{Factors, Importance, centre};
use crate::model::FittedModel;
use crate::runs::{is_here, load_dataset};
use crate::settings::presets::Recipe;
use crate::train::{RunName, fit, prepare};
use harmonia_data::download::Access;
use harmonia_data::obtain::Context;
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::watch::Watch;

/// The settings of a row on a dataset, by the paper's preset.
///
/// # Errors
/// A setting that does not exist.
pub fn config(row: &Row, dataset: &str, seed: u64, more: &[String], scene: &Scene<'_>) -> Result<Config> {
    let mut set = vec![format!("data.dataset={dataset}"), format!("run.seed={seed}"), "run.device=cpu".into()];
    if !scene.data_dir.is_empty() {
        set.push(format!("data.dir={:?}", scene.data_dir));
    }
    set.extend_from_slice(more);
    row.config(dataset, Recipe::Paper, &set)
}

/// A dataset, if it is on this machine.
///
/// # Errors
/// Damaged files.
pub fn load(config: &Config, scene: &Scene<'_>) -> Result<Option<Dataset>> {
    if !is_here(&config.data) {
        return Ok(None);
    }
    let context = Context {
        access: Access { offline: true, ..Access::default() },
        download: &|_| (),
        watch: Watch::new(&|_| (), scene.stop.clone()),
        note: &|_| (),
    };
    load_dataset(&config.data, &context).map(Some)
}

/// A model and the data it was trained on, split and scaled.
pub struct Trained {
    /// As the model reads it.
    pub dataset: Dataset,
    /// Of the best epoch.
    pub model: FittedModel,
}

/// Splits, scales and trains.
///
/// # Errors
/// As [`fit`].
pub fn train(whole: &Dataset, config: &Config, scene: &Scene<'_>) -> Result<Trained> {
    let (dataset, _) = prepare(whole, config, RunName { seed: config.run.seed, fold: None })?;
    again(dataset, config, scene)
}

/// Trains on data that are split and scaled already.
///
/// # Errors
/// As [`fit`].
pub fn again(dataset: Dataset, config: &Config, scene: &Scene<'_>) -> Result<Trained> {
    let model = fit(&dataset, config, &Machine::open("cpu", config.engine)?, scene.stop)?;
    Ok(Trained { dataset, model })
}

impl Trained {
    /// Share of the test units that are classified correctly.
    ///
    /// # Errors
    /// The task has no classes.
    pub fn test_accuracy(&self) -> Result<f64> {
        let predicted = self.model.predict(&self.dataset)?;
        let Some(known) = self.dataset.labels.class_ids() else {
            return Err(Error::Data(format!("{} has no classes", self.dataset.name)));
        };
        let test = &self.dataset.split.test;
        let right = test.iter().filter(|&&unit| predicted[unit as usize] == known[unit as usize]).count();
        Ok(right as f64 / test.len().max(1) as f64)
    }

    /// Importance of every feature on the validation units.
    ///
    /// # Errors
    /// A stop was asked for.
    pub fn importance(&self, scene: &Scene<'_>) -> Result<Vec<f64>> {
        let factors = Factors::of(&self.model)?;
        let centres = centre::mean_responses(&factors, &self.dataset.features);
        let watch = Watch::new(&|_| (), scene.stop.clone());
        let units = &self.dataset.split.valid;
        let measured = Importance::measure(&self.model, &factors, &self.dataset, units, &centres, &watch)?;
        Ok(measured.overall(&factors))
    }
}
