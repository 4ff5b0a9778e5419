//! The child's side of graph tasks: a whole cross-validation as training runs it, without writing files.

use super::memory;
use crate::cli::{signals, voice, watch};
use crate::config::Config;
use crate::device::cpu::Cpu;
use crate::runs::RunSummary;
use crate::runs::load_dataset;
use crate::session::{Observer, Session};
use crate::train::EpochRecord;
use crate::train::RunName;
use harmonia_graph::error::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Folds and repeats, as in the paper's tables.
pub const SETTINGS: [&str; 2] = ["run.folds=10", "run.seeds=3"];

/// Time and accuracy of a cross-validation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredFolds {
    /// Graphs of the dataset.
    pub graphs: usize,
    /// Nodes of all graphs.
    pub nodes: usize,
    /// Of one repeat.
    pub folds: usize,
    /// Times they were dealt.
    pub repeats: usize,
    /// Epochs of all runs.
    pub epochs: usize,
    /// Seconds from the first fold to the last score, validation included.
    pub seconds: f64,
    /// Mean test accuracy over all runs.
    pub accuracy: Option<f64>,
    /// Its standard deviation over all runs.
    pub accuracy_std: Option<f64>,
    /// Standard deviation of the means of the repeats.
    pub accuracy_std_between_repeats: Option<f64>,
    pub threads: usize,
    /// Most memory that was resident.
    pub peak_bytes: Option<u64>,
}

/// Measures in the current pool of threads.
pub fn measure(config: &Config) -> Result<MeasuredFolds> {
    let dataset = watch::with(&Default::default(), |context| load_dataset(&config.data, context))?;
    let device = Cpu::<f32>::with_states(config.engine.states);
    let stop = signals::stop();
    let session = Session { device: &device, config, stop: &stop };
    let mut progress = FoldProgress::new(&dataset.name, session.names().len());
    let start = Instant::now();
    let outcome = session.run(&dataset, None, &mut progress).map_err(|error| match error {
        // There is no run to go on with.
        Error::Interrupted { .. } => Error::Cancelled,
        error => error,
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let (accuracy, accuracy_std) = outcome.spread(|run| &run.test, "accuracy");
    Ok(MeasuredFolds {
        graphs: dataset.graphs(),
        nodes: dataset.graph.nodes(),
        folds: config.run.folds,
        repeats: outcome.repeats().count(),
        epochs: outcome.runs.iter().map(|run| run.epochs).sum(),
        seconds,
        accuracy,
        accuracy_std,
        accuracy_std_between_repeats: outcome.between_repeats(|run| &run.test, "accuracy"),
        threads: rayon::current_num_threads(),
        peak_bytes: memory::now().peak,
    })
}

/// Runs done: a bar on a terminal, a line now and then elsewhere.
struct FoldProgress {
    name: String,
    done: usize,
    total: usize,
    bar: Option<ProgressBar>,
    last_line: Instant,
}

impl FoldProgress {
    fn new(name: &str, total: usize) -> Self {
        let bar = voice::has_bars().then(|| ProgressBar::new(total as u64));
        if let Some(bar) = &bar {
            if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} runs ({eta} left)") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(name.to_string());
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        FoldProgress { name: name.into(), done: 0, total, bar, last_line: Instant::now() }
    }
}

impl Observer for FoldProgress {
    fn begin(&mut self, _: RunName, _: usize, _: usize) {}

    fn epoch(&mut self, _: RunName, _: &EpochRecord) {}

    fn end(&mut self, _: &RunSummary) {
        self.done += 1;
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.done as u64);
                if self.done == self.total {
                    bar.finish_and_clear();
                }
            }
            None if self.last_line.elapsed().as_secs_f64() >= voice::seconds_between_lines() => {
                voice::line(format_args!("{}: {} of {} runs", self.name, self.done, self.total));
                self.last_line = Instant::now();
            }
            None => {}
        }
    }
}
