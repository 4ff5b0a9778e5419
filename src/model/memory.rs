//! How much memory training will take, buffer by buffer, before any of it is allocated.

use super::Layout;
use crate::config::Config;
use crate::datasets::{Dataset, Level};
use crate::device::Device;
use crate::graph::Transition;

/// (buffer, bytes) of a training run.
pub fn memory_plan<D: Device<Real = f32>>(
    device: &D,
    layout: &Layout,
    dataset: &Dataset,
    config: &Config,
) -> Vec<(&'static str, usize)> {
    let a = &layout.architecture;
    let float = size_of::<f32>();
    let (nodes, rows) = largest_batch(dataset, config.train.batch_size);
    let matrix = nodes * a.features * float;
    vec![
        ("features", dataset.features.values.len() * float),
        ("feature codes, at most", dataset.features.values.len()),
        ("graph", dataset.graph.adjacency().bytes()),
        ("walk", Transition::new(&dataset.graph, config.walk).bytes()),
        ("parameters", layout.len() * float),
        ("best parameters", layout.len() * float),
        ("gradient", layout.len() * float),
        ("optimizer moments", 2 * layout.len() * float),
        ("routing", 4 * a.features * a.active * float),
        ("hop weights and gradient", 2 * a.hops * a.features * float),
        ("responses F", matrix),
        ("states H, dH, dF", matrix),
        ("hop states", device.scratch_bytes(nodes, layout)),
        ("logits and gradient", 2 * rows * a.outputs * float),
    ]
}

/// Nodes and logit rows resident at once: the largest training step, and the validation graphs beside it.
fn largest_batch(dataset: &Dataset, batch_size: usize) -> (usize, usize) {
    let graphs = dataset.graphs();
    if graphs == 1 {
        return (dataset.graph.nodes(), dataset.units());
    }
    let held = |units: &[u32]| {
        let mut held: Vec<usize> = units.iter().map(|&unit| dataset.graph_of(unit as usize)).collect();
        held.dedup();
        held.sort_unstable();
        held.dedup();
        held
    };
    let size = |graphs: &[usize]| graphs.iter().map(|&graph| dataset.graph_nodes(graph).len()).sum::<usize>();
    let mut train = held(&dataset.split.train);
    if batch_size > 0 {
        // The worst batch has the largest graphs.
        train.sort_by_key(|&graph| std::cmp::Reverse(dataset.graph_nodes(graph).len()));
        train.truncate(batch_size);
    }
    let nodes = size(&train) + size(&held(&dataset.split.valid));
    let rows = if dataset.level == Level::Node { nodes } else { train.len() + dataset.split.valid.len() };
    (nodes, rows)
}
