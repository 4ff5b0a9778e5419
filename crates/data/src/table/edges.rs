//! The edges: pairs of node numbers and, where there are any, weights.
//!
//! Invariant: every pair is in range, inside one graph, and every weight positive, or the row is named.

use super::arrays::{self, Sparse};
use super::column::{Faults, Key, Role, Table, Values, number, shortened};
use super::index::Index;
use super::sheet::{Kind, Sheet};
use super::{Columns, Options};
use crate::npz::Npz;
use harmonia_graph::error::{Error, Result, suggestion};
use harmonia_graph::files;
use harmonia_graph::graph::{Csr, Direction, Graph};
use harmonia_graph::npy::Npy;
use std::path::Path;

/// Edges as they stand in the file.
#[derive(Debug)]
pub(super) struct Edges {
    pub(super) pairs: Vec<(u32, u32)>,
    pub(super) weights: Option<Vec<f32>>,
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

/// Reads the edges; `graph_of` gives the graph of each node where there are several.
///
/// # Errors
/// An unreadable file or a bad row.
pub(super) fn load(path: &Path, options: &Options, index: &Index, graph_of: Option<&[u32]>) -> Result<Edges> {
    let mut rows = Rows { index, graph_of, faults: Faults::new(path), pairs: Vec::new(), weights: None };
    match Kind::of(path)? {
        Kind::Text | Kind::Parquet => {
            let table = table(path, &options.columns, index)?;
            rows.take(&table, &options.columns)?;
        }
        Kind::Npy => {
            let bytes = files::read(path)?;
            let (sources, targets) = arrays::edges(&Npy::parse(&bytes, path)?, path)?;
            rows.integers(&sources, &targets, None);
        }
        Kind::Npz => archive(path, &mut rows)?,
    }
    rows.faults.finish()?;
    Ok(Edges { pairs: rows.pairs, weights: rows.weights })
}

struct Rows<'a> {
    index: &'a Index,
    graph_of: Option<&'a [u32]>,
    faults: Faults,
    pairs: Vec<(u32, u32)>,
    weights: Option<Vec<f32>>,
}

impl Rows<'_> {
    fn take(&mut self, table: &Table, columns: &Columns) -> Result<()> {
        let column = |is: &dyn Fn(&str) -> bool| table.column(is).map(|column| &column.values);
        let (Some(sources), Some(targets)) =
            (column(&|name| columns.is_source(name)), column(&|name| columns.is_target(name)))
        else {
            return Err(Error::file(&table.path, "expected columns source and target"));
        };
        let weights = match column(&|name| columns.is_weight(name)) {
            None => None,
            Some(Values::Numbers(weights)) => Some(weights),
            Some(Values::Categories { codes, names }) => {
                let word = |code: &u8| names.get(*code as usize).filter(|name| number(name).is_none());
                let row = codes.iter().position(|code| word(code).is_some()).unwrap_or(0);
                let found = codes.get(row).and_then(word).map_or(String::new(), |word| shortened(word));
                let at = table.places.of(row);
                return Err(Error::file(&table.path, format!("{at}: expected a weight > 0, found `{found}`")));
            }
            Some(_) => return Err(Error::file(&table.path, "expected numbers as weights")),
        };
        self.pairs.reserve_exact(table.rows);
        for row in 0..table.rows {
            self.pair(sources.key(row), targets.key(row), &|| table.places.of(row));
            if let Some(&weight) = weights.and_then(|weights| weights.get(row)) {
                self.weigh(weight, &|| table.places.of(row));
            }
            if self.faults.is_full() {
                break;
            }
        }
        self.weights = weights.cloned();
        Ok(())
    }

    fn integers(&mut self, sources: &[i64], targets: &[i64], weights: Option<Vec<f32>>) {
        for (row, (&source, &target)) in sources.iter().zip(targets).enumerate() {
            self.pair(Key::Integer(source), Key::Integer(target), &|| format!("row {row}"));
            if let Some(&weight) = weights.as_ref().and_then(|weights| weights.get(row)) {
                self.weigh(weight, &|| format!("row {row}"));
            }
            if self.faults.is_full() {
                break;
            }
        }
        self.weights = weights;
    }

    fn pair(&mut self, source: Key<'_>, target: Key<'_>, at: &dyn Fn() -> String) {
        let (index, graph_of) = (self.index, self.graph_of);
        match (index.find(source), index.find(target)) {
            (Some(i), Some(j)) => {
                let graph = |node: u32| graph_of.and_then(|graph_of| graph_of.get(node as usize));
                if graph(i) != graph(j) {
                    self.faults.add(|| {
                        format!(
                            "{}: expected an edge inside one graph, found {source} and {target} of two graphs",
                            at()
                        )
                    });
                }
                self.pairs.push((i, j));
            }
            (None, _) => self.faults.add(|| format!("{}: edge {}", at(), index.unknown(source))),
            (_, None) => self.faults.add(|| format!("{}: edge {}", at(), index.unknown(target))),
        }
    }

    fn weigh(&mut self, weight: f32, at: &dyn Fn() -> String) {
        if !(weight.is_normal() && weight > 0.0) {
            self.faults.add(|| format!("{}: expected a weight > 0, found {weight}; drop edges without weight", at()));
        }
    }
}

