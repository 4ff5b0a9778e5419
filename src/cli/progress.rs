//! Progress of training on stderr: a bar on a terminal, a line now and then elsewhere.

use super::voice;
use crate::config::Metric;
use crate::loss::{Objective, ScoreKind, Scores};
use crate::runs::RunSummary;
use crate::session::Observer;
use crate::train::EpochRecord;
use crate::train::RunName;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

pub struct ProgressBars {
    score: &'static ScoreKind,
    bars: MultiProgress,
    runs: Vec<ShownRun>,
    last_line: Instant,
}

/// A run under way.
struct ShownRun {
    name: RunName,
    bar: Option<ProgressBar>,
    epochs: usize,
    best: String,
}

impl ProgressBars {
    /// Shows the score that chooses the epoch.
    pub fn new(objective: Objective, metric: Metric) -> Self {
        let score = objective.score_kind(metric.score_name());
        ProgressBars { score, bars: MultiProgress::new(), runs: Vec::new(), last_line: Instant::now() }
    }

    /// A line above the bars.
    fn say(&self, line: &str) {
        self.bars.suspend(|| voice::line(line));
    }

    fn remark(&self, text: &str) {
        self.bars.suspend(|| voice::note(text));
    }

    fn score(&self, scores: &Scores) -> String {
        scores.get(self.score.name).map_or("-".into(), |value| self.score.show(value))
    }
}

impl Observer for ProgressBars {
    fn begin(&mut self, run: RunName, done: usize, epochs: usize) {
        if done > 0 {
            self.say(&format!("{run}: continuing after epoch {done}"));
        }
        let bar = voice::has_bars().then(|| {
            let bar = self.bars.add(ProgressBar::new(epochs as u64));
            if let Ok(style) =
                ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {elapsed} (at most {eta} left) {msg}")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(run.to_string());
            bar.set_position(done as u64);
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        self.runs.push(ShownRun { name: run, bar, epochs, best: "-".into() });
    }

    fn epoch(&mut self, run: RunName, record: &EpochRecord) {
        let name = self.score.label;
        let now = self.score(&record.validation);
        let Some(run) = self.runs.iter_mut().find(|known| known.name == run) else { return };
        if record.best {
            run.best.clone_from(&now);
        }
        let text = || format!("loss {:.4}, validation {name} {now} (best {})", record.train_loss, run.best);
        match &run.bar {
            Some(bar) => {
                bar.set_position(record.epoch as u64);
                bar.set_message(text());
            }
            None if self.last_line.elapsed().as_secs_f64() >= voice::seconds_between_lines() => {
                let (epoch, epochs) = (record.epoch, run.epochs);
                voice::line(format_args!("{}: epoch {epoch}/{epochs}, {}", run.name, text()));
                self.last_line = Instant::now();
            }
            None => {}
        }
    }

    fn end(&mut self, summary: &RunSummary) {
        self.runs.retain(|run| {
            let over = run.name == summary.name();
            if let (true, Some(bar)) = (over, &run.bar) {
                bar.finish_and_clear();
            }
            !over
        });
        let why = if summary.stopped_early { "no improvement, stopped" } else { "all epochs done" };
        self.say(&format!(
            "{}: best epoch {} of {} ({why}), {:.1} s",
            summary.name(),
            summary.best_epoch,
            summary.epochs,
            summary.seconds
        ));
        if !summary.test.is_defined() {
            self.remark("there are no test units, so there is no test score");
        }
        if !summary.validation.is_defined() {
            self.remark("there are no validation units, so the last epoch counts as the best");
        } else if !summary.learned && !summary.beats_constant() {
            self.remark(match summary.still_learning {
                true => "the model does not predict better than a constant yet, and was still getting better; train for more epochs",
                false => {
                    "the model does not predict better than a constant, and had stopped getting better: the features may not say \
                     more, or harmonia tune may find settings that do"
                }
            });
        }
        for warning in &summary.warnings {
            self.bars.suspend(|| voice::warning(format_args!("{}: {warning}", summary.name())));
        }
    }

    fn note(&mut self, run: RunName, text: &str) {
        self.remark(&format!("{run}: {text}"));
    }
}
