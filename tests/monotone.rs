//! Features that may only raise, or only lower, what is predicted: exactly, on the whole line, whatever the data say.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::architecture::HopWeights;
use harmonia::config::{Config, DropoutPlace, Monotone, TableUse};
use harmonia::dataset::{Dataset, Features, Labels, Normalise};
use harmonia::device::Device;
use harmonia::device::cpu::Cpu;
use harmonia::device::host::Host;
use harmonia::device::launcher::Launcher;
use harmonia::explain::{Factors, Shape};
use harmonia::graph::{Direction, Graph, Split};
use harmonia::model::FittedModel;
use harmonia::seed::{Purpose, Stream};
use harmonia::train::{Prepared, RunName, Trainer};
use program::Scratch;
use std::fmt::Write;

const NODES: usize = 240;

/// Three features: a bump, a fall and a step. Told to rise, the first two have to be bent against the data.
fn dataset(regression: bool) -> Dataset {
    let mut rng = Stream::new(9, Purpose::SyntheticGraph, 0).rng();
    let x: Vec<f32> = (0..NODES * 3).map(|_| (4.0 * rng.uniform() - 2.0) as f32).collect();
    let score = |i: usize| {
        let [a, b, c] = [x[3 * i], x[3 * i + 1], x[3 * i + 2]];
        (1.0 - a * a) - b + 2.0 * f32::from(c > 0.3)
    };
    let edges: Vec<(u32, u32)> = (0..NODES).map(|_| (rng.below(NODES) as u32, rng.below(NODES) as u32)).collect();
    let labels = match regression {
        true => Labels::Values { values: (0..NODES).map(score).collect(), width: 1 },
        false => Labels::Classes { ids: (0..NODES).map(|i| u32::from(score(i) > 0.7)).collect(), classes: 2 },
    };
    let graph = Graph::from_edges(NODES, &edges, None, Direction::Undirected).unwrap();
    let split = Split::fractions(&(0..NODES as u32).collect::<Vec<_>>(), [60.0, 20.0, 20.0], 0);
    let mut dataset = Dataset::nodes("three", graph, Features::new(NODES, 3, x).unwrap(), labels, split).unwrap();
    dataset.feature_names = ["bump", "fall", "step"].map(String::from).to_vec();
    dataset
}

fn config(monotone: &[(&str, bool)]) -> Config {
    let mut config = Config::default();
    (config.train.epochs, config.train.patience, config.train.learning_rate) = (120, 0, 1e-2);
    (config.model.hops, config.train.calibrate) = (3, true);
    config.model.monotone =
        monotone.iter().map(|&(feature, rising)| Monotone { feature: feature.into(), rising }).collect();
    config
}

fn trained<D: Device<Real = f32>>(device: &D, dataset: &Dataset, config: &Config) -> (FittedModel, f64) {
    let run = Prepared::new(dataset, config, RunName { seed: 4, fold: None }).unwrap();
    let mut trainer = Trainer::new(device, &run, config, None).unwrap();
    let mut loss = f64::NAN;
    while !trainer.finished() {
        loss = trainer.epoch().unwrap().train_loss;
    }
    trainer.calibrate().unwrap();
    (trainer.model(run.scaling.clone()).unwrap(), loss)
}

/// Slopes of the effect of a feature on every line it is made of, from end to end.
fn slopes(model: &FittedModel, k: usize) -> Vec<f64> {
    let factors = Factors::of(model).unwrap();
    let shape = Shape::of(&factors, k);
    assert!(shape.exact);
    let knots: Vec<f64> = shape.knots.iter().map(|knot| knot[0]).collect();
    let inside = knots.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
    let everywhere = [knots[0] - 1.0, knots[0] - 1e6].into_iter().chain(inside);
    let everywhere = everywhere.chain([knots[knots.len() - 1] + 1.0, knots[knots.len() - 1] + 1e6]);
    everywhere.map(|x| factors.weight[k] * factors.responses().slope(k, x)).collect()
}

fn never_falls(model: &FittedModel, k: usize) -> bool {
    slopes(model, k).iter().all(|&slope| slope >= 0.0)
}

fn never_rises(model: &FittedModel, k: usize) -> bool {
    slopes(model, k).iter().all(|&slope| slope <= 0.0)
}

