//! The losses a model trains with.

pub mod metrics;

use harmonia_graph::dataset::Labels;
pub use metrics::Scores;
use serde::{Deserialize, Serialize};

/// The loss a task trains with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Softmax cross-entropy over the outputs.
    Softmax,
    /// Sigmoid cross-entropy on each output (binary and multi-label), summed over the outputs of a unit.
    Sigmoid,
}

impl Objective {
    /// The loss that fits labels.
    pub fn of(labels: &Labels) -> Objective {
        match labels {
            Labels::Classes { classes: 3.., .. } => Objective::Softmax,
            _ => Objective::Sigmoid,
        }
    }
}
