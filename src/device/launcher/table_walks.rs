//! What sampled walks add to a table that interpolates: launches of `kernels/table_walks.cu`.

use super::inputs::DeviceFeatures;
use super::table::{DeviceTableRows, STRETCH, STRETCHES};
use super::{Buffer, DeviceInputs, DeviceMatrix, Driver, Grid, Launcher, THREADS, abi, stretches};
use harmonia_graph::error::{Error, Result};
use std::ptr::{null, null_mut};

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    /// What both directions read of a batch.
    fn table_walks(
        &self,
        responses: *mut f32,
        hop_weights: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        rows: &DeviceTableRows<V>,
        d: usize,
    ) -> Result<abi::TableWalks> {
        let DeviceFeatures::Dense(x) = &inputs.features else {
            return Err(Error::Device("the features of a batch from a table of walks are dense".into()));
        };
        let (host, first) = (&rows.host, rows.host.first_end());
        Ok(abi::TableWalks {
            state: null_mut(),
            partial: null_mut(),
            responses: responses.wrapping_add(first * d),
            ends: self.at(x, first * d),
            points: responses.cast_const().wrapping_add(rows.own() * d),
            grid: self.at(x, rows.own() * d),
            hop_weights: self.at(hop_weights, 0),
            d_state: null(),
            column_ptr: self.at(&rows.table().column_ptr, 0),
            row_count: host.rows.len() as u64,
            stretch: 0,
            features: d as u32,
            walks: host.walks as u32,
            steps: host.table.contents.steps() as u32,
            most: host.table.grid.most() as u32,
            share: ((1.0 - host.dropped) / host.walks as f64) as f32,
        })
    }

    pub(super) fn table_walks_forward(
        &self,
        state: &mut DeviceMatrix<V>,
        responses: &DeviceMatrix<V>,
        hop_weights: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        rows: &DeviceTableRows<V>,
    ) -> Result<()> {
        if rows.host.ends() == 0 {
            return Ok(());
        }
        let d = state.cols;
        // The kernel only reads them.
        let read = self.at(&responses.values, 0).cast_mut();
        let arguments = abi::TableWalks {
            state: self.at_mut(&mut state.values, 0),
            ..self.table_walks(read, hop_weights, inputs, rows, d)?
        };
        // SAFETY: F and X have the rows of the ends behind those of units, points and perhaps zeros (`table::check`).
        unsafe { self.run("table_walks_forward", Grid::flat(rows.host.rows.len() * d), &arguments) }
    }

    /// In: `responses` = F. Out: rows of the ends = dF, and sums for `table_walks_finish`; none without walks.
    pub(super) fn table_walks_sums(
        &self,
        responses: &mut DeviceMatrix<V>,
        state: &DeviceMatrix<V>,
        hop_weights: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
        rows: &DeviceTableRows<V>,
    ) -> Result<Option<Buffer<V, f32>>> {
        if rows.host.ends() == 0 {
            return Ok(None);
        }
        let (d, count) = (state.cols, rows.host.rows.len() as u64);
        let (parts, stretch) = stretches(count, STRETCH, STRETCHES);
        let width = (rows.host.table.contents.steps() + rows.host.table.grid.most()) * d;
        let mut partial = self.allocate::<f32>(parts as usize * width)?;
        let mut sums = self.allocate::<f32>(width)?;
        let written = self.at_mut(&mut responses.values, 0);
        let arguments = abi::TableWalks {
            partial: self.at_mut(&mut partial, 0),
            d_state: self.at(&state.values, 0),
            stretch,
            ..self.table_walks(written, hop_weights, inputs, rows, d)?
        };
        let grid = Grid::new([(d as u64).div_ceil(u64::from(THREADS)), parts], [THREADS, 1]);
        // SAFETY: as forward; a partial sum per stretch, feature and hop or point. A thread reads and overwrites the ends of its
        // stretch and feature alone.
        unsafe {
            self.run("table_walks_sums", grid, &arguments)?;
            self.sum_columns(self.at_mut(&mut sums, 0), self.at(&partial, 0), parts, width, false)?;
        }
        Ok(Some(sums))
    }

    /// Adds the sums to the gradients at the points and of hop weights, which `table_finish` has written.
    pub(super) fn table_walks_finish(
        &self,
        responses: &mut DeviceMatrix<V>,
        d_hop_weights: &mut Buffer<V, f32>,
        sums: &Buffer<V, f32>,
        rows: &DeviceTableRows<V>,
    ) -> Result<()> {
        let d = responses.cols;
        let arguments = abi::TableWalksFinish {
            d_hop_weights: self.at_mut(d_hop_weights, 0),
            points: self.at_mut(&mut responses.values, rows.own() * d),
            sums: self.at(sums, 0),
            features: d as u32,
            steps: rows.host.table.contents.steps() as u32,
            most: rows.host.table.grid.most() as u32,
        };
        // SAFETY: gradients of T x d hop weights and of `most` points behind the rows of units; sums as `table_walks_sums`
        // allocates them.
        unsafe { self.run("table_walks_finish", Grid::flat(d), &arguments) }
    }
}
