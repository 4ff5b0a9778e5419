//! How the response of a source node reaches a target: in T terms, of which term t counts theta[t,k] for feature k and
//! takes r_t\[j\] of node j.
//!
//! Explanations see the graph through [`Structure`] alone. A new kind is one file that implements it, as [`Walks`] does,
//! and a line in [`structure_of`]. A structure on one graph is its [`Sources`]; what one target sees of them is a [`Ball`].

use super::{Filter, Pairs, Shells, Walks};
use crate::architecture::Spread;
use crate::model::FittedModel;
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::Result;
use harmonia_graph::graph::Graph;
use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// The terms in which responses reach targets, and how much each of them counts.
pub trait Structure: Any + Debug + Send + Sync {
    /// T.
    fn terms(&self) -> usize;

    /// What a term is called where a number follows or a program reads: "hop".
    fn key(&self) -> &'static str;

    /// What term t is called for people: "hop 2".
    fn name(&self, t: usize) -> String {
        format!("{} {t}", self.key())
    }

    /// `theta[t,k]`.
    fn weight(&self, t: usize, k: usize) -> f64;

    /// Sum of theta over terms.
    fn total(&self, k: usize) -> f64 {
        (0..self.terms()).map(|t| self.weight(t, k)).sum()
    }

    /// What a response of feature k is multiplied by, beside the readout, where all nodes that count have it: the sum of theta. Where
    /// terms cancel, because nodes are held against each other, it is the theta of the term that counts most.
    fn reach(&self, k: usize) -> f64 {
        /// On the simplex the sum is one, and rounding is not to be seen.
        const ROUNDING: f64 = 1e-9;
        let total = self.total(k);
        let thetas = || (0..self.terms()).map(|t| self.weight(t, k));
        let sizes: f64 = thetas().map(f64::abs).sum();
        match total {
            _ if (total - 1.0).abs() < ROUNDING => 1.0,
            _ if total.abs() >= sizes / 2.0 => total,
            _ => thetas().fold(0.0, |most: f64, theta| if theta.abs() > most.abs() { theta } else { most }),
        }
    }

    /// Whether the edges of the nodes farthest away count. Overridden where they are not looked at.
    fn rim_reads(&self) -> bool {
        true
    }

    /// The structure on all graphs of a dataset. Overridden where nodes that no edge joins count for each other.
    fn sources_in<'g>(&'g self, dataset: &'g Dataset, dropped: &[(u32, u32)]) -> Box<dyn Sources + 'g> {
        self.sources(&dataset.graph, dropped)
    }

    /// The structure on a graph, once node i no longer reads from node j for every (i, j) of `dropped`.
    fn sources<'g>(&'g self, graph: &'g Graph, dropped: &[(u32, u32)]) -> Box<dyn Sources + 'g>;

    /// `r_t[j]` of every node j in the sum over the nodes of its graph, n x T. Overridden where all graphs together cost less
    /// than one by one.
    fn graph_weights(&self, dataset: &Dataset) -> Vec<f64> {
        let (terms, sources) = (self.terms(), self.sources_in(dataset, &[]));
        let mut weights = vec![0.0; dataset.graph.nodes() * terms];
        for graph in 0..dataset.graphs() {
            let nodes = dataset.graph_nodes(graph);
            let ball = sources.ball(nodes.start as u32..nodes.end as u32);
            for (at, &node) in ball.nodes.iter().enumerate() {
                (0..terms).for_each(|t| weights[node as usize * terms + t] = ball.weight(t, at));
            }
        }
        weights
    }
}

/// A structure on one graph.
pub trait Sources: Send + Sync {
    /// What the sum over the nodes of `start` sees; a prediction of one node starts from that one.
    fn ball(&self, start: Range<u32>) -> Ball;

    /// `sum_t sum_j r_t[j] G_t[j]`, `width` numbers, in another way than by the weights of the ball where there is one: what
    /// explanations are held against. `projected`: for every t, G_t of the nodes that have a weight, nodes x width.
    fn pull(&self, ball: &Ball, projected: Vec<Vec<f64>>, width: usize) -> Vec<f64> {
        let mut sums = vec![0.0; width];
        for (weights, projected) in ball.weights.iter().zip(&projected) {
            for (weight, values) in weights.iter().zip(projected.chunks_exact(width)) {
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
            }
        }
        sums
    }

    /// The ball as a graph of its own, on which the engine's walk of the same length makes the same prediction. None where
    /// the engine has no such structure.
    ///
    /// # Errors
    /// Weights that are no weights of a graph.
    fn graph(&self, ball: &Ball) -> Result<Option<Graph>>;
}

/// The structure of a trained model.
pub(super) fn structure_of(model: &FittedModel) -> Arc<dyn Structure> {
    match model.layout.architecture.spread() {
        Spread::Walks | Spread::Itself => Arc::new(Walks::of(model)),
        Spread::Shells => Arc::new(Shells::of(model)),
        Spread::Filter => Arc::new(Filter::of(model)),
        Spread::Pairs => Arc::new(Pairs::of(model)),
    }
}

/// The nodes a prediction sees, and how much each of them counts in every term.
///
/// Nodes are ordered so that what a term reaches comes first. Among those that come in together they are in the order of
/// their numbers: the features of a large ball are then read in the order they lie in memory.
#[derive(Clone, Debug)]
pub struct Ball {
    /// Which; the start comes first.
    pub nodes: Vec<u32>,
    /// Steps from the start.
    pub distance: Vec<u32>,
    /// r_t of the first nodes; the others have none. One list per term, T in all.
    pub weights: Vec<Vec<f64>>,
    /// Sum of r_t, as a share of the number of nodes of the start: what is left of a constant. 1 for walks, whose rows sum
    /// to one; less where a term finds no node. One number per term.
    pub kept: Vec<f64>,
}

impl Ball {
    /// T.
    pub fn hops(&self) -> usize {
        self.weights.len()
    }

    /// r_t of a node, by its position in the ball.
    pub fn weight(&self, t: usize, at: usize) -> f64 {
        self.weights[t].get(at).copied().unwrap_or(0.0)
    }

    /// How many nodes others than the last term reach; they come first.
    pub fn inner(&self) -> usize {
        self.weights.iter().rev().skip(1).map(Vec::len).max().unwrap_or(0)
    }
}
