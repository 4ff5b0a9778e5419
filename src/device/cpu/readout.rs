//! The linear head, and the sum over each graph for graph tasks.
//!
//! Forward   Z = H Wo (nodes x L); logits = beta + Z for nodes, beta + sum of Z over its nodes for a graph
//! Backward  dZ = dlogits of the node, or of its graph; dWo = H^T dZ; dbeta = column sums of dlogits; dH = dZ Wo^T

use super::panels::{Panel, Panels};
use super::{Cpu, CpuInputs, ROW_CHUNK};
use crate::architecture::Layout;
use crate::device::gemm::{View, gemm};
use crate::real::Real;
use harmonia_graph::dataset::Level;
use harmonia_graph::error::Result;
use rayon::prelude::*;
use std::borrow::Cow;

/// Rows of a stretch where they are contiguous.
const TABLE_ROWS: usize = 1024;

/// logits = ...
pub fn forward<T: Real>(
    _: &Cpu<T>,
    logits: &mut [T],
    state: &Panels<T>,
    parameters: &[T],
    inputs: &CpuInputs<T>,
    layout: &Layout,
) -> Result<()> {
    let outputs = layout.architecture.outputs;
    let (weight, bias) = (&layout.readout_in(parameters)[..], &layout.intercept_in(parameters)[..]);
    match inputs.level {
        Level::Node => {
            products(logits, bias, state, weight);
        }
        Level::Graph => {
            let mut nodes = vec![T::zero(); state.rows() * outputs];
            products(&mut nodes, &vec![T::zero(); outputs], state, weight);
            for (row, range) in logits.chunks_exact_mut(outputs).zip(inputs.graph_ptr.windows(2)) {
                row.copy_from_slice(bias);
                for node in nodes[range[0] * outputs..range[1] * outputs].chunks_exact(outputs) {
                    row.iter_mut().zip(node).for_each(|(sum, &value)| *sum += value);
                }
            }
        }
    }
    Ok(())
}

/// Readout gradients += ..., `state` = dH.
pub fn backward<T: Real>(
    _: &Cpu<T>,
    gradient: &mut [T],
    state: &mut Panels<T>,
    d_logits: &[T],
    parameters: &[T],
    inputs: &CpuInputs<T>,
    layout: &Layout,
) -> Result<()> {
    let (outputs, rows) = (layout.architecture.outputs, state.rows());
    for row in d_logits.chunks_exact(outputs) {
        gradient[layout.readout_bias.clone()].iter_mut().zip(row).for_each(|(sum, &value)| *sum += value);
    }
    let d_nodes: Cow<'_, [T]> = match inputs.level {
        Level::Node => d_logits.into(),
        Level::Graph => {
            let mut d_nodes = Vec::with_capacity(rows * outputs);
            for (row, range) in d_logits.chunks_exact(outputs).zip(inputs.graph_ptr.windows(2)) {
                (range[0]..range[1]).for_each(|_| d_nodes.extend_from_slice(row));
            }
            d_nodes.into()
        }
    };
    let weight = &layout.readout_in(parameters)[..];
    if inputs.table().is_ok() {
        let gradient = &mut gradient[layout.readout_weight.clone()];
        return backward_by_rows(gradient, state.as_rows_mut()?, &d_nodes, weight, outputs);
    }
    let d_weight: Vec<Vec<T>> = state
        .panels_mut()
        .map(|Panel { first, width, data }| {
            let mut d_weight = vec![T::zero(); width * outputs];
            let d_nodes = View::new(&d_nodes, rows, outputs);
            gemm(&mut d_weight, View::new(data, rows, width).transposed(), d_nodes, false);
            let weight = View::new(&weight[first * outputs..], width, outputs);
            gemm(data, d_nodes, weight.transposed(), false);
            d_weight
        })
        .collect();
    let flat = d_weight.iter().flatten();
    gradient[layout.readout_weight.clone()].iter_mut().zip(flat).for_each(|(sum, &value)| *sum += value);
    Ok(())
}

/// The same for contiguous rows, a stretch of them at a time: there are no panels to share among threads.
fn backward_by_rows<T: Real>(
    d_weight: &mut [T],
    state: &mut [T],
    d_logits: &[T],
    weight: &[T],
    outputs: usize,
) -> Result<()> {
    let d = weight.len() / outputs;
    let parts: Vec<Vec<T>> =
        (state.par_chunks_mut(TABLE_ROWS * d.max(1)).zip(d_logits.par_chunks(TABLE_ROWS * outputs)))
            .map(|(state, d_logits)| {
                let rows = d_logits.len() / outputs;
                let mut d_weight = vec![T::zero(); d * outputs];
                let d_rows = View::new(d_logits, rows, outputs);
                gemm(&mut d_weight, View::new(state, rows, d).transposed(), d_rows, false);
                gemm(state, d_rows, View::new(weight, d, outputs).transposed(), false);
                d_weight
            })
            .collect();
    for part in &parts {
        d_weight.iter_mut().zip(part).for_each(|(sum, &value)| *sum += value);
    }
    Ok(())
}

/// out = `start` in every row + H Wo, a chunk of rows at a time, panels in order.
fn products<T: Real>(out: &mut [T], start: &[T], state: &Panels<T>, weight: &[T]) {
    let outputs = start.len();
    out.par_chunks_mut(ROW_CHUNK / 8 * outputs).enumerate().for_each(|(chunk, out)| {
        let (first_row, rows) = (chunk * ROW_CHUNK / 8, out.len() / outputs);
        out.chunks_exact_mut(outputs).for_each(|row| row.copy_from_slice(start));
        for Panel { first, width, data } in state.panels_in_order() {
            let block = View::new(&data[first_row * width..], rows, width);
            gemm(out, block, View::new(&weight[first * outputs..], width, outputs), true);
        }
    });
}
