//! The sizes of the large datasets, with the models of their presets.

use crate::architecture::Layout;
use crate::config::{Config, Engine, States};
use crate::device::launcher::traffic::Problem;
use crate::plan::{DatasetSizes, Plan};
use crate::settings::Layers;
use crate::settings::presets;
use harmonia_graph::error::Result;

/// Pieces of a response that are counted with: about as many as the experts of a feature have together when they are new, which
/// a test holds it against.
const PIECES: usize = 48;

/// The sizes of a dataset that kernels are counted on, without its files.
#[derive(Clone, Copy)]
pub struct ReferenceDataset {
    /// Its name, and that of its preset.
    pub name: &'static str,
    /// n.
    pub nodes: usize,
    /// Entries of the walk matrix.
    pub entries: usize,
    /// How edges are counted.
    pub edges: &'static str,
    /// d.
    pub features: usize,
    /// L.
    pub outputs: usize,
    /// Training nodes; a preset with a batch size scores fewer per step.
    pub train: usize,
}

pub const PRODUCTS: ReferenceDataset = ReferenceDataset {
    name: "ogbn-products",
    nodes: 2_449_029,
    entries: 123_718_280,
    edges: "both directions of 61,859,140 edges",
    features: 100,
    outputs: 47,
    train: 196_615,
};

pub const REFERENCES: [ReferenceDataset; 3] = [
    PRODUCTS,
    ReferenceDataset {
        name: "ogbn-arxiv",
        nodes: 169_343,
        entries: 2_315_598,
        edges: "made undirected",
        features: 128,
        outputs: 40,
        train: 90_941,
    },
    ReferenceDataset {
        name: "igb-small",
        nodes: 1_000_000,
        entries: 12_070_502,
        edges: "one direction, as published",
        features: 1024,
        outputs: 19,
        train: 600_000,
    },
];

impl ReferenceDataset {
    /// The settings of the dataset's preset.
    pub fn config(&self) -> Result<Config> {
        let mut layers = Layers::new()?;
        layers.toml(presets::named(self.name)?.1, self.name)?;
        layers.finish()
    }

    /// One training step, computed as a run would.
    pub fn problem(&self, config: &Config, states: States) -> Result<Problem> {
        let batch = config.train.batch_size;
        let layout = Layout::new(config.architecture(self.features, self.outputs))?;
        let sizes = DatasetSizes { nodes: self.nodes, entries: self.entries, labelled_graphs: None, nonzeros: None };
        Ok(Problem {
            nodes: self.nodes,
            entries: self.entries,
            weighted: false,
            targets: if batch == 0 { self.train } else { batch.min(self.train) },
            states,
            plan: Plan::for_sizes(Engine { states, ..config.engine }, sizes, &layout),
            pieces: PIECES,
            layout,
            table: None,
        })
    }
}

/// 1234567 as "1,234,567".
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
