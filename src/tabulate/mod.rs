//! Tables of walks: whether a run trains from one, how it is made, where it is kept.
//!
//! What a table is says [`harmonia_graph::walk_table`]. Every block of features is computed by itself: hats of all nodes are
//! carried along the walk a strip of columns at a time, and read off at the units. The same bits for any number of
//! threads, and for blocks made in another sitting.

mod graphs;
pub mod kept;
mod nodes;
mod plan;
mod scale;
mod shared;

pub use kept::Tables;
pub use plan::{TablePlan, Tabulation};

use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::Result;
use harmonia_graph::graph::{NodeWeights, Transition, Walk};
use harmonia_graph::walk_table::{Block, WalkTable, blocks_of};
use harmonia_graph::watch::Watch;
use std::ops::Range;

/// Makes the blocks of a table.
pub struct Builder<'a> {
    dataset: &'a Dataset,
    plan: &'a TablePlan,
    transition: Transition,
    /// Of graph tasks, what every node counts at each hop.
    weights: Option<NodeWeights>,
    blocks: Vec<Range<usize>>,
}

impl<'a> Builder<'a> {
    /// Of a dataset as training sees it.
    pub fn new(dataset: &'a Dataset, walk: Walk, plan: &'a TablePlan) -> Self {
        let transition = Transition::new(&dataset.graph, walk);
        let hops = plan.contents.hops;
        let weights = (dataset.level == Level::Graph).then(|| NodeWeights::new(&transition, hops));
        Builder { dataset, plan, transition, weights, blocks: blocks_of(&plan.grid) }
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The features of one.
    pub fn features(&self, at: usize) -> Range<usize> {
        self.blocks[at].clone()
    }

    /// One of them.
    ///
    /// # Errors
    /// A stop was asked for.
    pub fn block(&self, at: usize, watch: &Watch<'_>) -> Result<Block> {
        let features = self.blocks[at].clone();
        let values = match &self.weights {
            Some(weights) => graphs::values(self.dataset, weights, self.plan, features.clone()),
            None => nodes::values(self.dataset, &self.transition, self.plan, features.clone(), watch)?,
        };
        let width = self.plan.contents.steps() * self.plan.grid.stored_of(features.clone());
        let (cells, scales) = scale::cells(values, width, self.plan.bits);
        Ok(Block { features, cells, scales })
    }

    /// All of them.
    ///
    /// # Errors
    /// A stop was asked for.
    pub fn table(&self, watch: &Watch<'_>) -> Result<WalkTable> {
        let total = self.blocks() as u64;
        let mut blocks = Vec::with_capacity(self.blocks());
        for at in 0..self.blocks() {
            watch.check()?;
            watch.progress("tabulating walks", at as u64, total);
            blocks.push(self.block(at, watch)?);
        }
        watch.progress("tabulating walks", total, total);
        WalkTable::new(self.plan.grid.clone(), self.plan.contents.clone(), blocks)
    }
}
