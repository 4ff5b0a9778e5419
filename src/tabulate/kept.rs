//! Tables between runs: in memory for the runs of a session, and large ones on disk, beside the store they were made from.
//!
//! `<store>.tables/<key>/` holds `block-<n>.npy` (units x cells) and `block-<n>.json` (its SHA-256, the scale of every
//! column and the SHA-256 of these) for each block, and at last `table.json`. The key is a hash of everything cells depend on: a graph, features,
//! walks, units or grid of another kind have another key, so that seeds, folds and settings of training share a table and
//! nothing stale is read. A build that was killed goes on at the first block that is not there or not sound.

use super::{Builder, TablePlan, shared};
use crate::plan::DatasetSizes;
use crate::team::Team;
use bytemuck::cast_slice;
use harmonia_graph::dataset::{Dataset, Level, Values};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::Walk;
use harmonia_graph::npy::{Element, header};
use harmonia_graph::store::MappedArray;
use harmonia_graph::walk_table::{Block, CellBits, Cells, WalkTable, blocks_of};
use harmonia_graph::watch::Watch;
use harmonia_graph::{files, lock};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Of the files; another one is built anew.
const VERSION: u32 = 2;
const FORMAT: &str = "harmonia-table";
/// A table is worth keeping if making it moves so many bytes: seconds.
const WORTH_KEEPING: f64 = 5e10;
/// Tables that a session remembers.
const REMEMBERED: usize = 4;
/// Bytes hashed by one task.
const PORTION: usize = 4 << 20;

/// The tables of a session.
#[derive(Debug, Default)]
pub struct Tables {
    made: Mutex<Vec<(String, Arc<WalkTable>)>>,
    /// The processes that make them together, and have some rows each.
    team: Option<Arc<dyn Team>>,
}

/// `table.json`: what a table is, for people and for the next run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDescription {
    format: String,
    version: u32,
    /// The whole key; the directory has the first sixteen digits of it.
    pub key: String,
    /// Of the dataset.
    pub name: String,
    /// Rows.
    pub units: usize,
    /// T.
    pub hops: usize,
    /// Of the feature that has most.
    pub points: usize,
    /// Of a cell: 8, 16 or 32.
    pub bits: usize,
    /// Of all cells.
    pub bytes: usize,
    /// Arrays it consists of.
    pub blocks: usize,
}

/// `block-<n>.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockDescription {
    sha256: String,
    scales: Vec<[f32; 2]>,
    /// A digit of a scale that has changed would make other numbers of sound cells.
    scales_sha256: String,
}

impl Tables {
    /// Those that several processes make together: each gets the rows that are its own.
    pub fn of_team(team: &Arc<dyn Team>) -> Tables {
        Tables { team: Some(Arc::clone(team)), ..Tables::default() }
    }

    /// The table of a plan: remembered, kept on disk, or made now. Only one process makes a table that is kept.
    ///
    /// # Errors
    /// A stop was asked for, or a disk is full or not writable.
    pub fn table(&self, dataset: &Dataset, walk: Walk, plan: &TablePlan, watch: &Watch<'_>) -> Result<Arc<WalkTable>> {
        let key = key(dataset, walk, plan);
        // Held while a table is made: runs side by side want the same one.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, table)) = made.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(table));
        }
        if let Some(team) = &self.team {
            let table = Arc::new(shared::table(dataset, walk, plan, &**team, watch)?);
            made.truncate(REMEMBERED - 1);
            made.insert(0, (key, Arc::clone(&table)));
            return Ok(table);
        }
        // Where nothing can be written, as beside a store that many share, a table that is there is read all the same.
        let usable = |home: &PathBuf| home.join(&key[..16]).join("table.json").exists() || is_writable(home);
        let table = Arc::new(match home(dataset).filter(|_| is_kept(dataset, plan)).filter(usable) {
            Some(home) => keep(&home, dataset, walk, plan, watch)?,
            None => Builder::new(dataset, walk, plan).table(watch)?,
        });
        made.truncate(REMEMBERED - 1);
        made.insert(0, (key, Arc::clone(&table)));
        Ok(table)
    }

    /// Remembers a table that was made elsewhere.
    pub fn remember(&self, dataset: &Dataset, walk: Walk, plan: &TablePlan, table: &Arc<WalkTable>) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.truncate(REMEMBERED - 1);
        made.insert(0, (key(dataset, walk, plan), Arc::clone(table)));
    }
}

/// Whether a table is a file that is mapped, where its directory can be written to; else it is in memory.
pub fn is_kept(dataset: &Dataset, plan: &TablePlan) -> bool {
    home(dataset).is_some() && plan.build_bytes(DatasetSizes::of(dataset)) > WORTH_KEEPING
}

