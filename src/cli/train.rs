//! `harmonia-train`, `harmonia train`: the main job.

use super::settings::{Settings, integer};
use super::signals::catch_interrupts;
use super::{dry_run, machine, progress::ProgressBars, say, summary, team, voice, watch};
use crate::cli::threads::with_threads;
use crate::config::{Config, DropoutPlace, Schedule};
use crate::device::{Device, Machine, link};
use crate::on_machine;
use crate::runs::load_dataset;
use crate::runs::saved_layers;
use crate::runs::{Extension, Fingerprint, RunDirectory, create_next, run_names};
use crate::session::{Session, Silent};
use crate::settings::{Layers, own, presets};
use crate::tabulate::{TablePlan, Tables, Tabulation};
use crate::train::{Prepared, monotone, share_out, structured, weights};
use clap::Args;
use harmonia_graph::dataset::{Dataset, Level, Scaling};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::units::{bytes, thousands};
use std::path::{Path, PathBuf};

pub const EXAMPLES: &str = "\
Examples:
  harmonia-train
      the synthetic study, generated in place
  harmonia-train --dataset cora --seeds 5
      Cora's public split, five seeds; fetched once, having asked
  harmonia-train --dataset mutag --folds 10 --repeats 3 --jobs 4
      tenfold cross-validation, three times, four folds at a time
  harmonia-train --set train.dropout=0.1 --set train.dropout_place=hidden --epochs 50
      other settings
  harmonia-train --resume runs/cora-1
      continue an interrupted run
  harmonia-train --resume runs/cora-1 --epochs 1000
      go on to 1000 epochs

Exit codes: 0 done, 1 training failed, 2 bad input, 130 interrupted.
The first Ctrl-C finishes the epoch and saves, the second exits at once.";

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Number of seeds, from --seed upwards
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Every seed draws how much each training unit counts (a Bayesian bootstrap): bands of harmonia shapes then show what other data
    /// would have changed
    #[arg(long)]
    bagging: bool,
    /// Cross-validate: one of K folds tests, the next validates, the others train, in turn
    #[arg(long, value_name = "K")]
    folds: Option<u64>,
    /// Times the cross-validation is repeated with folds dealt anew, from --seed upwards
    #[arg(long, value_name = "N", requires = "folds", conflicts_with = "seeds")]
    repeats: Option<u64>,
    /// Most epochs; with --resume, the run goes on to so many, also where it was complete or had stopped early
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
    /// Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:N, or host (the CUDA kernels on the CPU; slow)
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Threads (0: one per core); results do not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Fit linear models too, with and without means of neighbours, and show their scores beside ours
    #[arg(long)]
    baselines: bool,
    /// Seeds and folds trained at a time; they share the threads, and results do not depend on it [default: small ones side by
    /// side, others one by one]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Log epochs in other forms too: csv (metrics.csv), tensorboard (events.out.tfevents.*); several with commas
    #[arg(long, value_name = "FORM", value_delimiter = ',')]
    metrics: Vec<String>,
    /// What to call the run: harmonia runs list shows it, and its directory is runs/NAME-1, or the next number that is free
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Run directory to make [default: runs/<name or dataset>-<number>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue the run in this directory, with its own settings; --epochs N extends it
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "dataset", "data_dir", "data_index", "model", "undirected", "normalise", "class_weights", "monotone", "preset", "recipe", "config", "set", "seed", "seeds", "folds",
        "repeats", "bagging", "baselines", "metrics", "name", "out", "dry_run",
    ])]
    resume: Option<PathBuf>,
    /// Show settings, parameters and memory, and stop
    #[arg(long)]
    dry_run: bool,
    /// Print the result as one JSON object on stdout
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: Arguments) -> Result<()> {
    team::join()?;
    let (mut config, extension) = match &arguments.resume {
        Some(directory) => {
            // The directory may be where the first process is, and nowhere else.
            let mut extension = None;
            let config = team::told(|| {
                let (config, found) = resumed(directory, arguments.epochs)?;
                extension = found;
                Ok(config)
            })?;
            (config, extension)
        }
        None => (config(&arguments, None)?, None),
    };
    if let Some(device) = &arguments.device {
        config.run.device.clone_from(device);
    }
    if let Some(threads) = arguments.threads {
        config.run.threads = threads;
    }
    if let Some(jobs) = arguments.jobs {
        config.run.jobs = jobs;
        config.check()?;
    }
    with_threads(team::threads(config.run.threads), || {
        let (machine, reason) = machine::open(&config)?;
        let remarks = Remarks { is_host: matches!(machine, Machine::Host(_)), why_cpu: reason };
        on_machine!(&machine, device => run_on(device, &remarks, &arguments, config, extension.as_ref()))
    })?
}

