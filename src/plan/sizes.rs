//! The sizes of a dataset and of its batches: all that plans are made from.

use harmonia_graph::dataset::{Dataset, Level, Values};
use std::collections::BTreeSet;
use std::ops::Range;

/// What of a dataset the cost of a step depends on.
#[derive(Clone, Copy, Debug)]
pub struct DatasetSizes {
    /// n.
    pub nodes: usize,
    /// Entries of the adjacency matrix.
    pub entries: usize,
    /// Graphs, where labels belong to them; none where they belong to nodes.
    pub labelled_graphs: Option<usize>,
    /// Non-zeros of X, where it is held as sparse rows.
    pub nonzeros: Option<usize>,
}

impl DatasetSizes {
    /// Those of a dataset.
    pub fn of(dataset: &Dataset) -> Self {
        DatasetSizes {
            nodes: dataset.graph.nodes(),
            entries: dataset.graph.adjacency().entries(),
            labelled_graphs: (dataset.level == Level::Graph).then(|| dataset.graphs()),
            nonzeros: match dataset.features.values() {
                Values::Sparse(sparse) => Some(sparse.values.len()),
                Values::Dense(_) | Values::Half(_) => None,
            },
        }
    }
}

/// Pairs of nodes of the same graph: what a structure that looks at every pair goes over.
pub fn pairs(dataset: &Dataset) -> u128 {
    dataset.graph_ptr.windows(2).map(|ends| ((ends[1] - ends[0]) as u128).pow(2)).sum()
}

/// What is resident at once, at most.
#[derive(Clone, Copy, Debug)]
pub struct BatchSizes {
    /// Nodes of all graphs in the batch.
    pub nodes: usize,
    /// Entries of their matrix.
    pub entries: usize,
    /// Rows of their logits.
    pub rows: usize,
    /// Non-zeros of their features, where those are kept as sparse rows; else 0.
    pub nonzeros: usize,
}

impl BatchSizes {
    /// Everything there is.
    pub fn all(dataset: &Dataset) -> Self {
        let sizes = DatasetSizes::of(dataset);
        let (nodes, entries, nonzeros) = (sizes.nodes, sizes.entries, sizes.nonzeros.unwrap_or(0));
        BatchSizes { nodes, entries, rows: dataset.units(), nonzeros }
    }

    /// The largest training step and the validation graphs beside it, or the largest graph alone.
    pub fn largest(dataset: &Dataset, batch_size: usize) -> Self {
        let adjacency = dataset.graph.adjacency();
        let row_ptr = match dataset.features.values() {
            Values::Sparse(sparse) => Some(&sparse.row_ptr),
            Values::Dense(_) | Values::Half(_) => None,
        };
        let between = |ptr: &[u64], nodes: Range<usize>| (ptr[nodes.end] - ptr[nodes.start]) as usize;
        let nonzeros = |nodes: Range<usize>| row_ptr.map_or(0, |ptr| between(ptr, nodes));
        if dataset.graphs() == 1 {
            return BatchSizes::all(dataset);
        }
        let nodes_of = |graph: &usize| dataset.graph_nodes(*graph).len();
        let entries_of = |graph: &usize| between(&adjacency.row_ptr, dataset.graph_nodes(*graph));
        let nonzeros_of = |graph: &usize| nonzeros(dataset.graph_nodes(*graph));
        let held = |units: &[u32]| {
            let graphs: BTreeSet<usize> = units.iter().map(|&unit| dataset.graph_of(unit as usize)).collect();
            graphs.into_iter().collect::<Vec<_>>()
        };
        let (train, valid) = (held(&dataset.split.train), held(&dataset.split.valid));
        let step = if batch_size == 0 { train.len() } else { batch_size.min(train.len()) };
        let most = |size: &dyn Fn(&usize) -> usize| {
            // The worst batch has the largest graphs.
            let mut sizes: Vec<usize> = train.iter().map(size).collect();
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            let resident = sizes[..step].iter().sum::<usize>() + valid.iter().map(size).sum::<usize>();
            resident.max((0..dataset.graphs()).map(|graph| size(&graph)).max().unwrap_or(0))
        };
        let (nodes, entries, nonzeros) = (most(&nodes_of), most(&entries_of), most(&nonzeros_of));
        let rows = if dataset.level == Level::Node { nodes } else { step + valid.len() };
        BatchSizes { nodes, entries, rows, nonzeros }
    }
}
