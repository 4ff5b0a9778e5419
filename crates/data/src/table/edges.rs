//! The edges: pairs of node numbers and, where there are any, weights.
//!
//! Invariant: every pair is in range, inside one graph, and every weight positive, or the row is named; left out where the
//! caller wants that, and counted.

use super::arrays::{self, Sparse};
use super::bad_rows::BadRows;
use super::column::{Key, Role, Table, Values, integer, is_missing, number, shortened};
use super::delimited::Delimited;
use super::faults::Faults;
use super::index::Index;
use super::sheet::{Kind, Sheet};
use super::{Columns, Options};
use crate::npz::Npz;
use harmonia_graph::error::{Error, Result, suggestion};
use harmonia_graph::files;
use harmonia_graph::graph::{Csr, Direction, EdgeList, Graph, WeightedEdgeList};
use harmonia_graph::npy::Npy;
use std::path::Path;

/// Edges as they stand in the file.
#[derive(Debug)]
pub(super) struct Edges {
    pub(super) pairs: Vec<(u32, u32)>,
    pub(super) weights: Option<Vec<f32>>,
    /// What the user should know.
    pub(super) notes: Vec<String>,
}

impl Edges {
    /// The graph. A weighted file that lists every edge both ways is taken as it is: adding the reverse of each edge
    /// would double the weights.
    ///
    /// # Errors
    /// Weights that add up to more than f32 holds.
    pub(super) fn graph(&self, nodes: usize, directed: bool) -> Result<Graph> {
        let build = |direction| Graph::from_edges(nodes, &self.pairs, self.weights.as_deref(), direction);
        if directed {
            return build(Direction::Directed);
        }
        if self.weights.is_some() {
            let as_listed = build(Direction::Directed)?;
            if as_listed.adjacency().is_symmetric() {
                return Graph::from_csr(as_listed.adjacency().clone());
            }
            let (both, all) = listed_both_ways(as_listed.adjacency());
            if 2 * both > all {
                return Err(Error::Data(format!(
                    "{both} of {all} weighted edges are listed both ways with the same weight, the others one way: list each \
                     edge once, or each both ways, or keep directions (set directed = true)"
                )));
            }
        }
        build(Direction::Undirected)
    }
}

/// Entries off the diagonal whose mirror image is there with the same weight, and all of them.
fn listed_both_ways(adjacency: &Csr) -> (usize, usize) {
    let (columns, weights) = (&adjacency.col_idx[..], adjacency.weights.as_deref());
    let weight = |i: usize, j: usize| {
        let row = adjacency.row(i);
        // Rows are sorted; a hub may have a long one.
        let at = columns.get(row.clone())?.binary_search(&(j as u32)).ok()?;
        weights.map_or(Some(1.0), |weights| weights.get(row.start + at).copied())
    };
    let entries = (0..adjacency.rows()).flat_map(|i| adjacency.row_entries(i).map(move |(j, weight)| (i, j, weight)));
    let mut counts = (0, 0);
    for (i, j, value) in entries.filter(|&(i, j, _)| i != j) {
        counts.1 += 1;
        counts.0 += usize::from(weight(j, i) == Some(value));
    }
    counts
}

/// What may be done about bad rows.
const ADVICE: &str = " (to leave such rows out, set drop_bad_rows = true)";