/// Whether a directory is there, or can be made, and takes files.
fn is_writable(home: &Path) -> bool {
    std::fs::create_dir_all(home).is_ok() && files::check_writable(&home.join("table")).is_ok()
}

/// Where the tables of a dataset are kept; none of one that was not read from a store.
pub fn home(dataset: &Dataset) -> Option<PathBuf> {
    dataset.store.as_deref().and_then(beside)
}

/// The same of a store.
pub fn beside(store: &Path) -> Option<PathBuf> {
    let mut name = store.file_name()?.to_os_string();
    name.push(".tables");
    Some(store.with_file_name(name))
}

/// The tables in a directory, the finished ones with what they are.
///
/// # Errors
/// The directory cannot be read; one that is not there has none.
pub fn list(home: &Path) -> Result<Vec<(PathBuf, Option<TableDescription>)>> {
    if !home.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(home).map_err(Error::io("read", home))?;
    let mut tables: Vec<_> = (entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.is_dir())
        .map(|path| (path.clone(), description(&path)))
        .collect();
    tables.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(tables)
}

fn description(directory: &Path) -> Option<TableDescription> {
    let text = files::read_text(&directory.join("table.json")).ok()?;
    serde_json::from_str(&text).ok()
}

/// Opens the table of a plan in a directory of tables, or makes what is missing of it.
///
/// # Errors
/// A stop was asked for, or the disk is full or not writable; what was made stays for the next time.
pub fn keep(home: &Path, dataset: &Dataset, walk: Walk, plan: &TablePlan, watch: &Watch<'_>) -> Result<WalkTable> {
    let key = key(dataset, walk, plan);
    let directory = &home.join(&key[..16]);
    let description = TableDescription {
        format: FORMAT.into(),
        version: VERSION,
        key,
        name: dataset.name.clone(),
        units: plan.contents.units.len(),
        hops: plan.contents.hops,
        points: plan.grid.most(),
        bits: plan.bits.count(),
        bytes: plan.bytes(),
        blocks: blocks_of(&plan.grid).len(),
    };
    let lock_path = directory.with_extension("lock");
    if self::description(directory).as_ref() == Some(&description)
        && let Some(table) = opened(directory, plan, watch)?
    {
        // A build that was killed when all was done has left its lock.
        drop(lock::if_free(&lock_path));
        return Ok(table);
    }
    let waiting = || watch.step("waiting for another process that makes this table");
    let _lock = lock::hold(&lock_path, watch.stop(), &waiting)
        .map_err(|error| watch.check().err().unwrap_or_else(|| Error::io("lock", &lock_path)(error)))?;
    std::fs::create_dir_all(directory).map_err(Error::io("create directory", directory))?;
    files::remove_unfinished(directory);
    let total = description.blocks as u64;
    let mut maker = None;
    let mut blocks = Vec::with_capacity(description.blocks);
    for (at, features) in blocks_of(&plan.grid).into_iter().enumerate() {
        watch.check()?;
        watch.progress("tabulating walks", at as u64, total);
        let block = match read(directory, at, plan, features.clone(), watch)? {
            Some(block) => block,
            None => {
                write(
                    directory,
                    at,
                    &maker.get_or_insert_with(|| Builder::new(dataset, walk, plan)).block(at, watch)?,
                )?;
                // Mapped, so that the table need not fit memory.
                let damaged = || Error::file(&block_path(directory, at, "npy"), "is not what was written");
                read(directory, at, plan, features, watch)?.ok_or_else(damaged)?
            }
        };
        blocks.push(block);
    }
    watch.progress("tabulating walks", total, total);
    let text = serde_json::to_string_pretty(&description).map_err(|error| Error::file(directory, error.to_string()))?;
    files::write_atomic(&directory.join("table.json"), text.as_bytes())?;
    WalkTable::new(plan.grid.clone(), plan.contents.clone(), blocks)
}

/// A finished table, every block sound; `None` where one is not.
fn opened(directory: &Path, plan: &TablePlan, watch: &Watch<'_>) -> Result<Option<WalkTable>> {
    watch.step("checking the table of walks");
    let parts: Vec<_> = blocks_of(&plan.grid).into_iter().enumerate().collect();
    let stop = watch.stop().clone();
    let blocks: Vec<Option<Block>> = (parts.into_par_iter())
        .map(|(at, features)| read(directory, at, plan, features, &Watch::new(&|_| (), stop.clone())))
        .collect::<Result<_>>()?;
    let Some(blocks) = blocks.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
    Ok(WalkTable::new(plan.grid.clone(), plan.contents.clone(), blocks).ok())
}

fn block_path(directory: &Path, at: usize, ending: &str) -> PathBuf {
    directory.join(format!("block-{at:05}.{ending}"))
}

