//! `harmonia data list`.

use super::DirectoryFlag;
use crate::cli::say;
use clap::Args;
use harmonia_data::catalogue::{self, Entry};
use harmonia_data::{locate, obtain};
use harmonia_graph::error::Result;
use harmonia_graph::units::{bytes, thousands};
use serde_json::json;
use std::fmt::Write;
use std::path::Path;

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    directory: DirectoryFlag,
    /// As one JSON array
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let directory = locate::data_directory(arguments.directory.data_dir.as_deref())?;
    if arguments.json {
        let entries: Vec<_> = catalogue::ALL.iter().map(|entry| as_json(entry, &directory)).collect();
        return say(&format!("{}\n", serde_json::Value::Array(entries)));
    }
    say(&text(&directory))
}

/// Whether a dataset is ready to use, needs converting, or is not here.
fn state(entry: &Entry, directory: &Path) -> &'static str {
    let raw = locate::find_raw(entry, directory);
    match (obtain::existing(entry, directory, raw.as_ref()), raw) {
        (Ok(Some(_)), _) => "cached",
        (Ok(None), Some(_)) => "raw files",
        (Ok(None), None) => "-",
        (Err(_), _) => "damaged",
    }
}

fn text(directory: &Path) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{:<14}{:<7}{:>9}{:>12}{:>13}{:>10}{:>9}  {:>9}  {:<10}{:<37}licence",
        "name", "task", "graphs", "nodes", "edges", "features", "classes", "download", "here", "source"
    );
    for entry in catalogue::ALL {
        let (size, about) = entry.bytes();
        let shape = &entry.shape;
        let _ = writeln!(
            out,
            "{:<14}{:<7}{:>9}{:>12}{:>13}{:>10}{:>9}  {:>9}  {:<10}{:<37}{}",
            entry.name,
            entry.task_name(),
            thousands(shape.graphs),
            thousands(shape.nodes),
            thousands(shape.edge_rows),
            thousands(shape.features),
            shape.classes,
            format!("{}{}", if about { "~" } else { "" }, bytes(size)),
            state(entry, directory),
            entry.files.first().map_or("-", |file| host(file.url)),
            entry.licence,
        );
    }
    let _ = writeln!(
        out,
        "\nsynthetic      node   the study with a known generator, made in place\n\nlooked in {}; edges are counted as in the paper's tables; `cached` is ready to train on, \
         `raw files` are converted on first use. Addresses: --json",
        directory.display()
    );
    out
}

/// The machine of an address.
fn host(url: &str) -> &str {
    url.split('/').nth(2).unwrap_or(url)
}

fn as_json(entry: &Entry, directory: &Path) -> serde_json::Value {
    let shape = &entry.shape;
    json!({
        "name": entry.name,
        "task": entry.task_name(),
        "format": entry.format.name(),
        "graphs": shape.graphs,
        "nodes": shape.nodes,
        "edges": shape.edge_rows,
        "features": shape.features,
        "classes": shape.classes,
        "licence": entry.licence,
        "home": entry.home,
        "notes": entry.notes,
        "bytes": entry.bytes().0,
        "here": state(entry, directory),
        "files": entry.files.iter().map(|file| json!({
            "path": format!("{}/{}", entry.folder, file.path),
            "url": file.url,
            "bytes": file.bytes,
            "sha256": file.checks.sha256,
            "md5": file.checks.md5,
        })).collect::<Vec<_>>(),
    })
}
