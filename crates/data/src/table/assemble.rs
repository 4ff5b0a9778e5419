//! Puts the parts of a table dataset together: nodes, then graphs, labels, splits and edges.
//!
//! Invariant: everything is in the order of the nodes file until the very end, where nodes are sorted by graph.

use super::column::{Column, Key, Places, Table, Texts, Values};
use super::faults::Faults;
use super::index::Index;
use super::labels::{self, Named};
use super::listing::{self, Listing};
use super::nodes::{self, Nodes};
use super::source::{self, Files};
use super::{Columns, Options, edges, splits, weights};
use harmonia_graph::dataset::{Dataset, Features, Labels, Level, UNLABELLED, UnitWeights};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::Split;
use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

/// A dataset, and what its user should know about how it was read.
#[derive(Debug)]
pub struct Loaded {
    /// The data.
    pub dataset: Dataset,
    /// A line each.
    pub notes: Vec<String>,
}

/// Reads the tables of one dataset.
///
/// # Errors
/// A file is missing or damaged, or a row of it does not fit; the message names file and row.
pub fn load(name: &str, options: &Options) -> Result<Dataset> {
    load_noted(name, options).map(|loaded| loaded.dataset)
}

/// Reads the tables of one dataset, and says what is noteworthy.
///
/// # Errors
/// As [`load`].
pub fn load_noted(name: &str, options: &Options) -> Result<Loaded> {
    let files = Files::find(options)?;
    let columns = &options.columns;
    files.check_ignored(columns, &options.directory)?;
    let mut nodes = nodes::load(&files, options)?;
    let mut notes = std::mem::take(&mut nodes.notes);
    let graphs = Graphs::find(&files, columns, &nodes)?;
    let mut class_names =
        files.class_names.as_ref().map(|path| Ok((path.clone(), source::names(path)?))).transpose()?;
    if let Some(model) = options.model.as_ref().filter(|model| !columns.regression && !model.class_names.is_empty()) {
        class_names = Some((PathBuf::from("the model"), model.class_names.clone()));
    }
    if let Some((path, names)) = &class_names {
        let mut seen = HashSet::new();
        if let Some(at) = names.iter().position(|name| !seen.insert(name)) {
            return Err(Error::file(path, format!("line {}: this class is there already; name it once", at + 1)));
        }
    }
    let found = find_labels(&files, columns, &nodes, graphs.as_ref(), class_names.as_ref(), options)?;
    let (Named { mut labels, names: mut class_names, path, weights }, level) = found;
    if let (Some(column), None) = (&columns.unit_weight, &weights) {
        let column = super::column::shortened(column);
        return Err(Error::file(
            &path,
            format!("expected a column `{column}` of weights beside the labels, found none"),
        ));
    }
    if let Some(positive) = &options.positive {
        labels::put_second(positive, &mut labels, &mut class_names).map_err(|what| Error::file(&path, what))?;
    }

    let graph_table = graphs.as_ref().and_then(|graphs| graphs.table.as_ref());
    let split = match (level, &graphs) {
        (Level::Graph, Some(graphs)) => {
            if nodes.table.as_ref().is_some_and(|table| table.column(|name| columns.is_split(name)).is_some()) {
                return Err(Error::file(&nodes.path, "has a column split, but the graphs are labelled; put it there"));
            }
            splits::load(&files, columns, &graphs.index, graph_table, &nodes.lists)?
        }
        _ => splits::load(&files, columns, &nodes.index, nodes.table.as_ref(), &nodes.lists)?,
    };
    let split = match &options.split_by {
        Some(_) if !split.is_empty() => {
            return Err(Error::file(
                &nodes.path,
                "has a split of its own beside the one to be made; keep one of the two",
            ));
        }
        Some(by) => splits::by_column(by, &nodes, level, &labels)?,
        // What a model is to read is scored as a whole: labels may be missing anywhere.
        None if options.model.is_some() => {
            let labelled =
                |units: Vec<u32>| units.into_iter().filter(|&unit| labels.is_labelled(unit as usize)).collect();
            Split { train: labelled(split.train), valid: labelled(split.valid), test: labelled(split.test) }
        }
        None => split,
    };
    let labelled = |unit: &&u32| !labels.is_labelled(**unit as usize);
    let used = split.train.iter().chain(&split.valid).chain(&split.test);
    if let Some(&unit) = used.clone().find(labelled) {
        let unlabelled = used.filter(labelled).count();
        let shown = nodes.names.get(unit as usize).filter(|_| level == Level::Node);
        let shown = shown.map_or(unit.to_string(), |name| super::column::shortened(name));
        let message = format!(
            "`{shown}` is in a split but has no label ({unlabelled} such in all); leave the split of what has no label \
             empty"
        );
        return Err(Error::file(&path, message));
    }

    let graph_of = graphs.as_ref().map(|graphs| &graphs.graph_of[..]);
    let mut edges = edges::load(&files.edges, options, &nodes.index, graph_of)?;
    notes.append(&mut edges.notes);
    let node_names = names_of(&files.node_names, nodes.names, nodes.features.rows)?;

    let mut parts = Parts { features: nodes.features, labels, weights, split, node_names };
    let mut graph_ptr = vec![0, parts.features.rows];
    if let Some(graphs) = &graphs {
        graph_ptr = graphs.offsets();
        if !graphs.graph_of.is_sorted() {
            let order = graphs.order();
            let mut place = vec![0u32; order.len()];
            for (new, &old) in order.iter().enumerate() {
                if let Some(place) = place.get_mut(old as usize) {
                    *place = new as u32;
                }
            }
            let moved = |node: u32| place.get(node as usize).copied().unwrap_or(node);
            edges.pairs.iter_mut().for_each(|(i, j)| (*i, *j) = (moved(*i), moved(*j)));
            parts.reorder(&order, moved, level)?;
        }
    }
    let in_directory = |error: Error| Error::file(&options.directory, error.to_string());
    let graph = edges.graph(parts.features.rows, options.directed).map_err(in_directory)?;
    drop(edges);
    let Parts { features, labels, weights, split, node_names } = parts;
    let mut dataset = Dataset::new(name, graph, graph_ptr, features, labels, level, split).map_err(in_directory)?;
    dataset.weights = weights;
    if nodes.named || !nodes.schema.is_plain() {
        dataset.feature_names = nodes.schema.names();
    }
    if !nodes.schema.is_plain() {
        dataset.schema = Some(nodes.schema.into());
    }
    if !class_names.is_empty() {
        dataset.class_names = class_names;
    }
    dataset.node_names = node_names;
    Ok(Loaded { dataset, notes })
}

