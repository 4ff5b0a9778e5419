//! One model, one seed: epochs, and the state a checkpoint needs. Steps are in `step`, scores in `evaluation`.
//!
//! All randomness is a function of (seed, epoch or step), so a trainer restored from its state goes on to the same
//! bits as one that never stopped.

mod ahead;
mod evaluation;
mod step;
mod tabled;

pub use evaluation::{Evaluation, TableLosses, Which};

use super::monotone::Signs;
use super::stopping::{Decision, Goal, Stopping};
use super::warm_start::warm_start;
use super::{Prepared, RunName, choice, hop_basis, schedule};
use crate::architecture::{Layout, Routes};
use crate::batch::{Batch, Batches};
use crate::config::{Config, DropoutPlace};
use crate::device::Device;
use crate::loss::{Calibration, Objective, ScoreKind, Scores, TargetScaling};
use crate::model::{FittedModel, Profile, Randomness, Resident, Smoothness, initial_parameters};
use crate::plan::Plan;
use crate::team::{Share, Sharing};
use ahead::Ahead;
use harmonia_graph::dataset::{Dataset, Scaling};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::Split;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use step::rates;
use tabled::Tabled;

/// One line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Counted from 1.
    pub epoch: usize,
    /// Mean training loss, dropout and noise included, penalties not.
    pub train_loss: f64,
    /// Scores of the validation units.
    pub validation: Scores,
    /// Learning rate of the epoch.
    pub learning_rate: f64,
    /// Whether this is the best epoch so far.
    pub best: bool,
    /// Seconds since the start of training, over all sittings.
    pub seconds: f64,
}

/// Progress that is not a tensor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Epochs done.
    pub epoch: usize,
    /// Optimizer steps done.
    pub step: u64,
    /// Early stopping.
    pub stopping: Stopping,
    /// Whether patience ended the run.
    pub stopped: bool,
    /// Points of the table that steps read, where more turned out to be needed than planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_points: Option<usize>,
    /// Walks that correct it, where more turned out to be needed than planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_walks: Option<usize>,
}

/// Everything needed to go on: host copies, in the layout's order.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Counters and early stopping.
    pub progress: Progress,
    /// Current parameters.
    pub parameters: Vec<f32>,
    /// Adam's first moment.
    pub first_moment: Vec<f32>,
    /// Adam's second moment.
    pub second_moment: Vec<f32>,
    /// Parameters of the best epoch.
    pub best: Vec<f32>,
}

impl State {
    /// Of a model that has not learned anything yet.
    fn fresh(run: &Prepared, config: &Config, signs: Option<&Signs>) -> Result<State> {
        let layout = &run.layout;
        let mut parameters = initial_parameters(layout, config.init, run.name.seed);
        if let Some(signs) = signs {
            signs.start(&mut parameters, layout, config.init);
        }
        if let Some(basis) = &layout.hop_basis {
            let hop_logits = &mut parameters[layout.hop_logits.clone()];
            let alpha = hop_basis::coordinates(basis, hop_logits, layout.architecture.features);
            hop_logits.copy_from_slice(&alpha);
        }
        // Weights that may not be negative could not help an intercept that has yet to find the frequency of classes. Targets of a
        // regression are centred: theirs is 0.
        if (config.init.frequencies || signs.is_some())
            && !run.objective.is_regression()
            && !layout.readout_bias.is_empty()
        {
            let (labels, train) = (&run.dataset.labels, &run.dataset.split.train);
            let logits = run.objective.weighted_constant(labels, train, run.weights.as_deref());
            parameters[layout.readout_bias.clone()].copy_from_slice(&logits);
        }
        if config.init.warm_start {
            warm_start(&mut parameters, run, config.walk)?;
        }
        Ok(State {
            progress: Progress::default(),
            first_moment: vec![0.0; layout.len()],
            second_moment: vec![0.0; layout.len()],
            best: parameters.clone(),
            parameters,
        })
    }
}

/// How steps are computed, and on what.
#[derive(Clone)]
struct Way<'a> {
    plan: Plan,
    batches: Batches<'a>,
}

