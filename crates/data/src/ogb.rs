//! Open Graph Benchmark, node tasks: `raw/*.csv.gz` and `split/*/*.csv.gz`, in a zip or a directory, streamed to a store.
//!
//! One line per row everywhere: `raw/edge.csv.gz` source,target; `raw/node-feat.csv.gz` the features of a node;
//! `raw/node-label.csv.gz` its class; `raw/num-node-list.csv.gz` and `raw/num-edge-list.csv.gz` one number each;
//! `split/<scheme>/{train,valid,test}.csv.gz` node ids; `mapping/labelidx2*.csv.gz` names of classes.
//! A row (i, j) lets node i read from node j: the walk follows the edge. Where the benchmark adds inverse edges
//! (ogbn-products), every row counts both ways.

use crate::archive::Archive;
use crate::conversion::{Common, Converted, NodeTask, write_floats};
use crate::text;
use harmonia_graph::dataset::Labels;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{EdgeList, Split};
use harmonia_graph::npy::Element;
use harmonia_graph::store::Writer;
use harmonia_graph::watch::Watch;
use std::path::Path;

/// More classes than any benchmark has: a damaged file.
const MOST_CLASSES: u32 = 1 << 20;
/// Bytes of the small members at most.
const SMALL: u64 = 1 << 20;

/// Converts an archive or directory into a store.
///
/// # Errors
/// A member is missing, damaged, or does not fit the others; nothing is left behind.
pub fn convert(input: &Path, target: &Path, common: &Common, watch: &Watch) -> Result<Converted> {
    let archive = Archive::open(input)?;
    let member = |name: &str| {
        archive.find(name).ok_or_else(|| {
            let message = format!("expected an OGB archive or directory with {name} in it");
            Error::file(archive.path(), message)
        })
    };
    // All of them before the first long read.
    let [edges, features, labels] =
        [member("raw/edge.csv.gz")?, member("raw/node-feat.csv.gz")?, member("raw/node-label.csv.gz")?];
    let nodes = count(&archive, member("raw/num-node-list.csv.gz")?)?;
    let edge_rows = count(&archive, member("raw/num-edge-list.csv.gz")?)?;
    if nodes >= u64::from(u32::MAX) {
        return Err(Error::file(archive.path(), format!("{nodes} nodes: at most {} are supported", u32::MAX - 1)));
    }
    let (nodes, last) = (nodes as usize, nodes.saturating_sub(1) as u32);
    let splits = ["train", "valid", "test"].map(|part| split_member(&archive, part));
    let [train, valid, test] = splits;
    let (train, valid, test) = (train?, valid?, test?);

    let mut writer = Writer::create(target)?.stopping(watch.stop());
    // More classes than nodes are a damaged file, and names are made for each class.
    let ids = all_integers(&archive, labels, MOST_CLASSES.min(last.max(1)), true, nodes, watch)?;
    if ids.len() != nodes {
        let message = format!("expected {nodes} lines (one per node, as num-node-list says), found {}", ids.len());
        return Err(Error::file(&archive.location(labels), message));
    }
    let classes = ids.iter().filter(|&&id| id != u32::MAX).max().map_or(0, |&last| last as usize + 1).max(2);
    writer.labels(&Labels::Classes { ids, classes })?;
    let part = |name: &str| all_integers(&archive, name, last, false, nodes, watch);
    let split = Split { train: part(train)?, valid: part(valid)?, test: part(test)? };
    let folder = archive.location(train);
    let folder = folder.parent().unwrap_or(archive.path());
    split.check(nodes).map_err(|error| Error::file(folder, error.to_string()))?;
    writer.splits(&[split], nodes)?;

    let cols = stream_features(&archive, features, nodes, &mut writer, common.half, watch)?;
    let rows = read_edges(&archive, edges, edge_rows, watch)?;
    let node_task = NodeTask { nodes, features: cols, classes, class_names: class_names(&archive, classes)? };
    node_task.finish(writer, rows, &archive.location(edges), common, watch)
}

/// Whether the benchmark itself reads every row both ways: of its sets that convert here, ogbn-products. Told by the
/// name of the file, or by the folder in the archive.
pub fn adds_inverse_edges(input: &Path) -> bool {
    let products = |name: &str| name.to_lowercase().ends_with("products");
    let file = input.file_stem().is_some_and(|stem| products(&stem.to_string_lossy()));
    let folder =
        || Archive::open(input).is_ok_and(|a| a.names().iter().any(|n| n.split('/').next().is_some_and(products)));
    file || folder()
}

/// A member that holds one number.
fn count(archive: &Archive, name: &str) -> Result<u64> {
    let bytes = archive.read(name, SMALL)?;
    let text = String::from_utf8_lossy(&bytes);
    text.trim().parse().map_err(|_| {
        let found = text::shown(&bytes);
        Error::file(&archive.location(name), format!("expected one line with a number, found `{found}`"))
    })
}

