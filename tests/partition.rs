//! Partitioned stores are ordinary stores: the same data under the same names, the same training, and bounds of their parts.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::dataset::{Dataset, Features, Labels, Level, UNLABELLED, UnitWeights};
use harmonia::graph::partition::{Metis, check_bounds, ranges};
use harmonia::graph::{Direction, Graph, Split};
use harmonia::store;
use program::Scratch;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Rows are summed in another order, and ten epochs of Adam carry the last bits along.
const SCORE_TOLERANCE: f64 = 1e-4;

/// Whether METIS is here, or a line that says why a test does less.
fn has_metis() -> bool {
    let opened = Metis::open();
    if let Err(error) = &opened {
        println!("skipped: libmetis: {error}");
    }
    opened.is_ok()
}

fn json(scratch: &Scratch, arguments: &[&str]) -> Value {
    let all: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&scratch.harmonia_ok(&all)).unwrap()
}

/// Two cliques of 12 nodes, whose numbers alternate, joined by one edge; everything a node can have.
fn cliques() -> Dataset {
    let mut edges: Vec<(u32, u32)> = vec![(0, 1)];
    for i in 0..12 {
        edges.extend((i + 1..12).flat_map(|j| [(2 * i, 2 * j), (2 * i + 1, 2 * j + 1)]));
    }
    let weights: Vec<f32> = (0..edges.len()).map(|at| 1.0 + at as f32).collect();
    let graph = Graph::from_edges(24, &edges, Some(&weights), Direction::Undirected).unwrap();
    let features = Features::new(24, 3, (0..72).map(|at| (at as f32).sin()).collect()).unwrap();
    let ids = (0..24).map(|node| if node == 23 { UNLABELLED } else { node % 3 }).collect();
    let split = Split { train: (0..10).collect(), valid: (10..16).collect(), test: (16..23).collect() };
    let labels = Labels::Classes { ids, classes: 3 };
    let mut dataset = Dataset::nodes("cliques", graph, features, labels, split).unwrap();
    dataset.node_names = (0..24).map(|node| format!("n{node}")).collect();
    let values = (0..24).map(|node| 1.0 + node as f32).collect();
    dataset.weights = Some(UnitWeights { column: "counts".into(), values });
    dataset
}

/// What there is to say of a node, in words that do not depend on where it stands.
fn told(dataset: &Dataset) -> BTreeMap<String, Vec<String>> {
    let mut row = vec![0.0; dataset.features.cols];
    let name = |node: usize| dataset.node_names[node].clone();
    (0..dataset.graph.nodes())
        .map(|node| {
            dataset.features.fill_row(node, &mut row);
            let Labels::Classes { ids, .. } = &dataset.labels else { panic!("classes") };
            let Split { train, valid, test } = &dataset.split;
            let parts = [train, valid, test].map(|ids| ids.contains(&(node as u32)));
            let mut told = vec![format!("{row:?} {} {parts:?} {}", ids[node], dataset.original_id(node))];
            told.extend(dataset.weights.iter().map(|weights| weights.values[node].to_string()));
            let mut edges: Vec<String> = dataset
                .graph
                .adjacency()
                .row_entries(node)
                .map(|(j, weight)| format!("{} {weight}", name(j)))
                .collect();
            edges.sort();
            told.extend(edges);
            (name(node), told)
        })
        .collect()
}

