//! One prediction as the sum it is: by feature, source node, walk length, or any of them together.
//!
//! With r_t the weights of source nodes in term t (of walks, the row of M^t that ends in the target; see [`Ball`]), u_k = w[k,class] (minus w[k,versus]) and the response
//! centred at c_k, a term is u_k theta[t,k] r_t[j] (f_k(x[j,k]) - c_k). What centring takes away does not depend on x: it
//! moves to the intercept. Rows of M^t sum to one, so that it is the same for every node; in a sum over the nodes of a
//! graph it is that many times the constant.
//!
//! Terms are f64. The logit they are held against is the engine's own, computed in f32 on the same neighbourhood by
//! propagation: the residual is a check of one program by another. (Of very large neighbourhoods it checks walks and sums,
//! see [`Case::propagated_logits`].)

use super::pass::Pass;
use super::response::LANES;
use super::{Ball, Factors, Sources, Term, Top, ranking};
use crate::model::FittedModel;
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::simd::simd;
use std::collections::HashMap;
use std::ops::Range;

/// Outputs that a neighbourhood is projected onto while it is read anyway.
const LIKELY: usize = 2;

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A node of a node task.
    Node(usize),
    /// A graph of a graph task.
    Graph(usize),
}

/// The keys terms are added up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By {
    /// Feature: a column of X, or the columns that are shown as one.
    pub feature: bool,
    /// Source node.
    pub node: bool,
    /// Walk length.
    pub hop: bool,
}

/// Which logit: weights of the outputs, and their name for people is made elsewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Column of the readout.
    pub output: usize,
    /// The output whose logit is subtracted.
    pub versus: Option<usize>,
    /// -1 for the class of a binary task that its one logit speaks against.
    pub sign: f64,
}

impl Score {
    /// Of values by output.
    pub fn of(&self, values: &[f64]) -> f64 {
        self.sign * (values[self.output] - self.versus.map_or(0.0, |versus| values[versus]))
    }
}

/// What is changed before the prediction is made again.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// (i, j): node i no longer reads from node j.
    pub dropped: Vec<(u32, u32)>,
    /// Nodes with other features, in the model's units.
    pub replaced: HashMap<u32, Vec<f32>>,
}

/// An answer: intercept + terms + rest = logit, up to `residual`.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The logit by propagation: the engine's, see [`Case::propagated_logits`].
    pub logit: f64,
    /// beta of the score, plus what centring took from the terms.
    pub intercept: f64,
    /// beta alone.
    pub beta: f64,
    /// The largest terms by absolute value, largest first.
    pub terms: Vec<Term>,
    /// Sum of all other terms.
    pub rest: f64,
    /// How many those are.
    pub rest_terms: usize,
    /// |intercept + terms + rest - logit|.
    pub residual: f64,
}

/// A prediction and everything it is made of.
pub struct Case<'a> {
    /// The trained model, where the engine can make the prediction.
    pub(super) engine: Option<&'a FittedModel>,
    pub(super) factors: &'a Factors,
    pub(super) dataset: &'a Dataset,
    pub(super) sources: Box<dyn Sources + 'a>,
    pub(super) replaced: HashMap<u32, Vec<f32>>,
    /// What the target sees.
    pub ball: Ball,
    /// `sum_j r_t[j] f_k(x[j,k])`, T x d.
    sums: Vec<f64>,
    /// Nodes of the start: 1, or the number of nodes of a graph. Of walks it is `sum_j r_t[j]`, for every t.
    pub mass: f64,
    /// What was found of the nodes that only the last term (the longest walks) reaches: of a large neighbourhood, nearly all.
    pub(super) rim: Pass,
}

impl<'a> Case<'a> {
    /// Looks at a target of a trained model. `dataset` has its features as the model sees them, and `factors` are those of
    /// `model`.
    ///
    /// # Errors
    /// The target does not exist, the dataset does not fit the model, or an edge is taken out that its structural features
    /// depend on.
    pub fn new(
        model: &'a FittedModel,
        factors: &'a Factors,
        dataset: &'a Dataset,
        target: Target,
        edit: &Edit,
    ) -> Result<Self> {
        let engine = Some(model).filter(|model| model.layout.architecture.walks_by_feature());
        Ok(Case { engine, ..Case::of(factors, dataset, target, edit)? })
    }

