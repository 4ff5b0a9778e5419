//! The point of the model: trained on data of a known generator, it finds the informative features again and predicts
//! about as well as the generator itself.

#![allow(clippy::unwrap_used, missing_docs)]

mod program;

use program::Scratch;
use serde_json::Value;

/// How far above the generator's own test negative log-likelihood a trained model may be.
const NLL_MARGIN: f64 = 0.02;

#[test]
fn the_synthetic_study_is_recovered() {
    let scratch = Scratch::new();
    // A tenth of the default epochs at six times the learning rate, with the whole schedule squeezed into them.
    let quick = ["--epochs", "40", "--set", "train.learning_rate=3e-3"];
    let arguments: Vec<&str> =
        ["--dataset", "synthetic", "--data-index", "0", "--json"].iter().chain(&quick).copied().collect();
    let text = scratch.train_ok(&arguments);
    let run = serde_json::from_str::<Value>(&text).unwrap()["runs"][0].clone();
    assert_eq!(run["recovery"]["precision_at_4"], 1.0, "{run}");
    assert_eq!(run["recovery"]["ranking"][0], 19, "2x on column 19 is the strongest: {run}");
    let (found, own) = (run["test"]["nll"].as_f64().unwrap(), run["generator_nll"].as_f64().unwrap());
    assert!(found < own + NLL_MARGIN, "test NLL {found}, the generator's own {own}");
}
