//! Batches put together on the device from what is all there: graphs of a dataset, by launches of `kernels/select.cu`; rows of a
//! table of walks and targets of one graph in `select_rows`.
//!
//! The numbers of graphs or units go up, nothing else. What comes out is what a copy of the same batch from the host would be, but
//! for segments of columns that are empty.

use super::inputs::{DeviceCsr, DeviceFeatures, DeviceReach, DeviceWalk, DeviceWeights, WalkMatrix};
use super::select_rows::TableUnits;
use super::sparse::SparseFeatures;
use super::{Buffer, DeviceInputs, Driver, Grid, Launcher, abi};
use crate::batch::{Batch, GraphSelection, Reach, Selection};
use crate::device::no_walk;
use crate::plan::Plan;
use harmonia_graph::dataset::Level;
use harmonia_graph::error::{Error, Result};
use std::ptr::{null, null_mut};

/// Part of the free memory that all a batch may be made of may take.
const SHARE: usize = 4;

/// What batches are made of, with the targets that steps may have.
pub enum DeviceCollection<V: Driver> {
    /// All graphs of a dataset.
    Graphs(Graphs<V>),
    /// All units of a table of walks.
    Table(TableUnits<V>),
    /// Of the one graph that every batch has, the targets of all rows.
    Targets(Buffer<V, u32>),
}

/// All graphs of a dataset.
pub struct Graphs<V: Driver> {
    all: DeviceInputs<V>,
    /// Columns of X.
    features: usize,
    /// The largest weight of a node in each graph, or 1; none where batches walk.
    largest: Vec<f32>,
}

/// A batch under way.
struct Chosen<'a, V: Driver> {
    selection: &'a GraphSelection,
    all: &'a DeviceInputs<V>,
    graphs: Buffer<V, u32>,
    /// Before each graph: nodes, entries of the walk, non-zeros of X.
    nodes: Buffer<V, u64>,
    entries: Buffer<V, u64>,
    nonzeros: Buffer<V, u64>,
    /// Node of the dataset, and graph, of each node.
    sources: Buffer<V, u32>,
    graph_of: Buffer<V, u32>,
}

impl<V: Driver> DeviceCollection<V> {
    /// None where the host has to make batches, or most of the memory is needed otherwise.
    pub(super) fn new(launcher: &Launcher<V>, whole: &Batch, plan: Plan) -> Result<Option<Self>> {
        let one_graph = whole.graph_ptr.len() == 2;
        match &whole.reach {
            Reach::Table(rows) => Ok(TableUnits::new(launcher, whole, rows, plan)?.map(DeviceCollection::Table)),
            Reach::Walk(_) | Reach::Weights(_) if one_graph => {
                let words = whole.target_words();
                let fits = launcher.has_room(size_of_val(&words[..]))?;
                fits.then(|| launcher.copy(&words).map(DeviceCollection::Targets)).transpose()
            }
            Reach::Walk(_) | Reach::Weights(_) => Ok(Graphs::new(launcher, whole, plan)?.map(DeviceCollection::Graphs)),
        }
    }
}

impl<V: Driver> Graphs<V> {
    /// None of rows so long that they would have to be cut.
    fn new(launcher: &Launcher<V>, whole: &Batch, plan: Plan) -> Result<Option<Self>> {
        let largest = match &whole.reach {
            Reach::Weights(weights) => {
                let of_graph = |pair: &[usize]| &weights.values()[pair[0] * weights.hops()..pair[1] * weights.hops()];
                let most = |values: &[f64]| values.iter().map(|&value| value as f32).fold(1.0, f32::max);
                whole.graph_ptr.windows(2).map(|pair| most(of_graph(pair))).collect()
            }
            Reach::Walk(_) | Reach::Table(_) => Vec::new(),
        };
        if whole.has_longer_rows(u64::from(abi::HARMONIA_LONG_ROW)) {
            return Ok(None);
        }
        let x =
            if plan.sparse { whole.features.bytes() } else { whole.nodes() * whole.features.cols * size_of::<f32>() };
        let reach = whole.transition().map_or(0, |walk| walk.bytes());
        if !launcher.has_room(x + reach)? {
            return Ok(None);
        }
        let all = DeviceInputs::new(launcher, whole, plan)?;
        Ok(Some(Graphs { all, features: whole.features.cols, largest }))
    }
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    /// Whether so many bytes are few beside what is free.
    pub(super) fn has_room(&self, bytes: usize) -> Result<bool> {
        Ok(self.driver.free_bytes()?.is_none_or(|free| bytes <= free / SHARE))
    }

