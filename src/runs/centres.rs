//! The mean responses that training leaves in a run directory, and which model they are of.
//!
//! `centres.npy` is the numbers alone. `centres.json` beside it has the SHA-256 of it and of the model file they were computed
//! from: means of another model, even one of the same sizes, are noticed. Without it (earlier versions wrote none) nothing is
//! known about the numbers, and they are computed anew.

use super::open::MODEL;
use crate::explain::centre;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::stop::Stop;
use serde::{Deserialize, Serialize};
use std::path::Path;

const ORIGIN: &str = "centres.json";

/// What `centres.npy` was computed from, and what it was then.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Origin {
    /// SHA-256 of the model file.
    model_sha256: String,
    /// SHA-256 of `centres.npy`.
    centres_sha256: String,
}

fn sha256(path: &Path) -> Result<String> {
    files::sha256(path, &Stop::new())
}

/// Writes the means of the model that is in a run directory.
///
/// # Errors
/// The disk is full or not writable.
pub fn write_centres(directory: &Path, means: &[f64]) -> Result<()> {
    let (file, origin, model) = (directory.join(centre::FILE), directory.join(ORIGIN), directory.join(MODEL));
    centre::write(&file, means)?;
    // A run of no epochs leaves no model.
    if !model.is_file() {
        return Ok(());
    }
    let hashes = Origin { model_sha256: sha256(&model)?, centres_sha256: sha256(&file)? };
    let text = serde_json::to_string_pretty(&hashes).map_err(|error| Error::file(&origin, error.to_string()))?;
    // Last: until then the means count as those of another model.
    files::write_atomic(&origin, text.as_bytes())
}

/// The means of the model that is in a run directory; none where they were not left there, or are those of another.
///
/// # Errors
/// The file is damaged, or was changed since.
pub(super) fn read_centres(directory: &Path, features: usize) -> Result<Option<Vec<f64>>> {
    let (file, origin) = (directory.join(centre::FILE), directory.join(ORIGIN));
    if !file.is_file() || !origin.is_file() {
        return Ok(None);
    }
    let known: Option<Origin> = serde_json::from_str(&files::read_text(&origin)?).ok();
    let Some(known) = known else { return Ok(None) };
    if known.model_sha256 != sha256(&directory.join(MODEL))? {
        return Ok(None);
    }
    let means = centre::read(&file, features)?;
    match known.centres_sha256 == sha256(&file)? {
        true => Ok(Some(means)),
        false => Err(Error::file(&file, "is not the one that training left: delete the file, it is computed anew")),
    }
}
