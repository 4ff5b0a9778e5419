//! What each value of a column adds, read from shapes, equals what a change of the value does, and what was planted; with the data or
//! from what training measured.

use crate::program::Scratch;
use crate::{AS_IS, CUSTOMERS, customers, json, tables, trained};
use serde_json::Value;
use std::fmt::Write;

#[test]
fn what_a_run_has_not_measured_is_measured_or_left_out() {
    let scratch = Scratch::new();
    trained(&scratch);
    let shapes = json(&scratch, &["shapes", "run"]);
    let kept = scratch.path("run/measured.jsonl");
    let sound = std::fs::read_to_string(&kept).unwrap();
    // A run of an earlier version: from the data, with the same numbers.
    std::fs::remove_file(&kept).unwrap();
    assert_eq!(json(&scratch, &["shapes", "run"]), shapes);
    std::fs::rename(scratch.path("store"), scratch.path("away")).unwrap();
    let output = scratch.run("harmonia", &["shapes", "run", "--json"]);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stderr).contains("are not here"));
    let bare: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(bare["features"][0]["range"].is_null() && bare["features"][0]["knots"] == shapes["features"][0]["knots"]);
    scratch.harmonia_ok(&["shapes", "run", "--out", "s.svg"]);
    scratch.harmonia_ok(&["report", "run"]);
    // One digit that is not what was written.
    let at = sound.rfind("\"range\":[").unwrap() + "\"range\":[".len();
    let digit = sound[at..].find(|sign: char| sign.is_ascii_digit()).unwrap() + at;
    let other = if &sound[digit..=digit] == "1" { "2" } else { "1" };
    std::fs::write(&kept, format!("{}{other}{}", &sound[..digit], &sound[digit + 1..])).unwrap();
    scratch.refused("harmonia", &["shapes", "run"], &["measured.jsonl", "not the one that training left"]);
    // Of another model it is not used.
    std::fs::write(&kept, sound.replacen("\"model_sha256\":\"", "\"model_sha256\":\"0", 1)).unwrap();
    assert_eq!(json(&scratch, &["shapes", "run"]), bare);
}

/// f at x by the knots of a shape.
fn response(shape: &Value, x: f64) -> f64 {
    let knots: Vec<[f64; 2]> = serde_json::from_value(shape["knots"].clone()).unwrap();
    let slope = |key: &str| shape[key].as_f64().unwrap();
    let above = knots.iter().position(|knot| knot[0] >= x);
    let line = |[from, value]: [f64; 2], slope: f64| value + slope * (x - from);
    match above {
        Some(0) => line(knots[0], slope("left_slope")),
        None => line(knots[knots.len() - 1], slope("right_slope")),
        Some(at) => {
            let ([a, f], [b, g]) = (knots[at - 1], knots[at]);
            line([a, f], (g - f) / (b - a))
        }
    }
}

