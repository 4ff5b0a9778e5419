//! Which of the exact ways to compute a step is taken, and what each would cost.
//!
//! All ways give the same numbers up to rounding. The cost model counts bytes that must come from memory and flops of
//! matrix products: routing, the loss and the optimizer are the same in all of them. It decides by sizes alone, so a run
//! computes the same on every machine.

mod shared;
mod sizes;
mod streamed;

use crate::architecture::{Form, Layout};
use crate::config::DropoutPlace;
use crate::config::{Config, Engine, Monb, Propagate, Sparse};
use harmonia_graph::dataset::Dataset;

pub use shared::{OwnSizes, Sent, SharedPlan, SharedSizes, cut};
pub use sizes::{BatchSizes, DatasetSizes, pairs};
pub use streamed::{PANEL_BYTES, Streamed};

/// Bytes and flops that take equally long: one byte of gathered memory costs as much as this many flops of a matrix
/// product. Measured on two cores with AVX-512: 20 GB/s gathered, 160 Gflop/s; a GPU is not far from it.
const FLOPS_PER_BYTE: f64 = 8.0;
/// Bytes of a float, and of an index.
const F: f64 = 4.0;

/// Where propagation happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// On d responses.
    Features,
    /// On L logits per hop; graph tasks do not propagate at all.
    Classes,
    /// Nowhere: walks of hat functions were tabulated in advance.
    Table,
}

/// The way a step is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How responses are evaluated.
    pub monb: Monb,
    /// What is propagated.
    pub space: Space,
    /// Whether zeros of X are left out.
    pub sparse: bool,
}

/// What one step costs in one space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Bytes of gathered and streamed states.
    pub bytes: f64,
    /// Flops of matrix products.
    pub flops: f64,
}

impl Cost {
    /// Both in bytes.
    pub fn total(&self) -> f64 {
        self.bytes + self.flops / FLOPS_PER_BYTE
    }
}

impl Plan {
    /// The obvious way, which the others are held against.
    pub const DIRECT: Plan = Plan { monb: Monb::Direct, space: Space::Features, sparse: false };

    /// The way for a dataset.
    pub fn new(config: &Config, dataset: &Dataset, layout: &Layout) -> Plan {
        let engine = config.engine;
        // Hidden units are dropped one by one: no piece is linear any more, and no zero of X like another.
        let masked = config.train.dropout > 0.0 && config.train.dropout_place == DropoutPlace::Hidden;
        let engine = if masked { Engine { monb: Monb::Direct, sparse: Sparse::Off, ..engine } } else { engine };
        // Every response costs something, those to zeros too.
        let all = config.train.output_penalty > 0.0;
        let engine = if all { Engine { propagate: Propagate::Classes, sparse: Sparse::Off, ..engine } } else { engine };
        Plan::choose(engine, dataset, layout)
    }

    /// The way for a dataset and settings that fit.
    pub fn choose(engine: Engine, dataset: &Dataset, layout: &Layout) -> Plan {
        Plan::for_sizes(engine, DatasetSizes::of(dataset), layout)
    }

    /// The way for a dataset of these sizes.
    pub fn for_sizes(engine: Engine, sizes: DatasetSizes, layout: &Layout) -> Plan {
        let architecture = &layout.architecture;
        // Waves have no pieces, and units that are not ReLU are known as pieces alone; what is carried otherwise than by walks, or once per class, is carried by classes.
        let monb = match architecture.form() {
            Form::Fourier => Monb::Direct,
            Form::Networks if !layout.is_plain() => Monb::Knots,
            Form::Networks => engine.monb,
        };
        let cost = |space| Plan::cost(space, engine, sizes, layout).total();
        let space = match engine.propagate {
            _ if !architecture.walks_by_feature() => Space::Classes,
            Propagate::Features => Space::Features,
            Propagate::Classes => Space::Classes,
            Propagate::Auto if cost(Space::Classes) <= cost(Space::Features) => Space::Classes,
            Propagate::Auto => Space::Features,
        };
        Plan { monb, space, sparse: space == Space::Classes && nonzeros(engine, sizes).is_some() }
    }

    /// What one step forward and backward over the whole dataset costs in a space.
    pub fn cost(space: Space, engine: Engine, sizes: DatasetSizes, layout: &Layout) -> Cost {
        let a = &layout.architecture;
        let [n, d, outputs, hops] = [sizes.nodes, a.features, a.outputs, a.hops].map(|size| size as f64);
        let entries = sizes.entries as f64;
        let state = engine.states.bytes() as f64;
        // Forward and backward: each hop gathers a row per entry, and reads and writes every row once.
        let walk = |columns: f64| 2.0 * (hops - 1.0) * (entries * (F + columns * state) + 2.0 * n * columns * state);
        // Products of three matrices: logits, their weight gradient, the gradient of what they are made of.
        let products = |elements: f64, columns: f64| 3.0 * 2.0 * elements * columns;
        match space {
            Space::Features => {
                let rows = sizes.labelled_graphs.map_or(n, |graphs| graphs as f64);
                Cost { bytes: walk(d) + 4.0 * F * n * d, flops: products(rows * d, outputs) }
            }
            Space::Classes => {
                let elements = nonzeros(engine, sizes).map_or(n * d, |nonzeros| nonzeros as f64);
                let walked = if sizes.labelled_graphs.is_some() { 0.0 } else { walk(outputs) };
                let states = 4.0 * state * n * outputs * hops;
                Cost { bytes: walked + states + 4.0 * F * elements, flops: products(elements, outputs * hops) }
            }
            // Not by these sizes: see `TablePlan`.
            Space::Table => Cost { bytes: 0.0, flops: 0.0 },
        }
    }
}

/// Non-zeros of X, where its zeros are left out.
fn nonzeros(engine: Engine, sizes: DatasetSizes) -> Option<usize> {
    sizes.nonzeros.filter(|_| engine.sparse == Sparse::Auto)
}
