//! The command line as a user meets it: settings, output, and bad input (one clear message, exit code 2, nothing left
//! behind).

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::dataset::Dataset;
use harmonia::graph::{Direction, Graph};
use program::{Scratch, small_dataset, stdout_of};
use serde_json::Value;

const QUICK: [&str; 4] = ["--epochs", "2", "--set", "model.hidden=[4]"];

fn quick<'a>(more: &[&'a str]) -> Vec<&'a str> {
    QUICK.iter().chain(more).copied().collect()
}

#[test]
fn the_default_job_trains_reports_and_names_its_directory() {
    let scratch = Scratch::new();
    let text = scratch.train_ok(&quick(&[]));
    for part in ["test", "accuracy %", "Precision@4", "dominant hops", "generator's own", "runs/synthetic-1"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let run = scratch.path("runs/synthetic-1");
    for file in ["config.toml", "metrics.jsonl", "best.safetensors", "last.safetensors", "summary.json", "report.html"]
    {
        assert!(run.join(file).is_file(), "{file} is missing");
    }
    let lines = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2);
    // A second run takes the next number.
    assert!(scratch.train_ok(&quick(&[])).contains("runs/synthetic-2"));
}

#[test]
fn json_is_one_object_with_the_promised_keys() {
    let scratch = Scratch::new();
    let text = scratch.train_ok(&quick(&["--seeds", "2", "--seed", "5", "--json", "--out", "r"]));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["dataset"], &json["preset"]), (&"synthetic".into(), &"synthetic".into()));
    assert_eq!((&json["seeds"], &json["run_dir"]), (&2.into(), &"r".into()));
    for part in ["test", "validation"] {
        for metric in ["accuracy", "roc_auc", "nll", "macro_f1"] {
            for statistic in ["mean", "std"] {
                assert!(json[part][metric][statistic].is_f64(), "{part}.{metric}.{statistic}");
            }
        }
    }
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|run| run["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [5, 6]);
    let (a, b) = (runs[0]["test"]["nll"].as_f64().unwrap(), runs[1]["test"]["nll"].as_f64().unwrap());
    assert!((json["test"]["nll"]["mean"].as_f64().unwrap() - (a + b) / 2.0).abs() < 1e-12);
    assert!((json["test"]["nll"]["std"].as_f64().unwrap() - (a - b).abs() / 2f64.sqrt()).abs() < 1e-12);
    assert_eq!(json["epochs"], 4);
    assert!(json["parameters"].as_u64().unwrap() > 0 && json["seconds"].as_f64().unwrap() > 0.0);
    assert!(scratch.path("r/seed-5/summary.json").is_file() && scratch.path("r/summary.json").is_file());
}

#[test]
fn a_flag_beats_set_beats_file_beats_preset() {
    let scratch = Scratch::new();
    let file = scratch.write("my.toml", "[train]\nepochs = 11\npatience = 12\nlearning_rate = 0.5\n");
    let file = file.to_str().unwrap();
    let text = scratch.train_ok(&[
        "--config",
        file,
        "--set",
        "train.epochs=13",
        "--set",
        "train.patience=14",
        "--epochs",
        "15",
        "--dry-run",
        "--json",
    ]);
    let train = serde_json::from_str::<Value>(&text).unwrap()["config"]["train"].clone();
    assert_eq!((&train["epochs"], &train["patience"]), (&15.into(), &14.into()));
    assert_eq!(train["learning_rate"], 0.5);
    assert_eq!(train["batch_size"], 16, "from the preset");
    assert_eq!(train["dropout_place"], "input", "from the defaults");
    // A file can name its preset; the flag still wins.
    scratch.write("my.toml", "preset = \"proteins\"\n");
    let config = |more: &[&str]| {
        let arguments: Vec<&str> = ["--config", file, "--dry-run", "--json"].iter().chain(more).copied().collect();
        serde_json::from_str::<Value>(&scratch.train_ok(&arguments)).unwrap()["config"].clone()
    };
    assert_eq!((&config(&[])["preset"], &config(&[])["model"]["experts"]), (&"proteins".into(), &3.into()));
    let flag = config(&["--preset", "cora"]);
    assert_eq!((&flag["preset"], &flag["model"]["experts"]), (&"cora".into(), &5.into()));
}

