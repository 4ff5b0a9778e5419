//! What data a run was trained on, so that other data are noticed: `data.json` of its directory.
//!
//! Small data are hashed as they are in memory. Of a large store the checksums that it keeps of its own files are taken, so
//! that a run of any size is opened at once.

use harmonia_graph::dataset::{Dataset, Labels, Values};
use harmonia_graph::error::{Error, Result, one_line};
use harmonia_graph::files;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

const FILE: &str = "data.json";
/// Of what is hashed: others do not compare.
const VERSION: u32 = 1;
/// Bytes of a dataset up to which it is hashed anew each time.
const SMALL: usize = 64 << 20;
/// Bytes hashed by one task.
const PORTION: usize = 4 << 20;

/// Names and checksums of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    version: u32,
    /// What it is called; not compared.
    pub dataset: String,
    /// SHA-256 of every part.
    parts: BTreeMap<String, String>,
}

impl Fingerprint {
    /// Of a dataset before its split is drawn and its features are rescaled.
    pub fn of(dataset: &Dataset) -> Fingerprint {
        let bytes = dataset.features.bytes() + dataset.graph.adjacency().bytes();
        let mut parts = match bytes > SMALL && !dataset.checksums.is_empty() {
            true => (*dataset.checksums).clone(),
            false => hashed(dataset),
        };
        for (part, names) in [("names of features", &dataset.feature_names), ("names of classes", &dataset.class_names)]
        {
            // No name holds a NUL: JSON and tables escape or refuse it.
            parts.insert(part.into(), hash(&[names.join("\0").as_bytes()]));
        }
        Fingerprint { version: VERSION, dataset: dataset.name.clone(), parts }
    }

    /// That of a run; `None` of one that an earlier version made.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn read(directory: &Path) -> Result<Option<Fingerprint>> {
        let path = directory.join(FILE);
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let found: Fingerprint = serde_json::from_str(&files::read_text(&path)?).map_err(|error| {
            let message =
                format!("does not say what the run was trained on ({}); delete it to go on without", one_line(error));
            Error::file(&path, message)
        })?;
        Ok(Some(found).filter(|found| found.version == VERSION))
    }

    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::file(&path, error.to_string()))?;
        files::write_atomic(&path, text.as_bytes())
    }

    /// Parts that are not the same in another.
    pub fn differences(&self, other: &Fingerprint) -> Vec<String> {
        let names = self.parts.keys().chain(other.parts.keys().filter(|name| !self.parts.contains_key(*name)));
        names.filter(|name| self.parts.get(*name) != other.parts.get(*name)).map(one_line).collect()
    }
}

/// Every part as it is in memory.
fn hashed(dataset: &Dataset) -> BTreeMap<String, String> {
    use bytemuck::cast_slice;
    let matrix = dataset.graph.adjacency();
    let weights: &[u8] = matrix.weights.as_deref().map_or(&[], |weights| cast_slice(weights));
    let graphs: Vec<u64> = dataset.graph_ptr.iter().map(|&node| node as u64).collect();
    let features = match dataset.features.values() {
        Values::Dense(values) => hash(&[b"f32", cast_slice(values)]),
        Values::Half(values) => hash(&[b"f16", cast_slice(values)]),
        Values::Sparse(sparse) => {
            hash(&[cast_slice(&sparse.row_ptr), cast_slice(&sparse.col_idx), cast_slice(&sparse.values)])
        }
    };
    let labels = match &dataset.labels {
        Labels::Classes { ids, .. } => hash(&[b"classes", cast_slice(ids)]),
        Labels::Multi { bits, width } => hash(&[b"several", &width.to_le_bytes(), bits]),
        Labels::Values { values, width } => hash(&[b"values", &width.to_le_bytes(), cast_slice(values)]),
    };
    let splits: Vec<&[u8]> = std::iter::once(&dataset.split)
        .chain(&dataset.own_splits)
        .flat_map(|split| [&split.train, &split.valid, &split.test])
        .map(|units| cast_slice(units))
        .collect();
    let order = dataset.node_order.as_ref().map_or(&[][..], |order| cast_slice(&order.original));
    // Named only where there are any: data of earlier versions have none.
    let of_units = dataset.weights.as_ref().map(|weights| hash(&[cast_slice(&weights.values)]));
    [
        ("edges", hash(&[cast_slice(&matrix.row_ptr), cast_slice(&matrix.col_idx), weights])),
        ("graphs", hash(&[cast_slice(&graphs)])),
        ("features", features),
        ("labels", labels),
        ("splits", hash(&splits)),
        ("order of nodes", hash(&[order])),
    ]
    .into_iter()
    .chain(of_units.map(|hash| ("weights", hash)))
    .map(|(part, hash)| (part.to_string(), hash))
    .collect()
}

/// Of several slices, each with its length; the same for any number of threads.
fn hash(slices: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for slice in slices {
        hash.update((slice.len() as u64).to_le_bytes());
        let digests: Vec<_> = slice.par_chunks(PORTION).map(Sha256::digest).collect();
        digests.iter().for_each(|digest| hash.update(digest));
    }
    files::hex(&hash.finalize())
}
