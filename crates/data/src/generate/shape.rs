//! Sizes of a generated dataset: those of a known dataset, or a part or a multiple of them.
//!
//! Scaling keeps what a model sees of one node (features, classes, mean degree) and changes how many nodes there are.
//! Invariant: a [`GraphShape`] that [`GraphShape::check`] accepts can be generated.

use harmonia_graph::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Nodes below which no dataset is scaled: every part of a split needs some.
const FEWEST_NODES: usize = 64;
/// Nodes a class has at least, on average.
const FEWEST_PER_CLASS: usize = 2;
/// Larger than any dataset this is meant for; beyond it a number is taken for a slip of the keyboard.
const MOST_EDGE_ROWS: usize = 1 << 32;
const MOST_FEATURES: usize = 1 << 20;
const MOST_CLASSES: usize = 1 << 16;

/// How large a dataset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphShape {
    /// n.
    pub nodes: usize,
    /// Rows of the list of edges; an undirected edge is one row.
    pub edge_rows: usize,
    /// d.
    pub features: usize,
    /// Classes, and planted communities.
    pub classes: usize,
    /// Whether a row (i, j) only lets i read from j.
    pub directed: bool,
    /// Nodes to train on.
    pub train: usize,
    /// Nodes that choose the epoch.
    pub valid: usize,
    /// Nodes that are only scored.
    pub test: usize,
    /// Whether train, validation and test nodes follow each other by id; drawn at random otherwise.
    pub split_by_id: bool,
}

/// Names [`like`] knows.
pub const KNOWN: [&str; 6] = ["ogbn-products", "ogbn-arxiv", "igb-small", "cora", "citeseer", "tolokers"];

/// Sizes of a known dataset; the name in any case.
pub fn like(name: &str) -> Option<GraphShape> {
    let shape = |nodes, edge_rows, features, classes, [train, valid, test]: [usize; 3]| {
        let (directed, split_by_id) = (false, false);
        GraphShape { nodes, edge_rows, features, classes, directed, train, valid, test, split_by_id }
    };
    Some(match name.to_ascii_lowercase().as_str() {
        "ogbn-products" => shape(2_449_029, 61_859_140, 100, 47, [196_615, 39_323, 2_213_091]),
        "ogbn-arxiv" => GraphShape { directed: true, ..shape(169_343, 1_166_243, 128, 40, [90_941, 29_799, 48_603]) },
        "igb-small" => GraphShape {
            directed: true,
            split_by_id: true,
            ..shape(1_000_000, 12_070_502, 1024, 19, [600_000, 200_000, 200_000])
        },
        "cora" => shape(2708, 5278, 1433, 7, [140, 500, 1000]),
        "citeseer" => shape(3327, 4552, 3703, 6, [120, 500, 1000]),
        "tolokers" => shape(11_758, 519_000, 10, 2, [5879, 2939, 2940]),
        _ => return None,
    })
}

impl GraphShape {
    /// The same dataset with `factor` times the nodes, edge rows and split sizes, and not fewer than can be split.
    ///
    /// # Errors
    /// A factor that is not positive, or one that makes the dataset larger than ids can count.
    pub fn scaled(&self, factor: f64) -> Result<GraphShape> {
        if !(factor.is_finite() && factor > 0.0) {
            return Err(Error::Config(format!("scale {factor}: expected a number above 0, for example 0.1")));
        }
        let times = |count: usize, factor: f64| (count as f64 * factor).round() as usize;
        let nodes = times(self.nodes, factor).max(FEWEST_NODES).max(FEWEST_PER_CLASS.saturating_mul(self.classes));
        // What the floor on nodes makes of the factor: the mean degree stays.
        let factor = nodes as f64 / self.nodes.max(1) as f64;
        // A quarter of all pairs leaves room for a skewed choice of endpoints without many repeats.
        let room = nodes.saturating_mul(nodes - 1) / 4;
        let edge_rows = times(self.edge_rows, factor).clamp(1, room.max(1));
        // Every class has a chance of being trained on, and no part is empty.
        let train = times(self.train, factor).max(self.classes).min(nodes.saturating_sub(2));
        let valid = times(self.valid, factor).max(1).min(nodes - train - 1);
        let rest = nodes - train - valid;
        let all = self.train.saturating_add(self.valid).saturating_add(self.test) == self.nodes;
        let test = if all { rest } else { times(self.test, factor).max(1).min(rest) };
        let shape = GraphShape { nodes, edge_rows, train, valid, test, ..*self };
        shape.check()?;
        Ok(shape)
    }

