//! One step of a walk for a stretch of rows: row i sums the states of its neighbours.
//!
//! sum[i] = sum over the entries (i, j) of a CSR matrix of weight * from[j]. The columns of a row stay in registers while its
//! entries are gone through; the states of entries a little ahead are requested from memory meanwhile, across the ends of
//! rows. Deterministic: each row is summed in CSR order.
//!
//! A step may leave out rows nobody asks for, and entries whose states are zero ([`Part`]): what is left is copied together, a
//! stretch at a time, and summed as ever. A sum begins with +0 and so is never -0: a zero more or less in it changes no bit.

use super::chunks;
use super::element::Element;
use super::pool::{Loan, Pool};
use crate::plan::BatchSizes;
use crate::real::Real;
use harmonia_graph::graph::{Csr, RowSet};
use harmonia_graph::simd::{Cache, request};
use std::ops::Range;

/// Columns that are summed at once; wider states are gone through in stretches.
pub const MOST_COLUMNS: usize = 64;
/// Entries between a request and its use, where states fit the shared cache and where they come from memory. By
/// measurement; the second cache, which takes the requests then, can wait for more lines at a time than the first.
const AHEAD: usize = 16;
const FAR_AHEAD: usize = 48;
/// Bytes of a state that a shared cache is taken to hold.
const CACHED: usize = 32 << 20;

/// A sparse matrix by rows as plain slices, with any way to tell the weight of an entry.
#[derive(Clone, Copy)]
pub struct Matrix<'a, W> {
    /// First entry of each row, and the end.
    pub row_ptr: &'a [u64],
    /// Column of each entry.
    pub col_idx: &'a [u32],
    /// Weight of entry e.
    pub weight: W,
}

/// What of a step is computed; none stands for everything.
#[derive(Clone, Copy, Default)]
pub struct Part<'a> {
    /// Rows that are summed.
    pub rows: Option<&'a RowSet>,
    /// Rows of the states that may be other than zero.
    pub sources: Option<&'a RowSet>,
}

/// Where the stretches of a [`Part`] are copied together.
#[derive(Debug, Default)]
pub struct Copies {
    rows: Pool<u32>,
    row_ptr: Pool<u64>,
    col_idx: Pool<u32>,
    weights: Pool<f32>,
}

/// What is left of a stretch of rows.
struct Copied<'a> {
    rows: Loan<'a, u32>,
    row_ptr: Loan<'a, u64>,
    col_idx: Loan<'a, u32>,
    weights: Loan<'a, f32>,
    count: usize,
}

impl Copies {
    /// Bytes of them, about: a stretch of rows per thread.
    pub fn planned_bytes(batch: &BatchSizes) -> usize {
        // Lazy walks and self-loops add an entry per row.
        let entries = chunks::stretch_entries(batch.nodes, batch.entries + batch.nodes, chunks::WALK_ENTRIES);
        // Columns and weights of entries; numbers and offsets of rows, which count as four entries each.
        let bytes = entries * 2 * size_of::<u32>() + entries / 4 * (size_of::<u32>() + size_of::<u64>());
        rayon::current_num_threads() * bytes
    }

