//! What every edge does to one prediction: how its logit moves when that edge alone is taken out and the structure is normalised anew.
//!
//! Exact, as by [`Edit`]: responses do not depend on edges, so that what every node adds in every term is computed once, and of each
//! edge only the weights r_t are computed again.

use super::Factors;
use super::local::{Case, Edit, Score, Target, check_edges, start};
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::stop::Stop;
use rayon::prelude::*;
use std::collections::{BTreeSet, HashMap};

/// One edge of what a prediction sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EdgeEffect {
    /// The node that reads.
    pub reader: u32,
    /// The node it reads from.
    pub source: u32,
    /// The logit without the edge, less the logit with it.
    pub change: f64,
}

/// Of every edge that a prediction can depend on. Of an undirected graph an edge is taken out both ways, and comes once.
///
/// # Errors
/// There is no such target, it sees more than `most` entries of the adjacency matrix, the model reads features that edges are part
/// of, or the user asked to stop.
pub fn edge_effects(
    factors: &Factors,
    dataset: &Dataset,
    target: Target,
    score: &dyn Fn(&[f64]) -> Result<Score>,
    most: usize,
    stop: &Stop,
) -> Result<(Score, Vec<EdgeEffect>)> {
    check_edges(dataset)?;
    let case = Case::of(factors, dataset, target, &Edit::default())?;
    let score = score(&case.logits())?;
    let edges = edges_seen(&case, most)?;
    let both_ways = dataset.graph.is_symmetric();
    let (terms, added) = (factors.hops(), added(&case, score));
    let place: HashMap<u32, usize> = case.ball.nodes.iter().zip(0..).map(|(&node, at)| (node, at)).collect();
    let before =
        logit(&case.ball.nodes, |t, at| case.ball.weight(t, at), |t, at, _| Some(added[at * terms + t]), terms);
    let nodes = start(dataset, target)?;
    let change = |&(reader, source): &(u32, u32)| {
        stop.check()?;
        let mut dropped = vec![(reader, source)];
        dropped.extend((both_ways && reader != source).then_some((source, reader)));
        let ball = factors.structure().sources_in(dataset, &dropped).ball(nodes.clone());
        let of = |t: usize, _: usize, node: u32| place.get(&node).map(|at| added[at * terms + t]);
        let after = match logit(&ball.nodes, |t, at| ball.weight(t, at), of, terms) {
            Some(sum) => sum,
            // A node that comes near only when an edge is gone.
            None => {
                let edit = Edit { dropped, ..Edit::default() };
                score.of(&Case::of(factors, dataset, target, &edit)?.logits()) - score.of(&factors.bias)
            }
        };
        Ok(EdgeEffect { reader, source, change: after - before.unwrap_or(0.0) })
    };
    Ok((score, edges.par_iter().map(change).collect::<Result<Vec<_>>>()?))
}

/// `sum_t sum_j r_t[j] G_t[j]`; none where G of a node with a weight is not known.
fn logit(
    nodes: &[u32],
    weight: impl Fn(usize, usize) -> f64,
    added: impl Fn(usize, usize, u32) -> Option<f64>,
    terms: usize,
) -> Option<f64> {
    let mut sum = 0.0;
    for (at, &node) in nodes.iter().enumerate() {
        for t in 0..terms {
            let weight = weight(t, at);
            if weight != 0.0 {
                sum += weight * added(t, at, node)?;
            }
        }
    }
    Some(sum)
}

/// `G_t[j] = sum_k w[k] theta[t,k] f_k(x[j,k])` of the score, nodes of the ball x T.
fn added(case: &Case<'_>, score: Score) -> Vec<f64> {
    let (factors, outputs, terms) = (case.factors, case.factors.outputs(), case.factors.hops());
    let weight: Vec<f64> = factors.weight.chunks_exact(outputs).map(|weights| score.of(weights)).collect();
    let parts = case.portions(case.everything(), Vec::new, |added: &mut Vec<f64>, places, responses| {
        let of = |lane: usize, t: usize| -> f64 {
            let features = weight.iter().zip(responses).enumerate();
            features.map(|(k, (weight, responses))| weight * factors.theta(t, k) * responses[lane]).sum()
        };
        added.extend((0..places.len()).flat_map(|lane| {
            let of = &of;
            (0..terms).map(move |t| of(lane, t))
        }));
    });
    parts.concat()
}

/// Edges of the nodes whose edges count, by their ends; of an undirected graph the smaller end reads.
fn edges_seen(case: &Case<'_>, most: usize) -> Result<Vec<(u32, u32)>> {
    let (graph, ball) = (&case.dataset.graph, &case.ball);
    let adjacency = graph.adjacency();
    let counts = |distance: u32| case.factors.structure().rim_reads() || (distance as usize) + 1 < ball.hops();
    let readers =
        || ball.nodes.iter().zip(&ball.distance).filter(|(_, distance)| counts(**distance)).map(|(node, _)| *node);
    let entries: usize = readers().map(|i| adjacency.row(i as usize).len()).sum();
    if entries > most {
        return Err(Error::Config(format!(
            "the prediction sees {entries} edges, each way counted, and every one is taken out by itself: expected at most {most}; \
             explain a prediction that sees fewer, or set most_edges"
        )));
    }
    let ends = |i: u32, j: u32| if graph.is_symmetric() { (i.min(j), i.max(j)) } else { (i, j) };
    let all: BTreeSet<(u32, u32)> = readers()
        .flat_map(|i| adjacency.row_entries(i as usize).map(move |(j, _)| (i, j as u32)))
        .map(|(i, j)| ends(i, j))
        .collect();
    Ok(all.into_iter().collect())
}
