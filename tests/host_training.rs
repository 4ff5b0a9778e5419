//! A whole training with the CUDA kernels ends where the CPU device ends.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

use harmonia::Stop;
use harmonia::config::DropoutPlace;
use harmonia::config::{Config, Engine, Monb, Propagate, Sparse, States, TableUse};
use harmonia::dataset::{Dataset, Features, Labels, Level, SparseRows, Values};
use harmonia::device::Device;
use harmonia::device::cpu::Cpu;
use harmonia::device::host::Host;
use harmonia::device::launcher::{Blocks, Launcher};
use harmonia::graph::{Direction, Graph, Split};
use harmonia::runs::RunSummary;
use harmonia::seed::{Purpose, Stream};
use harmonia::session::{Session, Silent};
use harmonia::train::{Prepared, RunName, Trainer};

/// Both devices compute in f32 and sum in different orders; sixty steps may spread that.
const TOLERANCE: f64 = 1e-4;
/// Half states are rounded to 11 bits at every hop of every step.
const HALF_TOLERANCE: f64 = 2e-2;
const NODES: usize = 90;
const FEATURES: usize = 7;
const GRAPHS: usize = 9;

/// What part of a sparse X is zero.
const ZEROS: f64 = 0.7;

/// Labels that depend on a node's own features and on its neighbours'.
fn dataset(level: Level, sparse: bool) -> Dataset {
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
    let mut values: Vec<f32> = (0..NODES * FEATURES).map(|_| (2.0 * rng.uniform() - 1.0) as f32).collect();
    let units = if level == Level::Node { NODES } else { GRAPHS };
    let ids =
        (0..units).map(|unit| u32::from(values[unit * FEATURES] > 0.0) + u32::from(values[unit * FEATURES + 1] > 0.3));
    let labels = Labels::Classes { ids: ids.collect(), classes: 3 };
    if sparse {
        values.iter_mut().filter(|_| rng.uniform() < ZEROS).for_each(|value| *value = 0.0);
    }
    let split = Split::fractions(&(0..units as u32).collect::<Vec<_>>(), [60.0, 20.0, 20.0], 0);
    let features = if sparse {
        let entries = |row: &[f32]| (0..).zip(row).filter(|(_, x)| **x != 0.0).map(|(k, &x)| (k, x)).collect();
        let rows = SparseRows::collect(values.chunks(FEATURES).map(entries));
        Features::held(NODES, FEATURES, Values::Sparse(rows)).unwrap()
    } else {
        Features::new(NODES, FEATURES, values).unwrap()
    };
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
    let stop = Stop::new();
    Session { device, config, stop: &stop }
        .run_one(dataset, None, RunName { seed: 3, fold: None }, None, &mut Silent)
        .unwrap()
}

/// So that some dozen rows are summed over in parts.
fn launcher(host: Host, states: States) -> Launcher<Host> {
    Launcher::new(host, states).with_blocks(Blocks { product_rows: 8, ..Blocks::default() })
}

/// Trains on both and compares parameters and scores. The CPU computes as it likes best, in f32.
fn compare(level: Level, sparse: bool, config: &Config, tolerance: f64) {
    let dataset = dataset(level, sparse);
    let engine = Engine { table: config.engine.table, ..Engine::default() };
    let cpu_config = Config { engine, ..config.clone() };
    let (expected, best) = train(&Cpu::new(), &dataset, &cpu_config);
    let device = launcher(Host::new().unwrap(), config.engine.states);
    let (found, parameters) = train(&device, &dataset, config);
    let engine = config.engine;
    assert_eq!(found.best_epoch, expected.best_epoch, "{level:?}, sparse {sparse}, {engine:?}");
    let largest = best.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let apart = best.iter().zip(&parameters).fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(
        f64::from(apart / largest) < tolerance,
        "parameters are {apart} apart: {level:?}, sparse {sparse}, {engine:?}"
    );
    for (found, expected) in [(found.test, expected.test), (found.train, expected.train)] {
        let (found, expected) = (found.get("nll").unwrap(), expected.get("nll").unwrap());
        assert!((found - expected).abs() <= tolerance * expected, "loss {found}, expected {expected}: {engine:?}");
    }
}

/// Every way to compute a step.
fn engines(states: States) -> Vec<Engine> {
    let mut all = Vec::new();
    for monb in [Monb::Direct, Monb::Knots] {
        for propagate in [Propagate::Features, Propagate::Classes] {
            all.extend([Sparse::Off, Sparse::Auto].map(|sparse| Engine {
                monb,
                propagate,
                sparse,
                states,
                table: TableUse::Off,
                ..Engine::default()
            }));
        }
    }
    all
}

