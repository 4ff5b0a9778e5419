//! A filter of the Laplacian: a response reaches a target by each power of I - D^-1/2 A D^-1/2, weighed by h.
//!
//! theta[t,k] = h_t, the same for every feature, and r_t is row i of the t-th power; of a graph, the sum of its rows. Weights may be
//! negative and do not sum to one: `kept` says what a power leaves of a constant.

use super::structure::{Ball, Sources, Structure};
use super::walks::Steps;
use crate::model::FittedModel;
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Graph, Walk};
use std::collections::HashMap;
use std::ops::Range;

/// What every power counts.
#[derive(Clone, Debug)]
pub struct Filter {
    walk: Walk,
    /// h.
    weights: Vec<f64>,
}

impl Filter {
    /// That of a trained model.
    pub fn of(model: &FittedModel) -> Filter {
        let weights = model.parameters[model.layout.structure()].iter().map(|&weight| f64::from(weight)).collect();
        Filter { walk: model.walk, weights }
    }
}

impl Structure for Filter {
    fn terms(&self) -> usize {
        self.weights.len()
    }

    fn key(&self) -> &'static str {
        "power"
    }

    fn weight(&self, t: usize, _: usize) -> f64 {
        self.weights[t]
    }

    fn sources<'g>(&'g self, graph: &'g Graph, dropped: &[(u32, u32)]) -> Box<dyn Sources + 'g> {
        let steps = Steps::new(graph, self.walk).without(dropped.iter().copied());
        Box::new(Filtered { steps, terms: self.terms() })
    }
}

/// Powers on one graph.
struct Filtered<'a> {
    steps: Steps<'a>,
    terms: usize,
}

impl Sources for Filtered<'_> {
    fn ball(&self, start: Range<u32>) -> Ball {
        let starts = start.len() as f64;
        let mut nodes: Vec<u32> = start.collect();
        let mut place: HashMap<u32, usize> = nodes.iter().enumerate().map(|(at, &node)| (node, at)).collect();
        let mut distance = vec![0; nodes.len()];
        let mut weights = vec![vec![1.0; nodes.len()]];
        let (mut row, mut other) = (Vec::new(), Vec::new());
        for t in 1..self.terms {
            let before = weights[t - 1].clone();
            let mut next = before.clone();
            for (at, &weight) in before.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                let degree = self.steps.row(&mut row, nodes[at]);
                for &(j, step) in &row {
                    let to = *place.entry(j).or_insert_with(|| {
                        nodes.push(j);
                        distance.push(t as u32);
                        nodes.len() - 1
                    });
                    next.resize(nodes.len(), 0.0);
                    next[to] -= weight * f64::from(step) / (degree * self.steps.row(&mut other, j)).sqrt();
                }
            }
            weights.push(next);
        }
        let kept = weights.iter().map(|weights| weights.iter().sum::<f64>() / starts).collect();
        Ball { nodes, distance, weights, kept }
    }

    fn graph(&self, _: &Ball) -> Result<Option<Graph>> {
        Ok(None)
    }
}
