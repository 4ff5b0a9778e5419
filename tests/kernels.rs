//! The CUDA kernels compute what the CPU device computes: every op, over shapes chosen to hit every kernel and every
//! edge (one node, one feature, widths around 4, 32, 96 and 128, rows without entries, hubs, graphs and nodes), and over
//! random ones.
//!
//! On the host always; on a GPU where there is one.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

mod common;

use common::emulator::{self, Emulator};
use common::host_library::{address_sanitized_kernels, checked_kernels, run_sanitized};
use common::parity::{BFLOAT_TOLERANCE, HALF_TOLERANCE, TOLERANCE, check};
use common::problems::{Recipe, Task, Values};
use common::recorded::Recorded;
use common::{assert_close, difference, penalties, run, run_on, selections};
use harmonia::architecture::HopWeights;
use harmonia::config::{DropoutPlace, Monb, States};
use harmonia::dataset::Level;
use harmonia::device::cpu::Cpu;
use harmonia::device::cuda::{self, Cuda};
use harmonia::device::host::Host;
use harmonia::device::launcher::{Blocks, Driver, Kernel, Launcher, kernels};
use harmonia::device::{Device, Dropout, Responses, Routing};
use harmonia::graph::{Direction, Walk};
use harmonia::plan::{Plan, Space};
use harmonia::seed::{Purpose, Stream};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

/// Names the library to load in a child process.
const LIBRARY_VARIABLE: &str = "HARMONIA_TEST_LIBRARY";

/// Edges that weigh from 0.002 to 0.05.
const LIGHT: f32 = 1.0 / 64.0;