/// What there is to say about the device.
struct Remarks {
    is_host: bool,
    /// Why `auto` chose the CPU.
    why_cpu: Option<String>,
}

impl Remarks {
    fn say(&self) {
        if self.is_host {
            voice::note("--device host runs CUDA kernels one thread after the other; --device cpu is far faster");
        }
        // Nobody asked for a GPU: that there is none is no news.
        if let Some(reason) = &self.why_cpu {
            voice::detail(format_args!("computing on the CPU: {reason}"));
        }
    }
}

fn run_on<D: Device<Real = f32>>(
    device: &D,
    remarks: &Remarks,
    arguments: &Arguments,
    mut config: Config,
    extension: Option<&Extension>,
) -> Result<()> {
    let stop = catch_interrupts()?;
    let whole = watch::with(&arguments.settings.access.access(), |context| load_dataset(&config.data, context))?;
    let mut chosen = None;
    if config.preset == own::NAME && arguments.resume.is_none() {
        let choice = own::choose(&whole, &config)?;
        let run = config.run;
        config = self::config(arguments, Some(&choice))?;
        config.run = run;
        chosen = Some(choice);
    }
    let whole = structured(whole, &config)?;
    // The first run stands for all: every one has the same sizes but for a unit here or there.
    let first = Session { device, config: &config, stop: &stop }.names()[0];
    // Everything that can be wrong is found out before files are made.
    let mut first = Prepared::new(&whole, &config, first)?;
    if let Some(team) = team::joined() {
        team::check(&config, &whole)?;
        share_out(&mut first, &config, team, device)?;
    }
    if arguments.dry_run {
        return if team::leads() { say(&dry_run::text(device, &config, &first, arguments.json)?) } else { Ok(()) };
    }
    if let Some(team) = team::joined()
        && let Some(why) = link::connect(device, &**team)?
    {
        voice::note(why);
    }
    config.engine.states.check(first.dataset.graph.is_symmetric())?;
    if config.run.jobs > 1 && device.copies() {
        let message =
            format!("run.jobs is {}, but runs on {} go one by one: set run.jobs = 1", config.run.jobs, device.name());
        return Err(Error::Config(message));
    }
    let at_a_time = config.run.jobs.clamp(1, run_names(&config.run).len());
    first.memory(device, &config).check_several(device, at_a_time)?;
    if let Some(extension) = extension.filter(|_| team::leads()) {
        extension.apply(&Fingerprint::of(&whole))?;
        announce_extension(extension, &config, &first)?;
    }
    make_paths_absolute(&mut config)?;
    let (root, is_done) = team::told(|| {
        let root = match (&arguments.resume, &arguments.out) {
            (Some(directory), _) => directory.clone(),
            (None, Some(directory)) => {
                RunDirectory::create(directory, &config)?;
                directory.clone()
            }
            (None, None) => {
                let name = if config.run.name.is_empty() { &first.dataset.name } else { &config.run.name };
                create_next(name, &config)?
            }
        };
        let is_done = arguments.resume.is_some() && root.join("summary.json").exists();
        Ok((root, is_done))
    })?;
    if is_done {
        voice::line(format_args!("{} is already finished; its result:", root.display()));
    } else {
        announce(&config, &first, &device.name(), &root);
        if let Some(choice) = &chosen {
            voice::line(own_lines(choice, &first));
        }
        remarks.say();
        let tables = team::joined().map_or_else(Tables::default, Tables::of_team);
        watch::with(&arguments.settings.access.access(), |context| {
            first.tabulate(&tables, config.walk, &context.watch)
        })?;
    }
    let objective = first.objective;
    let session = Session { device, config: &config, stop: &stop };
    if !team::leads() {
        return session.run_prepared(&whole, first, None, &mut Silent).map(drop);
    }
    let outcome =
        session.run_prepared(&whole, first, Some(&root), &mut ProgressBars::new(objective, config.train.metric))?;
    say(&if arguments.json { format!("{}\n", outcome.to_json()) } else { summary::text(&outcome, voice::width()) })
}

