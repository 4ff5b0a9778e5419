//! The regression against the engine, and each step of it.

use super::regression::newton;
use super::*;
use crate::config::Config;
use crate::model::{FittedModel, initial_parameters};
use crate::train::{RunName, hop_basis};
use harmonia_graph::graph::{Direction, Graph, Split};

const HOPS: usize = 3;
/// Coefficients are f32, and what they multiply nearly cancels at the zero of a feature.
const ROUNDING: f64 = 1e-3;

/// Rings with a tail, of 4 to 43 nodes, and features of two, one and seven values; large ones with many of the first are
/// of class 1, but for some.
fn dataset() -> Dataset {
    let (mut edges, mut graph_ptr, mut ids) = (Vec::new(), vec![0], Vec::new());
    for ring in 4..44u32 {
        let first = *graph_ptr.last().unwrap() as u32;
        edges.extend((0..ring).map(|i| (first + i, first + (i + 1) % ring)));
        edges.push((first, first + ring));
        graph_ptr.push((first + ring + 1) as usize);
        ids.push(u32::from(ring > 20) ^ u32::from(ring % 7 == 0));
    }
    let nodes = *graph_ptr.last().unwrap();
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
    let x = (0..nodes).flat_map(|i| [f32::from(i % 3 == 0), 2.0, (i * i % 7) as f32 - 3.0]).collect();
    let features = Features::new(nodes, 3, x).unwrap();
    let labels = Labels::Classes { ids, classes: 2 };
    let of = |part: u32| (0..40).filter(|unit| (unit % 5 == 0) == (part == 1)).collect::<Vec<u32>>();
    let split = Split { train: of(0), valid: of(1), test: Vec::new() };
    Dataset::new("rings", graph, graph_ptr, features, labels, Level::Graph, split).unwrap()
}

fn config() -> Config {
    let mut config = Config::default();
    (config.model.hops, config.model.hop_weights) = (HOPS, HopWeights::Free);
    config.train.hop_basis = crate::config::HopBasis::Orthogonal;
    config.init.warm_start = true;
    config
}

#[test]
fn the_engine_says_what_the_regression_says() {
    let (dataset, config) = (dataset(), config());
    let run = Prepared::of(dataset, None, &config, RunName { seed: 3, fold: None }).unwrap();
    let mut parameters = initial_parameters::<f32>(&run.layout, config.init, 3);
    warm_start(&mut parameters, &run, config.walk).unwrap();
    let columns = columns(&run.dataset, &run.layout, config.walk, &parameters);
    let Labels::Classes { ids, .. } = &run.dataset.labels else { panic!() };
    let rows = |units: &[u32]| Rows { columns: &columns, units: units.to_vec(), labels: ids };
    let (train, valid) = (rows(&run.dataset.split.train), rows(&run.dataset.split.valid));
    let solution = fit(&train, &valid);
    // The engine, with hop weights of walk lengths.
    let basis = run.layout.hop_basis.clone().unwrap();
    let range = run.layout.hop_logits.clone();
    let theta = hop_basis::weights(&basis, &parameters[range.clone()], 3);
    parameters[range].copy_from_slice(&theta);
    let mut layout = run.layout.clone();
    layout.hop_basis = None;
    let model = FittedModel {
        layout,
        parameters,
        walk: config.walk,
        objective: run.objective,
        scaling: None,
        calibration: None,
        structure: None,
    };
    let everything = rows(&(0..40).collect::<Vec<u32>>());
    let expected = everything.logits(&solution);
    for (logit, expected) in model.logits(&run.dataset).unwrap().iter().zip(&expected) {
        assert!((f64::from(*logit) - expected).abs() < ROUNDING * (1.0 + expected.abs()), "{logit} {expected}");
    }
    // It learned something that a constant does not know.
    let loss = train.loss(&train.logits(&solution));
    assert!(loss < 0.9 * std::f64::consts::LN_2, "{loss}");
}

#[test]
fn no_small_step_lowers_the_penalised_loss() {
    let (dataset, config) = (dataset(), config());
    let run = Prepared::of(dataset, None, &config, RunName { seed: 3, fold: None }).unwrap();
    let parameters = initial_parameters::<f32>(&run.layout, config.init, 3);
    let columns = columns(&run.dataset, &run.layout, config.walk, &parameters);
    let Labels::Classes { ids, .. } = &run.dataset.labels else { panic!() };
    let train = Rows { columns: &columns, units: run.dataset.split.train.clone(), labels: ids };
    let mut penalty: Vec<f64> = columns.scales(&train.units).iter().map(|scale| 1e-2 * scale * scale).collect();
    penalty.push(0.0);
    let value = |weights: &[f64]| {
        train.loss(&train.logits(weights)) + 0.5 * weights.iter().zip(&penalty).map(|(w, p)| p * w * w).sum::<f64>()
    };
    let mut weights = vec![0.0; columns.count + 1];
    newton(&mut weights, &train, &penalty);
    let least = value(&weights);
    assert!(least < 0.69);
    for at in 0..weights.len() {
        for step in [-1e-2, 1e-2] {
            let mut other = weights.clone();
            other[at] += step;
            assert!(value(&other) > least - 1e-6, "weight {at}, step {step}: {} below {least}", value(&other));
        }
    }
}

#[test]
fn what_it_is_not_made_for_is_refused() {
    let (dataset, mut config) = (dataset(), config());
    config.model.hop_weights = HopWeights::Simplex;
    let refused = Prepared::of(dataset, None, &config, RunName { seed: 0, fold: None });
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("model.hop_weights = free; found other hop weights"), "{message}");
}

#[test]
fn a_point_through_two_conditions_is_the_nearest() {
    let start = [1.0, 2.0, 3.0];
    let conditions = [(vec![1.0, 0.0, 1.0], 0.0), (vec![0.0, 1.0, 1.0], 1.0)];
    let point = through(&start, &conditions).unwrap();
    conditions.iter().for_each(|(vector, product)| assert!((dot(vector, &point) - product).abs() < 1e-12));
    // What was changed is a combination of the two: orthogonal to what both are orthogonal to.
    let change: Vec<f64> = point.iter().zip(start).map(|(a, b)| a - b).collect();
    assert!(dot(&change, &[1.0, 1.0, -1.0]).abs() < 1e-12);
    assert!(through(&start, &[(vec![1.0, 0.0, 0.0], 0.0), (vec![2.0, 0.0, 0.0], 1.0)]).is_none());
}
