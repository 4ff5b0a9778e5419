use super::*;
use crate::graph::{Direction, Graph};
use crate::watch::Watch;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn offsets(lengths: &[u64]) -> Vec<u64> {
    let mut end = 0;
    std::iter::once(0).chain(lengths.iter().map(|length| (end += length, end).1)).collect()
}

/// METIS, or a line that says why a test does nothing.
fn metis() -> Option<Metis> {
    let opened = Metis::open();
    if let Err(error) = &opened {
        println!("skipped: libmetis: {error}");
    }
    opened.ok()
}

/// Two cliques of `size` nodes, whose numbers alternate, joined by one edge.
fn two_cliques(size: u32) -> Graph {
    let mut edges: Vec<(u32, u32)> = vec![(0, 1)];
    for i in 0..size {
        edges.extend((i + 1..size).flat_map(|j| [(2 * i, 2 * j), (2 * i + 1, 2 * j + 1)]));
    }
    Graph::from_edges(2 * size as usize, &edges, None, Direction::Undirected).unwrap()
}

#[test]
fn ranges_by_hand() {
    // Costs 4 + entries: 4 4 4 4 are shared 2 and 2, or 1 1 1 1.
    assert_eq!(ranges(&offsets(&[0, 0, 0, 0]), 2), [0, 2, 4]);
    assert_eq!(ranges(&offsets(&[0, 0, 0, 0]), 4), [0, 1, 2, 3, 4]);
    // 24, 5, 5, 5, 5 of 44: half is 22, nearer to 24 than to 0.
    assert_eq!(ranges(&offsets(&[20, 1, 1, 1, 1]), 2), [0, 1, 5]);
    // 5, 5, 5, 5, 24: 20 is nearer to 22 than 44 is.
    assert_eq!(ranges(&offsets(&[1, 1, 1, 1, 20]), 2), [0, 4, 5]);
    // One row has nearly all; the others are left with a row each.
    assert_eq!(ranges(&offsets(&[1000, 1, 1, 1]), 4), [0, 1, 2, 3, 4]);
    assert_eq!(ranges(&offsets(&[1, 1, 1, 1000]), 3), [0, 2, 3, 4]);
    assert_eq!(ranges(&offsets(&[3, 3]), 1), [0, 2]);
    // Fewer rows than parts.
    assert_eq!(ranges(&offsets(&[3, 3]), 4), [0, 1, 2, 2, 2]);
    // Offsets need not begin at 0.
    assert_eq!(ranges(&[7, 7, 7, 7, 7], 2), [0, 2, 4]);
}

proptest! {
    /// No bound could be moved by a row and be nearer its aim, but for parts that need a row each.
    #[test]
    fn ranges_are_as_even_as_rows_allow(lengths in prop::collection::vec(0..200u64, 1..120), parts in 1..9usize) {
        let row_ptr = offsets(&lengths);
        let (bounds, rows) = (ranges(&row_ptr, parts), lengths.len());
        prop_assert_eq!(bounds.len(), parts + 1);
        prop_assert_eq!((bounds[0], bounds[parts]), (0, rows));
        if rows >= parts {
            check_bounds(&bounds, rows).unwrap();
            let cost = |i: usize| (row_ptr[i] + 4 * i as u64) as i64;
            for part in 1..parts {
                // As whole parts of the total; the aim is rounded down.
                let off = |bound: usize| (cost(bound) - cost(rows) * part as i64 / parts as i64).abs();
                let (bound, least, most) = (bounds[part], bounds[part - 1] + 1, rows - (parts - part));
                prop_assert!(bound == least || off(bound - 1) >= off(bound), "{:?}", bounds);
                prop_assert!(bound == most || off(bound + 1) >= off(bound), "{:?}", bounds);
            }
        }
    }

    /// Against sets of nodes, entry by entry.
    #[test]
    fn a_survey_counts_what_is_read(edges in prop::collection::vec((0..12u32, 0..12u32), 0..60), directed: bool, parts in 1..5usize) {
        let direction = if directed { Direction::Directed } else { Direction::Undirected };
        let graph = Graph::from_edges(12, &edges, None, direction).unwrap();
        let bounds = ranges(&graph.adjacency().row_ptr, parts);
        let survey = Survey::of(&graph, &bounds, &Watch::silent()).unwrap();
        let part_of = |node: usize| bounds.iter().rposition(|&bound| bound <= node).unwrap();
        let pairs: Vec<(usize, usize)> =
            (0..12).flat_map(|i| graph.adjacency().row_entries(i).map(move |(j, _)| (i, j))).collect();
        let crossing: Vec<_> = pairs.iter().copied().filter(|&(i, j)| part_of(i) != part_of(j)).collect();
        prop_assert_eq!(survey.cut, crossing.len() as u64);
        prop_assert_eq!(survey.entries, pairs.len() as u64);
        for (at, part) in survey.parts.iter().enumerate() {
            let of = |node: usize| part_of(node) == at;
            let read: BTreeSet<_> = crossing.iter().filter(|&&(i, _)| of(i)).map(|&(_, j)| j).collect();
            let reading: BTreeSet<_> = crossing.iter().filter(|&&(_, j)| of(j)).map(|&(i, _)| i).collect();
            prop_assert_eq!((part.halo, part.halo_of_transpose), (read.len() as u64, reading.len() as u64));
            prop_assert_eq!(part.cut, crossing.iter().filter(|&&(i, _)| of(i)).count() as u64);
            prop_assert_eq!(part.entries, pairs.iter().filter(|&&(i, _)| of(i)).count() as u64);
            prop_assert_eq!(part.nodes, (0..12).filter(|&node| of(node)).count());
            prop_assert!(directed || part.halo == part.halo_of_transpose);
        }
    }
}

