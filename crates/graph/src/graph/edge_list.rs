//! Edges as they come from a file, repeats merged on the way: [`EdgeList`] without weights, [`WeightedEdgeList`] with.
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
        self.merge();
    }

    /// Adds an edge.
    pub fn push(&mut self, i: u32, j: u32) {
        self.rows += 1;
        self.pairs.push((i, j));
        self.merge();
    }

    fn merge(&mut self) {
        if self.pairs.len() >= self.next {
            let before = self.pairs.len();
            self.pairs.par_sort_unstable();
            self.pairs.dedup();
            self.next = next_look(before, self.pairs.len());
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

/// How many edges may be held before repeats are looked for again.
fn next_look(before: usize, left: usize) -> usize {
    // Where little was repeated, sorting is not worth its time for a while.
    let growth = if 4 * left > 3 * before { 8 } else { 2 };
    (growth * left).max(FIRST)
}

/// Weighted edges in any order; weights of repeats add up in the order in which they came.
#[derive(Debug)]
pub struct WeightedEdgeList {
    entries: Vec<(u32, u32, f32)>,
    next: usize,
}

impl Default for WeightedEdgeList {
    fn default() -> Self {
        WeightedEdgeList { entries: Vec::new(), next: FIRST }
    }
}

impl WeightedEdgeList {
    /// Adds an edge.
    pub fn push(&mut self, i: u32, j: u32, weight: f32) {
        self.entries.push((i, j, weight));
        if self.entries.len() < self.next {
            return;
        }
        let before = self.entries.len();
        // Stable: sums of f32 depend on their order.
        self.entries.par_sort_by_key(|&(i, j, _)| (i, j));
        self.entries.dedup_by(|later, first| {
            let same = (later.0, later.1) == (first.0, first.1);
            if same {
                first.2 += later.2;
            }
            same
        });
        self.next = next_look(before, self.entries.len());
    }

    /// What is held: pairs, and the weight of each.
    pub fn into_parts(self) -> (Vec<(u32, u32)>, Vec<f32>) {
        let weights = self.entries.iter().map(|&(_, _, weight)| weight).collect();
        (self.entries.into_iter().map(|(i, j, _)| (i, j)).collect(), weights)
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
    #[test]
    fn weights_of_repeats_add_up_as_they_came_and_take_no_memory() {
        let mut edges = WeightedEdgeList::default();
        let rows: Vec<(u32, u32, f32)> =
            (0..3 * FIRST as u32).map(|at| (at % 3, at % 2, 0.1 + (at % 7) as f32 / 3.0)).collect();
        for &(i, j, weight) in &rows {
            edges.push(i, j, weight);
            assert!(edges.entries.capacity() <= 2 * FIRST);
        }
        let (pairs, weights) = edges.into_parts();
        let merged = Graph::from_edges(3, &pairs, Some(&weights), Direction::Directed).unwrap();
        let (pairs, weights): (Vec<_>, Vec<_>) = rows.into_iter().map(|(i, j, weight)| ((i, j), weight)).unzip();
        let whole = Graph::from_edges(3, &pairs, Some(&weights), Direction::Directed).unwrap();
        assert_eq!(merged.adjacency(), whole.adjacency(), "to the last bit");
    }
}
