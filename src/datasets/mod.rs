//! Datasets: what a task is ([`Dataset`]) and where tasks come from, one source a file.

mod dataset;
pub mod pickle;
//pub mod planetoid;
pub mod synthetic;

pub use dataset::{Dataset, Features, Labels, Level, Objective};
