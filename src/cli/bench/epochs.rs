//! The child's side of a measurement: epochs of training steps on one store, op by op.
//!
//! An epoch is forward, backward and the update, without the scoring that training adds to it. The store is opened and
//! the batch made resident before any epoch is timed; both count in the peak of memory. The bandwidth of memory is
//! measured by the same process on the same threads, after the peak was read and the model dropped.

use super::{copy, memory};
use crate::cli::signals;
use crate::cli::watch;
use crate::config::{Config, Monb};
use crate::device::Device;
use crate::device::cpu::Cpu;
use crate::model::traffic::{self, TableStep, Traffic};
use crate::model::{Checkpoint, Profile, initial_parameters};
use crate::plan::{Plan, Space};
use crate::runs::load_dataset;
use crate::train::Prepared;
use crate::train::RunName;
use crate::train::Trainer;
use harmonia_graph::error::Result;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;

/// What no op of the device accounts for: drawing noise, the loop around the ops.
pub const OTHER: &str = "other";

/// Epochs to be timed on one store.
#[derive(Debug, Serialize, Deserialize)]
pub struct EpochsJob {
    /// Settings; the dataset is the path of a store.
    pub config: Config,
    /// Epochs timed.
    pub epochs: usize,
    /// Epochs before those.
    pub warmup: usize,
    /// Whether to measure the bandwidth of memory too.
    pub copy: bool,
    /// Where to write the parameters training starts from, for others to start from.
    pub parameters: Option<PathBuf>,
}

/// Times and sizes of an [`EpochsJob`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// n.
    pub nodes: usize,
    /// Entries of the adjacency: both directions of an undirected edge.
    pub entries: usize,
    /// d.
    pub features: usize,
    /// L.
    pub outputs: usize,
    /// T.
    pub hops: usize,
    pub parameters: usize,
    /// The way a step is computed.
    pub plan: String,
    /// Device, threads and instruction set.
    pub device: String,
    pub threads: usize,
    /// Median epoch.
    pub seconds: f64,
    /// Every timed epoch.
    pub all_seconds: Vec<f64>,
    /// Loss of the parameters training starts from, without noise: what another implementation must find too.
    pub loss: Option<f64>,
    /// Most memory that was resident, the mapped store included.
    pub peak_bytes: Option<u64>,
    /// Memory resident after the epochs without the pages of mapped files.
    pub anonymous_bytes: Option<u64>,
    /// Bytes an epoch moves, one gathered row per entry; see [`traffic`].
    pub bytes: f64,
    /// Bytes an epoch moves, each row once per hop.
    pub compulsory_bytes: f64,
    /// Bytes per second of a plain copy.
    pub copy_bandwidth: Option<f64>,
    /// Ops, the most expensive first.
    pub ops: Vec<OpTime>,
}

/// One op, over all its calls in an epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpTime {
    /// As profiles call it, or [`OTHER`].
    pub op: String,
    /// Mean seconds per epoch.
    pub seconds: f64,
    /// Part of the epoch.
    pub share: f64,
    /// As for the epoch.
    pub bytes: f64,
    /// As for the epoch.
    pub compulsory_bytes: f64,
}

impl Measured {
    /// Bytes per second.
    pub fn rate(&self) -> f64 {
        self.bytes / self.seconds
    }

    /// Seconds that the bytes, and the compulsory bytes, take at the bandwidth of a copy.
    pub fn bounds(&self) -> Option<[f64; 2]> {
        self.copy_bandwidth.map(|bandwidth| [self.bytes, self.compulsory_bytes].map(|bytes| bytes / bandwidth))
    }

    /// Seconds of ops that walk along edges: what has to grow with their number.
    pub fn walk_seconds(&self) -> f64 {
        let walks = |op: &&OpTime| op.op.starts_with("walk_") || op.op.starts_with("propagate_");
        self.ops.iter().filter(walks).map(|op| op.seconds).sum()
    }
}

/// Measures in the current pool of threads.
pub fn measure(job: &EpochsJob) -> Result<Measured> {
    let mut measured = train(job)?;
    if job.copy {
        signals::stop().check()?;
        measured.copy_bandwidth = Some(copy::bandwidth());
    }
    Ok(measured)
}