#[test]
fn a_recipe_is_chosen_said_and_recorded() {
    let scratch = Scratch::new();
    let config = |more: &[&str]| {
        let arguments: Vec<&str> =
            ["--preset", "proteins", "--dry-run", "--json"].iter().chain(more).copied().collect();
        serde_json::from_str::<Value>(&scratch.train_ok(&arguments)).unwrap()["config"].clone()
    };
    let (tuned, paper) = (config(&[]), config(&["--recipe", "paper"]));
    assert_eq!((&tuned["recipe"], &paper["recipe"]), (&"tuned".into(), &"paper".into()));
    assert_eq!((&paper["train"]["metric"], &paper["train"]["learning_rate"]), (&"roc_auc".into(), &1e-3.into()));
    assert_ne!(tuned["train"], paper["train"]);
    assert_eq!(tuned["model"]["experts"], 3, "what a tuned file does not state is the paper's");
    // As with presets: a file can name it, --set beats the file, the flag beats both; and own settings beat recipes.
    let file = scratch.write("my.toml", "recipe = \"paper\"\n");
    let file = file.to_str().unwrap();
    assert_eq!(config(&["--config", file])["recipe"], "paper");
    assert_eq!(config(&["--config", file, "--set", "recipe=tuned"])["recipe"], "tuned");
    assert_eq!(config(&["--set", "recipe=paper", "--recipe", "tuned"])["recipe"], "tuned");
    assert_eq!(config(&["--set", "train.learning_rate=0.3"])["train"]["learning_rate"], 0.3);
    // What nobody has tuned is as published, and without a preset there is no recipe.
    let published = scratch.train_ok(&["--preset", "igb-small", "--dry-run", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&published).unwrap()["recipe"], "paper");
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    let own = scratch.train_ok(&["--store", "ring", "--dry-run", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&own).unwrap()["recipe"], "");
    scratch.refused("harmonia-train", &["--recipe", "papr"], &["papr", "did you mean `paper`"]);

    let output = scratch.train(&quick(&["--preset", "proteins", "--out", "r"]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("recipe tuned (--recipe paper for the settings as published)"), "{said}");
    let recorded = std::fs::read_to_string(scratch.path("r/config.toml")).unwrap();
    assert!(recorded.contains("preset = \"proteins\"") && recorded.contains("recipe = \"tuned\""), "{recorded}");
    scratch.refused("harmonia-train", &["--resume", "r", "--recipe", "paper"], &["--resume", "--recipe"]);
}

#[test]
fn a_dry_run_shows_settings_parameters_and_memory_and_makes_no_files() {
    let scratch = Scratch::new();
    let text = scratch.train_ok(&["--dry-run"]);
    // C P + 2 q C + d (B + q + T + L) + L with C = 4, q = 16, d = 20, B = 64, T = 4, L = 1, P = 128 + 2080 + 2112
    let expected = 4 * (128 + 2080 + 2112) + 2 * 16 * 4 + 20 * (64 + 16 + 4 + 1) + 1;
    for part in ["[train]", "epochs = 400", "embeddings", &expected.to_string(), "responses F", "MiB"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    assert!(scratch.entries().is_empty());
}

#[test]
fn typos_are_refused_with_a_suggestion() {
    let scratch = Scratch::new();
    let file = scratch.write("bad.toml", "[train]\nepoch = 3\n");
    for (arguments, expected) in [
        (&["--set", "train.epoch=3"][..], &["train.epoch", "did you mean `train.epochs`"][..]),
        (&["--set", "train.lr=1"], &["train.lr", "did you mean `train.learning_rate`"]),
        (&["--set", "dropout=0.1"], &["`dropout`", "did you mean `train.dropout`"]),
        (&["--config", file.to_str().unwrap()], &["bad.toml", "did you mean `train.epochs`"]),
        (&["--dataset", "coraa"], &["coraa", "did you mean `cora`"]),
        (&["--preset", "ogbn-arxv"], &["ogbn-arxv", "did you mean `ogbn-arxiv`"]),
        (&["--device", "gpu"], &["gpu", "cpu"]),
        (&["--epoch", "3"], &["--epoch", "--epochs"]),
        (&["--set", "train.epochs"], &["section.key=value"]),
        (&["--set", "train.epochs=few"], &["epochs"]),
        (&["--set", "train.dropout=1"], &["train.dropout", "[0, 1)"]),
        (&["--set", "model.active=9"], &["model.active", "experts"]),
        (&["--data-index", "5"], &["data.index", "0, 1, 2, 3 or 4"]),
        (&["--epochs", "0"], &["train.epochs"]),
        (&["--resume", "nowhere"], &["nowhere", "not a run directory"]),
        (&["--resume", "x", "--seed", "3"], &["--resume", "--seed"]),
        (&["--seed", "18446744073709551615"], &["--seed 18446744073709551615", "2^63"]),
        (&["--set", "data.split=per-class:1/18446744073709551615/1"], &["18446744073709551615 validation"]),
        (&["--set", "model.hidden=[16777216, 16777216]"], &["parameters", "model.hidden"]),
        (&["--set", "init.response_slope=nan"], &["init.response_slope", "NaN"]),
        (&["--set", "data.split=fractions:60/20/30"], &["data.split", "fractions:60/20/30", "110", "100"]),
        (&["--normalise", "row"], &["data.normalise"]),
        (&["--set", "preset=mutga"], &["mutga", "did you mean `mutag`"]),
    ] {
        scratch.refused("harmonia-train", arguments, expected);
    }
}

#[test]
fn missing_files_are_named_with_what_to_do() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("empty")).unwrap();
    for (arguments, expected) in [
        (&["--config", "none.toml"][..], &["none.toml", "cannot read"][..]),
        (&["--dataset", "cora"], &["cora", "hint: try --yes\n", "ind.cora.allx", "harmonia/Cora/raw"]),
        (
            &["--dataset", "cora", "--offline", "--data-dir", "empty"],
            &["hint: try without --offline\n", "empty", "ind.cora.allx", "http"],
        ),
        (&["--dataset", "empty"], &["empty", "not a store", "meta.json"]),
        (&["--dataset", "tolokers", "--data-dir", "none"], &["tolokers.npz", "none", "--yes"]),
    ] {
        scratch.refused("harmonia-train", arguments, expected);
    }
    scratch.refused("harmonia", &["gradients", "--params", "p.safetensors", "--out", "g"], &["p.safetensors"]);
}

