//! Compressed sparse rows: the storage behind adjacency and transition matrices.
//!
//! Contract: `row_ptr` has rows + 1 non-decreasing entries from 0 to `col_idx.len()`; inside a row the columns are
//! strictly increasing; `weights`, when present, is as long as `col_idx`. Offsets are 64-bit, node ids 32-bit.

use super::build;
use crate::array::Array;
use crate::error::{Error, Result};
use rayon::prelude::*;
use std::ops::Range;

/// A square sparse matrix; without `weights` every stored entry is 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Csr {
    /// Where each row starts in `col_idx`; length rows + 1.
    pub row_ptr: Array<u64>,
    /// Column of each stored entry.
    pub col_idx: Array<u32>,
    /// Value of each stored entry; `None` means 1 everywhere and costs no memory traffic.
    pub weights: Option<Array<f32>>,
}

impl Csr {
    /// Empty rows included; there are as many columns.
    pub fn rows(&self) -> usize {
        self.row_ptr.len() - 1
    }

    /// Stored entries of all rows.
    pub fn entries(&self) -> usize {
        self.col_idx.len()
    }

    /// Of all three arrays, mapped or not.
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

    /// Whether every column is one: the last look before ids become addresses. A file may have changed since it was checked.
    /// One pass at the speed of memory, over 4 bytes of an entry where a hop moves 4 for each feature beside them.
    ///
    /// # Errors
    /// The first block of ids with one that is out of range.
    pub fn check_range(&self) -> Result<()> {
        self.check_columns(self.rows())
    }

    /// The same of a matrix with so many columns.
    ///
    /// # Errors
    /// As [`Csr::check_range`].
    pub fn check_columns(&self, rows: usize) -> Result<()> {
        const BLOCK: usize = 1 << 15;
        let largest = |ids: &[u32]| ids.iter().fold(0, |largest, &id| largest.max(id)) as usize;
        match self.col_idx.par_chunks(BLOCK).position_first(|ids| largest(ids) >= rows) {
            None => Ok(()),
            Some(block) => Err(Error::Internal(format!(
                "an id of the graph is out of range, among entries {} and following: there are {rows} nodes, and the graph was \
                 sound when it was checked",
                block * BLOCK
            ))),
        }
    }

    /// A new matrix whose row j lists the rows that have an entry in column j.
    pub fn transposed(&self) -> Csr {
        build::transposed(self)
    }

    /// Whether the matrix equals its transpose, without building it. Rows are sorted, so going through them in order
    /// meets the entries of every column in order: one cursor per row follows along.
    pub fn is_symmetric(&self) -> bool {
        let (row_ptr, col_idx) = (&self.row_ptr[..], &self.col_idx[..]);
        let weights = self.weights.as_deref();
        let mut next = row_ptr.to_vec();
        for i in 0..self.rows() {
            for e in row_ptr[i] as usize..row_ptr[i + 1] as usize {
                let j = col_idx[e] as usize;
                let mirrored = next[j] as usize;
                let same = mirrored < row_ptr[j + 1] as usize
                    && col_idx[mirrored] as usize == i
                    && weights.is_none_or(|weights| weights[mirrored] == weights[e]);
                if !same {
                    return false;
                }
                next[j] += 1;
            }
        }
        true
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
        Csr { row_ptr: row_ptr.into(), col_idx: col_idx.into(), weights: weights.map(Array::from) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_id_out_of_range_is_found_wherever_it_stands() {
        let rows = 70_000u32;
        let sound = Csr {
            row_ptr: (0..=u64::from(rows)).collect::<Vec<_>>().into(),
            col_idx: (0..rows).collect::<Vec<_>>().into(),
            weights: None,
        };
        sound.check_range().unwrap();
        for at in [0, 32_767, 32_768, 69_999] {
            let mut ids: Vec<u32> = (0..rows).collect();
            ids[at] = rows;
            let damaged = Csr { col_idx: ids.into(), ..sound.clone() };
            let message = damaged.check_range().unwrap_err().to_string();
            assert!(message.contains(&format!("entries {} and", at / (1 << 15) * (1 << 15))), "{at}: {message}");
        }
        let nothing = Csr { row_ptr: vec![0, 0].into(), col_idx: Vec::new().into(), weights: None };
        nothing.check_range().unwrap();
    }
}