/// A model under way, on a device: parameters, moments, and batches that stay resident between steps.
pub struct Trainer<'a, D: Device<Real = f32>> {
    device: &'a D,
    layout: &'a Layout,
    config: &'a Config,
    seed: u64,
    /// How the model is scored, and without a table trained.
    exact: Way<'a>,
    /// How it is trained and validated from a table.
    tabled: Option<Tabled<'a>>,
    objective: Objective,
    target_scaling: Option<TargetScaling>,
    /// How much each unit counts while the model is fitted, where they do not count alike.
    weights: Option<Arc<[f32]>>,
    goal: Goal,
    train: Option<Resident<'a, D>>,
    valid: Option<Resident<'a, D>>,
    /// What batches are made of, on a device that puts them together by itself; found out by the first step.
    collection: Option<Option<D::Collection>>,
    /// The whole graph, where steps do not have it.
    scored: Option<Resident<'a, D>>,
    progress: Progress,
    parameters: D::Buffer,
    gradient: D::Buffer,
    first_moment: D::Buffer,
    second_moment: D::Buffer,
    /// Of the best epoch, as training left it: calibration is not in it. On the device: nobody waits for it.
    best: D::Buffer,
    calibration: Option<Calibration>,
    /// Signs that parameters keep, so that effects go the way they are told.
    signs: Option<D::Buffer>,
    /// What makes bent responses cost something.
    smoothness: Option<Smoothness<'a, D>>,
    /// Which parameters learn at which multiple of the learning rate.
    rates: Vec<(Range<usize>, f64)>,
    randomness: Randomness<D>,
    /// The first step of the next epoch.
    ahead: Ahead<D>,
    /// Norms of parameters and of the second moment.
    checks: [D::Verdict; 2],
    /// Logits that are being scored.
    logits: Vec<f32>,
    /// What of a step is this process's, where several share it.
    share: Option<&'a Arc<Share>>,
}

impl<'a, D: Device<Real = f32>> Trainer<'a, D> {
    /// A fresh model, or one restored from `state`.
    ///
    /// # Errors
    /// The device is out of memory; a warm start that the data do not allow.
    pub fn new(device: &'a D, run: &'a Prepared, config: &'a Config, state: Option<State>) -> Result<Self> {
        let Prepared { name: RunName { seed, .. }, dataset, layout, plan, objective, .. } = run;
        let (seed, plan, objective) = (*seed, *plan, *objective);
        // Before anything is allocated: what is free decides what comes in panels.
        let streamed = run.memory(device, config).streamed;
        let table = run.walk_table(config.walk)?;
        let signs = Signs::of(dataset, layout, config, seed);
        let state = match state {
            Some(state) => state,
            None => State::fresh(run, config, signs.as_ref())?,
        };
        let routed = layout.architecture.routes() == Routes::Learned;
        let noise =
            routed.then(|| device.zeros(layout.architecture.features * layout.architecture.experts)).transpose()?;
        let Split { train, valid, .. } = &dataset.split;
        let target_scaling = TargetScaling::of(&dataset.labels, train);
        let (labels, scaling, weights) = (&dataset.labels, target_scaling.as_ref(), run.weights.clone());
        let chance = match &weights {
            Some(weights) => objective.weighted_chance(labels, train, valid, scaling, weights),
            None => objective.chance(labels, train, valid, scaling),
        };
        let share = run.share.as_ref();
        let mut batches = match share.filter(|share| share.sharing == Sharing::Nodes) {
            Some(share) => Batches::of_own_nodes(dataset, config.walk, share)?,
            None => Batches::planned(dataset, config.walk, plan, layout.architecture.walk_lengths()),
        };
        // Masks are drawn for every node: where inputs are dropped, equal nodes are not equal. Their responses cost one by one.
        let alike = config.train.dropout == 0.0 || config.train.dropout_place == DropoutPlace::Feature;
        if alike && config.train.output_penalty == 0.0 {
            batches = batches.merged();
        }
        let mut batches =
            batches.for_loss(objective, target_scaling.clone()).weighted(weights.clone()).streamed(streamed);
        match share.map(|share| share.sharing) {
            None | Some(Sharing::Nodes) => (),
            // Rows are those of a table; what is scored by walking is shared otherwise, or done by all.
            Some(Sharing::Rows) if dataset.graphs() > 1 => batches = batches.shared(share, Sharing::Targets),
            Some(Sharing::Rows) => {
                batches = batches.shared(share.filter(|share| share.classes.is_some()), Sharing::Classes);
            }
            Some(sharing) => batches = batches.shared(share, sharing),
        }
        let planned = run.tabulation.plan().map_or(0, |plan| plan.walks);
        let walks = state.progress.table_walks.unwrap_or(planned);
        let exact = Way { plan, batches };
        // Of a penalty on responses, which all ranks know, each adds its part.
        let ranks = share.map_or(1, |share| share.team.size());
        let (x, strength) = (&dataset.features, choice::settled(config)? / ranks as f64);
        let smoothness = (strength > 0.0).then(|| Smoothness::new(device, layout, plan, x, strength)).transpose()?;
        let tabled = table.map(|table| Tabled::new(&exact, table, walks, config, share));
        Ok(Trainer {
            device,
            layout,
            config,
            seed,
            exact,
            tabled,
            calibration: None,
            smoothness,
            signs: signs.map(|signs| signs.on(device)).transpose()?,
            objective,
            goal: Goal::new(objective, config.train.metric, chance, weights.is_some()),
            target_scaling,
            weights,
            train: None,
            valid: None,
            collection: None,
            scored: None,
            progress: state.progress,
            parameters: device.upload(&state.parameters)?,
            gradient: device.zeros(layout.len())?,
            first_moment: device.upload(&state.first_moment)?,
            second_moment: device.upload(&state.second_moment)?,
            best: device.upload(&state.best)?,
            rates: rates(layout, config, dataset),
            randomness: Randomness { noise, dropout: None },
            ahead: Ahead::nothing(),
            checks: [device.verdict()?, device.verdict()?],
            logits: Vec::new(),
            share,
        })
    }