#[test]
fn damaged_data_is_refused_with_the_place() {
    // What cannot be right is not even written ...
    let write = |change: fn(&mut harmonia::dataset::Dataset)| {
        let scratch = Scratch::new();
        let mut dataset = small_dataset();
        change(&mut dataset);
        let error = harmonia::store::write(&dataset, &scratch.path("s")).unwrap_err().to_string();
        assert!(scratch.entries().is_empty(), "{:?}", scratch.entries());
        error
    };
    let error = write(|dataset| {
        let mut values = dataset.features.dense().into_owned();
        values[7] = f32::NAN;
        dataset.features = std::sync::Arc::new(harmonia::dataset::Features::new(12, 2, values).unwrap());
    });
    assert!(error.contains("feature 1 of node 3 is NaN"), "{error}");
    let error = write(|dataset| dataset.labels = harmonia::dataset::Labels::Classes { ids: vec![7; 12], classes: 3 });
    assert!(error.contains("labels.npy: label of unit 0 is 7") && error.contains("0 to 2"), "{error}");
    assert!(write(|dataset| dataset.split.train.clear()).contains("train split is empty"));
    // ... and what was damaged later is not trained on.
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("s")).unwrap();
    let path = scratch.path("s/features.npy");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    scratch.refused("harmonia-train", &["--dataset", "s"], &["feature 1 of node 11 is NaN", "finite"]);
    scratch.refused("harmonia", &["data", "info", "s", "--verify"], &["features.npy", "SHA-256", "expected"]);
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    let scratch = Scratch::new();
    scratch.write("file", "in the way");
    scratch.refused("harmonia-train", &quick(&["--out", "file/run"]), &["file/run"]);
    scratch.refused("harmonia-train", &quick(&["--out", "/proc/run"]), &["/proc/run"]);
    scratch.refused("harmonia", &["init", "--out", "/proc/p.safetensors"], &["/proc"]);
    std::fs::create_dir(scratch.path("full")).unwrap();
    std::fs::write(scratch.path("full/thesis.txt"), "precious").unwrap();
    scratch.refused("harmonia-train", &quick(&["--out", "full"]), &["full", "not empty", "--resume"]);
}

