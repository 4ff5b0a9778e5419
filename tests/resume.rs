//! A run that is interrupted, by Ctrl-C or by kill -9, and resumed ends with the bits of one that never stopped; and
//! any number of threads gives the same bits.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use program::Scratch;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// A job of some seconds that checkpoints after every epoch: dropout, noise, batches and patience all take part.
const JOB: [&str; 14] = [
    "--set",
    "train.epochs=40",
    "--set",
    "model.hidden=[8, 8]",
    "--set",
    "model.bases=4",
    "--set",
    "train.dropout=0.2",
    "--set",
    "train.dropout_place=input",
    "--set",
    "run.checkpoint_seconds=0",
    "--data-index",
    "1",
];

fn job<'a>(more: &[&'a str]) -> Vec<&'a str> {
    JOB.iter().chain(more).copied().collect()
}

fn bytes(run: &Path, file: &str) -> Vec<u8> {
    std::fs::read(run.join(file)).unwrap()
}

fn assert_same_run(a: &Path, b: &Path) {
    assert_eq!(bytes(a, "best.safetensors"), bytes(b, "best.safetensors"));
    assert_eq!(bytes(a, "last.safetensors"), bytes(b, "last.safetensors"));
    let records = |run: &Path| -> Vec<serde_json::Value> {
        let lines = String::from_utf8(bytes(run, "metrics.jsonl")).unwrap();
        let parse = |line: &str| {
            let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
            record["seconds"] = 0.into();
            record
        };
        lines.lines().map(parse).collect()
    };
    assert_eq!(records(a), records(b));
}

