//! Class space: launches of `kernels/project.cu` around products of the driver.
//!
//! States of all hops stand side by side, n x (T width), so that one product makes them all and reads F once; a walk reads
//! `width` columns of a row, which are contiguous. Half-precision states, and the scaled ones of a backward pass, go through
//! floats a stretch of rows at a time: small enough to stay in the cache between the kernels that write and read them. What
//! differs where X is sparse is in `sparse`.

mod sparse;

use super::inputs::DeviceFeatures;
use super::knots::chunk_rows;
use super::panels::Window;
use super::reduce::{self, partial_sums};
use super::sparse::SparseFeatures;
use super::split;
use super::{Blocks, Buffer, DeviceInputs, DeviceMatrix, Driver, Gemm, Grid, Launcher, abi, by_states};
use crate::architecture::Layout;
use crate::config::States;
use crate::device::Responses;
use crate::device::mixed_forms;
use crate::knots::planned_pieces;
use crate::plan::BatchSizes;
use harmonia_graph::error::{Error, Result};
use std::ffi::c_void;
use std::ptr::null;

pub(super) const LOAD: [&str; 3] = by_states!("project_load");
/// Floats are stored by the product itself.
pub(super) const STORE: [&str; 3] = ["", "project_store_f16", "project_store_bf16"];

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
    /// What stored gradients were multiplied by, where they are half: one number.
    pub(super) scale: Buffer<V, f32>,
    /// F^T Y, part by part, from panel to panel of X.
    carried: Option<Buffer<V, f32>>,
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

/// Rows whose states are floats at a time: whole chunks of rows that sums over pieces are taken of, so that panels of X can end
/// where both do.
pub(super) fn stretch_rows(columns: usize, chunk: usize, most: Blocks) -> usize {
    (most.states as usize / columns / chunk * chunk).max(chunk)
}

