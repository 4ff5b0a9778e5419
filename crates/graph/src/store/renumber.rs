//! Gives the nodes of a store that is being written other places: every array that speaks of nodes is written anew.
//!
//! Each file is mapped, read in the new order and written block by block, then removed; so formats that stream their
//! features need not know the graph first, and nothing but offsets and the order itself is held in memory. Features are
//! read from all over their file: quick while the file fits into memory that is free.
//! Invariant: `node_order.npy` leads back. Node i of the store is node `node_order[i]` of the source.

use super::map::MappedArray;
use super::writer::Writer;
use super::{NODE_NAMES, NODE_ORDER, UNIT_WEIGHTS};
use crate::dataset::{Level, NodeOrder};
use crate::error::{Error, Result};
use crate::files;
use crate::graph::{Csr, places, renumbered_offsets, renumbered_rows};
use crate::npy::Element;
use crate::watch::Watch;
use rayon::prelude::*;
use std::path::PathBuf;

/// Bytes written at a time.
const BLOCK_BYTES: usize = 4 << 20;
/// Bytes copied by one piece of work, at least.
const CHUNK_BYTES: usize = 64 << 10;
/// What the name of a file ends with while its successor is written.
const REPLACED: &str = ".replaced";

impl Writer {
    /// Puts node `order[i]` in place i, in every array that has been written, and notes what the order is called. Labels and
    /// splits of graphs stay.
    ///
    /// # Errors
    /// `order` does not hold every node once, or the disk is full.
    pub fn renumber(&mut self, method: &str, order: &[u32], level: Level, watch: &Watch) -> Result<()> {
        // The message names the place the user knows.
        let (here, target) = (self.directory().to_path_buf(), self.target().to_path_buf());
        self.renumbered(method, order, level, watch).map_err(|error| error.moved(&here, &target))
    }

    fn renumbered(&mut self, method: &str, order: &[u32], level: Level, watch: &Watch) -> Result<()> {
        let places = places(order)?;
        self.renumber_rows(order, &places, watch)?;
        self.renumber_dense("features.npy", order, watch)?;
        self.renumber_sparse(order, watch)?;
        if level == Level::Node {
            self.renumber_dense("labels.npy", order, watch)?;
            self.renumber_dense(UNIT_WEIGHTS, order, watch)?;
            self.renumber_splits(order, &places)?;
        }
        let names = self.source.as_deref().unwrap_or(self.directory()).join(NODE_NAMES);
        if names.exists() {
            let text = files::read_text(&names)?;
            let names: Vec<&str> = text.lines().collect();
            fits(NODE_NAMES, names.len(), order)?;
            self.node_names(&order.iter().map(|&node| names[node as usize].to_string()).collect::<Vec<_>>())?;
        }
        // The source may have had an order of its own: then it is the numbers before that which people know.
        let original: Vec<u32> = match self.replaced(NODE_ORDER)? {
            Some(old) => {
                let known = old.array.ids()?;
                fits(NODE_ORDER, known.len(), order)?;
                let original = order.iter().map(|&node| known[node as usize]).collect();
                old.remove()?;
                original
            }
            None => order.to_vec(),
        };
        self.node_order(&NodeOrder { method: method.into(), original: original.into() })
    }

    /// Adjacency and weights.
    fn renumber_rows(&mut self, order: &[u32], places: &[u32], watch: &Watch) -> Result<()> {
        let (Some(row_ptr), Some(col_idx)) = (self.replaced("row_ptr.npy")?, self.replaced("col_idx.npy")?) else {
            return Err(Error::Data("a store without edges cannot be put in another order".into()));
        };
        let weights = self.replaced("edge_weights.npy")?;
        let csr = Csr {
            row_ptr: row_ptr.array.offsets()?,
            col_idx: col_idx.array.ids()?,
            weights: weights.as_ref().map(|old| old.array.floats()).transpose()?,
        };
        fits("row_ptr.npy", csr.rows(), order)?;
        let offsets = renumbered_offsets(&csr, order);
        self.array("row_ptr.npy", &[offsets.len()], &offsets)?;
        let mut columns = self.stream("col_idx.npy", Element::U32, &[csr.entries()])?;
        let mut values = match &csr.weights {
            Some(weights) => Some(self.stream("edge_weights.npy", Element::F32, &[weights.len()])?),
            None => None,
        };
        let mut start = 0;
        while start < order.len() {
            watch.check()?;
            let full = offsets[start] + (BLOCK_BYTES / size_of::<u32>()) as u64;
            // At least one row, however long.
            let end = offsets.partition_point(|&offset| offset <= full).clamp(start + 2, offsets.len()) - 1;
            let (block, block_weights) = renumbered_rows(&csr, order, places, start..end);
            columns.write(bytemuck::cast_slice(&block))?;
            if let (Some(values), Some(weights)) = (&mut values, block_weights) {
                values.write(bytemuck::cast_slice(&weights))?;
            }
            watch.progress("edges in their new order", offsets[end], csr.entries() as u64);
            start = end;
        }
        self.take(columns)?;
        values.map_or(Ok(()), |values| self.take(values))?;
        drop(csr);
        [Some(row_ptr), Some(col_idx), weights].into_iter().flatten().try_for_each(Replaced::remove)
    }

