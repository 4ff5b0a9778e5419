//! Numbers to be fitted, from a table or a generator to a prediction that can be read: everything in the units of the
//! target.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::config::Config;
use harmonia::dataset::{Dataset, Features, Labels};
use harmonia::device::Machine;
use harmonia::explain::{By, Case, Edit, Factors, Score, Target};
use harmonia::graph::{Direction, Graph, Split};
use harmonia::{Stop, store};
use program::Scratch;
use serde_json::Value;

/// A ring whose targets are a known function of the neighbours' feature, far from 0 and 1, and a second one.
fn ring() -> Dataset {
    let n = 120u32;
    let edges: Vec<(u32, u32)> = (0..n).map(|i| (i, (i + 1) % n)).collect();
    let graph = Graph::from_edges(n as usize, &edges, None, Direction::Undirected).unwrap();
    let x = |i: u32| ((i % n) as f32 * 0.9).sin();
    let values = (0..n).flat_map(|i| [1000.0 + 50.0 * (x(i + 1) + x(i + n - 1)), 0.01 * x(i)]).collect();
    let split = Split { train: (0..80).collect(), valid: (80..100).collect(), test: (100..120).collect() };
    let features = Features::new(n as usize, 1, (0..n).map(x).collect()).unwrap();
    Dataset::nodes("ring", graph, features, Labels::Values { values, width: 2 }, split).unwrap()
}

#[test]
fn a_fitted_model_speaks_in_the_units_of_its_targets() {
    let dataset = ring();
    let mut config = Config::default();
    (config.train.learning_rate, config.train.epochs) = (2e-2, 300);
    let machine = Machine::open("cpu", config.engine).unwrap();
    let model = harmonia::fit(&dataset, &config, &machine, &Stop::new()).unwrap();
    let predicted = model.logits(&dataset).unwrap();
    for output in 0..2 {
        let truth: Vec<f64> = (100..120).map(|unit| f64::from(dataset.labels.values(unit)[output])).collect();
        let mean = truth.iter().sum::<f64>() / 20.0;
        let error = |unit: usize| (f64::from(predicted[(100 + unit) * 2 + output]) - truth[unit]).powi(2);
        let residual: f64 = (0..20).map(error).sum();
        let spread: f64 = truth.iter().map(|value| (value - mean).powi(2)).sum();
        assert!(residual < 0.1 * spread, "output {output}: {residual} of {spread} is left");
    }
    assert!(model.probabilities(&dataset).is_err() && model.predict(&dataset).is_err());

    let factors = Factors::of(&model).unwrap();
    let case = Case::new(&model, &factors, &dataset, Target::Node(7), &Edit::default()).unwrap();
    let by = By { feature: true, node: true, hop: true };
    let found = case.explain(Score { output: 0, versus: None, sign: 1.0 }, by, 100, &[0.0]).unwrap();
    let sum: f64 = found.intercept + found.rest + found.terms.iter().map(|term| term.value).sum::<f64>();
    assert!((sum - f64::from(predicted[14])).abs() < 1e-2, "{sum} {}", predicted[14]);
    assert!((sum - f64::from(dataset.labels.values(7)[0])).abs() < 50.0);
}

#[test]
fn numbers_survive_a_store() {
    let scratch = Scratch::new();
    let mut dataset = ring();
    if let Labels::Values { values, .. } = &mut dataset.labels {
        values[2 * 110] = f32::NAN;
    }
    dataset.split.test.retain(|&unit| unit != 110);
    dataset.own_splits = vec![dataset.split.clone()];
    store::write(&dataset, &scratch.path("s")).unwrap();
    let read = store::read(&scratch.path("s")).unwrap();
    assert!(read.labels.is_values() && !read.labels.is_labelled(110) && read.labels.is_labelled(111));
    for unit in (0..120).filter(|&unit| unit != 110) {
        assert_eq!(read.labels.values(unit), dataset.labels.values(unit));
    }
    let info = scratch.harmonia_ok(&["data", "info", "s", "--json"]);
    assert!(serde_json::from_str::<Value>(&info).is_ok(), "{info}");
    scratch.refused(
        "harmonia-train",
        &["--dataset", "s", "--set", "train.loss=softmax"],
        &["train.loss is softmax", "squared"],
    );
}

