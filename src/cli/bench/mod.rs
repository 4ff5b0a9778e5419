//! `harmonia bench`: how long an epoch takes on this machine, what it moves, and what PyTorch takes for the same.
//!
//! Nothing here judges: it measures, and says how. Every measurement is a process of its own ([`job`]), one after the
//! other.

mod accuracy;
mod case;
pub(super) mod child;
mod copy;
mod epochs;
mod fit;
mod graphs;
mod job;
mod memory;
mod peers;
mod plot;
mod report;
mod scaling;
mod stores;

use super::data::{AccessFlags, DirectoryFlag};
use super::signals::catch_interrupts;
use super::{say, voice};
use crate::config::Config;
use case::{BenchCase, EpochCase};
use clap::Args;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use job::Job;
use peers::{Peers, Request};
use report::{EpochResult, Report};
use std::path::{Path, PathBuf};
use stores::Stores;

pub const EXAMPLES: &str = "\
Examples:
  harmonia bench
      Cora, and made-up graphs of the size of ogbn-arxiv and of a tenth of ogbn-products
  harmonia bench --case arxiv --peers ~/torch/bin/python
      beside the same epochs in PyTorch, as many threads
  harmonia bench --case arxiv --set engine.propagate=features --set engine.monb=direct
      without the fast paths
  harmonia bench --case graphs
      tenfold cross-validation, three times, of MUTAG, PROTEINS, DD, AIDS and Mutagenicity; takes a while
  harmonia bench --case time-to-accuracy
      training on a graph of the size of ogbn-products, walking and from a table of walks
  harmonia bench --case scaling --plot growth.svg
      how time grows with edges, walk lengths, features and the width of experts

Close other programs first: what else runs takes time and bandwidth from what is measured.
Exit codes: 0 done, 1 a case failed, 2 bad input, 130 interrupted (what was measured so far is shown).";

#[derive(Args)]
pub struct Arguments {
    /// What to measure: cora, arxiv, tenth (of products), products (8 GB of memory), graphs (or mutag, proteins, dd,
    /// aids, mutagenicity), scaling, time-to-accuracy (of products size: minutes, 8 GB)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "cora,arxiv,tenth")]
    case: Vec<String>,
    /// Epochs timed; their median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    epochs: u16,
    /// Epochs before those
    #[arg(long, value_name = "N", default_value_t = 2)]
    warmup: u16,
    /// Threads, ours and PyTorch's (0: one per core)
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// One setting, over those of the case; may be repeated
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// BenchRun the same epochs in PyTorch, with this Python, which has torch
    #[arg(long, value_name = "PYTHON")]
    peers: Option<PathBuf>,
    /// Also those of PyTorch that take minutes per epoch
    #[arg(long, requires = "peers")]
    slow: bool,
    /// Where to draw the growth of time (with --case scaling)
    #[arg(long, value_name = "FILE.svg", default_value = "bench-scaling.svg")]
    plot: PathBuf,
    #[command(flatten)]
    directory: DirectoryFlag,
    #[command(flatten)]
    access: AccessFlags,
    /// Where made-up graphs are kept for the next time [default: bench in the user's cache directory]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Do one job, given on standard input
    #[arg(long, hide = true)]
    child: bool,
}

/// How often, and on how many threads.
pub struct BenchRun {
    epochs: usize,
    warmup: usize,
    threads: usize,
}

pub fn run(arguments: Arguments) -> Result<()> {
    catch_interrupts()?;
    if arguments.child {
        return job::run();
    }
    let cases = case::select(&arguments.case)?;
    // Everything that can be wrong is found out before anything is measured.
    for case in &cases {
        config(case, &arguments)?;
    }
    let run = BenchRun { epochs: arguments.epochs.into(), warmup: arguments.warmup.into(), threads: arguments.threads };
    let peers = arguments.peers.as_deref().map(Peers::new).transpose()?;
    let mut report = Report { torch: peers.as_ref().map(|peers| peers.torch.clone()), ..Report::default() };
    let outcome = measure(&mut report, &cases, &arguments, &run, peers.as_ref());
    if !report.is_empty() {
        say(&if arguments.json { format!("{:#}\n", report.json(&run)) } else { report.text(&run) })?;
    }
    outcome?;
    match &report.failed()[..] {
        [] => Ok(()),
        failed => Err(Error::Device(format!("could not be measured: {}", failed.join(", ")))),
    }
}

