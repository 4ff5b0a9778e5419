//! What one training step sees: a walk, features, and the labelled units the loss is taken over.
//!
//! A batch is the whole dataset (one graph, full-graph training) or some of its graphs, concatenated. Either way the
//! rows of the logits are nodes or graphs of the batch, and only `targets` of them count.

mod selection;
mod shared;
mod tabled;

pub use selection::{GraphSelection, Selection};
pub use shared::Part;
pub use tabled::TableRows;

use crate::loss::{Objective, TargetScaling, Targets};
use crate::plan::{Plan, Space, Streamed};
use crate::team::{Halo, Share, Sharing};
use harmonia_graph::dataset::{Dataset, Features, Level};
use harmonia_graph::graph::{Neighbourhood, NodeWeights, Transition, Walk};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// How the responses of nodes reach the logits.
#[derive(Clone, Debug)]
pub enum Reach {
    /// Hop by hop along the walk.
    Walk(Arc<Transition>),
    /// Graph tasks: every node counts with one weight per hop, known in advance.
    Weights(Arc<NodeWeights>),
    /// By a table of walks: no node but the units themselves is looked at.
    Table(TableRows),
}

/// One step's worth of data.
#[derive(Clone, Debug)]
pub struct Batch {
    /// How the nodes of the batch reach its logits.
    pub reach: Reach,
    /// X of the nodes of the batch.
    pub features: Arc<Features>,
    /// First node of each graph and the end.
    pub graph_ptr: Vec<usize>,
    /// Whether logits belong to nodes or graphs.
    pub level: Level,
    /// What scores the logits; it decides the type of `targets`.
    pub objective: Objective,
    /// L.
    pub outputs: usize,
    /// What logits are held against, one row per row of the logits.
    pub targets: Targets,
    /// How much each row of the logits counts in the loss, where they do not count alike; 1 where a row is no target. With mean 1
    /// over all units that train.
    pub weights: Option<Vec<f32>>,
    /// (row of the logits, unit of the dataset) of each target.
    pub units: Vec<(u32, u32)>,
    /// What of it comes to a device in panels.
    pub streamed: Streamed,
    /// What of a larger one it is, where several processes share that.
    pub part: Option<Part>,
}

impl Batch {
    /// Units that the loss is a mean over.
    pub fn counted(&self) -> usize {
        self.part.as_ref().map_or(self.units.len(), |part| part.counted)
    }

    /// Rows of the logits.
    pub fn rows(&self) -> usize {
        match (&self.reach, self.level) {
            (Reach::Table(table), _) => table.rows.len(),
            (_, Level::Node) => self.nodes(),
            (_, Level::Graph) => self.graph_ptr.len() - 1,
        }
    }

    /// What rows are held against as devices take it: the words of a row, and behind them the bits of its weight where it has
    /// one.
    pub fn target_words(&self) -> Cow<'_, [u32]> {
        let words = self.targets.words();
        let Some(weights) = &self.weights else { return Cow::Borrowed(words) };
        let rows = words.chunks_exact((words.len() / weights.len().max(1)).max(1)).zip(weights);
        rows.flat_map(|(words, weight)| words.iter().copied().chain([weight.to_bits()])).collect()
    }

    /// Nodes of the batch.
    pub fn nodes(&self) -> usize {
        self.features.rows
    }

    /// The walk, where the batch needs one.
    pub fn transition(&self) -> Option<&Arc<Transition>> {
        match &self.reach {
            Reach::Walk(transition) => Some(transition),
            Reach::Weights(_) | Reach::Table(_) => None,
        }
    }
}

