//! A batch on the device together with buffers of its size: what training steps and predictions run on.
//!
//! Steps are taken from the targets, predictions made at the rows that are asked for: who is near enough to count for them
//! is found once for each set of rows, and nothing else is computed.

use super::shared::{Gathered, OwnColumns};
use super::{Pass, Randomness};
use crate::architecture::Layout;
use crate::batch::{Batch, Selection};
use crate::device::Device;
use crate::plan::Plan;
use harmonia_graph::error::{Error, Result};

/// A batch made resident.
pub struct Resident<'a, D: Device> {
    device: &'a D,
    layout: &'a Layout,
    plan: Plan,
    /// As on the host: what `inputs` were uploaded from; none where the device put them together.
    batch: Option<Batch>,
    /// Its device form.
    pub inputs: D::Inputs,
    /// Buffers of its size.
    pub pass: Pass<'a, D>,
    /// Of the targets; found on first use.
    targets: Option<Option<D::Scope>>,
    /// The rows that were asked for last.
    scored: Option<ScoredRows<D>>,
    /// Where several processes share the classes: what passes of a rank's own need.
    columns: Option<OwnColumns<D>>,
}

/// Rows whose logits are asked for: who counts for them, and how they are read.
struct ScoredRows<D: Device> {
    rows: Vec<u32>,
    scope: Option<D::Scope>,
    reader: D::RowReader,
    /// Where several processes have some of them each.
    gathered: Option<Gathered>,
}