#[test]
fn divergence_is_a_failure_with_advice_not_a_nan() {
    let scratch = Scratch::new();
    let output = scratch.train(&quick(&["--set", "train.learning_rate=1e30", "--set", "train.clip_norm=0"]));
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("diverged in epoch") && message.contains("train.learning_rate"), "{message}");
}

#[test]
fn a_store_trains_by_path_and_keeps_its_names() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    let text = scratch.train_ok(&["--dataset", "ring", "--epochs", "3", "--json"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["dataset"], &json["preset"]), (&"ring".into(), &"".into()));
    assert_eq!(json["run_dir"], "runs/ring-1");
}

#[test]
fn init_and_gradients_write_what_checkpoints_are_named() {
    use harmonia::model::Checkpoint;
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    let preset = ["--store", "ring", "--preset", "cora", "--recipe", "paper"];
    let settings = [&preset[..], &["--set", "init.readout_scale=1"]].concat();
    let run = |arguments: &[&str]| {
        let arguments: Vec<&str> = arguments.iter().chain(&settings).copied().collect();
        stdout_of(&scratch.run("harmonia", &arguments), &arguments)
    };
    run(&["init", "--seed", "3", "--out", "p.safetensors"]);
    run(&["gradients", "--params", "p.safetensors", "--out", "g32.safetensors"]);
    run(&["gradients", "--params", "p.safetensors", "--precision", "f64", "--out", "g64.safetensors"]);
    let parameters = Checkpoint::read(&scratch.path("p.safetensors")).unwrap();
    let single = Checkpoint::read(&scratch.path("g32.safetensors")).unwrap();
    let double = Checkpoint::read(&scratch.path("g64.safetensors")).unwrap();
    assert_eq!(parameters.tensors["experts.4.layers.1.weight"].shape, [8, 16]);
    assert_eq!(parameters.tensors["hop_logits"].shape, [8, 2]);
    assert_eq!(double.tensors["loss"].shape, Vec::<usize>::new());
    assert_eq!(double.tensors["logits"].shape, [12, 3]);
    assert_eq!(double.tensors.len(), parameters.tensors.len() + 2);
    for (name, tensor) in &parameters.tensors {
        let gradient = &double.tensors[&format!("grad.{name}")];
        assert_eq!(gradient.shape, tensor.shape, "{name}");
        let scale = gradient.values.iter().fold(1e-3, |m: f64, v| m.max(v.abs()));
        for (a, b) in gradient.values.iter().zip(&single.tensors[&format!("grad.{name}")].values) {
            assert!((a - b).abs() < 1e-4 * scale, "{name}: {a} {b}");
        }
    }
    // Noise changes routing, and must have the right shape.
    let noise: Vec<f64> = (0..10).map(f64::from).collect();
    Checkpoint::write(&scratch.path("n.safetensors"), vec![("noise".into(), vec![2, 5], &noise[..])], None).unwrap();
    run(&["gradients", "--params", "p.safetensors", "--noise", "n.safetensors", "--precision", "f64", "--out", "gn"]);
    let noisy = Checkpoint::read(&scratch.path("gn")).unwrap();
    assert_ne!(noisy.tensors["loss"], double.tensors["loss"]);
    Checkpoint::write(&scratch.path("bad"), vec![("noise".into(), vec![5, 2], &noise[..])], None).unwrap();
    let arguments = ["gradients", "--params", "p.safetensors", "--out", "x", "--noise", "bad"];
    scratch.refused("harmonia", &[&arguments[..], &preset[..]].concat(), &["bad", "[5, 2]", "[2, 5]"]);
    // Parameters of another model are refused by name and shape.
    let other = ["gradients", "--store", "ring", "--preset", "proteins", "--params", "p.safetensors", "--out", "x"];
    scratch.refused("harmonia", &other, &["p.safetensors", "shape", "preset"]);
}

