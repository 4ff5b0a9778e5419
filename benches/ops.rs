//! Every op on a graph of the shape of a mid-size benchmark, and a whole step by every plan: `cargo bench`. On the CPU
//! always; the ops of the direct plan on a GPU where there is one, timed by its own events.
//!
//! The answer of each device and of each plan is checked before it is timed. Throughput counts the bytes that must move
//! ([`traffic`]).

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use harmonia::architecture::Layout;
use harmonia::batch::{Batch, Batches};
use harmonia::config::Initialisation;
use harmonia::config::{Config, Monb, States};
use harmonia::dataset::{Dataset, Features, Labels, SparseRows, Values};
use harmonia::device::Op;
use harmonia::device::cpu::Cpu;
use harmonia::device::cuda::{self, Cuda};
use harmonia::device::launcher::Launcher;
use harmonia::device::{AdamStep, Device, Responses, Routing};
use harmonia::graph::{Direction, Graph, Split, Walk};
use harmonia::loss::{Objective, Scored};
use harmonia::model::{Randomness, Resident, initial_parameters, traffic};
use harmonia::plan::{Plan, Space};
use harmonia::real::Real;
use harmonia::seed::{Purpose, Stream};
use std::time::{Duration, Instant};

const NODES: usize = 20_000;
const DEGREE: usize = 10;
const FEATURES: usize = 64;
const CLASSES: usize = 7;
/// Words of a bag of words, and how many of them a node has.
const WORDS: usize = 1000;
const WORDS_PER_NODE: usize = 15;
/// Relative differences of losses and of gradient norms: sums of 10^6 terms in single precision, in other orders.
const LOSS_TOLERANCE: f64 = 1e-4;
const GRADIENT_TOLERANCE: f64 = 1e-3;

/// How long some work takes on a device.
type Timer<'a> = &'a dyn Fn(&mut dyn FnMut()) -> Duration;

/// A random graph with continuous features, or with a bag of words held as sparse rows.
fn dataset(words: bool) -> Dataset {
    let mut rng = Stream::new(1, Purpose::SyntheticGraph, 0).rng();
    let edges: Vec<(u32, u32)> =
        (0..NODES * DEGREE / 2).map(|_| (rng.below(NODES) as u32, rng.below(NODES) as u32)).collect();
    let graph = Graph::from_edges(NODES, &edges, None, Direction::Undirected).unwrap();
    let features = if words {
        let bag = |_| {
            let mut bag: Vec<u32> = (0..WORDS_PER_NODE).map(|_| rng.below(WORDS) as u32).collect();
            bag.sort_unstable();
            bag.dedup();
            bag.into_iter().map(|word| (word, 1.0)).collect()
        };
        let rows = SparseRows::collect((0..NODES).map(bag));
        Features::held(NODES, WORDS, Values::Sparse(rows)).unwrap()
    } else {
        let values = (0..NODES * FEATURES).map(|_| (2.0 * rng.uniform() - 1.0) as f32).collect();
        Features::new(NODES, FEATURES, values).unwrap()
    };
    let labels = Labels::Classes { ids: (0..NODES).map(|_| rng.below(CLASSES) as u32).collect(), classes: CLASSES };
    let split = Split::fractions(&(0..NODES as u32).collect::<Vec<_>>(), [60.0, 20.0, 20.0], 0);
    Dataset::nodes("bench", graph, features, labels, split).unwrap()
}

fn layout(dataset: &Dataset) -> Layout {
    Layout::new(Config::default().architecture(dataset.features.cols, CLASSES)).unwrap()
}

fn parameters(layout: &Layout) -> Vec<f32> {
    initial_parameters(layout, Initialisation { readout_scale: 1.0, ..Initialisation::default() }, 0)
}

fn batch(dataset: &Dataset) -> Batch {
    Batches::new(dataset, Walk::default()).whole(&dataset.split.train)
}

