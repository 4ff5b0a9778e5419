//! Launches of `kernels/reduce.cu`: the second stage of every reduction, and the scale of states as half.

use super::{Buffer, Driver, Grid, Launcher, THREADS, abi, stretches};
use harmonia_graph::error::Result;

/// Rows one part of a column sum adds up.
const PART_ROWS: u64 = 256;
/// More parts would not fit the grid; parts grow instead.
const MOST_PARTS: u64 = 1 << 15;

/// Size the largest state is brought to where states are stored as half. They never grow from hop to hop: M averages, and
/// so does the backward walk on the symmetric matrices that `inputs` lets through. What is 10^8 times smaller is lost.
const HALF_SIZE: f32 = 16384.0;

/// How many rows are cut: (parts, rows of one); `None` where they are added up at once.
pub(super) fn parts(rows: u64) -> Option<(u64, u64)> {
    (rows > 2 * PART_ROWS).then(|| stretches(rows, PART_ROWS, MOST_PARTS))
}

/// Elements of the partial sums of a column sum, at most: the first stage, and the smaller ones that follow it.
pub(super) fn partial_sums(rows: usize, columns: usize) -> usize {
    if rows as u64 <= 2 * PART_ROWS { 0 } else { 2 * rows.div_ceil(PART_ROWS as usize) * columns }
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    /// out[c] = sum over rows of values[row, c], or += where `accumulate`.
    ///
    /// # Safety
    /// `out` holds `columns` and `values` rows x columns elements of live allocations that do not overlap.
    pub(super) unsafe fn sum_columns(
        &self,
        out: *mut f32,
        values: *const f32,
        rows: u64,
        columns: usize,
        accumulate: bool,
    ) -> Result<()> {
        let sum = |sums: *mut f32, values: *const f32, rows: u64, part_rows: u64, accumulate: bool| {
            let arguments = abi::ColumnSums {
                sums,
                values,
                rows,
                part_rows,
                columns: columns as u64,
                accumulate: u32::from(accumulate),
            };
            let tiles = (columns as u64).div_ceil(u64::from(abi::HARMONIA_SUM_COLUMNS));
            let block = [abi::HARMONIA_SUM_COLUMNS, abi::HARMONIA_SUM_SLICES];
            // At least one part, so that no rows give zeros.
            let grid = Grid::new([tiles, rows.div_ceil(part_rows).max(1)], block);
            // SAFETY: promised by the caller, or allocated below with parts x columns elements.
            unsafe { self.run("column_sums", grid, &arguments) }
        };
        let Some((parts, part_rows)) = parts(rows) else {
            return sum(out, values, rows, (2 * PART_ROWS).max(rows), accumulate);
        };
        let mut partial = self.allocate::<f32>(parts as usize * columns)?;
        sum(self.at_mut(&mut partial, 0), values, rows, part_rows, false)?;
        // SAFETY: `partial` holds parts x columns elements; `out` as promised by the caller.
        unsafe { self.sum_columns(out, self.at(&partial, 0), parts, columns, accumulate) }
    }

    /// The scale of states as half, from the largest |value|, or |value / degree of its row|, times a factor: nobody waits for it.
    pub(super) fn half_scale(
        &self,
        scale: &mut Buffer<V, f32>,
        values: &Buffer<V, f32>,
        columns: usize,
        inverse_degree: Option<&Buffer<V, f32>>,
        factor: f32,
    ) -> Result<()> {
        let length = values.len() as u64;
        let (blocks, block_length) = stretches(length, 1 << 12, 1 << 10);
        let mut partial = self.allocate::<f32>(blocks as usize)?;
        let arguments = abi::Largest {
            partial: self.at_mut(&mut partial, 0),
            values: self.at(values, 0),
            inverse_degree: inverse_degree.map_or(std::ptr::null(), |values| self.at(values, 0)),
            length,
            block_length,
            columns: columns as u32,
        };
        let finish = abi::HalfScale {
            scale: self.at_mut(scale, 0),
            partial: self.at(&partial, 0),
            length: blocks,
            factor,
            size: HALF_SIZE,
        };
        // SAFETY: one partial result per block; the matrix has `length` elements and a degree per row; the scale is one number.
        unsafe {
            self.run("largest", Grid::new([blocks, 1], [THREADS, 1]), &arguments)?;
            self.run("half_scale", Grid::new([1, 1], [THREADS, 1]), &finish)
        }
    }
}