/// Small problems, one for each thing that can differ.
fn recipes() -> Vec<Recipe> {
    let base = Recipe { hidden: vec![16, 8], bases: 8, ..Recipe::default() };
    let walk = |self_loops, lazy| Walk { self_loops, lazy };
    vec![
        base.clone(),
        Recipe { seed: 2, nodes: 1, features: 1, hops: 1, task: Task::Binary, ..base.clone() },
        Recipe { seed: 3, nodes: 2, features: 2, hops: 2, experts: 1, active: 1, ..base.clone() },
        Recipe { seed: 4, nodes: 33, features: 4, task: Task::Classes(40), embedding: 5, ..base.clone() },
        Recipe { seed: 5, nodes: 130, features: 5, weighted: true, hops: 5, task: Task::Multi(3), ..base.clone() },
        Recipe { seed: 6, nodes: 61, features: 31, direction: Direction::Directed, active: 3, ..base.clone() },
        Recipe { seed: 7, nodes: 70, features: 33, direction: Direction::Directed, weighted: true, ..base.clone() },
        Recipe { seed: 8, nodes: 40, features: 100, walk: walk(true, false), experts: 5, ..base.clone() },
        Recipe { seed: 9, nodes: 25, features: 132, walk: walk(false, true), weighted: true, ..base.clone() },
        Recipe { seed: 10, nodes: 45, graphs: 7, features: 9, level: Level::Graph, ..base.clone() },
        Recipe { seed: 17, nodes: 45, graphs: 7, level: Level::Graph, unit_weights: true, ..base.clone() },
        Recipe { seed: 18, nodes: 70, task: Task::Multi(3), unit_weights: true, ..base.clone() },
        Recipe { seed: 19, nodes: 70, task: Task::Numbers(2), unit_weights: true, ..base.clone() },
        Recipe { seed: 11, nodes: 45, graphs: 4, features: 17, values: Values::Few(3), ..base.clone() },
        Recipe { seed: 12, nodes: 300, features: 3, hop_weights: HopWeights::Free, hops: 4, ..base.clone() },
        Recipe { seed: 12, features: 300, hop_weights: HopWeights::Free, hop_basis: true, hops: 5, ..base.clone() },
        Recipe { seed: 13, features: 300, hop_weights: HopWeights::Signed, hops: 4, ..base.clone() },
        Recipe { seed: 14, features: 300, hop_weights: HopWeights::Absolute, hops: 4, ..base.clone() },
        // Experts of other shapes.
        Recipe { seed: 13, nodes: 150, features: 9, hidden: vec![64, 32], bases: 64, experts: 4, ..base.clone() },
        Recipe { seed: 14, nodes: 50, features: 3, hidden: vec![64, 32], bases: 3, active: 1, ..base.clone() },
        Recipe { seed: 15, nodes: 40, features: 10, hidden: vec![7], bases: 3, ..base.clone() },
        Recipe { seed: 16, nodes: 37, features: 4, hidden: vec![], bases: 2, ..base.clone() },
        Recipe { seed: 17, nodes: 35, features: 3, hidden: vec![9, 4, 6], bases: 5, ..base.clone() },
        Recipe { seed: 18, nodes: 20, features: 40, experts: 70, active: 40, hidden: vec![3], ..base.clone() },
        // Too wide for shared memory.
        Recipe { seed: 19, nodes: 34, features: 2, hidden: vec![300, 40], bases: 2, ..base.clone() },
        // Mostly zeros, and nothing else.
        Recipe { seed: 20, nodes: 90, features: 12, values: Values::Few(2), task: Task::Classes(9), ..base.clone() },
        Recipe { seed: 21, nodes: 40, features: 3, values: Values::Few(1), ..base.clone() },
        // More than 32 lanes of classes, and widths that are no multiple of four.
        Recipe { seed: 22, nodes: 30, features: 3, task: Task::Classes(150), hops: 4, ..base.clone() },
        Recipe { seed: 23, nodes: 65, features: 6, task: Task::Multi(2), weighted: true, ..base.clone() },
        // Numbers: one, and more than a warp of them; of graphs too.
        Recipe { seed: 24, nodes: 70, features: 5, task: Task::Numbers(1), ..base.clone() },
        Recipe { seed: 25, nodes: 40, features: 4, task: Task::Numbers(37), ..base.clone() },
        Recipe {
            seed: 26,
            nodes: 45,
            graphs: 6,
            features: 9,
            level: Level::Graph,
            task: Task::Numbers(2),
            ..base.clone()
        },
        // Degrees far below one: what is divided by them grows.
        Recipe { seed: 27, nodes: 300, features: 6, weighted: true, weight_unit: LIGHT, ..base.clone() },
        Recipe { seed: 28, nodes: 200, features: 33, weighted: true, weight_unit: LIGHT, task: Task::Binary, ..base },
    ]
}

/// Shapes nobody chose: sizes, walk, task and experts drawn from a seed, which a failure prints.
fn random_recipes(count: u64) -> Vec<Recipe> {
    let draw = |seed: u64| {
        let mut rng = Stream::new(seed, Purpose::SyntheticGraph, 1).rng();
        let mut pick = |choices: &[usize]| choices[rng.below(choices.len())];
        let experts = pick(&[1, 2, 5, 33]);
        let graphs = pick(&[1, 1, 3]);
        let sizes = [graphs, 2, 31, 32, 65, 127, 129, 260];
        Recipe {
            seed,
            nodes: pick(&sizes).max(graphs),
            graphs,
            features: pick(&[1, 2, 4, 7, 8, 9, 31, 32, 33, 64, 96, 97, 130]),
            direction: if pick(&[0, 1]) == 0 { Direction::Undirected } else { Direction::Directed },
            weighted: pick(&[0, 1]) == 1,
            weight_unit: 1.0,
            walk: Walk { self_loops: pick(&[0, 0, 1]) == 1, lazy: pick(&[0, 0, 1]) == 1 },
            level: if graphs > 1 && pick(&[0, 1]) == 1 { Level::Graph } else { Level::Node },
            task: match pick(&[0, 1, 2, 3]) {
                0 => Task::Binary,
                1 => Task::Classes(3 + pick(&[0, 4, 29, 30, 61])),
                2 => Task::Multi(2 + pick(&[0, 31])),
                _ => Task::Numbers(1 + pick(&[0, 32])),
            },
            // Drawn by the seed, so that nothing else changes.
            unit_weights: seed % 2 == 1,
            loss: None,
            values: Values::Continuous,
            experts,
            active: 1 + pick(&[0, 1, 2]).min(experts - 1),
            bases: pick(&[1, 3, 8]),
            hidden: [vec![16, 8], vec![16, 8], vec![64, 32], vec![5], vec![4, 3, 2], vec![]][pick(&[0, 1, 2, 3, 4, 5])]
                .clone(),
            embedding: pick(&[1, 7, 33]),
            hops: pick(&[1, 2, 3, 6]),
            hop_weights: [HopWeights::Simplex, HopWeights::Absolute, HopWeights::Signed, HopWeights::Free]
                [pick(&[0, 1, 2, 3])],
            hop_basis: pick(&[0, 1]) == 1,
            hub: 0,
            hubs: 1,
        }
    };
    (1000..1000 + count).map(draw).collect()
}

