//! Gradients and second derivatives by central differences; planted lines are found again.

use super::*;
use harmonia_graph::dataset::Features;
use harmonia_graph::graph::{Direction, Graph, Split};
use harmonia_graph::seed::{Purpose, Stream};

/// Central differences in f64 with a step of 1e-5: rounding of 1e-11 and a third derivative of order one.
const ROUGH: f64 = 1e-8;

fn uniform(count: usize) -> Vec<f64> {
    let stream = Stream::new(3, Purpose::Noise, 0);
    (0..count).map(|at| 2.0 * stream.uniform(at as u64) - 1.0).collect()
}

fn labels() -> Vec<(Objective, Labels)> {
    let ids = |classes: u32| (0..40u32).map(|unit| (unit * 7 + unit / 3) % classes).collect::<Vec<_>>();
    vec![
        (Objective::Sigmoid, Labels::Classes { ids: ids(2), classes: 2 }),
        (Objective::Softmax, Labels::Classes { ids: ids(3), classes: 3 }),
        (
            Objective::Sigmoid,
            Labels::Multi { bits: ids(2).iter().chain(&ids(2)).map(|&b| b as u8).collect(), width: 2 },
        ),
        (Objective::Squared, Labels::Values { values: uniform(80).iter().map(|&v| v as f32).collect(), width: 2 }),
    ]
}

#[test]
fn derivatives_are_those_of_central_differences() {
    let (rows, units) = (uniform(40 * 3), (0..40).collect::<Vec<u32>>());
    for (objective, labels) in labels() {
        let scaling = TargetScaling::of(&labels, &units);
        let problem = Problem::new(&rows, 3, &labels, &units, objective, scaling.as_ref());
        let weights = uniform(4 * labels.outputs());
        let gradient = |weights: &[f64]| problem.bend(&problem.logits(weights)).0;
        let loss = |weights: &[f64]| problem.loss(&problem.logits(weights));
        let direction: Vec<f64> = weights.iter().rev().map(|w| w + 0.1).collect();
        let at = |step: f64| weights.iter().zip(&direction).map(|(w, d)| w + step * d).collect::<Vec<f64>>();
        let along: f64 = gradient(&weights).iter().zip(&direction).map(|(g, d)| g * d).sum();
        let slope = (loss(&at(1e-5)) - loss(&at(-1e-5))) / 2e-5;
        assert!((along - slope).abs() < ROUGH, "{objective:?}: {along} {slope}");
        let logits = problem.logits(&weights);
        let bent = problem.bend(&logits).1(&problem.logits(&direction));
        let (up, down) = (gradient(&at(1e-5)), gradient(&at(-1e-5)));
        for ((bent, up), down) in bent.iter().zip(up).zip(down) {
            assert!((bent - (up - down) / 2e-5).abs() < ROUGH, "{objective:?}");
        }
    }
}

/// A ring whose numbers are a line of a node's own first feature and of the mean of its neighbours' second.
fn ring(nodes: usize) -> Dataset {
    let edges: Vec<(u32, u32)> = (0..nodes as u32).map(|i| (i, (i + 1) % nodes as u32)).collect();
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
    let x: Vec<f32> = uniform(2 * nodes).iter().map(|&x| x as f32).collect();
    let near = |i: usize| (x[2 * ((i + 1) % nodes) + 1] + x[2 * ((i + nodes - 1) % nodes) + 1]) / 2.0;
    let values = (0..nodes).map(|i| 5.0 + 3.0 * x[2 * i] - 4.0 * near(i)).collect();
    let part = |at: u32| (0..nodes as u32).filter(move |i| i % 3 == at).collect();
    let split = Split { train: part(0), valid: part(1), test: part(2) };
    Dataset::nodes("ring", graph, Features::new(nodes, 2, x).unwrap(), Labels::Values { values, width: 1 }, split)
        .unwrap()
}

#[test]
fn a_planted_line_is_found_with_means_of_neighbours_and_not_without() {
    let dataset = ring(300);
    let fitted = |means| linear(&dataset, None, Objective::Squared, Walk::default(), means).unwrap().unwrap();
    let (own, with) = (fitted(false), fitted(true));
    assert_eq!((own.name.as_str(), with.name.as_str()), ("linear", "linear with neighbour means"));
    // The weakest ridge leaves a shadow.
    assert!(with.test.get("r2").unwrap() > 0.9999, "{with:?}");
    let r2 = own.test.get("r2").unwrap();
    assert!((0.2..0.8).contains(&r2), "{own:?}");
}

#[test]
fn classes_that_a_line_tells_apart_are_told_apart() {
    let mut dataset = ring(300);
    let x = dataset.features.dense().into_owned();
    for classes in [2, 3] {
        let ids = (0..300).map(|i| (f64::from(x[2 * i] + 1.0) / 2.0 * f64::from(classes)) as u32).collect();
        dataset.labels = Labels::Classes { ids, classes: classes as usize };
        let objective = Objective::of(&dataset.labels);
        let fitted = linear(&dataset, None, objective, Walk::default(), false).unwrap().unwrap();
        assert_eq!(fitted.name, "logistic");
        assert!(fitted.test.get("accuracy").unwrap() > 0.9, "{classes}: {fitted:?}");
    }
}
