//! Columns against dense matrices, on small graphs of every kind.

use super::*;
use crate::dataset::{Labels, Level, SparseRows, Values};
use crate::graph::{Direction, Split, Transition};
use crate::seed::{Purpose, Rng, Stream};
use half::f16;
use proptest::prelude::*;

/// Columns are f32; everything else is f64.
const ROUNDING: f64 = 1e-6;

fn rng(seed: u64) -> Rng {
    Stream::new(seed, Purpose::SyntheticGraph, 0).rng()
}

fn drawn_graph(seed: u64, nodes: usize, edges: usize, weighted: bool, direction: Direction) -> Graph {
    let mut rng = rng(seed);
    let edges: Vec<(u32, u32)> = (0..edges).map(|_| (rng.below(nodes) as u32, rng.below(nodes) as u32)).collect();
    let weights: Vec<f32> = edges.iter().map(|_| 0.1 + 3.0 * rng.uniform() as f32).collect();
    Graph::from_edges(nodes, &edges, weighted.then_some(&weights[..]), direction).unwrap()
}

/// A node task with one column for each of three kinds of nodes.
fn dataset(graph: Graph, values: impl Fn(usize, Vec<f32>) -> Features) -> Dataset {
    let nodes = graph.nodes();
    let mut x = vec![0.0; nodes * 3];
    (0..nodes).for_each(|i| x[i * 3 + i * 7 % 3] = 1.0 + i as f32);
    let features = values(nodes, x);
    let labels = Labels::Classes { ids: (0..nodes as u32).map(|i| i % 2).collect(), classes: 2 };
    let mut dataset =
        Dataset::new("drawn", graph, vec![0, nodes], features, labels, Level::Node, Split::default()).unwrap();
    dataset.feature_names = ["C", "N", "O"].map(String::from).to_vec();
    dataset
}

fn dense(nodes: usize, x: Vec<f32>) -> Features {
    Features::new(nodes, 3, x).unwrap()
}

fn sparse(nodes: usize, x: Vec<f32>) -> Features {
    let row = |i: usize| (0..3).map(|k| (k as u32, x[i * 3 + k])).collect();
    Features::held(nodes, 3, Values::Sparse(SparseRows::collect((0..nodes).map(row)))).unwrap()
}

fn half(nodes: usize, x: Vec<f32>) -> Features {
    Features::held(nodes, 3, Values::Half(x.into_iter().map(f16::from_f32).collect())).unwrap()
}

/// The dataset with columns.
fn with(dataset: &Dataset, walk: Walk, words: &[StructureWord]) -> Dataset {
    Structure::of(dataset, walk, words).unwrap().append(dataset).unwrap()
}

fn column(dataset: &Dataset, name: &str) -> Vec<f64> {
    let k = dataset.feature_names.iter().position(|known| known == name).unwrap_or_else(|| panic!("no {name}"));
    let (values, cols) = (dataset.features.dense(), dataset.features.cols);
    values.chunks(cols).map(|row| f64::from(row[k])).collect()
}

type Matrix = Vec<Vec<f64>>;

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let n = a.len();
    let entry = |i: usize, j: usize| (0..n).map(|l| a[i][l] * b[l][j]).sum();
    (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect()
}

/// M from its definition.
fn walk_matrix(graph: &Graph, walk: Walk) -> Matrix {
    let n = graph.nodes();
    let mut m = vec![vec![0.0; n]; n];
    for (i, row) in m.iter_mut().enumerate() {
        graph.adjacency().row_entries(i).for_each(|(j, weight)| row[j] = f64::from(weight));
        if row[i] == 0.0 && (walk.self_loops || row.iter().all(|&weight| weight == 0.0)) {
            row[i] = 1.0;
        }
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|value| *value /= sum);
        if walk.lazy {
            row.iter_mut().for_each(|value| *value /= 2.0);
            row[i] += 0.5;
        }
    }
    m
}

fn close(found: &[f64], expected: &[f64], what: &str) {
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= ROUNDING * expected.abs().max(1.0), "{what} of {i}: {found} {expected}");
    }
}

