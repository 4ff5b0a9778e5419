//! Real processes, started by `mpirun`: they train what one trains, go on with another number of them, and none is left behind.
//! (What is shared how is in `tests/teams.rs`, with threads.)

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use program::Scratch;
use safetensors::SafeTensors;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What sums in another order leave, relative to the norm of all parameters.
const TOLERANCE: f64 = 1e-5;
/// A rank that is gone must not be waited for longer.
const GONE: Duration = Duration::from_secs(10);

/// Whether there is something to test; else a line that says what is missing.
fn is_here() -> bool {
    if !cfg!(feature = "mpi") {
        println!("skipped: built without the feature mpi");
        return false;
    }
    let found = Command::new("mpirun").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: no mpirun (Debian: apt install openmpi-bin libopenmpi-dev)");
    }
    found
}

/// `mpirun` with some processes of a binary each.
fn mpirun(scratch: &Scratch, parts: &[(usize, &[&str])]) -> Command {
    let mut command = Command::new("mpirun");
    command.current_dir(scratch.path(".")).args([
        "--oversubscribe",
        "--bind-to",
        "none",
        "--mca",
        "mpi_yield_when_idle",
        "1",
    ]);
    // Tests may run as root, in a container of their own.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    for (at, (ranks, arguments)) in parts.iter().enumerate() {
        if at > 0 {
            command.arg(":");
        }
        command.args(["-n", &ranks.to_string()]).arg(env!("CARGO_BIN_EXE_harmonia-train")).args(*arguments);
    }
    command
}

