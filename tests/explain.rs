//! Explanations tested as claims: intercept, terms and rest equal the logit; every term is that of the formula, computed
//! densely; what-ifs equal training data that were changed by hand; importances, shapes and predictions likewise.
//!
//! What holds for one prediction is in [`predictions`], for a whole model in [`models`], for models of any response and any
//! structure in [`any_factors`].

#![allow(clippy::unwrap_used)]

#[path = "explain/any_factors.rs"]
mod any_factors;
mod common;
#[path = "explain/models.rs"]
mod models;
#[path = "explain/predictions.rs"]
mod predictions;

use common::oracle::{Oracle, walk_powers};
use common::problems::{Problem, Recipe, Task, Values};
use harmonia::architecture::HopWeights;
use harmonia::dataset::{Dataset, Level};
use harmonia::explain::{By, Score, Target};
use harmonia::graph::{Direction, Walk};
use harmonia::loss::Objective;
use harmonia::model::FittedModel;
use std::collections::HashMap;

/// f32 keeps seven digits, and a logit is a sum of many terms: the engine's logit against terms in f64.
const COMPLETENESS: f64 = 1e-4;
/// Terms in f64 against the same sums in another order; lines of pieces against layers.
const F64: f64 = 1e-10;

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

/// A random problem whose parameters are f32, and the model of them.
fn drawn(recipe: Recipe) -> (Problem, FittedModel) {
    let mut problem = recipe.problem();
    let parameters: Vec<f32> = problem.parameters.iter().map(|&value| value as f32).collect();
    problem.parameters = parameters.iter().map(|&value| f64::from(value)).collect();
    let model = FittedModel {
        layout: problem.layout.clone(),
        parameters,
        walk: problem.recipe.walk,
        objective: Objective::of(&problem.dataset.labels),
        scaling: None,
        calibration: None,
        structure: None,
    };
    (problem, model)
}

/// Recipes over all task kinds, walks, graphs and constraints.
fn recipes() -> Vec<Recipe> {
    let mut recipes = Vec::new();
    for (at, (level, task)) in TASKS.into_iter().enumerate() {
        for variant in 0..4u64 {
            recipes.push(Recipe {
                seed: 7000 + 10 * at as u64 + variant,
                nodes: 18,
                graphs: if level == Level::Graph { 4 } else { 1 + variant as usize % 2 },
                direction: if variant % 2 == 0 { Direction::Undirected } else { Direction::Directed },
                weighted: variant >= 2,
                walk: Walk { self_loops: variant == 1, lazy: variant == 3 },
                level,
                task,
                values: if variant == 2 { Values::Few(3) } else { Values::Continuous },
                features: 5,
                hops: 1 + (at + variant as usize) % 4,
                hop_weights: if variant == 3 { HopWeights::Free } else { HopWeights::Simplex },
                ..Recipe::default()
            });
        }
    }
    recipes
}

fn target(dataset: &Dataset, unit: usize) -> Target {
    if dataset.level == Level::Node { Target::Node(unit) } else { Target::Graph(unit) }
}

/// u_k theta[t,k] (sum over the target's rows of M^t)[j] (f_k(x[j,k]) - c_k), for every k, j, t.
fn dense_terms(problem: &Problem, unit: usize, score: Score, centre: &[f64]) -> HashMap<(usize, usize, usize), f64> {
    let oracle = Oracle::new(problem, None, None);
    let a = &problem.layout.architecture;
    let powers = walk_powers(&problem.transition(), a.hops);
    let rows = match problem.dataset.level {
        Level::Node => unit..unit + 1,
        Level::Graph => problem.dataset.graph_nodes(unit),
    };
    let weight = |k: usize| {
        let w = |output: usize| problem.parameters[problem.layout.readout_weight.start + k * a.outputs + output];
        score.sign * (w(score.output) - score.versus.map_or(0.0, w))
    };
    let mut terms = HashMap::new();
    for (k, centre) in centre.iter().enumerate() {
        for j in 0..problem.dataset.graph.nodes() {
            for (t, power) in powers.iter().enumerate() {
                let reach: f64 = rows.clone().map(|i| power[i][j]).sum();
                let value = weight(k) * oracle.hop_weights[t][k] * reach * (oracle.responses[j][k] - centre);
                terms.insert((k, j, t), value);
            }
        }
    }
    terms
}

fn all_keys() -> Vec<By> {
    (0..8).map(|bits| By { feature: bits & 1 > 0, node: bits & 2 > 0, hop: bits & 4 > 0 }).collect()
}

/// A neighbourhood of more nodes than one task takes.
fn large() -> (Problem, FittedModel) {
    drawn(Recipe {
        seed: 3,
        nodes: 4001,
        hub: 1500,
        hops: 4,
        features: 20,
        task: Task::Classes(5),
        ..Recipe::default()
    })
}
