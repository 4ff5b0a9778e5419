//! Studies of trained models: what was found again of a known generator, and what is lost without some features.

pub mod recovery;
pub mod remove_retrain;
