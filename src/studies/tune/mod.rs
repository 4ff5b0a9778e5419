//! Tuning: settings found by random search with successive halving, by validation alone.
//!
//! [`Space`] says what is searched, [`halving`] on which rungs, `budget` how much of it fits into a time, [`mod@search`] who is
//! compared with whom, a journal keeps what is finished. Runs are in memory. Test units are scored by [`Tuning::evaluate`] and nowhere else.

mod budget;
mod evaluation;
pub mod halving;
mod journal;
mod one_run;
pub mod search;
mod space;

pub use evaluation::Evaluated;
pub use space::Space;

use crate::config::Config;
use crate::device::Device;
use crate::loss::{Objective, Scores};
use crate::session::side_by_side;
use crate::settings::presets::{self, Recipe};
use crate::settings::{Layers, differences, own};
use crate::train::{Prepared, RunName, prepare};
use halving::{Rung, schedule};
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::stop::Stop;
use journal::Journal;
use search::{Criterion, Job, Measured, NOT_BEGUN, Outcome, Round, search};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Settings that are tried.
#[derive(Clone, Debug)]
pub struct Trial {
    /// 0 is the start.
    pub number: usize,
    /// What was drawn, by key.
    pub settings: toml::Table,
    /// The settings of a run.
    pub config: Config,
}

/// Hears of progress.
pub trait Listener: Sync {
    /// A round begins, `known` of whose runs are finished already.
    fn round(&self, rung: usize, runs: usize, known: usize);
    /// A run is over.
    fn run(&self, job: &Job, measured: &Measured);
    /// The time is enough for some of the settings of a rung alone.
    fn shortened(&self, shortened: &Shortened);
}

/// A rung that a budget leaves fewer settings than were planned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shortened {
    /// Counted from 1; after the last rung, the comparison over all runs.
    pub rung: usize,
    /// Settings that go into it.
    pub settings: usize,
    /// Settings that would have.
    pub planned: usize,
    /// What a training in full takes, in seconds.
    pub seconds: f64,
}

/// Says nothing.
pub struct Silent;

impl Listener for Silent {
    fn round(&self, _: usize, _: usize, _: usize) {}
    fn run(&self, _: &Job, _: &Measured) {}
    fn shortened(&self, _: &Shortened) {}
}

/// A search, ready to begin or to go on.
pub struct Tuning<'a, D: Device<Real = f32>> {
    device: &'a D,
    /// Before splits are drawn.
    whole: &'a Dataset,
    stop: &'a Stop,
    listener: &'a dyn Listener,
    directory: PathBuf,
    journal: Journal,
    /// What is tried; the start first.
    pub trials: Vec<Trial>,
    /// Runs whose mean settings are compared by.
    pub groups: Vec<Vec<Round>>,
    /// Budgets, from the cheapest to that of whole runs.
    pub rungs: Vec<Rung>,
    /// What settings are compared by.
    pub criterion: Criterion,
    objective: Objective,
    /// Parts that a fold chooses by; with several, settings are compared by a part that chose neither epoch nor temperature.
    inner: usize,
    /// Whether runs may be trained side by side.
    small: bool,
    /// When no more trainings begin.
    deadline: Option<Instant>,
    /// Whether some were not begun for it.
    cut: AtomicBool,
    /// Trainings at a time, where somebody said.
    jobs: Option<usize>,
}

/// What decides a search.
pub struct Request<'a> {
    /// The starting settings; their runs are those that settings are compared on.
    pub base: &'a Config,
    /// What is searched.
    pub space: &'a Space,
    /// Settings to try, the starting ones included.
    pub trials: usize,
    /// Of a cross-validation: how many parts of its data a fold chooses by, each validating once. From two on, the part after
    /// the one that validates is held out of training, and settings are compared by it.
    pub inner: usize,
    /// Rounds at most; one trains all settings in full.
    pub rungs: usize,
    /// `loss`, or another score.
    pub metric: &'a str,
    /// Where results are kept.
    pub directory: &'a Path,
    /// How long the search may take: it tries as many settings as fit, by what its first trainings take. No training begins
    /// after it; what is finished then decides, and the same search may go on later.
    pub budget: Option<Duration>,
    /// Trainings at a time; none: as many as there are threads where they are small, else one.
    pub jobs: Option<usize>,
}

