//! `harmonia doctor`, and what it stands on: the table of kernels, ptxas' report and the count of a step's traffic are
//! compared with the kernels there are and the launches that happen.

// Launching a kernel is unsafe.
#![allow(unsafe_code)]
// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

mod common;
mod program;

use common::forward::forward_driver;
use common::plans;
use common::problems::{Recipe, Task};
use harmonia::architecture::Layout;
use harmonia::config::Initialisation;
use harmonia::config::States;
use harmonia::device::cpu::Cpu;
use harmonia::device::cuda;
use harmonia::device::host::{Host, Memory};
use harmonia::device::launcher::traffic::{self, Problem};
use harmonia::device::launcher::{self, Driver, Gemm, GemmBatch, Launch, Launcher};
use harmonia::device::resources::{Resources, parse};
use harmonia::device::{AdamStep, Device, Routing};
use harmonia::knots::Tables;
use harmonia::model::{Randomness, Resident, initial_parameters};
use harmonia::plan::Plan;
use harmonia::seed::{Purpose, Stream};
use harmonia::settings::Layers;
use harmonia::settings::presets;
use program::{Scratch, stdout_of};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

/// Generations whose machine code may use no local memory.
const ARCHS: [&str; 4] = ["sm_80", "sm_86", "sm_89", "sm_90"];
/// Columns of a terminal that tables must fit.
const COLUMNS: usize = 120;
const ROOFLINE: &str = "docs/roofline.md";
const SCALE: &str = "docs/scale.md";

/// ptxas' report; none where nvcc was not there.
fn report() -> Option<Vec<Resources>> {
    let report = parse(cuda::embedded().ptxas_report);
    if report.is_empty() {
        println!("skipped: nvcc was not there when this was built");
        return None;
    }
    Some(report)
}

#[test]
fn the_table_names_exactly_the_kernels_there_are() {
    let names: Vec<&str> = launcher::kernels().iter().map(|kernel| kernel.name).collect();
    assert_eq!(names, Host::new().unwrap().kernels());
    let Some(report) = report() else { return };
    for arch in cuda::embedded().archs.split(',') {
        let arch = format!("sm_{arch}");
        let mut compiled: Vec<&str> =
            report.iter().filter(|line| line.arch == arch).map(|line| line.kernel.as_str()).collect();
        compiled.sort_unstable();
        assert_eq!(names, compiled, "{arch}");
    }
}

#[test]
fn hot_kernels_use_no_local_memory() {
    let Some(report) = report() else { return };
    let families = ["propagate_", "knots_", "project_", "walk_"];
    let hot = |name: &str| {
        families.iter().any(|family| name.starts_with(family)) || name.ends_with("_16_8") || name.ends_with("_64_32")
    };
    let built: Vec<String> = cuda::embedded().archs.split(',').map(|arch| format!("sm_{arch}")).collect();
    for arch in ARCHS.iter().filter(|arch| built.iter().any(|built| built == *arch)) {
        let lines: Vec<&Resources> = report.iter().filter(|line| line.arch == *arch && hot(&line.kernel)).collect();
        assert!(lines.len() > 4, "{arch}: {lines:?}");
        for kernel in ["monb_forward_16_8", "monb_backward_16_8", "monb_forward_64_32", "monb_backward_64_32"] {
            assert!(lines.iter().any(|line| line.kernel == kernel), "{arch} has no {kernel}");
        }
        for line in lines {
            assert_eq!((line.stack, line.spill_stores, line.spill_loads), (0, 0, 0), "{line:?}");
        }
    }
}

/// A warp that waits for one load at a time waits for memory all the time; docs/gpu.md has the table.
#[test]
fn hot_kernels_have_loads_in_flight() {
    const LEAST: usize = 4;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !root.join(".cuda/bin/nvcc").is_file() {
        return println!("skipped: no nvcc in .cuda (scripts/install-nvcc.sh)");
    }
    let kernels = ["knots_backward", "knots_forward", "walk_rows4_f32", "walk_rows_f32", "propagate_forward_wide4_f32"];
    let output = Command::new("python3").arg(root.join("scripts/ptx.py")).args(kernels).output();
    let Ok(output) = output else { return println!("skipped: no python3") };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}");
    for kernel in kernels {
        let row = text.lines().find(|line| line.starts_with(&format!("| {kernel} |"))).unwrap();
        let in_flight: usize = row.split('|').nth(4).unwrap().trim().parse().unwrap();
        assert!(in_flight >= LEAST, "{row}");
    }
}

