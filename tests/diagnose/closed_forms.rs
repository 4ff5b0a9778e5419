//! Graphs whose eigenvalues are known: rings, complete graphs, stars, blocks.

use super::{EXACT, LAZY, LOOPS, PLAIN, forced, near, run, undirected, with_hops};
use harmonia::diagnose::{Decay, Verdict};
use harmonia::graph::{Direction, Graph};
use std::f64::consts::PI;

fn ring(n: u32) -> Graph {
    undirected(n as usize, &(0..n).map(|i| (i, (i + 1) % n)).collect::<Vec<_>>())
}

fn clique(first: u32, n: u32) -> Vec<(u32, u32)> {
    (first..first + n).flat_map(|i| (first..i).map(move |j| (i, j))).collect()
}

fn star(n: u32) -> Graph {
    undirected(n as usize, &(1..n).map(|i| (0, i)).collect::<Vec<_>>())
}

/// rho, D_t and H_epsilon that follow from all non-stationary eigenvalues.
#[track_caller]
fn follows(decay: &Decay, eigenvalues: &[f64], epsilon: f64, tolerance: f64) {
    let rho = eigenvalues.iter().fold(0.0, |rho: f64, x| rho.max(x.abs()));
    near(decay.rho.low, rho, tolerance);
    near(decay.rho.high, rho, tolerance);
    let distance =
        |t: i32| eigenvalues.iter().map(|x| x.abs().powi(t) * (1.0 - x).abs()).fold(0.0, |a: f64, b| a.max(b));
    for found in &decay.distances {
        near(found.low, distance(found.t as i32), tolerance);
        near(found.high, distance(found.t as i32), tolerance);
        assert!(found.high <= (1.0 + rho) * rho.powi(found.t as i32) + tolerance, "the theorem");
    }
    if rho >= 1.0 - tolerance {
        assert_eq!((decay.horizon.low, decay.bound, decay.recommended_hops), (None, None, None));
        return;
    }
    let horizon = (0..).find(|&t| distance(t) <= epsilon).unwrap() as u64;
    assert_eq!((decay.horizon.low, decay.horizon.high), (Some(horizon), Some(horizon)));
    assert_eq!(decay.recommended_hops, Some(horizon + 1));
    assert!(decay.bound.unwrap() >= horizon, "the theorem");
}

fn ring_eigenvalues(n: u32) -> Vec<f64> {
    (1..n).map(|k| (2.0 * PI * f64::from(k) / f64::from(n)).cos()).collect()
}

#[test]
fn an_odd_ring() {
    let found = run(&ring(11), PLAIN, &with_hops(5));
    assert!(found.ergodic && found.reversible && found.notes.is_empty());
    follows(found.decay.as_ref().unwrap(), &ring_eigenvalues(11), 0.01, EXACT);
    near(found.decay.unwrap().rho.high, (PI / 11.0).cos(), EXACT);
    // 1 and five pairs.
    assert_eq!(found.spectrum.unwrap().distinct.at_least, 6);
    // M is symmetric and regular: <M^s, M^t> counts closed walks, which on a ring are binomials.
    let gram = &found.conditioning.gram;
    for (s, t, expected) in
        [(0, 0, 11.0), (0, 1, 0.0), (0, 2, 5.5), (1, 1, 5.5), (1, 3, 11.0 * 6.0 / 16.0), (1, 2, 0.0)]
    {
        near(gram[s][t], expected, EXACT);
    }
    assert_eq!(found.independence.verdict, Verdict::Independent);
    assert_eq!(run(&ring(11), PLAIN, &with_hops(6)).independence.verdict, Verdict::Independent);
    let dependent = run(&ring(11), PLAIN, &with_hops(7));
    assert_eq!(dependent.independence.verdict, Verdict::Dependent);
    assert!(dependent.conditioning.gamma.unwrap().value <= 10.0 * dependent.conditioning.gamma_floor);
}

#[test]
fn an_even_ring_alternates_and_a_lazy_walk_on_it_does_not() {
    let found = run(&ring(10), PLAIN, &with_hops(4));
    assert!(!found.ergodic);
    assert_eq!((found.components.bipartite, found.components.bipartite_nodes), (1, 10));
    let decay = found.decay.unwrap();
    assert!(decay.distances.iter().all(|d| d.low == 2.0 && d.high == 2.0));
    follows(&decay, &ring_eigenvalues(10), 0.01, EXACT);
    let others: Vec<f64> = ring_eigenvalues(10).into_iter().filter(|x| *x > -0.999).collect();
    follows(&found.apart_from_alternating.unwrap(), &others, 0.01, EXACT);
    assert!(found.notes.iter().any(|note| note.contains("walk.lazy=true")), "{:?}", found.notes);

    let lazy = run(&ring(10), LAZY, &with_hops(4));
    assert!(lazy.ergodic && lazy.apart_from_alternating.is_none() && lazy.components.bipartite == 0);
    let halves: Vec<f64> = ring_eigenvalues(10).iter().map(|x| (1.0 + x) / 2.0).collect();
    follows(&lazy.decay.unwrap(), &halves, 0.01, EXACT);
    let loops: Vec<f64> = ring_eigenvalues(10).iter().map(|x| (1.0 + 2.0 * x) / 3.0).collect();
    follows(&run(&ring(10), LOOPS, &with_hops(4)).decay.unwrap(), &loops, 0.01, EXACT);
}

