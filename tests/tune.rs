//! `harmonia tune` as a user meets it: what it finds can be trained with, it goes on after an interruption, and test
//! scores stay hidden until they are asked for.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use program::{Scratch, small_dataset};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

const SPACE: &str = "\"train.learning_rate\" = { low = 1e-3, high = 1e-1, log = true }\n\"model.hops\" = [1, 2, 3]\n";

/// A search of a second: nine settings on three folds of twelve nodes.
const SEARCH: [&str; 14] = [
    "tune",
    "--dataset",
    "ring",
    "--folds",
    "3",
    "--trials",
    "9",
    "--space",
    "space.toml",
    "--set",
    "model.hidden=[4]",
    "--set",
    "train.epochs=9",
    "--json",
];

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    scratch.write("space.toml", SPACE);
    scratch
}

fn search<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SEARCH.iter().chain(more).copied().collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Lines of a search without the time they took, in any order.
fn results(directory: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(directory.join("trials.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line = json(line);
        line["seconds"] = 0.into();
        line.to_string()
    };
    text.lines().map(line).collect()
}

/// What a search found, without times and places.
fn outcome(result: &Value) -> Value {
    let finalists = result["finalists"].as_array().unwrap().iter();
    let plain = finalists.map(|one| serde_json::json!([one["trial"], one["validation"], one["settings"]]));
    serde_json::json!([plain.collect::<Vec<_>>(), result["winners"], result["chosen"]])
}

#[test]
fn no_test_score_appears_unless_it_is_asked_for() {
    let scratch = scratch();
    // Losses far from each other: with the usual start all are close to ln 3, and alike in four decimals.
    let search =
        |more: &[&'static str]| search(&[&["--set", "init.readout_scale=1", "--recipe", "paper"], more].concat());
    let quiet = scratch.run("harmonia", &search(&["--out", "t"]));
    assert!(quiet.status.success(), "{}", String::from_utf8_lossy(&quiet.stderr));
    let people: Vec<&str> = search(&["--out", "t"]).into_iter().filter(|word| *word != "--json").collect();
    let people = scratch.run("harmonia", &people);
    let mut shown = String::new();
    for text in [&quiet.stdout, &quiet.stderr, &people.stdout, &people.stderr] {
        shown += &String::from_utf8_lossy(text);
    }
    for file in std::fs::read_dir(scratch.path("t")).unwrap() {
        shown += &std::fs::read_to_string(file.unwrap().path()).unwrap();
    }
    assert!(!shown.contains("\"test\"") && !shown.contains("nested_test"), "{shown}");
    assert!(!scratch.path("t/evaluation.jsonl").exists());

    // The same search goes on to the test scores; nothing else changes.
    let evaluated = json(&scratch.harmonia_ok(&search(&["--out", "t", "--evaluate"])));
    assert_eq!(outcome(&evaluated), outcome(&json(&String::from_utf8_lossy(&quiet.stdout))));
    let runs = evaluated["evaluated"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for (run, winner) in runs.iter().zip(evaluated["winners"].as_array().unwrap()) {
        assert_eq!(&run["trial"], winner);
        let nll = run["test"]["nll"].as_f64().unwrap();
        assert!(!shown.contains(&nll.to_string()) && !shown.contains(&format!("{nll:.4}")), "{nll} in {shown}");
    }
    let mean = runs.iter().map(|run| run["test"]["nll"].as_f64().unwrap()).sum::<f64>() / 3.0;
    assert!((evaluated["nested_test"]["nll"]["mean"].as_f64().unwrap() - mean).abs() < 1e-12);
    assert!(scratch.path("t/evaluation.jsonl").exists());
    let people = search(&["--out", "t", "--evaluate"]).into_iter().filter(|word| *word != "--json");
    let text = scratch.harmonia_ok(&people.collect::<Vec<_>>());
    assert!(text.contains("nested test, over 3 run(s)") && text.contains("honest"), "{text}");
    assert!(text.contains("majority ") && evaluated["constant"]["nll"]["mean"].is_f64(), "{text}");
}

#[test]
fn what_was_found_can_be_trained_with_and_gives_the_same_validation_scores() {
    let scratch = scratch();
    let found = json(&scratch.harmonia_ok(&search(&["--out", "t", "--seed", "3"])));
    let best = &found["finalists"][0];
    let trained = ["--dataset", "ring", "--folds", "3", "--seed", "3", "--config", "t/tuned.toml", "--json"];
    let trained = json(&scratch.train_ok(&trained));
    let (mean, expected) = (&trained["validation"]["nll"]["mean"], &best["validation"]["mean"]);
    assert!((mean.as_f64().unwrap() - expected.as_f64().unwrap()).abs() < 1e-12, "{mean} {expected}");
    // Every rung of every fold, and the start to the end.
    let rungs: Vec<u64> =
        found["schedule"].as_array().unwrap().iter().map(|rung| rung["settings"].as_u64().unwrap()).collect();
    assert_eq!(rungs, [9, 3]);
    assert!(found["finalists"].as_array().unwrap().iter().any(|one| one["trial"] == 0));
    assert_eq!(results(&scratch.path("t")).iter().filter(|line| line.contains("\"rung\":1")).count(), 27);
    let text = std::fs::read_to_string(scratch.path("t/tuned.toml")).unwrap();
    assert!(text.starts_with("# harmonia tune --dataset ring --folds 3 --trials 9 --seed 3"), "{text}");
    assert!(text.contains("9 settings tried"), "{text}");
}

#[test]
fn an_interrupted_search_goes_on_and_any_number_of_threads_finds_the_same() {
    let scratch = scratch();
    let long = |out, threads| {
        search(&["--set", "train.epochs=3000", "--set", "train.patience=0", "--out", out, "--threads", threads])
    };
    let whole = json(&scratch.harmonia_ok(&long("whole", "1")));

    let command = long("broken", "2");
    let mut child = scratch.command("harmonia", &command).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let (path, deadline) = (scratch.path("broken/trials.jsonl"), Instant::now() + Duration::from_secs(120));
    while std::fs::read_to_string(&path).map_or(0, |text| text.lines().count()) < 5 {
        assert!(child.try_wait().unwrap().is_none(), "the search ended before it could be interrupted");
        assert!(Instant::now() < deadline, "nothing finished in two minutes");
        std::thread::sleep(Duration::from_millis(2));
    }
    let status = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.contains("the same command goes on"), "{message}");
    let before = std::fs::read_to_string(&path).unwrap();
    assert!(!scratch.path("broken/tuned.toml").exists());

    let resumed = json(&scratch.harmonia_ok(&command));
    // What was finished was not trained again.
    assert!(std::fs::read_to_string(&path).unwrap().starts_with(&before));
    assert_eq!(results(&scratch.path("broken")), results(&scratch.path("whole")));
    let written = |result: &Value| (outcome(result)[0].clone(), outcome(result)[1].clone());
    assert_eq!(written(&resumed), written(&whole));
    // A finished search is read, not repeated.
    scratch.harmonia_ok(&command);
    assert_eq!(results(&scratch.path("broken")).len(), results(&scratch.path("whole")).len());
}

#[test]
fn another_search_in_the_same_directory_and_bad_spaces_are_refused() {
    let scratch = scratch();
    scratch.harmonia_ok(&search(&["--out", "t"]));
    scratch.refused("harmonia", &search(&["--out", "t", "--seed", "1"]), &["t/trials.jsonl", "other seed", "--out"]);
    scratch.write("space.toml", "\"model.hops\" = [1, 2]\n");
    scratch.refused("harmonia", &search(&["--out", "t"]), &["t/trials.jsonl", "other space"]);
    for (space, expected) in [
        ("\"model.hop\" = [1]", &["model.hop", "did you mean `model.hops`"][..]),
        ("\"data.split\" = [\"default\"]", &["data.split", "cannot be searched"]),
        ("\"run.seed\" = [1, 2]", &["run.seed", "cannot be searched"]),
        ("\"data.normalise\" = [\"rows\"]", &["rows"]),
        ("\"train.dropout\" = { low = 0.5, high = 1.5 }", &["train.dropout is 1.5"]),
        ("\"train.dropout\" = 0.5", &["space.toml", "single value"]),
    ] {
        scratch.write("space.toml", space);
        scratch.refused("harmonia", &search(&["--out", "new"]), expected);
    }
    scratch.refused(
        "harmonia",
        &["tune", "--dataset", "ring", "--metric", "rmse", "--out", "new"],
        &["rmse", "accuracy"],
    );
    let space = scratch.harmonia_ok(&["tune", "--dataset", "ring", "--print-space"]);
    for key in ["train.learning_rate", "train.dropout", "model.hops", "data.normalise"] {
        assert!(space.contains(key), "{space}");
    }
}

#[test]
fn a_trial_that_diverges_is_worst_and_does_not_end_the_search() {
    let scratch = scratch();
    // Between sensible and absurd: some trials of the search diverge, or learn nothing.
    scratch.write("space.toml", "\"train.learning_rate\" = [1e-2, 1e30]\n\"train.weight_decay\" = [0.0, 1e-3]\n");
    let output = scratch.run("harmonia", &search(&["--out", "t", "--set", "train.learning_rate=1e-3"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("counts as worst: training diverged"), "{said}");
    let found = json(&String::from_utf8_lossy(&output.stdout));
    let chosen = found["finalists"][0].clone();
    assert!(chosen["failed"].as_array().unwrap().is_empty() && chosen["validation"]["mean"].is_f64(), "{chosen}");
    assert!(results(&scratch.path("t")).iter().any(|line| line.contains("\"failed\":\"training diverged")));
}

#[test]
fn seeds_of_one_split_are_compared_by_their_mean() {
    let scratch = scratch();
    let command = ["tune", "--dataset", "ring", "--seeds", "3", "--trials", "6", "--space", "space.toml", "--json"];
    let quick = ["--set", "train.epochs=5", "--set", "model.hidden=[4]", "--evaluate", "--metric", "accuracy"];
    let found = json(&scratch.harmonia_ok(&[&command[..], &quick[..]].concat()));
    assert_eq!((&found["nested"], &found["metric"]), (&false.into(), &"accuracy".into()));
    assert_eq!(found["out"], "runs/tune-ring");
    assert_eq!(found["winners"][0], found["chosen"]["trial"]);
    assert!(found["test"]["accuracy"]["mean"].is_f64());
    assert_eq!(found["evaluated"].as_array().unwrap().len(), 3);
}

/// Trainings in `trials.jsonl`, by the share of their epochs.
fn trainings(directory: &Path, divisor: u64) -> Vec<u64> {
    let text = std::fs::read_to_string(directory.join("trials.jsonl")).unwrap();
    let lines = text.lines().skip(1).map(json).filter(|line| line["divisor"] == divisor);
    lines.map(|line| line["trial"].as_u64().unwrap()).collect()
}

#[test]
fn a_search_that_does_not_fit_into_its_budget_tries_fewer_settings_and_goes_on_later() {
    let scratch = scratch();
    // 27 settings, each of them a part of a second or more in full: several times the budget.
    let long = ["tune", "ring", "--trials", "27", "--space", "space.toml", "--json", "--out", "t", "--jobs", "1"];
    let settings = ["--set", "model.hidden=[4]", "--set", "train.epochs=9000", "--set", "train.patience=0"];
    let budget = |time| [&long[..], &settings, &["--threads", "1", "--budget", time]].concat();
    let output = scratch.run("harmonia", &budget("1s"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("of 27 settings fit into the budget (rung 1 of 3)"), "{said}");
    let found = json(&String::from_utf8_lossy(&output.stdout));
    let tried = found["trials"].as_u64().unwrap();
    assert!((1..27).contains(&tried), "{tried}");
    let text = std::fs::read_to_string(scratch.path("t/tuned.toml")).unwrap();
    assert!(text.contains(&format!("{tried} settings tried")), "{text}");
    // With fewer settings there was time to train the best of them in full; a training that was under way may have been the last.
    let first = trainings(&scratch.path("t"), 9);
    assert!(first.len() < 27 && first.len() as u64 >= tried, "{first:?}");
    let rungs: Vec<u64> =
        found["schedule"].as_array().unwrap().iter().map(|rung| rung["settings"].as_u64().unwrap()).collect();
    assert!(rungs[0] < 27 && rungs[1] <= rungs[0].div_ceil(3) && rungs[2] <= rungs[1].div_ceil(3), "{rungs:?}");

    // More time: what is finished is not trained again, and all settings have their turn.
    let before = std::fs::read_to_string(scratch.path("t/trials.jsonl")).unwrap();
    let found = json(&scratch.harmonia_ok(&budget("10m")));
    assert_eq!(found["trials"], 27);
    assert!(std::fs::read_to_string(scratch.path("t/trials.jsonl")).unwrap().starts_with(&before));
    let mut first = trainings(&scratch.path("t"), 9);
    first.sort_unstable();
    assert_eq!(first, (0..27).collect::<Vec<u64>>());
    // A store by --dataset is the same search; both at once are refused.
    scratch.refused("harmonia", &["tune", "ring", "--dataset", "ring"], &["--dataset"]);
}