/// Hubs with more neighbours than a row kernel takes at once, for every width class; so many of them that the kernels for
/// long rows have several blocks too.
fn hubs() -> Vec<Recipe> {
    let hub = |seed, features, direction, weighted| Recipe {
        seed,
        nodes: 1100,
        features,
        direction,
        weighted,
        hub: 1060,
        hubs: 9,
        hops: 3,
        active: 1,
        hidden: vec![2],
        task: Task::Binary,
        ..Recipe::default()
    };
    vec![
        // Rows of several segments.
        Recipe { nodes: 2600, hub: 2500, hubs: 1, ..hub(31, 3, Direction::Undirected, false) },
        hub(32, 6, Direction::Directed, true),
        hub(33, 33, Direction::Directed, false),
        hub(34, 96, Direction::Undirected, true),
        hub(36, 7, Direction::Undirected, false),
        hub(37, 35, Direction::Undirected, true),
        hub(38, 4, Direction::Undirected, true),
        // The same rows are long in class space, whose widths are those of tasks.
        Recipe { task: Task::Classes(11), ..hub(35, 2, Direction::Directed, true) },
        Recipe { task: Task::Classes(20), ..hub(39, 3, Direction::Undirected, true) },
    ]
}

fn dropouts() -> [Dropout; 3] {
    [DropoutPlace::Input, DropoutPlace::Feature, DropoutPlace::Hidden].map(|place| Dropout {
        place,
        rate: 0.4,
        stream: Stream::new(5, Purpose::Dropout, 77),
    })
}

/// Random shapes a run of the suite tries.
const RANDOM_SHAPES: u64 = 24;

/// So few blocks that small problems stride over their rows, nodes and features, as large ones do.
const FEW_BLOCKS: Blocks =
    Blocks { rows: 2, nodes: 1, backward: 2, states: 1 << 10, product_rows: 3, shared: 99 << 10, pieces: 2 };

/// Kernels that are one block by design.
const ONE_BLOCK: [&str; 4] = ["half_scale", "judge_loss", "judge_norm", "select_segments"];

/// Every kernel there is was launched, and once in more than one block. `launches`: most blocks of a launch, by kernel.
fn assert_reached<S: AsRef<str> + Ord>(launches: &BTreeMap<S, u64>) {
    let blocks = |name: &str| launches.iter().find(|(kernel, _)| kernel.as_ref() == name).map_or(0, |(_, &most)| most);
    let few = |kernel: &&Kernel| blocks(kernel.name) < if ONE_BLOCK.contains(&kernel.name) { 1 } else { 2 };
    let missed: Vec<&str> = kernels().iter().filter(few).map(|kernel| kernel.name).collect();
    assert!(missed.is_empty(), "never launched, or never in two blocks: {missed:?}");
}

