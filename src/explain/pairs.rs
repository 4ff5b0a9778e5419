//! Pairs of nodes: a response reaches a target from every node of its graph, weighed by a network of the walk probabilities of the pair.
//!
//! The score of a pair for feature k is sum_h V[h,k] a_h(p) + b_k, so its terms are the hidden units of that network and its bias:
//! theta[t,k] = V[t,k] and r_t\[j\] = a_t(p_ij), or b_k and 1 in the last term; of a graph, summed over its nodes i. Single terms mean
//! little, for units share what a pair counts; summed up they are the score. Scores may be negative and do not sum to one.

use super::structure::{Ball, Sources, Structure};
use super::walks::Steps;
use crate::model::FittedModel;
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Graph, Walk};
use rayon::prelude::*;
use std::ops::Range;

/// The network of pairs.
#[derive(Clone, Debug)]
pub struct Pairs {
    walk: Walk,
    /// T.
    lengths: usize,
    features: usize,
    /// U, W x T, and c behind it.
    hidden: Vec<f64>,
    /// V and b, (W + 1) x d.
    scores: Vec<f64>,
}

impl Pairs {
    /// That of a trained model.
    pub fn of(model: &FittedModel) -> Pairs {
        let (layout, a) = (&model.layout, &model.layout.architecture);
        let wide = |range: Range<usize>| model.parameters[range].iter().map(|&value| f64::from(value)).collect();
        Pairs {
            walk: model.walk,
            lengths: a.family.reach + 1,
            features: a.features,
            hidden: wide(layout.structure()),
            scores: wide(layout.hop_logits.clone()),
        }
    }

    /// W.
    fn units(&self) -> usize {
        self.hidden.len() / (self.lengths + 1)
    }

    /// a(p) of a pair, and 1.
    fn activations(&self, walks: &[f64]) -> Vec<f64> {
        let (weights, biases) = self.hidden.split_at(self.units() * self.lengths);
        let unit = |(weights, bias): (&[f64], &f64)| {
            (bias + weights.iter().zip(walks).map(|(weight, p)| weight * p).sum::<f64>()).max(0.0)
        };
        weights.chunks_exact(self.lengths).zip(biases).map(unit).chain([1.0]).collect()
    }

    fn on<'g>(&'g self, graph: &'g Graph, graph_ptr: &[usize], dropped: &[(u32, u32)]) -> Box<dyn Sources + 'g> {
        let steps = Steps::new(graph, self.walk).without(dropped.iter().copied());
        Box::new(Heard { pairs: self, steps, graph_ptr: graph_ptr.to_vec() })
    }
}

impl Structure for Pairs {
    fn terms(&self) -> usize {
        self.units() + 1
    }

    fn key(&self) -> &'static str {
        "unit"
    }

    fn weight(&self, t: usize, k: usize) -> f64 {
        self.scores[t * self.features + k]
    }

    /// What a node counts for itself where no walk leads back: there is no pair that is like all others.
    fn reach(&self, k: usize) -> f64 {
        let itself: Vec<f64> = (0..self.lengths).map(|t| f64::from(u8::from(t == 0))).collect();
        self.activations(&itself).iter().enumerate().map(|(t, unit)| self.weight(t, k) * unit).sum()
    }

    fn sources_in<'g>(&'g self, dataset: &'g Dataset, dropped: &[(u32, u32)]) -> Box<dyn Sources + 'g> {
        self.on(&dataset.graph, &dataset.graph_ptr, dropped)
    }

    /// All nodes are taken for one graph.
    fn sources<'g>(&'g self, graph: &'g Graph, dropped: &[(u32, u32)]) -> Box<dyn Sources + 'g> {
        self.on(graph, &[0, graph.nodes()], dropped)
    }
}

/// Nodes of a start that are looked at together.
const TOGETHER: usize = 64;

/// Pairs on some graphs.
struct Heard<'a> {
    pairs: &'a Pairs,
    steps: Steps<'a>,
    graph_ptr: Vec<usize>,
}

impl Heard<'_> {
    /// Walk probabilities of the pairs of one node and every node of its graph, nodes x T.
    fn walks(&self, i: u32, whole: &Range<u32>) -> Vec<f64> {
        let lengths = self.pairs.lengths;
        let (mut walks, mut row) = (vec![0.0; whole.len() * lengths], Vec::new());
        walks[(i - whole.start) as usize * lengths] = 1.0;
        for t in 1..lengths {
            for from in whole.clone() {
                let weight = walks[(from - whole.start) as usize * lengths + t - 1];
                if weight == 0.0 {
                    continue;
                }
                let degree = self.steps.row(&mut row, from);
                for &(j, step) in &row {
                    walks[(j - whole.start) as usize * lengths + t] += weight * (f64::from(step) / degree);
                }
            }
        }
        walks
    }

    /// By node of its graph: what the pairs with some of them add up to (nodes x (W + 1)), and the steps from the nearest; where no walk
    /// leads, T.
    fn heard(&self, start: &[u32], whole: &Range<u32>) -> (Vec<f64>, Vec<u32>) {
        let (lengths, terms) = (self.pairs.lengths, self.pairs.terms());
        let (mut sums, mut distance) = (vec![0.0; whole.len() * terms], vec![lengths as u32; whole.len()]);
        for &i in start {
            let walks = self.walks(i, whole);
            for ((sums, distance), p) in
                sums.chunks_exact_mut(terms).zip(&mut distance).zip(walks.chunks_exact(lengths))
            {
                sums.iter_mut().zip(self.pairs.activations(p)).for_each(|(sum, unit)| *sum += unit);
                let steps = p.iter().position(|p| *p != 0.0).unwrap_or(lengths);
                *distance = (*distance).min(steps as u32);
            }
        }
        (sums, distance)
    }
}

impl Sources for Heard<'_> {
    fn ball(&self, start: Range<u32>) -> Ball {
        let graph = self.graph_ptr.partition_point(|&first| first <= start.start as usize) - 1;
        let whole = self.graph_ptr[graph] as u32..self.graph_ptr[graph + 1] as u32;
        let starts: Vec<u32> = start.clone().collect();
        let parts: Vec<_> = starts.par_chunks(TOGETHER).map(|start| self.heard(start, &whole)).collect();
        let terms = self.pairs.terms();
        // The start comes first.
        let others = whole.clone().filter(|node| !start.contains(node));
        let nodes: Vec<u32> = start.clone().chain(others).collect();
        let place = |node: &u32| (node - whole.start) as usize;
        let weight = |node: &u32, t: usize| parts.iter().map(|(sums, _)| sums[place(node) * terms + t]).sum::<f64>();
        let weights: Vec<Vec<f64>> = (0..terms).map(|t| nodes.iter().map(|node| weight(node, t)).collect()).collect();
        let nearest = |node: &u32| parts.iter().map(|(_, distance)| distance[place(node)]).min().unwrap_or(0);
        let distance = nodes.iter().map(nearest).collect();
        let kept = weights.iter().map(|weights| weights.iter().sum::<f64>() / starts.len() as f64).collect();
        Ball { nodes, distance, weights, kept }
    }

    fn graph(&self, _: &Ball) -> Result<Option<Graph>> {
        Ok(None)
    }
}