/// A block that is there and sound.
fn read(
    directory: &Path,
    at: usize,
    plan: &TablePlan,
    features: std::ops::Range<usize>,
    watch: &Watch<'_>,
) -> Result<Option<Block>> {
    let (cells, about) = (block_path(directory, at, "npy"), block_path(directory, at, "json"));
    let regular = |path: &Path| path.symlink_metadata().is_ok_and(|data| data.is_file());
    if !regular(&cells) || !regular(&about) {
        return Ok(None);
    }
    let width = plan.contents.steps() * plan.grid.stored_of(features.clone());
    let text = files::read_text(&about).unwrap_or_default();
    let Ok(BlockDescription { sha256, scales, scales_sha256 }) = serde_json::from_str(&text) else { return Ok(None) };
    let finite = scales.iter().flatten().all(|number| number.is_finite());
    let sound = scales.len() == width && finite && hash_of(&scales) == scales_sha256;
    if !sound || files::sha256(&cells, watch.stop())? != sha256 {
        return Ok(None);
    }
    let Ok(array) = MappedArray::open(&cells) else { return Ok(None) };
    if array.shape != [plan.contents.units.len(), width] {
        return Ok(None);
    }
    let found = match plan.bits {
        CellBits::Eight => array.bytes().map(Cells::Eight),
        CellBits::Sixteen => array.words().map(Cells::Sixteen),
        CellBits::Float => (array.element == Element::F32).then(|| array.floats().ok()).flatten().map(Cells::Float),
    };
    // An array of nothing is not mapped.
    let nothing = || array.is_empty().then(|| Cells::Sixteen(Vec::new().into()));
    Ok(found.or_else(nothing).map(|cells| Block { features, cells, scales }))
}

fn write(directory: &Path, at: usize, block: &Block) -> Result<()> {
    let (element, cells): (_, &[u8]) = match &block.cells {
        Cells::Eight(cells) => (Element::U8, cells),
        Cells::Sixteen(cells) => (Element::U16, cast_slice(cells)),
        Cells::Float(cells) => (Element::F32, cast_slice(cells)),
    };
    let rows = block.cells.len() / block.width().max(1);
    let mut bytes = header(element, &[rows, block.width()]);
    bytes.extend_from_slice(cells);
    let path = block_path(directory, at, "npy");
    files::write_atomic(&path, &bytes)?;
    let (sha256, scales_sha256) = (files::hex(&Sha256::digest(&bytes)), hash_of(&block.scales));
    let about = BlockDescription { sha256, scales: block.scales.clone(), scales_sha256 };
    let text = serde_json::to_string(&about).map_err(|error| Error::file(&path, error.to_string()))?;
    files::write_atomic(&block_path(directory, at, "json"), text.as_bytes())
}

fn hash_of(scales: &[[f32; 2]]) -> String {
    files::hex(&Sha256::digest(cast_slice(scales)))
}

/// A hash of everything that the cells of a table depend on.
pub fn key(dataset: &Dataset, walk: Walk, plan: &TablePlan) -> String {
    let (ptr, points) = plan.grid.parts();
    let ptr: Vec<u64> = ptr.iter().map(|&at| at as u64).collect();
    let contents = &plan.contents;
    let graphs: Vec<u64> = match contents.level {
        Level::Graph => dataset.graph_ptr.iter().map(|&node| node as u64).collect(),
        Level::Node => Vec::new(),
    };
    let about = [
        u64::from(VERSION),
        contents.hops as u64,
        u64::from(contents.level == Level::Graph),
        u64::from(walk.self_loops),
        u64::from(walk.lazy),
        plan.bits.count() as u64,
        dataset.features.cols as u64,
    ];
    let matrix = dataset.graph.adjacency();
    let mut parts: Vec<&[u8]> = vec![
        cast_slice(&about),
        cast_slice(&ptr),
        cast_slice(points),
        cast_slice(&contents.units),
        cast_slice(&graphs),
        cast_slice(&matrix.row_ptr),
        cast_slice(&matrix.col_idx),
        matrix.weights.as_deref().map_or(&[], |weights| cast_slice(weights)),
    ];
    match dataset.features.values() {
        Values::Dense(values) => parts.extend([&b"f32"[..], cast_slice(values)]),
        Values::Half(values) => parts.extend([&b"f16"[..], cast_slice(values)]),
        Values::Sparse(sparse) => {
            parts.extend([cast_slice(&sparse.row_ptr), cast_slice(&sparse.col_idx), cast_slice(&sparse.values)]);
        }
    }
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        let digests: Vec<_> = part.par_chunks(PORTION).map(Sha256::digest).collect();
        digests.iter().for_each(|digest| hash.update(digest));
    }
    files::hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_takes_no_files_is_not_used() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(is_writable(&scratch.path().join("store.tables")));
        std::fs::write(scratch.path().join("file"), "").unwrap();
        assert!(!is_writable(&scratch.path().join("file")));
    }
}
