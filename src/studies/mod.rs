//! Studies of trained models: what is lost without some features.

pub mod remove_retrain;