#[test]
fn effects_of_values_are_what_a_change_of_the_value_does() {
    let scratch = Scratch::new();
    tables(&scratch, "raw", &customers(true, str::to_string, &AS_IS));
    scratch.harmonia_ok(&["data", "convert", "raw", "--format", "table", "--out", "store", "--positive", "leaves"]);
    // Walks of no step: what a node adds is what its own value adds.
    let settings = ["--set", "model.hidden=[8]", "--set", "model.hops=1", "--set", "data.normalise=standardise"];
    scratch.train_ok(&[&["--dataset", "store", "--out", "run", "--epochs", "60"][..], &settings].concat());
    let shapes = json(&scratch, &["shapes", "run"]);
    let features = shapes["features"].as_array().unwrap();
    let of = |name: &str| features.iter().find(|feature| feature["feature"] == name).unwrap();
    let adds = |value: &Value| value["adds_by_class"]["leaves"].as_f64().unwrap();
    let change =
        |set: &str| json(&scratch, &["intervene", "run", "--node", "C3", "--set", set])["change"].as_f64().unwrap();
    let values = of("plan")["values"].as_array().unwrap();
    let mut changes: Vec<(f64, f64)> = values
        .iter()
        .map(|value| (adds(value), change(&format!("plan={}", value["value"].as_str().unwrap()))))
        .collect();
    changes.push((adds(&of("plan")["missing"]), change("plan=missing")));
    let same = |pairs: &[(f64, f64)]| {
        // Both are relative to something: differences are the same.
        let (first, spread) = (pairs[0], pairs.iter().map(|pair| (pair.0 - pairs[0].0).abs()).fold(0.0, f64::max));
        assert!(spread > 1e-3, "{pairs:?}");
        for pair in pairs {
            assert!(((pair.0 - first.0) - (pair.1 - first.1)).abs() < 1e-4, "{pairs:?}");
        }
    };
    same(&changes);
    // Weighed by how often values occur, the effects of a category sum to nothing.
    let all = values.iter().chain([&of("plan")["missing"]]);
    let counted: Vec<(f64, f64)> = all.map(|value| (value["nodes"].as_f64().unwrap(), adds(value))).collect();
    assert_eq!(counted.iter().map(|(nodes, _)| nodes).sum::<f64>(), CUSTOMERS as f64);
    assert!(counted.iter().map(|(nodes, effect)| nodes * effect).sum::<f64>().abs() < 1e-3, "{counted:?}");
    let age = of("age");
    let number = |x: f64| {
        let scale = age["effect_by_class"]["leaves"].as_f64().unwrap();
        let there = age["present_by_class"]["leaves"].as_f64().unwrap();
        scale * (response(age, x) - age["centre"].as_f64().unwrap()) + there
    };
    let mut changes: Vec<(f64, f64)> = [25.0, 40.0, 66.0].map(|x| (number(x), change(&format!("age={x}")))).to_vec();
    changes.push((adds(&age["missing"]), change("age=missing")));
    same(&changes);
    // Medians that stand in for what is missing are not counted among the ages.
    let ages: u64 = age["density"]["counts"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(ages + age["missing"]["nodes"].as_u64().unwrap(), CUSTOMERS as u64);
}

#[test]
fn a_planted_effect_of_one_category_is_found_at_that_category() {
    const REGIONS: [&str; 5] = ["north", "south", "east", "west", "mars"];
    let scratch = Scratch::new();
    let mut state = 3u64;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let (mut nodes, mut edges) = (String::from("id,region,size,label\n"), String::from("source,target\n"));
    for i in 0..600 {
        let (region, size) = ((5.0 * next()) as usize, next());
        let value = 0.8 * f64::from(u8::from(region == 4)) + 0.5 * size + 0.1 * (next() - 0.5);
        writeln!(nodes, "{i},{},{size:.4},{value:.4}", REGIONS[region]).unwrap();
        writeln!(edges, "{i},{}", (i * 7 + 1) % 600).unwrap();
    }
    tables(&scratch, "raw", &(nodes, edges));
    scratch.harmonia_ok(&["data", "convert", "raw", "--format", "table", "--regression", "--out", "store"]);
    scratch.train_ok(&["--dataset", "store", "--out", "run", "--epochs", "150", "--set", "model.hops=2"]);
    let shapes = json(&scratch, &["shapes", "run", "--feature", "region"]);
    let values = shapes["features"][0]["values"].as_array().unwrap();
    let effect = |name: &str| {
        let value = values.iter().find(|value| value["value"] == name).unwrap();
        value["adds_by_class"].as_object().unwrap().values().next().unwrap().as_f64().unwrap()
    };
    let others: Vec<f64> = REGIONS[..4].iter().map(|name| effect(name)).collect();
    let mean = others.iter().sum::<f64>() / 4.0;
    assert!((effect("mars") - mean - 0.8).abs() < 0.15, "{values:#?}");
    assert!(others.iter().all(|other| (other - mean).abs() < 0.1), "{values:#?}");
    // Among importances too it is one row, and the first one.
    let global = json(&scratch, &["explain", "run", "--global"]);
    assert_eq!((&global["features"][0]["feature"], &global["features_total"]), (&"region".into(), &2.into()));
}

#[test]
fn a_column_of_a_table_is_changed_as_a_whole() {
    let scratch = Scratch::new();
    trained(&scratch);
    let (nodes, edges) = customers(false, str::to_string, &AS_IS);
    // The first customer whose age is missing: a number must fill the gap, not stand beside it.
    let row = nodes.lines().find(|line| line.split(',').nth(1) == Some("")).unwrap();
    let cells: Vec<&str> = row.split(',').collect();
    let asked = |sets: &[&str]| -> Value {
        let sets = sets.iter().flat_map(|set| ["--set", *set]);
        let ask: Vec<&str> = ["intervene", "run", "--node", cells[0], "--json"].into_iter().chain(sets).collect();
        serde_json::from_str(&scratch.harmonia_ok(&ask)).unwrap()
    };
    let changed = asked(&["age=50", "plan=pro", "joined=2024-03-05"]);
    assert_eq!((&changed["set"][0]["before"], &changed["set"][0]["after"]), (&"missing".into(), &50.0.into()));
    let listed: Vec<&str> =
        changed["contributions"].as_array().unwrap().iter().map(|t| t["feature"].as_str().unwrap()).collect();
    assert_eq!(listed.len(), 5, "{listed:?}");
    // The oracle: a table with these cells.
    let other = format!("{},50,pro,2024-03-05,{},{}", cells[0], cells[4], cells[5]);
    tables(&scratch, "other", &(nodes.replacen(row, &other, 1), edges));
    let explain = ["explain", "run", "--data", "other", "--node", cells[0], "--json"];
    let explained: Value = serde_json::from_str(&scratch.harmonia_ok(&explain)).unwrap();
    let (found, expected) = (changed["after"].as_f64().unwrap(), explained["logit"].as_f64().unwrap());
    assert!((found - expected).abs() < 1e-4 && changed["change"].as_f64().unwrap().abs() > 1e-3, "{found} {expected}");
    assert!(asked(&["age=missing"])["change"].as_f64().unwrap().abs() < 1e-6);
    for (set, part) in [
        ("plan=mars", "`mars` is none of basic, plus, pro"),
        ("age=old", "`old` is not a number"),
        ("joined=soon", "is not a date"),
        ("spent=missing", "has seen no missing values"),
        ("age is missing=1", "no feature `age is missing`"),
    ] {
        scratch.refused("harmonia", &["intervene", "run", "--node", cells[0], "--set", set], &[part]);
    }
}
