//! One process at a time fetches a file: an exclusive lock on `<file>.lock`.
//!
//! The operating system drops the lock with the process, so a kill leaves no file locked. The lock file is removed only
//! after success: whoever still waits on the removed one then finds the file in place and has nothing to do.

use super::partial::beside;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const POLL: Duration = Duration::from_millis(200);

/// Held until it is dropped.
pub(super) struct Lock {
    path: PathBuf,
    /// Holds the lock by being open.
    _file: File,
}

pub(super) fn path(target: &Path) -> PathBuf {
    beside(target, ".lock")
}

/// Waits for the lock of `target`, calling `waiting` between tries.
pub(super) fn hold(target: &Path, waiting: &dyn Fn()) -> io::Result<Lock> {
    let path = path(target);
    let file = File::options().create(true).truncate(false).write(true).open(&path)?;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => {
                waiting();
                crate::interrupt::check().map_err(|error| io::Error::other(error.to_string()))?;
                std::thread::sleep(POLL);
            }
            // Some network file systems have no locks; two processes there at worst both download.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => break,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(Lock { path, _file: file })
}

impl Lock {
    /// For when the file is in place and nobody needs the lock again.
    pub(super) fn release_and_remove(self) {
        // Best effort: an empty file left behind is harmless.
        let _ = std::fs::remove_file(&self.path);
    }
}
