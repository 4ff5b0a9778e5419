//! One prediction as the sum it is: by feature, source node, walk length, or any of them together.
//!
//! With r_t the row of M^t that ends in the target (see [`Ball`]), u_k = w[k,class] (minus w[k,versus]) and the response
//! centred at c_k, a term is u_k theta[t,k] r_t[j] (f_k(x[j,k]) - c_k). Rows of M^t sum to one, so that what centring takes
//! away is the same for every node: it moves to the intercept. In a sum over the nodes of a graph it is that many times
//! the constant.
//!
//! Terms are f64. The logit they are held against is the engine's own, computed in f32 on the same neighbourhood by
//! propagation: the residual is a check of one program by another. (Of very large neighbourhoods, see
//! [`Case::propagated_logits`].)

use super::factors::{Block, LANES};
use super::{Ball, Factors, Steps, Term, Top};
use crate::batch::{Batch, Reach};
use crate::config::Monb;
use crate::datasets::{Dataset, Features, Level};
use crate::device::Device;
use crate::device::cpu::{Cpu, simd};
use crate::error::{Error, Result};
use crate::graph::{Transition, Walk};
use crate::model::{FittedModel, Plan, Resident, Space};
use rayon::prelude::*;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Nodes of a task; fixed, so that sums do not depend on threads.
const PORTION: usize = 16 * LANES;
/// Rows of features that memory is asked for in advance.
const ROWS_AHEAD: usize = 8;
/// Features of a neighbourhood up to which the engine computes the logit.
const ENGINE_VALUES: usize = 1 << 24;

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
    /// Column of X.
    pub feature: bool,
    /// Source node.
    pub node: bool,
    /// Walk length.
    pub hop: bool,
}

/// Which logit: weights of the outputs, and their name for people is made elsewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The output.
    pub output: usize,
    /// The output it is held against.
    pub versus: Option<usize>,
    /// -1 for the class of a binary task that its one logit speaks against.
    pub sign: f64,
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
    /// The largest terms.
    pub terms: Vec<Term>,
    /// All other terms.
    pub rest: f64,
    /// How many those are.
    pub rest_terms: usize,
    /// |intercept + terms + rest - logit|.
    pub residual: f64,
}

/// A prediction and everything it is made of.
pub struct Case<'a> {
    model: &'a FittedModel,
    factors: &'a Factors,
    dataset: &'a Dataset,
    steps: Steps<'a>,
    replaced: HashMap<u32, Vec<f32>>,
    /// What the target sees.
    pub ball: Ball,
    /// `sum_j r_t[j] f_k(x[j,k])`, T x d.
    sums: Vec<f64>,
    /// `sum_j r_t[j]`, for every t: 1, or the number of nodes of a graph.
    pub mass: f64,
}

impl<'a> Case<'a> {
    /// Looks at a target. `dataset` has its features as the model sees them, and `factors` are those of `model`.
    ///
    /// # Errors
    /// The target does not exist, or the dataset does not fit the model.
    pub fn new(
        model: &'a FittedModel,
        factors: &'a Factors,
        dataset: &'a Dataset,
        target: Target,
        edit: &Edit,
    ) -> Result<Self> {
        if dataset.features.cols != factors.features() {
            return Err(Error::Data(format!(
                "the model reads {} features, the dataset has {}",
                factors.features(),
                dataset.features.cols
            )));
        }
        let start = start(dataset, target)?;
        let steps = Steps::new(&dataset.graph, model.walk).without(edit.dropped.iter().copied());
        let mass = start.len() as f64;
        let ball = Ball::new(&steps, start, factors.hops());
        let mut case =
            Case { model, factors, dataset, steps, replaced: edit.replaced.clone(), ball, sums: Vec::new(), mass };
        case.sums = case.response_sums();
        Ok(case)
    }

    /// Features of a node of the ball, as the model sees them.
    fn row<'s>(&'s self, at: usize, scratch: &'s mut Vec<f32>) -> &'s [f32] {
        let node = self.ball.nodes[at];
        match self.replaced.get(&node) {
            Some(features) => features,
            None => self.dataset.features.row(node as usize, scratch),
        }
    }