#[test]
fn help_names_every_flag_of_the_contract() {
    let scratch = Scratch::new();
    let text = scratch.train_ok(&["--help"]);
    for flag in [
        "--dataset",
        "--preset",
        "--config",
        "--set",
        "--seed",
        "--seeds",
        "--epochs",
        "--device",
        "--threads",
        "--out",
        "--resume",
        "--dry-run",
        "--json",
        "--data-index",
        "--data-dir",
        "--folds",
        "--repeats",
        "--undirected",
        "--normalise",
        "--yes",
        "--offline",
        "--mirror",
    ] {
        assert!(text.contains(flag), "{flag}");
    }
    let same = stdout_of(&scratch.run("harmonia", &["train", "--help"]), &["train", "--help"]);
    assert!(same.contains("--resume") && same.contains("Exit codes"));
}

/// Changes to the files of a store that must be refused, each with what the message says.
#[test]
fn hostile_stores_are_refused_without_a_panic() {
    fn npy(shape: &str, kind: &str, data: &[u8]) -> Vec<u8> {
        let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }
    let integers = |values: &[i64]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let twelve = integers(&[0; 12]);
    let meta = |text: &str| text.as_bytes().to_vec();
    let cases: [(&str, Vec<u8>, &[&str]); 14] = [
        ("edge_weight.npy", npy("(24,)", "<f4", &[0; 96]), &["edge_weight.npy", "did you mean `edge_weights.npy`"]),
        ("train.npy", npy("(12,)", "|b1", &[1; 12]), &["train.npy", "boolean mask", "flatnonzero"]),
        (
            "meta.json",
            meta(r#"{"format":"harmonia-store","version":1,"name":"x","level":"node","classes":3,"multilabel":true}"#),
            &["meta.json", "multilabel"],
        ),
        ("features.npy", npy("(0, 1099511627776)", "<f4", &[]), &["features, found 12 and 1099511627776"]),
        ("features.npy", npy("(1099511627776, 1099511627776)", "<f4", &[]), &["features.npy"]),
        ("features.npy", npy("(12,)", "<f4", &[0; 48]), &["features.npy", "nodes x features"]),
        ("labels.npy", npy("(6, 2)", "<i8", &twelve), &["labels.npy", "[12]", "[6, 2]"]),
        ("labels.npy", npy("(12,)", "<i8", &integers(&[-1; 12])), &["has no label"]),
        ("train.npy", npy("(1, 1)", "<i8", &integers(&[0])), &["train.npy", "one dimension"]),
        ("train.npy", npy("(2,)", "<i8", &integers(&[0, 0])), &["train split twice"]),
        ("valid.npy", npy("(1,)", "<i8", &integers(&[99])), &["id 99"]),
        ("row_ptr.npy", npy("(0,)", "<i8", &[]), &["row_ptr"]),
        ("graph_ptr.npy", npy("(3,)", "<i8", &integers(&[0, 5, 12])), &["leaves graph"]),
        (
            "meta.json",
            meta(r#"{"format":"harmonia-store","version":1,"name":"x","level":"node","classes":1000000000000}"#),
            &["classes"],
        ),
    ];
    for (file, content, expected) in cases {
        let scratch = Scratch::new();
        harmonia::store::write(&small_dataset(), &scratch.path("s")).unwrap();
        // As somebody else would have written it: without sizes and checksums.
        let plain = r#"{"format":"harmonia-store","version":1,"name":"ring","level":"node","classes":3}"#;
        std::fs::write(scratch.path("s/meta.json"), plain).unwrap();
        std::fs::write(scratch.path("s").join(file), content).unwrap();
        scratch.refused("harmonia-train", &["--dataset", "s"], expected);
    }
}

#[test]
fn numpy_habits_are_understood() {
    // An empty list saved by numpy is an array of f64; labels of a binary task may be booleans.
    let scratch = Scratch::new();
    let mut dataset = small_dataset();
    dataset.split.test.clear();
    harmonia::store::write(&dataset, &scratch.path("s")).unwrap();
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }                                                   \n";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    std::fs::write(scratch.path("s/test.npy"), bytes).unwrap();
    let text = scratch.train_ok(&["--dataset", "s", "--epochs", "1"]);
    assert!(text.contains("validation"), "{text}");
}

#[test]
fn a_name_from_a_store_cannot_leave_the_runs_directory() {
    let scratch = Scratch::new();
    let mut dataset = small_dataset();
    dataset.name = "../../escape/<b>".into();
    harmonia::store::write(&dataset, &scratch.path("s")).unwrap();
    scratch.train_ok(&["--dataset", "s", "--epochs", "1"]);
    assert_eq!(scratch.entries(), ["runs", "s"]);
    let report = std::fs::read_dir(scratch.path("runs")).unwrap().next().unwrap().unwrap().path().join("report.html");
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.contains("&lt;b&gt;") && !page.contains("<b>"));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let scratch = Scratch::new();
    let binary = env!("CARGO_BIN_EXE_harmonia-train");
    let script = format!("set -o pipefail; '{binary}' --dry-run | head -n 1");
    let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.is_empty(), "{message}");
    assert!(scratch.entries().is_empty());
}

