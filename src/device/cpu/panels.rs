//! A nodes x features matrix cut into panels of a few columns, each panel row-major and contiguous.
//!
//! A walk mixes nodes but never features, so a thread can carry one panel through all hops while it stays in cache,
//! and panels can be handed to threads as plain disjoint slices.

use crate::real::Real;
use harmonia_graph::error::{Error, Result};
use rayon::prelude::*;

/// Panels narrower than a cache line waste loads.
const MIN_WIDTH: usize = 16;
const MAX_WIDTH: usize = 64;
/// Three states of a panel should fit the cache a core can use; wider panels amortise the work per row.
const CACHE_BYTES: usize = 4 << 20;

/// The matrix. Panel p holds columns p * width .. of every row; the last panel may be narrower.
#[derive(Clone, Debug)]
pub struct Panels<T> {
    rows: usize,
    cols: usize,
    width: usize,
    data: Vec<T>,
}

/// Some neighbouring columns of every row.
pub struct Panel<S> {
    /// Its first column.
    pub first: usize,
    /// Its number of columns.
    pub width: usize,
    /// rows x width values.
    pub data: S,
}

/// Columns of a panel for a matrix with this many rows. It depends on sizes only, so results do too.
pub fn panel_width<T>(rows: usize) -> usize {
    let fitting = CACHE_BYTES / (3 * size_of::<T>() * rows.max(1)) / MIN_WIDTH * MIN_WIDTH;
    // Where nothing fits, wide panels go through the edges least often.
    if fitting == 0 { MAX_WIDTH } else { fitting.min(MAX_WIDTH) }
}

impl<T: Real> Panels<T> {
    /// A zeroed matrix.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Panels { rows, cols, width: panel_width::<T>(rows), data: vec![T::zero(); rows * cols] }
    }

    /// A zeroed matrix in a single panel: the usual layout.
    pub fn zeroed_rows(rows: usize, cols: usize) -> Self {
        Panels { rows, cols, width: cols.max(1), data: vec![T::zero(); rows * cols] }
    }

    /// The elements, where they are in the usual layout.
    ///
    /// # Errors
    /// There are several panels.
    pub fn as_rows(&self) -> Result<&[T]> {
        if self.width >= self.cols { Ok(&self.data) } else { Err(several_panels()) }
    }

    /// The same, to write to.
    ///
    /// # Errors
    /// There are several panels.
    pub fn as_rows_mut(&mut self) -> Result<&mut [T]> {
        if self.width >= self.cols { Ok(&mut self.data) } else { Err(several_panels()) }
    }

    /// From the usual layout.
    pub fn from_row_major(values: &[T], cols: usize) -> Self {
        let mut matrix = Panels::zeros(values.len() / cols, cols);
        matrix.panels_mut().for_each(|Panel { first, width, data }| {
            for (to, from) in data.chunks_exact_mut(width).zip(values.chunks_exact(cols)) {
                to.copy_from_slice(&from[first..first + width]);
            }
        });
        matrix
    }

    /// n.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// d, over all panels.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Columns of a panel but the last.
    pub fn width(&self) -> usize {
        self.width.min(self.cols)
    }

    /// All panels, in order, in parallel.
    pub fn panels(&self) -> impl IndexedParallelIterator<Item = Panel<&[T]>> {
        let (rows, width) = (self.rows, self.width);
        (self.data.par_chunks(rows.max(1) * width).enumerate()).map(move |(p, data)| Panel {
            first: p * width,
            width: data.len() / rows,
            data,
        })
    }

    /// All panels, in order, in parallel, to write to.
    pub fn panels_mut(&mut self) -> impl IndexedParallelIterator<Item = Panel<&mut [T]>> {
        let (rows, width) = (self.rows, self.width);
        (self.data.par_chunks_mut(rows.max(1) * width).enumerate()).map(move |(p, data)| Panel {
            first: p * width,
            width: data.len() / rows,
            data,
        })
    }

    /// All panels one after the other.
    pub fn panels_in_order(&self) -> impl Iterator<Item = Panel<&[T]>> {
        let (rows, width) = (self.rows, self.width);
        (self.data.chunks(rows.max(1) * width).enumerate()).map(move |(p, data)| Panel {
            first: p * width,
            width: data.len() / rows,
            data,
        })
    }

    /// All panels one after the other, to write to.
    pub fn panels_mut_in_order(&mut self) -> impl Iterator<Item = Panel<&mut [T]>> {
        let (rows, width) = (self.rows, self.width);
        (self.data.chunks_mut(rows.max(1) * width).enumerate()).map(move |(p, data)| Panel {
            first: p * width,
            width: data.len() / rows,
            data,
        })
    }

    /// Column `col`: a slice and a stride; row i is at i * stride.
    pub fn column(&self, col: usize) -> (&[T], usize) {
        let panel = col / self.width;
        let stride = self.width.min(self.cols - panel * self.width);
        (&self.data[self.rows * panel * self.width + col % self.width..], stride)
    }

    /// A copy in the usual layout.
    pub fn to_row_major(&self) -> Vec<T> {
        let mut out = vec![T::zero(); self.rows * self.cols];
        for panel in self.panels_in_order() {
            for (to, from) in out.chunks_exact_mut(self.cols).zip(panel.data.chunks_exact(panel.width)) {
                to[panel.first..panel.first + panel.width].copy_from_slice(from);
            }
        }
        out
    }
}

/// No pass leads here.
fn several_panels() -> Error {
    Error::Device("class space needs a matrix with contiguous rows".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_tile_the_matrix() {
        let mut matrix = Panels::<f32>::zeros(3, 150);
        assert_eq!(matrix.width, 64);
        matrix.panels_mut().for_each(|panel| {
            for (i, row) in panel.data.chunks_exact_mut(panel.width).enumerate() {
                row.iter_mut().enumerate().for_each(|(c, value)| *value = (i * 1000 + panel.first + c) as f32);
            }
        });
        let dense = matrix.to_row_major();
        for i in 0..3 {
            for k in 0..150 {
                assert_eq!(dense[i * 150 + k], (i * 1000 + k) as f32);
                let (column, stride) = matrix.column(k);
                assert_eq!(column[i * stride], (i * 1000 + k) as f32);
            }
        }
        assert_eq!(matrix.panels().map(|panel| panel.width).collect::<Vec<_>>(), [64, 64, 22]);
    }
}
