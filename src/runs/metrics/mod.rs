//! The log of a run in other forms, beside `metrics.jsonl`: one file per form, written anew from the log where a run goes on and
//! added to after every epoch. Nothing reads them back here.

mod csv;
mod tensorboard;

use crate::config::MetricsFile;
use crate::train::EpochRecord;
use harmonia_graph::error::Result;
use std::path::Path;

/// A log in another form.
pub(super) trait LogCopy: Send {
    /// Adds an epoch.
    fn add(&mut self, record: &EpochRecord) -> Result<()>;
}

/// Begins a copy in a run directory with what was logged so far.
///
/// # Errors
/// The disk is full or not writable.
pub(super) fn begin(form: MetricsFile, directory: &Path, history: &[EpochRecord]) -> Result<Box<dyn LogCopy>> {
    Ok(match form {
        MetricsFile::Csv => Box::new(csv::Csv::begin(directory, history)?),
        MetricsFile::Tensorboard => Box::new(tensorboard::Events::begin(directory, history)?),
    })
}

/// Whether a file of a run directory is such a copy.
pub fn is_metrics_copy(name: &str) -> bool {
    name == csv::FILE || tensorboard::is_ours(name)
}
