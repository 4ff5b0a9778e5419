//! Studies that train many models: what is lost without some features; which settings are best.

pub mod remove_retrain;
pub mod tune;
