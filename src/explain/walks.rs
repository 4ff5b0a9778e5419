//! Walks: a response reaches a target along walks of t = 0..T-1 steps, weighed by hop weights theta.
//!
//! r_t is row i of M^t, or for a graph the sum of its rows, by pushing weight along edges: r_0 is the start,
//! r_{t+1}[j] = sum_l r_t[l] M[l,j]. Only nodes within T - 1 steps are ever touched, so that one node of a graph of any size
//! is explained from its neighbourhood. Invariant: at every walk length the weights sum to that of the start, because rows
//! of M sum to one.

use super::structure::{Ball, Sources, Structure};
use crate::device::cpu::hop_weights;
use crate::model::FittedModel;
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Csr, Direction, Graph, NodeWeights, Transition, Walk, walk_row};
use harmonia_graph::simd::{Cache, request};
use rayon::prelude::*;
use std::collections::HashSet;
use std::ops::Range;

/// Entries of a row whose nodes memory is asked for together.
const TOGETHER: usize = 64;

/// Walks of 0 to T - 1 steps and what each length counts.
#[derive(Clone, Debug)]
pub struct Walks {
    walk: Walk,
    hops: usize,
    features: usize,
    /// theta, T x d.
    weights: Vec<f64>,
}

impl Walks {
    /// Those of a trained model.
    pub fn of(model: &FittedModel) -> Walks {
        let a = &model.layout.architecture;
        let logits = &model.parameters[model.layout.hop_logits.clone()];
        let logits: Vec<f64> = logits.iter().map(|&alpha| f64::from(alpha)).collect();
        let mut weights = vec![0.0; a.hops * a.features];
        match logits.is_empty() {
            // A node speaks for itself.
            true => weights.fill(1.0),
            false => hop_weights::weights(&mut weights, &logits, None, a),
        }
        Walks { walk: model.walk, hops: a.hops, features: a.features, weights }
    }

    /// theta given, T x d.
    ///
    /// # Errors
    /// There is no theta, or it is not a number for each of some walk lengths and every feature.
    pub fn new(walk: Walk, features: usize, theta: Vec<f64>) -> Result<Walks> {
        match features > 0 && !theta.is_empty() && theta.len().is_multiple_of(features) {
            true => Ok(Walks { walk, hops: theta.len() / features, features, weights: theta }),
            false => Err(Error::Data(format!(
                "{} hop weights are no weights of every walk length for {features} features",
                theta.len()
            ))),
        }
    }
}

impl Structure for Walks {
    fn terms(&self) -> usize {
        self.hops
    }

    fn key(&self) -> &'static str {
        "hop"
    }

    fn weight(&self, t: usize, k: usize) -> f64 {
        self.weights[t * self.features + k]
    }

    fn sources<'g>(&'g self, graph: &'g Graph, dropped: &[(u32, u32)]) -> Box<dyn Sources + 'g> {
        let steps = Steps::new(graph, self.walk).without(dropped.iter().copied());
        Box::new(Walked { steps, hops: self.hops })
    }

    /// A walk that is there has no step left.
    fn rim_reads(&self) -> bool {
        false
    }

    /// All graphs are walked at once.
    fn graph_weights(&self, dataset: &Dataset) -> Vec<f64> {
        NodeWeights::new(&Transition::new(&dataset.graph, self.walk), self.hops).values().to_vec()
    }
}

/// Walks on one graph.
struct Walked<'a> {
    steps: Steps<'a>,
    hops: usize,
}

impl Sources for Walked<'_> {
    fn ball(&self, start: Range<u32>) -> Ball {
        Ball::new(&self.steps, start, self.hops)
    }

    /// G_0 + M (G_1 + M (G_2 + ...)), from the rim inwards.
    fn pull(&self, ball: &Ball, mut projected: Vec<Vec<f64>>, width: usize) -> Vec<f64> {
        let mut state = projected.pop().unwrap_or_default();
        // Of every node of the graph; of those the walks do not see, nothing is read.
        let mut spread = vec![0.0; self.steps.nodes() * width];
        for (projected, weights) in projected.iter().zip(&ball.weights).rev() {
            for (&node, values) in ball.nodes.iter().zip(state.chunks_exact(width)) {
                spread[node as usize * width..][..width].copy_from_slice(values);
            }
            state = self.steps.pull(&ball.nodes[..weights.len()], &spread, width);
            state.iter_mut().zip(projected).for_each(|(value, g)| *value += g);
        }
        let starts = ball.weights[0].len();
        (0..width).map(|at| state.iter().skip(at).step_by(width).take(starts).sum::<f64>()).collect()
    }

    fn graph(&self, ball: &Ball) -> Result<Option<Graph>> {
        ball.graph(&self.steps).map(Some)
    }
}