    pub(super) fn select_batch(
        &self,
        collection: &DeviceCollection<V>,
        selection: &Selection,
    ) -> Result<DeviceInputs<V>> {
        match (collection, selection) {
            (DeviceCollection::Graphs(graphs), Selection::Graphs(selection)) => self.select_graphs(graphs, selection),
            (DeviceCollection::Table(units), Selection::Rows(rows)) => self.select_rows(units, rows),
            _ => Err(Error::Device("a batch of something else than what the device holds".into())),
        }
    }

    fn select_graphs(&self, collection: &Graphs<V>, selection: &GraphSelection) -> Result<DeviceInputs<V>> {
        let all = &collection.all;
        if let Some(graph) = selection.graphs.iter().find(|&&graph| graph as usize >= all.graphs()) {
            return Err(Error::Device(format!("graph {graph} of {} graphs", all.graphs())));
        }
        let chosen = self.choose(all, selection)?;
        let (target_rows, rows) = match all.level {
            Level::Graph => (&chosen.graphs, all.graphs()),
            Level::Node => (&chosen.sources, all.nodes),
        };
        Ok(DeviceInputs {
            targets: self.gather(&all.targets, target_rows, all.targets.len() / rows.max(1))?,
            features: match &all.features {
                DeviceFeatures::Dense(x) => {
                    DeviceFeatures::Dense(self.gather(x, &chosen.sources, collection.features)?)
                }
                DeviceFeatures::Sparse(x) => {
                    DeviceFeatures::Sparse(self.select_sparse(x, &chosen, collection.features)?)
                }
                DeviceFeatures::Panels(_) => return Err(in_panels()),
            },
            reach: match &all.reach {
                DeviceReach::Walk(walk) => DeviceReach::Walk(DeviceWalk {
                    inverse_degree: self.gather(&walk.inverse_degree, &chosen.sources, 1)?,
                    matrix: self.select_matrix(&walk.matrix, &chosen)?,
                    transposed: walk.transposed.as_ref().map(|csr| self.select_matrix(csr, &chosen)).transpose()?,
                }),
                DeviceReach::Weights(weights) => {
                    let largest = selection.graphs.iter().map(|&graph| collection.largest[graph as usize]);
                    DeviceReach::Weights(DeviceWeights {
                        values: self.gather(&weights.values, &chosen.sources, weights.hops)?,
                        hops: weights.hops,
                        largest: largest.fold(1.0, f32::max),
                        graph_of: chosen.graph_of,
                    })
                }
                DeviceReach::Table(_) => return Err(no_walk()),
            },
            graph_ptr: chosen.nodes,
            nodes: selection.nodes,
            level: all.level,
            objective: all.objective,
            outputs: all.outputs,
            target_rows: None,
            units: selection.units,
        })
    }

