//! Bytes that are no table, or no longer one: an error, never a panic.

use super::binary::{npy_file, npz_file, parquet_file};
use super::*;
use harmonia_graph::npy::Element;
use proptest::prelude::*;

fn attempt(name: &str, bytes: &[u8]) {
    let other: (&str, &[u8]) = if name.starts_with("edges") {
        ("nodes.csv", b"f,label\n1,0\n2,1\n3,0\n")
    } else {
        ("edges.csv", b"0,1\n1,2\n")
    };
    let labels: (&str, &[u8]) = ("labels.csv", b"0\n1\n0\n");
    let root = directory(&[(name, bytes), other]);
    if name.starts_with("features") {
        std::fs::write(root.path().join(labels.0), labels.1).unwrap();
    }
    match load("own", &options(&root)) {
        Ok(dataset) => dataset.check().unwrap(),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn damaged(mut bytes: Vec<u8>, changes: &[(usize, u8)], cut: usize) -> Vec<u8> {
    for &(at, value) in changes {
        let at = at % bytes.len();
        bytes[at] = value;
    }
    bytes.truncate(bytes.len() - cut % bytes.len());
    bytes
}

fn changes() -> impl Strategy<Value = (Vec<(usize, u8)>, usize)> {
    (prop::collection::vec((any::<usize>(), any::<u8>()), 0..4), prop_oneof![3 => Just(0usize), 1 => any::<usize>()])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_text(
        text in "[0-3a\",;\n\r\t .#é-]{0,80}",
        name in prop::sample::select(vec!["edges.csv", "edges.tsv", "edges.txt", "nodes.csv", "features.csv"]),
    ) {
        attempt(name, text.as_bytes());
    }

    #[test]
    fn random_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        name in prop::sample::select(vec!["edges.csv.gz", "edges.npy", "edges.npz", "edges.parquet", "nodes.parquet",
            "nodes.npz", "features.npy", "nodes.csv"]),
    ) {
        attempt(name, &bytes);
    }

    #[test]
    fn damaged_text((changes, cut) in changes()) {
        attempt("nodes.csv", &damaged(b"id,f,kind,label,split\n0,1.5,\"a\",0,train\n1,2,b,1,\n2,3,a,0,test\n".to_vec(), &changes, cut));
    }

    #[test]
    fn damaged_parquet((changes, cut) in changes()) {
        attempt("nodes.parquet", &damaged(parquet_file(), &changes, cut));
    }

    #[test]
    fn damaged_npz((changes, cut) in changes()) {
        attempt("nodes.npz", &damaged(npz_file(&super::binary::csr_members()), &changes, cut));
        let edges = npy_file(Element::I64, &[3, 2], &[0, 1, 1, 2, 2, 0]);
        attempt("edges.npz", &damaged(npz_file(&[("edges", edges.clone())]), &changes, cut));
        attempt("edges.npy", &damaged(edges, &changes, cut));
    }
}
