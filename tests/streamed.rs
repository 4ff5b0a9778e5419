//! Graphs, features and tables larger than a device come to it in panels, and end where those end that stay on it: the same
//! losses, parameters and scores, bit for bit, for panels of any size.

#![allow(clippy::unwrap_used)] // a test may stop at the first surprise

mod common;

use common::as_sparse;
use common::emulator::{Emulator, Form};
use common::forward::forward_driver;
use common::problems::{Recipe, Task, Values};
use harmonia::config::{Config, DropoutPlace, Engine, Propagate, Sparse, States, TableUse};
use harmonia::dataset::{Dataset, Level};
use harmonia::device::Device;
use harmonia::device::cuda::{self, Cuda};
use harmonia::device::host::Host;
use harmonia::device::launcher::{Blocks, Driver, Launch, Launcher, abi};
use harmonia::graph::{Direction, Split};
use harmonia::model::MemoryPlan;
use harmonia::plan::Streamed;
use harmonia::train::trainer::State;
use harmonia::train::{Evaluation, Prepared, RunName, Trainer};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Small enough that some hundred rows are several stretches.
const BLOCKS: Blocks = Blocks {
    rows: 16,
    nodes: 8,
    backward: 64,
    states: 1 << 12,
    product_rows: 30,
    shared: 99 << 10,
    pieces: usize::MAX,
};
/// cuBLAS may take another way for a product of fewer rows; training spreads that.
const PRODUCTS_TOLERANCE: f64 = 1e-4;
/// Set where a GPU is emulated, whose products are plain loops: nothing is tolerated.
const EMULATED: &str = "STREAMED_EMULATED";

fn host(states: States) -> Launcher<Host> {
    Launcher::new(Host::new().unwrap(), states).with_blocks(BLOCKS)
}

fn dataset(recipe: &Recipe) -> Dataset {
    let mut dataset = recipe.problem().dataset;
    let units: Vec<u32> = (0..dataset.units() as u32).collect();
    dataset.split = Split::fractions(&units, [50.0, 20.0, 30.0], 1);
    dataset
}

fn config() -> Config {
    let engine = Engine { propagate: Propagate::Classes, table: TableUse::Off, ..Engine::default() };
    let mut config = Config { engine, ..Config::default() };
    (config.train.epochs, config.train.dropout, config.train.clip_norm) = (3, 0.2, 1.0);
    (config.init.readout_scale, config.train.learning_rate) = (1.0, 1e-2);
    config
}

fn prepared(dataset: &Dataset, config: &Config) -> Prepared {
    Prepared::of(dataset.clone(), None, config, RunName { seed: 3, fold: None }).unwrap()
}

fn within(config: &Config, device_memory: usize) -> Config {
    let engine = Engine { device_memory, ..config.engine };
    Config { engine, ..config.clone() }
}

fn plan<D: Device<Real = f32>>(device: &D, dataset: &Dataset, config: &Config, device_memory: usize) -> MemoryPlan {
    let config = within(config, device_memory);
    prepared(dataset, &config).memory(device, &config)
}

/// Losses, parameters and moments, and exact scores.
type Outcome = (Vec<f64>, State, Evaluation);

fn trained<D: Device<Real = f32>>(device: &D, dataset: &Dataset, config: &Config, device_memory: usize) -> Outcome {
    let config = within(config, device_memory);
    let run = prepared(dataset, &config);
    let mut trainer = Trainer::new(device, &run, &config, None).unwrap();
    let losses = (0..config.train.epochs).map(|_| trainer.epoch().unwrap().train_loss).collect();
    let state = trainer.state().unwrap();
    (losses, state, trainer.evaluate(&dataset.split.test).unwrap())
}