/// Reads the edges; `graph_of` gives the graph of each node where there are several.
///
/// # Errors
/// An unreadable file or a bad row.
pub(super) fn load(path: &Path, options: &Options, index: &Index, graph_of: Option<&[u32]>) -> Result<Edges> {
    let mut rows = Rows {
        index,
        graph_of,
        faults: Faults::new(path).advising(ADVICE),
        listed: Listed::default(),
        bad: BadRows::default(),
        kept: false,
        drop_bad: options.drop_bad_rows,
        relation: options.relation.as_ref().map(|(_, value)| value.as_str()),
        picked: false,
        others: 0,
        other_values: Vec::new(),
    };
    match Kind::of(path)? {
        Kind::Text | Kind::Parquet => {
            let sheet = Sheet::open(path)?;
            let (names, header) = names(&sheet, path, options, index)?;
            match sheet {
                Sheet::Text(text) => rows.stream(text, &names, header, options)?,
                Sheet::Parquet(parquet) => rows.take(&parquet.read(|name| role(name, options))?, options)?,
            }
        }
        Kind::Npy | Kind::Npz if options.relation.is_some() => {
            return Err(Error::file(
                path,
                "has no columns: a relation is picked by a column of a text or Parquet table",
            ));
        }
        Kind::Npy => {
            let bytes = files::read(path)?;
            rows.array(&Npy::parse(&bytes, path)?, path, None)?;
        }
        Kind::Npz => archive(path, &mut rows)?,
    }
    rows.check_relation(path, options)?;
    rows.bad.refuse_weights(&mut rows.faults);
    if !rows.kept {
        rows.bad.refuse_all(path)?;
    }
    let notes = rows.notes(options);
    rows.faults.finish()?;
    let (pairs, weights) = match rows.listed {
        Listed::Plain(edges) => (edges.into_pairs(), None),
        Listed::Weighted(edges) => {
            let (pairs, weights) = edges.into_parts();
            (pairs, Some(weights))
        }
    };
    Ok(Edges { pairs, weights, notes })
}

/// Repeats are merged as they come: a small file may hold hundreds of millions of them.
enum Listed {
    Plain(EdgeList),
    Weighted(WeightedEdgeList),
}

impl Default for Listed {
    fn default() -> Self {
        Listed::Plain(EdgeList::default())
    }
}

/// Values of other relations that are named.
const SHOWN_RELATIONS: usize = 8;

struct Rows<'a> {
    index: &'a Index,
    graph_of: Option<&'a [u32]>,
    faults: Faults,
    listed: Listed,
    bad: BadRows,
    /// Whether any row is an edge.
    kept: bool,
    /// Whether bad rows are left out.
    drop_bad: bool,
    /// The relation that is picked.
    relation: Option<&'a str>,
    /// Whether any row was of it.
    picked: bool,
    /// Rows of other relations.
    others: usize,
    /// What is in the column of relations instead: the first few values.
    other_values: Vec<String>,
}

