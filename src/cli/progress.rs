//! Progress of training on stderr: a bar on a terminal, a line now and then elsewhere.

use crate::config::Metric;
use crate::train::session::RunSummary;
use crate::train::{EpochRecord, Observer, RunName, Scores};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Seconds between two lines where there is no terminal.
const LINE_SECONDS: f64 = 10.0;

pub struct Progress {
    metric: Metric,
    bar: Option<ProgressBar>,
    name: String,
    epochs: usize,
    best: String,
    last_line: Instant,
}

impl Progress {
    pub fn new(metric: Metric) -> Self {
        Progress { metric, bar: None, name: String::new(), epochs: 0, best: "-".into(), last_line: Instant::now() }
    }

    fn score(&self, scores: &Scores) -> String {
        let percent = |value: Option<f64>| value.map_or("-".into(), |value| format!("{:.2} %", 100.0 * value));
        match self.metric {
            Metric::Accuracy => percent(scores.accuracy),
            Metric::RocAuc => percent(scores.roc_auc),
            Metric::Loss => scores.nll.map_or("-".into(), |value| format!("{value:.4}")),
        }
    }
}

impl Observer for Progress {
    fn begin(&mut self, run: RunName, done: usize, epochs: usize) {
        (self.name, self.epochs) = (run.to_string(), epochs);
        self.best = "-".into();
        if done > 0 {
            eprintln!("{run}: continuing after epoch {done}");
        }
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(epochs as u64);
            if let Ok(style) =
                ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {elapsed} (at most {eta} left) {msg}")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(self.name.clone());
            bar.set_position(done as u64);
            bar.enable_steady_tick(Duration::from_millis(500));
            self.bar = Some(bar);
        }
    }

    fn epoch(&mut self, record: &EpochRecord) {
        let name = match self.metric {
            Metric::Accuracy => "accuracy",
            Metric::RocAuc => "ROC-AUC",
            Metric::Loss => "NLL",
        };
        if record.best {
            self.best = self.score(&record.validation);
        }
        let now = self.score(&record.validation);
        let text = format!("loss {:.4}, validation {name} {now} (best {})", record.train_loss, self.best);
        match &self.bar {
            Some(bar) => {
                bar.set_position(record.epoch as u64);
                bar.set_message(text);
            }
            None if self.last_line.elapsed().as_secs_f64() >= LINE_SECONDS => {
                eprintln!("{}: epoch {}/{}, {text}", self.name, record.epoch, self.epochs);
                self.last_line = Instant::now();
            }
            None => {}
        }
    }

    fn end(&mut self, summary: &RunSummary) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let why = if summary.stopped_early { "no improvement, stopped" } else { "all epochs done" };
        eprintln!(
            "{}: best epoch {} of {} ({why}), {:.1} s",
            summary.name(),
            summary.best_epoch,
            summary.epochs,
            summary.seconds
        );
        if summary.test.nll.is_none() {
            eprintln!("note: there are no test units, so there is no test score");
        }
        if summary.validation.nll.is_none() {
            eprintln!("note: there are no validation units, so the last epoch counts as the best");
        } else if !summary.learned {
            eprintln!("note: the model does not predict better than class frequencies yet; train for more epochs");
        }
    }
}
