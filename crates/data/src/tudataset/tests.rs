//! A hand-made set, the published numbers of the real ones, and bad input.

use super::*;
use proptest::prelude::*;

/// Two triangles' worth of nodes: graph 1 = path 1-2-3, graph 2 = node 4 alone and edge 5-6.
const SMALL: [(&str, &str); 5] = [
    ("A", "1, 2\n2, 1\n2, 3\n3, 2\n5, 6\n6, 5\n"),
    ("graph_indicator", "1\n1\n1\n2\n2\n2\n"),
    ("graph_labels", "1\n-1\n"),
    ("node_labels", "1\n1\n3\n1\n4\n1\n"),
    ("node_attributes", "0.5, 1\n-1e3, 2\n 3, 4\n5,6\n7,8\n9,10"),
];

fn load_parts(parts: &[(&str, impl AsRef<[u8]>)], features: NodeFeatures) -> Result<Dataset> {
    let directory = tempfile::tempdir().unwrap();
    for (part, text) in parts {
        std::fs::write(directory.path().join(format!("TOY_{part}.txt")), text.as_ref()).unwrap();
    }
    load("TOY", &Archive::open(directory.path()).unwrap(), ReadOptions { features })
}

#[test]
fn a_hand_made_set() {
    let dataset = load_parts(&SMALL, NodeFeatures::Default).unwrap();
    assert_eq!(dataset.graph_ptr, [0, 3, 6]);
    assert_eq!(dataset.graph.adjacency().row_ptr, [0, 1, 3, 4, 4, 5, 6]);
    assert_eq!(dataset.graph.adjacency().col_idx, [1, 0, 2, 1, 5, 4]);
    assert_eq!(dataset.labels, Labels::Classes { ids: vec![1, 0], classes: 2 });
    assert_eq!(dataset.class_names, ["label -1", "label 1"]);
    // Labels count from 1 here, and the missing 2 has its column.
    assert_eq!(dataset.feature_names, ["label 1", "label 2", "label 3", "label 4"]);
    assert_eq!(dataset.features.dense()[..12], [1., 0., 0., 0., 1., 0., 0., 0., 0., 0., 1., 0.]);
    assert!(dataset.split.is_empty() && dataset.own_splits.is_empty() && dataset.level == Level::Graph);

    let attributes = load_parts(&SMALL, NodeFeatures::Attributes).unwrap();
    assert_eq!(*attributes.features.dense(), [0.5, 1., -1000., 2., 3., 4., 5., 6., 7., 8., 9., 10.]);
    assert_eq!(attributes.feature_names, ["attribute 0", "attribute 1"]);
    let both = load_parts(&SMALL, NodeFeatures::Both).unwrap();
    assert_eq!(both.features.dense()[6..12], [-1000., 2., 1., 0., 0., 0.]);
    assert_eq!(both.feature_names[1..3], ["attribute 1", "label 1"]);
    assert_eq!(load_parts(&SMALL[..3], NodeFeatures::Default).unwrap().feature_names, ["constant"]);
    assert_eq!(*load_parts(&SMALL[..3], NodeFeatures::Default).unwrap().features.dense(), [1.0; 6]);
    let text = load_parts(&SMALL[..4], NodeFeatures::Both).unwrap_err().to_string();
    assert!(text.contains("TOY has no node attributes"), "{text}");
    // Windows line ends, blanks and one direction only: the same graph.
    let mut parts = SMALL;
    parts[0].1 = " 2,1\r\n3 2\r\n6 , 5\r\n\r\n";
    assert_eq!(load_parts(&parts, NodeFeatures::Default).unwrap().graph, dataset.graph);
}

