//! Where several processes share a model: passes over a rank's own classes, and logits put together from those of all ranks.

use super::{Pass, Randomness};
use crate::batch::{Batch, Part};
use crate::device::Device;
use crate::plan::Plan;
use crate::real::Real;
use crate::team::{OwnClasses, Share, Sharing, numbers, part};
use bytemuck::cast_slice;
use harmonia_graph::error::{Error, Result};
use std::sync::Arc;

/// What a rank needs to take steps with some columns of the logits. Only the targets' rows of the others are ever here, for the
/// loss: it is computed over all columns by every rank.
pub(super) struct OwnColumns<D: Device> {
    share: Arc<Share>,
    /// The own model's.
    parameters: D::Buffer,
    gradient: D::Buffer,
    /// Targets by themselves, and their logits: units x L.
    targets: D::Inputs,
    logits: D::Buffer,
    d_logits: D::Buffer,
    /// Rows of the targets among those of the graph.
    rows: Vec<u32>,
    reader: D::RowReader,
}

impl<D: Device> OwnColumns<D> {
    /// Of a batch whose classes are shared.
    pub(super) fn of(device: &D, batch: &Batch, plan: Plan) -> Result<Option<Self>> {
        let Some(Part { share, targets: Some(targets), .. }) = &batch.part else { return Ok(None) };
        let own = own_classes(share)?;
        let rows: Vec<u32> = batch.units.iter().map(|&(row, _)| row).collect();
        let all = rows.len() * own.outputs;
        Ok(Some(OwnColumns {
            share: Arc::clone(share),
            parameters: device.zeros(own.layout.len())?,
            gradient: device.zeros(own.layout.len())?,
            targets: device.inputs(targets, Plan { sparse: false, ..plan })?,
            logits: device.zeros(all)?,
            d_logits: device.zeros(all)?,
            reader: device.row_reader(&rows, own.range.len())?,
            rows,
        }))
    }

    /// Those of the own model out of those of the whole one.
    pub(super) fn own_parameters(&mut self, device: &D, whole: &D::Buffer) -> Result<&D::Buffer> {
        let whole = singles(&device.download(whole)?);
        let mut own = Vec::new();
        own_classes(&self.share)?.parameters(&mut own, &whole);
        device.write(&mut self.parameters, &reals::<D>(&own))?;
        Ok(&self.parameters)
    }

    /// The gradient of a step by what this rank's columns contribute to it; those of all ranks add up to the whole.
    #[allow(clippy::too_many_arguments)] // as a pass takes them
    pub(super) fn take_gradient(
        &mut self,
        device: &D,
        pass: &mut Pass<'_, D>,
        inputs: &D::Inputs,
        scope: Option<&D::Scope>,
        gradient: &mut D::Buffer,
        parameters: &D::Buffer,
        randomness: &Randomness<D>,
    ) -> Result<()> {
        self.own_parameters(device, parameters)?;
        let OwnColumns { share, parameters, gradient: own_gradient, targets, logits, d_logits, rows, reader } = self;
        let own = own_classes(share)?;
        device.send_rows(reader, pass.forward_of(scope, inputs, parameters, randomness)?)?;
        let mut here = Vec::new();
        device.receive_rows(&mut here, reader)?;
        device.write(logits, &reals::<D>(&columns_of_all(share, own, &singles(&here))?))?;
        pass.take_loss_of(d_logits, logits, targets)?;
        let d_all = singles(&device.download(d_logits)?);
        let d_own: Vec<f32> =
            d_all.chunks_exact(own.outputs).flat_map(|row| &row[own.range.clone()]).copied().collect();
        pass.set_d_logits(rows, own.range.len(), &reals::<D>(&d_own))?;
        device.clear(own_gradient)?;
        pass.backward_from(scope, own_gradient, inputs, parameters, randomness)?;
        let mut whole = singles(&device.download(gradient)?);
        own.add_gradient(&mut whole, &singles(&device.download(own_gradient)?));
        device.write(gradient, &reals::<D>(&whole))
    }
}

fn own_classes(share: &Share) -> Result<&OwnClasses> {
    share.classes.as_ref().ok_or_else(|| Error::Internal("classes are shared that cannot be".into()))
}

/// rows x L from the own columns of every rank.
fn columns_of_all(share: &Share, own: &OwnClasses, here: &[f32]) -> Result<Vec<f32>> {
    let rows = here.len() / own.range.len();
    let mut all = vec![0f32; rows * own.outputs];
    for (rank, came) in share.team.gather(cast_slice(here))?.iter().enumerate() {
        let columns = part(own.outputs, share.team.size(), rank);
        let came: Vec<f32> = numbers(came)?;
        let of_rows = all.chunks_exact_mut(own.outputs).zip(came.chunks_exact(columns.len()));
        of_rows.for_each(|(row, came)| row[columns.clone()].copy_from_slice(came));
    }
    Ok(all)
}

/// Logits of which every rank has some rows, or some columns.
pub(super) struct Gathered {
    part: Part,
}

impl Gathered {
    /// The rows that this rank has of `units`, and how those of all are put together. `whole`: any units of the graph, else the
    /// targets of the batch.
    pub(super) fn of(part: &Part, batch: &Batch, units: &[u32], whole: bool) -> (Vec<u32>, Option<Gathered>) {
        let part = if whole { part.of_units(units) } else { part.clone() };
        let own = part.own_places().iter().map(|&at| units[at as usize]);
        let rows = match part.sharing {
            Sharing::Classes => units.to_vec(),
            Sharing::Nodes => own.map(|unit| unit - part.share.own_nodes().start as u32).collect(),
            Sharing::Targets | Sharing::Rows => batch.units.iter().map(|&(row, _)| row).collect(),
        };
        (rows, Some(Gathered { part }))
    }

    /// From those of this rank to those of all units.
    pub(super) fn gather<T: Real>(&self, values: &mut Vec<T>) -> Result<()> {
        let Part { share, sharing, counted, places, .. } = &self.part;
        let here = singles(values);
        let all = if *sharing == Sharing::Classes {
            columns_of_all(share, own_classes(share)?, &here)?
        } else {
            let came = share.team.gather(cast_slice(&here))?;
            let total: usize = came.iter().map(Vec::len).sum();
            let width = total / size_of::<f32>() / (*counted).max(1);
            let mut all = vec![0f32; counted * width];
            for (places, came) in places.iter().zip(&came) {
                let came: Vec<f32> = numbers(came)?;
                for (&at, row) in places.iter().zip(came.chunks_exact(width.max(1))) {
                    all[at as usize * width..][..width].copy_from_slice(row);
                }
            }
            all
        };
        values.clear();
        values.extend(all.into_iter().map(T::from_f32));
        Ok(())
    }
}

/// Between ranks numbers are f32, as training has them.
fn singles<T: Real>(values: &[T]) -> Vec<f32> {
    values.iter().map(|&value| value.widen() as f32).collect()
}

fn reals<D: Device>(values: &[f32]) -> Vec<D::Real> {
    values.iter().map(|&value| D::Real::from_f32(value)).collect()
}
