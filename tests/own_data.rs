//! From a messy table to a model that was moved: gaps, categories, dates and bad rows in, other tables scored and explained
//! by the names of their columns, without the store that it was trained on.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use program::Scratch;
use serde_json::Value;
use std::fmt::Write;
use std::process::Command;

const CUSTOMERS: usize = 120;
const PLANS: [&str; 3] = ["basic", "plus", "pro"];

/// Customers whose age, plan and date of joining say whether they leave; some cells are missing, and some edges are wrong.
fn customers(labels: bool, rename: impl Fn(&str) -> String, order: &[usize]) -> (String, String) {
    let mut state = 7u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let columns = ["age", "plan", "joined", "member", "spent"];
    let mut nodes = String::from("id");
    order.iter().for_each(|&at| write!(nodes, ",{}", columns[at]).unwrap());
    nodes += if labels { ",label\n" } else { "\n" };
    for i in 0..CUSTOMERS {
        let (age, plan, day) = (20 + next(50), next(3) as usize, next(300));
        let leaves = (age > 45) != (plan == 2);
        let (month, of_month) = (day / 28 % 12 + 1, day % 28 + 1);
        let missing = next(10) == 0;
        let cells = [
            if missing { String::new() } else { age.to_string() },
            if next(12) == 0 { String::new() } else { rename(PLANS[plan]) },
            format!("2024-{month:02}-{of_month:02}"),
            if next(2) == 0 { "true".into() } else { "false".into() },
            format!("{}.5", next(1000)),
        ];
        write!(nodes, "C{i}").unwrap();
        order.iter().for_each(|&at| write!(nodes, ",{}", cells[at]).unwrap());
        nodes += &if labels { format!(",{}\n", if leaves { "leaves" } else { "stays" }) } else { "\n".into() };
    }
    let mut edges = String::from("source,target,weight\n");
    (0..CUSTOMERS).for_each(|i| writeln!(edges, "C{i},C{},{}", (i * 7 + 1) % CUSTOMERS, 1 + i % 3).unwrap());
    (nodes, edges)
}

fn tables(scratch: &Scratch, name: &str, (nodes, edges): &(String, String)) {
    std::fs::create_dir(scratch.path(name)).unwrap();
    std::fs::write(scratch.path(&format!("{name}/nodes.csv")), nodes).unwrap();
    std::fs::write(scratch.path(&format!("{name}/edges.csv")), edges).unwrap();
}

const AS_IS: [usize; 5] = [0, 1, 2, 3, 4];

/// A run in `run`, its store in `store`, its tables in `raw`.
fn trained(scratch: &Scratch) {
    let (nodes, edges) = customers(true, str::to_string, &AS_IS);
    tables(scratch, "raw", &(nodes, edges + "C0,nobody,1\nC1,C2,0\nC2,C3,-1\n"));
    let convert = ["data", "convert", "raw", "--format", "table", "--out", "store", "--positive", "leaves"];
    let refused: Vec<&str> = convert.to_vec();
    scratch.refused("harmonia", &refused, &["edges.csv: line 122", "nobody"]);
    scratch.harmonia_ok(&[&convert[..], &["--drop-bad-rows"]].concat());
    let settings = ["--set", "model.hidden=[8]", "--set", "model.hops=3", "--set", "data.normalise=standardise"];
    scratch.train_ok(&[&["--dataset", "store", "--out", "run", "--epochs", "30"][..], &settings].concat());
}

/// (prediction, probability of leaving) of every customer.
fn predictions(scratch: &Scratch, file: &str) -> Vec<(String, f64)> {
    let text = std::fs::read_to_string(scratch.path(file)).unwrap();
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let (prediction, leaves) = (place("prediction"), place("p(leaves)"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            (cells[prediction].to_string(), cells[leaves].parse().unwrap())
        })
        .collect()
}

