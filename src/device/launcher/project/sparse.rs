//! Class space of a sparse X: responses are F = 1 f(0)^T + R, with R on the non-zeros only, and neither F nor dF is ever
//! dense. The constant part meets column sums of states, R is gathered.

use super::DeviceHops;
use crate::device::launcher::sparse::SparseFeatures;
use crate::device::launcher::{Buffer, DeviceInputs, Driver, Gemm, Grid, Launcher, abi, by_states, reduce, stretches};
use harmonia_graph::error::Result;
use std::ptr::null;

const TOTALS: [&str; 3] = by_states!("project_totals");
const SPARSE_FORWARD: [&str; 3] = by_states!("project_sparse_forward");
const SPARSE_SUMS: [&str; 3] = by_states!("project_sparse_sums");
const SPARSE_BACKWARD: [&str; 3] = by_states!("project_sparse_backward");
/// Warps of a block.
const WARPS: u32 = abi::HARMONIA_ROW_THREADS / 32;

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    /// states = 1 f(0)^T W + R W.
    pub(super) fn multiply_sparse(
        &self,
        hops: &mut DeviceHops<V>,
        responses: &Buffer<V, f32>,
        weights: &Buffer<V, f32>,
        x: &SparseFeatures<V>,
        features: usize,
    ) -> Result<()> {
        let columns = hops.columns();
        let mut base = self.allocate::<f32>(columns)?;
        let constants = Gemm {
            m: 1,
            n: columns,
            k: features,
            a: self.at(responses, 0) as u64,
            transpose_a: false,
            b: self.at(weights, 0) as u64,
            transpose_b: false,
            beta: 0.0,
            c: self.at_mut(&mut base, 0) as u64,
        };
        let (blocks, block_rows) = stretches(hops.rows as u64, u64::from(WARPS), self.blocks.rows);
        let arguments = abi::ProjectSparseForward {
            states: self.at_mut(&mut hops.states, 0).cast(),
            responses: self.at(responses, 0),
            weights: self.at(weights, 0),
            base: self.at(&base, 0),
            row_ptr: self.at(&x.row_ptr, 0),
            col_idx: self.at(&x.col_idx, 0),
            places: self.at(&x.places, 0),
            rows: hops.rows as u64,
            block_rows,
            columns: columns as u32,
            features: features as u32,
        };
        let grid = Grid::new([columns.div_ceil(32) as u64, blocks], [32, WARPS]);
        // SAFETY: responses are d + nnz, W d x columns, states n x columns; columns of X are below d and places below nnz.
        unsafe {
            self.driver.gemm(&constants)?;
            self.run(SPARSE_FORWARD[self.states as usize], grid, &arguments)
        }
    }

    /// sums = R^T Y + f(0) 1^T Y; `responses` turn into sums over columns of dF, and dF of non-zeros.
    pub(super) fn differentiate_sparse(
        &self,
        sums: &mut Buffer<V, f32>,
        responses: &mut Buffer<V, f32>,
        hops: &mut DeviceHops<V>,
        weights: &Buffer<V, f32>,
        x: &SparseFeatures<V>,
        inputs: &DeviceInputs<V>,
    ) -> Result<()> {
        let (columns, kind, segments) = (hops.columns(), self.states as usize, x.segments());
        let mut segment_sums = self.allocate::<f32>(segments * columns)?;
        let (parts, part_rows) = reduce::parts(hops.rows as u64).unwrap_or((1, hops.rows as u64));
        let mut partial = self.allocate::<f32>(parts as usize * columns)?;
        let mut totals = self.allocate::<f32>(columns)?;
        let arguments = abi::ProjectSparseBackward {
            sums: self.at_mut(sums, 0),
            segment_sums: self.at_mut(&mut segment_sums, 0),
            responses: self.at_mut(responses, 0),
            states: self.at(&hops.states, 0).cast(),
            weights: self.at(weights, 0),
            inverse_degree: inputs.inverse_degree().map_or(null(), |degrees| self.at(degrees, 0)),
            scale: self.at(&hops.scale, 0),
            x: x.columns(self),
            columns: columns as u32,
        };
        let mut rows = self.states_of(hops, 0, hops.rows, self.at_mut(&mut partial, 0), Some((inputs, 0)));
        rows.part_rows = part_rows;
        let features = sums.len() / columns;
        // S += f(0) 1^T Y, then f(0) makes room for what its gradient is: W Y^T 1.
        let constants = Gemm {
            m: features,
            n: columns,
            k: 1,
            a: arguments.responses as u64,
            transpose_a: false,
            b: self.at(&totals, 0) as u64,
            transpose_b: false,
            beta: 1.0,
            c: arguments.sums as u64,
        };
        let d_constants = Gemm {
            m: features,
            n: 1,
            k: columns,
            a: arguments.weights as u64,
            transpose_a: false,
            b: constants.b,
            transpose_b: false,
            beta: 0.0,
            c: arguments.responses as u64,
        };
        let tiles = columns.div_ceil(32) as u64;
        let by_segments = Grid::new([(segments as u64).div_ceil(u64::from(WARPS)), tiles], [32, WARPS]);
        let by_columns = Grid::new([tiles, parts], [abi::HARMONIA_SUM_COLUMNS, abi::HARMONIA_SUM_SLICES]);
        let non_zeros = Grid::new([segments as u64, 1], [abi::HARMONIA_ROW_THREADS, 1]);
        // SAFETY: responses are d + nnz, states n x columns, W and the sums d x columns, a segment has `columns` sums and a
        // part as many; rows of X are below n. All but the last product read what F was.
        unsafe {
            self.run(SPARSE_SUMS[kind], by_segments, &arguments)?;
            self.run("project_sparse_finish", Grid::flat(features * columns), &arguments)?;
            self.run(TOTALS[kind], by_columns, &rows)?;
            self.sum_columns(self.at_mut(&mut totals, 0), self.at(&partial, 0), parts, columns, false)?;
            self.driver.gemm(&constants)?;
            self.run(SPARSE_BACKWARD[kind], non_zeros, &arguments)?;
            self.driver.gemm(&d_constants)
        }
    }
}