#[test]
fn bad_input_names_file_and_line() {
    let cases = [
        ("A", "1, 2\n2, 4\n", "TOY_A.txt: line 2: edge (2, 4) joins graph 1 and graph 2"),
        ("A", "1, 2\n0, 1\n", "TOY_A.txt: line 2: edge (0, 1): expected node ids in 1..=6"),
        ("A", "1, 7\n", "TOY_A.txt: line 1: edge (1, 7): expected node ids in 1..=6"),
        ("A", "1, 99999999999999999999\n", "TOY_A.txt: line 1: expected two node ids"),
        ("A", "1, 2\n\n2, 3\n", "TOY_A.txt: line 2: expected two node ids, as in `1, 2`, found \"\""),
        ("A", "1, 2, 3\n", "TOY_A.txt: line 1: expected two node ids"),
        ("A", "1-2\n", "TOY_A.txt: line 1: expected two node ids"),
        ("A", "one, 2\n", "found \"one, 2\""),
        (
            "graph_indicator",
            "1\n1\n2\n1\n2\n2\n",
            "TOY_graph_indicator.txt: line 4: expected graph id 2 or 3, found 1: ids must not decrease",
        ),
        (
            "graph_indicator",
            "1\n1\n1\n3\n3\n3\n",
            "TOY_graph_indicator.txt: line 4: expected graph id 1 or 2, found 3: graph 2 has no nodes",
        ),
        ("graph_indicator", "0\n1\n1\n2\n2\n2\n", "TOY_graph_indicator.txt: line 1: "),
        (
            "graph_indicator",
            "1\n1\n1.5\n2\n2\n2\n",
            "TOY_graph_indicator.txt: line 3: expected a graph id, found \"1.5\"",
        ),
        (
            "graph_labels",
            "1\n",
            "TOY_graph_labels.txt: expected 2 lines, one per graph of the graph indicator, found 1",
        ),
        ("graph_labels", "1\n1\n", "TOY_graph_labels.txt: expected at least 2 classes, found 1"),
        ("graph_labels", "1\nNaN\n", "TOY_graph_labels.txt: line 2: expected a class label"),
        ("node_labels", "1\n1\n3\n1\n4\n", "TOY_node_labels.txt: expected 6 lines, one per node"),
        (
            "node_labels",
            "1\n1\n3\n1\n4\n-1\n",
            "TOY_node_labels.txt: line 6: expected a node label in 0..=65536, found -1",
        ),
        ("node_labels", "1\n1\n3\n1\n4\n4294967296\n", "TOY_node_labels.txt: line 6: expected a node label"),
        ("node_labels", "1, 2\n", "TOY_node_labels.txt: line 1: expected a node label (one whole number)"),
        (
            "node_attributes",
            "1, 2\n3\n",
            "TOY_node_attributes.txt: line 2: expected 2 attributes as in line 1, found 1",
        ),
        (
            "node_attributes",
            "1, NaN\n",
            "TOY_node_attributes.txt: line 1: expected finite numbers separated by commas, found \"NaN\"",
        ),
        ("node_attributes", "1\n2\n", "TOY_node_attributes.txt: expected 6 lines, one per node"),
        ("node_attributes", "1\n1e99\n", "TOY_node_attributes.txt: line 2: expected finite"),
    ];
    for (part, text, expected) in cases {
        let mut parts = SMALL;
        parts.iter_mut().find(|(name, _)| *name == part).unwrap().1 = text;
        let message = load_parts(&parts, NodeFeatures::Both).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}\nexpected {expected}");
    }
    for (part, _) in &SMALL[..3] {
        let parts: Vec<_> = SMALL.into_iter().filter(|(name, _)| name != part).collect();
        let message = load_parts(&parts, NodeFeatures::Default).unwrap_err().to_string();
        assert!(message.contains(&format!("expected TOY_{part}.txt, found ")), "{message}");
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("TOY.zip"), b"").unwrap();
    let message =
        load("TOY", &Archive::open(directory.path()).unwrap(), ReadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("found its zip; pass ") && message.ends_with("TOY.zip"), "{message}");
    // Every file empty.
    let empty: Vec<_> = SMALL.iter().map(|(part, _)| (*part, "")).collect();
    assert!(load_parts(&empty, NodeFeatures::Default).is_err());
}

fn real(name: &str) -> Option<Archive> {
    let data = crate::download::test_support::data_folder();
    let path = data.join(name).join("raw").join(format!("{name}.zip"));
    if !path.is_file() {
        println!("skipped: no {}", path.display());
        return None;
    }
    Some(Archive::open(&path).unwrap())
}

/// Graphs, nodes, directed edges, features, units of each class, isolated nodes.
type Published = (usize, usize, usize, usize, [usize; 2], usize);

