//! Writes a store beside its place and renames it, so that a crash never leaves half of one.

use super::{FORMAT, Meta, StoredLevel, VERSION, npy};
use crate::datasets::{Dataset, Labels, Level, UNLABELLED};
use crate::error::{Error, Result};
use crate::files;
use std::path::Path;

/// Writes a dataset as a new store directory.
///
/// # Errors
/// The directory exists already or cannot be written; nothing is left behind.
pub fn write(dataset: &Dataset, directory: &Path) -> Result<()> {
    if directory.exists() {
        return Err(Error::file(directory, "already exists; remove it or choose another place"));
    }
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = (tempfile::Builder::new().prefix(".store-").tempdir_in(parent))
        .map_err(Error::io("create a directory in", parent))?;
    write_files(dataset, temporary.path())?;
    std::fs::rename(temporary.path(), directory).map_err(Error::io("create", directory))
}

fn write_files(dataset: &Dataset, directory: &Path) -> Result<()> {
    let file = |name: &str| directory.join(name);
    let adjacency = dataset.graph.adjacency();
    npy::write(&file("row_ptr.npy"), &[adjacency.row_ptr.len()], &adjacency.row_ptr)?;
    npy::write(&file("col_idx.npy"), &[adjacency.entries()], &adjacency.col_idx)?;
    if let Some(weights) = &adjacency.weights {
        npy::write(&file("edge_weights.npy"), &[weights.len()], weights)?;
    }
    let features = &dataset.features;
    npy::write(&file("features.npy"), &[features.rows, features.cols], &features.values)?;
    let (classes, multi_label) = match &dataset.labels {
        Labels::Classes { ids, classes } => {
            let ids: Vec<i64> = ids.iter().map(|&id| if id == UNLABELLED { -1 } else { i64::from(id) }).collect();
            npy::write(&file("labels.npy"), &[ids.len()], &ids)?;
            (*classes, false)
        }
        Labels::Multi { bits, width } => {
            npy::write(&file("labels.npy"), &[bits.len() / width, *width], bits)?;
            (*width, true)
        }
    };
    for (name, ids) in
        [("train.npy", &dataset.split.train), ("valid.npy", &dataset.split.valid), ("test.npy", &dataset.split.test)]
    {
        npy::write(&file(name), &[ids.len()], ids)?;
    }
    if dataset.graphs() > 1 || dataset.level == Level::Graph {
        let graph_ptr: Vec<u64> = dataset.graph_ptr.iter().map(|&start| start as u64).collect();
        npy::write(&file("graph_ptr.npy"), &[graph_ptr.len()], &graph_ptr)?;
    }
    let meta = Meta {
        format: FORMAT.into(),
        version: VERSION,
        name: dataset.name.clone(),
        level: match dataset.level {
            Level::Node => StoredLevel::Node,
            Level::Graph => StoredLevel::Graph,
        },
        classes,
        multi_label,
        feature_names: dataset.feature_names.clone(),
        class_names: dataset.class_names.clone(),
    };
    let path = file("meta.json");
    let text = serde_json::to_string_pretty(&meta).map_err(|error| Error::file(&path, error.to_string()))?;
    files::write_atomic(&path, text.as_bytes())
}
