//! A batch on the device together with buffers of its size: what training steps and predictions run on.

use super::{Pass, Randomness};
use crate::architecture::Layout;
use crate::batch::Batch;
use crate::device::Device;
use crate::plan::Plan;
use harmonia_graph::error::Result;

/// A batch made resident.
pub struct Resident<'a, D: Device> {
    device: &'a D,
    layout: &'a Layout,
    plan: Plan,
    /// As on the host: what `inputs` were uploaded from.
    pub batch: Batch,
    /// Its device form.
    pub inputs: D::Inputs,
    /// Buffers of its size.
    pub pass: Pass<'a, D>,
}

impl<'a, D: Device> Resident<'a, D> {
    /// Copies a batch to the device.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(device: &'a D, layout: &'a Layout, plan: Plan, batch: Batch) -> Result<Self> {
        let inputs = device.inputs(&batch, plan)?;
        let pass = Pass::new(device, layout, plan, &batch, &inputs)?;
        Ok(Resident { device, layout, plan, batch, inputs, pass })
    }

    /// Another batch in place of this one, keeping the buffers where they fit. What does not fit is freed first: two
    /// batches are never resident at once.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn replaced(self, batch: Batch) -> Result<Self> {
        let Resident { device, layout, plan, inputs, mut pass, .. } = self;
        drop(inputs);
        let profile = pass.ops().take_profile();
        let kept = pass.fits(&batch).then_some(pass);
        let inputs = device.inputs(&batch, plan)?;
        let mut pass = match kept {
            Some(pass) => pass,
            None => Pass::new(device, layout, plan, &batch, &inputs)?,
        };
        pass.ops().resume_profile(profile);
        Ok(Resident { device, layout, plan, batch, inputs, pass })
    }

    /// Other targets on the same nodes; nothing but labels is copied.
    ///
    /// # Errors
    /// The device failed.
    pub fn retarget(&mut self, batch: Batch) -> Result<()> {
        self.device.retarget(&mut self.inputs, &batch)?;
        self.batch = batch;
        Ok(())
    }

    /// Loss of one step, its gradient added to `gradient`.
    ///
    /// # Errors
    /// The device failed.
    pub fn gradient(
        &mut self,
        gradient: &mut D::Buffer,
        parameters: &D::Buffer,
        randomness: &Randomness<D>,
    ) -> Result<f64> {
        self.pass.forward(&self.inputs, parameters, randomness)?;
        let loss = self.pass.loss(&self.inputs)?;
        self.pass.backward(gradient, &self.inputs, parameters, randomness)?;
        Ok(loss)
    }

    /// Logits of all rows, without noise or dropout.
    ///
    /// # Errors
    /// The device failed.
    pub fn logits(&mut self, parameters: &D::Buffer) -> Result<Vec<D::Real>> {
        let logits = self.pass.forward(&self.inputs, parameters, &Randomness::none())?;
        self.device.download(logits)
    }

    /// Logits of `units`, which the batch must hold: any unit of a whole dataset, else its targets in order.
    ///
    /// # Errors
    /// The device failed.
    pub fn unit_logits(
        &mut self,
        out: &mut Vec<D::Real>,
        parameters: &D::Buffer,
        units: &[u32],
        whole: bool,
    ) -> Result<()> {
        let logits = self.pass.forward(&self.inputs, parameters, &Randomness::none())?;
        let outputs = self.batch.outputs;
        if whole {
            return self.device.read_rows(out, logits, outputs, units);
        }
        let rows: Vec<u32> = self.batch.units[..units.len()].iter().map(|&(row, _)| row).collect();
        self.device.read_rows(out, logits, outputs, &rows)
    }
}
