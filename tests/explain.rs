//! Explanations tested as claims: intercept, terms and rest equal the logit; every term is that of the formula, computed
//! densely; what-ifs equal training data that were changed by hand; importances, shapes and predictions likewise.

#![allow(clippy::unwrap_used)]

mod common;

use common::oracle::{Oracle, walk_powers};
use common::problems::{Problem, Recipe, Task, Values};
use harmonia::architecture::HopWeights;
use harmonia::dataset::{Dataset, Features, Labels, Level};
use harmonia::explain::{
    Ball, By, Case, Distribution, Edit, Factors, Importance, Monb, Response, Score, Shape, Sources, Structure, Target,
    Term, Walks, centre, experts, ranking,
};
use harmonia::graph::{Direction, Graph, Transition, Walk};
use harmonia::loss::Objective;
use harmonia::model::FittedModel;
use harmonia::watch::Watch;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// f32 keeps seven digits, and a logit is a sum of many terms: the engine's logit against terms in f64.
const COMPLETENESS: f64 = 1e-4;
/// Terms in f64 against the same sums in another order; lines of pieces against layers.
const F64: f64 = 1e-10;
/// H by the engine in f32 against f64.
const F32: f64 = 2e-5;

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
        structure: None,
    };
    (problem, model)
}

/// Recipes over all task kinds, walks, graphs and constraints.
fn recipes() -> Vec<Recipe> {
    let mut found = Vec::new();
    for (at, (level, task)) in TASKS.into_iter().enumerate() {
        for variant in 0..4u64 {
            found.push(Recipe {
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
    found
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

#[test]
fn contributions_are_those_of_the_formula_and_add_up_to_the_logit() {
    for recipe in recipes() {
        let (problem, model) = drawn(recipe);
        let factors = Factors::of(&model).unwrap();
        let engine = model.logits(&problem.dataset).unwrap();
        let outputs = factors.outputs();
        let means = centre::mean_responses(&factors, &problem.dataset.features);
        let context = &problem.recipe;
        for unit in [0, problem.dataset.units() - 1] {
            let case = Case::new(&model, &factors, &problem.dataset, target(&problem.dataset, unit), &Edit::default())
                .unwrap();
            for (found, &expected) in case.logits().iter().zip(&engine[unit * outputs..]) {
                let expected = f64::from(expected);
                assert!(
                    (found - expected).abs() <= COMPLETENESS * expected.abs().max(1.0),
                    "{found} {expected} {context:?}"
                );
            }
            let mut scores = vec![Score { output: 0, versus: None, sign: 1.0 }];
            match outputs {
                1 => scores.push(Score { sign: -1.0, ..scores[0] }),
                _ => scores.push(Score { output: 1, versus: Some(0), sign: 1.0 }),
            }
            for (score, centre) in scores.iter().flat_map(|score| [(score, vec![0.0; 5]), (score, means.clone())]) {
                let dense = dense_terms(&problem, unit, *score, &centre);
                let of = |values: &[f32]| {
                    let value = |output: usize| f64::from(values[unit * outputs + output]);
                    score.sign * (value(score.output) - score.versus.map_or(0.0, value))
                };
                for by in all_keys() {
                    let everything = case.explain(*score, by, usize::MAX, &centre).unwrap();
                    // Complete, against the engine on the whole graph.
                    let sum: f64 = everything.terms.iter().map(|term| term.value).sum();
                    let logit = of(&engine);
                    assert!(
                        (everything.intercept + sum - logit).abs() <= COMPLETENESS * logit.abs().max(1.0),
                        "{context:?}"
                    );
                    assert!(everything.residual <= COMPLETENESS * logit.abs().max(1.0), "{context:?}");
                    assert!((everything.logit - logit).abs() <= COMPLETENESS * logit.abs().max(1.0), "{context:?}");
                    assert_eq!((everything.rest, everything.rest_terms), (0.0, 0));
                    // Every term is the dense one.
                    let mut expected: HashMap<[Option<usize>; 3], f64> = HashMap::new();
                    for (&(k, j, t), &value) in &dense {
                        let key = [by.feature.then_some(k), by.node.then_some(j), by.hop.then_some(t)];
                        *expected.entry(key).or_default() += value;
                    }
                    for Term { feature, node, hop, value } in &everything.terms {
                        let dense = expected.remove(&[*feature, *node, *hop]).unwrap();
                        assert!((value - dense).abs() < F64, "{value} {dense} {by:?} {context:?}");
                    }
                    // What is not listed is zero: the target does not see it.
                    assert!(expected.values().all(|&value| value == 0.0), "{by:?} {context:?}");
                    // A few of them and the rest.
                    let few = case.explain(*score, by, 2, &centre).unwrap();
                    assert_eq!(few.terms[..], everything.terms[..few.terms.len()]);
                    assert_eq!(few.terms.len() + few.rest_terms, everything.terms.len());
                    let shown: f64 = few.terms.iter().map(|term| term.value).sum();
                    assert!((shown + few.rest - sum).abs() < F64 * sum.abs().max(1.0));
                }
            }
        }
    }
}

#[test]
fn tables_of_a_case_are_the_terms_added_up() {
    let (problem, model) = drawn(Recipe { task: Task::Classes(4), features: 5, hops: 4, ..Recipe::default() });
    let factors = Factors::of(&model).unwrap();
    let means = centre::mean_responses(&factors, &problem.dataset.features);
    let case = Case::new(&model, &factors, &problem.dataset, Target::Node(3), &Edit::default()).unwrap();
    let (nodes, hops) = (case.node_values(&means), case.hop_values(&means));
    for output in 0..4 {
        let terms = dense_terms(&problem, 3, Score { output, versus: None, sign: 1.0 }, &means);
        let sum = |keep: &dyn Fn(usize, usize) -> bool| -> f64 {
            terms.iter().filter(|((_, j, t), _)| keep(*j, *t)).map(|(_, value)| value).sum()
        };
        for (at, &node) in case.ball.nodes.iter().enumerate() {
            assert!((nodes[at * 4 + output] - sum(&|j, _| j == node as usize)).abs() < F64);
        }
        for t in 0..4 {
            assert!((hops[t * 4 + output] - sum(&|_, at| at == t)).abs() < F64);
        }
    }
}

#[test]
fn what_ifs_equal_data_changed_by_hand() {
    for recipe in recipes() {
        let (problem, model) = drawn(recipe);
        let (dataset, a) = (&problem.dataset, &problem.layout.architecture);
        let factors = Factors::of(&model).unwrap();
        let undirected = problem.recipe.direction == Direction::Undirected;
        for unit in [0, dataset.units() / 2] {
            let first = if dataset.level == Level::Node { unit } else { dataset.graph_nodes(unit).start };
            let neighbours: Vec<u32> = dataset.graph.adjacency().row_entries(first).map(|(j, _)| j as u32).collect();
            for &j in neighbours.iter().take(2) {
                // The node no longer reads from its neighbour, nor, where edges go both ways, the other way round.
                let gone =
                    |&(a, b): &(u32, u32)| (a, b) == (first as u32, j) || (undirected && (b, a) == (first as u32, j));
                let kept = || (0..problem.edges.len()).filter(|&e| !gone(&problem.edges[e]));
                let edges: Vec<(u32, u32)> = kept().map(|e| problem.edges[e]).collect();
                let weights: Option<Vec<f32>> =
                    problem.weights.as_ref().map(|weights| kept().map(|e| weights[e]).collect());
                let graph =
                    Graph::from_edges(dataset.graph.nodes(), &edges, weights.as_deref(), problem.recipe.direction)
                        .unwrap();
                let changed = Dataset { graph, ..dataset.clone() };
                let mut dropped = vec![(first as u32, j)];
                dropped.extend(undirected.then_some((j, first as u32)));
                let edit = Edit { dropped, ..Edit::default() };
                same_logits(&model, &factors, dataset, unit, &edit, &changed, &problem.recipe);
            }
            // Another node's features, seen or not.
            for node in [first, dataset.graph.nodes() - 1] {
                let row: Vec<f32> = (0..a.features).map(|k| 0.3 * k as f32 - 0.7).collect();
                let mut values = dataset.features.dense().into_owned();
                values[node * a.features..][..a.features].copy_from_slice(&row);
                let features = Arc::new(Features::new(dataset.graph.nodes(), a.features, values).unwrap());
                let changed = Dataset { features, ..dataset.clone() };
                let edit = Edit { replaced: HashMap::from([(node as u32, row)]), ..Edit::default() };
                same_logits(&model, &factors, dataset, unit, &edit, &changed, &problem.recipe);
            }
        }
    }
}

fn same_logits(
    model: &FittedModel,
    factors: &Factors,
    dataset: &Dataset,
    unit: usize,
    edit: &Edit,
    changed: &Dataset,
    recipe: &Recipe,
) {
    let outputs = factors.outputs();
    let edited = Case::new(model, factors, dataset, target(dataset, unit), edit).unwrap();
    // Exactly: the same walk on a graph that was built without the edge.
    let rebuilt = Case::new(model, factors, changed, target(dataset, unit), &Edit::default()).unwrap();
    let brute = &model.logits(changed).unwrap()[unit * outputs..][..outputs];
    let all: Vec<usize> = (0..outputs).collect();
    let (by_engine, pulled) = (edited.engine_logits(&all).unwrap(), edited.pulled_logits(&all));
    // Together, one by one and in another order: guessed outputs and others.
    assert_eq!(pulled, all.iter().map(|&output| edited.pulled_logits(&[output])[0]).collect::<Vec<_>>(), "{recipe:?}");
    let backwards: Vec<usize> = all.iter().rev().copied().collect();
    assert!(edited.pulled_logits(&backwards).iter().rev().eq(&pulled), "{recipe:?}");
    for output in 0..outputs {
        let (found, exact, brute) = (edited.logits()[output], rebuilt.logits()[output], f64::from(brute[output]));
        assert!((found - exact).abs() < F64, "{found} {exact} {recipe:?}");
        assert!((found - pulled[output]).abs() < F64, "{found} {} {recipe:?}", pulled[output]);
        assert!((found - brute).abs() <= COMPLETENESS * brute.abs().max(1.0), "{found} {brute} {recipe:?}");
        assert!((by_engine[output] - brute).abs() <= COMPLETENESS * brute.abs().max(1.0), "{recipe:?}");
    }
}

/// More nodes than are looked at together, and more than one task takes: sums over them, taken plainly.
#[test]
fn large_neighbourhoods_are_explained_in_portions() {
    for (seed, direction) in [(1, Direction::Undirected), (2, Direction::Directed)] {
        let recipe =
            Recipe { seed, nodes: 4001, hub: 1500, hops: 4, direction, task: Task::Classes(5), ..Recipe::default() };
        let (problem, model) = drawn(recipe);
        let (dataset, factors) = (&problem.dataset, Factors::of(&model).unwrap());
        let (d, hops, outputs) = (factors.features(), factors.hops(), factors.outputs());
        let transition = Transition::new(&dataset.graph, problem.recipe.walk);
        for start in [0, 17, 4000] {
            let mut reach = vec![0.0; dataset.graph.nodes()];
            reach[start] = 1.0;
            let mut expected = factors.bias.clone();
            for t in 0..hops {
                let mut next = vec![0.0; reach.len()];
                for (i, &weight) in reach.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                    for (j, entry) in transition.matrix().row_entries(i) {
                        next[j] += weight * f64::from(entry) / transition.degree()[i];
                    }
                    let x = &dataset.features.dense()[i * d..][..d];
                    for (k, &x) in x.iter().enumerate() {
                        let term = factors.theta(t, k) * weight * factors.response(k, f64::from(x));
                        for (output, logit) in expected.iter_mut().enumerate() {
                            *logit += factors.weight[k * outputs + output] * term;
                        }
                    }
                }
                reach = next;
            }
            let case = Case::new(&model, &factors, dataset, Target::Node(start), &Edit::default()).unwrap();
            assert!(start != 0 || case.ball.nodes.len() > 1500);
            let all: Vec<usize> = (0..outputs).collect();
            let single: Vec<f64> = all.iter().map(|&output| case.pulled_logits(&[output])[0]).collect();
            for found in [case.logits(), case.pulled_logits(&all), single] {
                for (found, expected) in found.iter().zip(&expected) {
                    assert!((found - expected).abs() < F64, "{found} {expected}");
                }
            }
            let means = centre::mean_responses(&factors, &dataset.features);
            let score = Score { output: 2, versus: Some(4), sign: 1.0 };
            for by in all_keys() {
                let explanation = case.explain(score, by, 3, &means).unwrap();
                let sum = explanation.terms.iter().map(|term| term.value).sum::<f64>() + explanation.rest;
                let difference = explanation.intercept + sum - (expected[2] - expected[4]);
                assert!(difference.abs() < F64, "{by:?}: {difference}");
                // The largest are the first of all.
                let all = case.explain(score, by, usize::MAX, &means).unwrap();
                assert_eq!(explanation.terms, all.terms[..explanation.terms.len()], "{by:?}");
                assert_eq!(explanation.rest_terms + explanation.terms.len(), all.terms.len(), "{by:?}");
            }
        }
        // What-ifs at the rim, the middle and the start.
        let ball = Case::new(&model, &factors, dataset, Target::Node(0), &Edit::default()).unwrap().ball;
        for &node in [&ball.nodes[ball.nodes.len() - 1], &ball.nodes[ball.nodes.len() / 2], &ball.nodes[0]] {
            let row = vec![0.25; d];
            let mut values = dataset.features.dense().into_owned();
            values[node as usize * d..][..d].copy_from_slice(&row);
            let features = Arc::new(Features::new(dataset.graph.nodes(), d, values).unwrap());
            let changed = Dataset { features, ..dataset.clone() };
            let edit = Edit { replaced: HashMap::from([(node, row)]), ..Edit::default() };
            same_logits(&model, &factors, dataset, 0, &edit, &changed, &problem.recipe);
        }
    }
}

/// All there is to an explanation, as text: equal bits are equal texts.
fn explained(model: &FittedModel, dataset: &Dataset, unit: usize) -> String {
    let factors = Factors::of(model).unwrap();
    let means = centre::mean_responses(&factors, &dataset.features);
    let case = Case::new(model, &factors, dataset, target(dataset, unit), &Edit::default()).unwrap();
    let score = Score { output: 1, versus: Some(0), sign: 1.0 };
    let explanations = all_keys().into_iter().map(|by| case.explain(score, by, 20, &means).unwrap());
    format!("{:?} {:?} {:?}", explanations.collect::<Vec<_>>(), case.pulled_logits(&[0, 1]), case.node_values(&means))
}

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

#[test]
fn explanations_do_not_depend_on_threads() {
    let (problem, model) = large();
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| explained(&model, &problem.dataset, 0))
    };
    let one = with(1);
    assert!([2, 5].map(with).iter().all(|other| *other == one));
}

#[test]
fn explanations_do_not_depend_on_how_features_are_held() {
    let (problem, model) = large();
    let (n, d) = (problem.dataset.graph.nodes(), model.layout.architecture.features);
    let mut sparse = problem.dataset.features.dense().into_owned();
    sparse.iter_mut().enumerate().filter(|(at, _)| at % 23 != 0).for_each(|(_, x)| *x = 0.0);
    let sparse = Features::new(n, d, sparse).unwrap().compact();
    let half = Features::clone(&problem.dataset.features).halved().unwrap();
    assert!(matches!(sparse.values(), harmonia::dataset::Values::Sparse(_)));
    for held in [sparse, half] {
        let dense = Features::new(n, d, held.dense().into_owned()).unwrap();
        let [held, dense] = [held, dense].map(|features| {
            let dataset = Dataset { features: Arc::new(features), ..problem.dataset.clone() };
            explained(&model, &dataset, 0)
        });
        assert!(held == dense);
    }
}

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

/// A response without knots: f_k(x) = (k + 1) cos(x + k).
#[derive(Debug)]
struct Cosine(usize);

impl Response for Cosine {
    fn features(&self) -> usize {
        self.0
    }

    fn value(&self, k: usize, x: f64) -> f64 {
        (k + 1) as f64 * (x + k as f64).cos()
    }

    fn slope(&self, k: usize, x: f64) -> f64 {
        -((k + 1) as f64) * (x + k as f64).sin()
    }

    fn knots(&self, _: usize) -> Option<Shape> {
        None
    }
}

/// Another structure: term t is the mean over the nodes at distance t, and nothing where there are none.
#[derive(Debug)]
struct Shells(usize);

struct ShellsOf<'a>(&'a Graph, Vec<(u32, u32)>, usize);

impl Structure for Shells {
    fn terms(&self) -> usize {
        self.0
    }

    fn key(&self) -> &'static str {
        "shell"
    }

    fn weight(&self, t: usize, k: usize) -> f64 {
        1.0 / (1 + t + k) as f64
    }

    fn sources<'g>(&'g self, graph: &'g Graph, dropped: &[(u32, u32)]) -> Box<dyn Sources + 'g> {
        Box::new(ShellsOf(graph, dropped.to_vec(), self.0))
    }
}