#[test]
fn a_complete_graph_has_two_eigenvalues() {
    let n = 7.0;
    let graph = undirected(7, &clique(0, 7));
    for options in [with_hops(2), forced(2)] {
        let found = run(&graph, PLAIN, &options);
        follows(found.decay.as_ref().unwrap(), &[-1.0 / (n - 1.0)], 0.01, EXACT);
        let distinct = found.spectrum.unwrap().distinct;
        assert_eq!((distinct.at_least, distinct.all), (2, true));
        assert_eq!(found.independence.verdict, Verdict::Independent);
    }
    // ||(I - M) / sqrt(2)||_F, where I - M has n - 1 eigenvalues n / (n - 1).
    let gamma = run(&graph, PLAIN, &with_hops(2)).conditioning.gamma.unwrap();
    near(gamma.value, ((n - 1.0) * (n / (n - 1.0)).powi(2) / 2.0).sqrt(), EXACT);
    assert_eq!(gamma.error, 0.0);
    assert_eq!(run(&graph, PLAIN, &with_hops(3)).independence.verdict, Verdict::Dependent);
    assert_eq!(run(&graph, PLAIN, &forced(3)).independence.verdict, Verdict::Dependent);
}

#[test]
fn a_star_is_bipartite_and_not_symmetric() {
    let n = 9.0;
    for options in [with_hops(3), forced(3)] {
        let found = run(&star(9), PLAIN, &options);
        assert_eq!(found.components.bipartite, 1);
        follows(&found.decay.unwrap(), &[-1.0, 0.0], 0.01, EXACT);
        // Apart from -1 only zeros are left: one step, and everything is over.
        let apart = found.apart_from_alternating.unwrap();
        assert_eq!((apart.horizon.high, apart.recommended_hops), (Some(1), Some(2)));
        near(apart.distances[0].high, 1.0, EXACT);
        near(apart.distances[1].high, 0.0, EXACT);
        assert_eq!(found.independence.verdict, Verdict::Independent);
    }
    // The hub gives 1 / (n - 1) to each leaf, leaves give all to the hub; nobody stays.
    let gram = run(&star(9), PLAIN, &with_hops(4)).conditioning.gram;
    near(gram[1][1], 1.0 / (n - 1.0) + n - 1.0, EXACT);
    near(gram[0][1], 0.0, EXACT);
    near(gram[1][3], gram[1][1], EXACT); // M^3 = M
    let gamma = run(&star(9), PLAIN, &with_hops(2)).conditioning.gamma.unwrap().value;
    near(gamma, ((n + 1.0 / (n - 1.0) + n - 1.0) / 2.0).sqrt(), EXACT);
    assert_eq!(run(&star(9), PLAIN, &with_hops(4)).independence.verdict, Verdict::Dependent);
}

#[test]
fn components_are_named_and_the_slowest_decides() {
    // Cliques of 4 and 6, and two nodes alone.
    let edges = [clique(0, 4), clique(4, 6)].concat();
    let graph = undirected(12, &edges);
    let found = run(&graph, PLAIN, &with_hops(3));
    assert!(!found.ergodic);
    let c = &found.components;
    assert_eq!((c.count, c.single_nodes, c.bipartite), (4, 2, 0));
    assert_eq!(c.largest.iter().map(|one| (one.nodes, one.first_node)).collect::<Vec<_>>()[..2], [(6, 4), (4, 0)]);
    follows(found.decay.as_ref().unwrap(), &[-1.0 / 3.0, -1.0 / 5.0], 0.01, EXACT);
    let spectrum = found.spectrum.unwrap();
    assert_eq!((spectrum.stationary, spectrum.distinct.at_least), (4, 3));
    // A node that steps to itself adds one to every entry.
    near(found.conditioning.gram[0][2], 4.0 / 3.0 + 6.0 / 5.0 + 2.0, EXACT);
    assert!(found.notes.iter().any(|note| note.contains("4 components")));
    // All alone: M = I.
    let alone = run(&undirected(5, &[]), PLAIN, &with_hops(2));
    let decay = alone.decay.unwrap();
    assert_eq!((decay.rho.high, decay.horizon.high, decay.recommended_hops), (0.0, Some(0), Some(1)));
    assert_eq!(alone.independence.verdict, Verdict::Dependent);
    assert_eq!(alone.conditioning.gamma.unwrap().value, 0.0);
}

#[test]
fn two_blocks_have_three_eigenvalues() {
    // Inside a block, loops included, weight 3; between blocks weight 1.
    let m = 8u32;
    let pairs = || (0..2 * m).flat_map(|i| (0..=i).map(move |j| (i, j)));
    let edges: Vec<(u32, u32)> = pairs().collect();
    // A loop is entered once, an edge both ways.
    let weights: Vec<f32> = pairs().map(|(i, j)| if i / m == j / m { 3.0 } else { 1.0 }).collect();
    let graph = Graph::from_edges(2 * m as usize, &edges, Some(&weights), Direction::Undirected).unwrap();
    for options in [with_hops(3), forced(3)] {
        let found = run(&graph, PLAIN, &options);
        follows(&found.decay.unwrap(), &[(3.0 - 1.0) / (3.0 + 1.0), 0.0], 0.01, EXACT);
        assert_eq!(found.spectrum.unwrap().distinct.at_least, 3);
        assert_eq!(found.independence.verdict, Verdict::Independent);
    }
    assert_eq!(run(&graph, PLAIN, &with_hops(4)).independence.verdict, Verdict::Dependent);
}
