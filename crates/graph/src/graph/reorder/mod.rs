//! Orders of nodes in which neighbours lie close together in memory.
//!
//! Propagation gathers a row of the state for every edge, so what it costs is decided by how many of those rows are
//! still in a cache: a matter of numbering alone. Nothing else depends on it but the order in which sums are rounded.
//! Directions and weights are ignored: the backward pass reads along every edge the other way.
//! Invariant: an order is a function of the graph alone, whatever the number of threads, and no node leaves its graph.

mod breadth;
mod communities;
mod renumber;

pub use renumber::{places, renumbered_offsets, renumbered_rows};

use super::{Csr, Graph};
use crate::error::Result;
use crate::stop::Stop;
use rayon::prelude::*;
use std::borrow::Cow;
use std::cmp::Reverse;

/// How nodes are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reorder {
    /// Hubs first.
    Degree,
    /// As a search from the largest hub of each component meets them.
    Breadth,
    /// By community, hubs first in each.
    Communities,
}

impl Reorder {
    /// The word for it, as in `meta.json`.
    pub fn name(self) -> &'static str {
        match self {
            Reorder::Degree => "degree",
            Reorder::Breadth => "bfs",
            Reorder::Communities => "communities",
        }
    }

    /// The node that takes each place. `graph_ptr` holds the first node of each graph and the number of nodes.
    ///
    /// # Errors
    /// [`crate::error::Error::Cancelled`] once a stop was asked for.
    pub fn order(self, graph: &Graph, graph_ptr: &[usize], stop: &Stop) -> Result<Vec<u32>> {
        let neighbours = Neighbours::of(graph)?;
        let mut order = match self {
            Reorder::Degree => hubs_first(&neighbours),
            Reorder::Breadth => breadth::order(&neighbours, stop)?,
            Reorder::Communities => communities::order(&neighbours, stop)?,
        };
        if graph_ptr.len() > 2 {
            // Stable: inside a graph the order stays.
            order.par_sort_by_key(|&node| graph_ptr.partition_point(|&start| start <= node as usize));
        }
        Ok(order)
    }
}

/// The graph without directions and weights.
pub(super) struct Neighbours<'a> {
    rows: Cow<'a, Csr>,
}

impl Neighbours<'_> {
    pub(super) fn of(graph: &Graph) -> Result<Neighbours<'_>> {
        let rows = match graph.is_symmetric() {
            true => Cow::Borrowed(graph.adjacency()),
            false => {
                let plain = Csr { weights: None, ..graph.adjacency().clone() };
                Cow::Owned(Graph::from_checked(plain, false).undirected()?.adjacency().clone())
            }
        };
        Ok(Neighbours { rows })
    }

    /// Every edge both ways; weights mean nothing.
    pub(super) fn rows(&self) -> &Csr {
        &self.rows
    }

    fn nodes(&self) -> usize {
        self.rows.rows()
    }

    /// Number of neighbours of each node.
    fn degrees(&self) -> Vec<u32> {
        // Columns of a row differ: there are no more of them than nodes.
        self.rows.row_ptr.windows(2).map(|pair| (pair[1] - pair[0]) as u32).collect()
    }
}

/// Equal degrees keep their order.
fn hubs_first(neighbours: &Neighbours) -> Vec<u32> {
    let degrees = neighbours.degrees();
    let mut order: Vec<u32> = (0..neighbours.nodes() as u32).collect();
    order.par_sort_unstable_by_key(|&node| (Reverse(degrees[node as usize]), node));
    order
}

#[cfg(test)]
mod tests;
