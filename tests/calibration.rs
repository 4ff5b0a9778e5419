//! Calibration and what is said about probabilities: folded into the saved model exactly, the same after a kill, never for
//! the worse; reliability in summaries; a warning where an epoch is kept that names one class for everything.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::config::{Config, Metric};
use harmonia::dataset::{Dataset, Features, Labels};
use harmonia::device::Machine;
use harmonia::device::cpu::Cpu;
use harmonia::graph::{Direction, Graph, Split};
use harmonia::loss::{Objective, Scored};
use harmonia::runs::RunSummary;
use harmonia::session::{Session, Silent};
use harmonia::{FittedModel, Stop, store};
use program::Scratch;
use serde_json::Value;
use std::path::Path;

const NODES: u32 = 150;

/// Nodes on a ring whose class depends on their features, with mistakes: a model that fits them closely is too sure.
fn ring(classes: usize) -> Dataset {
    let edges: Vec<(u32, u32)> = (0..NODES).map(|i| (i, (i + 1) % NODES)).collect();
    let graph = Graph::from_edges(NODES as usize, &edges, None, Direction::Undirected).unwrap();
    let value = |i: u32, k: u32| ((f64::from(3 * i + k) + 1.0) * 12.9898).sin() as f32;
    let features = (0..NODES).flat_map(|i| (0..3).map(move |k| value(i, k))).collect();
    let class = |i: u32| match i % 4 {
        0 => i / 4 % classes as u32,
        _ => (((value(i, 0) + 1.0) / 2.0 * classes as f32) as u32).min(classes as u32 - 1),
    };
    let labels = Labels::Classes { ids: (0..NODES).map(class).collect(), classes };
    let split = Split { train: (0..60).collect(), valid: (60..100).collect(), test: (100..NODES).collect() };
    let features = Features::new(NODES as usize, 3, features).unwrap();
    Dataset::nodes("ring", graph, features, labels, split).unwrap()
}

fn settings(calibrate: bool) -> Config {
    let mut config = Config::default();
    (config.train.epochs, config.train.patience, config.train.learning_rate) = (60, 0, 3e-2);
    (config.train.metric, config.train.calibrate) = (Metric::Accuracy, calibrate);
    config
}

fn train(dataset: &Dataset, config: &Config, path: &Path) -> RunSummary {
    let session = Session { device: &Cpu::new(), config, stop: &Stop::new() };
    session.run(dataset, Some(path), &mut Silent).unwrap().runs.remove(0)
}

fn bytes(path: &Path, file: &str) -> Vec<u8> {
    std::fs::read(path.join(file)).unwrap()
}

fn scores(dataset: &Dataset, model: &FittedModel, units: &[u32]) -> harmonia::loss::Scores {
    let (all, outputs) = (model.logits(dataset).unwrap(), dataset.labels.outputs());
    let logits: Vec<f32> = units.iter().flat_map(|&unit| &all[unit as usize * outputs..][..outputs]).copied().collect();
    model.objective.score(&Scored { labels: &dataset.labels, units, logits: &logits, scaling: None })
}