/// Rows of a stretch, from the first.
fn row_stretches(rows: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).step_by(size).map(move |first| (first, size.min(rows - first)))
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn new_hops(&self, inputs: &DeviceInputs<V>, layout: &Layout) -> Result<DeviceHops<V>> {
        let a = &layout.architecture;
        let width = padded(a.outputs);
        let states = self.zeroed(inputs.nodes * a.hops * width * self.states.bytes())?;
        let scale = self.zeroed(usize::from(self.states == States::F16))?;
        Ok(DeviceHops { states, rows: inputs.nodes, hops: a.hops, width, scale, carried: None })
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
            (Responses::Dense(responses), _) => {
                let stretch = self.stretch(hops, layout);
                self.multiply(hops, responses, &weights, &inputs.window(self)?, stretch)
            }
            (Responses::Sparse(responses), DeviceFeatures::Sparse(x)) => {
                self.multiply_sparse(hops, responses, &weights, x, layout.architecture.features)
            }
            _ => Err(mixed_forms()),
        }
    }

    /// states = F W, of the rows of a window.
    fn multiply(
        &self,
        hops: &mut DeviceHops<V>,
        responses: &DeviceMatrix<V>,
        weights: &Buffer<V, f32>,
        window: &Window,
        stretch: usize,
    ) -> Result<()> {
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
            let states = self.at_mut(&mut hops.states, window.first * columns * size_of::<f32>()).cast();
            // SAFETY: F has the rows of the window, W is d x columns, the states n x columns, all separate.
            return unsafe { self.driver.gemm(&product(0, window.rows, states)) };
        }
        let mut values = self.allocate::<f32>(window.rows.min(stretch) * columns)?;
        for (first, rows) in row_stretches(window.rows, stretch) {
            let values = self.at_mut(&mut values, 0);
            let arguments = self.states_of(hops, window.first + first, rows, values, None);
            // SAFETY: as above for some of the rows; `values` hold a stretch.
            unsafe {
                self.driver.gemm(&product(first, rows, values))?;
                self.run(STORE[kind], Grid::flat(rows * columns), &arguments)?;
            }
        }
        Ok(())
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
        let window = inputs.window(self)?;
        let (size, stretch) = (a.features * hops.columns(), self.stretch(hops, layout));
        // X of non-zeros is summed up by segments instead.
        let parts = match &inputs.features {
            DeviceFeatures::Sparse(_) => 1,
            _ => split::parts(a.features, hops.columns(), hops.rows.min(stretch), self.blocks),
        };
        let mut sums = match hops.carried.take().filter(|_| !window.is_first()) {
            Some(sums) => sums,
            None => self.allocate::<f32>(parts * size)?,
        };
        match (responses, &inputs.features) {
            (Responses::Dense(responses), _) => {
                self.differentiate(&mut sums, parts, responses, hops, &weights, inputs, &window, stretch)?;
            }
            (Responses::Sparse(responses), DeviceFeatures::Sparse(x)) => {
                self.differentiate_sparse(&mut sums, responses, hops, &weights, x, inputs)?;
            }
            _ => return Err(mixed_forms()),
        }
        if !window.is_last() {
            hops.carried = Some(sums);
            return Ok(());
        }
        if parts > 1 {
            let mut total = self.allocate::<f32>(size)?;
            // SAFETY: the sums of every part are as long as the total.
            unsafe {
                self.sum_columns(self.at_mut(&mut total, 0), self.at(&sums, 0), parts as u64, size, false)?;
            }
            sums = total;
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

    /// sums = F^T Y in parts, of the rows of a window added to those before; F turns into dF = Y W^T.
    #[allow(clippy::too_many_arguments)] // what the op takes
    fn differentiate(
        &self,
        sums: &mut Buffer<V, f32>,
        parts: usize,
        responses: &mut DeviceMatrix<V>,
        hops: &mut DeviceHops<V>,
        weights: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        window: &Window,
        stretch: usize,
    ) -> Result<()> {
        let (columns, features) = (hops.columns(), responses.cols);
        let mut values = self.allocate::<f32>(window.rows.min(stretch) * columns)?;
        let values = self.at_mut(&mut values, 0);
        for (first, rows) in row_stretches(window.rows, stretch) {
            let row = window.first + first;
            let arguments = self.states_of(hops, row, rows, values, Some((inputs, row)));
            let responses = self.at_mut(&mut responses.values, first * features) as u64;
            let d_weights = Gemm {
                m: features,
                n: columns,
                k: rows,
                a: responses,
                transpose_a: true,
                b: values as u64,
                transpose_b: false,
                beta: if row == 0 { 0.0 } else { 1.0 },
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
            // SAFETY: F is n x d, the states n x columns, of which a stretch is loaded; W and the sums of a part are
            // d x columns. The driver works in order: F is read before it is overwritten, which the second product does not read.
            unsafe {
                self.run(LOAD[self.states as usize], Grid::flat(rows * columns), &arguments)?;
                self.multiply_parts(&d_weights, parts)?;
                self.driver.gemm(&d_responses)?;
            }
        }
        Ok(())
    }

    /// Rows of a stretch.
    fn stretch(&self, hops: &DeviceHops<V>, layout: &Layout) -> usize {
        let a = &layout.architecture;
        stretch_rows(
            hops.columns(),
            chunk_rows(hops.rows, a.features, planned_pieces(a), self.blocks).1 as usize,
            self.blocks,
        )
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
            scale: self.at(&hops.scale, 0),
            rows: rows as u64,
            part_rows: 0,
            columns: columns as u32,
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
            None => {
                let chunk = chunk_rows(batch.nodes, a.features, planned_pieces(a), self.blocks).1;
                // Of all rows there are no fewer parts than of a stretch.
                let parts = split::parts(a.features, columns, batch.nodes, self.blocks);
                batch.nodes.min(stretch_rows(columns, chunk as usize, self.blocks)) * columns
                    + split::elements(parts, a.features, columns)
            }
        };
        size_of::<f32>() * (2 * a.features * columns + working)
    }
}
