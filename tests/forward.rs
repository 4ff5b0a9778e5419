//! The forward pass (theta, F, H, logits and loss) equals the naive dense oracle over random problems.

mod common;

use common::oracle::Oracle;
use common::problems::{Problem, Recipe, Task, Values};
use common::{F64_TOLERANCE, assert_close, batch_of, plans, plans_for, run, run_batch};
use harmonia::architecture::HopWeights;
use harmonia::config::DropoutPlace;
use harmonia::dataset::Level;
use harmonia::device::Dropout;
use harmonia::device::cpu::Ops;
use harmonia::graph::{Direction, Walk};
use harmonia::plan::Plan;
use harmonia::seed::{Purpose, Stream};

/// f32 keeps seven digits; a few hundred terms of size one may lose two of them.
const F32_TOLERANCE: f64 = 1e-5;
/// Mask indices reach some thousands; the rate makes about every third entry drop.
const RATE: f64 = 0.35;

const TASKS: [(Level, Task); 8] = [
    (Level::Node, Task::Binary),
    (Level::Node, Task::Classes(4)),
    (Level::Node, Task::Multi(3)),
    (Level::Graph, Task::Binary),
    (Level::Graph, Task::Classes(3)),
    (Level::Graph, Task::Multi(2)),
    (Level::Node, Task::Numbers(2)),
    (Level::Graph, Task::Numbers(1)),
];

fn dropout(place: DropoutPlace, seed: u64) -> Dropout {
    Dropout { place, rate: RATE, stream: Stream::new(seed, Purpose::Dropout, 1) }
}

fn check<T: Ops>(problem: &Problem, noise: Option<&[f64]>, dropout: Option<Dropout>, tolerance: f64) {
    let expected = Oracle::new(problem, noise, dropout.as_ref());
    for plan in plans_for(dropout.as_ref()) {
        let found = run::<T>(problem, plan, noise, dropout);
        let context = (&problem.recipe, plan, dropout.map(|dropout| dropout.place));
        assert_close("theta", &found.hop_weights, &expected.hop_weights.concat(), tolerance, &context);
        assert_close("F", &found.responses, &expected.responses.concat(), tolerance, &context);
        if let Some(state) = &found.state {
            assert_close("H", state, &expected.state.concat(), tolerance, &context);
        }
        assert_close("logits", &found.logits, &expected.logits.concat(), tolerance, &context);
        assert_close("loss", &[found.loss], &[expected.loss], tolerance, &context);
    }
}

#[test]
fn every_task_expert_shape_and_number_of_active_experts() {
    let shapes = [vec![], vec![5], vec![16, 8], vec![7, 3, 4]];
    let mut seed = 100;
    for (level, task) in TASKS {
        for hidden in &shapes {
            for active in 1..=4 {
                seed += 1;
                let recipe = Recipe {
                    seed,
                    nodes: 20,
                    graphs: if level == Level::Graph { 5 } else { 1 },
                    level,
                    task,
                    hidden: hidden.clone(),
                    experts: 4,
                    active,
                    // Both storages, every walk length, one or several bases and embeddings in turn.
                    values: if seed % 2 == 0 { Values::Continuous } else { Values::Few(3) },
                    hops: 1 + seed as usize % 8,
                    bases: 1 + seed as usize % 3,
                    embedding: 1 + seed as usize % 5,
                    ..Recipe::default()
                };
                let problem = recipe.problem();
                check::<f64>(&problem, None, None, F64_TOLERANCE);
                check::<f64>(&problem, Some(&problem.noise), None, F64_TOLERANCE);
                check::<f32>(&problem, None, None, F32_TOLERANCE);
            }
        }
    }
}

#[test]
fn units_that_do_not_count_alike() {
    for (at, (level, task)) in TASKS.into_iter().enumerate() {
        let seed = 150 + at as u64;
        let graphs = if level == Level::Graph { 5 } else { 1 };
        let recipe = Recipe { seed, nodes: 20, graphs, level, task, unit_weights: true, ..Recipe::default() };
        let problem = recipe.problem();
        check::<f64>(&problem, None, None, F64_TOLERANCE);
        check::<f32>(&problem, None, None, F32_TOLERANCE);
        // Weights of 1 are none, to the bit.
        let units = problem.dataset.units();
        let ones = Problem { unit_weights: Some(vec![1.0; units]), ..recipe.problem() };
        let none = Problem { unit_weights: None, ..recipe.problem() };
        for plan in plans() {
            let [ones, none] = [&ones, &none].map(|problem| run::<f32>(problem, plan, None, None));
            assert_eq!((ones.loss, ones.gradient), (none.loss, none.gradient), "{plan:?} {recipe:?}");
        }
    }
}

#[test]
fn every_walk() {
    let mut seed = 200;
    for direction in [Direction::Undirected, Direction::Directed] {
        for flags in 0..8 {
            let [weighted, self_loops, lazy] = [flags & 1 != 0, flags & 2 != 0, flags & 4 != 0];
            for hop_weights in [HopWeights::Simplex, HopWeights::Absolute, HopWeights::Signed, HopWeights::Free] {
                seed += 1;
                let walk = Walk { self_loops, lazy };
                let recipe = Recipe {
                    seed,
                    nodes: 17,
                    direction,
                    weighted,
                    walk,
                    hop_weights,
                    hop_basis: lazy,
                    hops: 5,
                    ..Recipe::default()
                };
                check::<f64>(&recipe.problem(), None, None, F64_TOLERANCE);
            }
        }
    }
}

