//! A whole model: importances, shapes, distributions of its inputs, its experts, and parts of it.

use super::common::oracle::Oracle;
use super::common::problems::{Recipe, Task};
use super::{F64, dense_terms, drawn, recipes};
use harmonia::dataset::{Dataset, Features, Labels};
use harmonia::explain::{Distribution, Factors, Importance, Score, Shape, centre, experts, ranking};
use harmonia::watch::Watch;
use std::sync::Arc;

/// H by the engine in f32 against f64.
const F32: f64 = 2e-5;

#[test]
fn importance_is_the_mean_size_of_contributions() {
    for recipe in recipes() {
        let (problem, model) = drawn(recipe);
        let factors = Factors::of(&model).unwrap();
        let units = &problem.dataset.split.train;
        let means = centre::mean_responses(&factors, &problem.dataset.features);
        let found = Importance::measure(&model, &factors, &problem.dataset, units, &means, &Watch::silent()).unwrap();
        for output in 0..factors.outputs() {
            let score = Score { output, versus: None, sign: 1.0 };
            let (mut size, mut signed) = (vec![0.0; 5], vec![0.0; 5]);
            for &unit in units {
                let mut of_unit = [0.0; 5];
                for ((k, _, _), value) in dense_terms(&problem, unit as usize, score, &means) {
                    of_unit[k] += value;
                }
                for k in 0..5 {
                    size[k] += of_unit[k].abs() / units.len() as f64;
                    signed[k] += of_unit[k] / units.len() as f64;
                }
            }
            for k in 0..5 {
                let scale = size[k].max(1.0);
                assert!((found.of(&factors, k, output) - size[k]).abs() < F32 * scale, "{:?}", problem.recipe);
                assert!((found.signed(&factors, k, output) - signed[k]).abs() < F32 * scale, "{:?}", problem.recipe);
            }
        }
    }
    assert_eq!(ranking(&[0.5, 2.0, 0.5, 3.0]), [3, 1, 0, 2]);
}

#[test]
fn shapes_are_the_responses_everywhere_and_knots_are_where_they_bend() {
    for seed in 0..20 {
        let (problem, model) = drawn(Recipe { seed, hidden: vec![6, 4], ..Recipe::default() });
        let factors = Factors::of(&model).unwrap();
        let oracle = Oracle::new(&problem, None, None);
        let x = problem.dataset.features.dense();
        for k in 0..3 {
            let shape = Shape::of(&factors, k);
            assert!(shape.knots.windows(2).all(|pair| pair[0][0] < pair[1][0]), "knots increase");
            for i in 0..problem.dataset.graph.nodes() {
                let x = f64::from(x[i * 3 + k]);
                let scale = oracle.responses[i][k].abs().max(1.0);
                assert!((shape.value(x) - oracle.responses[i][k]).abs() < 1e-9 * scale, "seed {seed}");
                assert!((factors.response(k, x) - oracle.responses[i][k]).abs() < F64 * scale, "seed {seed}");
            }
            // Beyond all knots, and between them, it is straight.
            let ends = [shape.knots[0][0] - 5.0, shape.knots[shape.knots.len() - 1][0] + 5.0];
            for x in ends.into_iter().chain(shape.knots.windows(2).map(|pair| (pair[0][0] + pair[1][0]) / 2.0)) {
                let scale = factors.response(k, x).abs().max(1.0);
                assert!((shape.value(x) - factors.response(k, x)).abs() < 1e-8 * scale, "seed {seed} at {x}");
            }
        }
    }
}

#[test]
fn distributions_count_every_value_once() {
    let values: Vec<f32> = (0..1000).flat_map(|i| [i as f32, if i % 4 == 0 { 2.0 } else { 0.0 }, 7.0]).collect();
    let features = Features::new(1000, 3, values).unwrap();
    let found = Distribution::of(&features, &[0, 1, 2]);
    assert_eq!((found[0].range, found[1].range, found[2].range), ([0.0, 999.0], [0.0, 2.0], [7.0, 7.0]));
    assert!(found.iter().all(|found| found.counts.iter().sum::<u64>() == 1000));
    assert_eq!((found[1].counts[0], found[1].counts[harmonia::explain::BINS - 1]), (750, 250));
    assert!(found[0].counts.iter().all(|count| (24..=26).contains(count)));
}

#[test]
fn a_copied_expert_is_a_near_duplicate_and_an_unrouted_one_unused() {
    let (problem, mut model) = drawn(Recipe { experts: 3, active: 1, features: 4, ..Recipe::default() });
    let layout = problem.layout.clone();
    // Expert 2 computes the same as expert 0, negated and doubled.
    for (from, to) in layout.experts[0].iter().zip(&layout.experts[2]) {
        let last = from.outputs == layout.architecture.bases;
        for (from, to) in [(&from.weight, &to.weight), (&from.bias, &to.bias)] {
            for (from, to) in from.clone().zip(to.clone()) {
                model.parameters[to] = model.parameters[from] * if last { -2.0 } else { 1.0 };
            }
        }
    }
    // The router likes expert 1 for everything.
    for q in 0..layout.architecture.embedding {
        for expert in 0..3 {
            model.parameters[layout.router_gate.start + q * 3 + expert] = if expert == 1 { 5.0 } else { -5.0 };
        }
    }
    model.parameters[layout.embeddings.clone()].iter_mut().for_each(|e| *e = e.abs() + 0.1);
    let factors = Factors::of(&model).unwrap();
    assert_eq!(experts::used_by(&factors), [0, 4, 0]);
    assert_eq!(experts::gates(&factors, 0).iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
    let similar = experts::near_duplicates(&factors, [-2.0, 2.0]);
    assert!(similar.iter().any(|pair| (pair.a, pair.b) == (0, 2) && pair.similarity > 1.0 - 1e-9), "{similar:?}");
}

#[test]
fn parts_of_a_model_are_that_model() {
    let (problem, model) = drawn(Recipe { task: Task::Classes(4), features: 5, ..Recipe::default() });
    let all = model.logits(&problem.dataset).unwrap();
    let labels = Labels::Multi { bits: vec![0; 2 * problem.dataset.units()], width: 2 };
    let two = Dataset { labels, ..problem.dataset.clone() };
    let some = model.with_outputs(&[3, 1]).unwrap().logits(&two).unwrap();
    for unit in 0..problem.dataset.units() {
        for (at, output) in [3, 1].into_iter().enumerate() {
            assert!((some[unit * 2 + at] - all[unit * 4 + output]).abs() < 1e-5);
        }
    }
    // Without the features whose readout is zero, nothing changes.
    let mut silent = model.clone();
    for k in [0, 3] {
        silent.parameters[model.layout.readout_weight.start + 4 * k..][..4].fill(0.0);
    }
    let kept = [1, 2, 4];
    let columns = Dataset { features: Arc::new(problem.dataset.features.columns(&kept)), ..problem.dataset.clone() };
    let (found, expected) =
        (silent.with_features(&kept).unwrap().logits(&columns).unwrap(), silent.logits(&problem.dataset).unwrap());
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5));
    assert!(model.with_outputs(&[4]).is_err() && model.with_features(&[5]).is_err());
}
