//! How much memory training will take, buffer by buffer, before any of it is allocated.

use super::Layout;
use crate::config::Config;
use crate::datasets::{Dataset, Level};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph::Transition;

/// Memory a training run will take.
pub struct MemoryPlan {
    /// (buffer, bytes) of the dataset and what stays beside it in the host's memory.
    pub host: Vec<(&'static str, usize)>,
    /// (buffer, bytes) of what the device allocates: of its own memory, or of the host's too.
    pub device: Vec<(&'static str, usize)>,
}

impl MemoryPlan {
    /// Plans a run.
    pub fn new<D: Device<Real = f32>>(device: &D, layout: &Layout, dataset: &Dataset, config: &Config) -> Self {
        let a = &layout.architecture;
        let float = size_of::<f32>();
        let (nodes, rows) = largest_batch(dataset, config.train.batch_size);
        let matrix = nodes * a.features * float;
        let walk = Transition::planned_bytes(&dataset.graph, config.walk);
        let mut host = vec![
            ("features", dataset.features.values.len() * float),
            ("graph", dataset.graph.adjacency().bytes()),
            ("walk", walk),
            ("best parameters", layout.len() * float),
        ];
        let mut on_device = vec![
            ("parameters", layout.len() * float),
            ("gradient", layout.len() * float),
            ("optimizer moments", 2 * layout.len() * float),
            ("routing", 4 * a.features * a.active * float),
            ("hop weights and gradient", 2 * a.hops * a.features * float),
            ("responses F", matrix),
            ("states H, dH, dF", matrix),
            ("hop states and sums", device.scratch_bytes(nodes, layout)),
            ("logits and gradient", 2 * rows * a.outputs * float),
        ];
        if device.copies() {
            // Of a set of graphs only a batch is resident; the share of its nodes is near enough for the walk.
            let share = nodes as f64 / dataset.graph.nodes().max(1) as f64;
            on_device.insert(0, ("features, copied", matrix));
            on_device.insert(1, ("walk, copied", (walk as f64 * share.min(1.0)) as usize));
        } else {
            host.push(("feature codes, at most", dataset.features.values.len()));
        }
        MemoryPlan { host, device: on_device }
    }

    /// Bytes of what the device allocates.
    pub fn device_bytes(&self) -> usize {
        self.device.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Every buffer.
    pub fn buffers(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.host.iter().chain(&self.device).copied()
    }

    /// Refuses a run that would not fit the device, before any of it is allocated.
    ///
    /// # Errors
    /// The device has memory of its own, and too little of it is free.
    pub fn check<D: Device>(&self, device: &D) -> Result<()> {
        let Some(free) = device.free_bytes()? else { return Ok(()) };
        let planned = self.device_bytes();
        if planned <= free {
            return Ok(());
        }
        let gibibytes = |bytes: usize| bytes as f64 / (1u64 << 30) as f64;
        Err(Error::Device(format!(
            "out of memory: planned {:.2} GiB, free {:.2} GiB on {}; --dry-run shows the plan, --set engine.states=f16 \
             halves the hop states, --device cpu uses the machine's memory",
            gibibytes(planned),
            gibibytes(free),
            device.name()
        )))
    }
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