fn measured(dataset: &Dataset) -> Published {
    let Labels::Classes { ids, classes: 2 } = &dataset.labels else { panic!("two classes") };
    let ones = ids.iter().filter(|&&id| id == 1).count();
    let isolated = (0..dataset.graph.nodes()).filter(|&i| dataset.graph.adjacency().row(i).is_empty()).count();
    let (nodes, edges) = (dataset.graph.nodes(), dataset.graph.directed_edges());
    (dataset.graphs(), nodes, edges, dataset.features.cols, [ids.len() - ones, ones], isolated)
}

#[test]
fn real_sets_are_as_published() {
    let cases: [(&str, Published, [&str; 2]); 5] = [
        ("MUTAG", (188, 3371, 7442, 7, [63, 125], 0), ["class -1", "class 1"]),
        ("PROTEINS", (1113, 43_471, 162_088, 3, [663, 450], 5), ["class 1", "class 2"]),
        ("DD", (1178, 334_925, 1_686_092, 89, [691, 487], 0), ["class 1", "class 2"]),
        ("AIDS", (2000, 31_385, 64_780, 23, [400, 1600], 210), ["active", "inactive"]),
        ("Mutagenicity", (4337, 131_488, 266_894, 14, [2401, 1936], 2401), ["mutagen", "nonmutagen"]),
    ];
    for (name, expected, class_names) in cases {
        let Some(archive) = real(name) else { continue };
        let start = std::time::Instant::now();
        let dataset = load(name, &archive, ReadOptions::default()).unwrap();
        println!("{name}: {:?}", start.elapsed());
        assert_eq!(dataset.class_names, class_names, "{name}");
        assert_eq!(measured(&dataset), expected, "{name}");
        // Labels are one-hot wherever every label has a column.
        if name != "AIDS" {
            assert!(dataset.features.dense().chunks(dataset.features.cols).all(|row| row.iter().sum::<f32>() == 1.0));
        }
    }
}

#[test]
fn names_and_choices_of_real_sets() {
    if let Some(archive) = real("AIDS") {
        let dataset = load("AIDS", &archive, ReadOptions::default()).unwrap();
        assert_eq!(dataset.feature_names[..6], ["chem", "charge", "x", "y", "element C", "element O"]);
        assert!(!dataset.feature_names.contains(&"element Li".to_string()), "4 atoms");
        assert!(dataset.feature_names.contains(&"element Cu".to_string()), "5 atoms");
        // Line 1 of the attributes and of the labels.
        assert_eq!(dataset.features.dense()[..6], [1.0, 0.0, 9.7767, -3.549, 1.0, 0.0]);
        let labels = load("AIDS", &archive, ReadOptions { features: NodeFeatures::Labels }).unwrap();
        assert_eq!((labels.features.cols, labels.feature_names[37].as_str()), (38, "element Tb"));
        let both = load("AIDS", &archive, ReadOptions { features: NodeFeatures::Both }).unwrap();
        assert_eq!(both.features.cols, 42);
    }
    if let Some(archive) = real("PROTEINS") {
        let dataset = load("PROTEINS", &archive, ReadOptions::default()).unwrap();
        assert_eq!(dataset.feature_names, ["helix", "sheet", "turn"]);
        let attributes = load("PROTEINS", &archive, ReadOptions { features: NodeFeatures::Attributes }).unwrap();
        assert_eq!((attributes.features.cols, attributes.features.dense()[0]), (1, 23.0));
    }
    if let Some(archive) = real("MUTAG") {
        let text = load("DD", &archive, ReadOptions::default()).unwrap_err().to_string();
        assert!(text.contains("expected DD_graph_indicator.txt, found MUTAG/MUTAG_A.txt"), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_never_panic(part in 0usize..5, at: u8, bytes in proptest::collection::vec(any::<u8>(), 0..8), choice in 0usize..4) {
        let mut parts: Vec<(&str, Vec<u8>)> = SMALL.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())).collect();
        let text = &mut parts[part].1;
        let at = usize::from(at) % text.len();
        let end = (at + bytes.len() / 2).min(text.len());
        text.splice(at..end, bytes);
        let features = [NodeFeatures::Default, NodeFeatures::Labels, NodeFeatures::Attributes, NodeFeatures::Both][choice];
        if let Ok(dataset) = load_parts(&parts, features) {
            prop_assert!(dataset.check().is_ok());
        }
    }
}
