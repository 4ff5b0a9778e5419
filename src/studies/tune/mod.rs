//! Tuning: settings found by random search with successive halving, by validation alone.
//!
//! [`Space`] says what is searched, [`halving`] on which budgets, [`mod@search`] who is compared with whom, a journal keeps
//! what is finished. Runs are in memory. Test units are scored by [`Tuning::evaluate`] and nowhere else.

pub mod halving;
mod journal;
pub mod search;
mod space;

pub use space::Space;

use crate::config::Config;
use crate::device::Device;
use crate::loss::{Objective, Scores};
use crate::session::{is_small, side_by_side};
use crate::settings::presets::{self, Recipe};
use crate::settings::{Layers, differences};
use crate::train::{Prepared, RunName, Trainer, prepare};
use halving::{Rung, schedule};
use harmonia_graph::dataset::{Dataset, SplitRule};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::stop::Stop;
use journal::Journal;
use search::{Criterion, Found, Job, Measured, Round, search};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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
}

/// Says nothing.
pub struct Silent;

impl Listener for Silent {
    fn round(&self, _: usize, _: usize, _: usize) {}
    fn run(&self, _: &Job, _: &Measured) {}
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
    /// All settings.
    pub trials: Vec<Trial>,
    /// Runs whose mean settings are compared by.
    pub groups: Vec<Vec<Round>>,
    /// The rounds.
    pub rungs: Vec<Rung>,
    /// What settings are compared by.
    pub criterion: Criterion,
    objective: Objective,
    /// Parts that a fold chooses by; with several, settings are compared by a part that chose neither epoch nor temperature.
    inner: usize,
    /// Whether runs may be trained side by side.
    small: bool,
}

/// What is asked for.
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
}

