//! Reordered stores hold the same dataset: everything that is said of a node moves along, and `node_order.npy` leads back.

#![allow(clippy::unwrap_used, missing_docs)]

mod program;

use harmonia::Stop;
use harmonia::config::Config;
use harmonia::dataset::{Dataset, Features, Labels, Level, SplitRule, UNLABELLED};
use harmonia::device::Machine;
use harmonia::graph::{Direction, Graph, Reorder, Split};
use harmonia::seed::{Purpose, Rng, Stream};
use harmonia::store::{self, Description, Writer};
use harmonia::watch::Watch;
use program::Scratch;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const ALL: [Reorder; 3] = [Reorder::Degree, Reorder::Breadth, Reorder::Communities];
/// Rows are summed in another order: a few last bits of numbers near 1, carried through ten hops.
const LOGIT_TOLERANCE: f32 = 1e-4;

/// As `convert` writes a store.
fn write(dataset: &Dataset, method: Reorder, path: &Path) -> harmonia::Result<()> {
    let mut writer = Writer::create(path)?;
    writer.dataset(dataset)?;
    let order = method.order(&dataset.graph, &dataset.graph_ptr, &Stop::new())?;
    writer.renumber(method.name(), &order, dataset.level, &Watch::silent())?;
    writer.finish(Description::of(dataset))
}

fn reordered(dataset: &Dataset, method: Reorder) -> Dataset {
    let scratch = tempfile::tempdir().unwrap();
    write(dataset, method, &scratch.path().join("s")).unwrap();
    let files = std::fs::read_dir(scratch.path().join("s")).unwrap().map(|entry| entry.unwrap().path());
    assert!(files.into_iter().all(|path| path.extension().is_some_and(|end| end != "replaced")));
    let verified = store::Store::verify(&scratch.path().join("s"), &Stop::new()).unwrap();
    assert!(verified.iter().any(|file| file.file == "node_order.npy"));
    assert!(verified.iter().all(|file| file.expected.as_ref() == Some(&file.found)));
    store::read(&scratch.path().join("s")).unwrap()
}

/// What a dataset is made of.
#[derive(Clone, Copy, Debug)]
struct Recipe {
    seed: u64,
    nodes: usize,
    edges: usize,
    graphs: usize,
    directed: bool,
    weighted: bool,
    features: Form,
    level: Level,
    splits: usize,
    multi: bool,
    named: bool,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Dense,
    Half,
    Sparse,
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let form = prop_oneof![Just(Form::Dense), Just(Form::Half), Just(Form::Sparse)];
    let level = prop_oneof![Just(Level::Node), Just(Level::Graph)];
    let sizes = (any::<u64>(), 4..60usize, 0..150usize, 1..4usize, 0..3usize);
    let kinds = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (sizes, kinds, form, level).prop_map(|(sizes, kinds, features, level)| {
        let ((seed, nodes, edges, graphs, splits), (directed, weighted, multi, named)) = (sizes, kinds);
        Recipe { seed, nodes, edges, graphs, directed, weighted, features, level, splits, multi, named }
    })
}

/// Each unit in some part or none, the first in train.
fn split(rng: &mut Rng, labelled: &[u32]) -> Split {
    let mut split = Split::default();
    for (at, &unit) in labelled.iter().enumerate() {
        match rng.below(4) {
            _ if at == 0 => split.train.push(unit),
            0 => split.train.push(unit),
            1 => split.valid.push(unit),
            2 => split.test.push(unit),
            _ => {}
        }
    }
    split
}

