//! A batch made ready for the CPU ops.
//!
//! Features that take few distinct values (bags of words, one-hot labels) are kept as one-byte codes into a table of
//! values per feature, so that a response is evaluated once per distinct value instead of once per node. This is
//! exact: f_k depends on the value alone.

use crate::array::Array;
use crate::batch::Batch;
use crate::datasets::{Features, Level, Objective, SparseRows, Values};
use crate::device::Real;
use crate::graph::Transition;
use half::f16;
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

/// X as the ops read it.
pub enum InputFeatures {
    /// Row-major.
    Dense(Array<f32>),
    /// Row-major in half precision, widened as it is read.
    Half(Array<f16>),
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
    /// Distinct values of each feature.
    pub values: Vec<f32>,
}

impl<T: Real> CpuInputs<T> {
    /// Prepares a batch.
    pub fn new(batch: &Batch) -> Self {
        let features = InputFeatures::new(&batch.features);
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
    fn new(features: &Features) -> InputFeatures {
        match (Coded::new(features), features.values()) {
            (Some(coded), _) => InputFeatures::Coded(coded),
            (None, Values::Dense(values)) => InputFeatures::Dense(values.clone()),
            (None, Values::Half(values)) => InputFeatures::Half(values.clone()),
            // Sparse rows whose values are too many for a table: the ops here are dense.
            (None, Values::Sparse(_)) => InputFeatures::Dense(features.dense().into_owned().into()),
        }
    }

    /// `X[first..,k]`, as many as there are places; `cols` is d.
    #[inline(always)]
    pub fn load(&self, k: usize, first: usize, cols: usize, column: &mut [f32]) {
        let places = column.iter_mut();
        match self {
            InputFeatures::Dense(x) => {
                places.zip(x[first * cols + k..].iter().step_by(cols)).for_each(|(to, &value)| *to = value);
            }
            InputFeatures::Half(x) => {
                places.zip(x[first * cols + k..].iter().step_by(cols)).for_each(|(to, value)| *to = value.to_f32());
            }
            InputFeatures::Coded(x) => {
                let table = &x.values[x.offsets[k] as usize..];
                let codes = x.codes[first * cols + k..].iter().step_by(cols);
                places.zip(codes).for_each(|(to, &code)| *to = table[usize::from(code)]);
            }
        }
    }
}

impl Coded {
    /// `None` where some feature has too many distinct values for a table to pay.
    fn new(features: &Features) -> Option<Coded> {
        match features.values() {
            Values::Dense(values) => Coded::of_dense(features, values, |value| value),
            Values::Half(values) => Coded::of_dense(features, values, f16::to_f32),
            Values::Sparse(sparse) => Coded::of_sparse(features, sparse),
        }
    }

    fn of_dense<T: Copy>(features: &Features, x: &[T], widen: impl Fn(T) -> f32) -> Option<Coded> {
        let (rows, cols) = (features.rows, features.cols);
        let most = most_values(rows);
        let mut codes = vec![0u8; rows * cols];
        let (mut offsets, mut values) = (vec![0u32], Vec::new());
        // Column by column, so that a continuous feature is found out after a few hundred rows.
        for k in 0..cols {
            let mut table: Vec<f32> = Vec::new();
            for (code, &value) in codes[k..].iter_mut().step_by(cols).zip(x[k..].iter().step_by(cols)) {
                *code = code_of(&mut table, widen(value), most)?;
            }
            values.extend_from_slice(&table);
            offsets.push(values.len() as u32);
        }
        Some(Coded { rows, cols, codes, offsets, values })
    }

    fn of_sparse(features: &Features, sparse: &SparseRows) -> Option<Coded> {
        let (rows, cols) = (features.rows, features.cols);
        let most = most_values(rows);
        // Every table begins with the zero that is not stored, which has code 0.
        let mut tables = vec![vec![0f32]; cols];
        let mut codes = vec![0u8; rows * cols];
        for (i, codes) in codes.chunks_exact_mut(cols.max(1)).enumerate() {
            for (k, value) in sparse.row(i) {
                codes[k] = code_of(&mut tables[k], value, most)?;
            }
        }
        let mut offsets = vec![0u32];
        offsets.extend(tables.iter().scan(0, |end, table| {
            *end += table.len() as u32;
            Some(*end)
        }));
        Some(Coded { rows, cols, codes, offsets, values: tables.concat() })
    }
}

/// Entries of a table at most.
fn most_values(rows: usize) -> usize {
    MAX_VALUES.min(rows / MIN_SAVING)
}

/// The code of a value, which is added to the table if it is new; `None` where the table is full.
fn code_of(table: &mut Vec<f32>, value: f32, most: usize) -> Option<u8> {
    // Equal values, not equal bits: -0 and 0 have the same response.
    match table.iter().position(|&known| known == value) {
        Some(known) => Some(known as u8),
        None if table.len() >= most => None,
        None => {
            table.push(value);
            Some((table.len() - 1) as u8)
        }
    }
}
