//! What the commands say on stderr, beside their results: progress, notes and errors. All of it goes through here, so
//! that `--quiet` and `--verbose` hold everywhere.

use clap::Args;
use clap::builder::Styles;
use std::borrow::Cow;
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

/// Nothing but errors from here on: another process speaks for this one.
pub fn quiet() {
    LEVEL.store(QUIET, Ordering::Relaxed);
}

fn is_at_least(level: u8) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level
}

/// Text without anything that a terminal would act on: names come from files.
pub fn plain(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c.is_control() && c != '\n' && c != '\t';
    match text.contains(acts) {
        false => Cow::Borrowed(text),
        true => {
            let escaped = |c: char| if acts(c) { c.escape_default().to_string() } else { c.to_string() };
            Cow::Owned(text.chars().map(escaped).collect())
        }
    }
}

/// A line of progress.
pub fn line(text: impl Display) {
    if is_at_least(NORMAL) {
        eprintln!("{}", plain(&text.to_string()));
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
    anstream::eprintln!("{style}error:{style:#} {}", plain(&text.to_string()));
}

/// Something that waits for an answer, at any level.
pub fn question(text: impl Display) {
    eprint!("{}", plain(&text.to_string()));
}

/// What to do about it.
pub fn hint(text: impl Display) {
    eprintln!("hint: {}", plain(&text.to_string()));
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_name_with_an_escape_in_it_does_not_reach_the_terminal() {
        assert_eq!(plain("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(plain("red \u{1b}[31m, \u{9b}2J, bell \u{7}"), "red \\u{1b}[31m, \\u{9b}2J, bell \\u{7}");
    }
}