/// A walk on a graph, perhaps without some of its edges.
#[derive(Clone, Debug)]
pub struct Steps<'a> {
    adjacency: &'a Csr,
    walk: Walk,
    /// (i, j): node i does not read from node j.
    dropped: HashSet<(u32, u32)>,
}

impl<'a> Steps<'a> {
    /// The walk of a graph, row by row; nothing is built.
    pub fn new(graph: &'a Graph, walk: Walk) -> Self {
        Steps { adjacency: graph.adjacency(), walk, dropped: HashSet::new() }
    }

    /// The same walk once node i no longer reads from node j.
    pub fn without(mut self, edges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        self.dropped.extend(edges);
        self
    }

    /// n.
    pub fn nodes(&self) -> usize {
        self.adjacency.rows()
    }

    /// (column, weight) of a row, replacing what `row` holds; returns the sum of the weights.
    pub(super) fn row(&self, row: &mut Vec<(u32, f32)>, i: u32) -> f64 {
        row.clear();
        let entry = |j, weight| row.push((j, weight));
        match self.dropped.is_empty() {
            true => walk_row(self.adjacency, self.walk, i as usize, |_| true, entry),
            false => walk_row(self.adjacency, self.walk, i as usize, |j| !self.dropped.contains(&(i, j)), entry),
        }
        row.iter().map(|&(_, weight)| f64::from(weight)).sum()
    }

    /// M times a state of all nodes (nodes x width), for some of them.
    fn pull(&self, nodes: &[u32], state: &[f64], width: usize) -> Vec<f64> {
        let mut next = vec![0.0; nodes.len() * width];
        let rows = next.par_chunks_mut(width).zip(nodes).with_min_len(1 << 8);
        rows.for_each_init(Vec::new, |row, (to, &node)| {
            let degree = self.row(row, node);
            for entries in row.chunks(TOGETHER) {
                request_states(state, entries, width);
                for &(j, weight) in entries {
                    let from = &state[j as usize * width..][..width];
                    to.iter_mut().zip(from).for_each(|(to, from)| *to += f64::from(weight) / degree * from);
                }
            }
        });
        next
    }
}

/// Asks memory for the states of the nodes of some entries.
#[inline(always)]
fn request_states(state: &[f64], entries: &[(u32, f32)], width: usize) {
    entries.iter().for_each(|&(j, _)| request(state, j as usize * width..(j as usize + 1) * width, Cache::First));
}