impl ShellsOf<'_> {
    /// Nodes at distance 0, 1, ... of a node.
    fn around(&self, node: u32) -> Vec<Vec<u32>> {
        let (mut seen, mut shells) = (vec![node], vec![vec![node]]);
        while shells.len() < self.2 {
            let mut next = Vec::new();
            for &i in &shells[shells.len() - 1] {
                for (j, _) in self.0.adjacency().row_entries(i as usize) {
                    let j = j as u32;
                    if !self.1.contains(&(i, j)) && !seen.contains(&j) {
                        seen.push(j);
                        next.push(j);
                    }
                }
            }
            shells.push(next);
        }
        shells
    }
}

impl Sources for ShellsOf<'_> {
    fn ball(&self, start: Range<u32>) -> Ball {
        let shells: Vec<Vec<Vec<u32>>> = start.clone().map(|node| self.around(node)).collect();
        let mut ball = Ball { nodes: start.collect(), distance: Vec::new(), weights: Vec::new(), kept: Vec::new() };
        for t in 0..self.2 {
            let mut weights: HashMap<u32, f64> = HashMap::new();
            let found = shells.iter().map(|of| &of[t]).filter(|shell| !shell.is_empty());
            ball.kept.push(found.clone().count() as f64 / shells.len() as f64);
            for shell in found {
                shell.iter().for_each(|&j| *weights.entry(j).or_default() += 1.0 / shell.len() as f64);
            }
            let mut new: Vec<u32> = weights.keys().copied().filter(|j| !ball.nodes.contains(j)).collect();
            new.sort_unstable();
            ball.nodes.extend(new);
            ball.distance.resize(ball.nodes.len(), t as u32);
            ball.weights.push(ball.nodes.iter().map(|j| weights.get(j).copied().unwrap_or(0.0)).collect());
        }
        ball
    }

    fn graph(&self, _: &Ball) -> harmonia::Result<Option<Graph>> {
        Ok(None)
    }
}

