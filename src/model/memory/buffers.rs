//! The buffers of a run, counted by sizes alone.

use super::{MemoryPlan, Planned, pair_bytes, shared};
use crate::architecture::Layout;
use crate::config::{ClassWeights, Config};
use crate::device::Device;
use crate::device::launcher::abi::HARMONIA_LONG_ROW;
use crate::loss::Objective;
use crate::model::SMOOTHNESS_POINTS;
use crate::model::panels::PanelPlan as Scoring;
use crate::plan::{BatchSizes, OwnSizes, Plan, SharedPlan, Space, Streamed};
use crate::tabulate::{TablePlan, kept};
use harmonia_graph::dataset::{Dataset, Level, Values};
use harmonia_graph::graph::{Neighbourhood, Split, Transition};
use harmonia_graph::walk_table::BLOCK_HATS;
use std::borrow::Cow;

/// Bytes of a float, and of an index.
pub(super) const F: usize = size_of::<f32>();
/// Stretches that sums over the rows of a table are cut into, at most; and rows of one, at least.
const TABLE_STRETCHES: usize = 512;
const TABLE_STRETCH: usize = 64;
/// The cells of a table.
const TABLE: &str = "table of walks";
/// What is computed of the logits that are scored.
const SCORES: &str = "scores, at most";
/// Validation units whose walks are drawn at once, at least.
const DRAWN: usize = 1 << 12;

/// What is counted.
pub(super) struct Run<'a, D> {
    pub(super) device: &'a D,
    pub(super) layout: &'a Layout,
    /// The model that walks: of shared classes, one with those of a rank.
    pub(super) walked: Cow<'a, Layout>,
    pub(super) plan: Plan,
    pub(super) dataset: &'a Dataset,
    pub(super) config: &'a Config,
    pub(super) table: Option<Cow<'a, TablePlan>>,
    /// What walks at once, at most.
    pub(super) batch: BatchSizes,
    /// Of a run that several processes share, what this is of it.
    pub(super) own: Option<(&'a SharedPlan, &'a OwnSizes)>,
}

/// Bytes of a copy of sparse features by rows and by columns, at most. Columns are cut into segments, each with two offsets
/// and its column.
fn sparse_bytes(batch: &BatchSizes, features: usize) -> usize {
    let segments = features + batch.nonzeros / 1024;
    8 * (batch.nodes + 1) + 12 * (features + 1) + 16 * batch.nonzeros + 20 * segments
}

/// Bytes of long rows, at most, where they are half of the entries: the row, its segments, where these begin and end.
fn long_row_bytes(batch: &BatchSizes) -> usize {
    let rows = (batch.entries + batch.nodes) / 2 / HARMONIA_LONG_ROW as usize;
    (rows + 1) * (4 + 4 + 2 * 16)
}

impl<'a, D: Device<Real = f32>> Run<'a, D> {
    pub(super) fn new(
        device: &'a D,
        layout: &'a Layout,
        plan: Plan,
        dataset: &'a Dataset,
        config: &'a Config,
        table: Option<&'a TablePlan>,
        own: Option<(&'a SharedPlan, &'a OwnSizes)>,
    ) -> Self {
        let batch = BatchSizes::largest(dataset, config.train.batch_size);
        let whole = Cow::Borrowed(layout);
        let Some((plans, sizes)) = own else {
            return Run {
                device,
                layout,
                walked: whole,
                plan,
                dataset,
                config,
                table: table.map(Cow::Borrowed),
                batch,
                own,
            };
        };
        // A model that could not be cut was refused when it was shared out.
        let walked = plans.walked(layout, sizes).ok().flatten().map_or(whole, Cow::Owned);
        let table = table.map(|table| Cow::Owned(shared::own_rows(table, plans, sizes)));
        let batch = plans.batch(batch, dataset, sizes);
        Run { device, layout, walked, plan, dataset, config, table, batch, own }
    }

    /// With so much of it in panels.
    pub(super) fn counted(&self, streamed: Streamed) -> MemoryPlan {
        let scored = self.scored();
        let mut tabled = if self.device.copies() || scored.is_some() { self.tabled(streamed) } else { Vec::new() };
        if !self.device.copies() {
            // A mapped file, counted with the data.
            tabled.retain(|(name, _)| *name != TABLE);
        }
        let walking = scored.map_or_else(|| self.walking(streamed), |scored| self.scoring(scored));
        let ((host, made), tabulating) = (self.host(), self.tabulating());
        let (device, panels) = (self.always(), self.panels(streamed));
        let scored_classes = scored.map(|scored| scored.classes);
        MemoryPlan { host, made, tabulating, device, walking, tabled, streamed, panels, scored_classes, allowed: None }
    }