proptest! {
    #[test]
    fn counts_equal_those_of_dense_matrices(
        seed in 0u64..1000,
        nodes in 1usize..14,
        edges in 0usize..40,
        weighted: bool,
        directed: bool,
        lazy: bool,
        self_loops: bool,
    ) {
        let direction = if directed { Direction::Directed } else { Direction::Undirected };
        let graph = drawn_graph(seed, nodes, edges, weighted, direction);
        let walk = Walk { self_loops, lazy };
        let data = with(&dataset(graph.clone(), dense), walk, &StructureWord::ALL);

        let m = walk_matrix(&graph, walk);
        let mut power = m.clone();
        for steps in 2..5 {
            power = product(&power, &m);
            let expected: Vec<f64> = (0..nodes).map(|i| power[i][i]).collect();
            let name = format!("returns in {steps} steps");
            close(&column(&data, &name), &expected, &name);
            let logs: Vec<f64> = expected.iter().map(|p| (p + 1e-6).ln()).collect();
            close(&column(&data, &format!("log of {name}")), &logs, "log of returns");
        }

        let reads = |i: usize, j: usize| i != j && graph.adjacency().row_entries(i).any(|(l, _)| l == j);
        let degree: Vec<usize> = (0..nodes).map(|i| (0..nodes).filter(|&j| reads(i, j)).count()).collect();
        close(&column(&data, "degree"), &degree.iter().map(|&d| d as f64).collect::<Vec<_>>(), "degree");
        let logs: Vec<f64> = degree.iter().map(|&d| (1.0 + d as f64).ln()).collect();
        close(&column(&data, "log(1 + degree)"), &logs, "log(1 + degree)");
        close(&column(&data, "one per node"), &vec![1.0; nodes], "one");

        let linked = |i, j| reads(i, j) || reads(j, i);
        let corner = |i: usize| (0..nodes).flat_map(|j| (0..j).map(move |l| (j, l)))
            .filter(|&(j, l)| linked(i, j) && linked(i, l) && linked(j, l)).count();
        let triangles: Vec<f64> = (0..nodes).map(|i| (1.0 + corner(i) as f64).ln()).collect();
        close(&column(&data, "log(1 + triangles)"), &triangles, "triangles");

        // Of label-by-degree every value is in one column, and no column is empty.
        let x = column(&data, "C");
        for bucket in 0..BUCKETS {
            let expected: Vec<f64> =
                (0..nodes).map(|i| if degree[i].min(LAST_BUCKET) == bucket { x[i] } else { 0.0 }).collect();
            let name = match bucket {
                0 => "C with no neighbours".to_string(),
                1 => "C with 1 neighbour".into(),
                6 => "C with 6 or more neighbours".into(),
                count => format!("C with {count} neighbours"),
            };
            prop_assert_eq!(data.feature_names.contains(&name), expected.iter().any(|&x| x != 0.0));
            if data.feature_names.contains(&name) {
                prop_assert_eq!(column(&data, &name), expected);
            }
        }
        data.check().unwrap();
    }
}

#[test]
fn a_triangle_with_a_tail_by_hand() {
    // 0, 1, 2 in a triangle, 3 behind 2, 4 alone.
    let edges = [(0, 1), (1, 2), (2, 0), (2, 3)];
    let graph = Graph::from_edges(5, &edges, None, Direction::Undirected).unwrap();
    let data = with(&dataset(graph, dense), Walk::default(), &StructureWord::ALL);
    assert_eq!(column(&data, "degree"), [2.0, 2.0, 3.0, 1.0, 0.0]);
    // Node 3 goes to 2 and comes back one time in three; node 4 stays where it is.
    close(&column(&data, "returns in 2 steps"), &[5.0 / 12.0, 5.0 / 12.0, 2.0 / 3.0, 1.0 / 3.0, 1.0], "two");
    close(&column(&data, "returns in 3 steps")[3..], &[0.0, 1.0], "three");
    let log = 2f64.ln();
    close(&column(&data, "log(1 + triangles)"), &[log, log, log, 0.0, 0.0], "triangles");
}

/// Long rows are searched instead of read.
#[test]
fn triangles_of_a_wheel() {
    let rim = 200u32;
    let edges: Vec<(u32, u32)> = (1..=rim).flat_map(|i| [(0, i), (i, i % rim + 1)]).collect();
    let graph = Graph::from_edges(201, &edges, None, Direction::Undirected).unwrap();
    let counts = triangles(&graph).unwrap();
    assert_eq!(counts[0], 200);
    assert!(counts[1..].iter().all(|&count| count == 2));
}

#[test]
fn features_keep_their_form() {
    use StructureWord::{Bias, Degree, LabelByDegree, LogDegree};
    let graph = || drawn_graph(3, 12, 20, false, Direction::Undirected);
    let words = [LabelByDegree, LogDegree, Bias];
    let expected = with(&dataset(graph(), dense), Walk::default(), &words);
    let found = with(&dataset(graph(), sparse), Walk::default(), &words);
    assert!(matches!(found.features.values(), Values::Sparse(_)));
    assert_eq!(found.features.dense(), expected.features.dense());
    assert_eq!(found.feature_names, expected.feature_names);
    found.check().unwrap();
    // Halves hold small whole numbers exactly, logarithms not.
    let halves = dataset(graph(), half);
    let found = with(&halves, Walk::default(), &[Degree, Bias]);
    assert!(matches!(found.features.values(), Values::Half(_)));
    assert_eq!(column(&found, "degree"), column(&with(&halves, Walk::default(), &[Degree, LogDegree]), "degree"));
    assert!(matches!(with(&halves, Walk::default(), &[LogDegree]).features.values(), Values::Dense(_)));
}

