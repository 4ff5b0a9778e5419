use super::*;
use crate::dataset::{Dataset, Features, Labels, Level, UnitWeights};
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
fn weights_of_units_survive_and_are_checked() {
    let root = tempfile::tempdir().unwrap();
    for level in [Level::Node, Level::Graph] {
        let path = root.path().join(format!("{level:?}"));
        let mut original = dataset(false, level);
        let values = (1..=original.units()).map(|weight| weight as f32 / 2.0).collect();
        original.weights = Some(UnitWeights { column: "w".into(), values });
        write(&original, &path).unwrap();
        assert_eq!(read(&path).unwrap().weights, original.weights);
        let meta = std::fs::read_to_string(path.join("meta.json")).unwrap();
        assert!(meta.contains("\"version\": 4") && meta.contains("\"weights\": \"w\""), "{meta}");
        original.weights = Some(UnitWeights { column: "w".into(), values: vec![0.0; original.units()] });
        let bad = root.path().join("bad");
        let message = write(&original, &bad).unwrap_err().to_string();
        assert!(message.contains("unit_weights.npy") && message.contains("unit 0 is 0"), "{message}");
        std::fs::remove_file(path.join("unit_weights.npy")).unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(message.contains("unit_weights.npy") && message.contains("is missing"), "{message}");
    }
}

#[test]
fn what_we_write_is_mapped_in_every_form_and_survives() {
    let root = tempfile::tempdir().unwrap();
    let mut original = dataset(true, Level::Node);
    original.node_names = (0..5).map(|i| format!("node {i}")).collect();
    let split = |train: u32, valid: u32| Split { train: vec![train], valid: vec![valid], test: vec![] };
    original.own_splits = vec![split(1, 0), split(4, 2)];
    let wide = Features::new(5, 400, (0..2000).map(|v| if v % 99 == 7 { v as f32 } else { 0.0 }).collect()).unwrap();
    for (name, features) in [
        ("dense", (*original.features).clone()),
        ("half", (*original.features).clone().halved().unwrap()),
        ("sparse", wide.compact()),
    ] {
        let path = root.path().join(name);
        original.features = std::sync::Arc::new(features);
        original.feature_names = (0..original.features.cols).map(|k| format!("x{k}")).collect();
        write(&original, &path).unwrap();
        let found = read(&path).unwrap();
        assert_eq!((&found.features, &found.own_splits), (&original.features, &original.own_splits), "{name}");
        assert_eq!((&found.split, &found.node_names), (&original.own_splits[0], &original.node_names));
        let adjacency = found.graph.adjacency();
        assert!(adjacency.row_ptr.is_mapped() && adjacency.col_idx.is_mapped(), "{name}");
        assert!(match found.features.values() {
            crate::dataset::Values::Dense(values) => values.is_mapped(),
            crate::dataset::Values::Half(values) => values.is_mapped(),
            crate::dataset::Values::Sparse(sparse) => sparse.values.is_mapped() && sparse.col_idx.is_mapped(),
        });
        let verified = Store::verify(&path, &crate::Stop::new()).unwrap();
        assert!(
            verified.len() >= 6 && verified.iter().all(|file| file.expected.as_ref() == Some(&file.found)),
            "{name}"
        );
    }
}

#[test]
fn a_store_is_checked_before_it_has_a_name() {
    let root = tempfile::tempdir().unwrap();
    let mut broken = dataset(true, Level::Node);
    broken.feature_names.push("one too many".into());
    let error = write(&broken, &root.path().join("s")).unwrap_err().to_string();
    assert!(error.contains("s/meta.json") && error.contains("feature_names has 3 entries, expected 2"), "{error}");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    // While it is written there is no meta.json; a second writer leaves the first one's directory alone.
    let writer = Writer::create(&root.path().join("s")).unwrap();
    let other = Writer::create(&root.path().join("s")).unwrap();
    assert!(writer.directory().exists() && !writer.directory().join("meta.json").exists());
    drop(other);
    assert!(writer.directory().exists());
    // What a killed writer left is removed by the next.
    let abandoned = root.path().join(".harmonia-writing-0123456789abcdef");
    std::fs::create_dir(&abandoned).unwrap();
    std::fs::write(abandoned.join("row_ptr.npy"), "half of one").unwrap();
    drop(Writer::create(&root.path().join("s")).unwrap());
    assert!(!abandoned.exists() && writer.directory().exists());
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

/// A kill while it was removed took its lock first, and then nobody dared to remove it.
#[test]
fn a_folder_whose_removal_was_killed_is_removed_by_the_next_writer() {
    let root = tempfile::tempdir().unwrap();
    let half_removed = root.path().join(".harmonia-writing-00000000deadbeef");
    std::fs::create_dir(&half_removed).unwrap();
    drop(Writer::create(&root.path().join("s")).unwrap());
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

/// Size, time and inode stayed as they were; nothing that a user can set back shows that the content did not.
#[cfg(unix)]
#[test]
fn a_large_store_that_was_overwritten_with_its_time_set_back_is_read_again() {
    use std::os::unix::fs::FileExt;
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("large");
    let (nodes, cols) = (1 << 16, 300);
    let edges: Vec<(u32, u32)> = (1..nodes as u32).map(|i| (i - 1, i)).collect();
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
    let features = Features::new(nodes, cols, vec![0.5; nodes * cols]).unwrap();
    let labels = Labels::Classes { ids: vec![0; nodes], classes: 2 };
    let split = Split { train: vec![0], valid: vec![1], test: vec![2] };
    write(&Dataset::nodes("large", graph, features, labels, split).unwrap(), &path).unwrap();
    read(&path).unwrap();
    let file = std::fs::File::options().write(true).open(path.join("col_idx.npy")).unwrap();
    let (before, wrong) = (file.metadata().unwrap(), vec![0xee; 200]);
    file.write_all_at(&wrong, before.len() - 200).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    let message = read(&path).unwrap_err().to_string();
    assert!(message.contains("col_idx.npy"), "{message}");
}
