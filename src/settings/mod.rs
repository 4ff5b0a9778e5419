//! Settings as users give them: defaults, presets, files and words of the command line, merged into a
//! [`Config`](crate::config::Config).

mod closest;
mod layers;
pub mod presets;

pub use layers::{Layers, to_toml};
