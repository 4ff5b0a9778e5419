//! The random graph under a synthetic dataset: a uniform spanning tree and a few more edges.
//!
//! Invariant: connected, simple, 78 or 79 edges, and the hops can be told apart on it ([`Design`]).

use super::{Design, HOPS, NODES};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Direction, Graph, Transition, Walk};
use harmonia_graph::seed::{Purpose, Rng, Stream};

/// The smaller of the two edge counts.
const FEWEST_EDGES: usize = 78;
/// Far more than the one or two graphs that are usually looked at; only a changed bound could exhaust it.
const MAX_ATTEMPTS: u32 = 1000;

/// Draws graphs until one passes the design checks for every informative feature.
/// `training`: centred responses of the training instances, one column per informative feature.
pub(super) fn accepted(seed: u64, training: &[&[f64]]) -> Result<(Vec<(u32, u32)>, Design)> {
    for attempt in 0..MAX_ATTEMPTS {
        let edges = draw(&mut Stream::new(seed, Purpose::SyntheticGraph, attempt).rng());
        let walk = walk(&edges)?;
        let designs = training.iter().map(|column| Design::of(&hop_columns(&walk, column)));
        if let Some(design) = designs.reduce(Design::worst).filter(Design::passes) {
            return Ok((edges, design));
        }
    }
    Err(Error::Data(format!("none of {MAX_ATTEMPTS} random graphs passes the checks on condition and correlation")))
}

/// The plain random walk on one copy of the graph.
pub(super) fn walk(edges: &[(u32, u32)]) -> Result<Transition> {
    Ok(Transition::new(&Graph::from_edges(NODES, edges, None, Direction::Undirected)?, Walk::default()))
}

/// M^t column for every t; `column` holds whole instances one after the other.
pub(super) fn hop_columns(walk: &Transition, column: &[f64]) -> [Vec<f64>; HOPS] {
    let mut hops = std::array::from_fn(|_| Vec::new());
    hops[0] = column.to_vec();
    for t in 1..HOPS {
        let step = |instance: &[f64], i: usize| {
            let sum: f64 = walk.matrix().row_entries(i).map(|(j, weight)| f64::from(weight) * instance[j]).sum();
            sum / walk.degree()[i]
        };
        let instances = hops[t - 1].chunks_exact(NODES);
        hops[t] = instances.flat_map(|instance| (0..NODES).map(move |i| step(instance, i))).collect();
    }
    hops
}

/// A connected simple graph. The tree is uniform among all labelled trees: a walk that jumps to any node, keeping the
/// edge by which it first enters each (Aldous 1990, Broder 1989).
fn draw(rng: &mut Rng) -> Vec<(u32, u32)> {
    let edge_count = FEWEST_EDGES + rng.below(2);
    let mut edges = Vec::with_capacity(edge_count);
    let mut here = rng.below(NODES);
    let mut seen = [false; NODES];
    seen[here] = true;
    while edges.len() < NODES - 1 {
        let next = rng.below(NODES);
        if !seen[next] {
            seen[next] = true;
            edges.push(ordered(here, next));
        }
        here = next;
    }
    while edges.len() < edge_count {
        let (i, j) = (rng.below(NODES), rng.below(NODES));
        if i != j && !edges.contains(&ordered(i, j)) {
            edges.push(ordered(i, j));
        }
    }
    edges
}

fn ordered(i: usize, j: usize) -> (u32, u32) {
    (i.min(j) as u32, i.max(j) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_connected_simple_and_of_the_papers_size() {
        let mut counts = [0; 2];
        for seed in 0..200 {
            let mut edges = draw(&mut Stream::new(seed, Purpose::SyntheticGraph, 0).rng());
            counts[edges.len() - FEWEST_EDGES] += 1;
            let mut component: Vec<usize> = (0..NODES).collect();
            for &(i, j) in &edges {
                let (from, to) = (component[i as usize], component[j as usize]);
                component.iter_mut().filter(|c| **c == from).for_each(|c| *c = to);
            }
            assert!(component.iter().all(|&c| c == component[0]), "seed {seed} is not connected");
            assert!(edges.iter().all(|&(i, j)| i < j && (j as usize) < NODES));
            let drawn = edges.len();
            edges.sort_unstable();
            edges.dedup();
            assert_eq!(edges.len(), drawn, "seed {seed} repeats an edge");
        }
        assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
    }

    #[test]
    fn hops_of_a_path_are_neighbour_means() {
        let path: Vec<(u32, u32)> = (1..NODES as u32).map(|i| (i - 1, i)).collect();
        let mut column = vec![0.0; 2 * NODES];
        column[NODES] = 1.0; // node 0 of the second instance
        let hops = hop_columns(&walk(&path).unwrap(), &column);
        assert_eq!(hops[0], column);
        assert_eq!(hops[1][NODES..NODES + 3], [0.0, 0.5, 0.0]);
        assert_eq!(hops[2][NODES..NODES + 3], [0.5, 0.0, 0.25]);
        assert!(hops.iter().all(|hop| hop[..NODES].iter().all(|&value| value == 0.0)));
    }

    #[test]
    fn most_random_graphs_pass_and_the_worst_do_not() {
        let stream = Stream::new(0, Purpose::SyntheticFeatures, 0);
        let column: Vec<f64> = (0..64 * NODES as u64).map(|at| stream.uniform(at) - 0.5).collect();
        let passes = |seed: u64| {
            let edges = draw(&mut Stream::new(seed, Purpose::SyntheticGraph, 0).rng());
            Design::of(&hop_columns(&walk(&edges).unwrap(), &column)).passes()
        };
        let passed = (0..100).filter(|&seed| passes(seed)).count();
        assert!((70..100).contains(&passed), "{passed} of 100");
    }
}
