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
use harmonia::device::host::{Host, Lane, Memory};
use harmonia::device::launcher::{Blocks, Driver, Fill, Gemm, Launch, Launcher};
use harmonia::error::{Error, Result};
use harmonia::graph::{Direction, Split};
use harmonia::session::{Session, Silent};
use harmonia::train::{Prepared, RunName, Trainer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes in use, now and at most.
#[derive(Default)]
struct Count {
    now: AtomicUsize,
    most: AtomicUsize,
    /// Brought in panels.
    brought: AtomicUsize,
    /// Lanes cannot be had.
    no_lanes: AtomicBool,
}

/// The host driver, counting what it hands out; it claims to have `free` bytes.
struct Counting {
    host: Host,
    count: Arc<Count>,
    free: usize,
}

struct Counted {
    memory: Memory,
    _bytes: Bytes,
}

struct CountedLane {
    lane: Lane,
    _places: [Bytes; 2],
}

/// Bytes that somebody has.
struct Bytes {
    bytes: usize,
    count: Arc<Count>,
}

impl Counting {
    fn counted(&self, bytes: usize) -> Bytes {
        let now = self.count.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.count.most.fetch_max(now, Ordering::Relaxed);
        Bytes { bytes, count: Arc::clone(&self.count) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.count.now.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[allow(unsafe_code)]
impl Driver for Counting {
    type Memory = Counted;
    type Mailbox = Vec<u8>;
    type Lane = CountedLane;

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
        Ok(Counted { memory: self.host.allocate(bytes)?, _bytes: self.counted(bytes) })
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
    fn lane(&self, bytes: usize) -> Result<CountedLane> {
        if self.count.no_lanes.load(Ordering::Relaxed) {
            return Err(Error::Device("no room for a lane".into()));
        }
        let places = [self.counted(bytes), self.counted(bytes)];
        Ok(CountedLane { lane: self.host.lane(bytes)?, _places: places })
    }
    fn place(&self, lane: &CountedLane, place: usize) -> u64 {
        self.host.place(&lane.lane, place)
    }
    fn bring(&self, lane: &mut CountedLane, place: usize, bytes: usize, fill: Fill<'_>) -> Result<()> {
        self.count.brought.fetch_add(bytes, Ordering::Relaxed);
        self.host.bring(&mut lane.lane, place, bytes, fill)
    }
    fn arrive(&self, lane: &mut CountedLane, place: usize) -> Result<()> {
        self.host.arrive(&mut lane.lane, place)
    }
    fn leave(&self, lane: &mut CountedLane, place: usize) -> Result<()> {
        self.host.leave(&mut lane.lane, place)
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

/// Under a budget, too; and as much is brought as was planned.
#[test]
fn a_run_in_panels_stays_within_its_plan_and_its_budget() {
    let recipe = Recipe { nodes: 1500, features: 12, ..Recipe::default() };
    let dataset = dataset(&recipe);
    let mut base = config(&recipe);
    base.engine = Engine { propagate: Propagate::Classes, table: TableUse::Off, ..Engine::default() };
    base.train.epochs = 4;
    let mut tabled = base.clone();
    tabled.engine = Engine { table: TableUse::Force, table_points: 33, ..tabled.engine };
    tabled.train.batch_size = 200;
    let blocks = Blocks { backward: 64, states: 1 << 12, product_rows: 30, ..Blocks::default() };
    let mut seen = Vec::new();
    for (config, least) in [(&base, false), (&base, true), (&tabled, false), (&tabled, true)] {
        let mut config = config.clone();
        let (device, count) = device(usize::MAX, config.engine.states);
        let device = device.with_blocks(blocks);
        let whole = prepared(&dataset, &config).memory(&device, &config).device_bytes();
        let fits = |&budget: &usize| {
            let engine = Engine { device_memory: budget, ..config.engine };
            let config = Config { engine, ..config.clone() };
            prepared(&dataset, &config).memory(&device, &config).check(&device).is_ok()
        };
        let budgets: Vec<usize> = (1..100).map(|percent| whole * (100 - percent) / 100).filter(fits).collect();
        config.engine.device_memory = *if least { budgets.last() } else { budgets.first() }.unwrap();
        let run = prepared(&dataset, &config);
        let plan = run.memory(&device, &config);
        let mut trainer = Trainer::new(&device, &run, &config, None).unwrap();
        trainer.epoch().unwrap();
        // The first of these was under way when the epoch was scored.
        trainer.steps().unwrap();
        count.brought.store(0, Ordering::Relaxed);
        trainer.steps().unwrap();
        let brought = count.brought.load(Ordering::Relaxed);
        let steps =
            if config.train.batch_size == 0 { 1 } else { dataset.split.train.len().div_ceil(config.train.batch_size) };
        let planned: usize = plan.panels.iter().map(|panels| panels.step_bytes).sum();
        // Offsets of rows are counted by the node, panels of a walk are rounded.
        assert!(
            brought <= planned * steps && planned * steps <= brought * 3 / 2,
            "{brought}, planned {planned} x {steps}: {:?}",
            plan.panels
        );
        trainer.evaluate(&dataset.split.test).unwrap();
        let most = count.most.load(Ordering::Relaxed);
        let planned = plan.device_bytes();
        assert!(
            most <= planned && planned <= config.engine.device_memory,
            "{most}, planned {planned}: {:?}",
            plan.panels
        );
        seen.extend(plan.panels.iter().map(|panels| panels.what));
    }
    for what in ["features", "walk", "table of walks"] {
        assert!(seen.contains(&what), "{what} never came in panels: {seen:?}");
    }
}

/// A device that has no memory for two places says so, and the run ends with it.
#[test]
fn places_that_cannot_be_allocated_are_an_error() {
    let recipe = Recipe { nodes: 1500, features: 12, ..Recipe::default() };
    let (dataset, mut config) = (dataset(&recipe), config(&recipe));
    config.engine = Engine { propagate: Propagate::Classes, table: TableUse::Off, ..Engine::default() };
    let (device, count) = device(usize::MAX, States::F32);
    let device = device.with_blocks(Blocks { backward: 64, states: 1 << 12, product_rows: 30, ..Blocks::default() });
    config.engine.device_memory = prepared(&dataset, &config).memory(&device, &config).device_bytes() * 9 / 10;
    count.no_lanes.store(true, Ordering::Relaxed);
    let run = prepared(&dataset, &config);
    let mut trainer = Trainer::new(&device, &run, &config, None).unwrap();
    let message = trainer.epoch().unwrap_err().to_string();
    assert!(message.contains("no room for a lane"), "{message}");
    drop(trainer);
    assert_eq!(count.now.load(Ordering::Relaxed), 0, "everything was given back");
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