    /// An array with one row per node, of any type, if there is one of that name.
    fn renumber_dense(&mut self, name: &str, order: &[u32], watch: &Watch) -> Result<()> {
        let Some(old) = self.replaced(name)? else { return Ok(()) };
        fits(name, old.array.shape[0], order)?;
        let (data, element) = (old.array.npy()?.data, old.array.element);
        let row = old.array.shape[1..].iter().product::<usize>() * element.bytes();
        let mut array = self.stream(name, element, &old.array.shape)?;
        let what = format!("{} in their new order", name.trim_end_matches(".npy"));
        let block_rows = (BLOCK_BYTES / row.max(1)).max(1);
        let mut block = vec![0u8; block_rows.min(order.len()) * row];
        let mut done = 0;
        for nodes in order.chunks(block_rows) {
            watch.check()?;
            let block = &mut block[..nodes.len() * row];
            (block.par_chunks_exact_mut(row.max(1)).zip(nodes))
                .with_min_len(CHUNK_BYTES.div_ceil(row.max(1)))
                .for_each(|(to, &node)| to.copy_from_slice(&data[node as usize * row..][..row]));
            array.write(block)?;
            done += nodes.len() as u64;
            watch.progress(&what, done, order.len() as u64);
        }
        self.take(array)?;
        old.remove()
    }

    /// Compressed rows of features: their columns keep their numbers.
    fn renumber_sparse(&mut self, order: &[u32], watch: &Watch) -> Result<()> {
        let Some(old_ptr) = self.replaced("features_ptr.npy")? else { return Ok(()) };
        let row_ptr = old_ptr.array.offsets()?;
        let ptr = &row_ptr[..];
        fits("features_ptr.npy", ptr.len().saturating_sub(1), order)?;
        let mut end = 0;
        let ends = order.iter().map(|&node| {
            end += ptr[node as usize + 1] - ptr[node as usize];
            end
        });
        let offsets: Vec<u64> = std::iter::once(0).chain(ends).collect();
        self.array("features_ptr.npy", &[offsets.len()], &offsets)?;
        for name in ["features_idx.npy", "features_val.npy"] {
            watch.step("features in their new order");
            let Some(old) = self.replaced(name)? else { continue };
            let (data, element) = (old.array.npy()?.data, old.array.element);
            let mut array = self.stream(name, element, &old.array.shape)?;
            for &node in order {
                let entries = ptr[node as usize] as usize..ptr[node as usize + 1] as usize;
                array.write(&data[entries.start * element.bytes()..entries.end * element.bytes()])?;
            }
            self.take(array)?;
            old.remove()?;
        }
        drop(row_ptr);
        old_ptr.remove()
    }

    /// Splits of nodes, in either form. Ids are put in order: they are read along with the nodes.
    fn renumber_splits(&mut self, order: &[u32], places: &[u32]) -> Result<()> {
        for name in ["train.npy", "valid.npy", "test.npy"] {
            let Some(old) = self.replaced(name)? else { continue };
            let place = |&node: &u32| places.get(node as usize).copied();
            let Some(mut ids) = old.array.ids()?.iter().map(place).collect::<Option<Vec<u32>>>() else {
                return Err(Error::Data(format!("{name} has an id beyond the {} nodes", order.len())));
            };
            ids.sort_unstable();
            self.array(name, &[ids.len()], &ids)?;
            old.remove()?;
        }
        let Some(old) = self.replaced("splits.npy")? else { return Ok(()) };
        fits("splits.npy", old.array.shape[1], order)?;
        let codes = old.array.npy()?.data;
        let rows = codes.chunks_exact(order.len().max(1));
        let moved: Vec<u8> = rows.flat_map(|row| order.iter().map(|&node| row[node as usize])).collect();
        self.array("splits.npy", &old.array.shape, &moved)?;
        old.remove()
    }

    /// Moves a file out of the way of its successor; `None` where there is no such file. One of another store stays.
    fn replaced(&self, name: &str) -> Result<Option<Replaced>> {
        if let Some(source) = &self.source {
            let path = source.join(name);
            let open = || Ok(Replaced { array: MappedArray::open(&path)?, aside: None });
            return path.exists().then(open).transpose();
        }
        let (path, aside) = (self.directory().join(name), self.directory().join(format!("{name}{REPLACED}")));
        if !path.exists() {
            return Ok(None);
        }
        std::fs::rename(&path, &aside).map_err(Error::io("rename", &path))?;
        Ok(Some(Replaced { array: MappedArray::open(&aside)?, aside: Some(aside) }))
    }
}

/// Refuses an array that has another number of nodes.
fn fits(name: &str, found: usize, order: &[u32]) -> Result<()> {
    match found == order.len() {
        true => Ok(()),
        false => Err(Error::Data(format!("{name} has {found} nodes, the order has {}", order.len()))),
    }
}

/// An array that is being written anew.
struct Replaced {
    array: MappedArray,
    /// Where it is until then; `None` where it stays.
    aside: Option<PathBuf>,
}

impl Replaced {
    fn remove(self) -> Result<()> {
        let Replaced { array, aside } = self;
        // Some systems do not remove what is mapped.
        drop(array);
        aside.map_or(Ok(()), |path| std::fs::remove_file(&path).map_err(Error::io("remove", &path)))
    }
}
