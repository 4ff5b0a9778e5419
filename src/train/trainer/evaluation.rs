//! What a trainer says about its model: scores of units, and what every feature adds to their logits.

use super::Trainer;
use crate::batch::Batches;
use crate::device::Device;
use crate::loss::{Scored, Scores};
use crate::model::{Randomness, Resident};
use crate::plan::{Plan, Space};
use crate::train::batching::portions;
use harmonia_graph::error::Result;

impl<D: Device<Real = f32>> Trainer<'_, D> {
    /// Scores any units with the best parameters.
    ///
    /// # Errors
    /// The device failed.
    pub fn score(&mut self, units: &[u32]) -> Result<Scores> {
        let parameters = self.device.upload(&self.best)?;
        if self.whole_graph() {
            let (mut logits, mut resident) = (Vec::new(), self.take_train()?);
            resident.unit_logits(&mut logits, &parameters, units, true)?;
            self.train = Some(resident);
            return Ok(self.scored(units, &mut logits));
        }
        // A score must not need more memory than training did: not beside its batches, and not all graphs at once.
        (self.train, self.valid) = (None, None);
        let mut logits = Vec::new();
        for units in portions(self.batches.dataset, units, self.config.train.batch_size) {
            let mut resident = Resident::new(self.device, self.layout, self.plan, self.batches.holding(units))?;
            let mut portion = Vec::new();
            resident.unit_logits(&mut portion, &parameters, units, false)?;
            logits.extend(portion);
        }
        Ok(self.scored(units, &mut logits))
    }

    /// Signed contribution w_k `H[i,k]` of every feature to the (first) logit of each unit of a node task, units x d,
    /// and the hop weights T x d, with the best parameters.
    ///
    /// # Errors
    /// The device failed.
    pub fn contributions(&mut self, units: &[u32]) -> Result<(Vec<f64>, Vec<f64>)> {
        let a = &self.layout.architecture;
        let parameters = self.device.upload(&self.best)?;
        (self.train, self.valid) = (None, None);
        // H is what contributions are read off: class space does not have it.
        let plan = Plan { space: Space::Features, sparse: false, ..self.plan };
        let batch = Batches::new(self.batches.dataset, self.config.walk).holding(units);
        let mut resident = Resident::new(self.device, self.layout, plan, batch)?;
        resident.pass.forward(&resident.inputs, &parameters, &Randomness::none())?;
        let state =
            resident.pass.state().map(|state| self.device.download_matrix(state)).transpose()?.unwrap_or_default();
        let weight = &self.best[self.layout.readout_weight.clone()];
        let contribution = |row: usize, k: usize| f64::from(state[row * a.features + k] * weight[k * a.outputs]);
        let contributions = (resident.batch.units.iter())
            .flat_map(|&(row, _)| (0..a.features).map(move |k| (row as usize, k)))
            .map(|(row, k)| contribution(row, k))
            .collect();
        let hop_weights = self.device.download(resident.pass.hop_weights())?;
        Ok((contributions, hop_weights.into_iter().map(f64::from).collect()))
    }

    /// Scores of outputs (units x L) as training has them.
    fn scored(&self, units: &[u32], logits: &mut [f32]) -> Scores {
        let scaling = self.target_scaling.as_ref();
        if let Some(scaling) = scaling {
            scaling.restore(logits);
        }
        self.objective.score(&Scored { labels: &self.batches.dataset.labels, units, logits, scaling })
    }

    /// Scores of the validation units with the current parameters; undefined where there are none.
    pub(super) fn validate(&mut self) -> Result<Scores> {
        let units = &self.batches.dataset.split.valid;
        if units.is_empty() {
            return Ok(Scores::undefined(self.objective));
        }
        if self.whole_graph() {
            let mut resident = self.take_train()?;
            resident.unit_logits(&mut self.logits, &self.parameters, units, true)?;
            self.train = Some(resident);
        } else {
            let mut resident = match self.valid.take() {
                Some(resident) => resident,
                None => Resident::new(self.device, self.layout, self.plan, self.batches.holding(units))?,
            };
            resident.unit_logits(&mut self.logits, &self.parameters, units, false)?;
            self.valid = Some(resident);
        }
        let mut logits = std::mem::take(&mut self.logits);
        let scores = self.scored(units, &mut logits);
        self.logits = logits;
        Ok(scores)
    }
}
