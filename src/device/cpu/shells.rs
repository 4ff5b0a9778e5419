//! Distance shells in class space: what is heard at a distance is the mean over the nodes there, weighed by what the distance counts.
//!
//! Forward   logits[i] = beta + sum_s rho(1 / (1 + s)) mean of G[j] over the nodes j at distance s of i; of a graph, the sum over its nodes
//! Backward  Y[j] = sum over targets i of rho_s / N_i(s) dlogits[i], s the distance of i and j; drho_s = sum_i <dlogits[i], mean>
//! rho is a small network of one number, evaluated at the distances that count; nodes farther than the reach are not heard.
//! Shells are searched for once and kept while there is room for them, beyond it anew for every target: never n x n by plan, and the same
//! bits either way. Deterministic: targets are added up in stretches that depend on sizes only.

use super::CpuInputs;
use super::element::Element;
use super::hops::{Hops, with_states};
use crate::architecture::Layout;
use crate::knots::{Pieces, Scratch};
use crate::real::Real;
use harmonia_graph::dataset::Level;
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Neighbourhood, ShellSearch};
use harmonia_graph::memory;
use rayon::prelude::*;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Stretches that sums over targets are cut into, at most.
const JOBS: usize = 16;
/// Targets a task handles at least.
const TARGETS: usize = 8;
/// Bytes of shells that are kept, at most; of a limit on memory, one part in so many.
const KEPT: usize = 1 << 30;
const PART_OF_LIMIT: usize = 8;

/// Bytes that shells may take.
pub(super) fn kept_bytes() -> usize {
    memory::limit().map_or(KEPT, |limit| KEPT.min(limit / PART_OF_LIMIT))
}

/// The shells of nodes that were searched from.
#[derive(Debug, Default)]
pub struct KnownShells {
    rows: OnceLock<Vec<OnceLock<Shells>>>,
    bytes: AtomicUsize,
}

/// Nodes by distance from one node.
#[derive(Debug)]
struct Shells {
    nodes: Box<[u32]>,
    ends: Box<[u32]>,
}

impl KnownShells {
    /// Calls `each(distance, nodes)` for the shells of a node of a graph of so many nodes, from distance 0 on.
    fn each(
        &self,
        search: &mut ShellSearch,
        [i, nodes]: [usize; 2],
        find: impl FnOnce(&mut ShellSearch),
        mut each: impl FnMut(usize, &[u32]),
    ) {
        let row = &self.rows.get_or_init(|| (0..nodes).map(|_| OnceLock::new()).collect())[i];
        if let Some(Shells { nodes, ends }) = row.get() {
            let mut start = 0;
            for (distance, &end) in ends.iter().enumerate() {
                each(distance, &nodes[start..end as usize]);
                start = end as usize;
            }
            return;
        }
        find(search);
        let (mut all, mut ends) = (Vec::new(), Vec::new());
        for (distance, shell) in search.shells().enumerate() {
            each(distance, shell);
            all.extend_from_slice(shell);
            ends.push(all.len() as u32);
        }
        let bytes = size_of::<u32>() * (all.len() + ends.len());
        if self.bytes.fetch_add(bytes, Relaxed) + bytes <= kept_bytes() {
            // Another thread may have been faster, and has found the same.
            let _ = row.set(Shells { nodes: all.into(), ends: ends.into() });
        }
    }
}

/// rho at the distances that count, compiled so that gradients can go back.
fn distance_weights<T: Real>(structure: &[T], layout: &Layout) -> Pieces<T> {
    let mut pieces = Pieces::default();
    // Increasing: from the farthest.
    let points: Vec<T> =
        (0..=layout.architecture.family.reach).rev().map(|s| T::from_f64(1.0 / (1 + s) as f64)).collect();
    pieces.compile_at(&layout.distance_layers(), structure, &points);
    pieces
}

/// rho_s of a distance.
fn rho<T>(weights: &Pieces<T>, distance: usize) -> f64 {
    weights.intercept[weights.intercept.len() - 1 - distance]
}

/// logits = ...; the states stay for the way back.
pub fn forward<T: Real>(
    logits: &mut [T],
    hops: &mut Hops<T>,
    parameters: &[T],
    inputs: &CpuInputs<T>,
    scope: Option<&Neighbourhood>,
    layout: &Layout,
) -> Result<()> {
    hops.structure.clear();
    hops.structure.extend_from_slice(&parameters[layout.structure()]);
    let weights = distance_weights(&hops.structure, layout);
    let walk = inputs.walk()?;
    let ((matrix, _), (transposed, _)) = (walk.matrix(), walk.transposed());
    let (outputs, width, reach) = (layout.architecture.outputs, hops.width, layout.architecture.family.reach);
    let scored = scope.and_then(|scope| scope.within(0)).filter(|_| inputs.level == Level::Node);
    let bias = layout.intercept_in(parameters);
    with_states!(&hops.states, states => {
        let rows = logits.par_chunks_exact_mut(outputs).enumerate().with_min_len(TARGETS);
        rows.for_each_init(|| (ShellSearch::new(), vec![0.0; outputs], vec![0.0; outputs]), |(search, sums, total), (row, logits)| {
            if scored.is_some_and(|rows| !rows.contains(row)) {
                return;
            }
            total.iter_mut().zip(&*bias).for_each(|(total, bias)| *total = bias.widen());
            for i in nodes_of(inputs, row) {
                let find = |search: &mut ShellSearch| search.run(matrix, transposed, i as u32, reach);
                inputs.shells.each(search, [i, inputs.nodes], find, |distance, shell| {
                    mean::<T, _>(sums, states, shell, width);
                    let rho = rho(&weights, distance);
                    total.iter_mut().zip(&*sums).for_each(|(total, mean)| *total += rho * mean);
                });
            }
            logits.iter_mut().zip(&*total).for_each(|(logit, total)| *logit = T::from_f64(*total));
        });
    });
    Ok(())
}

