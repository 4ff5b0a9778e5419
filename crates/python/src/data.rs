//! Arrays, stores and known datasets as datasets of the engine.
//!
//! Python has brought arrays into one form each (`python/harmonia/_inputs.py`); what they mean is decided here: columns of a table are
//! laid out as the command line lays them, so that the same table gives the same bits.

use crate::errors::{OrRaise, to_python};
use crate::lent::{Lent, lend};
use crate::work;
use harmonia::config::Config;
use harmonia::runs::load_dataset;
use harmonia_data::download::Access;
use harmonia_data::formats::{self, ConversionOptions, Format};
use harmonia_data::obtain::Context;
use harmonia_data::{catalogue, is_here};
use harmonia_graph::array::Array;
use harmonia_graph::dataset::{
    ColumnKind, Dataset, Features, Labels, Level, Schema, SparseRows, TableColumn, UNLABELLED, UnitWeights, Values,
    median,
};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Csr, Direction, Graph, Split};
use harmonia_graph::watch::{Report, Watch};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A dataset before its split is drawn: the parts that were given, or what a name or a store stands for.
#[pyclass(frozen, module = "harmonia._harmonia")]
pub struct Data {
    pub whole: Dataset,
    /// What settings call it: name or store, and the directory of datasets.
    pub named: Option<(String, String)>,
    /// The array that its features are.
    pub lent: Option<Lent>,
}

/// Compressed rows of a square or other matrix: indptr, indices, data.
type Rows<'py> = (PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>, Option<PyReadonlyArray1<'py, f32>>);
/// Columns that are given as sparse rows, and how many.
type SparseX<'py> = (PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, f32>, usize);
/// Train, validation and test units.
type Parts<'py> = (PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>);

