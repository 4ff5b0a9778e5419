//! `trials.jsonl`: what was asked for, then a line per training that is finished. Reading it again is how a search goes
//! on; no line has a test score.

use super::Trial;
use super::search::{Job, Measured};
use crate::loss::Scores;
use crate::studies::journal::Lines;
use harmonia_graph::error::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
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
    inside: Mutex<(Lines, HashMap<Key, Measured>)>,
}

impl Journal {
    /// Opens the file of a search, or begins it. `search` says what was asked for.
    ///
    /// # Errors
    /// It is of another search, or cannot be written.
    pub fn open(directory: &Path, search: &Value) -> Result<Journal> {
        let (lines, known) = Lines::open::<Line>(directory, "trials.jsonl", "search", search)?;
        let known = known
            .into_iter()
            .map(|line| ((line.trial, line.seed, line.fold, line.valid, line.divisor), line.measured()));
        Ok(Journal { inside: Mutex::new((lines, known.collect())) })
    }

    /// What came of a training, if it is finished.
    pub fn get(&self, job: &Job) -> Option<Measured> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).1.get(&key(job)).cloned()
    }

    /// What a training in full takes, by those that are finished; none where none is.
    pub fn seconds_in_full(&self) -> Option<f64> {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut seconds, mut trainings) = (0.0, 0.0);
        for (key, measured) in inside.1.iter().filter(|(_, measured)| measured.failed.is_none()) {
            seconds += measured.seconds;
            trainings += 1.0 / key.4 as f64;
        }
        (trainings > 0.0 && seconds > 0.0).then(|| seconds / trainings)
    }

    /// Trainings that are finished, of those with this share of the epochs.
    pub fn finished(&self, divisor: usize) -> usize {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.1.keys().filter(|key| key.4 == divisor).count()
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
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.0.add(&line)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::studies::tune::search::Round;
    use crate::train::RunName;
    use serde_json::json;

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
        drop(journal);
        let path = home.path().join("trials.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        let journal = Journal::open(home.path(), &search).unwrap();
        assert_eq!((journal.get(&job(0)), journal.get(&job(1))), (Some(measured.clone()), None));
        journal.add(&job(1), &trial, &measured).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        drop(journal);
        let error = Journal::open(home.path(), &json!({ "seed": 2, "space": "x" })).err().unwrap().to_string();
        assert!(error.contains("another search, with other seed;"), "{error}");
    }
}