#[test]
fn a_survey_by_hand() {
    // 0 - 1 | 2 - 3, with 1 -> 2 and 0 -> 2, directed.
    let graph = Graph::from_edges(4, &[(0, 1), (1, 2), (0, 2), (2, 3)], None, Direction::Directed).unwrap();
    let survey = Survey::of(&graph, &[0, 2, 4], &Watch::silent()).unwrap();
    let first = Part { first: 0, nodes: 2, entries: 3, cut: 2, halo: 1, halo_of_transpose: 0 };
    let second = Part { first: 2, nodes: 2, entries: 1, cut: 0, halo: 0, halo_of_transpose: 2 };
    assert_eq!(survey.parts, [first, second]);
    assert_eq!((survey.entries, survey.cut, survey.cut_share), (4, 2, 0.5));
    // 3 + 8 and 1 + 8 of 20.
    assert_eq!(survey.balance, 1.1);
    for bounds in [&[0, 2][..], &[0, 2, 2, 4], &[1, 4], &[0, 5], &[0], &[]] {
        assert!(Survey::of(&graph, bounds, &Watch::silent()).is_err(), "{bounds:?}");
    }
}

#[test]
fn nodes_are_numbered_part_by_part() {
    let (order, bounds) = numbered(&[1, 0, 1, 2, 0], 3).unwrap();
    assert_eq!((&order[..], &bounds[..]), (&[1, 4, 0, 2, 3][..], &[0, 2, 4, 5][..]));
    // Nobody is in parts 0 and 2: the last nodes of the largest go there.
    let (order, bounds) = numbered(&[1, 1, 1, 3, 1], 4).unwrap();
    assert_eq!((&order[..], &bounds[..]), (&[4, 0, 1, 2, 3][..], &[0, 1, 3, 4, 5][..]));
    let message = |part_of: &[u32], parts| numbered(part_of, parts).unwrap_err().to_string();
    assert!(message(&[0, 3], 2).contains("node 1 is in part 3"));
    assert!(message(&[0], 2).contains("expected at least a node each"));
}

#[test]
fn metis_finds_two_cliques() {
    let Some(metis) = metis() else { return };
    let graph = two_cliques(20);
    let part_of = metis.k_way(&graph, 2).unwrap();
    assert!((0..40).all(|node| part_of[node] == part_of[node % 2]) && part_of[0] != part_of[1], "{part_of:?}");
    let (order, bounds) = numbered(&part_of, 2).unwrap();
    let survey = Survey::of(&graph.renumbered(&order).unwrap(), &bounds, &Watch::silent()).unwrap();
    // One edge, entered both ways.
    assert_eq!((survey.cut, survey.balance), (2, 1.0));
    assert!(survey.parts.iter().all(|part| (part.nodes, part.halo) == (20, 1)));
    assert_eq!(metis.k_way(&graph, 2).unwrap(), part_of, "the same every time");
}

#[test]
fn metis_takes_whatever_a_graph_may_be() {
    let Some(metis) = metis() else { return };
    let edges = [(0u32, 1u32), (1, 2), (3, 3), (4, 5), (2, 0), (0, 0)];
    for (nodes, edges, direction) in [
        (9, &edges[..], Direction::Directed),
        (9, &edges[..], Direction::Undirected),
        (9, &[][..], Direction::Undirected),
        (4, &[(2, 2), (3, 3)][..], Direction::Undirected),
        (1, &[(0, 0)][..], Direction::Directed),
    ] {
        let graph = Graph::from_edges(nodes, edges, None, direction).unwrap();
        for parts in 1..=nodes {
            let part_of = metis.k_way(&graph, parts).unwrap();
            let (order, bounds) = numbered(&part_of, parts).unwrap();
            check_bounds(&bounds, nodes).unwrap();
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), nodes);
        }
        assert!(metis.k_way(&graph, nodes + 1).is_err() && metis.k_way(&graph, 0).is_err());
    }
}

#[test]
fn what_metis_cannot_count_is_refused() {
    Metis::check_size(1 << 20, 1 << 30).unwrap();
    for (nodes, entries) in [(0, 1 << 31), (1 << 29, 0), (1, i32::MAX as usize)] {
        let message = Metis::check_size(nodes, entries).unwrap_err().to_string();
        assert!(message.contains("too large for METIS") && message.contains("set method = ranges"), "{message}");
    }
}
