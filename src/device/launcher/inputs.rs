//! A batch on the device.

use super::{Buffer, Driver, Launcher, abi};
use crate::batch::Batch;
use crate::datasets::{Level, Objective};
use crate::error::Result;
use crate::graph::Csr;
use crate::model::Plan;

/// Walk, features, offsets and targets of a batch.
pub struct DeviceInputs<V: Driver> {
    /// X, n x d.
    pub(super) features: Buffer<V, f32>,
    /// n.
    pub(super) nodes: usize,
    /// 1 / degree of each node.
    pub(super) inverse_degree: Buffer<V, f32>,
    matrix: Walk<V>,
    /// `None` where the matrix is symmetric.
    transposed: Option<Walk<V>>,
    /// First node of each graph and the end.
    pub(super) graph_ptr: Buffer<V, u64>,
    /// What logits belong to.
    pub(super) level: Level,
    /// The loss.
    pub(super) objective: Objective,
    /// L.
    pub(super) outputs: usize,
    /// See [`Batch::codes`].
    pub(super) codes: Buffer<V, i32>,
    /// Number of targets.
    pub(super) targets: usize,
}

/// A CSR matrix on the device, with its long rows cut into segments.
pub(super) struct Walk<V: Driver> {
    pub(super) row_ptr: Buffer<V, u64>,
    pub(super) col_idx: Buffer<V, u32>,
    pub(super) weights: Option<Buffer<V, f32>>,
    pub(super) long: Option<LongRows<V>>,
}

/// Rows with more than `HARMONIA_LONG_ROW` entries, in segments of at most as many.
pub(super) struct LongRows<V: Driver> {
    pub(super) rows: Buffer<V, u32>,
    /// First segment of each, and the end.
    pub(super) first_segment: Buffer<V, u32>,
    /// First entry of each segment.
    pub(super) begin: Buffer<V, u64>,
    /// Entry behind the last of each segment.
    pub(super) end: Buffer<V, u64>,
}

impl<V: Driver> DeviceInputs<V> {
    pub(super) fn new(launcher: &Launcher<V>, batch: &Batch, _: Plan) -> Result<Self> {
        let Some(transition) = batch.transition() else { return Err(super::unfinished()) };
        let inverse_degree: Vec<f32> = transition.degree().iter().map(|&degree| (1.0 / degree) as f32).collect();
        let graph_ptr: Vec<u64> = batch.graph_ptr.iter().map(|&node| node as u64).collect();
        let symmetric = transition.is_symmetric();
        Ok(DeviceInputs {
            features: launcher.copy(&batch.features.dense())?,
            nodes: transition.nodes(),
            inverse_degree: launcher.copy(&inverse_degree)?,
            matrix: Walk::new(launcher, transition.matrix())?,
            transposed: if symmetric { None } else { Some(Walk::new(launcher, transition.transposed())?) },
            graph_ptr: launcher.copy(&graph_ptr)?,
            level: batch.level,
            objective: batch.objective,
            outputs: batch.outputs,
            codes: launcher.copy(&batch.codes)?,
            targets: batch.targets.len(),
        })
    }

    pub(super) fn retarget(&mut self, launcher: &Launcher<V>, batch: &Batch) -> Result<()> {
        launcher.overwrite(&mut self.codes, &batch.codes)?;
        self.targets = batch.targets.len();
        Ok(())
    }

    /// A.
    pub(super) fn matrix(&self) -> &Walk<V> {
        &self.matrix
    }

    /// A^T.
    pub(super) fn transposed(&self) -> &Walk<V> {
        self.transposed.as_ref().unwrap_or(&self.matrix)
    }

    /// Number of graphs.
    pub(super) fn graphs(&self) -> usize {
        self.graph_ptr.len() - 1
    }
}

impl<V: Driver> Walk<V> {
    fn new(launcher: &Launcher<V>, csr: &Csr) -> Result<Self> {
        Ok(Walk {
            row_ptr: launcher.copy(&csr.row_ptr)?,
            col_idx: launcher.copy(&csr.col_idx)?,
            weights: csr.weights.as_deref().map(|weights| launcher.copy(weights)).transpose()?,
            long: LongRows::new(launcher, &csr.row_ptr)?,
        })
    }
}

impl<V: Driver> LongRows<V> {
    fn new(launcher: &Launcher<V>, row_ptr: &[u64]) -> Result<Option<Self>> {
        let longest = u64::from(abi::HARMONIA_LONG_ROW);
        let (mut rows, mut first_segment, mut begin, mut end) = (Vec::new(), vec![0], Vec::new(), Vec::new());
        for (i, range) in row_ptr.windows(2).enumerate().filter(|(_, range)| range[1] - range[0] > longest) {
            rows.push(i as u32);
            for start in (range[0]..range[1]).step_by(longest as usize) {
                begin.push(start);
                end.push((start + longest).min(range[1]));
            }
            first_segment.push(begin.len() as u32);
        }
        if rows.is_empty() {
            return Ok(None);
        }
        Ok(Some(LongRows {
            rows: launcher.copy(&rows)?,
            first_segment: launcher.copy(&first_segment)?,
            begin: launcher.copy(&begin)?,
            end: launcher.copy(&end)?,
        }))
    }
}
