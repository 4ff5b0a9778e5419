//! What everything else stands on: arrays, files, seeds, graphs, datasets, and the stores they are kept in.
//!
//! Bottom up: [`error`], [`stop`] and [`memory`]; [`files`], [`lock`], [`cache`], [`units`], [`watch`]; [`seed`], [`simd`], [`mod@array`], [`npy`];
//! [`graph`]; [`dataset`]; [`store`]; [`walk_table`]. No module imports one that comes later (`tests/layers.rs` checks it).

pub mod array;
pub mod cache;
pub mod dataset;
pub mod error;
pub mod files;
pub mod graph;
pub mod lock;
pub mod memory;
pub mod npy;
pub mod seed;
pub mod simd;
pub mod stop;
pub mod store;
pub mod units;
pub mod walk_table;
pub mod watch;

pub use error::{Error, Result};
pub use stop::Stop;
