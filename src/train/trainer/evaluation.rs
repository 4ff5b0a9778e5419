//! What a trainer says about its model: scores of units, and what every feature adds to their logits.

use super::{Trainer, Way};
use crate::batch::{Batches, Reach};
use crate::device::Device;
use crate::loss::{Calibration, Details, Reliability, Scored, Scores, WEIGHTED_LOSS, only_class};
use crate::model::panels::{self, PanelPlan};
use crate::model::{Randomness, Resident};
use crate::plan::{Plan, Space};
use crate::train::batching::portions;
use harmonia_graph::error::Result;

/// How good the best model is on some units.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Those of the loss, by name.
    pub scores: Scores,
    /// How far its probabilities can be trusted; none of a regression, and of no units.
    pub reliability: Option<Reliability>,
    /// What single scores do not say; none of a regression, and of no units.
    pub details: Option<Details>,
    /// What it says of them, units x L.
    pub logits: Vec<f32>,
    /// The one class it predicts for all of them although their labels have more.
    pub only_class: Option<usize>,
}

/// Which parameters of a trainer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Of the last epoch.
    Current,
    /// Of the best epoch, before it is calibrated.
    Best,
}

/// Losses of the validation units by the two ways.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableLosses {
    /// As a table of walks has it.
    pub tabulated: f64,
    /// By walking.
    pub exact: f64,
}

impl TableLosses {
    /// How far the table is off, as a share of the truth.
    pub fn gap(&self) -> f64 {
        (self.tabulated - self.exact).abs() / self.exact.abs().max(f64::MIN_POSITIVE)
    }
}

impl<'a, D: Device<Real = f32>> Trainer<'a, D> {
    /// Fits a temperature, and of a binary task an offset, to the logits of the best epoch on the validation units: from
    /// here on the best model has them in it, [`Trainer::state`] does not. `None`, and nothing changes, where their
    /// likelihood would not be better for it: for a regression, without validation units, or with one class among them.
    ///
    /// # Errors
    /// The device failed.
    pub fn calibrate(&mut self) -> Result<Option<Calibration>> {
        self.calibration = None;
        let dataset = self.dataset();
        let (labels, units) = (&dataset.labels, &dataset.split.valid[..]);
        if self.objective.is_regression() || units.is_empty() {
            return Ok(None);
        }
        let logits = self.unit_logits(units)?;
        let scored = Scored { labels, units, logits: &logits, scaling: None };
        let weights = self.weights.as_deref();
        let (Some(line), Some(before)) = (self.objective.calibrate(&scored, weights), self.fitted_loss(&scored)) else {
            return Ok(None);
        };
        self.calibration = Some(Calibration {
            temperature: 1.0 / line.scale,
            offset: line.offset,
            validation_nll_before: before,
            validation_nll_after: before,
        });
        // What counts is the model as it will be used, its parameters rounded.
        let logits = self.unit_logits(units)?;
        let after = self.fitted_loss(&Scored { labels, units, logits: &logits, scaling: None });
        let after = after.filter(|&after| after < before);
        self.calibration = after
            .and_then(|after| self.calibration.map(|before| Calibration { validation_nll_after: after, ..before }));
        Ok(self.calibration)
    }

    /// The loss that calibration is to lower: as training counts units.
    fn fitted_loss(&self, scored: &Scored<'_>) -> Option<f64> {
        match &self.weights {
            Some(weights) => self.objective.weighted_loss(scored, weights),
            None => self.objective.score(scored).get(self.objective.loss_score().name),
        }
    }

    /// What [`Trainer::calibrate`] found.
    pub fn calibration(&self) -> Option<Calibration> {
        self.calibration
    }

    /// Scores any units with the best model.
    ///
    /// # Errors
    /// The device failed.
    pub fn score(&mut self, units: &[u32]) -> Result<Scores> {
        let mut logits = self.unit_logits(units)?;
        Ok(self.scored(units, &mut logits))
    }

