//! Units that do not count alike: a weight is how often a unit counts while a model is fitted, by every way to compute a step, and
//! scores count every unit once.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::config::{ClassWeights, Config, Engine, Propagate, TableUse};
use harmonia::dataset::{Dataset, Features, Labels, Level, UnitWeights};
use harmonia::device::Device;
use harmonia::device::cpu::Cpu;
use harmonia::device::host::Host;
use harmonia::device::launcher::Launcher;
use harmonia::graph::{Direction, Graph, Split};
use harmonia::seed::{Purpose, Stream};
use harmonia::train::{Prepared, RunName, Trainer};
use program::Scratch;
use std::fmt::Write;

/// Both ways sum in f32, in other orders; five steps of Adam spread that.
const TOLERANCE: f64 = 1e-4;
const GRAPHS: usize = 12;
const SIZE: usize = 5;
const FEATURES: usize = 4;

/// Small graphs, the g-th of them `times(g)` times; a quarter of the units validates.
fn graphs(times: impl Fn(usize) -> usize, numbers: bool) -> Dataset {
    let (mut edges, mut values, mut ids, mut targets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut split = Split::default();
    for g in 0..GRAPHS {
        for _ in 0..times(g) {
            let mut rng = Stream::new(3, Purpose::SyntheticGraph, g as u32).rng();
            let first = (ids.len() * SIZE) as u32;
            edges.extend((0..SIZE as u32).map(|i| (first + i, first + (i + 1) % SIZE as u32)));
            let drawn: Vec<f32> = (0..SIZE * FEATURES).map(|_| (2.0 * rng.uniform() - 1.0) as f32).collect();
            if g % 4 == 3 { &mut split.valid } else { &mut split.train }.push(ids.len() as u32);
            ids.push(u32::from(drawn[0] + drawn[4] > 0.1));
            targets.push(drawn[0] + 0.5 * drawn[4]);
            values.extend(drawn);
        }
    }
    let nodes = ids.len() * SIZE;
    let graph_ptr = (0..=ids.len()).map(|g| g * SIZE).collect();
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
    let features = Features::new(nodes, FEATURES, values).unwrap();
    let labels = match numbers {
        true => Labels::Values { values: targets, width: 1 },
        false => Labels::Classes { ids, classes: 2 },
    };
    Dataset::new("graphs", graph, graph_ptr, features, labels, Level::Graph, split).unwrap()
}

fn config() -> Config {
    let mut config = Config::default();
    (config.train.epochs, config.train.patience, config.train.learning_rate) = (5, 0, 1e-2);
    config.init.readout_scale = 1.0;
    config
}

fn prepared(dataset: &Dataset, config: &Config) -> Prepared {
    Prepared::of(dataset.clone(), None, config, RunName { seed: 1, fold: None }).unwrap()
}

/// Losses of all epochs, training and validation as it chooses, and the last parameters.
fn trained<D: Device<Real = f32>>(device: &D, run: &Prepared, config: &Config) -> (Vec<[f64; 2]>, Vec<f32>) {
    let mut trainer = Trainer::new(device, run, config, None).unwrap();
    let mut losses = Vec::new();
    while !trainer.finished() {
        let record = trainer.epoch().unwrap();
        let named = |name: &str| record.validation.get(name);
        let chosen_by = named("weighted_loss").or(named("nll")).or(named("loss")).unwrap();
        losses.push([record.train_loss, chosen_by]);
    }
    (losses, trainer.state().unwrap().parameters)
}

fn close(found: &[f64], expected: &[f64], what: &str) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= TOLERANCE * expected.abs().max(1.0), "{what}: {found} {expected}");
    }
}

#[test]
fn a_weight_is_how_often_a_graph_counts() {
    let times = |g: usize| 1 + g % 3;
    let table = Engine { table: TableUse::Force, ..Engine::default() };
    let off = |propagate| Engine { table: TableUse::Off, propagate, ..Engine::default() };
    for engine in [off(Propagate::Classes), off(Propagate::Features), table] {
        // Standardised numbers would have other means and deviations where units come twice: classes alone.
        let mut weighted = graphs(|_| 1, false);
        // Only ratios matter.
        let values = (0..GRAPHS).map(|g| 0.25 * times(g) as f32).collect();
        weighted.weights = Some(UnitWeights { column: "w".into(), values });
        let config = Config { engine, ..config() };
        let repeated = trained(&Cpu::new(), &prepared(&graphs(times, false), &config), &config);
        let found = trained(&Cpu::new(), &prepared(&weighted, &config), &config);
        close(&found.0.concat(), &repeated.0.concat(), "losses");
        let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        close(&wide(&found.1), &wide(&repeated.1), "parameters");
    }
}

