//! Settings as users give them: defaults, presets, files and words of the command line, merged into a
//! [`Config`](crate::config::Config).

mod closest;
mod difference;
mod layers;
mod merged;
pub mod own;
pub mod presets;

pub use difference::{differences, flattened};
pub use layers::{Layers, to_toml};
pub use merged::merged;
