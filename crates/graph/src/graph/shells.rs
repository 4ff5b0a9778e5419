//! Distance shells: the nodes at each distance from one node, by breadth-first search.
//!
//! A search steps from a row of the matrix to its entries. Where what is left to find has fewer entries than what was found last,
//! it is asked from the other side (is one of those I can be reached from the last shell?), so that on a graph of small diameter a
//! search does not go over every entry. Invariant: the order of nodes in a shell depends on the graph alone.

use super::Csr;

/// The shells of one node at a time; memory is kept for the next.
#[derive(Clone, Debug, Default)]
pub struct ShellSearch {
    /// Search in which a node was last found, and its distance then.
    found: Vec<(u32, u32)>,
    search: u32,
    order: Vec<u32>,
    ends: Vec<usize>,
}

impl ShellSearch {
    /// For a graph of any size.
    pub fn new() -> Self {
        ShellSearch::default()
    }

    /// Looks for all nodes within `reach` steps of `start`. `transposed` is the matrix from the other side; of a symmetric one, itself.
    pub fn run(&mut self, matrix: &Csr, transposed: &Csr, start: u32, reach: usize) {
        let nodes = matrix.rows();
        if self.found.len() != nodes || self.search == u32::MAX {
            (self.found, self.search) = (vec![(0, 0); nodes], 0);
        }
        self.search += 1;
        let ShellSearch { found, search, order, ends } = self;
        let search = *search;
        order.clear();
        ends.clear();
        order.push(start);
        ends.push(1);
        found[start as usize] = (search, 0);
        let mut left = matrix.entries().saturating_sub(matrix.row(start as usize).len());
        let mut first = 0;
        for distance in 1..=reach.min(nodes) as u32 {
            let (from, end) = (first, order.len());
            let entries: usize = order[from..end].iter().map(|&i| matrix.row(i as usize).len()).sum();
            if entries > left + nodes {
                for j in 0..nodes {
                    let is_last = |&i: &u32| found[i as usize] == (search, distance - 1);
                    if found[j].0 != search && transposed.col_idx[transposed.row(j)].iter().any(is_last) {
                        found[j] = (search, distance);
                        order.push(j as u32);
                    }
                }
            } else {
                for at in from..end {
                    for &j in &matrix.col_idx[matrix.row(order[at] as usize)] {
                        if found[j as usize].0 != search {
                            found[j as usize] = (search, distance);
                            order.push(j);
                        }
                    }
                }
            }
            if order.len() == end {
                break;
            }
            left = left.saturating_sub(order[end..].iter().map(|&i| matrix.row(i as usize).len()).sum());
            first = end;
            ends.push(order.len());
            if order.len() == nodes {
                break;
            }
        }
    }

    /// The shells that were found, from distance 0 on; none of them is empty.
    pub fn shells(&self) -> impl Iterator<Item = &[u32]> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.order[start..end])
    }

    /// The largest distance that was found.
    pub fn farthest(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Direction, Graph, Transition, Walk};
    use crate::seed::{Purpose, Stream};

    /// All distances by the rule that a step adds one.
    fn distances(matrix: &Csr) -> Vec<Vec<Option<usize>>> {
        let n = matrix.rows();
        let mut all = vec![vec![None; n]; n];
        for (i, row) in all.iter_mut().enumerate() {
            row[i] = Some(0);
            for distance in 1..n {
                for from in 0..n {
                    if row[from] == Some(distance - 1) {
                        for (to, _) in matrix.row_entries(from) {
                            row[to].get_or_insert(distance);
                        }
                    }
                }
            }
        }
        all
    }

    #[test]
    fn shells_hold_the_nodes_at_each_distance() {
        let mut from_the_other_side = false;
        for case in 0..40u32 {
            let stream = Stream::new(7, Purpose::Initialisation, case);
            let nodes = 1 + (stream.uniform(0) * 30.0) as usize;
            // Thin and dense ones.
            let count = (stream.uniform(1) * (nodes * (1 + case as usize % 9)) as f64) as usize;
            let pick = |at: usize| ((stream.uniform(at as u64 + 2) * nodes as f64) as usize).min(nodes - 1) as u32;
            let edges: Vec<(u32, u32)> = (0..count).map(|at| (pick(2 * at), pick(2 * at + 1))).collect();
            let direction = if case % 2 == 0 { Direction::Undirected } else { Direction::Directed };
            let graph = Graph::from_edges(nodes, &edges, None, direction).unwrap();
            let transition = Transition::new(&graph, Walk::default());
            let (matrix, transposed) = (transition.matrix(), transition.transposed());
            let expected = distances(matrix);
            let mut search = ShellSearch::new();
            for (i, expected) in expected.iter().enumerate() {
                for reach in [0, 1, 2, nodes] {
                    search.run(matrix, transposed, i as u32, reach);
                    let mut found = vec![None; nodes];
                    for (distance, shell) in search.shells().enumerate() {
                        assert!(!shell.is_empty());
                        shell.iter().for_each(|&j| assert_eq!(found[j as usize].replace(distance), None));
                    }
                    let near = expected.iter().map(|d| d.filter(|&d| d <= reach));
                    assert_eq!(found, near.collect::<Vec<_>>());
                }
                from_the_other_side |= matrix.entries() > 6 * nodes;
            }
        }
        assert!(from_the_other_side);
    }
}
