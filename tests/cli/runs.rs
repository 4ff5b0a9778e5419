//! Runs as a user lives with them: listed, compared, named, removed.

use super::program::{Scratch, small_dataset};
use super::quick;
use serde_json::Value;
use std::path::Path;

fn list(scratch: &Scratch, more: &[&str]) -> Value {
    serde_json::from_str(&scratch.harmonia_ok(&[&["runs", "list", "--json"], more].concat())).unwrap()
}

fn mean(value: &Value) -> f64 {
    value["mean"].as_f64().unwrap()
}

#[test]
fn runs_are_listed_with_what_came_of_them() {
    let scratch = Scratch::new();
    assert!(scratch.harmonia_ok(&["runs", "list"]).contains("no runs in runs"));
    assert_eq!(list(&scratch, &[])["runs"], serde_json::json!([]));
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    scratch.train_ok(&quick(&["--dataset", "ring", "--name", "first try"]));
    let trained = scratch.train_ok(&quick(&["--dataset", "ring", "--seeds", "2", "--json"]));
    let trained: Value = serde_json::from_str(&trained).unwrap();
    // One that was begun and killed before its first epoch, one that is damaged, and what is no run.
    std::fs::create_dir(scratch.path("runs/ring-2")).unwrap();
    std::fs::copy(scratch.path("runs/ring-1/config.toml"), scratch.path("runs/ring-2/config.toml")).unwrap();
    std::fs::create_dir(scratch.path("runs/broken")).unwrap();
    scratch.write("runs/broken/config.toml", "[package]\nname = \"mine\"\n");
    std::fs::create_dir(scratch.path("runs/notes")).unwrap();

    let listed = list(&scratch, &[]);
    let runs = listed["runs"].as_array().unwrap();
    let directories: Vec<&str> = runs.iter().map(|run| run["run_dir"].as_str().unwrap()).collect();
    assert_eq!(directories, ["runs/first_try-1", "runs/ring-1", "runs/ring-2"]);
    assert_eq!((&runs[0]["name"], &runs[0]["dataset"]), (&"first try".into(), &"ring".into()));
    let states: Vec<&str> = runs.iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["finished", "finished", "unfinished"]);
    assert_eq!((&runs[1]["seeds"], &runs[1]["folds"], &runs[1]["most_epochs"]), (&2.into(), &0.into(), &2.into()));
    let epochs: Vec<&Value> = runs[1]["runs"].as_array().unwrap().iter().map(|run| &run["epochs"]).collect();
    assert_eq!(epochs, [&Value::from(2), &2.into()]);
    for part in ["test", "validation"] {
        for score in ["accuracy", "nll"] {
            assert_eq!(mean(&runs[1][part][score]), mean(&trained[part][score]), "{part} {score}");
        }
    }
    let changed = runs[0]["changed"].as_str().unwrap();
    assert!(changed.starts_with("20") && changed.ends_with('Z') && changed.len() == 20, "{changed}");
    assert_eq!(listed["damaged"][0]["run_dir"], "runs/broken");

    let output = scratch.run("harmonia", &["runs", "list"]);
    let (text, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    for (line, parts) in lines.iter().zip([
        &["run", "name", "dataset", "state", "epochs", "test", "validation"][..],
        &["runs/first_try-1", "first try", "ring", "finished", "accuracy", " %"],
        &["runs/ring-1", "2 seeds", "finished", " ± "],
        &["runs/ring-2", "0 of 2 seeds", "unfinished", "0 of 2"],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "not all of {parts:?} in {line:?}");
    }
    assert!(said.contains("runs/broken is left out"), "{said}");
    // A run, a directory of runs elsewhere, and what is not there.
    assert_eq!(list(&scratch, &["runs/ring-1"])["runs"].as_array().unwrap().len(), 1);
    scratch.refused("harmonia", &["runs", "list", "elsewhere"], &["elsewhere"]);
}

#[test]
fn a_name_names_the_directory_and_bad_ones_are_refused() {
    let scratch = Scratch::new();
    for (name, expected) in [("", "--name is empty"), (" ", "--name is empty"), ("a\nb", "run.name")] {
        scratch.refused("harmonia-train", &quick(&["--name", name]), &[expected]);
    }
    scratch.refused("harmonia-train", &quick(&["--name", &"x".repeat(81)]), &["run.name", "80 characters"]);
    scratch.refused("harmonia-train", &["--resume", "r", "--name", "x"], &["--resume", "--name"]);
    for number in 1..3 {
        let text = scratch.train_ok(&quick(&["--name", "../up"]));
        assert!(text.contains(&format!("runs/_up-{number}\n")), "{text}");
    }
    scratch.train_ok(&quick(&["--name", "mine", "--out", "r"]));
    assert_eq!(list(&scratch, &["r"])["runs"][0]["name"], "mine");
    assert_eq!(scratch.entries(), ["r", "runs"]);
}