impl Batch {
    /// The nodes within 0 to `hops` - 1 steps of some rows of the logits; none where there is nothing to leave out: most nodes
    /// are near, or logits are sums over whole graphs. At most this part of the walk's entries is looked through for them.
    pub fn scope(&self, rows: &[u32], hops: usize, looked_through: f64) -> Option<Neighbourhood> {
        let transition = self.transition().filter(|_| self.level == Level::Node)?;
        let matrix = transition.matrix();
        let most = (looked_through * matrix.entries() as f64) as usize;
        let near = Neighbourhood::new(matrix, rows.iter().copied(), hops.saturating_sub(1), most);
        (!near.levels().is_empty()).then_some(near)
    }
}

/// Cuts batches out of a dataset; the walk, or what nodes weigh by it, is derived once.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    /// All units; batches share its features where they take every node.
    pub dataset: &'a Dataset,
    /// X of the nodes that batches are cut out of: those of the dataset, or merged.
    features: Arc<Features>,
    /// First of these nodes of each graph and the end.
    graph_ptr: Cow<'a, [usize]>,
    reach: Reach,
    objective: Objective,
    scaling: Option<TargetScaling>,
    /// How much each unit of the dataset counts.
    weights: Option<Arc<[f32]>>,
    /// What walks are drawn from that correct a table.
    sampled: Option<Arc<Transition>>,
    streamed: Streamed,
    /// The processes that share every batch, and how.
    shared: Option<(Arc<Share>, Sharing)>,
    /// Of shared nodes: what hops read of others.
    halo: Option<Arc<Halo>>,
}

impl<'a> Batches<'a> {
    /// Whether all batches are on the same nodes and differ by their targets alone.
    pub fn shares_nodes(&self) -> bool {
        self.dataset.graphs() == 1 && !matches!(self.reach, Reach::Table(_))
    }

    /// Batches that walk.
    pub fn new(dataset: &'a Dataset, walk: Walk) -> Self {
        Batches::with(dataset, Reach::Walk(Arc::new(Transition::new(&dataset.graph, walk))))
    }

    /// Batches as a plan wants them: those of graph tasks in class space know the weight of every node at each of
    /// `hops` hops and do not walk; 0: nodes reach logits in another way, for which there is the graph.
    pub fn planned(dataset: &'a Dataset, walk: Walk, plan: Plan, hops: usize) -> Self {
        let walking = Batches::new(dataset, walk);
        match &walking.reach {
            Reach::Walk(transition) if dataset.level == Level::Graph && plan.space == Space::Classes && hops > 0 => {
                let weights = Arc::new(NodeWeights::new(transition, hops));
                Batches::with(dataset, Reach::Weights(weights))
            }
            _ => walking,
        }
    }

    /// Batches that reach logits in a way derived before.
    pub fn with(dataset: &'a Dataset, reach: Reach) -> Self {
        Batches {
            dataset,
            features: Arc::clone(&dataset.features),
            graph_ptr: Cow::Borrowed(&dataset.graph_ptr),
            reach,
            objective: Objective::of(&dataset.labels),
            scaling: None,
            weights: None,
            sampled: None,
            streamed: Streamed::NOTHING,
            shared: None,
            halo: None,
        }
    }

    /// With weights in advance, nodes of a graph that have the same features need not be told apart: one of them stands for
    /// all and weighs what they weigh together. Exact up to rounding; of batches that walk, nothing is merged.
    pub fn merged(self) -> Self {
        let Reach::Weights(weights) = &self.reach else { return self };
        let (mut kept, mut sums) = (Vec::new(), Vec::new());
        let mut graph_ptr = vec![0];
        let hops = weights.hops();
        for nodes in self.graph_ptr.windows(2).map(|pair| pair[0]..pair[1]) {
            let mut places = HashMap::new();
            for node in nodes {
                let place = *places.entry(self.features.row_key(node)).or_insert_with(|| {
                    kept.push(node..node + 1);
                    sums.resize(kept.len() * hops, 0.0);
                    kept.len() - 1
                });
                let from = &weights.values()[node * hops..][..hops];
                sums[place * hops..][..hops].iter_mut().zip(from).for_each(|(sum, weight)| *sum += weight);
            }
            graph_ptr.push(kept.len());
        }
        Batches {
            features: Arc::new(self.features.rows(&kept)),
            graph_ptr: graph_ptr.into(),
            reach: Reach::Weights(Arc::new(NodeWeights::given(hops, sums))),
            ..self
        }
    }