#[test]
fn other_data_get_the_columns_of_the_first() {
    let words = [StructureWord::LabelByDegree, StructureWord::Degree];
    let first = dataset(drawn_graph(1, 12, 10, false, Direction::Undirected), dense);
    let other = dataset(drawn_graph(2, 12, 40, false, Direction::Undirected), dense);
    let structure = Structure::of(&first, Walk::default(), &words).unwrap();
    let text = serde_json::to_string(&structure).unwrap();
    let structure: Structure = serde_json::from_str(&text).unwrap();
    let (a, b) = (structure.append(&first).unwrap(), structure.append(&other).unwrap());
    assert_eq!(a.feature_names, b.feature_names);
    assert_eq!((a.features.cols, a.own_features()), (3 + structure.added(), 3));
    // Once is enough, and other columns are another thing.
    assert_eq!(structure.append(&a).unwrap().features, a.features);
    let another = Structure::of(&first, Walk::default(), &[StructureWord::Bias]).unwrap();
    assert!(another.append(&a).unwrap_err().to_string().contains("other structural features"));
    assert!(Structure::of(&a, Walk::default(), &words).is_err());
    // A damaged model names a column that is not there.
    for kept in [(3, 0), (0, 7), (u32::MAX, 255)] {
        let damaged = Structure { kept: vec![kept], ..structure.clone() };
        assert!(damaged.append(&first).unwrap_err().to_string().contains("does not exist"));
    }
    let narrow = Structure { features: 2, ..structure };
    assert!(narrow.append(&first).unwrap_err().to_string().contains("reads 2 features, drawn has 3"));
}

#[test]
fn names_do_not_clash_with_those_of_the_data() {
    let mut data = dataset(drawn_graph(1, 5, 4, false, Direction::Undirected), dense);
    data.feature_names[1] = "degree".into();
    let data = with(&data, Walk::default(), &[StructureWord::Degree]);
    assert_eq!(data.feature_names, ["C", "degree", "O", "degree (structure)"]);
    let mut unnamed = dataset(drawn_graph(1, 5, 4, false, Direction::Undirected), dense);
    unnamed.feature_names.clear();
    let unnamed = with(&unnamed, Walk::default(), &[StructureWord::Bias]);
    assert_eq!(unnamed.feature_names, ["feature 0", "feature 1", "feature 2", "one per node"]);
}

#[test]
fn too_many_columns_are_refused() {
    let nodes = 4;
    let graph = Graph::from_edges(nodes, &[(0, 1), (1, 2)], None, Direction::Undirected).unwrap();
    let features = Features::new(nodes, 10_000, vec![1.0; nodes * 10_000]).unwrap();
    let labels = Labels::Classes { ids: vec![0, 1, 0, 1], classes: 2 };
    let wide = Dataset::nodes("wide", graph, features, labels, Split::default()).unwrap();
    let error = Structure::of(&wide, Walk::default(), &[StructureWord::LabelByDegree]).unwrap_err().to_string();
    assert!(error.contains("30000 columns") && error.contains("at most 20000"), "{error}");
}

/// A row that is divided by its sum is the node's own; what the graph says stays as it is.
#[test]
fn rows_are_divided_without_structural_columns() {
    let graph = drawn_graph(4, 9, 12, false, Direction::Undirected);
    let data = with(&dataset(graph, dense), Walk::default(), &[StructureWord::Degree]);
    let (scaled, _) = crate::dataset::Normalise::Row.apply(&data).unwrap();
    let scaled = Dataset { features: Arc::new(scaled), ..data.clone() };
    assert_eq!(column(&scaled, "degree"), column(&data, "degree"));
    assert!(column(&scaled, "C").iter().all(|&x| x == 0.0 || x == 1.0));
}

/// The dense oracle and the walk of the model are the same thing.
#[test]
fn the_oracle_is_the_walk_of_the_model() {
    let graph = drawn_graph(5, 8, 14, true, Direction::Directed);
    for walk in [Walk::default(), Walk { lazy: true, self_loops: false }, Walk { lazy: false, self_loops: true }] {
        let transition = Transition::new(&graph, walk);
        let m = walk_matrix(&graph, walk);
        for (i, row) in m.iter().enumerate() {
            let mut found = vec![0.0; 8];
            let entries = transition.matrix().row_entries(i);
            entries.for_each(|(j, weight)| found[j] = f64::from(weight) / transition.degree()[i]);
            close(&found, row, "row");
        }
    }
}
