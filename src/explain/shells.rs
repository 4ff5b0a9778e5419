//! Distance shells: a response reaches a target from distance t as part of the mean over the nodes there, weighed by rho.
//!
//! theta[t,k] = rho(1 / (1 + t)), the same for every feature, and r_t[j] = 1 / N_i(t) at the nodes j at distance t of target i; of a
//! graph, summed over its nodes i. Invariant: a shell that holds any node keeps the whole of a constant, and one that holds none
//! keeps nothing of it.

use super::structure::{Ball, Sources, Structure};
use super::walks::Steps;
use crate::knots::Pieces;
use crate::model::FittedModel;
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Graph, Walk};
use std::collections::HashMap;
use std::ops::Range;

/// What every distance counts.
#[derive(Clone, Debug)]
pub struct Shells {
    walk: Walk,
    /// rho by distance.
    weights: Vec<f64>,
}

impl Shells {
    /// Those of a trained model.
    pub fn of(model: &FittedModel) -> Shells {
        let (layout, reach) = (&model.layout, model.layout.architecture.family.reach);
        let parameters: Vec<f64> = model.parameters[layout.structure()].iter().map(|&value| f64::from(value)).collect();
        // As the engine reads distances: numbers of f32.
        let points: Vec<f64> = (0..=reach).rev().map(|t| f64::from((1.0 / (1 + t) as f64) as f32)).collect();
        let mut pieces = Pieces::default();
        pieces.compile_at(&layout.distance_layers(), &parameters, &points);
        Shells { walk: model.walk, weights: pieces.intercept.iter().rev().copied().collect() }
    }
}

impl Structure for Shells {
    fn terms(&self) -> usize {
        self.weights.len()
    }

    fn key(&self) -> &'static str {
        "distance"
    }

    fn weight(&self, t: usize, _: usize) -> f64 {
        self.weights[t]
    }

    /// What lies beyond has no term.
    fn rim_reads(&self) -> bool {
        false
    }

    fn sources<'g>(&'g self, graph: &'g Graph, dropped: &[(u32, u32)]) -> Box<dyn Sources + 'g> {
        Box::new(Reached { steps: Steps::new(graph, self.walk).without(dropped.iter().copied()), terms: self.terms() })
    }
}

/// Shells on one graph.
struct Reached<'a> {
    steps: Steps<'a>,
    terms: usize,
}

impl Reached<'_> {
    /// The nodes at each distance of one node.
    fn shells(&self, start: u32) -> Vec<Vec<u32>> {
        let mut known: HashMap<u32, ()> = HashMap::from([(start, ())]);
        let (mut shells, mut row) = (vec![vec![start]], Vec::new());
        while shells.len() < self.terms {
            let mut next = Vec::new();
            for &node in &shells[shells.len() - 1] {
                self.steps.row(&mut row, node);
                next.extend(row.iter().map(|&(j, _)| j).filter(|&j| known.insert(j, ()).is_none()));
            }
            if next.is_empty() {
                break;
            }
            shells.push(next);
        }
        shells
    }
}

impl Sources for Reached<'_> {
    fn ball(&self, start: Range<u32>) -> Ball {
        let starts = start.len();
        // Every node with its distance from the nearest start, and its weight by term.
        let mut found: HashMap<u32, (u32, Vec<f64>)> = HashMap::new();
        let mut kept = vec![0.0; self.terms];
        for i in start {
            for (t, shell) in self.shells(i).into_iter().enumerate() {
                kept[t] += 1.0 / starts as f64;
                let share = 1.0 / shell.len() as f64;
                for j in shell {
                    let (distance, weights) = found.entry(j).or_insert_with(|| (t as u32, vec![0.0; self.terms]));
                    *distance = (*distance).min(t as u32);
                    weights[t] += share;
                }
            }
        }
        let mut order: Vec<(u32, u32)> = found.iter().map(|(&node, &(distance, _))| (distance, node)).collect();
        order.sort_unstable();
        let of_term = |t: usize| {
            let mut weights: Vec<f64> = order.iter().map(|(_, node)| found[node].1[t]).collect();
            let reached = weights.iter().rposition(|weight| *weight != 0.0).map_or(0, |last| last + 1);
            weights.truncate(reached);
            weights
        };
        Ball {
            nodes: order.iter().map(|&(_, node)| node).collect(),
            distance: order.iter().map(|&(distance, _)| distance).collect(),
            weights: (0..self.terms).map(of_term).collect(),
            kept,
        }
    }

    fn graph(&self, _: &Ball) -> Result<Option<Graph>> {
        Ok(None)
    }
}