/// Loss and gradient norm of one step: what every device and every plan must agree on.
fn answer<D: Device>(device: &D, layout: &Layout, plan: Plan, batch: Batch) -> (f64, f64) {
    let values: Vec<D::Real> = parameters(layout).into_iter().map(D::Real::from_f32).collect();
    let mut resident = Resident::new(device, layout, plan, batch).unwrap();
    let mut gradient = device.zeros(layout.len()).unwrap();
    let values = device.upload(&values).unwrap();
    let loss = resident.gradient(&mut gradient, &values, &Randomness::none()).unwrap();
    let mut verdict = device.verdict().unwrap();
    device.norm(&mut verdict, &gradient).unwrap();
    (loss, device.judgement(&mut verdict).unwrap().norm)
}

fn assert_agrees(found: (f64, f64), expected: (f64, f64), what: &str) {
    let (loss, gradient) = ((found.0 / expected.0 - 1.0).abs(), (found.1 / expected.1 - 1.0).abs());
    assert!(loss < LOSS_TOLERANCE && gradient < GRADIENT_TOLERANCE, "{what}: {found:?}, expected {expected:?}");
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
    let dataset = dataset(false);
    let layout = layout(&dataset);
    let a = &layout.architecture;
    let batch = batch(&dataset);
    let expected = answer(&Cpu::<f64>::new(), &layout, Plan::DIRECT, batch.clone());
    assert_agrees(answer(device, &layout, Plan::DIRECT, batch.clone()), expected, name);

    let inputs = device.inputs(&batch, Plan::DIRECT).unwrap();
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
    let mut responses = device.responses(&inputs, &layout, false).unwrap();
    let mut state = device.matrix(NODES, FEATURES).unwrap();
    let mut logits = device.zeros(NODES * CLASSES).unwrap();
    let mut d_logits = device.zeros(NODES * CLASSES).unwrap();
    let [mut first, mut second] = [(); 2].map(|()| device.zeros(layout.len()).unwrap());
    let step = AdamStep { learning_rate: 1e-9, weight_decay: 0.0, decoupled: true, step: 1, clip_norm: 0.0 };

    let mut timed = Vec::new();
    let mut time = |op: Op, work: &mut dyn FnMut()| {
        let mut group = criterion.benchmark_group(op.name());
        let bytes = bytes(Plan::DIRECT, &dataset, &layout, |other| other == op);
        group.throughput(Throughput::Bytes(bytes)).sample_size(10);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| timer(&mut || (0..iterations).for_each(|_| work())));
        });
        group.finish();
        timed.push(op);
    };
    let mut verdict = device.verdict().unwrap();
    let mut noise = device.zeros(layout.architecture.features * layout.architecture.experts).unwrap();
    let stream = Stream::new(0, Purpose::Noise, 0);
    time(Op::Clear, &mut || device.clear(&mut gradient).unwrap());
    time(Op::DrawNoise, &mut || device.draw_noise(&mut noise, &stream, 1.0).unwrap());
    time(Op::RouteForward, &mut || device.route_forward(&mut routing, &parameters, None, &layout).unwrap());
    time(Op::HopWeightsForward, &mut || device.hop_weights_forward(&mut theta, &parameters, None, &layout).unwrap());
    time(Op::MonbForward, &mut || {
        device.monb_forward(&mut responses, &inputs, &routing, &parameters, None, &layout).unwrap();
    });
    let Responses::Dense(dense) = &responses else { panic!("the direct plan is dense") };
    time(Op::PropagateForward, &mut || device.propagate_forward(&mut state, dense, &theta, &inputs, None).unwrap());
    time(Op::ReadoutForward, &mut || {
        device.readout_forward(&mut logits, &state, &parameters, &inputs, &layout).unwrap();
    });
    time(Op::Loss, &mut || {
        device.loss(&mut verdict, &mut d_logits, &logits, &inputs).unwrap();
    });
    time(Op::ReadoutBackward, &mut || {
        device.readout_backward(&mut gradient, &mut state, &d_logits, &parameters, &inputs, &layout).unwrap();
    });
    time(Op::PropagateBackward, &mut || {
        device.propagate_backward(&mut state, &mut d_theta, dense, &theta, &inputs, None).unwrap();
    });
    time(Op::HopWeightsBackward, &mut || {
        device.hop_weights_backward(&mut gradient, &d_theta, &theta, &parameters, None, &layout).unwrap();
    });
    let d_responses = Responses::Dense(state);
    time(Op::MonbBackward, &mut || {
        let (g, d) = (&mut gradient, &mut d_gates);
        device.monb_backward(g, d, &d_responses, &inputs, &routing, &parameters, None, &layout).unwrap();
    });
    time(Op::RouteBackward, &mut || {
        device.route_backward(&mut gradient, &d_gates, &routing, &parameters, None, &layout).unwrap();
    });
    device.clear(&mut gradient).unwrap();
    time(Op::Norm, &mut || {
        device.norm(&mut verdict, &gradient).unwrap();
    });
    let all = 0..layout.len();
    time(Op::Adam, &mut || {
        device.adam(&mut parameters, &mut first, &mut second, &gradient, &verdict, &all, step).unwrap();
    });
    assert!(timed.into_iter().eq(Op::of_step(Plan::DIRECT)), "an op of the step is not timed");
}

