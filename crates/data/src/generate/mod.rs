//! Datasets of any size with a known answer: planted communities, a power-law graph, and labels from a known teacher.
//!
//! They stand in for large public datasets where those cannot be fetched, and they test what no real dataset can:
//! whether a trained model finds the columns, responses and hops that made the labels ([`Truth`]). [`like`] gives the
//! sizes of known datasets. Invariant: everything is a function of (shape, seed), whatever the number of threads;
//! edges and features are the same on every machine, labels on every machine with the same mathematical library.

mod beside;
mod blocks;
mod communities;
mod edges;
mod features;
pub mod igb_layout;
pub mod made;
pub mod numbers;
pub mod ogb_archive;
mod shape;
mod tables;
mod teacher;
#[cfg(test)]
mod tests;
mod walk;

pub use edges::HOMOPHILY;
pub use features::{HOPS, INFORMATIVE};
pub use shape::{GraphShape, KNOWN, like};
pub use tables::Tables;
pub use teacher::{Planted, TEACHER_ACCURACY, TeacherResponse, TrueColumn, Truth};

use communities::Communities;
use features::Informative;
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Direction, Split};
use harmonia_graph::seed::{Purpose, Stream};

/// A dataset to be: edges, feature rows, labels and the split are made when asked for.
#[derive(Clone, Debug)]
pub struct Generator {
    shape: GraphShape,
    seed: u64,
    communities: Communities,
    informative: Vec<Informative>,
}

impl Generator {
    /// Prepares what everything else is a function of: communities and informative columns, about 6 bytes per node.
    ///
    /// # Errors
    /// A shape that cannot be generated; see [`GraphShape::check`].
    pub fn new(shape: GraphShape, seed: u64) -> Result<Generator> {
        shape.check()?;
        let communities = Communities::new(&shape, seed);
        let informative = Informative::draw(shape.features, shape.classes, seed);
        Ok(Generator { shape, seed, communities, informative })
    }

    /// Sizes it was made with, checked.
    pub fn shape(&self) -> &GraphShape {
        &self.shape
    }

    /// All that is random is a function of it.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How a graph is to be built from [`Generator::edges`].
    pub fn direction(&self) -> Direction {
        if self.shape.directed { Direction::Directed } else { Direction::Undirected }
    }

    /// Planted community of a node; its id must be below the number of nodes.
    pub fn community(&self, node: usize) -> usize {
        self.communities.of(node)
    }

    /// Train, validation and test nodes, each by id.
    pub fn split(&self) -> Split {
        let GraphShape { nodes, train, valid, test, split_by_id, .. } = self.shape;
        let mut order: Vec<u32> = (0..nodes as u32).collect();
        if !split_by_id {
            Stream::new(self.seed, Purpose::GenerateSplit, 0).rng().shuffle(&mut order);
        }
        let part = |start: usize, length: usize| {
            let mut ids = order[start..start + length].to_vec();
            ids.sort_unstable();
            ids
        };
        Split { train: part(0, train), valid: part(train, valid), test: part(train + valid, test) }
    }
}