fn made(recipe: &Recipe) -> Dataset {
    let Recipe { nodes, graphs, .. } = *recipe;
    let mut rng = Stream::new(recipe.seed, Purpose::SyntheticGraph, 0).rng();
    let graph_ptr: Vec<usize> = (0..=graphs).map(|graph| graph * nodes / graphs).collect();
    let edges: Vec<(u32, u32)> = (0..recipe.edges)
        .map(|_| {
            let graph = rng.below(graphs);
            let (start, size) = (graph_ptr[graph], graph_ptr[graph + 1] - graph_ptr[graph]);
            // Some nodes are hubs and some have no neighbours at all.
            let node = |rng: &mut Rng| (start + rng.below(size) * rng.below(size) / size) as u32;
            (node(&mut rng), node(&mut rng))
        })
        .collect();
    let weights: Vec<f32> = edges.iter().map(|_| 0.5 + rng.below(16) as f32).collect();
    let direction = if recipe.directed { Direction::Directed } else { Direction::Undirected };
    let graph = Graph::from_edges(nodes, &edges, recipe.weighted.then_some(&weights[..]), direction).unwrap();
    let cols = if matches!(recipe.features, Form::Sparse) { 200 } else { 3 };
    let mut value = || if cols == 3 || rng.below(50) == 0 { 1.0 + rng.below(1000) as f32 } else { 0.0 };
    let features = Features::new(nodes, cols, (0..nodes * cols).map(|_| value()).collect()).unwrap();
    let features = match recipe.features {
        Form::Dense => features,
        Form::Half => features.halved().unwrap(),
        Form::Sparse => features.compact(),
    };
    let units = if recipe.level == Level::Node { nodes } else { graphs };
    let labels = match recipe.multi {
        true => Labels::Multi { bits: (0..2 * units).map(|_| rng.below(2) as u8).collect(), width: 2 },
        false => {
            let class = |rng: &mut Rng| [0, 1, 2, UNLABELLED][rng.below(4)];
            Labels::Classes {
                ids: (0..units).map(|unit| if unit == 0 { 1 } else { class(&mut rng) }).collect(),
                classes: 3,
            }
        }
    };
    let labelled: Vec<u32> = (0..units as u32).filter(|&unit| labels.is_labelled(unit as usize)).collect();
    let own_splits: Vec<Split> = (0..recipe.splits).map(|_| split(&mut rng, &labelled)).collect();
    let first = own_splits.first().cloned().unwrap_or_default();
    let mut dataset = Dataset::new("made", graph, graph_ptr, features, labels, recipe.level, first).unwrap();
    dataset.own_splits = own_splits;
    if recipe.named {
        dataset.node_names = (0..nodes).map(|node| format!("node {node}")).collect();
    }
    dataset
}

fn edges(dataset: &Dataset) -> BTreeMap<(usize, usize), u32> {
    let csr = dataset.graph.adjacency();
    let row = |i: usize| csr.row_entries(i).map(move |(j, weight)| (i, j, weight)).collect::<Vec<_>>();
    let original = |node: usize| dataset.original_id(node);
    (0..dataset.graph.nodes()).flat_map(row).map(|(i, j, w)| ((original(i), original(j)), w.to_bits())).collect()
}

fn row(dataset: &Dataset, node: usize) -> Vec<u32> {
    let mut row = vec![0.0; dataset.features.cols];
    dataset.features.fill_row(node, &mut row);
    row.iter().map(|value| value.to_bits()).collect()
}

