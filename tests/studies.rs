//! Every study at its smallest: it ends well, says what theory promises, writes its files, and goes on after a stop.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use program::Scratch;
use serde_json::Value;

/// Runs a study at its smallest and gives its results; no theorem may be broken, or the command fails.
fn smallest(name: &str) -> Value {
    let scratch = Scratch::new();
    let printed = scratch.harmonia_ok(&["study", name, "--smallest", "--out", "s", "--json", "--quiet"]);
    let results: Value = serde_json::from_str(&printed).unwrap();
    let written = std::fs::read_to_string(scratch.path("s/results.json")).unwrap();
    assert_eq!(results, serde_json::from_str::<Value>(&written).unwrap());
    let read = |file: &str| std::fs::read_to_string(scratch.path("s").join(file)).unwrap();
    assert!(read("results.md").contains('|') && read("results.csv").lines().count() > 1);
    assert!(read("index.html").ends_with("</html>\n"));
    for figure in results["figures"].as_array().unwrap() {
        assert!(read(&format!("{}.svg", figure["name"].as_str().unwrap())).ends_with("</svg>\n"));
    }
    for table in results["tables"].as_array().unwrap() {
        let columns = table["head"].as_array().unwrap().len();
        let rows = table["rows"].as_array().unwrap();
        assert!(!rows.is_empty() && rows.iter().all(|row| row.as_array().unwrap().len() == columns), "{table:#}");
    }
    let theorems = results["claims"].as_array().unwrap().iter().filter(|claim| claim["theorem"] == true);
    assert!(theorems.clone().all(|claim| claim["holds"] == true), "{:#}", results["claims"]);
    results
}

/// A cell, by words of its row and the name of its column.
fn cell<'a>(results: &'a Value, table: &str, row: &str, column: &str) -> &'a Value {
    let table = results["tables"].as_array().unwrap().iter().find(|one| one["name"] == table).unwrap();
    let at = table["head"].as_array().unwrap().iter().position(|name| name == column).unwrap();
    let found = table["rows"].as_array().unwrap().iter().find(|cells| cells[0] == row).unwrap();
    &found[at]
}

/// Its number.
fn value(results: &Value, table: &str, row: &str, column: &str) -> f64 {
    cell(results, table, row, column)["value"].as_f64().unwrap()
}

/// Whether a claim holds, by words of it.
fn holds(results: &Value, words: &str) -> bool {
    let claims = results["claims"].as_array().unwrap();
    let claim = claims.iter().find(|claim| claim["text"].as_str().unwrap().contains(words)).unwrap();
    claim["holds"].as_bool().unwrap()
}

/// Additive models of the tables.
const ADDITIVE: [&str; 6] = ["HARMONIA", "GNAN", "G-NAMRFF", "GP-NAM", "NAM", "NBM"];

#[test]
fn the_list_has_every_study() {
    let scratch = Scratch::new();
    let text = scratch.harmonia_ok(&["study", "list"]);
    let json: Value = serde_json::from_str(&scratch.harmonia_ok(&["study", "list", "--json"])).unwrap();
    let names: Vec<&str> =
        json["studies"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"parameters") && names.iter().all(|name| text.contains(name)), "{text}");
    scratch.refused("harmonia", &["study", "parametres"], &["parametres", "did you mean `parameters`"]);
    scratch.refused("harmonia", &["study", "parameters", "--quick", "--full"], &["--quick", "--full"]);
}

#[test]
fn parameters() {
    let results = smallest("parameters");
    // 4 experts of 240, 2 * 16 * 4 of the router, 10 * 75 of the features, 47.
    assert_eq!(value(&results, "parameters", "10", "HARMONIA"), f64::from(4 * 240 + 128 + 750 + 47));
}

#[test]
fn horizon() {
    let results = smallest("horizon");
    let horizon = |family: &str| value(&results, "horizon", family, "H(0.003)");
    assert!(horizon("complete") < horizon("ring"));
}

#[test]
fn recovery() {
    let results = smallest("recovery");
    // What a probe moves always shows.
    assert_eq!(value(&results, "features", "HARMONIA", "probe coverage"), 1.0);
    assert!(value(&results, "nodes", "HARMONIA", "Spearman") > 0.5);
    for claim in ["Precision@4 = 1", "NRMSE is below GNAN's", "NRMSE is below G-NAMRFF's"] {
        assert!(holds(&results, claim), "{claim}: {:#}", results["claims"]);
    }
    for model in ADDITIVE {
        assert!(value(&results, "features", model, "effective NRMSE") > 0.0, "{model}");
        assert!(value(&results, "nodes", model, "NDCG@4") > 0.0, "{model}");
    }
    // Who asks no neighbour has no edges, and sees itself alone.
    assert!(cell(&results, "edges", "NAM", "Spearman")["value"].is_null());
    assert_eq!(value(&results, "features", "NBM", "top hop"), 0.25);
    assert!(value(&results, "edges", "GNAN", "Spearman").abs() <= 1.0);
}