/// What is kept for each node and moves with it.
struct Parts {
    features: Features,
    labels: Labels,
    weights: Option<UnitWeights>,
    split: Split,
    node_names: Vec<String>,
}

impl Parts {
    /// Puts node `order[new]` at `new`.
    fn reorder(&mut self, order: &[u32], moved: impl Fn(u32) -> u32, level: Level) -> Result<()> {
        let rows: Vec<_> = order.iter().map(|&old| old as usize..old as usize + 1).collect();
        self.features = self.features.rows(&rows);
        if !self.node_names.is_empty() {
            self.node_names = order.iter().filter_map(|&old| self.node_names.get(old as usize).cloned()).collect();
        }
        if level == Level::Graph {
            return Ok(());
        }
        self.labels = self.labels.reordered(order);
        self.weights = self.weights.as_ref().map(|weights| weights.reordered(order));
        for part in [&mut self.split.train, &mut self.split.valid, &mut self.split.test] {
            part.iter_mut().for_each(|unit| *unit = moved(*unit));
        }
        Ok(())
    }
}

/// The graphs of a set.
struct Graphs {
    index: Index,
    /// Graph of each node.
    graph_of: Vec<u32>,
    /// graphs.*, where it is there.
    table: Option<Table>,
}

impl Graphs {
    fn find(files: &Files, columns: &Columns, nodes: &Nodes) -> Result<Option<Graphs>> {
        let from_table =
            nodes.table.as_ref().and_then(|table| Some((table, table.column(|name| columns.is_graph(name))?)));
        let from_array = nodes.graph.as_ref().and_then(|table| Some((table, table.columns.first()?)));
        let (of_nodes, column) = match (from_table.or(from_array), &files.graphs) {
            (Some(found), _) => found,
            (None, None) => return Ok(None),
            (None, Some(path)) => {
                let origin = nodes.path.file_name().unwrap_or_default().to_string_lossy();
                return Err(Error::file(
                    path,
                    format!("{origin} has no column graph: expected the graph of each node"),
                ));
            }
        };
        super::arrays::same_rows(&of_nodes.path, of_nodes.rows, "node", nodes.index.count())?;
        let table = files.graphs.as_ref().map(|path| listing::read(path, Listing::Graphs, columns)).transpose()?;
        let index = match &table {
            Some(table) => {
                let id = table.column(|name| columns.is_graph(name)).or(table.column(|name| columns.is_id(name)));
                let id = id.ok_or_else(|| Error::file(&table.path, "expected a column graph with the graph ids"))?;
                Index::from_column("graph", table, id)?.0
            }
            None => {
                let distinct = distinct(of_nodes, column);
                let id = distinct.columns.first().ok_or_else(|| Error::file(&of_nodes.path, "expected graph ids"))?;
                Index::from_column("graph", &distinct, id)?.0
            }
        };
        let mut faults = Faults::new(&of_nodes.path);
        let mut graph_of = Vec::with_capacity(of_nodes.rows);
        for row in 0..of_nodes.rows {
            let key = column.values.key(row);
            match index.find(key) {
                Some(graph) => graph_of.push(graph),
                None => faults.add(|| format!("{}: node {}", of_nodes.places.of(row), index.unknown(key))),
            }
            if faults.is_full() {
                break;
            }
        }
        faults.finish()?;
        let graphs = Graphs { index, graph_of, table };
        graphs.refuse_empty(&of_nodes.path)?;
        Ok(Some(graphs))
    }

