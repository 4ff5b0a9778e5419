//! A batch made ready for the CPU ops.
//!
//! Features that take few distinct values (bags of words, one-hot labels) are kept as one-byte codes into a table of
//! values per feature, so that a response is evaluated once per distinct value instead of once per node. This is
//! exact: f_k depends on the value alone.

use crate::batch::Batch;
use crate::datasets::{Features, Level, Objective};
use crate::device::Real;
use crate::graph::Transition;
use std::sync::Arc;

/// Distinct values of a feature that are worth a table; a one-byte code could tell one more apart.
const MAX_VALUES: usize = 255;
/// A table pays only where it is clearly smaller than the matrix.
const MIN_SAVING: usize = 4;

/// Walk, features, offsets and targets of a batch.
pub struct CpuInputs<T> {
    /// The walk.
    pub transition: Arc<Transition>,
    /// 1 / degree of each node.
    pub inverse_degree: Vec<T>,
    /// X.
    pub features: InputFeatures,
    /// First node of each graph and the end.
    pub graph_ptr: Vec<usize>,
    /// What logits belong to.
    pub level: Level,
    /// The loss.
    pub objective: Objective,
    /// L.
    pub outputs: usize,
    /// See [`Batch::codes`].
    pub codes: Vec<i32>,
    /// Number of targets.
    pub targets: usize,
}

/// X in one of two forms.
pub enum InputFeatures {
    /// As given.
    Dense(Arc<Features>),
    /// Codes into tables of distinct values.
    Coded(Coded),
}

/// `X[i,k]` = values[offsets[k] + codes[i * cols + k]].
pub struct Coded {
    /// n.
    pub rows: usize,
    /// d.
    pub cols: usize,
    /// n x d.
    pub codes: Vec<u8>,
    /// First value of each feature, and the total; d + 1.
    pub offsets: Vec<u32>,
    /// Distinct values of each feature, in order of first appearance.
    pub values: Vec<f32>,
}

impl<T: Real> CpuInputs<T> {
    /// Prepares a batch.
    pub fn new(batch: &Batch) -> Self {
        let features = match Coded::new(&batch.features) {
            Some(coded) => InputFeatures::Coded(coded),
            None => InputFeatures::Dense(Arc::clone(&batch.features)),
        };
        CpuInputs {
            inverse_degree: batch.transition.degree().iter().map(|&degree| T::from_f64(1.0 / degree)).collect(),
            transition: Arc::clone(&batch.transition),
            features,
            graph_ptr: batch.graph_ptr.clone(),
            level: batch.level,
            objective: batch.objective,
            outputs: batch.outputs,
            codes: batch.codes.clone(),
            targets: batch.targets.len(),
        }
    }
}

impl InputFeatures {
    /// `X[i,k]`.
    #[inline(always)]
    pub fn get(&self, i: usize, k: usize) -> f32 {
        match self {
            InputFeatures::Dense(x) => x.values[i * x.cols + k],
            InputFeatures::Coded(x) => x.values[x.offsets[k] as usize + usize::from(x.codes[i * x.cols + k])],
        }
    }
}

impl Coded {
    /// `None` where some feature has too many distinct values for a table to pay.
    fn new(features: &Features) -> Option<Coded> {
        let (rows, cols) = (features.rows, features.cols);
        let most = MAX_VALUES.min(rows / MIN_SAVING);
        let mut codes = vec![0u8; features.values.len()];
        let (mut offsets, mut values) = (vec![0u32], Vec::new());
        // Column by column, so that a continuous feature is found out after a few hundred rows.
        for k in 0..cols {
            let mut table: Vec<f32> = Vec::new();
            let column = features.values[k..].iter().step_by(cols);
            for (code, &value) in codes[k..].iter_mut().step_by(cols).zip(column) {
                // Equal values, not equal bits: -0 and 0 have the same response.
                *code = match table.iter().position(|&known| known == value) {
                    Some(known) => known as u8,
                    None if table.len() == most => return None,
                    None => {
                        table.push(value);
                        (table.len() - 1) as u8
                    }
                };
            }
            values.extend_from_slice(&table);
            offsets.push(values.len() as u32);
        }
        Some(Coded { rows, cols, codes, offsets, values })
    }
}