    /// Offsets of the graphs, and where each node comes from.
    fn choose<'a>(&self, all: &'a DeviceInputs<V>, selection: &'a GraphSelection) -> Result<Chosen<'a, V>> {
        let count = selection.graphs.len();
        let matrix = match &all.reach {
            DeviceReach::Walk(walk) => Some(&walk.matrix.resident()?.row_ptr),
            _ => None,
        };
        let x = match &all.features {
            DeviceFeatures::Sparse(x) => Some(&x.row_ptr),
            DeviceFeatures::Dense(_) | DeviceFeatures::Panels(_) => None,
        };
        let offsets = |wanted: bool| self.allocate::<u64>(if wanted { count + 1 } else { 0 });
        let mut chosen = Chosen {
            selection,
            all,
            graphs: self.copy(&selection.graphs)?,
            nodes: offsets(true)?,
            entries: offsets(matrix.is_some())?,
            nonzeros: offsets(x.is_some())?,
            sources: self.allocate(selection.nodes)?,
            graph_of: self.allocate(selection.nodes)?,
        };
        let pointer = |rows: Option<&Buffer<V, u64>>| rows.map_or(null(), |rows| self.at(rows, 0));
        let entries = if matrix.is_some() { self.at_mut(&mut chosen.entries, 0) } else { null_mut() };
        let nonzeros = if x.is_some() { self.at_mut(&mut chosen.nonzeros, 0) } else { null_mut() };
        let arguments = abi::SelectGraphs {
            offsets: [self.at_mut(&mut chosen.nodes, 0), entries, nonzeros],
            row_ptr: [null(), pointer(matrix), pointer(x)],
            graphs: self.at(&chosen.graphs, 0),
            graph_ptr: self.at(&all.graph_ptr, 0),
            count: count as u32,
        };
        let kinds = Grid::new([arguments.offsets.len() as u64, 1], [abi::HARMONIA_SELECT_THREADS, 1]);
        let batch = self.selected(&chosen);
        let nodes = abi::SelectNodes {
            sources: self.at_mut(&mut chosen.sources, 0),
            graph_of: self.at_mut(&mut chosen.graph_of, 0),
            batch,
        };
        // SAFETY: graphs are below their number (`select_graphs`), offsets one more than graphs, and of nodes there are as many as
        // the chosen graphs have (`Batches::selection`, of the dataset that is here).
        unsafe {
            self.run("select_graphs", kinds, &arguments)?;
            self.run("select_nodes", Grid::flat(selection.nodes), &nodes)?;
        }
        Ok(chosen)
    }

    fn selected(&self, chosen: &Chosen<'_, V>) -> abi::Selected {
        abi::Selected {
            graphs: self.at(&chosen.graphs, 0),
            graph_ptr: self.at(&chosen.nodes, 0),
            all_graph_ptr: self.at(&chosen.all.graph_ptr, 0),
            nodes: chosen.selection.nodes as u64,
            count: chosen.selection.graphs.len() as u32,
        }
    }

    /// Some rows of words of 32 bits.
    pub(super) fn gather<T: bytemuck::Pod>(
        &self,
        all: &Buffer<V, T>,
        rows: &Buffer<V, u32>,
        width: usize,
    ) -> Result<Buffer<V, T>> {
        let mut out = self.allocate::<T>(rows.len() * width)?;
        self.gather_into(&mut out, 0, all, rows, width)?;
        Ok(out)
    }

    /// The same, from row `first` of what is there on.
    pub(super) fn gather_into<T: bytemuck::Pod>(
        &self,
        out: &mut Buffer<V, T>,
        first: usize,
        all: &Buffer<V, T>,
        rows: &Buffer<V, u32>,
        width: usize,
    ) -> Result<()> {
        assert!((first + rows.len()) * width <= out.len(), "rows have their place");
        let arguments = abi::ReadRows {
            out: self.at_mut(out, first * width).cast(),
            values: self.at(all, 0).cast(),
            rows: self.at(rows, 0),
            row_count: rows.len() as u64,
            width: width as u32,
        };
        // SAFETY: rows are those of `all`, `width` words each; as many are gathered as there is room for. A load and a store
        // keep all bits of a word.
        unsafe { self.run("read_rows", Grid::flat(rows.len() * width), &arguments) }
    }

    fn select_matrix(&self, all: &WalkMatrix<V>, chosen: &Chosen<'_, V>) -> Result<WalkMatrix<V>> {
        self.select_csr(all.resident()?, chosen).map(WalkMatrix::Resident)
    }

