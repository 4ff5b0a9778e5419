//! `harmonia tune`: better settings for a dataset, by validation alone.

use super::reading::table;
use super::settings::{Settings, integer};
use super::signals::catch_interrupts;
use super::{say, train, voice, watch};
use crate::cli::threads::with_threads;
use crate::config::Config;
use crate::device::{Device, Machine};
use crate::loss::ScoreKind;
use crate::loss::metrics::{mean, standard_deviation};
use crate::on_machine;
use crate::runs::load_dataset;
use crate::studies::tune::search::{Finalist, Found, Job, Measured};
use crate::studies::tune::{Evaluated, Listener, Request, Space, Tuning, preset_text};
use clap::Args;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub const EXAMPLES: &str = "\
Examples:
  harmonia tune --dataset mutag --folds 10 --repeats 3 --evaluate
      27 settings; every fold chooses by its own validation part, and the nested test score is printed
  harmonia tune --dataset cora --seeds 5 --trials 81 --metric accuracy
      one split: settings are compared by their mean over seeds
  harmonia tune --dataset cora --print-space > space.toml
      what is searched; edit it and give it with --space
  harmonia-train --dataset mutag --config runs/tune-mutag/tuned.toml
      train with what was found

The same command goes on where it was interrupted. Test units are scored with --evaluate alone, at the end.";

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Number of seeds, from --seed upwards
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Cross-validate: every fold searches for itself
    #[arg(long, value_name = "K")]
    folds: Option<u64>,
    /// Times the cross-validation is repeated with folds dealt anew, from --seed upwards
    #[arg(long, value_name = "N", requires = "folds", conflicts_with = "seeds")]
    repeats: Option<u64>,
    /// Settings to try, the starting ones included
    #[arg(long, value_name = "N", default_value_t = 27, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    trials: u32,
    /// With --folds: parts of its data that a fold chooses settings by, one after the other validating; never its test part. From
    /// 2 on, settings are compared by the part after it, which is held out of training
    #[arg(long, value_name = "N", default_value_t = 1, requires = "folds", value_parser = clap::value_parser!(u32).range(1..))]
    inner: u32,
    /// Rounds of the search, at most 3: each but the last is cheaper and keeps the best third; 1 trains all settings in full
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=3))]
    rungs: u32,
    /// What to search: TOML with "section.key" = [choices] or { low, high, log = true } [default: built in, see
    /// --print-space]
    #[arg(long, value_name = "FILE.toml")]
    space: Option<PathBuf>,
    /// Print the space and stop
    #[arg(long)]
    print_space: bool,
    /// What settings are compared by, on validation units
    #[arg(long, value_name = "SCORE", default_value = "loss",
          value_parser = ["loss", "accuracy", "roc_auc", "macro_f1", "r2", "rmse", "mae"])]
    metric: String,
    /// Score the test units too, once, at the end: of what each run's own validation part chose
    #[arg(long)]
    evaluate: bool,
    /// Where to compute: auto, cpu, cuda, cuda:N or host
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Threads (0: one per core); results do not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Directory of the search [default: runs/tune-<dataset>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the result as one JSON object on stdout
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut config = config(arguments)?;
    if let Some(device) = &arguments.device {
        config.run.device.clone_from(device);
    }
    if let Some(threads) = arguments.threads {
        config.run.threads = threads;
    }
    with_threads(config.run.threads, || {
        let machine = Machine::open(&config.run.device, config.engine)?;
        on_machine!(&machine, device => run_on(device, arguments, &config))
    })?
}

fn config(arguments: &Arguments) -> Result<Config> {
    let mut layers = arguments.settings.layers()?;
    if let Some(seeds) = arguments.seeds.or(arguments.repeats) {
        layers.value("run.seeds", integer(seeds, "--seeds")?, "--seeds")?;
    }
    if let Some(folds) = arguments.folds {
        layers.value("run.folds", integer(folds, "--folds")?, "--folds")?;
    }
    layers.finish()
}