fn config(arguments: &Arguments, chosen: Option<&own::Choice>) -> Result<Config> {
    let mut layers: Layers = arguments.settings.training_layers(chosen)?;
    if let Some(seeds) = arguments.seeds.or(arguments.repeats) {
        layers.value("run.seeds", integer(seeds, "--seeds")?, "--seeds")?;
    }
    if let Some(folds) = arguments.folds {
        layers.value("run.folds", integer(folds, "--folds")?, "--folds")?;
    }
    if arguments.bagging {
        layers.value("train.bagging", true, "--bagging")?;
    }
    if arguments.baselines {
        layers.value("run.baselines", true, "--baselines")?;
    }
    if !arguments.metrics.is_empty() {
        layers.value("run.metrics", arguments.metrics.clone(), "--metrics")?;
    }
    if let Some(name) = &arguments.name {
        if name.trim().is_empty() {
            return Err(Error::Config("--name is empty: give a word, or leave it out".into()));
        }
        layers.value("run.name", name.as_str(), "--name")?;
    }
    if let Some(epochs) = arguments.epochs {
        layers.value("train.epochs", integer(epochs, "--epochs")?, "--epochs")?;
    }
    layers.finish()
}

/// Settings of a run that is to go on, and what has to be done to it first where that is to more epochs.
fn resumed(directory: &Path, epochs: Option<u64>) -> Result<(Config, Option<Extension>)> {
    let mut config = saved_layers(directory)?.finish()?;
    let Some(epochs) = epochs else { return Ok((config, None)) };
    config.train.epochs = usize::try_from(epochs).unwrap_or(usize::MAX);
    config.check()?;
    let extension = Extension::new(directory, config.train.epochs)?;
    Ok((config, Some(extension)))
}

/// What going on means, and where the result is not that of so many epochs at once.
fn announce_extension(extension: &Extension, config: &Config, run: &Prepared) -> Result<()> {
    let (before, epochs) = (extension.before(), config.train.epochs);
    voice::line(format_args!("going on from {} to {epochs} epochs", extension.done()));
    for (name, after) in extension.stopped() {
        voice::note(format_args!(
            "{name} had stopped after epoch {after} for want of improvement: patience is counted anew from there"
        ));
    }
    if before.train.epochs == epochs || extension.done() == 0 {
        return Ok(());
    }
    if config.train.schedule == Schedule::Cosine {
        voice::note(format_args!(
            "train.schedule = cosine: the learning rate depends on the number of epochs, so this is not the same as {epochs} \
             epochs at once; from here on it is the rate of those"
        ));
    }
    let table_before = Tabulation::choose(before, &run.dataset, &run.layout, run.plan)?;
    if table_before.plan().is_some() != run.tabulation.plan().is_some() {
        let [from, to] =
            if run.tabulation.plan().is_some() { ["walks", "a table of walks"] } else { ["a table of walks", "walks"] };
        voice::note(format_args!(
            "{epochs} epochs are trained from {to}, those before from {from}: this is not the same as {epochs} epochs at once \
             (engine.table)"
        ));
    }
    Ok(())
}

/// A run may be resumed from another directory.
fn make_paths_absolute(config: &mut Config) -> Result<()> {
    let absolute = |path: &Path| {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        files::utf8(&whole).map(String::from)
    };
    if !config.data.dir.is_empty() {
        config.data.dir = absolute(Path::new(&config.data.dir))?;
    } else if let Some(directory) = std::env::var_os(harmonia_data::DATA_VARIABLE).filter(|value| !value.is_empty()) {
        config.data.dir = absolute(Path::new(&directory))?;
    }
    if harmonia_data::is_store(&config.data.dataset) {
        config.data.dataset = absolute(Path::new(&config.data.dataset))?;
    }
    Ok(())
}

