//! Structural features from the settings to the report, by the real binaries.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::FittedModel;
use harmonia::dataset::{Dataset, Features, Labels, Level};
use harmonia::graph::{Direction, Graph, Split};
use program::Scratch;
use serde_json::Value;

/// Graphs whose label says whether the atoms C in them have three neighbours (stars) or two (rings); one kind of atom
/// more, which says nothing.
fn stars_and_rings(graphs: usize, first: usize) -> Dataset {
    let (mut edges, mut graph_ptr, mut x, mut ids) = (Vec::new(), vec![0], Vec::new(), Vec::new());
    for graph in 0..graphs {
        let (start, label) = (*graph_ptr.last().unwrap() as u32, (graph / 2) % 2);
        // A star of three leaves, or a ring of four.
        match label {
            0 => edges.extend((1..4).map(|leaf| (start, start + leaf))),
            _ => edges.extend((0..4).map(|i| (start + i, start + (i + 1) % 4))),
        }
        for node in 0..4 {
            let kind = if node == 0 { 0 } else { (graph + first) % 2 };
            x.extend([f32::from(u8::from(kind == 0)), f32::from(u8::from(kind == 1))]);
        }
        graph_ptr.push(start as usize + 4);
        ids.push(label as u32);
    }
    let nodes = *graph_ptr.last().unwrap();
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
    let features = Features::new(nodes, 2, x).unwrap();
    let labels = Labels::Classes { ids, classes: 2 };
    let mut dataset =
        Dataset::new("shapes", graph, graph_ptr, features, labels, Level::Graph, Split::default()).unwrap();
    dataset.feature_names = vec!["C".into(), "N".into()];
    dataset
}

const TRAIN: [&str; 10] =
    ["--dataset", "shapes", "--epochs", "60", "--set", "train.learning_rate=3e-2", "--recipe", "paper", "--out", "run"];

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn labels_by_degree_go_from_training_to_the_report() {
    let scratch = Scratch::new();
    harmonia::store::write(&stars_and_rings(40, 0), &scratch.path("shapes")).unwrap();
    harmonia::store::write(&stars_and_rings(12, 1), &scratch.path("others")).unwrap();
    let set = ["--set", "data.structure=label-by-degree,returns", "--json"];
    let outcome = json(&scratch.train_ok(&[&TRAIN[..], &set].concat()));
    assert_eq!(outcome["test"]["accuracy"]["mean"], 1.0, "degrees are the label: {}", outcome["test"]);
    let config = std::fs::read_to_string(scratch.path("run/config.toml")).unwrap();
    assert!(config.contains("structure = [\"label-by-degree\", \"returns\"]"), "{config}");

    // The model takes features without these columns, or with them.
    let model = FittedModel::load(&scratch.path("run/best.safetensors")).unwrap();
    let dataset = harmonia::store::read(&scratch.path("shapes")).unwrap();
    let appended = model.structure.as_ref().unwrap().append(&dataset).unwrap();
    let logits = model.logits(&dataset).unwrap();
    assert_eq!(logits, model.logits(&appended).unwrap());
    // C and N at 1, 2 and 3 neighbours, without N at 3, which is never in the middle of a star.
    assert_eq!(
        appended.feature_names[2..],
        [
            "C with 1 neighbour",
            "C with 2 neighbours",
            "C with 3 neighbours",
            "N with 1 neighbour",
            "N with 2 neighbours",
            "returns in 2 steps",
            "returns in 3 steps",
            "returns in 4 steps"
        ]
    );
    // A copy of the model says the same.
    model.save(&scratch.path("copy.safetensors")).unwrap();
    assert_eq!(FittedModel::load(&scratch.path("copy.safetensors")).unwrap().logits(&dataset).unwrap(), logits);

    // What is predicted on the data of the run, and on other data.
    scratch.harmonia_ok(&["predict", "run", "--out", "all.csv"]);
    let rows = std::fs::read_to_string(scratch.path("all.csv")).unwrap();
    let probability = |row: &str| row.rsplit(',').next().unwrap().parse::<f64>().unwrap();
    for (row, logit) in rows.lines().skip(1).zip(&logits) {
        assert!((probability(row) - 1.0 / (1.0 + f64::from(-logit).exp())).abs() < 1e-5, "{row} {logit}");
    }
    let found = json(&scratch.harmonia_ok(&["predict", "run", "--store", "others", "--out", "others.csv", "--json"]));
    assert_eq!((&found["units"], &found["accuracy"]), (&12.into(), &1.0.into()));

    // Explanations name the columns, and still add up.
    let explained = json(&scratch.harmonia_ok(&["explain", "run", "--graph", "0", "--top", "0", "--json"]));
    assert!(explained["residual"].as_f64().unwrap() < 1e-4, "{explained}");
    let names: Vec<&str> =
        explained["contributions"].as_array().unwrap().iter().map(|term| term["feature"].as_str().unwrap()).collect();
    assert!(names.contains(&"C with 3 neighbours") && names.contains(&"returns in 4 steps"), "{names:?}");
    scratch.harmonia_ok(&["shapes", "run", "--feature", "C with 3 neighbours", "--out", "shapes.csv"]);
    assert!(scratch.harmonia_ok(&["explain", "run", "--global", "--top", "0"]).contains("C with 2 neighbours"));
    assert!(scratch.harmonia_ok(&["diagnose", "run", "--json"]).contains("C with 3 neighbours"));
    scratch.harmonia_ok(&["report", "run", "--graph", "0"]);
    assert!(std::fs::read_to_string(scratch.path("run/report.html")).unwrap().contains("C with 3 neighbours"));
    scratch.harmonia_ok(&["remove-retrain", "run", "--fraction", "0.3"]);

    // Features of a node can be others; an edge cannot go while its degrees stay.
    scratch.harmonia_ok(&["intervene", "run", "--graph", "0", "--mean-node", "1"]);
    let edge = ["intervene", "run", "--graph", "0", "--drop-edge", "0-1"];
    scratch.refused("harmonia", &edge, &["structural features (label-by-degree, returns)", "edge"]);
}

