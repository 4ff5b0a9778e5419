//! Experiments: what a trained model says, held against what is known to be true.

pub mod recovery;
