//! The road from raw files to a store: `cargo bench --bench data`.
//!
//! Edges to compressed rows (the answer is held against a naive count first), text to numbers, orders of nodes and what
//! they do for propagation, and opening a store.

#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use harmonia::data::generate::{Generator, like};
use harmonia::data::text;
use harmonia::graph::{Direction, Graph, Reorder};
use harmonia::store;
use rayon::prelude::*;

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

/// Columns of the state that is propagated.
const COLUMNS: usize = 48;
/// Rows of one piece of work.
const ROWS: usize = 256;

/// out = M state for M = D^-1 A, a row of `COLUMNS` numbers per node; rows without neighbours are zero.
fn propagate(out: &mut [f32], graph: &Graph, state: &[f32]) {
    let (row_ptr, col_idx) = (&graph.adjacency().row_ptr[..], &graph.adjacency().col_idx[..]);
    out.par_chunks_mut(ROWS * COLUMNS).enumerate().for_each(|(chunk, rows)| {
        for (at, row) in rows.chunks_exact_mut(COLUMNS).enumerate() {
            let i = chunk * ROWS + at;
            let neighbours = &col_idx[row_ptr[i] as usize..row_ptr[i + 1] as usize];
            let mut sum = [0f32; COLUMNS];
            for &j in neighbours {
                let from = &state[j as usize * COLUMNS..][..COLUMNS];
                sum.iter_mut().zip(from).for_each(|(sum, from)| *sum += from);
            }
            let scale = 1.0 / neighbours.len().max(1) as f32;
            row.iter_mut().zip(sum).for_each(|(row, sum)| *row = sum * scale);
        }
    });
}

/// How long an order takes to find, and one step of propagation in it.
fn order(criterion: &mut Criterion) {
    let shape = like("ogbn-products").unwrap().scaled(scale()).unwrap();
    let edges = Generator::new(shape, 0).unwrap().edges();
    let source = Graph::from_edges(shape.nodes, &edges, None, Direction::Undirected).unwrap();
    drop(edges);
    // Whole numbers below 8: sums of them are exact in any order.
    let state = |original: usize, k: usize| ((original * 31 + k * 7) % 8) as f32;
    let mut out = vec![0f32; shape.nodes * COLUMNS];
    let mut expected = Vec::new();
    let mut group = criterion.benchmark_group("order");
    group.sample_size(10);
    for method in [None, Some(Reorder::Degree), Some(Reorder::Breadth), Some(Reorder::Communities)] {
        let find = |method: Reorder| method.order(&source, &[0, shape.nodes], &harmonia::Stop::new()).unwrap();
        let order = method.map_or((0..shape.nodes as u32).collect(), find);
        let graph = source.renumbered(&order).unwrap();
        let values = |&node: &u32| (0..COLUMNS).map(move |k| state(node as usize, k));
        let state: Vec<f32> = order.iter().flat_map(values).collect();
        propagate(&mut out, &graph, &state);
        let mut by_source = vec![0f32; out.len()];
        for (row, &node) in out.chunks_exact(COLUMNS).zip(&order) {
            by_source[node as usize * COLUMNS..][..COLUMNS].copy_from_slice(row);
        }
        if expected.is_empty() {
            expected = by_source;
        } else {
            assert!(by_source == expected, "{method:?} gives other numbers");
        }
        let name = method.map_or("none", Reorder::name);
        group.throughput(Throughput::Elements(graph.directed_edges() as u64));
        if let Some(method) = method {
            group.bench_function(format!("find {name}"), |bencher| bencher.iter_with_large_drop(|| find(method)));
        }
        group.bench_function(format!("propagate in {name}"), |bencher| {
            bencher.iter(|| propagate(&mut out, &graph, &state));
        });
    }
    group.finish();
}

fn opening(criterion: &mut Criterion) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("store");
    let shape = like("ogbn-products").unwrap().scaled(scale() / 10.0).unwrap();
    let generator = Generator::new(shape, 0).unwrap();
    let watch = harmonia::watch::Watch::silent();
    let made = harmonia::data::generate::made::Made::new(generator, false, &watch).unwrap();
    harmonia::data::generate::made::write_store(made, "bench", &path, Default::default(), &watch).unwrap();
    assert_eq!(store::Store::open(&path).unwrap().counts().nodes, shape.nodes);
    let mut group = criterion.benchmark_group("store");
    group.bench_function("open", |bencher| bencher.iter(|| store::Store::open(&path).unwrap()));
    group.bench_function("open and read through", |bencher| {
        bencher.iter(|| store::Store::open(&path).unwrap().read_through().unwrap());
    });
    group.finish();
}

criterion_group!(benches, rows, parsing, order, opening);
criterion_main!(benches);
