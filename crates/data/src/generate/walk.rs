//! Columns of numbers carried along the walk: v <- M v, hop by hop, and brought to mean 0 and variance 1.
//!
//! M = D^-1 A, without weights; a node without neighbours keeps its value. Sums over nodes are taken block by block and
//! the blocks added in order, so results do not depend on the number of threads.

use harmonia_graph::graph::Graph;
use rayon::prelude::*;

/// Rows a task works on; part of the result, because it fixes the order of summation.
const BLOCK_ROWS: usize = 4096;
/// Most columns carried at once: the sums of a row stay in registers.
pub(super) const WIDTH: usize = 8;

/// One step of the walk: to = M from, both n x width (row-major, width at most [`WIDTH`]).
pub(super) fn step(to: &mut [f32], from: &[f32], graph: &Graph, width: usize) {
    let adjacency = graph.adjacency();
    let (row_ptr, col_idx): (&[u64], &[u32]) = (&adjacency.row_ptr, &adjacency.col_idx);
    to.par_chunks_mut(BLOCK_ROWS * width).enumerate().for_each(|(block, rows)| {
        let first = block * BLOCK_ROWS;
        for (i, row) in (first..).zip(rows.chunks_exact_mut(width)) {
            let neighbours = &col_idx[row_ptr[i] as usize..row_ptr[i + 1] as usize];
            if neighbours.is_empty() {
                row.copy_from_slice(&from[i * width..(i + 1) * width]);
                continue;
            }
            let mut sums = [0f64; WIDTH];
            for &j in neighbours {
                let values = &from[j as usize * width..(j as usize + 1) * width];
                sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += f64::from(value));
            }
            let share = 1.0 / neighbours.len() as f64;
            row.iter_mut().zip(sums).for_each(|(value, sum)| *value = (sum * share) as f32);
        }
    });
}

/// Subtracts the mean of each column and divides by its standard deviation; a constant column becomes 0.
pub(super) fn standardise(values: &mut [f32], width: usize) {
    let rows = values.len() / width;
    let means = column_sums(values, width, |value, _| value).map(|sum| sum / rows as f64);
    let squares = column_sums(values, width, |value, k| (value - means[k]).powi(2));
    let scales = squares.map(|sum| if sum > 0.0 { (rows as f64 / sum).sqrt() } else { 0.0 });
    values.par_chunks_mut(BLOCK_ROWS * width).for_each(|rows| {
        for row in rows.chunks_exact_mut(width) {
            for (value, (mean, scale)) in row.iter_mut().zip(means.iter().zip(scales)) {
                *value = ((f64::from(*value) - mean) * scale) as f32;
            }
        }
    });
}

fn column_sums(values: &[f32], width: usize, term: impl Fn(f64, usize) -> f64 + Sync) -> [f64; WIDTH] {
    let blocks: Vec<[f64; WIDTH]> = (values.par_chunks(BLOCK_ROWS * width))
        .map(|rows| {
            let mut sums = [0.0; WIDTH];
            for row in rows.chunks_exact(width) {
                for (k, (sum, &value)) in sums.iter_mut().zip(row).enumerate() {
                    *sum += term(f64::from(value), k);
                }
            }
            sums
        })
        .collect();
    let mut total = [0.0; WIDTH];
    for sums in blocks {
        total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::graph::{Direction, Transition, Walk};

    #[test]
    fn a_path_and_an_isolated_node_by_hand() {
        // 0 - 1 - 2, node 3 alone; two columns
        let graph = Graph::from_edges(4, &[(0, 1), (1, 2)], None, Direction::Undirected).unwrap();
        let from = [1.0, 10.0, 2.0, 20.0, 5.0, 50.0, 7.0, 70.0];
        let mut to = [0.0; 8];
        step(&mut to, &from, &graph, 2);
        assert_eq!(to, [2.0, 20.0, 3.0, 30.0, 2.0, 20.0, 7.0, 70.0]);
    }

    #[test]
    fn a_step_equals_the_walk_the_model_runs_on() {
        let edges: Vec<(u32, u32)> =
            (0..900u32).map(|e| (e * 7919 % 300, e * e % 299)).filter(|(i, j)| i != j).collect();
        for direction in [Direction::Directed, Direction::Undirected] {
            let graph = Graph::from_edges(301, &edges, None, direction).unwrap();
            let walk = Transition::new(&graph, Walk::default());
            let from: Vec<f32> = (0..301 * 3).map(|at| (at as f32 * 0.37).sin()).collect();
            let mut to = vec![0.0; from.len()];
            step(&mut to, &from, &graph, 3);
            for i in 0..301 {
                for k in 0..3 {
                    let entries = walk.matrix().row_entries(i);
                    let sum: f64 = entries.map(|(j, weight)| f64::from(weight) * f64::from(from[j * 3 + k])).sum();
                    // One rounding to f32.
                    assert!((sum / walk.degree()[i] - f64::from(to[i * 3 + k])).abs() < 1e-7);
                }
            }
        }
    }

    #[test]
    fn standardised_columns_have_mean_zero_and_variance_one() {
        // 1, 3 -> -1, 1; a constant column becomes 0.
        let mut values = [1.0, 5.0, 3.0, 5.0];
        standardise(&mut values, 2);
        assert_eq!(values, [-1.0, 0.0, 1.0, 0.0]);
    }
}
