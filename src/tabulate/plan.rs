//! Whether a run trains from a table, and from which.

use super::nodes::strip_columns;
use crate::architecture::Layout;
use crate::config::{Config, DropoutPlace, MOST_TABLE_POINTS, MOST_WALKS, TableUse};
use crate::plan::{DatasetSizes, Plan};
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::units::bytes as shown;
use harmonia_graph::walk_table::{CellBits, Contents, Grid, blocks_of};

/// Bytes up to which cells are not rounded at all, and rows of test units come along.
const SMALL: usize = 64 << 20;
/// Fewest points that a budget leads to where no walks correct what lies between them.
const FEWEST_POINTS: usize = 5;
/// Points that a budget leads to with walks, at last one: then walks alone say what is far.
const CORRECTED_POINTS: [usize; 3] = [3, 2, 1];
/// Neighbours of a node, on average, whose masks a table takes for their mean without being told to. On Cora, which has four, training from a
/// table was 0.2 ± 0.3 points below walking: no loss was shown there, and no gain in time either.
const FEWEST_SOURCES: f64 = 8.0;
/// What training from a table that interpolates must save at least: bytes moved, a minute or so.
const WORTH_IT: f64 = 1e12;

/// A table to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct TablePlan {
    /// Points that were asked for, at most, of a feature.
    pub points: usize,
    /// Points of every feature.
    pub grid: Grid,
    /// Which walks, for which units.
    pub contents: Contents,
    /// Of a cell.
    pub bits: CellBits,
    /// Walks of each unit and step that correct what the table interpolates; 0: none.
    pub walks: usize,
}

/// What was decided, and why.
#[derive(Clone, Debug, PartialEq)]
pub enum Tabulation {
    /// Steps walk.
    Walk {
        /// For people, where a table was thought of.
        why: Option<String>,
    },
    /// Steps read this table.
    Table(Box<TablePlan>),
}

impl Tabulation {
    /// The table to be made.
    pub fn plan(&self) -> Option<&TablePlan> {
        match self {
            Tabulation::Table(plan) => Some(plan),
            Tabulation::Walk { .. } => None,
        }
    }

    /// Decides for a run on a dataset as training sees it, whose steps would otherwise go by `plan`.
    ///
    /// # Errors
    /// `engine.table = force` where there can be none.
    pub fn choose(config: &Config, dataset: &Dataset, layout: &Layout, plan: Plan) -> Result<Tabulation> {
        let forced = config.engine.table == TableUse::Force;
        if config.engine.table == TableUse::Off {
            return Ok(Tabulation::Walk { why: None });
        }
        if !forced && !layout.architecture.family.is_harmonia() {
            return Ok(Tabulation::Walk { why: None });
        }
        let costs = Costs::of(config, dataset, layout, plan, DatasetSizes::of(dataset));
        let is_long = costs.walking >= WORTH_IT;
        // Of a short training nobody asks why it walks.
        let walk = |why: &str| match forced {
            true => Err(Error::Config(format!("engine.table = force, but {why}"))),
            false => Ok(Tabulation::Walk { why: is_long.then(|| why.to_string()) }),
        };
        if config.train.dropout > 0.0 && config.train.dropout_place == DropoutPlace::Hidden {
            return walk("train.dropout_place = hidden drops hidden units of experts node by node");
        }
        if !layout.architecture.family.is_harmonia() {
            return walk("tables are of walks of HARMONIA");
        }
        if dataset.level == Level::Node && layout.architecture.hops == 1 {
            return walk("model.hops = 1 has no walks");
        }
        if !forced && !is_long && dataset.level == Level::Node {
            return Ok(Tabulation::Walk { why: None });
        }
        let Some(chosen) = TablePlan::within(config, dataset, layout.architecture.hops) else {
            return walk(&format!(
                "a table of this graph would have more than {} (engine.table_bytes), and engine.walks = 0",
                shown(config.engine.table_bytes as u64)
            ));
        };
        let masks = config.train.dropout > 0.0 && config.train.dropout_place == DropoutPlace::Input;
        let sources = costs.sizes.entries as f64 / costs.sizes.nodes.max(1) as f64;
        if !forced && masks && dataset.level == Level::Node && sources < FEWEST_SOURCES {
            return walk(
                "nodes have so few neighbours that masks of inputs (train.dropout) count for more than their mean",
            );
        }
        let table = costs.table(&chosen, dataset);
        let worth = match chosen.grid.is_exact() && !masks {
            true => table < costs.walking,
            false => table + WORTH_IT < costs.walking,
        };
        match forced || worth {
            true => Ok(Tabulation::Table(Box::new(chosen))),
            false => Ok(Tabulation::Walk { why: None }),
        }
    }
}

