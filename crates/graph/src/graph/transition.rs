//! The random walk M = D^-1 A that carries feature responses from node to node.
//!
//! Invariant: every row of M sums to 1. A node without neighbours steps to itself.

use super::{Csr, Graph};
use crate::array::Array;
use crate::error::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How the walk is derived from the adjacency matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Add a self-loop of weight 1 to every node that has none.
    pub self_loops: bool,
    /// Use (I + M) / 2, the walk that stays put half of the time.
    pub lazy: bool,
}

/// A row-stochastic matrix, kept as unscaled weights plus the degree of each row.
#[derive(Clone, Debug)]
pub struct Transition {
    /// A with every row non-empty.
    matrix: Csr,
    /// A^T; `None` where A is symmetric.
    transposed: Option<Csr>,
    /// Row sums of A.
    degree: Vec<f64>,
}

impl Walk {
    /// Refuses weights that the walk cannot carry: a lazy one has a loop of weight as large as a row's sum, in f32.
    ///
    /// # Errors
    /// The first row whose weights add up to more.
    pub fn check(self, graph: &Graph) -> Result<()> {
        let adjacency = graph.adjacency();
        let (Some(weights), true) = (adjacency.weights.as_deref(), self.lazy) else { return Ok(()) };
        let sum = |i: usize| weights[adjacency.row(i)].iter().map(|&weight| f64::from(weight)).sum::<f64>();
        // Twice: a loop that is there is added to.
        let large = |i: &usize| 2.0 * sum(*i) > f64::from(f32::MAX);
        match (0..adjacency.rows()).into_par_iter().find_first(large) {
            Some(i) => Err(Error::Data(format!(
                "the edge weights of node {i} add up to {:e}, more than a lazy walk can hold in single precision: divide all \
                 weights by one number, which changes nothing else, or set walk.lazy = false",
                sum(i)
            ))),
            None => Ok(()),
        }
    }
}

impl Transition {
    /// Derives the walk of a graph.
    pub fn new(graph: &Graph, walk: Walk) -> Transition {
        let adjacency = graph.adjacency();
        let isolated = || adjacency.row_ptr.windows(2).any(|pair| pair[0] == pair[1]);
        let needs_entries = walk.self_loops || walk.lazy || isolated();
        let matrix = if needs_entries { with_loops(adjacency, walk) } else { adjacency.clone() };
        let degree = match &matrix.weights {
            None => matrix.row_ptr.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect(),
            Some(weights) => {
                let (row_ptr, weights) = (&matrix.row_ptr[..], &weights[..]);
                let sum =
                    |i: usize| weights[row_ptr[i] as usize..row_ptr[i + 1] as usize].iter().map(|&w| f64::from(w));
                (0..matrix.rows()).into_par_iter().map(|i| sum(i).sum()).collect()
            }
        };
        // Loops sit on the diagonal: they never break symmetry.
        let transposed = (!graph.is_symmetric()).then(|| matrix.transposed());
        Transition { matrix, transposed, degree }
    }

    /// n.
    pub fn nodes(&self) -> usize {
        self.matrix.rows()
    }

    /// A: node i reads from the columns of row i, each scaled by weight / degree(i).
    pub fn matrix(&self) -> &Csr {
        &self.matrix
    }

    /// A^T (A itself where it is symmetric).
    pub fn transposed(&self) -> &Csr {
        self.transposed.as_ref().unwrap_or(&self.matrix)
    }

    /// Whether A is symmetric.
    pub fn is_symmetric(&self) -> bool {
        self.transposed.is_none()
    }

    /// Row sums of A, all > 0.
    pub fn degree(&self) -> &[f64] {
        &self.degree
    }

    /// The walk on some of the graphs of a block-diagonal set, in the given order.
    pub fn blocks(&self, ranges: &[Range<usize>]) -> Transition {
        Transition {
            matrix: self.matrix.blocks(ranges),
            transposed: self.transposed.as_ref().map(|t| t.blocks(ranges)),
            degree: ranges.iter().flat_map(|range| &self.degree[range.clone()]).copied().collect(),
        }
    }