    fn refuse_empty(&self, nodes: &std::path::Path) -> Result<()> {
        let Some(table) = &self.table else { return Ok(()) };
        let mut faults = Faults::new(&table.path);
        for (row, ends) in self.offsets().windows(2).enumerate() {
            if ends.first() == ends.last() && !faults.is_full() {
                let origin = nodes.file_name().unwrap_or_default().to_string_lossy();
                faults.add(|| format!("{}: this graph has no node in {origin}; drop it", table.places.of(row)));
            }
        }
        faults.finish()
    }

    fn offsets(&self) -> Vec<usize> {
        let mut offsets = vec![0; self.index.count() + 1];
        for &graph in &self.graph_of {
            if let Some(end) = offsets.get_mut(graph as usize + 1) {
                *end += 1;
            }
        }
        let mut sum = 0;
        for end in &mut offsets {
            sum += *end;
            *end = sum;
        }
        offsets
    }

    /// Nodes by graph, otherwise in their own order.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.graph_of.len() as u32).collect();
        order.sort_by_key(|&node| self.graph_of.get(node as usize));
        order
    }
}

/// The graphs that the nodes name: integers in order, words as they come. An empty cell stays and is refused as an id.
fn distinct(table: &Table, column: &Column) -> Table {
    let values = match &column.values {
        Values::Integers(values) => {
            Values::Integers(values.iter().copied().collect::<BTreeSet<_>>().into_iter().collect())
        }
        _ => {
            let (mut seen, mut texts) = (HashSet::new(), Texts::default());
            for row in 0..table.rows {
                if let Key::Text(text) = column.values.key(row)
                    && seen.insert(text)
                {
                    texts.push(text);
                }
            }
            Values::Texts(texts)
        }
    };
    let rows = match &values {
        Values::Integers(values) => values.len(),
        Values::Texts(texts) => texts.len(),
        _ => 0,
    };
    let columns = vec![Column { name: column.name.clone(), values }];
    Table { path: table.path.clone(), rows, columns, places: Places::default() }
}

