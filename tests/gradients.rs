//! Every parameter gradient equals central differences of the loss, in f64 (`common/differences.rs`).

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

mod common;

use common::differences::{Differentiated, Tally};
use common::problems::{Problem, Recipe, Task, Values};
use common::{F64_TOLERANCE, assert_close, plans, plans_for, run};
use harmonia::architecture::HopWeights;
use harmonia::config::DropoutPlace;
use harmonia::dataset::Level;
use harmonia::device::cpu::Cpu;
use harmonia::device::{Device, Dropout};
use harmonia::graph::{Direction, Walk};
use harmonia::model::{Pass, Randomness};
use harmonia::plan::Plan;
use harmonia::seed::{Purpose, Stream};

/// f32 keeps seven digits; sums over 300 nodes may lose two of them.
const F32_TOLERANCE: f64 = 1e-5;
/// Compares all gradients of a problem: the obvious way with differences, all others with the obvious one.
fn check(tally: &mut Tally, problem: &Problem, noise: Option<&[f64]>, dropout: Option<Dropout>) {
    let gradient = run::<f64>(problem, Plan::DIRECT, noise, dropout).gradient;
    for plan in plans_for(dropout.as_ref()) {
        let found = run::<f64>(problem, plan, noise, dropout).gradient;
        assert_close("gradients", &found, &gradient, F64_TOLERANCE, &(&problem.recipe, plan));
    }
    let (batch, layout, parameters) = (&problem.batch(Plan::DIRECT), &problem.layout, &problem.parameters);
    let of = Differentiated { batch, layout, plan: Plan::DIRECT, parameters, noise, dropout };
    tally.check(&of, &gradient, &problem.recipe);
}

fn dropout(place: DropoutPlace, seed: u64) -> Dropout {
    Dropout { place, rate: 0.3, stream: Stream::new(seed, Purpose::Dropout, 5) }
}

#[test]
fn every_number_of_hops_and_active_experts() {
    let mut tally = Tally::default();
    for hops in 1..=8 {
        for active in 1..=3 {
            let seed = 1000 + 10 * hops as u64 + active as u64;
            let recipe = Recipe { seed, hops, active, ..Recipe::default() };
            check(&mut tally, &recipe.problem(), None, None);
        }
    }
    tally.finish();
}

#[test]
fn every_task() {
    let mut tally = Tally::default();
    for (at, task) in
        [Task::Binary, Task::Classes(4), Task::Multi(3), Task::Numbers(1), Task::Numbers(3)].into_iter().enumerate()
    {
        for (offset, values) in [Values::Continuous, Values::Few(3)].into_iter().enumerate() {
            let seed = 2000 + 2 * at as u64 + offset as u64;
            let node = Recipe { seed, task, values, ..Recipe::default() };
            check(&mut tally, &node.problem(), None, None);
            let graph = Recipe { level: Level::Graph, graphs: 4, ..node };
            check(&mut tally, &graph.problem(), None, None);
        }
    }
    tally.finish();
}

#[test]
fn units_that_do_not_count_alike() {
    let mut tally = Tally::default();
    let tasks = [Task::Binary, Task::Classes(4), Task::Multi(3), Task::Numbers(2)];
    for (at, task) in tasks.into_iter().enumerate() {
        let node = Recipe { seed: 2100 + at as u64, task, unit_weights: true, ..Recipe::default() };
        check(&mut tally, &node.problem(), None, None);
        let graph = Recipe { level: Level::Graph, graphs: 4, ..node };
        check(&mut tally, &graph.problem(), None, None);
    }
    tally.finish();
}

#[test]
fn every_walk() {
    let mut tally = Tally::default();
    let mut seed = 3000;
    for direction in [Direction::Undirected, Direction::Directed] {
        for flags in 0..8 {
            let [weighted, self_loops, lazy] = [flags & 1 != 0, flags & 2 != 0, flags & 4 != 0];
            seed += 1;
            let walk = Walk { self_loops, lazy };
            let recipe = Recipe { seed, direction, weighted, walk, hops: 4, ..Recipe::default() };
            check(&mut tally, &recipe.problem(), None, None);
        }
    }
    tally.finish();
}

#[test]
fn every_expert_shape() {
    let mut tally = Tally::default();
    for (at, hidden) in [vec![], vec![5], vec![16, 8], vec![7, 3, 4]].into_iter().enumerate() {
        let seed = 4000 + at as u64;
        let recipe = Recipe { seed, hidden, bases: 1 + at, embedding: 1 + at, ..Recipe::default() };
        check(&mut tally, &recipe.problem(), None, None);
    }
    tally.finish();
}