#[test]
fn the_saved_model_has_the_calibration_in_it_and_training_does_not() {
    let scratch = tempfile::tempdir().unwrap();
    for classes in [2, 3] {
        let dataset = ring(classes);
        let [raw, calibrated] = ["raw", "calibrated"].map(|name| scratch.path().join(format!("{name}-{classes}")));
        let before = train(&dataset, &settings(false), &raw);
        let after = train(&dataset, &settings(true), &calibrated);
        let found = after.calibration.expect("an overfitted model is not calibrated");
        assert!(before.calibration.is_none() && found.temperature.is_finite() && found.temperature > 0.0);
        assert_eq!(found.offset == 0.0, classes > 2, "{found:?}");
        // What a resumed run goes on from knows nothing of it.
        assert_eq!(bytes(&raw, "last.safetensors"), bytes(&calibrated, "last.safetensors"));

        let [plain, folded] = [&raw, &calibrated].map(|run| FittedModel::load(&run.join("best.safetensors")).unwrap());
        assert_eq!((plain.calibration, folded.calibration), (None, Some(found)));
        let (plain_logits, logits) = (plain.logits(&dataset).unwrap(), folded.logits(&dataset).unwrap());
        for (&z, &scaled) in plain_logits.iter().zip(&logits) {
            let expected = f64::from(z) / found.temperature + found.offset;
            // Sums of a few dozen products in f32.
            let size = 1.0 + expected.abs() + f64::from(z).abs() / found.temperature + found.offset.abs();
            assert!((f64::from(scaled) - expected).abs() < 1e-5 * size, "{scaled} {expected}");
        }
        // Scores are those of the model that was saved.
        let split = &dataset.split;
        for (units, said) in
            [(&split.test, &after.test), (&split.valid, &after.validation), (&split.train, &after.train)]
        {
            let (own, said) = (scores(&dataset, &folded, units), said.get("nll").unwrap());
            assert!((own.get("nll").unwrap() - said).abs() < 1e-5 * (1.0 + said), "{own:?} {said}");
        }
        assert_eq!(found.validation_nll_before, before.validation.get("nll").unwrap());
        assert_eq!(found.validation_nll_after, after.validation.get("nll").unwrap());
        assert!(found.validation_nll_after < found.validation_nll_before, "{found:?}");
        let accuracy = |run: &RunSummary| run.test.get("accuracy");
        assert!(classes == 2 || accuracy(&before) == accuracy(&after), "a temperature changes no class");

        let machine = Machine::open("cpu", settings(true).engine).unwrap();
        let fitted = harmonia::fit(&dataset, &settings(true), &machine, &Stop::new()).unwrap();
        assert_eq!((fitted.calibration, fitted.parameters), (Some(found), folded.parameters));
    }
}

#[test]
fn files_say_nothing_of_calibration_where_there_is_none() {
    let scratch = tempfile::tempdir().unwrap();
    let mut values = ring(2);
    let numbers = (0..NODES).map(|i| (i as f32).cos()).collect();
    values.labels = Labels::Values { values: numbers, width: 1 };
    let summary = train(&values, &settings(true), &scratch.path().join("numbers"));
    let model = FittedModel::load(&scratch.path().join("numbers/best.safetensors")).unwrap();
    assert_eq!((summary.calibration, model.calibration, model.objective), (None, None, Objective::Squared));
    let written: Value = serde_json::from_slice(&bytes(&scratch.path().join("numbers"), "summary.json")).unwrap();
    for key in ["calibration", "reliability", "warnings"] {
        assert!(written.get(key).is_none(), "{key}");
    }
    train(&ring(3), &settings(false), &scratch.path().join("raw"));
    let file = bytes(&scratch.path().join("raw"), "best.safetensors");
    assert!(!String::from_utf8_lossy(&file).contains("calibration"));
}

#[test]
fn reliability_is_that_of_the_saved_model() {
    let scratch = tempfile::tempdir().unwrap();
    let (dataset, run) = (ring(3), scratch.path().join("run"));
    let summary = train(&dataset, &settings(true), &run);
    let model = FittedModel::load(&run.join("best.safetensors")).unwrap();
    let probabilities = model.probabilities(&dataset).unwrap();
    let ids = dataset.labels.class_ids().unwrap();
    let reliability = summary.reliability.unwrap();
    for (units, said) in [(&dataset.split.test, reliability.test), (&dataset.split.valid, reliability.validation)] {
        let said = said.unwrap();
        assert_eq!((said.bins.len(), said.bins.iter().map(|bin| bin.count).sum::<usize>()), (15, units.len()));
        // From the definition, over probabilities as people get them.
        let mut expected = 0.0;
        for bin in 0..15 {
            let (mut sure, mut right, mut count) = (0.0, 0.0, 0.0);
            for &unit in units {
                let row = &probabilities[3 * unit as usize..][..3];
                let class = (0..3).fold(0, |best, class| if row[class] > row[best] { class } else { best });
                if ((f64::from(row[class]) * 15.0) as usize).min(14) == bin {
                    sure += f64::from(row[class]);
                    right += f64::from(u8::from(ids[unit as usize] as usize == class));
                    count += 1.0;
                }
            }
            expected += (right - sure).abs() / units.len() as f64;
            assert_eq!(said.bins[bin].count as f64, count, "bin {bin}");
        }
        assert!((said.ece - expected).abs() < 1e-5, "{} {expected}", said.ece);
    }
}