    /// Looks at a target of any additive model; the engine takes no part.
    ///
    /// # Errors
    /// As [`Case::new`].
    pub fn of(factors: &'a Factors, dataset: &'a Dataset, target: Target, edit: &Edit) -> Result<Self> {
        if dataset.features.cols != factors.features() {
            return Err(Error::Data(format!(
                "the model reads {} features, the dataset has {}",
                factors.features(),
                dataset.features.cols
            )));
        }
        if !edit.dropped.is_empty() {
            check_edges(dataset)?;
        }
        let start = start(dataset, target)?;
        let sources = factors.structure().sources_in(dataset, &edit.dropped);
        let mass = start.len() as f64;
        let ball = sources.ball(start);
        let (replaced, rim) = (edit.replaced.clone(), Pass::default());
        let mut case = Case { engine: None, factors, dataset, sources, replaced, ball, sums: Vec::new(), mass, rim };
        let (inner, nodes) = (case.ball.inner(), case.ball.nodes.len());
        case.sums = case.pass(0..inner, &[]).sums;
        case.rim = case.pass(inner..nodes, &case.likely_outputs());
        case.sums.iter_mut().zip(&case.rim.sums).for_each(|(sum, part)| *sum += part);
        Ok(case)
    }

    /// The outputs with the largest logits, as far as can be told before the rim is looked at: the last term is taken to
    /// see what the one before it sees. A guess saves a second look at the rim; nothing else depends on it.
    fn likely_outputs(&self) -> Vec<usize> {
        let (d, hops) = (self.factors.features(), self.factors.hops());
        let sum = |t: usize, k: usize| self.sums[t.min(hops.saturating_sub(2)) * d + k];
        let state = |k| (0..hops).map(|t| self.factors.theta(t, k) * sum(t, k)).sum();
        let logits = self.readout((0..d).map(state));
        ranking(&logits).into_iter().take(LIKELY).collect()
    }

    /// beta + sum_k w[k] `state[k]`.
    fn readout(&self, state: impl Iterator<Item = f64>) -> Vec<f64> {
        let outputs = self.factors.outputs();
        let mut logits = self.factors.bias.clone();
        for (k, state) in state.enumerate() {
            let weights = &self.factors.weight[k * outputs..][..outputs];
            logits.iter_mut().zip(weights).for_each(|(logit, w)| *logit += w * state);
        }
        logits
    }

    /// `H[k] = sum_t theta[t,k] sum_j r_t[j] f_k(x[j,k])`: what the readout multiplies.
    pub fn state(&self) -> Vec<f64> {
        let d = self.factors.features();
        let state = |k| (0..self.factors.hops()).map(|t| self.factors.theta(t, k) * self.sums[t * d + k]).sum();
        (0..d).map(state).collect()
    }

    /// What a constant response of feature k is multiplied by, at every node of the start: the sum of theta over terms, of
    /// which some may find no node.
    pub fn total_theta(&self, k: usize) -> f64 {
        self.ball.kept.iter().enumerate().map(|(t, kept)| self.factors.theta(t, k) * kept).sum()
    }

    /// All logits, from the terms.
    pub fn logits(&self) -> Vec<f64> {
        self.readout(self.state().into_iter())
    }

    /// The terms of a score, added up by the keys asked for; the largest `top` of them one by one. `centre`: c_k, d values.
    ///
    /// # Errors
    /// The engine failed.
    pub fn explain(&self, score: Score, by: By, top: usize, centre: &[f64]) -> Result<Explanation> {
        let (factors, d) = (self.factors, self.factors.features());
        let of = |values: &[f64], at: usize| {
            let value = |output: usize| values[at * factors.outputs() + output];
            score.sign * (value(score.output) - score.versus.map_or(0.0, value))
        };
        let weight: Vec<f64> = (0..d).map(|k| of(&factors.weight, k)).collect();
        let beta = of(&factors.bias, 0);
        let constant: f64 = (0..d).map(|k| weight[k] * centre[k] * self.total_theta(k)).sum::<f64>() * self.mass;
        let outputs: Vec<usize> = [score.output].into_iter().chain(score.versus).collect();
        let engine = self.propagated_logits(&outputs)?;
        let logit = score.sign * (engine[0] - engine.get(1).copied().unwrap_or(0.0));

        let largest =
            if by.node { self.by_node(&weight, by, top, centre) } else { self.by_others(&weight, by, top, centre) };
        let (count, sum) = (largest.count, largest.sum);
        let terms = largest.finish();
        let shown: f64 = terms.iter().map(|term| term.value).sum();
        Ok(Explanation {
            logit,
            intercept: beta + constant,
            beta,
            rest: if terms.len() == count { 0.0 } else { sum - shown },
            rest_terms: count - terms.len(),
            residual: (beta + constant + sum - logit).abs(),
            terms,
        })
    }

