//! Progress of a study on stderr: a bar on a terminal, a line now and then elsewhere; both with the time that is left.

use crate::cli::voice;
use crate::cli::watch::Pace;
use crate::studies::paper::Listener;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub struct StudyProgress {
    name: &'static str,
    inside: Mutex<Inside>,
}

struct Inside {
    jobs: usize,
    done: usize,
    bar: Option<ProgressBar>,
    pace: Pace,
    last_line: Instant,
}

impl StudyProgress {
    pub fn new(name: &'static str) -> StudyProgress {
        let inside = Inside { jobs: 0, done: 0, bar: None, pace: Pace::default(), last_line: Instant::now() };
        StudyProgress { name, inside: Mutex::new(inside) }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn finish(&self) {
        if let Some(bar) = self.inside().bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Listener for StudyProgress {
    fn begin(&self, jobs: usize, known: usize) {
        let mut inside = self.inside();
        (inside.jobs, inside.done) = (jobs, known);
        if known == jobs {
            return voice::line(format_args!("{}: all {jobs} jobs are finished already", self.name));
        }
        let finished = if known > 0 { format!(", {known} of them finished already") } else { String::new() };
        voice::line(format_args!("{}: {jobs} jobs{finished}", self.name));
        // The pace is that of this sitting.
        inside.pace.left(self.name, known as u64, jobs as u64);
        if !voice::has_bars() {
            return;
        }
        let bar = ProgressBar::new(jobs as u64);
        if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {elapsed} ({eta} left) {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_position(known as u64);
        bar.reset_eta();
        bar.enable_steady_tick(Duration::from_millis(500));
        inside.bar = Some(bar);
    }

    fn job(&self, key: &str) {
        let mut inside = self.inside();
        inside.done += 1;
        let (done, jobs) = (inside.done, inside.jobs);
        if let Some(bar) = &inside.bar {
            bar.set_position(done as u64);
            bar.set_message(key.to_string());
        } else if inside.last_line.elapsed().as_secs_f64() >= voice::seconds_between_lines() {
            let left = inside.pace.left(self.name, done as u64, jobs as u64);
            voice::line(format_args!("{}: {done} of {jobs} jobs{left}", self.name));
            inside.last_line = Instant::now();
        }
    }
}
