//! `harmonia data` as a user meets it: list, fetch from a server on this machine, convert, inspect, generate; two
//! processes at once, Ctrl-C, kill -9, bad input.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use program::{Scratch, real_data, stdout_of};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Requests a server of these tests answers at most, so that it stops by itself.
const MOST_REQUESTS: usize = 64;

/// Serves the files below a directory on the loopback address; counts requests.
fn serve(root: PathBuf) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming().take(MOST_REQUESTS) {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let Some(Ok(request)) = lines.next() else { continue };
            // The headers do not matter here, but have to be read.
            lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
            counted.fetch_add(1, Ordering::SeqCst);
            let path = request.split(' ').nth(1).unwrap().trim_start_matches('/').to_string();
            let (status, body) = match std::fs::read(root.join(path)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    (address, count)
}

#[test]
fn list_names_every_dataset_and_what_is_here() {
    let scratch = Scratch::new();
    let text = scratch.harmonia_ok(&["data", "list"]);
    for name in [
        "cora",
        "citeseer",
        "tolokers",
        "ogbn-arxiv",
        "igb-small",
        "ogbn-products",
        "mutag",
        "proteins",
        "dd",
        "aids",
        "mutagenicity",
        "herg-karim",
        "synthetic",
        "ODC-BY",
        "61,859,140",
    ] {
        assert!(text.contains(name), "no {name} in:\n{text}");
    }
    let json: Value = serde_json::from_str(&scratch.harmonia_ok(&["data", "list", "--json"])).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 12);
    assert!(json.as_array().unwrap().iter().all(|entry| entry["here"] == "-"));
    assert!(json[0]["files"][0]["url"].as_str().unwrap().starts_with("https://"));
    if !scratch.copy_data("MUTAG") {
        return;
    }
    let here = || -> Value {
        let text = scratch.harmonia_ok(&["data", "list", "--json", "--data-dir", "data"]);
        let json: Value = serde_json::from_str(&text).unwrap();
        json.as_array().unwrap().iter().find(|entry| entry["name"] == "mutag").unwrap()["here"].clone()
    };
    assert_eq!(here(), "raw files");
    scratch.harmonia_ok(&["data", "info", "mutag", "--data-dir", "data"]);
    assert_eq!(here(), "cached");
}

#[test]
fn fetch_asks_checks_and_is_done_once() {
    let Some(data) = real_data("MUTAG") else { return };
    let scratch = Scratch::new();
    let (mirror, requests) = serve(data);
    let fetch = ["data", "fetch", "mutag", "--data-dir", "data", "--mirror", &mirror];
    // Nobody to ask: explain, and touch nothing.
    scratch.refused("harmonia", &fetch, &["mutag", "not downloaded", "--yes", "MUTAG.zip"]);
    scratch.refused(
        "harmonia",
        &[&fetch[..], &["--offline", "--yes"]].concat(),
        &["--offline", "MUTAG.zip", "data/MUTAG/raw"],
    );
    assert_eq!(requests.load(Ordering::SeqCst), 0);
    let text = scratch.harmonia_ok(&[&fetch[..], &["--yes"]].concat());
    assert!(text.contains("data/MUTAG/raw/MUTAG.zip"), "{text}");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    scratch.harmonia_ok(&[&fetch[..], &["--yes"]].concat());
    assert_eq!(requests.load(Ordering::SeqCst), 1, "what is here is not fetched again");
    // One command fetches, converts and trains.
    let train = ["--dataset", "mutag", "--data-dir", "other", "--mirror", &mirror, "--yes", "--epochs", "1", "--json"];
    let json: Value = serde_json::from_str(&scratch.train_ok(&train)).unwrap();
    assert_eq!((&json["dataset"], requests.load(Ordering::SeqCst)), (&"mutag".into(), 2));
    assert!(scratch.path("other/MUTAG/store/meta.json").is_file());
}

#[test]
fn a_file_that_is_not_what_it_should_be_is_refused() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("mirror/Tolokers/raw")).unwrap();
    scratch.write("mirror/Tolokers/raw/tolokers.npz", b"a login page");
    let (mirror, _) = serve(scratch.path("mirror"));
    let fetch = ["data", "fetch", "tolokers", "--data-dir", "data", "--yes", "--mirror", &mirror];
    let output = scratch.run("harmonia", &fetch);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("SHA-256") && message.contains("dacf3ac94cec53d0"), "{message}");
    assert!(!scratch.path("data/Tolokers/raw/tolokers.npz").exists());
    let missing = ["data", "fetch", "cora", "--data-dir", "data", "--yes", "--mirror", &mirror];
    let output = scratch.run("harmonia", &missing);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("404") && message.contains("ind.cora.x") && message.contains("data/Cora/raw"),
        "{message}"
    );
}