    /// Where the parameters of a batch are: of one whose classes are shared, those of this process's own.
    fn layout_of(&self, batch: &Batch) -> &'a Layout {
        let of_classes = batch.part.as_ref().is_some_and(|part| part.sharing == Sharing::Classes);
        let own = self.share.filter(|_| of_classes).and_then(|share| share.classes.as_ref());
        own.map_or(self.layout, |own| &own.layout)
    }

    /// A batch on the device.
    fn resident(&self, plan: Plan, batch: Batch) -> Result<Resident<'a, D>> {
        Resident::new(self.device, self.layout_of(&batch), plan, batch)
    }

    /// Counters and early stopping.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Whether there is nothing left to do.
    pub fn finished(&self) -> bool {
        self.progress.stopped || self.progress.epoch >= self.config.train.epochs
    }

    /// Whether validation was still getting better when the epochs were over; what patience has ended was not.
    pub fn is_learning(&self) -> bool {
        !self.progress.stopped && self.progress.stopping.is_learning(self.progress.epoch, &self.goal)
    }

    /// What epochs are chosen by, and its value on the validation units in the best one so far.
    pub fn best_score(&self) -> (&'static ScoreKind, f64) {
        let kind = self.goal.score();
        (kind, kind.merit(self.progress.stopping.best_score()))
    }

    /// Parameters of the best epoch so far, as training has them.
    ///
    /// # Errors
    /// The device failed.
    pub fn best(&self) -> Result<Vec<f32>> {
        self.device.download(&self.best)
    }

    /// Host copies of everything needed to go on.
    ///
    /// # Errors
    /// The device failed.
    pub fn state(&self) -> Result<State> {
        let [parameters, first_moment, second_moment] = self.settled();
        Ok(State {
            progress: self.progress.clone(),
            parameters: self.device.download(parameters)?,
            first_moment: self.device.download(first_moment)?,
            second_moment: self.device.download(second_moment)?,
            best: self.best()?,
        })
    }

    /// Trains one epoch and scores the validation units.
    ///
    /// # Errors
    /// The loss is no longer a number, or the device failed.
    pub fn epoch(&mut self) -> Result<EpochRecord> {
        let epoch = self.progress.epoch;
        let learning_rate = schedule::learning_rate(&self.config.train, epoch);
        let train_loss = self.train_epoch(learning_rate, true)?;
        let (validation, norms) = self.take_scores()?;
        self.check_finite(&validation, norms)?;
        let patience = self.config.train.patience;
        let Decision { best, stop } =
            self.progress.stopping.update(epoch, train_loss, &validation, patience, &self.goal);
        if best {
            let mut kept = std::mem::replace(&mut self.best, self.device.zeros(0)?);
            let done = self.device.keep(&mut kept, self.settled()[0]);
            self.best = kept;
            done?;
        }
        self.progress.stopped = stop;
        self.progress.epoch += 1;
        Ok(EpochRecord { epoch: epoch + 1, train_loss, validation, learning_rate, best, seconds: 0.0 })
    }

    /// The training steps of one epoch, without the scoring that follows them in [`Trainer::epoch`]: what a measurement
    /// times. The best parameters stay as they are.
    ///
    /// # Errors
    /// The loss is no longer a number, or the device failed.
    pub fn steps(&mut self) -> Result<f64> {
        let loss = self.train_epoch(schedule::learning_rate(&self.config.train, self.progress.epoch), false)?;
        self.progress.epoch += 1;
        Ok(loss)
    }

    /// Adds up the time of every op of training steps from now on.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn profile(&mut self) -> Result<()> {
        let mut resident = self.take_train()?;
        resident.pass.ops().profile();
        self.train = Some(resident);
        Ok(())
    }

    /// What was added up since [`Trainer::profile`].
    pub fn take_profile(&mut self) -> Option<Profile> {
        self.train.as_mut().and_then(|resident| resident.pass.ops().take_profile())
    }

    /// How steps are computed.
    pub fn plan(&self) -> Plan {
        self.training().plan
    }

    /// How steps are computed, and on what.
    fn training(&self) -> &Way<'a> {
        self.tabled.as_ref().map_or(&self.exact, |tabled| &tabled.train)
    }

    /// The same for the validation units of each epoch.
    fn validation(&self) -> &Way<'a> {
        self.tabled.as_ref().map_or(&self.exact, |tabled| &tabled.valid)
    }

    fn dataset(&self) -> &'a Dataset {
        self.exact.batches.dataset
    }

    /// The best model so far, of ReLU networks alone: its outputs in the units of the target or, once [`Trainer::calibrate`] was asked, calibrated,
    /// and its hop weights those of walk lengths.
    ///
    /// # Errors
    /// The device failed.
    pub fn model(&self, scaling: Option<Scaling>) -> Result<FittedModel> {
        let mut model = self.learned_model(scaling)?.plain();
        if let Some(basis) = model.layout.hop_basis.take() {
            let hop_logits = &mut model.parameters[self.layout.hop_logits.clone()];
            let theta = hop_basis::weights(&basis, hop_logits, self.layout.architecture.features);
            hop_logits.copy_from_slice(&theta);
        }
        Ok(match (&self.target_scaling, &self.calibration) {
            (Some(target), _) => model.in_units_of(target),
            (None, Some(calibration)) => model.calibrated(calibration),
            (None, None) => model,
        })
    }

    /// The best parameters as they were learned.
    fn learned_model(&self, scaling: Option<Scaling>) -> Result<FittedModel> {
        Ok(FittedModel {
            layout: self.layout.clone(),
            parameters: self.best()?,
            walk: self.config.walk,
            objective: self.objective,
            scaling,
            calibration: None,
            structure: self.dataset().structure.clone(),
        })
    }

    /// The loss of a step is taken before its update, so the last update of an epoch is checked here: a checkpoint
    /// never holds anything that is not a number.
    fn check_finite(&self, validation: &Scores, [parameters, moments]: [f64; 2]) -> Result<()> {
        let valid = validation.get(self.objective.loss_score().name).unwrap_or(0.0);
        if parameters.is_finite() && moments.is_finite() && valid.is_finite() {
            return Ok(());
        }
        Err(self.diverged(&format!("validation loss {valid}, parameter norm {parameters}")))
    }

    fn diverged(&self, what: &str) -> Error {
        let epoch = self.progress.epoch + 1;
        // Squares of such numbers leave single precision, whatever the learning rate is.
        const LARGE: f32 = 1e18;
        match self.dataset().features.largest() {
            (size, feature) if size > LARGE => Error::Diverged(format!(
                "training diverged in epoch {epoch} ({what}): feature {feature} has values up to {size:e}, too large for single \
                 precision; rescale it, or set data.normalise = standardise"
            )),
            _ => Error::Diverged(format!(
                "training diverged in epoch {epoch} ({what}): lower train.learning_rate or set train.clip_norm"
            )),
        }
    }
}
