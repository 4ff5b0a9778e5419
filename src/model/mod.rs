//! The model: how parameters start, one pass forward and backward, its memory and traffic, and checkpoints.

mod checkpoint;
mod fitted;
mod init;
mod memory;
mod mixture;
pub mod panels;
mod pass;
mod profile;
mod resident;
mod shared;
mod smoothness;
pub mod traffic;

pub use checkpoint::{Checkpoint, TensorData};
pub use fitted::{FittedModel, ModelDescription};
pub use init::{calibrate_experts, initial_parameters};
pub use memory::{MemoryPlan, PanelPlan, pair_bytes};
pub(crate) use mixture::expert_values;
pub use pass::{Pass, Randomness, Shape};
pub use profile::{Profile, Timed};
pub use resident::Resident;
pub use smoothness::{POINTS as SMOOTHNESS_POINTS, Smoothness};
