//! What one of several processes has of a batch, and where the rest of it is.
//!
//! Every process makes the same batches of the same units, and of each takes what is its own: graphs in the order of the batch, in
//! stretches of nearly as many nodes; rows of a table, or of nodes, that it has; of shared classes everything, for there it is columns
//! of the logits that are of one process each.

use super::{Batch, Batches, Reach};
use crate::team::{Halo, Share, Sharing};
use harmonia_graph::dataset::{Dataset, Features, Level};
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Direction, Graph, Transition, Walk};
use std::collections::HashMap;
use std::sync::Arc;

/// What of a larger batch one is.
#[derive(Clone, Debug)]
pub struct Part {
    /// Of whom.
    pub share: Arc<Share>,
    /// How it was cut.
    pub sharing: Sharing,
    /// Units of the whole batch: the loss is a mean over them.
    pub counted: usize,
    /// Of every rank, which of these units it has, in the order of its own.
    pub places: Vec<Vec<u32>>,
    /// Rows of X of the whole batch that come before the own ones: masks are those of the whole.
    pub first_row: usize,
    /// Of shared classes: the targets by themselves, a row for each.
    pub targets: Option<Arc<Batch>>,
    /// Of shared nodes: what hops read of others.
    pub halo: Option<Arc<Halo>>,
}

impl Part {
    fn new(share: &Arc<Share>, sharing: Sharing, owners: impl Iterator<Item = usize>) -> Part {
        let mut places = vec![Vec::new(); share.team.size()];
        let mut counted = 0;
        for (at, owner) in owners.enumerate() {
            places[owner].push(at as u32);
            counted += 1;
        }
        Part { share: Arc::clone(share), sharing, counted, places, first_row: 0, targets: None, halo: None }
    }

    /// Of rows of a table; units without a row are nobody's.
    pub(super) fn rows(share: &Arc<Share>, units: &[u32]) -> Part {
        Part::new(share, Sharing::Rows, units.iter().filter_map(|&unit| share.owner_of_row(unit)))
    }

    /// The same of other units on the same nodes; these have to be shared by nodes or classes.
    pub fn of_units(&self, units: &[u32]) -> Part {
        let owner = |unit: &u32| match self.sharing {
            Sharing::Nodes => self.share.owner_of_node(*unit as usize),
            _ => 0,
        };
        let part = Part::new(&self.share, self.sharing, units.iter().map(owner));
        Part { halo: self.halo.clone(), ..part }
    }

    /// Of this rank.
    pub fn own_places(&self) -> &[u32] {
        &self.places[self.share.team.rank()]
    }
}

impl<'a> Batches<'a> {
    /// Batches of the nodes that are this process's, whatever the others have: nothing of theirs is copied.
    ///
    /// # Errors
    /// Another rank has failed.
    pub fn of_own_nodes(dataset: &'a Dataset, walk: Walk, share: &Arc<Share>) -> Result<Self> {
        let nodes = share.own_nodes();
        let (own, others) = Transition::of_rows(&dataset.graph, walk, nodes.clone());
        let halo = Some(Arc::new(Halo::new(share, own.matrix(), others)?));
        let whole = Batches::with(dataset, Reach::Walk(Arc::new(own)));
        let features = Arc::new(dataset.features.rows(std::slice::from_ref(&nodes)));
        Ok(Batches { features, graph_ptr: vec![0, nodes.len()].into(), halo, ..whole }
            .shared(Some(share), Sharing::Nodes))
    }

    /// Batches that several processes share.
    pub fn shared(self, share: Option<&Arc<Share>>, sharing: Sharing) -> Self {
        Batches { shared: share.map(|share| (Arc::clone(share), sharing)), ..self }
    }

    /// Whether a process has but a part of every batch.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// The graphs of `units` that are this process's. One that has none gets the first, without a target: nothing there is empty.
    pub(super) fn shared_graphs(&self, share: &Arc<Share>, units: &[u32]) -> Batch {
        let graph_of = |unit: &u32| self.dataset.graph_of(*unit as usize);
        let mut before = HashMap::new();
        let mut total = 0;
        for graph in units.iter().map(graph_of) {
            before.entry(graph).or_insert_with(|| {
                let nodes = self.graph_ptr[graph + 1] - self.graph_ptr[graph];
                total += nodes;
                total - nodes
            });
        }
        let ranks = share.team.size();
        // By its first node: ranks have stretches of graphs, of nearly as many nodes.
        let owner = |unit: &u32| before.get(&graph_of(unit)).map_or(0, |first| first * ranks / total.max(1));
        let part = Part::new(share, Sharing::Targets, units.iter().map(owner));
        let own: Vec<u32> = part.own_places().iter().map(|&at| units[at as usize]).collect();
        let batch = match own.is_empty() {
            false => self.graphs_of(&own),
            true => self.without_targets(self.graphs_of(&units[..1.min(units.len())])),
        };
        let first_row = own.first().and_then(|unit| before.get(&graph_of(unit))).copied().unwrap_or(0);
        Batch { part: Some(Part { first_row, ..part }), ..batch }
    }

    fn without_targets(&self, batch: Batch) -> Batch {
        let targets = self.objective.targets(&self.dataset.labels, batch.rows(), &[], self.scaling.as_ref());
        Batch { targets, units: Vec::new(), ..batch }
    }

    /// The whole graph, where it is classes or nodes that are shared.
    pub(super) fn shared_whole(&self, share: &Arc<Share>, sharing: Sharing, units: &[u32]) -> Batch {
        match sharing {
            Sharing::Nodes => self.own_nodes(share, units),
            _ => {
                let part = Part::new(share, Sharing::Classes, units.iter().map(|_| 0));
                let targets = Some(Arc::new(self.targets_alone(units)));
                Batch { part: Some(Part { targets, ..part }), ..self.all_nodes(units) }
            }
        }
    }

    /// The nodes of this process, with those of `units` that are among them.
    fn own_nodes(&self, share: &Arc<Share>, units: &[u32]) -> Batch {
        let first_row = share.own_nodes().start;
        let first = first_row as u32;
        let part = Part::new(share, Sharing::Nodes, units.iter().map(|&unit| share.owner_of_node(unit as usize)));
        let own = part.own_places().iter().map(|&at| units[at as usize]);
        let targets = own.map(|unit| (unit - first, unit)).collect();
        let batch = self.batch(self.reach.clone(), Arc::clone(&self.features), self.graph_ptr.to_vec(), targets);
        Batch { part: Some(Part { first_row, halo: self.halo.clone(), ..part }), ..batch }
    }

    /// Some units as rows that are no nodes: what their loss is computed over once all columns of their logits are there.
    fn targets_alone(&self, units: &[u32]) -> Batch {
        let alone = Graph::from_edges(units.len(), &[], None, Direction::Undirected);
        let reach = match alone {
            Ok(alone) => Reach::Walk(Arc::new(Transition::new(&alone, Walk::default()))),
            Err(_) => self.reach.clone(),
        };
        let rows = (0..).zip(units).map(|(row, &unit)| (row, unit)).collect();
        let features = Arc::new(Features::dense_rows(1, vec![0.0; units.len()]));
        Batch { level: Level::Node, ..self.batch(reach, features, vec![0, units.len()], rows) }
    }
}