#[test]
fn a_moved_model_scores_and_explains_tables_that_it_has_not_seen() {
    let scratch = Scratch::new();
    trained(&scratch);
    scratch.harmonia_ok(&["predict", "run", "--out", "known.csv"]);
    let known = predictions(&scratch, "known.csv");

    // Another directory, no store, no raw tables.
    std::fs::create_dir(scratch.path("elsewhere")).unwrap();
    std::fs::rename(scratch.path("run"), scratch.path("elsewhere/model")).unwrap();
    std::fs::remove_dir_all(scratch.path("store")).unwrap();
    std::fs::remove_dir_all(scratch.path("raw")).unwrap();

    // The same customers without labels, columns in another order.
    tables(&scratch, "new", &customers(false, str::to_string, &[3, 1, 4, 0, 2]));
    scratch.harmonia_ok(&["predict", "elsewhere/model", "new", "--out", "new.csv"]);
    assert_eq!(predictions(&scratch, "new.csv"), known);
    scratch.harmonia_ok(&["predict", "elsewhere/model", "new", "--out", "new.jsonl"]);
    let lines = std::fs::read_to_string(scratch.path("new.jsonl")).unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((lines.lines().count(), first["name"].as_str()), (CUSTOMERS, Some("C0")));
    assert!((first["probabilities"]["leaves"].as_f64().unwrap() - known[0].1).abs() < 1e-6);

    let explain = ["explain", "elsewhere/model", "--data", "new", "--node", "C7", "--top", "0", "--json"];
    let one: Value = serde_json::from_str(&scratch.harmonia_ok(&explain)).unwrap();
    let terms = one["contributions"].as_array().unwrap();
    let mut features: Vec<&str> = terms.iter().map(|term| term["feature"].as_str().unwrap()).collect();
    features.sort_unstable();
    assert_eq!(
        features,
        ["age", "joined", "member", "plan", "spent"],
        "a category and a number with gaps are one feature"
    );
    let sum: f64 = terms.iter().map(|term| term["value"].as_f64().unwrap()).sum();
    assert!((one["intercept"].as_f64().unwrap() + sum - one["logit"].as_f64().unwrap()).abs() < 1e-4);
    // Values as the table has them.
    let nodes = std::fs::read_to_string(scratch.path("new/nodes.csv")).unwrap();
    let row: Vec<&str> = nodes.lines().nth(8).unwrap().split(',').collect();
    for term in terms {
        let column =
            ["member", "plan", "spent", "age", "joined"].iter().position(|name| term["feature"] == *name).unwrap();
        let cell = if row[column + 1].is_empty() { "missing" } else { row[column + 1] };
        assert_eq!(term["x"], cell, "{}", term["feature"]);
    }
    let by_node =
        ["explain", "elsewhere/model", "--data", "new", "--node", "C7", "--by", "node,feature", "--top", "0", "--json"];
    let two: Value = serde_json::from_str(&scratch.harmonia_ok(&by_node)).unwrap();
    let terms = two["contributions"].as_array().unwrap();
    let sum: f64 = terms.iter().map(|term| term["value"].as_f64().unwrap()).sum();
    assert!((two["intercept"].as_f64().unwrap() + sum - two["logit"].as_f64().unwrap()).abs() < 1e-4);
    let global = ["explain", "elsewhere/model", "--data", "new", "--global", "--split", "all", "--top", "0", "--json"];
    let all: Value = serde_json::from_str(&scratch.harmonia_ok(&global)).unwrap();
    assert_eq!((all["features"].as_array().unwrap().len(), all["features_total"].as_u64()), (5, Some(5)));
}