    /// How nodes reach logits.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// For another loss than the labels suggest, and numbers standardised.
    pub fn for_loss(self, objective: Objective, scaling: Option<TargetScaling>) -> Self {
        Batches { objective, scaling, ..self }
    }

    /// Coming to a device in panels, where it is too small for them.
    pub fn streamed(self, streamed: Streamed) -> Self {
        Batches { streamed, ..self }
    }

    /// As others come.
    pub fn streamed_as(self, other: &Batches<'_>) -> Self {
        self.streamed(other.streamed)
    }

    /// With units that do not count alike.
    pub fn weighted(self, weights: Option<Arc<[f32]>>) -> Self {
        Batches { weights, ..self }
    }

    /// For the loss of others.
    pub fn for_the_loss_of(self, other: &Batches<'_>) -> Self {
        self.for_loss(other.objective, other.scaling.clone()).weighted(other.weights.clone())
    }

    /// The whole dataset with `units` as targets, or what this process has of it.
    pub fn whole(&self, units: &[u32]) -> Batch {
        match &self.shared {
            Some((share, sharing)) => self.shared_whole(share, *sharing, units),
            None => self.all_nodes(units),
        }
    }

    fn all_nodes(&self, units: &[u32]) -> Batch {
        let targets = units.iter().map(|&unit| (unit, unit)).collect();
        self.batch(self.reach.clone(), Arc::clone(&self.features), self.graph_ptr.to_vec(), targets)
    }

    /// The graphs that hold `units` (in order of first appearance), with `units` as targets, or those of them that are this
    /// process's.
    pub fn holding(&self, units: &[u32]) -> Batch {
        if let Reach::Table(rows) = &self.reach {
            return self.tabulated(rows, units, None);
        }
        if self.dataset.graphs() == 1 {
            return self.whole(units);
        }
        match &self.shared {
            Some((share, _)) => self.shared_graphs(share, units),
            None => self.graphs_of(units),
        }
    }

    fn graphs_of(&self, units: &[u32]) -> Batch {
        const ABSENT: usize = usize::MAX;
        let mut first_row = vec![ABSENT; self.dataset.graphs()];
        let (mut ranges, mut graph_ptr) = (Vec::new(), vec![0]);
        let mut targets = Vec::with_capacity(units.len());
        for &unit in units {
            let graph = self.dataset.graph_of(unit as usize);
            let nodes = self.graph_ptr[graph]..self.graph_ptr[graph + 1];
            if first_row[graph] == ABSENT {
                let start = graph_ptr.last().copied().unwrap_or(0);
                first_row[graph] = if self.dataset.level == Level::Node { start } else { ranges.len() };
                graph_ptr.push(start + nodes.len());
                ranges.push(nodes.clone());
            }
            let inside = if self.dataset.level == Level::Node { unit as usize - nodes.start } else { 0 };
            targets.push(((first_row[graph] + inside) as u32, unit));
        }
        let reach = match &self.reach {
            Reach::Walk(transition) => Reach::Walk(Arc::new(transition.blocks(&ranges))),
            Reach::Weights(weights) => Reach::Weights(Arc::new(weights.rows(&ranges))),
            table @ Reach::Table(_) => table.clone(),
        };
        let features = Arc::new(self.features.rows(&ranges));
        self.batch(reach, features, graph_ptr, targets)
    }

