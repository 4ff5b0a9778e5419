//! `harmonia runs rm`: runs that nobody needs any more.
//!
//! All of them are looked at, and locked, before the first is touched: what is refused leaves everything as it was.

use crate::cli::{say, voice};
use crate::runs::{KnownRun, is_metrics_copy, session_of};
use clap::Args;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::lock::{self, Lock};
use harmonia_graph::units::bytes;
use std::fs;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

/// What commands write into a run directory, beside directories of seeds and folds.
const OWN: &[&str] = &[
    "config.toml",
    "data.json",
    "metrics.jsonl",
    "best.safetensors",
    "last.safetensors",
    "centres.npy",
    "centres.json",
    "measured.jsonl",
    "summary.json",
    "report.html",
    "remove-retrain.json",
    "remove-retrain.svg",
];

#[derive(Args)]
pub struct Arguments {
    /// Run directories
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Also where a directory holds files that no training has written; they are removed with it
    #[arg(long)]
    all: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut locks = Vec::new();
    let mut sizes = Vec::new();
    for path in &arguments.runs {
        let (claimed, size) = claim(path, arguments.all)?;
        locks.extend(claimed);
        sizes.push(size);
    }
    if !arguments.yes && !agreed(&arguments.runs, &sizes)? {
        voice::line("nothing was removed");
        return Ok(());
    }
    for (path, size) in arguments.runs.iter().zip(sizes) {
        fs::remove_dir_all(path).map_err(Error::io("remove", path))?;
        say(&format!("removed {} ({})\n", path.display(), bytes(size)))?;
    }
    drop(locks);
    Ok(())
}

/// The locks of everybody who writes in a run, and its bytes.
fn claim(path: &Path, all: bool) -> Result<(Vec<Lock>, u64)> {
    if path.is_symlink() {
        return Err(Error::file(path, "is a link: name the run directory itself"));
    }
    let known = match KnownRun::read(path) {
        Ok(run) => run,
        // Settings of another program, or damaged: nothing says that it is a run.
        Err(error) if path.exists() => {
            let why = error.to_string();
            let message = match why.contains("is not a run directory") {
                true => return Err(error),
                false => format!("is not removed, as it may be no run: {why}"),
            };
            return Err(Error::file(path, message));
        }
        Err(_) => return Err(Error::file(path, "does not exist")),
    };
    if let Some(session) = session_of(path)? {
        let message = format!("is one of the runs of {}: remove that, or keep both", session.display());
        return Err(Error::file(path, message));
    }
    let mut directories: Vec<&Path> = vec![path];
    directories.extend(known.members.iter().map(|member| member.path.as_path()).filter(|member| *member != path));
    directories.retain(|directory| directory.is_dir());
    let mut found = Found::default();
    look(path, Path::new(""), &mut found)?;
    if let (Some(foreign), false) = (found.foreign.first(), all) {
        let more =
            if found.foreign.len() > 1 { format!(" and {} more", found.foreign.len() - 1) } else { String::new() };
        return Err(Error::file(
            path,
            format!(
                "holds {}{more}, which no training has written: move it away, or remove it too with --all",
                foreign.display()
            ),
        ));
    }
    let locks = directories.into_iter().map(lock::claim).collect::<Result<Vec<_>>>()?;
    Ok((locks, found.bytes))
}

/// What is in a directory.
#[derive(Default)]
struct Found {
    bytes: u64,
    /// Below the directory, what training does not write.
    foreign: Vec<PathBuf>,
}

fn look(directory: &Path, below: &Path, found: &mut Found) -> Result<()> {
    for entry in fs::read_dir(directory).map_err(Error::io("read", directory))?.flatten() {
        let (name, kind) = (entry.file_name(), entry.file_type().map_err(Error::io("read", directory))?);
        let text = name.to_string_lossy().into_owned();
        let is_part = ["seed-", "fold-"].iter().any(|prefix| text.strip_prefix(prefix).is_some_and(is_number));
        if kind.is_dir() && is_part {
            look(&entry.path(), &below.join(&name), found)?;
            continue;
        }
        let is_own =
            kind.is_file() && (OWN.contains(&text.as_str()) || is_metrics_copy(&text) || files::is_passing(&name));
        if !is_own {
            found.foreign.push(below.join(&name));
        }
        found.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
    }
    found.foreign.sort();
    Ok(())
}

fn is_number(text: &str) -> bool {
    text.parse::<u64>().is_ok()
}

/// Asks on a terminal.
fn agreed(runs: &[PathBuf], sizes: &[u64]) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Error::Config("there is no terminal to ask on: --yes removes without asking".into()));
    }
    for (path, &size) in runs.iter().zip(sizes) {
        voice::question(format_args!("{} ({})\n", path.display(), bytes(size)));
    }
    let what = if runs.len() == 1 { "this run".to_string() } else { format!("these {} runs", runs.len()) };
    voice::question(format_args!("remove {what}? [y/N] "));
    let input = Path::new("standard input");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(Error::io("read", input))?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
