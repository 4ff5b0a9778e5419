//! One prediction: its terms, its what-ifs, and that neither threads nor how features are held change a bit of it.

use super::common::edges::assert_what_ifs;
use super::common::problems::{Recipe, Task};
use super::{COMPLETENESS, F64, all_keys, dense_terms, drawn, large, recipes, target};
use harmonia::dataset::{Dataset, Features, Level, Schema, TableColumn};
use harmonia::explain::{By, Case, Edit, Factors, Groups, Score, Target, Term, centre, explain_nodes};
use harmonia::graph::{Direction, Graph, Transition};
use harmonia::model::FittedModel;
use std::collections::HashMap;
use std::sync::Arc;

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
fn many_predictions_at_once_are_those_of_one_by_one() {
    for recipe in recipes().into_iter().filter(|recipe| recipe.level == Level::Node) {
        let (problem, model) = drawn(recipe);
        let schema =
            Schema { columns: vec![TableColumn::number("a"), TableColumn { gaps: true, ..TableColumn::number("b") }] };
        let plain = Factors::of(&model).unwrap();
        // The second and the third column are one feature, and those behind it stand for themselves.
        let grouped = Factors::of(&model).unwrap().grouped(Groups::of(&schema, 5));
        let means = centre::mean_responses(&plain, &problem.dataset.features);
        let nodes: Vec<usize> = (0..problem.dataset.units()).rev().collect();
        let last = plain.outputs() - 1;
        let score = |logits: &[f64]| {
            let versus = (logits.len() > 1 && logits[0] > 0.0).then_some(0).filter(|_| last > 0);
            Ok(Score { output: last, versus, sign: if logits[0] > 0.0 { 1.0 } else { -1.0 } })
        };
        let by = By { feature: true, node: false, hop: false };
        for (factors, top) in [(&plain, usize::MAX), (&grouped, usize::MAX), (&grouped, 2)] {
            let watch = harmonia::watch::Watch::silent();
            let all = explain_nodes(&model, factors, &problem.dataset, &nodes, score, (top, &means), &watch).unwrap();
            assert_eq!(all.iter().map(|one| one.node).collect::<Vec<_>>(), nodes);
            for one in all {
                let target = Target::Node(one.node);
                let case = Case::new(&model, factors, &problem.dataset, target, &Edit::default()).unwrap();
                let expected = case.explain(one.score, by, usize::MAX, &means).unwrap();
                let near = |a: f64, b: f64| (a - b).abs() <= COMPLETENESS * b.abs().max(1.0);
                let found = &one.explanation;
                assert!(near(found.logit, expected.logit) && near(found.intercept, expected.intercept));
                assert!(found.residual <= COMPLETENESS * found.logit.abs().max(1.0), "{}", found.residual);
                assert_eq!(found.terms.len(), expected.terms.len().min(top));
                assert_eq!(found.terms.len() + found.rest_terms, expected.terms.len());
                for term in &found.terms {
                    let same = expected.terms.iter().find(|other| other.feature == term.feature).unwrap();
                    assert!(near(term.value, same.value), "{term:?} {same:?} {:?}", problem.recipe);
                }
                let sum: f64 = found.terms.iter().map(|term| term.value).sum();
                assert!(near(found.intercept + sum + found.rest, found.logit));
            }
        }
    }
    // Graphs are not nodes.
    let (problem, model) = drawn(Recipe { level: Level::Graph, graphs: 3, ..Recipe::default() });
    let factors = Factors::of(&model).unwrap();
    let score = |_: &[f64]| Ok(Score { output: 0, versus: None, sign: 1.0 });
    let watch = harmonia::watch::Watch::silent();
    let centre = vec![0.0; factors.features()];
    assert!(explain_nodes(&model, &factors, &problem.dataset, &[0], score, (3, &centre), &watch).is_err());
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

#[test]
fn effects_of_edges_are_what_ifs_of_every_edge() {
    let mut listed = 0;
    for recipe in recipes() {
        let (problem, model) = drawn(recipe);
        let factors = Factors::of(&model).unwrap();
        for unit in [0, problem.dataset.units() - 1] {
            listed += assert_what_ifs(&factors, &problem.dataset, unit, &format!("{:?}", problem.recipe));
        }
    }
    assert!(listed > 200, "{listed}");
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
