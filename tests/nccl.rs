//! Gradients from GPU to GPU, on emulated ones: `nccl/nccl.cpp` stands in for NCCL between threads or processes of this machine, and
//! ends a program that misuses it; `nccl/devices.cpp` gives the emulator several devices.

#![allow(clippy::unwrap_used, clippy::panic)] // a test may stop at the first surprise

mod common;
mod program;

use common::emulator::{Emulator, Form};
use harmonia::config::States;
use harmonia::device::cuda::Cuda;
use harmonia::device::launcher::Launcher;
use harmonia::device::{Device, link};
use harmonia::team::threads::together;
use harmonia::team::{Team, sum};
use program::{Scratch, stdout_of};
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

/// Parameters of the same training by one process and by two, which sum in another order, relative to the largest.
const TOLERANCE: f64 = 1e-5;
/// Set for the test that others run on emulated devices.
const CHILD: &str = "NCCL_CHILD";
/// Seconds that a rank waits for one that hangs.
const PATIENCE: &str = "1";

/// Emulated devices, and a library in place of NCCL.
struct StandIn {
    emulator: Emulator,
    form: Form,
    devices: PathBuf,
    nccl: PathBuf,
}

impl StandIn {
    fn found() -> Option<StandIn> {
        let emulator = Emulator::found()?;
        let [devices, nccl, ids] = ["devices", "nccl", "ids"].map(|name| emulator.scratch(name));
        for directory in [&devices, &nccl, &ids] {
            std::fs::create_dir_all(directory).unwrap();
        }
        let driver = emulator.libraries().join("libcuda.so");
        let several = devices.join("libcuda.so");
        let define = format!("-DEMULATOR=\"{}\"", driver.display());
        let shared = ["-shared", "-fPIC", "-Wl,--no-as-needed"];
        compile("devices.cpp", &shared, &[&define], &several, &[&driver]);
        compile("nccl.cpp", &shared, &[], &nccl.join("libnccl.so.2"), &[&several]);
        let form = emulator.kernels()[0];
        Some(StandIn { emulator, form, devices, nccl })
    }

    /// A program that finds so many emulated GPUs, and NCCL.
    fn command(&self, program: &Path, gpus: usize) -> Command {
        let mut command = self.emulator.command(program, self.form);
        let places = [&self.devices, &self.nccl, self.emulator.libraries()];
        command.env("LD_LIBRARY_PATH", std::env::join_paths(places).unwrap()).env("PTXEMU_DEVICES", gpus.to_string());
        command.env("NCCL_STAND_IN", self.emulator.scratch("ids"));
        command
    }

    /// `child_of_two_devices`, which prints what came of it.
    fn child(&self, settings: &[(&str, &str)]) -> (Output, String) {
        let mut command = self.command(&std::env::current_exe().unwrap(), 2);
        command.args(["--exact", "child_of_two_devices", "--nocapture"]).env(CHILD, "1");
        let output = command.envs(settings.iter().copied()).output().unwrap();
        let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
        (output, text)
    }
}