/// A test score of the settings that the validation part of the same run chose.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Evaluated {
    /// Number of the trial.
    pub trial: usize,
    /// Seed of the run.
    pub seed: u64,
    /// The fold that tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// Scores of the test units.
    pub test: Scores,
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
        let Request { base, space, trials: count, inner, rungs, metric, directory } = *request;
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
            run.is_ok_and(|run| is_small(device, &run, &trial.config))
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
    pub fn run(&self) -> Result<Found> {
        search(self.trials.len(), &self.groups, &self.rungs, self.criterion, &mut |jobs| self.train_all(jobs))
    }

    /// Test scores of what was chosen: of each group, what its own validation part chose, on its runs.
    ///
    /// # Errors
    /// As [`Tuning::run`].
    pub fn evaluate(&self, found: &Found) -> Result<Vec<Evaluated>> {
        let path = self.directory.join("evaluation.jsonl");
        let known: Vec<Evaluated> = match path.exists() {
            true => files::read_text(&path)?.lines().map_while(|line| serde_json::from_str(line).ok()).collect(),
            false => Vec::new(),
        };
        let chosen: Vec<(usize, RunName)> = (self.groups.iter().zip(&found.winners))
            .flat_map(|(rounds, &trial)| {
                rounds.iter().filter(|round| round.valid == 1).map(move |round| (trial, round.name))
            })
            .collect();
        let find = |&(trial, name): &(usize, RunName)| {
            let same = |known: &&Evaluated| (known.trial, known.seed, known.fold) == (trial, name.seed, name.fold);
            known.iter().find(same).cloned()
        };
        let missing: Vec<(usize, RunName)> = chosen.iter().filter(|one| find(one).is_none()).copied().collect();
        self.listener.round(self.rungs.len() + 2, chosen.len(), chosen.len() - missing.len());
        let evaluated = self.side_by_side(missing.len(), &|at| {
            let (trial, name) = missing[at];
            let job = Job { trial, round: Round { name, valid: 1 }, divisor: 1, rung: self.rungs.len() + 2 };
            let (measured, test) = self.train(&job, true)?;
            self.listener.run(&job, &measured);
            Ok(Evaluated { trial, seed: name.seed, fold: name.fold, test: test.unwrap_or_default() })
        })?;
        let mut new = missing.iter().zip(evaluated);
        let all: Vec<Evaluated> =
            chosen.iter().filter_map(|one| find(one).or_else(|| new.next().map(|(_, new)| new))).collect();
        let mut text = String::new();
        for line in &all {
            text += &serde_json::to_string(line).map_err(|error| Error::file(&path, error.to_string()))?;
            text.push('\n');
        }
        files::write_atomic(&path, text.as_bytes())?;
        Ok(all)
    }

    /// Trains what is not finished yet; results of all, in their order.
    fn train_all(&self, jobs: &[Job]) -> Result<Vec<Measured>> {
        let missing: Vec<&Job> = jobs.iter().filter(|job| self.journal.get(job).is_none()).collect();
        let rung = jobs.first().map_or(0, |job| job.rung);
        self.listener.round(rung, jobs.len(), jobs.len() - missing.len());
        self.side_by_side(missing.len(), &|at| {
            let job = missing[at];
            let (measured, _) = self.train(job, false)?;
            self.journal.add(job, &self.trials[job.trial], &measured)?;
            self.listener.run(job, &measured);
            Ok(())
        })?;
        // All of them are there now.
        jobs.iter().map(|job| self.journal.get(job).ok_or(Error::Cancelled)).collect()
    }

    /// Small runs have a thread each, large ones all threads; the first error ends all.
    fn side_by_side<R: Send>(&self, jobs: usize, work: &(dyn Fn(usize) -> Result<R> + Sync)) -> Result<Vec<R>> {
        let workers = if self.small { rayon::current_num_threads().min(jobs) } else { 1 };
        if workers <= 1 {
            return (0..jobs).map(|at| self.stop.check().and_then(|()| work(at))).collect();
        }
        let abort = AtomicBool::new(false);
        let halted = || abort.load(Ordering::Relaxed) || self.stop.asked();
        let mut done = side_by_side(workers, jobs, &halted, &|at| {
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

    /// One run, in memory. Settings under which it diverges, or that do not fit the data or the device, count as worst.
    fn train(&self, job: &Job, test: bool) -> Result<(Measured, Option<Scores>)> {
        let mut config = self.trials[job.trial].config.clone();
        config.train.epochs = config.train.epochs.div_ceil(job.divisor);
        let Round { mut name, valid } = job.round;
        let held_out = match name.fold {
            Some(fold) if self.inner > 1 && !test => {
                let apart = with_part_held_out(self.whole, [config.run.folds, fold, valid], name.seed)?;
                (config.run.folds, name.fold) = (0, None);
                Some(apart)
            }
            _ => None,
        };
        let start = Instant::now();
        let failed = |why: Error| Measured {
            validation: Scores::default(),
            best_epoch: 0,
            epochs: config.train.epochs,
            seconds: start.elapsed().as_secs_f64(),
            failed: Some(why.to_string()),
        };
        let prepared = Prepared::new(held_out.as_ref().unwrap_or(self.whole), &config, name)
            .and_then(|run| run.memory(self.device, &config).check(self.device).map(|_| run));
        let run = match prepared {
            Ok(run) => run,
            // The starting settings have been tried before.
            Err(error @ (Error::Data(_) | Error::Config(_) | Error::Device(_))) => return Ok((failed(error), None)),
            Err(error) => return Err(error),
        };
        let mut trainer = match Trainer::new(self.device, &run, &config, None) {
            Ok(trainer) => trainer,
            Err(error @ Error::Config(_)) => return Ok((failed(error), None)),
            Err(error) => return Err(error),
        };
        while !trainer.finished() {
            match trainer.epoch() {
                Ok(_) => {}
                Err(error @ Error::Diverged(_)) => return Ok((failed(error), None)),
                Err(error) => return Err(error),
            }
            if !trainer.finished() {
                self.stop.check()?;
            }
        }
        if config.train.calibrate {
            trainer.calibrate()?;
        }
        let measured = Measured {
            validation: trainer.score(if held_out.is_some() {
                &run.dataset.split.test
            } else {
                &run.dataset.split.valid
            })?,
            best_epoch: trainer.progress().stopping.best_epoch.map_or(0, |epoch| epoch + 1),
            epochs: config.train.epochs,
            seconds: start.elapsed().as_secs_f64(),
            failed: None,
        };
        let test = test.then(|| trainer.score(&run.dataset.split.test)).transpose()?;
        Ok((measured, test))
    }
}

/// A fold whose `valid`-th part validates, with the part after that one held out of training to compare settings by: it is
/// `test` of the split. The part that tests the fold is in none of the three.
fn with_part_held_out(whole: &Dataset, [folds, fold, valid]: [usize; 3], seed: u64) -> Result<Dataset> {
    let split = |valid: usize| {
        let mut dataset = Dataset { own_splits: Vec::new(), ..whole.clone() };
        SplitRule::Fold { folds, fold, valid }.apply(&mut dataset, seed)?;
        Ok::<_, Error>(dataset)
    };
    let comparing: HashSet<u32> = split(valid % (folds - 1) + 1)?.split.valid.into_iter().collect();
    let mut dataset = split(valid)?;
    dataset.split.test = comparing.iter().copied().collect();
    dataset.split.test.sort_unstable();
    dataset.split.train.retain(|unit| !comparing.contains(unit));
    Ok(dataset)
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
    if !config.preset.is_empty() {
        presets::lay(&mut layers, &config.preset, Recipe::Paper)?;
        head += &format!("preset = \"{}\"\nrecipe = \"{}\"\n", config.preset, Recipe::Paper.name());
    }
    Ok(format!("{head}\n{}", differences(config, &layers.finish()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::dataset::{Features, Labels, Level};
    use harmonia_graph::graph::{Direction, Graph, Split};

    #[test]
    fn what_compares_settings_neither_trains_nor_validates_nor_tests() {
        let graph = Graph::from_edges(50, &[], None, Direction::Undirected).unwrap();
        let labels = Labels::Classes { ids: (0..50).map(|unit| unit % 2).collect(), classes: 2 };
        let features = Features::new(50, 1, vec![1.0; 50]).unwrap();
        let whole =
            Dataset::new("d", graph, (0..=50).collect(), features, labels, Level::Graph, Split::default()).unwrap();
        for valid in 1..5 {
            let mut fold = whole.clone();
            SplitRule::Fold { folds: 5, fold: 3, valid }.apply(&mut fold, 7).unwrap();
            let apart = with_part_held_out(&whole, [5, 3, valid], 7).unwrap().split;
            assert_eq!(apart.valid, fold.split.valid);
            let mut all = [apart.train, apart.valid, apart.test.clone()].concat();
            all.extend(&fold.split.test);
            all.sort_unstable();
            assert_eq!(all, (0..50).collect::<Vec<u32>>());
            assert_eq!(apart.test.len(), 10);
        }
    }
}