    /// Some rows of the walk of a graph, and of its transpose. Columns are numbered anew: those of the range itself first, then all
    /// others that a row reads, in their order, which are returned. Nothing of the other rows is kept.
    pub fn of_rows(graph: &Graph, walk: Walk, range: Range<usize>) -> (Transition, Vec<u32>) {
        let adjacency = graph.adjacency();
        let everything = |_: u32| true;
        let weighted = adjacency.weights.is_some() || walk.lazy;
        let mut forward = Rows::new(weighted);
        for i in range.clone() {
            walk_row(adjacency, walk, i, everything, |j, weight| forward.entry(j, weight));
            forward.end_row();
        }
        let degree = forward.sums();
        // Loops sit on the diagonal: a symmetric graph has a symmetric walk.
        let backward = (!graph.is_symmetric()).then(|| {
            let mut entries: Vec<Vec<(u32, f32)>> = vec![Vec::new(); range.len()];
            for i in 0..adjacency.rows() {
                walk_row(adjacency, walk, i, everything, |j, weight| {
                    if range.contains(&(j as usize)) {
                        entries[j as usize - range.start].push((i as u32, weight));
                    }
                });
            }
            let mut rows = Rows::new(weighted);
            for row in entries {
                row.into_iter().for_each(|(j, weight)| rows.entry(j, weight));
                rows.end_row();
            }
            rows
        });
        let outside = |rows: &Rows| -> Vec<u32> {
            rows.col_idx.iter().copied().filter(|&j| !range.contains(&(j as usize))).collect()
        };
        let mut others = outside(&forward);
        others.extend(backward.iter().flat_map(outside));
        others.par_sort_unstable();
        others.dedup();
        let numbered = |rows: Rows| rows.numbered(&range, &others);
        (Transition { matrix: numbered(forward), transposed: backward.map(numbered), degree }, others)
    }

    /// Bytes the walk on `nodes` nodes of a graph, with `entries` entries of its matrix, will take at most.
    pub fn planned_bytes(graph: &Graph, walk: Walk, nodes: usize, entries: usize) -> usize {
        let weighted = graph.adjacency().weights.is_some() || walk.lazy;
        // Every row may get an entry of its own.
        let matrix = 8 * (nodes + 1) + 4 * (entries + nodes) * (1 + usize::from(weighted));
        matrix * (1 + usize::from(!graph.is_symmetric())) + 8 * nodes
    }

    /// Bytes of the arrays the kernels read.
    pub fn bytes(&self) -> usize {
        self.matrix.bytes() + self.transposed.as_ref().map_or(0, Csr::bytes) + 8 * self.degree.len()
    }
}

/// Rows of a matrix as they come.
struct Rows {
    row_ptr: Vec<u64>,
    col_idx: Vec<u32>,
    weights: Option<Vec<f32>>,
}

impl Rows {
    fn new(weighted: bool) -> Self {
        Rows { row_ptr: vec![0], col_idx: Vec::new(), weights: weighted.then(Vec::new) }
    }

    fn entry(&mut self, j: u32, weight: f32) {
        self.col_idx.push(j);
        if let Some(weights) = &mut self.weights {
            weights.push(weight);
        }
    }

    fn end_row(&mut self) {
        self.row_ptr.push(self.col_idx.len() as u64);
    }

    /// Of every row.
    fn sums(&self) -> Vec<f64> {
        let sum = |pair: &[u64]| match &self.weights {
            None => (pair[1] - pair[0]) as f64,
            Some(weights) => weights[pair[0] as usize..pair[1] as usize].iter().map(|&weight| f64::from(weight)).sum(),
        };
        self.row_ptr.windows(2).map(sum).collect()
    }

    /// With columns of a range first, and then some others. Rows keep the order of their entries: sums are of the same bits.
    fn numbered(mut self, range: &Range<usize>, others: &[u32]) -> Csr {
        let number = |j: u32| match range.contains(&(j as usize)) {
            true => j as usize - range.start,
            false => range.len() + others.partition_point(|&other| other < j),
        };
        self.col_idx.par_iter_mut().for_each(|j| *j = number(*j) as u32);
        Csr { row_ptr: self.row_ptr.into(), col_idx: self.col_idx.into(), weights: self.weights.map(Array::from) }
    }
}

/// Adds the diagonal entries that isolated nodes, self-loops and the lazy walk ask for, each in its place in the row.
fn with_loops(adjacency: &Csr, walk: Walk) -> Csr {
    let weighted = adjacency.weights.is_some() || walk.lazy;
    let mut row_ptr = Vec::with_capacity(adjacency.rows() + 1);
    let mut col_idx = Vec::with_capacity(adjacency.entries() + adjacency.rows());
    let mut weights = Vec::with_capacity(if weighted { adjacency.entries() + adjacency.rows() } else { 0 });
    row_ptr.push(0);
    let everything = |_: u32| true;
    for i in 0..adjacency.rows() {
        walk_row(adjacency, walk, i, everything, |j, weight| {
            col_idx.push(j);
            if weighted {
                weights.push(weight);
            }
        });
        row_ptr.push(col_idx.len() as u64);
    }
    Csr { row_ptr: row_ptr.into(), col_idx: col_idx.into(), weights: weighted.then_some(weights).map(Array::from) }
}