fn announce(config: &Config, run: &Prepared, device: &str, root: &Path) {
    let dataset = &run.dataset;
    let preset = if config.preset.is_empty() { "no preset".into() } else { format!("preset {}", config.preset) };
    voice::line(format_args!(
        "{}: {} nodes, {} directed edges, {} features; {preset}; {device}; writing to {}",
        dataset.name,
        dataset.graph.nodes(),
        dataset.graph.directed_edges(),
        dataset.features.cols,
        root.display()
    ));
    if let Some(line) = recipe_line(config) {
        voice::line(line);
    }
    if let Some(line) = monotone::line(config) {
        voice::line(line);
    }
    // What cannot be weighted was refused when the run was made ready.
    if let Ok(Some(line)) = weights::line(dataset, &config.train) {
        voice::line(line);
    }
    if config.train.dropout > 0.0 && config.train.dropout_place == DropoutPlace::Hidden {
        voice::note(format_args!(
            "train.dropout_place = hidden evaluates every expert network at each of {} nodes x {} features in every step, \
             instead of once per distinct value (on Cora 45 s an epoch instead of 15 ms); set train.dropout_place = input or \
             feature for the quick way",
            thousands(dataset.graph.nodes() as u64),
            thousands(dataset.features.cols as u64)
        ));
    }
    if let Some(plan) = run.tabulation.plan() {
        voice::line(table_line(plan, dataset));
        return;
    }
    if let Tabulation::Walk { why: Some(why) } = &run.tabulation {
        voice::note(format_args!("walking along edges in every step: {why}"));
    }
    if dataset.graphs() == 1 && config.train.batch_size > 0 {
        let steps = dataset.split.train.len().div_ceil(config.train.batch_size);
        voice::note(format_args!(
            "{steps} steps per epoch, each over the whole graph (train.batch_size = {}); --set train.batch_size=0 \
             takes one step per epoch",
            config.train.batch_size
        ));
    }
}

/// What the preset `own` chose, and why, for people.
fn own_lines(choice: &own::Choice, run: &Prepared) -> String {
    let (features, changed) = (run.dataset.features.cols, run.scaling.as_ref().map_or(0, Scaling::changed));
    let scaled = match features - changed {
        _ if changed == 0 => "no column is rescaled (0 and 1, or sparse)".to_string(),
        0 => format!("{changed} columns of numbers are standardised"),
        rest => format!("{changed} columns of numbers are standardised, {rest} of 0 and 1 are not"),
    };
    format!(
        "preset own, for data that no other preset knows: {scaled}; {}\n\
         the epoch with the least validation loss is kept and calibrated; harmonia tune searches for better settings",
        choice.reasons.join("; ")
    )
}

/// What training from a table means, for people.
pub fn table_line(plan: &TablePlan, dataset: &Dataset) -> String {
    let corrected = match plan.walks {
        0 => String::new(),
        1 => ", corrected by a walk of each node in each step".into(),
        walks => format!(", corrected by {walks} walks of each node in each step"),
    };
    if plan.grid.most() == 1 {
        return format!(
            "training samples {} of each node in each step (engine.table_points = 1 has no table; engine.walks); scores are \
             of the exact model",
            if plan.walks == 1 { "a walk".to_string() } else { format!("{} walks", plan.walks) }
        );
    }
    let between = if plan.grid.is_exact() { "exact" } else { "interpolated between them" };
    format!(
        "training reads a table of walks: {} {} x {} numbers of {} bits, {} (at most {} points of a feature, \
         {between}{corrected}); scores are of the exact model",
        thousands(plan.contents.units.len() as u64),
        if dataset.level == Level::Node { "nodes" } else { "graphs" },
        thousands(plan.width() as u64),
        plan.bits.count(),
        bytes(plan.bytes() as u64),
        plan.grid.most(),
    )
}

/// Which settings of the preset are used, and how to have the others.
pub fn recipe_line(config: &Config) -> Option<String> {
    let has = |files: &[(&str, &str)]| files.iter().any(|(name, _)| *name == config.preset);
    match config.recipe.as_str() {
        "" => None,
        "tuned" => Some("recipe tuned (--recipe paper for the settings as published)".into()),
        "fast" => {
            Some("recipe fast: a short schedule at a high rate (--recipe paper for the settings as published)".into())
        }
        _ if has(presets::TUNED) => {
            Some("recipe paper: the settings as published (--recipe tuned for those found by validation)".into())
        }
        _ if has(presets::FAST) => {
            Some("recipe paper: the settings as published (--recipe fast for a short schedule)".into())
        }
        recipe => Some(format!("recipe {recipe}: the settings as published; nobody has tuned {} yet", config.preset)),
    }
}
