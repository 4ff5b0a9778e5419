//! What comes in panels where a device has no room for all: as few things as will do, in panels as large as there is room for.

use super::buffers::{F, Run};
use super::{MemoryPlan, sum};
use crate::device::Device;
use crate::plan::{PANEL_BYTES, Space, Streamed};
use harmonia_graph::dataset::Level;

/// Rows of the walk's matrix that stay together: a word of the sets of rows.
pub const WALK_ROWS: usize = 64;

/// Something that comes in panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PanelPlan {
    /// For people.
    pub what: &'static str,
    /// How many, at most where they are of different sizes.
    pub panels: usize,
    /// Bytes of one; there is room for two on the device.
    pub panel_bytes: usize,
    /// Bytes that are brought in a training step.
    pub step_bytes: usize,
}

impl<D: Device<Real = f32>> Run<'_, D> {
    /// Everything on the device, where it may take as much; else what does not fit in panels.
    pub(super) fn fitted(&self, allowed: Option<usize>) -> MemoryPlan {
        let whole = self.counted(Streamed::NOTHING);
        let Some(most) = allowed.filter(|&most| whole.device_bytes() > most) else {
            return MemoryPlan { allowed, ..whole };
        };
        let room = most.saturating_sub(sum(&whole.device));
        let mut streamed = Streamed::NOTHING;
        if sum(&whole.walking) > room {
            streamed = self.walking_panels(room);
        }
        if sum(&whole.tabled) > room {
            streamed.table_bytes = self.table_panel(room);
        }
        MemoryPlan { allowed, ..self.counted(streamed) }
    }

    /// X, or the walk, or both; the smallest panels where nothing fits.
    fn walking_panels(&self, room: usize) -> Streamed {
        let features = self.feature_grain();
        let walk = self.least_walk_panel();
        let with = |rows: Option<usize>, bytes: Option<usize>| {
            (rows.is_some() || bytes.is_some()).then(|| Streamed {
                feature_rows: rows.unwrap_or(0),
                walk_bytes: bytes.unwrap_or(0),
                table_bytes: 0,
            })
        };
        let bytes = |streamed: Streamed| sum(&self.counted(streamed).walking);
        let ways: Vec<Streamed> =
            [with(features, None), with(None, walk), with(features, walk)].into_iter().flatten().collect();
        match ways.iter().find(|&&streamed| bytes(streamed) <= room) {
            Some(&streamed) => self.grown(streamed, room - bytes(streamed)),
            None => ways.last().copied().unwrap_or(Streamed::NOTHING),
        }
    }

    /// Larger panels, of what is left.
    fn grown(&self, least: Streamed, mut left: usize) -> Streamed {
        let mut grown = least;
        if least.feature_rows > 0 {
            // X twice, and F.
            let row = 3 * self.layout.architecture.features * F;
            let (grain, wanted) = (least.feature_rows, PANEL_BYTES / (row / 3));
            let more = (wanted.min(self.batch.nodes).saturating_sub(grain)).min(left / row) / grain * grain;
            grown.feature_rows += more;
            left -= more * row;
        }
        if least.walk_bytes > 0 {
            let more = PANEL_BYTES.min(self.walk_entries_bytes()).saturating_sub(least.walk_bytes).min(left / 2);
            grown.walk_bytes += more / 256 * 256;
        }
        grown
    }

    /// Rows that a panel of X is a multiple of; none where X cannot come in panels, or where it would be one.
    fn feature_grain(&self) -> Option<usize> {
        let grain = self.device.panel_rows(&self.batch, &self.walked, self.plan).filter(|_| self.is_one_graph())?;
        // Two panels of X and one of F must be less than X and F.
        (3 * grain < 2 * self.batch.nodes).then_some(grain)
    }

    /// Bytes of the smallest panel of the walk: the rows of a word that have most entries.
    fn least_walk_panel(&self) -> Option<usize> {
        if !self.device.copies() || !self.is_one_graph() || self.plan.space != Space::Classes {
            return None;
        }
        let graph = &self.dataset.graph;
        let adjacency = graph.adjacency();
        let group = |first: usize| {
            let last = (first + WALK_ROWS).min(graph.nodes());
            (adjacency.row_ptr[last] - adjacency.row_ptr[first]) as usize
        };
        let out = (0..graph.nodes()).step_by(WALK_ROWS).map(group).max().unwrap_or(0);
        let most = if graph.is_symmetric() {
            out
        } else {
            let mut into = vec![0usize; graph.nodes().div_ceil(WALK_ROWS)];
            adjacency.col_idx.iter().for_each(|&column| into[column as usize / WALK_ROWS] += 1);
            out.max(into.into_iter().max().unwrap_or(0))
        };
        let bytes = self.walk_panel_bytes(WALK_ROWS, most).next_multiple_of(256);
        (2 * bytes < self.walk_entries_bytes()).then_some(bytes)
    }

    /// Offsets, columns and weights of so many rows; every row may have an entry of its own.
    fn walk_panel_bytes(&self, rows: usize, entries: usize) -> usize {
        let weighted = self.dataset.graph.adjacency().weights.is_some() || self.config.walk.lazy;
        8 * (rows + 1) + F * (entries + rows + 2) * (1 + usize::from(weighted))
    }

    fn walk_entries_bytes(&self) -> usize {
        self.walk_panel_bytes(self.batch.nodes, self.batch.entries)
    }

    fn is_one_graph(&self) -> bool {
        self.dataset.graphs() == 1 && self.dataset.level == Level::Node
    }

    /// The rows of a step, where there is room for them twice: the next step's come while it is taken.
    fn table_panel(&self, room: usize) -> usize {
        let Some(table) = self.table.as_deref() else { return 0 };
        let (row, stretch) = (self.table_row_bytes(table).max(1), self.table_stretch(table));
        let least = row * stretch;
        let streamed = Streamed { table_bytes: least, ..Streamed::NOTHING };
        let left = room.saturating_sub(sum(&self.counted(streamed).tabled));
        let wanted = self.table_rows(table)[0].next_multiple_of(stretch) * row;
        // A row more has its number too.
        least + wanted.saturating_sub(least).min(left / (2 * row + F) * row) / least * least
    }

    /// How many panels there are, and what a step brings.
    pub(super) fn panels(&self, streamed: Streamed) -> Vec<PanelPlan> {
        let mut plans = Vec::new();
        // Two panels stay where they are.
        let passes = |panels: usize, passes: usize, bytes: usize| if panels > 2 { passes * bytes } else { 0 };
        let a = &self.layout.architecture;
        if streamed.feature_rows > 0 {
            let panels = self.batch.nodes.div_ceil(streamed.feature_rows);
            plans.push(PanelPlan {
                what: "features",
                panels,
                panel_bytes: streamed.feature_rows * a.features * F,
                step_bytes: passes(panels, 2, self.batch.nodes * a.features * F),
            });
        }
        if streamed.walk_bytes > 0 {
            let bytes = self.walk_entries_bytes();
            let panels = bytes.div_ceil(streamed.walk_bytes);
            let hops = 2 * a.hops.saturating_sub(1);
            plans.push(PanelPlan {
                what: "walk",
                panels,
                panel_bytes: streamed.walk_bytes,
                step_bytes: passes(panels.max(3), hops, bytes),
            });
        }
        if let (Some(table), true) = (self.table.as_deref(), streamed.table_bytes > 0) {
            let (rows, row, stretch) =
                (self.table_rows(table)[0], self.table_row_bytes(table), self.table_stretch(table));
            let size = (streamed.table_bytes / row.max(1) / stretch).max(1) * stretch;
            let panels = rows.div_ceil(size);
            plans.push(PanelPlan {
                what: "table of walks",
                panels,
                panel_bytes: streamed.table_bytes,
                step_bytes: rows * row * if panels > 2 { 2 } else { 1 },
            });
        }
        plans
    }
}