impl<'a, D: Device<Real = f32>> Tuning<'a, D> {
    /// Checks everything, then opens or makes the directory.
    ///
    /// # Errors
    /// Settings, space or data that do not fit; a directory of another search.
    pub fn new(
        device: &'a D,
        whole: &'a Dataset,
        request: &Request<'_>,
        stop: &'a Stop,
        listener: &'a dyn Listener,
    ) -> Result<Tuning<'a, D>> {
        let Request { base, space, trials: count, inner, rungs, metric, directory, budget, jobs } = *request;
        space.check(base, whole)?;
        let names = crate::session::Session { device, config: base, stop }.names();
        let first = Prepared::new(whole, base, names[0])?;
        if first.dataset.split.valid.is_empty() {
            return Err(Error::Data(format!(
                "{} has no validation units, so settings cannot be compared; set data.split = fractions:60/20/20, or \
                 cross-validate",
                whole.name
            )));
        }
        base.engine.states.check(first.dataset.graph.is_symmetric())?;
        first.memory(device, base).check(device)?;
        let criterion = Criterion::new(first.objective, metric);
        if metric != "loss" && criterion.score.name != metric {
            let known: Vec<&str> = first.objective.scores().iter().map(|kind| kind.name).collect();
            return Err(Error::Config(format!("the task has no score `{metric}`; it has {}", known.join(", "))));
        }
        // Where another seed has other test units, what it says about settings must stay out of this one's choice.
        let own_splits = match names.get(1) {
            Some(&second) => prepare(whole, base, second)?.0.split != first.dataset.split,
            None => false,
        };
        let most = base.run.folds.saturating_sub(1);
        if inner > 1 && inner > most {
            return Err(Error::Config(format!(
                "a choice by {inner} validation parts needs a cross-validation of at least {} folds; it has {}",
                inner + 1,
                base.run.folds
            )));
        }
        let rounds = |&name: &RunName| (1..=inner.max(1)).map(move |valid| Round { name, valid });
        let groups: Vec<Vec<Round>> = match own_splits {
            true => names.iter().map(|name| rounds(name).collect()).collect(),
            false => vec![names.iter().flat_map(rounds).collect()],
        };
        let trials = space.trials(base, count.max(1), base.run.seed)?;
        let small = trials.iter().all(|trial| {
            let run = Prepared::of(first.dataset.clone(), None, &trial.config, first.name);
            run.is_ok_and(|run| run.is_small(device, &trial.config))
        });
        let rungs = schedule(trials.len(), groups.iter().map(Vec::len).max().unwrap_or(1), rungs);
        let journal = Journal::open(directory, &description(whole, request))?;
        let directory = directory.to_path_buf();
        let objective = first.objective;
        Ok(Tuning {
            device,
            whole,
            stop,
            listener,
            directory,
            journal,
            trials,
            groups,
            rungs,
            criterion,
            objective,
            inner,
            small,
            deadline: budget.map(|budget| Instant::now() + budget),
            cut: AtomicBool::new(false),
            jobs,
        })
    }

    /// Whether every run chooses for itself.
    pub fn is_nested(&self) -> bool {
        self.groups.len() > 1
    }

    /// The loss of the task.
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// Searches, from where it was left.
    ///
    /// # Errors
    /// [`Error::Cancelled`] after a stop request: what is finished is kept. A device or disk that failed.
    pub fn run(&self) -> Result<Outcome> {
        if self.deadline.is_some() {
            // How long others will take is known by the first.
            let first = budget::FIRST.max(self.workers()).min(self.trials.len());
            let job = |trial| Job { trial, round: self.groups[0][0], divisor: self.rungs[0].divisor, rung: 1 };
            self.train_all(&(0..first).map(job).collect::<Vec<_>>())?;
        }
        let allow = |at, most| self.allowed(at, most);
        search(self.trials.len(), &self.groups, &self.rungs, self.criterion, &mut |jobs| self.train_all(jobs), &allow)
    }

    /// How many of so many settings may go into a rung, so that the search is over in time.
    fn allowed(&self, at: usize, most: usize) -> usize {
        let (Some(deadline), Some(seconds)) = (self.deadline, self.journal.seconds_in_full()) else { return most };
        let left = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
        let known = if at == 0 { self.journal.finished(self.rungs[0].divisor) } else { 0 };
        let trainings = left * self.workers() as f64 / seconds;
        let settings = budget::affordable(&self.rungs, &self.groups, at, most, trainings, known);
        if settings < most {
            self.listener.shortened(&Shortened { rung: at + 1, settings, planned: most, seconds });
        }
        settings
    }

    /// Trains what is not finished yet; results of all, in their order.
    fn train_all(&self, jobs: &[Job]) -> Result<Vec<Measured>> {
        let missing: Vec<&Job> = jobs.iter().filter(|job| self.journal.get(job).is_none()).collect();
        let rung = jobs.first().map_or(0, |job| job.rung);
        self.listener.round(rung, jobs.len(), jobs.len() - missing.len());
        self.side_by_side(missing.len(), &|at| {
            let job = missing[at];
            if self.is_over() {
                self.cut.store(true, Ordering::Relaxed);
                return Ok(());
            }
            let (measured, _) = self.train(job, false)?;
            self.journal.add(job, &self.trials[job.trial], &measured)?;
            self.listener.run(job, &measured);
            Ok(())
        })?;
        // All of them are there now, unless the budget is over: those count as worst, and are not written down.
        let unfinished = |job: &Job| {
            let epochs = self.trials[job.trial].config.train.epochs.div_ceil(job.divisor);
            self.was_cut().then(|| Measured {
                validation: Scores::default(),
                best_epoch: 0,
                epochs,
                seconds: 0.0,
                failed: Some(NOT_BEGUN.into()),
            })
        };
        jobs.iter().map(|job| self.journal.get(job).or_else(|| unfinished(job)).ok_or(Error::Cancelled)).collect()
    }

    /// Whether the budget is spent.
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether trainings were not begun because the budget was spent.
    pub fn was_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Trainings at a time, where there are enough of them.
    fn workers(&self) -> usize {
        let most = if self.small { rayon::current_num_threads() } else { 1 };
        self.jobs.unwrap_or(most).max(1)
    }

    /// Small runs have a thread each, large ones all threads; the first error ends all.
    fn side_by_side<R: Send>(&self, jobs: usize, work: &(dyn Fn(usize) -> Result<R> + Sync)) -> Result<Vec<R>> {
        let workers = self.workers().min(jobs);
        if workers <= 1 {
            return (0..jobs).map(|at| self.stop.check().and_then(|()| work(at))).collect();
        }
        let abort = AtomicBool::new(false);
        let halted = || abort.load(Ordering::Relaxed) || self.stop.asked();
        let mut done = side_by_side(workers, workers, jobs, &halted, &|at| {
            let result = work(at);
            abort.fetch_or(result.is_err(), Ordering::Relaxed);
            result
        })?;
        // What went wrong says more than that others were stopped for it.
        if let Some(at) = done.iter().position(|(_, run)| !matches!(run, Ok(_) | Err(Error::Cancelled))) {
            done.swap(0, at);
        }
        let results = done.into_iter().map(|(_, result)| result).collect::<Result<Vec<_>>>()?;
        if results.len() < jobs { Err(Error::Cancelled) } else { Ok(results) }
    }
}