fn wait_for_epochs(run: &Path, epochs: usize, child: &mut Child) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let lines = std::fs::read_to_string(run.join("metrics.jsonl")).map_or(0, |text| text.lines().count());
        if lines >= epochs {
            return;
        }
        assert!(child.try_wait().unwrap().is_none(), "the job ended before it could be interrupted");
        assert!(Instant::now() < deadline, "no {epochs} epochs in two minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, name: &str) {
    let status = std::process::Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn killed_and_resumed_equals_uninterrupted() {
    let scratch = Scratch::new();
    scratch.train_ok(&job(&["--out", "whole"]));
    let whole = scratch.path("whole");

    let broken = scratch.path("broken");
    let mut child = scratch.command("harmonia-train", &job(&["--out", "broken"])).spawn().unwrap();
    wait_for_epochs(&broken, 3, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!broken.join("summary.json").exists());
    // A second blow, at another moment and in the middle of a line of the log.
    let mut child = scratch.command("harmonia-train", &["--resume", "broken"]).spawn().unwrap();
    wait_for_epochs(&broken, 12, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut log = std::fs::read(broken.join("metrics.jsonl")).unwrap();
    log.extend(br#"{"epoch":39,"train_lo"#);
    std::fs::write(broken.join("metrics.jsonl"), &log).unwrap();
    // What a kill in the middle of a save leaves behind.
    let half = ".harmonia-writing-0123456789abcdef";
    std::fs::write(broken.join(half), "half a checkpoint").unwrap();
    std::fs::write(broken.join(".writing-mine"), "a file of the user").unwrap();

    scratch.train_ok(&["--resume", "broken"]);
    assert_same_run(&whole, &broken);
    assert!(broken.join("summary.json").exists());
    assert!(!broken.join(half).exists() && broken.join(".writing-mine").exists());
    // Resuming a finished run changes nothing and reports again.
    let text = scratch.train_ok(&["--resume", "broken"]);
    assert!(text.contains("Precision@4"), "{text}");
    assert_same_run(&whole, &broken);
}

#[test]
fn killed_and_resumed_from_a_table_equals_uninterrupted() {
    let scratch = Scratch::new();
    let tabled = |out| job(&["--set", "engine.table=force", "--set", "engine.table_points=2", "--out", out]);
    scratch.train_ok(&tabled("whole"));
    let broken = scratch.path("broken");
    let mut child = scratch.command("harmonia-train", &tabled("broken")).spawn().unwrap();
    for epochs in [2, 15] {
        wait_for_epochs(&broken, epochs, &mut child);
        child.kill().unwrap();
        child.wait().unwrap();
        child = scratch.command("harmonia-train", &["--resume", "broken"]).spawn().unwrap();
    }
    assert!(child.wait().unwrap().success());
    assert_same_run(&scratch.path("whole"), &broken);
    let summary: serde_json::Value = serde_json::from_slice(&bytes(&broken, "summary.json")).unwrap();
    let table = &summary["table"];
    assert_eq!(table["points"], 2, "{table}");
    assert!(table["validation_loss"].is_f64() && table["exact_validation_loss"].is_f64(), "{table}");
}

#[test]
fn the_first_ctrl_c_saves_and_exits_130() {
    let scratch = Scratch::new();
    scratch.train_ok(&job(&["--out", "whole", "--seeds", "2"]));
    // Checkpoints are rare here: the one that is resumed from is the one the signal asked for.
    let rare = job(&["--out", "broken", "--seeds", "2", "--set", "run.checkpoint_seconds=1000"]);
    let mut child = scratch.command("harmonia-train", &rare).stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_for_epochs(&scratch.path("broken/seed-0"), 5, &mut child);
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.contains("--resume broken\n"), "the whole session must be resumed, not one seed: {message}");
    assert!(scratch.path("broken/seed-0/last.safetensors").exists());
    assert!(!scratch.path("broken/seed-0/summary.json").exists());

    scratch.train_ok(&["--resume", "broken"]);
    for seed in ["seed-0", "seed-1"] {
        assert_same_run(&scratch.path("whole").join(seed), &scratch.path("broken").join(seed));
    }
}

#[test]
fn one_two_and_four_threads_give_the_same_bits() {
    let scratch = Scratch::new();
    for threads in ["1", "2", "4"] {
        scratch.train_ok(&job(&["--epochs", "6", "--threads", threads, "--out", threads]).to_vec());
    }
    assert_same_run(&scratch.path("1"), &scratch.path("2"));
    assert_same_run(&scratch.path("1"), &scratch.path("4"));
}

#[test]
fn the_second_ctrl_c_exits_at_once() {
    let scratch = Scratch::new();
    // Epochs long enough that two signals arrive within one.
    let slow = ["--out", "r", "--set", "model.hidden=[128, 128]", "--set", "run.checkpoint_seconds=1000"];
    let mut child = scratch.command("harmonia-train", &slow).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !scratch.path("r/metrics.jsonl").exists() {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(50));
    signal(&child, "-INT");
    std::thread::sleep(Duration::from_millis(50));
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!scratch.path("r/last.safetensors").exists(), "an immediate exit saves nothing");
}

#[test]
fn a_session_killed_before_its_first_seed_can_be_resumed() {
    let scratch = Scratch::new();
    scratch.train_ok(&job(&["--epochs", "2", "--seeds", "2", "--out", "whole"]));
    std::fs::create_dir_all(scratch.path("broken/seed-0")).unwrap();
    std::fs::copy(scratch.path("whole/config.toml"), scratch.path("broken/config.toml")).unwrap();
    std::fs::write(scratch.path("broken/seed-0/.harmonia-writing-0123456789abcdef"), "half a configuration").unwrap();
    scratch.train_ok(&["--resume", "broken"]);
    for seed in ["seed-0", "seed-1"] {
        assert_same_run(&scratch.path("whole").join(seed), &scratch.path("broken").join(seed));
    }
    assert!(!scratch.path("broken/metrics.jsonl").exists(), "the session itself has no epochs");
}

/// The same job with another number of epochs, at a rate that does not depend on it.
fn constant<'a>(epochs: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    job(&[&["--epochs", epochs, "--set", "train.schedule=constant"], more].concat())
}