impl Ball {
    /// What walks of 0 to `hops` - 1 steps from `start` see; every node of `start` weighs 1.
    pub fn new(steps: &Steps<'_>, start: impl IntoIterator<Item = u32>, hops: usize) -> Ball {
        let nodes: Vec<u32> = start.into_iter().collect();
        // What is pushed to each node of the graph, and whether the ball has it. Fresh zeroed memory costs nothing until it
        // is written to.
        let (mut pushed, mut seen) = (vec![0f64; steps.nodes()], vec![false; steps.nodes()]);
        nodes.iter().for_each(|&node| seen[node as usize] = true);
        let (distance, weights) = (vec![0; nodes.len()], vec![vec![1.0; nodes.len()]]);
        let mut ball = Ball { nodes, distance, weights, kept: vec![1.0; hops] };
        let mut row = Vec::new();
        for t in 1..hops {
            let known = ball.nodes.len();
            for (from, &weight) in ball.weights[t - 1].iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                let degree = steps.row(&mut row, ball.nodes[from]);
                for entries in row.chunks(TOGETHER) {
                    request_states(&pushed, entries, 1);
                    for &(j, step) in entries {
                        let to = &mut pushed[j as usize];
                        // What was pushed to in this step is in the ball already: no need to look.
                        if *to == 0.0 && !std::mem::replace(&mut seen[j as usize], true) {
                            ball.nodes.push(j);
                        }
                        *to += weight * (f64::from(step) / degree);
                    }
                }
            }
            ball.nodes[known..].par_sort_unstable();
            ball.distance.resize(ball.nodes.len(), t as u32);
            ball.weights.push(ball.nodes.iter().map(|&node| std::mem::take(&mut pushed[node as usize])).collect());
        }
        ball
    }

    /// The ball as a graph of its own: row a lists the positions that node a of the ball reads from, with the weights of
    /// the walk. Nodes at the rim are not left any more by the walks that reach them; they get a loop.
    ///
    /// # Errors
    /// Weights that are no weights of a graph.
    pub fn graph(&self, steps: &Steps<'_>) -> Result<Graph> {
        let mut place = vec![0u32; steps.nodes()];
        self.nodes.iter().zip(0..).for_each(|(&node, at)| place[node as usize] = at);
        let (mut edges, mut weights, mut row) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (&node, &distance)) in (0..).zip(self.nodes.iter().zip(&self.distance)) {
            // Farther nodes start no step of a walk of T - 1 steps.
            if distance as usize + 1 >= self.hops() {
                edges.push((at, at));
                weights.push(1.0);
                continue;
            }
            steps.row(&mut row, node);
            for &(j, weight) in &row {
                edges.push((at, place[j as usize]));
                weights.push(weight);
            }
        }
        Graph::from_edges(self.nodes.len(), &edges, Some(&weights), Direction::Directed)
            .map_err(|error| Error::Data(format!("the neighbourhood is no graph: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::graph::Transition;

    /// M^t rows by dense products.
    fn dense_rows(graph: &Graph, walk: Walk, start: &[usize], hops: usize) -> Vec<Vec<f64>> {
        let transition = Transition::new(graph, walk);
        let mut row = vec![0.0; graph.nodes()];
        start.iter().for_each(|&i| row[i] = 1.0);
        let mut rows = vec![row];
        for t in 1..hops {
            let mut next = vec![0.0; graph.nodes()];
            for (i, weight) in rows[t - 1].iter().enumerate() {
                for (j, entry) in transition.matrix().row_entries(i) {
                    next[j] += weight * f64::from(entry) / transition.degree()[i];
                }
            }
            rows.push(next);
        }
        rows
    }

    /// A few sums of numbers below one.
    const ROUNDING: f64 = 1e-14;

    #[test]
    fn rows_of_powers_are_those_of_the_transition_matrix() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 3), (4, 5), (1, 4)];
        let weights = [1.0, 0.5, 2.0, 1.5, 1.0, 3.0];
        for direction in [Direction::Undirected, Direction::Directed] {
            for weights in [None, Some(&weights[..])] {
                let graph = Graph::from_edges(8, &edges, weights, direction).unwrap();
                for (self_loops, lazy) in [(false, false), (true, false), (false, true), (true, true)] {
                    let walk = Walk { self_loops, lazy };
                    for start in [vec![1usize], vec![7], vec![0, 1, 2, 3, 4, 5]] {
                        let ball = Ball::new(&Steps::new(&graph, walk), start.iter().map(|&i| i as u32), 5);
                        let expected = dense_rows(&graph, walk, &start, 5);
                        let mut found = vec![vec![0.0; 8]; 5];
                        for (at, &node) in ball.nodes.iter().enumerate() {
                            (0..5).for_each(|t| found[t][node as usize] = ball.weight(t, at));
                        }
                        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                            assert!((found - expected).abs() < ROUNDING, "{found} {expected}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn dropping_an_edge_is_walking_on_the_graph_without_it() {
        let edges = [(0, 1), (1, 2), (2, 0), (2, 3)];
        let graph = Graph::from_edges(4, &edges, None, Direction::Undirected).unwrap();
        for lazy in [false, true] {
            let walk = Walk { lazy, ..Walk::default() };
            // The last leaves node 3 alone.
            for gone in edges {
                let kept: Vec<(u32, u32)> = edges.into_iter().filter(|edge| *edge != gone).collect();
                let without = Graph::from_edges(4, &kept, None, Direction::Undirected).unwrap();
                let steps = Steps::new(&graph, walk).without([gone, (gone.1, gone.0)]);
                for start in 0..4 {
                    let (found, expected) =
                        (Ball::new(&steps, [start], 4), Ball::new(&Steps::new(&without, walk), [start], 4));
                    assert_eq!((&found.nodes, &found.weights), (&expected.nodes, &expected.weights));
                }
            }
        }
    }

    #[test]
    fn a_ball_keeps_to_its_neighbourhood() {
        let edges: Vec<(u32, u32)> = (0..99).map(|i| (i, i + 1)).collect();
        let graph = Graph::from_edges(100, &edges, None, Direction::Undirected).unwrap();
        let ball = Ball::new(&Steps::new(&graph, Walk::default()), [50], 4);
        let mut nodes = ball.nodes.clone();
        nodes.sort_unstable();
        assert_eq!(nodes, [47, 48, 49, 50, 51, 52, 53]);
        assert_eq!(ball.distance[0], 0);
        for t in 0..4 {
            let sum: f64 = ball.weights[t].iter().sum();
            assert!((sum - 1.0).abs() < ROUNDING);
        }
    }
}