/// r_t[i][j] of the toy shells by all distances.
fn dense_shells(graph: &Graph, terms: usize) -> Vec<Vec<Vec<f64>>> {
    let n = graph.nodes();
    let mut distance = vec![vec![usize::MAX; n]; n];
    (0..n).for_each(|i| distance[i][i] = 0);
    for (i, row) in distance.iter_mut().enumerate() {
        for step in 0..n {
            for a in (0..n).filter(|&a| row[a] == step).collect::<Vec<_>>() {
                graph.adjacency().row_entries(a).for_each(|(b, _)| row[b] = row[b].min(step + 1));
            }
        }
        assert_eq!(row[i], 0);
    }
    let reach = |t: usize, i: usize, j: usize| match distance[i][j] == t {
        true => 1.0 / distance[i].iter().filter(|&&steps| steps == t).count() as f64,
        false => 0.0,
    };
    (0..terms).map(|t| (0..n).map(|i| (0..n).map(|j| reach(t, i, j)).collect()).collect()).collect()
}

/// Holds explanations of any additive model against plain sums over `reach[t][i][j]`.
fn holds(factors: &Factors, dataset: &Dataset, reach: &[Vec<Vec<f64>>], context: &str) {
    let (d, outputs) = (factors.features(), factors.outputs());
    let x = dataset.features.dense();
    let means = centre::mean_responses(factors, &dataset.features);
    let f = |j: usize, k: usize| factors.response(k, f64::from(x[j * d + k]));
    for (k, mean) in means.iter().enumerate() {
        let plain = (0..dataset.graph.nodes()).map(|j| f(j, k)).sum::<f64>() / dataset.graph.nodes() as f64;
        assert!((mean - plain).abs() < F64, "{context}");
    }
    let rows = |unit: usize| match dataset.level {
        Level::Node => unit..unit + 1,
        Level::Graph => dataset.graph_nodes(unit),
    };
    let weight = |score: Score, values: &[f64], at: usize| {
        let value = |output: usize| values[at * outputs + output];
        score.sign * (value(score.output) - score.versus.map_or(0.0, value))
    };
    let terms = |unit: usize, score: Score, centre: &[f64]| {
        let mut terms: HashMap<(usize, usize, usize), f64> = HashMap::new();
        for (k, centre) in centre.iter().enumerate() {
            for (t, reach) in reach.iter().enumerate() {
                for j in 0..dataset.graph.nodes() {
                    let reach: f64 = rows(unit).map(|i| reach[i][j]).sum();
                    let value = weight(score, &factors.weight, k) * factors.theta(t, k) * reach * (f(j, k) - centre);
                    terms.insert((k, j, t), value);
                }
            }
        }
        terms
    };
    let score = Score { output: outputs - 1, versus: (outputs > 1).then_some(0), sign: 1.0 };
    for unit in [0, dataset.units() - 1] {
        let case = Case::of(factors, dataset, target(dataset, unit), &Edit::default()).unwrap();
        assert!(case.engine_logits(&[0]).is_err());
        let raw: f64 = terms(unit, score, &vec![0.0; d]).values().sum();
        let logit = weight(score, &factors.bias, 0) + raw;
        assert!((weight(score, &case.logits(), 0) - logit).abs() < F64, "{context}");
        let pulled = case.pulled_logits(&(0..outputs).collect::<Vec<_>>());
        assert!((weight(score, &pulled, 0) - logit).abs() < F64, "{context}");
        for centre in [vec![0.0; d], means.clone()] {
            let dense = terms(unit, score, &centre);
            for by in all_keys() {
                let found = case.explain(score, by, usize::MAX, &centre).unwrap();
                let sum: f64 = found.terms.iter().map(|term| term.value).sum();
                assert!((found.intercept + sum - logit).abs() < F64, "complete: {by:?} {context}");
                assert!((found.logit - logit).abs() < F64 && found.residual < F64, "{by:?} {context}");
                let mut expected: HashMap<[Option<usize>; 3], f64> = HashMap::new();
                for (&(k, j, t), &value) in &dense {
                    let key = [by.feature.then_some(k), by.node.then_some(j), by.hop.then_some(t)];
                    *expected.entry(key).or_default() += value;
                }
                for Term { feature, node, hop, value } in &found.terms {
                    let dense = expected.remove(&[*feature, *node, *hop]).unwrap();
                    assert!((value - dense).abs() < F64, "{value} {dense} {by:?} {context}");
                }
                assert!(expected.values().all(|value| value.abs() < F64), "{by:?} {context}");
            }
        }
    }
    let units = &dataset.split.train;
    let found = Importance::of_any(factors, dataset, units, &means, &Watch::silent()).unwrap();
    let score = Score { output: 0, versus: None, sign: 1.0 };
    let (mut size, mut signed) = (vec![0.0; d], vec![0.0; d]);
    for &unit in units {
        let mut of_unit = vec![0.0; d];
        terms(unit as usize, score, &means).into_iter().for_each(|((k, _, _), value)| of_unit[k] += value);
        for k in 0..d {
            size[k] += of_unit[k].abs() / units.len() as f64;
            signed[k] += of_unit[k] / units.len() as f64;
        }
    }
    for k in 0..d {
        assert!((found.of(factors, k, 0) - size[k]).abs() < F64, "{context}");
        assert!((found.signed(factors, k, 0) - signed[k]).abs() < F64, "{context}");
    }
}

