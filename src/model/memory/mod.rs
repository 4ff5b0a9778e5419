//! How much memory training will take, buffer by buffer, before any of it is allocated; and, where a device has too little for
//! all of it, what comes to it in panels instead.

mod buffers;
mod panels;
mod shared;

use crate::architecture::{Architecture, Layout, Spread};
use crate::config::Config;
use crate::device::Device;
use crate::plan::{OwnSizes, Plan, SharedPlan, Streamed, pairs};
use crate::tabulate::TablePlan;
use buffers::Run;
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::memory;
use harmonia_graph::units::bytes;
pub use panels::PanelPlan;

/// Kept free beside the plan: work space of cuBLAS, code of kernels, and what a pool of memory rounds up.
const RESERVE: usize = 256 << 20;

/// A buffer and its bytes.
pub type Planned = (&'static str, usize);

/// Memory a training run will take.
pub struct MemoryPlan {
    /// Of the dataset, and of a table in a file: there already, or mapped.
    pub host: Vec<Planned>,
    /// Of what a run makes of them in the host's memory, and keeps.
    pub made: Vec<Planned>,
    /// Beside it, of what it has while a table is made: never together with what follows.
    pub tabulating: Vec<Planned>,
    /// Of what the device has all the time: of its own memory, or of the host's too.
    pub device: Vec<Planned>,
    /// Beside it, of what it has while graphs are walked.
    pub walking: Vec<Planned>,
    /// Beside it, of what it has while steps read a table: never together with what is walked.
    pub tabled: Vec<Planned>,
    /// What comes in panels.
    pub streamed: Streamed,
    /// How.
    pub panels: Vec<PanelPlan>,
    /// Classes at a time that nodes are scored by, where a pass over the whole graph would take too much memory.
    pub scored_classes: Option<usize>,
    /// What may be taken of the device's own memory; none where it works in the host's.
    pub allowed: Option<usize>,
}

impl MemoryPlan {
    /// Counts every buffer of a run, without allocating any. What a device that copies has no room for comes in panels, as few
    /// things as will do. `own`: of a run that several processes share, those of one of them.
    pub fn new<D: Device<Real = f32>>(
        device: &D,
        layout: &Layout,
        plan: Plan,
        dataset: &Dataset,
        config: &Config,
        table: Option<&TablePlan>,
        own: Option<(&SharedPlan, &OwnSizes)>,
    ) -> Self {
        Run::new(device, layout, plan, dataset, config, table, own).fitted(allowed(device, config))
    }

    /// Bytes of what the device allocates, at most at once.
    pub fn device_bytes(&self) -> usize {
        sum(&self.device) + sum(&self.walking).max(sum(&self.tabled))
    }

    /// Bytes of this process that a run takes at most at once beside what is there already, on a device that works in the host's memory.
    pub fn process_bytes(&self) -> usize {
        sum(&self.made) + sum(&self.tabulating).max(self.device_bytes())
    }

    /// Every buffer.
    pub fn buffers(&self) -> impl Iterator<Item = Planned> {
        let host = self.host.iter().chain(&self.made).chain(&self.tabulating);
        host.chain(&self.device).chain(&self.walking).chain(&self.tabled).copied()
    }

    /// Refuses a run that would not fit the device or the limit on memory, before any of it is allocated.
    ///
    /// # Errors
    /// The device has memory of its own, and too little of it is free or allowed; or the limit leaves too little.
    pub fn check<D: Device>(&self, device: &D) -> Result<()> {
        self.check_several(device, 1)
    }

    /// The same for several such runs at a time.
    ///
    /// # Errors
    /// As [`MemoryPlan::check`].
    pub fn check_several<D: Device>(&self, device: &D, runs: usize) -> Result<()> {
        let free = device.free_bytes()?;
        let planned = self.device_bytes();
        if let Some(allowed) = self.allowed
            && planned > allowed
        {
            return Err(self.too_small(device, free, allowed));
        }
        if free.is_some() { Ok(()) } else { self.check_limit(runs) }
    }

    /// What is missing, what has to stay on the device and what not.
    fn too_small<D: Device>(&self, device: &D, free: Option<usize>, allowed: usize) -> Error {
        let gibibytes = |size: usize| format!("{:.2} GiB", size as f64 / (1u64 << 30) as f64);
        let largest = |buffers: &[Planned]| buffers.iter().max_by_key(|(_, bytes)| *bytes).copied().unwrap_or_default();
        let phase = if sum(&self.walking) >= sum(&self.tabled) { &self.walking } else { &self.tabled };
        let (name, most) =
            [largest(&self.device), largest(phase)].into_iter().max_by_key(|(_, bytes)| *bytes).unwrap_or_default();
        let room = match free {
            Some(free) if allowed + RESERVE >= free => {
                format!(
                    "free {} on {}, of which {} are kept for the driver",
                    gibibytes(free),
                    device.name(),
                    gibibytes(RESERVE)
                )
            }
            _ => format!("engine.device_memory allows {} on {}", bytes(allowed as u64), device.name()),
        };
        let panels = match &self.panels[..] {
            [] => "nothing of it can come in panels (docs/gpu.md says what can)".into(),
            panels => {
                format!("in panels already: {}", panels.iter().map(|panel| panel.what).collect::<Vec<_>>().join(", "))
            }
        };
        Error::Device(format!(
            "out of memory: planned {} ({name}: {}), {room}; {panels}; use half-precision states (engine.states), \
             engine.propagate = classes with engine.monb = knots, a smaller train.batch_size on a set of graphs or from a table, or \
             set run.device = cpu",
            gibibytes(self.device_bytes()),
            bytes(most as u64),
        ))
    }

    /// What the CPU allocates is memory of this process.
    fn check_limit(&self, runs: usize) -> Result<()> {
        let planned = self.process_bytes().saturating_mul(runs);
        if memory::fits(planned as u64) {
            return Ok(());
        }
        let all = self.made.iter().chain(&self.tabulating);
        let all = all.chain(&self.device).chain(&self.walking).chain(&self.tabled);
        let (largest, most) = all.max_by_key(|(_, bytes)| bytes).copied().unwrap_or_default();
        Err(Error::Device(format!(
            "out of memory: planned {}{} ({largest}: {}), the limit is {}; lower model.bases, model.hidden or model.experts, or \
             use a smaller train.batch_size on a set of graphs",
            bytes(planned as u64),
            if runs > 1 { format!(" for {runs} runs at a time") } else { String::new() },
            bytes(most as u64),
            bytes(memory::allowed().unwrap_or(0) as u64)
        )))
    }
}

/// Bytes of the walk probabilities of all pairs of nodes, and of who they are; none where a model does not weigh pairs.
pub fn pair_bytes(dataset: &Dataset, architecture: &Architecture) -> Option<u128> {
    let each = (architecture.family.reach as u128 + 2) * buffers::F as u128;
    (architecture.spread() == Spread::Pairs).then(|| pairs(dataset).saturating_mul(each))
}

fn sum(buffers: &[Planned]) -> usize {
    buffers.iter().map(|(_, bytes)| bytes).sum()
}

/// What a run may take of a device's own memory: what is free, or less where the settings say so.
fn allowed<D: Device>(device: &D, config: &Config) -> Option<usize> {
    if !device.copies() {
        return None;
    }
    // A device that does not answer is refused by `check`.
    let free = device.free_bytes().ok().flatten().map(|free| free.saturating_sub(RESERVE));
    match config.engine.device_memory {
        0 => free,
        wanted => Some(free.map_or(wanted, |free| free.min(wanted))),
    }
}
