//! What came out of a run, and of several.

use crate::loss::metrics::{mean, standard_deviation};
use crate::loss::{Calibration, DetailsOfParts, Reliabilities, Scores};
use crate::recovery::Recovery;
use crate::train::RunName;
use crate::train::baselines::Baseline;
use crate::train::honesty::MOST_OFF;
use crate::train::trainer::TableLosses;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// The outcome of one run; `summary.json` of its run directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSummary {
    /// Seed of the run.
    pub seed: u64,
    /// The fold that tested, in a cross-validation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// Its directory, if it has one.
    pub run_dir: Option<PathBuf>,
    /// Trained numbers of the model.
    pub parameters: usize,
    /// Epochs trained, over all sittings.
    pub epochs: usize,
    /// Epoch whose parameters were kept, counted from 1.
    pub best_epoch: usize,
    /// Whether patience ended the run.
    pub stopped_early: bool,
    /// Whether the model left its starting plateau: training loss below that of class frequencies, validation above
    /// chance.
    pub learned: bool,
    /// Whether validation was still getting better when the epochs were over: more of them may help.
    #[serde(default)]
    pub still_learning: bool,
    /// Seconds of training, over all sittings.
    pub seconds: f64,
    /// Where it was computed.
    pub device: String,
    /// Scores of the best epoch.
    pub test: Scores,
    /// Scores of the best epoch.
    pub validation: Scores,
    /// Scores of the best epoch, without dropout or noise.
    pub train: Scores,
    /// What was done to the logits, where they were calibrated; scores are those of the calibrated model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// How far probabilities can be trusted; none of a regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reliability: Option<Reliabilities>,
    /// Confusion matrices, PR-AUC, Brier scores and a threshold; none of a regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<DetailsOfParts>,
    /// What simpler predictions get: always the constant one, on request linear ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<Baseline>,
    /// What the user should know before trusting the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The table of walks that training read; scores are those of the exact model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableSummary>,
    /// Synthetic data: what was found again of the generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Synthetic data: the generator's own test negative log-likelihood, which no model can expect to beat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_nll: Option<f64>,
}

/// The table of walks that a run was trained from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableSummary {
    /// Of the feature that has most.
    pub points: usize,
    /// Of a cell.
    pub bits: usize,
    /// Of all cells.
    pub bytes: usize,
    /// Whether nothing was interpolated.
    pub exact: bool,
    /// Walks of each unit that corrected it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub walks: usize,
    /// Of the best epoch, uncalibrated, as the table has it.
    pub validation_loss: Option<f64>,
    /// The same on the whole graph.
    pub exact_validation_loss: Option<f64>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl TableSummary {
    /// Whether what it said was too far from the truth.
    pub fn is_off(&self) -> bool {
        let losses = self.validation_loss.zip(self.exact_validation_loss);
        losses.is_some_and(|(tabulated, exact)| TableLosses { tabulated, exact }.gap() > MOST_OFF)
    }

    /// For people.
    pub fn warning(&self) -> String {
        let [tabulated, exact] =
            [self.validation_loss, self.exact_validation_loss].map(|loss| loss.unwrap_or(f64::NAN));
        format!(
            "the table of walks has a validation loss of {tabulated:.4}, the exact model {exact:.4}; more points \
             (engine.table_points, now {}), more walks (engine.walks, now {}) or engine.table = off bring them together",
            self.points, self.walks
        )
    }
}

/// A loss below this share of the constant prediction's is clearly below it.
const CLEARLY: f64 = 0.995;

impl RunSummary {
    /// Whether the model that was kept predicts the validation units clearly better than always the same would. A short run may,
    /// before its training loss has shown it.
    pub fn beats_constant(&self) -> bool {
        let loss = |scores: &Scores| scores.get("nll").or_else(|| scores.get("rmse"));
        let constant = self.baselines.first().and_then(|constant| loss(&constant.validation));
        loss(&self.validation).zip(constant).is_some_and(|(ours, constant)| ours < CLEARLY * constant)
    }