/// The label of a unit and its part in every split.
fn unit(dataset: &Dataset, unit: usize) -> (Vec<u32>, Vec<[bool; 3]>) {
    let label = match &dataset.labels {
        Labels::Classes { ids, .. } => vec![ids[unit]],
        Labels::Multi { bits, width } => bits[unit * width..(unit + 1) * width].iter().map(|&bit| bit.into()).collect(),
        Labels::Values { .. } => dataset.labels.values(unit).iter().map(|value| value.to_bits()).collect(),
    };
    let part = |split: &Split| [&split.train, &split.valid, &split.test].map(|ids| ids.contains(&(unit as u32)));
    (label, dataset.own_splits.iter().map(part).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn everything_moves_along(recipe in recipe(), method in 0..ALL.len()) {
        let dataset = made(&recipe);
        let found = reordered(&dataset, ALL[method]);
        found.check().unwrap();
        let mut seen: Vec<usize> = (0..recipe.nodes).map(|node| found.original_id(node)).collect();
        for (node, &original) in seen.iter().enumerate() {
            prop_assert_eq!(row(&found, node), row(&dataset, original));
            let graph = |node| dataset.graph_ptr.partition_point(|&start| start <= node);
            prop_assert_eq!(graph(node), graph(original));
            if recipe.level == Level::Node {
                prop_assert_eq!(unit(&found, node), unit(&dataset, original));
            }
            if recipe.named {
                prop_assert_eq!(&found.node_names[node], &dataset.node_names[original]);
            }
        }
        if recipe.level == Level::Graph {
            prop_assert!((0..recipe.graphs).all(|graph| unit(&found, graph) == unit(&dataset, graph)));
        }
        prop_assert_eq!(edges(&found), edges(&dataset));
        prop_assert_eq!(&found.graph_ptr, &dataset.graph_ptr);
        prop_assert_eq!(std::mem::discriminant(found.features.values()), std::mem::discriminant(dataset.features.values()));
        seen.sort_unstable();
        prop_assert!(seen.into_iter().eq(0..recipe.nodes));
    }
}

fn node_task() -> Dataset {
    made(&Recipe {
        seed: 4,
        nodes: 300,
        edges: 900,
        graphs: 1,
        directed: true,
        weighted: true,
        features: Form::Dense,
        level: Level::Node,
        splits: 1,
        multi: false,
        named: false,
    })
}

#[test]
fn a_model_says_the_same_of_every_node() {
    let mut dataset = node_task();
    // Between -1 and 1, where responses bend.
    let values = dataset.features.dense().iter().map(|x| x / 500.0 - 1.0).collect();
    dataset.features = Arc::new(Features::new(300, 3, values).unwrap());
    let mut config = Config::default();
    (config.train.epochs, config.train.learning_rate) = (5, 1e-2);
    let model = harmonia::fit(&dataset, &config, &Machine::open("cpu", config.engine).unwrap(), &Stop::new()).unwrap();
    let expected = model.logits(&dataset).unwrap();
    assert!(
        expected.iter().any(|&logit| (logit - expected[0]).abs() > 100.0 * LOGIT_TOLERANCE),
        "something was learned"
    );
    for method in ALL {
        let found = reordered(&dataset, method);
        let logits = model.logits(&found).unwrap();
        assert!((0..300).any(|node| found.original_id(node) != node), "{method:?} moves nodes");
        for (node, logits) in logits.chunks_exact(3).enumerate() {
            let expected = &expected[3 * found.original_id(node)..][..3];
            let difference = logits.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(difference <= LOGIT_TOLERANCE, "{method:?}, node {node}: {logits:?}, expected {expected:?}");
        }
    }
}

/// What a seed draws is a matter of the data, not of how they are kept.
#[test]
fn the_same_seed_draws_the_same_nodes() {
    let mut dataset = node_task();
    let mut found = reordered(&dataset, Reorder::Communities);
    for rule in ["fractions:60/20/20", "per-class:10/30/40", "folds:5/2"] {
        let rule = SplitRule::parse(rule).unwrap();
        rule.apply(&mut dataset, 7).unwrap();
        rule.apply(&mut found, 7).unwrap();
        let original = |ids: &[u32]| ids.iter().map(|&id| found.original_id(id as usize) as u32).collect::<Vec<_>>();
        let Split { train, valid, test } = &found.split;
        let split = Split { train: original(train), valid: original(valid), test: original(test) };
        assert_eq!(split, dataset.split, "{rule:?}");
    }
}

#[test]
fn an_order_on_top_of_another_leads_back_to_the_source() {
    let dataset = node_task();
    let once = reordered(&dataset, Reorder::Degree);
    let twice = reordered(&once, Reorder::Breadth);
    assert_eq!(edges(&twice), edges(&dataset));
    assert_eq!(twice.node_order.as_ref().unwrap().method, "bfs");
    // Written again as it is, it stays what it was.
    let scratch = tempfile::tempdir().unwrap();
    store::write(&twice, &scratch.path().join("s")).unwrap();
    assert_eq!(store::read(&scratch.path().join("s")).unwrap().node_order, twice.node_order);
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let dataset = node_task();
    let watch = Watch::silent();
    for (order, expected) in [(vec![0u32; 300], "entry 1 is 0"), (vec![0, 1], "row_ptr.npy has 300 nodes")] {
        let scratch = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(&scratch.path().join("s")).unwrap();
        writer.dataset(&dataset).unwrap();
        let error = writer.renumber("degree", &order, Level::Node, &watch).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        drop(writer);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}

/// Edges and features are moved a few megabytes at a time; the same graph made in memory is the oracle.
#[test]
fn arrays_of_several_blocks_move_whole() {
    let (nodes, cols) = (40_000, 40);
    let mut rng = Stream::new(9, Purpose::SyntheticGraph, 0).rng();
    let list: Vec<(u32, u32)> = (0..20 * nodes).map(|_| (rng.below(nodes) as u32, rng.below(nodes) as u32)).collect();
    let weights: Vec<f32> = list.iter().map(|_| 1.0 + rng.below(100) as f32).collect();
    let graph = Graph::from_edges(nodes, &list, Some(&weights), Direction::Undirected).unwrap();
    assert!(graph.directed_edges() * size_of::<u32>() > 5 << 20 && nodes * cols * size_of::<f32>() > 5 << 20);
    let features = Features::new(nodes, cols, (0..nodes * cols).map(|at| at as f32).collect()).unwrap();
    let labels = Labels::Classes { ids: (0..nodes as u32).map(|node| node % 3).collect(), classes: 3 };
    let dataset = Dataset::nodes("large", graph, features, labels, Split::default()).unwrap();
    let found = reordered(&dataset, Reorder::Degree);
    let order = &found.node_order.as_ref().unwrap().original;
    assert!(found.graph == dataset.graph.renumbered(order).unwrap());
    assert!((0..nodes).all(|node| row(&found, node) == row(&dataset, order[node] as usize)));
}

/// All files of a store.
fn files(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn the_command_line_reorders_what_it_converts_and_generates() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("mine")).unwrap();
    // A path 0 - 1 - ... - 9 and a hub, node 10, that knows every other node.
    let nodes: String = (0..11).map(|i| format!("n{i},{i},{},{}\n", i % 2, ["train", "test"][i % 2])).collect();
    let edges: String = (0..9).map(|i| format!("n{i},n{}\n", i + 1)).collect();
    let hub: String = (0..10).map(|i| format!("n10,n{i}\n")).collect();
    scratch.write("mine/nodes.csv", format!("id,x,label,split\n{nodes}"));
    scratch.write("mine/edges.csv", format!("source,target\n{edges}{hub}"));
    let convert = ["data", "convert", "mine", "--format", "table", "--out"];
    scratch.harmonia_ok(&[&convert[..], &["plain", "--reorder", "none"]].concat());
    assert!(!scratch.path("plain/node_order.npy").exists());
    assert!(!scratch.harmonia_ok(&["data", "info", "plain"]).contains("order of nodes"));
    scratch.harmonia_ok(&[&convert[..], &["hubs", "--reorder", "degree"]].concat());
    let dataset = store::read(&scratch.path("hubs")).unwrap();
    assert_eq!((dataset.original_id(0), dataset.node_names[0].as_str()), (10, "n10"));
    assert_eq!(dataset.node_order.unwrap().original, [10, 1, 2, 3, 4, 5, 6, 7, 8, 0, 9]);
    let info = scratch.harmonia_ok(&["data", "info", "hubs", "--verify"]);
    assert!(info.contains("order of nodes    degree") && info.contains("node_order.npy"), "{info}");
    let json: Value = serde_json::from_str(&scratch.harmonia_ok(&["data", "info", "hubs", "--json"])).unwrap();
    assert_eq!(
        (&json["node_order"], &json["source"]["options"]),
        (&"degree".into(), &"undirected, reorder degree".into())
    );

    // The bare flag, and the same bits with one thread and two.
    let generate = ["data", "generate", "--like", "ogbn-arxiv", "--scale", "0.02", "--reorder", "--threads"];
    scratch.harmonia_ok(&[&generate[..], &["1", "--out", "one"]].concat());
    scratch.harmonia_ok(&[&generate[..], &["2", "--out", "two"]].concat());
    assert!(files(&scratch.path("one")) == files(&scratch.path("two")), "threads change the store");
    assert_eq!(store::read(&scratch.path("one")).unwrap().node_order.unwrap().method, "communities");

    scratch.refused(
        "harmonia",
        &[&convert[..], &["s", "--reorder", "hubs"]].concat(),
        &["hubs", "degree, bfs, communities"],
    );
    let archive = ["data", "generate", "--like", "cora", "--as-ogb", "a.zip", "--reorder"];
    scratch.refused("harmonia", &archive, &["--reorder", "--out"]);
}
