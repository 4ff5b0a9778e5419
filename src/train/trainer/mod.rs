//! One model, one seed: epochs of training steps and the state a checkpoint needs. Scores are in `evaluation`.
//!
//! All randomness is a function of (seed, epoch or step), so a trainer restored from its state goes on to the same
//! bits as one that never stopped.

mod evaluation;
mod tabled;

pub use evaluation::{Evaluation, TableLosses, Which};

use super::batching::epoch_batches;
use super::stopping::{Decision, Goal, Stopping};
use super::warm_start::warm_start;
use super::{Prepared, RunName, hop_basis, schedule};
use crate::architecture::Layout;
use crate::batch::Batches;
use crate::config::DropoutPlace;
use crate::config::{Config, Optimizer};
use crate::device::{AdamStep, Device, Dropout};
use crate::loss::{Calibration, Objective, Scores, TargetScaling};
use crate::model::{FittedModel, Profile, Randomness, Resident, initial_parameters};
use crate::plan::Plan;
use harmonia_graph::dataset::{Dataset, Level, Scaling};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::Split;
use harmonia_graph::seed::{Purpose, Stream};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use tabled::Tabled;

/// Scores of an epoch, and norms of parameters and of the second moment.
type EpochScores = (Scores, [f64; 2]);

/// Steps that are asked for before the first of them is known.
const STEPS_AHEAD: usize = 2;

