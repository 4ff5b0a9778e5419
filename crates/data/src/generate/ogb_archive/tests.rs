//! The archive read back by other means (zip and gzip alone) is what was written.

use super::*;
use crate::generate::{Generator, like};
use flate2::read::MultiGzDecoder;
use harmonia_graph::graph::{Graph, Split};
use proptest::prelude::*;
use std::io::Read;

/// Text of a member, decompressed where its name says so.
fn member(path: &Path, name: &str) -> String {
    let mut zip = zip::ZipArchive::new(File::open(path).unwrap()).unwrap();
    let mut bytes = Vec::new();
    zip.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
    let mut text = String::new();
    if name.ends_with(".gz") {
        MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    text
}

fn split() -> Split {
    Split { train: vec![0, 2], valid: vec![1], test: vec![] }
}

fn toy(split: &Split) -> Tables<'_> {
    Tables {
        edges: &[(0, 1), (2, 1)],
        features: 2,
        feature_row: &|i, row| row.copy_from_slice(&[i as f32 + 0.25, -1e-7]),
        labels: &[1, 0, 1],
        classes: 2,
        split,
    }
}

#[test]
fn a_toy_archive_by_hand() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("products.zip");
    write(&path, &ArchiveNames::of("ogbn-products"), &toy(&split()), &Watch::silent()).unwrap();
    let expected = [
        ("raw/edge.csv.gz", "0,1\n2,1\n"),
        ("raw/node-feat.csv.gz", "0.25,-1e-7\n1.25,-1e-7\n2.25,-1e-7\n"),
        ("raw/node-label.csv.gz", "1\n0\n1\n"),
        ("raw/num-node-list.csv.gz", "3\n"),
        ("raw/num-edge-list.csv.gz", "2\n"),
        ("split/sales_ranking/train.csv.gz", "0\n2\n"),
        ("split/sales_ranking/valid.csv.gz", "1\n"),
        ("split/sales_ranking/test.csv.gz", ""),
        ("mapping/labelidx2productcategory.csv.gz", "label idx,product category\n0,class 0\n1,class 1\n"),
    ];
    for (name, text) in expected {
        assert_eq!(member(&path, &format!("products/{name}")), text, "{name}");
    }
    assert!(member(&path, "products/RELEASE_v1.txt").contains("v1"));
    let zip = zip::ZipArchive::new(File::open(&path).unwrap()).unwrap();
    assert_eq!(zip.len(), expected.len() + 1);
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn a_generated_dataset_reads_back_bit_for_bit_on_any_number_of_threads() {
    let generator = Generator::new(like("ogbn-arxiv").unwrap().scaled(0.05).unwrap(), 1).unwrap();
    let (edges, split, d) = (generator.edges(), generator.split(), generator.shape().features);
    let graph = Graph::from_edges(generator.shape().nodes, &edges, None, generator.direction()).unwrap();
    let labels = generator.labels(&graph).unwrap().labels;
    let feature_row = |i: usize, row: &mut [f32]| generator.feature_row(i, row);
    let tables = Tables::of(&generator, &edges, &feature_row, &labels, &split);
    let root = tempfile::tempdir().unwrap();
    let on = |threads: usize| {
        let path = root.path().join(format!("{threads}.zip"));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        // The callback stays with the caller, so only the work goes to the pool.
        pool.install(|| write(&path, &ArchiveNames::of("ogbn-arxiv"), &tables, &Watch::silent())).unwrap();
        path
    };
    let (path, other) = (on(1), on(2));
    assert!(std::fs::read(&path).unwrap() == std::fs::read(other).unwrap(), "threads changed the archive");

    let ids = |name: &str| -> Vec<u32> { member(&path, name).lines().map(|line| line.parse().unwrap()).collect() };
    let text = member(&path, "arxiv/raw/edge.csv.gz");
    let ends = text.lines().map(|line| line.split_once(',').unwrap());
    assert!(ends.map(|(i, j)| (i.parse().unwrap(), j.parse().unwrap())).eq(edges.iter().copied()));
    let text = member(&path, "arxiv/raw/node-feat.csv.gz");
    assert_eq!(text.lines().count(), labels.len());
    let mut row = vec![0.0; d];
    for (i, line) in text.lines().enumerate() {
        generator.feature_row(i, &mut row);
        assert!(
            line.split(',').map(|value| value.parse::<f32>().unwrap().to_bits()).eq(row.iter().map(|v| v.to_bits()))
        );
    }
    assert_eq!(ids("arxiv/raw/node-label.csv.gz"), labels);
    assert_eq!(ids("arxiv/raw/num-node-list.csv.gz"), [labels.len() as u32]);
    assert_eq!(ids("arxiv/raw/num-edge-list.csv.gz"), [edges.len() as u32]);
    assert_eq!(ids("arxiv/split/time/train.csv.gz"), split.train);
    assert_eq!(ids("arxiv/split/time/valid.csv.gz"), split.valid);
    assert_eq!(ids("arxiv/split/time/test.csv.gz"), split.test);
    assert_eq!(member(&path, "arxiv/mapping/labelidx2arxivcategeory.csv.gz").lines().count(), 41);
}

