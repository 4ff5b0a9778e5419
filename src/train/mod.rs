//! Training: the data of a run ([`prepare`]), one epoch after the other ([`trainer`]), when to stop ([`stopping`]), and
//! [`fit`], which does it all in memory.

pub mod baselines;
mod batching;
pub mod choice;
mod distribution;
mod fit;
pub mod honesty;
mod hop_basis;
pub mod monotone;
mod prepare;
mod regression;
pub mod schedule;
mod sharing;
pub mod stopping;
pub mod trainer;
mod warm_start;
pub mod weights;

pub use fit::fit;
pub use prepare::{Prepared, RunName, layout, prepare, structured};
pub use sharing::share_out;
pub use trainer::{EpochRecord, Evaluation, Trainer};