/// Bytes a cycle of a multiprocessor, by machine code, beside a plain copy: docs/gpu.md has the table, scripts/sass.py what is
/// assumed.
#[test]
fn hot_kernels_move_three_quarters_of_the_bytes_of_a_copy() {
    const LEAST: f64 = 75.0;
    if report().is_none() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !root.join(".cuda/bin/nvdisasm").is_file() {
        return println!("skipped: no nvdisasm in .cuda (scripts/install-nvcc.sh)");
    }
    let kernels = ["knots_backward", "knots_forward", "walk_rows4_f32", "propagate_forward_wide4_f32"];
    for arch in ["sm_80", "sm_90"] {
        let doctor: Value = serde_json::from_str(&doctor_ok(&["--kernels", "--arch", arch, "--json"])).unwrap();
        let known = doctor["kernels"].as_array().unwrap();
        let resident = |name: &&str| {
            let kernel = known.iter().find(|kernel| kernel["kernel"] == **name).unwrap();
            format!("{name}={}", kernel["warps_per_multiprocessor"].as_u64().unwrap())
        };
        let asked: Vec<String> = kernels.iter().map(resident).collect();
        let output =
            Command::new("python3").arg(root.join("scripts/sass.py")).args(["--arch", arch]).args(asked).output();
        let Ok(output) = output else { return println!("skipped: no python3") };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{arch}\n{text}");
        for kernel in kernels {
            let row = text.lines().find(|line| line.starts_with(&format!("| {kernel} |"))).unwrap();
            let share: f64 = row.split('|').nth(6).unwrap().trim().trim_end_matches(" %").parse().unwrap();
            assert!(share >= LEAST, "{arch}: {row}");
        }
    }
}

/// The host, and a record of what it was asked for.
struct Recorder {
    host: Host,
    /// Times each was run; `gemm` and `memset` beside kernels.
    runs: Mutex<BTreeMap<&'static str, usize>>,
    /// Dynamic shared memory of each launch.
    shared: Mutex<BTreeMap<&'static str, u32>>,
}

impl Recorder {
    fn count(&self, what: &'static str) {
        *self.runs.lock().unwrap().entry(what).or_default() += 1;
    }
}

impl Driver for Recorder {
    forward_driver!(write read send receive arrive leave);

    fn clear(&self, memory: &mut Memory) -> harmonia::Result<()> {
        self.count("memset");
        self.host.clear(memory)
    }

    unsafe fn launch(&self, launch: &Launch) -> harmonia::Result<()> {
        self.count(launch.kernel);
        self.shared.lock().unwrap().insert(launch.kernel, launch.shared_bytes);
        // SAFETY: as the caller promises.
        unsafe { self.host.launch(launch) }
    }

    unsafe fn gemm(&self, product: &Gemm) -> harmonia::Result<()> {
        self.count("gemm");
        // SAFETY: as the caller promises.
        unsafe { self.host.gemm(product) }
    }

    unsafe fn gemm_batch(&self, batch: &GemmBatch) -> harmonia::Result<()> {
        self.count("gemm");
        // SAFETY: as the caller promises.
        unsafe { self.host.gemm_batch(batch) }
    }
}

/// Pieces of a response with these parameters, at most over features.
fn pieces(layout: &Layout, parameters: &[f32]) -> usize {
    let device = Cpu::<f32>::new();
    let slots = layout.architecture.features * layout.architecture.active;
    let mut routing = Routing { experts: vec![0; slots], gates: vec![0.0; slots], noise_scale: vec![0.0; slots] };
    device.route_forward(&mut routing, &parameters.to_vec(), None, layout).unwrap();
    let mut tables = Tables::default();
    tables.compile(&routing.experts, &routing.gates, parameters, layout);
    tables.stride()
}

#[test]
fn a_training_step_launches_what_the_traffic_model_counts() {
    let base = Recipe { nodes: 40, hidden: vec![16, 8], bases: 8, task: Task::Classes(3), ..Recipe::default() };
    let cases = [
        (Recipe { features: 100, ..base.clone() }, States::F32),
        (Recipe { features: 33, hops: 1, ..base.clone() }, States::F16),
        (Recipe { features: 9, hops: 4, weighted: true, nodes: 700, ..base.clone() }, States::F16),
        // Rows that do not divide by the parts they are summed in.
        (Recipe { features: 5, nodes: 1030, ..base.clone() }, States::F32),
        (Recipe { features: 4, hidden: vec![64, 32], ..base.clone() }, States::Bf16),
        (Recipe { features: 2, hidden: vec![300, 40], ..base.clone() }, States::F32),
        (Recipe { features: 5, hidden: vec![7], active: 1, task: Task::Classes(200), ..base }, States::F32),
    ];
    for (recipe, states) in cases {
        for plan in plans().into_iter().filter(|plan| !plan.sparse) {
            launches_agree(&recipe, states, plan);
        }
    }
}

