//! Effects of edges against the slow way: every edge of the graph taken out by an [`Edit`], one by one.

use harmonia::Stop;
use harmonia::dataset::{Dataset, Level};
use harmonia::explain::{Case, Edit, Factors, Score, Target, edge_effects};
use std::collections::HashMap;

/// Terms in f64 against the same sums in another order.
const TOLERANCE: f64 = 1e-9;

/// Holds of one unit; edges that are not listed do nothing. Gives how many were listed.
pub fn assert_what_ifs(factors: &Factors, dataset: &Dataset, unit: usize, context: &str) -> usize {
    let target = if dataset.level == Level::Node { Target::Node(unit) } else { Target::Graph(unit) };
    let score = Score { output: factors.outputs() - 1, versus: (factors.outputs() > 1).then_some(0), sign: -1.0 };
    let (_, effects) = edge_effects(factors, dataset, target, &|_| Ok(score), usize::MAX, &Stop::new()).unwrap();
    let listed = effects.len();
    let mut known: HashMap<(u32, u32), f64> =
        effects.into_iter().map(|edge| ((edge.reader, edge.source), edge.change)).collect();
    assert_eq!(known.len(), listed, "{context}");
    let logit = |edit: &Edit| score.of(&Case::of(factors, dataset, target, edit).unwrap().logits());
    let before = logit(&Edit::default());
    let both_ways = dataset.graph.is_symmetric();
    for i in 0..dataset.graph.nodes() as u32 {
        for (j, _) in dataset.graph.adjacency().row_entries(i as usize) {
            let j = j as u32;
            if both_ways && j < i {
                continue;
            }
            let mut dropped = vec![(i, j)];
            dropped.extend(both_ways.then_some((j, i)));
            let expected = logit(&Edit { dropped, ..Edit::default() }) - before;
            let found = known.remove(&(i, j)).unwrap_or(0.0);
            let scale = expected.abs().max(before.abs()).max(1.0);
            assert!((found - expected).abs() <= TOLERANCE * scale, "{i}-{j}: {found} is not {expected}: {context}");
        }
    }
    assert!(known.is_empty(), "no edges of the graph: {known:?} {context}");
    if listed > 0 {
        let refused = edge_effects(factors, dataset, target, &|_| Ok(score), 0, &Stop::new()).unwrap_err().to_string();
        assert!(refused.contains("expected at most 0"), "{refused}");
    }
    listed
}
