//! Batches of one graph put together on the device: from the rows of a table of walks, or, of a walk, by their targets.
//!
//! X of a batch from a table is X of its units, then what all batches have: points of the grid, and perhaps a row of zeros. All of
//! it is there, in the order of the table, so that the row of a unit in the table says where its features, its size and its
//! targets are.

use super::inputs::{DeviceFeatures, DeviceReach};
use super::select::DeviceCollection;
use super::table::DeviceTableRows;
use super::{Buffer, DeviceInputs, Driver, Launcher};
use crate::batch::{Batch, TableRows};
use crate::plan::Plan;
use harmonia_graph::dataset::Level;
use harmonia_graph::error::{Error, Result};
use std::sync::Arc;

/// All units of a table of walks.
pub struct TableUnits<V: Driver> {
    all: DeviceInputs<V>,
    /// Which rows of X every batch has behind those of its units.
    shared: Buffer<V, u32>,
    /// Columns of X.
    features: usize,
}

impl<V: Driver> TableUnits<V> {
    /// None of a table that comes in panels: its rows are put together by the host, and memory is short.
    pub(super) fn new(
        launcher: &Launcher<V>,
        whole: &Batch,
        rows: &TableRows,
        plan: Plan,
    ) -> Result<Option<TableUnits<V>>> {
        let (nodes, features) = (whole.nodes(), whole.features.cols);
        if whole.streamed.table_bytes > 0 || !launcher.has_room(nodes * features * size_of::<f32>())? {
            return Ok(None);
        }
        if rows.walks > 0 || !rows.rows.iter().copied().eq(0..rows.table.contents.units.len() as u32) {
            return Err(Error::Device("units of a table are collected in their order, and without walks".into()));
        }
        let shared: Vec<u32> = (rows.own() as u32..nodes as u32).collect();
        let (all, shared) = (DeviceInputs::new(launcher, whole, plan)?, launcher.copy(&shared)?);
        Ok(Some(TableUnits { all, shared, features }))
    }
}

impl<V: Driver> Launcher<V> {
    pub(super) fn select_rows(&self, units: &TableUnits<V>, rows: &TableRows) -> Result<DeviceInputs<V>> {
        let TableUnits { all, shared, features } = units;
        let (DeviceReach::Table(table), DeviceFeatures::Dense(x)) = (&all.reach, &all.features) else {
            return Err(Error::Device("a batch from a table of walks where the device holds none".into()));
        };
        let held = table.host.rows.len();
        let same = Arc::ptr_eq(&table.host.table, &rows.table)
            && (table.host.dropped, table.host.walks) == (rows.dropped, rows.walks);
        if !same || rows.rows.iter().any(|&row| row as usize >= held) {
            return Err(Error::Device("rows of another table of walks than the one on the device".into()));
        }
        let numbers = self.copy(&rows.rows)?;
        let own = rows.own();
        let mut features_of = self.allocate::<f32>(rows.nodes() * features)?;
        if own > 0 {
            self.gather_into(&mut features_of, 0, x, &numbers, *features)?;
        }
        self.gather_into(&mut features_of, own, x, shared, *features)?;
        Ok(DeviceInputs {
            features: DeviceFeatures::Dense(features_of),
            nodes: rows.nodes(),
            targets: self.gather(&all.targets, &numbers, all.targets.len() / held.max(1))?,
            reach: DeviceReach::Table(self.chosen_rows(table, rows, numbers)?),
            // No graphs: a row per unit, whatever it is.
            graph_ptr: self.zeroed(1)?,
            level: all.level,
            objective: all.objective,
            outputs: all.outputs,
            target_rows: None,
            units: rows.rows.len(),
        })
    }

    /// Rows of a table that is there, numbers of which are on the device.
    fn chosen_rows(
        &self,
        all: &DeviceTableRows<V>,
        rows: &TableRows,
        numbers: Buffer<V, u32>,
    ) -> Result<DeviceTableRows<V>> {
        let sizes = all.sizes.as_ref().map(|sizes| self.gather(sizes, &numbers, 1)).transpose()?;
        Ok(all.with_rows(rows.clone(), numbers, sizes))
    }

    /// Gives a batch of the one graph the targets that are there of these rows, and no others.
    pub(super) fn retarget_rows(
        &self,
        inputs: &mut DeviceInputs<V>,
        collection: &DeviceCollection<V>,
        rows: &[u32],
    ) -> Result<()> {
        let DeviceCollection::Targets(all) = collection else {
            return Err(Error::Device("only batches of one graph differ by their targets alone".into()));
        };
        let held = match inputs.level {
            Level::Node => inputs.nodes,
            Level::Graph => inputs.graphs(),
        };
        if all.len() != inputs.targets.len() || rows.iter().any(|&row| row as usize >= held) {
            return Err(Error::Device(format!("targets of other rows than the {held} there are")));
        }
        let (rows, width) = (self.copy(rows)?, all.len() / held.max(1));
        let words = self.gather(all, &rows, width)?;
        inputs.set_targets(self, rows, &words, width)
    }
}
