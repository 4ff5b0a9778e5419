//! `harmonia data partition`: a store whose nodes are divided into parts, for several processes.
//!
//! METIS takes signals for itself and cannot be asked to stop, so it works in a process of its own: this program, started with
//! `--child`, which writes the part of each node into a file of the unfinished store.

use super::convert::described;
use super::{DirectoryFlag, info};
use crate::cli::bench::child;
use crate::cli::threads::with_threads;
use crate::cli::{say, watch};
use clap::{Args, ValueEnum};
use harmonia_graph::error::{Error, Result, one_line};
use harmonia_graph::files;
use harmonia_graph::graph::partition::{self, Metis, Part, Survey};
use harmonia_graph::store::{self, Description, Store, Writer};
use harmonia_graph::units::thousands;
use harmonia_graph::watch::Watch;
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// In the unfinished store.
const PART_OF: &str = "part-of-nodes";
/// What METIS prints is not worth waiting for.
const GRACE: Duration = Duration::ZERO;

#[derive(Args)]
pub struct Arguments {
    /// Store directory, or the name of a known dataset
    #[arg(value_name = "STORE|NAME")]
    store: String,
    /// How many parts: one for each process
    #[arg(long, value_name = "P")]
    parts: usize,
    /// How nodes are divided
    #[arg(long, value_name = "METHOD", default_value = "ranges")]
    method: Method,
    /// Directory to make
    #[arg(long, value_name = "STORE", required_unless_present = "child")]
    out: Option<PathBuf>,
    /// What there is to say as one JSON object
    #[arg(long)]
    json: bool,
    /// Threads (0: one per core); the store does not depend on it
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    directory: DirectoryFlag,
    /// Divide the store by METIS and write the part of each node into this file
    #[arg(long, hide = true, value_name = "FILE")]
    child: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    /// Cut where they are, into stretches of nearly equal cost
    Ranges,
    /// Renumbered so that few edges lead from one part to another, by METIS (libmetis5)
    Metis,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::Ranges => "ranges",
            Method::Metis => "metis",
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(file) = &arguments.child {
        return divide(Path::new(&arguments.store), arguments.parts, file);
    }
    let Some(out) = &arguments.out else { return Err(Error::Config("--out: expected a directory to make".into())) };
    if out.exists() {
        return Err(Error::file(out, "already exists; remove it or choose another --out"));
    }
    let place = info::existing(&arguments.store, &arguments.directory)?;
    let store = Store::open(&place)?;
    let counts = store.counts();
    if !(1..=counts.nodes).contains(&arguments.parts) {
        return Err(Error::Config(format!(
            "--parts {}: expected 1 to {}, the nodes of {}",
            arguments.parts,
            counts.nodes,
            place.display()
        )));
    }
    if arguments.method == Method::Metis {
        store.check_one_graph()?;
        Metis::check_size(counts.nodes, counts.directed_edges)?;
        Metis::open()?;
    }
    let start = Instant::now();
    let survey = with_threads(arguments.threads, || {
        watch::with(&Default::default(), |context| write(arguments, &place, store, out, &context.watch))
    })??;
    if arguments.json {
        let object = json!({
            "store": out,
            "method": arguments.method.name(),
            "bounds": bounds(&survey),
            "survey": survey,
            "seconds": start.elapsed().as_secs_f64(),
        });
        return say(&format!("{object}\n"));
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = table(&mut text, &survey);
    say(&format!("{}\n\n{text}\n{:.1} s\n", described(out)?, start.elapsed().as_secs_f64()))
}

fn bounds(survey: &Survey) -> Vec<usize> {
    let end = survey.parts.last().map(|part| part.first + part.nodes);
    survey.parts.iter().map(|part| part.first).chain(end).collect()
}

/// Writes the store and counts what its parts read of each other.
fn write(arguments: &Arguments, place: &Path, store: Store, out: &Path, watch: &Watch) -> Result<Survey> {
    let mut writer = Writer::create(out)?.stopping(watch.stop());
    store::check_space(writer.directory(), store.bytes()?)?;
    let description = store.description();
    let bounds = match arguments.method {
        Method::Ranges => {
            writer.copy(&store, watch)?;
            partition::ranges(store.row_ptr(), arguments.parts)
        }
        Method::Metis => {
            let file = writer.directory().join(PART_OF);
            watch.step("dividing nodes by METIS");
            metis(place, arguments.parts, &file)?;
            let part_of = part_of(&file, store.counts().nodes)?;
            let (order, bounds) = partition::numbered(&part_of, arguments.parts)?;
            drop(part_of);
            writer.renumbered_copy(&store, arguments.method.name(), &order, watch)?;
            bounds
        }
    };
    drop(store);
    watch.step("checking");
    writer.finish(Description { parts: Some(bounds), ..description })?;
    let dataset = store::read(out)?;
    Survey::of(&dataset.graph, dataset.parts.as_deref().unwrap_or_default(), watch)
}

/// What `--child` does.
fn divide(store: &Path, parts: usize, file: &Path) -> Result<()> {
    let part_of = Metis::open()?.k_way(&store::read(store)?.graph, parts)?;
    std::fs::write(file, bytemuck::cast_slice(&part_of)).map_err(Error::io("write", file))
}

/// Has METIS write the part of each node into a file.
fn metis(store: &Path, parts: usize, file: &Path) -> Result<()> {
    let program = std::env::current_exe().map_err(Error::io("find", Path::new("this program")))?;
    let mut command = Command::new(&program);
    command.args(["data", "partition"]).arg(store).args(["--parts", &parts.to_string()]).arg("--child").arg(file);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let finished = child::run(command, &program, None, GRACE)?;
    if finished.status.success() {
        return Ok(());
    }
    let message = finished.stderr.trim();
    let message = message.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or(message);
    // What is wrong with the data says so itself.
    match finished.status.code() {
        Some(2) => Err(Error::Config(message.into())),
        _ => Err(Error::Device(format!(
            "METIS failed ({}): set method = ranges, or leave it more memory",
            child::reason(finished.status, &one_line(message))
        ))),
    }
}

fn part_of(file: &Path, nodes: usize) -> Result<Vec<u32>> {
    let bytes = files::read(file)?;
    std::fs::remove_file(file).map_err(Error::io("remove", file))?;
    match bytes.as_chunks() {
        (words, []) if words.len() == nodes => Ok(words.iter().map(|&word| u32::from_ne_bytes(word)).collect()),
        _ => Err(Error::file(file, format!("has {} bytes for {nodes} nodes", bytes.len()))),
    }
}

/// Sizes of all parts, for people.
pub(super) fn table(out: &mut String, survey: &Survey) -> std::fmt::Result {
    let directed = survey.parts.iter().any(|part| part.halo != part.halo_of_transpose);
    let backwards = if directed { format!("{:>14}", "read by") } else { String::new() };
    writeln!(
        out,
        "{:<6}{:>14}{:>14}{:>16}{:>14}{:>14}{backwards}",
        "part", "first node", "nodes", "entries", "cut", "halo"
    )?;
    for (at, part) in survey.parts.iter().enumerate() {
        let Part { first, nodes, entries, cut, halo, halo_of_transpose } = *part;
        let [first, nodes] = [first, nodes].map(|number| thousands(number as u64));
        let [entries, cut, halo, transposed] = [entries, cut, halo, halo_of_transpose].map(thousands);
        let backwards = if directed { format!("{transposed:>14}") } else { String::new() };
        writeln!(out, "{at:<6}{first:>14}{nodes:>14}{entries:>16}{cut:>14}{halo:>14}{backwards}")?;
    }
    let Survey { entries, cut, cut_share, balance, .. } = survey;
    writeln!(
        out,
        "edge cut {} of {} entries ({:.2} %), balance {balance:.3} (the largest part by the mean)",
        thousands(*cut),
        thousands(*entries),
        100.0 * cut_share
    )?;
    let read = if directed { "; read by: nodes of others that read its own" } else { "" };
    writeln!(out, "halo: nodes of other parts that its rows read{read}")
}