fn table(path: &Path, columns: &Columns, index: &Index) -> Result<Table> {
    let sheet = Sheet::open(path)?;
    let known = |name: &str| columns.is_source(name) || columns.is_target(name) || columns.is_weight(name);
    let names = sheet.names(|first| {
        // Known ids are data, even those that are also words for a column.
        let mut ends = first.iter().take(2);
        let ids = ends.len() == 2 && ends.all(|cell| index.find(Key::Text(cell)).is_some());
        let numbers = first.iter().all(|cell| number(cell).is_some());
        Ok(!ids && !numbers && (first.iter().any(|cell| known(cell)) || !is_data(first)))
    })?;
    let role = |name: &str| match () {
        () if columns.is_source(name) || columns.is_target(name) => Role::Key,
        () if columns.is_weight(name) => Role::Measure,
        () => Role::Skip,
    };
    let Some(names) = names else {
        let names = match sheet.width() {
            2 => vec!["source", "target"],
            3 => vec!["source", "target", "weight"],
            width => {
                let message = format!(
                    "line 1: expected source, target and perhaps weight, found {width} columns; check the separator or add \
                     a header"
                );
                return Err(Error::file(path, message));
            }
        };
        let plain = |name: &str| if name == "weight" { Role::Measure } else { Role::Key };
        let mut table = sheet.read(Some(names.into_iter().map(str::to_string).collect()), plain)?;
        // Columns without a header have the plain names, whatever the caller calls them.
        for (column, name) in table.columns.iter_mut().zip([&columns.source, &columns.target, &columns.weight]) {
            column.name = name.clone().unwrap_or_else(|| column.name.clone());
        }
        return Ok(table);
    };
    columns.check(path, &names, &[("source", Columns::is_source), ("target", Columns::is_target)])?;
    if let Some(extra) = names.iter().find(|name| !known(name) && !columns.is_ignored(name)) {
        let message = format!(
            "column `{}`: expected source, target and perhaps weight{}; drop it, or leave it out (set ignore = NAME)",
            shortened(extra),
            suggestion(extra, ["source", "target", "weight"])
        );
        return Err(Error::file(path, message));
    }
    sheet.read(None, role)
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
        for (row, column, value) in entries {
            rows.pairs.push((row as u32, column));
            rows.weigh(value, &|| format!("entry ({row}, {column})"));
        }
        let weighted = matrix.data.iter().any(|&value| value != 1.0);
        rows.weights = weighted.then_some(matrix.data);
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
    let bytes = npz.array(name)?;
    let (sources, targets) = arrays::edges(&Npy::parse(&bytes, path)?, path)?;
    let weights = match WEIGHTS.into_iter().find(|name| npz.contains(name)) {
        None => None,
        Some(name) => {
            let bytes = npz.array(name)?;
            let weights = Npy::parse(&bytes, path)?.floats();
            if weights.len() != sources.len() {
                let message = format!("array `{name}`: expected {} weights, found {}", sources.len(), weights.len());
                return Err(Error::file(path, message));
            }
            Some(weights)
        }
    };
    rows.integers(&sources, &targets, weights);
    Ok(())
}