#[test]
fn sizes_around_tiles_lanes_and_panels() {
    // One node, one feature; a lane has 16 points, a tile 256, a panel 64 columns.
    for (nodes, features) in [(1, 1), (2, 1), (1, 70), (15, 2), (16, 2), (17, 65), (255, 1), (256, 2), (257, 1)] {
        let recipe = Recipe { seed: 300, nodes, features, hops: 2, hidden: vec![9], ..Recipe::default() };
        check::<f64>(&recipe.problem(), None, None, F64_TOLERANCE);
    }
}

#[test]
fn input_and_feature_dropout_mask_what_they_say() {
    for (at, place) in [DropoutPlace::Input, DropoutPlace::Feature, DropoutPlace::None].into_iter().enumerate() {
        for (offset, values) in [Values::Continuous, Values::Few(3)].into_iter().enumerate() {
            let seed = 400 + 2 * at as u64 + offset as u64;
            let recipe = Recipe { seed, nodes: 24, features: 6, values, ..Recipe::default() };
            let problem = recipe.problem();
            check::<f64>(&problem, Some(&problem.noise), Some(dropout(place, seed)), F64_TOLERANCE);
            if place != DropoutPlace::None {
                let masked = Oracle::new(&problem, None, Some(&dropout(place, seed)));
                let plain = Oracle::new(&problem, None, None);
                assert_ne!(masked.responses, plain.responses, "{place:?} drops nothing in {recipe:?}");
            }
        }
    }
}

#[test]
fn hidden_dropout_keeps_the_mean_and_differs_by_node() {
    // With one hidden layer the response is linear in the masked units, so its mean over masks is the plain response.
    let recipe = Recipe { seed: 500, nodes: 12, hidden: vec![6], values: Values::Few(2), ..Recipe::default() };
    let problem = recipe.problem();
    let plain = Oracle::new(&problem, None, None).responses.concat();
    let draws = 2000;
    let (mut sum, mut squares) = (vec![0.0; plain.len()], vec![0.0; plain.len()]);
    for step in 0..draws {
        let stream = Stream::new(500, Purpose::Dropout, step);
        let dropout = Dropout { place: DropoutPlace::Hidden, rate: RATE, stream };
        let found = run::<f64>(&problem, Plan::DIRECT, None, Some(dropout)).responses;
        for (at, value) in found.iter().enumerate() {
            sum[at] += value;
            squares[at] += value * value;
        }
        if step == 0 {
            // Nodes 0.. of feature 0 take two values, so without masks of their own they would give two responses.
            let mut distinct: Vec<u64> = found.iter().step_by(recipe.features).map(|value| value.to_bits()).collect();
            distinct.sort_unstable();
            distinct.dedup();
            assert!(distinct.len() > 4, "{} responses in {recipe:?}", distinct.len());
        }
    }
    for (at, &expected) in plain.iter().enumerate() {
        let mean = sum[at] / f64::from(draws);
        let error = ((squares[at] / f64::from(draws) - mean * mean) / f64::from(draws)).sqrt();
        // Five standard errors; 36 numbers are compared.
        assert!((mean - expected).abs() < 5.0 * error + F64_TOLERANCE, "{mean} {expected} +- {error} in {recipe:?}");
    }
}

#[test]
fn every_way_gives_the_same_gradient() {
    let places = [DropoutPlace::None, DropoutPlace::Input, DropoutPlace::Feature, DropoutPlace::Hidden];
    for (at, (level, task)) in TASKS.into_iter().enumerate() {
        for (offset, place) in places.into_iter().enumerate() {
            let seed = 600 + at as u64;
            let graphs = if level == Level::Graph { 4 } else { 1 };
            let values = if offset % 2 == 0 { Values::Few(2 + at % 3) } else { Values::Continuous };
            let direction = if at % 2 == 0 { Direction::Undirected } else { Direction::Directed };
            let recipe =
                Recipe { seed, nodes: 24, graphs, level, task, values, direction, features: 5, ..Recipe::default() };
            let problem = recipe.problem();
            let dropout = Some(dropout(place, seed));
            let expected = run::<f64>(&problem, Plan::DIRECT, Some(&problem.noise), dropout);
            for plan in plans_for(dropout.as_ref()) {
                let found = run::<f64>(&problem, plan, Some(&problem.noise), dropout);
                let context = (&recipe, plan, place);
                assert_close("loss", &[found.loss], &[expected.loss], F64_TOLERANCE, &context);
                assert_close("gradient", &found.gradient, &expected.gradient, F64_TOLERANCE, &context);
            }
        }
    }
}

#[test]
fn a_batch_of_some_graphs_gives_their_rows_of_the_whole() {
    for (seed, level) in [(700, Level::Graph), (701, Level::Node)] {
        let direction = Direction::Directed;
        let recipe = Recipe { seed, nodes: 30, graphs: 6, level, direction, weighted: true, ..Recipe::default() };
        let problem = recipe.problem();
        let expected = Oracle::new(&problem, None, None).logits;
        let units: &[u32] = if level == Level::Graph { &[4, 0, 5] } else { &[28, 3, 29, 1] };
        for plan in plans() {
            let batch = batch_of(&problem.dataset, recipe.walk, &problem.layout, plan, units, true);
            let found = run_batch::<f64>(&batch, &problem.layout, plan, &problem.parameters, None, None);
            assert_eq!(batch.units.len(), units.len());
            for &(row, unit) in &batch.units {
                let row = &found.logits[row as usize * 3..][..3];
                assert_close("logits", row, &expected[unit as usize], F64_TOLERANCE, &(&recipe, unit, plan));
            }
        }
    }
}
