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
use crate::device::cpu::Cpu;
use crate::error::{Error, Result};
use crate::graph::{Transition, Walk};
use crate::model::{FittedModel, Plan, Resident, Space};
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

/// Nodes of a task; fixed, so that sums do not depend on threads.
const PORTION: usize = 64 * LANES;
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

    /// Features of a node of the ball, as the model sees them, into zeros.
    fn fill_row(&self, at: usize, x: &mut [f32]) {
        let node = self.ball.nodes[at];
        match self.replaced.get(&node) {
            Some(features) => x.copy_from_slice(features),
            None => self.dataset.features.fill_row(node as usize, x),
        }
    }

    /// Visits the responses of all nodes of the ball, in parallel by portions; what they make, in order.
    fn portions<R: Send>(&self, begin: impl Fn() -> R + Sync, visit: impl Fn(&mut R, usize, &[f64]) + Sync) -> Vec<R> {
        let (d, nodes) = (self.factors.features(), self.ball.nodes.len());
        let starts: Vec<usize> = (0..nodes).step_by(PORTION).collect();
        let portion = |block: &mut Block, &start: &usize| {
            let end = (start + PORTION).min(nodes);
            let mut made = begin();
            for first in (start..end).step_by(LANES) {
                let count = LANES.min(end - first);
                self.factors.responses(block, count, |lane, x| self.fill_row(first + lane, x));
                (0..count).for_each(|lane| visit(&mut made, first + lane, &block.responses[lane * d..][..d]));
            }
            made
        };
        starts.par_iter().map_init(Block::default, portion).collect()
    }

    fn response_sums(&self) -> Vec<f64> {
        let (d, hops) = (self.factors.features(), self.factors.hops());
        let partial = self.portions(
            || vec![0.0; hops * d],
            |sums, at, responses| {
                for (sums, &weight) in sums.chunks_exact_mut(d).zip(self.ball.weights_of(at)) {
                    if weight != 0.0 {
                        sums.iter_mut().zip(responses).for_each(|(sum, f)| *sum += weight * f);
                    }
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
        let (factors, d, hops, all) =
            (self.factors, self.factors.features(), self.factors.hops(), self.factors.outputs());
        let width = outputs.len();
        let weights: Vec<f64> = (0..hops * width * d)
            .map(|at| {
                let (t, output, k) = (at / (width * d), outputs[at / d % width], at % d);
                factors.theta(t, k) * factors.weight[k * all + output]
            })
            .collect();
        let projected = self.portions(Vec::new, |made: &mut Vec<f64>, at, f| {
            for (t, weights) in weights.chunks_exact(width * d).enumerate() {
                // Shorter walks do not reach the node.
                let reached = t >= self.ball.distance[at] as usize;
                made.extend(weights.chunks_exact(d).map(|weights| if reached { dot(weights, f) } else { 0.0 }));
            }
        });
        // nodes x T x width
        let projected = projected.concat();
        let g = |at: usize, t: usize| &projected[(at * hops + t) * width..][..width];
        let mut state: Vec<f64> = (0..self.ball.nodes.len()).flat_map(|at| g(at, hops - 1)).copied().collect();
        for t in (0..hops - 1).rev() {
            // Nodes farther away than t steps are not met by walks of t steps.
            let inner = self.ball.distance.partition_point(|&distance| distance as usize <= t);
            state = self.steps.pull(&self.ball, &state, width, inner);
            state.chunks_exact_mut(width).enumerate().for_each(|(at, row)| {
                row.iter_mut().zip(g(at, t)).for_each(|(value, g)| *value += g);
            });
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
        x.par_chunks_mut(d).enumerate().for_each(|(at, row)| self.fill_row(at, row));
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
        let parts = self.portions(begin, |(found, reach), at, responses| {
            let node = Some(self.ball.nodes[at] as usize);
            let weights = self.ball.weights_of(at);
            let effect = |k: usize| weight[k] * (responses[k] - centre[k]);
            match (by.feature, by.hop) {
                (feature, true) => {
                    for t in (0..hops).filter(|&t| weights[t] != 0.0) {
                        let value = |k: usize| effect(k) * factors.theta(t, k) * weights[t];
                        let hop = Some(t);
                        if feature {
                            (0..d).for_each(|k| found.push(Term { feature: Some(k), node, hop, value: value(k) }));
                        } else {
                            found.push(Term { feature: None, node, hop, value: (0..d).map(value).sum() });
                        }
                    }
                }
                (feature, false) => {
                    reach.fill(0.0);
                    for (t, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                        let theta = &factors.hop_weights[t * d..][..d];
                        reach.iter_mut().zip(theta).for_each(|(reach, theta)| *reach += weight * theta);
                    }
                    let value = |k: usize| effect(k) * reach[k];
                    if feature {
                        (0..d).for_each(|k| found.push(Term { feature: Some(k), node, hop: None, value: value(k) }));
                    } else {
                        found.push(Term { feature: None, node, hop: None, value: (0..d).map(value).sum() });
                    }
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
        let parts = self.portions(Vec::new, |values: &mut Vec<f64>, at, responses| {
            let first = values.len();
            values.resize(first + outputs, 0.0);
            for k in 0..d {
                let reach: f64 =
                    self.ball.weights_of(at).iter().enumerate().map(|(t, weight)| weight * factors.theta(t, k)).sum();
                let effect = reach * (responses[k] - centre[k]);
                let weights = &factors.weight[k * outputs..][..outputs];
                values[first..].iter_mut().zip(weights).for_each(|(value, w)| *value += w * effect);
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
fn dot(a: &[f64], b: &[f64]) -> f64 {
    const SUMS: usize = 8;
    let (a, b) = (a.as_chunks::<SUMS>(), b.as_chunks::<SUMS>());
    let mut sums = [0.0; SUMS];
    for (a, b) in a.0.iter().zip(b.0) {
        for at in 0..SUMS {
            sums[at] += a[at] * b[at];
        }
    }
    sums.iter().sum::<f64>() + a.1.iter().zip(b.1).map(|(a, b)| a * b).sum::<f64>()
}

/// Nodes a prediction starts from.
fn start(dataset: &Dataset, target: Target) -> Result<std::ops::Range<u32>> {
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
