//! Progress of a search on stderr.

use crate::cli::voice;
use crate::loss::ScoreKind;
use crate::studies::tune::search::{Job, Measured};
use crate::studies::tune::{Listener, Shortened};
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A bar on a terminal, a line now and then elsewhere. Says validation scores only.
pub struct SearchProgress {
    inside: Mutex<Inside>,
}

struct Inside {
    score: Option<&'static ScoreKind>,
    rungs: usize,
    rung: usize,
    runs: usize,
    done: usize,
    best: Option<f64>,
    failed: usize,
    bar: Option<ProgressBar>,
    last_line: Instant,
}

impl SearchProgress {
    pub fn new() -> SearchProgress {
        let inside = Inside {
            score: None,
            rungs: 0,
            rung: 0,
            runs: 0,
            done: 0,
            best: None,
            failed: 0,
            bar: None,
            last_line: Instant::now(),
        };
        SearchProgress { inside: Mutex::new(inside) }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn score(&self, kind: &'static ScoreKind) {
        self.inside().score = Some(kind);
    }

    pub fn rungs(&self, rungs: usize) {
        self.inside().rungs = rungs;
    }

    pub fn finish(&self) {
        if let Some(bar) = self.inside().bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Inside {
    fn title(&self) -> String {
        match self.rung {
            rung if rung <= self.rungs => format!("rung {rung} of {}", self.rungs),
            rung if rung == self.rungs + 1 => "all runs of the best".into(),
            _ => "what was chosen".into(),
        }
    }

    fn text(&self) -> String {
        let best = match (self.best, self.score) {
            (Some(best), Some(kind)) => format!(", best validation {} of a run {}", kind.label, kind.show(best)),
            _ => String::new(),
        };
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        format!("{}: {} of {} runs{best}{failed}", self.title(), self.done, self.runs)
    }
}

impl Listener for SearchProgress {
    fn round(&self, rung: usize, runs: usize, known: usize) {
        self.finish();
        let mut inside = self.inside();
        (inside.rung, inside.runs, inside.done, inside.best, inside.failed) = (rung, runs, known, None, 0);
        if known == runs {
            return;
        }
        if !voice::has_bars() {
            let finished = if known > 0 { format!(", {known} of them finished already") } else { String::new() };
            voice::line(format_args!("{}: {runs} runs{finished}", inside.title()));
            return;
        }
        let bar = ProgressBar::new(runs as u64);
        if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {elapsed} ({eta} left) {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_position(known as u64);
        bar.reset_eta();
        bar.enable_steady_tick(Duration::from_millis(500));
        bar.set_message(inside.text());
        inside.bar = Some(bar);
    }

    fn run(&self, job: &Job, measured: &Measured) {
        let mut inside = self.inside();
        inside.done += 1;
        let value = inside.score.and_then(|kind| Some((kind, measured.validation.get(kind.name)?)));
        if let Some((kind, value)) = value {
            let better = inside.best.is_none_or(|best| kind.merit(value) > kind.merit(best));
            inside.best = if better { Some(value) } else { inside.best };
        }
        if let Some(why) = &measured.failed {
            inside.failed += 1;
            let note = format!("trial {}, {}: counts as worst: {why}", job.trial, job.round.name);
            match &inside.bar {
                Some(bar) => bar.suspend(|| voice::note(&note)),
                None => voice::note(&note),
            }
        }
        if let Some(bar) = &inside.bar {
            bar.set_position(inside.done as u64);
            bar.set_message(inside.text());
        } else if inside.last_line.elapsed().as_secs_f64() >= voice::seconds_between_lines() {
            voice::line(inside.text());
            inside.last_line = Instant::now();
        }
    }

    fn shortened(&self, shortened: &Shortened) {
        self.finish();
        let Shortened { rung, settings, planned, seconds } = shortened;
        let mut inside = self.inside();
        inside.rung = *rung;
        let title = inside.title();
        voice::line(format_args!(
            "a training in full takes some {seconds:.1} s: {settings} of {planned} settings fit into the budget ({title})"
        ));
    }
}
