//! The real Cora and CiteSeer files: counts as published, and training that learns.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::data::planetoid;
use harmonia::dataset::{Labels, SplitRule};
use program::{Scratch, real_data};

#[test]
fn cora_and_citeseer_have_the_published_counts() {
    for (name, nodes, edges, features, classes, train) in
        [("Cora", 2708, 10556, 1433, 7, 140), ("CiteSeer", 3327, 9104, 3703, 6, 120)]
    {
        let Some(directory) = real_data(name) else { return };
        let dataset = planetoid::load(name, &directory).unwrap();
        assert_eq!((dataset.graph.nodes(), dataset.graph.directed_edges()), (nodes, edges), "{name}");
        assert_eq!(dataset.features.cols, features);
        assert!(matches!(dataset.labels, Labels::Classes { classes: found, .. } if found == classes));
        let split = &dataset.split;
        assert_eq!((split.train.len(), split.valid.len(), split.test.len()), (train, 500, 1000), "{name}");
        let Labels::Classes { ids, .. } = &dataset.labels else { panic!() };
        for class in 0..classes as u32 {
            assert_eq!(split.train.iter().filter(|&&i| ids[i as usize] == class).count(), 20, "20 per class");
        }
        let x = dataset.features.dense();
        assert!(x.iter().all(|&x| x == 0.0 || x == 1.0));
        // 15 test nodes of CiteSeer have no feature row; they are in no split.
        let empty = |i: usize| x[i * features..(i + 1) * features].iter().all(|&x| x == 0.0);
        if name == "CiteSeer" {
            let unlisted: Vec<usize> = (2312..3327).filter(|&i| !split.test.contains(&(i as u32))).collect();
            assert_eq!(unlisted.len(), 15);
            assert!(unlisted.iter().all(|&i| empty(i) && !dataset.labels.is_labelled(i)));
            // A random split never draws them.
            let mut random = dataset.clone();
            SplitRule::parse("fractions:60/20/20").unwrap().apply(&mut random, 0).unwrap();
            let drawn = [&random.split.train, &random.split.valid, &random.split.test].map(Vec::len);
            assert_eq!(drawn.iter().sum::<usize>(), nodes - 15);
        }
        // The same files by their own folder.
        assert!(planetoid::load(name, &directory.join(name).join("raw")).is_ok());
    }
}

#[test]
fn a_truncated_or_missing_file_is_named() {
    let Some(directory) = real_data("Cora") else { return };
    let scratch = Scratch::new();
    let copy = scratch.path("copy");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(directory.join("Cora/raw")).unwrap() {
        let file = file.unwrap();
        std::fs::write(copy.join(file.file_name()), std::fs::read(file.path()).unwrap()).unwrap();
    }
    let files = || {
        let mut names: Vec<_> = std::fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    // By name the checksum tells; converted by hand, the reader does.
    let refused = |by_name: &[&str], by_hand: &[&str]| {
        let before = files();
        scratch.refused("harmonia-train", &["--dataset", "cora", "--data-dir", "copy"], by_name);
        let convert = ["data", "convert", "copy", "--format", "planetoid", "--name", "cora", "--out", "store"];
        scratch.refused("harmonia", &convert, by_hand);
        assert_eq!(files(), before, "nothing may be left beside the raw files");
    };
    let tx = std::fs::read(copy.join("ind.cora.tx")).unwrap();
    std::fs::write(copy.join("ind.cora.tx"), &tx[..tx.len() / 2]).unwrap();
    refused(&["ind.cora.tx", "SHA-256", "hint: try harmonia data fetch cora"], &["ind.cora.tx", "pickle"]);
    std::fs::write(copy.join("ind.cora.tx"), tx).unwrap();
    std::fs::write(copy.join("ind.cora.test.index"), "12\nabc\n").unwrap();
    refused(&["ind.cora.test.index", "SHA-256"], &["ind.cora.test.index", "line 2", "abc"]);
    std::fs::copy(directory.join("Cora/raw/ind.cora.test.index"), copy.join("ind.cora.test.index")).unwrap();
    std::fs::remove_file(copy.join("ind.cora.graph")).unwrap();
    refused(&["not downloaded", "ind.cora.graph"], &["cannot read", "ind.cora.graph"]);
}

#[test]
fn a_short_run_on_cora_learns() {
    let scratch = Scratch::new();
    if !scratch.copy_data("Cora") {
        return;
    }
    // A learning rate ten times the preset's, to get there in a few epochs: this is a smoke test, the README has the
    // protocol of the paper.
    let settings = ["--recipe", "paper", "--epochs", "60", "--set", "train.learning_rate=5e-3", "--json"];
    let data = ["--dataset", "cora", "--data-dir", "data", "--offline"];
    let text = scratch.train_ok(&[&data[..], &settings[..]].concat());
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let accuracy = json["test"]["accuracy"]["mean"].as_f64().unwrap();
    assert!(accuracy > 0.75, "test accuracy {accuracy}");
}
