//! TUDataset: many small graphs, one class each, in text files `<NAME>_A.txt`, `_graph_indicator.txt` and so on.
//!
//! Line i of the indicator gives the graph of node i; ids in the files count from 1, here from 0. An edge has a line
//! for each direction; the lines are read as a set of undirected edges. Isolated nodes are normal.
//!
//! X is the node labels one-hot by default, with a column for each id from the smallest (0 or 1) to the largest,
//! whether it occurs or not: DD has 89 columns of which 82 are used, the number the literature counts. Two exceptions:
//! AIDS is counted with 23 features in the literature without saying which. Its four attributes and the 19 of its 38
//! elements that occur at least 5 times are exactly 23, so these are its default. A set without labels takes its
//! attributes, and one with neither has the constant feature 1.

mod names;
#[cfg(test)]
mod tests;
mod text;

use crate::archive::Archive;
use crate::conversion::{self, Common, Converted};
use harmonia_graph::dataset::{Dataset, Features, Labels, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Direction, EdgeList, Graph, Split};
use harmonia_graph::watch::Watch;
use names::Known;
use std::path::Path;
use text::Table;

/// Values of X; a damaged label must not make us allocate without bound.
const MOST_VALUES: usize = 1 << 28;
/// A label beyond this is no category.
const LARGEST_LABEL: i64 = 1 << 16;
/// Occurrences that an element of AIDS needs to be a feature.
const AIDS_OCCURRENCES: usize = 5;

/// What becomes X.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeFeatures {
    /// The labels, or what the header of this file says for AIDS and for sets without labels.
    #[default]
    Default,
    /// Labels, one-hot, every id.
    Labels,
    /// Attributes as they are.
    Attributes,
    /// Attributes, then labels.
    Both,
}

/// How to read a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// What becomes X.
    pub features: NodeFeatures,
}

/// Converts a zip or directory into a store.
///
/// # Errors
/// As [`load`], or the store cannot be written; nothing is left behind.
pub fn convert(
    input: &Path,
    target: &Path,
    common: &Common,
    features: NodeFeatures,
    watch: &Watch,
) -> Result<Converted> {
    let archive = Archive::open(input)?;
    let name = set_name(&archive, &common.name)?;
    let dataset = load(&name, &archive, ReadOptions { features })?;
    conversion::write(dataset, target, common, watch)
}

/// Reads the set `name`, as in "MUTAG", from its zip or directory.
///
/// # Errors
/// A file is missing, damaged, or does not fit the others.
pub fn load(name: &str, archive: &Archive, options: ReadOptions) -> Result<Dataset> {
    let files = SetFiles { name, archive };
    let known = Known::of(name);
    let indicator = files.required("graph_indicator")?;
    let (graph_of, graph_ptr) = graphs(&indicator)?;
    let (labels, class_names) = classes(&files.required("graph_labels")?, graph_ptr.len() - 1, &known)?;
    let in_archive = |error: Error| Error::file(archive.path(), error.to_string());
    // The two large parts of a set do not depend on each other.
    let (columns, graph) = rayon::join(
        || features(&files, graph_of.len(), options.features, &known),
        || {
            let edges = edges(&files.required("A")?, &graph_of)?;
            Graph::from_edges(graph_of.len(), &edges, None, Direction::Undirected).map_err(in_archive)
        },
    );
    let (columns, graph) = (columns?, graph?);
    let features = Features::new(graph_of.len(), columns.names.len(), columns.values).map_err(in_archive)?;
    let mut dataset =
        Dataset::new(name, graph, graph_ptr, features, labels, Level::Graph, Split::default()).map_err(in_archive)?;
    dataset.feature_names = columns.names;
    dataset.class_names = class_names;
    Ok(dataset)
}

/// TUDataset files start with the name of the dataset: `MUTAG_A.txt`.
fn set_name(archive: &Archive, wished: &str) -> Result<String> {
    let names: Vec<&str> =
        (archive.names().iter()).filter_map(|name| name.rsplit('/').next()?.strip_suffix("_A.txt")).collect();
    let wished = names.iter().find(|name| name.eq_ignore_ascii_case(wished));
    match (wished, &names[..]) {
        (Some(name), _) => Ok(name.to_string()),
        (None, [name]) => Ok(name.to_string()),
        (None, []) => {
            Err(Error::file(archive.path(), "expected a TUDataset: <NAME>_A.txt, <NAME>_graph_indicator.txt, ..."))
        }
        (None, several) => {
            let message = format!("holds several datasets ({}); choose one (set name = NAME)", several.join(", "));
            Err(Error::file(archive.path(), message))
        }
    }
}

