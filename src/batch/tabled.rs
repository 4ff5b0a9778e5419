//! Batches from a table of walks: rows of it, and perhaps sampled walks that correct what it interpolates.

use super::{Batch, Batches, Part, Reach};
use harmonia_graph::dataset::{Dataset, Features, Level};
use harmonia_graph::graph::sampled_walks;
use harmonia_graph::seed::Stream;
use harmonia_graph::walk_table::WalkTable;
use rayon::prelude::*;
use std::sync::Arc;

/// Rows of X that a task fills.
const TASK: usize = 1 << 8;

/// The rows of a table that a batch is made of. X of the batch is X of its units (none of graphs), then the points of the grid,
/// then, where inputs are dropped, a row of zeros, then the ends of the walks that were drawn: rows x walks x steps.
#[derive(Clone, Debug)]
pub struct TableRows {
    /// The table.
    pub table: Arc<WalkTable>,
    /// Row of each row of the logits.
    pub rows: Vec<u32>,
    /// Probability that inputs are dropped, in [0, 1). The nodes at the end of walks are many: what counts of their masks is
    /// the mean, (1 - p) f(x / (1 - p)) + p f(0), so the points of X are divided by 1 - p.
    pub dropped: f64,
    /// Walks of each row that add what the table lacks at their ends, on average exactly; 0: none. The row of zeros has no part
    /// in it, for p f(0) is in both, and ends of walks are divided by 1 - p as points are.
    pub walks: usize,
}

impl TableRows {
    /// Rows of X that are units: only to these masks of inputs apply.
    pub fn own(&self) -> usize {
        match self.table.contents.level {
            Level::Node => self.rows.len(),
            Level::Graph => 0,
        }
    }

    /// Rows of X before the ends of walks.
    pub fn first_end(&self) -> usize {
        self.own() + self.table.grid.most() + usize::from(self.dropped > 0.0)
    }

    /// Rows of X.
    pub fn nodes(&self) -> usize {
        self.first_end() + self.ends()
    }

    /// Rows of these units, without walks. Units that the table does not have are left out: whoever made it had them all in view.
    pub(super) fn of_units(&self, units: &[u32]) -> TableRows {
        let rows = units.iter().filter_map(|&unit| self.table.row_of(unit)).collect();
        TableRows { table: Arc::clone(&self.table), rows, dropped: self.dropped, walks: 0 }
    }

    /// Rows of X that are ends of walks.
    pub fn ends(&self) -> usize {
        self.rows.len() * self.walks * self.table.contents.steps()
    }
}

impl<'a> Batches<'a> {
    /// Batches from a table, which has a row for every unit that is asked for; inputs are `dropped` with a probability.
    pub fn tabled(dataset: &'a Dataset, table: Arc<WalkTable>, dropped: f64) -> Self {
        Batches::with(dataset, Reach::Table(TableRows { table, rows: Vec::new(), dropped, walks: 0 }))
    }

    /// The same, corrected by so many walks of each unit along the walk of others, which must step from node to node.
    pub fn walking_as(mut self, other: &Batches<'_>, walks: usize) -> Self {
        if let (Reach::Table(rows), Reach::Walk(transition)) = (&mut self.reach, &other.reach)
            && rows.table.contents.level == Level::Node
            && walks > 0
        {
            rows.walks = walks;
            self.sampled = Some(Arc::clone(transition));
        }
        self
    }

    /// Whether a batch depends on what walks are drawn.
    pub fn draws(&self) -> bool {
        self.sampled.is_some()
    }

    /// Walks of each unit that correct a table.
    pub fn walks(&self) -> usize {
        match &self.reach {
            Reach::Table(rows) => rows.walks,
            _ => 0,
        }
    }

    /// As [`Batches::holding`], with walks drawn from a stream where these correct a table.
    pub fn drawn(&self, units: &[u32], stream: Stream) -> Batch {
        match &self.reach {
            Reach::Table(rows) => self.tabulated(rows, units, Some(stream)),
            _ => self.holding(units),
        }
    }

    /// A row per unit, see [`TableRows::of_units`].
    pub(super) fn tabulated(&self, like: &TableRows, asked: &[u32], stream: Option<Stream>) -> Batch {
        let (table, dropped) = (&like.table, like.dropped);
        let sampled = self.sampled.as_ref().zip(stream);
        let walks = if sampled.is_some() { like.walks } else { 0 };
        let reach = TableRows { walks, ..like.of_units(asked) };
        let units: Vec<u32> = reach.rows.iter().map(|&row| table.contents.units[row as usize]).collect();
        let (own, first_end, d, points) = (reach.own(), reach.first_end(), self.features.cols, table.grid.most());
        let mut values = vec![0f32; reach.nodes() * d];
        let (before, ends) = values.split_at_mut(first_end * d);
        let (own_rows, grid) = before.split_at_mut(own * d);
        own_rows.par_chunks_mut(d.max(1)).zip(&units).with_min_len(TASK).for_each(|(row, &unit)| {
            self.features.fill_row(unit as usize, row);
        });
        let scale = (1.0 / (1.0 - dropped)) as f32;
        for k in 0..d {
            let own_points = table.grid.points(k);
            for q in 0..points {
                // A feature with fewer points than others repeats its last: nothing asks for those.
                grid[q * d + k] = own_points[q.min(own_points.len() - 1)] * scale;
            }
        }
        if let Some((transition, stream)) = sampled {
            let nodes = sampled_walks(transition, &units, walks, table.contents.steps(), stream);
            ends.par_chunks_mut(d.max(1)).zip(&nodes).with_min_len(TASK).for_each(|(row, &node)| {
                self.features.fill_row(node as usize, row);
                row.iter_mut().for_each(|value| *value *= scale);
            });
        }
        let rows = (0..).zip(&units).map(|(row, &unit)| (row, unit)).collect();
        let features = Features::dense_rows(d, values);
        // A row per unit, whatever it is: nothing is left to be summed over the nodes of a graph.
        let batch = Batch { level: Level::Node, ..self.batch(Reach::Table(reach), Arc::new(features), vec![0], rows) };
        Batch { part: self.shared.as_ref().map(|(share, _)| Part::rows(share, asked)), ..batch }
    }
}
