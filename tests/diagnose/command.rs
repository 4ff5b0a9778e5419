//! `harmonia diagnose`: what it prints, of a store and of a run, and what it refuses.

use super::program::{Scratch, small_dataset};
use super::{EXACT, near};

#[test]
fn the_command_prints_every_key_and_says_what_it_means() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&scratch.harmonia_ok(&["diagnose", "ring", "--hops", "3", "--json"])).unwrap();
    for key in
        ["target", "dataset", "nodes", "epsilon", "hops", "components", "independence", "conditioning", "spectrum"]
    {
        assert!(!json[key].is_null(), "{key}");
    }
    assert!(json["responses"].is_null());
    assert!(json["decay"]["recommended_hops"].is_null());
    assert_eq!(json["decay"]["distances"][2]["high"], 2.0);
    assert_eq!(json["components"]["bipartite"], 1);
    assert!(json["apart_from_alternating"]["recommended_hops"].is_u64());
    let text = scratch.harmonia_ok(&["diagnose", "ring"]);
    for part in [
        "T = 8",
        "dependent: different hop weights",
        "only 7 different eigenvalues",
        "bipartite: 1 (12 nodes from node 0 on)",
        "walk.lazy=true",
        "gamma_T",
        "H_epsilon",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let lazy = scratch.harmonia_ok(&["diagnose", "ring", "--set", "walk.lazy=true", "--hops", "2"]);
    assert!(lazy.contains("walks differ") && !lazy.contains("alternating"), "{lazy}");
    // How far walks can be told apart is no advice on how many to train with.
    assert!(lazy.contains("not which T predicts best"), "{lazy}");
    for text in [&text, &lazy] {
        assert!(!text.contains("recommend") && !text.contains("model.hops"), "{text}");
    }
}

#[test]
fn a_run_is_diagnosed_with_its_own_walk_and_hops() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    let arguments = ["--dataset", "ring", "--epochs", "2", "--set", "model.hops=3", "--set", "walk.lazy=true"];
    scratch.train_ok(&[&arguments[..], &["--recipe", "paper", "--out", "run"]].concat());
    let json: serde_json::Value = serde_json::from_str(&scratch.harmonia_ok(&["diagnose", "run", "--json"])).unwrap();
    assert_eq!((&json["hops"], &json["walk"]["lazy"]), (&3.into(), &true.into()));
    let features = json["responses"]["features"].as_array().unwrap();
    assert_eq!(features.len(), 2);
    for feature in features {
        let theta: Vec<f64> = feature["hop_weights"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        near(theta.iter().sum(), 1.0, EXACT);
        let grid = json["responses"]["grid"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap());
        for (x, value) in grid.zip(feature["values"].as_array().unwrap()) {
            near(value.as_f64().unwrap(), theta[0] + theta[1] * x + theta[2] * x * x, EXACT);
        }
    }
    let text = scratch.harmonia_ok(&["diagnose", "run"]);
    assert!(text.contains("spectral response of 2 features") && text.contains("low-pass"), "{text}");
}

#[test]
fn bad_input_is_refused() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    std::fs::create_dir(scratch.path("empty")).unwrap();
    for (arguments, expected) in [
        (&["diagnose", "ring", "--epsilon", "0"][..], "epsilon is 0;"),
        (&["diagnose", "ring", "--epsilon", "NaN"], "epsilon is NaN;"),
        (&["diagnose", "ring", "--epsilon", "2"], "below 2"),
        (&["diagnose", "ring", "--hops", "0"], "hops is 0;"),
        (&["diagnose", "ring", "--hops", "100000"], "1 to 256"),
        (&["diagnose", "ring", "--probes", "1"], "probes is 1;"),
        (&["diagnose", "ring", "--set", "walk.lasy=true"], "walk.lasy"),
        (&["diagnose", "empty"], "neither a run directory"),
        (&["diagnose", "nothing-of-that-name"], "nothing-of-that-name"),
        (&["diagnose"], "RUN|STORE|NAME"),
    ] {
        scratch.refused("harmonia", arguments, &[expected]);
    }
}
