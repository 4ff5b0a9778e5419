//! Every op on a graph of the shape of a mid-size benchmark: `cargo bench`. On the CPU always; on a GPU where there is
//! one, timed by its own events.
//!
//! The answer of each device is checked before it is timed. Throughput counts the bytes an op must move at least once.

#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use harmonia::batch::{Batch, Batches};
use harmonia::config::{Config, States};
use harmonia::datasets::{Dataset, Features, Labels};
use harmonia::device::cpu::Cpu;
use harmonia::device::cuda::{self, Cuda};
use harmonia::device::launcher::Launcher;
use harmonia::device::{AdamStep, Device, Real, Routing};
use harmonia::graph::{Direction, Graph, Split, Walk};
use harmonia::model::{Initialisation, Layout, Randomness, Resident, initial_parameters};
use harmonia::seed::{Purpose, Stream};
use std::time::{Duration, Instant};

const NODES: usize = 20_000;
const DEGREE: usize = 10;
const FEATURES: usize = 64;
const CLASSES: usize = 7;

/// How long some work takes on a device.
type Timer<'a> = &'a dyn Fn(&mut dyn FnMut()) -> Duration;

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

fn parameters(layout: &Layout) -> Vec<f32> {
    initial_parameters(layout, Initialisation { readout_scale: 1.0, ..Initialisation::default() }, 0)
}

fn batch(dataset: &Dataset) -> Batch {
    Batches::new(dataset, Walk::default()).whole(&dataset.split.train)
}

/// Loss and gradient norm of one step: what every device must agree on.
fn answer<D: Device>(device: &D, layout: &Layout, batch: Batch) -> (f64, f64) {
    let values: Vec<D::Real> = parameters(layout).into_iter().map(D::Real::from_f32).collect();
    let mut resident = Resident::new(device, layout, batch).unwrap();
    let mut gradient = device.zeros(layout.len()).unwrap();
    let values = device.upload(&values).unwrap();
    let loss = resident.gradient(&mut gradient, &values, &Randomness::none()).unwrap();
    (loss, device.norm(&gradient).unwrap())
}

