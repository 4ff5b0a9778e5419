//! Trains and explains HARMONIA, a graph model whose prediction is a plain sum.
pub mod batch;
pub mod cli;
pub mod config;
pub mod datasets;
pub mod device;
pub mod error;
pub mod experiments;
pub mod files;
pub mod graph;
pub mod model;
pub mod presets;
pub mod report;
pub mod seed;
pub mod store;
pub mod train;
pub use error::{Error, Result};