impl TablePlan {
    /// A table of walks of fewer than `hops` steps, with at most `points` points of a feature, whatever it takes.
    pub fn with(dataset: &Dataset, hops: usize, points: usize, bits: CellBits) -> TablePlan {
        TablePlan { bits, ..TablePlan::new(dataset, points, hops) }
    }

    /// The finest table that the budget allows: fewer points, then points so few that walks have to correct them.
    fn within(config: &Config, dataset: &Dataset, hops: usize) -> Option<TablePlan> {
        let engine = config.engine;
        let halves = |&points: &usize| {
            (points > FEWEST_POINTS).then(|| (points - (points - 1) / 2).max(FEWEST_POINTS).min(points - 1))
        };
        let plain = std::iter::successors(Some(engine.table_points), halves);
        let corrected = CORRECTED_POINTS.into_iter().filter(|&points| points < engine.table_points);
        let samples = engine.walks > 0 && dataset.level == Level::Node;
        plain.chain(corrected.filter(|_| samples)).find_map(|points| {
            let walks = if points == 1 || points < engine.table_points.min(FEWEST_POINTS) { engine.walks } else { 0 };
            if points == 1 && walks == 0 {
                return None;
            }
            let plan = TablePlan { walks, ..TablePlan::new(dataset, points, hops) };
            let bits = match CellBits::of(engine.table_bits) {
                Some(asked) => asked,
                None if plan.bytes_by(CellBits::Float) <= SMALL.min(engine.table_bytes) => CellBits::Float,
                // Every column has a scale of its own: what is rounded is a small part of what is interpolated.
                None => CellBits::Eight,
            };
            (plan.bytes_by(bits) <= engine.table_bytes).then_some(TablePlan { bits, ..plan })
        })
    }

    /// Rows for all units of the split where they take little room, else for those that train and validate.
    fn new(dataset: &Dataset, points: usize, hops: usize) -> TablePlan {
        let grid = Grid::of(&dataset.features, points);
        let split = &dataset.split;
        let sorted = |parts: &[&[u32]]| {
            let mut units = parts.concat();
            units.sort_unstable();
            units.dedup();
            units
        };
        let contents = |units: Vec<u32>| {
            let size = |&graph: &u32| dataset.graph_nodes(graph as usize).len() as f32;
            let sizes = (dataset.level == Level::Graph).then(|| units.iter().map(size).collect());
            Contents { hops, level: dataset.level, units, sizes }
        };
        let all = contents(sorted(&[&split.train, &split.valid, &split.test]));
        let plan = TablePlan { points, grid, contents: all, bits: CellBits::Float, walks: 0 };
        if plan.bytes_by(CellBits::Float) <= SMALL {
            return plan;
        }
        TablePlan { contents: contents(sorted(&[&split.train, &split.valid])), ..plan }
    }

    /// What comes nearer to the truth, where the settings allow it: twice as many points between the ends, walks that correct what
    /// lies between them, or twice as many of these.
    pub fn better(&self, config: &Config, dataset: &Dataset) -> Option<TablePlan> {
        if self.grid.is_exact() {
            return None;
        }
        if self.walks > 0 {
            let walks = 2 * self.walks;
            return (walks <= MOST_WALKS).then(|| TablePlan { walks, ..self.clone() });
        }
        let points = 2 * self.points - 1;
        let finer = (points <= MOST_TABLE_POINTS).then(|| self.finer(config, dataset, points));
        let walks = config.engine.walks;
        let corrected = || (walks > 0 && dataset.level == Level::Node).then(|| TablePlan { walks, ..self.clone() });
        finer.filter(|finer| finer.bytes() <= config.engine.table_bytes).or_else(corrected)
    }