#[test]
fn one_test_node_still_gives_a_finished_run() {
    let scratch = Scratch::new();
    let text = scratch.train_ok(&quick(&["--set", "data.split=per-class:20/100/1", "--json", "--out", "r"]));
    let run = serde_json::from_str::<Value>(&text).unwrap()["runs"][0].clone();
    assert!(run["recovery"].is_null() && run["test"]["nll"].is_f64(), "{run}");
    assert!(scratch.path("r/summary.json").is_file());
}

#[test]
fn a_device_that_is_not_there_is_said_and_auto_goes_on_without() {
    let scratch = Scratch::new();
    if harmonia::device::cuda::device_count().is_ok_and(|count| count > 0) {
        return println!("skipped: this machine has a GPU");
    }
    let output = scratch.train(&quick(&["--device", "cuda"]));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("error: no ") && message.contains("set run.device = cpu"), "{message}");
    assert!(message.ends_with("hint: try --device cpu\n"), "{message}");
    assert!(scratch.entries().is_empty());

    // Nobody asked for a GPU; who asks why is told.
    for (flags, told) in [(&["--out", "a"][..], false), (&["--out", "b", "--device", "auto", "--verbose"], true)] {
        let output = scratch.train(&quick(flags));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{message}");
        assert_eq!(message.contains("note: computing on the CPU: no "), told, "{message}");
        assert!(told || !message.contains("driver"), "{message}");
    }
}

