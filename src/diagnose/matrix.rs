//! One step along the walk, for a few columns at once: to = scale * (A from), row by row.
//!
//! With scale = 1 / degree this is M; with scale = 1 / sqrt(degree) and columns scaled alike beforehand it is the
//! symmetric matrix S = D^-1/2 A D^-1/2, which has the same eigenvalues. Invariant: a row is summed in the order of its
//! entries, so results do not depend on threads.

use harmonia_graph::array::Array;
use harmonia_graph::graph::{Csr, Transition};
use rayon::prelude::*;

/// Rows of a task: some hundred microseconds of work on common graphs.
const ROWS: usize = 512;

/// A walk that is borrowed: unscaled weights and the degree of each row.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    row_ptr: &'a [u64],
    col_idx: &'a [u32],
    weights: Option<&'a [f32]>,
    degree: &'a [f64],
}

impl<'a> Matrix<'a> {
    pub fn of(transition: &'a Transition) -> Self {
        Matrix::new(transition.matrix(), transition.degree())
    }

    pub fn new(csr: &'a Csr, degree: &'a [f64]) -> Self {
        Matrix { row_ptr: &csr.row_ptr, col_idx: &csr.col_idx, weights: csr.weights.as_deref(), degree }
    }

    pub fn nodes(&self) -> usize {
        self.degree.len()
    }

    pub fn entries(&self) -> usize {
        self.col_idx.len()
    }

    pub fn degree(&self) -> &'a [f64] {
        self.degree
    }

    /// (column, weight) of row i.
    pub fn row(&self, i: usize) -> impl ExactSizeIterator<Item = (usize, f64)> + use<'a> {
        let (col_idx, weights) = (self.col_idx, self.weights);
        let entries = self.row_ptr[i] as usize..self.row_ptr[i + 1] as usize;
        entries.map(move |e| (col_idx[e] as usize, weights.map_or(1.0, |weights| f64::from(weights[e]))))
    }

    /// to = scale * (A from).
    pub fn gather<const W: usize>(&self, scale: &[f64], from: &[[f64; W]], to: &mut [[f64; W]]) {
        to.par_chunks_mut(ROWS).enumerate().for_each(|(chunk, to)| {
            for (i, to) in (chunk * ROWS..).zip(to) {
                let entries = self.row_ptr[i] as usize..self.row_ptr[i + 1] as usize;
                let columns = &self.col_idx[entries.clone()];
                let mut sums = [0.0; W];
                match self.weights {
                    None => {
                        for &j in columns {
                            let from = &from[j as usize];
                            (0..W).for_each(|w| sums[w] += from[w]);
                        }
                    }
                    Some(weights) => {
                        for (&j, &weight) in columns.iter().zip(&weights[entries]) {
                            let (from, weight) = (&from[j as usize], f64::from(weight));
                            (0..W).for_each(|w| sums[w] += weight * from[w]);
                        }
                    }
                }
                *to = sums.map(|sum| sum * scale[i]);
            }
        });
    }
}

/// The rows `members` (ascending, closed under neighbours) as a matrix of their own; `place` is the position of every
/// node among them.
pub(super) fn extract(whole: &Matrix<'_>, members: &[u32], place: &[u32]) -> (Csr, Vec<f64>) {
    let mut row_ptr = vec![0];
    let (mut col_idx, mut weights) = (Vec::new(), whole.weights.map(|_| Vec::new()));
    for &i in members {
        let entries = whole.row_ptr[i as usize] as usize..whole.row_ptr[i as usize + 1] as usize;
        col_idx.extend(whole.col_idx[entries.clone()].iter().map(|&j| place[j as usize]));
        if let (Some(to), Some(from)) = (&mut weights, whole.weights) {
            to.extend_from_slice(&from[entries]);
        }
        row_ptr.push(col_idx.len() as u64);
    }
    let degree = members.iter().map(|&i| whole.degree[i as usize]).collect();
    (Csr { row_ptr: row_ptr.into(), col_idx: col_idx.into(), weights: weights.map(Array::from) }, degree)
}
