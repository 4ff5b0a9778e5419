//! One run from start to end: restored or fresh, epochs with checkpoints, then everything that is written about it.

use super::{Observer, Session, interrupted, stopped};
use crate::architecture::Layout;
use crate::device::Device;
use crate::explain::{Factors, centre};
use crate::loss::{DetailsOfParts, Reliabilities, Scored};
use crate::model::FittedModel;
use crate::recovery::recover;
use crate::report;
use crate::runs::{
    Fingerprint, ModelMetadata, RunDirectory, RunSummary, TableSummary, was_still_learning, write_centres,
};
use crate::tabulate::Tables;
use crate::train::trainer::{State, Which};
use crate::train::{Prepared, RunName, Trainer, baselines, honesty};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Where a run is kept, and who may end it.
pub(super) struct RunPlace<'a> {
    /// `None`: nowhere.
    pub(super) path: Option<&'a Path>,
    /// What it is trained on, for its directory.
    pub(super) data: Option<&'a Fingerprint>,
    /// For its summary.
    pub(super) device_name: &'a str,
    /// Set where another run of the session has failed.
    pub(super) abort: &'a AtomicBool,
    /// Those of the session.
    pub(super) tables: &'a Tables,
}

impl<D: Device<Real = f32>> Session<'_, D> {
    /// The summary, and the parameters of the best epoch.
    pub(super) fn train(
        &self,
        run: &Prepared,
        place: RunPlace<'_>,
        observer: &Mutex<&mut dyn Observer>,
    ) -> Result<(RunSummary, Vec<f32>)> {
        let (mut directory, restored) = match place.path {
            Some(path) => {
                let (directory, restored) = self.open(path, run.name, &run.layout, place.data)?;
                (Some(directory), restored)
            }
            None => (None, None),
        };
        let (state, spent) = restored.map_or((None, 0.0), |(state, seconds)| (Some(state), seconds));
        let mut trainer = Trainer::new(self.device, run, self.config, state)?;
        honesty::restore(&mut trainer, run, self.config, place.tables, &self.watch())
            .map_err(|error| stopped(error, place.path))?;
        let seconds = self.epochs(&mut trainer, run, &place, directory.as_mut(), spent, observer)?;
        // Of the best parameters alone, and not part of the state: a run that is resumed here finds the same.
        if self.config.train.calibrate {
            trainer.calibrate()?;
        }
        let summary = self.summary(&mut trainer, run, &place, seconds)?;
        if let Some(directory) = &directory {
            let model = trainer.model(run.scaling.clone())?;
            // Also where no epoch was left to train: the file may be that of an earlier epoch, or damaged.
            directory.save_model(&model, &metadata(&trainer, run, &model))?;
            self.write_results(directory, &model, run, &summary)?;
        }
        observer.lock().unwrap_or_else(PoisonError::into_inner).end(&summary);
        Ok((summary, trainer.best()?))
    }

    /// Trains to the end, with checkpoints; the seconds it took, over all sittings.
    fn epochs(
        &self,
        trainer: &mut Trainer<'_, D>,
        run: &Prepared,
        place: &RunPlace<'_>,
        mut directory: Option<&mut RunDirectory>,
        spent: f64,
        observer: &Mutex<&mut dyn Observer>,
    ) -> Result<f64> {
        let tell = || observer.lock().unwrap_or_else(PoisonError::into_inner);
        tell().begin(run.name, trainer.progress().epoch, self.config.train.epochs);
        let start = Instant::now();
        let elapsed = || spent + start.elapsed().as_secs_f64();
        let mut saved = Instant::now();
        while !trainer.finished() {
            // Before an epoch, not after one: a run that is resumed or extended from a checkpoint between the two looks too.
            if trainer.progress().epoch > 0 {
                let looked = honesty::look(trainer, run, self.config, place.tables, &self.watch());
                if let Some(note) = looked.map_err(|error| stopped(error, place.path))? {
                    tell().note(run.name, &note);
                }
            }
            let mut record = trainer.epoch()?;
            record.seconds = elapsed();
            tell().epoch(run.name, &record);
            let asked = self.stop.asked() || place.abort.load(Ordering::Relaxed);
            let stop = asked && !trainer.finished();
            if let Some(directory) = &mut directory {
                directory.log(&record)?;
                let due = saved.elapsed().as_secs_f64() >= self.config.run.checkpoint_seconds;
                if due || stop || trainer.finished() {
                    save(directory, trainer, run)?;
                    saved = Instant::now();
                }
            }
            if stop {
                return Err(interrupted(place.path));
            }
        }
        Ok(elapsed())
    }

    /// Scores of the best epoch, and what was found again of a known generator.
    fn summary(
        &self,
        trainer: &mut Trainer<'_, D>,
        run: &Prepared,
        place: &RunPlace<'_>,
        seconds: f64,
    ) -> Result<RunSummary> {
        let dataset = &run.dataset;
        let test = &dataset.split.test;
        let (recovery, generator_nll) = match &dataset.truth {
            Some(truth) if !test.is_empty() => {
                let (contributions, hop_weights) = trainer.contributions(test)?;
                // A comparison that is not defined (a single test node) must not cost the user the trained model.
                let recovery = recover(truth, test, &contributions, &hop_weights).ok();
                (recovery, Some(truth.nll(&dataset.labels, test)))
            }
            _ => (None, None),
        };
        let progress = trainer.progress().clone();
        let (on_test, on_valid) = (trainer.evaluate(test)?, trainer.evaluate(&dataset.split.valid)?);
        let reliability = Reliabilities { test: on_test.reliability, validation: on_valid.reliability };
        let scored = |units, logits| Scored { labels: &dataset.labels, units, logits, scaling: None };
        let threshold =
            run.objective.threshold(&scored(&dataset.split.valid, &on_valid.logits), &scored(test, &on_test.logits));
        let details = DetailsOfParts { test: on_test.details, validation: on_valid.details, threshold };
        let baselines = baselines::of_run(run, self.config)?;
        let best_epoch = progress.stopping.best_epoch.map_or(0, |epoch| epoch + 1);
        let learning = was_still_learning(best_epoch, progress.epoch) && !progress.stopped;
        let warning = on_valid.only_class.map(|class| self.one_class(run, class, learning));
        let table = table_summary(trainer)?;
        let off = table.as_ref().filter(|table| table.is_off()).map(TableSummary::warning);
        Ok(RunSummary {
            seed: run.name.seed,
            fold: run.name.fold,
            run_dir: place.path.map(Path::to_path_buf),
            parameters: run.layout.len(),
            epochs: progress.epoch,
            best_epoch,
            stopped_early: progress.stopped,
            learned: progress.stopping.learned_at.is_some(),
            seconds,
            device: place.device_name.to_string(),
            test: on_test.scores,
            validation: on_valid.scores,
            train: trainer.score(&dataset.split.train)?,
            calibration: trainer.calibration(),
            reliability: (reliability != Reliabilities::default()).then_some(reliability),
            details: (details != DetailsOfParts::default()).then_some(details),
            baselines,
            warnings: warning.into_iter().chain(off).collect(),
            table,
            recovery,
            generator_nll,
        })
    }

    /// A best epoch that names one class for everything: by some metrics it may be the best all the same.
    fn one_class(&self, run: &Prepared, class: usize, learning: bool) -> String {
        let dataset = &run.dataset;
        let name = match dataset.labels.is_classes() {
            true => dataset.class_names.get(class).cloned().unwrap_or_else(|| class.to_string()),
            false => if class == 0 { "no label" } else { "every label" }.into(),
        };
        let train = &self.config.train;
        let mut advice = Vec::new();
        if run.objective.score_kind(train.metric.score_name()).name != run.objective.loss_score().name {
            advice.push("train.metric = loss chooses by loss");
        }
        if !train.calibrate && dataset.labels.outputs() == 1 {
            advice.push("train.calibrate = true moves the threshold");
        }
        if advice.is_empty() {
            advice.push(match learning {
                true => "it was still getting better: train for more epochs (train.epochs)",
                false => {
                    "the features may not tell the classes apart; details.threshold names another class more often"
                }
            });
        }
        format!(
            "the best epoch (by train.metric = {}) predicts {name} for all {} validation units although they have other labels \
             too; {}",
            train.metric.score_name(),
            dataset.split.valid.len(),
            advice.join(", ")
        )
    }

    /// What is written once, at the end: means of responses, the page, and last the summary.
    fn write_results(
        &self,
        directory: &RunDirectory,
        model: &FittedModel,
        run: &Prepared,
        summary: &RunSummary,
    ) -> Result<()> {
        let factors = Factors::of(model)?;
        let centres = centre::mean_responses(&factors, &run.dataset.features);
        write_centres(directory.path(), &centres)?;
        let mut data = report::of_run(&report::Trained {
            dataset: &run.dataset,
            config: self.config,
            objective: model.objective,
            summary,
            history: &directory.history()?,
            scaling: model.scaling.as_ref(),
            factors: &factors,
            centres: &centres,
        })?;
        data.more = Some(format!("harmonia report {}", directory.path().display()));
        directory.write("report.html", &report::html(&data)?)?;
        let text =
            serde_json::to_string_pretty(summary).map_err(|error| Error::file(directory.path(), error.to_string()))?;
        // Last, because its presence says that the run is complete.
        directory.write("summary.json", &text)
    }

    /// The directory of a run, and where it was left: its state and the seconds spent on it.
    fn open(
        &self,
        path: &Path,
        name: RunName,
        layout: &Layout,
        data: Option<&Fingerprint>,
    ) -> Result<(RunDirectory, Option<(State, f64)>)> {
        if !path.join("config.toml").exists() {
            // Each directory stands for itself: its configuration names its own seed and split.
            let mut config = self.config.clone();
            (config.run.seed, config.run.seeds, config.run.folds) = (name.seed, 1, 0);
            if let Some(fold) = name.fold {
                config.data.split = format!("folds:{}/{fold}", self.config.run.folds);
            }
            RunDirectory::create(path, &config)?;
        }
        let mut directory = RunDirectory::open(path)?;
        data.map_or(Ok(()), |data| directory.bind(data))?;
        let restored = directory.restore(layout)?;
        directory.copy_metrics(&self.config.run.metrics)?;
        Ok((directory, restored))
    }
}