    fn select_csr(&self, all: &DeviceCsr<V>, chosen: &Chosen<'_, V>) -> Result<DeviceCsr<V>> {
        let (nodes, entries) = (chosen.selection.nodes, chosen.selection.entries);
        let weights = all.weights.as_ref().map(|_| self.allocate(entries)).transpose()?;
        let mut csr =
            DeviceCsr { row_ptr: self.allocate(nodes + 1)?, col_idx: self.allocate(entries)?, weights, long: None };
        let arguments = abi::SelectEntries {
            row_ptr: self.at_mut(&mut csr.row_ptr, 0),
            col_idx: self.at_mut(&mut csr.col_idx, 0),
            weights: csr.weights.as_mut().map_or(null_mut(), |weights| self.at_mut(weights, 0)),
            offsets: self.at(&chosen.entries, 0),
            sources: self.at(&chosen.sources, 0),
            graph_of: self.at(&chosen.graph_of, 0),
            all_row_ptr: self.at(&all.row_ptr, 0),
            all_col_idx: self.at(&all.col_idx, 0),
            all_weights: all.weights.as_ref().map_or(null(), |weights| self.at(weights, 0)),
            entries: entries as u64,
            batch: self.selected(chosen),
        };
        // SAFETY: rows and entries are those of the chosen graphs, whose edges stay inside them; a transpose has as many of each.
        unsafe { self.run("select_entries", Grid::flat(entries.max(nodes + 1)), &arguments)? };
        Ok(csr)
    }

    fn select_sparse(
        &self,
        all: &SparseFeatures<V>,
        chosen: &Chosen<'_, V>,
        features: usize,
    ) -> Result<SparseFeatures<V>> {
        let (nodes, count) = (chosen.selection.nodes, chosen.selection.graphs.len());
        let Some(nonzeros) = chosen.selection.nonzeros else {
            return Err(Error::Device("a batch of dense features from sparse ones".into()));
        };
        let mut x = SparseFeatures::room(self, nodes, nonzeros, features)?;
        let mut firsts = self.allocate::<u32>(features * count)?;
        let mut starts = self.allocate::<u32>(features * count)?;
        let batch = self.selected(chosen);
        let columns = abi::SelectColumns {
            firsts: self.at_mut(&mut firsts, 0),
            places: self.at_mut(&mut starts, 0),
            column_ptr: self.at_mut(&mut x.column_ptr, 0),
            segment_begin: self.at_mut(&mut x.begin, 0),
            segment_end: self.at_mut(&mut x.end, 0),
            segment_column: self.at_mut(&mut x.segment_column, 0),
            first_segment: self.at_mut(&mut x.first_segment, 0),
            all_column_ptr: self.at(&all.column_ptr, 0),
            all_rows: self.at(&all.rows, 0),
            features: features as u32,
            segments: x.segments() as u32,
            batch,
        };
        let entries = abi::SelectNonzeros {
            row_ptr: self.at_mut(&mut x.row_ptr, 0),
            col_idx: self.at_mut(&mut x.col_idx, 0),
            places: self.at_mut(&mut x.places, 0),
            rows: self.at_mut(&mut x.rows, 0),
            values: self.at_mut(&mut x.values, 0),
            offsets: self.at(&chosen.nonzeros, 0),
            sources: self.at(&chosen.sources, 0),
            graph_of: self.at(&chosen.graph_of, 0),
            firsts: self.at(&firsts, 0),
            starts: self.at(&starts, 0),
            all_row_ptr: self.at(&all.row_ptr, 0),
            all_col_idx: self.at(&all.col_idx, 0),
            all_places: self.at(&all.places, 0),
            all_rows: self.at(&all.rows, 0),
            all_values: self.at(&all.values, 0),
            nonzeros: nonzeros as u64,
            batch,
        };
        let one_block = Grid::new([1, 1], [abi::HARMONIA_SELECT_THREADS, 1]);
        // SAFETY: a number per feature and graph; non-zeros are those of the chosen graphs, and so many that all segments of
        // their columns have room (`most_segments`).
        unsafe {
            self.run("select_columns", Grid::flat(features * count), &columns)?;
            self.run("select_segments", one_block, &columns)?;
            self.run("select_nonzeros", Grid::flat(nonzeros.max(nodes + 1)), &entries)?;
        }
        Ok(x)
    }
}

/// No plan leads here.
fn in_panels() -> Error {
    Error::Device("sets of graphs stay on the device: none of them comes in panels".into())
}