    /// Terms without source nodes, from sums over them.
    fn by_others(&self, weight: &[f64], by: By, top: usize, centre: &[f64]) -> Top {
        let (factors, d) = (self.factors, self.factors.features());
        let value = |t: usize, k: usize| {
            weight[k] * factors.theta(t, k) * (self.sums[t * d + k] - centre[k] * (self.mass * self.ball.kept[t]))
        };
        let hops = 0..factors.hops();
        let mut largest = Top::new(top);
        let mut term = |feature, hop, value| largest.push(Term { feature, node: None, hop, value });
        match (by.feature, by.hop) {
            (true, true) => factors.groups().iter().enumerate().for_each(|(feature, columns)| {
                let sum = |t| columns.clone().map(|k| value(t, k)).sum();
                hops.clone().for_each(|t| term(Some(feature), Some(t), sum(t)));
            }),
            (true, false) => factors.groups().iter().enumerate().for_each(|(feature, columns)| {
                let terms = columns.flat_map(|k| hops.clone().map(move |t| (t, k)));
                term(Some(feature), None, terms.map(|(t, k)| value(t, k)).sum());
            }),
            (false, true) => hops.for_each(|t| term(None, Some(t), (0..d).map(|k| value(t, k)).sum())),
            (false, false) => {
                term(None, None, hops.flat_map(|t| (0..d).map(move |k| (t, k))).map(|(t, k)| value(t, k)).sum())
            }
        }
        largest
    }

    fn by_node(&self, weight: &[f64], by: By, top: usize, centre: &[f64]) -> Top {
        let parts = self.portions(
            self.everything(),
            || Top::new(top),
            |largest, places, responses| {
                let reach = self.reach(&places);
                let block = NodeTerms { case: self, weight, centre, places, responses, by_feature: by.feature };
                match by.hop {
                    true => reach.chunks(1).for_each(|one| block.push(largest, Some(one[0].0), one)),
                    false => block.push(largest, None, &reach),
                }
            },
        );
        let mut largest = Top::new(top);
        parts.into_iter().for_each(|part| largest.merge(part));
        largest
    }

    /// What every source node adds to every output, nodes of the ball x L, responses centred.
    pub fn node_values(&self, centre: &[f64]) -> Vec<f64> {
        let (factors, outputs) = (self.factors, self.factors.outputs());
        let parts = self.portions(self.everything(), Vec::new, |values: &mut Vec<f64>, places, responses| {
            let (first, reach) = (values.len(), self.reach(&places));
            values.resize(first + places.len() * outputs, 0.0);
            for (k, responses) in responses.iter().enumerate() {
                let weights = &factors.weight[k * outputs..][..outputs];
                for (lane, values) in values[first..].chunks_exact_mut(outputs).enumerate() {
                    let reached: f64 = reach.iter().map(|(t, weights)| weights[lane] * factors.theta(*t, k)).sum();
                    let effect = reached * (responses[lane] - centre[k]);
                    values.iter_mut().zip(weights).for_each(|(value, w)| *value += w * effect);
                }
            }
        });
        parts.concat()
    }

