//! Steps from a table of walks: launches of `kernels/table.cu`.
//!
//! A table is copied to the device once, block by block, and stays while something reads it: batches bring the numbers of
//! their rows, nothing else of it. One that has no room there is read panel by panel (`table_cells`).

use super::table_cells::{RowsPart, TableCells, batch_number, column_order};
use super::{Buffer, DeviceInputs, DeviceMatrix, Driver, Grid, Launcher, THREADS, abi, stretches};
use crate::batch::TableRows;
use crate::device::launcher::inputs::DeviceReach;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::walk_table::{CellBits, WalkTable};
use std::ptr::null;
use std::sync::{Arc, PoisonError, Weak};

/// Rows of a stretch whose sums are taken one after the other, at least.
pub(super) const STRETCH: u64 = 64;
/// Stretches, at most.
pub(super) const STRETCHES: u64 = 512;
/// Shared memory for the weights of a block of features; wider ones stay in global memory.
pub(super) const WEIGHT_BYTES: usize = 32 << 10;

/// Kernels by the bits of a cell, in the order of [`CellBits`].
pub(super) const FORWARD: [&str; 3] = ["table_forward_u8", "table_forward_u16", "table_forward_f32"];
pub(super) const SUMS: [&str; 3] = ["table_sums_u8", "table_sums_u16", "table_sums_f32"];

/// The table that was copied last: which one, and where it is.
pub(super) type LastTable<V> = Option<(Weak<WalkTable>, Weak<DeviceTable<V>>)>;

/// A whole table on the device, or all of it but its cells.
pub(super) struct DeviceTable<V: Driver> {
    cells: TableCells<V>,
    blocks: Vec<BlockShape>,
    /// columns x 2.
    scales: Buffer<V, f32>,
    /// First column of each feature, and the end.
    pub(super) column_ptr: Buffer<V, u32>,
    /// Feature of each column.
    column_feature: Buffer<V, u32>,
    columns: usize,
}

/// Which features and columns a block has.
struct BlockShape {
    bits: CellBits,
    first_feature: usize,
    features: usize,
    first_column: usize,
    width: usize,
    /// Columns of the feature that has most.
    longest: usize,
}

/// Rows of a table that a batch is made of.
pub(super) struct DeviceTableRows<V: Driver> {
    table: Arc<DeviceTable<V>>,
    pub(super) host: TableRows,
    rows: Buffer<V, u32>,
    /// Nodes of each; none where rows are nodes.
    pub(super) sizes: Option<Buffer<V, f32>>,
    /// Panels of this batch are not those of others.
    number: u64,
}

impl<V: Driver> DeviceTableRows<V> {
    /// Rows of X that masks of inputs apply to.
    pub(super) fn own(&self) -> usize {
        self.host.own()
    }

    /// Other rows of the same table.
    pub(super) fn with_rows(&self, host: TableRows, rows: Buffer<V, u32>, sizes: Option<Buffer<V, f32>>) -> Self {
        DeviceTableRows { table: Arc::clone(&self.table), host, rows, sizes, number: batch_number() }
    }

    /// The table on the device.
    pub(super) fn table(&self) -> &DeviceTable<V> {
        &self.table
    }
}

