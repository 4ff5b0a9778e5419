//! Whole trainings on an emulated GPU: they end where the CPU's end, and a training step asks the driver for no more than it
//! did: launches, products, copies, allocations and reads that wait. The performance test that needs no GPU.

#![allow(clippy::unwrap_used, clippy::panic)] // a test may stop at the first surprise

mod common;
mod program;

use common::emulator::{Emulator, Form};
use program::{Scratch, stdout_of};
use serde_json::Value;
use std::path::Path;

/// Losses of the same training in another order of sums.
const TOLERANCE: f64 = 1e-5;
/// The same where stored states are rounded to 11 bits: sums that differ in their last bit may be rounded to neighbouring halves.
const HALF_TOLERANCE: f64 = 1e-4;
/// The same of 8 bits.
const BFLOAT_TOLERANCE: f64 = 1e-3;

/// What a step may ask the driver for, at most. Lower a number where a change lowers it; launches may become more where what they
/// replace would wait.
struct Bounds {
    /// Its flags.
    training: &'static [&'static str],
    data: Data,
    kernels: usize,
    gemms: usize,
    /// Times that the host waits for all that was asked for.
    waits: usize,
    /// Copies to the host: the verdict on the step before, and in an evaluation its scores; nobody waits for them.
    copies: usize,
    device_to_host_bytes: usize,
    host_to_device_bytes: usize,
    allocations: usize,
}

/// What a training is about.
enum Data {
    /// It makes its own.
    Made,
    /// A folder of the real data.
    Folder(&'static str),
    /// A store that is generated with these flags: `like`.
    Like(&'static [&'static str]),
}

/// Small graphs of the shapes of the two large ones.
const ARXIV: Data = Data::Like(&["--like", "ogbn-arxiv", "--scale", "0.003"]);
const PRODUCTS: Data =
    Data::Like(&["--like", "ogbn-products", "--nodes", "700", "--edges", "9000", "--split", "256/64/380"]);

/// Where a readout starts from zero, gradients are rounding errors that the first step of Adam blows up to whole steps.
const START: &str = "init.readout_scale=1";
/// A checkpoint waits for everything, and is made when so much time has gone by: none in a test.
const NO_CHECKPOINTS: &str = "run.checkpoint_seconds=86400";

const TRAININGS: [Bounds; 10] = [
    Bounds {
        training: &["--dataset", "synthetic", "--epochs", "2"],
        data: Data::Made,
        kernels: 43,
        gemms: 3,
        waits: 0,
        copies: 1,
        device_to_host_bytes: 24,
        host_to_device_bytes: 64,
        allocations: 0,
    },
    // States in half precision, whose scale stays on the device.
    Bounds {
        training: &["--dataset", "synthetic", "--epochs", "2", "--set", "engine.states=f16"],
        data: Data::Made,
        kernels: 46,
        gemms: 3,
        waits: 0,
        copies: 1,
        device_to_host_bytes: 24,
        host_to_device_bytes: 64,
        allocations: 0,
    },
    Bounds {
        training: &["--dataset", "synthetic", "--epochs", "2", "--set", "engine.states=bf16"],
        data: Data::Made,
        kernels: 44,
        gemms: 3,
        waits: 0,
        copies: 1,
        device_to_host_bytes: 24,
        host_to_device_bytes: 64,
        allocations: 0,
    },
    // Responses that cost something where they bend, and effects that go one way.
    Bounds {
        training: &[
            "--dataset",
            "synthetic",
            "--epochs",
            "2",
            "--set",
            "train.smoothness=0.01",
            "--monotone",
            "x1=+",
            "--monotone",
            "x2=-",
        ],
        data: Data::Made,
        kernels: 53,
        gemms: 3,
        waits: 0,
        copies: 1,
        device_to_host_bytes: 24,
        host_to_device_bytes: 64,
        allocations: 0,
    },
    // An epoch is a step, so that an evaluation is part of it.
    Bounds {
        training: &["--dataset", "cora", "--epochs", "4"],
        data: Data::Folder("Cora"),
        kernels: 59,
        gemms: 4,
        waits: 0,
        copies: 5,
        device_to_host_bytes: 14_100,
        host_to_device_bytes: 0,
        allocations: 0,
    },
    Bounds {
        training: &["--dataset", "mutag", "--epochs", "2"],
        data: Data::Folder("MUTAG"),
        kernels: 36,
        gemms: 3,
        waits: 0,
        copies: 1,
        device_to_host_bytes: 24,
        host_to_device_bytes: 128,
        allocations: 0,
    },
    // The whole graph is a step, and so is an epoch: the scores of 89 nodes.
    Bounds {
        training: &["--store", "like", "--preset", "ogbn-arxiv", "--epochs", "4", "--set", "engine.table=off"],
        data: ARXIV,
        kernels: 58,
        gemms: 4,
        waits: 0,
        copies: 5,
        device_to_host_bytes: 14_336,
        host_to_device_bytes: 0,
        allocations: 0,
    },
    Bounds {
        training: &["--store", "like", "--preset", "ogbn-arxiv", "--epochs", "4", "--set", "engine.table=force"],
        data: ARXIV,
        kernels: 102,
        gemms: 4,
        waits: 0,
        copies: 5,
        device_to_host_bytes: 14_336,
        host_to_device_bytes: 0,
        allocations: 0,
    },
    // Mini-batches: the numbers of 64 nodes go up and, where steps walk, a bit per node for who is one of them. Three epochs: scratch has
    // found its place a step behind the first evaluation.
    Bounds {
        training: &[
            "--store",
            "like",
            "--preset",
            "ogbn-products",
            "--epochs",
            "3",
            "--set",
            "engine.table=off",
            "--set",
            "train.batch_size=64",
        ],
        data: PRODUCTS,
        kernels: 37,
        gemms: 3,
        waits: 0,
        copies: 1,
        device_to_host_bytes: 24,
        host_to_device_bytes: 344,
        allocations: 0,
    },
    Bounds {
        training: &[
            "--store",
            "like",
            "--preset",
            "ogbn-products",
            "--epochs",
            "2",
            "--set",
            "engine.table=force",
            "--set",
            "train.batch_size=64",
        ],
        data: PRODUCTS,
        kernels: 68,
        gemms: 3,
        waits: 0,
        copies: 1,
        device_to_host_bytes: 24,
        host_to_device_bytes: 256,
        allocations: 0,
    },
];