    /// Panels of classes in which nodes are scored after training from a table; training that walks has room for a whole pass.
    fn scored(&self) -> Option<Scoring> {
        let states = self.config.engine.states;
        // Ranks that walk columns of their own do so all at once.
        let alone = self.table.is_some() && !self.own.is_some_and(|(shared, _)| shared.by_classes);
        alone.then(|| Scoring::of(self.device, self.dataset, self.layout, states)).flatten()
    }

    fn scoring(&self, scored: Scoring) -> Vec<Planned> {
        let (nodes, a) = (self.batch.nodes, &self.layout.architecture);
        vec![
            ("states of a panel of classes", scored.state_bytes(nodes, a.hops)),
            ("responses being scored", scored.work_bytes(nodes, a.features)),
            ("logits that are scored", self.scored_units() * a.outputs * F),
            (SCORES, self.score_bytes()),
        ]
    }

    /// Of the largest part of the split: what is computed of logits, on the host.
    fn score_bytes(&self) -> usize {
        Objective::scoring_bytes(self.scored_units(), self.layout.architecture.outputs)
    }

    /// Of the largest part of the split.
    pub(super) fn scored_units(&self) -> usize {
        let Split { train, valid, test } = &self.dataset.split;
        [train, valid, test].map(Vec::len).into_iter().max().unwrap_or(0)
    }

    /// What is there, and what is made of it.
    fn host(&self) -> (Vec<Planned>, Vec<Planned>) {
        let Run { device, layout, plan, dataset, batch, .. } = self;
        let matrix = batch.nodes * layout.architecture.features * F;
        let adjacency = dataset.graph.adjacency();
        let mut host = vec![("features", dataset.features.bytes()), ("graph", adjacency.bytes())];
        let mut made = match self.of_nodes() {
            None => vec![("walk", self.walk_bytes(dataset.graph.nodes(), adjacency.entries()))],
            Some(_) => self.own_nodes(),
        };
        if device.copies() {
            made.push((SCORES, self.score_bytes()));
            if !plan.sparse && !matches!(dataset.features.values(), Values::Dense(_)) {
                made.push(("features, widened to copy", matrix));
            }
        } else {
            made.push(("degrees, inverted", batch.nodes * F));
            if let Values::Sparse(sparse) = dataset.features.values() {
                // By columns beside the rows; or made dense.
                let bytes = if plan.sparse { 3 * sparse.values.len() * F } else { matrix };
                made.push(("features as read, at most", bytes));
            }
        }
        if let Some(table) = self.table.as_deref() {
            match self.end_bytes(table) {
                0 => {}
                ends => made.push(("features at ends of walks", ends)),
            }
            if !device.copies() {
                // What ranks have made together is in no file.
                let is_kept = self.own.is_none() && kept::is_kept(dataset, table);
                let to = if is_kept { &mut host } else { &mut made };
                to.push((TABLE, table.bytes()));
            }
        }
        (host, made)
    }

    /// States of a strip of columns and the values of a block, beside the walk.
    fn tabulating(&self) -> Vec<Planned> {
        let made = self.table.as_deref().map(|table| {
            // A block has all units before its rows are dealt out.
            let rows = self.own.map_or(1, |(shared, _)| shared.sizes.ranks);
            table.making_bytes(self.dataset.graph.nodes(), rows)
        });
        let found = self.of_nodes().map(|_| ("nodes of others, while they are found", 2 * F * self.batch.entries));
        made.map(|bytes| ("states while a table is made", bytes)).into_iter().chain(found).collect()
    }

    fn always(&self) -> Vec<Planned> {
        let (layout, a) = (self.layout, &self.layout.architecture);
        let mut always = vec![
            ("parameters", layout.len() * F),
            ("best parameters, kept and scored", 2 * layout.len() * F),
            ("gradient", layout.len() * F),
            ("optimizer moments", 2 * layout.len() * F),
            ("routing", 4 * a.features * a.active * F),
            ("routing noise", a.features * a.experts * F),
            ("hop weights and gradient", 2 * a.hops * a.features * F),
        ];
        if self.device.copies() {
            always.push(("parameters and moments of the epoch before", 3 * layout.len() * F));
        }
        if self.own.is_some() {
            // On its way: parts to others, those of others, sums.
            always.push(("gradient between processes", 4 * layout.len() * F));
        }
        if let Some(ends) = self.table.as_deref().map(|table| self.end_bytes(table)).filter(|&ends| ends > 0)
            && !self.device.copies()
        {
            always.push(("responses at ends of walks", ends));
        }
        always
    }

