//! Units that jump, batch norm and the output penalty: what they compute while training, and the plain model that is saved.

use super::common::differences::{Differentiated, Tally};
use super::common::{F64_TOLERANCE, assert_close, batch_of, run_batch};
use super::oracle::Oracle;
use super::{config, dataset, machine, prepared};
use harmonia::architecture::{Kind, Layout};
use harmonia::config::Monb;
use harmonia::dataset::Level;
use harmonia::explain::Factors;
use harmonia::graph::Direction;
use harmonia::model::initial_parameters;
use harmonia::plan::{Plan, Space};
use harmonia::train::{Prepared, RunName};
use harmonia::{Stop, fit};

/// Points at which jumps are looked at one after the other.
const STEEP: f64 = 1e-5;

#[test]
fn units_that_jump_are_those_of_the_formula_and_are_saved_as_relu_units() {
    let mut config = config(Kind::Nam);
    config.model.exu = true;
    let data = dataset(3, Level::Node, 3, Direction::Undirected);
    let run = Prepared::of(data.clone(), None, &config, RunName { seed: 3, fold: None }).unwrap();
    let start = initial_parameters::<f64>(&run.layout, config.init, 3);
    // As many numbers as the plain form has.
    assert_eq!(run.layout.len(), prepared(Kind::Nam, &data).0.layout.len());
    // Gentler slopes than the start has, so that points lie on them.
    let gentle = |at: usize, p: f64| if p > 2.0 { p - 4.0 } else { p + 0.1 * (at % 3) as f64 };
    let parameters: Vec<f64> = start.iter().enumerate().map(|(at, &p)| gentle(at, p)).collect();
    let oracle = Oracle::new(Kind::Nam, &data, &run.layout, &parameters);
    let response = |k: usize, x: f64| {
        let of = |layer: usize, part: &str| oracle.values(&format!("experts.{k}.layers.{layer}.{part}"));
        let first = of(0, "weight").iter().zip(of(0, "bias"));
        let mut input: Vec<f64> = first.map(|(w, c)| (w.exp() * (x - c)).clamp(0.0, 1.0)).collect();
        for layer in 1..3 {
            let rows = of(layer, "weight").chunks(input.len()).zip(of(layer, "bias"));
            let unit = |(row, bias): (&[f64], &f64)| bias + row.iter().zip(&input).map(|(w, x)| w * x).sum::<f64>();
            let units = rows.map(unit).map(|z| if layer == 1 { z.max(0.0) } else { z });
            input = units.collect();
        }
        input[0]
    };
    let x = data.features.dense();
    let logit = |i: usize, c: usize| {
        let of = |k: usize| response(k, f64::from(x[i * 3 + k])) * oracle.values("readout.weight")[k * 3 + c];
        oracle.values("readout.bias")[c] + (0..3).map(of).sum::<f64>()
    };
    let expected: Vec<f64> = (0..15).flat_map(|i| (0..3).map(move |c| (i, c))).map(|(i, c)| logit(i, c)).collect();
    let mut tally = Tally::default();
    for sparse in [false, true] {
        let plan = Plan { monb: Monb::Knots, space: Space::Classes, sparse };
        let batch = batch_of(&run.dataset, Default::default(), &run.layout, plan, &run.dataset.split.train, false);
        let found = run_batch::<f64>(&batch, &run.layout, plan, &parameters, None, None);
        assert_close("logits", &found.logits, &expected, F64_TOLERANCE, &sparse);
        let (layout, parameters) = (&run.layout, &parameters[..]);
        let of = Differentiated { batch: &batch, layout, plan, parameters, noise: None, dropout: None };
        tally.check(&of, &found.gradient, &sparse);
    }
    tally.finish();
    // What is trained and saved is a plain network of twice as many units, with responses that jump.
    config.train.epochs = 30;
    let model = fit(&data, &config, &machine(), &Stop::new()).unwrap();
    assert_eq!(model.layout.architecture.hidden, [10, 4]);
    assert!(model.layout.is_plain());
    let factors = Factors::of(&model).unwrap();
    let steepest = (-3000..3000)
        .map(|at| f64::from(at) / 1000.0)
        .map(|x| (factors.response(0, x + STEEP) - factors.response(0, x)).abs() / STEEP);
    assert!(steepest.fold(0.0, f64::max) > 1.0);
    config.model.kind = Kind::Nbm;
    assert!(config.check().unwrap_err().to_string().contains("model.exu is for model.kind = nam"));
}

/// Batch norm by its formula, over all numbers of the training part at once.
fn normalised_response(oracle: &Oracle<'_>, training: &[f64], x: f64) -> Vec<f64> {
    // The last one is x.
    let mut columns: Vec<Vec<f64>> = training.iter().chain([&x]).map(|&value| vec![value]).collect();
    for layer in 0..3 {
        let of = |part: &str| oracle.values(&format!("experts.0.layers.{layer}.{part}"));
        let (weight, scale, shift) = (of("weight"), of("scale"), of("bias"));
        let z = |input: &Vec<f64>| -> Vec<f64> {
            weight.chunks(input.len()).map(|row| row.iter().zip(input).map(|(w, h)| w * h).sum()).collect()
        };
        let all: Vec<Vec<f64>> = columns.iter().map(z).collect();
        let count = training.len() as f64;
        let mut next = vec![vec![0.0; scale.len()]; all.len()];
        for u in 0..scale.len() {
            let mean = all[..training.len()].iter().map(|z| z[u]).sum::<f64>() / count;
            let variance = all[..training.len()].iter().map(|z| (z[u] - mean).powi(2)).sum::<f64>() / count;
            for (next, z) in next.iter_mut().zip(&all) {
                let y = scale[u] * (z[u] - mean) / (variance + 1e-5).sqrt() + shift[u];
                next[u] = if layer == 2 { y } else { y.max(0.0) };
            }
        }
        columns = next;
    }
    columns.pop().unwrap()
}

