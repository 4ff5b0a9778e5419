//! Which edges matter: the change of a target's logit when one edge is taken out and walks are normalised anew, by the model and by the
//! generator. Candidates: the edges among the nodes within three steps of the target; budget: a fifth of them, rounded up.

use super::scores::{mean, ndcg, precision};
use super::{Lens, TARGETS};
use crate::explain::stability::spearman;
use crate::studies::paper::world::World;
use harmonia_graph::graph::Graph;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Steps from the target within which edges are candidates.
const STEPS: usize = 3;
/// Share of the candidates that is looked for.
const BUDGET: f64 = 0.2;

/// Of one model: means over its targets; none of a model that no edge matters to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OfEdges {
    /// Over all candidates.
    pub spearman: Option<f64>,
    /// Of the first fifth.
    pub ndcg: Option<f64>,
    /// Of the first fifth.
    pub precision: Option<f64>,
    /// Fewest and most candidates of a target.
    pub candidates: [usize; 2],
}

impl OfEdges {
    pub(super) fn of(learned: &Lens<'_>, truth: &Lens<'_>, world: &World, instances: Range<usize>) -> OfEdges {
        let found = |target: usize| sizes(learned, world, target, instances.clone());
        OfEdges::scored(TARGETS.map(found), truth, world, instances.clone())
    }

    /// Of scores that something gives the candidates of every target, instance by instance.
    pub(super) fn scored(
        found: [Vec<Vec<f64>>; TARGETS.len()],
        truth: &Lens<'_>,
        world: &World,
        instances: Range<usize>,
    ) -> OfEdges {
        let (mut spearmans, mut ndcgs, mut precisions) = (Vec::new(), Vec::new(), Vec::new());
        let mut counts = [usize::MAX, 0];
        for (target, found) in TARGETS.into_iter().zip(found) {
            let relevant = sizes(truth, world, target, instances.clone());
            let edges = candidates(&world.topology, target).len();
            counts = [counts[0].min(edges), counts[1].max(edges)];
            let budget = (BUDGET * edges as f64).ceil() as usize;
            for (found, relevant) in found.iter().zip(&relevant) {
                // Of a target that no edge matters to nothing can be ranked.
                spearmans.extend(spearman(found, relevant));
                ndcgs.push(ndcg(found, relevant, budget));
                precisions.push(precision(found, relevant, budget));
            }
        }
        let moved = !spearmans.is_empty();
        let [spearman, ndcg, precision] = [spearmans, ndcgs, precisions].map(|all| moved.then(|| mean(&all)));
        OfEdges { spearman, ndcg, precision, candidates: counts }
    }
}

/// |eta - eta without the edge| of every candidate, instance by instance.
fn sizes(lens: &Lens<'_>, world: &World, target: usize, instances: Range<usize>) -> Vec<Vec<f64>> {
    let gone = |&(i, j): &(u32, u32)| lens.without(target, &[(i, j), (j, i)]);
    let reaches: Vec<_> = candidates(&world.topology, target).iter().map(gone).collect();
    let effects = |instance: usize| {
        let projected = lens.projected(world.instance(instance));
        let before = lens.logit(lens.reach(target), &projected);
        reaches.iter().map(|reach| (before - lens.logit(reach, &projected)).abs()).collect()
    };
    instances.map(effects).collect()
}

/// Edges whose two ends are within [`STEPS`] of the target.
pub(super) fn candidates(graph: &Graph, target: usize) -> Vec<(u32, u32)> {
    let adjacency = graph.adjacency();
    let neighbours = |i: usize| &adjacency.col_idx[adjacency.row(i)];
    let mut near = vec![false; graph.nodes()];
    near[target] = true;
    for _ in 0..STEPS {
        let reached: Vec<u32> = (0..near.len()).filter(|&i| near[i]).flat_map(neighbours).copied().collect();
        reached.into_iter().for_each(|j| near[j as usize] = true);
    }
    (0..near.len())
        .filter(|&i| near[i])
        .flat_map(|i| neighbours(i).iter().map(move |&j| (i as u32, j)))
        .filter(|&(i, j)| i < j && near[j as usize])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::graph::Direction;

    #[test]
    fn candidates_are_the_edges_among_near_nodes() {
        // A path 0-1-2-3-4-5 and an edge 2-4: from 0, nodes 0 to 4 are near.
        let edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (2, 4)];
        let path = Graph::from_edges(6, &edges, None, Direction::Undirected).unwrap();
        assert_eq!(candidates(&path, 0), [(0, 1), (1, 2), (2, 3), (2, 4), (3, 4)]);
    }

    #[test]
    fn the_generator_finds_itself() {
        let world = World::published(1).unwrap();
        let truth = Lens::new(&world.oracle, &world.topology);
        let found = OfEdges::of(&truth, &truth, &world, 320..323);
        let [spearman, ndcg] = [found.spearman, found.ndcg].map(Option::unwrap);
        assert!((spearman - 1.0).abs() < 1e-12 && found.precision == Some(1.0) && (ndcg - 1.0).abs() < 1e-12);
    }

    /// Deleting an edge by hand: the graph without it, built anew.
    #[test]
    fn a_deleted_edge_is_a_graph_without_it() {
        let world = World::published(2).unwrap();
        let truth = Lens::new(&world.oracle, &world.topology);
        let (i, j) = candidates(&world.topology, 0)[0];
        let adjacency = world.topology.adjacency();
        let left: Vec<(u32, u32)> = (0..world.topology.nodes())
            .flat_map(|a| adjacency.col_idx[adjacency.row(a)].iter().map(move |&b| (a as u32, b)))
            .filter(|&(a, b)| a < b && (a, b) != (i, j))
            .collect();
        let without = Graph::from_edges(world.topology.nodes(), &left, None, Direction::Undirected).unwrap();
        let by_hand = Lens::new(&world.oracle, &without).logits(world.instance(321))[0];
        let dropped = truth.logit(&truth.without(0, &[(i, j), (j, i)]), &truth.projected(world.instance(321)));
        assert!((by_hand - dropped).abs() < 1e-12, "{by_hand} {dropped}");
    }
}