#[test]
fn two_cliques_are_found_and_everything_moves_along() {
    if !has_metis() {
        return;
    }
    let scratch = Scratch::new();
    let dataset = cliques();
    store::write(&dataset, &scratch.path("store")).unwrap();
    let found = json(&scratch, &["data", "partition", "store", "--parts", "2", "--method", "metis", "--out", "two"]);
    assert_eq!((&found["bounds"], &found["method"]), (&serde_json::json!([0, 12, 24]), &"metis".into()));
    // One edge, entered both ways.
    assert_eq!((&found["survey"]["cut"], &found["survey"]["parts"][1]["halo"]), (&2.into(), &1.into()));
    let two = store::read(&scratch.path("two")).unwrap();
    assert_eq!(two.parts.as_deref(), Some(&[0usize, 12, 24][..]));
    assert_eq!((told(&two), two.node_order.as_ref().unwrap().method.as_str()), (told(&dataset), "metis"));
    let side = |nodes: std::ops::Range<usize>| nodes.map(|node| two.original_id(node) % 2).collect::<BTreeSet<_>>();
    assert!(side(0..12).len() == 1 && side(12..24).len() == 1 && side(0..24).len() == 2);
    assert_eq!(scratch.entries(), ["store", "two"], "nothing else is left");

    // A partition of a partition leads back to the same source; ranges on top keep the order.
    scratch.harmonia_ok(&["data", "partition", "two", "--parts", "3", "--method", "metis", "--out", "again"]);
    assert_eq!(told(&store::read(&scratch.path("again")).unwrap()), told(&dataset));
    scratch.harmonia_ok(&["data", "partition", "two", "--parts", "5", "--out", "five"]);
    let five = store::read(&scratch.path("five")).unwrap();
    assert_eq!((told(&five), &five.node_order), (told(&dataset), &two.node_order));
    assert_eq!(five.parts.unwrap()[..], ranges(&five.graph.adjacency().row_ptr, 5));

    let verified = scratch.harmonia_ok(&["data", "info", "two", "--verify"]);
    for part in [
        "parts             2",
        "edge cut 2 of 266 entries (0.75 %)",
        "balance 1.000",
        "halo",
        "order of nodes    metis",
    ] {
        assert!(verified.contains(part), "no {part:?} in:\n{verified}");
    }
    let info = json(&scratch, &["data", "info", "two"]);
    assert_eq!((&info["parts"], &info["survey"]), (&found["bounds"], &found["survey"]));
    let info = json(&scratch, &["data", "info", "store"]);
    assert!(info["parts"].is_null() && info["survey"].is_null());
    assert!(!scratch.harmonia_ok(&["data", "info", "store"]).contains("halo"));
    // Written again from memory, it keeps its parts.
    store::write(&two, &scratch.path("kept")).unwrap();
    assert_eq!(store::read(&scratch.path("kept")).unwrap().parts, two.parts);
}

#[test]
fn ranges_keep_every_file_and_add_bounds() {
    let scratch = Scratch::new();
    store::write(&cliques(), &scratch.path("store")).unwrap();
    let text = scratch.harmonia_ok(&["data", "partition", "store", "--parts", "4", "--out", "four"]);
    assert!(text.contains("edge cut") && text.contains("part") && text.contains("halo"), "{text}");
    let meta = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(scratch.path(name).join("meta.json")).unwrap()).unwrap()
    };
    let (before, mut after) = (meta("store"), meta("four"));
    // A program that knows nothing of parts says so by the version.
    assert_eq!((&before["version"], &after["version"]), (&4.into(), &5.into()));
    let bounds = after.as_object_mut().unwrap().remove("parts").unwrap();
    after["version"] = before["version"].clone();
    assert_eq!(after, before, "checksums, names and counts are the same");
    let dataset = store::read(&scratch.path("four")).unwrap();
    assert_eq!(serde_json::json!(dataset.parts.as_deref()), bounds);
    check_bounds(dataset.parts.as_deref().unwrap(), 24).unwrap();
    for entry in std::fs::read_dir(scratch.path("store")).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_name() != "meta.json" {
            let same = std::fs::read(entry.path()).unwrap()
                == std::fs::read(scratch.path("four").join(entry.file_name())).unwrap();
            assert!(same, "{:?}", entry.file_name());
        }
    }
    // Bounds that do not fit are refused by whoever opens the store.
    for wrong in ["[0, 24, 24]", "[0, 7]", "[1, 24]", "[]", "[24, 0]"] {
        let mut damaged = meta("four");
        damaged["parts"] = serde_json::from_str(wrong).unwrap();
        scratch.write("four/meta.json", damaged.to_string());
        scratch.refused(
            "harmonia",
            &["data", "info", "four"],
            &["meta.json", "\"parts\"", "rise from 0 to the 24 nodes"],
        );
    }
}