#[test]
fn batch_norm_is_that_of_the_formula_and_is_saved_in_weights() {
    let mut config = config(Kind::Nbm);
    config.model.batch_norm = true;
    let data = dataset(3, Level::Node, 3, Direction::Undirected);
    let run = Prepared::of(data.clone(), None, &config, RunName { seed: 3, fold: None }).unwrap();
    // gamma of every unit and basis, and nothing else, is more.
    let more: usize = run.layout.architecture.expert_widths()[1..].iter().sum();
    assert_eq!(run.layout.len(), prepared(Kind::Nbm, &data).0.layout.len() + more);
    assert_eq!(run.layout.architecture.parameters(), run.layout.len() as u128);
    let start = initial_parameters::<f64>(&run.layout, config.init, 3);
    // Scales and shifts apart from each other, some below zero.
    let moved = |(at, p): (usize, &f64)| p + 0.3 * ((at * 7 % 11) as f64 - 5.0) / 5.0;
    let parameters: Vec<f64> = start.iter().enumerate().map(moved).collect();
    let oracle = Oracle::new(Kind::Nbm, &data, &run.layout, &parameters);
    let x = data.features.dense();
    let training: Vec<f64> = (data.split.train.iter())
        .flat_map(|&i| x[i as usize * 3..i as usize * 3 + 3].iter().map(|&value| f64::from(value)))
        .collect();
    let coefficients = oracle.values("coefficients");
    let bases = coefficients.len() / 3;
    let response = |k: usize, x: f64| -> f64 {
        let found = normalised_response(&oracle, &training, x);
        coefficients[k * bases..][..bases].iter().zip(&found).map(|(a, psi)| a * psi).sum()
    };
    let logit = |i: usize, c: usize| {
        let of = |k: usize| response(k, f64::from(x[i * 3 + k])) * oracle.values("readout.weight")[k * 3 + c];
        oracle.values("readout.bias")[c] + (0..3).map(of).sum::<f64>()
    };
    let expected: Vec<f64> = (0..15).flat_map(|i| (0..3).map(move |c| (i, c))).map(|(i, c)| logit(i, c)).collect();
    let mut tally = Tally::default();
    for sparse in [false, true] {
        let plan = Plan { monb: Monb::Knots, space: Space::Classes, sparse };
        let batch = batch_of(&run.dataset, Default::default(), &run.layout, plan, &run.dataset.split.train, false);
        let found = run_batch::<f64>(&batch, &run.layout, plan, &parameters, None, None);
        assert_close("logits", &found.logits, &expected, F64_TOLERANCE, &sparse);
        let (layout, parameters) = (&run.layout, &parameters[..]);
        let of = Differentiated { batch: &batch, layout, plan, parameters, noise: None, dropout: None };
        tally.check(&of, &found.gradient, &sparse);
    }
    tally.finish();
    // What is saved is a plain network of the same sizes.
    config.train.epochs = 30;
    let model = fit(&data, &config, &machine(), &Stop::new()).unwrap();
    assert!(model.layout.is_plain() && model.layout.len() == run.layout.len() - more);
    config.model.kind = Kind::Nam;
    assert!(config.check().unwrap_err().to_string().contains("model.batch_norm is for model.kind = nbm"));
}

#[test]
fn an_output_penalty_adds_the_gradient_of_the_mean_square_of_responses() {
    for (at, kind) in [Kind::Nbm, Kind::Nam].into_iter().enumerate() {
        let data = dataset(at as u32, Level::Node, 3, Direction::Undirected);
        let (mut run, parameters) = prepared(kind, &data);
        let mut penalised = config(kind);
        penalised.train.output_penalty = 0.7;
        let plan = Plan::new(&penalised, &run.dataset, &run.layout);
        let batch = batch_of(&run.dataset, Default::default(), &run.layout, plan, &run.dataset.split.train, false);
        let gradient = |layout: &Layout| run_batch::<f64>(&batch, layout, plan, &parameters, None, None).gradient;
        let without = gradient(&run.layout);
        run.layout.output_penalty = 0.7;
        let found: Vec<f64> =
            gradient(&run.layout).iter().zip(&without).map(|(with, without)| with - without).collect();
        let x = data.features.dense();
        let cost = |parameters: &[f64]| {
            let oracle = Oracle::new(kind, &data, &run.layout, parameters);
            let f = |at: usize| oracle.own_response(at % 3, f64::from(x[at]));
            0.7 * (0..45).map(|at| f(at).powi(2)).sum::<f64>() / 45.0
        };
        let expected: Vec<f64> = (0..parameters.len())
            .map(|at| {
                let moved = |step: f64| {
                    let mut moved = parameters.clone();
                    moved[at] += step;
                    cost(&moved)
                };
                (moved(1e-6) - moved(-1e-6)) / 2e-6
            })
            .collect();
        assert!(expected.iter().filter(|d| d.abs() > 1e-3).count() > 20);
        // No kink is that near.
        assert_close("gradient of the penalty", &found, &expected, 1e-6, &kind.name());
    }
    let mut graph = config(Kind::Gnan);
    graph.train.output_penalty = 0.1;
    assert!(graph.check().unwrap_err().to_string().contains("train.output_penalty is for models without a graph"));
}
