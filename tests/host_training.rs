//! A whole training with the CUDA kernels ends where the CPU device ends.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

use harmonia::config::{Config, States};
use harmonia::datasets::{Dataset, Features, Labels, Level};
use harmonia::device::cpu::Cpu;
use harmonia::device::host::Host;
use harmonia::device::launcher::Launcher;
use harmonia::device::{Device, DropoutPlace};
use harmonia::graph::{Direction, Graph, Split};
use harmonia::seed::{Purpose, Stream};
use harmonia::train::{RunName, RunSummary, Session, Silent};
use std::sync::atomic::AtomicBool;

/// Both devices compute in f32 and sum in different orders; sixty steps may spread that.
const TOLERANCE: f64 = 1e-4;
/// Half states are rounded to 11 bits at every hop of every step.
const HALF_TOLERANCE: f64 = 2e-2;
const NODES: usize = 90;
const FEATURES: usize = 7;
const GRAPHS: usize = 9;

/// Labels that depend on a node's own features and on its neighbours'.
fn dataset(level: Level) -> Dataset {
    let mut rng = Stream::new(11, Purpose::SyntheticGraph, 0).rng();
    let size = NODES / GRAPHS;
    let graph_ptr: Vec<usize> =
        if level == Level::Node { vec![0, NODES] } else { (0..=GRAPHS).map(|g| g * size).collect() };
    let mut edges = Vec::new();
    for range in graph_ptr.windows(2) {
        let nodes = range[1] - range[0];
        edges.extend(
            (0..2 * nodes).map(|_| ((range[0] + rng.below(nodes)) as u32, (range[0] + rng.below(nodes)) as u32)),
        );
    }
    let graph = Graph::from_edges(NODES, &edges, None, Direction::Undirected).unwrap();
    let values: Vec<f32> = (0..NODES * FEATURES).map(|_| (2.0 * rng.uniform() - 1.0) as f32).collect();
    let units = if level == Level::Node { NODES } else { GRAPHS };
    let ids =
        (0..units).map(|unit| u32::from(values[unit * FEATURES] > 0.0) + u32::from(values[unit * FEATURES + 1] > 0.3));
    let labels = Labels::Classes { ids: ids.collect(), classes: 3 };
    let split = Split::fractions(&(0..units as u32).collect::<Vec<_>>(), [60.0, 20.0, 20.0], 0);
    let features = Features::new(NODES, FEATURES, values).unwrap();
    Dataset::new("training", graph, graph_ptr, features, labels, level, split).unwrap()
}

fn config() -> Config {
    let mut config = Config::default();
    config.train.epochs = 60;
    config.train.learning_rate = 1e-2;
    config.train.patience = 0;
    config.train.clip_norm = 1.0;
    config.train.dropout = 0.2;
    config
}

fn train<D: Device<Real = f32>>(device: &D, dataset: &Dataset, config: &Config) -> (RunSummary, Vec<f32>) {
    let stop = AtomicBool::new(false);
    Session { device, config, stop: &stop }
        .run_one(dataset, None, RunName { seed: 3, fold: None }, None, &mut Silent)
        .unwrap()
}

/// Trains on both and compares parameters and scores.
fn compare(level: Level, config: &Config, tolerance: f64) {
    let dataset = dataset(level);
    let cpu_config = Config { engine: Default::default(), ..config.clone() };
    let (expected, best) = train(&Cpu::new(), &dataset, &cpu_config);
    let device = Launcher::new(Host::new().unwrap(), config.engine.states);
    let (found, parameters) = train(&device, &dataset, config);
    assert_eq!(found.best_epoch, expected.best_epoch);
    let largest = best.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let apart = best.iter().zip(&parameters).fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(f64::from(apart / largest) < tolerance, "parameters are {apart} apart");
    for (found, expected) in [(found.test, expected.test), (found.train, expected.train)] {
        let (found, expected) = (found.nll.unwrap(), expected.nll.unwrap());
        assert!((found - expected).abs() < tolerance * expected, "loss {found}, expected {expected}");
    }
}

#[test]
fn a_node_task_ends_where_the_cpu_ends() {
    compare(Level::Node, &config(), TOLERANCE);
}

#[test]
fn a_graph_task_in_batches_ends_where_the_cpu_ends() {
    let mut config = config();
    config.train.batch_size = 2;
    config.train.dropout_place = DropoutPlace::Hidden;
    config.train.epochs = 20;
    compare(Level::Graph, &config, TOLERANCE);
}

#[test]
fn large_experts_end_where_the_cpu_ends() {
    let mut config = config();
    (config.model.hidden, config.model.bases) = (vec![64, 32], 64);
    config.train.epochs = 20;
    compare(Level::Node, &config, TOLERANCE);
}

#[test]
fn half_states_end_near() {
    let mut config = config();
    config.train.epochs = 20;
    for states in [States::F16, States::Bf16] {
        config.engine.states = states;
        compare(Level::Node, &config, HALF_TOLERANCE);
    }
}

/// A sum whose order depended on which thread or block comes first would differ.
#[test]
fn the_same_seed_gives_the_same_bits_in_any_order_of_threads_and_blocks() {
    let (dataset, mut config) = (dataset(Level::Node), config());
    config.train.epochs = 5;
    let parameters = |host: Host| train(&Launcher::new(host, States::F32), &dataset, &config).1;
    let expected = parameters(Host::new().unwrap());
    for seed in 1..4 {
        assert_eq!(parameters(Host::new().unwrap().in_random_order(seed)), expected);
    }
}