/// What a budget just below all of it leads to, one in the middle, and the smallest that is not refused.
fn budgets<D: Device<Real = f32>>(device: &D, dataset: &Dataset, config: &Config) -> Vec<(usize, Streamed)> {
    let whole = plan(device, dataset, config, 0).device_bytes();
    let fits = |&budget: &usize| plan(device, dataset, config, budget).check(device).is_ok();
    let steps: Vec<usize> = (1..100).map(|percent| whole * (100 - percent) / 100).filter(fits).collect();
    assert!(!steps.is_empty(), "nothing of it comes in panels");
    let mut budgets = vec![steps[0], steps[steps.len() / 2], steps[steps.len() - 1]];
    budgets.dedup();
    budgets.into_iter().map(|budget| (budget, plan(device, dataset, config, budget).streamed)).collect()
}

/// Trains under every budget; what came in panels, of any.
fn check<D: Device<Real = f32>>(device: &D, dataset: &Dataset, config: &Config, exact: bool) -> Streamed {
    let expected = trained(device, dataset, config, 0);
    assert!(expected.1.parameters.iter().all(|value| value.is_finite()));
    let mut seen = Streamed::NOTHING;
    for (budget, streamed) in budgets(device, dataset, config) {
        assert_ne!(streamed, Streamed::NOTHING);
        let found = trained(device, dataset, config, budget);
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= PRODUCTS_TOLERANCE * b.abs();
        let same = if exact { found == expected } else { found.0.iter().zip(&expected.0).all(near) };
        assert!(same, "{streamed:?}: losses {:?}, expected {:?}", found.0, expected.0);
        seen = Streamed {
            feature_rows: seen.feature_rows.max(streamed.feature_rows),
            walk_bytes: seen.walk_bytes.max(streamed.walk_bytes),
            table_bytes: seen.table_bytes.max(streamed.table_bytes),
        };
    }
    seen
}

fn on_host(dataset: &Dataset, config: &Config) -> Streamed {
    check(&host(config.engine.states), dataset, config, true)
}

fn nodes() -> Recipe {
    Recipe { nodes: 1500, features: 12, task: Task::Classes(3), ..Recipe::default() }
}

#[test]
fn features_in_panels_change_no_bit() {
    for (place, batch_size, states) in [
        (DropoutPlace::Input, 0, States::F32),
        (DropoutPlace::Feature, 300, States::F32),
        (DropoutPlace::Input, 300, States::F16),
    ] {
        let mut config = config();
        (config.train.dropout_place, config.train.batch_size, config.engine.states) = (place, batch_size, states);
        let seen = on_host(&dataset(&nodes()), &config);
        assert!(seen.feature_rows > 0, "{seen:?}");
    }
}

#[test]
fn features_are_widened_on_their_way() {
    let mut config = config();
    config.engine.sparse = Sparse::Off;
    let dense = dataset(&Recipe { values: Values::Few(3), ..nodes() });
    let half = dense.features.as_ref().clone().halved().unwrap();
    let expected = trained(&host(States::F32), &dense, &config, 0);
    for features in [half, as_sparse(&dense.features)] {
        let dataset = Dataset { features: Arc::new(features), ..dense.clone() };
        assert!(on_host(&dataset, &config).feature_rows > 0);
        assert_eq!(trained(&host(States::F32), &dataset, &config, 0).0, expected.0);
    }
}

#[test]
fn a_walk_in_panels_changes_no_bit() {
    let hub = Recipe { nodes: 1500, features: 3, hub: 1200, weighted: true, ..nodes() };
    for (recipe, states, batch_size) in
        [(Recipe { direction: Direction::Directed, ..hub.clone() }, States::F32, 0), (hub, States::Bf16, 200)]
    {
        let mut config = config();
        (config.engine.states, config.train.batch_size) = (states, batch_size);
        let seen = on_host(&dataset(&recipe), &config);
        assert!(seen.walk_bytes > 0, "{seen:?}");
    }
    // Sparse features stay, the walk does not.
    let sparse = dataset(&Recipe { values: Values::Few(2), ..nodes() });
    let sparse = Dataset { features: Arc::new(as_sparse(&sparse.features)), ..sparse };
    let seen = on_host(&sparse, &config());
    assert!((seen.feature_rows, seen.walk_bytes > 0) == (0, true), "{seen:?}");
}

