//! A filter of the normalised Laplacian in class space.
//!
//! Forward   Lap = I - D^-1/2 A D^-1/2, logits = beta + sum_r h_r Lap^r G; of a graph, the sum over its nodes
//! Backward  P_0 = dlogits, P_{r+1} = Lap^T P_r: dh_r = <G, P_r>, Y = sum_r h_r P_r
//! Few columns and few powers: every node is gone through. Deterministic: sums are taken in stretches that depend on sizes only.

use super::CpuInputs;
use super::element::Element;
use super::hops::{Hops, with_states};
use crate::architecture::Layout;
use crate::real::Real;
use harmonia_graph::dataset::Level;
use harmonia_graph::error::Result;
use harmonia_graph::graph::Csr;
use rayon::prelude::*;

/// Rows of a task.
const ROWS: usize = 256;

/// next = Lap x of `width` columns; `scale`: one over the root of each degree.
fn step(next: &mut [f64], x: &[f64], matrix: &Csr, scale: &[f64], width: usize) {
    let tasks = next.par_chunks_mut(width * ROWS).zip(x.par_chunks(width * ROWS)).enumerate();
    tasks.for_each(|(task, (next, own))| {
        let rows = next.chunks_exact_mut(width).zip(own.chunks_exact(width));
        for (i, (next, own)) in (task * ROWS..).zip(rows) {
            next.copy_from_slice(own);
            for (j, weight) in matrix.row_entries(i) {
                let weight = f64::from(weight) * scale[i] * scale[j];
                next.iter_mut().zip(&x[j * width..][..width]).for_each(|(next, x)| *next -= weight * x);
            }
        }
    });
}

fn scales(degree: &[f64]) -> Vec<f64> {
    degree.iter().map(|degree| 1.0 / degree.sqrt()).collect()
}

/// logits = ...; the states stay for the way back.
pub fn forward<T: Real>(
    logits: &mut [T],
    hops: &mut Hops<T>,
    parameters: &[T],
    inputs: &CpuInputs<T>,
    layout: &Layout,
) -> Result<()> {
    hops.structure.clear();
    hops.structure.extend_from_slice(&parameters[layout.structure()]);
    let (walk, outputs, width) = (inputs.walk()?, layout.architecture.outputs, hops.width);
    let scale = scales(walk.degree());
    let mut x = loaded(hops, outputs);
    let (mut next, mut sums) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    for (r, weight) in hops.structure.iter().map(|weight| weight.widen()).enumerate() {
        if r > 0 {
            step(&mut next, &x, walk.matrix().0, &scale, outputs);
            std::mem::swap(&mut x, &mut next);
        }
        sums.iter_mut().zip(&x).for_each(|(sum, x)| *sum += weight * x);
    }
    debug_assert!(width >= outputs);
    let bias = layout.intercept_in(parameters);
    for (row, logits) in logits.chunks_exact_mut(outputs).enumerate() {
        let nodes = match inputs.level {
            Level::Node => row..row + 1,
            Level::Graph => inputs.graph_ptr[row]..inputs.graph_ptr[row + 1],
        };
        for (class, logit) in logits.iter_mut().enumerate() {
            let sum: f64 = nodes.clone().map(|i| sums[i * outputs + class]).sum();
            *logit = T::from_f64(bias[class].widen() + sum);
        }
    }
    Ok(())
}

/// The states hold Y, divided by degrees as those of walks are; dh += ...
pub fn backward<T: Real>(
    gradient: &mut [T],
    hops: &mut Hops<T>,
    d_logits: &[T],
    inputs: &CpuInputs<T>,
    layout: &Layout,
) -> Result<()> {
    let (walk, outputs) = (inputs.walk()?, layout.architecture.outputs);
    let scale = scales(walk.degree());
    let g = loaded(hops, outputs);
    let mut p: Vec<f64> = match inputs.level {
        Level::Node => d_logits.iter().map(|d| d.widen()).collect(),
        Level::Graph => {
            let graphs = d_logits.chunks_exact(outputs).zip(inputs.graph_ptr.windows(2));
            graphs.flat_map(|(row, range)| (range[0]..range[1]).flat_map(|_| row.iter().map(|d| d.widen()))).collect()
        }
    };
    let (mut next, mut y) = (vec![0.0; p.len()], vec![0.0; p.len()]);
    let d_filter = &mut gradient[layout.structure()];
    for (r, (weight, d_weight)) in hops.structure.iter().zip(d_filter).enumerate() {
        if r > 0 {
            step(&mut next, &p, walk.transposed().0, &scale, outputs);
            std::mem::swap(&mut p, &mut next);
        }
        y.iter_mut().zip(&p).for_each(|(y, p)| *y += weight.widen() * p);
        *d_weight += T::from_f64(g.iter().zip(&p).map(|(g, p)| g * p).sum());
    }
    hops.scale = T::one();
    let width = hops.width;
    with_states!(&mut hops.states, states => {
        let rows = states.chunks_exact_mut(width).zip(y.chunks_exact(outputs));
        for ((state, y), inverse) in rows.zip(&walk.inverse_degree) {
            state.iter_mut().zip(y).for_each(|(to, &y)| *to = Element::store(T::from_f64(y) * *inverse));
        }
    });
    Ok(())
}

/// G, n x L.
fn loaded<T: Real>(hops: &Hops<T>, outputs: usize) -> Vec<f64> {
    with_states!(&hops.states, states => {
        states.chunks_exact(hops.width).flat_map(|row| row[..outputs].iter().map(|value| Element::<T>::load(*value).widen())).collect()
    })
}
