//! Runs on disk: what training leaves in a directory ([`RunDirectory`]), what came out of it ([`RunSummary`], [`TableSummary`], [`Outcome`]),
//! a trained run opened to be read ([`TrainedRun`], [`Names`]), what a directory says without its data ([`KnownRun`]), and the dataset its settings name ([`load_dataset`]).

mod centres;
mod directory;
mod extend;
mod fingerprint;
mod known;
mod layout;
mod matching;
mod metrics;
mod names;
mod open;
mod source;
mod summary;

pub use centres::write_centres;
pub use directory::{ModelMetadata, RunDirectory, create_next};
pub use extend::Extension;
pub use fingerprint::Fingerprint;
pub use known::{KnownMember, KnownRun, RunState, is_run};
pub use layout::{run_directory, run_names, session_of};
pub use matching::{Matched, match_columns};
pub use metrics::is_metrics_copy;
pub use names::Names;
pub use open::{SavedModel, TrainedRun, members, saved_layers};
pub use source::load_dataset;
pub use summary::{Outcome, RunSummary, TableSummary, was_still_learning};
