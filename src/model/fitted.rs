//! A trained model as a library user sees it: predict, save, load.

use super::{Checkpoint, Resident};
use crate::architecture::{Architecture, Layout, Routes};
use crate::batch::Batches;
use crate::config::Engine;
use crate::device::Device;
use crate::device::cpu::Cpu;
use crate::loss::{Calibration, Objective, TargetScaling};
use crate::plan::Plan;
use harmonia_graph::dataset::{Dataset, Scaling, Structure};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::Walk;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// What is needed to use parameters; stored beside them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelDescription {
    /// Sizes that fix the length and the layout of the parameters.
    pub architecture: Architecture,
    /// How the walk is derived from a graph.
    pub walk: Walk,
    /// Whether logits are turned into probabilities together or one by one.
    pub objective: Objective,
    /// What is done to features before the model sees them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// What was done to logits on the validation units; the parameters have it in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Columns that features get before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structure: Option<Structure>,
}

/// Parameters with what is needed to use them.
#[derive(Clone, Debug)]
pub struct FittedModel {
    /// Where each parameter is.
    pub layout: Layout,
    /// In the order of `layout`, one flat vector.
    pub parameters: Vec<f32>,
    /// How the walk is derived from a graph.
    pub walk: Walk,
    /// Whether logits are turned into probabilities together or one by one.
    pub objective: Objective,
    /// What is done to features before the model sees them.
    pub scaling: Option<Scaling>,
    /// What was done to logits on the validation units; the parameters have it in them.
    pub calibration: Option<Calibration>,
    /// Columns that features get before that; a dataset that has them already is taken as it is.
    pub structure: Option<Structure>,
}

impl FittedModel {
    /// Logits of every unit, units x L; of a regression, the numbers it predicts. Labels and splits of the dataset play no part.
    ///
    /// # Errors
    /// The dataset has other features than the model.
    pub fn logits(&self, dataset: &Dataset) -> Result<Vec<f32>> {
        let appended;
        let dataset = match &self.structure {
            Some(structure) => {
                appended = structure.append(dataset)?;
                &appended
            }
            None => dataset,
        };
        let (expected, found) = (self.layout.architecture.features, dataset.features.cols);
        if expected != found {
            return Err(Error::Data(format!("the model reads {expected} features, the dataset has {found}")));
        }
        let device = Cpu::<f32>::new();
        let units: Vec<u32> = (0..dataset.units() as u32).collect();
        let scaled;
        let dataset = match &self.scaling {
            Some(scaling) => {
                scaled = Dataset { features: Arc::new(scaling.apply(dataset)?), ..dataset.clone() };
                &scaled
            }
            None => dataset,
        };
        let plan = Plan::choose(Engine::default(), dataset, &self.layout);
        let batches = Batches::planned(dataset, self.walk, plan, self.layout.architecture.walk_lengths());
        let mut resident = Resident::new(&device, &self.layout, plan, batches.whole(&units))?;
        resident.logits(&device.upload(&self.parameters)?)
    }

    /// Probability of each class of every unit (of class 1 for a binary task), units x L.
    ///
    /// # Errors
    /// As [`FittedModel::logits`].
    pub fn probabilities(&self, dataset: &Dataset) -> Result<Vec<f32>> {
        if self.objective.is_regression() {
            return Err(Error::Data(
                "a regression has no probabilities; its logits are the numbers it predicts".into(),
            ));
        }
        let mut logits = self.logits(dataset)?;
        for row in logits.chunks_exact_mut(self.layout.architecture.outputs) {
            let mut wide: Vec<f64> = row.iter().map(|&z| f64::from(z)).collect();
            self.objective.predict(&mut wide);
            row.iter_mut().zip(wide).for_each(|(to, p)| *to = p as f32);
        }
        Ok(logits)
    }

