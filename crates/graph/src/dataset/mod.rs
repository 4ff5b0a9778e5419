//! One representation for all tasks: a block-diagonal graph with graph offsets, features and labels.
//!
//! Node tasks on one graph, node tasks over many graphs and graph tasks differ only in offsets, label level and
//! split. [`Dataset::new`] checks what it is given: finite features, labels in range, disjoint splits.

mod dates;
mod design;
mod features;
mod labels;
mod normalise;
mod schema;
mod split_rule;
mod structure;
mod truth;
mod weights;

pub use dates::days;
pub use design::{Design, MAX_CONDITION, MAX_CORRELATION};
pub use features::{Features, SparseRows, Values};
pub use labels::{Labels, UNLABELLED};
pub use normalise::{Normalise, Scaling};
pub use schema::{ColumnKind, MISSING, Schema, TableColumn, median};
pub use split_rule::SplitRule;
pub use structure::{Structure, StructureWord};
pub use truth::{HOPS, INFORMATIVE, Profile, TrueResponse, Truth, sigmoid};
pub use weights::{UnitWeights, is_weight};

use crate::array::Array;
use crate::error::{Error, Result};
use crate::graph::{Graph, Split, partition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// What carries a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Every node.
    Node,
    /// Every graph.
    Graph,
}

/// More features than this are taken for a damaged file.
const MOST_FEATURES: usize = 1 << 20;

/// Where nodes stood before they were reordered.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOrder {
    /// How they were reordered, in a word; empty where nobody said.
    pub method: String,
    /// Number of each node in the source; every node occurs once.
    pub original: Array<u32>,
}

/// A task ready to train on.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Shown to people and written to run directories.
    pub name: String,
    /// Block-diagonal over graphs.
    pub graph: Graph,
    /// First node of each graph, and the number of nodes at the end.
    pub graph_ptr: Vec<usize>,
    /// X.
    pub features: Arc<Features>,
    /// Labels of nodes or graphs.
    pub labels: Labels,
    /// How much each unit counts while a model is fitted, where they do not count alike.
    pub weights: Option<UnitWeights>,
    /// Whether `labels` belong to nodes or to graphs.
    pub level: Level,
    /// Train, validation and test units in use; empty until a rule draws them where the dataset has no split of its own.
    pub split: Split,
    /// The splits the dataset came with; `split` is the first of them until a rule says otherwise.
    pub own_splits: Vec<Split>,
    /// Names of the columns of X.
    pub feature_names: Vec<String>,
    /// The columns of the user's table that X (without structural columns, and without copies) is made of, where they are more than numbers.
    pub schema: Option<Arc<Schema>>,
    /// Of classes, of the labels of a multi-label task, or of the numbers of a regression.
    pub class_names: Vec<String>,
    /// Names of the nodes; empty where they have none.
    pub node_names: Vec<String>,
    /// The numbers that people know the nodes by, where they are others; see [`Dataset::original_id`].
    pub node_order: Option<NodeOrder>,
    /// Bounds of the parts that nodes were divided into for several processes: numbers that rise from 0 to the number of nodes.
    /// `None` where they were not; [`crate::graph::partition::ranges`] divides any graph.
    pub parts: Option<Arc<[usize]>>,
    /// The generator behind a synthetic dataset.
    pub truth: Option<Truth>,
    /// The structural columns at the end of X, where there are any.
    pub structure: Option<Structure>,
    /// The store it was read from: what is derived from it may be kept beside that.
    pub store: Option<PathBuf>,
    /// SHA-256 of the files of that store, as it says itself; empty where it says nothing.
    pub checksums: Arc<BTreeMap<String, String>>,
}

impl Dataset {
    /// A node task on one graph, the most common case.
    ///
    /// # Errors
    /// Anything that does not fit together; see [`Dataset::check`].
    pub fn nodes(name: &str, graph: Graph, features: Features, labels: Labels, split: Split) -> Result<Dataset> {
        let graph_ptr = vec![0, graph.nodes()];
        Dataset::new(name, graph, graph_ptr, features, labels, Level::Node, split)
    }

    /// Any task. An empty split means that the dataset has none of its own.
    ///
    /// # Errors
    /// Anything that does not fit together; see [`Dataset::check`].
    pub fn new(
        name: &str,
        graph: Graph,
        graph_ptr: Vec<usize>,
        features: Features,
        labels: Labels,
        level: Level,
        split: Split,
    ) -> Result<Dataset> {
        let splits = if split.is_empty() { Vec::new() } else { vec![split] };
        let mut dataset = Dataset::assemble(name, graph, graph_ptr, features, labels, level, splits);
        // Sizes come from data: only after the check is it safe to make a name for each.
        dataset.check()?;
        dataset.name_parts();
        Ok(dataset)
    }

    /// Parts that have yet to be checked.
    pub fn assemble(
        name: &str,
        graph: Graph,
        graph_ptr: Vec<usize>,
        features: Features,
        labels: Labels,
        level: Level,
        own_splits: Vec<Split>,
    ) -> Dataset {
        Dataset {
            name: name.to_string(),
            graph,
            graph_ptr,
            features: Arc::new(features),
            labels,
            weights: None,
            level,
            split: own_splits.first().cloned().unwrap_or_default(),
            own_splits,
            feature_names: Vec::new(),
            schema: None,
            class_names: Vec::new(),
            node_names: Vec::new(),
            node_order: None,
            parts: None,
            truth: None,
            structure: None,
            store: None,
            checksums: Arc::default(),
        }
    }