    /// Which run it is.
    pub fn name(&self) -> RunName {
        RunName { seed: self.seed, fold: self.fold }
    }
}

/// The outcome of all runs.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name of the dataset.
    pub dataset: String,
    /// Name of the preset; empty for none.
    pub preset: String,
    /// Which settings of the preset: `paper` or `tuned`; empty for none.
    pub recipe: String,
    /// Directory of the whole, if there is one.
    pub run_dir: Option<PathBuf>,
    /// One per seed; in a cross-validation, one per fold of each seed.
    pub runs: Vec<RunSummary>,
}

impl Outcome {
    /// Seeds in order, each with its runs.
    pub fn repeats(&self) -> impl Iterator<Item = &[RunSummary]> {
        self.runs.chunk_by(|a, b| a.seed == b.seed)
    }

    /// Whether the runs are folds.
    pub fn cross_validated(&self) -> bool {
        self.runs.iter().any(|run| run.fold.is_some())
    }

    /// Sample standard deviation of the means of the repeats: how much the way of dealing the folds matters.
    pub fn between_repeats(&self, part: impl Fn(&RunSummary) -> &Scores, name: &str) -> Option<f64> {
        let means: Vec<f64> =
            self.repeats().filter_map(|runs| mean(runs.iter().filter_map(|run| part(run).get(name)))).collect();
        standard_deviation(&means)
    }

    /// (mean, sample standard deviation) over all runs of a score of a part.
    pub fn spread(&self, part: impl Fn(&RunSummary) -> &Scores, name: &str) -> (Option<f64>, Option<f64>) {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| part(run).get(name)).collect();
        (mean(values.iter().copied()), standard_deviation(&values))
    }

    /// Test scores of simpler predictions by name, mean and deviation over all runs.
    fn baselines(&self) -> Map<String, Value> {
        let names = self.runs.first().map_or(&[][..], |run| &run.baselines[..]).iter().map(|baseline| &baseline.name);
        let of = |name: &String| {
            let find = |run: &RunSummary| run.baselines.iter().find(|known| known.name == *name).cloned();
            let found: Vec<Baseline> = self.runs.iter().filter_map(find).collect();
            let scores = found.first().map_or(Vec::new(), |first| first.test.names().map(String::from).collect());
            let score = |score: String| {
                let values: Vec<f64> = found.iter().filter_map(|baseline| baseline.test.get(&score)).collect();
                (score, json!({ "mean": mean(values.iter().copied()), "std": standard_deviation(&values) }))
            };
            (name.clone(), Value::Object(scores.into_iter().map(score).collect()))
        };
        names.map(of).collect()
    }

    /// The object of `--json`.
    pub fn to_json(&self) -> Value {
        let part = |part: fn(&RunSummary) -> &Scores| {
            let names: Vec<&str> = self.runs.first().map_or(Vec::new(), |run| part(run).names().collect());
            let scores = names.into_iter().map(|name| {
                let (mean, std) = self.spread(part, name);
                let mut score = json!({ "mean": mean, "std": std });
                if self.cross_validated() {
                    score["std_between_repeats"] = json!(self.between_repeats(part, name));
                }
                (name.to_string(), score)
            });
            scores.collect::<Map<_, _>>()
        };
        let folds = self.runs.iter().filter(|run| run.fold.is_some() && run.seed == self.runs[0].seed).count();
        json!({
            "dataset": self.dataset,
            "preset": self.preset,
            "recipe": self.recipe,
            "seeds": self.repeats().count(),
            "folds": folds,
            "run_dir": self.run_dir,
            "test": part(|run| &run.test),
            "validation": part(|run| &run.validation),
            "baselines": self.baselines(),
            "parameters": self.runs.first().map(|run| run.parameters),
            "epochs": self.runs.iter().map(|run| run.epochs).sum::<usize>(),
            "seconds": self.runs.iter().map(|run| run.seconds).sum::<f64>(),
            "runs": self.runs,
        })
    }
}
