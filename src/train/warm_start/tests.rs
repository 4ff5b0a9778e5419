//! The regression against the engine, and each step of it.

use super::*;
use crate::config::Config;
use crate::model::{FittedModel, initial_parameters};
use crate::train::regression::{RIDGES, newton, parts, penalty};
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
    let rows = |units: &[u32]| Rows { columns: &columns, units: units.to_vec(), labels: ids, weights: None };
    let train = rows(&run.dataset.split.train);
    let solution = fit(&train);
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
    let train = Rows { columns: &columns, units: run.dataset.split.train.clone(), labels: ids, weights: None };
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

#[test]
fn every_training_graph_is_left_out_once_and_each_part_has_its_share_of_both_classes() {
    let (columns, labels) = noisy_columns();
    let train = Rows { columns: &columns, units: (3..114).collect(), labels: &labels, weights: None };
    let parts = parts(&train);
    let mut seen: Vec<u32> = parts.iter().flat_map(|(_, left_out)| left_out.units.clone()).collect();
    seen.sort_unstable();
    assert_eq!(seen, train.units);
    let of = |rows: &Rows<'_>, class: u32| rows.units.iter().filter(|&&unit| labels[unit as usize] == class).count();
    for (rest, left_out) in &parts {
        assert_eq!(rest.units.len() + left_out.units.len(), train.units.len());
        assert!(left_out.units.iter().all(|unit| !rest.units.contains(unit)));
        for class in [0, 1] {
            let share = of(&train, class) / parts.len();
            assert!((share..=share + 1).contains(&of(left_out, class)), "class {class}");
        }
    }
}

/// Two of eight columns decide, with noise: neither the strongest nor the weakest ridge serves best.
fn noisy_columns() -> (Columns, Vec<u32>) {
    // Spread over (-1, 1) without a pattern that a regression could find.
    let spread = |at: usize| 2.0 * ((at as f64 * 12.9898).sin() * 43758.5453).rem_euclid(1.0) - 1.0;
    let rows: Vec<Vec<(usize, f64)>> =
        (0..120).map(|unit| (0..8).map(|column| (column, spread(unit * 8 + column + 1))).collect()).collect();
    let label = |(unit, row): (usize, &Vec<(usize, f64)>)| {
        let chance = 0.5 * (1.0 + spread(5000 + unit));
        u32::from(8.0 * row[0].1 - 5.6 * row[1].1 + (1.0 / chance - 1.0).ln() > 0.0)
    };
    let labels = rows.iter().enumerate().map(label).collect();
    (Columns { rows, count: 8 }, labels)
}

#[test]
fn the_ridge_is_the_one_that_graphs_left_out_like_best() {
    let (columns, labels) = noisy_columns();
    let train = Rows { columns: &columns, units: (0..120).collect(), labels: &labels, weights: None };
    let scales = columns.scales(&train.units);
    // Each ridge from nothing, where `fit` goes on from the ridge before.
    let solve = |rows: &Rows<'_>, ridge: f64| {
        let mut weights = vec![0.0; columns.count + 1];
        newton(&mut weights, rows, &penalty(ridge, &scales));
        weights
    };
    let left_out_loss = |ridge: f64| -> f64 {
        let loss =
            |(rest, out): &(Rows<'_>, Rows<'_>)| out.loss(&out.logits(&solve(rest, ridge))) * out.units.len() as f64;
        parts(&train).iter().map(loss).sum()
    };
    let losses: Vec<f64> = RIDGES.iter().map(|&ridge| left_out_loss(ridge)).collect();
    let best = (0..RIDGES.len()).min_by(|&a, &b| losses[a].total_cmp(&losses[b])).unwrap();
    assert!(best > 0 && best < RIDGES.len() - 1, "the best ridge is at an end: {losses:?}");
    let (found, expected) = (train.logits(&fit(&train)), train.logits(&solve(&train, RIDGES[best])));
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-2 * (1.0 + expected.abs()), "{found} {expected}");
    }
}
