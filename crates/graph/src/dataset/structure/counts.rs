//! What is counted at every node: neighbours, triangles, and walks that come back.
//!
//! Every node is computed by itself, in the order of its edges: the same bits for any number of threads. Returns take about
//! the sum of squared degrees, triangles less.

use crate::error::Result;
use crate::graph::{Csr, Graph, Transition, Walk};
use rayon::prelude::*;
use std::ops::Range;

/// Nodes that share the scratch of a thread, at least.
const SHARED: usize = 64;
/// A row that is this many times longer than another is searched, not read.
const LONGER: usize = 16;

/// Rows of a matrix as plain slices.
struct Rows<'a> {
    row_ptr: &'a [u64],
    col_idx: &'a [u32],
    weights: Option<&'a [f32]>,
}

impl<'a> Rows<'a> {
    fn of(matrix: &'a Csr) -> Self {
        Rows { row_ptr: &matrix.row_ptr, col_idx: &matrix.col_idx, weights: matrix.weights.as_deref() }
    }

    fn span(&self, i: usize) -> Range<usize> {
        self.row_ptr[i] as usize..self.row_ptr[i + 1] as usize
    }

    fn columns(&self, i: usize) -> &'a [u32] {
        &self.col_idx[self.span(i)]
    }

    /// (column, value) of row i.
    #[inline(always)]
    fn each(&self, i: usize, mut entry: impl FnMut(usize, f64)) {
        let columns = self.columns(i);
        match self.weights {
            None => columns.iter().for_each(|&j| entry(j as usize, 1.0)),
            Some(weights) => {
                let weights = &weights[self.span(i)];
                columns.iter().zip(weights).for_each(|(&j, &weight)| entry(j as usize, f64::from(weight)));
            }
        }
    }
}

/// Neighbours of every node; it is not its own.
pub(super) fn degrees(graph: &Graph) -> Vec<u64> {
    let rows = Rows::of(graph.adjacency());
    let degree = |i: usize| {
        let columns = rows.columns(i);
        columns.len() as u64 - u64::from(columns.binary_search(&(i as u32)).is_ok())
    };
    (0..graph.nodes()).into_par_iter().with_min_len(1 << 10).map(degree).collect()
}

/// (M^t)_ii of every node for t = 2, 3, 4.
///
/// Two half walks meet: p = the row of M^2 at i, along edges, and q = the column of M at i, against them. Then (M^2)_ii is
/// p_i, (M^3)_ii is p q, and (M^4)_ii is p (M q), so that no more than two steps around i are looked at.
pub(super) fn returns(graph: &Graph, walk: Walk) -> [Vec<f32>; 3] {
    let transition = Transition::new(graph, walk);
    let (forward, backward) = (Rows::of(transition.matrix()), Rows::of(transition.transposed()));
    let (nodes, degree) = (transition.nodes(), transition.degree());
    let by_node: Vec<[f32; 3]> = (0..nodes)
        .into_par_iter()
        .with_min_len(SHARED)
        .map_init(
            || (vec![0f64; nodes], Vec::new()),
            |(p, reached), i| {
                forward.each(i, |j, weight| {
                    let share = weight / degree[i] / degree[j];
                    forward.each(j, |l, weight| {
                        if p[l] == 0.0 {
                            reached.push(l);
                        }
                        p[l] += share * weight;
                    });
                });
                let (two, mut three, mut four) = (p[i], 0.0, 0.0);
                backward.each(i, |j, weight| three += p[j] * weight / degree[j]);
                // From here on p is divided by the degree of the node where the halves meet.
                reached.iter().for_each(|&l| p[l] /= degree[l]);
                backward.each(i, |j, weight| {
                    let mut met = 0.0;
                    backward.each(j, |l, weight| met += p[l] * weight);
                    four += met * weight / degree[j];
                });
                reached.drain(..).for_each(|l| p[l] = 0.0);
                [two as f32, three as f32, four as f32]
            },
        )
        .collect();
    [0, 1, 2].map(|at| by_node.iter().map(|values| values[at]).collect())
}

/// Triangles that every node is a corner of, edges taken both ways.
pub(super) fn triangles(graph: &Graph) -> Result<Vec<u64>> {
    // Weights play no part, and need not be the same both ways.
    let pattern = Csr { weights: None, ..graph.adjacency().clone() };
    let graph = Graph::from_checked(pattern, graph.is_symmetric()).undirected()?;
    let (rows, nodes) = (Rows::of(graph.adjacency()), graph.nodes());
    let count = |neighbour_of: &mut Vec<u32>, i: usize| {
        let own = rows.columns(i);
        let others = || own.iter().filter(|&&j| j as usize != i);
        others().for_each(|&j| neighbour_of[j as usize] = i as u32);
        let shared = |&j: &u32| {
            let row = rows.columns(j as usize);
            let count = match row.len() > LONGER * own.len() {
                true => others().filter(|&&l| l != j && row.binary_search(&l).is_ok()).count(),
                false => row.iter().filter(|&&l| l != j && neighbour_of[l as usize] == i as u32).count(),
            };
            count as u64
        };
        // Every triangle is met from both of its other corners.
        others().map(shared).sum::<u64>() / 2
    };
    let counts = (0..nodes).into_par_iter().with_min_len(SHARED);
    Ok(counts.map_init(|| vec![u32::MAX; nodes], count).collect())
}
