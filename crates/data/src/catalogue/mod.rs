//! The known datasets: where their files come from, how they are checked, under which licence, and what is in them.
//!
//! Data only ([`ALL`], one constant each in `node_sets` and `graph_sets`): locating and fetching are other modules.
//! Invariant: paths are relative, without `..`, and unique within a dataset, so joining one to a directory is safe.

mod graph_sets;
mod node_sets;

use crate::formats::Format;
use harmonia_graph::dataset::Level;
use harmonia_graph::error::{Error, Result, suggestion};

/// What a dataset holds once it is read. Counts of the paper's tables; where those give averages over graphs, the
/// totals behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSizes {
    /// Nodes of all graphs.
    pub nodes: u64,
    /// Edges as the paper counts them: both directions of an edge for Cora and CiteSeer, one row per edge elsewhere.
    pub edge_rows: u64,
    /// Columns of X.
    pub features: u64,
    /// Classes; 2 is a yes/no task.
    pub classes: u64,
    /// Graphs; 1 for a node task.
    pub graphs: u64,
}

/// How the bytes of a file are checked. All that is given must hold. Where `sha256` is not given, the SHA-256 of the
/// first download is recorded beside the file and holds from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// SHA-256 of the file, in lower-case hexadecimal digits.
    pub sha256: Option<&'static str>,
    /// MD5 of the file, where that is what its publisher gives.
    pub md5: Option<&'static str>,
    /// (file name, SHA-256) of members of a zip whose own bytes vary: folders inside the archive do not matter.
    pub members: &'static [(&'static str, &'static str)],
}

impl Checks {
    /// Nothing is published.
    pub const NONE: Checks = Checks { sha256: None, md5: None, members: &[] };

    /// The SHA-256 is known.
    pub const fn sha256(digits: &'static str) -> Checks {
        Checks { sha256: Some(digits), ..Checks::NONE }
    }

    /// The MD5 is published.
    pub const fn md5(digits: &'static str) -> Checks {
        Checks { md5: Some(digits), ..Checks::NONE }
    }

    /// The SHA-256 of members of the zip are known.
    pub const fn members(members: &'static [(&'static str, &'static str)]) -> Checks {
        Checks { members, ..Checks::NONE }
    }
}

/// One file to download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    /// Where it is kept below the dataset's folder, with `/`.
    pub path: &'static str,
    /// Where it comes from.
    pub url: &'static str,
    /// Size; see `approximate`.
    pub bytes: u64,
    /// `bytes` only tells the order of magnitude.
    pub approximate: bool,
    /// How it is checked.
    pub checks: Checks,
}

impl RemoteFile {
    /// The last component of its path.
    pub fn file_name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

/// Other files that serve as well as the downloaded ones, such as an extracted archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLayout {
    /// What the reader is handed: a directory below the searched one, or "" for the searched one itself. With
    /// `is_file` it is the only file.
    pub root: &'static str,
    /// `root` is a file, and `files` is empty.
    pub is_file: bool,
    /// Files below `root` that must all be there.
    pub files: &'static [&'static str],
}

impl FileLayout {
    /// A directory with `files`.
    pub const fn directory(root: &'static str, files: &'static [&'static str]) -> FileLayout {
        FileLayout { root, is_file: false, files }
    }

    /// A single file.
    pub const fn file(name: &'static str) -> FileLayout {
        FileLayout { root: name, is_file: true, files: &[] }
    }
}

/// One known dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// As people ask for it, in lower case.
    pub name: &'static str,
    /// Folder of its files, as people write the name.
    pub folder: &'static str,
    /// Folders that other tools use for the same files.
    pub other_folders: &'static [&'static str],
    /// Which reader reads it.
    pub format: Format,
    /// What carries a label.
    pub task: Level,
    /// Licence of the data, or "not stated".
    pub licence: &'static str,
    /// Where people read about it.
    pub home: &'static str,
    /// Downloaded, all of them, where neither they nor those of a layout are present.
    pub files: &'static [RemoteFile],
    /// What counts as present too.
    pub layouts: &'static [FileLayout],
    /// Counts to expect, which people see before they download it.
    pub shape: KnownSizes,
    /// What a user should know before choosing it.
    pub notes: &'static str,
}

impl Entry {
    /// "node" or "graph".
    pub fn task_name(&self) -> &'static str {
        match self.task {
            Level::Node => "node",
            Level::Graph => "graph",
        }
    }

    /// Bytes of all files, and whether that is only about right.
    pub fn bytes(&self) -> (u64, bool) {
        (self.files.iter().map(|file| file.bytes).sum(), self.files.iter().any(|file| file.approximate))
    }
}

/// Every known dataset, in the order of the paper's tables.
pub const ALL: &[Entry] = &[
    node_sets::CORA,
    node_sets::CITESEER,
    node_sets::TOLOKERS,
    node_sets::OGBN_ARXIV,
    node_sets::IGB_SMALL,
    node_sets::OGBN_PRODUCTS,
    graph_sets::MUTAG,
    graph_sets::PROTEINS,
    graph_sets::DD,
    graph_sets::AIDS,
    graph_sets::MUTAGENICITY,
    graph_sets::HERG_KARIM,
];

/// The dataset of that name. Case does not matter.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
}

/// The dataset a user named.
///
/// # Errors
/// No dataset has that name.
pub fn named(name: &str) -> Result<&'static Entry> {
    find(name).ok_or_else(|| {
        let names = ALL.iter().map(|entry| entry.name);
        Error::Config(format!(
            "there is no dataset `{name}`{}\nknown datasets: {}",
            suggestion(name, names.clone()),
            names.collect::<Vec<_>>().join(", ")
        ))
    })
}

#[cfg(test)]
mod tests;
