//! X, the features of all nodes: dense in f32 or f16, or sparse rows; in memory or mapped from a store.
//!
//! The arithmetic reads f32. Half precision and sparse rows save memory and disk where a dataset is kept; nothing is
//! rounded on the way from there. Invariant: what [`Features::check`] accepts is finite and in range.

use crate::array::Array;
use crate::error::{Error, Result};
use half::f16;
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// X, n x d.
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    /// n, nodes.
    pub rows: usize,
    /// d, features.
    pub cols: usize,
    values: Values,
}

/// How X is held.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Row-major.
    Dense(Array<f32>),
    /// Row-major, IEEE half precision.
    Half(Array<f16>),
    /// Non-zeros only.
    Sparse(SparseRows),
}

/// Compressed rows of a matrix that is mostly zero. Columns increase strictly within a row.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseRows {
    /// First entry of each row, and the end; rows + 1.
    pub row_ptr: Array<u64>,
    /// Column of each entry.
    pub col_idx: Array<u32>,
    /// Value of each entry.
    pub values: Array<f32>,
}

/// Sparse rows are kept where they take at most one part in this many of the dense bytes.
const SPARSE_SAVING: usize = 4;

impl Features {
    /// Wraps a row-major matrix.
    ///
    /// # Errors
    /// A length that is not rows x cols.
    pub fn new(rows: usize, cols: usize, values: Vec<f32>) -> Result<Features> {
        Features::held(rows, cols, Values::Dense(values.into()))
    }

    /// Wraps whole rows of `cols` values each.
    pub fn dense_rows(cols: usize, values: Vec<f32>) -> Features {
        Features { rows: values.len() / cols.max(1), cols, values: Values::Dense(values.into()) }
    }

    /// Wraps values in any form.
    ///
    /// # Errors
    /// Lengths that do not fit rows x cols, or sparse rows that break their contract.
    pub fn held(rows: usize, cols: usize, values: Values) -> Result<Features> {
        let fits = |found: usize| match rows.checked_mul(cols) == Some(found) {
            true => Ok(()),
            false => Err(Error::Data(format!("{found} feature values are not {rows} nodes x {cols} features"))),
        };
        match &values {
            Values::Dense(values) => fits(values.len())?,
            Values::Half(values) => fits(values.len())?,
            Values::Sparse(sparse) => sparse.check_offsets(rows)?,
        }
        Ok(Features { rows, cols, values })
    }

    /// How X is held.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// First entry of each row, and the end, where X is held as sparse rows.
    pub fn row_ptr(&self) -> Option<&[u64]> {
        match &self.values {
            Values::Sparse(sparse) => Some(&sparse.row_ptr),
            Values::Dense(_) | Values::Half(_) => None,
        }
    }

