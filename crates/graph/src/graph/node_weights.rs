//! How much each node counts in a sum over its graph, by walk length.
//!
//! sum_i (M^t F)[i,k] = sum_j v_t[j] F[j,k] with v_t = (M^T)^t 1: a task whose readout sums over nodes needs these weights
//! and no propagation. They depend on the graph alone. Invariant: at every hop the weights of a graph sum to its number of
//! nodes.

use super::Transition;
use rayon::prelude::*;
use std::ops::Range;

/// v_t of every node, n x T.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeWeights {
    hops: usize,
    values: Vec<f64>,
}

impl NodeWeights {
    /// For walks of 0 to `hops` - 1 steps, which must be at least one length.
    pub fn new(transition: &Transition, hops: usize) -> Self {
        let transposed = transition.transposed();
        let (row_ptr, col_idx) = (&transposed.row_ptr[..], &transposed.col_idx[..]);
        let weights = transposed.weights.as_deref();
        let nodes = transition.nodes();
        let mut values = vec![1.0; nodes * hops];
        let mut state = vec![1.0; nodes];
        for t in 1..hops {
            let scaled: Vec<f64> = state.iter().zip(transition.degree()).map(|(v, degree)| v / degree).collect();
            (state.par_iter_mut().enumerate()).for_each(|(j, next)| {
                let entries = row_ptr[j] as usize..row_ptr[j + 1] as usize;
                *next = entries
                    .map(|e| scaled[col_idx[e] as usize] * weights.map_or(1.0, |weights| f64::from(weights[e])))
                    .sum();
            });
            values[t..].iter_mut().step_by(hops).zip(&state).for_each(|(to, &from)| *to = from);
        }
        NodeWeights { hops, values }
    }

    /// Weights made elsewhere, n x T.
    pub fn given(hops: usize, values: Vec<f64>) -> Self {
        NodeWeights { hops, values }
    }

    /// T.
    pub fn hops(&self) -> usize {
        self.hops
    }

    /// n x T.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Those of some nodes, in the given order.
    pub fn rows(&self, ranges: &[Range<usize>]) -> NodeWeights {
        let span = |range: &Range<usize>| range.start * self.hops..range.end * self.hops;
        let values = ranges.iter().flat_map(|range| &self.values[span(range)]).copied().collect();
        NodeWeights { hops: self.hops, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Direction, Graph, Walk};

    #[test]
    fn a_star_gives_its_centre_what_the_leaves_lose() {
        let graph = Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)], None, Direction::Undirected).unwrap();
        let weights = NodeWeights::new(&Transition::new(&graph, Walk::default()), 3);
        let third = 1.0 / 3.0;
        assert_eq!(weights.values(), [1.0, 3.0, 1.0, 1.0, third, 1.0, 1.0, third, 1.0, 1.0, third, 1.0]);
        assert_eq!(weights.rows(&[2..3, 0..1]).values(), [1.0, third, 1.0, 1.0, 3.0, 1.0]);
    }

    #[test]
    fn a_directed_weighted_walk_moves_weight_along_its_edges() {
        let edges = [(0, 1), (0, 2)];
        let graph = Graph::from_edges(3, &edges, Some(&[1.0, 3.0]), Direction::Directed).unwrap();
        let weights = NodeWeights::new(&Transition::new(&graph, Walk::default()), 2);
        // Nodes 1 and 2 step to themselves, node 0 to them.
        assert_eq!(weights.values(), [1.0, 0.0, 1.0, 1.25, 1.0, 1.75]);
    }
}