/// A file of `tests/nccl`.
fn compile(source: &str, kind: &[&str], more: &[&str], out: &Path, libraries: &[&Path]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nccl").join(source);
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++20", "-O2", "-Wall", "-Werror"]).args(kind).args(more).arg("-o").arg(out);
    let output = compiler.arg(&source).args(libraries).args(["-ldl", "-pthread"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Two threads as ranks with a device each: three sums, the bits of which are those of the host.
#[test]
fn child_of_two_devices() {
    if std::env::var_os(CHILD).is_none() {
        return; // run by the tests below
    }
    let rounds = |device: &Launcher<Cuda>, team: &dyn Team| {
        if let Some(why) = link::connect(device, team)? {
            println!("rank {}: {why}", team.rank());
            return Ok(());
        }
        for round in 0..3usize {
            let value = |at: usize| 10f32.powi((at * (3 + 4 * team.rank()) + round) as i32 % 9 - 4) * (1.0 + at as f32);
            let mut expected: Vec<f32> = (0..1000).map(value).collect();
            let mut values = device.upload(&expected)?;
            device.join(team, &mut values)?;
            let found = device.download(&values)?;
            sum(team, &mut expected)?;
            assert!(found.iter().zip(&expected).all(|(found, expected)| found.to_bits() == expected.to_bits()));
        }
        println!("rank {}: summed", team.rank());
        Ok(())
    };
    // Emulated devices have one queue: it has to be empty when one of them is closed.
    let turn = Mutex::new(());
    let rank = |team: &dyn Team| {
        let device = {
            let _turn = turn.lock();
            Launcher::new(Cuda::new(team.rank())?, States::F32)
        };
        let end = rounds(&device, team);
        if let Err(error) = &end {
            println!("rank {}: {error}", team.rank());
        }
        let _turn = turn.lock();
        drop(device);
        end
    };
    drop(together(2, rank));
}

#[test]
fn gpus_sum_what_the_host_would_and_failures_name_the_call() {
    let Some(stand_in) = StandIn::found() else { return };
    let log = stand_in.emulator.scratch("nccl.log");
    let (output, text) = stand_in.child(&[("NCCL_STAND_IN_LOG", log.to_str().unwrap()), ("PTXEMU_RACE", "1")]);
    assert!(output.status.success() && !text.contains("EMU") && !text.contains("MISUSE"), "{text}");
    for rank in ["0", "1"] {
        assert!(text.contains(&format!("rank {rank}: summed")), "{text}");
        let log = std::fs::read_to_string(&log).unwrap();
        let calls: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix(rank)).map(str::trim).collect();
        assert_eq!(calls, [&format!("init {rank}"), "gather 4000", "gather 4000", "gather 4000", "destroy"]);
    }

    // Ranks on one GPU, and without the library: through the host, and nobody fails.
    let (_, text) = stand_in.child(&[("DEVICES_SAME", "1")]);
    assert!(text.contains("rank 1: gradients go from GPU to GPU through the host: ranks 0 and 1 on "), "{text}");
    assert!(text.contains("the same GPU, which NCCL refuses: start one process for each GPU"), "{text}");
    let without = std::env::join_paths([&stand_in.devices, stand_in.emulator.libraries()]).unwrap();
    let (_, text) = stand_in.child(&[("LD_LIBRARY_PATH", without.to_str().unwrap())]);
    assert!(text.contains("rank 0 on ") && text.contains("libnccl.so.2 was not found: install NCCL"), "{text}");

    // The one it happens to says what, the other that nobody came; both abort what they had.
    let waited = "ncclAllGather has not ended for 1 s (HARMONIA_NCCL_TIMEOUT): another process hangs or is gone";
    for (plan, rank_0, rank_1) in [
        ("error:1:2", waited, "ncclAllGather failed: unhandled system error: the stand-in was told to fail"),
        ("notice:1:2", waited, "ncclAllGather failed: remote process exited or there was a network error"),
        ("hang:1:3", waited, waited),
    ] {
        std::fs::remove_file(&log).unwrap();
        let settings = [("NCCL_STAND_IN_FAIL", plan), ("HARMONIA_NCCL_TIMEOUT", PATIENCE)];
        let (_, text) = stand_in.child(&[&settings[..], &[("NCCL_STAND_IN_LOG", log.to_str().unwrap())]].concat());
        for (rank, expected) in [(0, rank_0), (1, rank_1)] {
            assert!(text.contains(&format!("rank {rank}: {expected}")), "{plan}: {text}");
        }
        assert!(!text.contains("EMU") && !text.contains("MISUSE"), "{plan}: {text}");
        let log = std::fs::read_to_string(&log).unwrap();
        let ends: Vec<&str> = log.lines().filter(|line| line.ends_with("abort") || line.ends_with("destroy")).collect();
        assert!(ends.len() == 2 && ends.contains(&"0 abort") && ends.contains(&"1 abort"), "{plan}: {log}");
    }
}

/// What NCCL would not say, the stand-in does.
#[test]
fn misuse_of_nccl_is_found_by_the_stand_in() {
    let Some(stand_in) = StandIn::found() else { return };
    let program = stand_in.emulator.scratch("misuse");
    let libraries = [
        stand_in.nccl.join("libnccl.so.2"),
        stand_in.devices.join("libcuda.so"),
        stand_in.emulator.libraries().join("libcuda.so"),
    ];
    let link = format!("-Wl,-rpath-link,{}", stand_in.devices.display());
    compile("misuse.cpp", &[], &[&link], &program, &libraries.each_ref().map(|path| path.as_path()));
    let run = |misuse: &str| {
        let output = stand_in.command(&program, 2).arg(misuse).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    assert_eq!(run("none"), (true, "allowed\n".into()));
    for (misuse, expected) in [
        ("host", "from memory that its device does not have"),
        ("freed", "from memory that its device does not have"),
        ("other-memory", "from memory that its device does not have"),
        ("small", "to memory that its device does not have"),
        ("overlap", "to memory that it reads"),
        ("counts", "ranks gather other numbers of bytes"),
        ("destroyed", "ncclAllGather of a communicator that is gone"),
        ("aborted", "ncclAllGather of a communicator that is gone"),
        ("twice-destroyed", "ncclCommDestroy of a communicator that is gone"),
        ("before", "ncclAllGather before ncclCommInitRank"),
        ("twice", "a rank was initialised twice"),
        ("numbers", "ranks have other numbers of ranks"),
        ("rank", "a rank that is none"),
        ("id", "an id that ncclGetUniqueId has not made"),
        ("context", "without a current context"),
        ("stream", "on a stream of another device"),
        ("other-device", "on a stream of another device"),
    ] {
        let (allowed, text) = run(misuse);
        assert!(!allowed && text.contains("NCCL API-MISUSE: ") && text.contains(expected), "{misuse}: {text}");
    }
}

/// What a training left: its parameters, what it said, and what each rank asked the driver and NCCL for.
struct Trained {
    parameters: BTreeMap<String, Vec<f32>>,
    said: String,
    driver: Vec<String>,
    nccl: String,
}

impl Trained {
    fn size(&self) -> usize {
        self.parameters.values().map(Vec::len).sum()
    }

    /// Calls of the driver of a rank between its first and its last step.
    fn steps(&self, rank: usize) -> Vec<&str> {
        let calls: Vec<&str> = self.driver[rank].lines().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
        let is_adam = |call: &&str| call.starts_with("launch adam ");
        let (first, last) = (calls.iter().position(is_adam).unwrap(), calls.iter().rposition(is_adam).unwrap());
        calls[first..=last].to_vec()
    }
}

/// The synthetic study, which is a set of graphs, for two epochs.
fn train(stand_in: &StandIn, ranks: usize, gpus: usize) -> Trained {
    let scratch = Scratch::new();
    let binary = Path::new(env!("CARGO_BIN_EXE_harmonia-train"));
    let mut command = stand_in.command(if ranks == 1 { Path::new("sh") } else { Path::new("mpirun") }, gpus);
    if ranks > 1 {
        // A machine of two cores, and whoever runs CI.
        command.args(["-n", &ranks.to_string(), "--oversubscribe", "--bind-to", "none", "sh"]);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
    }
    command.args(["-c", "PTXEMU_LOG=driver.${OMPI_COMM_WORLD_RANK:-0} exec \"$@\"", "sh"]).arg(binary);
    let arguments = ["--dataset", "synthetic", "--epochs", "2", "--device", "cuda", "--out", "run", "--threads", "1"];
    let settings = ["--set", "init.readout_scale=1", "--set", "run.checkpoint_seconds=86400"];
    command.args(arguments).args(settings).env("NCCL_STAND_IN_LOG", scratch.path("nccl"));
    let output = command.current_dir(scratch.path(".")).output().unwrap();
    stdout_of(&output, &arguments);
    let read = |name: &str| std::fs::read_to_string(scratch.path(name)).unwrap_or_default();
    let file = std::fs::read(scratch.path("run/last.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let kept = |name: &str| !name.starts_with("adam.") && !name.starts_with("best.");
    let parameters = tensors.tensors().into_iter().filter(|(name, _)| kept(name)).map(|(name, tensor)| {
        let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
        (name, tensor.data().chunks_exact(4).map(number).collect())
    });
    Trained {
        parameters: parameters.collect(),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
        driver: (0..ranks).map(|rank| read(&format!("driver.{rank}"))).collect(),
        nccl: read("nccl"),
    }
}

/// Two processes with a GPU each: the parameters of one process, and no gradient that goes to the host. On one GPU gradients do, to the
/// same bits.
#[test]
fn two_processes_train_one_model_from_gpu_to_gpu() {
    if !cfg!(feature = "mpi") {
        return println!("skipped: built without the feature mpi");
    }
    if Command::new("mpirun").arg("--version").output().is_err() {
        return println!("skipped: no mpirun (Debian: openmpi-bin)");
    }
    let Some(stand_in) = StandIn::found() else { return };
    let alone = train(&stand_in, 1, 2);
    let together = train(&stand_in, 2, 2);
    let (mut worst, mut largest) = (0f64, 0f64);
    for (name, values) in &alone.parameters {
        for (a, b) in values.iter().zip(&together.parameters[name]) {
            worst = worst.max(f64::from(a - b).abs());
            largest = largest.max(f64::from(*a).abs());
        }
    }
    println!("{} parameters, the largest {largest}: {worst} apart at most", alone.size());
    assert!(largest > 0.1 && worst <= TOLERANCE * largest, "{worst} apart, of {largest}");

    let bytes = 4 * alone.size();
    let gradient = format!("d2h {bytes}");
    let of_rank =
        |log: &str, rank: usize| log.lines().filter_map(|line| line.strip_prefix(&format!("{rank} "))).count();
    for rank in 0..2 {
        let steps = together.driver[rank].matches(" launch sum_ranks ").count();
        assert!(steps >= 20, "{steps} steps");
        let calls = together.steps(rank);
        assert!(!calls.iter().any(|call| **call == gradient), "a gradient went to the host");
        // A verdict a step; scores, of fewer bytes than a gradient, an epoch.
        let most = calls.iter().filter_map(|call| call.strip_prefix("d2h ")?.parse::<usize>().ok()).max().unwrap();
        assert!(most < bytes, "{most} bytes to the host, {bytes} are a gradient");
        let told = of_rank(&together.nccl, rank);
        assert_eq!(told, steps + 2, "init, a gather for each step, destroy: {}", together.nccl);
        println!("rank {rank}: {steps} steps, at most {most} bytes to the host at a time, {bytes} a gradient");
        assert!(together.nccl.contains(&format!("{rank} gather {bytes}\n")));
        assert!(together.nccl.contains(&format!("{rank} init {rank}\n")), "a GPU for each process");
    }
    assert!(!together.said.contains("through the host"), "{}", together.said);

    let on_one = train(&stand_in, 2, 1);
    assert!(on_one.said.contains("ranks 0 and 1 on ") && on_one.said.contains("the same GPU"), "{}", on_one.said);
    assert_eq!(on_one.said.matches("through the host").count(), 1, "{}", on_one.said);
    assert!(on_one.nccl.is_empty(), "{}", on_one.nccl);
    let crossed = on_one.steps(0).iter().filter(|call| ***call == gradient).count();
    assert!(crossed >= 20 && !on_one.driver[0].contains("sum_ranks"), "{crossed} gradients went to the host");
    assert_eq!(on_one.parameters, together.parameters);
}
