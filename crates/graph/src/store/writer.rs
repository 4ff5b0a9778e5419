//! Writes a store beside its place, checks it, and renames it: a crash never leaves half of one.
//!
//! Arrays of any size go through [`Writer::stream`], block by block; checksums are taken on the way. What a kill leaves
//! behind is a hidden directory; the next writer beside it removes it, unless it is locked by one that is still at work.

use super::{Counts, FORMAT, Meta, NODE_NAMES, NODE_ORDER, PARTS, Source, Store, UNIT_WEIGHTS, checked};
use super::{VERSION, WITHOUT_COLUMNS, WITHOUT_PARTS, WITHOUT_WEIGHTS};
use crate::dataset::{Dataset, Features, Labels, Level, NodeOrder, Schema, UNLABELLED, Values};
use crate::error::{Error, Result};
use crate::files::{self, UnfinishedFolder};
use crate::graph::{Csr, Split};
use crate::npy::{self, Element};
use crate::stop::Stop;
use bytemuck::Pod;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A type that arrays of a store may have.
pub trait Stored: Pod {
    /// As numpy calls it.
    const ELEMENT: Element;
}

macro_rules! stored {
    ($($kind:ty => $element:ident),*) => { $(impl Stored for $kind { const ELEMENT: Element = Element::$element; })* };
}
stored!(u8 => U8, i32 => I32, i64 => I64, u32 => U32, u64 => U64, half::f16 => F16, f32 => F32);

/// A store being written.
pub struct Writer {
    target: PathBuf,
    temporary: UnfinishedFolder,
    pub(super) checksums: BTreeMap<String, String>,
    /// How nodes were reordered.
    pub(super) node_order: Option<String>,
    /// The store whose arrays are put in another order, where these are not those that were written here.
    pub(super) source: Option<PathBuf>,
    stop: Stop,
}

/// What `meta.json` says beyond sizes and checksums.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Description {
    pub name: String,
    pub graph_level: bool,
    pub classes: usize,
    pub multi_label: bool,
    pub regression: bool,
    pub feature_names: Vec<String>,
    pub class_names: Vec<String>,
    pub columns: Option<Schema>,
    pub weights: Option<String>,
    pub edge_rows: Option<u64>,
    pub source: Option<Source>,
    pub generator: Option<serde_json::Value>,
    pub counts: Option<Counts>,
    pub symmetric: Option<bool>,
    pub parts: Option<Vec<usize>>,
}

impl Description {
    /// Of a dataset in memory.
    pub fn of(dataset: &Dataset) -> Description {
        Description {
            name: dataset.name.clone(),
            graph_level: dataset.level == Level::Graph,
            classes: dataset.labels.names(),
            multi_label: matches!(dataset.labels, Labels::Multi { .. }),
            regression: dataset.labels.is_values(),
            feature_names: dataset.feature_names.clone(),
            class_names: dataset.class_names.clone(),
            columns: dataset.schema.as_deref().cloned(),
            weights: dataset.weights.as_ref().map(|weights| weights.column.clone()),
            counts: Some(Counts {
                nodes: dataset.graph.nodes(),
                directed_edges: dataset.graph.directed_edges(),
                features: dataset.features.cols,
                graphs: dataset.graphs(),
            }),
            symmetric: dataset.graph.is_symmetric().then_some(true),
            parts: dataset.parts.as_deref().map(<[usize]>::to_vec),
            ..Description::default()
        }
    }
}

impl Writer {
    /// Begins a store at `target`.
    ///
    /// # Errors
    /// It exists already, or its parent cannot be written.
    pub fn create(target: &Path) -> Result<Writer> {
        if target.exists() {
            return Err(Error::file(target, "already exists; remove it or choose another place"));
        }
        if target.file_name().is_none() {
            return Err(Error::file(target, "is no name for a directory"));
        }
        let parent = files::directory_of(target);
        std::fs::create_dir_all(parent).map_err(Error::io("create directory", parent))?;
        files::remove_unfinished(parent);
        let temporary = UnfinishedFolder::create(parent).map_err(Error::io("create a directory in", parent))?;
        let (target, checksums) = (target.to_path_buf(), BTreeMap::new());
        Ok(Writer { target, temporary, checksums, node_order: None, source: None, stop: Stop::new() })
    }

    /// Gives up before the store takes its place, once `stop` asks for it.
    pub fn stopping(self, stop: &Stop) -> Writer {
        Writer { stop: stop.clone(), ..self }
    }

    /// Where the store will be.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// Where the files are for the time being.
    pub fn directory(&self) -> &Path {
        self.temporary.path()
    }

