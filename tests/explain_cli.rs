//! The commands that read a run, as a user meets them: output, JSON, files, and bad input (one clear message, exit code 2).

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::dataset::{Dataset, Features, Labels, Level};
use harmonia::graph::{Direction, Graph, Split};
use harmonia::store;
use program::Scratch;
use serde_json::Value;

const QUICK: [&str; 6] = ["--epochs", "3", "--set", "model.hidden=[4]", "--set", "init.readout_scale=1"];
/// The engine's logits are f32; a few hundred terms.
const ROUNDING: f64 = 1e-4;

/// Six named nodes in two triangles, an edge between them; names that need care.
fn named() -> Dataset {
    let edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)];
    let graph = Graph::from_edges(6, &edges, None, Direction::Undirected).unwrap();
    let x = vec![0.0, 1.0, 0.5, -1.0, 1.0, 2.0, -0.5, 0.0, 0.3, 0.1, -2.0, 1.5];
    let labels = Labels::Classes { ids: vec![0, 0, 1, 1, 2, 2], classes: 3 };
    let split = Split { train: vec![0, 2, 4], valid: vec![1], test: vec![3, 5] };
    let mut dataset = Dataset::nodes("named", graph, Features::new(6, 2, x).unwrap(), labels, split).unwrap();
    dataset.feature_names = vec!["<script>alert(1)</script>".into(), "a, \"b\"".into()];
    dataset.class_names = ["low", "middle", "high"].map(String::from).to_vec();
    dataset.node_names = ["ann", "ben", "c-3", "dora", "emil", "fay"].map(String::from).to_vec();
    dataset
}

fn graphs() -> Dataset {
    let graph = Graph::from_edges(7, &[(0, 1), (2, 3), (3, 4), (5, 6)], None, Direction::Undirected).unwrap();
    let x = (0..14).map(|at| (at % 5) as f32 - 2.0).collect();
    let labels = Labels::Classes { ids: vec![0, 1, 0], classes: 2 };
    let split = Split { train: vec![0, 1], valid: vec![2], test: vec![2] };
    let split = Split { test: vec![], ..split };
    Dataset::new("pairs", graph, vec![0, 2, 5, 7], Features::new(7, 2, x).unwrap(), labels, Level::Graph, split)
        .unwrap()
}

fn trained(scratch: &Scratch, dataset: &Dataset, more: &[&str]) {
    store::write(dataset, &scratch.path("store")).unwrap();
    let arguments: Vec<&str> =
        QUICK.iter().chain(&["--dataset", "store", "--out", "run"]).chain(more).copied().collect();
    scratch.train_ok(&arguments);
}

fn json(scratch: &Scratch, arguments: &[&str]) -> Value {
    let all: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&scratch.harmonia_ok(&all)).unwrap()
}

fn refused(scratch: &Scratch, arguments: &[&str], part: &str) {
    scratch.refused("harmonia", arguments, &[part]);
}