#[test]
fn batches_estimate_the_weighted_mean() {
    for numbers in [false, true] {
        let mut dataset = graphs(|_| 1, numbers);
        let values = (0..GRAPHS).map(|g| 1.0 + g as f32).collect();
        dataset.weights = Some(UnitWeights { column: "w".into(), values });
        let mut config = config();
        // Nothing moves: every epoch has the loss of the start.
        (config.train.learning_rate, config.train.epochs, config.train.router_noise) = (1e-30, 1, 0.0);
        let whole = trained(&Cpu::new(), &prepared(&dataset, &config), &config).0;
        config.train.batch_size = 2;
        let batches = trained(&Cpu::new(), &prepared(&dataset, &config), &config).0;
        close(&batches.concat(), &whole.concat(), "losses");
    }
}

#[test]
fn kernels_train_weighted_units_as_the_cpu_does() {
    let host = Launcher::new(Host::new().unwrap(), Default::default());
    for batch_size in [0, 4] {
        let mut dataset = graphs(|_| 1, false);
        let values = (0..GRAPHS).map(|g| 1.0 + (g % 4) as f32).collect();
        dataset.weights = Some(UnitWeights { column: "w".into(), values });
        let mut config = config();
        config.train.class_weights = ClassWeights::Balanced;
        config.train.batch_size = batch_size;
        let run = prepared(&dataset, &config);
        let (found, expected) = (trained(&host, &run, &config), trained(&Cpu::new(), &run, &config));
        close(&found.0.concat(), &expected.0.concat(), "losses");
    }
}

/// Sixty customers, one in six of whom leaves; the weight is 1, but for a bad one where a cell is given.
fn customers(bad: Option<&str>) -> String {
    let mut nodes = String::from("id,age,income,w,label\n");
    for i in 0..60usize {
        let leaves = i % 6 == 0;
        let age = if leaves { 50 + i % 7 } else { 30 + i % 17 };
        let weight = bad.filter(|_| i == 7).unwrap_or(if i % 2 == 0 { "1" } else { "2.5" });
        let income = (i * 37) % 50;
        writeln!(nodes, "C{i},{age},{income},{weight},{}", if leaves { "yes" } else { "no" }).unwrap();
    }
    nodes
}

fn tables(scratch: &Scratch, name: &str, nodes: &str) {
    std::fs::create_dir(scratch.path(name)).unwrap();
    scratch.write(&format!("{name}/nodes.csv"), nodes);
    let edges: String = (0..60).map(|i| format!("C{i},C{}\n", (i * 7 + 1) % 60)).collect();
    scratch.write(&format!("{name}/edges.csv"), format!("source,target\n{edges}"));
}

#[test]
fn weights_of_a_table_are_no_feature_and_are_not_asked_for_again() {
    let scratch = Scratch::new();
    tables(&scratch, "raw", &customers(None));
    let convert =
        |name: &'static str| ["data", "convert", name, "--format", "table", "--out", "store", "--weights", "w"];
    scratch.harmonia_ok(&convert("raw"));
    let meta: serde_json::Value =
        serde_json::from_slice(&std::fs::read(scratch.path("store/meta.json")).unwrap()).unwrap();
    assert_eq!(meta["feature_names"].as_array().unwrap().len(), 2, "{meta}");
    assert_eq!((meta["weights"].as_str(), meta["version"].as_u64()), (Some("w"), Some(4)));
    scratch.harmonia_ok(&["data", "info", "store", "--verify"]);

    let train = ["--dataset", "store", "--epochs", "20"];
    let output = scratch.train(&[&train[..], &["--out", "run", "--class-weights", "balanced"]].concat());
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && log.contains("weighted: classes by no 0.6") && log.contains("column w"),
        "{log}"
    );
    let metrics = std::fs::read_to_string(scratch.path("run/metrics.jsonl")).unwrap();
    assert!(metrics.lines().all(|line| line.contains("\"weighted_loss\":")), "{metrics}");

    // The file is read once: a run has the weights, not the path, and resumes without it.
    scratch.write("weights.csv", "class,weight\nyes,5\n");
    scratch.train_ok(&[&train[..], &["--out", "named", "--class-weights", "weights.csv"]].concat());
    std::fs::remove_file(scratch.path("weights.csv")).unwrap();
    let config = std::fs::read_to_string(scratch.path("named/config.toml")).unwrap();
    assert!(config.contains("class_weights = [\"yes=5\"]"), "{config}");
    scratch.train_ok(&["--resume", "named", "--epochs", "22"]);

    // New tables need no weights, and those that have them are read all the same.
    tables(&scratch, "with", &customers(None).replace(",yes\n", ",\n").replace(",no\n", ",\n"));
    let without: String = customers(None)
        .lines()
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            format!("{},{},{}\n", cells[0], cells[1], cells[2])
        })
        .collect();
    tables(&scratch, "without", &without);
    for name in ["with", "without"] {
        scratch.harmonia_ok(&["predict", "run", name, "--out", &format!("{name}.csv")]);
    }
    let read = |name: &str| std::fs::read_to_string(scratch.path(name)).unwrap();
    assert_eq!(read("with.csv"), read("without.csv"));
}

