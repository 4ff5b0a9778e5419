use super::*;
use crate::graph::Direction;
use crate::seed::{Purpose, Stream};
use crate::stop::Stop;
use proptest::prelude::*;
use std::collections::BTreeMap;

const ALL: [Reorder; 3] = [Reorder::Degree, Reorder::Breadth, Reorder::Communities];

/// Nodes, edges with weights.
type Drawn = (usize, Vec<(u32, u32)>, Vec<f32>);

fn drawn() -> impl Strategy<Value = Drawn> {
    (1..40usize, 0..90usize).prop_flat_map(|(nodes, edges)| {
        let node = 0..nodes as u32;
        let weight = (1..9u8).prop_map(f32::from);
        (Just(nodes), prop::collection::vec((node.clone(), node), edges), prop::collection::vec(weight, edges))
    })
}

/// Every edge with its weight, by the numbers that `name` gives the nodes.
fn edges(graph: &Graph, name: impl Fn(usize) -> usize) -> BTreeMap<(usize, usize), f32> {
    let csr = graph.adjacency();
    let row = |i: usize| csr.row_entries(i).map(move |(j, weight)| (i, j, weight)).collect::<Vec<_>>();
    (0..graph.nodes()).flat_map(row).map(|(i, j, weight)| ((name(i), name(j)), weight)).collect()
}

proptest! {
    #[test]
    fn a_renumbered_graph_has_the_same_edges((nodes, list, weights) in drawn(), weighted: bool, directed: bool) {
        let direction = if directed { Direction::Directed } else { Direction::Undirected };
        let graph = Graph::from_edges(nodes, &list, weighted.then_some(&weights[..]), direction).unwrap();
        for method in ALL {
            let order = method.order(&graph, &[0, nodes], &Stop::new()).unwrap();
            let renumbered = graph.renumbered(&order).unwrap();
            // Rows sorted, ids in range, and whether it is symmetric is seen anew.
            let checked = Graph::from_csr(renumbered.adjacency().clone()).unwrap();
            prop_assert!(!graph.is_symmetric() || checked.is_symmetric());
            prop_assert_eq!(edges(&renumbered, |i| order[i] as usize), edges(&graph, |i| i), "{:?}", method);
        }
    }
}

#[test]
fn a_toy_graph_by_hand() {
    // 0 - 1, 3 - 4, 3 - 5, 3 - 6, 5 - 1 and 2 alone; edges have directions, which do not count.
    let list = [(0, 1), (4, 3), (3, 5), (6, 3), (5, 1)];
    let graph = Graph::from_edges(7, &list, None, Direction::Directed).unwrap();
    let order = |method: Reorder| method.order(&graph, &[0, 7], &Stop::new()).unwrap();
    assert_eq!(order(Reorder::Degree), [3, 1, 5, 0, 4, 6, 2]);
    assert_eq!(order(Reorder::Breadth), [3, 4, 5, 6, 1, 0, 2]);
}

#[test]
fn two_cliques_with_a_bridge_are_two_communities() {
    // Even numbers know each other, so do odd ones; 0 and 1 know each other too.
    let pairs = (0..16u32).flat_map(|i| (0..i).map(move |j| (i, j))).filter(|&(i, j)| (i + j) % 2 == 0 || i + j == 1);
    let graph = Graph::from_edges(16, &pairs.collect::<Vec<_>>(), None, Direction::Undirected).unwrap();
    let order = Reorder::Communities.order(&graph, &[0, 16], &Stop::new()).unwrap();
    // The two that have a neighbour more come first.
    assert_eq!(order, [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15]);
}

/// Communities of 40 nodes, half of the edges inside; nodes of a community are as far apart as can be.
fn planted(nodes: usize) -> Graph {
    let communities = nodes / 40;
    let mut rng = Stream::new(3, Purpose::SyntheticGraph, 0).rng();
    let list: Vec<(u32, u32)> = (0..12 * nodes)
        .map(|_| {
            let i = rng.below(nodes);
            let inside = i % communities + communities * rng.below(40);
            let j = if rng.below(2) == 0 { inside } else { rng.below(nodes) };
            (i as u32, j as u32)
        })
        .collect();
    Graph::from_edges(nodes, &list, None, Direction::Undirected).unwrap()
}

#[test]
fn planted_communities_are_found_and_brought_together() {
    let graph = planted(8000);
    let near = |graph: &Graph| {
        let rows = (0..graph.nodes()).flat_map(|i| graph.adjacency().row_entries(i).map(move |(j, _)| i.abs_diff(j)));
        rows.filter(|&distance| distance < 40).count() as f64 / graph.directed_edges() as f64
    };
    let order = Reorder::Communities.order(&graph, &[0, 8000], &Stop::new()).unwrap();
    // Half of the edges can be brought within 40 places; the others are there by chance, 1 in 100.
    let (before, after) = (near(&graph), near(&graph.renumbered(&order).unwrap()));
    assert!(before < 0.02 && after > 0.45, "{before} {after}");
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let graph = planted(8000);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| ALL.map(|method| method.order(&graph, &[0, 8000], &Stop::new()).unwrap()))
    };
    let one = with(1);
    assert_eq!(one, with(2));
    assert_eq!(one, with(5));
}

#[test]
fn no_node_leaves_its_graph() {
    // Three graphs: a path, a node alone, a star whose hub is last.
    let list = [(0, 1), (1, 2), (4, 7), (5, 7), (6, 7)];
    let graph = Graph::from_edges(8, &list, None, Direction::Undirected).unwrap();
    for method in ALL {
        let order = method.order(&graph, &[0, 3, 4, 8], &Stop::new()).unwrap();
        assert!(order[..3].iter().all(|&node| node < 3) && order[3] == 3, "{method:?} {order:?}");
        assert_eq!(order[4], 7, "{method:?}: the hub of the star is first in its graph");
        places(&order).unwrap();
    }
}

#[test]
fn what_is_no_order_is_refused() {
    assert_eq!(places(&[2, 0, 1]).unwrap(), [1, 2, 0]);
    for (order, expected) in [
        (&[0, 1, 1][..], "entry 2 is 1, which occurred before: expected every number below 3 once"),
        (&[0, 3, 1], "entry 1 is 3, which is no node"),
        (&[u32::MAX], "entry 0 is 4294967295, which is no node"),
    ] {
        let error = places(order).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let graph = planted(80);
    assert!(graph.renumbered(&[0]).unwrap_err().to_string().contains("an order of 1 nodes for 80"));
}