/// Everything, on one driver.
fn suite<V: Driver>(driver: impl Fn() -> V, blocks: Blocks) {
    let launcher = |states| Launcher::new(driver(), states).with_blocks(blocks);
    let device = launcher(States::F32);
    for recipe in recipes().iter().chain(&hubs()).chain(&random_recipes(RANDOM_SHAPES)) {
        check(&device, recipe, None, TOLERANCE);
    }
    masks(&device);
    kept(&device);
    joined(&device);
    penalties::check(&device);
    selections::check(&device, States::F32);
    for (states, tolerance) in [(States::F16, HALF_TOLERANCE), (States::Bf16, BFLOAT_TOLERANCE)] {
        let device = launcher(states);
        selections::check(&device, states);
        in_half(states).iter().for_each(|recipe| check(&device, recipe, None, tolerance));
        let directed = hubs().into_iter().find(|recipe| recipe.direction == Direction::Directed).unwrap();
        let inputs = device.inputs(&directed.problem().batch(Plan::DIRECT), Plan::DIRECT);
        assert_eq!(inputs.is_err(), states == States::F16);
        if let Err(error) = inputs {
            assert!(error.to_string().contains("engine.states = bf16"), "{error}");
        }
    }
}

/// What states in half precision are compared on: everything that is not about experts, and undirected for f16.
fn in_half(states: States) -> Vec<Recipe> {
    let recipes = recipes().into_iter().filter(|recipe| recipe.seed < 13 || recipe.seed >= 20);
    let all = recipes.chain(hubs()).chain(random_recipes(RANDOM_SHAPES / 3));
    all.filter(|recipe| states != States::F16 || recipe.direction == Direction::Undirected).collect()
}

/// Masks are the same bits as on the CPU.
fn masks<V: Driver>(device: &Launcher<V>) {
    for dropout in dropouts() {
        for seed in [5, 8, 13, 17, 20] {
            let recipes = recipes();
            let recipe = recipes.iter().find(|recipe| recipe.seed == seed).unwrap();
            check(device, recipe, Some(dropout), TOLERANCE);
        }
    }
}

/// A copy on the device is a copy.
fn kept<V: Driver>(device: &Launcher<V>) {
    let values: Vec<f32> = (0..700).map(|at| at as f32).collect();
    let mut kept = device.zeros(values.len()).unwrap();
    device.keep(&mut kept, &device.upload(&values).unwrap()).unwrap();
    assert_eq!(device.download(&kept).unwrap(), values);
}

/// Sums over processes are those of the host, to the bit: in f64, from the first rank to the last.
fn joined<V: Driver>(device: &Launcher<V>) {
    const LENGTH: usize = 700;
    for ranks in [1, 2, 5] {
        let value = |at: usize| {
            10f32.powi((7 * at % 13) as i32 - 6) * (1.0 + at as f32) * if at.is_multiple_of(3) { -1.0 } else { 1.0 }
        };
        let parts: Vec<f32> = (0..ranks * LENGTH).map(value).collect();
        let sum = |at: usize| (0..ranks).fold(0f64, |sum, rank| sum + f64::from(parts[rank * LENGTH + at])) as f32;
        let mut found = device.zeros(LENGTH).unwrap();
        device.sum_ranks(&mut found, &device.upload(&parts).unwrap(), ranks).unwrap();
        assert_eq!(device.download(&found).unwrap(), (0..LENGTH).map(sum).collect::<Vec<f32>>());
        assert!(device.sum_ranks(&mut found, &device.upload(&parts[1..]).unwrap(), ranks).is_err());
    }
}

/// And every kernel is launched, in several blocks: what blocks do to each other shows in no other way.
#[test]
fn every_op_agrees_on_the_host_by_every_kernel() {
    let launches = Arc::new(Mutex::new(BTreeMap::new()));
    let host = || Recorded { host: Host::new().unwrap(), launches: Arc::clone(&launches) };
    suite(host, Blocks::default());
    suite(host, FEW_BLOCKS);
    assert_reached(&launches.lock().unwrap());
}

