//! `engine.*`: how a run is computed. One enum for each setting that is a word; none but `states` and `table` changes a result beyond
//! rounding.

use serde::{Deserialize, Serialize};

/// Element type of propagated states. Sums are always taken in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum States {
    /// Single precision.
    #[default]
    F32,
    /// IEEE half: half the traffic of a hop, 11 bits.
    F16,
    /// bfloat16: half the traffic, 8 bits, the range of f32.
    Bf16,
}

impl States {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            States::F32 => 4,
            States::F16 | States::Bf16 => 2,
        }
    }
}

/// How responses are evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Monb {
    /// Every expert network at every point: the reference, and the only way where hidden units are dropped.
    Direct,
    /// Experts compiled to their pieces once per step, then a look-up per point.
    #[default]
    Knots,
}

/// What is carried along walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Propagate {
    /// Responses: d columns, then the readout.
    Features,
    /// The readout first: L columns per hop. Graph tasks: nothing, every node has its weight in advance.
    Classes,
    /// Whichever the cost model finds cheaper.
    #[default]
    Auto,
}

/// Whether zeros of X are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sparse {
    /// Never: X is made dense.
    Off,
    /// Where X is held as sparse rows and the readout comes first.
    #[default]
    Auto,
}

/// Whether training reads a table of walks instead of walking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableUse {
    /// Where that saves time: at no price where features have few values, else where it saves much.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Always; an error where it cannot be.
    Force,
}

/// What of a step is whose, where several processes share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShareUse {
    /// Whichever sizes and memory speak for.
    #[default]
    Auto,
    /// Graphs of each batch.
    Targets,
    /// Rows of a table of walks.
    Rows,
    /// Columns of the logits.
    Classes,
    /// Nodes of the graph.
    Nodes,
}

impl ShareUse {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            ShareUse::Auto => "auto",
            ShareUse::Targets => "targets",
            ShareUse::Rows => "rows",
            ShareUse::Classes => "classes",
            ShareUse::Nodes => "nodes",
        }
    }
}

/// Points of a feature in a table, at most.
pub const MOST_TABLE_POINTS: usize = 65;
/// Walks of a unit and step that correct a table, at most.
pub const MOST_WALKS: usize = 64;

/// How it is computed. All choices but `states` and `table` give the same numbers up to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Engine {
    /// `knots` or `direct`.
    pub monb: Monb,
    /// `auto`, `features` or `classes`.
    pub propagate: Propagate,
    /// `auto` or `off`.
    pub sparse: Sparse,
    /// Element type of propagated states: `f32`, `f16` or `bf16`.
    pub states: States,
    /// `auto`, `off` or `force`: whether steps and validation read a table of walks. Saved, scored and explained is the exact
    /// model.
    pub table: TableUse,
    /// Points that walks of a feature are tabulated at; what lies between them is interpolated. 1: nothing is tabulated, sampled
    /// walks say what is far.
    pub table_points: usize,
    /// Bits of a number in a table: 8, 16 or 32; 0: 32 where the table is small, else 8, and 16 where a finer table turns out to
    /// be needed.
    pub table_bits: usize,
    /// Bytes a table may have; points are fewer where it would have more.
    pub table_bytes: usize,
    /// Walks sampled from each unit in each step, where a table has too few points to be trusted; 0: never, and no such table
    /// is made. Twice as many where losses show that these are too few.
    pub walks: usize,
    /// Bytes that training may take of a GPU's memory; what has no room comes in panels. 0: what is free. Results do not depend
    /// on it.
    pub device_memory: usize,
    /// `auto`, `targets`, `rows`, `classes` or `nodes`: what of a step is whose, where several processes share a run.
    pub share: ShareUse,
}

impl Default for Engine {
    fn default() -> Self {
        Engine {
            monb: Monb::default(),
            propagate: Propagate::default(),
            sparse: Sparse::default(),
            states: States::default(),
            table: TableUse::default(),
            table_points: 9,
            table_bits: 0,
            table_bytes: 4 << 30,
            walks: 4,
            device_memory: 0,
            share: ShareUse::default(),
        }
    }
}
