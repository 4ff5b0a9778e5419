//! Models of any response on any structure: a response without knots and a structure without walks are explained exactly.

use super::common::edges::assert_what_ifs;
use super::common::oracle::walk_powers;
use super::common::problems::Recipe;
use super::{F64, all_keys, drawn, large, recipes, target};
use harmonia::dataset::{Dataset, Level};
use harmonia::explain::{
    Ball, Case, Edit, Factors, Importance, Monb, Response, Score, Shape, Sources, Structure, Target, Term, Walks,
    centre, experts,
};
use harmonia::graph::{Graph, Walk};
use harmonia::watch::Watch;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

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
    assert_what_ifs(factors, dataset, 0, context);
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
