//! A batch on the device together with buffers of its size: what training steps and predictions run on.
//!
//! Steps are taken from the targets, predictions made at the rows that are asked for: who is near enough to count for them
//! is found once for each set of rows, and nothing else is computed.

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
    /// Of the targets; found on first use.
    targets: Option<Option<D::Scope>>,
    /// Of the rows that were asked for last, and these.
    scored: Option<(Vec<u32>, Option<D::Scope>)>,
}

impl<'a, D: Device> Resident<'a, D> {
    /// Copies a batch to the device.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(device: &'a D, layout: &'a Layout, plan: Plan, batch: Batch) -> Result<Self> {
        let inputs = device.inputs(&batch, plan)?;
        let pass = Pass::new(device, layout, plan, &batch, &inputs)?;
        Ok(Resident { device, layout, plan, batch, inputs, pass, targets: None, scored: None })
    }

    /// Another batch in place of this one, keeping the buffers where they fit. What does not fit is freed first: two
    /// batches are never resident at once.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn replaced(self, batch: Batch) -> Result<Self> {
        let Resident { device, layout, plan, inputs, mut pass, targets, scored, .. } = self;
        drop((inputs, targets, scored));
        let profile = pass.ops().take_profile();
        let kept = pass.fits(&batch).then_some(pass);
        let inputs = device.inputs(&batch, plan)?;
        let mut pass = match kept {
            Some(pass) => pass,
            None => Pass::new(device, layout, plan, &batch, &inputs)?,
        };
        pass.ops().resume_profile(profile);
        Ok(Resident { device, layout, plan, batch, inputs, pass, targets: None, scored: None })
    }

    /// Other targets on the same nodes; nothing but labels is copied.
    ///
    /// # Errors
    /// The device failed.
    pub fn retarget(&mut self, batch: Batch) -> Result<()> {
        self.device.retarget(&mut self.inputs, &batch)?;
        self.batch = batch;
        self.targets = None;
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
        let scope = match &mut self.targets {
            Some(scope) => scope,
            unknown => {
                let rows: Vec<u32> = self.batch.units.iter().map(|&(row, _)| row).collect();
                unknown.insert(self.device.scope(&self.batch, &rows, self.layout.architecture.hops)?)
            }
        };
        let scope = scope.as_ref();
        self.pass.forward_of(scope, &self.inputs, parameters, randomness)?;
        let loss = self.pass.loss(&self.inputs)?;
        self.pass.backward_from(scope, gradient, &self.inputs, parameters, randomness)?;
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
        if whole {
            return self.row_logits(out, parameters, units);
        }
        let rows: Vec<u32> = self.batch.units[..units.len()].iter().map(|&(row, _)| row).collect();
        self.row_logits(out, parameters, &rows)
    }

    /// Some rows of the logits, without noise or dropout.
    fn row_logits(&mut self, out: &mut Vec<D::Real>, parameters: &D::Buffer, rows: &[u32]) -> Result<()> {
        if self.scored.as_ref().is_none_or(|(known, _)| known != rows) {
            self.scored = None;
            let scope = self.device.scope(&self.batch, rows, self.layout.architecture.hops)?;
            self.scored = Some((rows.to_vec(), scope));
        }
        let scope = self.scored.as_ref().and_then(|(_, scope)| scope.as_ref());
        let logits = self.pass.forward_of(scope, &self.inputs, parameters, &Randomness::none())?;
        self.device.read_rows(out, logits, self.batch.outputs, rows)
    }
}
