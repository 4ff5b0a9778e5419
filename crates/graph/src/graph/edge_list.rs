//! Edges of an unweighted graph as they come from a file, repeats merged on the way.
//!
//! A file may repeat one edge a hundred million times; what is held is bounded by the edges that are kept, not by the lines.

use rayon::prelude::*;

/// Edges that are held before anything is merged.
const FIRST: usize = 1 << 22;

/// Pairs of nodes in any order, some perhaps more than once.
#[derive(Debug)]
pub struct EdgeList {
    pairs: Vec<(u32, u32)>,
    rows: u64,
    /// Pairs at which repeats are looked for.
    next: usize,
}

impl Default for EdgeList {
    fn default() -> Self {
        EdgeList { pairs: Vec::new(), rows: 0, next: FIRST }
    }
}

impl From<Vec<(u32, u32)>> for EdgeList {
    fn from(pairs: Vec<(u32, u32)>) -> Self {
        EdgeList { rows: pairs.len() as u64, pairs, next: FIRST }
    }
}

impl EdgeList {
    /// Adds edges.
    pub fn extend(&mut self, pairs: &[(u32, u32)]) {
        self.rows += pairs.len() as u64;
        self.pairs.extend_from_slice(pairs);
        if self.pairs.len() >= self.next {
            let before = self.pairs.len();
            self.pairs.par_sort_unstable();
            self.pairs.dedup();
            // Where little was repeated, sorting is not worth its time for a while.
            let growth = if 4 * self.pairs.len() > 3 * before { 8 } else { 2 };
            self.next = (growth * self.pairs.len()).max(FIRST);
        }
    }

    /// Edges that were added, repeats among them.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// What is held.
    pub fn into_pairs(self) -> Vec<(u32, u32)> {
        self.pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Direction, Graph};

    #[test]
    fn an_edge_that_is_repeated_without_end_takes_no_memory() {
        let mut edges = EdgeList::default();
        let block: Vec<(u32, u32)> = (0..1 << 20).map(|at| (at % 3, (at + 1) % 3)).collect();
        for _ in 0..20 {
            edges.extend(&block);
            assert!(edges.pairs.capacity() <= 2 * FIRST);
        }
        assert_eq!(edges.rows(), 20 << 20);
        let graph = |pairs: &[(u32, u32)]| Graph::from_edges(3, pairs, None, Direction::Undirected).unwrap();
        assert_eq!(graph(&edges.into_pairs()).adjacency(), graph(&block).adjacency());
    }
}
