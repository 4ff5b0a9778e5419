//! Columns of X that are shown as one feature: the values of a category, or a number and its gaps.
//!
//! A term of a feature is the sum of the terms of its columns, so that nothing is lost or estimated; a category adds what its
//! own column adds less what the columns of all other values would have added. Invariant: groups tile the columns of X.

use harmonia_graph::dataset::Schema;
use std::ops::Range;

/// The columns of each feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    ranges: Vec<Range<usize>>,
}

impl Groups {
    /// Every column by itself.
    pub fn single(columns: usize) -> Groups {
        Groups { ranges: (0..columns).map(|k| k..k + 1).collect() }
    }

    /// The columns of a table, and behind them every column by itself.
    pub fn of(schema: &Schema, columns: usize) -> Groups {
        let mut ranges = schema.ranges();
        ranges.retain(|range| range.end <= columns);
        let end = ranges.last().map_or(0, |range| range.end);
        ranges.extend((end..columns).map(|k| k..k + 1));
        Groups { ranges }
    }

    /// How many features there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Never true: a model reads something.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Columns of a feature.
    pub fn columns(&self, feature: usize) -> Range<usize> {
        self.ranges[feature].clone()
    }

    /// Every feature, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.ranges.iter().cloned()
    }

    /// The feature that a column belongs to.
    pub fn of_column(&self, column: usize) -> usize {
        self.ranges.partition_point(|range| range.end <= column)
    }

    /// Whether every column is a feature of its own.
    pub fn is_single(&self) -> bool {
        self.ranges.iter().all(|range| range.len() == 1)
    }
}