#[test]
fn any_response_on_any_structure_is_explained_exactly() {
    for recipe in recipes() {
        let (problem, model) = drawn(recipe);
        let (dataset, trained) = (&problem.dataset, Factors::of(&model).unwrap());
        let (d, terms) = (trained.features(), trained.hops());
        let walks: Arc<dyn Structure> =
            Arc::new(Walks::new(problem.recipe.walk, d, trained.hop_weights.clone()).unwrap());
        let monb: Arc<dyn Response> = Arc::new(Monb::of(&model).unwrap());
        let (cosine, shells): (Arc<dyn Response>, Arc<dyn Structure>) = (Arc::new(Cosine(d)), Arc::new(Shells(terms)));
        let powers = walk_powers(&problem.transition(), terms);
        let far = dense_shells(&dataset.graph, terms);
        let of = |response: &Arc<dyn Response>, structure: &Arc<dyn Structure>| {
            let (bias, weight) = (trained.bias.clone(), trained.weight.clone());
            Factors::new(bias, weight, Arc::clone(response), Arc::clone(structure)).unwrap()
        };
        let context = format!("{:?}", problem.recipe);
        holds(&of(&monb, &walks), dataset, &powers, &context);
        holds(&of(&cosine, &walks), dataset, &powers, &context);
        holds(&of(&monb, &shells), dataset, &far, &context);
        holds(&of(&cosine, &shells), dataset, &far, &context);
        assert!(of(&cosine, &walks).monb().is_none() && of(&monb, &shells).monb().is_some());
        assert_eq!(of(&cosine, &shells).structure().name(2), "shell 2");
        assert!(experts::used_by(&of(&cosine, &walks)).is_empty());
        assert!(Factors::new(vec![0.0], vec![0.0; d + 1], Arc::clone(&cosine), Arc::clone(&walks)).is_err());
    }
}