/// The states hold Y, divided by degrees as those of walks are; gradient of rho += ...
pub fn backward<T: Real>(
    gradient: &mut [T],
    hops: &mut Hops<T>,
    d_logits: &[T],
    inputs: &CpuInputs<T>,
    layout: &Layout,
) -> Result<()> {
    let weights = distance_weights(&hops.structure, layout);
    let walk = inputs.walk()?;
    let ((matrix, _), (transposed, _)) = (walk.matrix(), walk.transposed());
    let (outputs, width, reach) = (layout.architecture.outputs, hops.width, layout.architecture.family.reach);
    let targets: Vec<usize> = (0..d_logits.len() / outputs)
        .filter(|row| d_logits[row * outputs..][..outputs].iter().any(|d| *d != T::zero()))
        .collect();
    let stretch = targets.len().div_ceil(JOBS).max(1);
    let parts: Vec<(Vec<f64>, Vec<f64>)> = with_states!(&hops.states, states => {
        targets
            .par_chunks(stretch)
            .map(|targets| {
                let (mut search, mut sums, mut shared) = (ShellSearch::new(), vec![0.0; outputs], vec![0.0; outputs]);
                let (mut heard, mut d_rho) = (vec![0.0; inputs.nodes * outputs], vec![0.0; reach + 1]);
                for &row in targets {
                    let d_row: Vec<f64> = d_logits[row * outputs..][..outputs].iter().map(|d| d.widen()).collect();
                    for i in nodes_of(inputs, row) {
                        let find = |search: &mut ShellSearch| search.run(matrix, transposed, i as u32, reach);
                        inputs.shells.each(&mut search, [i, inputs.nodes], find, |distance, shell| {
                            mean::<T, _>(&mut sums, states, shell, width);
                            d_rho[distance] += sums.iter().zip(&d_row).map(|(mean, d)| mean * d).sum::<f64>();
                            let weight = rho(&weights, distance) / shell.len() as f64;
                            shared.iter_mut().zip(&d_row).for_each(|(to, d)| *to = weight * d);
                            tell(&mut heard, &shared, shell);
                        });
                    }
                }
                (heard, d_rho)
            })
            .collect()
    });
    let mut heard = vec![0.0; inputs.nodes * outputs];
    let mut d_rho = vec![0.0; reach + 1];
    for (part, d_part) in &parts {
        heard.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        d_rho.iter_mut().zip(d_part).for_each(|(sum, part)| *sum += part);
    }
    hops.scale = T::one();
    with_states!(&mut hops.states, states => {
        let rows = states.chunks_exact_mut(width).zip(heard.chunks_exact(outputs));
        for ((state, heard), inverse) in rows.zip(&walk.inverse_degree) {
            state.iter_mut().zip(heard).for_each(|(to, &y)| *to = Element::store(T::from_f64(y) * *inverse));
        }
    });
    // As points are: from the farthest.
    d_rho.reverse();
    let flat = vec![0.0; d_rho.len()];
    let structure = &mut gradient[layout.structure()];
    weights.backward(structure, &mut Scratch::default(), &layout.distance_layers(), &hops.structure, &flat, &d_rho);
    Ok(())
}

/// Nodes whose sum a row of the logits is.
fn nodes_of<T>(inputs: &CpuInputs<T>, row: usize) -> std::ops::Range<usize> {
    match inputs.level {
        Level::Node => row..row + 1,
        Level::Graph => inputs.graph_ptr[row]..inputs.graph_ptr[row + 1],
    }
}

/// sums = mean of the states of some nodes. Rows of a fixed width stay in registers; what they are padded with is zero.
fn mean<T: Real, S: Element<T>>(sums: &mut [f64], states: &[S], nodes: &[u32], width: usize) {
    match width {
        1 => sum::<T, S, 1>(sums, states, nodes),
        2 => sum::<T, S, 2>(sums, states, nodes),
        4 => sum::<T, S, 4>(sums, states, nodes),
        8 => sum::<T, S, 8>(sums, states, nodes),
        _ => {
            sums.fill(0.0);
            for &j in nodes {
                let state = &states[j as usize * width..][..sums.len()];
                sums.iter_mut().zip(state).for_each(|(sum, state)| *sum += state.load().widen());
            }
        }
    }
    let count = nodes.len() as f64;
    sums.iter_mut().for_each(|sum| *sum /= count);
}

fn sum<T: Real, S: Element<T>, const WIDTH: usize>(sums: &mut [f64], states: &[S], nodes: &[u32]) {
    let mut all = [0.0; WIDTH];
    for &j in nodes {
        let state = &states[j as usize * WIDTH..][..WIDTH];
        (0..WIDTH).for_each(|at| all[at] += state[at].load().widen());
    }
    sums.copy_from_slice(&all[..sums.len()]);
}

/// The rows of some nodes += `shared`.
fn tell(heard: &mut [f64], shared: &[f64], nodes: &[u32]) {
    match *shared {
        [one] => nodes.iter().for_each(|&j| heard[j as usize] += one),
        _ => {
            for &j in nodes {
                let heard = &mut heard[j as usize * shared.len()..][..shared.len()];
                heard.iter_mut().zip(shared).for_each(|(heard, d)| *heard += d);
            }
        }
    }
}
