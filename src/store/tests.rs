use super::*;
use crate::datasets::{Dataset, Features, Labels, Level};
use crate::graph::{Direction, Graph, Split};
use std::path::Path;

fn dataset(weighted: bool, level: Level) -> Dataset {
    let weights = [0.5, 2.0, 1.0];
    let edges = [(0, 1), (1, 2), (3, 4)];
    let graph = Graph::from_edges(5, &edges, weighted.then_some(&weights[..]), Direction::Directed).unwrap();
    let features = Features::new(5, 2, (0..10).map(|v| v as f32 / 4.0).collect()).unwrap();
    let (ids, graph_ptr) = match level {
        Level::Node => (vec![0, 1, 2, 0, 1], vec![0, 5]),
        Level::Graph => (vec![2, 0], vec![0, 3, 5]),
    };
    let split = Split { train: vec![1], valid: vec![0], test: vec![] };
    let labels = Labels::Classes { ids, classes: 3 };
    let mut dataset = Dataset::new("small", graph, graph_ptr, features, labels, level, split).unwrap();
    dataset.feature_names = vec!["size".into(), "age".into()];
    dataset
}

fn assert_same(a: &Dataset, b: &Dataset) {
    assert_eq!((&a.name, &a.graph, &a.graph_ptr, &a.features), (&b.name, &b.graph, &b.graph_ptr, &b.features));
    assert_eq!((&a.labels, a.level, &a.split), (&b.labels, b.level, &b.split));
    assert_eq!((&a.feature_names, &a.class_names), (&b.feature_names, &b.class_names));
}

#[test]
fn what_is_written_reads_back_equal() {
    let root = tempfile::tempdir().unwrap();
    for (i, (weighted, level)) in [(false, Level::Node), (true, Level::Graph)].into_iter().enumerate() {
        let path = root.path().join(format!("store-{i}"));
        let original = dataset(weighted, level);
        write(&original, &path).unwrap();
        assert_same(&original, &read(&path).unwrap());
        assert!(write(&original, &path).unwrap_err().to_string().contains("already exists"));
    }
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2, "no temporary directory may remain");
}

#[test]
fn multi_label_stores_keep_their_bits() {
    let root = tempfile::tempdir().unwrap();
    let mut original = dataset(false, Level::Graph);
    original.labels = Labels::Multi { bits: vec![1, 0, 0, 1], width: 2 };
    original.class_names.truncate(2);
    write(&original, &root.path().join("s")).unwrap();
    assert_same(&original, &read(&root.path().join("s")).unwrap());
}

fn broken(change: impl FnOnce(&Path)) -> String {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("s");
    write(&dataset(true, Level::Node), &path).unwrap();
    change(&path);
    read(&path).unwrap_err().to_string()
}

#[test]
fn damage_is_refused_with_the_file_and_the_reason() {
    let edit_meta = |from: &str, to: &str| {
        let (from, to) = (from.to_string(), to.to_string());
        move |path: &Path| {
            let meta = std::fs::read_to_string(path.join("meta.json")).unwrap();
            assert!(meta.contains(&from));
            std::fs::write(path.join("meta.json"), meta.replace(&from, &to)).unwrap();
        }
    };
    let error = broken(edit_meta("\"version\": 2", "\"version\": 9"));
    assert!(error.contains("meta.json") && error.contains("version 9"), "{error}");
    let error = broken(edit_meta("\"classes\": 3", "\"classes\": 2"));
    assert!(error.contains("label of unit 2 is 2"), "{error}");
    let error = broken(|path| std::fs::remove_file(path.join("labels.npy")).unwrap());
    assert!(error.contains("labels.npy"), "{error}");
    let error = broken(|path| {
        let bytes = std::fs::read(path.join("features.npy")).unwrap();
        std::fs::write(path.join("features.npy"), &bytes[..bytes.len() - 4]).unwrap();
    });
    assert!(error.contains("features.npy") && error.contains("truncated"), "{error}");
    let error = broken(|path| std::fs::write(path.join("col_idx.npy"), b"not an array").unwrap());
    assert!(error.contains("col_idx.npy"), "{error}");
    let error = broken(|path| std::fs::remove_file(path.join("meta.json")).unwrap());
    assert!(error.contains("meta.json"), "{error}");
}
