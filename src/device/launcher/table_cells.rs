//! Where the cells of a table of walks are: on the device, all of them, or with the host, which brings the rows of a batch panel
//! by panel.
//!
//! A panel has the cells of some rows of a batch, block after block, so that kernels find in it what they find in a table of these
//! rows alone. Panels end where stretches of rows do, whose sums are taken one after the other: sums are the same for any size.

use super::belt::{Belt, Panel};
use super::{Buffer, Driver, Launcher};
use bytemuck::cast_slice;
use harmonia_graph::error::Result;
use harmonia_graph::walk_table::{Block, CellBits, Cells, WalkTable};
use rayon::prelude::*;
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
            Ok(match &block.cells {
                Cells::Eight(cells) => DeviceCells::Eight(launcher.copy(cells)?),
                Cells::Sixteen(cells) => DeviceCells::Sixteen(launcher.copy(cells)?),
                Cells::Float(cells) => DeviceCells::Float(launcher.copy(cells)?),
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
        let Brought { table, belt, bytes, order } = &mut *brought;
        let (row, stretch) = (row_bytes(table), stretch.max(1) as usize);
        let size = (*bytes / row.max(1) / stretch).max(1) * stretch;
        let part = |at: usize| &rows[at * size..rows.len().min((at + 1) * size)];
        let bring = |belt: &mut Belt<V>, panel: Panel| {
            let rows = part(panel.at);
            belt.bring(launcher, panel, rows.len() * row, &mut |first, piece| gather(piece, first, table, rows))
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
        Ok(Brought { table: Arc::clone(table), belt, bytes, order })
    }
}

/// Bytes of the cells of a row.
pub(super) fn row_bytes(table: &WalkTable) -> usize {
    table.blocks().iter().map(|block| block.width() * block.cells.bits().bytes()).sum()
}

/// Bytes from `first` on of the cells of some rows, block after block.
fn gather(piece: &mut [u8], first: usize, table: &WalkTable, rows: &[u32]) {
    let mut begin = 0;
    for block in table.blocks() {
        let cells: &[u8] = match &block.cells {
            Cells::Eight(cells) => cells,
            Cells::Sixteen(cells) => cast_slice(cells),
            Cells::Float(cells) => cast_slice(cells),
        };
        let row = block.width() * block.cells.bits().bytes();
        let end = begin + row * rows.len();
        let (from, to) = (first.max(begin), (first + piece.len()).min(end));
        if from < to {
            let part = &mut piece[from - first..to - first];
            part.par_chunks_mut(TASK).enumerate().for_each(|(task, mut part)| {
                let mut at = from - begin + task * TASK;
                while !part.is_empty() {
                    let (number, inside) = (rows[at / row] as usize, at % row);
                    let (now, rest) = part.split_at_mut((row - inside).min(part.len()));
                    now.copy_from_slice(&cells[number * row + inside..][..now.len()]);
                    (at, part) = (at + now.len(), rest);
                }
            });
        }
        begin = end;
    }
}
