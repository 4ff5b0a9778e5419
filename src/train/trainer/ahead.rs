//! Scores of an epoch, and the first step of the next, which is asked for before they are read: while the host reads and judges them,
//! the device has something to do.
//!
//! The step changes parameters and moments, so what the epoch left is kept on the device until the next begins: checkpoints and the
//! best parameters are taken from there, and whoever wants the model for something else has the step taken back. It is a function
//! of seed, epoch and step, like any other: taken back and asked for again it is the same, to the bit.

use super::{Trainer, schedule};
use crate::device::Device;
use crate::loss::Scores;
use harmonia_graph::error::Result;

/// Scores of an epoch, and norms of parameters and of the second moment.
pub(super) type EpochScores = (Scores, [f64; 2]);

/// The first step of the next epoch.
pub(super) struct Ahead<D: Device> {
    under_way: bool,
    /// Parameters, first and second moment before it; made when first wanted.
    kept: Option<[D::Buffer; 3]>,
    /// Units of the steps of its epoch.
    batches: Vec<Vec<u32>>,
}

impl<D: Device> Ahead<D> {
    pub(super) fn nothing() -> Self {
        Ahead { under_way: false, kept: None, batches: Vec::new() }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// Neither it nor anything behind a halt has happened: nothing is to be taken back.
    pub(super) fn forget(&mut self) {
        self.under_way = false;
    }

    /// Its epoch begins: the units of all steps, where the first is under way.
    pub(super) fn begin(&mut self) -> Option<Vec<Vec<u32>>> {
        std::mem::take(&mut self.under_way).then(|| std::mem::take(&mut self.batches))
    }
}

impl<D: Device<Real = f32>> Trainer<'_, D> {
    /// Parameters, first and second moment as the last epoch left them.
    pub(super) fn settled(&self) -> [&D::Buffer; 3] {
        match &self.ahead {
            Ahead { under_way: true, kept: Some(kept), .. } => kept.each_ref(),
            _ => [&self.parameters, &self.first_moment, &self.second_moment],
        }
    }

    /// Asks for scores of the validation units, and norms of parameters and second moment: nobody waits.
    pub(super) fn ask_scores(&mut self) -> Result<()> {
        let Trainer { device, checks, parameters, second_moment, .. } = self;
        for (verdict, values) in checks.iter_mut().zip([&*parameters, &*second_moment]) {
            device.norm(verdict, values)?;
            device.post(verdict)?;
        }
        self.with_parameters(|trainer, parameters| trainer.ask_validation(parameters))
    }

    /// What was asked for.
    pub(super) fn take_scores(&mut self) -> Result<EpochScores> {
        let scores = loop {
            if let Some(scores) = self.with_parameters(|trainer, parameters| trainer.take_validation(parameters))? {
                break scores;
            }
            self.take_back()?;
            self.with_parameters(|trainer, parameters| trainer.ask_validation(parameters))?;
        };
        Ok((scores, self.take_norms()?))
    }

    /// Nobody wants what was asked for: the steps before it have to be taken again.
    pub(super) fn drop_scores(&mut self) -> Result<()> {
        if !self.validation().batches.draws() {
            self.with_parameters(|trainer, parameters| trainer.take_validation(parameters))?;
        }
        self.take_norms().map(drop)
    }

    fn take_norms(&mut self) -> Result<[f64; 2]> {
        let mut norms = [0.0; 2];
        for (norm, verdict) in norms.iter_mut().zip(&mut self.checks) {
            *norm = self.device.collect(verdict)?.norm;
        }
        Ok(norms)
    }

    /// Work that reads the current parameters.
    fn with_parameters<T>(&mut self, work: impl FnOnce(&mut Self, &D::Buffer) -> Result<T>) -> Result<T> {
        let parameters = std::mem::replace(&mut self.parameters, self.device.zeros(0)?);
        let done = work(self, &parameters);
        self.parameters = parameters;
        done
    }

    /// Asks for the first step of the next epoch, where there will be one and the device works by itself. Walks that are drawn for
    /// validation units are read portion by portion, from parameters as they are: then nothing is asked for ahead.
    pub(super) fn step_ahead(&mut self) -> Result<()> {
        let epoch = self.progress.epoch + 1;
        if !self.device.copies() || epoch >= self.config.train.epochs || self.validation().batches.draws() {
            return Ok(());
        }
        let zeros = || self.device.zeros(self.layout.len());
        let mut kept = match self.ahead.kept.take() {
            Some(kept) => kept,
            None => [zeros()?, zeros()?, zeros()?],
        };
        for (kept, values) in kept.iter_mut().zip([&self.parameters, &self.first_moment, &self.second_moment]) {
            self.device.keep(kept, values)?;
        }
        let batches = self.epoch_batches(epoch);
        let Some(first) = batches.first() else { return Ok(()) };
        self.step(first, batches.len(), schedule::learning_rate(&self.config.train, epoch))?;
        // It counts when its epoch begins.
        self.progress.step -= 1;
        self.ahead = Ahead { under_way: true, kept: Some(kept), batches };
        Ok(())
    }

    /// Has the first step of the next epoch not have happened.
    pub(super) fn take_back(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.ahead.under_way) {
            return Ok(());
        }
        if let Some([parameters, first_moment, second_moment]) = &mut self.ahead.kept {
            std::mem::swap(&mut self.parameters, parameters);
            std::mem::swap(&mut self.first_moment, first_moment);
            std::mem::swap(&mut self.second_moment, second_moment);
        }
        let Some(resident) = &mut self.train else { return Ok(()) };
        let judgement = resident.pass.collect()?;
        // A step that diverged would diverge again: its halt stays.
        if judgement.crowded { resident.pass.make_room(judgement.pieces) } else { Ok(()) }
    }
}
