//! `harmonia diagnose`: what a graph lets hop weights mean, and what those of a run do.

use super::data::{AccessFlags, DirectoryFlag};
use super::settings::integer;
use super::signals::catch_interrupts;
use super::{reading, say, voice, watch};
use crate::answers::responses;
use crate::cli::threads::with_threads;
use crate::config::Config;
use crate::diagnose::{self, Diagnosis, Options, Reading, SpectralResponse, SpectralResponses};
use crate::model::FittedModel;
use crate::runs::load_dataset;
use crate::runs::{members, saved_layers};
use crate::settings::Layers;
use clap::Args;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// Features shown as text; --json has all of them.
const SHOWN: usize = 8;

pub const EXAMPLES: &str = "\
Examples:
  harmonia diagnose cora
      Are eight walk lengths distinguishable on Cora, and how many would be?
  harmonia diagnose runs/cora-1
      the same for the walk of a run, and what its hop weights do to slow and fast modes
  harmonia diagnose my-store --hops 16 --epsilon 0.001
      longer walks, finer resolution
  harmonia diagnose mutag --set walk.lazy=true
      another walk: a lazy one has no bipartite components
  harmonia diagnose ogbn-products --json > products.json
      every number; minutes, progress on stderr
  harmonia diagnose ogbn-products --quick
      wider intervals in a fraction of the time

Exit codes: 0 done, 2 bad input, 130 interrupted.";

/// Of `--quick`: seconds on a million nodes.
const QUICK_PROBES: usize = 8;
const QUICK_PRODUCTS: usize = 64;
const QUICK_WORK: u64 = 1_000_000_000;

#[derive(Args)]
pub struct Arguments {
    /// Run directory, store directory, or the name of a known dataset
    #[arg(value_name = "RUN|STORE|NAME")]
    target: String,
    /// Resolution: a step that changes the walk operator by no more does not count
    #[arg(long, value_name = "E", default_value_t = diagnose::DEFAULT_EPSILON, allow_negative_numbers = true)]
    epsilon: f64,
    /// T, walk lengths 0 to T-1 [default: those of the run, else 8]
    #[arg(long, value_name = "T")]
    hops: Option<usize>,
    /// One setting of the walk or the data, as in training; may be repeated
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Seed of random probes and starting vectors
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Random probes, where the graph is too large for exact sums
    #[arg(long, value_name = "N", default_value_t = diagnose::DEFAULT_PROBES)]
    probes: usize,
    /// Take a fraction of the time on large graphs: fewer probes, and ends of the spectrum as they are after 64 products.
    /// What is then less certain says so
    #[arg(long, conflicts_with = "probes")]
    quick: bool,
    /// Threads (0: one per core); results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: DirectoryFlag,
    #[command(flatten)]
    access: AccessFlags,
}

/// The object of `--json`.
#[derive(Serialize)]
struct Output<'a> {
    target: &'a str,
    dataset: &'a str,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
    /// `null` where there is no trained model.
    responses: Option<&'a SpectralResponses>,
}

pub fn run(arguments: Arguments) -> Result<()> {
    catch_interrupts()?;
    with_threads(arguments.threads, || run_here(&arguments))?
}

fn run_here(arguments: &Arguments) -> Result<()> {
    let path = Path::new(&arguments.target);
    files::check_directory(path)?;
    let is_run = path.join("config.toml").is_file();
    let config = config(arguments, is_run)?;
    let hops = arguments.hops.unwrap_or(if is_run { config.model.hops } else { diagnose::DEFAULT_HOPS });
    let (epsilon, seed, probes) = (arguments.epsilon, arguments.seed, arguments.probes);
    let mut options = Options { epsilon, hops, seed, probes, ..Options::default() };
    if arguments.quick {
        (options.probes, options.products, options.exact_work) = (QUICK_PROBES, Some(QUICK_PRODUCTS), QUICK_WORK);
    }
    options.check()?;
    let model = if is_run { model_of(path)? } else { None };
    if is_run {
        reading::check_not_gone(&config.data)?;
    }
    let (dataset, diagnosis) = watch::with(&arguments.access.access(), |context| {
        let dataset = load_dataset(&config.data, context)?;
        let diagnosis = diagnose::diagnose(&dataset.graph, config.walk, &options, &context.watch)?;
        Result::Ok((dataset, diagnosis))
    })?;
    let responses = match &model {
        Some(model) => Some(responses(model, &dataset, &diagnosis)?),
        None => None,
    };
    if arguments.json {
        let output = Output {
            target: &arguments.target,
            dataset: &dataset.name,
            diagnosis: &diagnosis,
            responses: responses.as_ref(),
        };
        let text = serde_json::to_string_pretty(&output)
            .map_err(|error| Error::Data(format!("cannot write the diagnosis as JSON: {error}")))?;
        return say(&format!("{text}\n"));
    }
    let mut out = format!("{}\n{diagnosis}", dataset.name);
    if let Some(responses) = &responses {
        // Writing to a string cannot fail.
        let _ = response_table(&mut out, responses);
    }
    say(&out)
}

