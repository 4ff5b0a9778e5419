//! The right data, one writer, any byte survived: each test is named after what once broke.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::FittedModel;
use harmonia::dataset::{Dataset, Features, Labels};
use harmonia::graph::{Direction, Graph, Split};
use program::{Scratch, small_dataset};
use std::process::Output;
use std::time::{Duration, Instant};

const QUICK: [&str; 10] = [
    "--set",
    "model.hidden=[4]",
    "--set",
    "model.hops=2",
    "--set",
    "run.checkpoint_seconds=0",
    "--set",
    "train.learning_rate=0.05",
    "--threads",
    "1",
];

fn train<'a>(more: &[&'a str]) -> Vec<&'a str> {
    QUICK.iter().chain(more).copied().collect()
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A failure with this exit code whose message has all parts.
fn fails(output: &Output, code: i32, parts: &[&str]) {
    let text = message(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(parts.iter().all(|part| text.contains(part)), "expected {parts:?}: {text}");
}

/// Forty nodes whose label is whether `age` is large; `noise` says nothing.
fn people(columns: [&str; 2]) -> Dataset {
    let nodes = 40;
    let edges: Vec<(u32, u32)> = (0..nodes).map(|i| (i, (i + 1) % nodes)).collect();
    let graph = Graph::from_edges(nodes as usize, &edges, None, Direction::Undirected).unwrap();
    let value = |i: u32, column: &str| match column {
        "age" => ((i * 7) % nodes) as f32 / 10.0,
        _ => ((i * 13 + 5) % nodes) as f32 / 10.0,
    };
    let values = (0..nodes).flat_map(|i| columns.map(|column| value(i, column))).collect();
    let labels = Labels::Classes { ids: (0..nodes).map(|i| u32::from((i * 7) % nodes >= 20)).collect(), classes: 2 };
    let split = Split { train: (0..24).collect(), valid: (24..32).collect(), test: (32..40).collect() };
    let features = Features::new(nodes as usize, 2, values).unwrap();
    let mut dataset = Dataset::nodes("people", graph, features, labels, split).unwrap();
    dataset.feature_names = columns.map(String::from).to_vec();
    dataset
}

fn replace_store(scratch: &Scratch, dataset: &Dataset) {
    let path = scratch.path("store");
    let _ = std::fs::remove_dir_all(&path);
    harmonia::store::write(dataset, &path).unwrap();
}

#[test]
fn columns_in_another_order_are_matched_by_name_with_a_note() {
    let scratch = Scratch::new();
    replace_store(&scratch, &people(["age", "noise"]));
    scratch.train_ok(&train(&["--dataset", "store", "--epochs", "60", "--normalise", "standardise", "--out", "run"]));
    let predict = |out: &str| {
        let output = scratch.run("harmonia", &["predict", "run", "--out", out]);
        assert!(output.status.success(), "{}", message(&output));
        (std::fs::read_to_string(scratch.path(out)).unwrap(), message(&output))
    };
    let (before, said) = predict("before.csv");
    assert!(!said.contains("note"), "{said}");
    replace_store(&scratch, &people(["noise", "age"]));
    let (after, said) = predict("after.csv");
    assert_eq!(before, after, "the same nodes, the same predictions");
    assert!(said.contains("note: people is not as it was") && said.contains("taken by name"), "{said}");
    for command in [&["explain", "run", "--node", "3"][..], &["report", "run", "--quick"]] {
        let output = scratch.run("harmonia", command);
        assert!(output.status.success() && message(&output).contains("taken by name"), "{}", message(&output));
    }
}

#[test]
fn data_that_nothing_matches_are_refused() {
    let scratch = Scratch::new();
    replace_store(&scratch, &people(["age", "noise"]));
    scratch.train_ok(&train(&["--dataset", "store", "--epochs", "2", "--out", "run"]));
    // Other columns.
    replace_store(&scratch, &people(["height", "noise"]));
    let parts = ["was trained on other data", "features", "`age`", "`height`"];
    for command in [&["predict", "run", "--out", "p.csv"][..], &["explain", "run", "--node", "3"], &["report", "run"]] {
        fails(&scratch.run("harmonia", command), 2, &parts);
    }
    // Columns without names, and other numbers in them.
    let mut nameless = people(["age", "noise"]);
    nameless.name_parts();
    replace_store(&scratch, &nameless);
    std::fs::remove_dir_all(scratch.path("run")).unwrap();
    scratch.train_ok(&train(&["--dataset", "store", "--epochs", "2", "--out", "run"]));
    let mut other = people(["noise", "age"]);
    other.name_parts();
    replace_store(&scratch, &other);
    fails(&scratch.run("harmonia", &["predict", "run", "--out", "p.csv"]), 2, &["features changed", "no names"]);
    // Nameless, but the same features: other edges and labels are no reason to refuse.
    let mut longer = people(["age", "noise"]);
    longer.name_parts();
    longer.split.test.truncate(4);
    longer.own_splits = vec![longer.split.clone()];
    replace_store(&scratch, &longer);
    let output = scratch.run("harmonia", &["predict", "run", "--out", "p.csv"]);
    assert!(output.status.success() && message(&output).contains("features are as they were"), "{}", message(&output));
    // Other classes under the same columns.
    replace_store(&scratch, &people(["age", "noise"]));
    std::fs::remove_dir_all(scratch.path("run")).unwrap();
    scratch.train_ok(&train(&["--dataset", "store", "--epochs", "2", "--out", "run"]));
    let mut renamed = people(["age", "noise"]);
    renamed.class_names = vec!["young".into(), "old".into()];
    replace_store(&scratch, &renamed);
    fails(&scratch.run("harmonia", &["predict", "run", "--out", "p.csv"]), 2, &["its classes are young, old"]);
}

#[test]
fn a_run_is_not_resumed_with_other_data() {
    let scratch = Scratch::new();
    replace_store(&scratch, &people(["age", "noise"]));
    scratch.train_ok(&train(&["--dataset", "store", "--epochs", "2", "--out", "run"]));
    std::fs::remove_file(scratch.path("run/summary.json")).unwrap();
    replace_store(&scratch, &people(["noise", "age"]));
    fails(&scratch.train(&["--resume", "run"]), 2, &["was begun with other data", "features"]);
    replace_store(&scratch, &people(["age", "noise"]));
    scratch.train_ok(&["--resume", "run"]);
}

#[test]
fn a_second_start_leaves_the_first_one_alone() {
    let scratch = Scratch::new();
    replace_store(&scratch, &people(["age", "noise"]));
    let long = train(&["--dataset", "store", "--epochs", "1000000", "--set", "train.patience=0", "--out", "run"]);
    let mut first = scratch.command("harmonia-train", &long).stderr(std::process::Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !scratch.path("run/last.safetensors").exists() {
        assert!(Instant::now() < deadline && first.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    let who = std::fs::read_to_string(scratch.path("run/.harmonia-lock")).unwrap();
    assert!(who.starts_with(&format!("process {} on ", first.id())), "{who}");
    for _ in 0..5 {
        fails(&scratch.train(&long), 2, &["run", "is not empty"]);
        fails(&scratch.train(&["--resume", "run"]), 2, &["is being written by process", &first.id().to_string()]);
        // Readers need no lock.
        scratch.harmonia_ok(&["predict", "run", "--out", "p.csv"]);
        assert!(first.try_wait().unwrap().is_none(), "the first one died");
    }
    first.kill().unwrap();
    first.wait().unwrap();
    // What it left is nobody's any more.
    let output = scratch.train(&["--resume", "run", "--device", "gpu"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!message(&output).contains("is being written"));
}

/// A safetensors file whose metadata were replaced.
fn with_metadata(bytes: &[u8], change: impl Fn(&str) -> String) -> Vec<u8> {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let text = header["__metadata__"]["harmonia"].as_str().unwrap();
    let changed = change(text);
    assert_ne!(text, changed, "nothing was changed");
    header["__metadata__"]["harmonia"] = changed.into();
    let header = header.to_string();
    let header = format!("{header}{}", " ".repeat(header.len().next_multiple_of(8) - header.len()));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes[8 + length..]].concat()
}

#[test]
fn a_small_checkpoint_does_not_demand_gigabytes() {
    let scratch = Scratch::new();
    scratch.train_ok(&train(&["--epochs", "1", "--out", "run"]));
    let path = scratch.path("run/best.safetensors");
    let sound = std::fs::read(&path).unwrap();
    let sizes = ["\"bases\":1048576", "\"experts\":65536", "\"embedding\":16777216", "\"hops\":16777216"];
    for size in sizes {
        let (key, _) = size.split_once(':').unwrap();
        let greedy = with_metadata(&sound, |text| {
            let at = text.find(key).unwrap();
            let end = at + text[at..].find(',').unwrap();
            format!("{}{size}{}", &text[..at], &text[end..])
        });
        std::fs::write(&path, greedy).unwrap();
        let start = Instant::now();
        let output = scratch.run("harmonia", &["--memory", "256M", "shapes", "run"]);
        fails(&output, 2, &["best.safetensors", "parameters"]);
        assert!(start.elapsed() < Duration::from_secs(20), "{size}");
    }
    let deep = with_metadata(&sound, |text| {
        let at = text.find("\"hidden\":[").unwrap() + "\"hidden\":[".len();
        let end = at + text[at..].find(']').unwrap();
        format!("{}{}{}", &text[..at], vec!["1"; 2000].join(","), &text[end..])
    });
    std::fs::write(&path, deep.clone()).unwrap();
    fails(&scratch.run("harmonia", &["--memory", "256M", "shapes", "run"]), 2, &["best.safetensors"]);
    assert!(FittedModel::load(&path).is_err());
}

#[test]
fn settings_that_demand_gigabytes_are_refused_by_the_limit() {
    let scratch = Scratch::new();
    let greedy = scratch.train(&["--set", "model.bases=1048576", "--memory", "512M", "--out", "run"]);
    fails(&greedy, 1, &["out of memory", "the limit is 537 MB", "--memory"]);
    let deep = vec!["1"; 2000].join(", ");
    let deep = format!("[model]\nexperts = 65536\nhidden = [{deep}]\n");
    std::fs::write(scratch.path("deep.toml"), deep).unwrap();
    fails(&scratch.train(&["--config", "deep.toml", "--memory", "512M", "--out", "run"]), 2, &["model.hidden"]);
    assert!(!scratch.path("run").exists());
    // What is not planned ends in a message, too: reading a table of a hundred megabytes.
    std::fs::create_dir(scratch.path("tables")).unwrap();
    std::fs::write(scratch.path("tables/edges.csv"), "source,target\n0,1\n".to_string() + &"0,1\n".repeat(20_000_000))
        .unwrap();
    std::fs::write(scratch.path("tables/nodes.csv"), "x,label\n1,a\n2,b\n").unwrap();
    let output =
        scratch.run("harmonia", &["--memory", "100M", "data", "convert", "tables", "--format", "table", "--out", "s"]);
    fails(&output, 1, &["out of memory", "the limit of 100 MiB"]);
    assert!(!scratch.path("s").exists());
}

#[cfg(unix)]
#[test]
fn a_name_that_is_not_utf8_is_refused_before_training() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new();
    let name = std::ffi::OsStr::from_bytes(b"r\xff\xfe");
    for flag in ["--out", "--resume", "--data-dir"] {
        let mut command = scratch.command("harmonia-train", &["--epochs", "1", flag]);
        fails(&command.arg(name).output().unwrap(), 2, &["is not UTF-8", "rename it"]);
    }
    let mut command = scratch.command("harmonia-train", &["--epochs", "1", "--out", "run"]);
    fails(&command.env("HARMONIA_DATA", name).output().unwrap(), 2, &["not UTF-8"]);
    assert!(scratch.entries().is_empty());
    // A working directory may have any name, where no path of it has to be kept.
    let odd = scratch.path("").join(name);
    std::fs::create_dir(&odd).unwrap();
    harmonia::store::write(&small_dataset(), &odd.join("store")).unwrap();
    let mut command =
        scratch.command("harmonia-train", &train(&["--dataset", "store", "--epochs", "1", "--out", "run"]));
    fails(&command.current_dir(&odd).output().unwrap(), 2, &["not UTF-8"]);
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_in_a_run_directory_neither_hang_nor_eat_memory() {
    let scratch = Scratch::new();
    scratch.train_ok(&train(&["--epochs", "1", "--out", "run"]));
    let cases: [(&str, &str, &[&str]); 6] = [
        ("summary.json", "harmonia", &["explain", "run", "--node", "3"]),
        ("summary.json", "harmonia-train", &["--resume", "run"]),
        ("last.safetensors", "harmonia-train", &["--resume", "run"]),
        ("metrics.jsonl", "harmonia-train", &["--resume", "run"]),
        ("data.json", "harmonia", &["explain", "run", "--node", "3"]),
        ("measured.jsonl", "harmonia", &["shapes", "run"]),
    ];
    for (file, binary, command) in cases {
        for device in [true, false] {
            let copy = Scratch::new();
            std::fs::create_dir(copy.path("run")).unwrap();
            for entry in std::fs::read_dir(scratch.path("run")).unwrap().map(|entry| entry.unwrap()) {
                std::fs::copy(entry.path(), copy.path("run").join(entry.file_name())).unwrap();
            }
            if file != "summary.json" {
                std::fs::remove_file(copy.path("run/summary.json")).unwrap();
            }
            let path = copy.path("run").join(file);
            std::fs::remove_file(&path).unwrap();
            match device {
                true => std::os::unix::fs::symlink("/dev/zero", &path).unwrap(),
                false => assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success()),
            }
            let start = Instant::now();
            let output = copy.run(binary, command);
            fails(&output, 2, &["regular file"]);
            assert!(start.elapsed() < Duration::from_secs(30), "{file}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_grow_is_a_full_disk_and_not_a_death() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("store")).unwrap();
    let program = env!("CARGO_BIN_EXE_harmonia-train");
    let limited = |blocks: &str| {
        let words = train(&["--dataset", "store", "--epochs", "3", "--out", "run"]).join("' '");
        let script = format!("ulimit -f {blocks}; exec '{program}' '{words}'");
        let mut command = scratch.command("harmonia-train", &[]);
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &script])
            .current_dir(scratch.path(""))
            .envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
        let _ = &mut command;
        shell.output().unwrap()
    };
    // Settings fit, checkpoints do not: blocks have 512 bytes, or 1024 in some shells.
    let output = limited("4");
    fails(&output, 1, &["cannot write", "run"]);
    assert!(message(&output).contains("too large"), "{}", message(&output));
    scratch.train_ok(&["--resume", "run"]);
    assert!(
        std::fs::read_dir(scratch.path("run")).unwrap().all(|entry| !entry
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with('.'))
    );
}

#[test]
fn escapes_in_names_do_not_reach_the_terminal() {
    let scratch = Scratch::new();
    let mut dataset = people(["age", "noise"]);
    dataset.feature_names[0] = "age\u{1b}[31m".into();
    dataset.class_names = vec!["no\u{1b}]0;title\u{7}".into(), "yes".into()];
    dataset.name = "pe\u{1b}[2Jople".into();
    replace_store(&scratch, &dataset);
    let clean = |output: &Output| {
        assert!(output.status.success(), "{}", message(output));
        let text = message(output) + &String::from_utf8_lossy(&output.stdout);
        assert!(!text.contains(|c: char| c.is_control() && !"\n\t".contains(c)), "{text:?}");
    };
    clean(&scratch.train(&train(&["--dataset", "store", "--epochs", "2", "--out", "run"])));
    for command in [
        &["explain", "run", "--node", "3"][..],
        &["explain", "run", "--global"],
        &["shapes", "run"],
        &["data", "info", "store"],
        &["predict", "run", "--out", "p.csv"],
    ] {
        clean(&scratch.run("harmonia", command));
    }
}

#[test]
fn a_model_of_another_kind_of_task_is_refused() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("store")).unwrap();
    scratch.train_ok(&train(&["--dataset", "store", "--epochs", "1", "--out", "run"]));
    let path = scratch.path("run/best.safetensors");
    let sound = std::fs::read(&path).unwrap();
    let other = with_metadata(&sound, |text| text.replace("\"objective\":\"softmax\"", "\"objective\":\"sigmoid\""));
    std::fs::write(&path, other).unwrap();
    fails(
        &scratch.run("harmonia", &["predict", "run", "--out", "p.csv"]),
        2,
        &["best.safetensors", "another kind of task"],
    );
}

#[test]
fn resuming_at_the_last_epoch_mends_a_damaged_model() {
    let scratch = Scratch::new();
    scratch.train_ok(&train(&["--epochs", "3", "--out", "run"]));
    let path = scratch.path("run/best.safetensors");
    let sound = std::fs::read(&path).unwrap();
    std::fs::write(&path, &sound[..sound.len() / 2]).unwrap();
    std::fs::remove_file(scratch.path("run/summary.json")).unwrap();
    scratch.train_ok(&["--resume", "run"]);
    assert!(std::fs::read(&path).unwrap() == sound);
    scratch.harmonia_ok(&["shapes", "run"]);
}

#[test]
fn large_numbers_are_named_and_the_learning_rate_is_not_blamed() {
    let scratch = Scratch::new();
    let mut dataset = small_dataset();
    let mut values = dataset.features.dense().into_owned();
    values[5] = 1e38;
    dataset.features = Features::new(12, 2, values).unwrap().into();
    harmonia::store::write(&dataset, &scratch.path("store")).unwrap();
    let output = scratch.train(&train(&[
        "--dataset",
        "store",
        "--epochs",
        "3",
        "--set",
        "init.readout_scale=1",
        "--recipe",
        "paper",
        "--out",
        "run",
    ]));
    fails(&output, 1, &["feature 1 has values up to 1e38"]);
    assert!(!message(&output).contains("learning_rate"), "{}", message(&output));
    // f64 beyond f32 is not infinite, it is too large.
    let values: Vec<f64> = (0..24).map(|at| if at == 7 { 1e300 } else { f64::from(at) }).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let header = harmonia::npy::header(harmonia::npy::Element::F64, &[12, 2]);
    std::fs::write(scratch.path("store/features.npy"), [header, bytes].concat()).unwrap();
    let output = scratch.train(&["--dataset", "store", "--out", "other"]);
    fails(&output, 2, &["features.npy", "element 7 is 1e300", "single precision"]);
    assert!(!message(&output).contains("inf"), "{}", message(&output));
}

#[test]
fn slow_dropout_is_announced() {
    let scratch = Scratch::new();
    let slow = ["--epochs", "1", "--set", "train.dropout=0.1", "--set", "train.dropout_place=hidden", "--out", "run"];
    let output = scratch.train(&train(&slow));
    assert!(output.status.success());
    assert!(
        message(&output).contains("note: train.dropout_place = hidden evaluates every expert"),
        "{}",
        message(&output)
    );
}

/// Large enough that a store of it is read through once and then known by its note.
fn large_dataset() -> Dataset {
    let (nodes, cols) = (300_000usize, 64);
    let edges: Vec<(u32, u32)> = (0..nodes as u32).map(|i| (i, (i + 1) % nodes as u32)).collect();
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
    let values = (0..nodes * cols).map(|at| (at % 13) as f32 / 13.0).collect();
    let labels = Labels::Classes { ids: (0..nodes as u32).map(|i| i % 2).collect(), classes: 2 };
    let split = Split { train: (0..200).collect(), valid: (200..300).collect(), test: (300..400).collect() };
    let features = Features::new(nodes, cols, values).unwrap();
    Dataset::nodes("large", graph, features, labels, split).unwrap()
}

/// Fifty ids of the edges become impossible; size, inode and time of change of the file stay.
fn overwrite_ids(path: &std::path::Path) {
    use std::io::{Seek, SeekFrom, Write};
    let before = std::fs::metadata(path).unwrap();
    let mut file = std::fs::File::options().write(true).open(path).unwrap();
    for at in 0..50 {
        file.seek(SeekFrom::Start(before.len() - 4 * (1000 * at + 1))).unwrap();
        file.write_all(&u32::MAX.to_le_bytes()).unwrap();
    }
    file.set_modified(before.modified().unwrap()).unwrap();
    file.sync_all().unwrap();
    assert_eq!(std::fs::metadata(path).unwrap().modified().unwrap(), before.modified().unwrap());
}

/// The only file of a folder.
fn only_file(folder: &std::path::Path) -> std::path::PathBuf {
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[cfg(unix)]
#[test]
fn fifty_overwritten_ids_of_a_large_store_end_in_an_error_that_names_the_file() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    harmonia::store::write(&large_dataset(), &scratch.path("store")).unwrap();
    let start = ["--dataset", "store", "--epochs", "1", "--set", "model.hidden=[2]", "--set", "model.hops=2"];
    let start = [&start[..], &["--set", "engine.table=off"]].concat();
    scratch.train_ok(&[&start[..], &["--out", "run"]].concat());
    let note = only_file(&scratch.cache("harmonia/checked"));
    let ids = scratch.path("store/col_idx.npy");
    overwrite_ids(&ids);
    // A note that does not notice, as of a disk that loses bits below the file system.
    let blind = || {
        let now = std::fs::metadata(&ids).unwrap();
        let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&note).unwrap()).unwrap();
        let file = value["files"].as_array_mut().unwrap().iter_mut().find(|file| file[0] == "col_idx.npy").unwrap();
        file[3] = serde_json::json!([now.ino(), now.ctime(), now.ctime_nsec()]);
        value.to_string()
    };
    let blind = blind();
    let parts = ["col_idx.npy", "has neighbour 4294967295", "make the store again"];
    for device in ["cpu", "host"] {
        std::fs::write(&note, &blind).unwrap();
        fails(&scratch.train(&[&start[..], &["--device", device, "--out", "again"]].concat()), 2, &parts);
        let _ = std::fs::remove_dir_all(scratch.path("again"));
        // Nothing is believed of it any more: the next start finds it while opening.
        assert!(!note.exists(), "{device}");
    }
    for command in [
        &["diagnose", "store", "--quick"][..],
        &["explain", "run", "--node", "3"],
        &["predict", "run", "--out", "p.csv"],
    ] {
        std::fs::write(&note, &blind).unwrap();
        let output = scratch.run("harmonia", command);
        let said = message(&output);
        assert!(!said.contains("internal error"), "{command:?}: {said}");
        // What reads no edge that was overwritten has nothing to find.
        if !output.status.success() {
            fails(&output, 2, &parts);
        }
    }
    // As it is, the time of change of the file's entry tells.
    fails(&scratch.train(&[&start[..], &["--out", "again"]].concat()), 2, &["col_idx.npy", "has neighbour 4294967295"]);
}

