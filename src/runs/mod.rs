//! Runs on disk: what training leaves in a directory ([`RunDirectory`]), what came out of it ([`RunSummary`], [`TableSummary`], [`Outcome`]),
//! a trained run opened to be read ([`TrainedRun`], without its data [`SavedModel`], [`Names`]), what was measured on the data ([`Measured`]), what a directory says without its data ([`KnownRun`]), and the dataset its settings name ([`load_dataset`]).

mod centres;
mod directory;
mod extend;
mod fingerprint;
mod known;
mod layout;
mod matching;
mod measured;
mod metrics;
mod names;
mod open;
mod read;
mod source;
mod summary;

pub use centres::write_centres;
pub use directory::{ModelMetadata, RunDirectory, create_next};
pub use extend::Extension;
pub use fingerprint::Fingerprint;
pub use known::{KnownMember, KnownRun, RunState, is_run};
pub use layout::{run_directory, run_names, session_of};
pub use matching::{Matched, match_columns};
pub use measured::{Measured, PartImportance, measured_units, read_measured, write_measured};
pub use metrics::is_metrics_copy;
pub use names::Names;
pub use open::{SavedModel, TrainedRun, grouped_factors, members, read_history, read_summary, saved_layers};
pub use read::ReadModel;
pub use source::{is_gone, is_here, load_dataset};
pub use summary::{Outcome, RunSummary, TableSummary};
