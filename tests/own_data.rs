//! From a messy table to a model that was moved: gaps, categories, dates and bad rows in, other tables scored and explained
//! by the names of their columns, without the store that it was trained on.
//!
//! What values add is in [`shapes`], tables that are not as the model knows them in [`refusals`], many units at once in [`many`], other
//! models than HARMONIA in [`kinds`].

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "own_data/kinds.rs"]
mod kinds;
#[path = "own_data/many.rs"]
mod many;
mod program;
#[path = "own_data/refusals.rs"]
mod refusals;
#[path = "own_data/shapes.rs"]
mod shapes;

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
        let shown = term["x"].as_str().map_or_else(|| term["x"].to_string(), String::from);
        let same =
            shown == cell || shown.parse::<f64>().ok().zip(cell.parse().ok()).is_some_and(|(a, b): (f64, f64)| a == b);
        assert!(same, "{}: {shown}, the table has {cell}", term["feature"]);
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

/// What a moved model is read by, without anything of its data.
fn json(scratch: &Scratch, command: &[&str]) -> Value {
    serde_json::from_str(&scratch.harmonia_ok(&[command, &["--json"]].concat())).unwrap()
}

#[test]
fn from_messy_tables_to_a_moved_model_that_is_scored_explained_and_exported() {
    let scratch = Scratch::new();
    trained(&scratch);
    let (shapes, page) = (json(&scratch, &["shapes", "run"]), json(&scratch, &["report", "run", "--out", "r.html"]));
    let global = json(&scratch, &["explain", "run", "--global"]);
    assert!(
        page["locals"].as_array().unwrap().len() >= 2 && page["diagnostics"].is_object() && page["absent"].is_null()
    );
    std::fs::create_dir(scratch.path("elsewhere")).unwrap();
    std::fs::rename(scratch.path("run"), scratch.path("elsewhere/model")).unwrap();
    std::fs::remove_dir_all(scratch.path("store")).unwrap();
    std::fs::remove_dir_all(scratch.path("raw")).unwrap();

    // The same curves, bars and importances without the data.
    assert_eq!(json(&scratch, &["shapes", "elsewhere/model"]), shapes);
    let features = shapes["features"].as_array().unwrap();
    let named: Vec<&str> = features.iter().map(|feature| feature["feature"].as_str().unwrap()).collect();
    assert_eq!(named, ["age", "plan", "joined", "member", "spent"], "one column of the table is one feature");
    let of = |name: &str| &features[named.iter().position(|other| *other == name).unwrap()];
    let plans: Vec<&str> =
        of("plan")["values"].as_array().unwrap().iter().map(|v| v["value"].as_str().unwrap()).collect();
    assert_eq!(plans, PLANS);
    assert!(of("plan")["missing"]["nodes"].as_u64().unwrap() > 0 && of("plan").get("knots").is_none());
    assert!(of("age")["missing"]["adds_by_class"]["leaves"].is_number() && of("age")["knots"].is_array());
    assert!(of("spent").get("missing").is_none());
    // A date is a number in days, and says so wherever it is shown.
    assert_eq!((&of("joined")["unit"], of("spent").get("unit")), (&"days since 1970-01-01".into(), None));
    assert!(
        scratch
            .harmonia_ok(&["shapes", "elsewhere/model", "--feature", "joined"])
            .contains("f of joined in days since")
    );
    let drawn = page["features"].as_array().unwrap().iter().find(|feature| feature["name"] == "joined").unwrap();
    assert_eq!(drawn["shape"]["unit"], "days since 1970-01-01");
    for file in ["s.svg", "s.csv", "s.json"] {
        scratch.harmonia_ok(&["shapes", "elsewhere/model", "--out", file]);
    }
    let picture = std::fs::read_to_string(scratch.path("s.svg")).unwrap();
    assert!(
        picture.contains("joined, days since 1970-01-01")
            && picture.contains(">basic<")
            && picture.contains("missing: ")
            && picture.contains("importance ")
    );
    assert!(
        scratch
            .harmonia_ok(&["shapes", "elsewhere/model", "--feature", "plan=pro"])
            .contains("what each of its values adds")
    );

    // So does what is said over many units, where training has measured it.
    let bare = json(&scratch, &["explain", "elsewhere/model", "--global"]);
    assert_eq!(bare["features"], global["features"]);
    scratch.refused("harmonia", &["explain", "elsewhere/model", "--global", "--split", "train"], &["store"]);
    // The page without nodes: everything else is as it was, and what is about nodes says why it is not there.
    let output = scratch.run("harmonia", &["report", "elsewhere/model", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("are not here"), "{said}");
    let bare: Value = serde_json::from_slice(&output.stdout).unwrap();
    for part in ["summary", "history", "outputs", "features", "features_order", "importance_about", "experts"] {
        assert_eq!(bare[part], page[part], "{part}");
    }
    assert!(bare["absent"].as_str().unwrap().contains("are not there"));
    assert!(bare["locals"].as_array().unwrap().is_empty() && bare["diagnostics"].is_null());
    assert!(scratch.path("elsewhere/model/report.html").is_file());
    assert!(
        page["summary"]["baselines"][0]["accuracy"].is_number()
            && page["summary"]["details"]["test"]["brier"].is_number()
    );
    scratch.refused(
        "harmonia",
        &["report", "elsewhere/model", "--node", "C7", "--out", "n.html"],
        &["are not here", "--data"],
    );

    // New tables: scored, explained, shown.
    tables(&scratch, "new", &customers(false, str::to_string, &[3, 1, 4, 0, 2]));
    scratch.harmonia_ok(&["predict", "elsewhere/model", "new", "--out", "predictions.csv"]);
    scratch.harmonia_ok(&["explain", "elsewhere/model", "--data", "new", "--out", "terms.csv"]);
    let other = json(&scratch, &["report", "elsewhere/model", "--data", "new", "--node", "C7", "--out", "new.html"]);
    assert_eq!((&other["summary"]["dataset"], &other["locals"][0]["name"]), (&"new".into(), &"C7".into()));
    let parts = other["locals"][0]["by_feature"]["parts"].as_array().unwrap();
    let plan = parts.iter().find(|part| part["name"] == "plan").unwrap();
    assert!(plan["value"].is_null() && plan["text"].is_string(), "{plan}");
    scratch.refused("harmonia", &["report", "elsewhere/model", "--data", "new"], &["--out"]);
    // What is about the nodes of training says that these are gone, and what can be done.
    let of_training: [&[&str]; 4] = [
        &["predict", "elsewhere/model", "--out", "p.csv"],
        &["explain", "elsewhere/model", "--node", "C7"],
        &["intervene", "elsewhere/model", "--node", "C7", "--set", "age=50"],
        &["diagnose", "elsewhere/model"],
    ];
    for command in of_training {
        scratch.refused("harmonia", command, &["the data of training (", "are not here: bring them back"]);
    }
    // A what-if about a new node: the oracle is a table that has the other value.
    let what_if = ["intervene", "elsewhere/model", "--data", "new", "--node", "C7", "--set", "age=50"];
    let changed = json(&scratch, &what_if);
    let (nodes, edges) = customers(false, str::to_string, &AS_IS);
    let row = nodes.lines().nth(8).unwrap();
    let cells: Vec<&str> = row.split(',').collect();
    let other = nodes.replacen(row, &format!("C7,50,{}", cells[2..].join(",")), 1);
    tables(&scratch, "fifty", &(other, edges));
    let fifty = json(&scratch, &["explain", "elsewhere/model", "--data", "fifty", "--node", "C7"]);
    assert!((changed["after"].as_f64().unwrap() - fifty["logit"].as_f64().unwrap()).abs() < 1e-4, "{changed} {fifty}");
    let mean = ["intervene", "elsewhere/model", "--data", "new", "--node", "C7", "--mean-node", "C7"];
    scratch.refused("harmonia", &mean, &["cannot be used with"]);

    // Exported, with nothing left but the files.
    for (format, file) in [("python", "score.py"), ("sql", "score.sql"), ("onnx", "score.onnx")] {
        scratch.harmonia_ok(&["export", "elsewhere/model", "--format", format, "--out", file]);
    }
    std::fs::remove_dir_all(scratch.path("elsewhere")).unwrap();
    scratch.write("check.py", include_str!("export/check.py"));
    let mut python = Command::new("python3");
    let output = python.args(["check.py", "table", "new"]).current_dir(scratch.path("")).output();
    match output.map(|output| (output.status.success(), output)) {
        Ok((true, output)) => {
            let text = String::from_utf8(output.stdout).unwrap();
            let differences = text.lines().filter(|line| !line.starts_with("skipped"));
            for line in differences {
                assert!(line.split(' ').nth(1).unwrap().parse::<f64>().unwrap() < 1e-5, "{text}");
            }
            println!("{text}");
        }
        Ok((false, output)) if !String::from_utf8_lossy(&output.stderr).contains("No module named") => {
            panic!("{}", String::from_utf8_lossy(&output.stderr));
        }
        _ => println!("skipped: python3 with numpy and scipy is not here (pip install numpy scipy)"),
    }
}
