//! `harmonia report`: everything about a run in one page.

use super::output::OutputFile;
use super::reading::RunArgument;
use super::watch::Pace;
use super::{say, voice};
use crate::cli::signals;
use crate::report::{self, Request};
use crate::runs::{Names, TrainedRun, members};
use clap::Args;
use harmonia_graph::dataset::Level;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::units::thousands;
use harmonia_graph::watch::{Report, Watch};
use serde_json::json;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Nodes from which on a diagnosis takes minutes.
const LARGE: usize = 300_000;

pub const EXAMPLES: &str = "\
Examples:
  harmonia report runs/cora-1
      writes runs/cora-1/report.html: one file, no network, open it with a double click
  harmonia report runs/cora-1 --node 42 --node 7 --out cora.html
      with these nodes explained
  harmonia report runs/mutag-1 --graph 7
      graph tasks
  harmonia report runs/cora-2
      of a run with several seeds: the first one, and how well the others agree";

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgument,
    /// Node to explain; may be repeated [default: the surest right, the surest wrong and the least sure prediction]
    #[arg(long, value_name = "NODE", conflicts_with = "graph")]
    node: Vec<String>,
    /// Graph to explain; may be repeated
    #[arg(long, value_name = "NUMBER")]
    graph: Vec<usize>,
    /// File to write; - is standard output [default: report.html in the run directory]
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// Leave out the diagnosis of the graph, which takes minutes on millions of nodes
    #[arg(long)]
    quick: bool,
    /// Also print what the page shows as one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.run.with(|| {
        let out = arguments.out.clone().unwrap_or_else(|| arguments.run.run.join("report.html"));
        let file = OutputFile::new("--out", &out, &["html"])?.beside_json("--out", arguments.json)?;
        check_complete(&arguments.run.run)?;
        let runs = arguments.run.all()?;
        let units = units(arguments, &runs[0])?;
        let nodes = runs[0].dataset.graph.nodes();
        if !arguments.quick && nodes >= LARGE {
            voice::note(format_args!(
                "diagnosing a graph of {} nodes takes minutes; --quick leaves it out",
                thousands(nodes as u64)
            ));
        }
        let heard = RefCell::new((String::new(), Pace::default(), Instant::now()));
        let progress = |report: Report<'_>| {
            let (what, done, total) = match report {
                Report::Step(what) => (what, 0, 0),
                Report::Progress(what, done, total) => (what, done, total),
            };
            let (last, pace, told) = &mut *heard.borrow_mut();
            let left = if total > 0 { pace.left(what, done, total) } else { String::new() };
            if last != what {
                voice::line(format_args!("{what} ..."));
                (*last, *told) = (what.to_string(), Instant::now());
            } else if !left.is_empty() && told.elapsed().as_secs_f64() >= voice::seconds_between_lines() {
                voice::line(format_args!("{what}: {done} of {total}{left}"));
                *told = Instant::now();
            }
        };
        let watch = Watch::new(&progress, signals::stop());
        let request = Request { runs: &runs, units: &units, diagnose: !arguments.quick, watch: &watch };
        let data = report::full(&request)?;
        file.write(&report::html(&data)?)?;
        match arguments.json {
            true => say(&format!("{:#}\n", json!(data))),
            false if file.is_stdout() => Ok(()),
            false => say(&format!("{}\n", out.display())),
        }
    })
}

/// Refuses a run without a result before its data are read, which may take minutes.
fn check_complete(run: &Path) -> Result<()> {
    let all = members(run)?;
    match all.first().filter(|first| !first.join("summary.json").is_file()) {
        Some(first) => Err(Error::file(
            first,
            format!(
                "is not complete, so there is no result to report: continue it with harmonia-train --resume {}, or read its best \
                 epoch so far with harmonia explain",
                run.display()
            ),
        )),
        None => Ok(()),
    }
}

fn units(arguments: &Arguments, run: &TrainedRun) -> Result<Vec<usize>> {
    let names = Names::of(run);
    match run.dataset.level {
        Level::Node if !arguments.graph.is_empty() => {
            Err(Error::Config("this model predicts nodes, not graphs: use --node".into()))
        }
        Level::Node => arguments.node.iter().map(|node| names.find_node(node)).collect(),
        Level::Graph if !arguments.node.is_empty() => {
            Err(Error::Config("this model predicts graphs, not nodes: use --graph".into()))
        }
        Level::Graph => match arguments.graph.iter().find(|&&graph| graph >= run.dataset.graphs()) {
            Some(graph) => {
                let last = run.dataset.graphs() - 1;
                Err(Error::Data(format!("there is no graph {graph}: the dataset has graphs 0 to {last}")))
            }
            None => Ok(arguments.graph.clone()),
        },
    }
}