/// A response that is known point by point only.
#[derive(Debug)]
struct PointByPoint(Monb);

impl Response for PointByPoint {
    fn features(&self) -> usize {
        self.0.features()
    }

    fn value(&self, k: usize, x: f64) -> f64 {
        self.0.value(k, x)
    }

    fn slope(&self, k: usize, x: f64) -> f64 {
        self.0.slope(k, x)
    }

    fn knots(&self, _: usize) -> Option<Shape> {
        None
    }
}

#[test]
fn blocks_of_nodes_are_the_responses_one_by_one_to_the_bit() {
    let (problem, model) = large();
    let own = Factors::of(&model).unwrap();
    let walks = Walks::new(problem.recipe.walk, own.features(), own.hop_weights.clone()).unwrap();
    let response = PointByPoint(Monb::of(&model).unwrap());
    let plain = Factors::new(own.bias.clone(), own.weight.clone(), Arc::new(response), Arc::new(walks)).unwrap();
    let texts = [&own, &plain].map(|factors| {
        let means = centre::mean_responses(factors, &problem.dataset.features);
        let case = Case::of(factors, &problem.dataset, Target::Node(0), &Edit::default()).unwrap();
        format!("{means:?} {:?} {:?}", case.logits(), case.node_values(&means))
    });
    assert!(texts[0] == texts[1]);
}