    /// Scores any units with the best model, and says how far its probabilities can be trusted.
    ///
    /// # Errors
    /// The device failed.
    pub fn evaluate(&mut self, units: &[u32]) -> Result<Evaluation> {
        let mut logits = self.unit_logits(units)?;
        let scores = self.scored(units, &mut logits);
        let scored = Scored { labels: &self.dataset().labels, units, logits: &logits, scaling: None };
        let guesses = self.objective.guesses(&scored);
        let (reliability, only_class) = (Reliability::of(&guesses), only_class(&guesses));
        let details = self.objective.details(&scored);
        Ok(Evaluation { scores, reliability, details, logits, only_class })
    }

    /// What the table says of the validation units, and what is true; none where steps walk, or without such units.
    ///
    /// # Errors
    /// The device failed.
    pub fn table_losses(&mut self, which: Which) -> Result<Option<TableLosses>> {
        let units = &self.dataset().split.valid;
        if self.tabled.is_none() || units.is_empty() {
            return Ok(None);
        }
        self.take_back()?;
        let parameters = match which {
            Which::Current => self.device.download(&self.parameters)?,
            Which::Best => self.best()?,
        };
        let parameters = self.device.upload(&parameters)?;
        let name = self.objective.loss_score().name;
        let tabulated = self.validate_with(&parameters)?.get(name);
        let mut logits = self.logits_with(&parameters, units)?;
        let exact = self.scored(units, &mut logits).get(name);
        Ok(tabulated.zip(exact).map(|(tabulated, exact)| TableLosses { tabulated, exact }))
    }

    /// Outputs of the best model for any units, units x L.
    fn unit_logits(&mut self, units: &[u32]) -> Result<Vec<f32>> {
        let parameters = self.device.upload(&self.calibrated_best()?)?;
        self.logits_with(&parameters, units)
    }

    /// Exact outputs for any units with any parameters, units x L.
    fn logits_with(&mut self, parameters: &D::Buffer, units: &[u32]) -> Result<Vec<f32>> {
        self.take_back()?;
        let mut logits = Vec::new();
        let Way { plan, batches } = self.exact.clone();
        if batches.shares_nodes() && self.tabled.is_none() {
            let mut resident = self.take_train()?;
            resident.unit_logits(&mut logits, parameters, units, true)?;
            self.train = Some(resident);
            return Ok(logits);
        }
        // A score must not need more memory than training did: not beside its batches, and not all graphs at once.
        (self.train, self.valid) = (None, None);
        if self.tabled.is_some() {
            self.collection = None;
        }
        if batches.shares_nodes() {
            // Processes that share classes have as many columns fewer each.
            let alone = !batches.is_shared();
            let panels = PanelPlan::of(self.device, self.dataset(), self.layout, self.config.engine.states);
            let panels = panels.filter(|_| alone);
            if let (Some(plan), Reach::Walk(transition)) = (panels, batches.reach()) {
                let parameters = self.device.download(parameters)?;
                let x = &self.dataset().features;
                return panels::logits(self.layout, &parameters, x, transition, units, plan);
            }
            let mut resident = match self.scored.take() {
                Some(resident) => resident,
                None => self.resident(plan, batches.whole(units))?,
            };
            resident.unit_logits(&mut logits, parameters, units, true)?;
            self.scored = Some(resident);
            return Ok(logits);
        }
        for units in portions(batches.dataset, units, self.config.train.batch_size) {
            let mut resident = self.resident(plan, batches.holding(units))?;
            let mut portion = Vec::new();
            resident.unit_logits(&mut portion, parameters, units, false)?;
            logits.extend(portion);
        }
        Ok(logits)
    }

    /// The best parameters, with the calibration in their readout.
    fn calibrated_best(&self) -> Result<Vec<f32>> {
        match &self.calibration {
            Some(calibration) => Ok(self.learned_model(None)?.calibrated(calibration).parameters),
            None => self.best(),
        }
    }

