//! One run from start to end: restored or fresh, epochs with checkpoints, then everything that is written about it.

use super::{Observer, Session, interrupted, stopped, team};
use crate::architecture::Layout;
use crate::config::Config;
use crate::device::Device;
use crate::explain::centre;
use crate::explain::stability::Compared;
use crate::loss::{DetailsOfParts, Reliabilities, Scored, Threshold};
use crate::model::FittedModel;
use crate::recovery::recover;
use crate::report;
use crate::runs::{
    Fingerprint, Measured, ModelMetadata, RunDirectory, RunSummary, SavedModel, TableSummary, grouped_factors,
    saved_layers, write_centres, write_measured,
};
use crate::settings::to_toml;
use crate::tabulate::Tables;
use crate::team::Team;
use crate::train::trainer::{State, Which};
use crate::train::{EpochRecord, Prepared, RunName, Trainer, baselines, choice, honesty};
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::watch::Watch;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// ROC-AUC from which on classes are told apart, though none of the rare one may be likelier than not.
const RANKED: f64 = 0.6;

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

/// What came out of a run.
pub(super) struct Finished {
    /// Its settings.
    pub(super) config: Config,
    pub(super) summary: RunSummary,
    /// The parameters of the best epoch as training has them, without calibration.
    pub(super) best: Vec<f32>,
    /// The model of that epoch.
    pub(super) model: FittedModel,
    /// What its file says about itself.
    pub(super) metadata: ModelMetadata,
    /// The epochs of this sitting.
    pub(super) history: Vec<EpochRecord>,
}

impl<D: Device<Real = f32>> Session<'_, D> {
    /// Everything that training leaves of a run, what is left to its validation units settled first.
    pub(super) fn train(
        &self,
        run: &Prepared,
        place: RunPlace<'_>,
        observer: &Mutex<&mut dyn Observer>,
    ) -> Result<Finished> {
        let opened = place.path.map(|path| self.open(path, run.name, &run.layout, place.data)).transpose()?;
        match self.settled(run, &place, observer)? {
            Some(config) => Session { config: &config, ..*self }.train_settled(run, place, opened, observer),
            None => self.train_settled(run, place, opened, observer),
        }
    }

    /// The settings of a run that the settings of the session leave a choice: what its directory says, else what its validation
    /// units say, which the directory keeps. A run that was interrupted before it was settled chooses the same once more.
    fn settled(
        &self,
        run: &Prepared,
        place: &RunPlace<'_>,
        observer: &Mutex<&mut dyn Observer>,
    ) -> Result<Option<Config>> {
        if self.config.train.smoothness.settled().is_some() {
            return Ok(None);
        }
        let kept = place.path.map(|path| saved_layers(path)?.finish()).transpose()?;
        let known = kept.as_ref().filter(|kept| kept.train.smoothness.settled().is_some());
        let known = known.map(|kept| kept.train.smoothness.clone());
        if let Some(known) = team::told(team_of(run), known)? {
            let mut config = self.config.clone();
            config.train.smoothness = known;
            return Ok(Some(config));
        }
        let settled = choice::settle(self.device, run, self.config, (place.tables, self.stop));
        let Some((config, choice)) = settled.map_err(|error| stopped(error, place.path))? else { return Ok(None) };
        if let (Some(path), Some(mut kept)) = (place.path, kept) {
            kept.train.smoothness = config.train.smoothness.clone();
            files::write_atomic(&path.join("config.toml"), to_toml(&kept)?.as_bytes())?;
        }
        observer.lock().unwrap_or_else(PoisonError::into_inner).note(run.name, &choice.line());
        Ok(Some(config))
    }

    /// Everything that training leaves of a run with nothing left to choose.
    fn train_settled(
        &self,
        run: &Prepared,
        place: RunPlace<'_>,
        opened: Option<(RunDirectory, Option<(State, f64)>)>,
        observer: &Mutex<&mut dyn Observer>,
    ) -> Result<Finished> {
        let (mut directory, restored) = opened.unzip();
        let restored = team::restored(team_of(run), restored.flatten())?;
        let (state, spent) = restored.map_or((None, 0.0), |(state, seconds)| (Some(state), seconds));
        let mut trainer = Trainer::new(self.device, run, self.config, state)?;
        honesty::restore(&mut trainer, run, self.config, place.tables, &self.watch())
            .map_err(|error| stopped(error, place.path))?;
        let (seconds, history) = self.epochs(&mut trainer, run, &place, directory.as_mut(), spent, observer)?;
        // Of the best parameters alone, and not part of the state: a run that is resumed here finds the same.
        if self.config.train.calibrate {
            trainer.calibrate()?;
        }
        let summary = self.summary(&mut trainer, run, &place, seconds)?;
        let model = trainer.model(run.scaling.clone())?;
        let metadata = metadata(&trainer, run, &model);
        if let Some(directory) = &directory {
            // Also where no epoch was left to train: the file may be that of an earlier epoch, or damaged.
            directory.save_model(&model, &metadata)?;
            let factors = grouped_factors(&model, metadata.shown_schema())?;
            let centres = centre::mean_responses(&factors, &run.dataset.features);
            let saved =
                SavedModel { config: self.config.clone(), metadata: metadata.clone(), model: model.clone(), factors };
            write_results(directory, &saved, &centres, Some(&run.dataset), &summary)?;
        }
        observer.lock().unwrap_or_else(PoisonError::into_inner).end(&summary);
        let config = own_config(self.config, run.name);
        Ok(Finished { config, summary, best: trainer.best()?, model, metadata, history })
    }

    /// Trains to the end, with checkpoints; the seconds it took, over all sittings, and what was said of each epoch of this one.
    fn epochs(
        &self,
        trainer: &mut Trainer<'_, D>,
        run: &Prepared,
        place: &RunPlace<'_>,
        mut directory: Option<&mut RunDirectory>,
        spent: f64,
        observer: &Mutex<&mut dyn Observer>,
    ) -> Result<(f64, Vec<EpochRecord>)> {
        let tell = || observer.lock().unwrap_or_else(PoisonError::into_inner);
        tell().begin(run.name, trainer.progress().epoch, self.config.train.epochs);
        let start = Instant::now();
        let elapsed = || spent + start.elapsed().as_secs_f64();
        let (mut saved, mut history) = (Instant::now(), Vec::new());
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
            let asked = team::agreed(team_of(run), self.stop.asked() || place.abort.load(Ordering::Relaxed))?;
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
            history.push(record);
        }
        Ok((elapsed(), history))
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
                // Of a model whose features do not walk there is nothing to compare with the generator's walks.
                let read =
                    run.layout.architecture.walks_by_feature().then(|| trainer.contributions(test)).transpose()?;
                // A comparison that is not defined (a single test node) must not cost the user the trained model.
                let recovery = read.and_then(|(found, hop_weights)| recover(truth, test, &found, &hop_weights).ok());
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
        let warning = on_valid.only_class.map(|class| {
            let ranked = details.threshold.zip(on_valid.scores.get("roc_auc"));
            self.one_class(run, class, trainer.is_learning(), ranked)
        });
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
            still_learning: trainer.is_learning(),
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
    /// `ranked`: the threshold that validation likes best and its ROC-AUC, where one of two classes is rare.
    fn one_class(&self, run: &Prepared, class: usize, learning: bool, ranked: Option<(Threshold, f64)>) -> String {
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
        let ranked = ranked.filter(|(_, roc_auc)| *roc_auc >= RANKED).map(|(threshold, roc_auc)| {
            format!(
                "units are ranked (validation ROC-AUC {:.1} %), but the rare class is never likelier than not: predict it from a \
                 probability of {:.3} on (details.threshold)",
                100.0 * roc_auc,
                threshold.probability
            )
        });
        let advice = match (advice.is_empty(), learning, &ranked) {
            (false, ..) => advice.join(", "),
            (true, true, _) => "it was still getting better: train for more epochs (train.epochs)".into(),
            (true, false, Some(ranked)) => ranked.clone(),
            (true, false, None) => {
                "the features may not tell the classes apart; details.threshold names another class more often".into()
            }
        };
        format!(
            "the best epoch (by train.metric = {}) predicts {name} for all {} validation units although they have other labels \
             too; {}",
            train.metric.score_name(),
            dataset.split.valid.len(),
            advice
        )
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
            RunDirectory::create(path, &own_config(self.config, name))?;
        }
        let mut directory = RunDirectory::open(path)?;
        data.map_or(Ok(()), |data| directory.bind(data))?;
        let restored = directory.restore(layout)?;
        directory.copy_metrics(&self.config.run.metrics)?;
        Ok((directory, restored))
    }
}

