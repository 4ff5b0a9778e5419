//! `harmonia intervene --set`: what a prediction would be with another value of a feature.

use super::program::{Scratch, small_dataset};
use harmonia::dataset::{Dataset, Features};
use serde_json::Value;

/// Two programs in single precision.
const ROUNDING: f64 = 1e-5;

/// The ring with names, one of which has every sign in it that the flag has.
fn named(change: impl Fn(&mut [f32])) -> Dataset {
    let mut dataset = small_dataset();
    let mut values = dataset.features.dense().into_owned();
    values.iter_mut().for_each(|value| *value = 10.0 + 3.0 * *value);
    change(&mut values);
    dataset.features = std::sync::Arc::new(Features::new(12, 2, values).unwrap());
    dataset.feature_names = vec!["age".into(), "n1:a=b".into()];
    dataset.node_names = (0..12).map(|node| format!("n{node}")).collect();
    dataset
}

fn json(scratch: &Scratch, arguments: &[&str]) -> Value {
    serde_json::from_str(&scratch.harmonia_ok(&[arguments, &["--json"]].concat())).unwrap()
}

#[test]
fn another_value_gives_what_other_data_would_give() {
    let scratch = Scratch::new();
    harmonia::store::write(&named(|_| ()), &scratch.path("ring")).unwrap();
    let settings = ["--normalise", "standardise", "--epochs", "5", "--set", "train.learning_rate=0.05"];
    scratch.train_ok(&[&["--dataset", "ring", "--out", "run"], &settings[..]].concat());
    let ask = ["intervene", "run", "--node", "n3", "--class", "1"];
    let changes = ["--set", "age=11.5", "--set", "n4:n1:a=b=-2", "--drop-edge", "n3-n2"];
    let both = json(&scratch, &[&ask[..], &changes].concat());
    let found = json(&scratch, &[&ask[..], &changes[..4]].concat());
    let number = |key: &str| found[key].as_f64().unwrap();
    assert!(number("change").abs() > 10.0 * ROUNDING && number("residual") < ROUNDING, "{found}");
    assert_ne!(both["after"], found["after"], "the edge counts too");
    let set = &found["set"];
    assert_eq!((&set[0]["node"], &set[0]["feature"], &set[0]["after"]), (&"n3".into(), &"age".into(), &11.5.into()));
    let was = f64::from(named(|_| ()).features.dense()[2 * 4 + 1]);
    assert_eq!((&set[1]["node"], &set[1]["feature"]), (&"n4".into(), &"n1:a=b".into()));
    assert!((set[1]["before"].as_f64().unwrap() - was).abs() < ROUNDING, "{set}");
    // The same value as before is no change.
    let same = json(&scratch, &[&ask[..], &["--set", &format!("age={}", set[0]["before"])]].concat());
    assert!(same["change"].as_f64().unwrap().abs() < ROUNDING, "{same}");
    let output = scratch.run("harmonia", &[&ask[..], &changes[..4]].concat());
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("age of node n3 = 11.5000 (was ") && text.contains("residual"), "{text}");
    assert!(said.contains("n1:a=b = -2 lies outside of the data") && !said.contains("age ="), "{said}");

    // The oracle: the same model reads data that have these values.
    std::fs::remove_dir_all(scratch.path("ring")).unwrap();
    let changed = named(|values| (values[2 * 3], values[2 * 4 + 1]) = (11.5, -2.0));
    harmonia::store::write(&changed, &scratch.path("ring")).unwrap();
    let explained = json(&scratch, &["explain", "run", "--node", "n3", "--class", "1"]);
    let logit = explained["logit"].as_f64().unwrap();
    assert!((logit - number("after")).abs() < ROUNDING, "{logit} and {}", number("after"));
    assert!((logit - number("before")).abs() > 10.0 * ROUNDING);
}

#[test]
fn bad_values_are_refused() {
    let scratch = Scratch::new();
    harmonia::store::write(&named(|_| ()), &scratch.path("ring")).unwrap();
    scratch.train_ok(&["--dataset", "ring", "--epochs", "1", "--set", "model.hidden=[2]", "--out", "run"]);
    for (flags, expected) in [
        (&["age"][..], "expected FEATURE=VALUE"),
        (&["age=old"], "`old` is not a number"),
        (&["age=nan"], "is not a number"),
        (&["age=1e300"], "single precision"),
        (&["agee=5"], "did you mean `age`"),
        (&["n3:agee=5"], "did you mean `age`"),
        (&["n99:age=5"], "no node `n99`"),
        (&["age=5", "n3:age=6"], "set twice"),
    ] {
        let flags: Vec<&str> = flags.iter().flat_map(|flag| ["--set", *flag]).collect();
        scratch.refused("harmonia", &[&["intervene", "run", "--node", "n3"], &flags[..]].concat(), &[expected]);
    }
    scratch.refused("harmonia", &["intervene", "run", "--node", "n3"], &["--set"]);
}