    /// Most probable class of every unit.
    ///
    /// # Errors
    /// As [`FittedModel::logits`]; a multi-label model, whose units have no single class.
    pub fn predict(&self, dataset: &Dataset) -> Result<Vec<u32>> {
        let outputs = self.layout.architecture.outputs;
        if self.objective.is_regression() {
            return Err(Error::Data("a regression has no classes to predict; its logits are its predictions".into()));
        }
        if self.objective == Objective::Sigmoid && outputs > 1 {
            return Err(Error::Data("a multi-label model has no single class to predict; use probabilities".into()));
        }
        let logits = self.logits(dataset)?;
        let largest =
            |row: &[f32]| row.iter().enumerate().fold(0, |best, (c, z)| if *z > row[best] { c } else { best });
        Ok(logits
            .chunks_exact(outputs)
            .map(|row| if outputs == 1 { u32::from(row[0] > 0.0) } else { largest(row) as u32 })
            .collect())
    }

    /// The same model whose outputs are numbers in the units of the target: the readout takes their scale, the intercept
    /// their mean.
    pub(crate) fn in_units_of(mut self, target: &TargetScaling) -> FittedModel {
        map_readout(&mut self.parameters, &self.layout, |output| (target.deviation[output], target.mean[output]));
        self
    }

    /// The same model of ReLU networks alone.
    pub(crate) fn plain(self) -> FittedModel {
        let (layout, parameters) = self.layout.plain(&self.parameters);
        let (layout, parameters) = (layout.clone(), parameters.into_owned());
        FittedModel { layout, parameters, ..self }
    }

    /// The same model with other logits: the readout takes over the temperature and the offset.
    pub(crate) fn calibrated(mut self, calibration: &Calibration) -> FittedModel {
        map_readout(&mut self.parameters, &self.layout, |_| (1.0 / calibration.temperature, calibration.offset));
        self.calibration = Some(*calibration);
        self
    }

    /// The same model with only some of its outputs, in the given order.
    ///
    /// # Errors
    /// There is no such output.
    pub fn with_outputs(&self, outputs: &[usize]) -> Result<FittedModel> {
        let all = self.layout.architecture.outputs;
        if let Some(output) = outputs.iter().find(|&&output| output >= all) {
            return Err(Error::Data(format!("the model has outputs 0 to {}, not {output}", all - 1)));
        }
        self.check_by_feature()?;
        let layout = Layout::new(Architecture { outputs: outputs.len(), ..self.layout.architecture.clone() })?;
        // The readout comes last; everything before it stays where it is.
        let mut parameters = self.parameters[..self.layout.readout_weight.start].to_vec();
        for row in self.parameters[self.layout.readout_weight.start..].chunks_exact(all) {
            parameters.extend(outputs.iter().map(|&output| row[output]));
        }
        Ok(FittedModel { layout, parameters, ..self.clone() })
    }

    /// The same model with only some of its features, in the given order: what they add, and the intercept.
    ///
    /// # Errors
    /// There is no such feature, or none is left.
    pub fn with_features(&self, features: &[usize]) -> Result<FittedModel> {
        let all = self.layout.architecture.features;
        if let Some(feature) = features.iter().find(|&&feature| feature >= all) {
            return Err(Error::Data(format!("the model has features 0 to {}, not {feature}", all - 1)));
        }
        self.check_by_feature()?;
        let a = &self.layout.architecture;
        let own = a.routes() == Routes::Own;
        let experts = if own { features.len() } else { a.experts };
        let layout = Layout::new(Architecture { features: features.len(), experts, ..a.clone() })?;
        let mut parameters = vec![0.0; layout.len()];
        // A feature that has an expert of its own takes it along; other tensors stand in the same order.
        let (own_tensors, of_expert) = match own {
            true => (layout.experts.len() * 2 * layout.experts[0].len(), 2 * layout.experts[0].len()),
            false => (0, 1),
        };
        let source = |at: usize| match at < own_tensors {
            true => features[at / of_expert] * of_expert + at % of_expert,
            false => at + (self.layout.tensors().len() - layout.tensors().len()),
        };
        for (at, to) in layout.tensors().iter().enumerate() {
            let from = &self.layout.tensors()[source(at)];
            let (target, source) = (&mut parameters[to.range.clone()], &self.parameters[from.range.clone()]);
            match from.name.as_str() {
                "coefficients" | "embeddings" | "readout.weight" => {
                    let width = from.shape[1];
                    for (row, &k) in target.chunks_exact_mut(width).zip(features) {
                        row.copy_from_slice(&source[k * width..][..width]);
                    }
                }
                "hop_logits" => {
                    for (row, source) in target.chunks_exact_mut(features.len()).zip(source.chunks_exact(all)) {
                        row.iter_mut().zip(features).for_each(|(to, &k)| *to = source[k]);
                    }
                }
                _ => target.copy_from_slice(source),
            }
        }
        Ok(FittedModel { layout, parameters, scaling: None, structure: None, ..self.clone() })
    }

