//! What a training run allocates on a device stays within what was planned.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

mod common;

use common::as_sparse;
use common::problems::{Recipe, Task, Values};
use harmonia::Stop;
use harmonia::config::DropoutPlace;
use harmonia::config::{Config, Engine, Monb, Propagate, States, TableUse};
use harmonia::dataset::{Dataset, Level};
use harmonia::device::host::{Host, Memory};
use harmonia::device::launcher::{Driver, Gemm, Launch, Launcher};
use harmonia::error::Result;
use harmonia::graph::{Direction, Split};
use harmonia::session::{Session, Silent};
use harmonia::train::{Prepared, RunName};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes in use, now and at most.
#[derive(Default)]
struct Count {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// The host driver, counting what it hands out; it claims to have `free` bytes.
struct Counting {
    host: Host,
    count: Arc<Count>,
    free: usize,
}

struct Counted {
    memory: Memory,
    bytes: usize,
    count: Arc<Count>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.now.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[allow(unsafe_code)]
impl Driver for Counting {
    type Memory = Counted;
    type Mailbox = Vec<u8>;

    fn name(&self) -> String {
        "a counting device".into()
    }
    fn shared_limit(&self) -> usize {
        self.host.shared_limit()
    }
    fn free_bytes(&self) -> Result<Option<usize>> {
        Ok(Some(self.free))
    }
    fn allocate(&self, bytes: usize) -> Result<Counted> {
        let now = self.count.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.count.most.fetch_max(now, Ordering::Relaxed);
        Ok(Counted { memory: self.host.allocate(bytes)?, bytes, count: Arc::clone(&self.count) })
    }
    fn address(&self, memory: &Counted) -> u64 {
        self.host.address(&memory.memory)
    }
    fn size(&self, memory: &Counted) -> usize {
        self.host.size(&memory.memory)
    }
    fn write(&self, memory: &mut Counted, bytes: &[u8]) -> Result<()> {
        self.host.write(&mut memory.memory, bytes)
    }
    fn read(&self, bytes: &mut [u8], memory: &Counted) -> Result<()> {
        self.host.read(bytes, &memory.memory)
    }
    fn mailbox(&self, bytes: usize) -> Result<Vec<u8>> {
        self.host.mailbox(bytes)
    }
    fn send(&self, mailbox: &mut Vec<u8>, memory: &Counted, bytes: usize) -> Result<()> {
        self.host.send(mailbox, &memory.memory, bytes)
    }
    fn receive(&self, bytes: &mut [u8], mailbox: &Vec<u8>) -> Result<()> {
        self.host.receive(bytes, mailbox)
    }
    fn clear(&self, memory: &mut Counted) -> Result<()> {
        self.host.clear(&mut memory.memory)
    }
    unsafe fn launch(&self, launch: &Launch) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.host.launch(launch) }
    }
    unsafe fn gemm(&self, product: &Gemm) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.host.gemm(product) }
    }
}

fn device(free: usize, states: States) -> (Launcher<Counting>, Arc<Count>) {
    let count = Arc::new(Count::default());
    let driver = Counting { host: Host::new().unwrap(), count: Arc::clone(&count), free };
    (Launcher::new(driver, states), count)
}

/// A random problem with validation and test units.
fn dataset(recipe: &Recipe) -> Dataset {
    let mut dataset = recipe.problem().dataset;
    let units: Vec<u32> = (0..dataset.units() as u32).collect();
    dataset.split = Split::fractions(&units, [50.0, 20.0, 30.0], 1);
    dataset
}

fn prepared(dataset: &Dataset, config: &Config) -> Prepared {
    Prepared::of(dataset.clone(), None, config, RunName { seed: 0, fold: None }).unwrap()
}

/// Trains for a moment, and holds what was taken against what was planned.
fn check(dataset: &Dataset, config: &Config, context: &dyn std::fmt::Debug) {
    let (device, count) = device(usize::MAX, config.engine.states);
    let planned = prepared(dataset, config).memory(&device, config).device_bytes();
    let stop = Stop::new();
    let session = Session { device: &device, config, stop: &stop };
    session.run_one(dataset, None, RunName { seed: 0, fold: None }, None, &mut Silent).unwrap();
    let most = count.most.load(Ordering::Relaxed);
    let engine = config.engine;
    assert!(most <= planned, "planned {planned}, took {most}: {engine:?} {context:?}");
    assert!(planned <= 4 * most, "planned {planned} for {most}: too careful to be of use: {engine:?} {context:?}");
}

fn recipes() -> [Recipe; 6] {
    let base = Recipe { nodes: 200, features: 8, ..Recipe::default() };
    [
        base.clone(),
        Recipe { nodes: 300, task: Task::Multi(100), direction: Direction::Directed, weighted: true, ..base.clone() },
        Recipe { nodes: 600, graphs: 60, level: Level::Graph, ..base.clone() },
        Recipe { nodes: 1300, hub: 1200, features: 3, direction: Direction::Directed, ..base.clone() },
        Recipe { nodes: 1500, features: 40, values: Values::Few(2), ..base.clone() },
        Recipe { nodes: 400, features: 5, hidden: vec![300, 40], ..base },
    ]
}

fn config(recipe: &Recipe) -> Config {
    let mut config = Config::default();
    config.model.hidden.clone_from(&recipe.hidden);
    config.train.epochs = 3;
    config.train.batch_size = if recipe.graphs > 1 { 8 } else { 0 };
    config.train.dropout = 0.1;
    config
}

#[test]
fn a_run_stays_within_its_plan() {
    for recipe in recipes() {
        let mut config = config(&recipe);
        config.train.dropout_place = DropoutPlace::Hidden;
        check(&dataset(&recipe), &config, &recipe);
    }
}

#[test]
fn every_way_to_compute_a_step_stays_within_its_plan() {
    for recipe in recipes() {
        let mut config = config(&recipe);
        let dense = dataset(&recipe);
        let sparse = Dataset { features: Arc::new(as_sparse(&dense.features)), ..dense.clone() };
        for monb in [Monb::Direct, Monb::Knots] {
            for propagate in [Propagate::Features, Propagate::Classes] {
                for states in [States::F32, States::Bf16] {
                    config.engine = Engine { monb, propagate, states, table: TableUse::Off, ..Engine::default() };
                    check(&dense, &config, &recipe);
                    check(&sparse, &config, &recipe);
                }
            }
        }
    }
}

#[test]
fn a_run_that_does_not_fit_is_refused_with_both_figures() {
    let dataset = dataset(&Recipe::default());
    let config = Config::default();
    let (device, _) = device(100 << 20, States::F32);
    let plan = prepared(&dataset, &config).memory(&device, &config);
    let message = plan.check(&device).unwrap_err().to_string();
    assert!(message.starts_with("out of memory: planned 0."), "{message}");
    assert!(message.contains("free 0.10 GiB on a counting device"), "{message}");
}
