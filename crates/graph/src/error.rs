//! The one error type of the crate.
//!
//! Every message names what was read, what was expected, what was found and what to do next. The split that
//! matters to a shell script is kept in [`Error::exit_code`]: 2 for input the user can mend, 1 for the rest.

use std::fmt;
use std::path::{Path, PathBuf};

/// Result of anything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can go wrong.
#[derive(Debug)]
pub enum Error {
    /// A file could not be read or written.
    Io {
        /// What was being done, as in "read" or "create directory".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A file was read, and its content is not what it should be.
    File {
        /// Named first in the message.
        path: PathBuf,
        /// Expected, found and the next step.
        message: String,
    },
    /// Arrays handed to the library, or read from a dataset, do not fit together.
    Data(String),
    /// A configuration key, flag or combination of them is wrong.
    Config(String),
    /// Training produced a value that is not a number.
    Diverged(String),
    /// The machine that runs the kernels refused or failed.
    Device(String),
    /// A defect of the program, or a file that changed while it was in use.
    Internal(String),
    /// The user asked to stop; everything needed to go on has been saved.
    Interrupted {
        /// The run directory to resume.
        run: PathBuf,
    },
    /// The user asked to stop; nothing half-done was left.
    Cancelled,
}

/// A disk that is full, a quota that is used up, or a file that may not grow (`ulimit -f`).
fn is_full(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}

impl Error {
    /// Exit code of the binaries: 2 = bad input, 130 = interrupted, 1 = any other failure.
    pub fn exit_code(&self) -> i32 {
        match self {
            Error::Diverged(_) | Error::Device(_) | Error::Internal(_) => 1,
            Error::Interrupted { .. } | Error::Cancelled => 130,
            // Nothing is wrong with what the user asked for.
            Error::Io { source, .. } if is_full(source.kind()) => 1,
            Error::Io { .. } | Error::File { .. } | Error::Data(_) | Error::Config(_) => 2,
        }
    }

    /// For `map_err` on file operations.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { action, path, source }
    }

    /// What is wrong with a file: expected, found, and the next step.
    pub fn file(path: &Path, message: impl Into<String>) -> Error {
        Error::File { path: path.to_path_buf(), message: message.into() }
    }

    /// The same error of a file that the user knows by another name: what is below `from` is shown below `to`.
    pub fn moved(self, from: &Path, to: &Path) -> Error {
        let moved = |path: PathBuf| match path.strip_prefix(from) {
            // Joining nothing would add a slash.
            Ok(rest) if rest.as_os_str().is_empty() => to.to_path_buf(),
            Ok(rest) => to.join(rest),
            Err(_) => path,
        };
        match self {
            Error::Io { action, path, source } => Error::Io { action, path: moved(path), source },
            Error::File { path, message } => Error::File { path: moved(path), message },
            other => other,
        }
    }
}

/// Text that comes from a file or a library, fit for a message: one line, printable, not longer than somebody reads.
pub fn one_line(text: impl fmt::Display) -> String {
    const MOST: usize = 300;
    let text = text.to_string();
    let mut shown = String::new();
    for character in text.chars() {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
        if shown.len() > MOST {
            return shown + "...";
        }
    }
    shown
}

/// Writes text with every character that a terminal would act on as an escape. Messages quote files, and whoever shows or
/// logs one need not know that; lines that we broke ourselves stay lines.
struct Plain<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Plain<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let acts = |c: char| c.is_control() && c != '\n';
        let mut rest = text;
        while let Some((at, character)) = rest.char_indices().find(|&(_, c)| acts(c)) {
            write!(self.0, "{}{}", &rest[..at], character.escape_default())?;
            rest = &rest[at + character.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// A path on one line: a name may have line breaks in it.
fn shown(path: &Path) -> String {
    path.display().to_string().replace('\n', "\\n")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        let mut out = Plain(f);
        match self {
            Error::Io { action, path, source } => write!(out, "cannot {action} {}: {source}", shown(path)),
            Error::File { path, message } => write!(out, "{}: {message}", shown(path)),
            Error::Data(message)
            | Error::Config(message)
            | Error::Diverged(message)
            | Error::Device(message)
            | Error::Internal(message) => out.write_str(message),
            Error::Interrupted { run } => {
                write!(out, "interrupted; all that is needed to continue is in {}", shown(run))
            }
            Error::Cancelled => {
                out.write_str("interrupted; nothing half-written was left (a download goes on where it stopped)")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// `, did you mean `x`?` for the closest of `known`, or nothing when none is close.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .min()
        .filter(|&(distance, candidate)| distance <= 1 + candidate.len().min(word.len()) / 5)
        .map_or(String::new(), |(_, candidate)| format!("; did you mean `{}`?", one_line(candidate)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn messages_are_text_whatever_they_quote() {
        let quoted = "con\ttant \u{1b}[31m \u{7f} \u{2} \u{9b}2J \r";
        let path = Path::new("a\nb\u{7}.csv");
        let disk = || std::io::Error::other(quoted);
        let errors = [
            Error::Io { action: "read", path: path.into(), source: disk() },
            Error::file(path, quoted),
            Error::Data(quoted.into()),
            Error::Config(quoted.into()),
            Error::Diverged(quoted.into()),
            Error::Device(quoted.into()),
            Error::Internal(quoted.into()),
            Error::Interrupted { run: path.into() },
        ];
        for error in errors {
            let text = error.to_string();
            assert!(!text.contains(char::is_control), "{text:?}");
        }
        let text = Error::file(path, quoted).to_string();
        assert_eq!(text, r"a\nb\u{7}.csv: con\ttant \u{1b}[31m \u{7f} \u{2} \u{9b}2J \r");
        // What we wrote ourselves keeps its lines.
        assert_eq!(Error::Data("one\ntwo \u{e9}".into()).to_string(), "one\ntwo \u{e9}");
    }
}
