//! Cells of a table's rows times numbers: the loops that read all of it.
//!
//! Forward   a row of cells u and weights w of its columns: sum over the columns of each feature of w u.
//! Backward  sum over rows i of dH[i,k] u[i], for every column of feature k.
//! Of an interleaved block column c is of feature c mod F, F a power of two: [`LANES`] columns side by side are of the same features
//! wherever they begin, and no vector is summed within itself before the row is done.
//!
//! A row is done in some fifty cycles, less than memory takes to hand it over, so cells are asked for well before their turn: forward some
//! rows ahead, backward those of the next block, line by line.

use crate::real::Real;
use harmonia_graph::simd::{Cache, request};
use harmonia_graph::walk_table::Block;
use std::ops::Range;

/// Columns of an interleaved block that are summed side by side; a block has no more features.
const LANES: usize = harmonia_graph::walk_table::BLOCK_HATS;
/// Rows that are gone through while the sums of some columns stay in registers.
const ROWS: usize = 64;
/// Columns of one feature that are summed side by side.
const PARTS: usize = 8;

/// Calls `$work` with the cells of a block as a slice of their own type.
macro_rules! with_cells {
    ($block:expr, $cells:ident => $work:expr) => {
        match &$block.cells {
            harmonia_graph::walk_table::Cells::Eight(cells) => {
                let $cells = &cells[..];
                $work
            }
            harmonia_graph::walk_table::Cells::Sixteen(cells) => {
                let $cells = &cells[..];
                $work
            }
            harmonia_graph::walk_table::Cells::Float(cells) => {
                let $cells = &cells[..];
                $work
            }
        }
    };
}
pub(super) use with_cells;

/// Numbers of as many columns, as one load or more that cross no line of the cache.
#[repr(align(64))]
pub struct Lanes<T>([T; LANES]);

/// Cut into lanes; zeros behind the last.
pub fn lanes<T: Real>(values: &[T]) -> Vec<Lanes<T>> {
    let padded = |part: &[T]| Lanes(std::array::from_fn(|lane| part.get(lane).copied().unwrap_or(T::zero())));
    values.chunks(LANES).map(padded).collect()
}

/// Asks memory for some columns of a row of a block.
#[inline(always)]
pub fn request_cells(block: &Block, row: usize, columns: Range<usize>) {
    let start = row * block.width();
    with_cells!(block, cells => request(cells, start + columns.start..start + columns.end.min(block.width()), Cache::Second));
}

/// Number of a cell that is computed with as `T`.
pub trait Cell: Copy + Send + Sync {
    fn number<T: Real>(self) -> T;
}

impl Cell for u8 {
    #[inline(always)]
    fn number<T: Real>(self) -> T {
        T::from_f32(f32::from(self))
    }
}

impl Cell for u16 {
    #[inline(always)]
    fn number<T: Real>(self) -> T {
        T::from_f32(f32::from(self))
    }
}

impl Cell for f32 {
    #[inline(always)]
    fn number<T: Real>(self) -> T {
        T::from_f32(self)
    }
}

/// Calls `$work` with the number of features of an interleaved block as a constant: loops whose ends are known are not loops any more.
macro_rules! with_features {
    ($count:expr, $features:ident => $work:expr) => {
        match $count {
            1 => with_features!(@ 1, $features => $work),
            2 => with_features!(@ 2, $features => $work),
            4 => with_features!(@ 4, $features => $work),
            8 => with_features!(@ 8, $features => $work),
            16 => with_features!(@ 16, $features => $work),
            32 => with_features!(@ 32, $features => $work),
            _ => with_features!(@ LANES, $features => $work),
        }
    };
    (@ $value:expr, $features:ident => $work:expr) => {{
        const $features: usize = $value;
        $work
    }};
}

/// Adds to the state of each feature the sum of its cells times weights, of an interleaved row.
#[inline(always)]
pub fn dot<T: Real, C: Cell>(state: &mut [T], cells: &[C], weights: &[Lanes<T>]) {
    with_features!(state.len(), FEATURES => dot_of::<T, C, FEATURES>(state, cells, weights));
}

#[inline(always)]
fn dot_of<T: Real, C: Cell, const FEATURES: usize>(state: &mut [T], cells: &[C], weights: &[Lanes<T>]) {
    let (cells, last_cells) = cells.as_chunks::<LANES>();
    let mut lanes = [T::zero(); LANES];
    for (cells, weights) in cells.iter().zip(weights) {
        for lane in 0..LANES {
            lanes[lane] += cells[lane].number::<T>() * weights.0[lane];
        }
    }
    // A copy, so that the lanes above stay in registers.
    let mut folded = lanes;
    if let Some(weights) = weights.get(cells.len()) {
        for ((lane, cell), &weight) in folded.iter_mut().zip(last_cells).zip(&weights.0) {
            *lane += cell.number::<T>() * weight;
        }
    }
    let mut width = LANES;
    while width > FEATURES {
        width /= 2;
        for lane in 0..width {
            folded[lane] += folded[width + lane];
        }
    }
    state.iter_mut().zip(&folded[..FEATURES]).for_each(|(state, &lane)| *state += lane);
}