/// One whole training step (forward, loss, backward) by every plan, on continuous features and on a bag of words.
fn plans(criterion: &mut Criterion) {
    let device = Cpu::<f32>::new();
    for (name, words) in [("continuous features", false), ("bag of words", true)] {
        let dataset = dataset(words);
        let layout = layout(&dataset);
        let parameters = device.upload(&parameters(&layout)).unwrap();
        let expected = answer(&Cpu::<f64>::new(), &layout, Plan::DIRECT, batch(&dataset));
        let mut group = criterion.benchmark_group(format!("step, {name}"));
        group.sample_size(10);
        for plan in all_plans(words) {
            let label = plan_name(plan);
            assert_agrees(answer(&device, &layout, plan, batch(&dataset)), expected, &label);
            let mut resident = Resident::new(&device, &layout, plan, batch(&dataset)).unwrap();
            let mut gradient = device.zeros(layout.len()).unwrap();
            group.throughput(Throughput::Bytes(bytes(plan, &dataset, &layout, |_| true)));
            group.bench_function(label, |bencher| {
                bencher.iter(|| resident.gradient(&mut gradient, &parameters, &Randomness::none()).unwrap());
            });
        }
        group.finish();
    }
}

/// The gather kernel: hops at the width of classes and of features, forward and backward.
fn gathers(criterion: &mut Criterion) {
    let device = Cpu::<f32>::new();
    let dataset = dataset(false);
    let layout = layout(&dataset);
    let values = device.upload(&parameters(&layout)).unwrap();
    let expected = answer(&Cpu::<f64>::new(), &layout, Plan::DIRECT, batch(&dataset));
    for space in [Space::Classes, Space::Features] {
        let plan = Plan { monb: Monb::Knots, space, sparse: false };
        assert_agrees(answer(&device, &layout, plan, batch(&dataset)), expected, &plan_name(plan));
        let mut resident = Resident::new(&device, &layout, plan, batch(&dataset)).unwrap();
        let mut gradient = device.zeros(layout.len()).unwrap();
        let is_hop =
            |op: Op| matches!(op, Op::WalkForward | Op::WalkBackward | Op::PropagateForward | Op::PropagateBackward);
        let mut group = criterion.benchmark_group("hops");
        group.sample_size(10).throughput(Throughput::Bytes(bytes(plan, &dataset, &layout, is_hop)));
        group.bench_function(format!("{space:?}"), |bencher| {
            // Timed inside whole steps, by their profile: called alone, a hop would run on states that no step has.
            bencher.iter_custom(|iterations| {
                resident.pass.ops().profile();
                for _ in 0..iterations {
                    resident.gradient(&mut gradient, &values, &Randomness::none()).unwrap();
                }
                let profile = resident.pass.ops().take_profile().unwrap();
                profile.ops().iter().filter(|(op, _)| is_hop(*op)).map(|(_, time)| *time).sum()
            });
        });
        group.finish();
    }
}