#[test]
fn headers_and_names_are_those_of_the_real_files() {
    let data = crate::download::test_support::data_folder();
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a.zip");
    for name in ["ogbn-products", "ogbn-arxiv"] {
        let real = data.join(name);
        if !real.is_dir() {
            println!("skipped: {name} is not below {}", data.display());
            continue;
        }
        let names = ArchiveNames::of(name);
        write(&path, &names, &toy(&split()), &Watch::silent()).unwrap();
        let mapping = format!("mapping/labelidx2{}.csv.gz", names.class_file);
        let mut text = String::new();
        MultiGzDecoder::new(File::open(real.join(&mapping)).unwrap()).read_to_string(&mut text).unwrap();
        let written = member(&path, &format!("{}/{mapping}", names.folder));
        assert_eq!(written.lines().next(), text.lines().next(), "{name}");
        assert!(real.join("split").join(&names.scheme).is_dir(), "{name}");
        // The number of nodes is a file of one line, as ours is.
        let mut text = String::new();
        MultiGzDecoder::new(File::open(real.join("raw/num-node-list.csv.gz")).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text.trim_end().parse::<usize>().unwrap(), like(name).unwrap().nodes, "{name}");
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let root = tempfile::tempdir().unwrap();
    for name in ["", "..", "../up", "a/b", "a\\b", "c:", ".hidden", "a\0b"] {
        let message = write(&root.path().join("a.zip"), &ArchiveNames::of(name), &toy(&split()), &Watch::silent())
            .unwrap_err()
            .to_string();
        assert!(message.contains("cannot be a folder of an archive"), "{message}");
    }
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_failure_half_way_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a.zip");
    let split = split();
    let broken = Tables { feature_row: &|i, row| row.fill(if i == 2 { f32::NAN } else { 0.0 }), ..toy(&split) };
    let message = write(&path, &ArchiveNames::of("toy"), &broken, &Watch::silent()).unwrap_err().to_string();
    assert!(message.contains("feature 0 of node 2 is NaN"), "{message}");
    let outside = Tables { edges: &[(0, 3)], ..toy(&split) };
    assert!(
        write(&path, &ArchiveNames::of("toy"), &outside, &Watch::silent()).unwrap_err().to_string().contains("below 3")
    );
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any bits whatever: finite floats come back as they were, others are refused, nothing panics.
    #[test]
    fn any_float_and_any_id_is_refused_or_comes_back(
        bits in prop::collection::vec(any::<u32>(), 6), ends in prop::collection::vec((0u32..4, 0u32..4), 0..5),
        labels in prop::collection::vec(0u32..4, 0..4), train in prop::collection::vec(0u32..4, 0..3), name in ".{0,6}",
    ) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.zip");
        let values: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
        let split = Split { train, ..Split::default() };
        let feature_row = |i: usize, row: &mut [f32]| row.copy_from_slice(&values[2 * i..2 * i + 2]);
        let tables =
            Tables { edges: &ends, features: 2, feature_row: &feature_row, labels: &labels, classes: 3, split: &split };
        let names = ArchiveNames::of(&name);
        match write(&path, &names, &tables, &Watch::silent()) {
            Ok(()) => {
                let text = member(&path, &format!("{}/raw/node-feat.csv.gz", names.folder));
                let values = text.lines().flat_map(|line| line.split(','));
                let read: Vec<u32> = values.map(|value| value.parse::<f32>().unwrap().to_bits()).collect();
                prop_assert_eq!(&read[..], &bits[..2 * labels.len()]);
            }
            Err(_) => prop_assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0),
        }
    }
}