#[test]
fn half_states_train_on_the_cpu_and_are_refused_on_directed_graphs() {
    let scratch = Scratch::new();
    let nll = |states: &str| {
        let setting = format!("engine.states={states}");
        let text = scratch.train_ok(&quick(&["--device", "cpu", "--set", &setting, "--json", "--out", states]));
        let outcome: serde_json::Value = serde_json::from_str(&text).unwrap();
        outcome["test"]["nll"]["mean"].as_f64().unwrap()
    };
    let (full, half, bfloat) = (nll("f32"), nll("f16"), nll("bf16"));
    assert!(full != half && (full - half).abs() < 1e-2, "{full} {half}");
    assert!(full != bfloat && (full - bfloat).abs() < 5e-2, "{full} {bfloat}");

    let edges: Vec<(u32, u32)> = (0..11).map(|i| (i, i + 1)).collect();
    let graph = Graph::from_edges(12, &edges, None, Direction::Directed).unwrap();
    let dataset = Dataset { graph, ..small_dataset() };
    harmonia::store::write(&dataset, &scratch.path("directed")).unwrap();
    let output = scratch.train(&["--dataset", "directed", "--device", "cpu", "--set", "engine.states=f16"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    // The library names the setting, the command line how to set it.
    assert!(message.contains("set engine.states = bf16\n"), "{message}");
    assert!(message.ends_with("hint: try --set engine.states=bf16\n"), "{message}");
}

#[test]
fn a_dry_run_shows_the_plan_and_what_both_spaces_cost() {
    let scratch = Scratch::new();
    let plan = |more: &[&str]| {
        let text = scratch.train_ok(&quick(&[&["--dry-run", "--json"], more].concat()));
        let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
        let costs =
            ["features", "classes"].map(|space| shown["estimates"][space]["byte_equivalents"].as_f64().unwrap());
        (shown["plan"].clone(), costs)
    };
    // 20 features and one logit: class space moves a twentieth.
    let (shown, [features, classes]) = plan(&[]);
    assert_eq!(shown, serde_json::json!({ "monb": "knots", "propagate": "classes", "sparse": false }));
    assert!(classes < features, "{classes} {features}");
    let (shown, _) = plan(&["--set", "engine.propagate=features", "--set", "engine.monb=direct"]);
    assert_eq!(shown, serde_json::json!({ "monb": "direct", "propagate": "features", "sparse": false }));
    let (shown, _) = plan(&["--set", "train.dropout_place=hidden", "--set", "train.dropout=0.1"]);
    assert_eq!(shown["monb"], "direct", "hidden units cannot be dropped from pieces");

    let text = scratch.train_ok(&quick(&["--dry-run"]));
    assert!(text.contains("# plan") && text.contains("<- taken"), "{text}");
    let output = scratch.train(&quick(&["--set", "engine.monb=fast"]));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("direct") && message.contains("knots"), "{message}");
}

#[test]
fn the_kernels_train_a_store_on_the_host() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("s")).unwrap();
    let nll = |device: &str, out: &str| {
        let common = ["--dataset", "s", "--epochs", "3", "--json", "--device", device, "--out", out];
        let text = scratch.train_ok(&common);
        serde_json::from_str::<Value>(&text).unwrap()["test"]["nll"].clone()
    };
    let nll = |device, out| {
        let value = nll(device, out);
        value["mean"].as_f64().or(value.as_f64()).unwrap()
    };
    let (cpu, host) = (nll("cpu", "a"), nll("host", "b"));
    assert!((cpu - host).abs() <= 1e-4 * cpu, "{cpu} {host}");

    let plan = |device: &str| {
        let text = scratch.train_ok(&["--dataset", "s", "--dry-run", "--json", "--device", device]);
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let host = plan("host");
    assert!(host["device"].as_str().unwrap().contains("host"), "{host}");
    // A device that copies batches plans for the copies.
    assert!(host["memory_bytes_by_buffer"]["features, copied"].as_u64().unwrap() > 0);
    assert!(plan("cpu")["memory_bytes_by_buffer"]["features, copied"].is_null());
}

#[test]
fn quiet_says_nothing_but_errors() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("s")).unwrap();
    // The session of a store without enough training has notes and progress to tell.
    let common = ["--dataset", "s", "--epochs", "1", "--json"];
    let spoken = |output: std::process::Output| {
        assert!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["run_dir"].is_string());
        String::from_utf8(output.stderr).unwrap()
    };
    let normal = spoken(scratch.train(&common));
    assert!(normal.contains("writing to") && normal.contains("note: ") && normal.contains("best epoch"), "{normal}");
    assert_eq!(spoken(scratch.train(&[&["-q"], &common[..]].concat())), "");
    assert_eq!(spoken(scratch.run("harmonia", &[&["train"], &common[..], &["--quiet"]].concat())), "");
    assert_eq!(spoken(scratch.run("harmonia", &[&["-q", "train"], &common[..]].concat())), "");
    scratch.refused("harmonia-train", &["-q", "--set", "train.epoch=3"], &["error: ", "train.epochs"]);
    scratch.refused("harmonia-train", &["-q", "-v"], &["--quiet", "--verbose"]);
    assert!(scratch.harmonia_ok(&["data", "list", "--verbose"]).contains("cora"));
}

#[test]
fn all_that_commands_say_on_stderr_goes_through_one_place() {
    fn look(directory: &std::path::Path) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                look(&path);
            } else if !path.ends_with("voice.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("eprint"), "{} does not ask voice.rs", path.display());
            }
        }
    }
    look(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli"));
}

