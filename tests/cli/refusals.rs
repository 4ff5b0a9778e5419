//! Bad input: one clear message, exit code 2, nothing left behind.

use super::program::{Scratch, small_dataset};
use super::quick;
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
        (&["--data-index", "4294967296"], &["--data-index", "4294967296"]),
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
