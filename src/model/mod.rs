//! The model: its sizes and parameters, how they start, one pass forward and backward, and checkpoints.

mod checkpoint;
mod init;
mod parameters;
mod pass;

pub use checkpoint::{Checkpoint, TensorData};
pub use init::{Initialisation, initial_parameters};
pub use parameters::{Architecture, HopWeights, Layer, Layout, Tensor};
pub use pass::{Pass, Randomness};