/// Every fold sees the same columns, standardised by its own training graphs, and a run that is opened again too.
#[test]
fn folds_and_standardising_go_with_structure() {
    let scratch = Scratch::new();
    harmonia::store::write(&stars_and_rings(24, 0), &scratch.path("shapes")).unwrap();
    scratch.write("settings.toml", "[data]\nstructure = [\"degree\", \"bias\"]\nnormalise = \"standardise\"\n");
    let more = ["--config", "settings.toml", "--folds", "3", "--set", "walk.lazy=true"];
    scratch.train_ok(&[&TRAIN[..], &more].concat());
    let dataset = harmonia::store::read(&scratch.path("shapes")).unwrap();
    for fold in 0..3 {
        let model = FittedModel::load(&scratch.path(&format!("run/fold-{fold}/best.safetensors"))).unwrap();
        assert_eq!(model.layout.architecture.features, 4);
        assert_eq!(model.predict(&dataset).unwrap().len(), 24);
    }
    let text = scratch.harmonia_ok(&["explain", "run", "--global", "--top", "0"]);
    assert!(text.contains("degree") && text.contains("one per node"), "{text}");
    // A bias alone does not depend on edges.
    let bias = ["--dataset", "shapes", "--epochs", "2", "--set", "data.structure=bias", "--out", "bias"];
    scratch.train_ok(&bias);
    scratch.harmonia_ok(&["intervene", "bias", "--graph", "0", "--drop-edge", "0-1"]);
}

#[test]
fn words_that_do_not_exist_are_refused() {
    let scratch = Scratch::new();
    harmonia::store::write(&stars_and_rings(24, 0), &scratch.path("shapes")).unwrap();
    let refused = |set: &str, expected: &[&str]| {
        scratch.refused("harmonia-train", &["--dataset", "shapes", "--set", set], expected);
    };
    refused(
        "data.structure=degre,bias",
        &["no structural feature `degre`", "did you mean `degree`?", "label-by-degree", "data.structure"],
    );
    refused("data.structure=[\"degree\", \"log_degree\"]", &["`log_degree`", "did you mean `log-degree`?"]);
    refused("data.structure=3", &["words", "data.structure"]);
    refused("data.structure=degree,degree", &["data.structure", "degree twice"]);
    // Nothing is nothing.
    for none in ["data.structure=", "data.structure=[]"] {
        let shown = json(&scratch.train_ok(&["--dataset", "shapes", "--set", none, "--dry-run", "--json"]));
        assert_eq!(shown["config"]["data"]["structure"], serde_json::json!([]));
    }
    let shown = scratch.train_ok(&["--dataset", "shapes", "--set", "data.structure=[degree, bias]", "--dry-run"]);
    assert!(shown.contains("4 features"), "{shown}");
}

/// What a model without these columns says about itself is as before.
#[test]
fn a_model_without_structure_does_not_speak_of_it() {
    let scratch = Scratch::new();
    harmonia::store::write(&program::small_dataset(), &scratch.path("ring")).unwrap();
    scratch.train_ok(&["--dataset", "ring", "--epochs", "2", "--out", "run"]);
    let bytes = std::fs::read(scratch.path("run/best.safetensors")).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("structure"));
}
