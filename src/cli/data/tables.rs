//! `harmonia data tables`: tables of walks that are kept beside a store.

use super::{DirectoryFlag, info};
use crate::cli::say;
use crate::tabulate::kept::{self, TableDescription};
use clap::Args;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::units::{bytes, thousands};
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct Arguments {
    /// Store directory, or the name of a known dataset
    #[arg(value_name = "STORE|NAME")]
    store: String,
    /// Remove the table with this key, or `all`; it is made again when it is needed
    #[arg(long, value_name = "KEY")]
    remove: Option<String>,
    /// As one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: DirectoryFlag,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let store = info::existing(&arguments.store, &arguments.directory)?;
    let home = kept::beside(&std::path::absolute(&store).unwrap_or(store.clone()))
        .ok_or_else(|| Error::file(&store, "is no name for a store"))?;
    let tables = kept::list(&home)?;
    let removed = match &arguments.remove {
        Some(key) => remove(&tables, key)?,
        None => Vec::new(),
    };
    let left: Vec<_> = tables.into_iter().filter(|(path, _)| !removed.contains(path)).collect();
    if left.is_empty() {
        // Only where nothing else is in it.
        let _ = std::fs::remove_dir(&home);
    }
    say(&if arguments.json { as_json(&home, &left, &removed) } else { text(&home, &left, &removed) })
}

fn key(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn remove(tables: &[(PathBuf, Option<TableDescription>)], wanted: &str) -> Result<Vec<PathBuf>> {
    let chosen: Vec<PathBuf> =
        tables.iter().map(|(path, _)| path.clone()).filter(|path| wanted == "all" || key(path) == wanted).collect();
    if chosen.is_empty() && wanted != "all" {
        let known: Vec<String> = tables.iter().map(|(path, _)| key(path)).collect();
        let known = if known.is_empty() { "there is none".into() } else { format!("there is {}", known.join(", ")) };
        return Err(Error::Data(format!("there is no table `{wanted}` here; {known}")));
    }
    for path in &chosen {
        // What says that it is whole goes first: a kill in between leaves an unfinished table.
        let _ = std::fs::remove_file(path.join("table.json"));
        std::fs::remove_dir_all(path).map_err(Error::io("remove", path))?;
    }
    Ok(chosen)
}

fn text(home: &Path, tables: &[(PathBuf, Option<TableDescription>)], removed: &[PathBuf]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    for path in removed {
        let _ = writeln!(out, "removed {}", key(path));
    }
    if tables.is_empty() {
        let _ = writeln!(out, "no tables in {}", home.display());
        return out;
    }
    let _ = writeln!(out, "{:<18}{:>12}{:>6}{:>8}{:>6}{:>10}", "key", "rows", "hops", "points", "bits", "size");
    for (path, about) in tables {
        let _ = match about {
            Some(about) => writeln!(
                out,
                "{:<18}{:>12}{:>6}{:>8}{:>6}{:>10}",
                key(path),
                thousands(about.units as u64),
                about.hops,
                about.points,
                about.bits,
                bytes(about.bytes as u64)
            ),
            None => writeln!(out, "{:<18}not finished; training goes on with it", key(path)),
        };
    }
    let _ = writeln!(out, "\nin {}", home.display());
    out
}

fn as_json(home: &Path, tables: &[(PathBuf, Option<TableDescription>)], removed: &[PathBuf]) -> String {
    let entries: Vec<_> = (tables.iter())
        .map(|(path, about)| json!({ "key": key(path), "finished": about.is_some(), "table": about }))
        .collect();
    let removed: Vec<_> = removed.iter().map(|path| key(path)).collect();
    format!("{}\n", json!({ "directory": home, "tables": entries, "removed": removed }))
}