/// Settings of the run, or of a dataset with the plain walk; `--set` over them.
fn config(arguments: &Arguments, is_run: bool) -> Result<Config> {
    let path = Path::new(&arguments.target);
    let mut layers = if is_run {
        saved_layers(path)?
    } else {
        if harmonia_data::is_store(&arguments.target) && !path.join("meta.json").is_file() {
            let message = "is neither a run directory (it has no config.toml) nor a store (it has no meta.json)";
            return Err(Error::file(path, message));
        }
        let mut layers = Layers::new()?;
        layers.value("data.dataset", arguments.target.as_str(), "RUN|STORE|NAME")?;
        layers
    };
    for assignment in &arguments.set {
        layers.set(assignment)?;
    }
    if let Some(directory) = &arguments.directory.data_dir {
        layers.value("data.dir", directory.display().to_string(), "--data-dir")?;
    }
    integer(arguments.seed, "--seed")?;
    layers.finish()
}

/// The model of a run, or the first of several; none, and a note that says so, where none was saved yet.
fn model_of(run: &Path) -> Result<Option<FittedModel>> {
    let Ok(all) = members(run) else {
        voice::note(format_args!("{} holds no model yet, so there is no spectral response", run.display()));
        return Ok(None);
    };
    if all.len() > 1 {
        let (count, first) = (all.len(), all[0].display());
        voice::note(format_args!("{} holds {count} models; hop weights are of {first}", run.display()));
    }
    FittedModel::load(&all[0].join("best.safetensors")).map(Some)
}

/// How many features read how, and those whose hop weights are furthest from the mean.
fn response_table(out: &mut String, responses: &SpectralResponses) -> std::fmt::Result {
    let words = [
        (Reading::LowPass, "low-pass", "smoothed over the graph"),
        (Reading::AllPass, "all-pass", "read at the node itself"),
        (Reading::Mixed, "mixed", "some fast modes come through"),
        (Reading::HighPass, "high-pass", "differences between neighbours count"),
    ];
    writeln!(
        out,
        "\nspectral response of {} features: g(x) is what is left of a mode with eigenvalue x",
        responses.features.len()
    )?;
    for (reading, word, meaning) in words {
        let count = responses.features.iter().filter(|feature| feature.reading == reading).count();
        if count > 0 {
            writeln!(out, "{word:<17} {count} ({meaning})")?;
        }
    }
    let mut furthest: Vec<&SpectralResponse> = responses.features.iter().collect();
    furthest.sort_by(|a, b| b.distance_from_mean.total_cmp(&a.distance_from_mean));
    let titles = ["g(lambda_2)", "g(0)", "g(lambda_min)"];
    writeln!(out, "\n{:<24}{:>12}{:>10}{:>15}  reading", "most distinct", titles[0], titles[1], titles[2])?;
    for feature in furthest.into_iter().take(SHOWN) {
        let word = words.iter().find(|(reading, ..)| *reading == feature.reading).map_or("", |(_, word, _)| word);
        let name: String = harmonia_graph::error::one_line(&feature.name).chars().take(23).collect();
        let number = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.3}"));
        let (top, bottom) = (number(feature.at_lambda_2), number(feature.at_lambda_min));
        writeln!(out, "{name:<24}{top:>12}{:>10.3}{bottom:>15}  {word}", feature.at_zero)?;
    }
    Ok(())
}
