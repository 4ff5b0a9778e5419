//! What everything else stands on: arrays, files, seeds, graphs, datasets, and the stores they are kept in.
//!
//! Bottom up: [`error`] and [`stop`]; [`files`], [`cache`], [`units`], [`watch`]; [`seed`], [`simd`], [`mod@array`], [`npy`];
//! [`graph`]; [`dataset`]; [`store`]. No module imports one that comes later (`tests/layers.rs` checks it).

pub mod array;
pub mod cache;
pub mod dataset;
pub mod error;
pub mod files;
pub mod graph;
pub mod npy;
pub mod seed;
pub mod simd;
pub mod stop;
pub mod store;
pub mod units;
pub mod watch;

pub use error::{Error, Result};
pub use stop::Stop;
