//! Steps wait for nothing: what crosses between host and device while an epoch is under way, counted by the driver.
//!
//! The driver is the host's, so that no GPU is needed; what it is asked for is what a GPU would be asked for. (Allocations are
//! not counted here: the host's are fresh, so that sanitizers see them; those of a GPU come back from the step before.)

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::as_sparse;
use common::forward::forward_driver;
use common::problems::{Recipe, Task, Values};
use harmonia::Result;
use harmonia::architecture::HopWeights;
use harmonia::config::{Config, DropoutPlace, Monb, Monotone, Propagate, States, TableUse};
use harmonia::dataset::{Dataset, Level};
use harmonia::device::host::{Host, Memory};
use harmonia::device::launcher::{Driver, Launch, Launcher};
use harmonia::graph::Split;
use harmonia::train::{Prepared, RunName, Trainer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes a step may move either way, beside the numbers of a mini-batch.
const MOST: usize = 1 << 10;
/// Bytes of what is found out about a step: whatever is longer are scores.
const VERDICT: usize = 24;

#[derive(Default)]
struct Count {
    /// Reads that wait for all that was asked for.
    reads: AtomicUsize,
    /// Bytes that reach the host without.
    sent: AtomicUsize,
    /// Times somebody waited for these.
    waits: AtomicUsize,
    /// Bytes that go to the device.
    written: AtomicUsize,
    launches: AtomicUsize,
    /// Since scores were sent.
    launches_since_scores: AtomicUsize,
    /// Launches asked for between scores being sent and being waited for.
    beside_scores: AtomicUsize,
}

impl Count {
    fn take(&self) -> [usize; 5] {
        [&self.reads, &self.sent, &self.waits, &self.written, &self.launches].map(|count| count.swap(0, Relaxed))
    }
}

struct Counting {
    host: Host,
    count: Arc<Count>,
}

#[allow(unsafe_code)]
impl Driver for Counting {
    forward_driver!(arrive leave clear gemm);

    fn write(&self, memory: &mut Memory, bytes: &[u8]) -> Result<()> {
        self.count.written.fetch_add(bytes.len(), Relaxed);
        self.host.write(memory, bytes)
    }
    fn read(&self, bytes: &mut [u8], memory: &Memory) -> Result<()> {
        self.count.reads.fetch_add(1, Relaxed);
        self.host.read(bytes, memory)
    }
    fn send(&self, mailbox: &mut Vec<u8>, memory: &Memory, bytes: usize) -> Result<()> {
        self.count.sent.fetch_add(bytes, Relaxed);
        if bytes > VERDICT {
            self.count.launches_since_scores.store(0, Relaxed);
        }
        self.host.send(mailbox, memory, bytes)
    }
    fn receive(&self, bytes: &mut [u8], mailbox: &Vec<u8>) -> Result<()> {
        self.count.waits.fetch_add(1, Relaxed);
        if bytes.len() > VERDICT {
            self.count.beside_scores.store(self.count.launches_since_scores.load(Relaxed), Relaxed);
        }
        self.host.receive(bytes, mailbox)
    }
    unsafe fn launch(&self, launch: &Launch) -> Result<()> {
        self.count.launches.fetch_add(1, Relaxed);
        self.count.launches_since_scores.fetch_add(1, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { self.host.launch(launch) }
    }
}

fn dataset(sparse: bool) -> Dataset {
    dataset_of(Task::Classes(5), sparse)
}

fn binary() -> Dataset {
    dataset_of(Task::Binary, false)
}

fn dataset_of(task: Task, sparse: bool) -> Dataset {
    let values = if sparse { Values::Few(3) } else { Values::Continuous };
    let recipe = Recipe { seed: 3, nodes: 300, features: 40, task, values, ..Recipe::default() };
    let dataset = recipe.problem().dataset;
    let units: Vec<u32> = (0..300).collect();
    let split = Split { train: units[..200].to_vec(), valid: units[200..220].to_vec(), test: Vec::new() };
    let features = if sparse { Arc::new(as_sparse(&dataset.features)) } else { Arc::clone(&dataset.features) };
    Dataset { split, features, ..dataset }
}

#[test]
fn steps_read_nothing_and_move_next_to_nothing() {
    let mut config = Config::default();
    config.engine.monb = Monb::Knots;
    config.engine.table = TableUse::Off;
    (config.train.dropout, config.train.clip_norm) = (0.2, 1.0);
    // The scale of half states is found where they are.
    for (sparse, states) in [(false, States::F32), (true, States::F32), (false, States::F16), (true, States::F16)] {
        for propagate in [Propagate::Classes, Propagate::Features] {
            for batch_size in [0, 50] {
                (config.engine.propagate, config.train.batch_size, config.engine.states) =
                    (propagate, batch_size, states);
                let count = Arc::new(Count::default());
                let driver = Counting { host: Host::new().unwrap(), count: Arc::clone(&count) };
                let device = Launcher::new(driver, config.engine.states);
                let run = Prepared::of(dataset(sparse), None, &config, RunName { seed: 1, fold: None }).unwrap();
                let mut trainer = Trainer::new(&device, &run, &config, None).unwrap();
                trainer.epoch().unwrap();
                // The first of these was under way when the epoch was scored.
                trainer.steps().unwrap();
                count.take();
                trainer.steps().unwrap();
                let [reads, sent, waits, written, launches] = count.take();
                let what = format!("sparse {sparse}, {states:?}, {propagate:?}, batches of {batch_size}");
                let steps = if batch_size == 0 { 1 } else { 4 };
                assert!(launches > 20 * steps, "{what}: something is counted");
                assert_eq!((reads, waits), (0, steps), "{what}");
                // Numbers of the units of a mini-batch, for targets and for who is near them.
                assert!(written <= steps * 8 * batch_size, "{what}: {written} bytes written");
                assert!(sent <= steps * MOST, "{what}: {sent} bytes sent");

                // Scores come through page-locked memory as well: the logits of twenty units, and verdicts.
                // The best parameters stay where they are.
                let best = trainer.epoch().unwrap().best;
                let [reads, sent, ..] = count.take();
                assert_eq!(reads, 0, "{what}: best {best}");
                assert!(sent <= steps * MOST + 20 * 5 * 4 + MOST, "{what}: {sent} bytes sent");
                // While they are read, the first step of the next epoch is under way.
                let beside = count.beside_scores.load(Relaxed);
                assert!(beside > 20, "{what}: {beside} launches");
            }
        }
    }
}

/// What responses cost that bend, and which way effects may go, is the device's business too.
#[test]
fn penalties_and_signs_are_not_read() {
    let mut config = Config::default();
    (config.engine.table, config.train.smoothness, config.train.router_noise) = (TableUse::Off, 1e-2.into(), 0.1);
    for (hop_weights, monotone) in [(HopWeights::Free, false), (HopWeights::Absolute, true)] {
        for (monb, batch_size) in [(Monb::Knots, 0), (Monb::Knots, 50), (Monb::Direct, 0)] {
            (config.model.hop_weights, config.engine.monb, config.train.batch_size) = (hop_weights, monb, batch_size);
            let mut dataset = binary();
            dataset.feature_names = (0..dataset.features.cols).map(|k| format!("x{k}")).collect();
            config.model.monotone = match monotone {
                true => vec![Monotone { feature: "x1".into(), rising: true }],
                false => Vec::new(),
            };
            let count = Arc::new(Count::default());
            let driver = Counting { host: Host::new().unwrap(), count: Arc::clone(&count) };
            let device = Launcher::new(driver, config.engine.states);
            let run = Prepared::of(dataset, None, &config, RunName { seed: 1, fold: None }).unwrap();
            let mut trainer = Trainer::new(&device, &run, &config, None).unwrap();
            trainer.epoch().unwrap();
            trainer.steps().unwrap();
            count.take();
            trainer.steps().unwrap();
            let [reads, sent, waits, written, launches] = count.take();
            let what = format!("{hop_weights:?}, {monb:?}, batches of {batch_size}");
            let steps = if batch_size == 0 { 1 } else { 4 };
            assert!(launches > 20 * steps, "{what}: something is counted");
            assert_eq!((reads, waits), (0, steps), "{what}");
            assert!(written <= steps * 8 * batch_size, "{what}: {written} bytes written");
            assert!(sent <= steps * MOST, "{what}: {sent} bytes sent");
        }
    }
}

/// Of batches of graphs their numbers go up, whatever the graphs are.
#[test]
fn batches_of_graphs_are_told_by_their_numbers() {
    const GRAPHS: usize = 8;
    let mut config = Config::default();
    config.engine.table = TableUse::Off;
    (config.train.dropout, config.train.batch_size) = (0.2, GRAPHS);
    for level in [Level::Graph, Level::Node] {
        for sparse in [false, true] {
            for propagate in [Propagate::Classes, Propagate::Features] {
                config.engine.propagate = propagate;
                let values = if sparse { Values::Few(3) } else { Values::Continuous };
                let recipe =
                    Recipe { seed: 4, nodes: 600, graphs: 60, features: 20, level, values, ..Recipe::default() };
                let dataset = recipe.problem().dataset;
                let features =
                    if sparse { Arc::new(as_sparse(&dataset.features)) } else { Arc::clone(&dataset.features) };
                let units = |graphs: std::ops::Range<usize>| -> Vec<u32> {
                    let held = |unit: &u32| graphs.contains(&dataset.graph_of(*unit as usize));
                    (0..dataset.units() as u32).filter(held).collect()
                };
                let split = Split { train: units(0..40), valid: units(40..60), test: Vec::new() };
                let dataset = Dataset { split, features, ..dataset };
                let count = Arc::new(Count::default());
                let driver = Counting { host: Host::new().unwrap(), count: Arc::clone(&count) };
                let device = Launcher::new(driver, config.engine.states);
                let run = Prepared::of(dataset, None, &config, RunName { seed: 1, fold: None }).unwrap();
                let mut trainer = Trainer::new(&device, &run, &config, None).unwrap();
                trainer.epoch().unwrap();
                // The first of these was under way when the epoch was scored.
                trainer.steps().unwrap();
                count.take();
                trainer.steps().unwrap();
                let [reads, sent, waits, written, launches] = count.take();
                let (what, steps) = (format!("{level:?}, sparse {sparse}, {propagate:?}"), 40 / GRAPHS);
                assert!(launches > 20 * steps, "{what}: something is counted");
                assert_eq!((reads, waits, written), (0, steps, steps * GRAPHS * size_of::<u32>()), "{what}");
                assert!(sent <= steps * MOST, "{what}: {sent} bytes sent");
            }
        }
    }
}

/// Of batches from a table of walks the numbers of their rows go up, whatever the table holds.
#[test]
fn batches_from_a_table_are_told_by_the_numbers_of_their_rows() {
    const UNITS: usize = 25;
    let mut config = Config::default();
    config.engine.table = TableUse::Force;
    config.train.dropout = 0.2;
    for (level, place) in
        [(Level::Node, DropoutPlace::Input), (Level::Node, DropoutPlace::Feature), (Level::Graph, DropoutPlace::Input)]
    {
        for batch_size in [0, UNITS] {
            (config.train.dropout_place, config.train.batch_size) = (place, batch_size);
            let recipe = match level {
                Level::Node => Recipe { seed: 6, nodes: 300, features: 11, ..Recipe::default() },
                Level::Graph => Recipe { seed: 7, nodes: 900, graphs: 300, features: 11, level, ..Recipe::default() },
            };
            let dataset = recipe.problem().dataset;
            let units: Vec<u32> = (0..300).collect();
            let split = Split { train: units[..200].to_vec(), valid: units[200..220].to_vec(), test: Vec::new() };
            let dataset = Dataset { split, ..dataset };
            let count = Arc::new(Count::default());
            let driver = Counting { host: Host::new().unwrap(), count: Arc::clone(&count) };
            let device = Launcher::new(driver, config.engine.states);
            let run = Prepared::of(dataset, None, &config, RunName { seed: 1, fold: None }).unwrap();
            let mut trainer = Trainer::new(&device, &run, &config, None).unwrap();
            assert!(trainer.table().is_some());
            trainer.epoch().unwrap();
            trainer.steps().unwrap();
            count.take();
            trainer.steps().unwrap();
            let [reads, sent, waits, written, launches] = count.take();
            let what = format!("{level:?}, {place:?}, batches of {batch_size}");
            let steps = if batch_size == 0 { 1 } else { 200 / UNITS };
            assert!(launches > 20 * steps, "{what}: something is counted");
            assert_eq!((reads, waits), (0, steps), "{what}");
            assert_eq!(written, steps * batch_size * size_of::<u32>(), "{what}");
            assert!(sent <= steps * MOST, "{what}: {sent} bytes sent");
        }
    }
}

/// A checkpoint, a score and a step that is taken back leave the training where it would have gone without them.
#[test]
fn the_first_step_of_an_epoch_is_taken_back_without_a_trace() {
    let mut config = Config::default();
    (config.train.dropout, config.train.epochs, config.train.patience) = (0.2, 5, 0);
    config.init.readout_scale = 1.0;
    for (table, batch_size) in [(TableUse::Off, 0), (TableUse::Off, 50), (TableUse::Force, 50)] {
        (config.engine.table, config.train.batch_size) = (table, batch_size);
        let device = Launcher::new(Host::new().unwrap(), config.engine.states);
        let run = Prepared::of(dataset(false), None, &config, RunName { seed: 1, fold: None }).unwrap();
        let mut straight = Trainer::new(&device, &run, &config, None).unwrap();
        let mut disturbed = Trainer::new(&device, &run, &config, None).unwrap();
        for epoch in 1..=config.train.epochs {
            let (record, other) = (straight.epoch().unwrap(), disturbed.epoch().unwrap());
            let what = format!("{table:?}, batches of {batch_size}, epoch {epoch}");
            assert_eq!(record, other, "{what}");
            let state = disturbed.state().unwrap();
            assert_eq!(state.progress.step as usize, epoch * if batch_size == 0 { 1 } else { 4 }, "{what}");
            disturbed.score(&run.dataset.split.train).unwrap();
            assert_eq!(disturbed.state().unwrap(), state, "{what}");
            assert_eq!(straight.state().unwrap(), state, "{what}");
            // A trainer that goes on from the checkpoint.
            if epoch == 3 {
                disturbed = Trainer::new(&device, &run, &config, Some(state)).unwrap();
            }
        }
        assert_eq!(straight.best().unwrap(), disturbed.best().unwrap());
    }
}
