//! Which files of a directory are which part of a table dataset.
//!
//! A part is told by the name in front of the ending. Two files for one part, or a name that is nearly one of the parts,
//! are refused: a file that is passed over without a word costs its owner a day.

use super::sheet::{EXTENSIONS, Kind, Sheet};
use super::{Columns, Options};
use harmonia_graph::error::{Error, Result, suggestion};
use harmonia_graph::files;
use std::path::{Path, PathBuf};

/// Names of the parts.
const PARTS: [&str; 14] = [
    "edges",
    "nodes",
    "features",
    "labels",
    "splits",
    "graphs",
    "train",
    "valid",
    "validation",
    "val",
    "test",
    "feature_names",
    "class_names",
    "node_names",
];

/// The files that are there.
pub(super) struct Files {
    pub(super) edges: PathBuf,
    pub(super) nodes: Option<PathBuf>,
    pub(super) features: Option<PathBuf>,
    pub(super) labels: Option<PathBuf>,
    pub(super) splits: Option<PathBuf>,
    pub(super) graphs: Option<PathBuf>,
    /// Train, valid, test.
    pub(super) lists: [Option<PathBuf>; 3],
    pub(super) feature_names: Option<PathBuf>,
    pub(super) class_names: Option<PathBuf>,
    pub(super) node_names: Option<PathBuf>,
}

impl Files {
    /// Refuses to ignore a column that no table has: it would be a feature under its right name.
    ///
    /// # Errors
    /// Such a column, with the closest one that is there.
    pub(super) fn check_ignored(&self, columns: &Columns, directory: &Path) -> Result<()> {
        if columns.ignore.is_empty() {
            return Ok(());
        }
        let tables = [&self.nodes, &self.features, &self.labels, &self.splits, &self.graphs];
        let mut names = Vec::new();
        for path in tables.into_iter().chain(&self.lists).flatten().chain([&self.edges]) {
            if matches!(Kind::of(path)?, Kind::Text | Kind::Parquet) {
                // A first row of data has no names; no column is called like it.
                names.extend(Sheet::open(path)?.names(|_| Ok(true))?.unwrap_or_default());
            }
        }
        match columns.ignore.iter().find(|ignored| !names.contains(ignored)) {
            Some(ignored) => {
                let close = suggestion(ignored, names.iter().map(String::as_str));
                let message = format!("no table here has a column `{ignored}` to ignore{close}");
                Err(Error::file(directory, message))
            }
            None => Ok(()),
        }
    }

    /// Looks through the directory; paths given by hand come first.
    ///
    /// # Errors
    /// No edges, two files for one part, or a name that looks misspelt.
    pub(super) fn find(options: &Options) -> Result<Files> {
        let directory = &options.directory;
        files::check_directory(directory)?;
        if !directory.is_dir() {
            return Err(Error::file(directory, "no such directory; expected one with edges.csv and nodes.csv"));
        }
        let mut files: Vec<(String, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(Error::io("read", directory))? {
            let path = entry.map_err(Error::io("read", directory))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            let Some((stem, ending)) = name.split_once('.') else { continue };
            if !EXTENSIONS.contains(&ending) || !path.is_file() {
                continue;
            }
            let stem = stem.to_string();
            // A file given by hand may be called anything.
            if !PARTS.contains(&stem.as_str()) && !options.given().any(|given| same(given, &path)) {
                let close = suggestion(&stem, PARTS);
                if !close.is_empty() {
                    return Err(Error::file(&path, format!("is no part of a table dataset{close}")));
                }
            }
            files.push((stem, path));
        }
        // The order of a directory is an accident.
        files.sort();
        let part = |given: &Option<PathBuf>, stems: &[&str]| -> Result<Option<PathBuf>> {
            if let Some(path) = given {
                return Ok(Some(path.clone()));
            }
            let mut paths = files.iter().filter(|(stem, _)| stems.contains(&stem.as_str())).map(|(_, path)| path);
            match (paths.next(), paths.next()) {
                (Some(first), Some(second)) => {
                    let other = second.file_name().unwrap_or_default().to_string_lossy();
                    Err(Error::file(first, format!("{other} is there too, for the same part; keep one of them")))
                }
                (first, _) => Ok(first.cloned()),
            }
        };
        let Some(edges) = part(&options.edges, &["edges"])? else {
            let message = format!("expected a file edges.{}; found none", EXTENSIONS.join(", edges."));
            return Err(Error::file(directory, message));
        };
        let files = Files {
            edges,
            nodes: part(&options.nodes, &["nodes"])?,
            features: part(&options.features, &["features"])?,
            labels: part(&options.labels, &["labels"])?,
            splits: part(&options.splits, &["splits"])?,
            graphs: part(&options.graphs, &["graphs"])?,
            lists: [part(&None, &["train"])?, part(&None, &["valid", "validation", "val"])?, part(&None, &["test"])?],
            feature_names: part(&None, &["feature_names"])?,
            class_names: part(&None, &["class_names"])?,
            node_names: part(&None, &["node_names"])?,
        };
        if files.nodes.is_none() && files.features.is_none() {
            let message = "expected nodes.* with feature columns, or features.*; found neither. Without features of its \
                           own a graph can be given a constant column or the degrees";
            return Err(Error::file(directory, message));
        }
        Ok(files)
    }
}

fn same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Names, one per line; blank lines at the end are none.
///
/// # Errors
/// Unreadable, not UTF-8, or a blank line between names.
pub(super) fn names(path: &Path) -> Result<Vec<String>> {
    let text = super::delimited::text(path)?;
    let names: Vec<String> = text.trim_end().lines().map(|line| line.trim().to_string()).collect();
    match names.iter().position(String::is_empty) {
        Some(at) => Err(Error::file(path, format!("line {}: expected a name, found a blank line", at + 1))),
        None => Ok(names),
    }
}