    /// Gives features and classes names by number.
    pub fn name_parts(&mut self) {
        self.feature_names = (0..self.features.cols).map(|k| format!("feature {k}")).collect();
        self.class_names = self.labels.numbered_names();
    }

    /// Checks that all parts fit together.
    ///
    /// # Errors
    /// The first misfit, with where it is.
    pub fn check(&self) -> Result<()> {
        self.check_sizes()?;
        self.check_values()
    }

    /// Checks lengths, labels and splits: quick at any size.
    pub fn check_sizes(&self) -> Result<()> {
        let nodes = self.graph.nodes();
        if nodes == 0 || !(1..=MOST_FEATURES).contains(&self.features.cols) {
            return Err(Error::Data(format!(
                "a dataset needs at least one node and 1 to {MOST_FEATURES} features, found {nodes} and {}",
                self.features.cols
            )));
        }
        if self.features.rows != nodes {
            return Err(Error::Data(format!("{nodes} nodes but {} rows of features", self.features.rows)));
        }
        self.check_graph_ptr()?;
        self.labels.check()?;
        if self.labels.units() != self.units() {
            return Err(Error::Data(format!("{} labels for {} labelled units", self.labels.units(), self.units())));
        }
        if let Some(weights) = &self.weights {
            weights.check(self.units())?;
        }
        if let Some(parts) = &self.parts {
            partition::check_bounds(parts, nodes)?;
        }
        if !self.split.is_empty() {
            self.check_split(&self.split)?;
        }
        self.own_splits.iter().try_for_each(|split| self.check_split(split))
    }

    /// Reads every feature, and every edge of a set of graphs.
    pub fn check_values(&self) -> Result<()> {
        self.features.check()?;
        self.check_blocks()
    }

    /// Checks that a split is one of labelled units of this dataset.
    ///
    /// # Errors
    /// An id out of range, a unit in two parts or without a label, or no unit to train on.
    pub fn check_split(&self, split: &Split) -> Result<()> {
        split.check(self.units())?;
        let used = split.train.iter().chain(&split.valid).chain(&split.test);
        match used.copied().find(|&unit| !self.labels.is_labelled(unit as usize)) {
            Some(unit) => Err(Error::Data(format!("unit {unit} is in a split but has no label"))),
            None => Ok(()),
        }
    }

    fn check_graph_ptr(&self) -> Result<()> {
        let (ptr, nodes) = (&self.graph_ptr, self.graph.nodes());
        if ptr.len() < 2 || ptr[0] != 0 || ptr.last() != Some(&nodes) || ptr.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(Error::Data(format!(
                "graph offsets must rise from 0 to the {nodes} nodes without empty graphs"
            )));
        }
        Ok(())
    }

    /// Checks that no edge leaves its graph.
    fn check_blocks(&self) -> Result<()> {
        if self.graphs() == 1 {
            return Ok(());
        }
        for graph in 0..self.graphs() {
            let range = self.graph_nodes(graph);
            for i in range.clone() {
                if let Some((j, _)) = self.graph.adjacency().row_entries(i).find(|(j, _)| !range.contains(j)) {
                    return Err(Error::Data(format!(
                        "edge ({i}, {j}) leaves graph {graph}, which holds nodes {range:?}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// At least 1; nodes of a node task may lie in several.
    pub fn graphs(&self) -> usize {
        self.graph_ptr.len() - 1
    }

    /// Nodes of one graph, which are consecutive.
    pub fn graph_nodes(&self, graph: usize) -> Range<usize> {
        self.graph_ptr[graph]..self.graph_ptr[graph + 1]
    }

    /// The number of a node in the source of the dataset: what is shown to people.
    pub fn original_id(&self, node: usize) -> usize {
        self.node_order.as_ref().map_or(node, |order| order.original[node] as usize)
    }

    /// Labelled units in the order of the source, so that what is drawn by seed does not depend on how nodes are kept.
    pub(super) fn labelled_units(&self) -> Vec<u32> {
        let mut units: Vec<u32> = (0..self.units() as u32).collect();
        if let (Some(order), Level::Node) = (&self.node_order, self.level) {
            for (node, &original) in order.original.iter().enumerate() {
                units[original as usize] = node as u32;
            }
        }
        units.retain(|&unit| self.labels.is_labelled(unit as usize));
        units
    }

    /// Number of labelled units: nodes or graphs.
    pub fn units(&self) -> usize {
        match self.level {
            Level::Node => self.graph.nodes(),
            Level::Graph => self.graphs(),
        }
    }

    /// The graph that unit `unit` is, or lies in.
    pub fn graph_of(&self, unit: usize) -> usize {
        match self.level {
            Level::Graph => unit,
            Level::Node => self.graph_ptr.partition_point(|&start| start <= unit) - 1,
        }
    }
}