impl<'a, D: Device> Resident<'a, D> {
    /// Copies a batch to the device.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(device: &'a D, layout: &'a Layout, plan: Plan, batch: Batch) -> Result<Self> {
        let inputs = device.inputs(&batch, plan)?;
        let pass = Pass::new(device, layout, plan, &batch, &inputs)?;
        let columns = OwnColumns::of(device, &batch, plan)?;
        let batch = Some(batch);
        Ok(Resident { device, layout, plan, batch, inputs, pass, targets: None, scored: None, columns })
    }

    /// Another batch in place of this one, keeping the buffers where they fit. What does not fit is freed first: two
    /// batches are never resident at once.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn replaced(self, batch: Batch) -> Result<Self> {
        let Resident { device, layout, plan, inputs, pass, targets, scored, .. } = self;
        drop((inputs, targets, scored));
        let inputs = device.inputs(&batch, plan)?;
        let pass = pass.refitted(&batch, &inputs)?;
        let columns = OwnColumns::of(device, &batch, plan)?;
        let batch = Some(batch);
        Ok(Resident { device, layout, plan, batch, inputs, pass, targets: None, scored: None, columns })
    }

    /// A batch of some graphs, or rows of a table, in place of this one, put together on the device.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn selected(self, collection: &D::Collection, selection: &Selection) -> Result<Self> {
        let Resident { device, layout, plan, inputs, pass, targets, scored, .. } = self;
        drop((inputs, targets, scored));
        let inputs = device.select(collection, selection)?;
        let pass = pass.refitted(selection, &inputs)?;
        // Graphs are whole and near their targets, and tables have no neighbours: everybody counts.
        Ok(Resident {
            device,
            layout,
            plan,
            batch: None,
            inputs,
            pass,
            targets: Some(None),
            scored: None,
            columns: None,
        })
    }

    /// What it was uploaded from.
    ///
    /// # Errors
    /// The device put it together: the host never had it.
    pub fn batch(&self) -> Result<&Batch> {
        self.batch.as_ref().ok_or_else(|| Error::Device("the host does not have this batch".into()))
    }

    /// Other targets on the same nodes; nothing but labels is copied.
    ///
    /// # Errors
    /// The device failed.
    pub fn retarget(&mut self, batch: Batch) -> Result<()> {
        self.device.retarget(&mut self.inputs, &batch)?;
        self.columns = OwnColumns::of(self.device, &batch, self.plan)?;
        self.batch = Some(batch);
        self.targets = None;
        Ok(())
    }

    /// Other units as targets on the same nodes, of those whose labels the device has: only their numbers are copied.
    ///
    /// # Errors
    /// The device failed.
    pub fn retarget_to(&mut self, collection: &D::Collection, units: &[u32]) -> Result<()> {
        self.device.retarget_to(&mut self.inputs, collection, units)?;
        if let Some(batch) = &mut self.batch {
            // What the host has of labels is no longer looked at.
            batch.units = units.iter().map(|&unit| (unit, unit)).collect();
        }
        self.targets = None;
        Ok(())
    }

    /// Loss of one step, its gradient added to `gradient`: waits for it.
    ///
    /// # Errors
    /// The device failed.
    pub fn gradient(
        &mut self,
        gradient: &mut D::Buffer,
        parameters: &D::Buffer,
        randomness: &Randomness<D>,
    ) -> Result<f64> {
        self.take_gradient(gradient, parameters, randomness)?;
        let judgement = self.pass.judgement()?;
        if judgement.crowded {
            self.pass.make_room(judgement.pieces)?;
            return Err(Error::Device(format!(
                "an expert has {} pieces, more than its tables had room for: ask again",
                judgement.pieces
            )));
        }
        Ok(judgement.loss)
    }

    /// The same, for whoever asks for the verdict later.
    ///
    /// # Errors
    /// The device failed.
    pub fn take_gradient(
        &mut self,
        gradient: &mut D::Buffer,
        parameters: &D::Buffer,
        randomness: &Randomness<D>,
    ) -> Result<()> {
        if self.targets.is_none() {
            let batch = self.batch()?;
            let rows: Vec<u32> = batch.units.iter().map(|&(row, _)| row).collect();
            self.targets = Some(self.near(batch, &rows)?);
        }
        let scope = self.targets.as_ref().and_then(Option::as_ref);
        if let Some(columns) = &mut self.columns {
            let Resident { device, inputs, pass, .. } = self;
            return columns.take_gradient(device, pass, inputs, scope, gradient, parameters, randomness);
        }
        self.pass.forward_of(scope, &self.inputs, parameters, randomness)?;
        self.pass.take_loss(&self.inputs)?;
        self.pass.backward_from(scope, gradient, &self.inputs, parameters, randomness)
    }

    /// Logits of all rows, without noise or dropout.
    ///
    /// # Errors
    /// The device failed.
    pub fn logits(&mut self, parameters: &D::Buffer) -> Result<Vec<D::Real>> {
        loop {
            let logits = self.pass.predict_of(None, &self.inputs, parameters)?;
            let logits = self.device.download(logits)?;
            self.pass.post_prediction()?;
            if self.pass.had_room()? {
                return Ok(logits);
            }
        }
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
        loop {
            self.ask_logits(parameters, units, whole)?;
            if self.take_logits(out)? {
                return Ok(());
            }
        }
    }

    /// The same, for whoever takes them later: nobody waits, and steps may be asked for in between.
    ///
    /// # Errors
    /// The device failed.
    pub fn ask_logits(&mut self, parameters: &D::Buffer, units: &[u32], whole: bool) -> Result<()> {
        let batch = self.batch()?;
        let (rows, gathered) = match &batch.part {
            None if whole => return self.ask_rows(parameters, units, None),
            None => (batch.units[..units.len()].iter().map(|&(row, _)| row).collect(), None),
            Some(part) => Gathered::of(part, batch, units, whole),
        };
        self.ask_rows(parameters, &rows, gathered)
    }

    /// Who counts for some rows; everybody where a process has but some of the nodes.
    fn near(&self, batch: &Batch, rows: &[u32]) -> Result<Option<D::Scope>> {
        match batch.part.as_ref().is_some_and(|part| part.halo.is_some()) {
            true => Ok(None),
            false => self.device.scope(batch, rows, self.layout.architecture.scoped_hops()),
        }
    }

    /// Some rows of the logits, without noise or dropout.
    fn ask_rows(&mut self, parameters: &D::Buffer, rows: &[u32], gathered: Option<Gathered>) -> Result<()> {
        let mut scored = match self.scored.take() {
            Some(scored) if scored.rows == rows => ScoredRows { gathered, ..scored },
            other => {
                drop(other);
                let scope = self.near(self.batch()?, rows)?;
                let reader = self.device.row_reader(rows, self.layout.architecture.outputs)?;
                ScoredRows { rows: rows.to_vec(), scope, reader, gathered }
            }
        };
        let parameters = match &mut self.columns {
            Some(columns) => columns.own_parameters(self.device, parameters)?,
            None => parameters,
        };
        let logits = self.pass.predict_of(scored.scope.as_ref(), &self.inputs, parameters)?;
        self.device.send_rows(&mut scored.reader, logits)?;
        self.scored = Some(scored);
        self.pass.post_prediction()
    }

    /// The logits that were asked for: waits for them. False, and they mean nothing, where tables of pieces had no room, which they
    /// have from here on.
    ///
    /// # Errors
    /// The device failed.
    pub fn take_logits(&mut self, out: &mut Vec<D::Real>) -> Result<bool> {
        let had_room = self.pass.had_room()?;
        let scored = self.scored.as_mut().ok_or_else(|| Error::Device("no logits were asked for".into()))?;
        self.device.receive_rows(out, &mut scored.reader)?;
        match &scored.gathered {
            Some(gathered) => gathered.gather(out).map(|()| had_room),
            None => Ok(had_room),
        }
    }
}
