//! Many predictions of nodes at once, by feature: H of all nodes by one pass of the engine instead of a neighbourhood for each.
//!
//! A term is u_k (H[i,k] - c_k sum_t theta[t,k]), see [`Case`](super::Case) for its parts. H is f32, as the engine has it: terms agree with
//! those of a case, which are f64, to the rounding of f32. The logit is the engine's own, propagated by classes and not by features, so
//! that the residual holds two ways of computing against each other here too.

use super::global::{States, states};
use super::{By, Case, Edit, Explanation, Factors, Score, Target, Term, Top};
use crate::model::FittedModel;
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::watch::Watch;
use rayon::prelude::*;

/// Elements of H computed at once: four arrays of f32 of this many, at most ...
const MOST_ELEMENTS: usize = 1 << 24;
/// ... and of a small graph no more than this many: memory that is used again costs less than memory that is asked for.
const FEW_ELEMENTS: usize = 1 << 20;
/// Columns that a hop carries at once at least, where there is room: a row of them is a few cache lines.
const COLUMNS: usize = 64;

/// One of many explained predictions.
#[derive(Clone, Debug)]
pub struct Batched {
    /// The node.
    pub node: usize,
    /// All its logits.
    pub logits: Vec<f64>,
    /// What is explained of them.
    pub score: Score,
    /// The terms.
    pub explanation: Explanation,
}

/// A prediction under way.
struct Begun {
    node: usize,
    logits: Vec<f64>,
    score: Score,
    top: Top,
}

/// Explains nodes by feature: what [`Case::explain`](super::Case::explain) says, each with the score that `score` chooses by its logits.
/// `dataset` has its features as the model sees them; `centre`: c_k, d values; `watch` hears how many features are done.
///
/// # Errors
/// The dataset does not fit the model, the device failed, a score is refused, or the user asked to stop.
pub fn explain_nodes(
    model: &FittedModel,
    factors: &Factors,
    dataset: &Dataset,
    nodes: &[usize],
    score: impl Fn(&[f64]) -> Result<Score>,
    (top, centre): (usize, &[f64]),
    watch: &Watch,
) -> Result<Vec<Batched>> {
    if dataset.level == Level::Graph {
        return Err(Error::Data(
            "this model predicts graphs, not nodes: name a graph, and ask for terms by node".into(),
        ));
    }
    if !model.layout.architecture.walks_by_feature() {
        return one_by_one(model, factors, dataset, nodes, score, (top, centre), watch);
    }
    let outputs = factors.outputs();
    // Features are as the model sees them already.
    let logits = FittedModel { scaling: None, ..model.clone() }.logits(dataset)?;
    let begin = |&node: &usize| {
        let logits: Vec<f64> = logits[node * outputs..][..outputs].iter().map(|&logit| f64::from(logit)).collect();
        Ok(Begun { node, score: score(&logits)?, logits, top: Top::new(top) })
    };
    let mut begun: Vec<Begun> = nodes.iter().map(begin).collect::<Result<_>>()?;
    let constants: Vec<f64> = centre.iter().enumerate().map(|(k, centre)| centre * factors.total_theta(k)).collect();
    let elements = dataset.graph.nodes().saturating_mul(COLUMNS).clamp(FEW_ELEMENTS, MOST_ELEMENTS);
    states(elements, model, factors, dataset, watch, |part| {
        begun.par_iter_mut().for_each(|begun| begun.add(factors, part, &constants));
    })?;
    let moved: Vec<f64> = (0..outputs)
        .map(|output| constants.iter().zip(factors.weight[output..].iter().step_by(outputs)).map(|(c, w)| c * w).sum())
        .collect();
    Ok(begun.into_par_iter().map(|begun| begun.finish(factors, &moved)).collect())
}

/// The same of models whose responses are not carried feature by feature: a case for each.
fn one_by_one(
    model: &FittedModel,
    factors: &Factors,
    dataset: &Dataset,
    nodes: &[usize],
    score: impl Fn(&[f64]) -> Result<Score>,
    (top, centre): (usize, &[f64]),
    watch: &Watch,
) -> Result<Vec<Batched>> {
    let by = By { feature: true, node: false, hop: false };
    let explained = |(done, &node): (usize, &usize)| {
        watch.check()?;
        watch.progress("explanations", done as u64, nodes.len() as u64);
        let case = Case::new(model, factors, dataset, Target::Node(node), &Edit::default())?;
        let logits = case.logits();
        let score = score(&logits)?;
        Ok(Batched { node, score, explanation: case.explain(score, by, top, centre)?, logits })
    };
    nodes.iter().enumerate().map(explained).collect()
}

impl Begun {
    /// What a few features add, less the constant of each column.
    fn add(&mut self, factors: &Factors, part: &States<'_>, constants: &[f64]) {
        let outputs = factors.outputs();
        let row = &part.state[self.node * part.columns.len()..][..part.columns.len()];
        let value = |k: usize| {
            let state = f64::from(row[k - part.columns.start]) - constants[k];
            self.score.of(&factors.weight[k * outputs..][..outputs]) * state
        };
        let mut top = std::mem::take(&mut self.top);
        for feature in part.features.clone() {
            let value = factors.groups().columns(feature).map(value).sum();
            top.push(Term { feature: Some(feature), node: None, hop: None, value });
        }
        self.top = top.cut();
    }

    /// `moved`: what centring takes from the terms of each output.
    fn finish(self, factors: &Factors, moved: &[f64]) -> Batched {
        let Begun { node, logits, score, top } = self;
        let (count, sum) = (top.count, top.sum);
        let terms = top.finish();
        let shown: f64 = terms.iter().map(|term| term.value).sum();
        let (beta, logit) = (score.of(&factors.bias), score.of(&logits));
        let intercept = beta + score.of(moved);
        let explanation = Explanation {
            logit,
            intercept,
            beta,
            rest: if terms.len() == count { 0.0 } else { sum - shown },
            rest_terms: count - terms.len(),
            residual: (intercept + sum - logit).abs(),
            terms,
        };
        Batched { node, logits, score, explanation }
    }
}