    /// Begins an array whose elements come in blocks.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn stream(&self, name: &str, element: Element, shape: &[usize]) -> Result<ArrayWriter> {
        let (header, elements) = (npy::header(element, shape), shape.iter().product::<usize>());
        let mut writer = self.file(name, (header.len() + elements * element.bytes()) as u64)?;
        writer.write(&header)?;
        Ok(writer)
    }

    /// Begins a file of `bytes` bytes, with whatever header it has.
    pub(super) fn file(&self, name: &str, bytes: u64) -> Result<ArrayWriter> {
        let (path, shown) = (self.temporary.path().join(name), self.target.join(name));
        let file = File::create(&path).map_err(Error::io("write", &shown))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        Ok(ArrayWriter { shown, name: name.to_string(), file, hash: Sha256::new(), missing: bytes })
    }

    /// Takes a finished stream in.
    ///
    /// # Errors
    /// Fewer elements than its shape promised, or a disk that is full.
    pub fn take(&mut self, array: ArrayWriter) -> Result<()> {
        let (name, checksum) = array.finish()?;
        self.checksums.insert(name, checksum);
        Ok(())
    }

    /// Writes a whole array.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn array<T: Stored>(&mut self, name: &str, shape: &[usize], values: &[T]) -> Result<()> {
        let mut array = self.stream(name, T::ELEMENT, shape)?;
        array.write(bytemuck::cast_slice(values))?;
        self.take(array)
    }

    /// Writes an adjacency matrix.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn adjacency(&mut self, adjacency: &Csr) -> Result<()> {
        self.array("row_ptr.npy", &[adjacency.row_ptr.len()], &adjacency.row_ptr)?;
        self.array("col_idx.npy", &[adjacency.entries()], &adjacency.col_idx)?;
        match &adjacency.weights {
            Some(weights) => self.array("edge_weights.npy", &[weights.len()], weights),
            None => Ok(()),
        }
    }

    /// Writes features in the form they are held in.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn features(&mut self, features: &Features) -> Result<()> {
        let shape = [features.rows, features.cols];
        match features.values() {
            Values::Dense(values) => self.array("features.npy", &shape, values),
            Values::Half(values) => self.array("features.npy", &shape, values),
            Values::Sparse(sparse) => {
                self.array("features_ptr.npy", &[sparse.row_ptr.len()], &sparse.row_ptr)?;
                self.array("features_idx.npy", &[sparse.col_idx.len()], &sparse.col_idx)?;
                self.array("features_val.npy", &[sparse.values.len()], &sparse.values)
            }
        }
    }

    /// Writes labels.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn labels(&mut self, labels: &Labels) -> Result<()> {
        match labels {
            Labels::Classes { ids, .. } => {
                let ids: Vec<i32> = ids.iter().map(|&id| if id == UNLABELLED { -1 } else { id as i32 }).collect();
                self.array("labels.npy", &[ids.len()], &ids)
            }
            Labels::Multi { bits, width } => self.array("labels.npy", &[bits.len() / width, *width], bits),
            Labels::Values { values, width } => self.array("labels.npy", &[values.len() / width, *width], values),
        }
    }

    /// Writes the splits a dataset came with, if any.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn splits(&mut self, splits: &[Split], units: usize) -> Result<()> {
        match splits {
            [] => Ok(()),
            [split] => {
                for (name, ids) in [("train.npy", &split.train), ("valid.npy", &split.valid), ("test.npy", &split.test)]
                {
                    self.array(name, &[ids.len()], ids)?;
                }
                Ok(())
            }
            _ => {
                let mut codes = vec![0u8; splits.len() * units];
                for (row, split) in codes.chunks_exact_mut(units.max(1)).zip(splits) {
                    for (ids, code) in [&split.train, &split.valid, &split.test].into_iter().zip(PARTS) {
                        for &unit in ids {
                            let Some(place) = row.get_mut(unit as usize) else {
                                return Err(Error::Data(format!("a split has id {unit}, there are {units} units")));
                            };
                            *place = code;
                        }
                    }
                }
                self.array("splits.npy", &[splits.len(), units], &codes)
            }
        }
    }

    /// Writes names of nodes, one per line.
    ///
    /// # Errors
    /// A name that holds a line break, or a disk that is full.
    pub fn node_names(&mut self, names: &[String]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        if let Some(node) = names.iter().position(|name| name.contains(['\n', '\r'])) {
            return Err(Error::Data(format!("the name of node {node} holds a line break: {:?}", names[node])));
        }
        let path = self.temporary.path().join(NODE_NAMES);
        let text = names.join("\n") + "\n";
        let write =
            || File::create(&path).and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        write().map_err(Error::io("write", &self.target.join(NODE_NAMES)))?;
        self.checksums.insert(NODE_NAMES.into(), files::hex(&Sha256::digest(text.as_bytes())));
        Ok(())
    }

    /// Writes which node of the source each node is.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn node_order(&mut self, order: &NodeOrder) -> Result<()> {
        self.node_order = Some(order.method.clone()).filter(|method| !method.is_empty());
        self.array(NODE_ORDER, &[order.original.len()], &order.original)
    }

    /// Writes every array of a dataset in memory.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn dataset(&mut self, dataset: &Dataset) -> Result<()> {
        self.adjacency(dataset.graph.adjacency())?;
        self.features(&dataset.features)?;
        self.labels(&dataset.labels)?;
        if let Some(weights) = &dataset.weights {
            self.array(UNIT_WEIGHTS, &[weights.values.len()], &weights.values)?;
        }
        let splits = match &dataset.own_splits[..] {
            // A split that was set by hand is the dataset's own.
            [] | [_] if !dataset.split.is_empty() => std::slice::from_ref(&dataset.split),
            splits => splits,
        };
        self.splits(splits, dataset.units())?;
        self.node_names(&dataset.node_names)?;
        if let Some(order) = &dataset.node_order {
            self.node_order(order)?;
        }
        if dataset.graphs() > 1 || dataset.level == Level::Graph {
            let graph_ptr: Vec<u64> = dataset.graph_ptr.iter().map(|&start| start as u64).collect();
            self.array("graph_ptr.npy", &[graph_ptr.len()], &graph_ptr)?;
        }
        Ok(())
    }

    /// Writes `meta.json`, reads the whole once as any reader would, and puts it in its place.
    ///
    /// # Errors
    /// Something in it is damaged, the disk is full, or another store has taken the place meanwhile.
    pub fn finish(self, description: Description) -> Result<()> {
        let meta = Meta {
            format: FORMAT.into(),
            version: match (&description.parts, &description.weights, &description.columns) {
                (Some(_), ..) => VERSION,
                (None, Some(_), _) => WITHOUT_PARTS,
                (None, None, Some(_)) => WITHOUT_WEIGHTS,
                (None, None, None) => WITHOUT_COLUMNS,
            },
            name: description.name,
            level: if description.graph_level { Level::Graph } else { Level::Node }.into(),
            classes: description.classes,
            multi_label: description.multi_label,
            regression: description.regression,
            counts: description.counts,
            symmetric: description.symmetric,
            edge_rows: description.edge_rows,
            node_order: self.node_order,
            source: description.source,
            generator: description.generator,
            checksums: self.checksums,
            class_names: description.class_names,
            feature_names: description.feature_names,
            columns: description.columns,
            weights: description.weights,
            parts: description.parts,
        };
        let Writer { temporary: unfinished, target, stop, .. } = self;
        let (temporary, target) = (unfinished.path().to_path_buf(), &target);
        let text = serde_json::to_string_pretty(&meta).map_err(|error| Error::file(target, error.to_string()))?;
        // The message names the place the user knows.
        let in_place = |error: Error| error.moved(&temporary, target);
        let dataset = Store::open_as(&temporary, meta).and_then(Store::read_through).map_err(in_place)?;
        let symmetric = dataset.graph.is_symmetric();
        drop(dataset);
        stop.check()?;
        // Last of all: without it a directory is no store.
        files::write_atomic(&temporary.join("meta.json"), text.as_bytes()).map_err(in_place)?;
        unfinished.finish(target).map_err(|error| match target.exists() {
            true => Error::file(target, "was made by another process meanwhile; it is left as it is"),
            false => Error::io("create", target)(error),
        })?;
        checked::remember(target, symmetric);
        Ok(())
    }
}

/// An array being written block by block.
pub struct ArrayWriter {
    shown: PathBuf,
    name: String,
    file: BufWriter<File>,
    hash: Sha256,
    missing: u64,
}

impl ArrayWriter {
    /// Adds elements, as bytes.
    ///
    /// # Errors
    /// More than the shape promised, or a disk that is full.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(missing) = self.missing.checked_sub(bytes.len() as u64) else {
            return Err(Error::file(&self.shown, "more elements came than its shape has"));
        };
        self.missing = missing;
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(Error::io("write", &self.shown))
    }

    fn finish(mut self) -> Result<(String, String)> {
        if self.missing > 0 {
            return Err(Error::file(&self.shown, format!("{} bytes of its elements did not come", self.missing)));
        }
        self.file.flush().and_then(|()| self.file.get_ref().sync_all()).map_err(Error::io("write", &self.shown))?;
        Ok((self.name, files::hex(&self.hash.finalize())))
    }
}