const JOB: [&str; 12] = [
    "--dataset",
    "s",
    "--epochs",
    "40",
    "--set",
    "train.learning_rate=3e-2",
    "--set",
    "train.calibrate=true",
    "--set",
    "train.metric=accuracy",
    "--set",
    "run.checkpoint_seconds=0",
];

fn job<'a>(more: &[&'a str]) -> Vec<&'a str> {
    JOB.iter().chain(more).copied().collect()
}

#[test]
fn the_program_calibrates_says_so_and_goes_on_after_a_kill() {
    let scratch = Scratch::new();
    store::write(&ring(2), &scratch.path("s")).unwrap();
    let json: Value = serde_json::from_str(&scratch.train_ok(&job(&["--out", "whole", "--json"]))).unwrap();
    let said = &json["runs"][0];
    for key in ["temperature", "offset", "validation_nll_before", "validation_nll_after"] {
        assert!(said["calibration"][key].is_f64(), "{key}: {said}");
    }
    assert!(
        said["reliability"]["test"]["ece"].is_f64() && said["reliability"]["validation"]["bins"].is_array(),
        "{said}"
    );
    assert!(json["test"].get("ece").is_none(), "{json}");
    let log = std::fs::read_to_string(scratch.path("whole/metrics.jsonl")).unwrap();
    assert!(!log.contains("ece") && !log.contains("calibration"));
    assert!(std::fs::read_to_string(scratch.path("whole/config.toml")).unwrap().contains("calibrate = true"));

    let temperature = said["calibration"]["temperature"].as_f64().unwrap();
    let words = format!("calibrated logits (temperature {temperature:.2}, offset ");
    for arguments in [&["explain", "whole", "--node", "3"][..], &["explain", "whole", "--global"]] {
        let text = scratch.harmonia_ok(arguments);
        assert!(text.lines().any(|line| line.starts_with(&words) && line.ends_with("fitted on validation)")), "{text}");
        let json = scratch.harmonia_ok(&[arguments, &["--json"]].concat());
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["calibration"], said["calibration"]);
    }
    let page = std::fs::read_to_string(scratch.path("whole/report.html")).unwrap();
    assert!(page.contains("Logits are calibrated") && page.contains("\"reliability\":{"));

    // Killed between the last checkpoint and the calibrated model, after it, and in the middle of training.
    let whole = scratch.path("whole");
    let expected = bytes(&whole, "best.safetensors");
    let raw = job(&["--out", "raw", "--set", "train.calibrate=false"]);
    scratch.train_ok(&raw);
    assert_ne!(bytes(&scratch.path("raw"), "best.safetensors"), expected);
    assert_eq!(bytes(&scratch.path("raw"), "last.safetensors"), bytes(&whole, "last.safetensors"));
    for left in [bytes(&scratch.path("raw"), "best.safetensors"), expected.clone()] {
        std::fs::write(whole.join("best.safetensors"), left).unwrap();
        std::fs::remove_file(whole.join("summary.json")).unwrap();
        scratch.train_ok(&["--resume", "whole"]);
        assert_eq!(bytes(&whole, "best.safetensors"), expected);
        let summary: Value = serde_json::from_slice(&bytes(&whole, "summary.json")).unwrap();
        assert_eq!((&summary["calibration"], &summary["test"]), (&said["calibration"], &said["test"]));
    }
    let mut child = scratch.command("harmonia-train", &job(&["--out", "broken"])).spawn().unwrap();
    let lines = || std::fs::read_to_string(scratch.path("broken/metrics.jsonl")).map_or(0, |log| log.lines().count());
    while lines() < 3 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    scratch.train_ok(&["--resume", "broken"]);
    assert_eq!(bytes(&scratch.path("broken"), "best.safetensors"), expected);
}

