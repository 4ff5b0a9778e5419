//! The one file a command writes: its name is checked before work begins, `-` is standard output.

use super::print;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use std::path::{Path, PathBuf};

/// Where the one file of a command goes.
pub struct OutputFile {
    /// None: standard output.
    path: Option<PathBuf>,
    ending: &'static str,
}

impl OutputFile {
    /// Checks a name that is to end in one of `endings`. Standard output and pipes get the first of them; so does a
    /// name without an ending where there is only one.
    ///
    /// # Errors
    /// Another ending, or a place that cannot be written.
    pub fn new(flag: &str, path: &Path, endings: &[&'static str]) -> Result<OutputFile> {
        // As `-`: the summary must not come between, and a file that stdout is redirected to is not to be replaced.
        let is_stdout = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name));
        let path = (!is_stdout).then(|| path.to_path_buf());
        let Some(file) = &path else { return Ok(OutputFile { path, ending: endings[0] }) };
        let given = file.extension().and_then(|ending| ending.to_str()).map(str::to_lowercase);
        let known = endings.iter().copied().find(|ending| Some(*ending) == given.as_deref());
        let any = files::is_stream(file) || (file.extension().is_none() && endings.len() == 1);
        let Some(ending) = known.or(any.then_some(endings[0])) else {
            let endings: Vec<String> = endings.iter().map(|ending| format!(".{ending}")).collect();
            let list = match endings.split_last() {
                Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
                _ => endings.concat(),
            };
            return Err(Error::Config(format!(
                "{flag} {}: expected a name that ends in {list}, or - for standard output",
                file.display()
            )));
        };
        files::check_writable(file)?;
        Ok(OutputFile { path, ending })
    }

    /// Refuses a second output on standard output.
    ///
    /// # Errors
    /// This one goes there, and `json` is asked for.
    pub fn beside_json(self, flag: &str, json: bool) -> Result<OutputFile> {
        match json && self.is_stdout() {
            true => {
                Err(Error::Config(format!("{flag} - and --json both write to standard output; give {flag} a file")))
            }
            false => Ok(self),
        }
    }

    /// The ending that decides the format.
    pub fn ending(&self) -> &'static str {
        self.ending
    }

    /// Whether it goes to standard output, where nothing else may.
    pub fn is_stdout(&self) -> bool {
        self.path.is_none()
    }

    /// Writes it.
    ///
    /// # Errors
    /// The disk is full, or the place is no longer writable.
    pub fn write(&self, text: &str) -> Result<()> {
        self.write_bytes(text.as_bytes())
    }

    /// Writes what need not be text.
    ///
    /// # Errors
    /// As [`OutputFile::write`].
    pub fn write_bytes(&self, bytes: &[u8]) -> Result<()> {
        match &self.path {
            Some(path) => files::write_atomic(path, bytes),
            None => print(bytes),
        }
    }
}
