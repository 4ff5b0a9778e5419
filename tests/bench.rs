//! `harmonia bench` as a user meets it, on graphs that take no time: its JSON, its picture, peers that are well, sick
//! and wrong, a stop request, bad input. No test looks at how long anything took.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use program::{Scratch, stdout_of};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// Shares are quotients of times whose parts add up exactly: only rounding is left.
const SHARES: f64 = 1e-9;
/// Columns of a terminal that tables must fit.
const COLUMNS: usize = 120;
const QUICK: [&str; 8] = ["bench", "--epochs", "2", "--warmup", "1", "--work", "made", "--json"];

fn quick(scratch: &Scratch, more: &[&str]) -> Output {
    scratch.run("harmonia", &[&QUICK[..], more].concat())
}

fn quick_json(scratch: &Scratch, more: &[&str]) -> Value {
    serde_json::from_str(&stdout_of(&quick(scratch, more), more)).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().filter(|number| number.is_finite()).unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn a_case_has_all_its_numbers_and_the_graph_is_made_once() {
    let scratch = Scratch::new();
    let report = quick_json(&scratch, &["--case", "tiny", "--threads", "2"]);
    let case = &report["cases"][0];
    for key in [
        "seconds",
        "peak_bytes",
        "anonymous_bytes",
        "bytes",
        "compulsory_bytes",
        "copy_bandwidth",
        "bytes_per_second",
        "share_of_copy",
        "bound_seconds",
        "time_over_bound",
        "compulsory_bound_seconds",
        "time_over_compulsory_bound",
    ] {
        // Only Linux tells how much memory a process has.
        if cfg!(target_os = "linux") || !key.ends_with("s_bytes") && key != "peak_bytes" {
            assert!(number(&case[key]) > 0.0, "{key}: {case}");
        }
    }
    assert_eq!((&case["case"], &case["nodes"], &case["threads"]), (&"tiny".into(), &2000.into(), &2.into()));
    assert_eq!(case["all_seconds"].as_array().unwrap().len(), 2);
    assert!(number(&case["compulsory_bytes"]) <= number(&case["bytes"]));
    let product = number(&case["share_of_copy"]) * number(&case["time_over_bound"]);
    assert!((product - 1.0).abs() < SHARES, "a share and a ratio of the same two numbers: {product}");

    let ops = case["ops"].as_array().unwrap();
    let share: f64 = ops.iter().map(|op| number(&op["share"])).sum();
    assert!((share - 1.0).abs() < SHARES, "{share}");
    let moved: f64 = ops.iter().map(|op| number(&op["bytes"])).sum();
    assert!((moved / number(&case["bytes"]) - 1.0).abs() < SHARES, "every op that is counted ran: {moved}");
    for op in ["route_forward", "loss", "knots_backward", "adam", "other"] {
        assert!(ops.iter().any(|found| found["op"] == op), "{op}: {ops:?}");
    }

    let meta = std::fs::read_dir(scratch.path("made")).unwrap().next().unwrap().unwrap().path().join("meta.json");
    let written = std::fs::metadata(&meta).unwrap().modified().unwrap();
    let direct = quick_json(&scratch, &["--case", "tiny", "--set", "engine.monb=direct"]);
    assert_eq!(std::fs::metadata(&meta).unwrap().modified().unwrap(), written);
    assert_eq!(direct["cases"][0]["plan"].as_str().unwrap().split(' ').next(), Some("direct"));
}

#[test]
fn tables_fit_a_terminal_and_say_how_to_get_peers() {
    let scratch = Scratch::new();
    let text = scratch.harmonia_ok(&["bench", "--case", "tiny", "--epochs", "1", "--warmup", "0", "--work", "made"]);
    // Not the name of an op: one that is interrupted makes all others too small for a line of their own.
    for part in ["time/bound", "compulsory", "share", "tiny", "2,000", "--peers PYTHON"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= COLUMNS, "{longest} columns:\n{text}");
}

#[test]
fn trainings_by_walking_and_from_a_table_are_timed_until_they_are_good() {
    let scratch = Scratch::new();
    let report = quick_json(&scratch, &["--case", "tiny-to-accuracy"]);
    let ways = report["time_to_accuracy"]["ways"].as_array().unwrap();
    let names: Vec<&str> = ways.iter().map(|way| way["way"].as_str().unwrap()).collect();
    assert_eq!(names, ["whole graph", "table, made first", "table, there"]);
    assert!(
        ways.iter().any(|way| way["seconds_to_accuracy"].as_f64().is_some_and(|seconds| seconds > 0.0)),
        "{report}"
    );
    assert_eq!(ways[0]["curve"]["table_bytes"], 0);
    // A table that is made first and one that is there train the same model.
    assert_eq!(ways[1]["curve"]["test"], ways[2]["curve"]["test"]);
    assert!(ways[1]["curve"]["table_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn growth_is_measured_fitted_and_drawn() {
    let scratch = Scratch::new();
    let report = quick_json(&scratch, &["--case", "tiny-scaling", "--plot", "growth.svg"]);
    let series = report["scaling"].as_array().unwrap();
    let keys: Vec<&str> = series.iter().map(|series| series["against"].as_str().unwrap()).collect();
    assert_eq!(keys, ["graph", "edges", "hops", "features", "hidden"]);
    for series in series {
        let points = series["points"].as_array().unwrap();
        let places: Vec<f64> = points.iter().map(|point| number(&point["x"])).collect();
        assert!(places.len() == 4 && places.is_sorted_by(|a, b| a < b), "{places:?}");
        assert!(points.iter().all(|point| number(&point["walk_seconds"]) < number(&point["seconds"])), "{series}");
        number(&series["exponent"]);
        number(&series["walk_exponent"]);
    }
    let picture = std::fs::read_to_string(scratch.path("growth.svg")).unwrap();
    well_formed(&picture);
    assert_eq!(picture.matches("<circle").count(), 5 * 4 * 2, "one point per measurement");
    for part in ["directed edges", "walk lengths T", "seconds per epoch", "x^"] {
        assert!(picture.contains(part), "{part}");
    }
}

/// Tags are closed in the order they were opened, attributes are quoted, nothing is left over.
fn well_formed(text: &str) {
    let (mut open, mut rest) = (Vec::new(), text.trim());
    while let Some(start) = rest.find('<') {
        assert!(!open.is_empty() || rest[..start].trim().is_empty(), "text outside: {}", &rest[..start]);
        for (at, _) in rest[..start].match_indices('&') {
            let name = rest[at..start].split_once(';').unwrap_or_else(|| panic!("bare &: {}", &rest[at..start])).0;
            assert!(["&amp", "&lt", "&gt", "&quot"].contains(&name), "{name}");
        }
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else {
            let body = tag.trim_end_matches('/');
            assert!(body.matches('"').count() % 2 == 0 && !body.contains('<'), "{tag}");
            assert_eq!(body.matches("=\"").count() * 2, body.matches('"').count(), "{tag}");
            if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap());
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty() && text.starts_with("<svg"), "{open:?} {rest}");
}

/// A Python that is a shell script: says it has torch, then does as told with the arguments in `$*`.
#[cfg(unix)]
fn fake_python(scratch: &Scratch, then: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(scratch.path("scripts/peers")).unwrap();
    scratch.write("scripts/peers/torch_epoch.py", "");
    let path = scratch.write("python", format!("#!/bin/sh\nif [ \"$1\" = -c ]; then echo 9.9; exit; fi\n{then}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[cfg(unix)]
fn with_peers(scratch: &Scratch, python: &Path, more: &[&str]) -> Value {
    quick_json(scratch, &[&["--case", "tiny", "--peers", python.to_str().unwrap()], more].concat())
}

#[test]
#[cfg(unix)]
fn peers_are_asked_for_the_same_and_their_answers_are_told_whatever_they_are() {
    let scratch = Scratch::new();
    // A peer that finds another loss, and writes down what it was asked.
    let told = r#"echo "$*" > asked; echo '{"seconds": 2.5, "peak_rss_bytes": 1000, "loss": 99.0}'"#;
    let report = with_peers(&scratch, &fake_python(&scratch, told), &["--threads", "1"]);
    let (ours, peer) = (&report["cases"][0], &report["cases"][0]["peers"][0]);
    assert_eq!((&report["torch"], &peer["variant"]), (&"9.9".into(), &"routed".into()));
    assert_eq!(number(&peer["ratio"]), 2.5 / number(&ours["seconds"]));
    assert_eq!((&peer["same_loss"], &peer["peak_bytes"]), (&false.into(), &1000.into()));
    let asked = std::fs::read_to_string(scratch.path("asked")).unwrap();
    for part in [
        "--variant routed",
        "--no-noise",
        "--hidden 16,8",
        "--experts 4",
        "--active 2",
        "--bases 8",
        "--embedding 16",
        "--hops 4",
        "--threads 1",
        "--epochs 2",
        "--warmup 1",
    ] {
        assert!(asked.contains(part), "no {part:?} in {asked}");
    }

    // One that finds ours: the loss is that of the parameters it was handed.
    let loss = number(&ours["loss"]);
    let same = format!("echo '{{\"seconds\": 2.5, \"peak_rss_bytes\": 1000, \"loss\": {loss}}}'");
    let report = with_peers(&scratch, &fake_python(&scratch, &same), &[]);
    assert_eq!(report["cases"][0]["peers"][0]["same_loss"], true);

    // One that fails, one that is killed, and one that prints nonsense, are results like others; ours is there all the
    // same.
    for (then, expected) in [
        ("echo 'out of tensors' >&2; exit 3", "exit code 3: out of tensors"),
        ("kill -9 $$", "killed by signal 9"),
        ("echo nonsense", "printed no result"),
    ] {
        let report = with_peers(&scratch, &fake_python(&scratch, then), &["--slow"]);
        let peers = report["cases"][0]["peers"].as_array().unwrap();
        assert_eq!(peers.len(), 2, "--slow adds one");
        for peer in peers {
            assert!(peer["error"].as_str().unwrap().contains(expected), "{peer}");
            assert!(peer["seconds"].is_null() && peer["ratio"].is_null(), "{peer}");
        }
        assert!(number(&report["cases"][0]["seconds"]) > 0.0);
    }
}

#[test]
#[cfg(unix)]
fn a_stop_request_ends_peers_and_shows_what_there_is() {
    use std::io::{BufRead, BufReader};
    let scratch = Scratch::new();
    let python = fake_python(&scratch, "echo $$ > peer; exec sleep 600");
    let arguments = [&QUICK[..], &["--case", "tiny", "--peers", python.to_str().unwrap()]].concat();
    let mut command = scratch.command("harmonia", &arguments);
    let mut bench = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut messages = BufReader::new(bench.stderr.take().unwrap()).lines();
    assert!(messages.any(|line| line.unwrap().contains("routed in PyTorch")), "the peer was never started");
    // To the parent alone, as a job manager does.
    let signalled = std::process::Command::new("kill").args(["-TERM", &bench.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let output = bench.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(number(&report["cases"][0]["seconds"]) > 0.0, "what was measured is shown");
    if let Ok(peer) = std::fs::read_to_string(scratch.path("peer")) {
        let alive =
            std::process::Command::new("kill").args(["-0", peer.trim()]).stderr(Stdio::null()).status().unwrap();
        assert!(!alive.success(), "the peer still runs");
    }
}

#[test]
fn bad_input_is_refused_before_anything_is_measured() {
    let scratch = Scratch::new();
    scratch.refused("harmonia", &["bench", "--case", "cora,arxvi"], &["no such case", "`arxiv`", "products"]);
    scratch.refused("harmonia", &["bench", "--case", "tiny", "--set", "engine.monbb=knots"], &["`engine.monb`"]);
    scratch.refused("harmonia", &["bench", "--case", "tiny", "--set", "engine.monb=fast"], &["fast"]);
    scratch.refused("harmonia", &["bench", "--epochs", "0"], &["--epochs"]);
    std::fs::create_dir_all(scratch.path("scripts/peers")).unwrap();
    scratch.write("scripts/peers/torch_epoch.py", "");
    scratch.refused("harmonia", &["bench", "--case", "tiny", "--peers", "no-such-python"], &["no-such-python"]);
    scratch.refused("harmonia", &["bench", "--slow"], &["--peers"]);
    scratch.refused("harmonia", &["bench", "--case", "cora", "--offline"], &["cora"]);
}

#[test]
fn something_else_in_the_place_of_a_graph_is_left_alone() {
    let scratch = Scratch::new();
    quick_json(&scratch, &["--case", "tiny"]);
    let store = std::fs::read_dir(scratch.path("made")).unwrap().next().unwrap().unwrap().path();
    let meta = store.join("meta.json");
    let mut object: Value = serde_json::from_str(&std::fs::read_to_string(&meta).unwrap()).unwrap();
    object["generator"]["seed"] = 7.into();
    let changed = object.to_string();
    std::fs::write(&meta, &changed).unwrap();
    scratch.refused(
        "harmonia",
        &["bench", "--case", "tiny", "--work", "made"],
        &["not a store that harmonia bench made"],
    );
    assert_eq!(std::fs::read_to_string(&meta).unwrap(), changed);
}