fn find_labels(
    files: &Files,
    columns: &Columns,
    nodes: &Nodes,
    graphs: Option<&Graphs>,
    class_names: Option<&(PathBuf, Vec<String>)>,
    options: &Options,
) -> Result<(Named, Level)> {
    let mut labelled: Vec<(Named, Level)> = Vec::new();
    let mut add = |table: &Table, index: &Index, level: Level| -> Result<()> {
        let is_label = |column: &&Column| columns.is_label(&column.name);
        // Without a single label there is none to be wrong.
        let empty = |column: &Column| (0..table.rows).all(|row| matches!(column.values.key(row), Key::Text("")));
        let mut found = table.columns.iter().filter(is_label).peekable();
        let has = found.peek().is_some() && !(options.model.is_some() && found.all(empty));
        if has {
            let units = listing::units(table, columns, index)?;
            if let Some(mut named) = labels::of(table, columns, &units, index.count(), class_names)? {
                named.weights = weights::of(table, columns, &units, &named.labels)?;
                labelled.push((named, level));
            }
        }
        Ok(())
    };
    for table in nodes.table.iter().chain(&nodes.labels) {
        match graphs {
            // An array has no ids: its length says what it labels.
            Some(graphs) if table.rows == graphs.index.count() && table.rows != nodes.index.count() => {
                add(table, &graphs.index, Level::Graph)?;
            }
            _ => add(table, &nodes.index, Level::Node)?,
        }
    }
    if let Some(graphs) = graphs
        && let Some(table) = &graphs.table
    {
        add(table, &graphs.index, Level::Graph)?;
    }
    if let Some(path) = &files.labels {
        let table = listing::read(path, Listing::Labels, columns)?;
        let by_graph = table.column(|name| columns.is_graph(name)).is_some();
        match graphs {
            Some(graphs) if by_graph || (table.rows == graphs.index.count() && table.rows != nodes.index.count()) => {
                add(&table, &graphs.index, Level::Graph)?;
            }
            None if by_graph => {
                let message = "has a column graph, but the nodes have none: expected the graph of each node in nodes.*";
                return Err(Error::file(path, message));
            }
            _ => add(&table, &nodes.index, Level::Node)?,
        }
    }
    if let [(first, _), (second, _), ..] = &labelled[..] {
        let other = first.path.file_name().unwrap_or_default().to_string_lossy();
        let message =
            format!("has labels, and so has {other}; keep one, or rename the column of the nodes to make it a feature");
        return Err(Error::file(&second.path, message));
    }
    if let (Some(model), true) = (&options.model, labelled.is_empty()) {
        let units = match (model.level, graphs) {
            (Level::Graph, None) => {
                return Err(Error::file(&nodes.path, "expected a column graph: the model predicts graphs"));
            }
            (Level::Graph, Some(graphs)) => graphs.index.count(),
            (Level::Node, _) => nodes.index.count(),
        };
        let classes = model.class_names.len().max(2);
        let labels = match columns.regression {
            true => {
                let width = model.class_names.len().max(1);
                Labels::Values { values: vec![f32::NAN; units * width], width }
            }
            false => Labels::Classes { ids: vec![UNLABELLED; units], classes },
        };
        let names = if classes == model.class_names.len() || columns.regression {
            model.class_names.clone()
        } else {
            Vec::new()
        };
        return Ok((Named { labels, names, path: nodes.path.clone(), weights: None }, model.level));
    }
    labelled.pop().ok_or_else(|| {
        Error::file(
            &options.directory,
            "expected a column label in nodes.*, or labels.*, or labels in graphs.*; found none",
        )
    })
}

/// Names in a file of their own, where the tables have none.
fn names_of(path: &Option<PathBuf>, own: Vec<String>, count: usize) -> Result<Vec<String>> {
    let Some(path) = path else { return Ok(own) };
    if !own.is_empty() {
        return Err(Error::file(path, "the nodes have names in their table already; keep one of the two"));
    }
    let names = source::names(path)?;
    if names.len() != count {
        return Err(Error::file(path, format!("expected a name for each of the {count} nodes, found {}", names.len())));
    }
    Ok(names)
}
