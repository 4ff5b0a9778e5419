//! Whether a run takes a table by itself, where dropped inputs make the nodes at the ends of walks count for more than their mean.

use super::common::problems::{Problem, Recipe};
use harmonia::config::{Config, DropoutPlace, TableUse};
use harmonia::graph::{Direction, Graph};
use harmonia::tabulate::Tabulation;
use harmonia::train::{Prepared, RunName};

const NODES: u32 = 96;
/// So many that a table saves what it costs, whatever the size of the graph.
const EPOCHS: usize = 1_000_000_000;

/// A ring on which every node has `reach` neighbours to either side, and one in `rare` a neighbour more across it.
fn ring(reach: u32, rare: Option<u32>) -> Graph {
    let around = (0..NODES).flat_map(|node| (1..=reach).map(move |step| (node, (node + step) % NODES)));
    let across =
        rare.into_iter().flat_map(|rare| (0..NODES / 2).step_by(rare as usize).map(|node| (node, node + NODES / 2)));
    let edges: Vec<(u32, u32)> = around.chain(across).collect();
    Graph::from_edges(NODES as usize, &edges, None, Direction::Undirected).unwrap()
}

fn choice(graph: Graph, set: impl Fn(&mut Config)) -> Tabulation {
    let Problem { mut dataset, .. } = Recipe { nodes: NODES as usize, hops: 4, ..Recipe::default() }.problem();
    dataset.graph = graph;
    let units = std::mem::take(&mut dataset.split.train);
    (dataset.split.train, dataset.split.valid) = (units[..25].to_vec(), units[25..].to_vec());
    let mut config = Config::default();
    (config.engine.table, config.train.epochs, config.train.dropout) = (TableUse::Auto, EPOCHS, 0.1);
    set(&mut config);
    Prepared::of(dataset, None, &config, RunName { seed: 0, fold: None }).unwrap().tabulation
}

#[test]
fn masks_of_few_neighbours_are_not_taken_for_their_mean() {
    // 6 neighbours each, 7, and 6.5 on average.
    for graph in [ring(3, None), ring(3, Some(1)), ring(3, Some(2))] {
        let walked = choice(graph, |_| {});
        let says = |why: &str| why.contains("so few neighbours") && why.contains("train.dropout");
        assert!(matches!(&walked, Tabulation::Walk { why: Some(why) } if says(why)), "{walked:?}");
    }
    for reach in [4, 6] {
        assert!(choice(ring(reach, None), |_| {}).plan().is_some(), "{reach} to either side");
    }
}

#[test]
fn few_neighbours_do_not_matter_where_no_input_is_masked_or_a_table_is_asked_for() {
    let none = |config: &mut Config| config.train.dropout = 0.0;
    let whole_features = |config: &mut Config| config.train.dropout_place = DropoutPlace::Feature;
    let asked = |config: &mut Config| config.engine.table = TableUse::Force;
    assert!(choice(ring(3, None), none).plan().is_some());
    assert!(choice(ring(3, None), whole_features).plan().is_some());
    assert!(choice(ring(3, None), asked).plan().is_some());
}
