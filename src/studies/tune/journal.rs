//! `trials.jsonl`: what was asked for, then a line per training that is finished. Reading it again is how a search goes
//! on; no line has a test score.

use super::Trial;
use super::search::{Job, Measured};
use crate::loss::Scores;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Trial, seed, fold, part that validates, divisor of the epochs: rungs that train the same share its result.
type Key = (usize, u64, Option<usize>, usize, usize);

fn key(job: &Job) -> Key {
    (job.trial, job.round.name.seed, job.round.name.fold, job.round.valid, job.divisor)
}

/// A line of the file: a [`Job`] and what came of it.
#[derive(Serialize, Deserialize)]
struct Line {
    trial: usize,
    seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fold: Option<usize>,
    /// How much further on than `fold` the one is that validates.
    #[serde(default = "next", skip_serializing_if = "is_next")]
    valid: usize,
    rung: usize,
    /// Epochs were divided by this.
    divisor: usize,
    epochs: usize,
    best_epoch: usize,
    settings: toml::Table,
    validation: Scores,
    seconds: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

fn next() -> usize {
    1
}

fn is_next(valid: &usize) -> bool {
    *valid == next()
}

/// The file, and what is in it.
pub struct Journal {
    path: PathBuf,
    inside: Mutex<(File, HashMap<Key, Measured>)>,
}

impl Journal {
    /// Opens the file of a search, or begins it. `search` says what was asked for.
    ///
    /// # Errors
    /// It is of another search, or cannot be written.
    pub fn open(directory: &Path, search: &Value) -> Result<Journal> {
        files::check_directory(directory)?;
        std::fs::create_dir_all(directory).map_err(Error::io("create directory", directory))?;
        files::remove_unfinished(directory);
        let path = directory.join("trials.jsonl");
        let header = json!({ "search": search }).to_string() + "\n";
        let mut known = HashMap::new();
        let mut whole = header.clone();
        if path.exists() {
            let text = files::read_text(&path)?;
            check_same(&path, text.lines().next().unwrap_or(""), search)?;
            // A line cut off by a kill is left out, and so is what follows it.
            for line in text.lines().skip(1) {
                let Ok(read) = serde_json::from_str::<Line>(line) else { break };
                whole += line;
                whole.push('\n');
                known.insert((read.trial, read.seed, read.fold, read.valid, read.divisor), read.measured());
            }
        }
        files::write_atomic(&path, whole.as_bytes())?;
        let file = File::options().append(true).open(&path).map_err(Error::io("write", &path))?;
        Ok(Journal { path, inside: Mutex::new((file, known)) })
    }

    /// What came of a training, if it is finished.
    pub fn get(&self, job: &Job) -> Option<Measured> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).1.get(&key(job)).cloned()
    }

    /// Adds a training.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn add(&self, job: &Job, trial: &Trial, measured: &Measured) -> Result<()> {
        let line = Line {
            trial: job.trial,
            seed: job.round.name.seed,
            fold: job.round.name.fold,
            valid: job.round.valid,
            rung: job.rung,
            divisor: job.divisor,
            epochs: measured.epochs,
            best_epoch: measured.best_epoch,
            settings: trial.settings.clone(),
            validation: measured.validation.clone(),
            seconds: measured.seconds,
            failed: measured.failed.clone(),
        };
        let mut text = serde_json::to_string(&line).map_err(|error| Error::file(&self.path, error.to_string()))?;
        text.push('\n');
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.0.write_all(text.as_bytes()).map_err(Error::io("write", &self.path))?;
        inside.1.insert(key(job), measured.clone());
        Ok(())
    }
}

impl Line {
    fn measured(self) -> Measured {
        let Line { validation, best_epoch, epochs, seconds, failed, .. } = self;
        Measured { validation, best_epoch, epochs, seconds, failed }
    }
}

/// Refuses the results of another search, and says what differs.
fn check_same(path: &Path, first: &str, search: &Value) -> Result<()> {
    let written = serde_json::from_str::<Value>(first).ok().map(|mut line| line["search"].take());
    let Some(Value::Object(written)) = written else {
        return Err(Error::file(path, "is not the file of a search; choose another directory (--out)"));
    };
    // Numbers as they are after having been written.
    let search: Value = serde_json::from_str(&search.to_string()).unwrap_or_default();
    let differing = |(key, value): (&String, &Value)| (written.get(key) != Some(value)).then(|| key.clone());
    let differ: Vec<String> = search.as_object().into_iter().flatten().filter_map(differing).collect();
    match differ.is_empty() {
        true => Ok(()),
        false => Err(Error::file(
            path,
            format!("is of another search, with other {}; choose another directory (--out)", differ.join(", ")),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::studies::tune::search::Round;
    use crate::train::RunName;

    #[test]
    fn finished_trainings_are_read_again_and_a_line_cut_off_is_not() {
        let home = tempfile::tempdir().unwrap();
        let search = json!({ "seed": 1, "space": "x" });
        let trial = Trial { number: 1, settings: toml::Table::new(), config: Config::default() };
        let round = |fold| Round { name: RunName { seed: 0, fold: Some(fold) }, valid: 1 };
        let job = |fold| Job { trial: 1, round: round(fold), divisor: 9, rung: 1 };
        let validation = Scores::new([("nll", Some(0.1 + 0.2))]);
        let measured = Measured { validation, best_epoch: 2, epochs: 3, seconds: 0.5, failed: None };
        let journal = Journal::open(home.path(), &search).unwrap();
        journal.add(&job(0), &trial, &measured).unwrap();
        journal.add(&job(1), &trial, &measured).unwrap();
        let path = home.path().join("trials.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        let journal = Journal::open(home.path(), &search).unwrap();
        assert_eq!((journal.get(&job(0)), journal.get(&job(1))), (Some(measured.clone()), None));
        journal.add(&job(1), &trial, &measured).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let error = Journal::open(home.path(), &json!({ "seed": 2, "space": "x" })).err().unwrap().to_string();
        assert!(error.contains("another search, with other seed;"), "{error}");
    }
}