#[test]
fn a_response_without_knots_is_sampled_over_the_data_and_says_so() {
    let walks = Walks::new(Walk::default(), 2, vec![0.5; 4]).unwrap();
    let factors = Factors::new(vec![0.0], vec![1.0; 2], Arc::new(Cosine(2)), Arc::new(walks)).unwrap();
    let shape = Shape::over(&factors, 1, [-2.0, 5.0]);
    assert!(!shape.exact);
    let (first, last) = (shape.knots[0], shape.knots[shape.knots.len() - 1]);
    assert_eq!((first, last), ([-2.0, factors.response(1, -2.0)], [5.0, factors.response(1, 5.0)]));
    assert_eq!(shape.left_slope, factors.responses().slope(1, -2.0));
    // A chord of a curve is off by step^2 / 8 times its largest curvature, here 2.
    let step = 7.0 / (shape.knots.len() - 1) as f64;
    for at in 0..=1000 {
        let x = -2.0 + 7.0 * f64::from(at) / 1000.0;
        assert!((shape.value(x) - factors.response(1, x)).abs() <= step * step / 4.0 + F64, "at {x}");
    }
    // A column of one value, and none at all.
    assert_eq!(Shape::over(&factors, 0, [1.5, 1.5]).knots, [[1.5, factors.response(0, 1.5)]]);
    assert_eq!(Shape::over(&factors, 0, [f64::INFINITY, f64::NEG_INFINITY]).knots.len(), 1);
    // Exact curves are exact whatever the range.
    let (_, model) = drawn(Recipe::default());
    let trained = Factors::of(&model).unwrap();
    assert!(Shape::of(&trained, 0).exact);
    assert_eq!(Shape::over(&trained, 0, [0.0, 0.1]), Shape::of(&trained, 0));
    let shape = Shape::of(&trained, 0);
    let middle = (shape.knots[0][0] + shape.knots[1][0]) / 2.0;
    assert!((trained.responses().slope(0, middle) - shape.slope_before(1)).abs() < 1e-8);
}
