//! The model: its sizes and parameters, how they start, one pass forward and backward, and checkpoints.

mod checkpoint;
mod fitted;
mod init;
mod memory;
mod parameters;
mod pass;
mod plan;
mod profile;
mod resident;
pub mod traffic;

pub use checkpoint::{Checkpoint, TensorData};
pub use fitted::{FittedModel, ModelDescription, fit};
pub use init::{Initialisation, initial_parameters};
pub use memory::{BatchSizes, MemoryPlan};
pub use parameters::{Architecture, HopWeights, Layer, Layout, Tensor};
pub use pass::{Pass, Randomness};
pub use plan::{Cost, DatasetSizes, Plan, Space};
pub use profile::Profile;
pub use resident::Resident;
