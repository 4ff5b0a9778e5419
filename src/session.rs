//! Runs from start to end: one seed after the other, each in its own directory, interruptible and resumable.

use crate::architecture::Layout;
use crate::config::Config;
use crate::device::Device;
use crate::explain::{Factors, centre};
use crate::model::FittedModel;
use crate::recovery::recover;
use crate::report;
use crate::runs::{ModelMetadata, Outcome, RunDirectory, RunSummary, write_centres};
use crate::train::trainer::State;
use crate::train::{EpochRecord, Prepared, RunName, Trainer, structured};
use harmonia_graph::dataset::{Dataset, Scaling};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::stop::Stop;
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

/// Settings, data and machine of a set of runs.
pub struct Session<'a, D: Device<Real = f32>> {
    /// Where to compute.
    pub device: &'a D,
    /// Settings.
    pub config: &'a Config,
    /// When asked: finish the epoch, save, stop.
    pub stop: &'a Stop,
}

impl<D: Device<Real = f32>> Session<'_, D> {
    /// Trains every seed. With a directory, runs that it already holds are continued, and finished ones kept.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after a stop request; anything a run can fail with.
    pub fn run(&self, dataset: &Dataset, root: Option<&Path>, observer: &mut dyn Observer) -> Result<Outcome> {
        let dataset = structured(dataset.clone(), self.config)?;
        let first = Prepared::new(&dataset, self.config, self.names()[0])?;
        self.run_prepared(&dataset, first, root, observer)
    }

    /// The same, where the first run has been made ready already, of a dataset with its structural features.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_prepared(
        &self,
        dataset: &Dataset,
        first: Prepared,
        root: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let names = self.names();
        let workers = self.side_by_side(&first, names.len());
        let all = Runs {
            dataset,
            names: &names,
            root,
            device_name: self.device.name(),
            first: Mutex::new(Some(first)),
            observer: Mutex::new(observer),
            abort: AtomicBool::new(false),
        };
        let runs = match workers {
            1 => self.one_by_one(&all)?,
            workers => self.in_parallel(&all, workers)?,
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
    fn side_by_side(&self, first: &Prepared, runs: usize) -> usize {
        let is_small = || first.memory(self.device, self.config).device_bytes() <= SMALL_RUN;
        match runs == 1 || self.device.copies() || !is_small() {
            true => 1,
            false => rayon::current_num_threads().min(runs),
        }
    }

    fn one_by_one(&self, all: &Runs<'_>) -> Result<Vec<RunSummary>> {
        let mut runs = Vec::new();
        for &name in all.names {
            runs.push(self.run_named(all, name)?);
            if self.stop.asked() && runs.len() < all.names.len() {
                return Err(interrupted(all.root));
            }
        }
        Ok(runs)
    }

    /// Every worker has one thread and takes the next run when it is done with one.
    fn in_parallel(&self, all: &Runs<'_>, workers: usize) -> Result<Vec<RunSummary>> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<Vec<(usize, Result<RunSummary>)>> {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
            let pool = pool.map_err(|error| Error::Config(format!("cannot start a thread: {error}")))?;
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= all.names.len() || all.abort.load(Ordering::Relaxed) || self.stop.asked() {
                    return Ok(done);
                }
                let run = pool.install(|| self.run_named(all, all.names[at]));
                // One that fails ends the session: the others stop after their epoch.
                all.abort.fetch_or(run.is_err(), Ordering::Relaxed);
                done.push((at, run));
            }
        };
        let done = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        let mut done: Vec<_> = done.into_iter().flatten().collect();
        done.sort_by_key(|(at, _)| *at);
        // What went wrong says more than that others were stopped for it.
        if let Some(at) = done.iter().position(|(_, run)| !matches!(run, Ok(_) | Err(Error::Interrupted { .. }))) {
            done.swap(0, at);
        }
        let runs = done.into_iter().map(|(_, run)| run).collect::<Result<Vec<_>>>()?;
        if runs.len() < all.names.len() { Err(interrupted(all.root)) } else { Ok(runs) }
    }

    /// One run of the session: kept where it is complete, else trained.
    fn run_named(&self, all: &Runs<'_>, name: RunName) -> Result<RunSummary> {
        let path = all.root.map(|root| self.directory(root, name));
        if let Some(summary) = path.as_deref().map(finished).transpose()?.flatten() {
            return Ok(summary);
        }
        let ready = all.first.lock().unwrap_or_else(PoisonError::into_inner).take_if(|first| first.name == name);
        let run = match ready {
            Some(run) => run,
            None => Prepared::new(all.dataset, self.config, name)?,
        };
        let place = RunPlace { path: path.as_deref(), device_name: &all.device_name, abort: &all.abort };
        match self.train(&run, place, &all.observer) {
            Ok((summary, _)) => Ok(summary),
            // What has to be resumed is the whole session, not the run that was under way.
            Err(Error::Interrupted { .. }) => Err(interrupted(all.root)),
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
        let run = Prepared::of(dataset.clone(), scaling, self.config, name)?;
        let place = RunPlace { path, device_name: &self.device.name(), abort: &AtomicBool::new(false) };
        self.train(&run, place, &Mutex::new(observer))
    }

    fn train(
        &self,
        run: &Prepared,
        place: RunPlace<'_>,
        observer: &Mutex<&mut dyn Observer>,
    ) -> Result<(RunSummary, Vec<f32>)> {
        let (mut directory, restored) = match place.path {
            Some(path) => {
                let (directory, restored) = self.open(path, run.name, &run.layout)?;
                (Some(directory), restored)
            }
            None => (None, None),
        };
        let (state, spent) = restored.map_or((None, 0.0), |(state, seconds)| (Some(state), seconds));
        let mut trainer = Trainer::new(self.device, run, self.config, state)?;
        let seconds = self.epochs(&mut trainer, run, &place, directory.as_mut(), spent, observer)?;
        let summary = self.summary(&mut trainer, run, &place, seconds)?;
        if let Some(directory) = &directory {
            self.write_results(directory, &trainer.model(run.scaling.clone()), run, &summary)?;
        }
        observer.lock().unwrap_or_else(PoisonError::into_inner).end(&summary);
        Ok((summary, trainer.best().to_vec()))
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
        Ok(RunSummary {
            seed: run.name.seed,
            fold: run.name.fold,
            run_dir: place.path.map(Path::to_path_buf),
            parameters: run.layout.len(),
            epochs: progress.epoch,
            best_epoch: progress.stopping.best_epoch.map_or(0, |epoch| epoch + 1),
            stopped_early: progress.stopped,
            learned: progress.stopping.learned_at.is_some(),
            seconds,
            device: place.device_name.to_string(),
            test: trainer.score(test)?,
            validation: trainer.score(&dataset.split.valid)?,
            train: trainer.score(&dataset.split.train)?,
            recovery,
            generator_nll,
        })
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

/// All runs of a session, and what they share.
struct Runs<'a> {
    /// Before splits are drawn, with structural features.
    dataset: &'a Dataset,
    names: &'a [RunName],
    root: Option<&'a Path>,
    /// For summaries.
    device_name: String,
    /// The first run, made ready, until it begins.
    first: Mutex<Option<Prepared>>,
    observer: Mutex<&'a mut dyn Observer>,
    /// Set where a run has failed: the others stop.
    abort: AtomicBool,
}

/// Where a run is kept, and who may end it.
struct RunPlace<'a> {
    path: Option<&'a Path>,
    /// For its summary.
    device_name: &'a str,
    /// Set where another run of the session has failed.
    abort: &'a AtomicBool,
}

/// Both checkpoints of a run.
fn save<D: Device<Real = f32>>(directory: &RunDirectory, trainer: &Trainer<'_, D>, run: &Prepared) -> Result<()> {
    let model = trainer.model(run.scaling.clone());
    let metadata = ModelMetadata {
        dataset: run.dataset.name.clone(),
        seed: run.name.seed,
        fold: run.name.fold,
        feature_names: run.dataset.feature_names.clone(),
        class_names: run.dataset.class_names.clone(),
        epoch: trainer.progress().stopping.best_epoch.map_or(0, |epoch| epoch + 1),
        model: model.description(),
    };
    directory.save(&trainer.state()?, &model, &metadata)
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
