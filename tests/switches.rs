//! Every combination of `engine.monb`, `engine.propagate` and `engine.sparse` trains the same model, on every kind of task
//! and features. Single steps are compared with the oracle elsewhere; this is whole training, with noise, dropout,
//! validation and the choice of the best epoch.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::as_sparse;
use common::problems::{Recipe, Task, Values};
use harmonia::config::DropoutPlace;
use harmonia::config::{Config, Engine, Monb, Propagate, Sparse, TableUse};
use harmonia::dataset::{Dataset, Level};
use harmonia::device::Machine;
use harmonia::graph::{Direction, Split};
use std::sync::Arc;

/// A few steps of rounding in another order, each of which Adam may make larger.
const TOLERANCE: f32 = 2e-3;

fn engines() -> Vec<Engine> {
    let mut engines = Vec::new();
    for monb in [Monb::Direct, Monb::Knots] {
        for propagate in [Propagate::Features, Propagate::Classes, Propagate::Auto] {
            for sparse in [Sparse::Off, Sparse::Auto] {
                engines.push(Engine { monb, propagate, sparse, table: TableUse::Off, ..Engine::default() });
            }
        }
    }
    engines
}

fn dataset(recipe: &Recipe, sparse: bool) -> Dataset {
    let dataset = recipe.problem().dataset;
    let features = if sparse { Arc::new(as_sparse(&dataset.features)) } else { Arc::clone(&dataset.features) };
    let units: Vec<u32> = (0..dataset.units() as u32).collect();
    let split = Split { train: units[..20].to_vec(), valid: units[20..30].to_vec(), test: units[30..].to_vec() };
    Dataset { features, split, ..dataset }
}

/// Logits of a short training with some settings.
fn logits(dataset: &Dataset, engine: Engine, place: DropoutPlace, batch_size: usize) -> Vec<f32> {
    let mut config = Config { engine, ..Config::default() };
    (config.train.epochs, config.train.learning_rate, config.train.batch_size) = (4, 5e-3, batch_size);
    (config.train.dropout, config.train.dropout_place) = (0.2, place);
    harmonia::fit(dataset, &config, &Machine::open("cpu", config.engine).unwrap(), &harmonia::Stop::new())
        .unwrap()
        .logits(dataset)
        .unwrap()
}

#[test]
fn all_combinations_train_the_same_model() {
    let node = Recipe { seed: 77, nodes: 40, features: 6, values: Values::Few(3), ..Recipe::default() };
    let recipes = [
        (node.clone(), 0),
        (Recipe { values: Values::Continuous, direction: Direction::Directed, weighted: true, ..node.clone() }, 0),
        (Recipe { graphs: 10, task: Task::Binary, ..node.clone() }, 3),
        (Recipe { nodes: 200, graphs: 40, level: Level::Graph, task: Task::Binary, ..node.clone() }, 8),
        (Recipe { nodes: 200, graphs: 40, level: Level::Graph, task: Task::Multi(2), ..node }, 0),
    ];
    for (at, (recipe, batch_size)) in recipes.into_iter().enumerate() {
        for sparse in [false, true] {
            let dataset = dataset(&recipe, sparse);
            for place in [DropoutPlace::Input, DropoutPlace::Feature, DropoutPlace::Hidden] {
                let engines = engines();
                let expected = logits(&dataset, engines[0], place, batch_size);
                assert!(expected.iter().any(|&logit| logit != expected[0]), "something was learned");
                for engine in engines {
                    let found = logits(&dataset, engine, place, batch_size);
                    let difference = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                    assert!(
                        difference <= TOLERANCE,
                        "logits differ by {difference} in case {at}, sparse {sparse}, {place:?}, {engine:?}"
                    );
                }
            }
        }
    }
}
