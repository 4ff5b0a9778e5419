//! Steps from a table of walks: `kernels/table.cu`.

use super::{Buffer, DeviceInputs, DeviceMatrix, Driver, Launcher};
use crate::batch::TableRows;
use harmonia_graph::error::{Error, Result};
use std::marker::PhantomData;

/// Rows of a table on the device.
pub(super) struct DeviceTableRows<V: Driver> {
    driver: PhantomData<V>,
}

impl<V: Driver> Launcher<V> {
    pub(super) fn table_rows(&self, _: &TableRows) -> Result<DeviceTableRows<V>> {
        Err(no_kernels())
    }

    pub(super) fn table_forward(
        &self,
        _state: &mut DeviceMatrix<V>,
        _responses: &DeviceMatrix<V>,
        _hop_weights: &Buffer<V, f32>,
        _inputs: &DeviceInputs<V>,
    ) -> Result<()> {
        Err(no_kernels())
    }

    pub(super) fn table_backward(
        &self,
        _responses: &mut DeviceMatrix<V>,
        _d_hop_weights: &mut Buffer<V, f32>,
        _state: &DeviceMatrix<V>,
        _hop_weights: &Buffer<V, f32>,
        _inputs: &DeviceInputs<V>,
    ) -> Result<()> {
        Err(no_kernels())
    }
}

fn no_kernels() -> Error {
    Error::Device("tables of walks are for the CPU; set engine.table = off".into())
}
