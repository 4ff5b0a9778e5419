//! Steps wait for nothing: what crosses between host and device while an epoch is under way, counted by the driver.
//!
//! The driver is the host's, so that no GPU is needed; what it is asked for is what a GPU would be asked for. (Allocations are
//! not counted here: the host's are fresh, so that sanitizers see them; those of a GPU come back from the step before.)

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::as_sparse;
use common::problems::{Recipe, Task, Values};
use harmonia::Result;
use harmonia::config::{Config, Monb, Propagate, TableUse};
use harmonia::dataset::{Dataset, Level};
use harmonia::device::host::{Host, Memory};
use harmonia::device::launcher::{Driver, Fill, Gemm, Launch, Launcher};
use harmonia::graph::Split;
use harmonia::train::{Prepared, RunName, Trainer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes a step may move either way, beside the numbers of a mini-batch.
const MOST: usize = 1 << 10;

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
    type Memory = Memory;
    type Mailbox = Vec<u8>;
    type Lane = <Host as Driver>::Lane;

    fn name(&self) -> String {
        "a counting device".into()
    }
    fn shared_limit(&self) -> usize {
        self.host.shared_limit()
    }
    fn free_bytes(&self) -> Result<Option<usize>> {
        self.host.free_bytes()
    }
    fn allocate(&self, bytes: usize) -> Result<Memory> {
        self.host.allocate(bytes)
    }
    fn address(&self, memory: &Memory) -> u64 {
        self.host.address(memory)
    }
    fn size(&self, memory: &Memory) -> usize {
        self.host.size(memory)
    }
    fn write(&self, memory: &mut Memory, bytes: &[u8]) -> Result<()> {
        self.count.written.fetch_add(bytes.len(), Relaxed);
        self.host.write(memory, bytes)
    }
    fn read(&self, bytes: &mut [u8], memory: &Memory) -> Result<()> {
        self.count.reads.fetch_add(1, Relaxed);
        self.host.read(bytes, memory)
    }
    fn mailbox(&self, bytes: usize) -> Result<Vec<u8>> {
        self.host.mailbox(bytes)
    }
    fn send(&self, mailbox: &mut Vec<u8>, memory: &Memory, bytes: usize) -> Result<()> {
        self.count.sent.fetch_add(bytes, Relaxed);
        self.host.send(mailbox, memory, bytes)
    }
    fn receive(&self, bytes: &mut [u8], mailbox: &Vec<u8>) -> Result<()> {
        self.count.waits.fetch_add(1, Relaxed);
        self.host.receive(bytes, mailbox)
    }
    fn lane(&self, bytes: usize) -> Result<Self::Lane> {
        self.host.lane(bytes)
    }
    fn place(&self, lane: &Self::Lane, place: usize) -> u64 {
        self.host.place(lane, place)
    }
    fn bring(&self, lane: &mut Self::Lane, place: usize, bytes: usize, fill: Fill<'_>) -> Result<()> {
        self.host.bring(lane, place, bytes, fill)
    }
    fn arrive(&self, lane: &mut Self::Lane, place: usize) -> Result<()> {
        self.host.arrive(lane, place)
    }
    fn leave(&self, lane: &mut Self::Lane, place: usize) -> Result<()> {
        self.host.leave(lane, place)
    }
    fn clear(&self, memory: &mut Memory) -> Result<()> {
        self.host.clear(memory)
    }
    unsafe fn launch(&self, launch: &Launch) -> Result<()> {
        self.count.launches.fetch_add(1, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { self.host.launch(launch) }
    }
    unsafe fn gemm(&self, product: &Gemm) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.host.gemm(product) }
    }
}

fn dataset(sparse: bool) -> Dataset {
    let recipe = Recipe {
        seed: 3,
        nodes: 300,
        features: 40,
        task: Task::Classes(5),
        values: if sparse { Values::Few(3) } else { Values::Continuous },
        ..Recipe::default()
    };
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
    for sparse in [false, true] {
        for propagate in [Propagate::Classes, Propagate::Features] {
            for batch_size in [0, 50] {
                (config.engine.propagate, config.train.batch_size) = (propagate, batch_size);
                let count = Arc::new(Count::default());
                let driver = Counting { host: Host::new().unwrap(), count: Arc::clone(&count) };
                let device = Launcher::new(driver, config.engine.states);
                let run = Prepared::of(dataset(sparse), None, &config, RunName { seed: 1, fold: None }).unwrap();
                let mut trainer = Trainer::new(&device, &run, &config, None).unwrap();
                trainer.epoch().unwrap();
                count.take();
                trainer.steps().unwrap();
                let [reads, sent, waits, written, launches] = count.take();
                let what = format!("sparse {sparse}, {propagate:?}, batches of {batch_size}");
                let steps = if batch_size == 0 { 1 } else { 4 };
                assert!(launches > 20 * steps, "{what}: something is counted");
                assert_eq!((reads, waits), (0, steps), "{what}");
                // Rows and targets of a mini-batch.
                assert!(written <= steps * (MOST + 8 * batch_size), "{what}: {written} bytes written");
                assert!(sent <= steps * MOST, "{what}: {sent} bytes sent");

                // Scores come through page-locked memory as well: the logits of twenty units, and verdicts.
                // The best parameters stay where they are.
                let best = trainer.epoch().unwrap().best;
                let [reads, sent, ..] = count.take();
                assert_eq!(reads, 0, "{what}: best {best}");
                assert!(sent <= steps * MOST + 20 * 5 * 4 + MOST, "{what}: {sent} bytes sent");
            }
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
