//! What `harmonia tune` says of a search: its schedule before, its result after, for people and as JSON, and the commands
//! that repeat it and train with it.

use super::Arguments;
use crate::cli::reading::table;
use crate::config::Config;
use crate::device::Device;
use crate::loss::metrics::{mean, standard_deviation};
use crate::loss::{ScoreKind, Scores};
use crate::studies::tune::halving::Rung;
use crate::studies::tune::search::{Finalist, Outcome};
use crate::studies::tune::{Evaluated, Tuning};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// A search and how it was asked for.
pub struct Search<'a, D: Device<Real = f32>> {
    pub tuning: &'a Tuning<'a, D>,
    pub arguments: &'a Arguments,
    pub config: &'a Config,
    pub directory: PathBuf,
    pub dataset: &'a str,
}

impl<D: Device<Real = f32>> Search<'_, D> {
    fn runs(&self) -> usize {
        self.tuning.groups.iter().map(Vec::len).sum()
    }

    /// What is to be trained, for people.
    pub fn schedule(&self) -> String {
        self.trained(&self.tuning.rungs, self.tuning.trials.len())
    }

    /// Rungs, and how many settings there are in all.
    fn trained(&self, rungs: &[Rung], settings: usize) -> String {
        let tuning = self.tuning;
        let by = match (tuning.is_nested(), self.config.run.folds) {
            (true, 0) => "every seed has a split of its own, and searches by its own validation part",
            (true, _) => "every fold searches by its own validation part, which is the test part of another",
            (false, _) => "settings are compared by their mean over the runs",
        };
        let mut out = format!(
            "{}: {} settings, {} run(s), by validation {}; {by}\n",
            self.dataset,
            settings,
            self.runs(),
            tuning.criterion.score.label
        );
        for (at, rung) in rungs.iter().enumerate() {
            let epochs =
                if rung.divisor == 1 { "all epochs".into() } else { format!("1/{} of the epochs", rung.divisor) };
            let runs = if tuning.is_nested() && self.arguments.inner == 1 {
                String::new()
            } else {
                format!(", {} run(s)", rung.runs)
            };
            out += &format!("  rung {}: {} settings, {epochs}{runs}\n", at + 1, rung.candidates);
        }
        if tuning.is_nested() {
            out += "  then the settings with the best places over all runs, in full on all of them\n";
        }
        out + "  the start (trial 0) stays to the end\n"
    }

    /// How the search was asked for; what does not change the result is left out.
    fn command(&self) -> String {
        let (run, arguments) = (&self.config.run, self.arguments);
        let mut out = format!("harmonia tune --dataset {}{}", self.config.data.dataset, self.repetition());
        out += &format!(" --trials {} --seed {}", arguments.trials, run.seed);
        if arguments.inner != 1 {
            out += &format!(" --inner {}", arguments.inner);
        }
        if arguments.rungs != 3 {
            out += &format!(" --rungs {}", arguments.rungs);
        }
        if arguments.metric != "loss" {
            out += &format!(" --metric {}", arguments.metric);
        }
        if !self.config.recipe.is_empty() {
            out += &format!(" --recipe {}", self.config.recipe);
        }
        let settings = &arguments.settings;
        if let Some(preset) = &settings.preset {
            out += &format!(" --preset {preset}");
        }
        // Files by their names: where they are is nobody else's business.
        for (flag, path) in [("--space", &arguments.space), ("--config", &settings.config)] {
            if let Some(name) = path.as_ref().and_then(|path| path.file_name()) {
                out += &format!(" {flag} {}", name.to_string_lossy());
            }
        }
        if settings.undirected {
            out += " --undirected";
        }
        if let Some(how) = &settings.normalise {
            out += &format!(" --normalise {how}");
        }
        settings.set.iter().fold(out, |out, set| format!("{out} --set {set}"))
    }

    fn repetition(&self) -> String {
        let run = &self.config.run;
        match (run.folds, run.seeds) {
            (0, 1) => String::new(),
            (0, seeds) => format!(" --seeds {seeds}"),
            (folds, 1) => format!(" --folds {folds}"),
            (folds, repeats) => format!(" --folds {folds} --repeats {repeats}"),
        }
    }

    /// How to train with what was found.
    fn train_command(&self) -> String {
        let (config, file) = (self.config, self.directory.join("tuned.toml"));
        let seed = if config.run.seed == 0 { String::new() } else { format!(" --seed {}", config.run.seed) };
        format!(
            "harmonia-train --dataset {}{}{seed} --config {}",
            config.data.dataset,
            self.repetition(),
            file.display()
        )
    }

    /// First line of `tuned.toml`.
    pub fn comment(&self, outcome: &Outcome) -> String {
        let kind = self.tuning.criterion.score;
        format!(
            "{}: {} settings tried, validation {} {} over {} run(s).",
            self.command(),
            outcome.tried,
            kind.label,
            shown(kind, &self.values(&outcome.finalists[0])),
            self.runs()
        )
    }

    /// The criterion, one per run.
    fn values(&self, finalist: &Finalist) -> Vec<f64> {
        let name = self.tuning.criterion.score.name;
        finalist.measured.iter().filter_map(|run| run.validation.get(name)).collect()
    }

    pub fn text(&self, outcome: &Outcome, evaluated: Option<&[Evaluated]>, toml: &str) -> String {
        let kind = self.tuning.criterion.score;
        let mut rows = vec![vec![
            "trial".to_string(),
            format!("validation {}", kind.label),
            "mean place".into(),
            "seconds".into(),
            "settings".into(),
        ]];
        for finalist in &outcome.finalists {
            let failed = finalist.measured.iter().filter(|run| run.failed.is_some()).count();
            rows.push(vec![
                finalist.trial.to_string(),
                if failed > 0 { format!("failed in {failed} run(s)") } else { shown(kind, &self.values(finalist)) },
                format!("{:.1}", finalist.place),
                format!("{:.1}", finalist.measured.iter().map(|run| run.seconds).sum::<f64>()),
                self.settings(finalist.trial),
            ]);
        }
        let mut out = self.trained(&outcome.rungs, outcome.tried) + "\n" + &table_with_text(&rows);
        let chosen = outcome.finalists[0].trial;
        out += &format!(
            "\ntrial {chosen} has the best mean; it is in {}:\n\n",
            self.directory.join("tuned.toml").display()
        );
        out.extend(toml.lines().filter(|line| !line.starts_with('#')).map(|line| format!("  {line}\n")));
        out += &format!("\ntrain with it: {}\n", self.train_command());
        out += "\nThe mean above chose these settings, so it flatters them";
        let title = if self.tuning.is_nested() { "nested test" } else { "test" };
        match evaluated {
            None => out += &format!(". For an honest estimate add --evaluate: the {title} scores.\n"),
            Some(evaluated) => {
                out += &format!("; the honest estimate is\n\n{title}, over {} run(s)", evaluated.len());
                out += match self.tuning.is_nested() {
                    true => ", each with the settings that its own validation part chose:\n",
                    false => ":\n",
                };
                let objective = self.tuning.objective();
                let row = |kind: &ScoreKind| {
                    let test = shown(kind, &scores(evaluated, kind, |run| &run.test));
                    let constant = shown(kind, &scores(evaluated, kind, |run| &run.constant));
                    vec![kind.label.to_string(), test, format!("{} {constant}", objective.constant_name())]
                };
                out += &table(&objective.scores().iter().map(row).collect::<Vec<_>>(), 1);
            }
        }
        out
    }

    /// What was drawn, in one line.
    fn settings(&self, trial: usize) -> String {
        let settings = &self.tuning.trials[trial].settings;
        match settings.is_empty() {
            true => "the start".into(),
            false => settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "),
        }
    }

    pub fn to_json(&self, outcome: &Outcome, evaluated: Option<&[Evaluated]>, toml: &str) -> Value {
        let (tuning, kind) = (self.tuning, self.tuning.criterion.score);
        let finalist = |finalist: &Finalist| {
            let values = self.values(finalist);
            json!({
                "trial": finalist.trial,
                "validation": { "mean": mean(values.iter().copied()), "std": standard_deviation(&values) },
                "mean_place": finalist.place,
                "seconds": finalist.measured.iter().map(|run| run.seconds).sum::<f64>(),
                "failed": finalist.measured.iter().filter_map(|run| run.failed.as_ref()).collect::<Vec<_>>(),
                "settings": tuning.trials[finalist.trial].settings,
            })
        };
        let rungs: Vec<Value> = (outcome.rungs.iter())
            .map(|rung| json!({ "settings": rung.candidates, "epochs_divided_by": rung.divisor, "runs": rung.runs }))
            .collect();
        let mut result = json!({
            "dataset": self.dataset,
            "preset": self.config.preset,
            "recipe": self.config.recipe,
            "command": self.command(),
            "metric": kind.name,
            "trials": outcome.tried,
            "runs": self.runs(),
            "nested": tuning.is_nested(),
            "schedule": rungs,
            "finalists": outcome.finalists.iter().map(finalist).collect::<Vec<_>>(),
            "chosen": { "trial": outcome.finalists[0].trial, "toml": toml },
            "winners": outcome.winners,
            "out": self.directory,
            "train": self.train_command(),
        });
        if let Some(evaluated) = evaluated {
            let all = |part: fn(&Evaluated) -> &Scores| {
                let score = |kind: &ScoreKind| {
                    let values = scores(evaluated, kind, part);
                    let spread = json!({ "mean": mean(values.iter().copied()), "std": standard_deviation(&values) });
                    (kind.name.to_string(), spread)
                };
                Value::Object(tuning.objective().scores().iter().map(score).collect::<Map<_, _>>())
            };
            let name = if tuning.is_nested() { "nested_test" } else { "test" };
            result[name] = all(|run| &run.test);
            result["constant"] = all(|run| &run.constant);
            result["evaluated"] = json!(evaluated);
        }
        result
    }
}

fn scores(evaluated: &[Evaluated], kind: &ScoreKind, part: fn(&Evaluated) -> &Scores) -> Vec<f64> {
    evaluated.iter().filter_map(|run| part(run).get(kind.name)).collect()
}

/// Mean and deviation, in percent where the score is a share.
fn shown(kind: &ScoreKind, values: &[f64]) -> String {
    let Some(mean) = mean(values.iter().copied()) else { return "-".into() };
    let (factor, decimals, unit) = if kind.percent { (100.0, 2, " %") } else { (1.0, 4, "") };
    let spread = standard_deviation(values).map_or(String::new(), |std| format!(" ± {:.decimals$}", factor * std));
    format!("{:.decimals$}{spread}{unit}", factor * mean)
}

/// A table whose last column is text of any length.
fn table_with_text(rows: &[Vec<String>]) -> String {
    let short: Vec<Vec<String>> = rows.iter().map(|row| row[..row.len() - 1].to_vec()).collect();
    let lines = table(&short, 0);
    lines.lines().zip(rows).map(|(line, row)| format!("{line}  {}\n", row[row.len() - 1])).collect()
}
