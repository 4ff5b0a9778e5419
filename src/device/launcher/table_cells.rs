//! Where the cells of a table of walks are: on the device, all of them, or with the host, which brings the rows of a batch panel
//! by panel.
//!
//! A panel has the cells of some rows of a batch, block after block, so that kernels find in it what they find in a table of these
//! rows alone. Panels end where stretches of rows do, whose sums are taken one after the other: sums are the same for any size.
//! Kernels have the cells of a feature side by side: interleaved blocks are sorted on the way.

use super::belt::{Belt, Panel};
use super::{Buffer, Driver, Launcher};
use bytemuck::cast_slice;
use harmonia_graph::error::Result;
use harmonia_graph::walk_table::{Block, CellBits, Cells, WalkTable};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that a task gathers.
const TASK: usize = 1 << 18;

/// Cells of one block on the device.
pub(super) enum DeviceCells<V: Driver> {
    Eight(Buffer<V, u8>),
    Sixteen(Buffer<V, u16>),
    Float(Buffer<V, f32>),
}

/// The cells of a table.
pub(super) enum TableCells<V: Driver> {
    /// Of every block.
    Resident(Vec<DeviceCells<V>>),
    /// The rows of a batch, brought when they are wanted.
    Brought(Mutex<Brought<V>>),
}

/// What brings rows of a table.
pub(super) struct Brought<V: Driver> {
    table: Arc<WalkTable>,
    /// Of each block, its columns as kernels have them.
    columns: Vec<Vec<usize>>,
    belt: Belt<V>,
    /// Of a panel.
    bytes: usize,
    /// 0, 1, 2, ...: a panel has the row of its batch in each of its rows.
    order: Buffer<V, u32>,
}

/// Rows of a batch, and where their cells are.
pub(super) struct RowsPart<'a, V: Driver> {
    /// The first of them in the batch.
    pub(super) first: usize,
    pub(super) count: usize,
    /// Row of each among the cells.
    pub(super) rows: *const u32,
    cells: PartCells<'a, V>,
}

enum PartCells<'a, V: Driver> {
    Resident(&'a [DeviceCells<V>]),
    /// From this address on.
    Brought(u64),
}

impl<V: Driver> RowsPart<'_, V> {
    /// Cells of a block, the `at`-th, whose columns begin with `first_column`; and their kind.
    pub(super) fn cells(
        &self,
        launcher: &Launcher<V>,
        at: usize,
        first_column: usize,
        bits: CellBits,
    ) -> *const c_void {
        match &self.cells {
            PartCells::Resident(blocks) => match &blocks[at] {
                DeviceCells::Eight(cells) => launcher.at(cells, 0).cast(),
                DeviceCells::Sixteen(cells) => launcher.at(cells, 0).cast(),
                DeviceCells::Float(cells) => launcher.at(cells, 0).cast(),
            },
            PartCells::Brought(address) => {
                (address + (self.count * first_column * bits.bytes()) as u64) as *const c_void
            }
        }
    }
}