#[test]
fn every_kind_of_hop_weights() {
    use HopWeights::{Absolute, Free, Signed};
    let mut tally = Tally::default();
    for (at, (hop_weights, hop_basis)) in
        [(Free, false), (Free, true), (Signed, false), (Absolute, false)].into_iter().enumerate()
    {
        for (seed, hops) in [(5000, 1), (5001, 4), (5002, 8)] {
            let seed = seed + 10 * at as u64;
            check(
                &mut tally,
                &Recipe { seed, hops, hop_weights, hop_basis, ..Recipe::default() }.problem(),
                None,
                None,
            );
        }
    }
    tally.finish();
}

#[test]
fn routing_noise() {
    let mut tally = Tally::default();
    for active in 1..=3 {
        let recipe = Recipe { seed: 6000 + active as u64, active, ..Recipe::default() };
        let problem = recipe.problem();
        check(&mut tally, &problem, Some(&problem.noise), None);
    }
    tally.finish();
}

#[test]
fn every_dropout_for_dense_and_coded_features() {
    let mut tally = Tally::default();
    let mut seed = 7000;
    for place in [DropoutPlace::Input, DropoutPlace::Feature, DropoutPlace::Hidden] {
        for values in [Values::Continuous, Values::Few(3)] {
            for (level, graphs) in [(Level::Node, 1), (Level::Graph, 3)] {
                seed += 1;
                let recipe = Recipe { seed, values, level, graphs, features: 4, ..Recipe::default() };
                let problem = recipe.problem();
                check(&mut tally, &problem, Some(&problem.noise), Some(dropout(place, seed)));
            }
        }
    }
    tally.finish();
}

#[test]
fn more_features_than_one_panel() {
    let mut tally = Tally::default();
    let recipe = Recipe { seed: 8000, nodes: 9, features: 70, hidden: vec![4], hops: 2, ..Recipe::default() };
    check(&mut tally, &recipe.problem(), None, None);
    tally.finish();
}

#[test]
fn copies_of_a_problem_have_the_gradient_of_one() {
    // 400 x 12 nodes: more than one tile, chunk of rows and job, whose sums must add up to the mean over one copy.
    for (at, values) in [Values::Continuous, Values::Few(3)].into_iter().enumerate() {
        for (level, graphs) in [(Level::Node, 1), (Level::Graph, 2)] {
            for place in [DropoutPlace::None, DropoutPlace::Feature] {
                let seed = 9000 + at as u64;
                let recipe = Recipe { seed, nodes: 12, values, level, graphs, features: 18, ..Recipe::default() };
                let (one, dropout) = (recipe.problem(), Some(dropout(place, seed)));
                let many = one.copies(400);
                for plan in plans() {
                    let gradient =
                        |problem: &Problem| run::<f64>(problem, plan, Some(&problem.noise), dropout).gradient;
                    let context = (&recipe, place, plan);
                    assert_close("gradients", &gradient(&many), &gradient(&one), F64_TOLERANCE, &context);
                }
            }
        }
    }
}

#[test]
fn single_precision_gradients_follow_double_precision() {
    for (at, values) in [Values::Continuous, Values::Few(3)].into_iter().enumerate() {
        let recipe = Recipe { seed: 9500 + at as u64, nodes: 300, values, features: 20, ..Recipe::default() };
        let problem = recipe.problem();
        let noise = Some(problem.noise.as_slice());
        let double = run::<f64>(&problem, Plan::DIRECT, noise, None).gradient;
        for plan in plans() {
            let single = run::<f32>(&problem, plan, noise, None).gradient;
            for tensor in problem.layout.tensors() {
                let range = tensor.range.clone();
                assert_close(&tensor.name, &single[range.clone()], &double[range], F32_TOLERANCE, &(&recipe, plan));
            }
        }
    }
}

#[test]
fn gradients_are_added_to_what_is_there() {
    let problem = Recipe { values: Values::Few(3), ..Recipe::default() }.problem();
    for plan in plans() {
        let device = Cpu::<f64>::new();
        let batch = problem.batch(plan);
        let inputs = device.inputs(&batch, plan).unwrap();
        let mut pass = Pass::new(&device, &problem.layout, plan, &batch, &inputs).unwrap();
        let randomness = Randomness::none();
        let mut gradient = vec![1.0; problem.layout.len()];
        for _ in 0..2 {
            pass.forward(&inputs, &problem.parameters, &randomness).unwrap();
            pass.loss(&inputs).unwrap();
            pass.backward(&mut gradient, &inputs, &problem.parameters, &randomness).unwrap();
        }
        let once = run::<f64>(&problem, plan, None, None).gradient;
        let expected: Vec<f64> = once.iter().map(|value| 1.0 + 2.0 * value).collect();
        assert_close("gradients", &gradient, &expected, F64_TOLERANCE, &(&problem.recipe, plan));
    }
}