#[test]
fn effects_go_the_way_they_are_told_whatever_the_data_say() {
    for regression in [false, true] {
        let dataset = dataset(regression);
        let (free, _) = trained(&Cpu::new(), &dataset, &config(&[]));
        assert!((0..2).all(|k| !never_falls(&free, k)), "the data speak against it");
        for normalise in [Normalise::None, Normalise::Standardise] {
            for hop_weights in [HopWeights::Simplex, HopWeights::Absolute] {
                let mut config = config(&[("bump", true), ("fall", true), ("step", true)]);
                (config.data.normalise, config.model.hop_weights) = (normalise, hop_weights);
                let (model, _) = trained(&Cpu::new(), &dataset, &config);
                assert!((0..3).all(|k| never_falls(&model, k)), "{regression} {normalise:?} {hop_weights:?}");
                // What the data say too is learned: the step is there.
                let rise: f64 = slopes(&model, 2).iter().sum();
                assert!(rise > 0.1, "{rise}");
            }
        }
        let (model, _) = trained(&Cpu::new(), &dataset, &config(&[("bump", false), ("step", false)]));
        assert!(never_rises(&model, 0) && never_rises(&model, 2) && !never_falls(&model, 1));
    }
}

#[test]
fn a_constraint_that_the_data_keep_costs_little_and_other_features_bend_as_they_like() {
    let dataset = dataset(true);
    let (_, free) = trained(&Cpu::new(), &dataset, &config(&[]));
    let (model, kept) = trained(&Cpu::new(), &dataset, &config(&[("fall", false), ("step", true)]));
    assert!(never_rises(&model, 1) && never_falls(&model, 2));
    assert!(!never_falls(&model, 0) && !never_rises(&model, 0), "a bump stays a bump");
    assert!(kept < 1.5 * free + 0.02, "{kept} {free}");
}

#[test]
fn predictions_follow_a_feature_of_any_node() {
    // Raising a feature at one node lowers no logit in the graph, in f32 but for its last bits.
    let dataset = dataset(false);
    let (model, _) = trained(&Cpu::new(), &dataset, &config(&[("bump", true)]));
    let logits = |shift: f32| {
        let mut x = dataset.features.dense().into_owned();
        x[3 * 17] += shift;
        let moved = Dataset { features: Features::new(NODES, 3, x).unwrap().into(), ..dataset.clone() };
        model.logits(&moved).unwrap()
    };
    let mut before = logits(-3.0);
    for step in 1..=12 {
        let now = logits(-3.0 + 0.5 * step as f32);
        let fell = before.iter().zip(&now).any(|(before, now)| now - before < -1e-5);
        assert!(!fell, "step {step}");
        before = now;
    }
}

#[test]
fn every_way_to_train_keeps_it_and_a_run_resumes_to_the_same_bits() {
    let dataset = dataset(false);
    let told = [("bump", true), ("fall", true)];
    let mut table = config(&told);
    table.engine.table = TableUse::Force;
    let mut batches = config(&told);
    (batches.train.batch_size, batches.train.dropout) = (40, 0.2);
    let mut hidden = config(&told);
    (hidden.train.dropout, hidden.train.dropout_place, hidden.train.epochs) = (0.2, DropoutPlace::Hidden, 10);
    for config in [table, batches, hidden] {
        let (model, _) = trained(&Cpu::new(), &dataset, &config);
        assert!((0..2).all(|k| never_falls(&model, k)));
    }
    let mut short = config(&told);
    short.train.epochs = 6;
    let host = Launcher::new(Host::new().unwrap(), Default::default());
    let (model, _) = trained(&host, &dataset, &short);
    assert!((0..2).all(|k| never_falls(&model, k)));

    let device = Cpu::<f32>::new();
    let run = Prepared::new(&dataset, &short, RunName { seed: 4, fold: None }).unwrap();
    let mut whole = Trainer::new(&device, &run, &short, None).unwrap();
    (0..3).for_each(|_| drop(whole.epoch().unwrap()));
    let mut resumed = Trainer::new(&device, &run, &short, Some(whole.state().unwrap())).unwrap();
    (0..3).for_each(|_| assert_eq!(whole.epoch().unwrap(), resumed.epoch().unwrap()));
    assert_eq!(whole.state().unwrap(), resumed.state().unwrap());
}

fn tables(scratch: &Scratch) {
    std::fs::create_dir(scratch.path("raw")).unwrap();
    let mut nodes = String::from("id,age,income,label\n");
    for i in 0..60usize {
        let (age, income) = (20 + i * 13 % 50, i * 37 % 90);
        writeln!(nodes, "C{i},{age},{income},{}", if age > 40 { "yes" } else { "no" }).unwrap();
    }
    scratch.write("raw/nodes.csv", nodes);
    let edges: String = (0..60).map(|i| format!("C{i},C{}\n", (i * 7 + 1) % 60)).collect();
    scratch.write("raw/edges.csv", format!("source,target\n{edges}"));
    scratch.harmonia_ok(&["data", "convert", "raw", "--format", "table", "--out", "store"]);
}