/// A step from 8 % of the nodes: every hop whole, and near the targets only.
fn scopes(criterion: &mut Criterion) {
    let device = Cpu::<f32>::new();
    let mut dataset = dataset(false);
    dataset.split.train.truncate(NODES * 8 / 100);
    let layout = layout(&dataset);
    let parameters = device.upload(&parameters(&layout)).unwrap();
    for space in [Space::Classes, Space::Features] {
        let plan = Plan { monb: Monb::Knots, space, sparse: false };
        let mut resident = Resident::new(&device, &layout, plan, batch(&dataset)).unwrap();
        let none = Randomness::none();
        let [mut near, mut whole] = [(); 2].map(|()| device.zeros(layout.len()).unwrap());
        let whole_step = |resident: &mut Resident<'_, Cpu<f32>>, gradient: &mut Vec<f32>| {
            resident.pass.forward(&resident.inputs, &parameters, &none).unwrap();
            resident.pass.loss(&resident.inputs).unwrap();
            resident.pass.backward(gradient, &resident.inputs, &parameters, &none).unwrap();
        };
        whole_step(&mut resident, &mut whole);
        resident.gradient(&mut near, &parameters, &none).unwrap();
        assert_eq!(near, whole, "{space:?}");
        let mut group = criterion.benchmark_group(format!("step from 8 % of the nodes, {space:?}").to_lowercase());
        group.sample_size(10);
        group.bench_function("whole hops", |bencher| bencher.iter(|| whole_step(&mut resident, &mut whole)));
        group.bench_function("near targets", |bencher| {
            bencher.iter(|| resident.gradient(&mut near, &parameters, &none).unwrap());
        });
        group.finish();
    }
}

/// Direct and compiled experts, in both spaces; with sparse features also without their zeros.
/// What it costs to hold ids against the number of nodes when a device takes a graph, beside one hop of one and of 16
/// features over it: a step has two such hops for each walk length, of all features.
fn ids(criterion: &mut Criterion) {
    let nodes = 400_000;
    let mut rng = Stream::new(2, Purpose::SyntheticGraph, 0).rng();
    let edges: Vec<(u32, u32)> =
        (0..nodes * DEGREE / 2).map(|_| (rng.below(nodes) as u32, rng.below(nodes) as u32)).collect();
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
    let mut group = criterion.benchmark_group("ids");
    group.sample_size(10).throughput(Throughput::Elements(graph.directed_edges() as u64));
    group.bench_function("in range", |bencher| bencher.iter(|| graph.adjacency().check_range().unwrap()));
    let (labels, device) = (vec![0; nodes], Cpu::<f32>::new());
    for features in [1, 16] {
        let values = (0..nodes * features).map(|at| (at % 7) as f32).collect();
        let (features, labels) =
            (Features::new(nodes, features, values).unwrap(), Labels::Classes { ids: labels.clone(), classes: 2 });
        let split = Split { train: vec![0], valid: vec![1], test: vec![2] };
        let dataset = Dataset::nodes("ids", graph.clone(), features, labels, split).unwrap();
        let inputs = device.inputs(&batch(&dataset), Plan::DIRECT).unwrap();
        let cols = dataset.features.cols;
        let (responses, mut state) = (device.matrix(nodes, cols).unwrap(), device.matrix(nodes, cols).unwrap());
        let theta = device.upload(&vec![0.5; 2 * cols]).unwrap();
        group.bench_function(format!("a hop of {cols} features"), |bencher| {
            bencher.iter(|| device.propagate_forward(&mut state, &responses, &theta, &inputs, None).unwrap());
        });
    }
    group.finish();
}

