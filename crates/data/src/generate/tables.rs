//! The tables of a node task as the writers of public layouts take them; rows of features are made when asked for.

use super::Generator;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::Split;
use rayon::prelude::*;

/// A node task on one graph, borrowed.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    /// Rows of the list of edges.
    pub edges: &'a [(u32, u32)],
    /// d.
    pub features: usize,
    /// Writes the d features of a node.
    pub feature_row: &'a (dyn Fn(usize, &mut [f32]) + Sync),
    /// Class of each node; there are as many nodes as labels.
    pub labels: &'a [u32],
    /// Labels are below it.
    pub classes: usize,
    /// Train, validation and test nodes.
    pub split: &'a Split,
}

impl<'a> Tables<'a> {
    /// The tables of a generated dataset, from its parts; `feature_row` is `&|i, row| generator.feature_row(i, row)`.
    pub fn of(
        generator: &Generator,
        edges: &'a [(u32, u32)],
        feature_row: &'a (dyn Fn(usize, &mut [f32]) + Sync),
        labels: &'a [u32],
        split: &'a Split,
    ) -> Tables<'a> {
        let shape = generator.shape();
        Tables { edges, features: shape.features, feature_row, labels, classes: shape.classes, split }
    }

    /// n.
    pub fn nodes(&self) -> usize {
        self.labels.len()
    }

    /// Checks that ids and classes are in range, so that what is written can be read.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<()> {
        let nodes = self.nodes();
        if nodes == 0 || self.features == 0 {
            return Err(Error::Data(format!("nothing to write: {nodes} nodes with {} features", self.features)));
        }
        let outside = |&(i, j): &(u32, u32)| i as usize >= nodes || j as usize >= nodes;
        if let Some(row) = self.edges.par_iter().position_first(outside) {
            return Err(Error::Data(format!("edge {row} is {:?}: node ids must be below {nodes}", self.edges[row])));
        }
        if let Some(i) = self.labels.iter().position(|&label| label as usize >= self.classes) {
            return Err(Error::Data(format!(
                "label of node {i} is {}: labels must be in 0..{}",
                self.labels[i], self.classes
            )));
        }
        self.split.check(nodes)
    }

    /// The features of node `i`, into `row`.
    ///
    /// # Errors
    /// A value that is not finite: readers refuse those.
    pub(super) fn fill(&self, i: usize, row: &mut [f32]) -> Result<()> {
        (self.feature_row)(i, row);
        match row.iter().position(|value| !value.is_finite()) {
            Some(k) => Err(Error::Data(format!("feature {k} of node {i} is {}: features must be finite", row[k]))),
            None => Ok(()),
        }
    }
}
