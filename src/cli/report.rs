//! `harmonia report`: everything about a run in one page.

use super::new_data::{self, TableFlags};
use super::output::OutputFile;
use super::reading::RunArgument;
use super::watch::Pace;
use super::{say, voice};
use crate::cli::signals;
use crate::report::{self, Request};
use crate::runs::{Names, ReadModel, SavedModel, TrainedRun, members};
use clap::Args;
use harmonia_graph::dataset::Level;
use harmonia_graph::error::{Error, Result, one_line};
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
      of a run with several seeds: the first one, and how well the others agree
  harmonia report runs/customers-1 --data new/ --out new.html
      what the model does with new tables; scores are those of training";

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgument,
    /// Other data to look at: a directory of tables, a store, or the name of a dataset [default: what it was trained on; where that is
    /// not here, the page is made of what the run knows]
    #[arg(long, value_name = "DATA", requires = "out")]
    data: Option<String>,
    #[command(flatten)]
    tables: TableFlags,
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
        let first = check_complete(&arguments.run.run)?;
        let run = opened(arguments, &first)?;
        let units = run.as_ref().map_or(Ok(Vec::new()), |run| units(arguments, run))?;
        let nodes = run.as_ref().map_or(0, |run| run.dataset.graph.nodes());
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
        let models = models(arguments, run.as_ref(), &watch)?;
        let data = report::full(&Request {
            models: &models,
            run: run.as_ref(),
            other: arguments.data.is_some(),
            units: &units,
            diagnose: !arguments.quick,
            watch: &watch,
        })?;
        file.write(&report::html(&data)?)?;
        match arguments.json {
            true => say(&format!("{:#}\n", json!(data))),
            false if file.is_stdout() => Ok(()),
            false => say(&format!("{}\n", out.display())),
        }
    })
}

/// The first model with the data that are asked for; none where those of training are not here, having said so.
fn opened(arguments: &Arguments, first: &Path) -> Result<Option<TrainedRun>> {
    if let Some(data) = &arguments.data {
        return Ok(Some(new_data::open(&arguments.run, data, &arguments.tables)?));
    }
    arguments.tables.refuse()?;
    let saved = SavedModel::open(first)?;
    if arguments.run.has_data(&saved.config) {
        return Ok(Some(arguments.run.open(first)?));
    }
    let name = one_line(&saved.config.data.dataset);
    if !arguments.node.is_empty() || !arguments.graph.is_empty() {
        return Err(Error::Config(format!(
            "single predictions need data, and those of training ({name}) are not here: bring them back, or give others with --data"
        )));
    }
    voice::note(format_args!(
        "the data of training ({name}) are not here: the page has what the run knows, without single predictions and diagnosis"
    ));
    Ok(None)
}

/// The models of the page; what their directories do not know is measured on the data.
fn models(arguments: &Arguments, run: Option<&TrainedRun>, watch: &Watch<'_>) -> Result<Vec<ReadModel>> {
    let Some(run) = run else { return arguments.run.models(true) };
    watch.step("importance of features");
    if arguments.data.is_some() {
        return Ok(vec![ReadModel::on(run, watch)?]);
    }
    let mut all = members(&arguments.run.run)?.iter().map(|path| ReadModel::open(path)).collect::<Result<Vec<_>>>()?;
    for (at, model) in all.iter_mut().enumerate() {
        // What was measured on other data than there are now is not shown beside these.
        model.measured.take_if(|_| run.changed.is_some());
        match model.lacks(true) {
            true if at == 0 => model.complete(run, true, watch)?,
            true => model.complete(&arguments.run.open(&model.path)?, true, watch)?,
            false => {}
        }
    }
    Ok(all)
}

/// The first model of a run. Refuses a run without a result before its data are read, which may take minutes.
fn check_complete(run: &Path) -> Result<PathBuf> {
    let mut all = members(run)?;
    match all.first().filter(|first| !first.join("summary.json").is_file()) {
        Some(first) => Err(Error::file(
            first,
            format!(
                "is not complete, so there is no result to report: continue it with harmonia-train --resume {}, or read its best \
                 epoch so far with harmonia explain",
                run.display()
            ),
        )),
        None => Ok(all.swap_remove(0)),
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
