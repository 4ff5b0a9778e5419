//! Trains and explains HARMONIA, a graph model whose prediction is a plain sum.
pub mod batch;
pub mod datasets;
pub mod device;
pub mod error;
pub mod files;
pub mod graph;
pub mod model;
pub mod seed;
pub use error::{Error, Result};