    /// Row-major f32, borrowed where X is held so.
    pub fn dense(&self) -> Cow<'_, [f32]> {
        match &self.values {
            Values::Dense(values) => Cow::Borrowed(values),
            _ => {
                let mut values = vec![0f32; self.rows * self.cols];
                let rows = values.par_chunks_mut(self.cols.max(1)).enumerate().with_min_len(1 << 8);
                rows.for_each(|(i, row)| self.fill_row(i, row));
                Cow::Owned(values)
            }
        }
    }

    /// One row as f32; `row` holds zeros.
    pub fn fill_row(&self, i: usize, row: &mut [f32]) {
        let span = i * self.cols..(i + 1) * self.cols;
        match &self.values {
            Values::Dense(values) => row.copy_from_slice(&values[span]),
            Values::Half(values) => row.iter_mut().zip(&values[span]).for_each(|(to, from)| *to = from.to_f32()),
            Values::Sparse(sparse) => sparse.row(i).for_each(|(k, value)| row[k] = value),
        }
    }

    /// One row as f32: borrowed where X is held so, in `scratch` otherwise.
    pub fn row<'a>(&'a self, i: usize, scratch: &'a mut Vec<f32>) -> &'a [f32] {
        if let Values::Dense(values) = &self.values {
            return &values[i * self.cols..][..self.cols];
        }
        scratch.clear();
        scratch.resize(self.cols, 0.0);
        self.fill_row(i, scratch);
        scratch
    }

    /// A few columns of a row, without a look at the others.
    pub fn cells(&self, i: usize, columns: Range<usize>) -> Vec<f32> {
        let span = i * self.cols + columns.start..i * self.cols + columns.end;
        match &self.values {
            Values::Dense(values) => values[span].to_vec(),
            Values::Half(values) => values[span].iter().map(|value| value.to_f32()).collect(),
            Values::Sparse(sparse) => {
                let mut cells = vec![0.0; columns.len()];
                let there = sparse.row(i).filter(|(k, _)| columns.contains(k));
                there.for_each(|(k, value)| cells[k - columns.start] = value);
                cells
            }
        }
    }

    /// Equal for rows that hold the same numbers in the same form.
    pub fn row_key(&self, i: usize) -> Vec<u32> {
        let span = i * self.cols..(i + 1) * self.cols;
        match &self.values {
            Values::Dense(values) => values[span].iter().map(|value| value.to_bits()).collect(),
            Values::Half(values) => values[span].iter().map(|value| u32::from(value.to_bits())).collect(),
            Values::Sparse(sparse) => sparse.row(i).flat_map(|(k, value)| [k as u32, value.to_bits()]).collect(),
        }
    }

    /// Some of the rows, in the given order and the same form.
    pub fn rows(&self, ranges: &[Range<usize>]) -> Features {
        let span = |range: &Range<usize>| range.start * self.cols..range.end * self.cols;
        let values = match &self.values {
            Values::Dense(values) => Values::Dense(ranges.iter().flat_map(|r| &values[span(r)]).copied().collect()),
            Values::Half(values) => Values::Half(ranges.iter().flat_map(|r| &values[span(r)]).copied().collect()),
            Values::Sparse(sparse) => Values::Sparse(sparse.rows(ranges)),
        };
        Features { rows: ranges.iter().map(Range::len).sum(), cols: self.cols, values }
    }

    /// Some of the columns, in the given order and the same form.
    pub fn columns(&self, columns: &[usize]) -> Features {
        let pick = |i: usize, k: usize| i * self.cols + k;
        let places = || (0..self.rows).flat_map(|i| columns.iter().map(move |&k| pick(i, k)));
        let values = match &self.values {
            Values::Dense(values) => Values::Dense(places().map(|at| values[at]).collect()),
            Values::Half(values) => Values::Half(places().map(|at| values[at]).collect()),
            Values::Sparse(sparse) => {
                let mut place = vec![None; self.cols];
                columns.iter().zip(0..).for_each(|(&k, at)| place[k] = Some(at));
                let row = |i| sparse.row(i).filter_map(|(k, value)| Some((place[k]?, value))).collect();
                Values::Sparse(SparseRows::collect((0..self.rows).map(row)))
            }
        };
        Features { rows: self.rows, cols: columns.len(), values }
    }

    /// The same values, as sparse rows where that is much smaller.
    pub fn compact(self) -> Features {
        let Values::Dense(values) = &self.values else { return self };
        let entries = values.par_iter().filter(|&&value| value != 0.0).count();
        let (entry, offset) = (size_of::<u32>() + size_of::<f32>(), size_of::<u64>());
        if (entries * entry + self.rows * offset) * SPARSE_SAVING > values.len() * size_of::<f32>() {
            return self;
        }
        let (mut row_ptr, mut col_idx, mut kept) = (vec![0u64], Vec::with_capacity(entries), Vec::new());
        for row in values.chunks_exact(self.cols.max(1)) {
            for (k, &value) in row.iter().enumerate().filter(|&(_, &value)| value != 0.0) {
                col_idx.push(k as u32);
                kept.push(value);
            }
            row_ptr.push(col_idx.len() as u64);
        }
        let sparse = SparseRows { row_ptr: row_ptr.into(), col_idx: col_idx.into(), values: kept.into() };
        Features { values: Values::Sparse(sparse), ..self }
    }

    /// Dense values in half precision; sparse ones stay as they are.
    ///
    /// # Errors
    /// A value beyond the range of half precision.
    pub fn halved(self) -> Result<Features> {
        let Values::Dense(values) = &self.values else { return Ok(self) };
        let halves: Vec<f16> = values.par_iter().map(|&value| f16::from_f32(value)).collect();
        if let Some(at) = halves.par_iter().position_first(|value| !value.is_finite()) {
            let (node, feature, value) = (at / self.cols, at % self.cols, values[at]);
            let message = format!("feature {feature} of node {node} is {value}, beyond the range of half precision");
            return Err(Error::Data(message));
        }
        Ok(Features { values: Values::Half(halves.into()), ..self })
    }

    /// Bytes of the values.
    pub fn bytes(&self) -> usize {
        match &self.values {
            Values::Dense(values) => size_of_val(&values[..]),
            Values::Half(values) => size_of_val(&values[..]),
            Values::Sparse(sparse) => 8 * sparse.row_ptr.len() + 8 * sparse.col_idx.len(),
        }
    }

    /// The largest size of a value, and its column.
    pub fn largest(&self) -> (f32, usize) {
        let larger = |a: (f32, usize), b: (f32, usize)| if b.0 > a.0 { b } else { a };
        let of = |values: &mut dyn Iterator<Item = (f32, usize)>| values.fold((0.0, 0), larger);
        match &self.values {
            Values::Dense(values) => {
                of(&mut values.iter().enumerate().map(|(at, value)| (value.abs(), at % self.cols)))
            }
            Values::Half(values) => {
                of(&mut values.iter().enumerate().map(|(at, value)| (value.to_f32().abs(), at % self.cols)))
            }
            Values::Sparse(sparse) => {
                of(&mut sparse.values.iter().zip(sparse.col_idx.iter()).map(|(value, &k)| (value.abs(), k as usize)))
            }
        }
    }

    /// Reads every value.
    ///
    /// # Errors
    /// The first that is not finite, or a sparse row that breaks its contract.
    pub fn check(&self) -> Result<()> {
        if let Values::Sparse(sparse) = &self.values {
            sparse.check_entries(self.cols)?;
        }
        let not_finite = match &self.values {
            Values::Dense(values) => values.par_iter().position_first(|value| !value.is_finite()),
            Values::Half(values) => values.par_iter().position_first(|value| !value.is_finite()),
            Values::Sparse(sparse) => sparse.values.par_iter().position_first(|value| !value.is_finite()),
        };
        let Some(at) = not_finite else { return Ok(()) };
        let (node, feature, value) = match &self.values {
            Values::Dense(values) => (at / self.cols, at % self.cols, values[at]),
            Values::Half(values) => (at / self.cols, at % self.cols, values[at].to_f32()),
            Values::Sparse(sparse) => (sparse.row_of(at), sparse.col_idx[at] as usize, sparse.values[at]),
        };
        Err(Error::Data(format!(
            "feature {feature} of node {node} is {value}: features must be finite; fill or drop missing values first"
        )))
    }
}