#[test]
fn a_table_in_panels_changes_no_bit() {
    let nodes = Recipe { nodes: 900, features: 8, ..nodes() };
    let graphs = Recipe { graphs: 300, level: Level::Graph, ..nodes.clone() };
    for (recipe, batch_size, table_bytes, walks) in [
        (nodes.clone(), 0, 4 << 30, 0),
        (nodes.clone(), 100, 2 << 20, 0),
        (nodes, 100, 150_000, 2),
        (graphs, 20, 4 << 30, 0),
    ] {
        let config = tabled(batch_size, table_bytes, walks);
        let seen = on_host(&dataset(&recipe), &config);
        assert!(seen.table_bytes > 0, "{batch_size} {table_bytes} {walks}: {seen:?}");
    }
}

fn tabled(batch_size: usize, table_bytes: usize, walks: usize) -> Config {
    let mut config = config();
    config.engine = Engine { table: TableUse::Force, table_points: 33, table_bytes, walks, ..config.engine };
    config.train.batch_size = batch_size;
    config
}

#[test]
fn what_cannot_fit_is_refused_with_what_stays() {
    let (dataset, config, device) = (dataset(&nodes()), config(), host(States::F32));
    let message = plan(&device, &dataset, &config, 1000).check(&device).unwrap_err().to_string();
    assert!(message.contains("engine.device_memory allows"), "{message}");
    assert!(message.contains("in panels already: features, walk"), "{message}");
    let features = Config { engine: Engine { propagate: Propagate::Features, ..config.engine }, ..config };
    let message = plan(&device, &dataset, &features, 1000).check(&device).unwrap_err().to_string();
    assert!(message.contains("nothing of it can come in panels"), "{message}");
    assert!(message.contains("engine.propagate = classes"), "{message}");
}

/// How many there are; none is said.
fn gpus() -> usize {
    match cuda::device_count() {
        Ok(0) => println!("skipped: no CUDA device"),
        Err(error) if error.to_string().starts_with("no NVIDIA driver") => {
            println!("skipped: no CUDA device ({error})");
        }
        // A GPU that is there and does not work is no reason to skip.
        count => return count.unwrap(),
    }
    0
}

/// Features and walk, then a table, on a real GPU or on an emulated one.
#[test]
fn panels_change_nothing_on_a_gpu() {
    if gpus() == 0 {
        return;
    }
    let exact = std::env::var_os(EMULATED).is_some();
    let device = Launcher::new(Cuda::new(0).unwrap(), States::F32).with_blocks(BLOCKS);
    let mut config = config();
    config.train.epochs = 2;
    let recipe = Recipe { nodes: 1000, features: 6, weighted: true, ..nodes() };
    let seen = check(&device, &dataset(&recipe), &config, exact);
    assert!(seen.feature_rows > 0 && seen.walk_bytes > 0, "{seen:?}");
    let config = Config { train: config.train, ..tabled(100, 2 << 20, 0) };
    let seen = check(&device, &dataset(&Recipe { nodes: 600, features: 8, ..recipe }), &config, exact);
    assert!(seen.table_bytes > 0, "{seen:?}");
}

/// Bytes of a panel: more pieces than there are page-locked buffers.
const PANEL: usize = 20 << 20;
/// Floats that work reads, at the beginning of each piece and at the end.
const READ: usize = 256;

/// Floats from `at` on that a panel has.
fn panel_values(panel: usize, at: usize) -> impl Iterator<Item = f32> {
    (at..).map(move |at| (panel * 1_000_003 + at) as f32)
}

