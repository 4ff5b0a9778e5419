//! However features are kept, dense, in half precision or as sparse rows, a model trained on them is the same.

#![allow(clippy::unwrap_used, missing_docs)]

use harmonia::config::Config;
use harmonia::dataset::{Dataset, Features, Labels, SparseRows, Values};
use harmonia::device::Machine;
use harmonia::graph::{Direction, Graph, Split};
use harmonia::seed::{Purpose, Stream};
use std::sync::Arc;

const NODES: usize = 300;
const FEATURES: usize = 12;
/// Zeros are left out of sums, which are taken in another order.
const TOLERANCE: f32 = 1e-4;

/// A ring with chords; `share` of the values are not zero, drawn by `value`.
fn dataset(share: f64, value: impl Fn(f64) -> f32) -> Dataset {
    let edges: Vec<(u32, u32)> =
        (0..NODES).flat_map(|i| [1, 7].map(|step| (i as u32, ((i + step) % NODES) as u32))).collect();
    let graph = Graph::from_edges(NODES, &edges, None, Direction::Undirected).unwrap();
    let stream = Stream::new(5, Purpose::SyntheticFeatures, 0);
    let draw = |at: u64| if stream.uniform(2 * at) < share { value(stream.uniform(2 * at + 1)) } else { 0.0 };
    let values = (0..(NODES * FEATURES) as u64).map(draw).collect();
    let labels = Labels::Classes { ids: (0..NODES as u32).map(|i| i % 3).collect(), classes: 3 };
    let units: Vec<u32> = (0..NODES as u32).collect();
    let split = Split::fractions(&units, [60.0, 20.0, 20.0], 1);
    Dataset::nodes("forms", graph, Features::new(NODES, FEATURES, values).unwrap(), labels, split).unwrap()
}

/// Logits of a short training.
fn logits(dataset: &Dataset) -> Vec<f32> {
    let mut config = Config::default();
    (config.train.epochs, config.train.learning_rate, config.train.dropout) = (5, 1e-2, 0.2);
    harmonia::fit(dataset, &config, &Machine::open("cpu", config.engine).unwrap(), &harmonia::Stop::new())
        .unwrap()
        .logits(dataset)
        .unwrap()
}

fn with(dataset: &Dataset, features: Features) -> Dataset {
    Dataset { features: Arc::new(features), ..dataset.clone() }
}

fn as_sparse(features: &Features) -> Features {
    let row = |row: &[f32]| row.iter().enumerate().filter(|(_, x)| **x != 0.0).map(|(k, &x)| (k as u32, x)).collect();
    let rows = SparseRows::collect(features.dense().chunks(FEATURES).map(row));
    Features::held(NODES, FEATURES, Values::Sparse(rows)).unwrap()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn half_precision_trains_as_the_numbers_it_holds() {
    let dense = dataset(1.0, |u| (2.0 * u - 1.0) as f32);
    let half = with(&dense, (*dense.features).clone().halved().unwrap());
    assert!(matches!(half.features.values(), Values::Half(_)));
    let widened = Features::new(NODES, FEATURES, half.features.dense().into_owned()).unwrap();
    assert_eq!(logits(&half), logits(&with(&dense, widened)), "the same numbers, to the bit");
    let (half, dense) = (logits(&half), logits(&dense));
    assert!(largest_difference(&half, &dense) > 0.0, "rounding shows");
}

#[test]
fn sparse_rows_train_as_the_matrix_they_stand_for() {
    // Few distinct values, and many.
    for value in [(|u| (u * 3.0).ceil() as f32) as fn(f64) -> f32, |u| u as f32] {
        let dense = dataset(0.3, value);
        let sparse = with(&dense, as_sparse(&dense.features));
        let (sparse, dense) = (logits(&sparse), logits(&dense));
        let difference = largest_difference(&sparse, &dense);
        assert!(difference <= TOLERANCE, "they differ by {difference}");
        assert!(dense.iter().any(|&logit| logit != dense[0]), "something was learned");
    }
}
