//! Opens a store, checking everything before it is used.

use super::npy::{floats, integers};
use super::{ARRAYS, FORMAT, Meta, StoredLevel, VERSION};
use crate::datasets::{Dataset, Features, Labels, Level, UNLABELLED};
use crate::error::{Error, Result, suggestion};
use crate::files;
use crate::graph::{Csr, Graph, Split};
use std::path::Path;

/// Reads a store directory.
///
/// # Errors
/// A file is missing or damaged, of a newer version, or does not fit the others.
pub fn read(directory: &Path) -> Result<Dataset> {
    let file = |name: &str| directory.join(name);
    if !file("meta.json").exists() {
        let message = "is not a store: expected a meta.json in it. Raw files of a known dataset are given by \
                       --dataset NAME --data-dir DIR";
        return Err(Error::file(directory, message));
    }
    let meta = meta(&file("meta.json"))?;
    refuse_unknown_arrays(directory)?;
    let optional = |name: &str| Some(file(name)).filter(|path| path.exists());

    let adjacency = Csr {
        row_ptr: unsigned(&file("row_ptr.npy"), i64::MAX as u64)?,
        col_idx: unsigned(&file("col_idx.npy"), u64::from(u32::MAX))?.into_iter().map(|id| id as u32).collect(),
        weights: optional("edge_weights.npy").map(|path| floats(&path)).transpose()?.map(|array| array.values),
    };
    let in_store = |error: Error| Error::file(directory, error.to_string());
    let graph = Graph::from_csr(adjacency).map_err(in_store)?;

    let features = floats(&file("features.npy"))?;
    let [rows, cols] = features.shape[..] else {
        let message = format!("expected nodes x features, found shape {:?}", features.shape);
        return Err(Error::file(&file("features.npy"), message));
    };
    let features = Features::new(rows, cols, features.values).map_err(in_store)?;
    let graph_ptr = match optional("graph_ptr.npy") {
        Some(path) => unsigned(&path, graph.nodes() as u64)?.into_iter().map(|start| start as usize).collect(),
        None => vec![0, graph.nodes()],
    };
    let ids = |name: &str| -> Result<Vec<u32>> {
        if integers(&file(name))?.boolean {
            return Err(Error::file(&file(name), "expected ids, found a boolean mask; save numpy.flatnonzero(mask)"));
        }
        Ok(unsigned(&file(name), u64::from(u32::MAX))?.into_iter().map(|id| id as u32).collect())
    };
    let split = Split { train: ids("train.npy")?, valid: ids("valid.npy")?, test: ids("test.npy")? };
    let (level, units) = match meta.level {
        StoredLevel::Node => (Level::Node, graph.nodes()),
        StoredLevel::Graph if optional("graph_ptr.npy").is_none() => {
            return Err(Error::file(&file("graph_ptr.npy"), "is missing: a store of level \"graph\" needs it"));
        }
        StoredLevel::Graph => (Level::Graph, graph_ptr.len().saturating_sub(1)),
    };
    let labels = labels(&file("labels.npy"), &meta, units)?;
    let mut dataset = Dataset::new(&meta.name, graph, graph_ptr, features, labels, level, split).map_err(in_store)?;
    for (what, names, given) in [
        ("feature_names", &mut dataset.feature_names, meta.feature_names),
        ("class_names", &mut dataset.class_names, meta.class_names),
    ] {
        if given.len() == names.len() {
            *names = given;
        } else if !given.is_empty() {
            let message = format!("{what} has {} entries, expected {}", given.len(), names.len());
            return Err(Error::file(&file("meta.json"), message));
        }
    }
    Ok(dataset)
}

/// A misspelt optional file would be ignored without a word.
fn refuse_unknown_arrays(directory: &Path) -> Result<()> {
    for entry in std::fs::read_dir(directory).map_err(Error::io("read", directory))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".npy") && !ARRAYS.contains(&name.as_str()) {
            let message = format!("is not part of a store{}", suggestion(&name, ARRAYS));
            return Err(Error::file(&entry.path(), message));
        }
    }
    Ok(())
}

fn meta(path: &Path) -> Result<Meta> {
    let text = files::read_text(path)?;
    // The version first: a newer store may have other keys.
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| Error::file(path, format!("is not valid JSON: {error}")))?;
    match (value["format"].as_str(), value["version"].as_u64()) {
        (Some(FORMAT), Some(version)) if version == u64::from(VERSION) => {}
        (Some(FORMAT), Some(version)) => {
            return Err(Error::file(path, format!("is a store of version {version}, this program reads {VERSION}")));
        }
        _ => return Err(Error::file(path, format!("expected \"format\": \"{FORMAT}\" and \"version\": {VERSION}"))),
    }
    serde_json::from_value(value).map_err(|error| Error::file(path, error.to_string()))
}

fn labels(path: &Path, meta: &Meta, units: usize) -> Result<Labels> {
    let array = integers(path)?;
    let expected = if meta.multi_label { vec![units, meta.classes] } else { vec![units] };
    if array.shape != expected && !(expected.len() == 1 && array.shape == [units, 1]) {
        let message = format!(
            "expected labels of shape {expected:?}, found {:?}; one-hot labels are saved as labels.argmax(1), several \
             labels a unit need \"multi_label\": true",
            array.shape
        );
        return Err(Error::file(path, message));
    }
    let width = if meta.multi_label { meta.classes.max(1) } else { 1 };
    let wrong = |at: usize, expected: &str| {
        let (unit, value) = (at / width, array.values[at]);
        Err(Error::file(path, format!("label of unit {unit} is {value}: labels must be {expected}")))
    };
    if meta.multi_label {
        return match array.values.iter().position(|value| !(0..=1).contains(value)) {
            Some(at) => wrong(at, "0 or 1"),
            None => {
                Ok(Labels::Multi { bits: array.values.iter().map(|&bit| bit as u8).collect(), width: meta.classes })
            }
        };
    }
    let classes = i64::try_from(meta.classes).unwrap_or(i64::MAX).min(i64::from(u32::MAX) - 1);
    match array.values.iter().position(|value| !(-1..classes).contains(value)) {
        Some(at) => wrong(at, &format!("0 to {}, or -1 for none (\"classes\": {classes})", classes - 1)),
        None => {
            // Only -1 fails the conversion.
            let ids = array.values.iter().map(|&value| u32::try_from(value).unwrap_or(UNLABELLED)).collect();
            Ok(Labels::Classes { ids, classes: meta.classes })
        }
    }
}

fn unsigned(path: &Path, most: u64) -> Result<Vec<u64>> {
    let array = integers(path)?;
    if array.shape.len() != 1 {
        return Err(Error::file(path, format!("expected one dimension, found shape {:?}", array.shape)));
    }
    (array.values.into_iter().enumerate())
        .map(|(at, value)| {
            u64::try_from(value).ok().filter(|&value| value <= most).ok_or_else(|| {
                Error::file(path, format!("entry {at} is {value}: expected an integer from 0 to {most}"))
            })
        })
        .collect()
}
