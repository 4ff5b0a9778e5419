//! Runs from start to end: one seed after the other, each in its own directory, interruptible and resumable.

use super::metrics::{SCORE_NAMES, mean, standard_deviation};
use super::run_directory::ModelMetadata;
use super::trainer::State;
use super::{EpochRecord, RunDirectory, Scores, Trainer};
use crate::config::Config;
use crate::datasets::{self, Dataset, Scaling};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::experiments::recovery::{Recovery, recover};
use crate::explain::{Factors, centre};
use crate::files;
use crate::model::{FittedModel, Layout, MemoryPlan, ModelDescription};
use crate::report;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Bytes of activations up to which runs are trained side by side.
const SMALL_RUN: usize = 64 << 20;

/// Hears of progress. All methods may do nothing. Small runs of a session are trained side by side.
pub trait Observer: Send {
    /// A run begins, or goes on after `done` of `epochs` epochs.
    fn begin(&mut self, run: RunName, done: usize, epochs: usize);
    /// An epoch of a run is over.
    fn epoch(&mut self, run: RunName, record: &EpochRecord);
    /// A run is over.
    fn end(&mut self, summary: &RunSummary);
}

/// Says nothing.
pub struct Silent;

impl Observer for Silent {
    fn begin(&mut self, _: RunName, _: usize, _: usize) {}
    fn epoch(&mut self, _: RunName, _: &EpochRecord) {}
    fn end(&mut self, _: &RunSummary) {}
}

/// Which run of a session: a seed, and in a cross-validation a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunName {
    /// Seed of everything random.
    pub seed: u64,
    /// The fold that tests.
    pub fold: Option<usize>,
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fold {
            Some(fold) => write!(f, "seed {}, fold {fold}", self.seed),
            None => write!(f, "seed {}", self.seed),
        }
    }
}

/// The outcome of one run; `summary.json` of its run directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSummary {
    /// Seed of the run.
    pub seed: u64,
    /// The fold that tested, in a cross-validation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// Its directory, if it has one.
    pub run_dir: Option<PathBuf>,
    /// Number of parameters.
    pub parameters: usize,
    /// Epochs trained.
    pub epochs: usize,
    /// Epoch whose parameters were kept, counted from 1.
    pub best_epoch: usize,
    /// Whether patience ended the run.
    pub stopped_early: bool,
    /// Whether the model left its starting plateau: training loss below that of class frequencies, validation above
    /// chance.
    pub learned: bool,
    /// Seconds of training, over all sittings.
    pub seconds: f64,
    /// Where it was computed.
    pub device: String,
    /// Scores of the best epoch.
    pub test: Scores,
    /// Scores of the best epoch.
    pub validation: Scores,
    /// Scores of the best epoch, without dropout or noise.
    pub train: Scores,
    /// Synthetic data: what was found again of the generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Synthetic data: the generator's own test negative log-likelihood, which no model can expect to beat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_nll: Option<f64>,
}

impl RunSummary {
    /// Which run it is.
    pub fn name(&self) -> RunName {
        RunName { seed: self.seed, fold: self.fold }
    }
}

/// The outcome of all runs.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name of the dataset.
    pub dataset: String,
    /// Name of the preset; empty for none.
    pub preset: String,
    /// Directory of the whole, if there is one.
    pub run_dir: Option<PathBuf>,
    /// One a seed; in a cross-validation, one a fold of each seed.
    pub runs: Vec<RunSummary>,
}

impl Outcome {
    /// Seeds in order, each with its runs.
    pub fn repeats(&self) -> impl Iterator<Item = &[RunSummary]> {
        self.runs.chunk_by(|a, b| a.seed == b.seed)
    }

    /// Whether the runs are folds.
    pub fn cross_validated(&self) -> bool {
        self.runs.iter().any(|run| run.fold.is_some())
    }

    /// Sample standard deviation of the means of the repeats: how much the way of dealing the folds matters.
    pub fn between_repeats(&self, part: impl Fn(&RunSummary) -> &Scores, name: &str) -> Option<f64> {
        let means: Vec<f64> =
            self.repeats().filter_map(|runs| mean(runs.iter().filter_map(|run| part(run).get(name)))).collect();
        standard_deviation(&means)
    }

