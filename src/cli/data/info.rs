//! `harmonia data info`: what a store holds, for people or as JSON.

use super::{AccessFlags, DirectoryFlag, partition};
use crate::cli::signals;
use crate::cli::{say, watch};
use clap::Args;
use harmonia_data::download::{self, FileCheck};
use harmonia_data::statistics::{Degrees, FeatureRange, Statistics};
use harmonia_data::{catalogue, is_store, locate, obtain};
use harmonia_graph::dataset::{Dataset, NodeOrder, TableColumn, Values};
use harmonia_graph::error::{Error, Result, one_line, suggestion};
use harmonia_graph::graph::partition::Survey;
use harmonia_graph::store::{Store, Verified};
use harmonia_graph::units::thousands;
use harmonia_graph::watch::Watch;
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Features and classes shown in full; --all shows more.
const SHOWN: usize = 20;
/// Characters of the longest bar.
const BAR: usize = 40;

#[derive(Args)]
pub struct Arguments {
    /// Store directory, or the name of a known dataset
    #[arg(value_name = "STORE|NAME")]
    store: String,
    /// Recompute the checksum of every file
    #[arg(long)]
    verify: bool,
    /// Show every feature and class
    #[arg(long)]
    all: bool,
    /// As one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: DirectoryFlag,
    #[command(flatten)]
    access: AccessFlags,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let place = place(arguments)?;
    let verified = if arguments.verify { Store::verify(&place, &signals::stop())? } else { Vec::new() };
    refuse_changed(&place, &verified)?;
    let raw = if arguments.verify { verified_raw(arguments)? } else { Vec::new() };
    let store = Store::open(&place)?;
    let meta = store.meta.clone();
    // Having asked for a verification, nobody wants to hear what was found some other day.
    let dataset = if arguments.verify { store.read_through()? } else { store.dataset()? };
    let statistics = Statistics::of(&dataset);
    let watch = Watch::new(&|_| (), signals::stop());
    let survey = dataset.parts.as_deref().map(|bounds| Survey::of(&dataset.graph, bounds, &watch)).transpose()?;
    if arguments.json {
        let object = json!({
            "store": place,
            "name": dataset.name,
            "edge_rows": meta.edge_rows,
            "symmetric": dataset.graph.is_symmetric(),
            "source": meta.source,
            "generator": meta.generator,
            "node_order": dataset.node_order.as_ref().map(|order| &order.method),
            "parts": dataset.parts.as_deref(),
            "survey": survey,
            "verified": verified.iter().map(|file| &file.file).collect::<Vec<_>>(),
            "statistics": statistics,
        });
        return say(&format!("{object}\n"));
    }
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = text(&mut out, &place, &dataset, &statistics, meta.edge_rows, arguments.all);
    if let Some(survey) = &survey {
        let _ = writeln!(out, "\n{:<18}{}", "parts", survey.parts.len());
        let _ = partition::table(&mut out, survey);
    }
    if let Some(generator) = &meta.generator {
        let _ = teacher(&mut out, generator);
    }
    for file in &raw {
        let verdict = if file.verdict == FileCheck::Matches { "as published" } else { "no checksum to compare with" };
        let name = file.path.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(out, "{name:<18}{}  {verdict}", file.sha256);
    }
    for file in &verified {
        let verdict = if file.expected.is_some() { "as written" } else { "no checksum to compare with" };
        let _ = writeln!(out, "{:<18}{}  {verdict}", file.file, file.found);
    }
    say(&out)
}

fn place(arguments: &Arguments) -> Result<PathBuf> {
    match catalogue::find(&arguments.store) {
        Some(entry) => watch::with(&arguments.access.access(), |context| {
            obtain::store_of(entry, arguments.directory.data_dir.as_deref(), context)
        }),
        None => given(&arguments.store),
    }
}

