//! Opens a store: sizes, types and offsets at once, every entry before it is used, checksums on request.

use super::map::MappedArray;
use super::{
    ARRAYS, Counts, FORMAT, Meta, NODE_NAMES, NODE_ORDER, StoredLevel, UNIT_WEIGHTS, VERSION, checked, opened, parts,
};
use crate::array::Array;
use crate::dataset::{Dataset, Features, Labels, Level, NodeOrder, UnitWeights};
use crate::error::{Error, Result, one_line, suggestion};
use crate::files;
use crate::graph::{Csr, Graph, Split, check_entries, check_offsets, partition, places};
use crate::stop::Stop;
use std::path::{Path, PathBuf};

/// A store whose sizes, types and offsets fit together; its edges and features have not been read yet.
pub struct Store {
    directory: PathBuf,
    /// `meta.json`, its version known.
    pub meta: Meta,
    adjacency: Csr,
    features: Features,
    graph_ptr: Vec<usize>,
    labels: Labels,
    weights: Option<UnitWeights>,
    level: Level,
    splits: Vec<Split>,
    node_order: Option<Array<u32>>,
}

/// One file of a store held against its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its name within the store.
    pub file: String,
    /// SHA-256 of what is there.
    pub found: String,
    /// What `meta.json` says; `None` where it says nothing.
    pub expected: Option<String>,
}

impl Store {
    /// Opens a store directory. Takes milliseconds whatever the size, if the arrays have the types we write.
    ///
    /// # Errors
    /// A file is missing or truncated, of a newer version, or does not fit the others.
    pub fn open(directory: &Path) -> Result<Store> {
        let file = |name: &str| directory.join(name);
        if !file("meta.json").exists() {
            let message = "is not a store: expected a meta.json in it. Raw files of a known dataset are found by its name, \
                           below data.dir; other data is converted to a store first";
            return Err(Error::file(directory, message));
        }
        Store::open_as(directory, meta(&file("meta.json"))?)
    }

