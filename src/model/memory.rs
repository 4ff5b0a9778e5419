//! How much memory training will take, buffer by buffer, before any of it is allocated.

use super::{Layout, Plan, Space};
use crate::config::Config;
use crate::datasets::{Dataset, Level, Objective, Values};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph::Transition;
use std::collections::BTreeSet;
use std::ops::Range;

/// Kept free beside the plan: work space of cuBLAS, code of kernels, and what a pool of memory rounds up.
const RESERVE: usize = 256 << 20;

/// Memory a training run will take.
pub struct MemoryPlan {
    /// (buffer, bytes) of the dataset and what stays beside it in the host's memory.
    pub host: Vec<(&'static str, usize)>,
    /// (buffer, bytes) of what the device allocates: of its own memory, or of the host's too.
    pub device: Vec<(&'static str, usize)>,
}

/// What is resident at once, at most.
#[derive(Clone, Copy, Debug)]
pub struct BatchSizes {
    /// Nodes.
    pub nodes: usize,
    /// Entries of their matrix.
    pub entries: usize,
    /// Rows of their logits.
    pub rows: usize,
    /// Non-zeros of their features, where those are kept as sparse rows; else 0.
    pub nonzeros: usize,
}

impl BatchSizes {
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
            let nodes = dataset.graph.nodes();
            let (entries, nonzeros) = (adjacency.entries(), nonzeros(0..nodes));
            return BatchSizes { nodes, entries, rows: dataset.units(), nonzeros };
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

/// Bytes of a copy of sparse features by rows and by columns, at most. Columns are cut into segments, each with two offsets
/// and its column.
fn sparse_bytes(batch: &BatchSizes, features: usize) -> usize {
    let segments = features + batch.nonzeros / 1024;
    8 * (batch.nodes + 1) + 12 * (features + 1) + 16 * batch.nonzeros + 20 * segments
}

impl MemoryPlan {
    /// Plans a run.
    pub fn new<D: Device<Real = f32>>(device: &D, layout: &Layout, dataset: &Dataset, config: &Config) -> Self {
        let a = &layout.architecture;
        let float = size_of::<f32>();
        let batch = BatchSizes::largest(dataset, config.train.batch_size);
        let matrix = batch.nodes * a.features * float;
        let walk = |nodes, entries| Transition::planned_bytes(&dataset.graph, config.walk, nodes, entries);
        let mut host = vec![
            ("features", dataset.features.bytes()),
            ("graph", dataset.graph.adjacency().bytes()),
            ("walk", walk(dataset.graph.nodes(), dataset.graph.adjacency().entries())),
            ("best parameters", layout.len() * float),
        ];
        let codes = if dataset.labels.objective() == Objective::Softmax { 1 } else { a.outputs };
        let plan = Plan::new(config, dataset, layout);
        let states = config.engine.states.bytes();
        let mut on_device = vec![
            ("parameters", layout.len() * float),
            ("best parameters, scored", layout.len() * float),
            ("gradient", layout.len() * float),
            ("optimizer moments", 2 * layout.len() * float),
            ("routing", 4 * a.features * a.active * float),
            ("routing noise", a.features * a.experts * float),
            ("hop weights and gradient", 2 * a.hops * a.features * float),
        ];
        let responses = if plan.sparse { (a.features + batch.nonzeros) * float } else { matrix };
        on_device.push(("responses F", responses));
        match plan.space {
            Space::Features => on_device.push(("states H, dH, dF", matrix)),
            Space::Classes => {
                // Rows are padded to at most seven columns more.
                let width = a.outputs.next_multiple_of(8).min(2 * a.outputs);
                on_device.push(("states of all hops", batch.nodes * a.hops * width * states));
            }
        }
        on_device.extend([
            ("hop states and sums", device.scratch_bytes(&batch, layout, plan)),
            ("logits and gradient", 2 * batch.rows * a.outputs * float),
            ("labels", batch.rows * codes * float),
        ]);
        if device.copies() {
            let features = if plan.sparse { sparse_bytes(&batch, a.features) } else { matrix };
            on_device.insert(0, ("features, copied", features));
            on_device.insert(
                1,
                if dataset.level == Level::Graph && plan.space == Space::Classes {
                    // One weight a hop, and the graph it counts in.
                    ("node weights, copied", batch.nodes * (a.hops + 1) * float)
                } else {
                    ("walk, copied", walk(batch.nodes, batch.entries))
                },
            );
            if !plan.sparse && !matches!(dataset.features.values(), Values::Dense(_)) {
                host.push(("features, widened to copy", matrix));
            }
        } else if let Values::Sparse(sparse) = dataset.features.values() {
            // By columns beside the rows; or made dense.
            let bytes = if plan.sparse { 3 * sparse.values.len() * float } else { matrix };
            host.push(("features as read, at most", bytes));
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
        if planned + RESERVE <= free {
            return Ok(());
        }
        let gibibytes = |bytes: usize| bytes as f64 / (1u64 << 30) as f64;
        let (largest, bytes) = self.device.iter().max_by_key(|(_, bytes)| bytes).copied().unwrap_or_default();
        Err(Error::Device(format!(
            "out of memory: planned {:.2} GiB ({largest}: {:.2} GiB), free {:.2} GiB on {}, of which {:.2} GiB are kept for \
             the driver; --dry-run shows the plan; use a smaller train.batch_size on a set of graphs, half-precision states \
             (engine.states), or --device cpu",
            gibibytes(planned),
            gibibytes(bytes),
            gibibytes(free),
            device.name(),
            gibibytes(RESERVE)
        )))
    }
}
