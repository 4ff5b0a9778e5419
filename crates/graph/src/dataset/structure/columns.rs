//! Columns added to the right of X, which keeps its form: sparse rows stay sparse, halves stay halves where that is exact.

use super::super::{Features, SparseRows, Values};
use crate::error::{Error, Result};
use crate::{memory, units};
use half::f16;
use rayon::prelude::*;

/// Hears (column, value) of a row.
type Entry<'a> = dyn FnMut(usize, f32) + 'a;

/// X with `added` columns to its right; `row(i, entry)` names their values in row i, columns increasing from 0, zeros at
/// will.
pub(super) fn beside(
    features: &Features,
    added: usize,
    row: &(dyn Fn(usize, &mut Entry<'_>) + Sync),
) -> Result<Features> {
    let (rows, own, cols) = (features.rows, features.cols, features.cols + added);
    if let Values::Sparse(sparse) = features.values() {
        let (mut row_ptr, mut col_idx, mut values) = (vec![0u64], Vec::new(), Vec::new());
        for i in 0..rows {
            for (k, value) in sparse.row(i) {
                col_idx.push(k as u32);
                values.push(value);
            }
            row(i, &mut |at, value| {
                if value != 0.0 {
                    col_idx.push((own + at) as u32);
                    values.push(value);
                }
            });
            row_ptr.push(col_idx.len() as u64);
        }
        let sparse = SparseRows { row_ptr: row_ptr.into(), col_idx: col_idx.into(), values: values.into() };
        return Features::held(rows, cols, Values::Sparse(sparse));
    }
    let mut values = vec![0f32; rows * cols];
    values.par_chunks_mut(cols.max(1)).enumerate().with_min_len(1 << 8).for_each(|(i, to)| {
        let (left, right) = to.split_at_mut(own);
        features.fill_row(i, left);
        row(i, &mut |at, value| right[at] = value);
    });
    let is_exact = |value: &f32| f16::from_f32(*value).to_f32() == *value;
    let stays_half = matches!(features.values(), Values::Half(_)) && values.par_iter().all(is_exact);
    let features = Features::new(rows, cols, values)?;
    if stays_half { features.halved() } else { Ok(features) }
}

/// X with every column so many times, copies side by side.
///
/// # Errors
/// They have no room: nothing is copied then.
pub(super) fn copied(features: &Features, copies: usize) -> Result<Features> {
    let (values, bytes) = match features.values() {
        Values::Dense(values) => (values.len(), size_of::<f32>()),
        Values::Half(values) => (values.len(), size_of::<f16>()),
        Values::Sparse(sparse) => (sparse.values.len(), size_of::<f32>() + size_of::<u32>()),
    };
    let needed = (values as u64).saturating_mul(copies as u64).saturating_mul(bytes as u64);
    if !memory::fits(needed) {
        return Err(Error::Device(format!(
            "out of memory: a model with a response for each of {copies} classes reads so many copies of every feature, {} for {} \
             nodes x {} features, and the limit is {}; set model.kind = harmonia, nbm or nam, which read one",
            units::bytes(needed),
            features.rows,
            features.cols,
            units::bytes(memory::allowed().unwrap_or(0) as u64)
        )));
    }
    let (rows, cols) = (features.rows, features.cols * copies);
    let values = match features.values() {
        Values::Dense(values) => Values::Dense(values.iter().flat_map(|&x| std::iter::repeat_n(x, copies)).collect()),
        Values::Half(values) => Values::Half(values.iter().flat_map(|&x| std::iter::repeat_n(x, copies)).collect()),
        Values::Sparse(sparse) => Values::Sparse(SparseRows {
            row_ptr: sparse.row_ptr.iter().map(|&at| at * copies as u64).collect(),
            col_idx: (sparse.col_idx.iter())
                .flat_map(|&k| (0..copies as u32).map(move |copy| k * copies as u32 + copy))
                .collect(),
            values: sparse.values.iter().flat_map(|&x| std::iter::repeat_n(x, copies)).collect(),
        }),
    };
    Features::held(rows, cols, values)
}

/// (column, value) of what is not zero in row i, columns increasing.
pub(super) fn each_nonzero(features: &Features, i: usize, mut entry: impl FnMut(usize, f32)) {
    let span = i * features.cols..(i + 1) * features.cols;
    let mut tell = |(k, value): (usize, f32)| {
        if value != 0.0 {
            entry(k, value);
        }
    };
    match features.values() {
        Values::Dense(values) => values[span].iter().copied().enumerate().for_each(tell),
        Values::Half(values) => values[span].iter().map(|value| value.to_f32()).enumerate().for_each(tell),
        Values::Sparse(sparse) => sparse.row(i).for_each(&mut tell),
    }
}
