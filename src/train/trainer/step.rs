//! The steps of an epoch: asked for one ahead of what is known of them, on the units of a batch, with noise and dropout of their own.

use super::{Trainer, Way};
use crate::architecture::Layout;
use crate::config::{Config, DropoutPlace, Optimizer};
use crate::device::{AdamStep, Device, Dropout};
use crate::model::Resident;
use crate::train::batching::epoch_batches;
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::Result;
use harmonia_graph::seed::{Purpose, Stream};
use std::ops::Range;

/// Steps that are asked for before the first of them is known.
const STEPS_AHEAD: usize = 2;

impl<'a, D: Device<Real = f32>> Trainer<'a, D> {
    /// The resident training batch, made on first use; whoever takes it puts it back.
    pub(super) fn take_train(&mut self) -> Result<Resident<'a, D>> {
        match self.train.take() {
            Some(resident) => Ok(resident),
            None => {
                let first = self.epoch_batches(0).into_iter().next().unwrap_or_default();
                let Way { plan, batches } = self.training();
                self.resident(*plan, batches.drawn(&first, self.walk_stream()))
            }
        }
    }

    /// Steps are asked for one ahead of what is known of them, and the scores of the epoch, where they are wanted, and the first step
    /// of the next epoch before the last step is known: the device has always something to do. Whoever wants scores takes them.
    pub(super) fn train_epoch(&mut self, learning_rate: f64, scored: bool) -> Result<f64> {
        let (whole, train) = (self.config.train.batch_size == 0, &self.dataset().split.train);
        let begun = self.ahead.begin();
        let (mut total, mut asked, mut known) = (0.0, usize::from(begun.is_some()), 0);
        self.progress.step += asked as u64;
        let batches = match begun {
            Some(batches) => batches,
            None if whole => Vec::new(),
            None => self.epoch_batches(self.progress.epoch),
        };
        let count = if whole { 1 } else { batches.len() };
        let units = |step: usize| if whole { train } else { &batches[step] };
        while known < count {
            while asked < count.min(known + STEPS_AHEAD) {
                self.step(units(asked), count, learning_rate)?;
                asked += 1;
            }
            let asks_scores = scored && known + 1 == count;
            if asks_scores {
                self.ask_scores()?;
                self.step_ahead()?;
            }
            match self.settle(asked - known)? {
                Some(loss) if whole => return Ok(loss),
                Some(loss) => total += loss * units(known).len() as f64,
                None => {
                    if asks_scores {
                        self.drop_scores()?;
                    }
                    asked = known;
                    continue;
                }
            }
            known += 1;
        }
        Ok(total / train.len() as f64)
    }

    /// What became of the oldest of so many steps under way: its loss; none where tables of pieces were too small for it. They
    /// are larger then, and neither it nor those behind it have happened.
    fn settle(&mut self, under_way: usize) -> Result<Option<f64>> {
        let mut resident = self.take_train()?;
        let mut judgement = resident.pass.collect()?;
        if let (Some(share), false) = (self.share, judgement.crowded) {
            judgement.loss = share.loss(judgement.loss, judgement.diverged)?;
            judgement.diverged |= !judgement.loss.is_finite();
        }
        if judgement.diverged && !judgement.crowded {
            return Err(self.diverged(&format!("loss {}, gradient norm {}", judgement.loss, judgement.norm)));
        }
        if judgement.crowded {
            let ahead = usize::from(self.ahead.is_under_way());
            (1..under_way + ahead).try_for_each(|_| resident.pass.collect().map(drop))?;
            resident.pass.make_room(judgement.pieces)?;
            self.progress.step -= under_way as u64;
            self.ahead.forget();
        }
        self.train = Some(resident);
        Ok((!judgement.crowded).then_some(judgement.loss))
    }

    /// Training units of each step of an epoch.
    pub(super) fn epoch_batches(&self, epoch: usize) -> Vec<Vec<u32>> {
        epoch_batches(self.dataset(), self.config.train.batch_size, self.seed, epoch)
    }

    pub(super) fn step(&mut self, units: &[u32], batches: usize, learning_rate: f64) -> Result<()> {
        let train = &self.config.train;
        self.scored = None;
        let mut resident = self.take_train()?;
        self.draw(&mut resident)?;
        if batches > 1 || self.training().batches.draws() {
            resident = self.with_units(resident, units)?;
        }
        self.place_masks(&resident);
        resident.pass.ops().clear(&mut self.gradient)?;
        resident.take_gradient(&mut self.gradient, &self.parameters, &self.randomness)?;
        if let Some(smoothness) = &mut self.smoothness {
            let noise = self.randomness.noise.as_ref();
            smoothness.add(&mut resident.pass, &mut self.gradient, &self.parameters, noise)?;
        }
        if let Some(share) = self.share {
            self.device.join(&*share.team, &mut self.gradient)?;
        }
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
        self.signs.as_ref().map_or(Ok(()), |signs| self.device.keep_signs(&mut self.parameters, signs))
    }

    /// The training batch with the units of the next step.
    fn with_units(&mut self, mut resident: Resident<'a, D>, units: &[u32]) -> Result<Resident<'a, D>> {
        if self.collection.is_none() {
            let Way { plan, batches } = self.training();
            let train = &batches.dataset.split.train;
            let whole = if self.device.copies() { batches.collected(train) } else { None };
            let collection = whole.map(|whole| self.device.collection(&whole, *plan)).transpose()?;
            self.collection = Some(collection.flatten());
        }
        let batches = &self.training().batches;
        match &self.collection {
            Some(Some(collection)) if batches.shares_nodes() => resident.retarget_to(collection, units)?,
            Some(Some(collection)) => return resident.selected(collection, &batches.selection(units)),
            _ if batches.shares_nodes() => resident.retarget(batches.whole(units))?,
            _ => return resident.replaced(batches.drawn(units, self.walk_stream())),
        }
        Ok(resident)
    }

    /// Masks of inputs and hidden units are drawn row by row of the whole batch, of which this process may have some.
    fn place_masks(&mut self, resident: &Resident<'a, D>) {
        let part = resident.batch().ok().and_then(|batch| batch.part.as_ref());
        let (Some(part), Some(dropout)) = (part, &mut self.randomness.dropout) else { return };
        let a = &self.layout.architecture;
        let of_row = match dropout.place {
            DropoutPlace::Input => a.features,
            DropoutPlace::Hidden => a.features * a.active * a.hidden.iter().sum::<usize>(),
            DropoutPlace::Feature | DropoutPlace::None => return,
        };
        dropout.stream = dropout.stream.counted_from((part.first_row * of_row) as u64);
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
pub(super) fn rates(layout: &Layout, config: &Config, dataset: &Dataset) -> Vec<(Range<usize>, f64)> {
    let readout = match (config.train.readout_rate, dataset.level) {
        (0.0, Level::Graph) => dataset.graphs() as f64 / dataset.graph.nodes() as f64,
        (0.0, Level::Node) => 1.0,
        (rate, _) => rate,
    };
    let rest = |range: Range<usize>| (range, 1.0);
    let groups = [
        rest(0..layout.hop_logits.start),
        (layout.hop_logits.clone(), config.train.hop_rate),
        (layout.filter.clone(), config.train.hop_rate),
        (layout.readout_weight.clone(), readout),
        rest(layout.readout_bias.clone()),
    ];
    // One update where nothing differs.
    match groups.iter().all(|(_, rate)| *rate == 1.0) {
        true => vec![rest(0..layout.len())],
        false => groups.into_iter().filter(|(range, _)| !range.is_empty()).collect(),
    }
}