#[test]
fn a_partitioned_store_trains_and_explains_the_same() {
    let scratch = Scratch::new();
    let made = "data generate --like ogbn-products --nodes 400 --edges 3000 --features 8 --classes 3 --split 200/100/100 --out made";
    scratch.harmonia_ok(&made.split(' ').collect::<Vec<_>>());
    let mut dataset = store::read(&scratch.path("made")).unwrap();
    dataset.node_names = (0..dataset.graph.nodes()).map(|node| format!("paper {node}")).collect();
    store::write(&dataset, &scratch.path("plain")).unwrap();
    let trained = |name: &str| -> Value {
        let run = format!("run-{name}");
        let quick =
            ["--epochs", "10", "--recipe", "paper", "--set", "model.hidden=[4]", "--set", "init.readout_scale=1"];
        let train = [&quick[..], &["--dataset", name, "--out", &run, "--json"]].concat();
        serde_json::from_str(&scratch.train_ok(&train)).unwrap()
    };
    let expected = trained("plain");
    let explained = |name: &str, node: &str| {
        let found = json(
            &scratch,
            &["explain", &format!("run-{name}"), "--node", node, "--by", "feature,node,hop", "--top", "0"],
        );
        let terms: BTreeMap<String, f64> = (found["contributions"].as_array().unwrap().iter())
            .map(|term| {
                let name = |key: &str| term[key].to_string();
                (format!("{} {} {}", name("feature"), name("node"), name("hop")), term["value"].as_f64().unwrap())
            })
            .collect();
        (found["name"].clone(), found["predicted"].clone(), found["logit"].as_f64().unwrap(), terms)
    };
    let methods = if has_metis() { &["ranges", "metis"][..] } else { &["ranges"] };
    for method in methods {
        scratch.harmonia_ok(&["data", "partition", "plain", "--parts", "4", "--method", method, "--out", method]);
        let found = trained(method);
        for part in ["validation", "test"] {
            // One node of 100 may stand where two classes are as likely.
            for (score, tolerance) in [("nll", SCORE_TOLERANCE), ("accuracy", 0.01)] {
                let [value, other] = [&expected, &found].map(|run| run[part][score]["mean"].as_f64().unwrap());
                assert!((value - other).abs() <= tolerance, "{method}: {part} {score} {other}, {value}");
            }
        }
        for node in ["paper 5", "paper 399"] {
            let (one, other) = (explained("plain", node), explained(method, node));
            assert_eq!((&one.0, &one.1), (&other.0, &other.1), "{method}");
            assert_eq!(one.0, node);
            assert!(
                (one.2 - other.2).abs() <= SCORE_TOLERANCE * one.2.abs().max(1.0),
                "{method}: {} {}",
                one.2,
                other.2
            );
            assert!(one.3.keys().eq(other.3.keys()), "{method}: {:?}", one.3.keys().next());
            let off = one.3.iter().map(|(key, value)| (value - other.3[key]).abs()).fold(0.0, f64::max);
            assert!(off <= SCORE_TOLERANCE, "{method}: {off}");
        }
    }
}

