//! Runs from start to end: one seed after the other, each in its own directory, interruptible and resumable.

use super::metrics::{SCORE_NAMES, mean, standard_deviation};
use super::run_directory::ModelMetadata;
use super::trainer::State;
use super::{EpochRecord, RunDirectory, Scores, Trainer};
use crate::config::Config;
use crate::datasets::{Dataset, SplitRule};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::experiments::recovery::{Recovery, recover};
use crate::files;
use crate::model::{Layout, ModelDescription};
use crate::report;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Hears of progress. All methods may do nothing.
pub trait Observer {
    /// A run begins, or goes on after `done` of `epochs` epochs.
    fn begin(&mut self, seed: u64, done: usize, epochs: usize);
    /// An epoch is over.
    fn epoch(&mut self, record: &EpochRecord);
    /// A run is over.
    fn end(&mut self, summary: &RunSummary);
}

/// Says nothing.
pub struct Silent;

impl Observer for Silent {
    fn begin(&mut self, _: u64, _: usize, _: usize) {}
    fn epoch(&mut self, _: &EpochRecord) {}
    fn end(&mut self, _: &RunSummary) {}
}

/// The outcome of one seed; `summary.json` of its run directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSummary {
    /// Seed of the run.
    pub seed: u64,
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

/// The outcome of all seeds.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name of the dataset.
    pub dataset: String,
    /// Name of the preset; empty for none.
    pub preset: String,
    /// Directory of the whole, if there is one.
    pub run_dir: Option<PathBuf>,
    /// One a seed.
    pub runs: Vec<RunSummary>,
}

impl Outcome {
    /// (mean, sample standard deviation) over seeds of a score of a part.
    pub fn spread(&self, part: impl Fn(&RunSummary) -> &Scores, name: &str) -> (Option<f64>, Option<f64>) {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| part(run).get(name)).collect();
        (mean(values.iter().copied()), standard_deviation(&values))
    }

    /// The object of `--json`.
    pub fn to_json(&self) -> Value {
        let part = |part: fn(&RunSummary) -> &Scores| {
            let scores = SCORE_NAMES.iter().map(|name| {
                let (mean, std) = self.spread(part, name);
                (name.to_string(), json!({ "mean": mean, "std": std }))
            });
            scores.collect::<Map<_, _>>()
        };
        json!({
            "dataset": self.dataset,
            "preset": self.preset,
            "seeds": self.runs.len(),
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
    pub fn run(&self, mut dataset: Dataset, root: Option<&Path>, observer: &mut dyn Observer) -> Result<Outcome> {
        let rule = SplitRule::parse(&self.config.data.split)?;
        let mut runs = Vec::new();
        for seed in (self.config.run.seed..).take(self.config.run.seeds) {
            rule.apply(&mut dataset, seed)?;
            let path = root.map(|root| self.directory(root, seed));
            let summary = match path.as_deref().map(finished).transpose()?.flatten() {
                Some(summary) => summary,
                None => match self.run_seed(&dataset, seed, path.as_deref(), observer) {
                    Ok((summary, _)) => summary,
                    // What has to be resumed is the whole session, not the seed that was under way.
                    Err(Error::Interrupted { .. }) => return Err(interrupted(root)),
                    Err(error) => return Err(error),
                },
            };
            runs.push(summary);
            if self.stop.load(Ordering::Relaxed) && runs.len() < self.config.run.seeds {
                return Err(interrupted(root));
            }
        }
        let outcome = Outcome {
            dataset: dataset.name,
            preset: self.config.preset.clone(),
            run_dir: root.map(Path::to_path_buf),
            runs,
        };
        if let (Some(root), true) = (root, self.config.run.seeds > 1) {
            let text = serde_json::to_string_pretty(&outcome.to_json())
                .map_err(|error| Error::file(root, error.to_string()))?;
            files::write_atomic(&root.join("summary.json"), text.as_bytes())?;
        }
        Ok(outcome)
    }

    /// Trains one seed and returns its summary and best parameters.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_seed(
        &self,
        dataset: &Dataset,
        seed: u64,
        path: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<(RunSummary, Vec<f32>)> {
        let layout = Layout::new(self.config.architecture(dataset.features.cols, dataset.labels.outputs()))?;
        let (mut directory, restored) = match path {
            Some(path) => {
                let (directory, restored) = self.open(path, seed, &layout)?;
                (Some(directory), restored)
            }
            None => (None, None),
        };
        let (state, spent) = restored.map_or((None, 0.0), |(state, seconds)| (Some(state), seconds));
        let mut trainer = Trainer::new(self.device, &layout, self.config, dataset, seed, state)?;
        observer.begin(seed, trainer.progress().epoch, self.config.train.epochs);

        let start = Instant::now();
        let elapsed = || spent + start.elapsed().as_secs_f64();
        let save = |directory: &RunDirectory, trainer: &Trainer<'_, D>| {
            let model = ModelMetadata {
                dataset: dataset.name.clone(),
                seed,
                epoch: trainer.progress().stopping.best_epoch.map_or(0, |epoch| epoch + 1),
                model: ModelDescription::new(&layout, self.config.walk, dataset.labels.objective()),
            };
            directory.save(&layout, &trainer.state()?, &model)
        };
        let mut saved = Instant::now();
        while !trainer.finished() {
            let mut record = trainer.epoch()?;
            record.seconds = elapsed();
            observer.epoch(&record);
            let stop = self.stop.load(Ordering::Relaxed) && !trainer.finished();
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
            run_dir: path.map(Path::to_path_buf),
            parameters: layout.len(),
            epochs: progress.epoch,
            best_epoch: progress.stopping.best_epoch.map_or(0, |epoch| epoch + 1),
            stopped_early: progress.stopped,
            learned: progress.stopping.learned_at.is_some(),
            seconds,
            device: self.device.name(),
            test: trainer.score(test)?,
            validation: trainer.score(&dataset.split.valid)?,
            train: trainer.score(&dataset.split.train)?,
            recovery,
            generator_nll,
        };
        if let Some(directory) = &directory {
            let page = report::html(dataset, self.config, &summary, &directory.history()?)?;
            directory.write("report.html", &page)?;
            let text = serde_json::to_string_pretty(&summary)
                .map_err(|error| Error::file(directory.path(), error.to_string()))?;
            // Last, because its presence says that the run is complete.
            directory.write("summary.json", &text)?;
        }
        observer.end(&summary);
        Ok((summary, trainer.best().to_vec()))
    }

    fn open(&self, path: &Path, seed: u64, layout: &Layout) -> Result<(RunDirectory, Option<(State, f64)>)> {
        if !path.join("config.toml").exists() {
            // Each directory stands for itself: its configuration names its own seed.
            let mut config = self.config.clone();
            (config.run.seed, config.run.seeds) = (seed, 1);
            RunDirectory::create(path, &config)?;
        }
        let mut directory = RunDirectory::open(path)?;
        let restored = directory.restore(layout)?;
        Ok((directory, restored))
    }

    fn directory(&self, root: &Path, seed: u64) -> PathBuf {
        if self.config.run.seeds == 1 { root.to_path_buf() } else { root.join(format!("seed-{seed}")) }
    }
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