    /// Opens the arrays of a directory that are described by `meta`.
    pub(super) fn open_as(directory: &Path, meta: Meta) -> Result<Store> {
        let file = |name: &str| directory.join(name);
        refuse_unknown_arrays(directory)?;
        let optional = |name: &str| Some(file(name)).filter(|path| path.exists());

        let adjacency = Csr {
            row_ptr: MappedArray::open(&file("row_ptr.npy"))?.offsets()?,
            col_idx: MappedArray::open(&file("col_idx.npy"))?.ids()?,
            weights: match optional("edge_weights.npy") {
                Some(path) => Some(MappedArray::open(&path)?.floats()?),
                None => None,
            },
        };
        check_offsets(&adjacency).map_err(|error| Error::file(&file("row_ptr.npy"), error.to_string()))?;
        let nodes = adjacency.rows();
        if nodes == 0 {
            return Err(Error::file(&file("row_ptr.npy"), "describes no nodes: a dataset needs at least one"));
        }
        let features = parts::features(directory, &meta, nodes)?;
        let graph_ptr = match optional("graph_ptr.npy") {
            Some(path) => {
                MappedArray::open(&path)?.unsigned(nodes as u64)?.into_iter().map(|start| start as usize).collect()
            }
            None => vec![0, nodes],
        };
        let (level, units) = match meta.level {
            StoredLevel::Node => (Level::Node, nodes),
            StoredLevel::Graph if optional("graph_ptr.npy").is_none() => {
                return Err(Error::file(&file("graph_ptr.npy"), "is missing: a store of level \"graph\" needs it"));
            }
            StoredLevel::Graph => (Level::Graph, graph_ptr.len().saturating_sub(1)),
        };
        let labels = parts::labels(&file("labels.npy"), &meta, units)?;
        let weights = parts::unit_weights(&file(UNIT_WEIGHTS), &meta, units)?;
        let splits = parts::splits(directory, units)?;
        let node_order = parts::node_order(&file(NODE_ORDER), &meta, nodes)?;
        if let Some(bounds) = &meta.parts {
            let in_file = |error: Error| Error::file(&file("meta.json"), format!("\"parts\": {error}"));
            partition::check_bounds(bounds, nodes).map_err(in_file)?;
        }
        let directory = directory.to_path_buf();
        let store =
            Store { directory, meta, adjacency, features, graph_ptr, labels, weights, level, splits, node_order };
        let found = store.counts();
        if let Some(expected) = store.meta.counts.filter(|&expected| expected != found) {
            let message = format!("expected {expected}; found {found}: the files are not of one store");
            return Err(Error::file(&file("meta.json"), message));
        }
        Ok(store)
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the entries of each row begin.
    pub fn row_ptr(&self) -> &[u64] {
        &self.adjacency.row_ptr
    }

    /// Sizes of the arrays.
    pub fn counts(&self) -> Counts {
        Counts {
            nodes: self.adjacency.rows(),
            directed_edges: self.adjacency.entries(),
            features: self.features.cols,
            graphs: self.graph_ptr.len().saturating_sub(1),
        }
    }

    /// Reads every entry, unless this very store was found sound before, and hands out the dataset.
    ///
    /// # Errors
    /// An id out of range, a feature that is not finite, a label or split that does not fit.
    pub fn dataset(self) -> Result<Dataset> {
        let (directory, known) = (self.directory.clone(), checked::recall(&self.directory));
        opened::note(&directory);
        let dataset = self.read(known)?;
        if known.is_none() {
            checked::remember(&directory, dataset.graph.is_symmetric());
        }
        Ok(dataset)
    }

    /// Reads every entry in any case.
    ///
    /// # Errors
    /// As [`Store::dataset`].
    pub fn read_through(self) -> Result<Dataset> {
        self.read(None)
    }

    /// `known`: whether the graph is symmetric, where all else is known to be sound too.
    fn read(self, known: Option<bool>) -> Result<Dataset> {
        let in_store = |error: Error| Error::file(&self.directory, error.to_string());
        if known.is_none() {
            let file = self.directory.join("col_idx.npy");
            check_entries(&self.adjacency).map_err(|error| Error::file(&file, error.to_string()))?;
        }
        // What a store says of itself is not taken on trust: a wrong word here would give wrong gradients.
        let symmetric = known.unwrap_or_else(|| self.adjacency.is_symmetric());
        if self.meta.symmetric == Some(true) && !symmetric {
            let message = "says \"symmetric\": true, but some edge is stored one way only";
            return Err(Error::file(&self.directory.join("meta.json"), message));
        }
        let mut dataset = Dataset::assemble(
            &self.meta.name,
            Graph::from_checked(self.adjacency, symmetric),
            self.graph_ptr,
            self.features,
            self.labels,
            self.level,
            self.splits,
        );
        dataset.weights = self.weights;
        dataset.parts = self.meta.parts.map(Into::into);
        dataset.store = std::path::absolute(&self.directory).ok();
        dataset.checksums = self.meta.checksums.into();
        dataset.check_sizes().map_err(in_store)?;
        if known.is_none() {
            dataset.check_values().map_err(in_store)?;
        }
        if let Some(original) = self.node_order {
            if known.is_none() {
                let file = self.directory.join(NODE_ORDER);
                places(&original).map_err(|error| Error::file(&file, error.to_string()))?;
            }
            dataset.node_order = Some(NodeOrder { method: self.meta.node_order.unwrap_or_default(), original });
        }
        let meta = self.directory.join("meta.json");
        dataset.name_parts();
        for (what, names, given) in [
            ("feature_names", &mut dataset.feature_names, self.meta.feature_names),
            ("class_names", &mut dataset.class_names, self.meta.class_names),
        ] {
            if given.len() == names.len() {
                *names = given;
            } else if !given.is_empty() {
                let message = format!("{what} has {} entries, expected {}", given.len(), names.len());
                return Err(Error::file(&meta, message));
            }
        }
        if let Some(schema) = self.meta.columns {
            schema.check(dataset.features.cols).map_err(|error| Error::file(&meta, error.to_string()))?;
            dataset.schema = Some(schema.into());
        }
        let path = self.directory.join(NODE_NAMES);
        if path.exists() {
            dataset.node_names = files::read_text(&path)?.lines().map(String::from).collect();
            let (expected, found) = (dataset.graph.nodes(), dataset.node_names.len());
            if found != expected {
                return Err(Error::file(
                    &path,
                    format!("expected one name per line for {expected} nodes, found {found}"),
                ));
            }
        }
        Ok(dataset)
    }

    /// Recomputes the SHA-256 of every file.
    ///
    /// # Errors
    /// A file cannot be read, or one that `meta.json` lists is missing.
    pub fn verify(directory: &Path, stop: &Stop) -> Result<Vec<Verified>> {
        let checksums = meta(&directory.join("meta.json"))?.checksums;
        let present = ARRAYS.iter().chain([&NODE_NAMES]).map(|name| name.to_string());
        let mut names: Vec<String> = present.filter(|name| directory.join(name).exists()).collect();
        names.extend(checksums.keys().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
        (names.into_iter())
            .map(|name| {
                if !ARRAYS.contains(&name.as_str()) && name != NODE_NAMES {
                    let message = format!("lists a checksum of `{}`, which is not part of a store", one_line(&name));
                    return Err(Error::file(&directory.join("meta.json"), message));
                }
                let found = files::sha256(&directory.join(&name), stop)?;
                Ok(Verified { expected: checksums.get(&name).cloned(), file: name, found })
            })
            .collect()
    }
}

/// Whether a directory is a store that was converted from raw files, damaged or not: only such a one may be made anew.
pub fn is_conversion(directory: &Path) -> bool {
    let text = std::fs::read(directory.join("meta.json")).ok();
    let value: Option<serde_json::Value> = text.and_then(|text| serde_json::from_slice(&text).ok());
    value.is_some_and(|value| {
        let version = value["version"].as_u64();
        value["format"] == FORMAT
            && version.is_some_and(|version| version <= VERSION.into())
            && value["source"].is_object()
    })
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
    /// Names of a million features and classes fit; anything larger is not a description.
    const LARGEST: u64 = 256 << 20;
    let bytes = std::fs::metadata(path).map_err(Error::io("read", path))?.len();
    if bytes > LARGEST {
        return Err(Error::file(path, format!("expected a description of a store, found {bytes} bytes")));
    }
    let text = files::read_text(path)?;
    // The version first: a newer store may have other keys.
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| Error::file(path, format!("is not valid JSON: {}", one_line(error))))?;
    match (value["format"].as_str(), value["version"].as_u64()) {
        (Some(FORMAT), Some(version)) if (1..=u64::from(VERSION)).contains(&version) => {}
        (Some(FORMAT), Some(version)) => {
            let message =
                format!("is a store of version {version}, this program reads versions 1 to {VERSION}: update it");
            return Err(Error::file(path, message));
        }
        _ => return Err(Error::file(path, format!("expected \"format\": \"{FORMAT}\" and \"version\": {VERSION}"))),
    }
    serde_json::from_value(value).map_err(|error| Error::file(path, one_line(error)))
}