    /// The same table with more points, and more bits where nobody asked for these: either may be what was missing.
    pub fn finer(&self, config: &Config, dataset: &Dataset, points: usize) -> TablePlan {
        let bits = if config.engine.table_bits == 0 { self.bits.max(CellBits::Sixteen) } else { self.bits };
        TablePlan { points, bits, grid: Grid::of(&dataset.features, points), ..self.clone() }
    }

    /// Bytes that an epoch of training reads, beside what all ways read.
    pub fn epoch_bytes(&self, dataset: &Dataset) -> f64 {
        // X and F of the ends of walks and their gradients, each read and written.
        let ends = self.walks * self.contents.steps() * self.grid.features() * 6 * size_of::<f32>();
        let row = (self.width() * self.bits.bytes() + ends) as f64;
        row * (2.0 * dataset.split.train.len() as f64 + dataset.split.valid.len() as f64)
    }

    /// Cells of a row.
    pub fn width(&self) -> usize {
        self.contents.steps() * self.grid.stored_of(0..self.grid.features())
    }

    fn bytes_by(&self, bits: CellBits) -> usize {
        self.contents.units.len() * self.width() * bits.bytes()
    }

    /// Bytes of its cells.
    pub fn bytes(&self) -> usize {
        self.bytes_by(self.bits)
    }

    /// Bytes that making it takes at most beside the walk and the cells of its blocks: two states of a strip, values of a block before they are
    /// rounded, and its cells once more while they are written. `ranks`: of a table of which these are the rows of one of so many.
    pub fn making_bytes(&self, nodes: usize, ranks: usize) -> usize {
        let blocks = blocks_of(&self.grid);
        let widest = blocks.iter().map(|features| self.grid.stored_of(features.clone())).max().unwrap_or(0);
        let values = ranks * self.contents.units.len() * self.contents.steps() * widest;
        let states = match self.contents.level {
            Level::Node => 2 * nodes * strip_columns(nodes).min(widest) * size_of::<f32>(),
            Level::Graph => nodes * self.contents.hops * size_of::<f64>(),
        };
        states + values * (size_of::<f32>() + 2 * self.bits.bytes()) + nodes * size_of::<f32>()
    }

    /// Bytes that making it moves.
    pub fn build_bytes(&self, sizes: DatasetSizes) -> f64 {
        let (nodes, entries) = (sizes.nodes as f64, sizes.entries as f64);
        let columns = self.grid.stored_of(0..self.grid.features()) as f64;
        if self.contents.level == Level::Graph {
            return nodes * columns * self.contents.hops as f64 * 8.0;
        }
        let strips = (columns / strip_columns(sizes.nodes) as f64).ceil();
        let hops = self.contents.steps() as f64 - 1.0;
        let share = self.contents.units.len() as f64 / nodes;
        // Whole hops, and the last at the units.
        (hops + share) * (entries * (4.0 * strips + 4.0 * columns) + 3.0 * 4.0 * nodes * columns)
    }
}

/// Bytes that a whole training moves, or what takes as long.
struct Costs {
    walking: f64,
    epochs: f64,
    own: f64,
    sizes: DatasetSizes,
}

impl Costs {
    fn of(config: &Config, dataset: &Dataset, layout: &Layout, plan: Plan, sizes: DatasetSizes) -> Costs {
        let step = Plan::cost(plan.space, config.engine, sizes, layout).total();
        let train = dataset.split.train.len();
        let whole_graph = dataset.graphs() == 1 && config.train.batch_size > 0;
        let steps = if whole_graph { train.div_ceil(config.train.batch_size.max(1)) } else { 1 };
        let epochs = config.train.epochs as f64;
        // Validation is a pass forward.
        let walking = epochs * (steps as f64 + 0.5) * step;
        let (units, a) = ((train + dataset.split.valid.len()) as f64, &layout.architecture);
        // F, H and their gradients of the units themselves, and the products of the readout.
        let own = units * a.features as f64 * (6.0 * 4.0 + 6.0 * a.outputs as f64 / 8.0);
        Costs { walking, epochs, own, sizes }
    }

    fn table(&self, plan: &TablePlan, dataset: &Dataset) -> f64 {
        plan.build_bytes(self.sizes) + self.epochs * (plan.epoch_bytes(dataset) + self.own)
    }
}