    /// Signed contribution w_k `H[i,k]` of every feature to the (first) logit of each unit of a node task, units x d,
    /// and the hop weights T x d, with the best parameters.
    ///
    /// # Errors
    /// The device failed.
    pub fn contributions(&mut self, units: &[u32]) -> Result<(Vec<f64>, Vec<f64>)> {
        let a = &self.layout.architecture;
        let best = self.calibrated_best()?;
        let parameters = self.device.upload(&best)?;
        self.take_back()?;
        (self.train, self.valid, self.scored, self.collection) = (None, None, None, None);
        // H is what contributions are read off: class space does not have it.
        let plan = Plan { space: Space::Features, sparse: false, ..self.exact.plan };
        let batch = Batches::new(self.dataset(), self.config.walk).holding(units);
        let mut resident = Resident::new(self.device, self.layout, plan, batch)?;
        resident.pass.forward(&resident.inputs, &parameters, &Randomness::none())?;
        let state =
            resident.pass.state().map(|state| self.device.download_matrix(state)).transpose()?.unwrap_or_default();
        let weight = &best[self.layout.readout_weight.clone()];
        let contribution = |row: usize, k: usize| f64::from(state[row * a.features + k] * weight[k * a.outputs]);
        let contributions = (resident.batch()?.units.iter())
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
        self.objective.score(&Scored { labels: &self.dataset().labels, units, logits, scaling })
    }

    /// Scores of the validation units with any parameters; undefined where there are none.
    fn validate_with(&mut self, parameters: &D::Buffer) -> Result<Scores> {
        self.ask_validation(parameters)?;
        loop {
            match self.take_validation(parameters)? {
                Some(scores) => return Ok(scores),
                None => self.ask_validation(parameters)?,
            }
        }
    }

    /// Asks for what scores of the validation units need: nobody waits. Walks that are drawn for them are an exception: they are
    /// drawn when scores are taken.
    pub(super) fn ask_validation(&mut self, parameters: &D::Buffer) -> Result<()> {
        let units = &self.dataset().split.valid;
        if units.is_empty() || self.validation().batches.draws() {
            return Ok(());
        }
        let mut resident = self.take_validating()?;
        let asked = resident.ask_logits(parameters, units, self.validation().batches.shares_nodes());
        self.return_validating(resident);
        asked
    }

    /// The scores; none where tables of pieces were too small, which they no longer are: they have to be asked for again.
    pub(super) fn take_validation(&mut self, parameters: &D::Buffer) -> Result<Option<Scores>> {
        let units = &self.dataset().split.valid;
        if units.is_empty() {
            return Ok(Some(Scores::undefined(self.objective)));
        }
        if self.validation().batches.draws() {
            self.drawn_logits(parameters)?;
        } else {
            let mut resident = self.take_validating()?;
            let had_room = resident.take_logits(&mut self.logits);
            self.return_validating(resident);
            if !had_room? {
                return Ok(None);
            }
        }
        let mut logits = std::mem::take(&mut self.logits);
        let mut scores = self.scored(units, &mut logits);
        if let Some(weights) = &self.weights {
            let (labels, scaling) = (&self.dataset().labels, self.target_scaling.as_ref());
            let loss = self.objective.weighted_loss(&Scored { labels, units, logits: &logits, scaling }, weights);
            scores = scores.with(WEIGHTED_LOSS.name, loss);
        }
        self.logits = logits;
        Ok(Some(scores))
    }

    /// What holds the validation units; whoever takes it returns it.
    fn take_validating(&mut self) -> Result<Resident<'a, D>> {
        if self.validation().batches.shares_nodes() {
            return self.take_train();
        }
        match self.valid.take() {
            Some(resident) => Ok(resident),
            None => {
                let Way { plan, batches } = self.validation();
                self.resident(*plan, batches.holding(&batches.dataset.split.valid))
            }
        }
    }

    fn return_validating(&mut self, resident: Resident<'a, D>) {
        match self.validation().batches.shares_nodes() {
            true => self.train = Some(resident),
            false => self.valid = Some(resident),
        }
    }
}
