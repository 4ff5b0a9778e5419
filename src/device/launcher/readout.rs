//! The readout: GEMMs of the driver around `kernels/readout.cu`.

use super::reduce::partial_sums;
use super::split;
use super::{Buffer, DeviceInputs, DeviceMatrix, Driver, Gemm, Grid, Launcher, abi};
use crate::architecture::Layout;
use crate::plan::BatchSizes;
use harmonia_graph::dataset::Level;
use harmonia_graph::error::Result;

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn readout_forward(
        &self,
        logits: &mut Buffer<V, f32>,
        state: &DeviceMatrix<V>,
        parameters: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        layout: &Layout,
    ) -> Result<()> {
        let a = &layout.architecture;
        let rows = logits.len() / a.outputs;
        let bias = abi::Bias {
            logits: self.at_mut(logits, 0),
            bias: self.at(parameters, layout.readout_bias.start),
            rows: rows as u64,
            outputs: a.outputs as u32,
        };
        // SAFETY: logits hold rows x L, parameters the whole layout.
        unsafe { self.run("readout_bias", Grid::flat(logits.len()), &bias)? };
        let pooled = self.pooled(state, inputs)?;
        let product = Gemm {
            m: rows,
            n: a.outputs,
            k: a.features,
            a: self.at(pooled.as_ref().unwrap_or(&state.values), 0) as u64,
            transpose_a: false,
            b: self.at(parameters, layout.readout_weight.start) as u64,
            transpose_b: false,
            beta: 1.0,
            c: self.at_mut(logits, 0) as u64,
        };
        // SAFETY: states of nodes or graphs are rows x d, the weight is d x L, logits are rows x L, all separate.
        unsafe { self.driver.gemm(&product) }
    }

    pub(super) fn readout_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        state: &mut DeviceMatrix<V>,
        d_logits: &Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        layout: &Layout,
    ) -> Result<()> {
        let a = &layout.architecture;
        let rows = d_logits.len() / a.outputs;
        let d_bias = self.at_mut(gradient, layout.readout_bias.start);
        // SAFETY: d_logits hold rows x L, the gradient the whole layout.
        unsafe { self.sum_columns(d_bias, self.at(d_logits, 0), rows as u64, a.outputs, true)? };
        let mut pooled = self.pooled(state, inputs)?;
        let states = pooled.as_mut().unwrap_or(&mut state.values);
        let (parts, size) = (split::parts(a.features, a.outputs, rows, self.blocks), a.features * a.outputs);
        let total = self.at_mut(gradient, layout.readout_weight.start);
        let mut of_parts = self.allocate::<f32>(split::elements(parts, a.features, a.outputs))?;
        let (sums, beta) = if parts > 1 { (self.at_mut(&mut of_parts, 0), 0.0) } else { (total, 1.0) };
        let d_weight = Gemm {
            m: a.features,
            n: a.outputs,
            k: rows,
            a: self.at(states, 0) as u64,
            transpose_a: true,
            b: self.at(d_logits, 0) as u64,
            transpose_b: false,
            beta,
            c: sums as u64,
        };
        let d_states = Gemm {
            m: rows,
            n: a.features,
            k: a.outputs,
            a: self.at(d_logits, 0) as u64,
            transpose_a: false,
            b: self.at(parameters, layout.readout_weight.start) as u64,
            transpose_b: true,
            beta: 0.0,
            c: self.at_mut(states, 0) as u64,
        };
        // SAFETY: states are rows x d, the weight, its gradient and its sums of each part d x L, d_logits rows x L, all separate;
        // the driver works in order, so the states are read before they are overwritten.
        unsafe {
            self.multiply_parts(&d_weight, parts)?;
            if parts > 1 {
                self.sum_columns(total, sums, parts as u64, size, true)?;
            }
            self.driver.gemm(&d_states)?;
        }
        if let Some(pooled) = &mut pooled {
            let arguments = self.graph_sum(pooled, self.at_mut(&mut state.values, 0), inputs, a.features);
            // SAFETY: as in `pooled`.
            unsafe { self.run("graph_sum_backward", Grid::flat(inputs.graphs() * a.features), &arguments)? };
        }
        Ok(())
    }

    /// Bytes of sums over graphs, and of partial sums of gradients of logits and of the weight.
    pub(super) fn readout_scratch(&self, batch: &BatchSizes, layout: &Layout) -> usize {
        let a = &layout.architecture;
        let pooled = if batch.rows == batch.nodes { 0 } else { batch.rows * a.features };
        let parts = split::parts(a.features, a.outputs, batch.rows, self.blocks);
        let sums = split::elements(parts, a.features, a.outputs);
        size_of::<f32>() * (pooled + partial_sums(batch.rows, a.outputs) + sums)
    }

    /// Sums of states over each graph; `None` for node tasks.
    fn pooled(&self, state: &DeviceMatrix<V>, inputs: &DeviceInputs<V>) -> Result<Option<Buffer<V, f32>>> {
        if inputs.level == Level::Node {
            return Ok(None);
        }
        let elements = inputs.graphs() * state.cols;
        let mut pooled = self.allocate(elements)?;
        let nodes = self.at(&state.values, 0).cast_mut();
        let arguments = self.graph_sum(&mut pooled, nodes, inputs, state.cols);
        // SAFETY: graph_ptr ends at the nodes of `state`; the forward kernel only reads `nodes`.
        unsafe { self.run("graph_sum_forward", Grid::flat(elements), &arguments)? };
        Ok(Some(pooled))
    }

    fn graph_sum(
        &self,
        pooled: &mut Buffer<V, f32>,
        nodes: *mut f32,
        inputs: &DeviceInputs<V>,
        features: usize,
    ) -> abi::GraphSum {
        abi::GraphSum {
            pooled: self.at_mut(pooled, 0),
            nodes,
            graph_ptr: self.at(&inputs.graph_ptr, 0),
            graphs: inputs.graphs() as u32,
            features: features as u32,
        }
    }
}
