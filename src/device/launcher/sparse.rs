//! Non-zeros of X on the device, by rows and by columns.
//!
//! An entry's place is where it stands column by column; sparse responses are in that order. Invariant: every column has
//! at least one segment, so that a kernel that goes over segments meets every feature.

use super::{Buffer, Driver, Launcher, abi};
use harmonia_graph::dataset::SparseRows;
use harmonia_graph::error::{Error, Result};

/// Most non-zeros of a segment.
const SEGMENT: u64 = abi::HARMONIA_LONG_ROW as u64;

/// X without its zeros.
pub(super) struct SparseFeatures<V: Driver> {
    /// First entry of each row, and the end.
    pub(super) row_ptr: Buffer<V, u64>,
    /// Column of each entry of the rows.
    pub(super) col_idx: Buffer<V, u32>,
    /// Place of each entry of the rows.
    pub(super) places: Buffer<V, u32>,
    pub(super) column_ptr: Buffer<V, u64>,
    pub(super) rows: Buffer<V, u32>,
    pub(super) values: Buffer<V, f32>,
    pub(super) begin: Buffer<V, u64>,
    pub(super) end: Buffer<V, u64>,
    pub(super) segment_column: Buffer<V, u32>,
    pub(super) first_segment: Buffer<V, u32>,
}

impl<V: Driver> SparseFeatures<V> {
    pub(super) fn new(launcher: &Launcher<V>, by_rows: &SparseRows, cols: usize) -> Result<Self> {
        let (row_ptr, col_idx, from) = (&by_rows.row_ptr[..], &by_rows.col_idx[..], &by_rows.values[..]);
        if u32::try_from(from.len()).is_err() {
            return Err(Error::Data(format!(
                "{} non-zero features are more than the sparse path can number; set engine.sparse = off",
                from.len()
            )));
        }
        let mut column_ptr = vec![0u64; cols + 1];
        col_idx.iter().for_each(|&k| column_ptr[k as usize + 1] += 1);
        (1..=cols).for_each(|k| column_ptr[k] += column_ptr[k - 1]);
        let mut next = column_ptr.clone();
        let (mut rows, mut values) = (vec![0u32; from.len()], vec![0.0f32; from.len()]);
        let mut places = vec![0u32; from.len()];
        for (i, range) in row_ptr.windows(2).enumerate() {
            for e in range[0] as usize..range[1] as usize {
                let place = &mut next[col_idx[e] as usize];
                (rows[*place as usize], values[*place as usize], places[e]) = (i as u32, from[e], *place as u32);
                *place += 1;
            }
        }
        let (mut begin, mut end, mut segment_column, mut first_segment) = (vec![], vec![], vec![], vec![0u32]);
        for (k, range) in column_ptr.windows(2).enumerate() {
            // One segment of nothing where the column is empty.
            for start in (range[0]..range[1].max(range[0] + 1)).step_by(SEGMENT as usize) {
                begin.push(start);
                end.push((start + SEGMENT).min(range[1]));
                segment_column.push(k as u32);
            }
            first_segment.push(begin.len() as u32);
        }
        Ok(SparseFeatures {
            row_ptr: launcher.copy(row_ptr)?,
            col_idx: launcher.copy(col_idx)?,
            places: launcher.copy(&places)?,
            column_ptr: launcher.copy(&column_ptr)?,
            rows: launcher.copy(&rows)?,
            values: launcher.copy(&values)?,
            begin: launcher.copy(&begin)?,
            end: launcher.copy(&end)?,
            segment_column: launcher.copy(&segment_column)?,
            first_segment: launcher.copy(&first_segment)?,
        })
    }

    /// Room for so many, and for all segments that they could need; contents undefined.
    pub(super) fn room(launcher: &Launcher<V>, nodes: usize, entries: usize, cols: usize) -> Result<Self> {
        let segments = Self::most_segments(cols, entries);
        Ok(SparseFeatures {
            row_ptr: launcher.allocate(nodes + 1)?,
            col_idx: launcher.allocate(entries)?,
            places: launcher.allocate(entries)?,
            column_ptr: launcher.allocate(cols + 1)?,
            rows: launcher.allocate(entries)?,
            values: launcher.allocate(entries)?,
            begin: launcher.allocate(segments)?,
            end: launcher.allocate(segments)?,
            segment_column: launcher.allocate(segments)?,
            first_segment: launcher.allocate(cols + 1)?,
        })
    }

    /// nnz.
    pub(super) fn entries(&self) -> usize {
        self.values.len()
    }

    /// Segments of all columns.
    pub(super) fn segments(&self) -> usize {
        self.begin.len()
    }

    /// Segments of all columns, at most.
    pub(super) fn most_segments(cols: usize, entries: usize) -> usize {
        cols + entries / SEGMENT as usize
    }

    /// The columns as kernels see them.
    pub(super) fn columns(&self, launcher: &Launcher<V>) -> abi::SparseColumns {
        abi::SparseColumns {
            column_ptr: launcher.at(&self.column_ptr, 0),
            rows: launcher.at(&self.rows, 0),
            values: launcher.at(&self.values, 0),
            begin: launcher.at(&self.begin, 0),
            end: launcher.at(&self.end, 0),
            segment_column: launcher.at(&self.segment_column, 0),
            first_segment: launcher.at(&self.first_segment, 0),
            segments: self.segments() as u32,
            features: self.column_ptr.len() as u32 - 1,
        }
    }
}
