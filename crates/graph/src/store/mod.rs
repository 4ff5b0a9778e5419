//! A dataset as a directory of plain `.npy` files and a `meta.json`, so that numpy can read and write it.
//!
//! | file | shape | type | |
//! |---|---|---|---|
//! | `row_ptr.npy` | n + 1 | integer | start of each node's neighbours |
//! | `col_idx.npy` | edges | integer | neighbours, increasing within a row |
//! | `edge_weights.npy` | edges | float | optional, > 0 |
//! | `features.npy` | n x d | float | finite; or, where most values are zero, the three files below |
//! | `features_ptr.npy` | n + 1 | integer | start of each node's non-zero features |
//! | `features_idx.npy` | non-zeros | integer | their columns, increasing within a row |
//! | `features_val.npy` | non-zeros | float | their values |
//! | `labels.npy` | units, or units x width | integer | class of each node or graph (-1: none); 0/1 if multi-label |
//! | `unit_weights.npy` | units | float | optional; how much each unit counts while a model is fitted, > 0 |
//! | `train.npy`, `valid.npy`, `test.npy` | any | integer | unit ids; leave all three out where there is no split |
//! | `splits.npy` | splits x units | u8 | instead of those, for several: 1 train, 2 validation, 3 test, 0 none |
//! | `graph_ptr.npy` | graphs + 1 | integer | optional; first node of each graph |
//! | `node_names.txt` | | text | optional; one name per line |
//! | `node_order.npy` | n | integer | optional; number of each node in the source, where nodes were reordered |
//!
//! Arrays are in C order and little-endian; floats are f16, f32 or f64 (integers will do), integers of any width. An
//! undirected edge is stored in both rows; row i lists the nodes that node i reads from; self-loops are allowed. The
//! nodes of a graph are consecutive and no edge leaves it. An empty split is allowed.
//!
//! What we write is u64 offsets, u32 ids and f32 or f16 values: those are mapped and never read as a whole, so a store of
//! any size opens at once. Other types are converted in memory.
//!
//! `meta.json`: `format` ("harmonia-store"), `version` (1 to 5), `name`, `level` ("node" or "graph"), `classes`, and
//! optionally `multi_label`, `feature_names`, `class_names`; stores that we write also say how large they are
//! (`counts`), whether every edge is stored both ways (`symmetric`), how many edges the source listed (`edge_rows`), by
//! which method nodes were reordered (`node_order`), where they come from (`source`, `generator`) and the SHA-256 of every
//! file (`checksums`). `columns` (version 3) says which columns of a table the features are, where they are more than numbers:
//! name, kind, values of a category, median, and whether its last feature says that a value is missing. `weights` (version 4)
//! is what the table called the column of `unit_weights.npy`. `parts` (version 5) are the bounds of parts of consecutive nodes, for several
//! processes: numbers that rise from 0 to n.

mod checked;
mod lost;
mod map;
mod opened;
mod partition;
mod parts;
mod reader;
mod renumber;
mod space;
mod writer;

pub use lost::name_lost_files;
pub use map::{MappedArray, map as map_file};
pub use opened::damage;
pub use reader::{Store, Verified, is_conversion};
pub use space::check_space;
pub use writer::{ArrayWriter, Description, Stored, Writer};

use crate::dataset::{Dataset, Level, Schema};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Every array a store may hold.
const ARRAYS: [&str; 15] = [
    "row_ptr.npy",
    "col_idx.npy",
    "edge_weights.npy",
    "features.npy",
    "features_ptr.npy",
    "features_idx.npy",
    "features_val.npy",
    "labels.npy",
    UNIT_WEIGHTS,
    "train.npy",
    "valid.npy",
    "test.npy",
    "splits.npy",
    "graph_ptr.npy",
    NODE_ORDER,
];
const NODE_NAMES: &str = "node_names.txt";
const NODE_ORDER: &str = "node_order.npy";
const UNIT_WEIGHTS: &str = "unit_weights.npy";

const FORMAT: &str = "harmonia-store";
/// The newest; version 1 had no sparse features and no description beyond its classes, version 2 no columns of tables, version 3
/// no weights of units, version 4 no parts.
const VERSION: u32 = 5;
/// What is written where there are no parts, so that earlier programs read it.
const WITHOUT_PARTS: u32 = 4;
/// What is written where there are no weights of units either.
const WITHOUT_WEIGHTS: u32 = 3;
/// What is written where there are no columns of tables either.
const WITHOUT_COLUMNS: u32 = 2;

/// Codes of `splits.npy`.
const PARTS: [u8; 3] = [1, 2, 3];

/// `meta.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    format: String,
    version: u32,
    /// Of the dataset: shown to people and written to run directories.
    pub name: String,
    level: StoredLevel,
    /// Classes; labels of each unit of a multi-label task; numbers of each unit of a regression.
    pub classes: usize,
    #[serde(default)]
    multi_label: bool,
    /// Whether `labels.npy` holds numbers to be fitted, NaN where they are not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub regression: bool,
    /// Sizes of the arrays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Whether every edge is stored both ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symmetric: Option<bool>,
    /// Edges the source listed, before merging and mirroring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_rows: Option<u64>,
    /// How its nodes were reordered; `node_order.npy` says which was which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_order: Option<String>,
    /// Files it was converted from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// What a generator knows about the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<serde_json::Value>,
    /// SHA-256 of every file beside this one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checksums: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    class_names: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    feature_names: Vec<String>,
    /// Columns of the table that features were made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Schema>,
    /// What the table called the column that says how much units count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// Bounds of the parts that nodes were divided into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<usize>>,
}

/// Sizes of a store, so that a file of another one is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// n.
    pub nodes: usize,
    /// Entries of the adjacency matrix.
    pub directed_edges: usize,
    /// d.
    pub features: usize,
    /// 1 where there is no `graph_ptr.npy`.
    pub graphs: usize,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Counts { nodes, directed_edges, features, graphs } = self;
        write!(f, "{graphs} graphs, {nodes} nodes, {directed_edges} directed edges, {features} features")
    }
}

/// Where a store comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// What the format is called that it was read from.
    pub format: String,
    /// Settings of the conversion.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
    /// (file name, bytes, time of its last change in seconds) of every file read.
    pub files: Vec<(String, u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredLevel {
    Node,
    Graph,
}

impl From<Level> for StoredLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Node => StoredLevel::Node,
            Level::Graph => StoredLevel::Graph,
        }
    }
}

/// Opens a store and reads what has to be read before it is used.
///
/// # Errors
/// A file is missing or damaged, of a newer version, or does not fit the others.
pub fn read(directory: &Path) -> Result<Dataset> {
    Store::open(directory)?.dataset()
}

/// Writes a dataset as a new store directory.
///
/// # Errors
/// The directory exists already or cannot be written, or the dataset is damaged; nothing is left behind.
pub fn write(dataset: &Dataset, directory: &Path) -> Result<()> {
    let mut writer = Writer::create(directory)?;
    writer.dataset(dataset)?;
    writer.finish(Description::of(dataset))
}

#[cfg(test)]
mod tests;
