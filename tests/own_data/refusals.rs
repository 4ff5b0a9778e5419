//! New tables that are not as the model knows them: what is passed over with a note, and what is refused in one message that leaves
//! nothing behind.

use crate::program::Scratch;
use crate::{AS_IS, customers, predictions, tables, trained};
use serde_json::Value;

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
    refused("swapped", &swapped, &["column `member`: line 2: expected true or false, or 1 or 0, found `2024-"]);
    // More columns than anybody has: the model's are there, and one line says that the others are passed over.
    let (more, cells): (String, String) = ((0..100_000).map(|k| format!(",extra{k}")).collect(), ",1".repeat(100_000));
    let wide = |nodes: &str| {
        let mut lines = nodes.lines();
        let head = format!("{}{more}\n", lines.next().unwrap());
        head + &lines.map(|line| format!("{line}{cells}\n")).collect::<String>()
    };
    tables(&scratch, "wide", &(wide(&nodes), edges.clone()));
    let output = scratch.run("harmonia", &["predict", "run", "wide", "--out", "wide.csv"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.contains("and 99992 more") && said.len() < 2000,
        "{} bytes: {said:.500}",
        said.len()
    );
    refused("wide and wrong", &wide(&renamed), &["found no columns `age`, `plan` (2 missing)"]);
    // A model of a later version, and one that a disk has changed.
    tables(&scratch, "sound", &(nodes.clone(), edges.clone()));
    let path = scratch.path("run/best.safetensors");
    let model = std::fs::read(&path).unwrap();
    let later =
        String::from_utf8_lossy(&model[8..400]).find("\\\"version\\\":1").unwrap() + 8 + "\\\"version\\\":".len();
    let mut changed = model.clone();
    changed[later] = b'9';
    std::fs::write(&path, &changed).unwrap();
    let commands: [&[&str]; 4] = [
        &["predict", "run", "sound", "--out", "p.csv"],
        &["shapes", "run"],
        &["report", "run"],
        &["export", "run", "--format", "json"],
    ];
    for command in commands {
        scratch.refused("harmonia", command, &["best.safetensors", "later version", "found 9"]);
    }
    let mut changed = model.clone();
    *changed.last_mut().unwrap() ^= 1;
    std::fs::write(&path, &changed).unwrap();
    scratch.refused("harmonia", commands[0], &["best.safetensors", "is damaged"]);
}

#[test]
fn bad_rows_of_new_tables_are_left_out_where_that_is_asked_for() {
    let scratch = Scratch::new();
    trained(&scratch);
    let (nodes, edges) = customers(false, str::to_string, &AS_IS);
    tables(&scratch, "clean", &(nodes.clone(), edges.clone()));
    tables(&scratch, "bad", &(nodes, edges + "C0,C1,0\nC2,nobody,1\n"));
    let predict = |data: &'static str, out: &'static str| ["predict", "run", data, "--out", out];
    scratch.harmonia_ok(&predict("clean", "clean.csv"));
    scratch.refused("harmonia", &predict("bad", "bad.csv"), &["nobody"]);
    scratch.harmonia_ok(&[&predict("bad", "bad.csv")[..], &["--drop-bad-rows"]].concat());
    assert_eq!(predictions(&scratch, "bad.csv"), predictions(&scratch, "clean.csv"));
    scratch.refused("harmonia", &["predict", "run", "--out", "p.csv", "--drop-bad-rows"], &["are for new tables"]);
}

#[test]
fn a_relation_that_no_edge_is_of_is_refused() {
    let scratch = Scratch::new();
    trained(&scratch);
    let (nodes, edges) = customers(false, str::to_string, &AS_IS);
    let kinds = ["calls", "follows"].iter().cycle();
    let head = std::iter::once("kind").chain(kinds.copied());
    let edges: String = edges.lines().zip(head).map(|(line, kind)| format!("{line},{kind}\n")).collect();
    tables(&scratch, "new", &(nodes, edges));
    let predict = |relation: &'static str| ["predict", "run", "new", "--out", "p.csv", "--relation", relation];
    scratch.harmonia_ok(&predict("kind=follows"));
    std::fs::remove_file(scratch.path("p.csv")).unwrap();
    // Silently, all nodes would have been alone.
    let said = ["edges.csv", "`kind`", "`phone`", "none in 120", "`calls`, `follows`"];
    scratch.refused("harmonia", &predict("kind=phone"), &said);
    scratch.refused("harmonia", &predict("kind=call"), &["did you mean `calls`?"]);
    assert!(!scratch.path("p.csv").exists());
}

#[test]
fn new_tables_may_call_their_files_and_columns_otherwise() {
    let scratch = Scratch::new();
    trained(&scratch);
    let (nodes, edges) = customers(false, str::to_string, &AS_IS);
    tables(&scratch, "usual", &(nodes.clone(), edges.clone()));
    let renamed = edges.replacen("source,target,weight", "caller,called,calls", 1);
    tables(&scratch, "other", &(nodes.replacen("id", "customer", 1), renamed));
    std::fs::rename(scratch.path("other/edges.csv"), scratch.path("other/calls.csv")).unwrap();
    scratch.harmonia_ok(&["predict", "run", "usual", "--out", "usual.csv"]);
    // What is missing is said with the flag that says it.
    let mut predict = vec!["predict", "run", "other", "--out", "other.csv", "--table", "edges=other/calls.csv"];
    for (message, column) in [
        ("--column source=NAME", "source=caller"),
        ("--column target=NAME", "target=called"),
        ("--column weight=calls", "weight=calls"),
        ("--column id=NAME", "id=customer"),
    ] {
        scratch.refused("harmonia", &predict, &[message]);
        // What is wrong with every row is no exception.
        scratch.refused("harmonia", &[&predict[..], &["--drop-bad-rows"]].concat(), &[message]);
        assert!(!scratch.path("other.csv").exists());
        predict.extend(["--column", column]);
    }
    scratch.harmonia_ok(&predict);
    assert_eq!(predictions(&scratch, "other.csv"), predictions(&scratch, "usual.csv"));
    let columns = ["--column", "source=caller", "--column", "target=called", "--column", "weight=calls"];
    let files = ["--table", "edges=other/calls.csv", "--column", "id=customer"];
    let explain = ["explain", "run", "--node", "C7", "--json", "--data"];
    let other: Value =
        serde_json::from_str(&scratch.harmonia_ok(&[&explain[..], &["other"], &columns, &files].concat())).unwrap();
    let usual: Value = serde_json::from_str(&scratch.harmonia_ok(&[&explain[..], &["usual"]].concat())).unwrap();
    assert_eq!(other["contributions"], usual["contributions"]);
    scratch.refused("harmonia", &["predict", "run", "--out", "p.csv", "--column", "id=x"], &["are for new tables"]);
    scratch.refused(
        "harmonia",
        &[&predict[..], &["--column", "ids=x"]].concat(),
        &["ROLE one of", "did you mean `id`"],
    );
}

#[test]
fn a_column_of_many_words_says_what_can_be_done_about_it() {
    let scratch = Scratch::new();
    let (nodes, edges) = customers(true, str::to_string, &AS_IS);
    tables(&scratch, "raw", &(nodes.replacen("id", "customer", 1), edges));
    let convert = ["data", "convert", "raw", "--format", "table", "--out", "store"];
    scratch.refused(
        "harmonia",
        &convert,
        &["column `customer`", "64 distinct values", "--ignore NAME or --column id=NAME"],
    );
    scratch.harmonia_ok(&[&convert[..], &["--column", "id=customer"]].concat());
}
