//! A file that work goes on from: its first line says what was asked for, each further one what came of a job. A search and a
//! study keep one. Invariants: a file that was asked for something else is refused, never added to; one process at a time writes it.

use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::lock::{self, Lock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file, open at its end.
pub struct Lines {
    path: PathBuf,
    file: File,
    _lock: Lock,
}

impl Lines {
    /// Opens a file in a directory, or begins both, and reads the lines that are there. `kind` names what the file is of (a
    /// search), `asked` says what decides its results.
    ///
    /// # Errors
    /// It was asked for something else, the directory holds other things, another process is writing it, or it cannot be written.
    pub fn open<L: DeserializeOwned>(
        directory: &Path,
        name: &str,
        kind: &str,
        asked: &Value,
    ) -> Result<(Lines, Vec<L>)> {
        files::check_directory(directory)?;
        std::fs::create_dir_all(directory).map_err(Error::io("create directory", directory))?;
        let path = directory.join(name);
        // First of all: nothing is touched in a directory that is somebody else's.
        if !path.exists() && holds_anything(directory)? {
            let what = format!("is not empty and holds no {kind}; choose another directory (--out)");
            return Err(Error::file(directory, what));
        }
        let _lock = lock::claim(directory)?;
        files::remove_unfinished(directory);
        let mut whole = json!({ kind: asked }).to_string() + "\n";
        let mut known = Vec::new();
        if path.exists() {
            let text = files::read_text(&path)?;
            check_same(&path, text.lines().next().unwrap_or(""), kind, asked)?;
            // A line cut off by a kill is left out, and so is what follows it.
            for line in text.lines().skip(1) {
                let Ok(read) = serde_json::from_str::<L>(line) else { break };
                whole += line;
                whole.push('\n');
                known.push(read);
            }
        }
        files::write_atomic(&path, whole.as_bytes())?;
        let file = File::options().append(true).open(&path).map_err(Error::io("write", &path))?;
        Ok((Lines { path, file, _lock }, known))
    }

    /// Adds a line.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn add<L: Serialize>(&mut self, line: &L) -> Result<()> {
        let mut text = serde_json::to_string(line).map_err(|error| Error::file(&self.path, error.to_string()))?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(Error::io("write", &self.path))
    }
}

/// Whether there is anything in a directory that does not pass away by itself.
fn holds_anything(directory: &Path) -> Result<bool> {
    let mut entries = std::fs::read_dir(directory).map_err(Error::io("read", directory))?.flatten();
    Ok(entries.any(|entry| !files::is_passing(&entry.file_name())))
}

/// Refuses the results of something else, and says what differs.
fn check_same(path: &Path, first: &str, kind: &str, asked: &Value) -> Result<()> {
    let written = serde_json::from_str::<Value>(first).ok().and_then(|mut line| Some(line.get_mut(kind)?.take()));
    let Some(Value::Object(written)) = written else {
        return Err(Error::file(path, format!("is not the file of a {kind}; choose another directory (--out)")));
    };
    // Numbers as they are after having been written.
    let asked: Value = serde_json::from_str(&asked.to_string()).unwrap_or_default();
    let differing = |(key, value): (&String, &Value)| (written.get(key) != Some(value)).then(|| key.clone());
    let differ: Vec<String> = asked.as_object().into_iter().flatten().filter_map(differing).collect();
    match differ.is_empty() {
        true => Ok(()),
        false => Err(Error::file(
            path,
            format!("is of another {kind}, with other {}; choose another directory (--out)", differ.join(", ")),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_again_one_cut_off_is_not_and_other_work_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let open = |asked: &Value| Lines::open::<[u32; 2]>(home.path(), "jobs.jsonl", "study", asked);
        let asked = json!({ "name": "x", "size": 0.1 + 0.2 });
        let (mut lines, known) = open(&asked).unwrap();
        assert!(known.is_empty());
        lines.add(&[1, 2]).unwrap();
        lines.add(&[3, 4]).unwrap();
        let path = home.path().join("jobs.jsonl");
        drop(lines);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 3]).unwrap();
        let (mut lines, known) = open(&asked).unwrap();
        assert_eq!(known, [[1, 2]]);
        lines.add(&[3, 4]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        // A second one would write a file that the first has no hold of any more.
        assert!(open(&asked).err().unwrap().to_string().contains("is being written by"));
        drop(lines);
        let message = |asked: &Value| open(asked).err().unwrap().to_string();
        assert!(message(&json!({ "name": "y", "size": 0.1 + 0.2 })).contains("another study, with other name;"));
        std::fs::write(&path, "{\"search\":{}}\n").unwrap();
        assert!(message(&asked).contains("is not the file of a study"));
        // Somebody else's directory is left as it is.
        std::fs::rename(&path, home.path().join("config.toml")).unwrap();
        assert!(message(&asked).contains("is not empty and holds no study"));
        assert!(!path.exists());
    }
}