fn run_on<D: Device<Real = f32>>(device: &D, arguments: &Arguments, config: &Config) -> Result<()> {
    let stop = catch_interrupts()?;
    let whole = watch::with(&arguments.settings.access.access(), |context| load_dataset(&config.data, context))?;
    let space = match &arguments.space {
        Some(path) => Space::parse(&files::read_text(path)?, &path.display().to_string())?,
        None => Space::built_in(&whole)?,
    };
    if arguments.print_space {
        return say(&space.to_toml());
    }
    let directory = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("runs/tune-{}", plain(&whole.name))));
    let request = Request {
        base: config,
        space: &space,
        trials: arguments.trials as usize,
        inner: arguments.inner as usize,
        rungs: arguments.rungs as usize,
        metric: &arguments.metric,
        directory: &directory,
    };
    let progress = Progress::new();
    let tuning = Tuning::new(device, &whole, &request, &stop, &progress)?;
    progress.score(tuning.criterion.score);
    progress.rungs(tuning.rungs.len());
    let search = Search { tuning: &tuning, arguments, config, directory, dataset: &whole.name };
    if let Some(line) = train::recipe_line(config) {
        voice::line(format_args!("trial 0 is the start: {line}"));
    }
    voice::line(search.schedule().trim_end());
    let (found, evaluated) = match search.run() {
        Err(Error::Cancelled) => {
            progress.finish();
            voice::line(format_args!("{} has what is finished; the same command goes on", search.directory.display()));
            return Err(Error::Cancelled);
        }
        result => result?,
    };
    progress.finish();
    let chosen = &tuning.trials[found.finalists[0].trial];
    let text = preset_text(&chosen.config, &search.comment(&found))?;
    files::write_atomic(&search.directory.join("tuned.toml"), text.as_bytes())?;
    say(&match arguments.json {
        true => format!("{:#}\n", search.to_json(&found, evaluated.as_deref(), &text)),
        false => search.text(&found, evaluated.as_deref(), &text),
    })
}

/// A name as part of a path.
fn plain(name: &str) -> String {
    name.trim_start_matches('.')
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
        .collect()
}

/// A search and how it was asked for.
struct Search<'a, D: Device<Real = f32>> {
    tuning: &'a Tuning<'a, D>,
    arguments: &'a Arguments,
    config: &'a Config,
    directory: PathBuf,
    dataset: &'a str,
}