#[test]
fn typos_are_refused_with_a_suggestion() {
    let scratch = Scratch::new();
    scratch.write("file.txt", "hello");
    std::fs::create_dir(scratch.path("taken")).unwrap();
    std::fs::create_dir(scratch.path("own")).unwrap();
    scratch.write("own/nodes.csv", "x,label\n1,0\n2,1\n");
    scratch.write("own/edges.csv", "from,to\n0,1\n");
    for (arguments, expected) in [
        (&["data", "fetch", "coraa"][..], &["coraa", "did you mean `cora`"][..]),
        (&["data", "info", "coraa"], &["coraa", "did you mean `cora`"]),
        (&["data", "info", "taken"], &["taken", "not a store", "meta.json"]),
        (&["data", "convert", "file.txt", "--format", "ogbb", "--out", "s"], &["ogbb", "did you mean `ogb`"]),
        (&["data", "convert", "file.txt", "--format", "ogb", "--out", "s"], &["file.txt", "zip"]),
        (&["data", "convert", "file.txt", "--format", "igb", "--out", "s"], &["file.txt", "tar"]),
        (&["data", "convert", "none", "--format", "table", "--out", "s"], &["none", "no such file"]),
        (&["data", "convert", "taken", "--format", "table", "--out", "s"], &["taken", "edges"]),
        (&["data", "convert", "taken", "--format", "planetoid", "--out", "s"], &["taken", "allx"]),
        (&["data", "convert", "taken", "--format", "tudataset", "--out", "s"], &["taken", "_A.txt"]),
        (&["data", "convert", "taken", "--format", "ogb", "--out", "s"], &["taken", "raw/edge.csv.gz"]),
        (&["data", "convert", "file.txt", "--format", "table", "--out", "taken"], &["taken", "already exists"]),
        (
            &["data", "convert", "own", "--format", "table", "--out", "s", "--table", "egdes=x"],
            &["did you mean `edges`"],
        ),
        (
            &["data", "convert", "own", "--format", "table", "--out", "s", "--column", "source"],
            &["ROLE=NAME", "source"],
        ),
        (
            &["data", "convert", "own", "--format", "table", "--out", "s", "--column", "source=form"],
            &["edges.csv", "`form`", "did you mean `from`", "hint: try --column source=NAME\n"],
        ),
        (
            &["data", "convert", "own", "--format", "tudataset", "--directed", "--out", "s"],
            &["--directed", "no direction"],
        ),
        (&["data", "generate", "--like", "ogbn-product", "--out", "s"], &["did you mean `ogbn-products`"]),
        (&["data", "generate", "--like", "cora", "--scale", "-1", "--out", "s"], &["scale"]),
        (&["data", "generate", "--like", "cora", "--out", "taken"], &["taken", "already exists"]),
        (&["data", "generate", "--like", "cora", "--split", "9/9", "--out", "s"], &["--split", "three counts"]),
        (&["data", "generate", "--like", "cora", "--nodes", "100", "--out", "s"], &["140 / 500 / 1000", "100 nodes"]),
        (&["data", "fetch", "cora", "--mirror", "ftp://x", "--yes"], &["ftp://x", "http", "hint: try --mirror URL\n"]),
    ] {
        scratch.refused("harmonia", arguments, expected);
    }
    scratch.refused("harmonia-train", &["--dataset", "file.txt"], &["file.txt", "hint: try harmonia data convert\n"]);
    scratch.refused("harmonia-train", &["--normalise", "rows"], &["normalise", "row"]);
}

