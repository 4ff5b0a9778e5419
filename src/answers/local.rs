//! One prediction as its terms.

use crate::explain::{Batched, By, Case, Edit, Explanation, Score, Target, Term, explain_nodes};
use crate::runs::{Names, TrainedRun};
use harmonia_graph::error::Result;
use harmonia_graph::stop::Stop;
use harmonia_graph::watch::Watch;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

/// One explained prediction.
pub struct Explained {
    /// The node or graph.
    pub target: Target,
    /// All logits.
    pub logits: Vec<f64>,
    /// The logit that is explained.
    pub score: Score,
    /// Its terms.
    pub explanation: Explanation,
    /// Nodes within reach; none where nobody has counted them.
    pub nodes_seen: Option<usize>,
    /// Nodes of the start.
    pub mass: f64,
}

impl Explained {
    /// Explains one prediction in f64; `score` chooses the logit by all of them.
    ///
    /// # Errors
    /// There is no such target, or the score is refused.
    pub fn one(
        run: &TrainedRun,
        target: Target,
        by: By,
        score: &dyn Fn(&[f64]) -> Result<Score>,
        (top, centre): (usize, &[f64]),
    ) -> Result<Explained> {
        let case = Case::new(&run.model, &run.factors, &run.dataset, target, &Edit::default())?;
        let logits = case.logits();
        let score = score(&logits)?;
        let explanation = case.explain(score, by, top, centre)?;
        let (nodes_seen, mass) = (Some(case.ball.nodes.len()), case.mass);
        Ok(Explained { target, logits, score, explanation, nodes_seen, mass })
    }

    /// Explains many. Nodes by feature go together, by one pass of the engine; other keys, and graphs, one by one, side by side on
    /// all threads.
    ///
    /// # Errors
    /// As [`Explained::one`], or the user asked to stop.
    pub fn all(
        run: &TrainedRun,
        targets: &[Target],
        by: By,
        score: &(dyn Fn(&[f64]) -> Result<Score> + Sync),
        (top, centre): (usize, &[f64]),
        stop: &Stop,
    ) -> Result<Vec<Explained>> {
        let node = |target: &Target| if let Target::Node(node) = target { Some(*node) } else { None };
        let nodes: Option<Vec<usize>> = targets.iter().map(node).collect();
        if let (Some(nodes), By { feature: true, node: false, hop: false }) = (nodes, by) {
            let watch = Watch::new(&|_| (), stop.clone());
            let all = explain_nodes(&run.model, &run.factors, &run.dataset, &nodes, score, (top, centre), &watch)?;
            let of = |Batched { node, logits, score, explanation }| Explained {
                target: Target::Node(node),
                logits,
                score,
                explanation,
                nodes_seen: None,
                mass: 1.0,
            };
            return Ok(all.into_iter().map(of).collect());
        }
        let one = |&target: &Target| {
            stop.check()?;
            Explained::one(run, target, by, score, (top, centre))
        };
        targets.par_iter().map(one).collect()
    }

    /// What it is of; `centre`: what was taken off every response, `mean` or `none`.
    pub fn about<'a>(&'a self, run: &'a TrainedRun, names: &'a Names<'a>, centre: &'static str) -> About<'a> {
        About {
            run,
            names,
            target: self.target,
            score: self.score,
            logits: &self.logits,
            centre,
            nodes_seen: self.nodes_seen,
            mass: self.mass,
        }
    }
}

/// What an explanation is of.
pub struct About<'a> {
    /// The model with its data.
    pub run: &'a TrainedRun,
    /// What people call its parts.
    pub names: &'a Names<'a>,
    /// The node or graph.
    pub target: Target,
    /// The logit that is explained.
    pub score: Score,
    /// All logits.
    pub logits: &'a [f64],
    /// What was taken off every response: `mean` or `none`.
    pub centre: &'static str,
    /// Nodes within reach; none where nobody has counted them.
    pub nodes_seen: Option<usize>,
    /// Nodes of the start.
    pub mass: f64,
}

impl About<'_> {
    /// The node or graph, by its number.
    pub fn unit(&self) -> usize {
        match self.target {
            Target::Node(unit) | Target::Graph(unit) => unit,
        }
    }

    /// The number people know the target by.
    pub fn id(&self) -> usize {
        match self.target {
            Target::Node(node) => self.run.dataset.original_id(node),
            Target::Graph(graph) => graph,
        }
    }

    /// The node whose value stands beside a term: its source, or the target where it is a node.
    pub fn source(&self, term: &Term) -> Option<usize> {
        let target = if let Target::Node(node) = self.target { Some(node) } else { None };
        term.node.or(target)
    }

    /// The class that is explained.
    pub fn class(&self) -> String {
        match self.score.versus {
            Some(_) => self.names.output(self.score.output),
            None => self.names.score_text(self.score),
        }
    }

    /// What people call the target, where it has a name.
    pub fn name(&self) -> Option<&str> {
        match self.target {
            Target::Node(node) => self.names.node(node),
            Target::Graph(_) => None,
        }
    }
}

/// One prediction as `explain --json` prints it.
pub fn local_json(about: &About<'_>, explanation: &Explanation) -> Value {
    let names = about.names;
    let term = |term: &Term| {
        let mut object = Map::new();
        if let Some(k) = term.feature {
            object.insert("feature".into(), json!(names.group(k)));
            object.insert("feature_index".into(), json!(about.run.factors.groups().columns(k).start));
            object.insert("x".into(), about.source(term).map_or(Value::Null, |node| names.value_json(node, k)));
        }
        if let Some(node) = term.node {
            let id = about.run.dataset.original_id(node);
            object.insert("node".into(), names.node(node).map_or(json!(id), |name| json!(name)));
            object.insert("node_id".into(), json!(id));
        }
        if let Some(hop) = term.hop {
            object.insert(about.run.factors.structure().key().into(), json!(hop));
        }
        object.insert("value".into(), json!(term.value));
        Value::Object(object)
    };
    let probabilities = names.probabilities(about.logits);
    let classes: Map<String, Value> =
        names.classes().into_iter().zip(probabilities).map(|(class, p)| (class, json!(p))).collect();
    json!({
        "target": about.id(),
        "level": names.unit(),
        "name": about.name(),
        "class": about.class(),
        "versus": about.score.versus.map(|versus| names.output(versus)),
        "predicted": names.predicted(about.logits),
        "label": names.truth(about.unit()),
        "probabilities": classes,
        "logit": explanation.logit,
        "intercept": explanation.intercept,
        "beta": explanation.beta,
        "centre": about.centre,
        "contributions": explanation.terms.iter().map(term).collect::<Vec<_>>(),
        "rest": explanation.rest,
        "rest_terms": explanation.rest_terms,
        "residual": explanation.residual,
        "calibration": about.run.model.calibration,
        "nodes_seen": about.nodes_seen,
    })
}