fn run(scratch: &Scratch, ranks: usize, arguments: &[&str]) -> Output {
    mpirun(scratch, &[(ranks, arguments)]).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ok(output: &Output) {
    assert!(output.status.success(), "{}\n{}", output.status, said(output));
}

/// A graph of 500 nodes in a store.
fn store(scratch: &Scratch) {
    generate(scratch, "1", "store");
}

fn generate(scratch: &Scratch, seed: &str, name: &str) {
    let sizes = [
        "--like",
        "cora",
        "--nodes",
        "500",
        "--edges",
        "2000",
        "--features",
        "12",
        "--classes",
        "6",
        "--split",
        "200/100/100",
    ];
    scratch.harmonia_ok(&[&["data", "generate"][..], &sizes, &["--seed", seed, "--out", name, "--quiet"]].concat());
}

const SETTINGS: &[&str] = &[
    "--dataset",
    "store",
    "--preset",
    "cora",
    "--recipe",
    "paper",
    "--set",
    "engine.table=off",
    "--set",
    "train.dropout=0",
    "--set",
    "run.checkpoint_seconds=0",
    "--set",
    "train.patience=0",
    "--threads",
    "1",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SETTINGS.iter().copied().chain(more.iter().copied()).collect()
}

fn tensors(path: &Path) -> Vec<(String, Vec<f32>)> {
    let bytes = std::fs::read(path).unwrap();
    let all = SafeTensors::deserialize(&bytes).unwrap();
    let mut all: Vec<_> = (all.tensors().into_iter())
        .filter(|(_, tensor)| tensor.dtype() == safetensors::Dtype::F32)
        .map(|(name, tensor)| {
            let values = tensor.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
            (name, values.collect())
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// How far the parameters of two runs are apart.
fn apart(scratch: &Scratch, found: &str, expected: &str) -> f64 {
    let read = |run: &str| tensors(&scratch.path(run).join("best.safetensors"));
    let (found, expected) = (read(found), read(expected));
    let (mut off, mut size) = (0.0f64, 0.0f64);
    for ((name, found), (other, expected)) in found.iter().zip(&expected) {
        assert_eq!(name, other);
        for (&a, &b) in found.iter().zip(expected) {
            off += (f64::from(a) - f64::from(b)).powi(2);
            size += f64::from(b).powi(2);
        }
    }
    (off / size).sqrt()
}

fn summary(scratch: &Scratch, run: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(scratch.path(run).join("summary.json")).unwrap()).unwrap()
}

#[test]
fn any_number_of_processes_trains_what_one_trains() {
    if !is_here() {
        return;
    }
    let scratch = Scratch::new();
    store(&scratch);
    scratch.train_ok(&with(&["--epochs", "20", "--out", "alone"]));
    for (ranks, share) in [(2, "classes"), (4, "classes"), (2, "nodes"), (4, "nodes")] {
        let name = format!("{share}-{ranks}");
        let set = format!("engine.share={share}");
        let output = run(&scratch, ranks, &with(&["--epochs", "20", "--out", &name, "--set", &set]));
        ok(&output);
        let off = apart(&scratch, &name, "alone");
        assert!(off <= TOLERANCE, "{name}: off by {off:.2e}");
        let (found, expected) = (summary(&scratch, &name), summary(&scratch, "alone"));
        assert_eq!(found["best_epoch"], expected["best_epoch"], "{name}");
        for part in ["test", "validation", "train"] {
            for (score, value) in expected[part].as_object().unwrap() {
                let (a, b) = (found[part][score].as_f64().unwrap(), value.as_f64().unwrap());
                assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{name}: {part} {score} {a} and {b}");
            }
        }
        // One table of results, not one from each process.
        assert_eq!(String::from_utf8_lossy(&output.stdout).matches("accuracy").count(), 1, "{name}");
        // The model explains as any other, alone.
        let explained = scratch.harmonia_ok(&["explain", &name, "--node", "7", "--top", "3"]);
        assert!(explained.contains("residual"), "{explained}");
    }
}

#[test]
fn a_run_goes_on_with_any_number_of_processes() {
    if !is_here() {
        return;
    }
    let scratch = Scratch::new();
    store(&scratch);
    scratch.train_ok(&with(&["--epochs", "12", "--out", "straight"]));
    ok(&run(&scratch, 2, &with(&["--epochs", "4", "--out", "run"])));
    ok(&run(&scratch, 4, &["--resume", "run", "--epochs", "8", "--threads", "1"]));
    scratch.train_ok(&["--resume", "run", "--epochs", "12", "--threads", "1"]);
    let off = apart(&scratch, "run", "straight");
    assert!(off <= TOLERANCE, "off by {off:.2e}");
    // What is complete says so, whoever asks.
    let again = run(&scratch, 2, &["--resume", "run"]);
    ok(&again);
    assert!(said(&again).contains("already finished"), "{}", said(&again));
}

/// The processes below one, by their numbers; none that has ended.
fn children(of: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// A long training of two processes that has made its first checkpoint, and its ranks.
fn under_way(scratch: &Scratch) -> (Child, Vec<u32>) {
    let arguments = with(&["--epochs", "1000000", "--out", "run"]);
    let mut child = mpirun(scratch, &[(2, &arguments)]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !scratch.path("run").join("last.safetensors").exists() {
        assert!(begun.elapsed() < Duration::from_secs(120) && child.try_wait().unwrap().is_none(), "it did not begin");
        std::thread::sleep(Duration::from_millis(50));
    }
    let is_ours =
        |pid: &u32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("harmonia-train"));
    let ranks: Vec<u32> = children(child.id()).into_iter().filter(is_ours).collect();
    assert_eq!(ranks.len(), 2, "the ranks of {}", child.id());
    (child, ranks)
}

/// Epochs that a run has trained, and one.
fn one_more(scratch: &Scratch) -> String {
    let lines = std::fs::read_to_string(scratch.path("run").join("metrics.jsonl")).unwrap();
    (lines.lines().count() + 1).to_string()
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([format!("-{name}"), process.to_string()]).status().unwrap().success());
}

/// What became of it, soon.
fn ended(mut child: Child, ranks: &[u32]) -> Output {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < GONE, "processes are still there after {GONE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let alive = |pid: &&u32| Path::new(&format!("/proc/{pid}/exe")).exists();
    assert_eq!(ranks.iter().filter(alive).count(), 0, "a rank is left behind");
    child.wait_with_output().unwrap()
}

#[test]
fn a_killed_rank_ends_all_and_the_last_checkpoint_resumes() {
    if !is_here() {
        return;
    }
    let scratch = Scratch::new();
    store(&scratch);
    let (child, ranks) = under_way(&scratch);
    signal("KILL", ranks[1]);
    let output = ended(child, &ranks);
    assert!(!output.status.success());
    // mpirun says it for the one that cannot.
    assert!(said(&output).contains("rank 1") && said(&output).contains("signal 9"), "{}", said(&output));
    let done = scratch.train_ok(&["--resume", "run", "--epochs", &one_more(&scratch), "--threads", "1"]);
    assert!(done.contains("accuracy"), "{done}");
}

#[test]
fn a_request_to_stop_on_any_rank_saves_and_stops_all() {
    if !is_here() {
        return;
    }
    for name in ["TERM", "INT"] {
        let scratch = Scratch::new();
        store(&scratch);
        let (child, ranks) = under_way(&scratch);
        signal(name, ranks[1]);
        let output = ended(child, &ranks);
        assert_eq!(output.status.code(), Some(130), "{}", said(&output));
        let told = said(&output);
        assert_eq!(told.matches("all that is needed to continue is in").count(), 1, "{told}");
        ok(&run(&scratch, 2, &["--resume", "run", "--epochs", &one_more(&scratch), "--threads", "1"]));
    }
}

#[test]
fn ranks_with_other_data_or_settings_do_not_begin() {
    if !is_here() {
        return;
    }
    let scratch = Scratch::new();
    store(&scratch);
    generate(&scratch, "5", "other");
    let ours = with(&["--out", "run"]);
    let other: Vec<&str> = ours.iter().map(|&word| if word == "store" { "other" } else { word }).collect();
    let faster = with(&["--out", "run", "--set", "model.hops=2"]);
    for (theirs, what) in [(&other, "other data"), (&faster, "other settings")] {
        let output = mpirun(&scratch, &[(1, &ours[..]), (1, &theirs[..])]).output().unwrap();
        let told = said(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("rank 1 on ") && told.contains(what), "{told}");
        assert_eq!(told.matches(what).count(), 1, "told once: {told}");
        assert!(!scratch.path("run").exists());
    }
    // One that fails by itself is named.
    let missing: Vec<&str> = ours.iter().map(|&word| if word == "store" { "nowhere" } else { word }).collect();
    let output = mpirun(&scratch, &[(1, &ours[..]), (1, &missing[..])]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("rank 1 of 2 on ") && said(&output).contains("nowhere"), "{}", said(&output));
    // What all have done wrong is told once.
    let output = run(&scratch, 3, &with(&["--set", "model.hopps=2"]));
    assert_eq!(said(&output).matches("hopps").count(), 1, "{}", said(&output));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_build_without_mpi_says_what_to_build() {
    if cfg!(feature = "mpi") {
        println!("skipped: built with the feature mpi");
        return;
    }
    let scratch = Scratch::new();
    let mut command = scratch.command("harmonia-train", &["--dry-run"]);
    let output = command.env("OMPI_COMM_WORLD_SIZE", "4").env("OMPI_COMM_WORLD_RANK", "0").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--features mpi") && said(&output).contains("4 processes"), "{}", said(&output));
}

/// Two hosts on this machine: network namespaces with addresses of their own and a cable between them. Gone when dropped.
struct Hosts {
    names: [String; 2],
}

const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).output().is_ok_and(|output| output.status.success())
}

impl Hosts {
    /// `None`, and a line that says why, where the machine does not allow it.
    fn new() -> Option<Hosts> {
        let id = std::process::id();
        let hosts = Hosts { names: [format!("harmonia-a{id}"), format!("harmonia-b{id}")] };
        let [a, b] = hosts.names.each_ref().map(String::as_str);
        let made = ip(&["netns", "add", a])
            && ip(&["netns", "add", b])
            && ip(&["-n", a, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", b]);
        let up = |name: &str, address: &str| {
            ip(&["-n", name, "addr", "add", &format!("{address}/24"), "dev", "cable"])
                && ip(&["-n", name, "link", "set", "cable", "up"])
                && ip(&["-n", name, "link", "set", "lo", "up"])
        };
        if !(made && up(a, ADDRESSES[0]) && up(b, ADDRESSES[1])) {
            println!("skipped: no network namespaces here (they need root and iproute2)");
            return None;
        }
        let slow = [
            "netns", "exec", a, "tc", "qdisc", "add", "dev", "cable", "root", "netem", "delay", "1ms", "rate", "1gbit",
        ];
        if !ip(&slow) {
            println!("skipped: no delay on the cable (the kernel has no netem); it is as quick as memory");
        }
        Some(hosts)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

#[test]
fn hosts_with_addresses_of_their_own_train_together() {
    if !is_here() {
        return;
    }
    let Some(hosts) = Hosts::new() else { return };
    let scratch = Scratch::new();
    store(&scratch);
    scratch.train_ok(&with(&["--epochs", "20", "--out", "alone"]));
    // What mpirun calls instead of ssh: the first word is the host.
    let [a, b] = &hosts.names;
    let agent = format!(
        "#!/bin/sh\nhost=$1; shift\ncase $host in {}) name={a};; *) name={b};; esac\nexec ip netns exec $name sh -c \"$*\"\n",
        ADDRESSES[0]
    );
    let agent = scratch.write("agent", agent);
    std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for share in ["classes", "nodes"] {
        let set = format!("engine.share={share}");
        let arguments = with(&["--epochs", "20", "--out", share, "--set", &set]);
        let mut command = Command::new("ip");
        command.current_dir(scratch.path(".")).args(["netns", "exec", a, "mpirun", "--bind-to", "none"]);
        command.args(["--mca", "plm_rsh_agent", agent.to_str().unwrap(), "--mca", "btl", "tcp,self"]);
        for key in ["oob_tcp_if_include", "btl_tcp_if_include"] {
            command.args(["--mca", key, "10.77.0.0/24"]);
        }
        command.args(["-H", &ADDRESSES.map(|address| format!("{address}:1")).join(","), "-n", "2"]);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let output = command.arg(env!("CARGO_BIN_EXE_harmonia-train")).args(&arguments).output().unwrap();
        ok(&output);
        let off = apart(&scratch, share, "alone");
        assert!(off <= TOLERANCE, "{share}: off by {off:.2e}");
    }
}

#[test]
fn a_store_larger_than_the_memory_of_each_rank_is_trained_by_shares_of_nodes() {
    if !is_here() {
        return;
    }
    let scratch = Scratch::new();
    let sizes =
        ["--nodes", "60000", "--edges", "120000", "--features", "200", "--classes", "3", "--split", "5000/1000/1000"];
    scratch.harmonia_ok(
        &[&["data", "generate", "--like", "ogbn-products"][..], &sizes, &["--out", "store", "--quiet"]].concat(),
    );
    let files = std::fs::read_dir(scratch.path("store")).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    let stored: u64 = files.sum();
    let memory = 40u64 << 20;
    assert!(stored > memory, "{stored} bytes");
    let arguments = [
        "--dataset",
        "store",
        "--preset",
        "ogbn-products",
        "--recipe",
        "paper",
        "--set",
        "engine.table=off",
        "--set",
        "train.dropout=0",
        "--set",
        "train.batch_size=0",
        "--epochs",
        "1",
        "--threads",
        "1",
        "--out",
        "run",
        "--memory",
        "40M",
    ];
    // One process has no room for it.
    let alone = scratch.run("harmonia-train", &arguments);
    assert!(alone.status.code() == Some(1) && said(&alone).contains("out of memory: planned"), "{}", said(&alone));
    let shared: Vec<&str> = arguments.into_iter().chain(["--set", "engine.share=nodes"]).collect();
    let output = run(&scratch, 8, &shared);
    ok(&output);
    assert!(summary(&scratch, "run")["validation"]["nll"].as_f64().unwrap().is_finite());
}