#[test]
fn errors_are_coloured_like_those_of_the_parser_and_only_where_they_may_be() {
    let scratch = Scratch::new();
    let said = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = scratch.command("harmonia-train", arguments);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(variables.iter().copied());
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let forced = ("CLICOLOR_FORCE", "1");
    let colour = |arguments: &[&str]| said(arguments, &[forced]).split("error:").next().unwrap().to_string();
    let ours = ["--preset", "none"];
    assert!(colour(&ours).starts_with('\x1b') && colour(&ours) == colour(&["--none"]), "{:?}", colour(&ours));
    // Neither in a pipe, nor where colours are not wanted.
    for variables in [&[][..], &[forced, ("NO_COLOR", "1")]] {
        let message = said(&ours, variables);
        assert!(message.starts_with("error: there is no preset"), "{message:?}");
    }
}

#[test]
fn a_file_where_a_directory_is_expected_is_called_a_file() {
    let scratch = Scratch::new();
    scratch.write("notes.txt", "not a directory");
    let expected = ["notes.txt: is a file; expected a directory"];
    for arguments in [
        &quick(&["--out", "notes.txt"])[..],
        &["--resume", "notes.txt"],
        &["--dataset", "cora", "--data-dir", "notes.txt"],
    ] {
        scratch.refused("harmonia-train", arguments, &expected);
    }
    for arguments in [
        &["explain", "notes.txt", "--node", "1"][..],
        &["predict", "notes.txt", "--out", "p.csv"],
        &["diagnose", "notes.txt"],
        &["data", "list", "--data-dir", "notes.txt"],
    ] {
        scratch.refused("harmonia", arguments, &expected);
    }
}

#[test]
fn completions_know_commands_and_flags() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = scratch.harmonia_ok(&["completions", shell]);
        for part in ["remove-retrain", "offline", "quiet"] {
            assert!(text.contains(part), "no {part} for {shell}");
        }
        assert!(scratch.harmonia_ok(&["completions", shell, "--of", "harmonia-train"]).contains("resume"));
    }
    scratch.refused("harmonia", &["completions", "bahs"], &["bahs", "bash"]);
}

#[test]
fn the_manual_has_one_page_per_command() {
    let scratch = Scratch::new();
    scratch.harmonia_ok(&["man", "share/man1"]);
    // Again, over what is there.
    let said = scratch.harmonia_ok(&["man", "share/man1"]);
    let pages = std::fs::read_dir(scratch.path("share/man1")).unwrap();
    let names: Vec<String> = pages.map(|page| page.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert!(said.starts_with(&format!("{} pages", names.len())), "{said}");
    for page in ["harmonia.1", "harmonia-train.1", "harmonia-data.1", "harmonia-data-convert.1", "harmonia-explain.1"] {
        assert!(names.iter().any(|name| name == page), "no {page} in {names:?}");
    }
    assert!(names.iter().all(|name| name.ends_with(".1") && !name.contains("help")), "{names:?}");
    let page = std::fs::read_to_string(scratch.path("share/man1/harmonia-data-convert.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("label\\-column"), "{page}");
    scratch.write("file", "in the way");
    scratch.refused("harmonia", &["man", "file"], &["file: is a file; expected a directory"]);
}

#[test]
fn the_version_says_commit_and_devices() {
    let scratch = Scratch::new();
    for binary in ["harmonia", "harmonia-train"] {
        let text = stdout_of(&scratch.run(binary, &["--version"]), &["--version"]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("{binary} {}", env!("CARGO_PKG_VERSION")));
        let commit = lines[1].strip_prefix("commit ").unwrap();
        let is_hash = commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        // Test binaries are development builds, unless they are built for release.
        assert!(["development", "unknown"].contains(&commit) || is_hash, "{commit}");
        for (line, device) in lines[2..].iter().zip(["cpu: ", "cuda: ", "host: "]) {
            assert!(line.starts_with(device) && line.len() > device.len(), "{text}");
        }
        assert_eq!(lines.len(), 5, "{text}");
        let short = stdout_of(&scratch.run(binary, &["-V"]), &["-V"]);
        assert_eq!(short, format!("{} ({commit})\n", lines[0]));
    }
}