#[pymethods]
impl Data {
    /// Of arrays. `columns`: JSON of a table's columns as `column` says them; `schema`: JSON of those a model has settled, by which the
    /// same columns are laid out. Without either, columns are numbers called `names`.
    #[staticmethod]
    #[pyo3(signature = (*, x = None, sparse = None, names = None, columns = None, schema = None, graph = None, starts = None,
        classes = None, values = None, bits = None, class_names = None, weights = None, parts = None, node_names = None))]
    #[allow(clippy::too_many_arguments)]
    fn of_arrays(
        x: Option<PyReadonlyArray2<'_, f32>>,
        sparse: Option<SparseX<'_>>,
        names: Option<Vec<String>>,
        columns: Option<&str>,
        schema: Option<&str>,
        graph: Option<Rows<'_>>,
        starts: Option<Vec<usize>>,
        classes: Option<(PyReadonlyArray1<'_, i64>, usize)>,
        values: Option<PyReadonlyArray2<'_, f32>>,
        bits: Option<PyReadonlyArray2<'_, u8>>,
        class_names: Option<Vec<String>>,
        weights: Option<PyReadonlyArray1<'_, f32>>,
        parts: Option<Parts<'_>>,
        node_names: Option<Vec<String>>,
    ) -> PyResult<Data> {
        let mut lent = None;
        let (features, schema) = match (x, sparse) {
            (Some(x), None) => {
                let (rows, cols) = (x.as_array().nrows(), x.as_array().ncols());
                let values = match lend(&x)? {
                    Some((values, lender)) => {
                        lent = Some(lender);
                        values
                    }
                    None => x.as_slice()?.to_vec().into(),
                };
                work::hold(|| dense((rows, cols, values), names.as_deref(), columns, schema))?
            }
            (None, Some((starts, indices, data, width))) => {
                let (starts, indices, data) = (starts.as_slice()?, indices.as_slice()?, data.as_slice()?);
                (work::hold(|| sparse_rows(starts, indices, data, width))?, None)
            }
            _ => return Err(to_python(Error::Data("expected X as one array, dense or sparse".into()))),
        };
        let nodes = features.rows;
        let graph = match graph {
            Some((starts, indices, data)) => {
                let data = data.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
                let (starts, indices) = (starts.as_slice()?, indices.as_slice()?);
                work::hold(|| graph_of(nodes, starts, indices, data))?
            }
            None => work::hold(|| Graph::from_edges(nodes, &[], None, Direction::Undirected))?,
        };
        let level = if starts.is_some() { Level::Graph } else { Level::Node };
        let starts = starts.unwrap_or_else(|| vec![0, nodes]);
        let units = if level == Level::Graph { starts.len().saturating_sub(1) } else { nodes };
        let labels = match (classes, values, bits) {
            (Some((ids, classes)), None, None) => {
                Labels::Classes { ids: ids.as_slice()?.iter().map(|&id| class(id)).collect(), classes }
            }
            (None, Some(values), None) => {
                Labels::Values { width: values.as_array().ncols(), values: values.as_slice()?.to_vec() }
            }
            (None, None, Some(bits)) => {
                Labels::Multi { width: bits.as_array().ncols(), bits: bits.as_slice()?.to_vec() }
            }
            // What is predicted needs none.
            _ => Labels::Classes { ids: vec![UNLABELLED; units], classes: 2 },
        };
        let split = match parts {
            Some((train, valid, test)) => {
                Split { train: unit_ids(&train)?, valid: unit_ids(&valid)?, test: unit_ids(&test)? }
            }
            None => Split::default(),
        };
        let mut dataset = work::hold(|| Dataset::new("arrays", graph, starts, features, labels, level, split))?;
        match &schema {
            Some(schema) => dataset.feature_names = schema.names(),
            None => {
                if let Some(names) = names {
                    dataset.feature_names = names;
                }
            }
        }
        dataset.schema = schema.map(Arc::new);
        if let Some(class_names) = class_names {
            dataset.class_names = class_names;
        }
        dataset.node_names = node_names.unwrap_or_default();
        if let Some(weights) = weights {
            let weights = UnitWeights { column: "sample_weight".into(), values: weights.as_slice()?.to_vec() };
            weights.check(dataset.units()).or_raise()?;
            dataset.weights = Some(weights);
        }
        // Columns of a table and sparse rows were laid out anew.
        let lent = lent.filter(|_| dataset.schema.is_none() && matches!(dataset.features.values(), Values::Dense(_)));
        Ok(Data { whole: dataset, named: None, lent })
    }

    /// A known dataset, or the store at a path; fetched only where `download` says so.
    #[staticmethod]
    #[pyo3(signature = (name, directory = None, *, index = 0, download = false, listener = None))]
    fn named(
        py: Python<'_>,
        name: &str,
        directory: Option<PathBuf>,
        index: u32,
        download: bool,
        listener: Option<Py<PyAny>>,
    ) -> PyResult<Data> {
        let mut data = Config::default().data;
        (data.dataset, data.index) = (name.to_string(), index);
        if let Some(directory) = directory {
            data.dir = directory.to_string_lossy().into_owned();
        }
        let named = Some((data.dataset.clone(), data.dir.clone()));
        let whole = work::run(py, 0, listener, |stop, teller| {
            let report = |report: Report<'_>| {
                if let Report::Step(what) = report {
                    teller.tell("note", what.to_string());
                }
            };
            let note = |text: &str| teller.tell("note", text.to_string());
            let context = Context {
                access: Access { offline: !download, yes: download, mirror: None },
                download: &|_| (),
                watch: Watch::new(&report, stop.clone()),
                note: &note,
            };
            load_dataset(&data, &context)
        })?;
        Ok(Data { whole, named, lent: None })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.whole.name
    }

    #[getter]
    fn nodes(&self) -> usize {
        self.whole.graph.nodes()
    }

    #[getter]
    fn directed_edges(&self) -> usize {
        self.whole.graph.directed_edges()
    }

    #[getter]
    fn graphs(&self) -> usize {
        self.whole.graphs()
    }

    /// What has a label: "node" or "graph".
    #[getter]
    fn level(&self) -> &'static str {
        if self.whole.level == Level::Node { "node" } else { "graph" }
    }

    #[getter]
    fn units(&self) -> usize {
        self.whole.units()
    }

    #[getter]
    fn feature_names(&self) -> Vec<String> {
        self.whole.feature_names.clone()
    }

    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.whole.class_names.clone()
    }

    /// What kind of labels: "classes", "labels" (several yes/no) or "numbers".
    #[getter]
    fn task(&self) -> &'static str {
        match self.whole.labels {
            Labels::Classes { .. } => "classes",
            Labels::Multi { .. } => "labels",
            Labels::Values { .. } => "numbers",
        }
    }

    /// Address of the first value of X where it is dense: that of the array it was made of, where nothing was copied.
    fn x_address(&self) -> Option<usize> {
        match self.whole.features.values() {
            Values::Dense(values) => Some(values.as_ptr() as usize),
            Values::Half(_) | Values::Sparse(_) => None,
        }
    }

    /// X as rows x columns, in the order of the source.
    fn x<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (rows, cols) = (self.whole.features.rows, self.whole.features.cols);
        let mut values = vec![0f32; rows * cols];
        for node in 0..rows {
            let at = self.whole.original_id(node);
            self.whole.features.fill_row(node, &mut values[at * cols..][..cols]);
        }
        PyArray1::from_vec(py, values).call_method1("reshape", ((rows, cols),))
    }

    /// Class of each unit (-1: none), or units x width numbers.
    fn y<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let units = self.whole.units();
        let place = |unit: usize| if self.whole.level == Level::Node { self.whole.original_id(unit) } else { unit };
        match &self.whole.labels {
            Labels::Classes { ids, .. } => {
                let mut all = vec![-1i64; units];
                ids.iter()
                    .enumerate()
                    .filter(|(_, id)| **id != UNLABELLED)
                    .for_each(|(unit, &id)| all[place(unit)] = i64::from(id));
                Ok(PyArray1::from_vec(py, all).into_any())
            }
            labels => {
                let width = labels.outputs();
                let mut all = vec![f32::NAN; units * width];
                for unit in 0..units {
                    let row = &mut all[place(unit) * width..][..width];
                    match labels {
                        Labels::Values { .. } => row.copy_from_slice(labels.values(unit)),
                        _ => row.iter_mut().zip(labels.codes(unit)).for_each(|(to, code)| *to = code as f32),
                    }
                }
                PyArray1::from_vec(py, all).call_method1("reshape", ((units, width),))
            }
        }
    }

    /// Edges as 2 x E, by the numbers of the source: a node of the first row reads from the one below it.
    fn edge_index<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let adjacency = self.whole.graph.adjacency();
        let mut ends = Vec::with_capacity(2 * adjacency.entries());
        for i in 0..adjacency.rows() {
            ends.extend(adjacency.row(i).map(|_| self.whole.original_id(i) as i64));
        }
        ends.extend(adjacency.col_idx.iter().map(|&j| self.whole.original_id(j as usize) as i64));
        PyArray1::from_vec(py, ends).call_method1("reshape", ((2, adjacency.entries()),))
    }

    /// First node of each graph, and the end.
    fn starts(&self) -> Vec<usize> {
        self.whole.graph_ptr.clone()
    }

    /// Units of its own split: train, validation, test; empty where it has none.
    fn parts<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyArray1<i64>>> {
        let place = |unit: u32| {
            if self.whole.level == Level::Node { self.whole.original_id(unit as usize) } else { unit as usize }
        };
        let Split { train, valid, test } = &self.whole.split;
        let part = |units: &Vec<u32>| PyArray1::from_vec(py, units.iter().map(|&unit| place(unit) as i64).collect());
        [train, valid, test].map(part).into()
    }
}