impl SparseRows {
    /// From the (column, value) entries of every row, in any order: they are sorted, repeats add up, as in scipy, and
    /// zeros are not kept.
    pub fn collect(rows: impl IntoIterator<Item = Vec<(u32, f32)>>) -> SparseRows {
        let (mut row_ptr, mut col_idx, mut values) = (vec![0u64], Vec::new(), Vec::new());
        for mut row in rows {
            row.sort_by_key(|&(column, _)| column);
            for entries in row.chunk_by(|a, b| a.0 == b.0) {
                let value: f32 = entries.iter().map(|&(_, value)| value).sum();
                if value != 0.0 {
                    col_idx.push(entries[0].0);
                    values.push(value);
                }
            }
            row_ptr.push(col_idx.len() as u64);
        }
        SparseRows { row_ptr: row_ptr.into(), col_idx: col_idx.into(), values: values.into() }
    }

    /// (column, value) of the entries of row `i`.
    pub fn row(&self, i: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let entries = self.row_ptr[i] as usize..self.row_ptr[i + 1] as usize;
        self.col_idx[entries.clone()].iter().zip(&self.values[entries]).map(|(&k, &value)| (k as usize, value))
    }

    /// The row of entry `at`.
    fn row_of(&self, at: usize) -> usize {
        self.row_ptr.partition_point(|&start| start <= at as u64).saturating_sub(1)
    }

    fn rows(&self, ranges: &[Range<usize>]) -> SparseRows {
        let (mut row_ptr, mut col_idx, mut values) = (vec![0u64], Vec::new(), Vec::new());
        for i in ranges.iter().cloned().flatten() {
            let entries = self.row_ptr[i] as usize..self.row_ptr[i + 1] as usize;
            col_idx.extend_from_slice(&self.col_idx[entries.clone()]);
            values.extend_from_slice(&self.values[entries]);
            row_ptr.push(col_idx.len() as u64);
        }
        SparseRows { row_ptr: row_ptr.into(), col_idx: col_idx.into(), values: values.into() }
    }

