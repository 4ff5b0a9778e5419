//! Arrays and stores that lie: about their sizes, their order, their ranges or themselves.

use crate::hostile::inputs::{self, Tree};
use crate::hostile::memory::turn;
use crate::hostile::verdict::judge;
use crate::read_store;
use harmonia::npy::{self, Element, Npy};
use std::path::Path;

fn file<'a>(tree: &'a mut Tree, name: &str) -> &'a mut Vec<u8> {
    &mut tree.iter_mut().find(|(file, _)| file == name).unwrap().1
}

/// A store of that kind whose file is another; its message must hold every one of `expected`.
fn refused(kind: usize, name: &str, content: Vec<u8>, expected: &[&str]) {
    let mut tree = inputs::store(kind);
    tree.retain(|(file, _)| file != name);
    tree.push((name.to_string(), content));
    let message = read_store(&tree).unwrap_err();
    assert!(expected.iter().all(|part| message.contains(part)), "expected {expected:?}: {message}");
}

fn ids(values: &[u32]) -> Vec<u8> {
    [npy::header(Element::U32, &[values.len()]), values.iter().flat_map(|id| id.to_le_bytes()).collect()].concat()
}

fn offsets(values: &[i64]) -> Vec<u8> {
    inputs::integers(&[values.len()], values)
}

/// A header of any text and version.
fn header(version: u8, length: u32, text: &str) -> Vec<u8> {
    let mut bytes = vec![0x93, b'N', b'U', b'M', b'P', b'Y', version, 0];
    match version {
        1 => bytes.extend((length as u16).to_le_bytes()),
        _ => bytes.extend(length.to_le_bytes()),
    }
    bytes.extend(text.bytes());
    bytes
}

#[test]
fn npy_headers_promise_in_vain() {
    let _turn = turn();
    let shaped = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut cases = vec![
        npy::header(Element::F32, &[1 << 60]),
        npy::header(Element::F64, &[1 << 30, 1 << 30]),
        npy::header(Element::U8, &[usize::MAX, usize::MAX]),
        // A header that claims gigabytes for itself, and one that is nothing but nesting.
        header(2, u32::MAX, &shaped("(3,)")),
        header(3, u32::MAX - 1, "{"),
        header(1, 60_000, &"[".repeat(60_000)),
        header(1, 9000, &"[".repeat(9000)),
        header(1, 14, &"{".repeat(14)),
        header(1, 40, &format!("{{'{}':{}", "}".repeat(20), "{".repeat(16))),
        header(1, 60_000, &"{'a':".repeat(12_000)),
        header(2, 1_000_000, &"(".repeat(1_000_000)),
    ];
    let huge = "18446744073709551615";
    let mut texts = vec![shaped("[18446744073709551615, 18446744073709551615]"), shaped("(0xffffffffffffffff, 0xff)")];
    texts.push(shaped("(18_446_744_073_709_551_615, 16)"));
    texts.push(shaped(&format!("({huge}, {huge}, 0)")));
    texts.push(format!("{{'descr': 'shape(1)', 'fortran_order': False, 'shape': ({huge}, {huge})}}"));
    texts.push(format!("{{'s\\x68ape': ({huge}, {huge}), 'descr': '<f4', 'fortran_order': False}}"));
    texts.push(format!("{{'descr': [('{}', '<f4')], 'fortran_order': False, 'shape': (1,)}}", "long ".repeat(1500)));
    texts.push(shaped("(3,").replace(',', ",\n"));
    texts.push(shaped(&format!("({})", "1, ".repeat(3000))));
    cases.extend(texts.iter().map(|text| header(1, text.len() as u32, text)));
    for bytes in &cases {
        let message = judge(bytes.len(), || Npy::parse(bytes, Path::new("a.npy")).map(|_| ())).unwrap_err();
        assert!(message.starts_with("a.npy: expected a .npy array, found"), "{message}");
    }
    // What numpy itself writes in another version, or other programs in another order, is still read.
    for (version, text) in [
        (2, shaped("(2,)")),
        (3, shaped("(2,)")),
        (1, "{\"shape\":(1,2),\"fortran_order\":False,\"descr\":\"<f4\"}".to_string()),
    ] {
        let bytes = [header(version, text.len() as u32, &text), vec![0; 8]].concat();
        assert_eq!(Npy::parse(&bytes, Path::new("a.npy")).unwrap().floats(), [0.0, 0.0], "{text}");
    }
}

