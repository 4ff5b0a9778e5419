//! Ops of the CPU device on a graph of the shape of a mid-size benchmark: `cargo bench`.
//!
//! Each group checks its answer before it is timed. Throughput counts the bytes an op must move at least once.

#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use harmonia::batch::{Batch, Batches};
use harmonia::config::Config;
use harmonia::datasets::{Dataset, Features, Labels};
use harmonia::device::Device;
use harmonia::device::cpu::Cpu;
use harmonia::graph::{Direction, Graph, Split, Walk};
use harmonia::model::{Initialisation, Layout, Randomness, Resident, initial_parameters};
use harmonia::seed::{Purpose, Stream};
use rayon::iter::ParallelIterator;

const NODES: usize = 20_000;
const DEGREE: usize = 10;
const FEATURES: usize = 64;
const CLASSES: usize = 7;

/// A random graph; features continuous, or 0/1 so that the table of distinct values is used.
fn dataset(binary: bool) -> Dataset {
    let mut rng = Stream::new(1, Purpose::SyntheticGraph, 0).rng();
    let edges: Vec<(u32, u32)> =
        (0..NODES * DEGREE / 2).map(|_| (rng.below(NODES) as u32, rng.below(NODES) as u32)).collect();
    let graph = Graph::from_edges(NODES, &edges, None, Direction::Undirected).unwrap();
    let value = |x: f64| if binary { f64::from(x < 0.1) } else { 2.0 * x - 1.0 };
    let values = (0..NODES * FEATURES).map(|_| value(rng.uniform()) as f32).collect();
    let labels = Labels::Classes { ids: (0..NODES).map(|_| rng.below(CLASSES) as u32).collect(), classes: CLASSES };
    let split = Split::fractions(&(0..NODES as u32).collect::<Vec<_>>(), [60.0, 20.0, 20.0], 0);
    Dataset::nodes("bench", graph, Features::new(NODES, FEATURES, values).unwrap(), labels, split).unwrap()
}

fn layout() -> Layout {
    Layout::new(Config::default().architecture(FEATURES, CLASSES)).unwrap()
}

fn batch(dataset: &Dataset) -> Batch {
    Batches::new(dataset, Walk::default()).whole(&dataset.split.train)
}

fn propagate(criterion: &mut Criterion) {
    let device = Cpu::<f32>::new();
    let dataset = dataset(false);
    let inputs = device.inputs(&batch(&dataset)).unwrap();
    let hops = 4;
    let theta = device.upload(&vec![1.0 / hops as f32; hops * FEATURES]).unwrap();
    let mut d_theta = device.zeros(hops * FEATURES).unwrap();
    let mut responses = device.matrix(NODES, FEATURES).unwrap();
    responses.panels_mut().for_each(|panel| panel.data.fill(1.0));
    let mut state = device.matrix(NODES, FEATURES).unwrap();
    device.propagate_forward(&mut state, &responses, &theta, &inputs).unwrap();
    // M^t 1 = 1 and the hop weights sum to one.
    assert!(device.download_matrix(&state).unwrap().iter().all(|h| (h - 1.0).abs() < 1e-4));

    let edges = dataset.graph.directed_edges();
    let mut group = criterion.benchmark_group("propagate");
    group.throughput(Throughput::Bytes(((hops - 1) * (edges * (FEATURES * 4 + 4) + 2 * NODES * FEATURES * 4)) as u64));
    group.bench_function("forward", |bencher| {
        bencher.iter(|| device.propagate_forward(&mut state, &responses, &theta, &inputs).unwrap());
    });
    group.bench_function("backward", |bencher| {
        bencher.iter(|| device.propagate_backward(&mut state, &mut d_theta, &responses, &theta, &inputs).unwrap());
    });
    group.finish();
}

/// One whole training step: forward, loss and backward.
fn step(criterion: &mut Criterion) {
    let device = Cpu::<f32>::new();
    let layout = layout();
    let start = Initialisation { readout_scale: 1.0, ..Initialisation::default() };
    let parameters = device.upload(&initial_parameters(&layout, start, 0)).unwrap();
    let mut group = criterion.benchmark_group("step");
    group.sample_size(10);
    group.throughput(Throughput::Elements((NODES * FEATURES) as u64));
    for (name, binary) in [("continuous features", false), ("0/1 features", true)] {
        let dataset = dataset(binary);
        let mut resident = Resident::new(&device, &layout, batch(&dataset)).unwrap();
        let mut gradient = device.zeros(layout.len()).unwrap();
        let loss = resident.gradient(&mut gradient, &parameters, &Randomness::none()).unwrap();
        // Random labels and small logits: about the entropy of the classes.
        assert!((loss - (CLASSES as f64).ln()).abs() < 1.0, "{loss}");
        group.bench_function(name, |bencher| {
            bencher.iter(|| resident.gradient(&mut gradient, &parameters, &Randomness::none()).unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, propagate, step);
criterion_main!(benches);
