//! Class space: launches of `kernels/project.cu` around products of the driver.
//!
//! States of all hops stand side by side, n x (T width), so that one product makes them all and reads F once; a walk reads
//! `width` columns of a row, which are contiguous. Half-precision states, and the scaled ones of a backward pass, go through
//! floats a stretch of rows at a time: small enough to stay in the cache between the kernels that write and read them.

use super::inputs::DeviceFeatures;
use super::reduce::{self, partial_sums};
use super::sparse::SparseFeatures;
use super::{Blocks, Buffer, DeviceInputs, DeviceMatrix, Driver, Gemm, Grid, Launcher, abi, by_states, stretches};
use crate::architecture::Layout;
use crate::config::States;
use crate::device::Responses;
use crate::device::mixed_forms;
use crate::plan::BatchSizes;
use harmonia_graph::error::{Error, Result};
use std::ffi::c_void;
use std::ptr::null;

pub(super) const LOAD: [&str; 3] = by_states!("project_load");
/// Floats are stored by the product itself.
pub(super) const STORE: [&str; 3] = ["", "project_store_f16", "project_store_bf16"];
const TOTALS: [&str; 3] = by_states!("project_totals");
const SPARSE_FORWARD: [&str; 3] = by_states!("project_sparse_forward");
const SPARSE_SUMS: [&str; 3] = by_states!("project_sparse_sums");
const SPARSE_BACKWARD: [&str; 3] = by_states!("project_sparse_backward");
/// Warps of a block of the sparse kernels.
const WARPS: u32 = abi::HARMONIA_ROW_THREADS / 32;

/// The T states of class space.
pub struct DeviceHops<V: Driver> {
    /// n x (T width) elements as states are stored.
    pub(super) states: Buffer<V, u8>,
    /// n.
    pub(super) rows: usize,
    /// T.
    pub(super) hops: usize,
    /// Columns of a hop: L, padded.
    pub(super) width: usize,
    /// What stored gradients were multiplied by.
    pub(super) scale: f32,
}

impl<V: Driver> DeviceHops<V> {
    /// Columns of a row.
    pub(super) fn columns(&self) -> usize {
        self.hops * self.width
    }
}

/// Columns of a hop of L columns: rows then begin where four elements are aligned, and where a sector of memory does or not
/// far behind it.
pub(super) fn padded(outputs: usize) -> usize {
    if outputs <= 8 { outputs.next_power_of_two() } else { outputs.next_multiple_of(8) }
}

/// Rows whose states are floats at a time.
pub(super) fn stretch_rows(columns: usize, most: Blocks) -> usize {
    (most.states as usize / columns).max(1)
}