fn ops(criterion: &mut Criterion) {
    on_device(criterion, "cpu", &Cpu::<f32>::new(), &|work| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    match cuda::device_count() {
        Ok(1..) => {
            let device = Launcher::new(Cuda::new(0).unwrap(), States::F32);
            on_device(criterion, "cuda", &device, &|work| {
                let milliseconds = device.driver().time(|| {
                    work();
                    Ok(())
                });
                Duration::from_secs_f64(f64::from(milliseconds.unwrap()) / 1e3)
            });
        }
        Ok(0) => println!("skipped: no CUDA device"),
        Err(error) => println!("skipped: no CUDA device ({error})"),
    }
}

fn on_device<D: Device<Real = f32>>(criterion: &mut Criterion, name: &str, device: &D, timer: Timer) {
    let (dataset, layout) = (dataset(false), layout());
    let a = &layout.architecture;
    let batch = batch(&dataset);
    let (expected, found) =
        (answer(&Cpu::<f64>::new(), &layout, batch.clone()), answer(device, &layout, batch.clone()));
    assert!((found.0 / expected.0 - 1.0).abs() < 1e-4 && (found.1 / expected.1 - 1.0).abs() < 1e-3, "{found:?}");

    let inputs = device.inputs(&batch).unwrap();
    let mut parameters = device.upload(&parameters(&layout)).unwrap();
    let mut gradient = device.zeros(layout.len()).unwrap();
    let slots = FEATURES * a.active;
    let mut routing = Routing::<D> {
        experts: device.indices(slots).unwrap(),
        gates: device.zeros(slots).unwrap(),
        noise_scale: device.zeros(slots).unwrap(),
    };
    let mut d_gates = device.zeros(slots).unwrap();
    let mut theta = device.zeros(a.hops * FEATURES).unwrap();
    let mut d_theta = device.zeros(a.hops * FEATURES).unwrap();
    let mut responses = device.matrix(NODES, FEATURES).unwrap();
    let mut state = device.matrix(NODES, FEATURES).unwrap();
    let mut logits = device.zeros(NODES * CLASSES).unwrap();
    let mut d_logits = device.zeros(NODES * CLASSES).unwrap();
    let [mut first, mut second] = [(); 2].map(|()| device.zeros(layout.len()).unwrap());
    let step = AdamStep { learning_rate: 1e-9, weight_decay: 0.0, decoupled: true, step: 1, gradient_scale: 1.0 };

    let matrix = 4 * NODES * FEATURES;
    let hops = (a.hops - 1) * (dataset.graph.directed_edges() * (4 * FEATURES + 4) + 2 * matrix);
    let rows = 4 * NODES * CLASSES;
    let mut time = |op: &str, pass: &str, bytes: usize, work: &mut dyn FnMut()| {
        let mut group = criterion.benchmark_group(op);
        group.throughput(Throughput::Bytes(bytes as u64)).sample_size(10);
        group.bench_function(format!("{pass}/{name}"), |bencher| {
            bencher.iter_custom(|iterations| timer(&mut || (0..iterations).for_each(|_| work())));
        });
        group.finish();
    };
    let router = 4 * (FEATURES * a.embedding + 2 * a.embedding * a.experts);
    time("route", "forward", router, &mut || device.route_forward(&mut routing, &parameters, None, &layout).unwrap());
    let weights = 8 * a.hops * FEATURES;
    time("hop_weights", "forward", weights, &mut || {
        device.hop_weights_forward(&mut theta, &parameters, &layout).unwrap();
    });
    time("monb", "forward", 2 * matrix, &mut || {
        device.monb_forward(&mut responses, &inputs, &routing, &parameters, None, &layout).unwrap();
    });
    time("propagate", "forward", hops, &mut || {
        device.propagate_forward(&mut state, &responses, &theta, &inputs).unwrap();
    });
    time("readout", "forward", matrix + rows, &mut || {
        device.readout_forward(&mut logits, &state, &parameters, &inputs, &layout).unwrap();
    });
    time("loss", "both", 2 * rows, &mut || {
        device.loss(&mut d_logits, &logits, &inputs).unwrap();
    });
    time("readout", "backward", 2 * matrix + rows, &mut || {
        device.readout_backward(&mut gradient, &mut state, &d_logits, &parameters, &inputs, &layout).unwrap();
    });
    time("propagate", "backward", hops, &mut || {
        device.propagate_backward(&mut state, &mut d_theta, &responses, &theta, &inputs).unwrap();
    });
    time("hop_weights", "backward", 2 * weights, &mut || {
        device.hop_weights_backward(&mut gradient, &d_theta, &theta, &parameters, &layout).unwrap();
    });
    time("monb", "backward", 2 * matrix, &mut || {
        let (g, d) = (&mut gradient, &mut d_gates);
        device.monb_backward(g, d, &state, &inputs, &routing, &parameters, None, &layout).unwrap();
    });
    time("route", "backward", 2 * router, &mut || {
        device.route_backward(&mut gradient, &d_gates, &routing, &parameters, None, &layout).unwrap();
    });
    device.clear(&mut gradient).unwrap();
    time("adam", "step", 28 * layout.len(), &mut || {
        device.adam(&mut parameters, &mut first, &mut second, &gradient, step).unwrap();
    });
    time("norm", "norm", 4 * layout.len(), &mut || {
        device.norm(&gradient).unwrap();
    });
}

/// One whole training step: forward, loss and backward.
fn step(criterion: &mut Criterion) {
    let device = Cpu::<f32>::new();
    let layout = layout();
    let parameters = device.upload(&parameters(&layout)).unwrap();
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

criterion_group!(benches, ops, step);
criterion_main!(benches);
