//! The points x at which experts are evaluated directly: every node, or zero and every non-zero of a sparse feature.

use super::inputs::{InputFeatures, SparseColumns};
use super::panels::Panels;
use crate::config::DropoutPlace;
use crate::device::Dropout;
use crate::real::Real;
use std::ops::Range;

/// Points x of one feature with their gradients, tile by tile.
pub trait Source<T>: Sync {
    /// Number of points of feature k.
    fn points(&self, k: usize) -> usize;
    /// Points start.. of feature k, and their gradients when there are any.
    fn load(&self, k: usize, start: usize, x: &mut [T], g: &mut [T]);
    /// Which element of X point `p` is, for masks that differ by element.
    fn element(&self, k: usize, p: usize) -> u64;
}

/// x of an element after dropout of inputs.
#[inline(always)]
fn masked<T: Real>(x: T, dropout: Option<&Dropout>, element: u64) -> T {
    match dropout.filter(|dropout| dropout.place == DropoutPlace::Input) {
        Some(dropout) if dropout.drops(element) => T::zero(),
        Some(dropout) => x * T::from_f64(dropout.scale()),
        None => x,
    }
}

/// Every node is a point.
pub struct RowSource<'a, T> {
    /// X.
    pub features: &'a InputFeatures,
    /// Nodes.
    pub rows: Range<usize>,
    /// dF, in a backward pass.
    pub gradient: Option<&'a Panels<T>>,
    /// Masks of inputs.
    pub dropout: Option<&'a Dropout>,
    /// Rows that masks of inputs apply to.
    pub maskable: usize,
    /// d.
    pub cols: usize,
}

impl<T: Real> Source<T> for RowSource<'_, T> {
    fn points(&self, _: usize) -> usize {
        self.rows.len()
    }

    fn load(&self, k: usize, start: usize, x: &mut [T], g: &mut [T]) {
        self.features.load(k, self.rows.start + start, self.cols, x);
        let maskable = self.maskable.saturating_sub(self.rows.start + start);
        for (p, x) in x.iter_mut().enumerate().take(maskable) {
            *x = masked(*x, self.dropout, self.element(k, start + p));
        }
        if let Some(gradient) = self.gradient {
            let (column, stride) = gradient.column(k);
            for (p, g) in g.iter_mut().enumerate() {
                *g = column[(self.rows.start + start + p) * stride];
            }
        }
    }

    fn element(&self, k: usize, p: usize) -> u64 {
        (self.rows.start + p) as u64 * self.cols as u64 + k as u64
    }
}

/// Zero is the first point of a feature, its non-zeros are the others.
pub struct ColumnSource<'a, T> {
    /// X.
    pub columns: &'a SparseColumns,
    /// Sparse dF, in a backward pass: sums over columns, then non-zeros.
    pub gradient: Option<&'a [T]>,
    /// Masks of inputs.
    pub dropout: Option<&'a Dropout>,
    /// d.
    pub cols: usize,
}

impl<T: Real> Source<T> for ColumnSource<'_, T> {
    fn points(&self, k: usize) -> usize {
        1 + self.columns.col_ptr[k + 1] - self.columns.col_ptr[k]
    }

    fn load(&self, k: usize, start: usize, x: &mut [T], g: &mut [T]) {
        let first = self.columns.col_ptr[k];
        for (p, x) in (start..).zip(x) {
            *x = match p {
                0 => T::zero(),
                _ => masked(T::from_f32(self.columns.values[first + p - 1]), self.dropout, self.element(k, p)),
            };
        }
        if let Some(gradient) = self.gradient {
            let (totals, values) = gradient.split_at(self.cols);
            let column = &values[first..self.columns.col_ptr[k + 1]];
            for (p, g) in (start..).zip(g) {
                *g = match p {
                    // What the non-zeros do not take.
                    0 => totals[k] - column.iter().copied().sum::<T>(),
                    _ => column[p - 1],
                };
            }
        }
    }

    fn element(&self, k: usize, p: usize) -> u64 {
        // The first point stands for all zeros of the column, which no mask changes.
        let row = p.checked_sub(1).map_or(0, |p| self.columns.rows[self.columns.col_ptr[k] + p]);
        u64::from(row) * self.cols as u64 + k as u64
    }
}
