//! A trained model as it is read without its data: what it is, how training went, and what was measured on the data at its end.

use super::{Measured, RunSummary, SavedModel, TrainedRun, read_measured, read_summary};
use crate::explain::stability::Compared;
use crate::explain::{Importance, centre};
use harmonia_graph::error::Result;
use harmonia_graph::watch::Watch;
use std::path::{Path, PathBuf};

/// A model and what its run directory knows of its data.
pub struct ReadModel {
    /// Its directory.
    pub path: PathBuf,
    /// The model.
    pub saved: SavedModel,
    /// `None` where training was not finished.
    pub summary: Option<RunSummary>,
    /// Mean response of each column; zeros where they are not known.
    pub centres: Vec<f64>,
    /// Whether they are known.
    pub is_centred: bool,
    /// What was measured on the data; none where nobody did.
    pub measured: Option<Measured>,
}

impl ReadModel {
    /// Reads a run directory that holds a model.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn open(path: &Path) -> Result<ReadModel> {
        let saved = SavedModel::open(path)?;
        let centres = saved.centres(path)?;
        Ok(ReadModel {
            summary: read_summary(path)?,
            is_centred: centres.is_some(),
            centres: centres.unwrap_or_else(|| vec![0.0; saved.factors.features()]),
            measured: read_measured(path, &saved.factors)?,
            path: path.to_path_buf(),
            saved,
        })
    }

    /// A model with other data than those of training: everything is measured on them.
    ///
    /// # Errors
    /// A file is damaged, the device failed, or the user asked to stop.
    pub fn on(run: &TrainedRun, watch: &Watch<'_>) -> Result<ReadModel> {
        let mut read = ReadModel { measured: None, ..ReadModel::open(&run.path)? };
        (read.centres, read.is_centred) = (centre::mean_responses(&run.factors, &run.dataset.features), true);
        read.complete(run, true, watch)?;
        Ok(read)
    }

    /// Whether something is not known without the data: `importance` says whether that is asked for.
    pub fn lacks(&self, importance: bool) -> bool {
        let measured = self.measured.as_ref();
        let known = measured.is_some_and(|measured| !importance || measured.importance.is_some());
        !known || !self.is_centred
    }

    /// Measures what is not known on the data.
    ///
    /// # Errors
    /// A file is damaged, the device failed, or the user asked to stop.
    pub fn complete(&mut self, run: &TrainedRun, importance: bool, watch: &Watch<'_>) -> Result<()> {
        if !self.is_centred {
            (self.centres, self.is_centred) = (run.centres()?, true);
        }
        let (model, factors, dataset) = (&run.model, &run.factors, &run.dataset);
        let mut measured = self.measured.take().unwrap_or_else(|| Measured::data(model, factors, dataset));
        if importance && measured.importance.is_none() {
            measured.measure(model, factors, dataset, &self.centres, watch)?;
        }
        self.measured = Some(measured);
        Ok(())
    }

    /// The model beside those of other seeds.
    pub fn compared(&self) -> Compared<'_> {
        Compared { factors: &self.saved.factors, scaling: self.saved.model.scaling.as_ref(), centres: &self.centres }
    }

    /// How much features matter, where that is known.
    pub fn importance(&self) -> Option<&Importance> {
        Some(&self.measured.as_ref()?.importance.as_ref()?.measured)
    }
}
