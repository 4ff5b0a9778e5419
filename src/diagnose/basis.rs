//! Orthonormal vectors of the length of a graph, kept so that all of them can be read, subtracted and mixed at once.
//!
//! Rows come in chunks, and a chunk holds its rows of every vector: a chunk of all vectors stays in cache while they
//! are worked on, so memory is read once per pass. Invariant: sums are taken chunk by chunk and chunks are added in
//! order, so results do not depend on threads.

use rayon::prelude::*;

/// Rows of a chunk: with sixty vectors half a megabyte, which fits the cache of a core.
const ROWS: usize = 1024;

/// Up to `columns` vectors of `rows` elements.
pub(super) struct Basis {
    data: Vec<f64>,
    columns: usize,
}

impl Basis {
    pub fn new(rows: usize, columns: usize) -> Basis {
        Basis { data: vec![0.0; rows.div_ceil(ROWS) * ROWS * columns], columns }
    }

    /// Column c = factor * vector.
    pub fn set(&mut self, column: usize, vector: &[f64], factor: f64) {
        let blocks = self.data.par_chunks_mut(ROWS * self.columns);
        blocks.zip(vector.par_chunks(ROWS)).for_each(|(block, vector)| {
            let to = &mut block[column * ROWS..][..vector.len()];
            to.iter_mut().zip(vector).for_each(|(to, value)| *to = factor * value);
        });
    }

    /// Makes a vector orthogonal to the first `count` columns; returns what was taken of each. Twice, because after
    /// once rounding can leave a part of what was to go.
    pub fn orthogonalise(&self, count: usize, vector: &mut [f64]) -> Vec<f64> {
        let mut taken = self.subtract(&self.products(count, vector), vector);
        let again = self.subtract(&self.products(count, vector), vector);
        taken.iter_mut().zip(again).for_each(|(sum, part)| *sum += part);
        taken
    }

    fn products(&self, count: usize, vector: &[f64]) -> Vec<f64> {
        let blocks = vector.par_chunks(ROWS).zip(self.data.par_chunks(ROWS * self.columns));
        let parts: Vec<Vec<f64>> = blocks
            .map(|(vector, block)| block.chunks_exact(ROWS).take(count).map(|column| dot(vector, column)).collect())
            .collect();
        let mut sums = vec![0.0; count];
        parts.iter().for_each(|part| sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part));
        sums
    }

    fn subtract(&self, factors: &[f64], vector: &mut [f64]) -> Vec<f64> {
        let blocks = vector.par_chunks_mut(ROWS).zip(self.data.par_chunks(ROWS * self.columns));
        blocks.for_each(|(vector, block)| {
            for (factor, column) in factors.iter().zip(block.chunks_exact(ROWS)) {
                vector.iter_mut().zip(column).for_each(|(to, from)| *to -= factor * from);
            }
        });
        factors.to_vec()
    }

    /// Replaces columns `first`.. by their mixtures: `mixtures` has one slice of factors per new column.
    pub fn mix(&mut self, first: usize, mixtures: &[Vec<f64>]) {
        self.data.par_chunks_mut(ROWS * self.columns).for_each(|block| {
            let mut mixed = vec![0.0; mixtures.len() * ROWS];
            for (to, factors) in mixed.chunks_exact_mut(ROWS).zip(mixtures) {
                for (factor, column) in factors.iter().zip(block[first * ROWS..].chunks_exact(ROWS)) {
                    to.iter_mut().zip(column).for_each(|(to, from)| *to += factor * from);
                }
            }
            block[first * ROWS..][..mixed.len()].copy_from_slice(&mixed);
        });
    }
}

/// Length of a vector.
pub(super) fn norm(vector: &[f64]) -> f64 {
    let parts: Vec<f64> = vector.par_chunks(ROWS).map(|part| dot(part, part)).collect();
    parts.iter().sum::<f64>().sqrt()
}

/// Over the shorter of the two. Several sums side by side, so that they need not wait for each other.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (a, b) = (&a[..a.len().min(b.len())], &b[..b.len().min(a.len())]);
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        (0..LANES).for_each(|lane| sums[lane] += a[lane] * b[lane]);
    }
    sums.iter().sum::<f64>() + rest
}