    /// What every walk length adds to every output, T x L, responses centred.
    pub fn hop_values(&self, centre: &[f64]) -> Vec<f64> {
        let (factors, d, outputs) = (self.factors, self.factors.features(), self.factors.outputs());
        let mut values = vec![0.0; factors.hops() * outputs];
        for (t, values) in values.chunks_exact_mut(outputs).enumerate() {
            for (k, centre) in centre.iter().enumerate() {
                let effect = factors.theta(t, k) * (self.sums[t * d + k] - centre * (self.mass * self.ball.kept[t]));
                let weights = &factors.weight[k * outputs..][..outputs];
                values.iter_mut().zip(weights).for_each(|(value, w)| *value += w * effect);
            }
        }
        values
    }
}

/// Terms of a few source nodes.
struct NodeTerms<'a> {
    case: &'a Case<'a>,
    weight: &'a [f64],
    centre: &'a [f64],
    places: Range<usize>,
    responses: &'a [[f64; LANES]],
    by_feature: bool,
}

impl NodeTerms<'_> {
    /// Terms of the walk lengths in `reach` (which, r_t), added up.
    fn push(&self, largest: &mut Top, hop: Option<usize>, reach: &[(usize, [f64; LANES])]) {
        let (case, count) = (self.case, self.places.len());
        let seen = |lane: usize| reach.iter().any(|(_, weights)| weights[lane] != 0.0);
        let number = (0..count).filter(|&lane| seen(lane)).count();
        let term = |feature, lane: usize, value| {
            let node = Some(case.ball.nodes[self.places.start + lane] as usize);
            seen(lane).then_some(Term { feature, node, hop, value })
        };
        simd(
            #[inline(always)]
            || {
                let mut sums = [0.0; LANES];
                // Of a feature whose columns are not all looked at yet.
                let (mut feature, mut values) = (0, [0.0; LANES]);
                for (k, responses) in self.responses.iter().enumerate() {
                    let mut factor = [0.0; LANES];
                    for (t, weights) in reach {
                        let theta = case.factors.theta(*t, k);
                        factor.iter_mut().zip(weights).for_each(|(factor, weight)| *factor += theta * weight);
                    }
                    let (weight, centre) = (self.weight[k], self.centre[k]);
                    for lane in 0..LANES {
                        let value = weight * (responses[lane] - centre) * factor[lane];
                        values[lane] += value;
                        sums[lane] += value;
                    }
                    if k + 1 == case.factors.groups().columns(feature).end {
                        if self.by_feature {
                            largest.push_all(&values[..count], number, |lane, value| term(Some(feature), lane, value));
                        }
                        (feature, values) = (feature + 1, [0.0; LANES]);
                    }
                }
                if !self.by_feature {
                    largest.push_all(&sums[..count], number, |lane, value| term(None, lane, value));
                }
            },
        );
    }
}

/// Whether edges can be taken out.
///
/// # Errors
/// The model reads features that edges are part of.
pub(super) fn check_edges(dataset: &Dataset) -> Result<()> {
    match &dataset.structure {
        Some(structure) if structure.reads_edges() => Err(Error::Config(format!(
            "the model reads structural features ({}), which would not follow when an edge is taken out; edges can be \
             taken out of models without data.structure",
            structure.words()
        ))),
        _ => Ok(()),
    }
}

/// Nodes a prediction starts from.
pub(super) fn start(dataset: &Dataset, target: Target) -> Result<Range<u32>> {
    match (target, dataset.level) {
        (Target::Node(node), Level::Node) if node < dataset.graph.nodes() => Ok(node as u32..node as u32 + 1),
        (Target::Graph(graph), Level::Graph) if graph < dataset.graphs() => {
            let nodes = dataset.graph_nodes(graph);
            Ok(nodes.start as u32..nodes.end as u32)
        }
        (Target::Node(node), Level::Node) => Err(Error::Data(format!(
            "there is no node {node}: the dataset has nodes 0 to {}",
            dataset.graph.nodes() - 1
        ))),
        (Target::Graph(graph), Level::Graph) => {
            Err(Error::Data(format!("there is no graph {graph}: the dataset has graphs 0 to {}", dataset.graphs() - 1)))
        }
        (Target::Node(_), Level::Graph) => {
            Err(Error::Data("this model predicts graphs, not nodes: name a graph, and ask for terms by node".into()))
        }
        (Target::Graph(_), Level::Node) => {
            Err(Error::Data("this model predicts nodes, not graphs: name a node".into()))
        }
    }
}