impl<D: Device<Real = f32>> Search<'_, D> {
    fn run(&self) -> Result<(Found, Option<Vec<Evaluated>>)> {
        let found = self.tuning.run()?;
        let evaluated = self.arguments.evaluate.then(|| self.tuning.evaluate(&found)).transpose()?;
        Ok((found, evaluated))
    }

    fn runs(&self) -> usize {
        self.tuning.groups.iter().map(Vec::len).sum()
    }

    /// What is trained, for people.
    fn schedule(&self) -> String {
        let tuning = self.tuning;
        let by = match (tuning.is_nested(), self.config.run.folds) {
            (true, 0) => "every seed has a split of its own, and searches by its own validation part",
            (true, _) => "every fold searches by its own validation part, which is the test part of another",
            (false, _) => "settings are compared by their mean over the runs",
        };
        let mut out = format!(
            "{}: {} settings, {} run(s), by validation {}; {by}\n",
            self.dataset,
            tuning.trials.len(),
            self.runs(),
            tuning.criterion.score.label
        );
        for (at, rung) in tuning.rungs.iter().enumerate() {
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
    fn comment(&self, found: &Found) -> String {
        let kind = self.tuning.criterion.score;
        format!(
            "{}: {} settings tried, validation {} {} over {} run(s).",
            self.command(),
            self.tuning.trials.len(),
            kind.label,
            shown(kind, &self.values(&found.finalists[0])),
            self.runs()
        )
    }

    /// The criterion, one per run.
    fn values(&self, finalist: &Finalist) -> Vec<f64> {
        let name = self.tuning.criterion.score.name;
        finalist.measured.iter().filter_map(|run| run.validation.get(name)).collect()
    }

    fn text(&self, found: &Found, evaluated: Option<&[Evaluated]>, toml: &str) -> String {
        let kind = self.tuning.criterion.score;
        let mut rows = vec![vec![
            "trial".to_string(),
            format!("validation {}", kind.label),
            "mean place".into(),
            "seconds".into(),
            "settings".into(),
        ]];
        for finalist in &found.finalists {
            let failed = finalist.measured.iter().filter(|run| run.failed.is_some()).count();
            rows.push(vec![
                finalist.trial.to_string(),
                if failed > 0 { format!("failed in {failed} run(s)") } else { shown(kind, &self.values(finalist)) },
                format!("{:.1}", finalist.place),
                format!("{:.1}", finalist.measured.iter().map(|run| run.seconds).sum::<f64>()),
                self.settings(finalist.trial),
            ]);
        }
        let mut out = self.schedule() + "\n" + &table_with_text(&rows);
        let chosen = found.finalists[0].trial;
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
                let rows: Vec<Vec<String>> = (self.tuning.objective().scores().iter())
                    .map(|kind| vec![kind.label.to_string(), shown(kind, &scores(evaluated, kind))])
                    .collect();
                out += &table(&rows, 1);
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

    fn to_json(&self, found: &Found, evaluated: Option<&[Evaluated]>, toml: &str) -> Value {
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
        let rungs: Vec<Value> = (tuning.rungs.iter())
            .map(|rung| json!({ "settings": rung.candidates, "epochs_divided_by": rung.divisor, "runs": rung.runs }))
            .collect();
        let mut result = json!({
            "dataset": self.dataset,
            "preset": self.config.preset,
            "recipe": self.config.recipe,
            "command": self.command(),
            "metric": kind.name,
            "trials": tuning.trials.len(),
            "runs": self.runs(),
            "nested": tuning.is_nested(),
            "schedule": rungs,
            "finalists": found.finalists.iter().map(finalist).collect::<Vec<_>>(),
            "chosen": { "trial": found.finalists[0].trial, "toml": toml },
            "winners": found.winners,
            "out": self.directory,
            "train": self.train_command(),
        });
        if let Some(evaluated) = evaluated {
            let score = |kind: &ScoreKind| {
                let values = scores(evaluated, kind);
                let spread = json!({ "mean": mean(values.iter().copied()), "std": standard_deviation(&values) });
                (kind.name.to_string(), spread)
            };
            let name = if tuning.is_nested() { "nested_test" } else { "test" };
            result[name] = Value::Object(tuning.objective().scores().iter().map(score).collect::<Map<_, _>>());
            result["evaluated"] = json!(evaluated);
        }
        result
    }
}

fn scores(evaluated: &[Evaluated], kind: &ScoreKind) -> Vec<f64> {
    evaluated.iter().filter_map(|run| run.test.get(kind.name)).collect()
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

/// Progress on stderr: a bar on a terminal, a line now and then elsewhere. Says validation scores only.
struct Progress {
    inside: Mutex<Inside>,
}

struct Inside {
    score: Option<&'static ScoreKind>,
    rungs: usize,
    rung: usize,
    runs: usize,
    done: usize,
    best: Option<f64>,
    failed: usize,
    bar: Option<ProgressBar>,
    last_line: Instant,
}

impl Progress {
    fn new() -> Progress {
        let inside = Inside {
            score: None,
            rungs: 0,
            rung: 0,
            runs: 0,
            done: 0,
            best: None,
            failed: 0,
            bar: None,
            last_line: Instant::now(),
        };
        Progress { inside: Mutex::new(inside) }
    }

    fn inside(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn score(&self, kind: &'static ScoreKind) {
        self.inside().score = Some(kind);
    }

    fn rungs(&self, rungs: usize) {
        self.inside().rungs = rungs;
    }

    fn finish(&self) {
        if let Some(bar) = self.inside().bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Inside {
    fn title(&self) -> String {
        match self.rung {
            rung if rung <= self.rungs => format!("rung {rung} of {}", self.rungs),
            rung if rung == self.rungs + 1 => "all runs of the best".into(),
            _ => "what was chosen".into(),
        }
    }

    fn text(&self) -> String {
        let best = match (self.best, self.score) {
            (Some(best), Some(kind)) => format!(", best validation {} of a run {}", kind.label, kind.show(best)),
            _ => String::new(),
        };
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        format!("{}: {} of {} runs{best}{failed}", self.title(), self.done, self.runs)
    }
}

impl Listener for Progress {
    fn round(&self, rung: usize, runs: usize, known: usize) {
        self.finish();
        let mut inside = self.inside();
        (inside.rung, inside.runs, inside.done, inside.best, inside.failed) = (rung, runs, known, None, 0);
        if known == runs {
            return;
        }
        if !voice::has_bars() {
            let finished = if known > 0 { format!(", {known} of them finished already") } else { String::new() };
            voice::line(format_args!("{}: {runs} runs{finished}", inside.title()));
            return;
        }
        let bar = ProgressBar::new(runs as u64);
        if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {elapsed} ({eta} left) {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_position(known as u64);
        bar.reset_eta();
        bar.enable_steady_tick(Duration::from_millis(500));
        bar.set_message(inside.text());
        inside.bar = Some(bar);
    }

    fn run(&self, job: &Job, measured: &Measured) {
        let mut inside = self.inside();
        inside.done += 1;
        let value = inside.score.and_then(|kind| Some((kind, measured.validation.get(kind.name)?)));
        if let Some((kind, value)) = value {
            let better = inside.best.is_none_or(|best| kind.merit(value) > kind.merit(best));
            inside.best = if better { Some(value) } else { inside.best };
        }
        if let Some(why) = &measured.failed {
            inside.failed += 1;
            let note = format!("trial {}, {}: counts as worst: {why}", job.trial, job.round.name);
            match &inside.bar {
                Some(bar) => bar.suspend(|| voice::note(&note)),
                None => voice::note(&note),
            }
        }
        if let Some(bar) = &inside.bar {
            bar.set_position(inside.done as u64);
            bar.set_message(inside.text());
        } else if inside.last_line.elapsed().as_secs_f64() >= voice::seconds_between_lines() {
            voice::line(inside.text());
            inside.last_line = Instant::now();
        }
    }
}