impl Rows<'_> {
    /// What was left out, in words.
    fn notes(&self, options: &Options) -> Vec<String> {
        let mut notes = Vec::new();
        let rows = |count: usize| if count == 1 { "1 row".to_string() } else { format!("{count} rows") };
        if self.bad.dropped > 0 {
            notes.push(format!("{} of edges left out because they are wrong", rows(self.bad.dropped)));
        }
        if let (Some((column, value)), true) = (&options.relation, self.others > 0) {
            let (column, value) = (shortened(column), shortened(value));
            notes.push(format!("{} of edges left out because their `{column}` is not `{value}`", rows(self.others)));
        }
        notes
    }

    /// Refuses a relation that no row is of: nodes without any edge are not what was asked for.
    fn check_relation(&self, path: &Path, options: &Options) -> Result<()> {
        let Some((column, value)) = options.relation.as_ref().filter(|_| !self.picked && self.others > 0) else {
            return Ok(());
        };
        let close = suggestion(value, self.other_values.iter().map(String::as_str));
        let found: Vec<String> = self.other_values.iter().map(|value| format!("`{}`", shortened(value))).collect();
        let message = format!(
            "column `{}`: expected rows with `{}`, found none in {}, but {}{close}",
            shortened(column),
            shortened(value),
            self.others,
            found.join(", ")
        );
        Err(Error::file(path, message))
    }

    /// Whether a row is of the relation that is picked.
    fn is_picked(&mut self, relation: Option<&str>) -> bool {
        let picked = match (self.relation, relation) {
            (Some(wanted), Some(found)) => wanted == found,
            _ => true,
        };
        if let (false, Some(found)) = (picked, relation) {
            self.others += 1;
            if self.other_values.len() < SHOWN_RELATIONS && self.other_values.iter().all(|known| known != found) {
                self.other_values.push(found.to_string());
            }
        }
        self.picked |= picked;
        picked
    }

    fn take(&mut self, table: &Table, options: &Options) -> Result<()> {
        let columns = &options.columns;
        let column = |is: &dyn Fn(&str) -> bool| table.column(is).map(|column| &column.values);
        let (Some(sources), Some(targets)) =
            (column(&|name| columns.is_source(name)), column(&|name| columns.is_target(name)))
        else {
            return Err(Error::file(&table.path, "expected columns source and target"));
        };
        let weights = match column(&|name| columns.is_weight(name)) {
            None => None,
            Some(Values::Numbers { values, .. }) => Some(values),
            Some(values) => return Err(no_weight(table, values)),
        };
        let relation = options.relation.as_ref().and_then(|(name, _)| column(&|other| other == name));
        for row in 0..table.rows {
            let text = relation.map(|values| values.key(row).whole());
            if !self.is_picked(text.as_deref()) {
                continue;
            }
            let weight = weights.and_then(|weights| weights.get(row)).copied();
            self.edge(sources.key(row), targets.key(row), weight, &|| table.places.of(row));
            if self.faults.is_full() {
                break;
            }
        }
        Ok(())
    }

    /// Rows of a text, none of which is held.
    fn stream(&mut self, text: Delimited, names: &[String], header: bool, options: &Options) -> Result<()> {
        let columns = &options.columns;
        let place = |is: &dyn Fn(&str) -> bool| names.iter().position(|name| is(name));
        let (Some(source), Some(target)) =
            (place(&|name| columns.is_source(name)), place(&|name| columns.is_target(name)))
        else {
            return Err(Error::file(text.path(), "expected columns source and target"));
        };
        let weight = place(&|name| columns.is_weight(name));
        let relation = options.relation.as_ref().and_then(|(name, _)| place(&|other| other == name));
        let mut lengths = Faults::new(text.path());
        let mut all_numbers = true;
        text.each_row(header, names, &mut lengths, |line, fields, _| {
            let field = |at: usize| fields.get(at).map_or("", |field| &**field);
            let key = |at: usize| integer(field(at)).map_or(Key::Text(field(at)), Key::Integer);
            if !self.is_picked(relation.map(field)) {
                return Ok(true);
            }
            let mut value = weight.map(|at| number(field(at)).filter(|value| value.is_finite()));
            if value == Some(None) && (self.drop_bad || weight.is_some_and(|at| is_missing(field(at)))) {
                // No weight at all is as bad as none above zero.
                value = Some(Some(f32::NAN));
            }
            all_numbers = value != Some(None);
            self.edge(key(source), key(target), value.flatten(), &|| format!("line {line}"));
            Ok(all_numbers && !self.faults.is_full())
        })?;
        if !all_numbers {
            // What kind of words they are takes a look at all of the column.
            let weights = |name: &str| if columns.is_weight(name) { Role::Weight } else { Role::Skip };
            let table = text.read((!header).then(|| names.to_vec()), weights)?;
            let column = table.column(|name| columns.is_weight(name));
            return Err(column.map_or(not_weights(&table.path), |column| no_weight(&table, &column.values)));
        }
        lengths.finish()
    }

    /// Edges in an array.
    fn array(&mut self, array: &Npy<'_>, path: &Path, weights: Option<&[f32]>) -> Result<()> {
        arrays::each_edge(array, path, |row, source, target| {
            let weight = weights.and_then(|weights| weights.get(row)).copied();
            self.edge(Key::Integer(source), Key::Integer(target), weight, &|| format!("row {row}"));
            !self.faults.is_full()
        })
    }

    fn edge(&mut self, source: Key<'_>, target: Key<'_>, weight: Option<f32>, at: &dyn Fn() -> String) {
        let Some((i, j)) = self.pair(source, target, at) else { return };
        self.keep(i, j, weight, at);
    }

    fn keep(&mut self, i: u32, j: u32, weight: Option<f32>, at: &dyn Fn() -> String) {
        if let Some(weight) = weight.filter(|weight| !(weight.is_normal() && *weight > 0.0)) {
            match self.drop_bad {
                true => self.bad.leave_out(|| format!("{}: a weight of {weight}", at())),
                false => self.bad.weight(weight, at),
            }
            return;
        }
        self.kept = true;
        match (&mut self.listed, weight) {
            (Listed::Plain(edges), None) => edges.push(i, j),
            (Listed::Weighted(edges), Some(weight)) => edges.push(i, j, weight),
            // A file has weights or it has none: the first edge tells.
            (listed, Some(weight)) => {
                let mut edges = WeightedEdgeList::default();
                edges.push(i, j, weight);
                *listed = Listed::Weighted(edges);
            }
            (Listed::Weighted(_), None) => {}
        }
    }

    fn pair(&mut self, source: Key<'_>, target: Key<'_>, at: &dyn Fn() -> String) -> Option<(u32, u32)> {
        let (index, graph_of) = (self.index, self.graph_of);
        match (index.find(source), index.find(target)) {
            (Some(i), Some(j)) => {
                let graph = |node: u32| graph_of.and_then(|graph_of| graph_of.get(node as usize));
                if graph(i) == graph(j) {
                    return Some((i, j));
                }
                let what = || {
                    format!("{}: expected an edge inside one graph, found {source} and {target} of two graphs", at())
                };
                if self.drop_bad {
                    self.bad.leave_out(what);
                    return None;
                }
                self.faults.add(what);
                Some((i, j))
            }
            (found, _) => {
                let unknown = if found.is_none() { source } else { target };
                let what = || format!("{}: edge {}", at(), index.unknown(unknown));
                match self.drop_bad {
                    true => self.bad.leave_out(what),
                    false => self.faults.add(what),
                }
                None
            }
        }
    }
}

