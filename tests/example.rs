//! The library as a user meets it: the example's program, and what a fitted model promises.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::config::Config;
use harmonia::dataset::Features;
use harmonia::device::Machine;
use harmonia::{Error, FittedModel, Stop};
use program::{Scratch, small_dataset};

#[path = "../examples/fit_predict.rs"]
mod fit_predict;

#[path = "../examples/explain.rs"]
mod explain;

#[path = "../examples/embed.rs"]
mod embed;

fn fit(dataset: &harmonia::dataset::Dataset, config: &Config) -> harmonia::Result<FittedModel> {
    harmonia::fit(dataset, config, &Machine::open("cpu", config.engine)?, &Stop::new())
}

#[test]
fn the_examples_run() {
    fit_predict::main().unwrap();
    explain::main().unwrap();
    embed::main().unwrap();
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
    multi.objective = harmonia::loss::Objective::Sigmoid;
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

#[test]
fn a_fit_stops_by_its_own_token_and_by_no_other() {
    let dataset = small_dataset();
    let mut config = Config::default();
    config.train.epochs = 1_000_000;
    config.train.patience = 0;
    let machine = Machine::open("cpu", config.engine).unwrap();
    let (stop, other) = (Stop::new(), Stop::new());
    other.ask();
    let asked = stop.clone();
    let asking = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        asked.ask();
    });
    // A million epochs would take minutes: that it ends at all is the token's doing.
    assert!(matches!(harmonia::fit(&dataset, &config, &machine, &stop), Err(Error::Cancelled)));
    asking.join().unwrap();
    config.train.epochs = 2;
    assert!(harmonia::fit(&dataset, &config, &machine, &Stop::new()).is_ok());
}