/// Panel after panel through a lane, the next on its way while work reads the present one: what the work found.
fn through_a_lane<V: Driver>(driver: &V, panels: usize) -> harmonia::Result<Vec<Vec<f32>>> {
    let starts = [0, (8 << 20) / 4, (16 << 20) / 4, PANEL / 4 - READ];
    let mut lane = driver.lane(PANEL)?;
    let bring = |lane: &mut V::Lane, panel: usize| {
        driver.bring(lane, panel % 2, PANEL, &mut |first, piece| {
            let values = panel_values(panel, first / 4);
            piece
                .chunks_exact_mut(4)
                .zip(values)
                .for_each(|(bytes, value)| bytes.copy_from_slice(&value.to_le_bytes()));
        })
    };
    // Before anything is under way: whoever makes room may wait for all of it.
    let room = |panel| starts.map(|start| Ok((driver.allocate(READ * 4)?, panel, start)));
    let found = (0..panels).flat_map(room).collect::<harmonia::Result<Vec<(V::Memory, usize, usize)>>>()?;
    bring(&mut lane, 0)?;
    for panel in 0..panels {
        driver.arrive(&mut lane, panel % 2)?;
        for (memory, _, start) in &found[panel * starts.len()..][..starts.len()] {
            let arguments = abi::Keep {
                kept: driver.address(memory) as *mut f32,
                values: (driver.place(&lane, panel % 2) + *start as u64 * 4) as *const f32,
                length: READ as u64,
            };
            let arguments = (&raw const arguments).cast();
            let (kernel, grid, block) = ("keep", [1, 1, 1], [256, 1, 1]);
            // SAFETY: a place has more floats than are read, and there is room for these.
            #[allow(unsafe_code)]
            unsafe {
                driver.launch(&Launch { kernel, grid, block, shared_bytes: 0, arguments })?;
            }
        }
        driver.leave(&mut lane, panel % 2)?;
        bring(&mut lane, panel + 1)?;
    }
    let read = |(memory, ..): &(V::Memory, usize, usize)| {
        let mut bytes = vec![0; READ * 4];
        driver.read(&mut bytes, memory)?;
        Ok(bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect())
    };
    let values = found.iter().map(read).collect::<harmonia::Result<Vec<Vec<f32>>>>()?;
    for (values, (_, panel, start)) in values.iter().zip(&found) {
        let expected: Vec<f32> = panel_values(*panel, *start).take(READ).collect();
        if *values != expected {
            return Err(harmonia::Error::Device(format!("panel {panel} from {start} on is not what was brought")));
        }
    }
    Ok(values)
}

/// On a real GPU, or on an emulated one.
#[test]
fn a_lane_brings_what_it_was_given_on_a_gpu() {
    if gpus() > 0 {
        through_a_lane(&Cuda::new(0).unwrap(), 5).unwrap();
    }
}

/// The host's driver, forgetting to say when work begins or ends to use a place.
struct Forgetful {
    host: Host,
    forgotten: &'static str,
}

#[allow(unsafe_code)]
impl Driver for Forgetful {
    forward_driver!(write read send receive clear launch gemm);

    fn arrive(&self, lane: &mut Self::Lane, place: usize) -> harmonia::Result<()> {
        if self.forgotten == "arrive" { Ok(()) } else { self.host.arrive(lane, place) }
    }
    fn leave(&self, lane: &mut Self::Lane, place: usize) -> harmonia::Result<()> {
        if self.forgotten == "leave" { Ok(()) } else { self.host.leave(lane, place) }
    }
}

/// Bugs of the second stream, planted: a lane is used, and a whole training streamed, without one of the waits.
#[test]
fn a_forgotten_wait_is_found_on_the_host() {
    let run = |forgotten| through_a_lane(&Forgetful { host: Host::new().unwrap(), forgotten }, 5);
    run("nothing").unwrap();
    for (forgotten, found) in [("arrive", "is Filled, not InUse"), ("leave", "filled while it is in use")] {
        let message = run(forgotten).unwrap_err().to_string();
        assert!(message.contains(found), "{forgotten}: {message}");
        let driver = Forgetful { host: Host::new().unwrap(), forgotten };
        let device = Launcher::new(driver, States::F32).with_blocks(BLOCKS);
        let (dataset, config) = (dataset(&nodes()), config());
        let (budget, _) = budgets(&device, &dataset, &config)[0];
        let config = within(&config, budget);
        let run = prepared(&dataset, &config);
        let message = Trainer::new(&device, &run, &config, None).unwrap().epoch().unwrap_err().to_string();
        assert!(message.contains("of a lane is"), "{forgotten}: {message}");
    }
}