/// The files of one set.
struct SetFiles<'a> {
    name: &'a str,
    archive: &'a Archive,
}

impl SetFiles<'_> {
    fn optional(&self, part: &str) -> Result<Option<Table>> {
        let file = format!("{}_{part}.txt", self.name);
        self.archive.find(&file).map(|member| Table::read(self.archive, member)).transpose()
    }

    fn required(&self, part: &str) -> Result<Table> {
        self.optional(part)?.ok_or_else(|| {
            if let Some(zip) = self.archive.find(&format!("{}.zip", self.name)) {
                let zip = self.archive.location(zip);
                let message = format!("expected {}_{part}.txt, found its zip; pass {}", self.name, zip.display());
                return Error::file(self.archive.path(), message);
            }
            let ends = |name: &&String| name.ends_with("_A.txt") || name.ends_with("_graph_indicator.txt");
            let others: Vec<&str> = self.archive.names().iter().filter(ends).take(3).map(String::as_str).collect();
            let found = if others.is_empty() { "no such set".to_string() } else { others.join(", ") };
            let message = format!("expected {}_{part}.txt, found {found}; check the name and the path", self.name);
            Error::file(self.archive.path(), message)
        })
    }
}

/// The graph of each node, and the first node of each graph.
fn graphs(indicator: &Table) -> Result<(Vec<u32>, Vec<usize>)> {
    let mut graph_of: Vec<u32> = Vec::new();
    let mut graph_ptr = Vec::new();
    for (line, row) in indicator.rows() {
        let id = indicator.integer(line, row, "a graph id")?;
        let last = graph_ptr.len() as i64;
        if id == last + 1 && last < i64::from(u32::MAX) {
            graph_ptr.push(graph_of.len());
        } else if id != last || last == 0 {
            let reason = match id {
                _ if id < last => "ids must not decrease".to_string(),
                _ => format!("graph {} has no nodes", last + 1),
            };
            return Err(
                indicator.error(line, &format!("expected graph id {last} or {}, found {id}: {reason}", last + 1))
            );
        }
        if graph_of.len() == u32::MAX as usize {
            return Err(indicator.error(line, &format!("expected at most {} nodes", u32::MAX)));
        }
        graph_of.push(graph_ptr.len() as u32 - 1);
    }
    graph_ptr.push(graph_of.len());
    Ok((graph_of, graph_ptr))
}

fn classes(table: &Table, graphs: usize, known: &Known) -> Result<(Labels, Vec<String>)> {
    let labels = table.column("a class label (a whole number)")?;
    table.expect_rows(labels.len(), graphs, "graph")?;
    let mut distinct = labels.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < 2 {
        return Err(table.whole(&format!("expected at least 2 classes, found {}", distinct.len())));
    }
    let ids = labels.iter().map(|label| distinct.partition_point(|other| other < label) as u32).collect();
    let names = distinct.iter().map(|&label| known.class(label)).collect();
    Ok((Labels::Classes { ids, classes: distinct.len() }, names))
}

fn edges(table: &Table, graph_of: &[u32]) -> Result<Vec<(u32, u32)>> {
    let mut edges = EdgeList::default();
    let nodes = graph_of.len();
    // Ids count from 1.
    let graph = |id: i64| usize::try_from(id).ok()?.checked_sub(1).and_then(|node| graph_of.get(node));
    for (line, row) in table.rows() {
        let [i, j] = table.pair(line, row)?;
        match (graph(i), graph(j)) {
            (Some(a), Some(b)) if a == b => edges.push(i as u32 - 1, j as u32 - 1),
            (Some(a), Some(b)) => {
                let message = format!("edge ({i}, {j}) joins graph {} and graph {}, expected one graph", a + 1, b + 1);
                return Err(table.error(line, &message));
            }
            _ => return Err(table.error(line, &format!("edge ({i}, {j}): expected node ids in 1..={nodes}"))),
        }
    }
    Ok(edges.into_pairs())
}