#[test]
fn what_cannot_be_divided_is_refused_and_leaves_nothing() {
    let scratch = Scratch::new();
    store::write(&cliques(), &scratch.path("store")).unwrap();
    let mut pairs = cliques();
    pairs.graph = Graph::from_edges(24, &[(0, 1), (12, 13)], None, Direction::Undirected).unwrap();
    (pairs.graph_ptr, pairs.name) = (vec![0, 12, 24], "pairs".into());
    store::write(&pairs, &scratch.path("pairs")).unwrap();
    let graphs = Dataset::new(
        "graphs",
        pairs.graph.clone(),
        vec![0, 12, 24],
        (*pairs.features).clone(),
        Labels::Classes { ids: vec![0, 1], classes: 2 },
        Level::Graph,
        Split { train: vec![0, 1], valid: vec![], test: vec![] },
    );
    store::write(&graphs.unwrap(), &scratch.path("graphs")).unwrap();
    let partition = |store: &str, more: &[&str], expected: &[&str]| {
        let arguments = [&["data", "partition", store, "--out", "parts"], more].concat();
        scratch.refused("harmonia", &arguments, expected);
    };
    partition("store", &["--parts", "0"], &["--parts 0", "expected 1 to 24"]);
    partition("store", &["--parts", "25"], &["--parts 25", "expected 1 to 24"]);
    partition("store", &["--parts", "-1"], &["--parts"]);
    partition("store", &[], &["--parts"]);
    partition("store", &["--parts", "2", "--method", "metiss"], &["metiss", "ranges", "metis"]);
    partition("stor", &["--parts", "2"], &["there is no store and no dataset `stor`"]);
    for several in ["pairs", "graphs"] {
        partition(several, &["--parts", "2", "--method", "metis"], &[several, "2 graphs", "need no partition"]);
    }
    scratch.refused(
        "harmonia",
        &["data", "partition", "store", "--parts", "2", "--out", "pairs"],
        &["pairs", "already exists"],
    );
    scratch.refused("harmonia", &["data", "partition", "store", "--parts", "2"], &["--out"]);
    scratch.harmonia_ok(&["data", "partition", "pairs", "--parts", "2", "--out", "shared"]);

    // No library, and a library that is another one.
    let other = scratch.write("libother.so", "no library at all");
    for library in ["/there/is/no/libmetis.so", other.to_str().unwrap(), "libc.so.6"] {
        let arguments = ["data", "partition", "store", "--parts", "2", "--method", "metis", "--out", "parts"];
        let output = scratch.command("harmonia", &arguments).env("HARMONIA_METIS", library).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("METIS") && !scratch.path("parts").exists(), "{message}");
        if library != "libc.so.6" {
            for part in ["libmetis5", "HARMONIA_METIS", "hint: try --method ranges\n"] {
                assert!(message.contains(part), "no {part:?} in: {message}");
            }
        }
    }

    // A file that is no longer what its store was made with.
    let labels = scratch.path("store/labels.npy");
    let mut bytes = std::fs::read(&labels).unwrap();
    let last = bytes.len() - 8;
    bytes[last] ^= 1;
    std::fs::write(&labels, bytes).unwrap();
    partition("store", &["--parts", "2"], &["labels.npy", "has changed"]);
}

/// Ctrl-C ends METIS too, and leaves nothing.
#[test]
fn an_interrupted_partition_leaves_nothing() {
    let scratch = Scratch::new();
    scratch.harmonia_ok(&["data", "generate", "--like", "ogbn-products", "--scale", "0.05", "--out", "store"]);
    let hidden = || {
        let entries = scratch.entries();
        entries.into_iter().filter(|name| name.starts_with('.')).collect::<Vec<_>>()
    };
    for method in if has_metis() { &["ranges", "metis"][..] } else { &["ranges"] } {
        let arguments = ["data", "partition", "store", "--parts", "8", "--method", method, "--out", "parts"];
        let child = scratch.command("harmonia", &arguments).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let start = Instant::now();
        while hidden().is_empty() && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        // It may have been done in the last moment.
        if output.status.code() == Some(0) {
            std::fs::remove_dir_all(scratch.path("parts")).unwrap();
        } else {
            assert_eq!(output.status.code(), Some(130), "{message}");
            assert!(message.contains("interrupted"), "{message}");
        }
        assert_eq!(scratch.entries(), ["store"], "{method}");
    }
}
