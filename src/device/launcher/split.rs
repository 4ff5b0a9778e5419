//! Sums over rows as products, C = A^T B: C is small, so that it has fewer tiles than a GPU has multiprocessors. Rows are cut into
//! parts, multiplied at the same time, each with sums of its own, which go on from one stretch of rows to the next; they
//! are added up at the end, in the order of parts.
//!
//! Whether a library splits long sums by itself is its own affair; this way nothing depends on it. The number of parts depends on
//! sizes only.

use super::{Blocks, Driver, Gemm, GemmBatch, Launcher};
use harmonia_graph::error::Result;

/// Rows and columns of a tile of C, as libraries take them.
const TILE: usize = 128;
/// Tiles that keep a large GPU busy.
const TILES: usize = 128;

/// Parts of a C of m x n, for so many rows at a time.
pub(super) fn parts(m: usize, n: usize, rows: usize, most: Blocks) -> usize {
    let tiles = m.div_ceil(TILE) * n.div_ceil(TILE);
    (TILES / tiles.max(1)).min(rows / most.product_rows).max(1)
}

/// Elements of the sums of all parts, beside what they add up to.
pub(super) fn elements(parts: usize, m: usize, n: usize) -> usize {
    if parts > 1 { parts * m * n } else { 0 }
}

/// How many times products of so many rows are asked for.
pub(super) fn calls(parts: usize, rows: usize) -> usize {
    usize::from(rows >= parts) + usize::from(!rows.is_multiple_of(parts))
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    /// C = A^T B, or += where `beta` is 1, in parts of the rows, of which there are k. Rows that are left over go to the first part.
    ///
    /// # Safety
    /// As [`Driver::gemm`], with a C for each part.
    pub(super) unsafe fn multiply_parts(&self, product: &Gemm, parts: usize) -> Result<()> {
        let Gemm { m, n, k, .. } = *product;
        let rows = k / parts;
        let first = Gemm { k: rows, ..*product };
        let batch = GemmBatch { first, count: parts, stride_a: rows * m, stride_b: rows * n, stride_c: m * n };
        // SAFETY: parts are some of the rows each, and each has sums of its own; then the rows behind them.
        unsafe {
            match parts {
                1 => return self.driver.gemm(product),
                // A last stretch may be shorter than there are parts, which have their sums by then.
                _ if rows == 0 => {}
                _ => self.driver.gemm_batch(&batch)?,
            }
            match k - rows * parts {
                0 => Ok(()),
                left => self.driver.gemm(&Gemm { k: left, beta: 1.0, c: product.c, ..batch.product(parts) }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_sizes() {
        let parts = |m, n, rows| parts(m, n, rows, Blocks::default());
        // Products, arxiv, igb: as many as give 128 tiles.
        assert_eq!([parts(100, 192, 19136), parts(128, 320, 12909), parts(1024, 96, 31250)], [64, 42, 16]);
        // Few rows, many tiles, nothing at all.
        assert_eq!(
            [parts(100, 192, 700), parts(100, 192, 511), parts(2000, 3000, 1 << 20), parts(0, 0, 0)],
            [2, 1, 1, 1]
        );
        // Whole parts and what is left over; fewer rows than parts.
        assert_eq!([calls(64, 19136), calls(64, 18757), calls(64, 5), calls(1, 5)], [1, 2, 1, 1]);
    }
}