impl<V: Driver> DeviceTable<V> {
    fn new(launcher: &Launcher<V>, table: &Arc<WalkTable>, panel_bytes: usize) -> Result<Self> {
        let (mut column_ptr, mut column_feature, mut scales) = (vec![0u32], Vec::new(), Vec::new());
        let mut blocks = Vec::with_capacity(table.blocks().len());
        for block in table.blocks() {
            blocks.push(BlockShape {
                bits: block.cells.bits(),
                first_feature: block.features.start,
                features: block.features.len(),
                first_column: column_feature.len(),
                width: block.width(),
                longest: block.features.clone().map(|k| table.columns(block, k).count).max().unwrap_or(0),
            });
            scales.extend(column_order(table, block).iter().flat_map(|&column| block.scales[column]));
            for k in block.features.clone() {
                column_feature.extend(table.columns(block, k).iter().map(|_| k as u32));
                column_ptr.push(column_feature.len() as u32);
            }
        }
        Ok(DeviceTable {
            cells: TableCells::new(launcher, table, panel_bytes)?,
            blocks,
            scales: launcher.copy(&scales)?,
            column_ptr: launcher.copy(&column_ptr)?,
            columns: column_feature.len(),
            column_feature: launcher.copy(&column_feature)?,
        })
    }
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    /// `panel_bytes`: of panels that a table with no room on the device comes in; else 0.
    pub(super) fn table_rows(&self, rows: &TableRows, panel_bytes: usize) -> Result<DeviceTableRows<V>> {
        let sizes = rows.table.contents.sizes.as_ref();
        let sizes: Option<Vec<f32>> = sizes.map(|sizes| rows.rows.iter().map(|&row| sizes[row as usize]).collect());
        let table = self.device_table(&rows.table, panel_bytes)?;
        table.cells.fit(self, stretches(rows.rows.len() as u64, STRETCH, STRETCHES).1)?;
        Ok(DeviceTableRows {
            table,
            rows: self.copy(&rows.rows)?,
            sizes: sizes.map(|sizes| self.copy(&sizes)).transpose()?,
            host: rows.clone(),
            number: batch_number(),
        })
    }

    /// The table on the device: the copy that is there, or a new one.
    fn device_table(&self, table: &Arc<WalkTable>, panel_bytes: usize) -> Result<Arc<DeviceTable<V>>> {
        let mut last = self.last_table.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.as_ref().filter(|(host, _)| std::ptr::eq(host.as_ptr(), Arc::as_ptr(table)));
        if let Some(there) = known.and_then(|(_, device)| device.upgrade())
            && there.cells.is_brought() == (panel_bytes > 0)
        {
            return Ok(there);
        }
        let there = Arc::new(DeviceTable::new(self, table, panel_bytes)?);
        *last = Some((Arc::downgrade(table), Arc::downgrade(&there)));
        Ok(there)
    }

    pub(super) fn table_forward(
        &self,
        state: &mut DeviceMatrix<V>,
        responses: &DeviceMatrix<V>,
        hop_weights: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
    ) -> Result<()> {
        let rows = check(state, responses, inputs)?;
        let (table, d) = (&*rows.table, state.cols);
        let mut weights = self.allocate::<f32>(table.columns)?;
        let mut constants = self.allocate::<f32>(2 * d)?;
        let contents = &rows.host.table.contents;
        let arguments = abi::TableWeights {
            weights: self.at_mut(&mut weights, 0),
            constants: self.at_mut(&mut constants, 0),
            points: self.at(&responses.values, rows.own() * d),
            hop_weights: self.at(hop_weights, 0),
            scales: self.at(&table.scales, 0),
            column_ptr: self.at(&table.column_ptr, 0),
            features: d as u32,
            first_hop: contents.first_hop() as u32,
            hops: contents.hops as u32,
            zero: rows.host.table.grid.most() as u32,
            dropped: rows.host.dropped as f32,
        };
        // SAFETY: a weight and a scale per column, constants per feature; responses have a row per point behind those of the
        // units, and one of zeros where inputs are dropped (`check`).
        unsafe { self.run("table_weights", Grid::flat(d), &arguments)? };
        let (_, stretch) = stretches(rows.rows.len() as u64, STRETCH, STRETCHES);
        let (weights, constants) = (self.at(&weights, 0), self.at(&constants, 0));
        let state_at = self.at_mut(&mut state.values, 0);
        self.each_part(rows, stretch, true, &mut |part| {
            for (at, block) in table.blocks.iter().enumerate() {
                // A place for each column of each feature, as if all had as many.
                let bytes = block.longest * block.features * size_of::<f32>();
                let staged = bytes <= WEIGHT_BYTES;
                let arguments = abi::TableForward {
                    state: state_at.wrapping_add(part.first * d),
                    cells: part.cells(self, at, block.first_column, block.bits),
                    rows: part.rows,
                    sizes: rows.sizes.as_ref().map_or(null(), |sizes| self.at(sizes, part.first)),
                    own: if rows.own() > 0 { self.at(&responses.values, part.first * d) } else { null() },
                    hop_weights: self.at(hop_weights, 0),
                    weights,
                    constants,
                    column_ptr: self.at(&table.column_ptr, 0),
                    row_count: part.count as u64,
                    features: d as u32,
                    first_feature: block.first_feature as u32,
                    block_features: block.features as u32,
                    width: block.width as u32,
                    longest: if staged { block.longest as u32 } else { 0 },
                };
                let mut grid = Grid::flat(part.count * block.features);
                grid.shared_bytes = if staged { bytes as u32 } else { 0 };
                // SAFETY: H is rows x d, F begins with as many rows where units have one; rows of the cells are below their number
                // of rows (`WalkTable::row_of`, `RowsPart`), a block has `width` cells in each.
                unsafe { self.run(FORWARD[block.bits as usize], grid, &arguments)? };
            }
            Ok(())
        })?;
        self.table_walks_forward(state, responses, hop_weights, inputs, rows)
    }

