//! One run kept in memory: everything that its directory would hold, to be used at once and written when somebody asks.

use super::one_run::{RunPlace, write_results};
use super::{Observer, Session, stopped};
use crate::device::Device;
use crate::explain::centre;
use crate::runs::{Fingerprint, RunDirectory, SavedModel, TrainedRun, grouped_factors};
use crate::tabulate::Tables;
use crate::train::{EpochRecord, Prepared};
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// A trained model with its data, and how it came about.
pub struct Kept {
    /// The model and its data; the path is empty.
    pub run: TrainedRun,
    /// Every epoch.
    pub history: Vec<EpochRecord>,
    /// Mean response of each feature.
    pub centres: Vec<f64>,
    /// The data before their split was drawn and features were rescaled, with structural features.
    whole: Dataset,
}

impl<D: Device<Real = f32>> Session<'_, D> {
    /// Trains one run that was made ready of `whole`, and writes nothing.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn keep(&self, whole: &Dataset, mut run: Prepared, observer: &mut dyn Observer) -> Result<Kept> {
        let tables = Tables::default();
        run.tabulate(&tables, self.config.walk, &self.watch()).map_err(|error| stopped(error, None))?;
        let (device_name, abort) = (&self.device.name(), &AtomicBool::new(false));
        let place = RunPlace { path: None, data: None, device_name, abort, tables: &tables };
        let done = self.train(&run, place, &Mutex::new(observer))?;
        let factors = grouped_factors(&done.model, done.metadata.shown_schema())?;
        let centres = centre::mean_responses(&factors, &run.dataset.features);
        let run = TrainedRun {
            path: PathBuf::new(),
            config: done.config,
            metadata: done.metadata,
            model: done.model,
            factors,
            dataset: run.dataset,
            raw: Arc::clone(&whole.features),
            summary: Some(done.summary),
            changed: None,
        };
        Ok(Kept { run, history: done.history, centres, whole: whole.clone() })
    }
}

impl Kept {
    /// The data before their split was drawn and features were rescaled, with structural features.
    pub fn whole(&self) -> &Dataset {
        &self.whole
    }

    /// The same with the split of the run as its own, and without structural features: what a store would hold.
    #[must_use]
    pub fn given(&self) -> Dataset {
        let mut given = self.whole.clone();
        if let Some(structure) = given.structure.take() {
            let own: Vec<usize> = (0..structure.features()).collect();
            given.feature_names = structure.own_names(&given.feature_names);
            given.features = Arc::new(given.features.columns(&own));
        }
        given
    }

    /// The model without its data.
    pub fn saved(&self) -> SavedModel {
        let TrainedRun { config, metadata, model, factors, .. } = &self.run;
        SavedModel {
            config: config.clone(),
            metadata: metadata.clone(),
            model: model.clone(),
            factors: factors.clone(),
        }
    }

    /// Writes a run directory that is complete, but for the state to go on from. `unchanged`: whether the data are still those of
    /// training; of others nothing is measured.
    ///
    /// # Errors
    /// The directory exists and is not empty, or the disk is full or not writable.
    pub fn write(&self, path: &Path, unchanged: bool) -> Result<()> {
        let saved = self.saved();
        RunDirectory::create(path, &saved.config)?;
        let mut directory = RunDirectory::open(path)?;
        if unchanged {
            directory.bind(&Fingerprint::of(&self.whole))?;
        }
        self.history.iter().try_for_each(|record| directory.log(record))?;
        directory.copy_metrics(&saved.config.run.metrics)?;
        directory.save_model(&saved.model, &saved.metadata)?;
        match &self.run.summary {
            Some(summary) => {
                let dataset = unchanged.then_some(&self.run.dataset);
                write_results(&directory, &saved, &self.centres, dataset, summary)
            }
            None => Err(Error::Internal("a run kept in memory has no summary".into())),
        }
    }
}