/// Which batch: panels of one are not those of another.
pub(super) fn batch_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl<V: Driver> TableCells<V> {
    /// All of them on the device, or with the host where panels have so many bytes.
    pub(super) fn new(launcher: &Launcher<V>, table: &Arc<WalkTable>, panel_bytes: usize) -> Result<Self> {
        if panel_bytes > 0 {
            return Ok(TableCells::Brought(Mutex::new(Brought::new(launcher, table, panel_bytes)?)));
        }
        let copy = |block: &Block| {
            let order = column_order(table, block);
            Ok(match &block.cells {
                Cells::Eight(cells) => DeviceCells::Eight(launcher.copy(&sorted(cells, &order))?),
                Cells::Sixteen(cells) => DeviceCells::Sixteen(launcher.copy(&sorted(cells, &order))?),
                Cells::Float(cells) => DeviceCells::Float(launcher.copy(&sorted(cells, &order))?),
            })
        };
        Ok(TableCells::Resident(table.blocks().iter().map(copy).collect::<Result<_>>()?))
    }

    /// Whether rows are brought.
    pub(super) fn is_brought(&self) -> bool {
        matches!(self, TableCells::Brought(_))
    }

    /// Makes room for a stretch of a batch in a panel.
    pub(super) fn fit(&self, launcher: &Launcher<V>, stretch: u64) -> Result<()> {
        let TableCells::Brought(brought) = self else { return Ok(()) };
        let mut brought = brought.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = stretch as usize * row_bytes(&brought.table);
        if needed > brought.bytes {
            *brought = Brought::new(launcher, &Arc::clone(&brought.table), needed)?;
        }
        Ok(())
    }

    /// Work on the rows of a batch, part by part; parts end where stretches do. `again`: they will be gone through once more.
    pub(super) fn each(
        &self,
        launcher: &Launcher<V>,
        batch: (u64, &[u32], *const u32),
        stretch: u64,
        again: bool,
        work: &mut dyn FnMut(&RowsPart<'_, V>) -> Result<()>,
    ) -> Result<()> {
        let (of, rows, on_device) = batch;
        let brought = match self {
            TableCells::Resident(blocks) => {
                let cells = PartCells::Resident(blocks);
                return work(&RowsPart { first: 0, count: rows.len(), rows: on_device, cells });
            }
            TableCells::Brought(brought) => brought,
        };
        let mut brought = brought.lock().unwrap_or_else(PoisonError::into_inner);
        let Brought { table, columns, belt, bytes, order } = &mut *brought;
        let (row, stretch) = (row_bytes(table), stretch.max(1) as usize);
        let size = (*bytes / row.max(1) / stretch).max(1) * stretch;
        let part = |at: usize| &rows[at * size..rows.len().min((at + 1) * size)];
        let bring = |belt: &mut Belt<V>, panel: Panel| {
            let rows = part(panel.at);
            belt.bring(launcher, panel, rows.len() * row, &mut |first, piece| {
                gather(piece, first, table, columns, rows)
            })
        };
        let order = launcher.at(order, 0);
        belt.each(launcher, of, rows.len().div_ceil(size), again, &bring, &mut |at, address| {
            let cells = PartCells::Brought(address);
            work(&RowsPart { first: at * size, count: part(at).len(), rows: order, cells })
        })
    }
}

impl<V: Driver> Brought<V> {
    fn new(launcher: &Launcher<V>, table: &Arc<WalkTable>, bytes: usize) -> Result<Self> {
        let order: Vec<u32> = (0..(bytes / row_bytes(table).max(1)).max(1) as u32).collect();
        let (belt, order) = (Belt::new(launcher, bytes)?, launcher.copy(&order)?);
        let columns = table.blocks().iter().map(|block| column_order(table, block)).collect();
        Ok(Brought { table: Arc::clone(table), columns, belt, bytes, order })
    }
}

/// Bytes of the cells of a row.
pub(super) fn row_bytes(table: &WalkTable) -> usize {
    table.blocks().iter().map(|block| block.width() * block.cells.bits().bytes()).sum()
}

/// The columns of a block, feature after feature.
pub(super) fn column_order(table: &WalkTable, block: &Block) -> Vec<usize> {
    block.features.clone().flat_map(|k| table.columns(block, k).iter()).collect()
}

/// The columns of every row in another order.
fn sorted<'a, C: Copy>(cells: &'a [C], order: &[usize]) -> Cow<'a, [C]> {
    if order.is_sorted() {
        return Cow::Borrowed(cells);
    }
    Cow::Owned(cells.chunks_exact(order.len()).flat_map(|row| order.iter().map(|&column| row[column])).collect())
}

/// Bytes from `first` on of the cells of some rows, block after block. Pieces begin and end between cells.
fn gather(piece: &mut [u8], first: usize, table: &WalkTable, columns: &[Vec<usize>], rows: &[u32]) {
    let mut begin = 0;
    for (block, order) in table.blocks().iter().zip(columns) {
        let end = begin + block.width() * block.cells.bits().bytes() * rows.len();
        let (from, to) = (first.max(begin), (first + piece.len()).min(end));
        if from < to {
            let part = &mut piece[from - first..to - first];
            let task = |(task, part): (usize, &mut [u8])| {
                let at = from - begin + task * TASK;
                match &block.cells {
                    Cells::Eight(cells) => gather_cells::<1>(part, at, cells, order, rows),
                    Cells::Sixteen(cells) => gather_cells::<2>(part, at, cast_slice(cells), order, rows),
                    Cells::Float(cells) => gather_cells::<4>(part, at, cast_slice(cells), order, rows),
                }
            };
            part.par_chunks_mut(TASK).enumerate().for_each(task);
        }
        begin = end;
    }
}

/// Cells of N bytes of some rows of a block, from byte `at` of these on.
fn gather_cells<const N: usize>(part: &mut [u8], at: usize, cells: &[u8], order: &[usize], rows: &[u32]) {
    let width = order.len();
    let (cells, mut part, mut at) = (cells.as_chunks::<N>().0, part.as_chunks_mut::<N>().0, at / N);
    while !part.is_empty() {
        let (row, inside) = (rows[at / width] as usize, at % width);
        let (now, rest) = part.split_at_mut((width - inside).min(part.len()));
        let row = &cells[row * width..][..width];
        now.iter_mut().zip(&order[inside..]).for_each(|(cell, &column)| *cell = row[column]);
        (at, part) = (at + now.len(), rest);
    }
}