/// The library proposes options; below its message stands the flag of the command that was given.
#[test]
fn what_a_message_proposes_is_shown_as_a_flag() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("own")).unwrap();
    let convert = |nodes: &str, edges: &str, hint: &str| {
        scratch.write("own/nodes.csv", nodes);
        scratch.write("own/edges.csv", edges);
        let arguments = ["data", "convert", "own", "--format", "table", "--out", "s"];
        scratch.refused("harmonia", &arguments, &[&format!("\nhint: try {hint}\n")]);
    };
    let nodes = "x,label\n1,0\n2,1\n3,1\n";
    convert(nodes, "source,target,when\n0,1,7\n", "--relation when=VALUE or --column weight=when or --ignore when");
    convert(nodes, "source,target,src\n0,1,1\n", "--ignore NAME");
    convert(nodes, "sorce,target\n0,1\n", "--column source=sorce");
    convert(nodes, "source,tar get\n0,1\n", "--column target='tar get'");
    convert(nodes, "a,b\n0,1\n", "--column source=NAME");
    convert(nodes, "source,target,weight\n0,1,2\n1,0,2\n1,2,3\n2,1,3\n0,2,5\n", "--directed");
    convert("x,label\n1,0.5\n2,1.5\n3,1\n", "source,target\n0,1\n", "--regression");
    scratch.write("own/labels.csv", "id,label,when\n0,0,7\n1,1,7\n2,1,7\n");
    convert("x\n1\n2\n3\n", "source,target\n0,1\n", "--ignore NAME");

    std::fs::create_dir(scratch.path("sets")).unwrap();
    scratch.write("sets/A_A.txt", "1, 2\n");
    scratch.write("sets/B_A.txt", "1, 2\n");
    for (table, format, hint) in [
        ("structure,label\nCCO,1\n", "smiles", "--smiles-column NAME"),
        ("smiles,taste\nCCO,1\n", "smiles", "--label-column NAME"),
        ("smiles,label\nCCO,1.5\nCCN,2\n", "smiles", "--label-column NAME"),
        ("", "tudataset", "--name NAME"),
    ] {
        scratch.write("molecules.csv", table);
        let input = if format == "smiles" { "molecules.csv" } else { "sets" };
        let arguments = ["data", "convert", input, "--format", format, "--out", "s"];
        scratch.refused("harmonia", &arguments, &[&format!("hint: try {hint}\n")]);
    }

    // Whatever the command: all that read datasets know where they are.
    for (binary, arguments) in [
        ("harmonia-train", &["--dataset", "cora"][..]),
        ("harmonia", &["data", "fetch", "cora"]),
        ("harmonia", &["data", "list"]),
        ("harmonia", &["diagnose", "cora"]),
    ] {
        let mut command = scratch.command(binary, arguments);
        for variable in ["HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"] {
            command.env_remove(variable);
        }
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("set data.dir = DIR") && message.ends_with("hint: try --data-dir DIR\n"), "{message}");
    }
}

#[test]
fn tables_become_a_store_with_names_and_train() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("mine")).unwrap();
    let mut nodes = "id,age,income,colour,label,split\n".to_string();
    let mut edges = "source,target,weight\n".to_string();
    for i in 0..60 {
        let (label, part) = (["left", "right"][i % 2], ["train", "valid", "test"][i % 3]);
        let colour = ["red", "blue"][i % 2];
        nodes += &format!("person {i},{},{}.5,{colour},{label},{part}\n", i % 7, i);
        edges += &format!("person {i},person {},{}\n", (i + 2) % 60, 1 + i % 3);
    }
    scratch.write("mine/nodes.csv", &nodes);
    scratch.write("mine/edges.csv", &edges);
    let text = scratch.harmonia_ok(&["data", "convert", "mine", "--format", "table", "--out", "store"]);
    assert!(text.contains("60 nodes") && text.contains("2 classes"), "{text}");
    let text = scratch.harmonia_ok(&["data", "info", "store"]);
    for part in
        ["age", "income", "colour=red", "left", "right", "undirected", "weighted", "train 20, validation 20, test 20"]
    {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    assert_eq!(std::fs::read_to_string(scratch.path("store/node_names.txt")).unwrap().lines().nth(7), Some("person 7"));
    let train = ["--dataset", "store", "--normalise", "standardise", "--epochs", "80", "--json", "--out", "run"];
    let more = ["--set", "train.learning_rate=2e-2"];
    let json: Value = serde_json::from_str(&scratch.train_ok(&[&train[..], &more[..]].concat())).unwrap();
    assert!(json["test"]["accuracy"]["mean"].as_f64().unwrap() > 0.9, "colour is the label: {}", json["test"]);
    let model = harmonia::FittedModel::load(&scratch.path("run/best.safetensors")).unwrap();
    let Some(harmonia::dataset::Scaling::Columns { mean, .. }) = &model.scaling else { panic!("no scaling") };
    // Training nodes are 0, 3, ..., 57: income is 28.5 + 0.5 on average.
    assert!((mean[1] - 29.0).abs() < 1e-3, "{mean:?}");
    // The model takes features in their own units.
    let dataset = harmonia::store::read(&scratch.path("store")).unwrap();
    let classes = model.predict(&dataset).unwrap();
    let right = (0..60).filter(|&i| classes[i] as usize == i % 2).count();
    assert!(right > 54, "{right} of 60");
    // A bad row is named by file and line.
    scratch.write("mine/edges.csv", edges.replace("person 5,person 7,", "person 5,person seven,"));
    let convert = ["data", "convert", "mine", "--format", "table", "--out", "again"];
    scratch.refused("harmonia", &convert, &["edges.csv", "line 7", "person seven"]);
}

