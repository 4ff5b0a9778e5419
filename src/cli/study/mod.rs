//! `harmonia study`: a table or figure of the paper, made anew. What is written is in [`writing`], pictures in [`picture`], what is
//! said while it runs in [`progress`].

mod page;
mod picture;
mod progress;
mod writing;

use super::data::DirectoryFlag;
use super::reading::table;
use super::signals::catch_interrupts;
use super::threads::with_threads;
use super::{say, voice};
use crate::studies::paper::{Findings, Peers, STUDIES, Scene, Size, Study, named, run as run_study};
use clap::Args;
use harmonia_graph::error::{Error, Result};
use progress::StudyProgress;
use serde_json::json;
use std::path::{Path, PathBuf};

pub const EXAMPLES: &str = "\
Examples:
  harmonia study list
      every study, and what of the paper it reproduces
  harmonia study recovery --out recovery
      quickly: fewer data and model seeds, minutes at most
  harmonia study recovery --full --out recovery-full
      as in the paper; the same command goes on where it was interrupted
  harmonia study node-accuracy --full --only cora --only 'seed 0' --out accuracy
      a part of it: tables of what is finished; other parts join them in the same directory

In the directory: results.json (everything, each job's record included), results.csv, results.md, a picture per figure (.svg) and
index.html. Exit code 1 where something that is proven does not hold.";

#[derive(Args)]
pub struct Arguments {
    /// Which study, or `list`
    #[arg(value_name = "NAME")]
    name: String,
    /// Fewer seeds and settings: minutes at most (the default)
    #[arg(long, conflicts_with_all = ["full", "smallest"])]
    quick: bool,
    /// The protocol of the paper
    #[arg(long, conflicts_with = "smallest")]
    full: bool,
    /// Every step once, in seconds: for tests
    #[arg(long)]
    smallest: bool,
    /// Only jobs with these words in their name ("cora", "GNAN seed 0"); given twice, with both. The rest is left for later
    #[arg(long, value_name = "WORDS")]
    only: Vec<String>,
    /// Jobs at a time [default: one per thread]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Threads (0: one per core); results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// A Python with PyTorch Geometric: black boxes and explainers of them become rows too
    #[arg(long, value_name = "PYTHON")]
    peers: Option<PathBuf>,
    #[command(flatten)]
    directory: DirectoryFlag,
    /// Where results go [default: runs/study-NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object on stdout
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.name == "list" {
        return list(arguments.json);
    }
    let study = named(&arguments.name)?;
    with_threads(arguments.threads, || of(study, arguments))?
}

fn list(as_json: bool) -> Result<()> {
    if as_json {
        let all: Vec<_> = STUDIES
            .iter()
            .map(|study| json!({ "name": study.name(), "about": study.about(), "source": study.source() }))
            .collect();
        return say(&format!("{:#}\n", json!({ "studies": all })));
    }
    let rows: Vec<Vec<String>> =
        STUDIES.iter().map(|study| [study.name(), study.about()].map(String::from).to_vec()).collect();
    say(&table(&rows, 2))
}

fn of(study: &dyn Study, arguments: &Arguments) -> Result<()> {
    let size = match (arguments.full, arguments.smallest) {
        (true, _) => Size::Full,
        (_, true) => Size::Smallest,
        _ => Size::Quick,
    };
    let stop = catch_interrupts()?;
    let directory = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("runs/study-{}", study.name())));
    let data_dir = arguments.directory.data_dir.as_ref().map_or(String::new(), |path| path.display().to_string());
    let workers = arguments.jobs.map_or(rayon::current_num_threads(), |jobs| jobs as usize);
    let peers = arguments.peers.as_deref().map(|python| peers_of(study, size, python, &directory)).transpose()?;
    let scene = Scene { stop: &stop, data_dir: &data_dir, peers: peers.as_ref() };
    let progress = StudyProgress::new(study.name());
    let result = run_study(study, size, &arguments.only, &directory, workers, &scene, &progress);
    progress.finish();
    let outcome = match result {
        Err(Error::Cancelled) => {
            voice::line(format_args!("{} has what is finished; the same command goes on", directory.display()));
            return Err(Error::Cancelled);
        }
        result => result?,
    };
    let results = writing::json(study, size, &outcome);
    writing::write(&directory, study, size, &outcome, &results)?;
    say(&match arguments.json {
        true => format!("{results:#}\n"),
        false => format!("{}\nwritten to {}\n", writing::text(&outcome.findings), directory.display()),
    })?;
    check(&outcome.findings)
}

/// The Python that was named, for a study that has something to ask it.
fn peers_of(study: &dyn Study, size: Size, python: &Path, directory: &Path) -> Result<Peers> {
    let mut having = Vec::new();
    for known in STUDIES {
        having.extend((!known.peer_jobs(size)?.is_empty()).then(|| known.name()));
    }
    match having.contains(&study.name()) {
        true => Peers::new(python, directory.join("peers")),
        false => Err(Error::Config(format!(
            "--peers: {} has no rows of PyTorch Geometric; {} have",
            study.name(),
            having.join(", ")
        ))),
    }
}

/// A theorem that does not hold is a fault of the program.
fn check(findings: &Findings) -> Result<()> {
    let broken = findings.claims.iter().filter(|claim| claim.theorem && !claim.holds);
    let broken: Vec<String> = broken.map(|claim| format!("{} ({})", claim.text, claim.detail)).collect();
    match broken.is_empty() {
        true => Ok(()),
        false => Err(Error::Internal(format!("what is proven does not hold: {}", broken.join("; ")))),
    }
}