/// Rows of a stretch, from the first.
fn row_stretches(rows: usize, columns: usize, most: Blocks) -> impl Iterator<Item = (usize, usize)> {
    let size = stretch_rows(columns, most);
    (0..rows).step_by(size).map(move |first| (first, size.min(rows - first)))
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn new_hops(&self, inputs: &DeviceInputs<V>, layout: &Layout) -> Result<DeviceHops<V>> {
        let a = &layout.architecture;
        let width = padded(a.outputs);
        let states = self.zeroed(inputs.nodes * a.hops * width * self.states.bytes())?;
        Ok(DeviceHops { states, rows: inputs.nodes, hops: a.hops, width, scale: 1.0 })
    }

    pub(super) fn project_forward(
        &self,
        hops: &mut DeviceHops<V>,
        responses: &Responses<Self>,
        hop_weights: &Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        layout: &Layout,
    ) -> Result<()> {
        self.check_hops(hops, inputs, layout)?;
        let weights = self.project_weights(hops, hop_weights, parameters, layout)?;
        match (responses, &inputs.features) {
            (Responses::Dense(responses), _) => self.multiply(hops, responses, &weights),
            (Responses::Sparse(responses), DeviceFeatures::Sparse(x)) => {
                self.multiply_sparse(hops, responses, &weights, x, layout.architecture.features)
            }
            _ => Err(mixed_forms()),
        }
    }

    /// states = F W.
    fn multiply(&self, hops: &mut DeviceHops<V>, responses: &DeviceMatrix<V>, weights: &Buffer<V, f32>) -> Result<()> {
        let (columns, kind) = (hops.columns(), self.states as usize);
        let product = |first: usize, rows: usize, c: *mut f32| Gemm {
            m: rows,
            n: columns,
            k: responses.cols,
            a: self.at(&responses.values, first * responses.cols) as u64,
            transpose_a: false,
            b: self.at(weights, 0) as u64,
            transpose_b: false,
            beta: 0.0,
            c: c as u64,
        };
        if self.states == States::F32 {
            let states = self.at_mut(&mut hops.states, 0).cast();
            // SAFETY: F is n x d, W d x columns, the states n x columns, all separate.
            return unsafe { self.driver.gemm(&product(0, hops.rows, states)) };
        }
        let mut values = self.allocate::<f32>(hops.rows.min(stretch_rows(columns, self.blocks)) * columns)?;
        for (first, rows) in row_stretches(hops.rows, columns, self.blocks) {
            let values = self.at_mut(&mut values, 0);
            let arguments = self.states_of(hops, first, rows, values, None);
            // SAFETY: as above for some of the rows; `values` hold a stretch.
            unsafe {
                self.driver.gemm(&product(first, rows, values))?;
                self.run(STORE[kind], Grid::flat(rows * columns), &arguments)?;
            }
        }
        Ok(())
    }

    /// states = 1 f(0)^T W + R W.
    fn multiply_sparse(
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

    #[allow(clippy::too_many_arguments)] // what the op takes
    pub(super) fn project_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_hop_weights: &mut Buffer<V, f32>,
        responses: &mut Responses<Self>,
        hops: &mut DeviceHops<V>,
        hop_weights: &Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        layout: &Layout,
    ) -> Result<()> {
        self.check_hops(hops, inputs, layout)?;
        let a = &layout.architecture;
        let weights = self.project_weights(hops, hop_weights, parameters, layout)?;
        let mut sums = self.allocate::<f32>(a.features * hops.columns())?;
        match (responses, &inputs.features) {
            (Responses::Dense(responses), _) => self.differentiate(&mut sums, responses, hops, &weights, inputs)?,
            (Responses::Sparse(responses), DeviceFeatures::Sparse(x)) => {
                self.differentiate_sparse(&mut sums, responses, hops, &weights, x, inputs)?;
            }
            _ => return Err(mixed_forms()),
        }
        let arguments = abi::ProjectGradients {
            d_readout: self.at_mut(gradient, layout.readout_weight.start),
            d_hop_weights: self.at_mut(d_hop_weights, 0),
            sums: self.at(&sums, 0),
            hop_weights: self.at(hop_weights, 0),
            readout: self.at(parameters, layout.readout_weight.start),
            features: a.features as u32,
            hops: hops.hops as u32,
            outputs: a.outputs as u32,
            width: hops.width as u32,
        };
        // SAFETY: gradient and parameters hold the whole layout, hop weights T x d, the sums d x columns.
        unsafe {
            self.run("project_readout_gradient", Grid::flat(a.features * a.outputs), &arguments)?;
            self.run("project_hops_gradient", Grid::flat(a.features * a.hops), &arguments)
        }
    }

    /// sums = F^T Y; F turns into dF = Y W^T.
    fn differentiate(
        &self,
        sums: &mut Buffer<V, f32>,
        responses: &mut DeviceMatrix<V>,
        hops: &mut DeviceHops<V>,
        weights: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
    ) -> Result<()> {
        let (columns, features) = (hops.columns(), responses.cols);
        let mut values = self.allocate::<f32>(hops.rows.min(stretch_rows(columns, self.blocks)) * columns)?;
        let values = self.at_mut(&mut values, 0);
        for (first, rows) in row_stretches(hops.rows, columns, self.blocks) {
            let arguments = self.states_of(hops, first, rows, values, Some((inputs, first)));
            let responses = self.at_mut(&mut responses.values, first * features) as u64;
            let d_weights = Gemm {
                m: features,
                n: columns,
                k: rows,
                a: responses,
                transpose_a: true,
                b: values as u64,
                transpose_b: false,
                beta: if first == 0 { 0.0 } else { 1.0 },
                c: self.at_mut(sums, 0) as u64,
            };
            let d_responses = Gemm {
                m: rows,
                n: features,
                k: columns,
                a: values as u64,
                transpose_a: false,
                b: self.at(weights, 0) as u64,
                transpose_b: true,
                beta: 0.0,
                c: responses,
            };
            // SAFETY: F is n x d, the states n x columns, of which a stretch is loaded; W and the sums are d x columns. The
            // driver works in order: F is read before it is overwritten, which the second product does not read.
            unsafe {
                self.run(LOAD[self.states as usize], Grid::flat(rows * columns), &arguments)?;
                self.driver.gemm(&d_weights)?;
                self.driver.gemm(&d_responses)?;
            }
        }
        Ok(())
    }

    /// sums = R^T Y + f(0) 1^T Y; `responses` turn into sums over columns of dF, and dF of non-zeros.
    fn differentiate_sparse(
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
            x: x.columns(self),
            columns: columns as u32,
            unscale: 1.0 / hops.scale,
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

    /// W: d x columns.
    fn project_weights(
        &self,
        hops: &DeviceHops<V>,
        hop_weights: &Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        layout: &Layout,
    ) -> Result<Buffer<V, f32>> {
        let a = &layout.architecture;
        let mut weights = self.allocate(a.features * hops.columns())?;
        let arguments = abi::ProjectWeights {
            weights: self.at_mut(&mut weights, 0),
            hop_weights: self.at(hop_weights, 0),
            readout: self.at(parameters, layout.readout_weight.start),
            features: a.features as u32,
            hops: hops.hops as u32,
            outputs: a.outputs as u32,
            width: hops.width as u32,
        };
        // SAFETY: hop weights hold T x d, parameters the whole layout.
        unsafe { self.run("project_weights", Grid::flat(weights.len()), &arguments)? };
        Ok(weights)
    }

    /// Rows of the states beside floats; `scaled` says that they are divided by degrees, from the given row on.
    fn states_of(
        &self,
        hops: &mut DeviceHops<V>,
        first: usize,
        rows: usize,
        values: *mut f32,
        scaled: Option<(&DeviceInputs<V>, usize)>,
    ) -> abi::ProjectStates {
        let columns = hops.columns();
        let inverse_degree = scaled.and_then(|(inputs, row)| Some(self.at(inputs.inverse_degree()?, row)));
        let states: *mut c_void = self.at_mut(&mut hops.states, first * columns * self.states.bytes()).cast();
        abi::ProjectStates {
            states,
            values,
            inverse_degree: inverse_degree.unwrap_or(null()),
            rows: rows as u64,
            part_rows: 0,
            columns: columns as u32,
            unscale: 1.0 / hops.scale,
        }
    }

    /// Refuses states of another batch or model.
    pub(super) fn check_hops(&self, hops: &DeviceHops<V>, inputs: &DeviceInputs<V>, layout: &Layout) -> Result<()> {
        let a = &layout.architecture;
        let expected = [inputs.nodes, a.hops, padded(a.outputs)];
        let found = [hops.rows, hops.hops, hops.width];
        if found == expected {
            return Ok(());
        }
        Err(Error::Device(format!(
            "states of {} nodes, {} hops and {} columns where {} nodes, {} hops and {} columns are needed",
            found[0], found[1], found[2], expected[0], expected[1], expected[2]
        )))
    }

    /// Bytes of W, S and what goes through floats, at most.
    pub(super) fn project_scratch(&self, batch: &BatchSizes, layout: &Layout, sparse: bool) -> usize {
        let a = &layout.architecture;
        let columns = a.hops * padded(a.outputs);
        let working = match sparse.then_some(batch.nonzeros) {
            Some(entries) => {
                let parts = reduce::parts(batch.nodes as u64).map_or(1, |(parts, _)| parts as usize);
                let segments = SparseFeatures::<V>::most_segments(a.features, entries);
                (segments + parts + 1) * columns + partial_sums(parts, columns)
            }
            None => batch.nodes.min(stretch_rows(columns, self.blocks)) * columns,
        };
        size_of::<f32>() * (2 * a.features * columns + working)
    }
}