#[test]
fn a_molecule_that_cannot_be_read_is_reported_by_its_line() {
    let scratch = Scratch::new();
    let mut table = "smiles,activity\n".to_string();
    for i in 0..20 {
        table += &format!("{},{}\n", ["CCO", "c1ccccc1", "CC(=O)O", "CCN"][i % 4], i % 2);
    }
    scratch.write("molecules.csv", table.replacen("CC(=O)O,0", "C1CC,0", 1));
    let convert = ["data", "convert", "molecules.csv", "--format", "smiles", "--out", "store"];
    let output = scratch.run("harmonia", &convert);
    stdout_of(&output, &convert);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("left out, molecules.csv: line 4: `C1CC`"), "{message}");
    let info: Value = serde_json::from_str(&scratch.harmonia_ok(&["data", "info", "store", "--json"])).unwrap();
    assert_eq!(info["statistics"]["graphs"], 19);
}

/// Four processes ask for the same dataset: one converts, all train, and nothing but raw files and store is left.
#[test]
fn processes_that_convert_the_same_dataset_do_not_disturb_each_other() {
    let scratch = Scratch::new();
    if !scratch.copy_data("PROTEINS") {
        return;
    }
    let children: Vec<_> = (0..4)
        .map(|i| {
            let out = format!("run-{i}");
            let arguments =
                ["--dataset", "proteins", "--data-dir", "data", "--epochs", "1", "--offline", "--out", &out];
            scratch.command("harmonia-train", &arguments).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut conversions = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{message}");
        conversions += usize::from(message.contains("converting"));
    }
    assert_eq!(conversions, 1);
    let mut left: Vec<_> =
        std::fs::read_dir(scratch.path("data/PROTEINS")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["raw", "store"]);
    scratch.harmonia_ok(&["data", "info", "proteins", "--data-dir", "data", "--verify"]);
}

#[test]
fn raw_files_that_change_are_converted_anew() {
    let scratch = Scratch::new();
    if !scratch.copy_data("MUTAG") {
        return;
    }
    let info = || scratch.run("harmonia", &["data", "info", "mutag", "--data-dir", "data", "--json", "--offline"]);
    let converted = |output: &std::process::Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).contains("converting")
    };
    assert!(converted(&info()));
    assert!(!converted(&info()));
    // The same bytes at another time may be other bytes.
    let zip = scratch.path("data/MUTAG/raw/MUTAG.zip");
    let later = std::time::SystemTime::now() + Duration::from_secs(100);
    std::fs::File::options().append(true).open(&zip).unwrap().set_modified(later).unwrap();
    assert!(converted(&info()));
    assert!(!converted(&info()));
    // Without raw files the store serves.
    std::fs::remove_file(&zip).unwrap();
    assert!(!converted(&info()));
    // A damaged one says what to do.
    std::fs::write(scratch.path("data/MUTAG/store/col_idx.npy"), b"broken").unwrap();
    let output = scratch.train(&["--dataset", "mutag", "--data-dir", "data", "--offline"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("col_idx.npy") && message.contains("to have it made again"), "{message}");
}

/// A directory of the user's in the place of a conversion is never removed.
#[test]
fn only_what_this_program_converted_is_made_anew() {
    let scratch = Scratch::new();
    if !scratch.copy_data("MUTAG") {
        return;
    }
    let place = scratch.path("data/MUTAG/store");
    harmonia::store::write(&program::small_dataset(), &place).unwrap();
    let train = ["--dataset", "mutag", "--data-dir", "data", "--offline", "--epochs", "1"];
    scratch.refused(
        "harmonia-train",
        &train,
        &["data/MUTAG/store", "in the way", "hint: try --dataset data/MUTAG/store\n"],
    );
    assert_eq!(harmonia::store::read(&place).unwrap().name, "ring");
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("thesis.txt"), "precious").unwrap();
    scratch.refused("harmonia-train", &train, &["data/MUTAG/store", "in the way"]);
    assert_eq!(std::fs::read(place.join("thesis.txt")).unwrap(), b"precious");
}