    fn batch(&self, reach: Reach, features: Arc<Features>, graph_ptr: Vec<usize>, units: Vec<(u32, u32)>) -> Batch {
        let Dataset { labels, level, .. } = self.dataset;
        let rows = match (&reach, level) {
            (Reach::Table(table), _) => table.rows.len(),
            (_, Level::Node) => features.rows,
            (_, Level::Graph) => graph_ptr.len() - 1,
        };
        let targets = self.objective.targets(labels, rows, &units, self.scaling.as_ref());
        let weights = self.weights.as_ref().map(|weights| {
            let mut rows = vec![1.0; rows];
            units.iter().for_each(|&(row, unit)| rows[row as usize] = weights[unit as usize]);
            rows
        });
        let (objective, outputs) = (self.objective, labels.outputs());
        let streamed = self.streamed;
        let part = None;
        Batch { reach, features, graph_ptr, level: *level, objective, outputs, targets, weights, units, streamed, part }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::dataset::Labels;
    use harmonia_graph::graph::{Direction, Graph, Split};

    #[test]
    fn nodes_with_the_same_features_are_merged_with_their_weights() {
        // Two graphs: a path 0-1-2 with a, b, a, and the pair 3-4 with b, b.
        let graph = Graph::from_edges(5, &[(0, 1), (1, 2), (3, 4)], None, Direction::Undirected).unwrap();
        let features = Features::new(5, 2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]).unwrap();
        let labels = Labels::Classes { ids: vec![0, 1], classes: 2 };
        let split = Split { train: vec![0, 1], ..Split::default() };
        let dataset = Dataset::new("t", graph, vec![0, 3, 5], features, labels, Level::Graph, split).unwrap();
        let plan = Plan { space: Space::Classes, ..Plan::DIRECT };
        let batch = Batches::planned(&dataset, Walk::default(), plan, 2).merged().holding(&[1, 0]);
        assert_eq!(*batch.features.dense(), [0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
        assert_eq!(batch.graph_ptr, [0, 1, 3]);
        let Reach::Weights(weights) = &batch.reach else { panic!("nothing walks") };
        // v_1 of the path: 1/2 at its ends, 2 in the middle; of the pair 1 and 1.
        assert_eq!(weights.values(), [2.0, 2.0, 2.0, 1.0, 1.0, 2.0]);
    }

    #[test]
    fn a_batch_of_graphs_keeps_rows_labels_and_features_together() {
        // Three graphs: nodes 0-1, 2-3-4, 5
        let graph = Graph::from_edges(6, &[(0, 1), (2, 3), (3, 4)], None, Direction::Undirected).unwrap();
        let features = Features::new(6, 1, (0..6).map(|i| i as f32).collect()).unwrap();
        let labels = Labels::Classes { ids: vec![0, 1, 2, 0, 1, 2], classes: 3 };
        let split = Split { train: vec![0], ..Split::default() };
        let nodes =
            Dataset::new("t", graph.clone(), vec![0, 2, 5, 6], features.clone(), labels, Level::Node, split.clone())
                .unwrap();
        let batch = Batches::new(&nodes, Walk::default()).holding(&[4, 0, 2]);
        assert_eq!(*batch.features.dense(), [2.0, 3.0, 4.0, 0.0, 1.0]);
        assert_eq!(batch.graph_ptr, [0, 3, 5]);
        assert_eq!(batch.units, [(2, 4), (3, 0), (0, 2)]);
        assert_eq!(batch.targets, Targets::Codes(vec![2, -1, 1, 0, -1]));
        assert_eq!(batch.transition().unwrap().matrix().col_idx, [1, 0, 2, 1, 4, 3]);

        let labels = Labels::Classes { ids: vec![0, 1, 0], classes: 2 };
        let graphs = Dataset::new("t", graph, vec![0, 2, 5, 6], features, labels, Level::Graph, split).unwrap();
        let batch = Batches::new(&graphs, Walk::default()).holding(&[2, 1]);
        assert_eq!(*batch.features.dense(), [5.0, 2.0, 3.0, 4.0]);
        assert_eq!((batch.units, batch.targets), (vec![(0, 2), (1, 1)], Targets::Codes(vec![0, 1])));
    }
}