/// Turing gives a block 64 KiB: sizes that follow the model and its pieces stay below what the device has.
#[test]
fn every_op_agrees_where_shared_memory_is_short() {
    for limit in [64 << 10, 48 << 10] {
        let device = Launcher::new(Host::new().unwrap().with_shared_limit(limit), States::F32);
        for recipe in recipes().iter().chain(&many_pieces()) {
            check(&device, recipe, None, TOLERANCE);
        }
    }
}

/// Experts whose pieces, or activations, take between 48 and 99 KiB.
fn many_pieces() -> Vec<Recipe> {
    let base = Recipe { nodes: 90, features: 12, hidden: vec![64, 32], bases: 4, ..Recipe::default() };
    vec![
        Recipe { seed: 41, ..base.clone() },
        Recipe { seed: 42, active: 3, ..base.clone() },
        Recipe { seed: 43, hidden: vec![100, 60], ..base.clone() },
        Recipe { seed: 44, hidden: vec![130, 20], ..base },
    ]
}

#[test]
fn every_op_agrees_in_any_order_of_threads() {
    for seed in 1..3 {
        suite(|| Host::new().unwrap().in_random_order(seed), FEW_BLOCKS);
    }
}

/// Out-of-bounds accesses, races, reads of unwritten shared memory and undefined behaviour end a launch with an error.
#[test]
fn every_op_agrees_and_is_sound_under_our_checks() {
    let Some(library) = checked_kernels() else { return };
    suite(|| Host::load(&library).unwrap(), FEW_BLOCKS);
}

#[test]
fn every_op_agrees_under_the_address_sanitizer() {
    let Some(library) = address_sanitized_kernels() else { return println!("skipped: no address sanitizer") };
    let path = library.to_str().unwrap();
    let (success, text) = run_sanitized("child_of_the_address_sanitizer", &[(LIBRARY_VARIABLE, path)]).unwrap();
    assert!(success, "{text}");
}

/// Run by the test above in a process that the sanitizer may end.
#[test]
#[ignore = "the parent runs it"]
fn child_of_the_address_sanitizer() {
    let Ok(path) = std::env::var(LIBRARY_VARIABLE) else { return };
    suite(|| Host::load(Path::new(&path)).unwrap(), Blocks::default());
}

/// Degrees of edges that weigh little: 1 / degree, by which stored gradients are multiplied, must not leave the range of half.
#[test]
fn light_edges_stay_in_the_range_of_half_on_the_cpu() {
    for recipe in recipes().iter().filter(|recipe| recipe.weight_unit == LIGHT) {
        let problem = recipe.problem();
        for space in [Space::Features, Space::Classes] {
            let plan = Plan { monb: Monb::Knots, space, sparse: false };
            let exact = run::<f64>(&problem, plan, None, None);
            let half = run_on(&Cpu::<f32>::with_states(States::F16), &problem, plan);
            assert_close("gradient in half", &half.gradient, &exact.gradient, HALF_TOLERANCE, recipe);
        }
    }
}

/// The suite above would be worth nothing if it could not fail.
#[test]
fn a_difference_is_seen() {
    assert!(difference(&[1.0f32, f32::NAN], &[1.0, 2.0]).is_infinite());
    assert!(difference(&[1.0f32, 2.0001], &[1.0, 2.0]) > TOLERANCE);
}

fn on_a_gpu(blocks: Blocks) {
    match cuda::device_count() {
        Ok(0) => println!("skipped: no CUDA device"),
        Err(error) if error.to_string().starts_with("no NVIDIA driver") => {
            println!("skipped: no CUDA device ({error})");
        }
        // A GPU that is there and does not work is no reason to skip.
        count => {
            count.unwrap();
            suite(|| Cuda::new(0).unwrap(), blocks);
        }
    }
}

#[test]
fn every_op_agrees_on_a_gpu() {
    on_a_gpu(Blocks::default());
}

#[test]
fn every_op_agrees_on_a_gpu_in_few_blocks() {
    on_a_gpu(FEW_BLOCKS);
}

