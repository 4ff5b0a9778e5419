//! Batches told by numbers, for a device that has everything they are made of: graphs of a dataset, rows of a table of walks, or,
//! on one graph, targets.

use super::{Batch, Batches, Reach, TableRows};
use harmonia_graph::dataset::Level;
use std::collections::HashSet;

/// What a batch is made of.
#[derive(Clone, Debug)]
pub enum Selection {
    /// Graphs of a dataset.
    Graphs(GraphSelection),
    /// Rows of a table of walks.
    Rows(TableRows),
}

/// Some graphs of a dataset, in order, and how large the batch is that they make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphSelection {
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
    /// What a device has to hold so that numbers say everything about batches of some of the `units`; none where they do not,
    /// for walks are drawn. Of a table these are all its rows, in their order.
    pub fn collected(&self, units: &[u32]) -> Option<Batch> {
        match &self.reach {
            // A process has other rows than its targets' numbers say.
            _ if self.shared.is_some() => None,
            Reach::Table(_) if self.draws() => None,
            Reach::Table(rows) => Some(self.tabulated(rows, &rows.table.contents.units, None)),
            Reach::Walk(_) | Reach::Weights(_) => Some(self.whole(units)),
        }
    }

    /// Rows of the table, or the graphs that hold `units` in order of first appearance. Who has what [`Batches::collected`] says
    /// gets from it what [`Batches::holding`] would make; of graphs, where `units` are all that were collected of these.
    pub fn selection(&self, units: &[u32]) -> Selection {
        match &self.reach {
            Reach::Table(rows) => Selection::Rows(rows.of_units(units)),
            Reach::Walk(_) | Reach::Weights(_) => Selection::Graphs(self.graph_selection(units)),
        }
    }

    fn graph_selection(&self, units: &[u32]) -> GraphSelection {
        let (mut seen, mut graphs) = (HashSet::new(), Vec::new());
        let of_unit = units.iter().map(|&unit| self.dataset.graph_of(unit as usize));
        graphs.extend(of_unit.filter(|&graph| seen.insert(graph)).map(|graph| graph as u32));
        let sum = |size: &dyn Fn(usize, usize) -> usize| -> usize {
            graphs.iter().map(|&g| size(self.graph_ptr[g as usize], self.graph_ptr[g as usize + 1])).sum()
        };
        let between = |ptr: &[u64]| sum(&|first, end| (ptr[end] - ptr[first]) as usize);
        let nodes = sum(&|first, end| end - first);
        GraphSelection {
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
