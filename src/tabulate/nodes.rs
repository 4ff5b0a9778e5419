//! Rows of nodes: hats of every node, carried along the walk.
//!
//! State c of node i starts as phi_kq(x_ik), (k, q) the c-th column of a strip, and every hop is one product with M. The last
//! hop is taken at the units alone.

use super::TablePlan;
use crate::device::cpu::{chunks, gather};
use harmonia_graph::dataset::{Dataset, Features, Values};
use harmonia_graph::error::Result;
use harmonia_graph::graph::Transition;
use harmonia_graph::simd::simd;
use harmonia_graph::walk_table::{Columns, Grid};
use harmonia_graph::watch::Watch;
use rayon::prelude::*;
use std::ops::Range;

/// Bytes that the two states of a strip may take; a strip has at least [`LEAST`] columns all the same.
const STATE_BYTES: usize = 2 << 30;
const LEAST: usize = 8;
/// Rows of a task that fills states or reads them off.
const ROWS: usize = 1 << 10;

/// Columns of a strip.
pub fn strip_columns(nodes: usize) -> usize {
    (STATE_BYTES / (2 * size_of::<f32>() * nodes.max(1)) / LEAST * LEAST).clamp(LEAST, gather::MOST_COLUMNS)
}

/// A column of a strip: hat q of feature k, and where its hops are in a row of the block, the first and from one to the next.
#[derive(Clone, Copy)]
struct Column {
    k: usize,
    q: usize,
    place: usize,
    stride: usize,
}

/// rows x width of a block.
pub fn values(
    dataset: &Dataset,
    transition: &Transition,
    plan: &TablePlan,
    features: Range<usize>,
    watch: &Watch<'_>,
) -> Result<Vec<f32>> {
    let (grid, steps, units) = (&plan.grid, plan.contents.steps(), &plan.contents.units);
    let width = steps * grid.stored_of(features.clone());
    let mut values = vec![0f32; units.len() * width];
    let columns: Vec<Column> = (features.clone())
        .flat_map(|k| {
            let (columns, stored) = (Columns::of(grid, steps, &features, k), grid.stored(k));
            (1..=stored).map(move |q| Column { k, q, place: columns.at(q - 1), stride: stored * columns.stride })
        })
        .collect();
    let nodes = transition.nodes();
    let inverse: Vec<f32> = transition.degree().iter().map(|&degree| (1.0 / degree) as f32).collect();
    let csr = transition.matrix();
    let bounds = chunks::balanced(&csr.row_ptr, chunks::WALK_ENTRIES);
    let (copies, whole) = (&gather::Copies::default(), gather::Part::default());
    let strip = strip_columns(nodes).min(columns.len().max(1));
    let (mut state, mut next) = (vec![0f32; nodes * strip], vec![0f32; nodes * strip]);
    for columns in columns.chunks(strip) {
        let w = columns.len();
        fill(&mut state[..nodes * w], &dataset.features, grid, columns);
        for t in 0..steps {
            watch.check()?;
            if t + 1 < steps {
                let from = &state[..nodes * w];
                chunks::each(&bounds, w, &mut next[..nodes * w], &|rows, part| {
                    let start = rows.start;
                    simd(
                        #[inline(always)]
                        || {
                            gather::rows::<f32, f32>(copies, from, w, csr, whole, rows, |i, first, sums| {
                                let to = &mut part[(i - start) * w + first..][..sums.len()];
                                to.iter_mut().zip(sums).for_each(|(to, &sum)| *to = sum * inverse[i]);
                            });
                        },
                    );
                });
                std::mem::swap(&mut state, &mut next);
                let state = &state[..nodes * w];
                read_off(&mut values, width, units, |unit, row| {
                    let from = &state[unit * w..][..w];
                    columns.iter().zip(from).for_each(|(column, &value)| row[column.place + t * column.stride] = value);
                });
            } else {
                let from = &state[..nodes * w];
                read_off(&mut values, width, units, |unit, row| {
                    simd(
                        #[inline(always)]
                        || {
                            gather::rows::<f32, f32>(copies, from, w, csr, whole, unit..unit + 1, |i, first, sums| {
                                for (column, &sum) in columns[first..].iter().zip(sums) {
                                    row[column.place + t * column.stride] = sum * inverse[i];
                                }
                            });
                        },
                    );
                });
            }
        }
    }
    Ok(values)
}

/// Calls `read(unit, its row)` for every unit.
fn read_off(values: &mut [f32], width: usize, units: &[u32], read: impl Fn(usize, &mut [f32]) + Sync) {
    if width == 0 {
        return;
    }
    values.par_chunks_mut(ROWS * width).zip(units.par_chunks(ROWS)).for_each(|(rows, units)| {
        rows.chunks_exact_mut(width).zip(units).for_each(|(row, &unit)| read(unit as usize, row));
    });
}

/// phi_kq(x_ik) of every node.
fn fill(state: &mut [f32], features: &Features, grid: &Grid, columns: &[Column]) {
    let (w, d) = (columns.len(), features.cols);
    // Columns of the same feature follow each other.
    let groups: Vec<&[Column]> = columns.chunk_by(|a, b| a.k == b.k).collect();
    let mut starts = vec![0];
    groups.iter().for_each(|group| starts.push(starts[starts.len() - 1] + group.len()));
    let put = |row: &mut [f32], group: usize, x: f32| {
        let columns = groups[group];
        let (q, share) = grid.place(columns[0].k, x);
        for (to, column) in row[starts[group]..starts[group + 1]].iter_mut().zip(columns) {
            *to = if column.q == q { 1.0 - share } else { 0.0 } + if column.q == q + 1 { share } else { 0.0 };
        }
    };
    state.par_chunks_mut(ROWS * w).enumerate().for_each(|(task, rows)| {
        for (at, row) in rows.chunks_exact_mut(w).enumerate() {
            let i = task * ROWS + at;
            match features.values() {
                Values::Dense(x) => {
                    let x = &x[i * d..][..d];
                    (0..groups.len()).for_each(|group| put(row, group, x[groups[group][0].k]));
                }
                Values::Half(x) => {
                    let x = &x[i * d..][..d];
                    (0..groups.len()).for_each(|group| put(row, group, x[groups[group][0].k].to_f32()));
                }
                Values::Sparse(sparse) => {
                    (0..groups.len()).for_each(|group| put(row, group, 0.0));
                    let (first, last) = (columns[0].k, columns[w - 1].k);
                    let inside = sparse.row(i).skip_while(|&(k, _)| k < first).take_while(|&(k, _)| k <= last);
                    for (k, x) in inside {
                        if let Ok(group) = groups.binary_search_by(|group| group[0].k.cmp(&k)) {
                            put(row, group, x);
                        }
                    }
                }
            }
        }
    });
}