    /// Refuses what only models of one response per feature have.
    fn check_by_feature(&self) -> Result<()> {
        match self.layout.architecture.walks_by_feature() {
            true => Ok(()),
            false => Err(Error::Data(format!(
                "a model of kind {} is not taken apart by features and outputs",
                self.layout.architecture.family.kind.name()
            ))),
        }
    }

    /// SHA-256 of the parameters, in the order of the layout.
    pub fn parameters_sha256(&self) -> String {
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        self.parameters.iter().for_each(|parameter| hash.update(parameter.to_le_bytes()));
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What is needed to use the parameters.
    pub fn description(&self) -> ModelDescription {
        ModelDescription {
            architecture: self.layout.architecture.clone(),
            walk: self.walk,
            objective: self.objective,
            scaling: self.scaling.clone(),
            calibration: self.calibration,
            structure: self.structure.clone(),
        }
    }

    /// Writes the parameters as a safetensors file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let metadata =
            serde_json::to_string(&self.description()).map_err(|error| Error::file(path, error.to_string()))?;
        Checkpoint::write(path, Checkpoint::named(&self.layout, &self.parameters, ""), Some(metadata))
    }

    /// Reads a model that was saved, or `best.safetensors` of a run directory.
    ///
    /// # Errors
    /// The file is missing, damaged, or does not say what model it holds.
    pub fn load(path: &Path) -> Result<FittedModel> {
        let checkpoint = Checkpoint::read(path)?;
        let ModelDescription { architecture, walk, objective, scaling, calibration, structure } =
            (checkpoint.metadata.as_deref()).and_then(|text| serde_json::from_str(text).ok()).ok_or_else(|| {
                Error::file(path, "does not say what model it holds; expected best.safetensors of a run")
            })?;
        if structure.as_ref().is_some_and(|found| found.columns() != Some(architecture.features)) {
            return Err(Error::file(path, "does not have as many features as its structural ones leave room for"));
        }
        // Sizes are a claim: nothing is made by it before the numbers are seen to be there.
        let (claimed, present) = (architecture.parameters(), checkpoint.elements() as u128);
        if claimed > present {
            let message =
                format!("describes a model of {claimed} parameters and holds {present} numbers; it is damaged");
            return Err(Error::file(path, message));
        }
        let layout = Layout::new(architecture).map_err(|error| Error::file(path, error.to_string()))?;
        let parameters = checkpoint.parameters(&layout, "")?;
        Ok(FittedModel { parameters, layout, walk, objective, scaling, calibration, structure })
    }
}

/// Outputs z become factor z + shift, (factor, shift) by output.
pub(crate) fn map_readout(parameters: &mut [f32], layout: &Layout, line: impl Fn(usize) -> (f64, f64)) {
    for row in parameters[layout.readout_weight.clone()].chunks_exact_mut(layout.architecture.outputs) {
        for (output, weight) in row.iter_mut().enumerate() {
            *weight = (f64::from(*weight) * line(output).0) as f32;
        }
    }
    for (output, beta) in parameters[layout.readout_bias.clone()].iter_mut().enumerate() {
        let (factor, shift) = line(output);
        *beta = (f64::from(*beta) * factor + shift) as f32;
    }
}