/// Name, task, licence and whether it is here, of every known dataset.
#[pyfunction]
#[pyo3(signature = (directory = None))]
pub fn known_datasets(directory: Option<PathBuf>) -> Vec<(&'static str, &'static str, &'static str, bool)> {
    let of = |entry: &'static catalogue::Entry| {
        let task = if entry.task == Level::Node { "node" } else { "graph" };
        (entry.name, task, entry.licence, is_here(entry.name, directory.as_deref()))
    };
    catalogue::ALL.iter().map(of).collect()
}

/// Makes a store of raw files, as `harmonia data convert` does; says what there is to say about it.
#[pyfunction]
#[pyo3(signature = (source, target, *, format, directed = false, regression = false))]
pub fn convert(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    format: &str,
    directed: bool,
    regression: bool,
) -> PyResult<Vec<String>> {
    let format: Format = format.parse().map_err(to_python)?;
    work::run(py, 0, None, |stop, _| {
        let mut options = ConversionOptions::default();
        options.tables.directed = directed;
        options.tables.columns.regression = regression;
        options.tables.directory.clone_from(&source);
        let watch = Watch::new(&|_| (), stop.clone());
        let converted = formats::convert(format, Path::new(&source), &target, &options, &watch)?;
        Ok(converted.notes.into_iter().chain(converted.skipped).collect())
    })
}

/// A class, or none.
fn class(id: i64) -> u32 {
    u32::try_from(id).unwrap_or(UNLABELLED)
}

fn unit_ids(units: &PyReadonlyArray1<'_, i64>) -> PyResult<Vec<u32>> {
    let of = |&unit: &i64| {
        u32::try_from(unit)
            .map_err(|_| to_python(Error::Data(format!("{unit} is no number of a unit: expected 0 or more"))))
    };
    units.as_slice()?.iter().map(of).collect()
}