fn launches_agree(recipe: &Recipe, states: States, plan: Plan) {
    let problem = recipe.problem();
    let (batch, layout) = (problem.batch(plan), &problem.layout);
    let rounded: Vec<f32> = problem.parameters.iter().map(|&value| value as f32).collect();
    let counted = Problem {
        nodes: batch.nodes(),
        entries: batch.transition().unwrap().matrix().col_idx.len(),
        weighted: recipe.weighted,
        targets: batch.units.len(),
        states,
        plan,
        pieces: pieces(layout, &rounded),
        layout: layout.clone(),
        table: None,
    };
    let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
    for work in traffic::step(&counted) {
        let name = if work.kernel.starts_with("gemm") { "gemm" } else { work.kernel };
        *expected.entry(name).or_default() += work.launches;
    }
    let recorder = Recorder { host: Host::new().unwrap(), runs: Mutex::default(), shared: Mutex::default() };
    let device = Launcher::new(recorder, states);
    let mut parameters = device.upload(&rounded).unwrap();
    let [mut gradient, mut first, mut second] = [(); 3].map(|()| device.zeros(layout.len()).unwrap());
    let mut resident = Resident::new(&device, layout, plan, batch).unwrap();
    let (mut verdict, all) = (device.verdict().unwrap(), 0..layout.len());
    let mut noise = device.zeros(layout.architecture.features * layout.architecture.experts).unwrap();
    device.driver().runs.lock().unwrap().clear();
    device.clear(&mut gradient).unwrap();
    device.draw_noise(&mut noise, &Stream::new(0, Purpose::Noise, 0), 1.0).unwrap();
    resident.take_gradient(&mut gradient, &parameters, &Randomness::none()).unwrap();
    device.norm(&mut verdict, &gradient).unwrap();
    let step = AdamStep { learning_rate: 1e-3, weight_decay: 0.0, decoupled: false, step: 1, clip_norm: 0.0 };
    device.adam(&mut parameters, &mut first, &mut second, &gradient, &verdict, &all, step).unwrap();
    assert_eq!(*device.driver().runs.lock().unwrap(), expected, "{recipe:?}, {states:?}, {plan:?}");
    for (kernel, &bytes) in device.driver().shared.lock().unwrap().iter() {
        let known = launcher::kernel(kernel).unwrap().dynamic_bytes(&layout.architecture);
        // How much tables of pieces take is known when experts are compiled: the table of kernels knows the most.
        let agrees = if kernel.starts_with("knots") { bytes as usize <= known } else { bytes as usize == known };
        assert!(agrees, "{kernel} has {bytes} bytes of dynamic shared memory, {known} are known");
    }
}

/// Runs `harmonia doctor` where it can see no GPU.
fn doctor(arguments: &[&str]) -> std::process::Output {
    let scratch = Scratch::new();
    let arguments: Vec<&str> = ["doctor"].iter().chain(arguments).copied().collect();
    scratch.command("harmonia", &arguments).env("CUDA_VISIBLE_DEVICES", "").output().unwrap()
}

fn doctor_ok(arguments: &[&str]) -> String {
    let text = stdout_of(&doctor(arguments), arguments);
    for line in text.lines().filter(|_| !arguments.is_empty() && !arguments.contains(&"--json")) {
        assert!(line.chars().count() <= COLUMNS, "{arguments:?}: {line}");
    }
    text
}

#[test]
fn without_a_gpu_it_says_why_the_cpu_is_chosen() {
    let text = doctor_ok(&[]);
    for label in
        ["harmonia", "CPU", "kernels on the CPU", "kernels for GPUs", "CUDA driver", "cuBLAS", "NVRTC", "kernel cache"]
    {
        assert!(text.lines().any(|line| line.starts_with(label)), "no {label:?} in:\n{text}");
    }
    let auto = text.lines().find(|line| line.starts_with("--device auto")).unwrap();
    assert!(auto.contains("cpu: ") && auto.to_lowercase().contains("nvidia driver"), "{auto}");
    let json: Value = serde_json::from_str(&doctor_ok(&["--json"])).unwrap();
    assert_eq!((&json["auto"]["device"], &json["devices"]), (&"cpu".into(), &Value::Array(vec![])));
    assert!(json["auto"]["reason"].is_string() && json["cpu"]["cores"].as_u64().unwrap() > 0, "{json}");
}