/// Runs an exported scorer; none without numpy and scipy, which is said.
fn python(scratch: &Scratch, arguments: &[&str]) -> Option<String> {
    let ready = Command::new("python3").args(["-c", "import numpy, scipy"]).output();
    if !ready.is_ok_and(|output| output.status.success()) {
        println!("skipped: python3 with numpy and scipy is not here (pip install numpy scipy)");
        return None;
    }
    let output = Command::new("python3").args(arguments).current_dir(scratch.path("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn an_exported_scorer_predicts_as_the_program_does() {
    let scratch = Scratch::new();
    trained(&scratch);
    let unseen = |plan: &str| if plan == "plus" { "mars".to_string() } else { plan.to_string() };
    tables(&scratch, "new", &customers(false, unseen, &[4, 3, 2, 1, 0]));
    scratch.harmonia_ok(&["predict", "run", "new", "--out", "new.csv"]);
    // Nothing is left to it but the file itself.
    scratch.harmonia_ok(&["export", "run", "--format", "python", "--out", "score.py"]);
    scratch.harmonia_ok(&["export", "run", "--format", "sql", "--out", "score.sql"]);
    std::fs::remove_dir_all(scratch.path("run")).unwrap();
    let Some(text) = python(&scratch, &["score.py", "new/nodes.csv", "new/edges.csv"]) else { return };
    assert!(text.starts_with("id,p(stays),p(leaves)\nC0,"), "{text}");
    let expected = predictions(&scratch, "new.csv");
    let check = |text: &str| {
        assert_eq!(text.lines().count(), expected.len() + 1);
        for (line, (_, leaves)) in text.lines().skip(1).zip(&expected) {
            let found: f64 = line.rsplit(',').next().unwrap().parse().unwrap();
            assert!((found - leaves).abs() < 1e-5, "{line}: {leaves}");
        }
    };
    check(&text);
    // The same by SQLite, over the tables as they are.
    scratch.write(
        "check.py",
        "import csv, math, sqlite3\n\
         db = sqlite3.connect(':memory:')\n\
         for name in ('nodes', 'edges'):\n\
         \x20   head, *rows = csv.reader(open(f'new/{name}.csv'))\n\
         \x20   db.execute(f'CREATE TABLE {name} (' + ', '.join(head) + ')')\n\
         \x20   db.executemany(f'INSERT INTO {name} VALUES (' + ', '.join('?' * len(head)) + ')', rows)\n\
         db.executescript(open('score.sql').read())\n\
         logits = dict(db.execute('SELECT id, logit FROM harmonia_prediction'))\n\
         print('id,p')\n\
         for row in list(csv.reader(open('new/nodes.csv')))[1:]:\n\
         \x20   print(f'{row[0]},{1 / (1 + math.exp(-logits[row[0]]))}')\n",
    );
    check(&python(&scratch, &["check.py"]).unwrap());
}

#[test]
fn exported_scorers_know_structure_graphs_and_several_classes() {
    for dataset in ["cora", "mutag"] {
        let scratch = Scratch::new();
        let folder = if dataset == "cora" { "Cora" } else { "MUTAG" };
        if !scratch.copy_data(folder) {
            return;
        }
        let structure = "data.structure=degree,log-degree,returns,log-returns,triangles,bias";
        let settings =
            ["--set", structure, "--set", "walk.lazy=true", "--set", "data.normalise=row", "--recipe", "paper"];
        scratch.train_ok(
            &[&["--dataset", dataset, "--data-dir", "data", "--epochs", "2", "--out", "run"][..], &settings].concat(),
        );
        scratch.harmonia_ok(&["predict", "run", "--data-dir", "data", "--out", "p.csv"]);
        scratch.harmonia_ok(&["export", "run", "--format", "python", "--out", "score.py"]);
        let script = format!(
            "import numpy as np, scipy.sparse as sp, os, score\n\
             load = lambda name: np.load('data/{folder}/store/' + name + '.npy')\n\
             ptr, idx = load('row_ptr'), load('col_idx')\n\
             a = sp.csr_array((np.ones(len(idx)), idx, ptr), shape=(len(ptr) - 1,) * 2)\n\
             n = a.shape[0]\n\
             if os.path.exists('data/{folder}/store/features.npy'): x = load('features')\n\
             else: x = sp.csr_array((load('features_val'), load('features_idx'), load('features_ptr')), shape=(n, sum(1 for c in score.MODEL['table']))).toarray()\n\
             graph = np.searchsorted(load('graph_ptr')[1:], np.arange(n), side='right') if score.MODEL['level'] == 'graph' else None\n\
             p = score.probabilities(score.score(x, a, graph))\n\
             import csv\n\
             rows = list(csv.reader(open('p.csv')))[1:]\n\
             q = np.array([[float(v) for v in row[5:]] for row in rows])\n\
             print(p.shape == q.shape and bool(abs(p - q).max() < 1e-5), abs(p - q).max())"
        );
        scratch.write("check.py", script);
        let Some(text) = python(&scratch, &["check.py"]) else { return };
        assert!(text.starts_with("True"), "{dataset}: {text}");
    }
}

#[test]
fn an_unseen_category_counts_as_missing_and_shifts_nothing() {
    let scratch = Scratch::new();
    trained(&scratch);
    // Without the plan in these rows, and with a plan that nobody has seen.
    let without = |plan: &str| if plan == "plus" { String::new() } else { plan.to_string() };
    let unseen = |plan: &str| if plan == "plus" { "mars".to_string() } else { plan.to_string() };
    tables(&scratch, "without", &customers(false, without, &AS_IS));
    tables(&scratch, "unseen", &customers(false, unseen, &AS_IS));
    scratch.harmonia_ok(&["predict", "run", "without", "--out", "without.csv"]);
    let output = scratch.run("harmonia", &["predict", "run", "unseen", "--out", "unseen.csv"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.contains("that the model has not seen (`mars`) count as missing"),
        "{said}"
    );
    assert_eq!(predictions(&scratch, "unseen.csv"), predictions(&scratch, "without.csv"));
}

#[test]
fn wrong_tables_are_refused_in_one_message_and_leave_nothing() {
    let scratch = Scratch::new();
    trained(&scratch);
    let (nodes, edges) = customers(false, str::to_string, &AS_IS);
    let refused = |name: &str, nodes: &str, parts: &[&str]| {
        tables(&scratch, name, &(nodes.to_string(), edges.clone()));
        scratch.refused("harmonia", &["predict", "run", name, "--out", "p.csv"], parts);
        assert!(!scratch.path("p.csv").exists(), "{name}");
    };
    let renamed = nodes.replacen("age,plan", "Age,scheme", 1);
    refused(
        "absent",
        &renamed,
        &["nodes.csv: expected the columns of the model, found no columns `age`, `plan` (2 missing)"],
    );
    let words = nodes.replacen("\nC0,", "\nC0,old", 1);
    refused("changed", &words, &["column `age`: line 2: expected a number, found `old"]);
    refused("empty", "", &["nodes.csv: is empty"]);
    refused("header", nodes.lines().next().unwrap(), &["expected at least one node"]);
    let swapped = nodes.replacen("joined,member", "member,joined", 1);
    refused("swapped", &swapped, &["column `member`: line 2: expected a number, found `2024-"]);
}