/// `split/<scheme>/<part>.csv.gz`; the benchmark has one scheme per dataset.
fn split_member<'a>(archive: &'a Archive, part: &str) -> Result<&'a str> {
    let file = format!("{part}.csv.gz");
    let is_split = |name: &&String| {
        let mut parts = name.rsplit('/');
        parts.next() == Some(&file) && parts.next().is_some() && parts.next() == Some("split")
    };
    archive.names().iter().find(is_split).map(String::as_str).ok_or_else(|| {
        Error::file(archive.path(), format!("expected split/<scheme>/{file} in it; the node ids of that part"))
    })
}

/// One number per line, for no more lines than there are nodes.
fn all_integers(
    archive: &Archive,
    name: &str,
    most: u32,
    missing: bool,
    nodes: usize,
    watch: &Watch,
) -> Result<Vec<u32>> {
    let mut values = Vec::new();
    let parse = |block: &[u8]| text::integers(block, most, missing);
    text::parse(archive, name, watch.stop(), parse, |block| {
        values.extend_from_slice(&block);
        watch.progress(name, values.len() as u64, nodes as u64);
        if values.len() > nodes {
            let message = format!("expected at most {nodes} lines (one per node, as num-node-list says), found more");
            return Err(Error::file(&archive.location(name), message));
        }
        Ok(())
    })?;
    Ok(values)
}

/// Writes the features as they are parsed; returns their number.
fn stream_features(
    archive: &Archive,
    name: &str,
    nodes: usize,
    writer: &mut Writer,
    half: bool,
    watch: &Watch,
) -> Result<usize> {
    let location = archive.location(name);
    let cols = first_row_width(archive, name)?;
    let element = if half { Element::F16 } else { Element::F32 };
    let mut array = writer.stream("features.npy", element, &[nodes, cols])?;
    let mut rows = 0;
    text::parse(
        archive,
        name,
        watch.stop(),
        |block| text::rows(block, cols),
        |values| {
            rows += values.len() / cols.max(1);
            if rows > nodes {
                return Err(Error::file(
                    &location,
                    format!("expected {nodes} lines (as num-node-list says), found more"),
                ));
            }
            watch.progress(name, rows as u64, nodes as u64);
            write_floats(&mut array, &values, half, &location)
        },
    )?;
    if rows != nodes {
        return Err(Error::file(&location, format!("expected {nodes} lines (as num-node-list says), found {rows}")));
    }
    writer.take(array)?;
    Ok(cols)
}

/// Numbers in the first line.
fn first_row_width(archive: &Archive, name: &str) -> Result<usize> {
    use std::io::Read;
    let mut start = Vec::new();
    let reader = archive.reader(name)?;
    reader.take(SMALL).read_to_end(&mut start).map_err(|error| archive.failed(name, error))?;
    let line = text::lines(&start).next().unwrap_or_default();
    if line.is_empty() {
        return Err(Error::file(&archive.location(name), "expected numbers in its first line, found nothing"));
    }
    Ok(line.split(|&byte| byte == b',').count())
}

fn read_edges(archive: &Archive, name: &str, expected: u64, watch: &Watch) -> Result<EdgeList> {
    let location = archive.location(name);
    let mut edges = EdgeList::default();
    text::parse(archive, name, watch.stop(), text::pairs, |block| {
        edges.extend(&block);
        watch.progress(name, edges.rows(), expected);
        if edges.rows() > expected {
            return Err(Error::file(
                &location,
                format!("expected {expected} lines (as num-edge-list says), found more"),
            ));
        }
        Ok(())
    })?;
    if edges.rows() != expected {
        let message = format!("expected {expected} lines (as num-edge-list says), found {}", edges.rows());
        return Err(Error::file(&location, message));
    }
    Ok(edges)
}

/// Names from `mapping/labelidx2*.csv.gz`; none where there is no such file or it does not name every class.
fn class_names(archive: &Archive, classes: usize) -> Result<Vec<String>> {
    let is_mapping = |name: &&String| name.rsplit('/').next().is_some_and(|file| file.starts_with("labelidx2"));
    let Some(name) = archive.names().iter().find(is_mapping) else { return Ok(Vec::new()) };
    let bytes = archive.read(name, 16 * SMALL)?;
    let mut names = vec![String::new(); classes];
    for line in String::from_utf8_lossy(&bytes).lines().skip(1) {
        let Some((id, class)) = line.split_once(',') else { continue };
        if let Some(place) = id.trim().parse().ok().and_then(|id: usize| names.get_mut(id)) {
            *place = class.trim().trim_matches('"').replace("\"\"", "\"");
        }
    }
    if names.iter().any(String::is_empty) { Ok(Vec::new()) } else { Ok(names) }
}
