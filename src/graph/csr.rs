//! Compressed sparse rows: the storage behind adjacency and transition matrices.
//!
//! Contract: `row_ptr` has rows + 1 non-decreasing entries from 0 to `col_idx.len()`; inside a row the columns are
//! strictly increasing; `weights`, when present, is as long as `col_idx`. Offsets are 64-bit, node ids 32-bit.

use std::ops::Range;

/// A square sparse matrix; without `weights` every stored entry is 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Csr {
    /// Where each row starts in `col_idx`; length rows + 1.
    pub row_ptr: Vec<u64>,
    /// Column of each stored entry.
    pub col_idx: Vec<u32>,
    /// Value of each stored entry; `None` means 1 everywhere and costs no memory traffic.
    pub weights: Option<Vec<f32>>,
}

impl Csr {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.row_ptr.len() - 1
    }

    /// Number of stored entries.
    pub fn entries(&self) -> usize {
        self.col_idx.len()
    }

    /// Bytes of the arrays.
    pub fn bytes(&self) -> usize {
        8 * self.row_ptr.len() + 4 * self.entries() * (1 + usize::from(self.weights.is_some()))
    }

    /// Positions of row `i` in `col_idx` and `weights`.
    pub fn row(&self, i: usize) -> Range<usize> {
        self.row_ptr[i] as usize..self.row_ptr[i + 1] as usize
    }

    /// (column, value) of row `i`.
    pub fn row_entries(&self, i: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        self.row(i).map(|e| (self.col_idx[e] as usize, self.weights.as_ref().map_or(1.0, |w| w[e])))
    }

    /// Builds from (row, column, value) in any order. Equal (row, column) pairs merge: values are summed, or stay 1
    /// where `weighted` is false. Entries must be in range.
    pub(super) fn from_entries(rows: usize, entries: &[(u32, u32, f32)], weighted: bool) -> Csr {
        // Counting sort by row, then a small sort inside each row.
        let mut start = vec![0u64; rows + 1];
        for &(i, ..) in entries {
            start[i as usize + 1] += 1;
        }
        for i in 0..rows {
            start[i + 1] += start[i];
        }
        let mut next = start.clone();
        let mut sorted = vec![(0u32, 0f32); entries.len()];
        for &(i, j, value) in entries {
            sorted[next[i as usize] as usize] = (j, value);
            next[i as usize] += 1;
        }

        let mut row_ptr = Vec::with_capacity(rows + 1);
        let (mut col_idx, mut weights) = (Vec::with_capacity(entries.len()), Vec::new());
        row_ptr.push(0);
        for i in 0..rows {
            let row = &mut sorted[start[i] as usize..start[i + 1] as usize];
            row.sort_by_key(|&(j, _)| j);
            let row_start = col_idx.len();
            for &(j, value) in row.iter() {
                if col_idx.len() > row_start && col_idx.last() == Some(&j) {
                    if let (true, Some(last)) = (weighted, weights.last_mut()) {
                        *last += value;
                    }
                } else {
                    col_idx.push(j);
                    if weighted {
                        weights.push(value);
                    }
                }
            }
            row_ptr.push(col_idx.len() as u64);
        }
        Csr { row_ptr, col_idx, weights: weighted.then_some(weights) }
    }

    /// The transposed matrix.
    pub fn transposed(&self) -> Csr {
        let mut entries = Vec::with_capacity(self.entries());
        for i in 0..self.rows() {
            entries.extend(self.row_entries(i).map(|(j, value)| (j as u32, i as u32, value)));
        }
        Csr::from_entries(self.rows(), &entries, self.weights.is_some())
    }

    /// The diagonal blocks of the given row ranges, one after the other. Every column of a range must lie in it.
    pub(super) fn blocks(&self, ranges: &[Range<usize>]) -> Csr {
        let mut row_ptr = vec![0u64];
        let mut col_idx = Vec::new();
        let mut weights = self.weights.as_ref().map(|_| Vec::new());
        let mut base = 0;
        for range in ranges {
            let span = self.row_ptr[range.start] as usize..self.row_ptr[range.end] as usize;
            let shift = col_idx.len() as u64;
            row_ptr
                .extend(self.row_ptr[range.start + 1..=range.end].iter().map(|&end| end - span.start as u64 + shift));
            col_idx.extend(self.col_idx[span.clone()].iter().map(|&j| j - range.start as u32 + base as u32));
            if let (Some(to), Some(from)) = (&mut weights, &self.weights) {
                to.extend_from_slice(&from[span]);
            }
            base += range.len();
        }
        Csr { row_ptr, col_idx, weights }
    }
}