#[test]
fn a_python_without_torch_and_a_study_without_rows_of_it_are_refused() {
    let scratch = Scratch::new();
    scratch.refused("harmonia", &["study", "horizon", "--peers", "python3"], &["horizon", "recovery", "node-accuracy"]);
    let python = scratch.write("python", "#!/bin/sh\necho no module >&2\nexit 1\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&python, mode).unwrap();
    let python = python.to_str().unwrap();
    scratch.refused("harmonia", &["study", "recovery", "--peers", python], &["cannot run peers", "harmonia[peers]"]);
}

#[test]
fn normalisation() {
    let results = smallest("normalisation");
    assert!(value(&results, "normalisation", "hop L1", "simplex").is_finite());
    assert!(value(&results, "normalisation", "hop L1", "free").is_finite());
}

#[test]
fn responses() {
    let results = smallest("responses");
    for model in ADDITIVE {
        assert!(value(&results, "responses", "quartic", model) > 0.0, "{model}");
    }
}

#[test]
fn specialisation_and_capacity() {
    let results = smallest("specialisation");
    for model in ["global basis", "MoNB", "per feature"] {
        assert!(value(&results, "specialisation", "high", model) > 0.0, "{model}");
    }
    assert!(smallest("capacity")["records"].as_array().unwrap().len() == 2);
}

#[test]
fn routing() {
    let results = smallest("routing");
    assert!(value(&results, "routing", "high", "Gamma") > 0.0);
}

#[test]
fn accuracy_of_nodes_and_graphs() {
    for (study, dataset) in [("node-accuracy", "synthetic"), ("graph-accuracy", "mutag")] {
        let results = smallest(study);
        for model in ADDITIVE {
            assert!((0.0..=100.0).contains(&value(&results, "accuracy", model, dataset)), "{study} {model}");
        }
    }
}

#[test]
fn linear_and_dnn() {
    let results = smallest("linear-vs-dnn");
    for model in ["linear RRWP", "DNN RRWP"] {
        assert!((0.0..=100.0).contains(&value(&results, "linear-vs-dnn", model, "mutag")), "{model}");
    }
    // Whatever this machine has: 169,343 nodes make 28.7 thousand million pairs.
    assert!(holds(&results, "no room on ogbn-arxiv"), "{:#}", results["claims"]);
    assert_eq!(cell(&results, "linear-vs-dnn", "DNN RRWP", "ogbn-arxiv"), "no room");
}

#[test]
fn experts_map() {
    let results = smallest("experts-map");
    assert!(value(&results, "separation", "3", "variance on the plane") > 0.0);
    assert_eq!(results["figures"].as_array().unwrap().len(), 2);
}

#[test]
fn stability_and_removal() {
    assert!(value(&smallest("stability"), "stability", "synthetic", "mean Spearman") > -1.0);
    assert!(value(&smallest("removal"), "removal", "synthetic", "top").abs() < 1.0);
}

#[test]
fn hop_recovery() {
    let results = smallest("hop-recovery");
    assert_eq!(results["records"].as_array().unwrap().len(), 60);
}

#[test]
fn a_study_goes_on_where_it_was_and_refuses_another_ones_directory() {
    let scratch = Scratch::new();
    let study = ["study", "horizon", "--smallest", "--out", "s", "--json"];
    let first: Value = serde_json::from_str(&scratch.harmonia_ok(&study)).unwrap();
    let journal = std::fs::read_to_string(scratch.path("s/jobs.jsonl")).unwrap();
    // As a kill leaves it: one job is finished, the next cut off.
    let end = journal.match_indices('\n').nth(1).unwrap().0;
    std::fs::write(scratch.path("s/jobs.jsonl"), &journal[..end + 30]).unwrap();
    let output = scratch.run("harmonia", &study);
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 of them finished already"));
    let second: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&first["tables"], &first["records"]), (&second["tables"], &second["records"]));
    scratch.refused("harmonia", &["study", "parameters", "--smallest", "--out", "s"], &["jobs.jsonl", "name", "--out"]);
    scratch.refused("harmonia", &["study", "horizon", "--quick", "--out", "s"], &["jobs.jsonl", "size", "--out"]);
}

#[test]
fn a_study_is_done_in_parts() {
    let scratch = Scratch::new();
    let part = |words: &[&str]| {
        let mut command = vec!["study", "horizon", "--smallest", "--out", "s", "--json"];
        words.iter().for_each(|words| command.extend(["--only", words]));
        serde_json::from_str::<Value>(&scratch.harmonia_ok(&command)).unwrap()
    };
    let count = |results: &Value| results["records"].as_array().unwrap().len();
    let (ring, whole) = (part(&["ring", "12"]), smallest("horizon"));
    let horizon = |results: &Value| value(results, "horizon", "ring", "H(0.1)");
    assert_eq!((count(&ring), horizon(&ring)), (1, horizon(&whole)));
    // What is finished stays in the tables, and the rest joins it.
    assert_eq!(count(&part(&["complete"])), 2);
    assert_eq!(part(&[])["tables"], whole["tables"]);
    let unknown = ["study", "horizon", "--smallest", "--out", "s", "--only", "star"];
    scratch.refused("harmonia", &unknown, &["no job of horizon", "star", "ring"]);
}
