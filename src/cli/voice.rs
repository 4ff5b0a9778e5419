//! What the commands say on stderr, beside their results: progress, notes and errors. All of it goes through here, so
//! that `--quiet` and `--verbose` hold everywhere.

use clap::Args;
use clap::builder::Styles;
use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU8, Ordering};

/// The process has one stderr, so it has one level.
static LEVEL: AtomicU8 = AtomicU8::new(NORMAL);

const QUIET: u8 = 0;
const NORMAL: u8 = 1;
const VERBOSE: u8 = 2;

/// How much is said; every command has these.
#[derive(Args, Clone, Copy, Debug)]
pub struct VoiceFlags {
    /// Say nothing on stderr but errors: no progress, no notes
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more: what was chosen and why, and progress every second where there is no terminal
    #[arg(short, long, global = true)]
    verbose: bool,
}

impl VoiceFlags {
    /// From here on.
    pub fn apply(self) {
        let level = match (self.quiet, self.verbose) {
            (true, _) => QUIET,
            (false, true) => VERBOSE,
            (false, false) => NORMAL,
        };
        LEVEL.store(level, Ordering::Relaxed);
    }

    /// The flags that give another process of ours this level.
    pub fn of_this_process() -> &'static [&'static str] {
        match LEVEL.load(Ordering::Relaxed) {
            QUIET => &["--quiet"],
            VERBOSE => &["--verbose"],
            _ => &[],
        }
    }
}

fn is_at_least(level: u8) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level
}

/// A line of progress.
pub fn line(text: impl Display) {
    if is_at_least(NORMAL) {
        eprintln!("{text}");
    }
}

/// Something the user should know about the result.
pub fn note(text: impl Display) {
    line(format_args!("note: {text}"));
}

/// Something that may well make the result useless.
pub fn warning(text: impl Display) {
    line(format_args!("warning: {text}"));
}

/// A note for those who ask why.
pub fn detail(text: impl Display) {
    if is_at_least(VERBOSE) {
        note(text);
    }
}

/// Columns of the terminal that results go to; none where they go elsewhere.
pub fn width() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0))
}

/// Whether progress is shown as bars: on a terminal.
pub fn has_bars() -> bool {
    is_at_least(NORMAL) && std::io::stderr().is_terminal()
}

/// Seconds between two lines of progress where there are no bars.
pub fn seconds_between_lines() -> f64 {
    if is_at_least(VERBOSE) { 1.0 } else { 10.0 }
}

/// An error, at any level; coloured as clap colours its own, where clap would.
pub fn error(text: impl Display) {
    let style = *Styles::styled().get_error();
    anstream::eprintln!("{style}error:{style:#} {text}");
}

/// What to do about it.
pub fn hint(text: impl Display) {
    eprintln!("hint: {text}");
}
