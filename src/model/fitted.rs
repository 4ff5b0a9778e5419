//! A trained model as a library user sees it: fit, predict, save, load.

use super::{Checkpoint, Layout, Resident};
use crate::batch::Batches;
use crate::config::Config;
use crate::datasets::{Dataset, Objective};
use crate::device::Device;
use crate::device::cpu::Cpu;
use crate::error::{Error, Result};
use crate::graph::Walk;
use crate::train::{Session, Silent};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Parameters with the sizes and the walk they belong to.
#[derive(Clone, Debug)]
pub struct FittedModel {
    /// Where each parameter is.
    pub layout: Layout,
    /// All parameters.
    pub parameters: Vec<f32>,
    /// How the walk is derived from a graph.
    pub walk: Walk,
}

/// Trains on the CPU with the settings' first seed and returns the model of the best epoch. Writes no files.
///
/// # Errors
/// Settings or data that do not fit, or training that diverges.
pub fn fit(dataset: &Dataset, config: &Config) -> Result<FittedModel> {
    config.check()?;
    dataset.check()?;
    let stop = AtomicBool::new(false);
    let session = Session { device: &Cpu::new(), config, stop: &stop };
    let (_, parameters) = session.run_seed(dataset, config.run.seed, None, &mut Silent)?;
    let layout = Layout::new(config.architecture(dataset.features.cols, dataset.labels.outputs()))?;
    Ok(FittedModel { layout, parameters, walk: config.walk })
}

impl FittedModel {
    /// Logits of every unit, units x L.
    ///
    /// # Errors
    /// The dataset has other features than the model.
    pub fn logits(&self, dataset: &Dataset) -> Result<Vec<f32>> {
        let (expected, found) = (self.layout.architecture.features, dataset.features.cols);
        if expected != found {
            return Err(Error::Data(format!("the model reads {expected} features, the dataset has {found}")));
        }
        let device = Cpu::<f32>::new();
        let units: Vec<u32> = (0..dataset.units() as u32).collect();
        let mut resident = Resident::new(&device, &self.layout, Batches::new(dataset, self.walk).whole(&units))?;
        resident.logits(&device.upload(&self.parameters)?)
    }

    /// Probability of each class of every unit (of class 1 for a binary task), units x L.
    ///
    /// # Errors
    /// As [`FittedModel::logits`].
    pub fn probabilities(&self, dataset: &Dataset) -> Result<Vec<f32>> {
        let mut logits = self.logits(dataset)?;
        match dataset.labels.objective() {
            Objective::Sigmoid => logits.iter_mut().for_each(|z| *z = 1.0 / (1.0 + (-*z).exp())),
            Objective::Softmax => {
                for row in logits.chunks_exact_mut(self.layout.architecture.outputs) {
                    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    row.iter_mut().for_each(|z| *z = (*z - largest).exp());
                    let sum: f32 = row.iter().sum();
                    row.iter_mut().for_each(|z| *z /= sum);
                }
            }
        }
        Ok(logits)
    }

    /// Most probable class of every unit.
    ///
    /// # Errors
    /// As [`FittedModel::logits`].
    pub fn predict(&self, dataset: &Dataset) -> Result<Vec<u32>> {
        let logits = self.logits(dataset)?;
        let outputs = self.layout.architecture.outputs;
        let largest =
            |row: &[f32]| row.iter().enumerate().fold(0, |best, (c, z)| if *z > row[best] { c } else { best });
        Ok(logits
            .chunks_exact(outputs)
            .map(|row| if outputs == 1 { u32::from(row[0] > 0.0) } else { largest(row) as u32 })
            .collect())
    }

    /// Writes the parameters as a safetensors file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        Checkpoint::write(path, Checkpoint::named(&self.layout, &self.parameters, ""), None)
    }

    /// Reads parameters for a model of known sizes, for example `best.safetensors` of a run directory.
    ///
    /// # Errors
    /// The file is missing, damaged or of other sizes.
    pub fn load(path: &Path, layout: Layout, walk: Walk) -> Result<FittedModel> {
        Ok(FittedModel { parameters: Checkpoint::read(path)?.parameters(&layout, "")?, layout, walk })
    }
}
