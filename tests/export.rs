//! Exported models predict as the program does: Python, SQL (run in SQLite) and ONNX (run by onnxruntime) on real sets of nodes and of
//! graphs, a regression, and a table with gaps, categories and dates.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use program::Scratch;
use std::fmt::Write;
use std::process::Command;

/// `predict` writes six decimals; ONNX gives f32.
const AGREE: f64 = 1e-5;

/// Runs a script in the scratch directory; none without numpy and scipy, which is said.
fn python(scratch: &Scratch, arguments: &[&str]) -> Option<String> {
    let ready = Command::new("python3").args(["-c", "import numpy, scipy"]).output();
    if !ready.is_ok_and(|output| output.status.success()) {
        println!("skipped: python3 with numpy and scipy is not here (pip install numpy scipy)");
        return None;
    }
    let mut command = Command::new("python3");
    let output =
        command.args(arguments).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(scratch.path("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Exports the model of `run` in some formats, takes the run away, and holds each against `predictions.csv`.
fn agree(scratch: &Scratch, formats: &[&str], source: [&str; 2]) {
    for format in formats {
        let file = if *format == "python" { "score.py".to_string() } else { format!("score.{format}") };
        scratch.harmonia_ok(&["export", "run", "--format", format, "--out", &file]);
    }
    // Nothing is left to them but the files themselves.
    std::fs::remove_dir_all(scratch.path("run")).unwrap();
    scratch.write("check.py", include_str!("export/check.py"));
    let Some(text) = python(scratch, &["check.py", source[0], source[1]]) else { return };
    assert_eq!(text.lines().count(), formats.len(), "{text}");
    for line in text.lines() {
        if line.starts_with("skipped") {
            println!("{line}");
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let [difference, spread] = [words[1], words[2]].map(|word| word.parse::<f64>().unwrap());
        assert!(difference < AGREE && spread > 0.01, "{source:?}: {text}");
    }
}

const ALL: [&str; 4] = ["python", "json", "sql", "onnx"];

/// Trains a real dataset a little, with everything that a scorer has to know of the graph.
fn real(dataset: &str, folder: &str, structure: &str, more: &[&str]) -> Option<Scratch> {
    let scratch = Scratch::new();
    if !scratch.copy_data(folder) {
        return None;
    }
    let settings = ["--set", structure, "--set", "walk.lazy=true", "--set", "data.normalise=row", "--recipe", "paper"];
    let train = [
        "--dataset",
        dataset,
        "--data-dir",
        "data",
        "--epochs",
        "3",
        "--set",
        "train.learning_rate=0.02",
        "--out",
        "run",
    ];
    scratch.train_ok(&[&train[..], &settings, more].concat());
    scratch.harmonia_ok(&["predict", "run", "--data-dir", "data", "--out", "predictions.csv"]);
    Some(scratch)
}

#[test]
fn cora() {
    let Some(scratch) = real("cora", "Cora", "data.structure=degree,log-degree,bias", &[]) else { return };
    agree(&scratch, &ALL, ["store", "data/Cora/store"]);
}

#[test]
fn mutag() {
    let Some(scratch) = real("mutag", "MUTAG", "data.structure=degree,log-degree,bias,label-by-degree", &[]) else {
        return;
    };
    agree(&scratch, &ALL, ["store", "data/MUTAG/store"]);
}

#[test]
fn what_takes_a_program_is_exported_to_python_and_refused_elsewhere() {
    let structure = "data.structure=degree,returns,log-returns,triangles";
    let Some(scratch) = real("mutag", "MUTAG", structure, &[]) else { return };
    for format in ["sql", "onnx"] {
        scratch.refused(
            "harmonia",
            &["export", "run", "--format", format, "--out", "f"],
            &["returns", "export python does"],
        );
    }
    agree(&scratch, &ALL[..2], ["store", "data/MUTAG/store"]);
}

const SHOPS: usize = 150;

/// Shops whose size (with gaps), region (with gaps), rank and day of opening say what they sell; `label` is left out where there are to be
/// none.
fn shops(labels: &dyn Fn(f64) -> String) -> (String, String) {
    let mut state = 5u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut nodes = String::from("id,size,region,rank,opened,open,label\n");
    for i in 0..SHOPS {
        let (size, region, rank, day) = (next(200) as f64 / 10.0, next(4) as usize, next(3) as usize, next(28) + 1);
        let sold = 0.3 * size.sqrt() + [0.0, 0.8, 0.0, -0.4][region] + 0.2 * rank as f64;
        let size = if next(8) == 0 { ["", "NA", "nan"][i % 3].to_string() } else { size.to_string() };
        let region = if next(9) == 0 { "" } else { ["north", "south's", "east, far", "west"][region] };
        let rank = ["low", "middle", "high"][rank];
        let open = if next(2) == 0 { "true" } else { "false" };
        writeln!(nodes, "S{i},{size},\"{region}\",{rank},2025-0{}-{day:02},{open},{}", 1 + i % 9, labels(sold))
            .unwrap();
    }
    let mut edges = String::from("source,target,weight\n");
    (0..SHOPS).for_each(|i| writeln!(edges, "S{i},S{},{}", (i * 11 + 3) % SHOPS, 0.5 + (i % 4) as f64).unwrap());
    (nodes, edges)
}

/// Trains on shops, and scores other ones: rows in another order and a region that nobody has seen.
fn own(labels: &dyn Fn(f64) -> String, convert: &[&str], train: &[&str]) -> Scratch {
    let scratch = Scratch::new();
    let write = |folder: &str, (nodes, edges): (String, String)| {
        std::fs::create_dir(scratch.path(folder)).unwrap();
        std::fs::write(scratch.path(&format!("{folder}/nodes.csv")), nodes).unwrap();
        std::fs::write(scratch.path(&format!("{folder}/edges.csv")), edges).unwrap();
    };
    let (nodes, edges) = shops(labels);
    write("raw", (nodes.clone(), edges.clone()));
    std::fs::write(scratch.path("raw/column_kinds.toml"), "rank = [\"low\", \"middle\", \"high\"]\n").unwrap();
    let mut rows: Vec<&str> = nodes.lines().collect();
    rows[1..].reverse();
    let unlabelled: Vec<&str> = rows.iter().map(|row| row.rsplit_once(',').unwrap().0).collect();
    write("new", (unlabelled.join("\n").replace("west", "mars") + "\n", edges));
    scratch.harmonia_ok(&[&["data", "convert", "raw", "--format", "table", "--out", "store"][..], convert].concat());
    let small =
        ["--dataset", "store", "--out", "run", "--epochs", "40", "--set", "model.hidden=[8]", "--set", "model.hops=3"];
    scratch.train_ok(&[&small[..], train].concat());
    scratch.harmonia_ok(&["predict", "run", "new", "--out", "predictions.csv"]);
    scratch
}

#[test]
fn a_table_with_gaps() {
    let label = |sold: f64| if sold > 1.2 { "much" } else { "little" }.to_string();
    agree(&own(&label, &[], &["--set", "data.normalise=standardise"]), &ALL, ["table", "new"]);
}

#[test]
fn three_classes() {
    let label = |sold: f64| ["little", "some", "much"][((sold * 1.7) as usize).min(2)].to_string();
    agree(&own(&label, &[], &["--set", "walk.self_loops=true"]), &ALL, ["table", "new"]);
}

#[test]
fn a_regression() {
    agree(&own(&|sold| format!("{sold:.3}"), &["--regression"], &[]), &ALL, ["table", "new"]);
}

#[test]
fn other_kinds_of_models_are_exported_to_python_and_json_and_refused_elsewhere() {
    let label = |sold: f64| ["little", "some", "much"][((sold * 1.7) as usize).min(2)].to_string();
    for (kind, walk) in
        [("gp-nam", "lazy=false"), ("gnan", "lazy=false"), ("g-namrff", "lazy=true"), ("dnn-rrwp", "lazy=true")]
    {
        let walk = format!("walk.{walk}");
        let settings = [
            "--model",
            kind,
            "--set",
            "train.learning_rate=0.02",
            "--set",
            "data.normalise=standardise",
            "--set",
            &walk,
        ];
        let scratch = own(&label, &[], &settings);
        for format in ["sql", "onnx"] {
            scratch.refused(
                "harmonia",
                &["export", "run", "--format", format, "--out", "f"],
                &[kind, "export python does"],
            );
        }
        agree(&scratch, &ALL[..2], ["table", "new"]);
    }
}

#[test]
fn other_kinds_of_models_of_graphs_are_exported() {
    for kind in ["gnan", "g-namrff", "dnn-rrwp"] {
        let Some(scratch) = real("mutag", "MUTAG", "data.structure=degree,bias", &["--model", kind]) else { return };
        agree(&scratch, &ALL[..2], ["store", "data/MUTAG/store"]);
    }
}

/// Shops of which everything is known but no region, and edges that are listed both ways, with one from a shop to itself.
fn whole_shops() -> (String, String) {
    let mut nodes = String::from("id,size,rank,opened,open,label\n");
    for i in 0..SHOPS {
        let (size, rank) = ((i * 37 % 101) as f64 / 5.0, i * 13 % 3);
        let label = if 0.2 * size + rank as f64 > 3.0 { "much" } else { "little" };
        let rank = ["low", "middle", "high"][rank];
        writeln!(nodes, "S{i},{size},{rank},2025-01-{:02},{},{label}", 1 + i % 28, i % 2 == 0).unwrap();
    }
    let mut edges = String::from("source,target,weight\nS0,S0,2.5\n");
    for i in 0..SHOPS {
        let (other, weight) = ((i * 11 + 3) % SHOPS, 0.5 + (i % 4) as f64);
        writeln!(edges, "S{i},S{other},{weight}\nS{other},S{i},{weight}").unwrap();
    }
    (nodes, edges)
}

#[test]
fn gaps_that_the_model_has_not_seen_and_edges_listed_both_ways() {
    let scratch = Scratch::new();
    let write = |folder: &str, (nodes, edges): (String, String)| {
        std::fs::create_dir(scratch.path(folder)).unwrap();
        std::fs::write(scratch.path(&format!("{folder}/nodes.csv")), nodes).unwrap();
        std::fs::write(scratch.path(&format!("{folder}/edges.csv")), edges).unwrap();
    };
    let (nodes, edges) = whole_shops();
    write("raw", (nodes.clone(), edges.clone()));
    std::fs::write(scratch.path("raw/column_kinds.toml"), "rank = [\"low\", \"middle\", \"high\"]\n").unwrap();
    let gaps = nodes.replacen("S3,2,", "S3,n/a,", 1).replacen(",2025-01-06,", ",,", 1).replacen(",false,", ",None,", 1);
    assert_eq!(gaps.len(), nodes.len() + 2 - 10 - 1);
    write("new", (gaps, edges));
    scratch.harmonia_ok(&["data", "convert", "raw", "--format", "table", "--out", "store"]);
    let train = ["--dataset", "store", "--out", "run", "--epochs", "40", "--set", "model.hidden=[8]"];
    let walk = ["--set", "walk.self_loops=true", "--set", "data.normalise=standardise", "--set", "model.hops=3"];
    scratch.train_ok(&[&train[..], &walk].concat());
    scratch.harmonia_ok(&["predict", "run", "new", "--out", "predictions.csv"]);
    scratch.harmonia_ok(&["export", "run", "--format", "sql", "--out", "words.sql"]);
    agree(&scratch, &ALL, ["table", "new"]);

    // A word that is no number is no 0: the script stops.
    scratch.write("words.py", WORDS);
    let Some(text) = python(&scratch, &["words.py"]) else { return };
    assert!(text.contains("expected numbers and dates where the model reads them"), "{text}");
}

const WORDS: &str = r#"
import sqlite3
base = sqlite3.connect(":memory:")
base.execute("CREATE TABLE nodes (id, size, rank, opened, open)")
base.execute("INSERT INTO nodes VALUES ('a', 'old', 'low', '2025-01-01', 'true')")
base.execute("CREATE TABLE edges (source, target, weight)")
try:
    base.executescript(open("words.sql").read())
except sqlite3.IntegrityError as error:
    print(error)
"#;