    /// (mean, sample standard deviation) over all runs of a score of a part.
    pub fn spread(&self, part: impl Fn(&RunSummary) -> &Scores, name: &str) -> (Option<f64>, Option<f64>) {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| part(run).get(name)).collect();
        (mean(values.iter().copied()), standard_deviation(&values))
    }

    /// The object of `--json`.
    pub fn to_json(&self) -> Value {
        let part = |part: fn(&RunSummary) -> &Scores| {
            let scores = SCORE_NAMES.iter().map(|name| {
                let (mean, std) = self.spread(part, name);
                let mut score = json!({ "mean": mean, "std": std });
                if self.cross_validated() {
                    score["std_between_repeats"] = json!(self.between_repeats(part, name));
                }
                (name.to_string(), score)
            });
            scores.collect::<Map<_, _>>()
        };
        let folds = self.runs.iter().filter(|run| run.fold.is_some() && run.seed == self.runs[0].seed).count();
        json!({
            "dataset": self.dataset,
            "preset": self.preset,
            "seeds": self.repeats().count(),
            "folds": folds,
            "run_dir": self.run_dir,
            "test": part(|run| &run.test),
            "validation": part(|run| &run.validation),
            "parameters": self.runs.first().map(|run| run.parameters),
            "epochs": self.runs.iter().map(|run| run.epochs).sum::<usize>(),
            "seconds": self.runs.iter().map(|run| run.seconds).sum::<f64>(),
            "runs": self.runs,
        })
    }
}

/// Settings, data and machine of a set of runs.
pub struct Session<'a, D: Device<Real = f32>> {
    /// Where to compute.
    pub device: &'a D,
    /// Settings.
    pub config: &'a Config,
    /// Set by a signal: finish the epoch, save, stop.
    pub stop: &'a AtomicBool,
}