/// X of a dense array, and what its columns are where they are more than numbers.
fn dense(
    (rows, cols, values): (usize, usize, Array<f32>),
    names: Option<&[String]>,
    columns: Option<&str>,
    schema: Option<&str>,
) -> Result<(Features, Option<Schema>)> {
    let read = |text: &str| {
        serde_json::from_str::<Schema>(text).map_err(|error| Error::Internal(format!("columns of a table: {error}")))
    };
    if let Some(text) = schema {
        let schema = read(text)?;
        return Ok((laid_out(&schema, rows, &values)?.compact(), Some(schema)));
    }
    let numbers = || {
        let names =
            names.map_or_else(|| (0..cols).map(|k| format!("feature {k}")).collect::<Vec<_>>(), <[String]>::to_vec);
        Schema { columns: names.iter().map(|name| TableColumn::number(name)).collect() }
    };
    let mut schema = columns.map_or_else(|| Ok(numbers()), read)?;
    if schema.columns.len() != cols {
        return Err(Error::Data(format!("{} names for {cols} columns of X", schema.columns.len())));
    }
    let mut gaps = vec![false; cols];
    values
        .chunks_exact(cols.max(1))
        .for_each(|row| gaps.iter_mut().zip(row).for_each(|(gap, value)| *gap |= value.is_nan()));
    if schema.is_plain() && !gaps.contains(&true) {
        return Ok((Features::held(rows, cols, Values::Dense(values))?.compact(), None));
    }
    for (k, (column, gap)) in schema.columns.iter_mut().zip(&gaps).enumerate() {
        column.gaps = *gap;
        if column.kind != ColumnKind::Category {
            column.median = median(values.iter().skip(k).step_by(cols).copied());
        }
    }
    schema.check(schema.features())?;
    Ok((laid_out(&schema, rows, &values)?.compact(), Some(schema)))
}

/// Columns of X of the columns of a table: numbers as they are, categories by the place of their value (-1: another one), NaN where
/// a value is missing.
fn laid_out(schema: &Schema, rows: usize, values: &[f32]) -> Result<Features> {
    let width = schema.features();
    let mut laid = Vec::with_capacity(rows.saturating_mul(width));
    for (row, cells) in values.chunks_exact(schema.columns.len().max(1)).enumerate() {
        for (column, &cell) in schema.columns.iter().zip(cells) {
            let missing = cell.is_nan();
            if missing && !column.gaps {
                return Err(Error::Data(format!(
                    "column `{}` is missing in row {row} (NaN), and no value was missing when the model was fitted: fill it in",
                    column.name
                )));
            }
            match column.kind {
                ColumnKind::Category => {
                    laid.extend((0..column.values.len()).map(|at| f32::from(u8::from(at as f32 == cell))))
                }
                _ => laid.push(if missing { column.median } else { cell }),
            }
            laid.extend(column.gaps.then(|| f32::from(u8::from(missing))));
        }
    }
    Features::new(rows, width, laid)
}

/// X of sparse rows; entries in any order, repeats add up.
fn sparse_rows(starts: &[i64], indices: &[i64], data: &[f32], cols: usize) -> Result<Features> {
    let rows = rows_of(starts, indices.len())?;
    let entry = |at: usize| match u32::try_from(indices[at]).ok().filter(|&column| (column as usize) < cols) {
        Some(column) => Ok((column, data.get(at).copied().unwrap_or(1.0))),
        None => {
            Err(Error::Data(format!("sparse X has column {}: expected 0 to {}", indices[at], cols.saturating_sub(1))))
        }
    };
    let all =
        rows.iter().map(|range| range.clone().map(entry).collect::<Result<Vec<_>>>()).collect::<Result<Vec<_>>>()?;
    Features::held(rows.len(), cols, Values::Sparse(SparseRows::collect(all)))
}

/// A graph of compressed rows: row i lists what node i reads from. Rows are sorted and without repeats.
fn graph_of(nodes: usize, starts: &[i64], indices: &[i64], weights: Option<&[f32]>) -> Result<Graph> {
    let rows = rows_of(starts, indices.len())?;
    if rows.len() != nodes {
        return Err(Error::Data(format!("the graph has {} nodes, X has {nodes} rows", rows.len())));
    }
    let column = |&id: &i64| {
        u32::try_from(id)
            .map_err(|_| Error::Data(format!("an edge ends in node {id}: expected 0 to {}", nodes.saturating_sub(1))))
    };
    let col_idx: Vec<u32> = indices.iter().map(column).collect::<Result<_>>()?;
    let row_ptr: Vec<u64> = starts.iter().map(|&start| start as u64).collect();
    Graph::from_csr(Csr {
        row_ptr: row_ptr.into(),
        col_idx: col_idx.into(),
        weights: weights.map(|weights| weights.to_vec().into()),
    })
}

/// The entries of each row.
fn rows_of(starts: &[i64], entries: usize) -> Result<Vec<std::ops::Range<usize>>> {
    if starts.first() != Some(&0) || !starts.is_sorted() || starts.last() != Some(&(entries as i64)) {
        return Err(Error::Data(format!("indptr must rise from 0 to the {entries} indices")));
    }
    Ok(starts.windows(2).map(|pair| pair[0] as usize..pair[1] as usize).collect())
}