/// The same on the emulator: each wait that is forgotten (`emulator/streams.cpp`) is found by what work reads.
#[test]
fn a_forgotten_wait_is_found_on_an_emulated_gpu() {
    let Some(emulator) = Emulator::found() else { return };
    let beside = second_stream(&emulator);
    let test = "a_lane_brings_what_it_was_given_on_a_gpu";
    let run = |forgotten: Option<&str>| {
        let mut command = emulated(&emulator, &beside, test);
        if let Some(what) = forgotten {
            command.env("STREAMS_FORGET", what);
        }
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (success, text) = run(None);
    assert!(success && !text.contains("skipped"), "{text}");
    for forgotten in ["arrive", "leave", "record", "buffer"] {
        let (success, text) = run(Some(forgotten));
        assert!(!success, "nobody noticed a forgotten {forgotten}: {text}");
        let reports = ["is not what was brought", "UNINIT"];
        assert!(reports.iter().any(|report| text.contains(report)), "{forgotten}: {text}");
        println!("{forgotten}: found");
    }
}

/// `emulator/streams.cpp`, built: where the loader finds it before the emulator.
fn second_stream(emulator: &Emulator) -> PathBuf {
    let libraries = emulator.libraries();
    let beside = emulator.scratch("streams");
    std::fs::create_dir_all(&beside).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulator/streams.cpp");
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++20", "-O2", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o"]).arg(beside.join("libcuda.so"));
    compiler.arg(format!("-DEMULATOR=\"{}\"", libraries.join("libcuda.so").display()));
    assert!(compiler.arg(source).arg(libraries.join("libcuda.so")).arg("-ldl").status().unwrap().success());
    beside
}

/// A test of this file on an emulated GPU with two streams.
fn emulated(emulator: &Emulator, beside: &Path, test: &str) -> Command {
    let form = emulator.kernels()[0];
    assert!(matches!(form, Form::Source | Form::Fatbin));
    let mut command = emulator.command(&std::env::current_exe().unwrap(), form);
    command.args(["--exact", test, "--nocapture"]).env(EMULATED, "1");
    command.env("LD_LIBRARY_PATH", std::env::join_paths([beside, emulator.libraries()]).unwrap());
    command
}

/// The same on the emulator, with a second stream that transfers as early and as late as the order allows
/// (`emulator/streams.cpp`). The next panel is asked for while work on the present one is under way, and the host waits for
/// page-locked memory alone.
#[test]
fn panels_come_beside_the_work_on_an_emulated_gpu() {
    let Some(emulator) = Emulator::found() else { return };
    let beside = second_stream(&emulator);
    let (log, summary) = (emulator.scratch("streams.log"), emulator.scratch("streams.summary"));
    let mut command = emulated(&emulator, &beside, "panels_change_nothing_on_a_gpu");
    command.env("PTXEMU_RACE", "1").env("PTXEMU_SUMMARY", &summary).env("STREAMS_LOG", &log);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && !text.contains("skipped"), "{text}");
    let summary = std::fs::read_to_string(summary).unwrap();
    assert!(summary.contains(" races 0 uninit_global 0 uninit_shared 0 faults 0"), "{summary}");
    assert!(summary.contains("leaked_alloc 0 leaked_obj 0"), "{summary}");

    let log = std::fs::read_to_string(log).unwrap();
    let (mut copies, mut beside_work, mut waits, mut launched) = (0, 0, 0, false);
    for line in log.lines() {
        match line.split(' ').next().unwrap() {
            // Work on the panel that has arrived.
            "arrive" => launched = false,
            "launch" => launched = true,
            "copy" => {
                copies += 1;
                beside_work += usize::from(launched);
            }
            "host-wait" => waits += 1,
            _ => {}
        }
    }
    println!(
        "{copies} copies, {beside_work} of them beside work on another panel, {waits} waits for page-locked memory"
    );
    assert!(copies > 50, "{copies}");
    assert!(beside_work * 10 >= copies * 9, "{beside_work} of {copies}");
    assert!(waits <= copies, "{waits}");
}