fn train(job: &EpochsJob) -> Result<Measured> {
    let config = &job.config;
    let whole = watch::with(&Default::default(), |context| load_dataset(&config.data, context))?;
    let seed = config.run.seed;
    let run = Prepared::new(&whole, config, RunName { seed, fold: None })?;
    drop(whole);
    let Prepared { dataset, layout, .. } = &run;
    let device = Cpu::<f32>::with_states(config.engine.states);
    if let Some(path) = &job.parameters {
        let parameters = initial_parameters::<f32>(layout, config.init, seed);
        Checkpoint::write(path, Checkpoint::named(layout, &parameters, ""), None)?;
    }
    let mut trainer = Trainer::new(&device, &run, config, None)?;
    for _ in 0..job.warmup {
        signals::stop().check()?;
        trainer.steps()?;
    }
    trainer.profile()?;
    let mut all_seconds = Vec::new();
    for _ in 0..job.epochs {
        signals::stop().check()?;
        let start = Instant::now();
        trainer.steps()?;
        all_seconds.push(start.elapsed().as_secs_f64());
    }
    let profile = trainer.take_profile().unwrap_or_default();
    let memory = memory::now();
    // The trainer's best parameters are still those it started from.
    let loss = match &job.parameters {
        Some(_) => trainer.score(&dataset.split.train)?.get("nll"),
        None => None,
    };
    let plan = trainer.plan();
    let steps = match config.train.batch_size {
        0 => 1,
        size => dataset.split.train.len().div_ceil(size),
    };
    let rows = dataset.split.train.len().div_ceil(steps);
    let from_table = trainer.table().map(|table| TableStep { table, rows, walks: trainer.table_walks() });
    let traffic = traffic::step(plan, config.engine.states, dataset, layout, from_table);
    let ops = op_times(&profile, &traffic, steps, &all_seconds);
    Ok(Measured {
        nodes: dataset.graph.nodes(),
        entries: dataset.graph.adjacency().entries(),
        features: layout.architecture.features,
        outputs: layout.architecture.outputs,
        hops: layout.architecture.hops,
        parameters: layout.len(),
        plan: words(plan),
        device: device.name(),
        threads: rayon::current_num_threads(),
        seconds: median(&all_seconds),
        all_seconds,
        loss,
        peak_bytes: memory.peak,
        anonymous_bytes: memory.anonymous,
        bytes: traffic.iter().map(|traffic| traffic.gathered * steps as f64).sum(),
        compulsory_bytes: traffic.iter().map(|traffic| traffic.compulsory * steps as f64).sum(),
        copy_bandwidth: None,
        ops,
    })
}

/// What each op took of the timed epochs, the most expensive first, and what none of them accounts for.
fn op_times(profile: &Profile, traffic: &[Traffic], steps: usize, all_seconds: &[f64]) -> Vec<OpTime> {
    let (epochs, total) = (all_seconds.len() as f64, all_seconds.iter().sum::<f64>());
    let mut ops: Vec<OpTime> = (profile.ops().iter())
        .map(|(op, time)| {
            let moved = traffic.iter().find(|traffic| traffic.op == *op);
            let bytes = moved.map_or([0.0; 2], |moved| [moved.gathered, moved.compulsory].map(|b| b * steps as f64));
            let seconds = time.as_secs_f64();
            OpTime {
                op: op.name().to_string(),
                seconds: seconds / epochs,
                share: seconds / total,
                bytes: bytes[0],
                compulsory_bytes: bytes[1],
            }
        })
        .collect();
    let rest = (total - profile.total().as_secs_f64()).max(0.0);
    ops.push(OpTime {
        op: OTHER.into(),
        seconds: rest / epochs,
        share: rest / total,
        bytes: 0.0,
        compulsory_bytes: 0.0,
    });
    ops.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    ops
}

/// A plan in the words of the settings that would ask for it.
fn words(plan: Plan) -> String {
    let monb = if plan.monb == Monb::Knots { "knots" } else { "direct" };
    let space = match plan.space {
        Space::Classes => "classes",
        Space::Features => "features",
        Space::Table => "table",
    };
    format!("{monb} {space}{}", if plan.sparse { " sparse" } else { "" })
}

/// The middle of some numbers, or between the two middle ones.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
