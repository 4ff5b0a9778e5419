//! The buffers of a process among several that share a run: its part of the data, and what is on its way to others.

use super::Planned;
use super::buffers::{F, Run};
use crate::device::Device;
use crate::plan::{BatchSizes, OwnSizes, SharedPlan};
use crate::tabulate::TablePlan;
use crate::team::{Sharing, part};

/// The rows of a table that a rank has.
pub(super) fn own_rows(table: &TablePlan, shared: &SharedPlan, own: &OwnSizes) -> TablePlan {
    let rows = part(table.contents.units.len(), shared.sizes.ranks, own.rank);
    let mut table = table.clone();
    table.contents.sizes = table.contents.sizes.map(|sizes| sizes[rows.clone()].to_vec());
    table.contents.units = table.contents.units[rows].to_vec();
    table
}

impl<'a, D: Device<Real = f32>> Run<'a, D> {
    /// What a rank copies of the data of its own nodes.
    pub(super) fn own_nodes(&self) -> Vec<Planned> {
        let (dataset, batch, whole) = (self.dataset, &self.batch, BatchSizes::all(self.dataset));
        // Rows of sparse features are as long as they are.
        let size = |sizes: &BatchSizes| (sizes.nodes + sizes.nonzeros) as u128;
        let features = (dataset.features.bytes() as u128 * size(batch)).div_ceil(size(&whole).max(1));
        let walk = self.walk_bytes(batch.nodes, batch.entries);
        vec![("walk of own nodes", walk), ("features of own nodes", features as usize)]
    }

    /// Of rows of a step and of the validation units those that a rank has, at most.
    pub(super) fn own_table_rows(&self, [step, valid]: [usize; 2]) -> [usize; 2] {
        let Some((shared, own)) = self.own else { return [step, valid] };
        // Batches are drawn without regard to whose rows they are: four deviations more than a part is not seen.
        let part = step as f64 / shared.sizes.ranks as f64;
        let likely = (part + 4.0 * part.sqrt()).ceil() as usize;
        [likely.min(step).min(own.rows), valid.min(own.valid)]
    }

    /// A rank with nodes of its own.
    pub(super) fn of_nodes(&self) -> Option<&'a OwnSizes> {
        self.own.filter(|(shared, _)| shared.sizes.sharing == Sharing::Nodes).map(|(_, own)| own)
    }

    /// What walking takes for others: states beside theirs and on the way, logits of all classes.
    pub(super) fn between(&self) -> Vec<Planned> {
        let Some((shared, _)) = self.own else { return Vec::new() };
        let (outputs, valid) = (self.layout.architecture.outputs, shared.sizes.valid);
        let mut between = Vec::new();
        if let Some(own) = self.of_nodes() {
            let state = self.config.engine.states.bytes();
            let width = outputs.next_multiple_of(8).min(2 * outputs);
            between.push(("states beside those of others", (own.nodes.len() + own.halo) * width * state));
            // Packed for each and for all; as they come, in pieces, and as numbers.
            between.push(("states between processes", (2 * own.sent_rows + 4 * own.halo) * outputs * state));
            between.push(("who reads which rows", (own.sent_rows + own.halo) * F));
        }
        if shared.sizes.sharing == Sharing::Classes {
            let targets = shared.sizes.targets;
            between.push(("parameters and gradient of own classes", 2 * self.walked.len() * F));
            between.push(("logits of all classes and gradient", 4 * targets * outputs * F));
            between.push(("labels of targets", targets * (self.target_words() + 4) * F));
        }
        between.push(("logits between processes", 3 * valid.max(self.scored_units()) * outputs * F));
        between
    }
}