/// What one step asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    kernels: usize,
    gemms: usize,
    waits: usize,
    copies: usize,
    device_to_host_bytes: usize,
    host_to_device_bytes: usize,
    allocations: usize,
}

/// The most that a stretch of a log from one step's end to the next asks for: of those without an evaluation where there are any,
/// in the second half, when everything has its place.
fn step(log: &str) -> Asked {
    let mut steps = vec![Asked::default()];
    let (mut ended, mut before) = (false, Vec::new());
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let bytes = || words[2].parse::<usize>().unwrap();
        let is_adam = words[1] == "launch" && words[2] == "adam";
        // A step ends with Adam, of each group of parameters.
        if ended && !is_adam && words[1] != "module:" {
            steps.push(Asked::default());
        }
        ended = is_adam;
        let asked = steps.last_mut().unwrap();
        match words[1] {
            // Some epochs are the best so far.
            "launch" if words[2] == "keep" => {}
            "launch" => asked.kernels += 1,
            // Those of a batch, which is asked for once, follow each other.
            "gemm" => asked.gemms += usize::from(words[1..] != before),
            "d2h" => {
                asked.copies += 1;
                asked.device_to_host_bytes += bytes();
            }
            "sync" => asked.waits += 1,
            "h2d" => asked.host_to_device_bytes += bytes(),
            "alloc" | "allocasync" => asked.allocations += 1,
            _ => {}
        }
        before = words[1..].to_vec();
    }
    // Before the first step everything is made; behind the last there is no step.
    let count = steps.len();
    assert!(count >= 3, "{count} stretches");
    let settled = &steps[(count / 2).min(count - 2)..count - 1];
    let kernels = settled.iter().map(|asked| asked.kernels).min().unwrap();
    let most = |a: Asked, b: &Asked| Asked {
        kernels,
        gemms: a.gemms.max(b.gemms),
        waits: a.waits.max(b.waits),
        copies: a.copies.max(b.copies),
        device_to_host_bytes: a.device_to_host_bytes.max(b.device_to_host_bytes),
        host_to_device_bytes: a.host_to_device_bytes.max(b.host_to_device_bytes),
        allocations: a.allocations.max(b.allocations),
    };
    settled.iter().filter(|asked| asked.kernels == kernels).fold(Asked::default(), most)
}

/// How often scores were sent to the host, and a whole step asked for before it waited for anything.
fn scores_beside_a_step(log: &str) -> usize {
    const VERDICT: usize = 24;
    let (mut beside, mut sent) = (0, false);
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[1] {
            "d2h" if words[2].parse::<usize>().unwrap() > VERDICT => sent = true,
            "launch" if words[2] == "adam" && sent => (beside, sent) = (beside + 1, false),
            "sync" | "evsync" => sent = false,
            _ => {}
        }
    }
    beside
}