    fn walking(&self, streamed: Streamed) -> Vec<Planned> {
        let Run { device, walked, plan, dataset, config, batch, .. } = self;
        let a = &walked.architecture;
        let (matrix, rows) = (batch.nodes * a.features * F, streamed.feature_rows);
        let mut walking = Vec::new();
        if device.copies() {
            walking.push(match rows {
                0 if plan.sparse => ("features, copied", sparse_bytes(batch, a.features)),
                0 => ("features, copied", matrix),
                _ => ("features, two panels", 2 * rows * a.features * F),
            });
            if dataset.level == Level::Graph && plan.space == Space::Classes {
                // One weight per hop, and the graph it counts in.
                walking.push(("node weights, copied", batch.nodes * (a.hops + 1) * F));
            } else if streamed.walk_bytes > 0 {
                walking.push(("degrees and long rows", batch.nodes * F + 2 * long_row_bytes(batch)));
                walking.push(("walk, two panels", 2 * streamed.walk_bytes));
            } else {
                walking.push(("walk, copied", self.walk_bytes(batch.nodes, batch.entries)));
            }
        }
        walking.push(match rows {
            0 if plan.sparse => ("responses F", (a.features + batch.nonzeros) * F),
            0 => ("responses F", matrix),
            _ => ("responses F of a panel", rows * a.features * F),
        });
        match plan.space {
            Space::Features => walking.push(("states H, dH, dF", matrix)),
            Space::Classes => {
                // Rows are padded to at most seven columns more.
                let width = a.outputs.next_multiple_of(8).min(2 * a.outputs);
                let states = config.engine.states.bytes();
                walking.push(("states of all hops", batch.nodes * a.hops * width * states));
            }
            Space::Table => walking.push(("states H, dH", batch.rows * a.features * F)),
        }
        if let Some(bytes) = pair_bytes(dataset, a) {
            walking.push(("walks between pairs, at most", usize::try_from(bytes).unwrap_or(usize::MAX)));
        }
        if dataset.level == Level::Node {
            // Of a step's targets and of the rows that are scored.
            let sets = 2 * Neighbourhood::planned_bytes(batch.nodes, a.scoped_hops().saturating_sub(1));
            let long = if device.copies() { 2 * a.hops * long_row_bytes(batch) } else { 0 };
            walking.push(("rows near targets, at most", sets + long));
        }
        let targets = self.target_words();
        if device.copies() && config.train.batch_size > 0 {
            walking.push(match dataset.graphs() {
                1 => ("labels of all steps", (batch.rows + config.train.batch_size) * (targets + 1) * F),
                _ => ("all graphs, where batches are put together", self.collection_bytes(targets)),
            });
        }
        // Gathered where they are computed, with the numbers of their rows; and those of the rows that have targets.
        let (scored, train) = (self.scored_units(), &dataset.split.train);
        walking.extend([
            ("hop states and sums", device.scratch_bytes(batch, walked, *plan)),
            ("logits and gradient", 2 * batch.rows * a.outputs * F),
            ("labels", batch.rows * targets * F),
            ("points of smoothness", self.smoothness_bytes()),
            ("logits that are scored", (scored * (self.layout.architecture.outputs + 1) + train.len()) * F),
        ]);
        walking.extend(self.between());
        if !device.copies() {
            walking.push((SCORES, self.score_bytes()));
        }
        walking
    }

    /// Of points that responses are looked at, F and dF there, and what is found of each feature; nothing where nobody looks.
    fn smoothness_bytes(&self) -> usize {
        let Run { layout, config, .. } = self;
        let points = SMOOTHNESS_POINTS * layout.architecture.features;
        if config.train.smoothness.is_asked() { (6 * points + layout.len()) * F } else { 0 }
    }

    /// Words that a row of logits is held against, and its weight.
    pub(super) fn target_words(&self) -> usize {
        let Run { layout, dataset, config, .. } = self;
        let weighted =
            dataset.weights.is_some() || config.train.class_weights != ClassWeights::None || config.train.bagging;
        Objective::of(&dataset.labels).width(layout.architecture.outputs) + usize::from(weighted)
    }

