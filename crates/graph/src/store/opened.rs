//! Which stores this process has opened: where a number turns out to be impossible later, they are read through again, so
//! that the message names the file and not a line of the program.
//!
//! Large stores are not read through each time they are opened ([`super::checked`]), and a disk may lose bits that no time of
//! change tells of.

use super::{Store, checked};
use crate::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static OPENED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Remembers a store.
pub(super) fn note(directory: &Path) {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    // Relative paths would be others in another working directory.
    if let Ok(directory) = std::path::absolute(directory)
        && !opened.contains(&directory)
    {
        opened.push(directory);
    }
}

/// Reads every store that was opened through again, whatever was known of it, and gives the first damage. None: they are
/// sound, the fault is another.
pub fn damage() -> Option<Error> {
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    opened.iter().find_map(|directory| {
        checked::forget(directory);
        let error = Store::open(directory).and_then(Store::read_through).err()?;
        Some(match error {
            Error::File { path, message } => {
                let message =
                    format!("{message}; it was changed or damaged since it was last checked: make the store again");
                Error::File { path, message }
            }
            other => other,
        })
    })
}