/// Settings of a case. Those of a scaling series differ in one thing from these.
fn config(case: &BenchCase, arguments: &Arguments) -> Result<Config> {
    let mut config = match case {
        BenchCase::Epochs(case) => case::config(case.preset, &case::EPOCH_SETTINGS, &arguments.set),
        BenchCase::Graphs(name) => case::config(name, &graphs::SETTINGS, &arguments.set),
        BenchCase::Scaling { .. } | BenchCase::Accuracy { .. } => {
            case::config(scaling::PRESET, &case::EPOCH_SETTINGS, &arguments.set)
        }
    }?;
    config.run.threads = arguments.threads;
    Ok(config)
}

fn measure(
    report: &mut Report,
    cases: &[BenchCase],
    arguments: &Arguments,
    run: &BenchRun,
    peers: Option<&Peers>,
) -> Result<()> {
    let stores = Stores {
        work: arguments.work.as_deref(),
        data: arguments.directory.data_dir.as_deref(),
        access: arguments.access.access(),
        threads: run.threads,
    };
    for case in cases {
        let mut config = config(case, arguments)?;
        match case {
            BenchCase::Epochs(case) => epoch_case(report, case, config, arguments, run, &stores, peers)?,
            BenchCase::Graphs(name) => {
                config.data.dataset = stores.known(name)?.display().to_string();
                voice::line(format_args!("{name}: {} folds, {} times", config.run.folds, config.run.seeds));
                report.graphs.push((name.to_string(), child::job(&Job::Graphs { config })?));
            }
            BenchCase::Accuracy { tiny } => {
                let source = case::accuracy_source(*tiny);
                report.accuracy = Some(accuracy::compare(source, &arguments.set, run.threads, &stores)?);
            }
            BenchCase::Scaling { tiny } => {
                let series = scaling::measure(*tiny, &arguments.set, run, &stores)?;
                if let Ok(series) = &series {
                    let subtitle = format!("median of {} epochs; fitted powers of x", run.epochs);
                    files::write_atomic(&arguments.plot, plot::svg(series, &subtitle).as_bytes())?;
                    voice::line(format_args!("drawn: {}", arguments.plot.display()));
                }
                report.scaling = Some(series);
            }
        }
    }
    Ok(())
}

fn epoch_case(
    report: &mut Report,
    case: &EpochCase,
    mut config: Config,
    arguments: &Arguments,
    run: &BenchRun,
    stores: &Stores,
    peers: Option<&Peers>,
) -> Result<()> {
    let mut result = EpochResult { case: case.name.into(), measured: Err(String::new()), peers: Vec::new() };
    let store = match stores.of(case.source)? {
        Ok(store) => store,
        Err(error) => {
            result.measured = Err(error);
            report.epochs.push(result);
            return Ok(());
        }
    };
    config.data.dataset = store.display().to_string();
    let scratch = tempfile::tempdir().map_err(Error::io("create directory in", &std::env::temp_dir()))?;
    let parameters = scratch.path().join("parameters.safetensors");
    voice::line(format_args!("{}: {} epochs after {}", case.name, run.epochs, run.warmup));
    let job = epochs::EpochsJob {
        config: config.clone(),
        epochs: run.epochs,
        warmup: run.warmup,
        copy: true,
        parameters: peers.map(|_| parameters.clone()),
    };
    result.measured = child::job(&Job::Epochs(job))?;
    report.epochs.push(result);
    let Some(EpochResult { measured: Ok(ours), peers: results, .. }) = report.epochs.last_mut() else { return Ok(()) };
    let Some(peers) = peers else { return Ok(()) };
    let slow = if arguments.slow { case.slow_peers } else { &[] };
    let (epochs, warmup) = (run.epochs, run.warmup);
    let (store, parameters): (&Path, &Path) = (&store, &parameters);
    for variant in case.peers.iter().chain(slow) {
        voice::line(format_args!("{}: {variant} in PyTorch", case.name));
        results.push(peers.run(variant, &Request { store, config: &config, parameters, epochs, warmup, ours })?);
    }
    Ok(())
}