    /// Of everything that batches of graphs are put together from.
    fn collection_bytes(&self, targets: usize) -> usize {
        let Run { layout, plan, dataset, config, .. } = self;
        let (a, all) = (&layout.architecture, BatchSizes::all(dataset));
        let features = if plan.sparse { sparse_bytes(&all, a.features) } else { all.nodes * a.features * F };
        let reach = match dataset.level == Level::Graph && plan.space == Space::Classes {
            true => all.nodes * (a.hops + 1) * F,
            false => self.walk_bytes(all.nodes, all.entries),
        };
        let labels = all.rows * (targets + 1) * F + 8 * (dataset.graphs() + 1);
        // Numbers of nodes and graphs while a batch is put together; of sparse features two for each column and graph.
        let numbers = 8 * all.nodes + 32 * (dataset.graphs() + 1);
        let columns = if plan.sparse { 8 * a.features * config.train.batch_size } else { 0 };
        features + reach + labels + numbers + columns
    }

    /// Of a step and of the validation units beside it.
    fn tabled(&self, streamed: Streamed) -> Vec<Planned> {
        let Some(table) = self.table.as_deref() else { return Vec::new() };
        let (a, d) = (&self.layout.architecture, self.layout.architecture.features);
        let [step, valid] = self.table_rows(table);
        let ends = table.walks * table.contents.steps();
        // Units, points of the grid, a row of zeros, ends of walks.
        let nodes = [step, valid].map(|rows| rows * (1 + ends) + table.grid.most() + 1);
        let rows = step + valid;
        let plan = Plan { space: Space::Table, sparse: false, ..self.plan };
        let scratch: usize = (nodes.into_iter().zip([step, valid]))
            .map(|(nodes, rows)| {
                let sizes = BatchSizes { nodes, entries: 0, rows, nonzeros: 0 };
                self.device.scratch_bytes(&sizes, self.layout, plan)
            })
            .sum();
        let targets = self.target_words();
        let panel = streamed.table_bytes;
        let parts = step.div_ceil(self.table_stretch(table)).max(1);
        let widest = table.width().min(BLOCK_HATS * table.contents.steps());
        let partial = parts * (if panel > 0 { table.width() } else { widest } + 3 * d);
        let sums = F * (partial + 5 * table.width() + 4 * d);
        // What corrects a table: a sum per stretch, hop or point and feature.
        let walked = if ends > 0 { F * (parts + 2) * (table.contents.steps() + table.grid.most()) * d } else { 0 };
        let collected = self.device.copies() && self.config.train.batch_size > 0 && panel == 0 && table.walks == 0;
        let mut tabled = vec![
            match panel {
                0 => (TABLE, table.bytes()),
                _ => ("table of walks, two panels", 2 * panel + panel / self.table_row_bytes(table).max(1) * F),
            },
            ("sums over its rows, at most", sums + walked),
            ("features of its units, copied", (nodes[0] + nodes[1]) * d * F),
            ("responses of its units", (nodes[0] + nodes[1]) * d * F),
            ("states of its units", rows * d * F),
            ("pieces and sums of its units", scratch),
            ("logits of its units", rows * (3 * a.outputs + targets + 4) * F),
        ];
        if collected {
            let units = table.contents.units.len() + table.grid.most() + 1;
            tabled.push(("all its units, where batches are put together", units * (d + targets + 3) * F));
        }
        tabled
    }

    /// Units of a step, and validation units that are there beside it.
    pub(super) fn table_rows(&self, table: &TablePlan) -> [usize; 2] {
        let (split, size) = (&self.dataset.split, self.config.train.batch_size);
        let step = if size == 0 { split.train.len() } else { size.min(split.train.len()) };
        let most = if table.walks > 0 { size.max(DRAWN) } else { usize::MAX };
        let rows = [step, split.valid.len().min(most)];
        self.own_table_rows(rows)
    }

    pub(super) fn table_row_bytes(&self, table: &TablePlan) -> usize {
        table.width() * table.bits.bytes()
    }

    /// Rows that belong together in a panel, for their sums are taken one after the other.
    pub(super) fn table_stretch(&self, table: &TablePlan) -> usize {
        let most = self.table_rows(table).into_iter().max().unwrap_or(0);
        most.div_ceil(TABLE_STRETCHES).max(TABLE_STRETCH)
    }

    /// X at the ends of the walks of a step.
    fn end_bytes(&self, table: &TablePlan) -> usize {
        self.table_rows(table)[0] * table.walks * table.contents.steps() * table.grid.features() * F
    }

    pub(super) fn walk_bytes(&self, nodes: usize, entries: usize) -> usize {
        Transition::planned_bytes(&self.dataset.graph, self.config.walk, nodes, entries)
    }
}
