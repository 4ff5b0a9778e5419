//! Illinois Graph Benchmark, homogeneous: `processed/paper/node_feat.npy`, `node_label_19.npy` and
//! `processed/paper__cites__paper/edge_index.npy` (rows of source, target), in a directory or the published tar.gz.
//!
//! Large arrays are mapped and copied block by block. The split is the benchmark's: the first 60 % of the nodes train, the
//! next 20 % validate, the rest test. A row (i, j) lets node i read from node j, as with OGB.

use crate::conversion::{Common, Converted, NodeTask, write_floats};
use harmonia_graph::dataset::{Labels, UNLABELLED};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{EdgeList, Split};
use harmonia_graph::npy::{Element, Npy};
use harmonia_graph::store::{Writer, map_file};
use harmonia_graph::watch::Watch;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Shares of nodes that train and validate, in order of their ids.
const TRAIN: f64 = 0.6;
const VALID: f64 = 0.2;
/// Nodes copied at a time.
const BLOCK: usize = 1 << 12;
/// Files that are read, below `processed`.
pub const FILES: [&str; 3] = ["paper/node_feat.npy", "paper/node_label_19.npy", "paper__cites__paper/edge_index.npy"];

/// Converts a directory or a tar.gz into a store.
///
/// # Errors
/// A file is missing, damaged, or does not fit the others; nothing is left behind.
pub fn convert(input: &Path, target: &Path, common: &Common, watch: &Watch) -> Result<Converted> {
    let mut writer = Writer::create(target)?.stopping(watch.stop());
    let extracted = match input.is_dir() {
        true => None,
        false => Some(crate::tarball::extract(input, writer.directory(), &FILES, watch)?),
    };
    let root = extracted.as_ref().map_or(input, TempDir::path);
    // The user knows the archive, not where it was extracted to.
    let (node_task, rows) = read(&mut writer, root, common.half, watch).map_err(|error| error.moved(root, input))?;
    if let Some(directory) = extracted {
        // Before the store takes its place: it must not take the raw files along.
        directory.close().map_err(Error::io("remove what was extracted from", input))?;
    }
    node_task.finish(writer, EdgeList::from(rows), input, common, watch)
}

fn read(writer: &mut Writer, root: &Path, half: bool, watch: &Watch) -> Result<(NodeTask, Vec<(u32, u32)>)> {
    let [features, labels, edges] = FILES.map(|name| find(root, name));
    let (features, labels, edges) = (features?, labels?, edges?);
    let node_task = write_nodes(writer, &features, &labels, half, watch)?;
    let rows = read_edges(&edges, node_task.nodes)?;
    Ok((node_task, rows))
}

/// Writes labels, split and features.
fn write_nodes(writer: &mut Writer, features: &Path, labels: &Path, half: bool, watch: &Watch) -> Result<NodeTask> {
    let x = map_file(features)?;
    let x = Npy::parse(&x, features)?;
    let Some((nodes, cols)) = x.matrix().filter(|_| matches!(x.element, Element::F16 | Element::F32)) else {
        let message =
            format!("expected nodes x features in f32 or f16, found shape {:?} of {}", x.shape, x.element.code());
        return Err(Error::file(features, message));
    };
    if nodes == 0 || cols == 0 || nodes >= u32::MAX as usize {
        return Err(Error::file(features, format!("{nodes} nodes x {cols} features: expected 1 to {}", u32::MAX - 1)));
    }
    let ids = read_labels(labels, nodes)?;
    let classes = ids.iter().filter(|&&id| id != UNLABELLED).max().map_or(0, |&last| last as usize + 1).max(2);
    let split = split(nodes, &ids);
    writer.labels(&Labels::Classes { ids, classes })?;
    writer.splits(&[split], nodes)?;

    let half = half || x.element == Element::F16;
    let element = if half { Element::F16 } else { Element::F32 };
    let mut array = writer.stream("features.npy", element, &[nodes, cols])?;
    let row = cols * x.element.bytes();
    for (block, bytes) in x.data.chunks(BLOCK * row).enumerate() {
        watch.check()?;
        let part = Npy { shape: vec![bytes.len() / row, cols], data: bytes, ..x.clone() };
        write_floats(&mut array, &part.floats(), half, features)?;
        watch.progress("features", (block * BLOCK) as u64, nodes as u64);
    }
    writer.take(array)?;
    Ok(NodeTask { nodes, features: cols, classes, class_names: Vec::new() })
}

/// A file below `root`, which may be `processed`, the folder around it, or two above.
fn find(root: &Path, name: &str) -> Result<PathBuf> {
    let around = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders = vec![root.to_path_buf(), root.join("processed")];
    folders.extend(around.filter(|path| path.is_dir()).flat_map(|path| [path.join("processed"), path]));
    let existing = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    existing.ok_or_else(|| Error::file(root, format!("expected processed/{name} in it")))
}

fn read_labels(path: &Path, nodes: usize) -> Result<Vec<u32>> {
    let map = map_file(path)?;
    let array = Npy::parse(&map, path)?;
    // Upstream files hold one label per node, some of them as floats.
    if array.len() != nodes {
        return Err(Error::file(path, format!("expected {nodes} labels, one per node, found {}", array.len())));
    }
    // More classes than nodes are a damaged file, and names are made for each class.
    let most = nodes.clamp(2, 1 << 20) as f64;
    let value = |at: usize, value: f64| match value {
        value if value.is_nan() || value == -1.0 => Ok(UNLABELLED),
        value if value >= 0.0 && value < most && value.fract() == 0.0 => Ok(value as u32),
        value => Err(Error::file(path, format!("label of node {at} is {value}: expected a class number"))),
    };
    match array.integers() {
        Some(values) => values.iter().enumerate().map(|(at, &v)| value(at, v as f64)).collect(),
        None => array.floats().iter().enumerate().map(|(at, &v)| value(at, f64::from(v))).collect(),
    }
}

fn split(nodes: usize, ids: &[u32]) -> Split {
    let (train, valid) = ((nodes as f64 * TRAIN) as usize, (nodes as f64 * VALID) as usize);
    let part =
        |range: std::ops::Range<usize>| range.filter(|&i| ids[i] != UNLABELLED).map(|i| i as u32).collect::<Vec<u32>>();
    Split { train: part(0..train), valid: part(train..train + valid), test: part(train + valid..nodes) }
}

fn read_edges(path: &Path, nodes: usize) -> Result<Vec<(u32, u32)>> {
    let map = map_file(path)?;
    let array = Npy::parse(&map, path)?;
    let pair = match (array.matrix(), array.element) {
        (Some((_, 2)), Element::I64 | Element::U64) => 16,
        (Some((_, 2)), Element::I32 | Element::U32) => 8,
        _ => {
            let message =
                format!("expected rows of two integers, found shape {:?} of {}", array.shape, array.element.code());
            return Err(Error::file(path, message));
        }
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    let rows = array.data.par_chunks_exact(pair);
    let outside = |bytes: &[u8]| bytes.chunks_exact(pair / 2).any(|id| number(id) >= nodes as u64);
    if let Some(at) = rows.clone().position_first(outside) {
        return Err(Error::file(path, format!("row {at} names a node beyond the {nodes} of node_feat.npy")));
    }
    Ok(rows.map(|bytes| (number(&bytes[..pair / 2]) as u32, number(&bytes[pair / 2..]) as u32)).collect())
}
