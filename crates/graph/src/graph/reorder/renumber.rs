//! A matrix whose nodes take other places: row i of the new one is row `order[i]` of the old one.
//!
//! Rows are made in blocks, so that a matrix that lies in a file goes to another file without being held.
//! Invariant: rows of the result are sorted, as the contract of [`Csr`] has it.

use crate::error::{Error, Result};
use crate::graph::{Csr, Graph};
use rayon::prelude::*;
use std::ops::Range;

/// Rows of one piece of work, at least.
const LEAST_ROWS: usize = 1 << 8;

/// The place of each node: the inverse of `order`.
///
/// # Errors
/// The first entry that is out of range or occurs again.
pub fn places(order: &[u32]) -> Result<Vec<u32>> {
    const NONE: u32 = u32::MAX;
    let mut places = vec![NONE; order.len()];
    for (at, &node) in order.iter().enumerate() {
        match places.get_mut(node as usize) {
            Some(place) if *place == NONE => *place = at as u32,
            found => {
                let problem = if found.is_some() { "which occurred before" } else { "which is no node" };
                let message =
                    format!("entry {at} is {node}, {problem}: expected every number below {} once", order.len());
                return Err(Error::Data(message));
            }
        }
    }
    Ok(places)
}

/// Offsets of the rows in their new order.
pub fn renumbered_offsets(csr: &Csr, order: &[u32]) -> Vec<u64> {
    let row_ptr = &csr.row_ptr[..];
    let mut end = 0;
    let ends = order.iter().map(|&node| {
        end += row_ptr[node as usize + 1] - row_ptr[node as usize];
        end
    });
    std::iter::once(0).chain(ends).collect()
}

/// Columns and weights of some rows of the result.
pub fn renumbered_rows(csr: &Csr, order: &[u32], places: &[u32], rows: Range<usize>) -> (Vec<u32>, Option<Vec<f32>>) {
    let (row_ptr, col_idx, from_weights) = (&csr.row_ptr[..], &csr.col_idx[..], csr.weights.as_deref());
    let old = |&node: &u32| row_ptr[node as usize] as usize..row_ptr[node as usize + 1] as usize;
    let total = order[rows.clone()].iter().map(|node| old(node).len()).sum();
    let mut columns = vec![0u32; total];
    let mut weights = from_weights.map(|_| vec![0f32; total]);
    let mut parts = Vec::with_capacity(rows.len());
    let (mut column_rest, mut weight_rest) = (&mut columns[..], weights.as_deref_mut().unwrap_or_default());
    for entries in order[rows].iter().map(old) {
        let (column, weight);
        (column, column_rest) = column_rest.split_at_mut(entries.len());
        (weight, weight_rest) = weight_rest.split_at_mut(entries.len().min(weight_rest.len()));
        parts.push((entries, column, weight));
    }
    parts.into_par_iter().with_min_len(LEAST_ROWS).for_each(|(entries, column, weight)| {
        let moved = col_idx[entries.clone()].iter().map(|&j| places[j as usize]);
        match from_weights {
            None => {
                column.iter_mut().zip(moved).for_each(|(to, j)| *to = j);
                column.sort_unstable();
            }
            Some(weights) => {
                let mut pairs: Vec<(u32, f32)> = moved.zip(weights[entries].iter().copied()).collect();
                pairs.sort_unstable_by_key(|&(j, _)| j);
                for ((column, weight), (j, w)) in column.iter_mut().zip(weight).zip(pairs) {
                    (*column, *weight) = (j, w);
                }
            }
        }
    });
    (columns, weights)
}

impl Graph {
    /// The same graph with node `order[i]` in place i.
    ///
    /// # Errors
    /// `order` does not hold every node once.
    pub fn renumbered(&self, order: &[u32]) -> Result<Graph> {
        if order.len() != self.nodes() {
            return Err(Error::Data(format!("an order of {} nodes for {}", order.len(), self.nodes())));
        }
        let csr = self.adjacency();
        let (col_idx, weights) = renumbered_rows(csr, order, &places(order)?, 0..order.len());
        let row_ptr = renumbered_offsets(csr, order).into();
        let adjacency = Csr { row_ptr, col_idx: col_idx.into(), weights: weights.map(Into::into) };
        Ok(Graph::from_checked(adjacency, self.is_symmetric()))
    }
}