#[test]
fn every_seed_has_a_calibration_of_its_own() {
    let scratch = Scratch::new();
    store::write(&ring(3), &scratch.path("s")).unwrap();
    scratch.train_ok(&job(&["--seeds", "2", "--out", "both"]));
    scratch.train_ok(&job(&["--seed", "1", "--out", "second"]));
    let best = |run: &str| FittedModel::load(&scratch.path(run).join("best.safetensors")).unwrap();
    assert_eq!(best("both/seed-1").parameters, best("second").parameters);
    assert_eq!(best("both/seed-1").calibration, best("second").calibration);
    assert_ne!(best("both/seed-0").calibration, best("both/seed-1").calibration);
}

/// Nodes whose class is the sign of their feature; nearly all training nodes are of class 1, half of the others.
fn lopsided() -> Dataset {
    let graph = Graph::from_edges(80, &[], None, Direction::Undirected).unwrap();
    let value = |i: u32| {
        (0.1 + 0.01 * (i % 10) as f32)
            * if if i < 40 { i.is_multiple_of(20) } else { i.is_multiple_of(2) } { -1.0 } else { 1.0 }
    };
    let labels = Labels::Classes { ids: (0..80).map(|i| u32::from(value(i) > 0.0)).collect(), classes: 2 };
    let features = Features::new(80, 1, (0..80).map(value).collect()).unwrap();
    let split = Split { train: (0..40).collect(), valid: (40..60).collect(), test: (60..80).collect() };
    let mut dataset = Dataset::nodes("lopsided", graph, features, labels, split).unwrap();
    dataset.class_names = vec!["no".into(), "yes".into()];
    dataset
}

#[test]
fn an_epoch_that_names_one_class_is_kept_with_a_warning() {
    let scratch = Scratch::new();
    store::write(&lopsided(), &scratch.path("s")).unwrap();
    let arguments = [
        "--dataset",
        "s",
        "--epochs",
        "5",
        "--set",
        "train.learning_rate=2e-2",
        "--set",
        "train.metric=roc_auc",
        "--recipe",
        "paper",
        "--json",
    ];
    let output = scratch.train(&[&arguments[..], &["--out", "raw"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let json: Value = serde_json::from_str(&program::stdout_of(&output, &arguments)).unwrap();
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    for part in ["seed 0", "roc_auc", "predicts yes for all 20 validation units", "train.metric = loss"] {
        assert!(lines[0].contains(part), "{part}: {said}");
    }
    let warnings = json["runs"][0]["warnings"].as_array().unwrap();
    assert!(warnings.len() == 1 && lines[0].contains(warnings[0].as_str().unwrap()), "{json}");
    let written: Value = serde_json::from_slice(&bytes(&scratch.path("raw"), "summary.json")).unwrap();
    assert_eq!(written["warnings"], json["runs"][0]["warnings"]);
    let quiet = scratch.train(&[&arguments[..], &["--out", "quiet", "--quiet"]].concat());
    assert!(quiet.stderr.is_empty(), "{}", String::from_utf8_lossy(&quiet.stderr));

    // Calibration is judged by likelihood: after five epochs it helps that, and may still name one class.
    let output = scratch.train(&[&arguments[..], &["--out", "calibrated", "--set", "train.calibrate=true"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let json: Value = serde_json::from_str(&program::stdout_of(&output, &arguments)).unwrap();
    assert_eq!(said.contains("warning: "), json["runs"][0].get("warnings").is_some(), "{said}");
    assert!(!said.contains("train.calibrate = true"), "{said}");
    let nll = |when: &str| json["runs"][0]["calibration"][when].as_f64().unwrap();
    assert!(nll("validation_nll_after") < nll("validation_nll_before"), "{json}");
}