/// Adds to the sum of every column its cells times dH of its feature over some rows, of an interleaved block. `soon` asks for columns of
/// row i that are read after this block.
#[inline(always)]
pub fn add_rows<'a, T: Real, C: Cell + 'a>(
    sums: &mut [T],
    span: Range<usize>,
    row: impl Fn(usize) -> &'a [C] + Copy,
    d_row: impl Fn(usize) -> &'a [T] + Copy,
    soon: impl Fn(usize, Range<usize>) + Copy,
) {
    for first in span.clone().step_by(ROWS) {
        let span = first..(first + ROWS).min(span.end);
        with_features!(d_row(first).len(), FEATURES => {
            // Sixteen features or fewer repeat within sixteen lanes.
            const PATTERN: usize = if FEATURES <= 16 { 16 } else { LANES };
            add_some::<T, C, FEATURES, PATTERN, { LANES / PATTERN }>(sums, span, row, d_row, soon);
        });
    }
}

/// The same for at most [`ROWS`] rows: `LANES` columns stay in registers while these are gone through. dH repeats after `PATTERN` lanes.
#[inline(always)]
fn add_some<'a, T: Real, C: Cell + 'a, const FEATURES: usize, const PATTERN: usize, const TIMES: usize>(
    sums: &mut [T],
    span: Range<usize>,
    row: impl Fn(usize) -> &'a [C],
    d_row: impl Fn(usize) -> &'a [T],
    soon: impl Fn(usize, Range<usize>),
) {
    let mut patterns = [[T::zero(); PATTERN]; ROWS];
    for (pattern, i) in patterns.iter_mut().zip(span.clone()) {
        let [d_row] = d_row(i).as_chunks::<FEATURES>().0 else { continue };
        for lane in 0..PATTERN {
            pattern[lane] = d_row[lane % FEATURES];
        }
    }
    let (sums, last_sums) = sums.as_chunks_mut::<LANES>();
    for (at, sums) in sums.iter_mut().enumerate() {
        let mut lanes = [[T::zero(); PATTERN]; TIMES];
        for (pattern, i) in patterns.iter().zip(span.clone()) {
            soon(i, at * LANES..(at + 1) * LANES);
            let cells = &row(i).as_chunks::<LANES>().0[at];
            for time in 0..TIMES {
                for lane in 0..PATTERN {
                    lanes[time][lane] += pattern[lane] * cells[time * PATTERN + lane].number::<T>();
                }
            }
        }
        sums.iter_mut().zip(lanes.as_flattened()).for_each(|(sum, &lane)| *sum += lane);
    }
    if last_sums.is_empty() {
        return;
    }
    for (pattern, i) in patterns.iter().zip(span) {
        let cells = row(i).as_chunks::<LANES>().1;
        for ((sum, cell), &factor) in last_sums.iter_mut().zip(cells).zip(pattern.iter().cycle()) {
            *sum += factor * cell.number::<T>();
        }
    }
}

/// Cells times weights, side by side: the compiler makes vectors of it, and of nothing more clever (`sum` takes them up by feature).
#[inline(always)]
pub fn multiply<T: Real, C: Cell>(products: &mut [T], cells: &[C], weights: &[T]) {
    for ((product, cell), &weight) in products.iter_mut().zip(cells).zip(weights) {
        *product = cell.number::<T>() * weight;
    }
}

/// In an order of vectors.
#[inline(always)]
pub fn sum<T: Real>(values: &[T]) -> T {
    let (blocks, rest) = values.as_chunks::<PARTS>();
    let mut lanes = [T::zero(); PARTS];
    for values in blocks {
        for lane in 0..PARTS {
            lanes[lane] += values[lane];
        }
    }
    let mut sum = T::zero();
    for &value in rest {
        sum += value;
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    sum + (((a + e) + (c + g)) + ((b + f) + (d + h)))
}

/// Adds the cells of one feature times its dH.
#[inline(always)]
pub fn add_scaled<T: Real, C: Cell>(sums: &mut [T], factor: T, cells: &[C]) {
    for (sum, cell) in sums.iter_mut().zip(cells) {
        *sum += factor * cell.number::<T>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_rows_are_summed_as_they_are_one_by_one() {
        // Widths with and without a rest behind the last whole vector, and more rows than are taken at once.
        for (features, columns) in [(1, 1), (1, 300), (2, 5), (4, 16), (8, 7), (16, 28), (32, 3), (64, 4)] {
            let (width, rows) = (features * columns, 75);
            let cells: Vec<u8> = (0..rows * width).map(|at| (at * 37 % 251) as u8).collect();
            let weights: Vec<f64> = (0..width).map(|at| (at % 13) as f64 - 6.0).collect();
            let d_state: Vec<f64> = (0..rows * features).map(|at| (at % 7) as f64 - 3.0).collect();
            let (row, d_row) =
                (|i: usize| &cells[i * width..][..width], |i: usize| &d_state[i * features..][..features]);
            for i in 0..rows {
                let mut state = vec![0.5; features];
                dot(&mut state, row(i), &lanes(&weights));
                for (k, &found) in state.iter().enumerate() {
                    let products = (k..width).step_by(features).map(|at| f64::from(row(i)[at]) * weights[at]);
                    assert_eq!(found, 0.5 + products.sum::<f64>());
                }
            }
            let mut sums = vec![0.25; width];
            add_rows(&mut sums, 1..rows, row, d_row, |_, _| {});
            for (at, &found) in sums.iter().enumerate() {
                let products = (1..rows).map(|i| f64::from(row(i)[at]) * d_row(i)[at % features]);
                assert_eq!(found, 0.25 + products.sum::<f64>(), "{features} features, {columns} columns");
            }
        }
    }
}