/// What to say of weights that are words.
fn no_weight(table: &Table, values: &Values) -> Error {
    let Values::Categories { codes, names, .. } = values else { return not_weights(&table.path) };
    let word = |code: &u8| names.get(*code as usize).filter(|name| number(name).is_none());
    let row = codes.iter().position(|code| word(code).is_some()).unwrap_or(0);
    let found = codes.get(row).and_then(word).map_or(String::new(), |word| shortened(word));
    Error::file(&table.path, format!("{}: expected a weight > 0, found `{found}`", table.places.of(row)))
}

fn not_weights(path: &Path) -> Error {
    Error::file(path, "expected numbers as weights")
}

fn role(name: &str, options: &Options) -> Role<'static> {
    let columns = &options.columns;
    match () {
        () if options.relation.as_ref().is_some_and(|(column, _)| column == name) => Role::Key,
        () if columns.is_source(name) || columns.is_target(name) => Role::Key,
        () if columns.is_weight(name) => Role::Weight,
        () => Role::Skip,
    }
}

/// Names of the columns, and whether they stand in the first row.
fn names(sheet: &Sheet, path: &Path, options: &Options, index: &Index) -> Result<(Vec<String>, bool)> {
    let columns = &options.columns;
    let relation = options.relation.as_ref().map(|(column, _)| column.as_str());
    let known = |name: &str| {
        columns.is_source(name) || columns.is_target(name) || columns.is_weight(name) || relation == Some(name)
    };
    let names = sheet.names(|first| {
        // Known ids are data, even those that are also words for a column.
        let mut ends = first.iter().take(2);
        let ids = ends.len() == 2 && ends.all(|cell| index.find(Key::Text(cell)).is_some());
        let numbers = first.iter().all(|cell| number(cell).is_some());
        Ok(!ids && !numbers && (first.iter().any(|cell| known(cell)) || !is_data(first)))
    })?;
    let Some(names) = names else {
        let width = sheet.width();
        if !(2..=3).contains(&width) {
            let message = format!(
                "line 1: expected source, target and perhaps weight, found {width} columns; check the separator or add a \
                 header"
            );
            return Err(Error::file(path, message));
        }
        // Columns without a header are called as the caller calls them.
        let usual = [("source", &columns.source), ("target", &columns.target), ("weight", &columns.weight)];
        let named = |(usual, given): (&str, &Option<String>)| given.clone().unwrap_or_else(|| usual.to_string());
        return Ok((usual.into_iter().take(width).map(named).collect(), false));
    };
    columns.check(path, &names, &[("source", Columns::is_source), ("target", Columns::is_target)])?;
    if let Some(extra) = names.iter().find(|name| !known(name) && !columns.is_ignored(name)) {
        let name = shortened(extra);
        let weight = match names.iter().any(|name| columns.is_weight(name)) {
            true => String::new(),
            false => format!(", say that it is the weight (set column.weight = {name})"),
        };
        let message = format!(
            "column `{name}`: expected source, target and perhaps weight{}; one relation between nodes is supported, without \
             features of edges: pick one (set relation = {name}=VALUE){weight}, or take all edges alike and leave the \
             column out (set ignore = {name})",
            suggestion(extra, ["source", "target", "weight"])
        );
        return Err(Error::file(path, message));
    }
    if let Some(absent) = relation.filter(|relation| !names.iter().any(|name| name == relation)) {
        let close = suggestion(absent, names.iter().map(String::as_str));
        return Err(Error::file(
            path,
            format!("expected a column `{}` to pick a relation by{close}", shortened(absent)),
        ));
    }
    Ok((names, true))
}

