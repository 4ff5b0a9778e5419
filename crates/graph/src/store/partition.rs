//! A store written again with bounds of parts: as it is, or with its nodes in another order.
//!
//! Files go from one directory to the other in blocks, so nothing but offsets and an order is held in memory.

use super::writer::{Description, Writer};
use super::{ARRAYS, Counts, NODE_NAMES, Store, StoredLevel};
use crate::dataset::Level;
use crate::error::{Error, Result};
use crate::files;
use crate::watch::Watch;
use std::io::Read;

/// Bytes read at a time.
const BLOCK_BYTES: usize = 4 << 20;

impl Store {
    /// What its `meta.json` says beyond sizes of files, checksums and the order of nodes.
    pub fn description(&self) -> Description {
        let meta = self.meta.clone();
        Description {
            name: meta.name,
            graph_level: meta.level == StoredLevel::Graph,
            classes: meta.classes,
            multi_label: meta.multi_label,
            regression: meta.regression,
            feature_names: meta.feature_names,
            class_names: meta.class_names,
            columns: meta.columns,
            weights: meta.weights,
            edge_rows: meta.edge_rows,
            source: meta.source,
            generator: meta.generator,
            counts: Some(self.counts()),
            symmetric: meta.symmetric,
            parts: meta.parts,
        }
    }

    /// Refuses a store whose graphs are shared as they are, where its nodes are to be mixed.
    ///
    /// # Errors
    /// It has several graphs, or labels of graphs.
    pub fn check_one_graph(&self) -> Result<()> {
        let Counts { graphs, .. } = self.counts();
        if graphs == 1 && self.meta.level == StoredLevel::Node {
            return Ok(());
        }
        let message = format!(
            "holds {graphs} graphs with no edge between them: whole graphs are shared among processes, and they need no \
             partition; it is one large graph that does"
        );
        Err(Error::file(self.directory(), message))
    }

    /// Bytes of all its files.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn bytes(&self) -> Result<u64> {
        let entries = std::fs::read_dir(self.directory()).map_err(Error::io("read", self.directory()))?;
        Ok(entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|data| data.len()).sum())
    }
}

impl Writer {
    /// Writes every file of a store as it is.
    ///
    /// # Errors
    /// A file has changed since the store was made, the disk is full, or a stop was asked for.
    pub fn copy(&mut self, store: &Store, watch: &Watch) -> Result<()> {
        let (mut done, total) = (0, store.bytes()?);
        let mut block = vec![0u8; BLOCK_BYTES];
        for name in ARRAYS.into_iter().chain([NODE_NAMES]) {
            let path = store.directory().join(name);
            if !path.exists() {
                continue;
            }
            let mut from = files::open(&path)?;
            let mut to = self.file(name, from.metadata().map_err(Error::io("read", &path))?.len())?;
            loop {
                watch.check()?;
                let read = from.read(&mut block).map_err(Error::io("read", &path))?;
                if read == 0 {
                    break;
                }
                to.write(&block[..read])?;
                done += read as u64;
                watch.progress("bytes copied", done, total);
            }
            self.take(to)?;
            let (found, expected) = (self.checksums.get(name), store.meta.checksums.get(name));
            if expected.is_some() && found != expected {
                return Err(Error::file(&path, "has changed since its store was made: make the store again"));
            }
        }
        self.node_order.clone_from(&store.meta.node_order);
        Ok(())
    }

    /// Writes every array of a store with one graph, node `order[i]` in place i.
    ///
    /// # Errors
    /// Several graphs, `order` does not hold every node once, the disk is full, or a stop was asked for.
    pub fn renumbered_copy(&mut self, store: &Store, method: &str, order: &[u32], watch: &Watch) -> Result<()> {
        store.check_one_graph()?;
        self.source = Some(store.directory().to_path_buf());
        let result = self.renumber(method, order, Level::Node, watch);
        self.source = None;
        result
    }
}
