//! One prediction on the page: its logits split over features, over source nodes and over walk lengths.

use super::data::{ByFeature, ByNode, FeaturePart, HopPart, Local, LocalOutput, NodePart};
use crate::explain::{Case, Edit, Target, ranking};
use crate::runs::{Names, TrainedRun};
use harmonia_graph::dataset::Level;
use harmonia_graph::error::Result;
use serde_json::Value;

/// Features of a single prediction that are shown one by one.
const LOCAL_FEATURES: usize = 20;
/// Source nodes likewise: more cannot be told apart in a picture.
const LOCAL_NODES: usize = 30;

/// The prediction of a unit; responses are centred at `centres`.
///
/// # Errors
/// The unit does not exist, or the engine failed.
pub(super) fn local(run: &TrainedRun, unit: usize, reason: Option<String>, centres: &[f64]) -> Result<Local> {
    let (dataset, names, is_node) = (&run.dataset, Names::of(run), run.dataset.level == Level::Node);
    let target = if is_node { Target::Node(unit) } else { Target::Graph(unit) };
    let case = Case::new(&run.model, &run.factors, dataset, target, &Edit::default())?;
    let logits = case.logits();
    let mass = if is_node { String::new() } else { format!(" ({} nodes' worth)", case.mass) };
    let prediction = Prediction { run, case, centres };
    let (by_node, edges) = prediction.by_node();
    Ok(Local {
        id: if is_node { dataset.original_id(unit) } else { unit },
        name: if is_node { names.node(unit).map(String::from) } else { None },
        level: Some(dataset.level),
        reason,
        truth: names.truth(unit),
        predicted: names.predicted(&logits),
        probabilities: names.probabilities(&logits),
        outputs: prediction.outputs(&logits)?,
        by_feature: prediction.by_feature(is_node.then_some(unit)),
        by_node,
        by_hop: prediction.by_hop(),
        edges,
        notes: vec![format!(
            "Responses are centred at their mean over all nodes; the constants{mass} were moved to the intercept."
        )],
    })
}

/// A prediction, and the centres that its parts are relative to.
struct Prediction<'a> {
    run: &'a TrainedRun,
    case: Case<'a>,
    centres: &'a [f64],
}

impl Prediction<'_> {
    /// What centring takes from the response of feature k.
    fn constant(&self, k: usize) -> f64 {
        self.centres[k] * self.case.total_theta(k) * self.case.mass
    }

    /// `logits`: by the terms, held against those by propagation.
    fn outputs(&self, logits: &[f64]) -> Result<Vec<LocalOutput>> {
        let (factors, outputs) = (&self.run.factors, self.run.factors.outputs());
        let engine = self.case.propagated_logits(&(0..outputs).collect::<Vec<_>>())?;
        let of_output = |output: usize| {
            let constants: f64 =
                (0..factors.features()).map(|k| factors.weight[k * outputs + output] * self.constant(k)).sum();
            LocalOutput {
                logit: engine[output],
                intercept: factors.bias[output] + constants,
                residual: engine[output] - logits[output],
            }
        };
        Ok((0..outputs).map(of_output).collect())
    }

    /// `node`: the explained one, whose own features are shown.
    fn by_feature(&self, node: Option<usize>) -> ByFeature {
        let (factors, names) = (&self.run.factors, Names::of(self.run));
        let (outputs, state) = (factors.outputs(), self.case.state());
        let added = |k: usize, output: usize| factors.weight[k * outputs + output] * (state[k] - self.constant(k));
        let sum = |feature: usize, output: usize| factors.groups().columns(feature).map(|k| added(k, output)).sum();
        let values = |feature: usize| (0..outputs).map(|output| sum(feature, output)).collect::<Vec<f64>>();
        let order = by_size(factors.groups().len(), &values);
        let (first, others) = order.split_at(order.len().min(LOCAL_FEATURES));
        let part = |&feature: &usize| {
            let x = node.map_or(Value::Null, |node| names.value_json(node, feature));
            FeaturePart {
                index: factors.groups().columns(feature).start,
                name: names.group(feature),
                value: x.as_f64(),
                text: x.as_str().map(String::from),
                values: values(feature),
            }
        };
        ByFeature {
            parts: first.iter().map(part).collect(),
            rest: sums(others, &values, outputs),
            rest_count: others.len(),
        }
    }

    /// The parts, and the edges among the nodes shown.
    fn by_node(&self) -> (ByNode, Vec<[usize; 2]>) {
        let (dataset, ball, names) = (&self.run.dataset, &self.case.ball, Names::of(self.run));
        let (outputs, is_node) = (self.run.factors.outputs(), dataset.level == Level::Node);
        let all = self.case.node_values(self.centres);
        let values = |at: usize| all[at * outputs..][..outputs].to_vec();
        let mut order = by_size(ball.nodes.len(), &values);
        if is_node {
            // The explained node comes first, whatever it adds.
            order.retain(|&at| at != 0);
            order.insert(0, 0);
        }
        let (first, others) = order.split_at(order.len().min(LOCAL_NODES));
        let part = |&at: &usize| NodePart {
            id: dataset.original_id(ball.nodes[at] as usize),
            name: names.node(ball.nodes[at] as usize).map(String::from),
            distance: is_node.then(|| ball.distance[at] as usize),
            values: values(at),
        };
        let by_node = ByNode {
            parts: first.iter().map(part).collect(),
            rest: sums(others, &values, outputs),
            rest_count: others.len(),
        };
        (by_node, self.edges_among(first))
    }

    /// Pairs of positions in `shown`, places in the ball, whose nodes are linked either way.
    fn edges_among(&self, shown: &[usize]) -> Vec<[usize; 2]> {
        let adjacency = self.run.dataset.graph.adjacency();
        let linked = |i: u32, j: u32| adjacency.col_idx[adjacency.row(i as usize)].binary_search(&j).is_ok();
        let mut edges = Vec::new();
        for (a, &i) in shown.iter().enumerate() {
            for (b, &j) in shown.iter().enumerate().skip(a + 1) {
                let [i, j] = [i, j].map(|at| self.case.ball.nodes[at]);
                if linked(i, j) || linked(j, i) {
                    edges.push([a, b]);
                }
            }
        }
        edges
    }

    fn by_hop(&self) -> Vec<HopPart> {
        let values = self.case.hop_values(self.centres);
        let rows = values.chunks_exact(self.run.factors.outputs()).enumerate();
        rows.map(|(t, row)| HopPart { t, values: row.to_vec() }).collect()
    }
}

/// Keys below `count`, those first that add most to some output.
fn by_size(count: usize, values: &dyn Fn(usize) -> Vec<f64>) -> Vec<usize> {
    let largest = |key: usize| values(key).iter().fold(0.0f64, |most, value| most.max(value.abs()));
    ranking(&(0..count).map(largest).collect::<Vec<_>>())
}

/// What some keys add to each output together.
fn sums(keys: &[usize], values: &dyn Fn(usize) -> Vec<f64>, outputs: usize) -> Vec<f64> {
    let mut sums = vec![0.0; outputs];
    keys.iter().for_each(|&key| sums.iter_mut().zip(values(key)).for_each(|(sum, value)| *sum += value));
    sums
}