#[test]
fn a_run_that_is_extended_equals_one_of_so_many_epochs() {
    let scratch = Scratch::new();
    scratch.train_ok(&constant("40", &["--seeds", "2", "--out", "whole"]));
    scratch.train_ok(&constant("6", &["--seeds", "2", "--out", "longer"]));
    let summary = bytes(&scratch.path("longer"), "summary.json");
    // Bad input leaves a complete run as it was.
    for (arguments, expected) in [
        (&["--resume", "longer", "--epochs", "5"][..], &["has trained 6 epochs already"][..]),
        (&["--resume", "longer", "--epochs", "6"], &["has trained 6 epochs already"]),
        (&["--resume", "longer", "--epochs", "0"], &["train.epochs"]),
        (&["--resume", "longer/seed-0", "--epochs", "9"], &["one of the runs of", "extend that"]),
        (&["--resume", "nowhere", "--epochs", "9"], &["nowhere", "not a run directory"]),
    ] {
        scratch.refused("harmonia-train", arguments, expected);
        assert_eq!(bytes(&scratch.path("longer"), "summary.json"), summary, "{arguments:?}");
    }
    // Twice, and killed in between.
    let output = scratch.train(&["--resume", "longer", "--epochs", "8"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("going on from 6 to 8 epochs"), "{said}");
    assert!(!said.contains("not the same"), "{said}");
    let mut child = scratch.command("harmonia-train", &["--resume", "longer", "--epochs", "40"]).spawn().unwrap();
    wait_for_epochs(&scratch.path("longer/seed-0"), 12, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!scratch.path("longer/summary.json").exists());
    scratch.train_ok(&["--resume", "longer"]);
    for seed in ["seed-0", "seed-1"] {
        let [whole, longer] = ["whole", "longer"].map(|run| scratch.path(run).join(seed));
        assert_same_run(&whole, &longer);
        assert_eq!(bytes(&whole, "config.toml"), bytes(&longer, "config.toml"));
        let summary: serde_json::Value = serde_json::from_slice(&bytes(&longer, "summary.json")).unwrap();
        assert_eq!(summary["epochs"], 40);
    }
    assert!(scratch.path("longer/summary.json").exists());
}

#[test]
fn a_run_from_a_table_is_extended_to_the_same_bits() {
    let scratch = Scratch::new();
    let tabled = |epochs, out| {
        constant(epochs, &["--set", "engine.table=force", "--set", "engine.table_points=2", "--out", out])
    };
    scratch.train_ok(&tabled("20", "whole"));
    scratch.train_ok(&tabled("1", "longer"));
    for epochs in ["2", "9", "20"] {
        scratch.train_ok(&["--resume", "longer", "--epochs", epochs]);
    }
    assert_same_run(&scratch.path("whole"), &scratch.path("longer"));
}

#[test]
fn a_run_that_patience_has_ended_goes_on_where_it_was() {
    let scratch = Scratch::new();
    let learning = ["--set", "train.learning_rate=0.05", "--set", "train.metric=loss"];
    let patient = |patience, out| constant("60", &[&learning[..], &["--set", patience, "--out", out]].concat());
    scratch.train_ok(&patient("train.patience=0", "whole"));
    scratch.train_ok(&patient("train.patience=3", "ended"));
    let epochs = || {
        let summary: serde_json::Value =
            serde_json::from_slice(&bytes(&scratch.path("ended"), "summary.json")).unwrap();
        (summary["epochs"].as_u64().unwrap(), summary["stopped_early"].as_bool().unwrap())
    };
    let (first, stopped) = epochs();
    assert!(stopped && first < 50, "the job is meant to stop early, not after {first} epochs");
    let output = scratch.train(&["--resume", "ended", "--epochs", "60"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(&format!("had stopped after epoch {first}")), "{said}");
    let (second, _) = epochs();
    assert!(second >= first + 3, "{first} epochs, then {second}");
    let losses = |run: &str| -> Vec<String> {
        let lines = String::from_utf8(bytes(&scratch.path(run), "metrics.jsonl")).unwrap();
        let loss = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["train_loss"].to_string();
        lines.lines().map(loss).collect()
    };
    assert_eq!(losses("ended"), losses("whole")[..second as usize], "every epoch is that of one that never stopped");
}

#[test]
fn an_extended_cosine_says_that_it_is_another() {
    let scratch = Scratch::new();
    scratch.train_ok(&job(&["--epochs", "2", "--set", "train.schedule=cosine", "--out", "r"]));
    let output = scratch.train(&["--resume", "r", "--epochs", "4"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("cosine") && said.contains("not the same as 4 epochs"), "{said}");
    let lines = String::from_utf8(bytes(&scratch.path("r"), "metrics.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 4);
}

#[test]
fn jobs_side_by_side_give_the_bits_of_one_after_the_other() {
    let scratch = Scratch::new();
    let several = |more: &[&'static str]| job(&[&["--epochs", "4", "--seeds", "2", "--folds", "3"], more].concat());
    scratch.train_ok(&several(&["--jobs", "1", "--threads", "1", "--out", "one"]));
    scratch.train_ok(&several(&["--jobs", "2", "--threads", "5", "--out", "two"]));
    scratch.train_ok(&several(&["--jobs", "7", "--threads", "3", "--out", "all"]));
    for seed in 0..2 {
        for fold in 0..3 {
            let of = |run: &str| scratch.path(run).join(format!("seed-{seed}/fold-{fold}"));
            assert_same_run(&of("one"), &of("two"));
            assert_same_run(&of("one"), &of("all"));
        }
    }
    scratch.refused("harmonia-train", &several(&["--jobs", "5000"]), &["run.jobs", "4096"]);
    scratch.refused("harmonia-train", &several(&["--jobs", "2", "--device", "host"]), &["run.jobs is 2", "one by one"]);
    scratch.refused("harmonia-train", &several(&["--jobs", "two"]), &["--jobs", "two"]);
}