/// The store of a dataset that is here already.
pub(super) fn existing(store: &str, directory: &DirectoryFlag) -> Result<PathBuf> {
    let Some(entry) = catalogue::find(store) else { return given(store) };
    let directory = locate::data_directory(directory.data_dir.as_deref())?;
    let raw = locate::find_raw(entry, &directory);
    obtain::existing(entry, &directory, raw.as_ref())?.ok_or_else(|| {
        Error::Config(format!("there is no store of {} in {} yet; training makes it", entry.name, directory.display()))
    })
}

/// A store by its path.
fn given(store: &str) -> Result<PathBuf> {
    match store {
        store if is_store(store) => Ok(PathBuf::from(store)),
        store if store.eq_ignore_ascii_case("synthetic") => {
            let message = "the synthetic study is made in place when it is trained on, there is no store of it; its sizes: \
                           harmonia-train --dry-run";
            Err(Error::Config(message.into()))
        }
        _ => {
            let names = catalogue::ALL.iter().map(|entry| entry.name);
            let message = format!(
                "there is no store and no dataset `{store}`{}; harmonia data list shows the known ones",
                suggestion(store, names)
            );
            Err(Error::Config(message))
        }
    }
}

/// The raw files of a known dataset, as far as they are here, held against what their publisher says.
fn verified_raw(arguments: &Arguments) -> Result<Vec<download::VerifiedFile>> {
    let Some(entry) = catalogue::find(&arguments.store) else { return Ok(Vec::new()) };
    let directory = locate::data_directory(arguments.directory.data_dir.as_deref())?;
    obtain::verify_raw(entry, &directory, &signals::stop())
}

fn refuse_changed(place: &Path, verified: &[Verified]) -> Result<()> {
    match verified.iter().find(|file| file.expected.as_ref().is_some_and(|expected| *expected != file.found)) {
        Some(file) => {
            let expected = file.expected.as_deref().unwrap_or_default();
            let message = format!(
                "its SHA-256 is {}, expected {expected}: the file has changed since it was written; make the store again",
                file.found
            );
            Err(Error::file(&place.join(&file.file), message))
        }
        None => Ok(()),
    }
}

