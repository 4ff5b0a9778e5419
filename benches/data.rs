//! The road from raw files to a store: `cargo bench --bench data`.
//!
//! Edges to compressed rows (the answer is held against a naive count first), text to numbers, and opening a store.

#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use harmonia::datasets::generate::{Generator, like};
use harmonia::datasets::text;
use harmonia::graph::{Direction, Graph};
use harmonia::store;

/// Of ogbn-products: 6.2 million rows of edges, unless `HARMONIA_BENCH_SCALE` says otherwise (1 is all of it).
fn scale() -> f64 {
    std::env::var("HARMONIA_BENCH_SCALE").map_or(0.1, |text| text.parse().unwrap())
}

fn rows(criterion: &mut Criterion) {
    let shape = like("ogbn-products").unwrap().scaled(scale()).unwrap();
    let edges = Generator::new(shape, 0).unwrap().edges();
    let nodes = shape.nodes;
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
    let mut both: Vec<(u32, u32)> = edges.iter().flat_map(|&(i, j)| [(i, j), (j, i)]).collect();
    both.sort_unstable();
    both.dedup();
    assert_eq!(graph.directed_edges(), both.len());

    let mut group = criterion.benchmark_group("graph");
    group.sample_size(10).throughput(Throughput::Elements(edges.len() as u64));
    group.bench_function("edge rows to compressed rows, both ways", |bencher| {
        bencher.iter_with_large_drop(|| Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap());
    });
    group.bench_function("test of symmetry", |bencher| {
        bencher.iter(|| assert!(graph.adjacency().is_symmetric()));
    });
    group.finish();
}

fn parsing(criterion: &mut Criterion) {
    let shape = like("ogbn-products").unwrap().scaled(scale() / 10.0).unwrap();
    let generator = Generator::new(shape, 0).unwrap();
    let edges: String = generator.edges().iter().map(|(i, j)| format!("{i},{j}\n")).collect();
    let mut row = vec![0f32; shape.features];
    let mut features = String::new();
    for i in 0..2000 {
        generator.feature_row(i, &mut row);
        let fields: Vec<String> = row.iter().map(f32::to_string).collect();
        features += &(fields.join(",") + "\n");
    }
    assert_eq!(text::pairs(edges.as_bytes()).unwrap().1, shape.edge_rows);
    assert_eq!(text::rows(features.as_bytes(), shape.features).unwrap().1, 2000);
    let mut group = criterion.benchmark_group("text");
    group.sample_size(10).throughput(Throughput::Bytes(edges.len() as u64));
    group.bench_function("edges, one thread", |bencher| bencher.iter(|| text::pairs(edges.as_bytes()).unwrap()));
    group.throughput(Throughput::Bytes(features.len() as u64));
    group.bench_function("features, one thread", |bencher| {
        bencher.iter(|| text::rows(features.as_bytes(), shape.features).unwrap());
    });
    group.finish();
}

fn opening(criterion: &mut Criterion) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("store");
    let shape = like("ogbn-products").unwrap().scaled(scale() / 10.0).unwrap();
    let generator = Generator::new(shape, 0).unwrap();
    let watch = harmonia::datasets::convert::Watch::new(&|_| ());
    let made = harmonia::datasets::generate::made::Made::new(generator, false, &watch).unwrap();
    harmonia::datasets::generate::made::write_store(made, "bench", &path, false, &watch).unwrap();
    assert_eq!(store::Store::open(&path).unwrap().counts().nodes, shape.nodes);
    let mut group = criterion.benchmark_group("store");
    group.bench_function("open", |bencher| bencher.iter(|| store::Store::open(&path).unwrap()));
    group.bench_function("open and read through", |bencher| {
        bencher.iter(|| store::Store::open(&path).unwrap().read_through().unwrap());
    });
    group.finish();
}

criterion_group!(benches, rows, parsing, opening);
criterion_main!(benches);
