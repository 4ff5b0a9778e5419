//! `harmonia tune`: better settings for a dataset, by validation alone. What is said while it runs is in [`progress`], what is
//! said of its result in [`telling`].

mod progress;
mod telling;

use super::progress::ProgressBars;
use super::settings::{Settings, integer};
use super::signals::catch_interrupts;
use super::{machine, say, train, voice, watch};
use crate::cli::threads::with_threads;
use crate::config::Config;
use crate::device::Device;
use crate::on_machine;
use crate::runs::load_dataset;
use crate::session::Session;
use crate::settings::own;
use crate::studies::tune::{Request, Space, Tuning, preset_text};
use clap::Args;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use progress::SearchProgress;
use std::path::PathBuf;
use std::time::Duration;
use telling::Search;

pub const EXAMPLES: &str = "\
Examples:
  harmonia tune --dataset mutag --folds 10 --repeats 3 --evaluate
      27 settings; every fold chooses by its own validation part, and the nested test score is printed
  harmonia tune --dataset cora --seeds 5 --trials 81 --metric accuracy
      one split: settings are compared by their mean over seeds
  harmonia tune mystore --budget 20m --jobs 2 --train
      as many settings as fit into 20 minutes; the winner becomes a run
  harmonia tune --dataset cora --print-space > space.toml
      what is searched; edit it and give it with --space
  harmonia-train --dataset mutag --config runs/tune-mutag/tuned.toml
      train with what was found

The same command goes on where it was interrupted. Test units are scored with --evaluate alone, at the end.";

#[derive(Args)]
pub struct Arguments {
    /// Dataset or store, as with --dataset
    #[arg(value_name = "NAME|STORE_DIR", conflicts_with = "dataset")]
    place: Option<String>,
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
    /// Time for the search (20m, 90s, 2h): it tries as many settings as fit, by what its first trainings take, and begins no
    /// training after it; the same command later goes on
    #[arg(long, value_name = "TIME", value_parser = duration)]
    budget: Option<Duration>,
    /// Trainings at a time [default: one a thread where they are small, else one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Train with what was found, into the directory `run` of the search
    #[arg(long)]
    train: bool,
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

pub fn run(mut arguments: Arguments) -> Result<()> {
    arguments.settings.dataset = arguments.place.take().or(arguments.settings.dataset);
    let arguments = &arguments;
    let mut config = config(arguments, None)?;
    if let Some(device) = &arguments.device {
        config.run.device.clone_from(device);
    }
    if let Some(threads) = arguments.threads {
        config.run.threads = threads;
    }
    with_threads(config.run.threads, || {
        let (machine, _) = machine::open(&config)?;
        on_machine!(&machine, device => run_on(device, arguments, config))
    })?
}

fn config(arguments: &Arguments, chosen: Option<&own::Choice>) -> Result<Config> {
    let mut layers = arguments.settings.training_layers(chosen)?;
    if let Some(seeds) = arguments.seeds.or(arguments.repeats) {
        layers.value("run.seeds", integer(seeds, "--seeds")?, "--seeds")?;
    }
    if let Some(folds) = arguments.folds {
        layers.value("run.folds", integer(folds, "--folds")?, "--folds")?;
    }
    layers.finish()
}

fn run_on<D: Device<Real = f32>>(device: &D, arguments: &Arguments, mut config: Config) -> Result<()> {
    let stop = catch_interrupts()?;
    let whole = watch::with(&arguments.settings.access.access(), |context| load_dataset(&config.data, context))?;
    if config.preset == own::NAME {
        let choice = own::choose(&whole, &config)?;
        let run = config.run;
        config = self::config(arguments, Some(&choice))?;
        config.run = run;
    }
    let config = &config;
    let space = match &arguments.space {
        Some(path) => Space::parse(&files::read_text(path)?, &path.display().to_string())?,
        None => Space::built_in(&whole, config.model.kind)?,
    };
    if arguments.print_space {
        return say(&space.to_toml());
    }
    let directory = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("runs/tune-{}", plain(&whole.name))));
    let run = directory.join("run");
    if arguments.train && run.exists() {
        let (run, resume) = (run.display(), format!("harmonia-train --resume {}", run.display()));
        return Err(Error::Config(format!("{run} is there already; remove it, or go on with it ({resume})")));
    }
    let request = Request {
        base: config,
        space: &space,
        trials: arguments.trials as usize,
        inner: arguments.inner as usize,
        rungs: arguments.rungs as usize,
        metric: &arguments.metric,
        directory: &directory,
        budget: arguments.budget,
        jobs: arguments.jobs.map(|jobs| jobs as usize),
    };
    let progress = SearchProgress::new();
    let tuning = Tuning::new(device, &whole, &request, &stop, &progress)?;
    progress.score(tuning.criterion.score);
    progress.rungs(tuning.rungs.len());
    let search = Search { tuning: &tuning, arguments, config, directory, dataset: &whole.name };
    if let Some(line) = train::recipe_line(config) {
        voice::line(format_args!("trial 0 is the start: {line}"));
    }
    voice::line(search.schedule().trim_end());
    let searched = tuning.run().and_then(|outcome| {
        let evaluated = arguments.evaluate.then(|| tuning.evaluate(&outcome)).transpose()?;
        Ok((outcome, evaluated))
    });
    let (outcome, evaluated) = match searched {
        Err(Error::Cancelled) => {
            progress.finish();
            voice::line(format_args!("{} has what is finished; the same command goes on", search.directory.display()));
            return Err(Error::Cancelled);
        }
        result => result?,
    };
    progress.finish();
    let chosen = &tuning.trials[outcome.finalists[0].trial];
    let text = preset_text(&chosen.config, &search.comment(&outcome))?;
    files::write_atomic(&search.directory.join("tuned.toml"), text.as_bytes())?;
    if tuning.was_cut() {
        voice::note("the budget was over before the search: what was finished has decided; the same command goes on");
    }
    if arguments.train {
        let session = Session { device, config: &chosen.config, stop: &stop };
        let mut bars = ProgressBars::new(tuning.objective(), chosen.config.train.metric);
        session.run(&whole, Some(&run), &mut bars)?;
    }
    say(&match arguments.json {
        true => format!("{:#}\n", search.to_json(&outcome, evaluated.as_deref(), &text)),
        false => search.text(&outcome, evaluated.as_deref(), &text),
    })
}

/// 20m, 90s, 2h.
fn duration(text: &str) -> std::result::Result<Duration, String> {
    let bad = || format!("`{text}` is no time; expected a number and s, m or h, as in 20m");
    let unit = match text.chars().last() {
        Some('s') => 1.0,
        Some('m') => 60.0,
        Some('h') => 3600.0,
        _ => return Err(bad()),
    };
    let number: f64 = text[..text.len() - 1].parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| bad())
}

/// A name as part of a path.
fn plain(name: &str) -> String {
    name.trim_start_matches('.')
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
        .collect()
}