    /// Visits the responses of all nodes of the ball, in parallel by portions; what they make, in order. A visit is of a
    /// few positions: `responses[k][lane]` is f_k of the node at that place of them.
    fn portions<R: Send>(
        &self,
        begin: impl Fn() -> R + Sync,
        visit: impl Fn(&mut R, Range<usize>, &[[f64; LANES]]) + Sync,
    ) -> Vec<R> {
        let nodes = self.ball.nodes.len();
        let starts: Vec<usize> = (0..nodes).step_by(PORTION).collect();
        let portion = |(block, scratch): &mut (Block, Vec<f32>), &start: &usize| {
            let mut made = begin();
            let end = nodes.min(start + PORTION);
            for first in (start..end).step_by(LANES) {
                let places = first..end.min(first + LANES);
                for (lane, at) in places.clone().enumerate() {
                    if let Some(&soon) = self.ball.nodes.get(at + ROWS_AHEAD) {
                        self.dataset.features.request_row(soon as usize);
                    }
                    block.set(lane, self.row(at, scratch));
                }
                visit(&mut made, places, self.factors.responses(block));
            }
            made
        };
        starts.par_iter().map_init(|| (Block::new(self.factors.features()), Vec::new()), portion).collect()
    }

    fn response_sums(&self) -> Vec<f64> {
        let (d, hops) = (self.factors.features(), self.factors.hops());
        let partial = self.portions(
            || vec![0.0; hops * d],
            |sums, nodes, responses| {
                for (sums, weights) in sums.chunks_exact_mut(d).zip(&self.ball.weights) {
                    let reached = nodes.start.min(weights.len())..nodes.end.min(weights.len());
                    if reached.is_empty() {
                        continue;
                    }
                    let mut of_lane = [0.0; LANES];
                    of_lane[..reached.len()].copy_from_slice(&weights[reached]);
                    simd(
                        #[inline(always)]
                        || sums.iter_mut().zip(responses).for_each(|(sum, f)| *sum += dot(&of_lane, f)),
                    );
                }
            },
        );
        let mut sums = vec![0.0; hops * d];
        for part in partial {
            sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
        sums
    }

    /// `H[k] = sum_t theta[t,k] sum_j r_t[j] f_k(x[j,k])`: what the readout multiplies.
    pub fn state(&self) -> Vec<f64> {
        let d = self.factors.features();
        let state = |k| (0..self.factors.hops()).map(|t| self.factors.theta(t, k) * self.sums[t * d + k]).sum();
        (0..d).map(state).collect()
    }

    /// All logits, from the terms.
    pub fn logits(&self) -> Vec<f64> {
        let outputs = self.factors.outputs();
        let mut logits = self.factors.bias.clone();
        for (k, state) in self.state().into_iter().enumerate() {
            let weights = &self.factors.weight[k * outputs..][..outputs];
            logits.iter_mut().zip(weights).for_each(|(logit, w)| *logit += w * state);
        }
        logits
    }

    /// Logits of some outputs by propagation, which the terms are held against: the engine's, or where the neighbourhood is
    /// so large that its pass would take longer than the explanation, hop by hop in f64.
    ///
    /// # Errors
    /// The engine failed.
    pub fn propagated_logits(&self, outputs: &[usize]) -> Result<Vec<f64>> {
        match self.ball.nodes.len().saturating_mul(self.factors.features()) <= ENGINE_VALUES {
            true => self.engine_logits(outputs),
            false => Ok(self.pulled_logits(outputs)),
        }
    }

    /// beta + G_0 + M (G_1 + M (G_2 + ...)) with `G_t[j] = sum_k w[k] theta[t,k] f_k(x[j,k])`, from the rim inwards.
    pub fn pulled_logits(&self, outputs: &[usize]) -> Vec<f64> {
        let (factors, width) = (self.factors, outputs.len());
        let (d, hops, all) = (factors.features(), factors.hops(), factors.outputs());
        // G_t of the nodes within t steps, nodes x width, for every t: shorter walks do not reach the others.
        let parts = self.portions(
            || vec![Vec::new(); hops],
            |made: &mut Vec<Vec<f64>>, nodes, responses| {
                for (t, made) in made.iter_mut().enumerate() {
                    let reached = self.ball.weights[t].len().clamp(nodes.start, nodes.end) - nodes.start;
                    if reached == 0 {
                        continue;
                    }
                    let first = made.len();
                    made.resize(first + reached * width, 0.0);
                    for (at, &output) in outputs.iter().enumerate() {
                        let mut sums = [0.0; LANES];
                        simd(
                            #[inline(always)]
                            || {
                                for k in 0..d {
                                    let weight = factors.theta(t, k) * factors.weight[k * all + output];
                                    sums.iter_mut().zip(&responses[k]).for_each(|(sum, f)| *sum += weight * f);
                                }
                            },
                        );
                        let column = made[first + at..].iter_mut().step_by(width);
                        column.zip(sums).for_each(|(value, sum)| *value = sum);
                    }
                }
            },
        );
        let projected = |t: usize| parts.iter().flat_map(move |part| &part[t]);
        // Of every node of the graph; of those the walks do not see, nothing is read.
        let mut spread = vec![0.0; self.steps.nodes() * width];
        let mut state: Vec<f64> = projected(hops - 1).copied().collect();
        for t in (0..hops - 1).rev() {
            for (&node, values) in self.ball.nodes.iter().zip(state.chunks_exact(width)) {
                spread[node as usize * width..][..width].copy_from_slice(values);
            }
            state = self.steps.pull(&self.ball.nodes[..self.ball.weights[t].len()], &spread, width);
            state.iter_mut().zip(projected(t)).for_each(|(value, g)| *value += g);
        }
        let starts = self.mass as usize;
        let sum = |at: usize| state.iter().skip(at).step_by(width).take(starts).sum::<f64>();
        outputs.iter().enumerate().map(|(at, &output)| factors.bias[output] + sum(at)).collect()
    }

    /// The engine's logits of some outputs: forward propagation in f32 over the neighbourhood.
    ///
    /// # Errors
    /// The engine failed.
    pub fn engine_logits(&self, outputs: &[usize]) -> Result<Vec<f64>> {
        let model = self.model.with_outputs(outputs)?;
        let graph = self.ball.graph(&self.steps)?;
        let (nodes, d) = (self.ball.nodes.len(), self.factors.features());
        let mut x = vec![0f32; nodes * d];
        let rows = x.par_chunks_mut(d).enumerate();
        rows.for_each_init(Vec::new, |scratch, (at, row)| row.copy_from_slice(self.row(at, scratch)));
        let batch = Batch {
            features: Arc::new(Features::new(nodes, d, x)?),
            reach: Reach::Walk(Arc::new(Transition::new(&graph, Walk::default()))),
            // Of a graph, all nodes count; of a node, it comes first.
            graph_ptr: vec![0, nodes],
            level: self.dataset.level,
            objective: model.objective,
            outputs: outputs.len(),
            codes: Vec::new(),
            targets: Vec::new(),
        };
        // One or two columns walk; sums over graphs that walk at all are the business of feature space.
        let space = if self.dataset.level == Level::Graph { Space::Features } else { Space::Classes };
        let plan = Plan { monb: Monb::Knots, space, sparse: false };
        let device = Cpu::<f32>::new();
        let mut resident = Resident::new(&device, &model.layout, plan, batch)?;
        let logits = resident.logits(&device.upload(&model.parameters)?)?;
        Ok(logits[..outputs.len()].iter().map(|&logit| f64::from(logit)).collect())
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
        let constant: f64 = (0..d).map(|k| weight[k] * centre[k] * factors.total_theta(k)).sum::<f64>() * self.mass;
        let outputs: Vec<usize> = [score.output].into_iter().chain(score.versus).collect();
        let engine = self.propagated_logits(&outputs)?;
        let logit = score.sign * (engine[0] - engine.get(1).copied().unwrap_or(0.0));

        let found =
            if by.node { self.by_node(&weight, by, top, centre) } else { self.by_others(&weight, by, top, centre) };
        let (count, sum) = (found.count, found.sum);
        let terms = found.finish();
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
        let value =
            |t: usize, k: usize| weight[k] * factors.theta(t, k) * (self.sums[t * d + k] - centre[k] * self.mass);
        let hops = 0..factors.hops();
        let mut found = Top::new(top);
        let mut term = |feature, hop, value| found.push(Term { feature, node: None, hop, value });
        match (by.feature, by.hop) {
            (true, true) => (0..d).for_each(|k| hops.clone().for_each(|t| term(Some(k), Some(t), value(t, k)))),
            (true, false) => (0..d).for_each(|k| term(Some(k), None, hops.clone().map(|t| value(t, k)).sum())),
            (false, true) => hops.for_each(|t| term(None, Some(t), (0..d).map(|k| value(t, k)).sum())),
            (false, false) => {
                term(None, None, hops.flat_map(|t| (0..d).map(move |k| (t, k))).map(|(t, k)| value(t, k)).sum())
            }
        }
        found
    }

    fn by_node(&self, weight: &[f64], by: By, top: usize, centre: &[f64]) -> Top {
        let (factors, d, hops) = (self.factors, self.factors.features(), self.factors.hops());
        // theta summed with the weights of a node, for every feature.
        let begin = || (Top::new(top), vec![0.0; d]);
        let parts = self.portions(begin, |(found, reach), nodes, responses| {
            for (lane, at) in nodes.enumerate() {
                let node = Some(self.ball.nodes[at] as usize);
                let effect = |k: usize| weight[k] * (responses[k][lane] - centre[k]);
                let mut terms = |hop, reach: &dyn Fn(usize) -> f64| match by.feature {
                    true => (0..d).for_each(|k| {
                        found.push(Term { feature: Some(k), node, hop, value: effect(k) * reach(k) });
                    }),
                    false => {
                        let value = (0..d).map(|k| effect(k) * reach(k)).sum();
                        found.push(Term { feature: None, node, hop, value });
                    }
                };
                let weights = (0..hops).map(|t| (t, self.ball.weight(t, at))).filter(|(_, weight)| *weight != 0.0);
                if by.hop {
                    weights.for_each(|(t, weight)| terms(Some(t), &|k| factors.theta(t, k) * weight));
                } else {
                    reach.fill(0.0);
                    for (t, weight) in weights {
                        let theta = &factors.hop_weights[t * d..][..d];
                        reach.iter_mut().zip(theta).for_each(|(reach, theta)| *reach += weight * theta);
                    }
                    terms(None, &|k| reach[k]);
                }
            }
        });
        let mut found = Top::new(top);
        parts.into_iter().for_each(|(part, _)| found.merge(part));
        found
    }

    /// What every source node adds to every output, nodes of the ball x L, responses centred.
    pub fn node_values(&self, centre: &[f64]) -> Vec<f64> {
        let (factors, d, outputs) = (self.factors, self.factors.features(), self.factors.outputs());
        let parts = self.portions(Vec::new, |values: &mut Vec<f64>, nodes, responses| {
            for (lane, at) in nodes.enumerate() {
                let first = values.len();
                values.resize(first + outputs, 0.0);
                for k in 0..d {
                    let reach: f64 = (0..factors.hops()).map(|t| self.ball.weight(t, at) * factors.theta(t, k)).sum();
                    let effect = reach * (responses[k][lane] - centre[k]);
                    let weights = &factors.weight[k * outputs..][..outputs];
                    values[first..].iter_mut().zip(weights).for_each(|(value, w)| *value += w * effect);
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
                let effect = factors.theta(t, k) * (self.sums[t * d + k] - centre * self.mass);
                let weights = &factors.weight[k * outputs..][..outputs];
                values.iter_mut().zip(weights).for_each(|(value, w)| *value += w * effect);
            }
        }
        values
    }
}

/// In several sums side by side: one sum would wait for every addition.
#[inline(always)]
fn dot(a: &[f64; LANES], b: &[f64; LANES]) -> f64 {
    const SUMS: usize = 16;
    let mut sums = [0.0; SUMS];
    for (a, b) in a.as_chunks::<SUMS>().0.iter().zip(b.as_chunks::<SUMS>().0) {
        for at in 0..SUMS {
            sums[at] += a[at] * b[at];
        }
    }
    sums.iter().sum()
}

/// Nodes a prediction starts from.
fn start(dataset: &Dataset, target: Target) -> Result<Range<u32>> {
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
        (Target::Node(_), Level::Graph) => Err(Error::Data(
            "this model predicts graphs, not nodes: use --graph NUMBER; --by node shows what its nodes add".into(),
        )),
        (Target::Graph(_), Level::Node) => Err(Error::Data("this model predicts nodes, not graphs: use --node".into())),
    }
}