/// Both on the emulator of GPUs, where there is one: one from the source, the other from what nvcc made of it, at the same
/// time, with every access checked; together they launch every kernel.
#[test]
fn every_op_agrees_on_an_emulated_gpu() {
    let Some(emulator) = Emulator::found() else { return };
    let test = |name: &str, kernels| {
        let mut command = emulator.command(&std::env::current_exe().unwrap(), kernels);
        command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env("PTXEMU_RACE", "1");
        command
            .env("PTXEMU_STATS", "1")
            .env("PTXEMU_SUMMARY", emulator.scratch(name))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        (name.to_string(), command.spawn().unwrap())
    };
    let forms = emulator.kernels();
    let children = [
        test("every_op_agrees_on_a_gpu", forms[0]),
        test("every_op_agrees_on_a_gpu_in_few_blocks", *forms.last().unwrap()),
    ];
    let (mut launches, mut turns) = (BTreeMap::new(), BTreeMap::new());
    for (name, child) in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && !text.contains("skipped"), "{name}:\n{text}");
        let summary = std::fs::read_to_string(emulator.scratch(&name)).unwrap();
        assert!(summary.contains(" races 0 uninit_global 0 uninit_shared 0 faults 0"), "{summary}");
        for launch in emulator::launches(&summary) {
            let most = turns.entry(launch.kernel.clone()).or_insert(0.0);
            *most = launch.turns.max(*most);
            let most = launches.entry(launch.kernel).or_insert(0);
            *most = launch.blocks.div_ceil(launch.launches).max(*most);
        }
    }
    assert_reached(&launches);
    for (kernel, turns) in turns {
        println!("{kernel}: {turns} turns an access to shared memory");
        assert!(turns <= MOST_TURNS, "{kernel}: lanes meet in banks of shared memory, {turns} turns an access");
    }
}

/// Turns of an access to shared memory, on average over a kernel; 1 where no two lanes meet in a bank.
const MOST_TURNS: f64 = 1.1;
/// Routing of one problem with the given embeddings: (experts as the gradient of the router shows them, gates).
fn routed<D: Device<Real = f32>>(device: &D, recipe: &Recipe, embedding: f32) -> (Vec<usize>, Vec<f32>) {
    let problem = recipe.problem();
    let layout = &problem.layout;
    let a = &layout.architecture;
    let mut values: Vec<f32> = problem.parameters.iter().map(|&value| value as f32).collect();
    values[layout.embeddings.clone()].fill(embedding);
    let parameters = device.upload(&values).unwrap();
    let slots = a.features * a.active;
    let mut routing = Routing {
        experts: device.indices(slots).unwrap(),
        gates: device.zeros(slots).unwrap(),
        noise_scale: device.zeros(slots).unwrap(),
    };
    device.route_forward(&mut routing, &parameters, None, layout).unwrap();
    // Output layers get a gradient only where their expert was chosen.
    let mut gradient = device.zeros(layout.len()).unwrap();
    let mut d_gates = device.zeros(slots).unwrap();
    let inputs = device.inputs(&problem.batch(Plan::DIRECT), Plan::DIRECT).unwrap();
    let ones = vec![1.0; problem.dataset.graph.nodes() * a.features];
    let d_responses = Responses::Dense(device.upload_matrix(&ones, a.features).unwrap());
    let (g, d) = (&mut gradient, &mut d_gates);
    device.monb_backward(g, d, &d_responses, &inputs, &routing, &parameters, None, layout).unwrap();
    let gradient = device.download(&gradient).unwrap();
    let chosen =
        |expert: &usize| gradient[layout.experts[*expert].last().unwrap().bias.clone()].iter().any(|g| *g != 0.0);
    ((0..a.experts).filter(chosen).collect(), device.download(&routing.gates).unwrap())
}