#[test]
fn a_sum_over_labels_is_said_where_gradients_are_written() {
    let scratch = Scratch::new();
    let help = scratch.harmonia_ok(&["gradients", "--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("of a multi-label task each unit counts the sum over its labels, not their mean"), "{help}");
}

#[test]
fn a_quick_diagnosis_agrees_with_the_long_one() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("store")).unwrap();
    let read = |more: &[&str]| -> serde_json::Value {
        let words = [&["diagnose", "store", "--hops", "3", "--json"], more].concat();
        serde_json::from_str(&scratch.harmonia_ok(&words)).unwrap()
    };
    let (long, quick) = (read(&[]), read(&["--quick"]));
    assert_eq!(long["independence"]["verdict"], quick["independence"]["verdict"]);
    assert_eq!(long["components"], quick["components"]);
}

/// Texts of all sources below a folder.
fn sources(folder: &std::path::Path, into: &mut String) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => sources(&path, into),
            false if path.extension().is_some_and(|ending| ending == "rs") => {
                into.push_str(&std::fs::read_to_string(&path).unwrap());
            }
            false => {}
        }
    }
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    ["tests", "src", "crates"].iter().for_each(|folder| sources(&root.join(folder), &mut all));
    let text = std::fs::read_to_string(root.join("docs/reliability.md")).unwrap();
    let promises = text.split("\n## ").next().unwrap();
    let rows: Vec<&str> = promises.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 15);
    for row in rows {
        let tests = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            let exists =
                if name.contains('/') { root.join(name).exists() } else { all.contains(&format!("fn {name}()")) };
            assert!(exists, "there is no test {name}");
        }
    }
}
