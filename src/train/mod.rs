//! Training: one epoch after the other ([`trainer`]), when to stop ([`stopping`]), how good it is ([`metrics`]), what
//! is kept on disk ([`run_directory`]), and runs over several seeds ([`session`]).

pub mod metrics;
pub mod run_directory;
pub mod schedule;
pub mod session;
pub mod stopping;
pub mod trainer;

pub use metrics::Scores;
pub use run_directory::RunDirectory;
pub use session::{Observer, Outcome, RunName, RunSummary, Session, Silent};
pub use trainer::{EpochRecord, Trainer};