    pub(super) fn table_backward(
        &self,
        responses: &mut DeviceMatrix<V>,
        d_hop_weights: &mut Buffer<V, f32>,
        state: &DeviceMatrix<V>,
        hop_weights: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
    ) -> Result<()> {
        let rows = check(state, responses, inputs)?;
        let (table, d, count) = (&*rows.table, state.cols, rows.rows.len() as u64);
        let (parts, stretch) = stretches(count, STRETCH, STRETCHES);
        let mut sums = self.allocate::<f32>(table.columns)?;
        // Of one block after the other; where rows come in panels, of all blocks side by side.
        let brought = table.cells.is_brought();
        let widest = table.blocks.iter().map(|block| block.width).max().unwrap_or(0);
        let mut partial = self.allocate::<f32>(parts as usize * if brought { table.columns } else { widest })?;
        let partial_of = |block: &BlockShape| if brought { parts as usize * block.first_column } else { 0 };
        let partial_at = self.at_mut(&mut partial, 0);
        let sums_at = self.at_mut(&mut sums, 0);
        let add_up = |block: &BlockShape| {
            let (to, from) = (sums_at.wrapping_add(block.first_column), partial_at.wrapping_add(partial_of(block)));
            // SAFETY: a partial sum per stretch and column of the block; the sums have all columns.
            unsafe { self.sum_columns(to, from, parts, block.width, false) }
        };
        self.each_part(rows, stretch, false, &mut |part| {
            for (at, block) in table.blocks.iter().enumerate() {
                let (first, count) = (part.first as u64 / stretch, (part.count as u64).div_ceil(stretch));
                let arguments = abi::TableSums {
                    partial: partial_at.wrapping_add(partial_of(block) + first as usize * block.width),
                    d_state: self.at(&state.values, part.first * d),
                    cells: part.cells(self, at, block.first_column, block.bits),
                    rows: part.rows,
                    column_feature: self.at(&table.column_feature, 0),
                    row_count: part.count as u64,
                    stretch,
                    features: d as u32,
                    first_column: block.first_column as u32,
                    width: block.width as u32,
                };
                let grid = Grid::new([(block.width as u64).div_ceil(u64::from(THREADS)), count], [THREADS, 1]);
                // SAFETY: parts begin where stretches do, and there is a partial sum per stretch and column; the rest as forward.
                unsafe { self.run(SUMS[block.bits as usize], grid, &arguments)? };
                if !brought {
                    add_up(block)?;
                }
            }
            Ok(())
        })?;
        if brought {
            table.blocks.iter().try_for_each(add_up)?;
        }
        let mut row_sums = self.allocate::<f32>(3 * d)?;
        let mut partial = self.allocate::<f32>(parts as usize * 3 * d)?;
        let own = if rows.own() > 0 { self.at(&responses.values, 0) } else { null() };
        let arguments = abi::TableRowSums {
            partial: self.at_mut(&mut partial, 0),
            d_state: self.at(&state.values, 0),
            sizes: rows.sizes.as_ref().map_or(null(), |sizes| self.at(sizes, 0)),
            own,
            row_count: count,
            stretch,
            features: d as u32,
        };
        let grid = Grid::new([(d as u64).div_ceil(u64::from(THREADS)), parts], [THREADS, 1]);
        let contents = &rows.host.table.contents;
        // SAFETY: three partial sums per stretch and feature; dH and F as forward.
        unsafe {
            self.run("table_row_sums", grid, &arguments)?;
            self.sum_columns(self.at_mut(&mut row_sums, 0), self.at(&partial, 0), parts, 3 * d, false)?;
        }
        let walked = self.table_walks_sums(responses, state, hop_weights, inputs, rows)?;
        let arguments = abi::TableFinish {
            points: self.at_mut(&mut responses.values, rows.own() * d),
            d_hop_weights: self.at_mut(d_hop_weights, 0),
            sums: self.at(&sums, 0),
            row_sums: self.at(&row_sums, 0),
            hop_weights: self.at(hop_weights, 0),
            scales: self.at(&table.scales, 0),
            column_ptr: self.at(&table.column_ptr, 0),
            features: d as u32,
            first_hop: contents.first_hop() as u32,
            hops: contents.hops as u32,
            most: rows.host.table.grid.most() as u32,
            dropped: rows.host.dropped as f32,
        };
        // SAFETY: as `table_weights`; every thread has a column of the points to itself.
        unsafe { self.run("table_finish", Grid::flat(d), &arguments)? };
        if let Some(sums) = walked {
            self.table_walks_finish(responses, d_hop_weights, &sums, rows)?;
        }
        if rows.own() == 0 {
            return Ok(());
        }
        let arguments = abi::TableOwn {
            responses: self.at_mut(&mut responses.values, 0),
            d_state: self.at(&state.values, 0),
            hop_weights: self.at(hop_weights, 0),
            row_count: count,
            features: d as u32,
        };
        // SAFETY: F begins with the rows of the units, dH has as many.
        unsafe { self.run("table_own", Grid::flat(rows.rows.len() * d), &arguments) }
    }
}

impl<V: Driver> Launcher<V> {
    /// Work on the rows of a batch: on all of them at once, or panel by panel.
    fn each_part(
        &self,
        rows: &DeviceTableRows<V>,
        stretch: u64,
        again: bool,
        work: &mut dyn FnMut(&RowsPart<'_, V>) -> Result<()>,
    ) -> Result<()> {
        let batch = (rows.number, &rows.host.rows[..], self.at(&rows.rows, 0));
        rows.table.cells.each(self, batch, stretch, again, work)
    }
}

/// The rows of the batch, where the matrices have theirs.
fn check<'a, V: Driver>(
    state: &DeviceMatrix<V>,
    responses: &DeviceMatrix<V>,
    inputs: &'a DeviceInputs<V>,
) -> Result<&'a DeviceTableRows<V>> {
    let DeviceReach::Table(rows) = &inputs.reach else {
        return Err(Error::Device("this batch was not made from a table of walks".into()));
    };
    let fits = state.rows == rows.rows.len()
        && responses.rows == rows.host.nodes()
        && [state.cols, responses.cols] == [rows.host.table.grid.features(); 2];
    if fits { Ok(rows) } else { Err(Error::Device("matrices of another batch".into())) }
}
