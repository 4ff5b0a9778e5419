//! Progress of downloads, conversions and generators on stderr: a bar on a terminal, a line now and then elsewhere.

use crate::cli::{signals, voice};
use harmonia_data::download::{Access, Stage, Transfer};
use harmonia_data::obtain::Context;
use harmonia_graph::units::bytes;
use harmonia_graph::watch::{Report, Watch};
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Runs long work with its progress shown.
pub fn with<R>(access: &Access, work: impl FnOnce(&Context) -> R) -> R {
    let display = RefCell::new(Display::new());
    let download = |progress: Transfer<'_>| {
        let stage = match progress.stage {
            Stage::Wait => "waiting for another download of",
            Stage::Download => "downloading",
            Stage::Retry => "trying again:",
            Stage::Check => "checking",
        };
        let what = format!("{stage} {}", progress.file);
        display.borrow_mut().show(&what, progress.done, progress.total.unwrap_or(0), true);
    };
    let report = |report: Report<'_>| match report {
        Report::Step(what) => display.borrow_mut().show(what, 0, 0, false),
        Report::Progress(what, done, total) => display.borrow_mut().show(what, done, total, false),
    };
    let note = |text: &str| display.borrow_mut().note(text);
    let context = Context {
        access: access.clone(),
        download: &download,
        watch: Watch::new(&report, signals::stop()),
        note: &note,
    };
    let result = work(&context);
    display.borrow_mut().finish();
    result
}

struct Display {
    has_bars: bool,
    bar: Option<(String, ProgressBar)>,
    last_line: Instant,
    pace: Pace,
}

/// How long the rest of a step will take, by what is done of it.
#[derive(Default)]
pub struct Pace {
    what: String,
    /// When it was first heard of, and how much was done then.
    since: Option<(Instant, u64)>,
}

impl Pace {
    /// `, about 2 min left`, once enough is done to say so.
    pub fn left(&mut self, what: &str, done: u64, total: u64) -> String {
        self.left_at(what, done, total, Instant::now())
    }

    fn left_at(&mut self, what: &str, done: u64, total: u64, now: Instant) -> String {
        let (since, first) = match self.since {
            Some(since) if self.what == what => since,
            _ => {
                (self.what, self.since) = (what.to_string(), Some((now, done)));
                return String::new();
            }
        };
        let seconds = now.duration_since(since).as_secs_f64();
        // A tenth of a second says nothing about minutes.
        if done <= first || done >= total || seconds < 1.0 {
            return String::new();
        }
        let left = seconds * (total - done) as f64 / (done - first) as f64;
        match left {
            left if left < 100.0 => format!(", about {left:.0} s left"),
            left => format!(", about {:.0} min left", left / 60.0),
        }
    }
}

impl Display {
    fn new() -> Self {
        Display { has_bars: voice::has_bars(), bar: None, last_line: Instant::now(), pace: Pace::default() }
    }

    fn show(&mut self, what: &str, done: u64, total: u64, is_bytes: bool) {
        let total = if total == u64::MAX { 0 } else { total };
        if !self.has_bars {
            let left = if total > 0 { self.pace.left(what, done, total) } else { String::new() };
            if self.last_line.elapsed().as_secs_f64() >= voice::seconds_between_lines() {
                let amount = |value: u64| if is_bytes { bytes(value) } else { value.to_string() };
                match (done, total) {
                    (0, 0) => voice::line(what),
                    (done, 0) => voice::line(format_args!("{what}: {}", amount(done))),
                    (done, total) => voice::line(format_args!("{what}: {} of {}{left}", amount(done), amount(total))),
                }
                self.last_line = Instant::now();
            }
            return;
        }
        if self.bar.as_ref().is_none_or(|(shown, _)| shown != what) {
            self.finish();
            let bar = if total > 0 { ProgressBar::new(total) } else { ProgressBar::new_spinner() };
            let template = match (total > 0, is_bytes) {
                (true, true) => "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} ({eta} left)",
                (true, false) => "{msg} [{bar:30}] {percent} % ({eta} left)",
                (false, true) => "{msg} {spinner} {bytes} {bytes_per_sec}",
                (false, false) => "{msg} {spinner} {elapsed}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_message(what.to_string());
            bar.set_position(done);
            bar.reset_eta();
            bar.enable_steady_tick(Duration::from_millis(200));
            self.bar = Some((what.to_string(), bar));
        }
        if let Some((_, bar)) = &self.bar {
            bar.set_position(done);
        }
    }

    fn note(&mut self, text: &str) {
        match &self.bar {
            Some((_, bar)) => bar.suspend(|| voice::note(text)),
            None => voice::note(text),
        }
    }

    fn finish(&mut self) {
        if let Some((_, bar)) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_work_says_how_long_it_will_take() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let mut left = |what, done, after| pace.left_at(what, done, 100, start + Duration::from_secs_f64(after));
        assert_eq!(left("probes", 10, 0.0), "");
        assert_eq!(left("probes", 11, 0.5), "", "too early to tell");
        assert_eq!(left("probes", 20, 5.0), ", about 40 s left");
        assert_eq!(left("probes", 20, 50.0), ", about 7 min left");
        assert_eq!(left("ends", 20, 51.0), "", "another step has a pace of its own");
        assert_eq!(left("ends", 100, 60.0), "");
    }
}