    /// Checks that a dataset of these sizes can be generated.
    ///
    /// # Errors
    /// The first size that is too small, too large, or does not fit another.
    pub fn check(&self) -> Result<()> {
        let refused = |what: String| Err(Error::Config(format!("cannot generate this dataset: {what}")));
        let GraphShape { nodes, edge_rows, features, classes, .. } = *self;
        if !(2..=MOST_CLASSES).contains(&classes) {
            return refused(format!("expected 2 to {MOST_CLASSES} classes, found {classes}"));
        }
        // u32::MAX itself is kept free: it marks a missing id elsewhere.
        let fewest = FEWEST_PER_CLASS * classes;
        if nodes < fewest || nodes >= u32::MAX as usize {
            return refused(format!("expected {fewest} to {} nodes, found {nodes}", u32::MAX - 1));
        }
        if edge_rows > MOST_EDGE_ROWS {
            return refused(format!("expected at most {MOST_EDGE_ROWS} edge rows, found {edge_rows}"));
        }
        if !(1..=MOST_FEATURES).contains(&features) {
            return refused(format!("expected 1 to {MOST_FEATURES} features, found {features}"));
        }
        let used = self.train.saturating_add(self.valid).saturating_add(self.test);
        if self.train == 0 || used > nodes {
            return refused(format!(
                "a split of {} / {} / {} needs at least one node to train on and at most the {nodes} nodes there are",
                self.train, self.valid, self.test
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_shapes_can_be_generated_at_every_scale() {
        for name in KNOWN {
            let shape = like(name).unwrap();
            shape.check().unwrap();
            assert_eq!(shape.scaled(1.0).unwrap(), shape, "{name}");
            for factor in [1e-9, 0.01, 0.1, 0.37, 2.0] {
                let scaled = shape.scaled(factor).unwrap();
                assert!(scaled.nodes >= 64 && scaled.nodes >= 2 * scaled.classes, "{name} {factor}");
                assert!(scaled.valid > 0 && scaled.test > 0 && scaled.train >= scaled.classes, "{name} {factor}");
            }
        }
        assert_eq!(like("Cora"), like("cora"));
        assert_eq!(like("reddit"), None);
    }

    #[test]
    fn a_tenth_of_products_is_a_tenth() {
        let tenth = like("ogbn-products").unwrap().scaled(0.1).unwrap();
        assert_eq!((tenth.nodes, tenth.features, tenth.classes), (244_903, 100, 47));
        assert_eq!((tenth.train, tenth.valid, tenth.test), (19_662, 3932, 221_309));
        assert_eq!(tenth.train + tenth.valid + tenth.test, tenth.nodes);
        // 61,859,140 x 244,903 / 2,449,029.
        assert_eq!(tenth.edge_rows, 6_185_917);
    }

    #[test]
    fn senseless_sizes_are_refused_with_the_reason() {
        let cora = like("cora").unwrap();
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(cora.scaled(factor).unwrap_err().to_string().contains("above 0"), "{factor}");
        }
        assert!(cora.scaled(1e30).unwrap_err().to_string().contains("nodes"));
        let refused = |shape: GraphShape| shape.check().unwrap_err().to_string();
        assert!(refused(GraphShape { classes: 1, ..cora }).contains("classes, found 1"));
        assert!(refused(GraphShape { nodes: 13, ..cora }).contains("14 to"));
        assert!(refused(GraphShape { features: 0, ..cora }).contains("features, found 0"));
        assert!(refused(GraphShape { train: 0, ..cora }).contains("0 / 500 / 1000"));
        assert!(refused(GraphShape { test: usize::MAX, ..cora }).contains("2708 nodes there are"));
        assert!(refused(GraphShape { edge_rows: usize::MAX, ..cora }).contains("edge rows"));
    }
}