/// A first row such as `17,x18`: one id is a number, so it is no header.
fn is_data(first: &[String]) -> bool {
    first.iter().take(2).any(|cell| number(cell).is_some())
}

fn archive(path: &Path, rows: &mut Rows<'_>) -> Result<()> {
    let mut npz = Npz::open(path)?;
    if Sparse::is_in(&npz) {
        let matrix = Sparse::read(&mut npz, path)?;
        let nodes = rows.index.count();
        if (matrix.rows, matrix.cols) != (nodes, nodes) {
            let message = format!("expected {nodes} x {nodes}, found a matrix of {} x {}", matrix.rows, matrix.cols);
            return Err(Error::file(path, message));
        }
        // The rows of a matrix are the nodes in order, whatever they are called.
        let entries =
            matrix.rows().enumerate().flat_map(|(row, entries)| entries.map(move |(k, value)| (row, k, value)));
        let weighted = matrix.data.iter().any(|&value| value != 1.0);
        for (row, column, value) in entries {
            rows.keep(row as u32, column, weighted.then_some(value), &|| format!("entry ({row}, {column})"));
        }
        return Ok(());
    }
    const ENDS: [&str; 2] = ["edges", "edge_index"];
    const WEIGHTS: [&str; 4] = ["weights", "weight", "edge_weights", "edge_weight"];
    let known = || ENDS.into_iter().chain(WEIGHTS);
    if let Some(extra) = npz.names().find(|name| !known().any(|known| known == *name)) {
        let (expected, close) = (known().collect::<Vec<_>>().join(", "), suggestion(extra, known()));
        return Err(Error::file(path, format!("array `{}`: expected {expected}{close}", shortened(extra))));
    }
    let Some(name) = ENDS.into_iter().find(|name| npz.contains(name)) else {
        return Err(Error::file(path, "expected an array edges or edge_index, or a scipy csr matrix; found neither"));
    };
    let weights = match WEIGHTS.into_iter().find(|name| npz.contains(name)) {
        None => None,
        Some(name) => Some((name, Npy::parse(&npz.array(name)?, path)?.floats())),
    };
    let bytes = npz.array(name)?;
    let array = Npy::parse(&bytes, path)?;
    let edges = array.len() / 2;
    if let Some((name, weights)) = weights.as_ref().filter(|(_, weights)| weights.len() != edges) {
        let message = format!("array `{name}`: expected {edges} weights, found {}", weights.len());
        return Err(Error::file(path, message));
    }
    rows.array(&array, path, weights.as_ref().map(|(_, weights)| &weights[..]))
}