#[test]
fn adjacency_that_breaks_its_contract() {
    let _turn = turn();
    // Five nodes, six entries.
    refused(2, "row_ptr.npy", offsets(&[0, 2, 1, 4, 5, 6]), &["row_ptr decreases after row 1"]);
    refused(2, "row_ptr.npy", offsets(&[0, 1, -3, 4, 5, 6]), &["row_ptr decreases"]);
    refused(2, "row_ptr.npy", offsets(&[0, 1, 3, 4, 5, 7]), &["row_ptr must run from 0 to the 6 entries"]);
    refused(2, "row_ptr.npy", offsets(&[]), &["row_ptr must run"]);
    refused(2, "row_ptr.npy", offsets(&[0]), &["row_ptr must run"]);
    refused(2, "row_ptr.npy", inputs::floats(&[6], &[0.0, 1.0, 2.0, 3.0, 4.0, 6.0]), &["row_ptr.npy", "integers"]);
    refused(2, "col_idx.npy", ids(&[1, 0, 2, 1, 4, 5]), &["neighbour 5", "below 5"]);
    refused(2, "col_idx.npy", ids(&[1, 0, 2, 1, 4, u32::MAX]), &["neighbour 4294967295"]);
    refused(2, "col_idx.npy", ids(&[1, 2, 0, 1, 4, 3]), &["row 1", "increasing"]);
    refused(2, "col_idx.npy", ids(&[1, 0, 2, 1, 4]), &["row_ptr must run"]);
    refused(0, "edge_weights.npy", inputs::floats(&[6], &[0.5, 0.5, f32::NAN, 2.0, 1.0, 1.0]), &["edge weight 2"]);
    refused(0, "edge_weights.npy", inputs::floats(&[5], &[1.0; 5]), &["6 edges but 5 edge weights"]);
    refused(1, "graph_ptr.npy", offsets(&[0, 5, 3]), &["graph offsets must rise"]);
    refused(1, "graph_ptr.npy", offsets(&[0, 4, 5]), &["leaves graph 0"]);
}

#[test]
fn features_labels_and_splits_out_of_range() {
    let _turn = turn();
    refused(1, "features_idx.npy", ids(&[3, 40, 39]), &["column numbers below 40"]);
    refused(1, "features_idx.npy", ids(&[3, u32::MAX, 39]), &["column numbers below 40"]);
    refused(1, "features_ptr.npy", offsets(&[0, 2, 1, 2, 2, 3]), &["features_ptr.npy", "decrease after node 1"]);
    refused(1, "features_val.npy", inputs::floats(&[3], &[1.0, f32::INFINITY, 1.0]), &["is inf"]);
    refused(1, "features_val.npy", inputs::floats(&[2], &[1.0, 1.0]), &["3 sparse features but 2 values"]);
    refused(0, "features.npy", inputs::floats(&[5, 2], &[f32::NAN; 10]), &["feature 0 of node 0 is NaN"]);
    refused(0, "features.npy", inputs::floats(&[2, 5], &[0.0; 10]), &["expected"]);
    refused(0, "labels.npy", offsets(&[0, 1, 3, 0, 1]), &["labels.npy", "label of unit 2 is 3"]);
    refused(1, "labels.npy", inputs::integers(&[2, 2], &[0, 1, 2, 0]), &["labels.npy", "0 or 1"]);
    let codes = |shape: &[usize], codes: &[u8]| [npy::header(Element::U8, shape), codes.to_vec()].concat();
    let seven = codes(&[2, 5], &[1, 1, 2, 3, 0, 1, 7, 2, 3, 0]);
    refused(0, "splits.npy", seven, &["splits.npy", "unit 1 of split 1 is 7"]);
    refused(0, "splits.npy", codes(&[1 << 40, 0], &[]), &["splits.npy", "expected 5 units"]);
    refused(2, "train.npy", ids(&[0, 5]), &["train split has id 5"]);
    refused(2, "train.npy", ids(&[0, 2]), &["unit 2 is in the train split and in the valid"]);
}

#[test]
fn an_order_of_nodes_that_leads_nowhere() {
    let _turn = turn();
    refused(0, "node_order.npy", ids(&[3, 0, 4, 1]), &["node_order.npy", "each of the 5 nodes, found 4"]);
    refused(0, "node_order.npy", ids(&[3, 0, 4, 1, 2, 5]), &["node_order.npy", "found 6"]);
    refused(0, "node_order.npy", ids(&[3, 0, 4, 0, 2]), &["node_order.npy", "entry 3 is 0, which occurred before"]);
    refused(0, "node_order.npy", ids(&[3, 0, 4, 1, 5]), &["node_order.npy", "entry 4 is 5, which is no node"]);
    refused(0, "node_order.npy", ids(&[3, 0, 4, 1, u32::MAX]), &["node_order.npy", "entry 4 is 4294967295"]);
    refused(0, "node_order.npy", offsets(&[3, 0, 4, 1, -2]), &["node_order.npy", "entry 4 is -2"]);
    refused(0, "node_order.npy", inputs::floats(&[5], &[3.0, 0.0, 4.0, 1.0, 2.0]), &["node_order.npy", "integers"]);
    refused(0, "node_order.npy", inputs::integers(&[5, 1], &[3, 0, 4, 1, 2]), &["node_order.npy", "one dimension"]);
    // Any width of integers will do, and the word in meta.json may be missing; the array may not.
    let mut tree = inputs::store(0);
    *file(&mut tree, "node_order.npy") = offsets(&[3, 0, 4, 1, 2]);
    read_store(&tree).unwrap();
    let mut without = tree.clone();
    without.retain(|(name, _)| name != "node_order.npy");
    let message = read_store(&without).unwrap_err();
    assert!(message.contains("node_order.npy") && message.contains("\"node_order\": \"degree\""), "{message}");
    let meta = file(&mut tree, "meta.json");
    let text = String::from_utf8(meta.clone()).unwrap();
    *meta = text.replace("\"node_order\": \"degree\",", "").into_bytes();
    assert_ne!(*meta, text.into_bytes());
    read_store(&tree).unwrap();
}