    fn take(&self, csr: &Csr, part: Part<'_>, span: Range<usize>) -> Copied<'_> {
        let most = (csr.row_ptr[span.end] - csr.row_ptr[span.start]) as usize;
        let mut rows = self.rows.take(span.len(), 0);
        let mut row_ptr = self.row_ptr.take(span.len() + 1, 0);
        // One place more than needed: an entry is written before it is known whether it is kept.
        let mut col_idx = self.col_idx.take(most + 1, 0);
        let mut weights = self.weights.take(if csr.weights.is_some() { most + 1 } else { 0 }, 0.0);
        let (mut count, mut end) = (0, 0);
        row_ptr[0] = 0;
        for i in span.filter(|&i| part.rows.is_none_or(|rows| rows.contains(i))) {
            let row = csr.row(i);
            let columns = &csr.col_idx[row.clone()];
            let given = csr.weights.as_deref().map(|weights| &weights[row]);
            match (part.sources, given) {
                (None, given) => {
                    col_idx[end..][..columns.len()].copy_from_slice(columns);
                    given.iter().for_each(|given| weights[end..][..given.len()].copy_from_slice(given));
                    end += columns.len();
                }
                (Some(sources), None) => {
                    for &j in columns {
                        col_idx[end] = j;
                        end += usize::from(sources.contains(j as usize));
                    }
                }
                (Some(sources), Some(given)) => {
                    for (&j, &weight) in columns.iter().zip(given) {
                        (col_idx[end], weights[end]) = (j, weight);
                        end += usize::from(sources.contains(j as usize));
                    }
                }
            }
            rows[count] = i as u32;
            count += 1;
            row_ptr[count] = end as u64;
        }
        Copied { rows, row_ptr, col_idx, weights, count }
    }
}

/// [`columns`] of all columns of a state, for a part of the entries of a CSR matrix in a span of its rows.
#[inline(always)]
pub fn rows<T: Real, S: Element<T>>(
    copies: &Copies,
    from: &[S],
    width: usize,
    csr: &Csr,
    part: Part<'_>,
    span: Range<usize>,
    mut finish: impl FnMut(usize, usize, &[T]),
) {
    let is_part = part.rows.is_some() || part.sources.is_some();
    let copied = is_part.then(|| copies.take(csr, part, span.clone()));
    let (row_ptr, col_idx, weights, span) = match &copied {
        Some(Copied { row_ptr, col_idx, weights, count, .. }) => {
            // What stands behind the last entry is an earlier loan's.
            let kept = &col_idx[..row_ptr[*count] as usize];
            (&row_ptr[..], kept, csr.weights.as_ref().map(|_| &weights[..]), 0..*count)
        }
        None => (&csr.row_ptr[..], &csr.col_idx[..], csr.weights.as_deref(), span),
    };
    let finish = |r: usize, first: usize, sums: &[T]| {
        finish(copied.as_ref().map_or(r, |copied| copied.rows[r] as usize), first, sums);
    };
    match weights {
        None => columns(from, width, 0..width, Matrix { row_ptr, col_idx, weight: |_| T::one() }, span, finish),
        Some(weights) => {
            let weight = |e: usize| T::from_f32(weights[e]);
            columns(from, width, 0..width, Matrix { row_ptr, col_idx, weight }, span, finish);
        }
    }
}

/// Calls `finish(i, first, sums)` for every row of `rows`, with the sums of at most [`MOST_COLUMNS`] of the given columns at a
/// time; `first` counts from the first of them. `from` has `width` columns.
#[inline(always)]
pub fn columns<T: Real, S: Element<T>, W: Fn(usize) -> T + Copy>(
    from: &[S],
    width: usize,
    columns: Range<usize>,
    matrix: Matrix<'_, W>,
    rows: Range<usize>,
    mut finish: impl FnMut(usize, usize, &[T]),
) {
    for first in columns.clone().step_by(MOST_COLUMNS) {
        let count = (columns.end - first).min(MOST_COLUMNS);
        let here = ColumnBlock { from, width, first, count, far: size_of_val(from) > CACHED };
        let finish = |i: usize, sums: &[T]| finish(i, first - columns.start, sums);
        match here.count {
            1 => stretch::<T, S, W, 1, 1>(here, matrix, rows.clone(), finish),
            2..4 => stretch::<T, S, W, 2, 2>(here, matrix, rows.clone(), finish),
            4..8 => stretch::<T, S, W, 4, 2>(here, matrix, rows.clone(), finish),
            8 => stretch::<T, S, W, 8, 1>(here, matrix, rows.clone(), finish),
            9..=16 => stretch::<T, S, W, 8, 2>(here, matrix, rows.clone(), finish),
            17..=32 => stretch::<T, S, W, 8, 4>(here, matrix, rows.clone(), finish),
            33..=40 => stretch::<T, S, W, 8, 5>(here, matrix, rows.clone(), finish),
            41..=48 => stretch::<T, S, W, 8, 6>(here, matrix, rows.clone(), finish),
            _ => stretch::<T, S, W, 8, 8>(here, matrix, rows.clone(), finish),
        }
    }
}

/// Columns first..first + count of a state.
#[derive(Clone, Copy)]
struct ColumnBlock<'a, S> {
    from: &'a [S],
    width: usize,
    first: usize,
    count: usize,
    far: bool,
}

impl<S> ColumnBlock<'_, S> {
    /// Asks for the state of the node that is some entries ahead of entry `e`.
    #[inline(always)]
    fn request(&self, col_idx: &[u32], e: usize) {
        let Some(&j) = col_idx.get(e + if self.far { FAR_AHEAD } else { AHEAD }) else { return };
        let first = j as usize * self.width + self.first;
        request(self.from, first..first + self.count, if self.far { Cache::Second } else { Cache::First });
    }
}

/// All rows, `BLOCKS` blocks of `LANES` columns in registers. The last block overlaps the one before it instead of leaving a
/// remainder: summing a column twice gives the same sum twice.
#[inline(always)]
fn stretch<T: Real, S: Element<T>, W: Fn(usize) -> T, const LANES: usize, const BLOCKS: usize>(
    columns: ColumnBlock<'_, S>,
    matrix: Matrix<'_, W>,
    rows: Range<usize>,
    mut finish: impl FnMut(usize, &[T]),
) {
    let ColumnBlock { from, width, first, count, .. } = columns;
    let offsets: [usize; BLOCKS] = std::array::from_fn(|block| (block * LANES).min(count - LANES));
    let mut row = [T::zero(); MOST_COLUMNS];
    for i in rows {
        let mut sums = [[T::zero(); LANES]; BLOCKS];
        for e in matrix.row_ptr[i] as usize..matrix.row_ptr[i + 1] as usize {
            columns.request(matrix.col_idx, e);
            let state = &from[matrix.col_idx[e] as usize * width + first..][..count];
            let weight = (matrix.weight)(e);
            for block in 0..BLOCKS {
                let state = &state[offsets[block]..][..LANES];
                for lane in 0..LANES {
                    // A product with a weight that is always 1 is no product.
                    sums[block][lane] += weight * state[lane].load();
                }
            }
        }
        for (sums, &offset) in sums.iter().zip(&offsets) {
            row[offset..][..LANES].copy_from_slice(sums);
        }
        finish(i, &row[..count]);
    }
}