/// One line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Counted from 1.
    pub epoch: usize,
    /// Mean training loss, dropout and noise included.
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
    fn fresh(run: &Prepared, config: &Config) -> Result<State> {
        let layout = &run.layout;
        let mut parameters = initial_parameters(layout, config.init, run.name.seed);
        if let Some(basis) = &layout.hop_basis {
            let hop_logits = &mut parameters[layout.hop_logits.clone()];
            let alpha = hop_basis::coordinates(basis, hop_logits, layout.architecture.features);
            hop_logits.copy_from_slice(&alpha);
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
    goal: Goal,
    train: Option<Resident<'a, D>>,
    valid: Option<Resident<'a, D>>,
    /// All graphs, on a device that puts batches together by itself; found out by the first step.
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
    /// Which parameters learn at which multiple of the learning rate.
    rates: Vec<(Range<usize>, f64)>,
    randomness: Randomness<D>,
    /// Norms of parameters and of the second moment.
    checks: [D::Verdict; 2],
    /// Logits that are being scored.
    logits: Vec<f32>,
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
        let state = match state {
            Some(state) => state,
            None => State::fresh(run, config)?,
        };
        let noise = layout.architecture.features * layout.architecture.experts;
        let Split { train, valid, .. } = &dataset.split;
        let target_scaling = TargetScaling::of(&dataset.labels, train);
        let chance = objective.chance(&dataset.labels, train, valid, target_scaling.as_ref());
        let mut batches = Batches::planned(dataset, config.walk, plan, layout.architecture.hops);
        // Masks are drawn for every node: where inputs are dropped, equal nodes are not equal.
        if config.train.dropout == 0.0 || config.train.dropout_place == DropoutPlace::Feature {
            batches = batches.merged();
        }
        let batches = batches.for_loss(objective, target_scaling.clone()).streamed(streamed);
        let planned = run.tabulation.plan().map_or(0, |plan| plan.walks);
        let walks = state.progress.table_walks.unwrap_or(planned);
        let exact = Way { plan, batches };
        let tabled = table.map(|table| Tabled::new(&exact, table, walks, config));
        Ok(Trainer {
            device,
            layout,
            config,
            seed,
            exact,
            tabled,
            calibration: None,
            objective,
            goal: Goal::new(objective, config.train.metric, chance),
            target_scaling,
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
            randomness: Randomness { noise: Some(device.zeros(noise)?), dropout: None },
            checks: [device.verdict()?, device.verdict()?],
            logits: Vec::new(),
        })
    }

    /// Counters and early stopping.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Whether there is nothing left to do.
    pub fn finished(&self) -> bool {
        self.progress.stopped || self.progress.epoch >= self.config.train.epochs
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
        Ok(State {
            progress: self.progress.clone(),
            parameters: self.device.download(&self.parameters)?,
            first_moment: self.device.download(&self.first_moment)?,
            second_moment: self.device.download(&self.second_moment)?,
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
        let (train_loss, scored) = self.train_epoch(learning_rate, true)?;
        let (validation, norms) = match scored {
            Some(scored) => scored,
            None => self.score_epoch()?,
        };
        self.check_finite(&validation, norms)?;
        let patience = self.config.train.patience;
        let Decision { best, stop } =
            self.progress.stopping.update(epoch, train_loss, &validation, patience, &self.goal);
        if best {
            self.device.keep(&mut self.best, &self.parameters)?;
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
        let (loss, _) = self.train_epoch(schedule::learning_rate(&self.config.train, self.progress.epoch), false)?;
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

    /// The best model so far: its outputs in the units of the target or, once [`Trainer::calibrate`] was asked, calibrated,
    /// and its hop weights those of walk lengths.
    ///
    /// # Errors
    /// The device failed.
    pub fn model(&self, scaling: Option<Scaling>) -> Result<FittedModel> {
        let mut model = self.learned_model(scaling)?;
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

    /// Scores of the validation units, and norms of parameters and second moment. The norms are asked for first, so that
    /// whoever has the scores does not wait for them.
    fn score_epoch(&mut self) -> Result<EpochScores> {
        let Trainer { device, checks, parameters, second_moment, .. } = self;
        for (verdict, values) in checks.iter_mut().zip([&*parameters, &*second_moment]) {
            device.norm(verdict, values)?;
            device.post(verdict)?;
        }
        let scores = self.validate()?;
        let mut norms = [0.0; 2];
        for (norm, verdict) in norms.iter_mut().zip(&mut self.checks) {
            *norm = self.device.collect(verdict)?.norm;
        }
        Ok((scores, norms))
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

    /// The resident training batch, made on first use; whoever takes it puts it back.
    fn take_train(&mut self) -> Result<Resident<'a, D>> {
        match self.train.take() {
            Some(resident) => Ok(resident),
            None => {
                let first = self.epoch_batches(0).into_iter().next().unwrap_or_default();
                let Way { plan, batches } = self.training();
                Resident::new(self.device, self.layout, *plan, batches.drawn(&first, self.walk_stream()))
            }
        }
    }

    /// Steps are asked for one ahead of what is known of them, and the scores of the epoch, where they are wanted, before the
    /// last step is known: the device has always something to do.
    fn train_epoch(&mut self, learning_rate: f64, scored: bool) -> Result<(f64, Option<EpochScores>)> {
        let (whole, train) = (self.config.train.batch_size == 0, &self.dataset().split.train);
        let batches = if whole { Vec::new() } else { self.epoch_batches(self.progress.epoch) };
        let count = if whole { 1 } else { batches.len() };
        let units = |step: usize| if whole { train } else { &batches[step] };
        let (mut total, mut asked, mut known, mut scores) = (0.0, 0, 0, None);
        while known < count {
            while asked < count.min(known + STEPS_AHEAD) {
                self.step(units(asked), count, learning_rate)?;
                asked += 1;
            }
            if scored && known + 1 == count {
                scores = Some(self.score_epoch()?);
            }
            match self.settle(asked - known)? {
                Some(loss) if whole => return Ok((loss, scores)),
                Some(loss) => total += loss * units(known).len() as f64,
                None => {
                    asked = known;
                    continue;
                }
            }
            known += 1;
        }
        Ok((total / train.len() as f64, scores))
    }

    /// What became of the oldest of so many steps under way: its loss; none where tables of pieces were too small for it. They
    /// are larger then, and neither it nor those behind it have happened.
    fn settle(&mut self, under_way: usize) -> Result<Option<f64>> {
        let mut resident = self.take_train()?;
        let judgement = resident.pass.collect()?;
        if judgement.diverged && !judgement.crowded {
            return Err(self.diverged(&format!("loss {}, gradient norm {}", judgement.loss, judgement.norm)));
        }
        if judgement.crowded {
            (1..under_way).try_for_each(|_| resident.pass.collect().map(drop))?;
            resident.pass.make_room(judgement.pieces)?;
            self.progress.step -= under_way as u64;
        }
        self.train = Some(resident);
        Ok((!judgement.crowded).then_some(judgement.loss))
    }

    /// Training units of each step of an epoch.
    fn epoch_batches(&self, epoch: usize) -> Vec<Vec<u32>> {
        epoch_batches(self.dataset(), self.config.train.batch_size, self.seed, epoch)
    }

    fn step(&mut self, units: &[u32], batches: usize, learning_rate: f64) -> Result<()> {
        let train = &self.config.train;
        self.scored = None;
        let mut resident = self.take_train()?;
        self.draw(&mut resident)?;
        if batches > 1 || self.training().batches.draws() {
            resident = self.with_units(resident, units)?;
        }
        resident.pass.ops().clear(&mut self.gradient)?;
        resident.take_gradient(&mut self.gradient, &self.parameters, &self.randomness)?;
        let (ops, verdict) = resident.pass.ops_and_verdict();
        ops.norm(verdict, &self.gradient)?;
        self.progress.step += 1;
        let step = AdamStep {
            learning_rate,
            weight_decay: train.weight_decay,
            decoupled: train.optimizer == Optimizer::AdamW,
            step: self.progress.step,
            clip_norm: train.clip_norm,
        };
        let Trainer { parameters, first_moment, second_moment, gradient, rates, .. } = self;
        for (range, rate) in rates {
            let step = AdamStep { learning_rate: learning_rate * *rate, ..step };
            ops.adam(parameters, first_moment, second_moment, gradient, verdict, range, step)?;
        }
        resident.pass.post()?;
        self.train = Some(resident);
        Ok(())
    }

    /// The training batch with the units of the next step.
    fn with_units(&mut self, mut resident: Resident<'a, D>, units: &[u32]) -> Result<Resident<'a, D>> {
        if self.collection.is_none() {
            let Way { plan, batches } = self.training();
            let whole = batches.are_graphs().then(|| batches.whole(&batches.dataset.split.train));
            let collection = whole.map(|whole| self.device.collection(&whole, *plan)).transpose()?;
            self.collection = Some(collection.flatten());
        }
        let batches = &self.training().batches;
        if let Some(Some(collection)) = &self.collection {
            return resident.selected(collection, &batches.selection(units));
        }
        if batches.shares_nodes() {
            resident.retarget(batches.whole(units))?;
            return Ok(resident);
        }
        resident.replaced(batches.drawn(units, self.walk_stream()))
    }

    /// Noise and dropout of the next step.
    fn draw(&mut self, resident: &mut Resident<'a, D>) -> Result<()> {
        let stream = |purpose| Stream::new(self.seed, purpose, self.progress.step as u32);
        if let Some(noise) = &mut self.randomness.noise {
            resident.pass.ops().draw_noise(noise, &stream(Purpose::Noise), self.config.train.router_noise)?;
        }
        let (rate, place) = (self.config.train.dropout, self.config.train.dropout_place);
        let active = rate > 0.0 && place != DropoutPlace::None;
        self.randomness.dropout = active.then(|| Dropout { place, rate, stream: stream(Purpose::Dropout) });
        Ok(())
    }
}

/// Groups of parameters, in order, with the factor on their learning rate.
fn rates(layout: &Layout, config: &Config, dataset: &Dataset) -> Vec<(Range<usize>, f64)> {
    let readout = match (config.train.readout_rate, dataset.level) {
        (0.0, Level::Graph) => dataset.graphs() as f64 / dataset.graph.nodes() as f64,
        (0.0, Level::Node) => 1.0,
        (rate, _) => rate,
    };
    let rest = |range: Range<usize>| (range, 1.0);
    let groups = [
        rest(0..layout.hop_logits.start),
        (layout.hop_logits.clone(), config.train.hop_rate),
        (layout.readout_weight.clone(), readout),
        rest(layout.readout_bias.clone()),
    ];
    // One update where nothing differs.
    match groups.iter().all(|(_, rate)| *rate == 1.0) {
        true => vec![rest(0..layout.len())],
        false => groups.into(),
    }
}