fn text(
    out: &mut String,
    place: &Path,
    dataset: &Dataset,
    statistics: &Statistics,
    edge_rows: Option<u64>,
    all: bool,
) -> std::fmt::Result {
    let number = |value: usize| thousands(value as u64);
    let s = statistics;
    writeln!(out, "{} ({})", dataset.name, place.display())?;
    let graphs = if s.graphs > 1 { format!("{} graphs, ", number(s.graphs)) } else { String::new() };
    writeln!(out, "{:<18}{graphs}{} nodes, {} directed edges", "size", number(s.nodes), number(s.directed_edges))?;
    let kind = match s.undirected_edges {
        Some(edges) => format!("undirected: {} edges", number(edges)),
        None => "directed".into(),
    };
    let listed = edge_rows.map_or(String::new(), |rows| format!("; the source lists {}", thousands(rows)));
    let weights = if s.weighted { ", weighted" } else { "" };
    writeln!(out, "{:<18}{kind}{weights}, {} self-loops{listed}", "edges", number(s.self_loops))?;
    if let Some(NodeOrder { method, .. }) = &dataset.node_order {
        let method = if method.is_empty() { "not that of the source".into() } else { one_line(method) };
        writeln!(out, "{:<18}{method}; numbers in the source: node_order.npy", "order of nodes")?;
    }
    writeln!(out, "{:<18}{}", "isolated nodes", number(s.isolated_nodes))?;
    let apart = if s.graphs > 1 {
        format!("; {} graphs are disconnected", number(s.disconnected_graphs))
    } else {
        String::new()
    };
    writeln!(
        out,
        "{:<18}{}, the largest of {} nodes{apart}",
        "components",
        number(s.components),
        number(s.largest_component)
    )?;
    degrees(out, &s.degree)?;
    let form = match dataset.features.values() {
        Values::Dense(_) => "dense f32",
        Values::Half(_) => "dense f16",
        Values::Sparse(_) => "sparse f32",
    };
    writeln!(out, "\n{:<18}{}, {form}, {:.2} % not zero", "features", number(s.features), 100.0 * s.non_zero)?;
    let shown = if all { s.ranges.len() } else { s.ranges.len().min(SHOWN) };
    writeln!(out, "  {:<28}{:>12}{:>12}{:>12}{:>14}", "name", "least", "mean", "most", "not zero")?;
    for FeatureRange { name, least, mean, most, non_zero } in &s.ranges[..shown] {
        let columns = dataset.schema.as_deref().map_or(&[][..], |schema| &schema.columns);
        let unit = columns.iter().find(|column| column.name == *name).and_then(TableColumn::unit);
        let unit = unit.map_or(String::new(), |unit| format!("  {unit}"));
        writeln!(out, "  {name:<28}{least:>12.4}{mean:>12.4}{most:>12.4}{:>14}{unit}", number(*non_zero))?;
    }
    rest(out, s.ranges.len() - shown, "features")?;

    let unit = if s.graphs > 1 && dataset.level == harmonia_graph::dataset::Level::Graph { "graphs" } else { "nodes" };
    writeln!(out, "\n{:<18}{} of {unit}, {} without a label", "classes", s.classes.len(), number(s.unlabelled))?;
    let total: usize = s.classes.iter().map(|(_, count)| count).sum();
    let shown = if all { s.classes.len() } else { s.classes.len().min(SHOWN) };
    for (name, count) in &s.classes[..shown] {
        let share = 100.0 * *count as f64 / total.max(1) as f64;
        writeln!(out, "  {name:<28}{:>12}{share:>9.1} %", number(*count))?;
    }
    rest(out, s.classes.len() - shown, "classes")?;

    match &s.splits[..] {
        [] => writeln!(out, "\n{:<18}none of its own: folds are drawn by seed", "splits"),
        splits => {
            writeln!(out, "\n{:<18}{}", "splits", splits.len())?;
            for (at, (train, valid, test)) in splits.iter().enumerate() {
                writeln!(
                    out,
                    "  {at:<4}train {}, validation {}, test {}",
                    number(*train),
                    number(*valid),
                    number(*test)
                )?;
            }
            Ok(())
        }
    }
}

/// What is known about made-up labels.
fn teacher(out: &mut String, generator: &serde_json::Value) -> std::fmt::Result {
    let percent = |key: &str| generator[key].as_f64().map_or("-".into(), |share| format!("{:.1} %", 100.0 * share));
    writeln!(
        out,
        "\n{:<18}labels of a known teacher: right {} of the time, {} with hop 0 alone; the largest class has {}",
        "generator",
        percent("teacher_accuracy"),
        percent("local_accuracy"),
        percent("majority_share")
    )?;
    for column in generator["truth"]["columns"].as_array().into_iter().flatten() {
        let (feature, hop) = (&column["feature"], &column["hop"]);
        writeln!(out, "  feature {feature:<6} at hop {hop} through {}", column["response"].as_str().unwrap_or("-"))?;
    }
    Ok(())
}

fn rest(out: &mut String, count: usize, what: &str) -> std::fmt::Result {
    match count {
        0 => Ok(()),
        _ => writeln!(out, "  ... and {count} more {what} (--all)"),
    }
}

fn degrees(out: &mut String, degrees: &Degrees) -> std::fmt::Result {
    let Degrees { least, median, mean, most, histogram } = degrees;
    writeln!(out, "\n{:<18}{least} to {most}, median {median}, mean {mean:.2}", "neighbours")?;
    let largest = histogram.iter().map(|(_, nodes)| *nodes).max().unwrap_or(0).max(1);
    for (at, (lowest, nodes)) in histogram.iter().enumerate() {
        let highest = histogram.get(at + 1).map_or(*most, |(next, _)| next - 1);
        let range = if *lowest >= highest { lowest.to_string() } else { format!("{lowest}-{highest}") };
        // Any node at all shows.
        let bar = "#".repeat((nodes * BAR).div_ceil(largest));
        writeln!(out, "  {range:<16}{:>12}  {bar}", thousands(*nodes as u64))?;
    }
    Ok(())
}