impl<D: Device<Real = f32>> Session<'_, D> {
    /// Trains every seed. With a directory, runs that it already holds are continued, and finished ones kept.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after a stop request; anything a run can fail with.
    pub fn run(&self, dataset: &Dataset, root: Option<&Path>, observer: &mut dyn Observer) -> Result<Outcome> {
        let names = self.names();
        let observer = Mutex::new(observer);
        let runs = match self.side_by_side(dataset, &names)? {
            1 => self.one_by_one(dataset, &names, root, &observer)?,
            workers => self.in_parallel(dataset, &names, root, &observer, workers)?,
        };
        let outcome = Outcome {
            dataset: dataset.name.clone(),
            preset: self.config.preset.clone(),
            run_dir: root.map(Path::to_path_buf),
            runs,
        };
        if let (Some(root), true) = (root, names.len() > 1) {
            let text = serde_json::to_string_pretty(&outcome.to_json())
                .map_err(|error| Error::file(root, error.to_string()))?;
            files::write_atomic(&root.join("summary.json"), text.as_bytes())?;
        }
        Ok(outcome)
    }

    /// How many runs to train at once. A small one leaves most threads waiting, and does not suffer from a neighbour; as
    /// results do not depend on threads, the runs may as well have one each.
    fn side_by_side(&self, dataset: &Dataset, names: &[RunName]) -> Result<usize> {
        if names.len() == 1 || self.device.copies() {
            return Ok(1);
        }
        let (dataset, _) = datasets::prepare(dataset, self.config, names[0])?;
        let layout = Layout::new(self.config.architecture(dataset.features.cols, dataset.labels.outputs()))?;
        let bytes = MemoryPlan::new(self.device, &layout, &dataset, self.config).device_bytes();
        Ok(if bytes <= SMALL_RUN { rayon::current_num_threads().min(names.len()) } else { 1 })
    }

    fn one_by_one(
        &self,
        dataset: &Dataset,
        names: &[RunName],
        root: Option<&Path>,
        observer: &Mutex<&mut dyn Observer>,
    ) -> Result<Vec<RunSummary>> {
        let abort = AtomicBool::new(false);
        let mut runs = Vec::new();
        for &name in names {
            runs.push(self.run_named(dataset, name, root, observer, &self.device.name(), &abort)?);
            if self.stop.load(Ordering::Relaxed) && runs.len() < names.len() {
                return Err(interrupted(root));
            }
        }
        Ok(runs)
    }

    /// Every worker has one thread and takes the next run when it is done with one.
    fn in_parallel(
        &self,
        dataset: &Dataset,
        names: &[RunName],
        root: Option<&Path>,
        observer: &Mutex<&mut dyn Observer>,
        workers: usize,
    ) -> Result<Vec<RunSummary>> {
        let device_name = self.device.name();
        let (next, abort) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = || -> Result<Vec<(usize, Result<RunSummary>)>> {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
            let pool = pool.map_err(|error| Error::Config(format!("cannot start a thread: {error}")))?;
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= names.len() || abort.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed) {
                    return Ok(done);
                }
                let run = pool.install(|| self.run_named(dataset, names[at], root, observer, &device_name, &abort));
                // One that fails ends the session: the others stop after their epoch.
                abort.fetch_or(run.is_err(), Ordering::Relaxed);
                done.push((at, run));
            }
        };
        let found = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        let mut found: Vec<_> = found.into_iter().flatten().collect();
        found.sort_by_key(|(at, _)| *at);
        // What went wrong says more than that others were stopped for it.
        if let Some(at) = found.iter().position(|(_, run)| !matches!(run, Ok(_) | Err(Error::Interrupted { .. }))) {
            found.swap(0, at);
        }
        let runs = found.into_iter().map(|(_, run)| run).collect::<Result<Vec<_>>>()?;
        if runs.len() < names.len() { Err(interrupted(root)) } else { Ok(runs) }
    }

    /// One run of the session: kept where it is complete, else trained.
    fn run_named(
        &self,
        dataset: &Dataset,
        name: RunName,
        root: Option<&Path>,
        observer: &Mutex<&mut dyn Observer>,
        device_name: &str,
        abort: &AtomicBool,
    ) -> Result<RunSummary> {
        let path = root.map(|root| self.directory(root, name));
        if let Some(summary) = path.as_deref().map(finished).transpose()?.flatten() {
            return Ok(summary);
        }
        let (dataset, scaling) = datasets::prepare(dataset, self.config, name)?;
        let run = Run { name, path: path.as_deref(), device_name, abort };
        match self.train(&dataset, scaling, run, observer) {
            Ok((summary, _)) => Ok(summary),
            // What has to be resumed is the whole session, not the run that was under way.
            Err(Error::Interrupted { .. }) => Err(interrupted(root)),
            Err(error) => Err(error),
        }
    }

    /// Every run of the session, in order.
    pub fn names(&self) -> Vec<RunName> {
        let run = &self.config.run;
        let folds = |seed| {
            let folds = (0..run.folds).map(Some).chain((run.folds == 0).then_some(None));
            folds.map(move |fold| RunName { seed, fold })
        };
        (run.seed..).take(run.seeds).flat_map(folds).collect()
    }

    /// Trains once, on a dataset whose split is settled, and returns the summary and the best parameters. `scaling` is
    /// what was done to the features, for the model to remember.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_one(
        &self,
        dataset: &Dataset,
        scaling: Option<Scaling>,
        name: RunName,
        path: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<(RunSummary, Vec<f32>)> {
        let run = Run { name, path, device_name: &self.device.name(), abort: &AtomicBool::new(false) };
        self.train(dataset, scaling, run, &Mutex::new(observer))
    }

    fn train(
        &self,
        dataset: &Dataset,
        scaling: Option<Scaling>,
        run: Run<'_>,
        observer: &Mutex<&mut dyn Observer>,
    ) -> Result<(RunSummary, Vec<f32>)> {
        let Run { name, path, device_name, abort } = run;
        let tell = || observer.lock().unwrap_or_else(PoisonError::into_inner);
        let seed = name.seed;
        let layout = Layout::new(self.config.architecture(dataset.features.cols, dataset.labels.outputs()))?;
        let (mut directory, restored) = match path {
            Some(path) => {
                let (directory, restored) = self.open(path, name, &layout)?;
                (Some(directory), restored)
            }
            None => (None, None),
        };
        let (state, spent) = restored.map_or((None, 0.0), |(state, seconds)| (Some(state), seconds));
        let mut trainer = Trainer::new(self.device, &layout, self.config, dataset, seed, state)?;
        tell().begin(name, trainer.progress().epoch, self.config.train.epochs);

        let start = Instant::now();
        let elapsed = || spent + start.elapsed().as_secs_f64();
        let save = |directory: &RunDirectory, trainer: &Trainer<'_, D>| {
            let model = ModelMetadata {
                dataset: dataset.name.clone(),
                seed,
                fold: name.fold,
                feature_names: dataset.feature_names.clone(),
                class_names: dataset.class_names.clone(),
                epoch: trainer.progress().stopping.best_epoch.map_or(0, |epoch| epoch + 1),
                model: ModelDescription::new(&layout, self.config.walk, dataset.labels.objective(), scaling.clone()),
            };
            directory.save(&layout, &trainer.state()?, &model)
        };
        let mut saved = Instant::now();
        while !trainer.finished() {
            let mut record = trainer.epoch()?;
            record.seconds = elapsed();
            tell().epoch(name, &record);
            let asked = self.stop.load(Ordering::Relaxed) || abort.load(Ordering::Relaxed);
            let stop = asked && !trainer.finished();
            if let Some(directory) = &mut directory {
                directory.log(&record)?;
                let due = saved.elapsed().as_secs_f64() >= self.config.run.checkpoint_seconds;
                if due || stop || trainer.finished() {
                    save(directory, &trainer)?;
                    saved = Instant::now();
                }
            }
            if stop {
                return Err(interrupted(path));
            }
        }

        let seconds = elapsed();
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
        let summary = RunSummary {
            seed,
            fold: name.fold,
            run_dir: path.map(Path::to_path_buf),
            parameters: layout.len(),
            epochs: progress.epoch,
            best_epoch: progress.stopping.best_epoch.map_or(0, |epoch| epoch + 1),
            stopped_early: progress.stopped,
            learned: progress.stopping.learned_at.is_some(),
            seconds,
            device: device_name.to_string(),
            test: trainer.score(test)?,
            validation: trainer.score(&dataset.split.valid)?,
            train: trainer.score(&dataset.split.train)?,
            recovery,
            generator_nll,
        };
        if let Some(directory) = &directory {
            let model = FittedModel {
                layout: layout.clone(),
                parameters: trainer.best().to_vec(),
                walk: self.config.walk,
                objective: dataset.labels.objective(),
                scaling,
            };
            let factors = Factors::of(&model)?;
            let centres = centre::mean_responses(&factors, &dataset.features);
            centre::write(&directory.path().join(centre::FILE), &centres)?;
            let mut data = report::of_run(&report::Trained {
                dataset,
                config: self.config,
                summary: &summary,
                history: &directory.history()?,
                scaling: model.scaling.as_ref(),
                factors: &factors,
                centres: &centres,
            })?;
            data.more = Some(format!("harmonia report {}", directory.path().display()));
            directory.write("report.html", &report::html(&data)?)?;
            let text = serde_json::to_string_pretty(&summary)
                .map_err(|error| Error::file(directory.path(), error.to_string()))?;
            // Last, because its presence says that the run is complete.
            directory.write("summary.json", &text)?;
        }
        tell().end(&summary);
        Ok((summary, trainer.best().to_vec()))
    }

    fn open(&self, path: &Path, name: RunName, layout: &Layout) -> Result<(RunDirectory, Option<(State, f64)>)> {
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
        let restored = directory.restore(layout)?;
        Ok((directory, restored))
    }

    fn directory(&self, root: &Path, name: RunName) -> PathBuf {
        let seed = (self.config.run.seeds > 1).then(|| format!("seed-{}", name.seed));
        let fold = name.fold.map(|fold| format!("fold-{fold}"));
        root.join([seed, fold].into_iter().flatten().collect::<PathBuf>())
    }
}

/// One run of a session.
struct Run<'a> {
    name: RunName,
    path: Option<&'a Path>,
    /// For its summary.
    device_name: &'a str,
    /// Set where another run of the session has failed.
    abort: &'a AtomicBool,
}

/// The summary of a run that is complete.
fn finished(path: &Path) -> Result<Option<RunSummary>> {
    let file = path.join("summary.json");
    if !file.exists() {
        return Ok(None);
    }
    let text = files::read_text(&file)?;
    serde_json::from_str(&text).map(Some).map_err(|error| Error::file(&file, format!("is not a run summary: {error}")))
}

fn interrupted(path: Option<&Path>) -> Error {
    Error::Interrupted { run: path.unwrap_or(Path::new(".")).to_path_buf() }
}