#[test]
fn kernels_are_listed_or_the_way_to_a_list_is_named() {
    let output = doctor(&["--kernels"]);
    let Some(report) = report() else {
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("install-nvcc.sh"));
        return;
    };
    let arch = report[0].arch.as_str();
    let text = doctor_ok(&["--kernels", "--arch", arch]);
    let forward = text.lines().find(|line| line.starts_with("monb_forward_16_8")).unwrap();
    assert!(forward.contains(" 128 ") && forward.contains('%'), "{forward}");
    let json: Value = serde_json::from_str(&doctor_ok(&["--kernels", "--json"])).unwrap();
    let kernels = json["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), report.len());
    assert!(kernels.iter().all(|kernel| kernel["registers"].as_u64().unwrap() > 0));
    // Its launch bounds promise at least four blocks of 128 threads.
    let blocks = |kernel: &Value| kernel["blocks_per_multiprocessor"].as_u64();
    let bounded = |kernel: &&Value| kernel["kernel"] == "monb_forward_16_8";
    assert!(kernels.iter().filter(bounded).all(|kernel| blocks(kernel).is_none_or(|blocks| blocks >= 4)));
    let refused = doctor(&["--kernels", "--arch", "sm_20"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains(arch));
}

#[test]
fn the_roofline_is_the_one_in_the_documentation() {
    let text = doctor_ok(&["--roofline"]);
    let page = std::fs::read_to_string(ROOFLINE).unwrap();
    let (before, rest) = page.split_once("```text\n").unwrap();
    let (_, after) = rest.split_once("```\n").unwrap();
    let fresh = format!("{before}```text\n{text}```\n{after}");
    if std::env::var_os("HARMONIA_RENEW_ROOFLINE").is_some() {
        std::fs::write(ROOFLINE, fresh).unwrap();
        println!("wrote {ROOFLINE}");
        return;
    }
    assert!(page == fresh, "{ROOFLINE} is stale; renew it with `HARMONIA_RENEW_ROOFLINE=1 cargo test --test doctor`");
}

#[test]
fn the_scale_on_paper_is_the_one_in_the_documentation() {
    let text = doctor_ok(&["--scale"]);
    let page = std::fs::read_to_string(SCALE).unwrap();
    let (before, rest) = page.split_once("```text\n").unwrap();
    let (_, after) = rest.split_once("```\n").unwrap();
    let fresh = format!("{before}```text\n{text}```\n{after}");
    if std::env::var_os("HARMONIA_RENEW_SCALE").is_some() {
        std::fs::write(SCALE, fresh).unwrap();
        println!("wrote {SCALE}");
        return;
    }
    assert!(page == fresh, "{SCALE} is stale; renew it with `HARMONIA_RENEW_SCALE=1 cargo test --test doctor scale`");
}

#[test]
fn one_process_is_told_how_ranks_are_started() {
    assert!(doctor_ok(&["--ranks"]).contains("mpirun -n 2 harmonia doctor --ranks"));
    let json: Value = serde_json::from_str(&doctor_ok(&["--ranks", "--json"])).unwrap();
    assert_eq!(json["ranks"], 1);
}

#[test]
fn the_roofline_counts_with_about_as_many_pieces_as_new_experts_have() {
    let json: Value = serde_json::from_str(&doctor_ok(&["--roofline", "--json"])).unwrap();
    for dataset in json["datasets"].as_array().unwrap() {
        let name = dataset["dataset"].as_str().unwrap();
        let mut layers = Layers::new().unwrap();
        layers.toml(presets::named(name).unwrap().1, name).unwrap();
        let size = |key: &str| dataset[key].as_u64().unwrap() as usize;
        let layout = Layout::new(layers.finish().unwrap().architecture(size("features"), size("outputs"))).unwrap();
        let parameters = initial_parameters::<f32>(&layout, Initialisation::default(), 0);
        let (counted, found) = (size("pieces"), pieces(&layout, &parameters));
        assert!(counted <= 2 * found && found <= 2 * counted, "{name}: {counted} counted, {found} found");
    }
}

#[test]
fn a_faster_gpu_takes_less_time_and_nonsense_is_refused() {
    let total = |arguments: &[&str]| {
        let json: Value = serde_json::from_str(&doctor_ok(arguments)).unwrap();
        json["datasets"][0]["ms_no_reuse"].as_f64().unwrap()
    };
    let usual = total(&["--roofline", "--json"]);
    let twice = total(&["--roofline", "--json", "--bandwidth", "2016", "--tflops", "164"]);
    assert!((usual / twice - 2.0).abs() < 1e-9, "{usual} {twice}");
    for wrong in [["--bandwidth", "0"], ["--tflops", "inf"]] {
        let arguments: Vec<&str> = ["--roofline"].iter().chain(&wrong).copied().collect();
        assert_eq!(doctor(&arguments).status.code(), Some(2), "{wrong:?}");
    }
}