/// What decides the results of a search: another one must not go on from them.
fn description(whole: &Dataset, request: &Request<'_>) -> Value {
    let (mut base, run) = (json!(request.base), &request.base.run);
    if let Some(base) = base.as_object_mut() {
        // What results depend on is named by itself.
        base.remove("run");
    }
    json!({
        "dataset": {
            "name": whole.name, "nodes": whole.graph.nodes(), "features": whole.features.cols, "units": whole.units(),
        },
        "seed": run.seed,
        "seeds": run.seeds,
        "folds": run.folds,
        "settings": base,
        "space": request.space.to_toml(),
        "trials": request.trials,
        "inner": request.inner,
        "rungs": request.rungs,
        "metric": request.metric,
    })
}

/// The settings of a trial as a file for `--config`: what differs from the preset as published, below a comment.
///
/// # Errors
/// Never in practice: every setting has a TOML form.
pub fn preset_text(config: &Config, comment: &str) -> Result<String> {
    let mut layers = Layers::new()?;
    let mut head = format!("# {comment}\n");
    if config.preset == own::NAME {
        // What it chooses for the data is written down too: the file is over the plain defaults.
        head += &format!("recipe = \"{}\"\n", Recipe::Paper.name());
    } else if !config.preset.is_empty() {
        presets::lay(&mut layers, &config.preset, Recipe::Paper)?;
        head += &format!("preset = \"{}\"\nrecipe = \"{}\"\n", config.preset, Recipe::Paper.name());
    }
    Ok(format!("{head}\n{}", differences(config, &layers.finish()?)?))
}