#[test]
fn the_flag_works_with_data_of_ones_own() {
    let scratch = Scratch::new();
    tables(&scratch);
    let train =
        ["--dataset", "store", "--epochs", "40", "--out", "run", "--monotone", "age=-", "--monotone", "income=+"];
    let output = scratch.train(&train);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(log.contains("age never raises, income never lowers what is predicted"), "{log}");
    let config = std::fs::read_to_string(scratch.path("run/config.toml")).unwrap();
    assert!(config.contains("monotone = [\"age=-\", \"income=+\"]") && config.contains("\"absolute\""), "{config}");
    let shapes: serde_json::Value = serde_json::from_str(&scratch.harmonia_ok(&["shapes", "run", "--json"])).unwrap();
    for (feature, sign) in [("age", -1.0), ("income", 1.0)] {
        let found = shapes["features"].as_array().unwrap().iter().find(|one| one["feature"] == feature).unwrap();
        let knots = found["knots"].as_array().unwrap();
        let weight = found["weight_by_class"].as_object().unwrap().values().next().unwrap().as_f64().unwrap();
        let y: Vec<f64> = knots.iter().map(|knot| knot[1].as_f64().unwrap() * weight * sign).collect();
        // Values of neighbouring knots come from different lines, each rounded.
        assert!(y.windows(2).all(|pair| pair[1] >= pair[0] - 1e-12), "{feature} {y:?}");
        // An effect that the data speak against is nothing, and goes nowhere.
        let way = found["direction_by_class"]["yes"].as_str();
        let expected = if sign > 0.0 { "rising" } else { "falling" };
        assert_eq!(way, Some(expected).filter(|_| weight != 0.0), "{found}");
    }
    // The page says so, in words and for each feature; of a run that keeps nothing it says nothing.
    let page = |run: &str| -> serde_json::Value {
        serde_json::from_str(&scratch.harmonia_ok(&["report", run, "--json"])).unwrap()
    };
    let kept = |page: &serde_json::Value, name: &str| {
        let feature = page["features"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone();
        feature["monotone"].as_str().map(String::from)
    };
    let said = |page: &serde_json::Value| {
        let notes = page["summary"]["notes"].as_array().unwrap().clone();
        notes.iter().any(|note| note.as_str().unwrap().starts_with("Monotone, exactly and everywhere: age never "))
    };
    let both = page("run");
    assert_eq!((kept(&both, "age").as_deref(), kept(&both, "income").as_deref()), (Some("falling"), Some("rising")));
    assert!(
        said(&both)
            && std::fs::read_to_string(scratch.path("run/report.html")).unwrap().contains("\"monotone\":\"falling\"")
    );
    scratch.train_ok(&["--dataset", "store", "--epochs", "2", "--out", "none"]);
    let none = page("none");
    assert!(!said(&none) && kept(&none, "age").is_none());
    scratch.train_ok(&["--dataset", "store", "--epochs", "40", "--out", "with", "--monotone", "age=+"]);
    let shapes: serde_json::Value = serde_json::from_str(&scratch.harmonia_ok(&["shapes", "with", "--json"])).unwrap();
    assert_eq!(shapes["features"][0]["direction_by_class"]["yes"], "rising", "{}", shapes["features"][0]);
    assert!(scratch.harmonia_ok(&["shapes", "with", "--feature", "age"]).contains("yes is rising in it"));
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let scratch = Scratch::new();
    tables(&scratch);
    let train = |more: &[&'static str]| [&["--dataset", "store", "--epochs", "1"][..], more].concat();
    let refused = |more: &[&'static str], expected: &str| scratch.refused("harmonia-train", &train(more), &[expected]);
    refused(&["--monotone", "agee=+"], "names a feature `agee` that the dataset does not have; did you mean `age`?");
    refused(&["--monotone", "age"], "expected FEATURE=+ or FEATURE=-");
    refused(&["--monotone", "age=+", "--monotone", "age=-"], "names feature `age` twice");
    refused(&["--monotone", "age=+", "--set", "model.hop_weights=free"], "set model.hop_weights = absolute");
    refused(&["--monotone", "age=+", "--set", "model.hop_weights=signed"], "set model.hop_weights = absolute");
    refused(&["--monotone", "age=+", "--normalise", "row"], "one feature changes all others");
    let nodes: String = std::fs::read_to_string(scratch.path("raw/nodes.csv")).unwrap().replacen(",no", ",maybe", 3);
    scratch.write("raw/nodes.csv", nodes);
    scratch.harmonia_ok(&["data", "convert", "raw", "--format", "table", "--out", "three"]);
    let three = ["--dataset", "three", "--epochs", "1", "--monotone", "age=+"];
    scratch.refused("harmonia-train", &three, &["is for two classes or one number"]);
}
