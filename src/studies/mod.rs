//! Studies that train many models: what is lost without some features; which settings are best; the tables and figures of the
//! paper.

pub mod journal;
pub mod paper;
pub mod remove_retrain;
pub mod tune;