/// What the table of a run was, and how far it was off at the end.
fn table_summary<D: Device<Real = f32>>(trainer: &mut Trainer<'_, D>) -> Result<Option<TableSummary>> {
    let Some(table) = trainer.table().cloned() else { return Ok(None) };
    let losses = trainer.table_losses(Which::Best)?;
    Ok(Some(TableSummary {
        points: table.grid.most(),
        bits: table.blocks().first().map_or(0, |block| block.cells.bits().count()),
        bytes: table.bytes(),
        exact: table.grid.is_exact(),
        walks: trainer.table_walks(),
        validation_loss: losses.map(|losses| losses.tabulated),
        exact_validation_loss: losses.map(|losses| losses.exact),
    }))
}

/// Both checkpoints of a run.
fn save<D: Device<Real = f32>>(directory: &RunDirectory, trainer: &Trainer<'_, D>, run: &Prepared) -> Result<()> {
    let model = trainer.model(run.scaling.clone())?;
    directory.save(&trainer.state()?, &model, &metadata(trainer, run, &model))
}

/// What a model file says about itself.
fn metadata<D: Device<Real = f32>>(trainer: &Trainer<'_, D>, run: &Prepared, model: &FittedModel) -> ModelMetadata {
    ModelMetadata {
        dataset: run.dataset.name.clone(),
        seed: run.name.seed,
        fold: run.name.fold,
        feature_names: run.dataset.feature_names.clone(),
        class_names: run.dataset.class_names.clone(),
        schema: run.dataset.schema.as_deref().cloned(),
        level: Some(run.dataset.level),
        directed: !run.dataset.graph.is_symmetric(),
        weighted: run.dataset.graph.adjacency().weights.is_some(),
        epoch: trainer.progress().stopping.best_epoch.map_or(0, |epoch| epoch + 1),
        model: model.description(),
    }
}

/// The summary of a run that is complete.
pub(super) fn finished(path: &Path) -> Result<Option<RunSummary>> {
    let file = path.join("summary.json");
    if file.symlink_metadata().is_err() {
        return Ok(None);
    }
    let text = files::read_text(&file)?;
    serde_json::from_str(&text).map(Some).map_err(|error| Error::file(&file, format!("is not a run summary: {error}")))
}