#[test]
fn ties_go_to_the_lower_expert_and_nan_stays_in_range() {
    // More experts than lanes, so that a tie is also one between lanes and between rounds of a lane.
    let recipe = Recipe { experts: 70, active: 3, hidden: vec![2], ..Recipe::default() };
    let library = checked_kernels();
    let hosts = [Host::new().ok(), library.map(|path| Host::load(&path).unwrap())];
    for host in hosts.into_iter().flatten() {
        let device = Launcher::new(host, States::F32);
        let (experts, gates) = routed(&device, &recipe, 0.0);
        assert_eq!(experts, [0, 1, 2]);
        assert!(gates.iter().all(|gate| *gate == 0.5));
        // Where training has diverged every access still is in range, and the gates tell.
        let (_, gates) = routed(&device, &recipe, f32::NAN);
        assert!(gates.iter().all(|gate| gate.is_nan()));
    }
    assert_eq!(routed(&Cpu::<f32>::new(), &recipe, 0.0).0, [0, 1, 2]);
}

#[test]
fn a_model_too_large_for_the_kernels_is_refused() {
    let device = Launcher::new(Host::new().unwrap(), States::F32);
    let recipe = Recipe { experts: 20_000, active: 1, hidden: vec![1], bases: 1, ..Recipe::default() };
    let layout = &recipe.problem().layout;
    let slots = layout.architecture.features;
    let mut routing = Routing {
        experts: device.indices(slots).unwrap(),
        gates: device.zeros(slots).unwrap(),
        noise_scale: device.zeros(slots).unwrap(),
    };
    let parameters = device.zeros(layout.len()).unwrap();
    let error = device.route_forward(&mut routing, &parameters, None, layout).unwrap_err().to_string();
    assert!(error.contains("model.experts is 20000"), "{error}");
}

/// Room for two pieces, experts with one, then with many: the verdict says so, and with more room everything is as if there
/// had been enough from the start.
#[test]
fn a_compilation_without_room_is_a_halt() {
    let recipe = Recipe { hidden: vec![16, 8], bases: 8, features: 40, ..Recipe::default() };
    let problem = recipe.problem();
    let (layout, a) = (&problem.layout, &problem.layout.architecture);
    let values: Vec<f32> = problem.parameters.iter().map(|&value| value as f32).collect();
    let plan = Plan { monb: Monb::Knots, ..Plan::DIRECT };
    let responses = |blocks: Blocks| {
        let device = Launcher::new(Host::new().unwrap(), States::F32).with_blocks(blocks);
        let inputs = device.inputs(&problem.batch(plan), plan).unwrap();
        let mut responses = device.responses(&inputs, layout, false).unwrap();
        let slots = a.features * a.active;
        let mut routing = Routing {
            experts: device.indices(slots).unwrap(),
            gates: device.zeros(slots).unwrap(),
            noise_scale: device.zeros(slots).unwrap(),
        };
        let (zeros, parameters) = (device.zeros(layout.len()).unwrap(), device.upload(&values).unwrap());
        device.route_forward(&mut routing, &parameters, None, layout).unwrap();
        let (mut knots, mut verdict) = (device.knots(layout).unwrap(), device.verdict().unwrap());
        device.knots_compile(&mut verdict, &mut knots, &routing, &zeros, layout).unwrap();
        assert_eq!(device.judgement(&mut verdict).unwrap().pieces, 1);
        device.knots_compile(&mut verdict, &mut knots, &routing, &parameters, layout).unwrap();
        let found = device.judgement(&mut verdict).unwrap();
        if found.crowded {
            device.make_room(&mut knots, found.pieces, layout).unwrap();
            device.resume(&mut verdict).unwrap();
            device.knots_compile(&mut verdict, &mut knots, &routing, &parameters, layout).unwrap();
            assert!(!device.judgement(&mut verdict).unwrap().is_halted());
        }
        device.knots_forward(&mut responses, &knots, &inputs, None, layout).unwrap();
        let Responses::Dense(responses) = responses else { panic!("X is dense") };
        (found.crowded, device.download_matrix(&responses).unwrap())
    };
    let enough = responses(Blocks::default());
    let little = responses(Blocks { pieces: 2, ..Blocks::default() });
    assert_eq!((enough.0, little.0), (false, true));
    assert_eq!(enough.1, little.1);
}
