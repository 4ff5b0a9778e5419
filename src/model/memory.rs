//! How much memory training will take, buffer by buffer, before any of it is allocated.

use crate::architecture::Layout;
use crate::config::Config;
use crate::device::Device;
use crate::device::launcher::abi::HARMONIA_LONG_ROW;
use crate::loss::Objective;
use crate::plan::{BatchSizes, Plan, Space};
use crate::tabulate::TablePlan;
use harmonia_graph::dataset::{Dataset, Level, Values};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Neighbourhood, Split, Transition};
use harmonia_graph::memory;
use harmonia_graph::units::bytes;
use harmonia_graph::walk_table::BLOCK_HATS;

/// Kept free beside the plan: work space of cuBLAS, code of kernels, and what a pool of memory rounds up.
const RESERVE: usize = 256 << 20;
/// Stretches that sums over the rows of a table are cut into, at most.
const TABLE_STRETCHES: usize = 512;

/// Memory a training run will take.
pub struct MemoryPlan {
    /// (buffer, bytes) of the dataset and what stays beside it in the host's memory.
    pub host: Vec<(&'static str, usize)>,
    /// (buffer, bytes) of what the device allocates: of its own memory, or of the host's too.
    pub device: Vec<(&'static str, usize)>,
}

/// Bytes of a copy of sparse features by rows and by columns, at most. Columns are cut into segments, each with two offsets
/// and its column.
fn sparse_bytes(batch: &BatchSizes, features: usize) -> usize {
    let segments = features + batch.nonzeros / 1024;
    8 * (batch.nodes + 1) + 12 * (features + 1) + 16 * batch.nonzeros + 20 * segments
}

/// Bytes of long rows, at most, where they are half of the entries: the row, its segments, where these begin and end.
fn long_row_bytes(batch: &BatchSizes) -> usize {
    let rows = (batch.entries + batch.nodes) / 2 / HARMONIA_LONG_ROW as usize;
    (rows + 1) * (4 + 4 + 2 * 16)
}

impl MemoryPlan {
    /// Counts every buffer of a run, without allocating any.
    pub fn new<D: Device<Real = f32>>(
        device: &D,
        layout: &Layout,
        plan: Plan,
        dataset: &Dataset,
        config: &Config,
    ) -> Self {
        let a = &layout.architecture;
        let float = size_of::<f32>();
        let batch = BatchSizes::largest(dataset, config.train.batch_size);
        let matrix = batch.nodes * a.features * float;
        let walk = |nodes, entries| Transition::planned_bytes(&dataset.graph, config.walk, nodes, entries);
        let mut host = vec![
            ("features", dataset.features.bytes()),
            ("graph", dataset.graph.adjacency().bytes()),
            ("walk", walk(dataset.graph.nodes(), dataset.graph.adjacency().entries())),
        ];
        let targets = Objective::of(&dataset.labels).width(a.outputs);
        let states = config.engine.states.bytes();
        let mut on_device = vec![
            ("parameters", layout.len() * float),
            ("best parameters, kept and scored", 2 * layout.len() * float),
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
            Space::Table => on_device.push(("states H, dH", batch.rows * a.features * float)),
        }
        if dataset.level == Level::Node {
            // Of a step's targets and of the rows that are scored.
            let sets = 2 * Neighbourhood::planned_bytes(batch.nodes, a.hops.saturating_sub(1));
            let long = if device.copies() { 2 * a.hops * long_row_bytes(&batch) } else { 0 };
            on_device.push(("rows near targets, at most", sets + long));
        }
        on_device.extend([
            ("hop states and sums", device.scratch_bytes(&batch, layout, plan)),
            ("logits and gradient", 2 * batch.rows * a.outputs * float),
            ("labels", batch.rows * targets * float),
        ]);
        // Gathered where they are computed, with the numbers of their rows; and those of the rows that have targets.
        let Split { train, valid, test } = &dataset.split;
        let scored = [train, valid, test].map(Vec::len).into_iter().max().unwrap_or(0);
        on_device.push(("logits that are scored", (scored * (a.outputs + 1) + train.len()) * float));
        if device.copies() {
            let features = |sizes: &BatchSizes| match plan.sparse {
                true => sparse_bytes(sizes, a.features),
                false => sizes.nodes * a.features * float,
            };
            let weighted = dataset.level == Level::Graph && plan.space == Space::Classes;
            let reach = |sizes: &BatchSizes| match weighted {
                // One weight per hop, and the graph it counts in.
                true => sizes.nodes * (a.hops + 1) * float,
                false => walk(sizes.nodes, sizes.entries),
            };
            on_device.insert(0, ("features, copied", features(&batch)));
            on_device.insert(1, (if weighted { "node weights, copied" } else { "walk, copied" }, reach(&batch)));
            if config.train.batch_size > 0 && dataset.graphs() > 1 {
                let all = BatchSizes::all(dataset);
                let labels = all.rows * (targets + 1) * float + 8 * (dataset.graphs() + 1);
                // Numbers of nodes and graphs while a batch is put together; of sparse features two for each column and graph.
                let numbers = 8 * all.nodes + 32 * (dataset.graphs() + 1);
                let columns = if plan.sparse { 8 * a.features * config.train.batch_size } else { 0 };
                let bytes = features(&all) + reach(&all) + labels + numbers + columns;
                on_device.push(("all graphs, where batches are put together", bytes));
            }
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

    /// Beside all that a table of walks, on a device that copies it with sums of stretches of rows; and X and F at the ends of
    /// walks that correct it, of so many units.
    pub fn with_table<D: Device>(mut self, device: &D, plan: &TablePlan, units: usize) -> Self {
        let ends = units * plan.walks * plan.contents.steps() * plan.grid.features() * size_of::<f32>();
        if ends > 0 {
            self.host.push(("features at ends of walks", ends));
            self.device.push(("responses at ends of walks", ends * (1 + usize::from(device.copies()))));
        }
        if device.copies() {
            let block = BLOCK_HATS * plan.contents.steps() + 3 * plan.grid.features();
            let sums = size_of::<f32>() * (TABLE_STRETCHES * block + 5 * plan.width());
            self.device.extend([("table of walks", plan.bytes()), ("sums over its rows, at most", sums)]);
        } else {
            self.host.push(("table of walks", plan.bytes()));
        }
        self
    }

    /// Bytes of what the device allocates.
    pub fn device_bytes(&self) -> usize {
        self.device.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Every buffer.
    pub fn buffers(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.host.iter().chain(&self.device).copied()
    }

    /// Refuses a run that would not fit the device or the limit on memory, before any of it is allocated.
    ///
    /// # Errors
    /// The device has memory of its own, and too little of it is free; or the limit leaves too little.
    pub fn check<D: Device>(&self, device: &D) -> Result<()> {
        let planned = self.device_bytes();
        let Some(free) = device.free_bytes()? else { return self.check_limit() };
        if planned + RESERVE <= free {
            return Ok(());
        }
        let gibibytes = |bytes: usize| bytes as f64 / (1u64 << 30) as f64;
        let (largest, bytes) = self.device.iter().max_by_key(|(_, bytes)| bytes).copied().unwrap_or_default();
        Err(Error::Device(format!(
            "out of memory: planned {:.2} GiB ({largest}: {:.2} GiB), free {:.2} GiB on {}, of which {:.2} GiB are kept for \
             the driver; use a smaller train.batch_size on a set of graphs, half-precision states \
             (engine.states), or set run.device = cpu",
            gibibytes(planned),
            gibibytes(bytes),
            gibibytes(free),
            device.name(),
            gibibytes(RESERVE)
        )))
    }

    /// What the CPU allocates is memory of this process.
    fn check_limit(&self) -> Result<()> {
        let planned = self.device_bytes();
        if memory::fits(planned as u64) {
            return Ok(());
        }
        let (largest, most) = self.device.iter().max_by_key(|(_, bytes)| bytes).copied().unwrap_or_default();
        Err(Error::Device(format!(
            "out of memory: planned {} ({largest}: {}), the limit is {}; lower model.bases, model.hidden or model.experts, or \
             use a smaller train.batch_size on a set of graphs",
            bytes(planned as u64),
            bytes(most as u64),
            bytes(memory::limit().unwrap_or(0) as u64)
        )))
    }
}