#[test]
fn a_local_explanation_has_the_promised_keys_and_adds_up() {
    let scratch = Scratch::new();
    trained(&scratch, &named(), &[]);
    for (by, keys) in [
        ("feature", vec!["feature"]),
        ("node", vec!["node"]),
        ("hop", vec!["hop"]),
        ("feature,hop", vec!["feature", "hop"]),
        ("feature,node,hop", vec!["feature", "node", "hop"]),
    ] {
        for extra in [&[][..], &["--class", "low"], &["--class", "high", "--versus", "low"], &["--centre", "none"]] {
            let arguments: Vec<&str> =
                ["explain", "run", "--node", "c-3", "--by", by, "--top", "2"].iter().chain(extra).copied().collect();
            let found = json(&scratch, &arguments);
            let number = |key: &str| found[key].as_f64().unwrap();
            assert_eq!((&found["target"], &found["name"]), (&2.into(), &"c-3".into()));
            assert!(["low", "middle", "high"].contains(&found["class"].as_str().unwrap()));
            let contributions = found["contributions"].as_array().unwrap();
            assert!(!contributions.is_empty() && contributions.len() <= 2);
            for contribution in contributions {
                for key in ["feature", "node", "hop"] {
                    assert_eq!(contribution.get(key).is_some(), keys.contains(&key), "{by} {contribution}");
                }
            }
            let sum: f64 = contributions.iter().map(|term| term["value"].as_f64().unwrap()).sum();
            let whole = number("intercept") + sum + number("rest");
            assert!((whole - number("logit")).abs() < ROUNDING && number("residual") < ROUNDING, "{found}");
        }
    }
    let raw = json(&scratch, &["explain", "run", "--node", "0", "--centre", "none"]);
    assert_eq!(raw["intercept"], raw["beta"]);
    let text = scratch.harmonia_ok(&["explain", "run", "--node", "ann"]);
    for part in ["node 0 (ann)", "(intercept)", "= logit of", "residual", "centred at their mean"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    // The predicted class of an explanation is that of `predict`.
    scratch.harmonia_ok(&["predict", "run", "--out", "p.csv"]);
    let csv = std::fs::read_to_string(scratch.path("p.csv")).unwrap();
    assert!(csv.starts_with("node,name,split,label,prediction,p(low),p(middle),p(high)\n"), "{csv}");
    for (node, line) in csv.lines().skip(1).enumerate() {
        let fields: Vec<&str> = line.split(',').collect();
        let found = json(&scratch, &["explain", "run", "--node", fields[1]]);
        assert_eq!((fields[0].parse::<usize>().unwrap(), &found["predicted"]), (node, &fields[4].into()));
    }
}

#[test]
fn graph_tasks_are_explained_by_graph() {
    let scratch = Scratch::new();
    trained(&scratch, &graphs(), &[]);
    let found = json(&scratch, &["explain", "run", "--graph", "1", "--by", "node,feature", "--top", "0"]);
    assert_eq!((&found["level"], found["contributions"].as_array().unwrap().len()), (&"graph".into(), 6));
    let negative = json(&scratch, &["explain", "run", "--graph", "1", "--class", "class 0"]);
    let positive = json(&scratch, &["explain", "run", "--graph", "1", "--class", "class 1"]);
    assert_eq!(negative["logit"].as_f64().unwrap(), -positive["logit"].as_f64().unwrap());
    refused(&scratch, &["explain", "run", "--node", "1"], "use --graph");
    refused(&scratch, &["explain", "run", "--graph", "3"], "graphs 0 to 2");
    let changed = json(&scratch, &["intervene", "run", "--graph", "1", "--drop-edge", "2-3"]);
    assert!(changed["change"].as_f64().unwrap() != 0.0);
    scratch.harmonia_ok(&["report", "run", "--graph", "1"]);
}

#[test]
fn global_shapes_and_stability_of_several_seeds() {
    let scratch = Scratch::new();
    trained(&scratch, &named(), &["--seeds", "2", "--recipe", "paper"]);
    let found = json(&scratch, &["explain", "run", "--global", "--top", "0"]);
    let features = found["features"].as_array().unwrap();
    assert_eq!(features.len(), 2);
    let importance = |at: usize| features[at]["importance"].as_f64().unwrap();
    assert!(importance(0) >= importance(1) && importance(1) > 0.0);
    assert!(found["stability"]["mean_pairwise_spearman"].as_f64().unwrap().abs() <= 1.0);
    let hops: f64 = features[0]["hop_weights"].as_array().unwrap().iter().map(|w| w.as_f64().unwrap()).sum();
    assert!((hops - 1.0).abs() < 1e-9);
    let shapes = json(&scratch, &["shapes", "run"]);
    let first = &shapes["features"][0];
    assert_eq!(first["feature"], "<script>alert(1)</script>");
    let band = &first["bands"]["by_class"]["low"];
    for at in 0..band["mean"].as_array().unwrap().len() {
        let [low, mean, high] = ["low", "mean", "high"].map(|key| band[key][at].as_f64().unwrap());
        assert!(low <= mean + 1e-12 && mean <= high + 1e-12);
    }
    for file in ["s.csv", "s.json", "s.svg"] {
        scratch.harmonia_ok(&["shapes", "run", "--out", file]);
        assert!(std::fs::metadata(scratch.path(file)).unwrap().len() > 100);
    }
    let svg = std::fs::read_to_string(scratch.path("s.svg")).unwrap();
    assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;"));
    let csv = std::fs::read_to_string(scratch.path("s.csv")).unwrap();
    assert!(csv.contains("\"a, \"\"b\"\"\","), "{csv}");
    // The page of several seeds, with names that act as markup elsewhere.
    scratch.harmonia_ok(&["report", "run", "--node", "dora"]);
    let page = std::fs::read_to_string(scratch.path("run/report.html")).unwrap();
    assert!(!page.contains("<script>alert"));
    let text = scratch.harmonia_ok(&["remove-retrain", "run", "--fraction", "0.5"]);
    for part in ["top", "bottom", "random", "change", "(a constant)"] {
        assert!(text.contains(part), "{text}");
    }
    let removed: Value =
        serde_json::from_str(&std::fs::read_to_string(scratch.path("run/remove-retrain.json")).unwrap()).unwrap();
    assert_eq!(removed["runs"].as_array().unwrap().len(), 6);
    let of = |which: &str| {
        let runs = removed["runs"].as_array().unwrap();
        runs.iter().find(|run| run["which"] == which).unwrap()["removed"].clone()
    };
    assert_ne!(of("top"), of("bottom"));
    assert!(std::fs::read_to_string(scratch.path("run/remove-retrain.svg")).unwrap().contains("</svg>"));
}

#[test]
fn interventions_say_what_changes() {
    let scratch = Scratch::new();
    trained(&scratch, &named(), &[]);
    let found = json(&scratch, &["intervene", "run", "--node", "c-3", "--drop-edge", "c-3-dora"]);
    let number = |key: &str| found[key].as_f64().unwrap();
    assert!((number("after") - number("before") - number("change")).abs() < 1e-12);
    let by_feature: f64 = found["contributions"].as_array().unwrap().iter().map(|c| c["value"].as_f64().unwrap()).sum();
    assert!((by_feature + number("rest") - number("change")).abs() < 1e-12);
    assert!(number("change") != 0.0 && number("residual") < ROUNDING);
    // What the node does not see does not change it.
    let far = json(&scratch, &["intervene", "run", "--node", "ann", "--mean-node", "fay"]);
    assert!(far["change"].as_f64().unwrap().is_finite());
    let text = scratch.harmonia_ok(&["intervene", "run", "--node", "ann", "--mean-node", "ben"]);
    assert!(text.contains("node ben at the training mean") && text.contains("before"), "{text}");
    refused(&scratch, &["intervene", "run", "--node", "ann", "--drop-edge", "ann-fay"], "no edge ann-fay");
    refused(&scratch, &["intervene", "run", "--node", "ann", "--drop-edge", "ann"], "expected two nodes");
    refused(&scratch, &["intervene", "run", "--node", "ann"], "required");
}

#[test]
fn bad_input_is_one_clear_error() {
    let scratch = Scratch::new();
    trained(&scratch, &named(), &[]);
    refused(&scratch, &["explain", "nowhere", "--node", "1"], "is not a run directory");
    refused(&scratch, &["explain", "store", "--node", "1"], "holds no trained model");
    refused(&scratch, &["explain", "run", "--node", "dorra"], "did you mean `dora`");
    refused(&scratch, &["explain", "run", "--node", "6"], "nodes are 0 to 5");
    refused(&scratch, &["explain", "run", "--node", "0", "--class", "hihg"], "did you mean `high`");
    refused(&scratch, &["explain", "run", "--node", "0", "--by", "features"], "features");
    refused(&scratch, &["explain", "run"], "--node");
    refused(&scratch, &["explain", "run", "--graph", "0"], "use --node");
    refused(&scratch, &["shapes", "run", "--feature", "nothing"], "there is no feature `nothing`");
    refused(&scratch, &["shapes", "run", "--out", "s.png"], ".csv, .json or .svg");
    refused(&scratch, &["remove-retrain", "run", "--fraction", "1.5"], "--fraction 1.5");
    refused(&scratch, &["predict", "run", "--store", "nowhere", "--out", "p.csv"], "nowhere");
    assert!(!scratch.path("p.csv").exists());
    // Other data must have the same features.
    let mut other = named();
    other.features = std::sync::Arc::new(other.features.columns(&[0]));
    other.feature_names.truncate(1);
    store::write(&other, &scratch.path("other")).unwrap();
    refused(&scratch, &["predict", "run", "--store", "other", "--out", "p.csv"], "reads 2 features");
    // A damaged model, and damaged means.
    std::fs::write(scratch.path("run/centres.npy"), b"no array").unwrap();
    refused(&scratch, &["explain", "run", "--node", "0"], "centres.npy");
    let model = std::fs::read(scratch.path("run/best.safetensors")).unwrap();
    std::fs::write(scratch.path("run/best.safetensors"), &model[..model.len() / 2]).unwrap();
    refused(&scratch, &["explain", "run", "--node", "0"], "best.safetensors");
}

#[test]
fn predictions_for_other_data_are_the_models_own() {
    let scratch = Scratch::new();
    trained(&scratch, &named(), &["--normalise", "standardise"]);
    store::write(&named(), &scratch.path("same")).unwrap();
    scratch.harmonia_ok(&["predict", "run", "--out", "a.csv"]);
    let said = json(&scratch, &["predict", "run", "--store", "same", "--out", "b.csv"]);
    assert_eq!(said["units"], 6);
    let read = |name| std::fs::read_to_string(scratch.path(name)).unwrap();
    assert_eq!(read("a.csv"), read("b.csv"));
    // Knots of a standardised feature are in its own units.
    let shapes = json(&scratch, &["shapes", "run", "--feature", "1"]);
    let range = shapes["features"][0]["range"].as_array().unwrap();
    assert!((range[0].as_f64().unwrap() + 1.0).abs() < 1e-5 && (range[1].as_f64().unwrap() - 2.0).abs() < 1e-5);
}

#[test]
fn labels_of_other_data_keep_their_names_and_columns_go_by_theirs() {
    let scratch = Scratch::new();
    trained(&scratch, &named(), &[]);
    scratch.harmonia_ok(&["predict", "run", "--out", "own.csv"]);
    // Other classes under the same numbers: nothing can be right or wrong.
    let mut other = named();
    other.class_names = ["high", "huge", "low"].map(String::from).to_vec();
    // The same columns in another order, and a node without a label.
    other.features = std::sync::Arc::new(other.features.columns(&[1, 0]));
    other.feature_names.reverse();
    if let Labels::Classes { ids, .. } = &mut other.labels {
        ids[1] = harmonia::dataset::UNLABELLED;
    }
    (other.split, other.own_splits) = (Split::default(), Vec::new());
    store::write(&other, &scratch.path("other")).unwrap();
    let said = json(&scratch, &["predict", "run", "--store", "other", "--out", "other.csv"]);
    assert_eq!((&said["labelled"], &said["accuracy"]), (&0.into(), &Value::Null));
    let columns = |name: &str| -> Vec<(String, Vec<String>)> {
        let text = std::fs::read_to_string(scratch.path(name)).unwrap();
        let lines = text.lines().skip(1).map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
        lines.map(|fields| (fields[3].clone(), fields[4..].to_vec())).collect()
    };
    let (own, found) = (columns("own.csv"), columns("other.csv"));
    assert_eq!(
        found.iter().map(|(label, _)| label.as_str()).collect::<Vec<_>>(),
        ["high", "", "huge", "huge", "low", "low"]
    );
    // The walk and the numbers are the same, so the predictions are.
    for ((_, own), (_, found)) in own.iter().zip(&found) {
        assert_eq!(own, found);
    }
    let all = json(&scratch, &["predict", "run", "--out", "own.csv"]);
    assert!(all["accuracy_by_split"]["test"].is_f64() && all["labelled"] == 6);
    // Beside what is right stands what always the most frequent class would get: one of the two that test, two of all six.
    assert_eq!((&all["majority_by_split"]["test"], all["majority"].as_f64()), (&0.5.into(), Some(1.0 / 3.0)));
    let text = scratch.harmonia_ok(&["predict", "run", "--out", "own.csv"]);
    assert!(text.contains("right, of 2 test") && text.contains("always the most frequent class: 50.00 %"), "{text}");
}

#[test]
fn a_directed_edge_goes_as_it_is_stored() {
    let scratch = Scratch::new();
    let mut dataset = named();
    // ann reads from ben, ben from nobody.
    dataset.graph = Graph::from_edges(6, &[(0, 1)], None, Direction::Directed).unwrap();
    trained(&scratch, &dataset, &[]);
    let change = json(&scratch, &["intervene", "run", "--node", "ann", "--drop-edge", "ann-ben"]);
    assert!(change["change"].as_f64().unwrap() != 0.0);
    refused(&scratch, &["intervene", "run", "--node", "ann", "--drop-edge", "ben-ann"], "--drop-edge ann-ben");
    refused(&scratch, &["intervene", "run", "--node", "ann", "--drop-edge", "c-3-dorra"], "did you mean `dora`");
    refused(&scratch, &["explain", "run", "--node", "ann", "--split", "test"], "--split");
    refused(&scratch, &["report", "run", "--out", "nowhere/page.html"], "there is no directory nowhere");
}

#[test]
fn a_session_with_a_seed_that_was_not_begun_is_read() {
    let scratch = Scratch::new();
    trained(&scratch, &named(), &["--seeds", "2"]);
    std::fs::create_dir(scratch.path("run/seed-2")).unwrap();
    assert_eq!(json(&scratch, &["explain", "run", "--global"])["stability"]["runs"].as_array().unwrap().len(), 2);
    std::fs::write(scratch.path("run/seed-0/summary.json"), "{").unwrap();
    refused(&scratch, &["explain", "run", "--node", "0"], "summary.json: is not a run summary");
}

#[test]
fn results_go_through_links_pipes_and_standard_output() {
    let scratch = Scratch::new();
    trained(&scratch, &named(), &[]);
    scratch.harmonia_ok(&["predict", "run", "--out", "p.csv"]);
    let file = std::fs::read_to_string(scratch.path("p.csv")).unwrap();
    for out in ["-", "/dev/stdout"] {
        assert_eq!(scratch.harmonia_ok(&["predict", "run", "--out", out]), file);
    }
    // A redirected standard output is not replaced by another file.
    let redirected = std::fs::File::create(scratch.path("redirected")).unwrap();
    let mut command = scratch.command("harmonia", &["predict", "run", "--out", "/dev/stdout"]);
    assert!(command.stdout(redirected).status().unwrap().success());
    assert_eq!(std::fs::read_to_string(scratch.path("redirected")).unwrap(), file);
    assert!(scratch.harmonia_ok(&["shapes", "run", "--out", "-"]).starts_with("feature,x,f,slope_right,adds("));
    assert!(scratch.harmonia_ok(&["report", "run", "--quick", "--out", "-"]).starts_with("<!"));
    scratch.harmonia_ok(&["predict", "run", "--out", "/dev/null"]);
    #[cfg(unix)]
    {
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
        std::os::unix::fs::symlink("p.csv", scratch.path("link.csv")).unwrap();
        std::fs::write(scratch.path("p.csv"), "old").unwrap();
        scratch.harmonia_ok(&["predict", "run", "--out", "link.csv"]);
        assert!(scratch.path("link.csv").is_symlink());
        assert_eq!(std::fs::read_to_string(scratch.path("p.csv")).unwrap(), file);
    }
    refused(&scratch, &["predict", "run", "--out", "-", "--json"], "both write to standard output");
}

#[test]
fn an_unknown_ending_is_refused_before_work() {
    let scratch = Scratch::new();
    // There is no run: the name of the file is looked at first.
    for (arguments, endings) in [
        (&["predict", "run", "--out", "p.xlsx"][..], "ends in .csv, .jsonl or .parquet"),
        (&["explain", "run", "--out", "e.xlsx"], "ends in .csv, .jsonl or .parquet"),
        (&["shapes", "run", "--out", "s.pdf"], "ends in .csv, .json or .svg"),
        (&["shapes", "run", "--out", "s"], "ends in .csv, .json or .svg"),
        (&["report", "run", "--out", "r.pdf"], "ends in .html"),
        (&["remove-retrain", "run", "--plot", "r.png"], "ends in .svg"),
    ] {
        refused(&scratch, arguments, endings);
    }
}

#[test]
fn means_of_another_model_are_not_used() {
    let scratch = Scratch::new();
    trained(&scratch, &named(), &["--seeds", "2"]);
    let raw = |run: &str| scratch.harmonia_ok(&["explain", run, "--node", "ann", "--json"]);
    let (own, other) = (raw("run/seed-0"), raw("run/seed-1"));
    assert_ne!(own, other);
    let copy = |file: &str| {
        std::fs::copy(scratch.path(&format!("run/seed-1/{file}")), scratch.path(&format!("run/seed-0/{file}"))).unwrap()
    };
    let model = std::fs::read(scratch.path("run/seed-0/best.safetensors")).unwrap();
    // A run of an earlier version says nothing about its means: they are computed anew.
    let origin = std::fs::read(scratch.path("run/seed-0/centres.json")).unwrap();
    std::fs::remove_file(scratch.path("run/seed-0/centres.json")).unwrap();
    assert_eq!(raw("run/seed-0"), own);
    std::fs::write(scratch.path("run/seed-0/centres.json"), &origin).unwrap();
    // Another model of the same sizes does not get the means of the first.
    copy("best.safetensors");
    assert_eq!(raw("run/seed-0"), other);
    std::fs::write(scratch.path("run/seed-0/best.safetensors"), model).unwrap();
    assert_eq!(raw("run/seed-0"), own);
    // Nor are means of another model taken for those of this one.
    copy("centres.npy");
    refused(&scratch, &["explain", "run/seed-0", "--node", "ann"], "is not the one that training left");
}