/// X, row-major, with a name for each column.
struct FeatureColumns {
    names: Vec<String>,
    values: Vec<f32>,
}

fn features(files: &SetFiles<'_>, nodes: usize, wanted: NodeFeatures, known: &Known) -> Result<FeatureColumns> {
    let labels = files.optional("node_labels")?;
    let attributes = files.optional("node_attributes")?;
    let absent = |part: &str| Error::Data(format!("{} has no node {part}; choose other node features", files.name));
    let (labels, attributes) = match wanted {
        NodeFeatures::Labels => (Some(labels.ok_or_else(|| absent("labels"))?), None),
        NodeFeatures::Attributes => (None, Some(attributes.ok_or_else(|| absent("attributes"))?)),
        NodeFeatures::Both => {
            (Some(labels.ok_or_else(|| absent("labels"))?), Some(attributes.ok_or_else(|| absent("attributes"))?))
        }
        NodeFeatures::Default if known.is_aids() => (labels, attributes),
        NodeFeatures::Default if labels.is_some() => (labels, None),
        NodeFeatures::Default => (None, attributes),
    };
    if labels.is_none() && attributes.is_none() {
        return Ok(FeatureColumns { names: vec!["constant".into()], values: vec![1.0; nodes] });
    }
    let least = if wanted == NodeFeatures::Default && known.is_aids() { AIDS_OCCURRENCES } else { 0 };
    let (width, numbers) = match &attributes {
        Some(table) => table.matrix(nodes)?,
        None => (0, Vec::new()),
    };
    let one_hot = labels.as_ref().map(|table| OneHot::read(table, nodes, least)).transpose()?.unwrap_or_default();
    let cols = width + one_hot.ids.len();
    if nodes.checked_mul(cols).is_none_or(|values| values > MOST_VALUES) {
        let message =
            format!("{nodes} nodes x {cols} features are more than {MOST_VALUES} values; choose fewer features");
        return Err(Error::file(files.archive.path(), message));
    }
    let mut names: Vec<String> = (0..width).map(|k| known.attribute(k)).collect();
    names.extend(one_hot.ids.iter().map(|&id| known.label(id)));
    if width == cols {
        return Ok(FeatureColumns { names, values: numbers });
    }
    let mut values = vec![0.0; nodes * cols];
    let mut attribute_rows = numbers.chunks_exact(width.max(1));
    for (row, hot) in values.chunks_exact_mut(cols).zip(&one_hot.columns) {
        if let Some(numbers) = attribute_rows.next() {
            row.iter_mut().zip(numbers).for_each(|(value, &number)| *value = number);
        }
        if let Some(value) = hot.and_then(|column| row.get_mut(width + column as usize)) {
            *value = 1.0;
        }
    }
    Ok(FeatureColumns { names, values })
}

/// Labels as columns.
#[derive(Default)]
struct OneHot {
    /// Label id of each column.
    ids: Vec<usize>,
    /// Column of each node; `None` where its label is too rare to have one.
    columns: Vec<Option<u32>>,
}

impl OneHot {
    /// A column for each id that occurs at least `least` times; with 0 for all ids up to the largest.
    fn read(table: &Table, nodes: usize, least: usize) -> Result<OneHot> {
        let labels = table.column("a node label (one whole number)")?;
        table.expect_rows(labels.len(), nodes, "node")?;
        if let Some(at) = labels.iter().position(|label| !(0..=LARGEST_LABEL).contains(label)) {
            let label = labels.get(at).copied().unwrap_or_default();
            return Err(table.error(at + 1, &format!("expected a node label in 0..={LARGEST_LABEL}, found {label}")));
        }
        let mut counts = vec![0usize; labels.iter().max().map_or(0, |&largest| largest as usize + 1)];
        labels.iter().filter_map(|&label| usize::try_from(label).ok()).for_each(|label| counts[label] += 1);
        // Some files count labels from 1.
        let first = usize::from(counts.first() == Some(&0));
        let ids: Vec<usize> = (first..counts.len()).filter(|&id| counts[id] >= least).collect();
        let mut column_of = vec![None; counts.len()];
        (0..).zip(&ids).for_each(|(column, &id)| column_of[id] = Some(column));
        let columns = labels.iter().map(|&label| column_of.get(label as usize).copied().flatten()).collect();
        Ok(OneHot { ids, columns })
    }
}