/// The processes that share a run.
fn team_of(run: &Prepared) -> Option<&dyn Team> {
    run.share.as_ref().map(|share| &*share.team)
}

/// What is written once, at the end: means of responses, what else is measured on the data, the page, and last the summary.
/// `dataset` has its features as the model sees them; without one nothing is measured.
pub(super) fn write_results(
    directory: &RunDirectory,
    saved: &SavedModel,
    centres: &[f64],
    dataset: Option<&Dataset>,
    summary: &RunSummary,
) -> Result<()> {
    let SavedModel { config, metadata, model, factors } = saved;
    write_centres(directory.path(), centres)?;
    // Seconds at most: nobody has to wait for it, or to stop it.
    let measure = |dataset| Measured::at_the_end(model, factors, dataset, centres, &Watch::silent());
    let measured = dataset.map(measure).transpose()?;
    if let Some(measured) = &measured {
        write_measured(directory.path(), measured)?;
    }
    let mut data = report::of_run(&report::Trained {
        config,
        summary,
        history: &directory.history()?,
        members: &[report::Member {
            metadata,
            model: Compared { factors, scaling: model.scaling.as_ref(), centres },
            measured: measured.as_ref(),
        }],
    })?;
    data.more = Some(format!("harmonia report {}", directory.path().display()));
    directory.write("report.html", &report::html(&data)?)?;
    let text =
        serde_json::to_string_pretty(summary).map_err(|error| Error::file(directory.path(), error.to_string()))?;
    // Last, because its presence says that the run is complete.
    directory.write("summary.json", &text)
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
        // Both are said when it is written.
        version: 0,
        parameters_sha256: None,
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

/// Each run stands for itself: its settings name its own seed and split.
pub(super) fn own_config(whole: &Config, name: RunName) -> Config {
    let mut config = whole.clone();
    (config.run.seed, config.run.seeds, config.run.folds) = (name.seed, 1, 0);
    if let Some(fold) = name.fold {
        config.data.split = format!("folds:{}/{fold}", whole.run.folds);
    }
    config
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