#[test]
fn settings_that_differ_stand_side_by_side() {
    let scratch = Scratch::new();
    scratch.train_ok(&quick(&["--out", "a"]));
    scratch.train_ok(&quick(&["--out", "b", "--set", "train.learning_rate=0.25", "--set", "model.hidden=[4, 4]"]));
    let json: Value = serde_json::from_str(&scratch.harmonia_ok(&["runs", "compare", "a", "b", "--json"])).unwrap();
    let settings = json["settings"].as_object().unwrap();
    assert_eq!(settings.keys().collect::<Vec<_>>(), ["model.hidden", "train.learning_rate"]);
    assert_eq!(settings["model.hidden"], serde_json::json!(["[4]", "[4, 4]"]));
    let summary: Value = serde_json::from_slice(&std::fs::read(scratch.path("b/summary.json")).unwrap()).unwrap();
    assert_eq!(json["runs"][1]["test"]["nll"]["mean"], summary["test"]["nll"]);
    let text = scratch.harmonia_ok(&["runs", "compare", "a", "b"]);
    assert_eq!(json["runs"][1]["constant"]["nll"]["mean"], summary["baselines"][0]["test"]["nll"]);
    for part in ["train.learning_rate", "0.25", "test accuracy", "of a constant", "validation NLL", "finished"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    assert!(!text.contains("train.epochs"), "{text}");
    let same = scratch.harmonia_ok(&["runs", "compare", "a", "a"]);
    assert!(same.contains("settings: all the same"), "{same}");
    scratch.refused("harmonia", &["runs", "compare", "a"], &["2 values"]);
    scratch.refused("harmonia", &["runs", "compare", "a", "nowhere"], &["nowhere"]);
}

#[test]
fn only_runs_that_nobody_writes_are_removed() {
    let scratch = Scratch::new();
    scratch.train_ok(&quick(&["--seeds", "2", "--out", "a"]));
    scratch.train_ok(&quick(&["--out", "b"]));
    std::fs::create_dir(scratch.path("precious")).unwrap();
    scratch.write("precious/thesis.txt", "precious");
    std::fs::create_dir(scratch.path("other")).unwrap();
    scratch.write("other/config.toml", "[package]\nname = \"mine\"\n");
    std::os::unix::fs::symlink(scratch.path("b"), scratch.path("link")).unwrap();
    let lock = harmonia_graph::lock::claim(&scratch.path("a/seed-1")).unwrap();
    for (arguments, expected) in [
        (&["b"][..], &["no terminal", "--yes"][..]),
        (&["precious", "--yes"], &["precious", "is not a run directory"]),
        (&["other", "--yes"], &["other", "may be no run"]),
        (&["nowhere", "--yes"], &["nowhere", "does not exist"]),
        (&["link", "--yes"], &["link", "is a link"]),
        (&["a/seed-0", "--yes"], &["a/seed-0", "one of the runs of"]),
        (&["b", "a", "--yes"], &["a/seed-1", "is being written by process"]),
        // None is removed where one is refused.
        (&["b", "precious", "--yes"], &["precious"]),
    ] {
        scratch.refused("harmonia", &[&["runs", "rm"], arguments].concat(), expected);
        assert!(has_model(&scratch.path("b")) && has_model(&scratch.path("a/seed-0")));
        assert!(!scratch.path("b/.harmonia-lock").exists());
    }
    drop(lock);
    scratch.write("a/seed-1/notes.md", "mine");
    scratch.refused("harmonia", &["runs", "rm", "a", "--yes"], &["seed-1/notes.md", "--all"]);
    assert!(scratch.path("a/seed-1/notes.md").exists());
    let text = scratch.harmonia_ok(&["runs", "rm", "b", "a", "--yes", "--all"]);
    assert!(text.contains("removed b (") && text.contains("removed a ("), "{text}");
    assert_eq!(scratch.entries(), ["link", "other", "precious"]);
}

fn has_model(run: &Path) -> bool {
    run.join("best.safetensors").is_file()
}

#[test]
fn a_report_of_an_unfinished_run_is_refused_before_its_data_are_read() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    scratch.train_ok(&quick(&["--dataset", "ring", "--seeds", "2", "--out", "r"]));
    std::fs::remove_file(scratch.path("r/seed-0/summary.json")).unwrap();
    std::fs::remove_file(scratch.path("r/seed-0/report.html")).unwrap();
    // Nothing that reads the data could say a word about anything else now.
    std::fs::remove_dir_all(scratch.path("ring")).unwrap();
    scratch.refused("harmonia", &["report", "r"], &["r/seed-0", "is not complete", "harmonia-train --resume r"]);
    assert!(!scratch.path("r/report.html").exists() && !scratch.path("r/seed-0/report.html").exists());
}
