//! Steps and validation from a table of walks, and the walks that correct it.

use super::{Trainer, Way};
use crate::batch::Batches;
use crate::config::{Config, DropoutPlace};
use crate::device::Device;
use crate::plan::{Plan, Space};
use crate::tabulate::TablePlan;
use crate::team::{Share, Sharing};
use harmonia_graph::error::Result;
use harmonia_graph::seed::{Purpose, Stream};
use harmonia_graph::walk_table::WalkTable;
use std::sync::Arc;

/// The step that walks of validation units are drawn in: theirs are the same in every epoch, so that epochs can be compared.
const VALIDATION: u32 = u32::MAX;
/// Validation units whose walks are resident at once, at least.
const PORTION: usize = 1 << 12;

/// Steps from a table: inputs are dropped while training alone.
pub(super) struct Tabled<'a> {
    pub(super) table: Arc<WalkTable>,
    pub(super) train: Way<'a>,
    pub(super) valid: Way<'a>,
}

impl<'a> Tabled<'a> {
    /// What replaces steps of the exact way; so many walks of each unit correct what the table interpolates.
    pub(super) fn new(
        exact: &Way<'a>,
        table: Arc<WalkTable>,
        walks: usize,
        config: &Config,
        share: Option<&Arc<Share>>,
    ) -> Self {
        let train = &config.train;
        let dropped = if train.dropout_place == DropoutPlace::Input { train.dropout } else { 0.0 };
        let way = |dropped| {
            let batches = Batches::tabled(exact.batches.dataset, Arc::clone(&table), dropped);
            Way {
                plan: Plan { space: Space::Table, sparse: false, ..exact.plan },
                batches: (batches.walking_as(&exact.batches, walks))
                    .for_the_loss_of(&exact.batches)
                    .streamed_as(&exact.batches)
                    .shared(share, Sharing::Rows),
            }
        };
        Tabled { train: way(dropped), valid: way(0.0), table }
    }
}

impl<D: Device<Real = f32>> Trainer<'_, D> {
    /// Reads another table from here on.
    ///
    /// # Errors
    /// The device failed.
    pub fn replace_table(&mut self, table: Arc<WalkTable>, plan: &TablePlan) -> Result<()> {
        self.take_back()?;
        (self.train, self.valid, self.collection) = (None, None, None);
        self.progress.table_points = Some(plan.points);
        self.progress.table_walks = Some(plan.walks);
        self.tabled = Some(Tabled::new(&self.exact, table, plan.walks, self.config, self.share));
        Ok(())
    }

    /// The table that steps read.
    pub fn table(&self) -> Option<&Arc<WalkTable>> {
        self.tabled.as_ref().map(|tabled| &tabled.table)
    }

    /// Walks of each unit that correct it.
    pub fn table_walks(&self) -> usize {
        self.tabled.as_ref().map_or(0, |tabled| tabled.train.batches.walks())
    }

    /// What the walks of the next step are drawn from.
    pub(super) fn walk_stream(&self) -> Stream {
        Stream::new(self.seed, Purpose::Walks, self.progress.step as u32)
    }

    /// Logits of the validation units from their walks, which are drawn portion by portion.
    pub(super) fn drawn_logits(&mut self, parameters: &D::Buffer) -> Result<()> {
        let Way { plan, batches } = self.validation().clone();
        let stream = Stream::new(self.seed, Purpose::Walks, VALIDATION);
        let mut logits = std::mem::take(&mut self.logits);
        let mut portion = Vec::new();
        logits.clear();
        for units in batches.dataset.split.valid.chunks(self.config.train.batch_size.max(PORTION)) {
            let batch = batches.drawn(units, stream);
            let mut resident = match self.valid.take() {
                Some(resident) => resident.replaced(batch)?,
                None => self.resident(plan, batch)?,
            };
            resident.unit_logits(&mut portion, parameters, units, false)?;
            logits.extend_from_slice(&portion);
            self.valid = Some(resident);
        }
        self.logits = logits;
        Ok(())
    }
}
