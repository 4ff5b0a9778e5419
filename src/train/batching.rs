//! Which units a step is taken over, and in which portions units are scored.

use crate::plan::BatchSizes;
use harmonia_graph::dataset::Dataset;
use harmonia_graph::seed::{Purpose, Stream};
use std::collections::HashSet;

/// Training units of each step of an epoch, shuffled: units of the same graph stay together, `batch_size` graphs per
/// step; on one graph, `batch_size` units per step.
pub fn epoch_batches(dataset: &Dataset, size: usize, seed: u64, epoch: usize) -> Vec<Vec<u32>> {
    if size == 0 {
        return vec![dataset.split.train.clone()];
    }
    let mut groups: Vec<Vec<u32>> = if dataset.graphs() == 1 {
        dataset.split.train.iter().map(|&unit| vec![unit]).collect()
    } else {
        let mut by_graph = vec![Vec::new(); dataset.graphs()];
        for &unit in &dataset.split.train {
            by_graph[dataset.graph_of(unit as usize)].push(unit);
        }
        by_graph.retain(|units| !units.is_empty());
        by_graph
    };
    Stream::new(seed, Purpose::Batches, epoch as u32).rng().shuffle(&mut groups);
    groups.chunks(size).map(<[_]>::concat).collect()
}

/// Units in portions whose graphs have no more nodes than training has resident.
pub fn portions<'u>(dataset: &Dataset, units: &'u [u32], batch_size: usize) -> Vec<&'u [u32]> {
    let most = BatchSizes::largest(dataset, batch_size).nodes;
    let (mut portions, mut start, mut nodes) = (Vec::new(), 0, 0);
    let mut graphs = HashSet::new();
    for (at, &unit) in units.iter().enumerate() {
        let graph = dataset.graph_of(unit as usize);
        if graphs.insert(graph) {
            let size = dataset.graph_nodes(graph).len();
            if nodes + size > most && at > start {
                portions.push(&units[start..at]);
                (start, nodes) = (at, 0);
                graphs = HashSet::from([graph]);
            }
            nodes += size;
        }
    }
    portions.push(&units[start..]);
    portions
}