#[test]
fn a_node_task_ends_where_the_cpu_ends() {
    compare(Level::Node, false, &config(), TOLERANCE);
}

#[test]
fn training_from_a_table_ends_where_the_cpu_ends() {
    let mut config = config();
    config.engine.table = TableUse::Force;
    for (level, sparse) in [(Level::Node, false), (Level::Node, true), (Level::Graph, false), (Level::Graph, true)] {
        for place in [DropoutPlace::Input, DropoutPlace::Feature] {
            // As many steps either way: each may make the rounding of those before it larger.
            (config.train.batch_size, config.train.epochs) = if sparse { (7, 3) } else { (0, 20) };
            config.train.dropout_place = place;
            compare(level, sparse, &config, TOLERANCE);
        }
    }
}

#[test]
fn every_way_to_compute_a_step_ends_where_the_cpu_ends() {
    let mut config = config();
    config.train.epochs = 20;
    for (level, sparse) in [(Level::Node, false), (Level::Node, true), (Level::Graph, false), (Level::Graph, true)] {
        config.train.batch_size = if level == Level::Graph { 2 } else { 0 };
        config.train.dropout_place = if sparse { DropoutPlace::Feature } else { DropoutPlace::Input };
        for engine in engines(States::F32) {
            config.engine = engine;
            compare(level, sparse, &config, TOLERANCE);
        }
    }
}

#[test]
fn a_graph_task_in_batches_ends_where_the_cpu_ends() {
    let mut config = config();
    config.train.batch_size = 2;
    config.train.dropout_place = DropoutPlace::Hidden;
    config.train.epochs = 20;
    compare(Level::Graph, false, &config, TOLERANCE);
}

#[test]
fn large_experts_end_where_the_cpu_ends() {
    let mut config = config();
    (config.model.hidden, config.model.bases) = (vec![64, 32], 64);
    config.train.epochs = 20;
    compare(Level::Node, false, &config, TOLERANCE);
}

#[test]
fn half_states_end_near() {
    let mut config = config();
    config.train.epochs = 20;
    for states in [States::F16, States::Bf16] {
        for engine in engines(states) {
            config.engine = engine;
            compare(Level::Node, true, &config, HALF_TOLERANCE);
        }
        compare(Level::Graph, false, &config, HALF_TOLERANCE);
    }
}

/// A sum whose order depended on which thread or block comes first would differ.
#[test]
fn the_same_seed_gives_the_same_bits_in_any_order_of_threads_and_blocks() {
    let (dataset, mut config) = (dataset(Level::Node, true), config());
    config.train.epochs = 5;
    for engine in engines(States::F32) {
        config.engine = engine;
        let parameters = |host: Host| train(&launcher(host, States::F32), &dataset, &config).1;
        let expected = parameters(Host::new().unwrap());
        for seed in 1..3 {
            assert_eq!(parameters(Host::new().unwrap().in_random_order(seed)), expected, "{engine:?}");
        }
    }
}

/// Experts of one piece that get more with the first update: steps whose tables were too small are taken again, and nothing
/// of it is left in the result.
#[test]
fn tables_that_turn_out_too_small_change_nothing() {
    let mut config = config();
    config.engine = Engine { monb: Monb::Knots, table: TableUse::Off, ..Engine::default() };
    for (level, batch_size) in [(Level::Node, 0), (Level::Node, 9), (Level::Graph, 2)] {
        config.train.batch_size = batch_size;
        let run = Prepared::of(dataset(level, false), None, &config, RunName { seed: 3, fold: None }).unwrap();
        let trained = |blocks: Blocks| {
            let device = Launcher::new(Host::new().unwrap(), States::F32).with_blocks(blocks);
            let mut state = Trainer::new(&device, &run, &config, None).unwrap().state().unwrap();
            for layers in &run.layout.experts {
                // On everywhere.
                state.parameters[layers[0].weight.clone()].fill(0.0);
                state.parameters[layers[0].bias.clone()].fill(0.5);
            }
            let mut trainer = Trainer::new(&device, &run, &config, Some(state)).unwrap();
            let losses: Vec<f64> = (0..4).map(|_| trainer.epoch().unwrap().train_loss).collect();
            (losses, trainer.state().unwrap())
        };
        let expected = trained(Blocks::default());
        let found = trained(Blocks { pieces: 1, ..Blocks::default() });
        assert!(found.1.parameters.iter().all(|value| value.is_finite()));
        assert_eq!(found, expected, "{level:?}, batches of {batch_size}");
    }
}