#[test]
fn bagged_runs_have_bands() {
    let scratch = Scratch::new();
    tables(&scratch, "raw", &customers(None));
    scratch.harmonia_ok(&["data", "convert", "raw", "--format", "table", "--out", "store"]);
    let train = ["--dataset", "store", "--epochs", "15", "--seeds", "3", "--bagging"];
    let output = scratch.train(&[&train[..], &["--out", "bag"]].concat());
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && log.contains("training units by the draws of bagging"), "{log}");
    scratch.train_ok(&["--dataset", "store", "--epochs", "15", "--seed", "1", "--bagging", "--out", "alone"]);
    let tensors = |run: &str| std::fs::read(scratch.path(run).join("best.safetensors")).unwrap();
    assert_eq!(tensors("bag/seed-1"), tensors("alone"), "draws are those of the seed");
    scratch.train_ok(&["--dataset", "store", "--epochs", "15", "--seed", "1", "--out", "plain"]);
    assert_ne!(tensors("plain"), tensors("alone"));
    let shapes: serde_json::Value = serde_json::from_str(&scratch.harmonia_ok(&["shapes", "bag", "--json"])).unwrap();
    for one in shapes["features"].as_array().unwrap() {
        let band = one["bands"]["by_class"].as_object().unwrap().values().next().unwrap();
        let ends = |name: &str| -> Vec<f64> {
            band[name].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
        };
        let (low, mean, high) = (ends("low"), ends("mean"), ends("high"));
        assert!(low.iter().zip(&mean).zip(&high).all(|((low, mean), high)| low <= mean && mean <= high), "{one}");
        assert!(low.iter().zip(&high).any(|(low, high)| high > low), "{one}");
    }
}

#[test]
fn weights_move_with_their_nodes() {
    let scratch = Scratch::new();
    tables(&scratch, "raw", &customers(None));
    let convert = ["data", "convert", "raw", "--format", "table", "--weights", "w"];
    scratch.harmonia_ok(&[&convert[..], &["--out", "plain"]].concat());
    scratch.harmonia_ok(&[&convert[..], &["--out", "moved", "--reorder=bfs"]].concat());
    let [plain, moved] = ["plain", "moved"].map(|name| harmonia::store::read(&scratch.path(name)).unwrap());
    let weights = |dataset: &Dataset| dataset.weights.clone().unwrap().values;
    assert_ne!(weights(&plain), weights(&moved));
    let back: Vec<f32> = (0..60).map(|i| weights(&plain)[moved.original_id(i)]).collect();
    assert_eq!(weights(&moved), back);
}

#[test]
fn what_is_no_weight_is_refused() {
    let scratch = Scratch::new();
    tables(&scratch, "raw", &customers(None));
    for (name, bad) in [("zero", "0"), ("negative", "-1"), ("nan", "nan"), ("empty", ""), ("word", "heavy")] {
        tables(&scratch, name, &customers(Some(bad)));
        let convert = ["data", "convert", name, "--format", "table", "--out", "store", "--weights", "w"];
        scratch.refused("harmonia", &convert, &["nodes.csv: line 9: column `w`: expected a weight"]);
    }
    let convert = ["data", "convert", "raw", "--format", "table", "--out", "store"];
    scratch.refused("harmonia", &[&convert[..], &["--weights", "weigth"]].concat(), &["expected a column `weigth`"]);
    scratch.harmonia_ok(&convert);
    let train = ["--dataset", "store", "--epochs", "1", "--class-weights"];
    scratch.refused("harmonia-train", &[&train[..], &["balancd"]].concat(), &["expected balanced, none, or a file"]);
    for (text, expected) in [
        ("yes,0\n", "line 1: expected CLASS,WEIGHT with a weight above 0"),
        ("maybe,2\n", "names a class `maybe`; expected no, yes"),
        ("yes,2\nyes,3\n", "names class `yes` twice"),
    ] {
        scratch.write("weights.csv", text);
        scratch.refused("harmonia-train", &[&train[..], &["weights.csv"]].concat(), &[expected]);
    }
    let numbers =
        ["data", "convert", "raw", "--format", "table", "--out", "numbers", "--regression", "--column", "label=age"];
    scratch.harmonia_ok(&numbers);
    let train = ["--dataset", "numbers", "--epochs", "1", "--class-weights", "balanced"];
    scratch.refused("harmonia-train", &train, &["this dataset has numbers to be fitted"]);
}
