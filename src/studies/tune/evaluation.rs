//! Test scores of what a search chose: the one place that looks at test units. They are kept in `evaluation.jsonl`, so that the
//! same command goes on here too.

use super::Tuning;
use super::search::{Job, Outcome, Round};
use crate::device::Device;
use crate::loss::Scores;
use crate::train::RunName;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use serde::{Deserialize, Serialize};

/// A test score of the settings that the validation part of the same run chose.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Evaluated {
    /// Number of the trial.
    pub trial: usize,
    /// Seed of the run.
    pub seed: u64,
    /// The fold that tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// Scores of the test units.
    pub test: Scores,
    /// What always predicting the most frequent class, or the mean, gets there.
    #[serde(default)]
    pub constant: Scores,
}

impl<D: Device<Real = f32>> Tuning<'_, D> {
    /// Test scores of what was chosen: of each group, what its own validation part chose, on its runs.
    ///
    /// # Errors
    /// As [`Tuning::run`].
    pub fn evaluate(&self, outcome: &Outcome) -> Result<Vec<Evaluated>> {
        let path = self.directory.join("evaluation.jsonl");
        let known: Vec<Evaluated> = match path.exists() {
            true => files::read_text(&path)?.lines().map_while(|line| serde_json::from_str(line).ok()).collect(),
            false => Vec::new(),
        };
        let chosen: Vec<(usize, RunName)> = (self.groups.iter().zip(&outcome.winners))
            .flat_map(|(rounds, &trial)| {
                rounds.iter().filter(|round| round.valid == 1).map(move |round| (trial, round.name))
            })
            .collect();
        let find = |&(trial, name): &(usize, RunName)| {
            let same = |known: &&Evaluated| (known.trial, known.seed, known.fold) == (trial, name.seed, name.fold);
            known.iter().find(same).cloned()
        };
        let missing: Vec<(usize, RunName)> = chosen.iter().filter(|one| find(one).is_none()).copied().collect();
        self.listener.round(self.rungs.len() + 2, chosen.len(), chosen.len() - missing.len());
        let evaluated = self.side_by_side(missing.len(), &|at| {
            let (trial, name) = missing[at];
            let job = Job { trial, round: Round { name, valid: 1 }, divisor: 1, rung: self.rungs.len() + 2 };
            let (measured, test) = self.train(&job, true)?;
            self.listener.run(&job, &measured);
            let [test, constant] = test.unwrap_or_default();
            Ok(Evaluated { trial, seed: name.seed, fold: name.fold, test, constant })
        })?;
        let mut new = missing.iter().zip(evaluated);
        let all: Vec<Evaluated> =
            chosen.iter().filter_map(|one| find(one).or_else(|| new.next().map(|(_, new)| new))).collect();
        let mut text = String::new();
        for line in &all {
            text += &serde_json::to_string(line).map_err(|error| Error::file(&path, error.to_string()))?;
            text.push('\n');
        }
        files::write_atomic(&path, text.as_bytes())?;
        Ok(all)
    }
}