/// What was done to the features goes with the model.
#[test]
fn a_model_of_normalised_rows_takes_rows_as_they_are() {
    let scratch = Scratch::new();
    harmonia::store::write(&program::small_dataset(), &scratch.path("ring")).unwrap();
    scratch.train_ok(&["--dataset", "ring", "--normalise", "row", "--epochs", "3", "--out", "run"]);
    let model = harmonia::FittedModel::load(&scratch.path("run/best.safetensors")).unwrap();
    let dataset = harmonia::store::read(&scratch.path("ring")).unwrap();
    let (scaled, _) = harmonia::dataset::Normalise::Row.apply(&dataset).unwrap();
    let normalised = harmonia::dataset::Dataset { features: Arc::new(scaled), ..dataset.clone() };
    let unscaled = harmonia::FittedModel { scaling: None, ..model.clone() };
    assert_eq!(model.logits(&dataset).unwrap(), unscaled.logits(&normalised).unwrap());
}

fn wait_for(what: &str, ready: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ready() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn generated_data_have_the_sizes_that_were_asked_for() {
    let scratch = Scratch::new();
    let sizes = ["--nodes", "300", "--edges", "900", "--features", "5", "--classes", "3", "--split", "90/40/50"];
    scratch.harmonia_ok(&[&["data", "generate", "--like", "cora", "--out", "s"], &sizes[..]].concat());
    let info = scratch.harmonia_ok(&["data", "info", "s", "--json"]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    let found = &info["statistics"];
    assert_eq!((&found["nodes"], &found["features"]), (&300.into(), &5.into()));
    assert_eq!((found["classes"].as_array().unwrap().len(), &info["edge_rows"]), (3, &900.into()));
    assert_eq!(found["splits"], serde_json::json!([[90, 40, 50]]));
}

fn hidden(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with('.')).collect()
}

/// Ctrl-C removes what was written; kill -9 cannot, but leaves nothing that looks like a store, and the next conversion
/// removes it.
#[test]
fn an_interrupted_conversion_leaves_nothing_that_looks_like_a_store() {
    let scratch = Scratch::new();
    let arguments = ["data", "generate", "--like", "ogbn-products", "--scale", "0.3", "--out", "store"];
    let started = || {
        let child = scratch.command("harmonia", &arguments).stderr(std::process::Stdio::piped()).spawn().unwrap();
        wait_for("a temporary directory", || !hidden(&scratch.path("")).is_empty());
        child
    };
    let child = started();
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    // It may have been done in the last moment.
    if output.status.code() != Some(0) {
        assert_eq!(output.status.code(), Some(130), "{message}");
        assert!(message.contains("interrupted"), "{message}");
        assert!(scratch.entries().is_empty(), "{:?}", scratch.entries());
    } else {
        std::fs::remove_dir_all(scratch.path("store")).unwrap();
    }

    let mut child = started();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!scratch.path("store").exists());
    let litter = hidden(&scratch.path(""));
    assert_eq!(litter.len(), 1, "{litter:?}");
    scratch.refused("harmonia-train", &["--dataset", &litter[0]], &["not a store"]);
    let smaller = ["data", "generate", "--like", "cora", "--scale", "0.1", "--out", "store"];
    scratch.harmonia_ok(&smaller);
    assert_eq!(scratch.entries(), ["store"], "what the killed process left is gone");
}

#[test]
fn a_column_to_ignore_that_no_table_has_is_refused() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("mine")).unwrap();
    scratch.write("mine/nodes.csv", "id,age,income,label\na,1,5,0\nb,2,6,1\n");
    scratch.write("mine/edges.csv", "source,target,when\na,b,1999\n");
    let convert = |ignored: &'static str| {
        ["data", "convert", "mine", "--format", "table", "--out", "store", "--ignore", "when", "--ignore", ignored]
    };
    scratch.refused("harmonia", &convert("incme"), &["mine", "column `incme`", "did you mean `income`?"]);
    assert!(scratch.harmonia_ok(&convert("income")).contains("1 features"));
}
