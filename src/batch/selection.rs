//! Batches told by the numbers of their graphs, for a device that has all graphs of a dataset.

use super::{Batch, Batches, Reach};
use harmonia_graph::dataset::Level;
use std::collections::HashSet;

/// Some graphs of a dataset, in order, and how large the batch is that they make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Which graphs; each once.
    pub graphs: Vec<u32>,
    /// Nodes of all of them.
    pub nodes: usize,
    /// Rows of their logits.
    pub rows: usize,
    /// Entries of their walk matrix; none where nothing walks.
    pub entries: usize,
    /// Non-zeros of their features, where these are held as sparse rows.
    pub nonzeros: Option<usize>,
    /// Targets.
    pub units: usize,
}

impl Batches<'_> {
    /// Whether numbers of graphs say everything about a batch.
    pub fn are_graphs(&self) -> bool {
        self.dataset.graphs() > 1 && !matches!(self.reach, Reach::Table(_))
    }

    /// The graphs that hold `units`, in order of first appearance. Who makes the batch of all graphs with some targets, of which
    /// `units` are those of their graphs, gets from it what [`Batches::holding`] would make.
    pub fn selection(&self, units: &[u32]) -> Selection {
        let (mut seen, mut graphs) = (HashSet::new(), Vec::new());
        let of_unit = units.iter().map(|&unit| self.dataset.graph_of(unit as usize));
        graphs.extend(of_unit.filter(|&graph| seen.insert(graph)).map(|graph| graph as u32));
        let sum = |size: &dyn Fn(usize, usize) -> usize| -> usize {
            graphs.iter().map(|&g| size(self.graph_ptr[g as usize], self.graph_ptr[g as usize + 1])).sum()
        };
        let between = |ptr: &[u64]| sum(&|first, end| (ptr[end] - ptr[first]) as usize);
        let nodes = sum(&|first, end| end - first);
        Selection {
            nodes,
            rows: if self.dataset.level == Level::Node { nodes } else { graphs.len() },
            entries: match &self.reach {
                Reach::Walk(transition) => between(&transition.matrix().row_ptr),
                Reach::Weights(_) | Reach::Table(_) => 0,
            },
            nonzeros: self.features.row_ptr().map(between),
            units: units.len(),
            graphs,
        }
    }
}

impl Batch {
    /// Rows that have more entries than `most` in the walk matrix or its transpose.
    pub fn has_longer_rows(&self, most: u64) -> bool {
        let longer = |ptr: &[u64]| ptr.windows(2).any(|pair| pair[1] - pair[0] > most);
        self.transition().is_some_and(|walk| longer(&walk.matrix().row_ptr) || longer(&walk.transposed().row_ptr))
    }
}
