//! Kinds of models that read a copy of every column for each class: the columns of a table stay what they are.

use super::{Scratch, tables};
use std::fmt::Write;

const PLANTS: usize = 90;

/// Plants of three kinds by petal and colour, some of both missing; columns in the order asked for.
fn plants(labels: bool, order: &[&str]) -> (String, String) {
    let mut nodes = format!("id,{}{}\n", order.join(","), if labels { ",label" } else { "" });
    for i in 0..PLANTS {
        let kind = i * 7 % 3;
        let petal = if i % 11 == 0 { String::new() } else { format!("{}.{}", kind + 1, i % 10) };
        let colour = if i % 13 == 0 { "" } else { ["red", "blue", "white"][(kind + i / 30) % 3] };
        let cells: Vec<&str> = order.iter().map(|&name| if name == "petal" { &petal[..] } else { colour }).collect();
        let label = if labels { format!(",kind {kind}") } else { String::new() };
        writeln!(nodes, "P{i},{}{label}", cells.join(",")).unwrap();
    }
    let mut edges = String::from("source,target\n");
    (0..PLANTS).for_each(|i| writeln!(edges, "P{i},P{}", (i + 3) % PLANTS).unwrap());
    (nodes, edges)
}

#[test]
fn a_model_with_a_response_per_class_reads_other_tables_by_name() {
    let scratch = Scratch::new();
    tables(&scratch, "raw", &plants(true, &["petal", "colour"]));
    scratch.harmonia_ok(&["data", "convert", "raw", "--format", "table", "--out", "store"]);
    let settings = ["--set", "model.horizon=2", "--set", "model.hidden=[8]"];
    scratch.train_ok(
        &[&["--dataset", "store", "--model", "gnan", "--out", "run", "--epochs", "20"][..], &settings].concat(),
    );
    scratch.harmonia_ok(&["predict", "run", "--out", "before.csv"]);
    // One copy of a feature is none that data can change or lose by itself.
    let set = ["intervene", "run", "--node", "P1", "--set", "petal [kind 0]=2"];
    scratch.refused("harmonia", &set, &["gnan", "a copy of every feature for each class"]);
    scratch.refused("harmonia", &["remove-retrain", "run"], &["gnan", "expected harmonia, nbm or nam"]);
    std::fs::rename(scratch.path("run"), scratch.path("moved")).unwrap();
    std::fs::remove_dir_all(scratch.path("store")).unwrap();
    // Another order of columns, no labels, nothing of the training but the run.
    tables(&scratch, "new", &plants(false, &["colour", "petal"]));
    scratch.harmonia_ok(&["predict", "moved", "new", "--out", "after.csv"]);
    let scores = |file: &str| {
        let text = std::fs::read_to_string(scratch.path(file)).unwrap();
        let mut lines = text.lines();
        let head: Vec<String> = lines.next().unwrap().split(',').map(str::to_string).collect();
        let places: Vec<usize> = (0..head.len()).filter(|&at| head[at].contains("kind")).collect();
        assert_eq!(places.len(), 3, "{head:?}");
        lines
            .map(|line| {
                let cells: Vec<&str> = line.split(',').collect();
                places.iter().map(|&at| cells[at].to_string()).collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
    };
    let before = scores("before.csv");
    assert_eq!(before.len(), PLANTS);
    assert_eq!(before, scores("after.csv"));
    assert!(before.iter().any(|row| row != &before[0]), "all predictions are the same");
}
