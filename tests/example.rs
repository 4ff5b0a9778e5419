//! The library as a user meets it: the example's program, and what a fitted model promises.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::config::Config;
use harmonia::datasets::Features;
use harmonia::{FittedModel, fit};
use program::{Scratch, small_dataset};

#[path = "../examples/fit_predict.rs"]
mod fit_predict;

#[path = "../examples/explain.rs"]
mod explain;

#[test]
fn the_examples_run() {
    fit_predict::main().unwrap();
    explain::main().unwrap();
}

#[test]
fn a_fitted_model_predicts_saves_and_loads() {
    let dataset = small_dataset();
    let mut config = Config::default();
    config.train.epochs = 5;
    let model = fit(&dataset, &config).unwrap();
    let probabilities = model.probabilities(&dataset).unwrap();
    for (row, class) in probabilities.chunks_exact(3).zip(model.predict(&dataset).unwrap()) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!(row.iter().all(|&p| p <= row[class as usize]));
    }
    let scratch = Scratch::new();
    let path = scratch.path("model.safetensors");
    model.save(&path).unwrap();
    let loaded = FittedModel::load(&path).unwrap();
    assert_eq!(loaded.probabilities(&dataset).unwrap(), probabilities);

    let mut wider = small_dataset();
    wider.features = Features::new(12, 3, vec![0.0; 36]).unwrap().into();
    let error = model.predict(&wider).unwrap_err().to_string();
    assert!(error.contains("reads 2 features, the dataset has 3"), "{error}");
    let mut multi = model.clone();
    multi.objective = harmonia::datasets::Objective::Sigmoid;
    assert!(multi.predict(&dataset).unwrap_err().to_string().contains("probabilities"));
    std::fs::write(&path, "not a model").unwrap();
    assert!(FittedModel::load(&path).unwrap_err().to_string().contains("model.safetensors"));
}

#[test]
fn settings_and_data_that_do_not_fit_are_refused() {
    let dataset = small_dataset();
    let mut config = Config::default();
    config.train.dropout = 2.0;
    assert!(fit(&dataset, &config).unwrap_err().to_string().contains("train.dropout"));
    let mut broken = small_dataset();
    broken.split.test.push(99);
    assert!(fit(&broken, &Config::default()).unwrap_err().to_string().contains("id 99"));
}
