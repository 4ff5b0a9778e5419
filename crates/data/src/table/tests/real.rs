//! Public datasets, written as tables and read back.

use super::*;
use crate::npz::Npz;
use crate::planetoid;
use harmonia_graph::npy::Npy;
use std::fmt::Write;

fn data() -> Option<PathBuf> {
    let path = crate::download::test_support::data_folder();
    if !path.is_dir() {
        println!("skipped: no real data; set HARMONIA_DATA");
        return None;
    }
    Some(path)
}

#[test]
fn cora_as_text_reads_back_equal() {
    let Some(data) = data() else { return };
    let cora = planetoid::load("Cora", &data).unwrap();
    let Labels::Classes { ids, .. } = &cora.labels else { panic!("Cora has classes") };
    let mut nodes = "id,label,split".to_string();
    cora.feature_names.iter().for_each(|name| write!(nodes, ",{name}").unwrap());
    let part = |node: u32| match () {
        () if cora.split.train.contains(&node) => "train",
        () if cora.split.valid.contains(&node) => "valid",
        () if cora.split.test.contains(&node) => "test",
        () => "",
    };
    for (node, row) in cora.features.dense().chunks_exact(cora.features.cols).enumerate() {
        write!(nodes, "\r\npaper-{node},{},{}", ids[node], part(node as u32)).unwrap();
        row.iter().for_each(|value| write!(nodes, ",{value}").unwrap());
    }
    let mut edges = "source\ttarget\n".to_string();
    for i in 0..cora.graph.nodes() {
        neighbours(&cora, i).iter().for_each(|(j, _)| writeln!(edges, "paper-{i}\tpaper-{j}").unwrap());
    }
    let own = loaded(&[("nodes.csv", &nodes), ("edges.tsv", &edges)]);
    assert!(own.graph == cora.graph && own.labels == cora.labels);
    assert!(own.features.dense() == cora.features.dense());
    assert_eq!((&own.feature_names, &own.node_names[7][..]), (&cora.feature_names, "paper-7"));
    // The test ids of Cora are in the order of their file, those of a table in the order of the rows.
    let mut test = cora.split.test.clone();
    test.sort();
    assert_eq!((&own.split.train, &own.split.valid, &own.split.test), (&cora.split.train, &cora.split.valid, &test));
}

#[test]
fn labels_and_splits_of_ogbn_arxiv() {
    let Some(data) = data() else { return };
    let arxiv = data.join("ogbn-arxiv");
    let read = |path: &str| std::fs::read(arxiv.join(path)).unwrap();
    // Its edges and features are not among the public files: one edge and the node's number stand in.
    let features: String = (0..169_343).map(|node| format!("{node}\n")).collect();
    let root = directory(&[
        ("features.csv", features.as_bytes()),
        ("edges.csv", b"0,169342\n"),
        ("train.csv.gz", &read("split/time/train.csv.gz")),
        ("valid.csv.gz", &read("split/time/valid.csv.gz")),
        ("test.csv.gz", &read("split/time/test.csv.gz")),
    ]);
    let mut options = options(&root);
    options.labels = Some(arxiv.join("raw/node-label.csv.gz"));
    let dataset = load("ogbn-arxiv", &options).unwrap();
    let split = &dataset.split;
    assert_eq!((split.train.len(), split.valid.len(), split.test.len()), (90_941, 29_799, 48_603));
    assert_eq!((dataset.labels.outputs(), dataset.labels.units()), (40, 169_343));
}

#[test]
fn arrays_of_tolokers() {
    let Some(data) = data() else { return };
    let npz = Npz::open(&data.join("Tolokers/raw/tolokers.npz")).unwrap();
    let [features, labels, edges, masks] =
        ["node_features", "node_labels", "edges", "train_masks"].map(|name| npz.array(name).unwrap());
    let masks = Npy::parse(&masks, Path::new("train_masks")).unwrap();
    let train: String = (masks.data[..11_758].iter().enumerate())
        .filter(|(_, yes)| **yes != 0)
        .map(|(node, _)| format!("{node}\n"))
        .collect();
    let root = directory(&[
        ("features.npy", &features),
        ("labels.npy", &labels),
        ("edges.npy", &edges),
        ("train.txt", train.as_bytes()),
    ]);
    let dataset = load("tolokers", &options(&root)).unwrap();
    assert_eq!((dataset.features.rows, dataset.features.cols, dataset.split.train.len()), (11_758, 10, 5_879));
    assert_eq!(dataset.graph.directed_edges(), 2 * 519_000);
    let Labels::Classes { ids, .. } = &dataset.labels else { panic!("Tolokers has classes") };
    assert_eq!(ids.iter().filter(|&&id| id == 1).count(), 2_566);
}