#[test]
fn a_step_asks_for_no_more_than_its_bounds() {
    let Some(emulator) = Emulator::found() else { return };
    for bounds in TRAININGS {
        let scratch = Scratch::new();
        match bounds.data {
            Data::Folder(folder) if !scratch.copy_data(folder) => continue,
            Data::Like(flags) => drop(scratch.harmonia_ok(&[&["data", "generate", "--out", "like"], flags].concat())),
            Data::Made | Data::Folder(_) => {}
        }
        let expected = losses(&scratch, None, bounds.training);
        for form in emulator.kernels() {
            let log = emulator.scratch("log");
            let _ = std::fs::remove_file(&log);
            let found = losses(&scratch, Some((&emulator, form, &log)), bounds.training);
            assert_eq!(found.len(), expected.len());
            let tolerances = [("engine.states=f16", HALF_TOLERANCE), ("engine.states=bf16", BFLOAT_TOLERANCE)];
            let rounded = tolerances.iter().find(|(states, _)| bounds.training.contains(states));
            let tolerance = rounded.map_or(TOLERANCE, |(_, tolerance)| *tolerance);
            for (found, expected) in found.iter().zip(&expected) {
                let training = bounds.training;
                assert!((found - expected).abs() < tolerance, "{training:?} {form:?}: {found}, expected {expected}");
            }
            let log = std::fs::read_to_string(&log).unwrap();
            let asked = step(&log);
            let epochs = bounds.training.iter().skip_while(|word| **word != "--epochs").nth(1).unwrap();
            // Behind the last epoch there is no step.
            let beside = epochs.parse::<usize>().unwrap() - 1;
            assert_eq!(scores_beside_a_step(&log), beside, "{:?} {form:?}", bounds.training);
            println!("{:?} {form:?}: {asked:?}", bounds.training);
            let numbers = [
                ("kernels", asked.kernels, bounds.kernels),
                ("products", asked.gemms, bounds.gemms),
                ("waits", asked.waits, bounds.waits),
                ("copies to the host", asked.copies, bounds.copies),
                ("bytes to the host", asked.device_to_host_bytes, bounds.device_to_host_bytes),
                ("bytes to the device", asked.host_to_device_bytes, bounds.host_to_device_bytes),
                ("allocations", asked.allocations, bounds.allocations),
            ];
            for (what, found, most) in numbers {
                assert!(
                    found <= most,
                    "{:?} {form:?}: {found} {what} in a step, at most {most}: {asked:?}",
                    bounds.training
                );
            }
        }
    }
}

/// Turing: 64 KiB of shared memory for a block, the whole of MUTAG.
#[test]
fn a_gpu_with_less_shared_memory_trains() {
    let Some(emulator) = Emulator::found() else { return };
    let scratch = Scratch::new();
    if emulator.kernels()[0] != Form::Source || !scratch.copy_data("MUTAG") {
        return;
    }
    let arguments = ["--dataset", "mutag", "--epochs", "1", "--device", "cuda", "--json", "--data-dir", "data"];
    let run = |capability: &str, shared: &str| {
        let mut command = emulator.command(Path::new(env!("CARGO_BIN_EXE_harmonia-train")), Form::Source);
        command.args(arguments).args(["--out", capability]).current_dir(scratch.path("."));
        command.env("PTXEMU_CAP", capability).env("PTXEMU_SHARED", shared).output().unwrap()
    };
    // 7.6 stands for 7.5, of which NVRTC makes machine code, which no emulator runs.
    let output = run("76", "65536");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let older = run("72", "98304");
    let message = String::from_utf8_lossy(&older.stderr).into_owned();
    assert!(!older.status.success() && message.contains("need 7.5 (Turing) or newer"), "{message}");
}

/// Losses in training and validation of all epochs; on the CPU, or on an emulated GPU with a log.
fn losses(scratch: &Scratch, gpu: Option<(&Emulator, Form, &Path)>, training: &[&str]) -> Vec<f64> {
    let program = Path::new(env!("CARGO_BIN_EXE_harmonia-train"));
    let (mut command, device) = match gpu {
        None => (std::process::Command::new(program), "cpu"),
        Some((emulator, form, log)) => {
            let mut command = emulator.command(program, form);
            command.env("PTXEMU_LOG", log).env("PTXEMU_RACE", "1");
            (command, "cuda")
        }
    };
    let out = format!("{device}-{}", gpu.map_or(String::new(), |(_, form, _)| format!("{form:?}")));
    command.args(training).args(["--device", device, "--set", START, "--set", NO_CHECKPOINTS]);
    command.args(["--data-dir", "data", "--out", &out]);
    stdout_of(&command.current_dir(scratch.path(".")).output().unwrap(), training);
    let epochs = std::fs::read_to_string(scratch.path(&out).join("metrics.jsonl")).unwrap();
    let epoch = |line: &str| -> [f64; 2] {
        let epoch: Value = serde_json::from_str(line).unwrap();
        [&epoch["train_loss"], &epoch["validation"]["nll"]].map(|loss| loss.as_f64().unwrap())
    };
    epochs.lines().flat_map(epoch).collect()
}