    fn check_offsets(&self, rows: usize) -> Result<()> {
        let (ptr, entries) = (&self.row_ptr[..], self.col_idx.len());
        if ptr.len() != rows + 1 || ptr.first() != Some(&0) || ptr.last() != Some(&(entries as u64)) {
            return Err(Error::Data(format!(
                "offsets of sparse features must be {} numbers from 0 to the {entries} entries",
                rows + 1
            )));
        }
        if let Some(i) = ptr.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(Error::Data(format!("offsets of sparse features decrease after node {i}")));
        }
        if self.values.len() != entries {
            return Err(Error::Data(format!("{entries} sparse features but {} values of them", self.values.len())));
        }
        Ok(())
    }

    fn check_entries(&self, cols: usize) -> Result<()> {
        let (ptr, col_idx) = (&self.row_ptr[..], &self.col_idx[..]);
        let broken = (0..ptr.len() - 1).into_par_iter().with_min_len(1 << 12).find_first(|&i| {
            let row = &col_idx[ptr[i] as usize..ptr[i + 1] as usize];
            row.last().is_some_and(|&k| k as usize >= cols) || row.windows(2).any(|pair| pair[0] >= pair[1])
        });
        match broken {
            Some(i) => Err(Error::Data(format!(
                "sparse features of node {i} must be strictly increasing column numbers below {cols}"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mostly_zero() -> Features {
        let mut values = vec![0.0; 40 * 50];
        (values[3], values[49], values[1999]) = (1.5, -2.0, 7.0);
        Features::new(40, 50, values).unwrap()
    }

    #[test]
    fn sparse_rows_hold_the_same_values() {
        let dense = mostly_zero();
        let sparse = dense.clone().compact();
        assert!(matches!(sparse.values(), Values::Sparse(rows) if rows.values == [1.5, -2.0, 7.0]));
        assert_eq!(sparse.dense(), dense.dense());
        let columns = [0, 3, 49];
        assert_eq!(sparse.columns(&columns).dense(), dense.columns(&columns).dense());
        assert_eq!(dense.columns(&columns).dense()[..6], [0.0, 1.5, -2.0, 0.0, 0.0, 0.0]);
        for (i, k) in [(0, 2..5), (0, 48..50), (39, 0..50), (7, 3..3)] {
            assert_eq!(sparse.cells(i, k.clone()), dense.dense()[i * 50..][k.clone()], "{i} {k:?}");
            assert_eq!(dense.cells(i, k.clone()), sparse.cells(i, k));
        }
        let ranges = [39..40, 0..2];
        assert_eq!(sparse.rows(&ranges).dense(), dense.rows(&ranges).dense());
        assert!(sparse.bytes() < dense.bytes() / SPARSE_SAVING);
        // A full matrix stays as it is.
        let full = Features::new(2, 2, vec![1.0; 4]).unwrap();
        assert_eq!(full.clone().compact(), full);
    }

    #[test]
    fn half_precision_widens_exactly() {
        let values: Array<f16> = [0.5, -1.25, 0.0, 3.0].map(f16::from_f32).into_iter().collect();
        let half = Features::held(2, 2, Values::Half(values)).unwrap();
        assert_eq!(*half.dense(), [0.5, -1.25, 0.0, 3.0]);
        assert_eq!(*half.rows(&[1..2, 0..1]).dense(), [0.0, 3.0, 0.5, -1.25]);
        assert_eq!(half.cells(1, 1..2), [3.0]);
    }

    #[test]
    fn what_is_not_finite_or_out_of_range_is_named() {
        let error = Features::new(2, 2, vec![0.0, 1.0, f32::NAN, 2.0]).unwrap().check().unwrap_err().to_string();
        assert!(error.contains("feature 0 of node 1 is NaN"), "{error}");
        let sparse = |ptr: &[u64], col: &[u32], values: &[f32]| {
            let sparse = SparseRows {
                row_ptr: ptr.to_vec().into(),
                col_idx: col.to_vec().into(),
                values: values.to_vec().into(),
            };
            Features::held(2, 3, Values::Sparse(sparse)).and_then(|features| features.check())
        };
        assert!(sparse(&[0, 1, 2], &[2, 0], &[1.0, 2.0]).is_ok());
        let error = sparse(&[0, 1, 2], &[2, 0], &[1.0, f32::INFINITY]).unwrap_err().to_string();
        assert!(error.contains("feature 0 of node 1 is inf"), "{error}");
        for (ptr, col) in [(&[0, 1][..], &[0][..]), (&[0, 2, 1], &[0]), (&[0, 0, 2], &[1, 1]), (&[0, 1, 1], &[3])] {
            assert!(sparse(ptr, col, &vec![1.0; col.len()]).is_err(), "{ptr:?} {col:?}");
        }
    }
}