#[test]
fn a_store_without_nodes_cannot_claim_endless_splits() {
    let _turn = turn();
    let mut tree = inputs::store(0);
    *file(&mut tree, "row_ptr.npy") = offsets(&[0]);
    *file(&mut tree, "col_idx.npy") = ids(&[]);
    *file(&mut tree, "edge_weights.npy") = inputs::floats(&[0], &[]);
    *file(&mut tree, "features.npy") = inputs::floats(&[0, 2], &[]);
    *file(&mut tree, "labels.npy") = offsets(&[]);
    *file(&mut tree, "splits.npy") = npy::header(Element::U8, &[1 << 50, 0]);
    read_store(&tree).unwrap_err();
}

#[test]
fn descriptions_that_lie() {
    let _turn = turn();
    for (from, to, expected) in [
        ("\"nodes\": 5", "\"nodes\": 6", "6 nodes"),
        ("\"directed_edges\": 6", "\"directed_edges\": 7", "7 directed edges"),
        ("\"features\": 2", "\"features\": 18446744073709551615", "18446744073709551615 features"),
        ("\"features\": 2", "\"features\": 18446744073709551616", "meta.json"),
        ("\"graphs\": 1", "\"graphs\": -1", "meta.json"),
        ("\"classes\": 3", "\"classes\": 18446744073709551615", "classes"),
        ("\"classes\": 3", "\"classes\": 1e400", "meta.json"),
        ("\"classes\": 3", "\"classes\": 0", "labels.npy"),
        ("\"version\": 2", "\"version\": 99", "version 99"),
        ("\"version\": 2", "\"version\": 1e99", "version"),
        ("harmonia-store", "other", "harmonia-store"),
        ("\"symmetric\": true", "\"symmetric\": 7", "meta.json"),
    ] {
        let mut tree = inputs::store(0);
        let meta = file(&mut tree, "meta.json");
        let text = String::from_utf8(meta.clone()).unwrap();
        assert!(text.contains(from), "{from}: {text}");
        *meta = text.replacen(from, to, 1).into_bytes();
        let message = read_store(&tree).unwrap_err();
        assert!(message.contains(expected), "expected {expected}: {message}");
    }
    // Columns of sparse features are in no array but in `counts`; beyond all measure they are refused.
    let mut tree = inputs::store(1);
    let meta = file(&mut tree, "meta.json");
    *meta = String::from_utf8(meta.clone()).unwrap().replace("\"features\": 40", "\"features\": 99999999999").into();
    assert!(read_store(&tree).unwrap_err().contains("99999999999"));
}

#[test]
fn descriptions_that_are_deep_long_or_no_text() {
    let _turn = turn();
    let object = |key: &str| format!("{{\"format\": \"harmonia-store\", \"version\": 2, \"{key}\": 1}}");
    let cases = [
        "[".repeat(10_000).into_bytes(),
        format!("{{\"generator\": {}", "{\"a\":".repeat(10_000)).into_bytes(),
        object(&"k".repeat(5000)).into_bytes(),
        object("a\\n\\n\\nb\\u001b[31m").into_bytes(),
        format!("{{\"format\": \"harmonia-store\", \"version\": 2, \"level\": \"{}\"}}", "x\\n".repeat(900))
            .into_bytes(),
        b"\xff\xfe\x00".to_vec(),
        Vec::new(),
        b"null".to_vec(),
    ];
    for content in cases {
        refused(0, "meta.json", content, &["meta.json"]);
    }
    refused(0, "node_names.txt", b"a\nb\n".to_vec(), &["node_names.txt", "found 2"]);
    refused(0, "node_names.txt", vec![0xff; 9], &["node_names.txt"]);
}

#[test]
fn a_truncated_array_is_named_wherever_it_is_cut() {
    let _turn = turn();
    for kind in 0..3 {
        let tree = inputs::store(kind);
        for (name, bytes) in tree.iter().filter(|(name, _)| name.ends_with(".npy")) {
            // Just short, in the elements, in the header, in the magic bytes, and nothing at all.
            for length in [bytes.len() - 1, bytes.len() - 4, 130.min(bytes.len() - 1), 127, 64, 9, 5, 0] {
                if !bytes.is_empty() && length < bytes.len() {
                    refused(kind, name, bytes[..length].to_vec(), &[name]);
                }
            }
            refused(kind, name, [&bytes[..], &[0]].concat(), &[name]);
        }
        for (name, _) in &tree {
            let mut tree = tree.clone();
            tree.retain(|(file, _)| file != name);
            // Some files may be left out; what is required is named.
            if let Err(message) = read_store(&tree) {
                assert!(
                    message.contains(name) || message.contains("meta.json") || message.contains("features"),
                    "{message}"
                );
            }
        }
    }
}