/// Scores of the validation units of a dataset: what an epoch adds to its steps on the host, beside the next step of a GPU.
fn scores(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scores");
    group.sample_size(20);
    for (name, units, classes) in
        [("mutag", 19, 2), ("cora", 500, 7), ("ogbn-arxiv", 29_799, 40), ("ogbn-products", 39_323, 47)]
    {
        let mut rng = Stream::new(3, Purpose::SyntheticGraph, 0).rng();
        // Classes of unequal size, none empty; four of five units are told apart.
        let mut class = |unit: usize| match unit < classes {
            true => unit as u32,
            false => (rng.uniform() * rng.uniform() * classes as f64) as u32,
        };
        let ids: Vec<u32> = (0..units).map(&mut class).collect();
        let outputs = if classes == 2 { 1 } else { classes };
        let mut logit = |at: usize| {
            let own = ids[at / outputs] as usize == if outputs == 1 { 1 } else { at % outputs };
            let noise = (0..4).map(|_| 3.0 * rng.uniform() - 1.5).sum::<f64>();
            (noise + if own && rng.uniform() < 0.8 { 6.0 } else { 0.0 }) as f32
        };
        let logits: Vec<f32> = (0..units * outputs).map(&mut logit).collect();
        let labels = Labels::Classes { ids: ids.clone(), classes };
        let chosen: Vec<u32> = (0..units as u32).collect();
        let scored = Scored { labels: &labels, units: &chosen, logits: &logits, scaling: None };
        let objective = Objective::of(&labels);
        let found = objective.score(&scored).get("roc_auc").unwrap();
        assert!((found / mean_area(&ids, &logits, outputs) - 1.0).abs() < 1e-12, "{name}: {found}");
        group.throughput(Throughput::Elements((units * outputs) as u64));
        group.bench_function(name, |bencher| bencher.iter(|| objective.score(&scored)));
    }
    group.finish();
}

/// ROC-AUC by ranks, the mean over classes that both kinds of units are of.
fn mean_area(ids: &[u32], logits: &[f32], outputs: usize) -> f64 {
    let score = |row: &[f32], class: usize| match outputs {
        1 => f64::from(row[0]),
        _ => {
            let most = f64::from(row.iter().copied().fold(f32::MIN, f32::max));
            f64::from(row[class]) - (most + row.iter().map(|&z| (f64::from(z) - most).exp()).sum::<f64>().ln())
        }
    };
    let area = |class: usize| {
        let label = if outputs == 1 { 1 } else { class as u32 };
        let rows = logits.chunks_exact(outputs).zip(ids);
        let mut ranked: Vec<(f64, bool)> = rows.map(|(row, &id)| (score(row, class), id == label)).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let own = ranked.iter().filter(|(_, own)| *own).count();
        let ranks: f64 = ranked.iter().enumerate().filter(|(_, (_, own))| *own).map(|(rank, _)| rank as f64).sum();
        let pairs = (own * (ranked.len() - own)) as f64;
        (pairs > 0.0).then(|| (ranks - (own * own.saturating_sub(1)) as f64 / 2.0) / pairs)
    };
    let areas: Vec<f64> = (0..outputs).filter_map(area).collect();
    areas.iter().sum::<f64>() / areas.len() as f64
}

fn all_plans(sparse: bool) -> Vec<Plan> {
    let mut plans = Vec::new();
    for monb in [Monb::Direct, Monb::Knots] {
        plans.push(Plan { monb, space: Space::Features, sparse: false });
        plans.push(Plan { monb, space: Space::Classes, sparse: false });
        if sparse {
            plans.push(Plan { monb, space: Space::Classes, sparse: true });
        }
    }
    plans
}

fn plan_name(plan: Plan) -> String {
    format!("{:?}, {:?}{}", plan.monb, plan.space, if plan.sparse { ", sparse" } else { "" }).to_lowercase()
}

/// Bytes that some ops of a step must move, each gathered row once per hop: at this size caches hold the states.
fn bytes(plan: Plan, dataset: &Dataset, layout: &Layout, which: impl Fn(Op) -> bool) -> u64 {
    let step = traffic::step(plan, States::F32, dataset, layout, None);
    step.iter().filter(|op| which(op.op)).map(|op| op.compulsory).sum::<f64>() as u64
}

criterion_group!(benches, ops, plans, gathers, scopes, ids, scores);
criterion_main!(benches);