#[test]
fn a_generated_regression_is_learned_explained_and_predicted() {
    let scratch = Scratch::new();
    let said = scratch.harmonia_ok(&[
        "data",
        "generate",
        "--like",
        "tolokers",
        "--scale",
        "0.1",
        "--regression",
        "--out",
        "g",
    ]);
    assert!(said.contains("1 target") && said.contains("R2 of 0.85"), "{said}");
    let arguments = [
        "--dataset",
        "g",
        "--out",
        "run",
        "--json",
        "--epochs",
        "80",
        "--set",
        "train.learning_rate=2e-2",
        "--normalise",
        "standardise",
        "--set",
        "train.metric=r2",
    ];
    let output = scratch.train(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let test = |name: &str| found["test"][name]["mean"].as_f64().unwrap();
    // The teacher has 0.85; a constant has 0.
    assert!(test("r2") > 0.4, "{}", found["test"]);
    // The targets have a deviation of 12.
    assert!(test("rmse") > 3.0 && test("rmse") < 12.0 && test("mae") < test("rmse"), "{}", found["test"]);
    assert!(found["test"].get("accuracy").is_none());

    let text = scratch.harmonia_ok(&["explain", "run", "--node", "3", "--top", "3"]);
    assert!(text.contains("= value of target") && !text.contains("probability"), "{text}");
    let json: Value = serde_json::from_str(&scratch.harmonia_ok(&["explain", "run", "--node", "3", "--json"])).unwrap();
    let value = json["logit"].as_f64().unwrap();
    assert!((0.0..100.0).contains(&value), "targets lie around 50: {value}");

    let said = scratch.harmonia_ok(&["predict", "run", "--out", "p.csv"]);
    assert!(said.contains("test") && said.contains("r2"), "{said}");
    let table = std::fs::read_to_string(scratch.path("p.csv")).unwrap();
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("node,name,split,label,prediction"));
    let cells: Vec<&str> = lines.nth(3).unwrap().split(',').collect();
    assert!((cells[4].parse::<f64>().unwrap() - value).abs() < 1e-3, "{cells:?} {value}");
    scratch.harmonia_ok(&["shapes", "run", "--out", "shapes.json"]);
    scratch.harmonia_ok(&["report", "run", "--quick"]);
    assert!(std::fs::read_to_string(scratch.path("run/report.html")).unwrap().contains("\"regression\":true"));
}

#[test]
fn a_table_of_numbers_is_fitted_and_a_word_among_them_is_refused() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("t")).unwrap();
    let row = |i: usize| {
        let label = if i % 7 == 3 { String::new() } else { format!("{:.2}", 20.0 + i as f64 / 3.0) };
        format!("n{i},{},{label}\n", i % 5)
    };
    let nodes: String = (0..40).map(row).collect();
    scratch.write("t/nodes.csv", format!("id,size,label\n{nodes}"));
    let edges: String = (0..39).map(|i| format!("n{i},n{}\n", i + 1)).collect();
    scratch.write("t/edges.csv", format!("source,target\n{edges}"));
    scratch.refused(
        "harmonia",
        &["data", "convert", "t", "--format", "table", "--out", "s"],
        &["hint: try --regression\n"],
    );
    let said = scratch.harmonia_ok(&["data", "convert", "t", "--format", "table", "--regression", "--out", "s"]);
    assert!(said.contains("1 target"), "{said}");
    let dataset = store::read(&scratch.path("s")).unwrap();
    assert_eq!(dataset.class_names, ["label"]);
    assert_eq!(dataset.labels.values(0), [20.0]);
    assert!(!dataset.labels.is_labelled(3));
    let output = scratch.train(&["--dataset", "s", "--epochs", "3", "--out", "run"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    // Several targets have a column each.
    let row = |i: usize| format!("{i},{},{},{}\n", i % 5, i * 2, i as f64 / 10.0);
    scratch.write("t/nodes.csv", format!("id,size,label:price,label:age\n{}", (0..40).map(row).collect::<String>()));
    let edges: String = (0..39).map(|i| format!("{i},{}\n", i + 1)).collect();
    scratch.write("t/edges.csv", format!("source,target\n{edges}"));
    scratch.harmonia_ok(&["data", "convert", "t", "--format", "table", "--regression", "--out", "two"]);
    let dataset = store::read(&scratch.path("two")).unwrap();
    assert_eq!(
        (dataset.class_names, dataset.labels.values(10)),
        (vec!["price".into(), "age".into()], &[20.0, 1.0][..])
    );

    scratch.write("t/nodes.csv", "id,size,label\n0,1,3.5\n1,2,many\n");
    scratch.write("t/edges.csv", "source,target\n0,1\n");
    let arguments = ["data", "convert", "t", "--format", "table", "--regression", "--out", "bad"];
    scratch.refused("harmonia", &arguments, &["nodes.csv", "expected a number, found `many`"]);
}