/// Row i of the walk on the edges of `i` that `kept` keeps: (column, weight), columns increasing; the walk steps with
/// weight / sum of weights.
pub fn walk_row(adjacency: &Csr, walk: Walk, i: usize, kept: impl Fn(u32) -> bool, mut entry: impl FnMut(u32, f32)) {
    // (I + D^-1 A) / 2 is the plain walk on D + A, so a lazy walk is a weighted self-loop.
    let span = adjacency.row(i);
    let columns = &adjacency.col_idx[span.clone()];
    let from = adjacency.weights.as_deref().map(|weights| &weights[span]);
    let weight = |e: usize| from.map_or(1.0, |weights| weights[e]);
    let is_kept = |&e: &usize| kept(columns[e]);
    let place = columns.partition_point(|&j| (j as usize) < i);
    let has_loop = columns.get(place) == Some(&(i as u32)) && is_kept(&place);
    let others = || (0..columns.len()).filter(|&e| columns[e] as usize != i).filter(is_kept);
    let mut loop_weight = if has_loop { weight(place) } else { 0.0 };
    if !has_loop && (walk.self_loops || others().next().is_none()) {
        loop_weight = 1.0;
    }
    if walk.lazy {
        let others: f64 = others().map(|e| f64::from(weight(e))).sum();
        loop_weight += (others + f64::from(loop_weight)) as f32;
    }
    for e in others().take_while(|&e| e < place) {
        entry(columns[e], weight(e));
    }
    if loop_weight > 0.0 {
        entry(i as u32, loop_weight);
    }
    for e in others().skip_while(|&e| e < place) {
        entry(columns[e], weight(e));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Direction;

    fn dense(transition: &Transition) -> Vec<Vec<f64>> {
        let n = transition.nodes();
        let mut rows = vec![vec![0.0; n]; n];
        for (i, row) in rows.iter_mut().enumerate() {
            for (j, weight) in transition.matrix().row_entries(i) {
                row[j] = f64::from(weight) / transition.degree()[i];
            }
        }
        rows
    }

    #[test]
    fn rows_sum_to_one_and_isolated_nodes_stay_put() {
        // 0 - 1 - 2, node 3 alone
        let graph = Graph::from_edges(4, &[(0, 1), (1, 2), (1, 0)], None, Direction::Undirected).unwrap();
        assert_eq!(graph.directed_edges(), 4);
        let walk = dense(&Transition::new(&graph, Walk::default()));
        assert_eq!(walk[0], [0.0, 1.0, 0.0, 0.0]);
        assert_eq!(walk[1], [0.5, 0.0, 0.5, 0.0]);
        assert_eq!(walk[3], [0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn weighted_duplicates_are_summed() {
        let edges = [(0, 1), (0, 2), (0, 1)];
        let graph = Graph::from_edges(3, &edges, Some(&[1.0, 1.0, 2.0]), Direction::Directed).unwrap();
        let walk = dense(&Transition::new(&graph, Walk::default()));
        assert_eq!(walk[0], [0.0, 0.75, 0.25]);
        assert_eq!(walk[1], [0.0, 1.0, 0.0]); // a sink steps to itself
    }

    #[test]
    fn a_walk_is_no_larger_than_planned() {
        for direction in [Direction::Undirected, Direction::Directed] {
            let graph = Graph::from_edges(5, &[(0, 1), (1, 2), (3, 3)], None, direction).unwrap();
            for (lazy, self_loops) in [(false, false), (true, false), (false, true)] {
                let walk = Walk { lazy, self_loops };
                let planned = Transition::planned_bytes(&graph, walk, 5, graph.adjacency().entries());
                assert!(Transition::new(&graph, walk).bytes() <= planned);
            }
        }
    }

    #[test]
    fn the_lazy_walk_stays_half_of_the_time() {
        let graph = Graph::from_edges(3, &[(0, 1), (1, 2)], None, Direction::Undirected).unwrap();
        let walk = dense(&Transition::new(&graph, Walk { lazy: true, self_loops: false }));
        assert_eq!(walk[1], [0.25, 0.5, 0.25]);
        let loops = dense(&Transition::new(&graph, Walk { lazy: false, self_loops: true }));
        assert_eq!(loops[0], [0.5, 0.5, 0.0]);
    }

    #[test]
    fn weights_too_large_for_a_lazy_walk_are_named_and_the_learning_rate_is_not_blamed() {
        let graph = Graph::from_edges(3, &[(0, 1), (1, 2)], Some(&[3e38, 1.0]), Direction::Directed).unwrap();
        let message = Walk { lazy: true, self_loops: false }.check(&graph).unwrap_err().to_string();
        assert!(message.contains("weights of node 0") && message.contains("walk.lazy"), "{message}");
        Walk::default().check(&graph).unwrap();
    }

    /// Weights are f32, and so is the loop of a lazy walk: a row is off by its rounding, at most 2^-26, also in f64.
    #[test]
    fn a_weighted_lazy_walk_is_exact_to_the_rounding_of_its_loop() {
        let weights: Vec<f32> = (0..7).map(|at| 0.1 + at as f32 / 3.0).collect();
        let edges: Vec<(u32, u32)> = (1..8).map(|j| (0, j)).collect();
        let graph = Graph::from_edges(8, &edges, Some(&weights), Direction::Directed).unwrap();
        let walk = dense(&Transition::new(&graph, Walk { lazy: true, self_loops: false }));
        assert!((walk[0][0] - 0.5).abs() <= f64::from(f32::EPSILON) / 8.0, "{}", walk[0][0] - 0.5);
    }

    #[test]
    fn blocks_equal_the_walk_of_each_graph() {
        let edges = [(0, 1), (2, 3), (3, 4), (4, 2), (5, 6)];
        let graph = Graph::from_edges(7, &edges, None, Direction::Directed).unwrap();
        let whole = Transition::new(&graph, Walk::default());
        let part = whole.blocks(&[5..7, 2..5]);
        assert_eq!(part.nodes(), 5);
        assert_eq!(part.matrix().col_idx, [1, 1, 3, 4, 2]);
        assert_eq!(part.transposed(), &part.matrix().transposed());
    }

    #[test]
    fn some_rows_are_those_of_the_whole_walk() {
        let edges = [(0, 1), (0, 4), (1, 2), (3, 2), (4, 3), (2, 5)];
        let weights = [1.0, 2.0, 0.5, 3.0, 1.5, 0.25];
        for (direction, walk) in [
            (Direction::Undirected, Walk::default()),
            (Direction::Directed, Walk::default()),
            (Direction::Directed, Walk { lazy: true, self_loops: true }),
        ] {
            let graph = Graph::from_edges(7, &edges, Some(&weights), direction).unwrap();
            let whole = Transition::new(&graph, walk);
            for range in [0..3, 2..6, 6..7, 3..3] {
                let (part, others) = Transition::of_rows(&graph, walk, range.clone());
                assert_eq!(part.degree(), &whole.degree()[range.clone()]);
                assert!(
                    others.windows(2).all(|pair| pair[0] < pair[1])
                        && others.iter().all(|&j| !range.contains(&(j as usize)))
                );
                let node = |column: usize| {
                    if column < range.len() { range.start + column } else { others[column - range.len()] as usize }
                };
                for (own, all) in [(part.matrix(), whole.matrix()), (part.transposed(), whole.transposed())] {
                    for (at, i) in range.clone().enumerate() {
                        let here: Vec<_> = own.row_entries(at).map(|(column, weight)| (node(column), weight)).collect();
                        assert_eq!(here, all.row_entries(i).collect::<Vec<_>>());
                    }
                }
            }
        }
    }

    #[test]
    fn from_csr_refuses_broken_rows() {
        let csr = |row_ptr: &[u64], col_idx: &[u32]| Csr {
            row_ptr: row_ptr.to_vec().into(),
            col_idx: col_idx.to_vec().into(),
            weights: None,
        };
        assert!(Graph::from_csr(csr(&[0, 1, 2], &[1, 0])).unwrap().is_symmetric());
        assert!(!Graph::from_csr(csr(&[0, 1, 1], &[1])).unwrap().is_symmetric());
        for (row_ptr, col_idx) in
            [(&[0, 2, 1, 2][..], &[0, 1][..]), (&[0, 1], &[1]), (&[0, 2], &[0, 0]), (&[0, 3], &[0]), (&[], &[])]
        {
            assert!(Graph::from_csr(csr(row_ptr, col_idx)).is_err(), "{row_ptr:?} {col_idx:?}");
        }
    }
}
