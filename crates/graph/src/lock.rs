//! One process at a time does something: an exclusive lock on a file made for it.
//!
//! The operating system drops the lock with the process, so a kill leaves no file locked. The lock file is removed with
//! the lock: whoever waited on the removed one notices that it is another file by now, and begins again.

use crate::files;
use crate::stop::Stop;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const POLL: Duration = Duration::from_millis(200);

/// Held until it is dropped.
pub struct Lock {
    path: PathBuf,
    /// Holds the lock by being open.
    _file: File,
}

/// Waits for the lock on `path`, which is made, calling `waiting` between tries.
///
/// # Errors
/// The file cannot be made, or a stop was asked for.
pub fn hold(path: &Path, stop: &Stop, waiting: &dyn Fn()) -> io::Result<Lock> {
    loop {
        // Whoever gave up before may have removed the empty folder with its lock.
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) if files::is_same(&file, path) => return Ok(Lock { path: path.to_path_buf(), _file: file }),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                stop.check().map_err(|error| io::Error::other(error.to_string()))?;
                std::thread::sleep(POLL);
            }
            // Some network file systems have no locks; two processes there at worst do the same twice.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                return Ok(Lock { path: path.to_path_buf(), _file: file });
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Best effort: an empty file left behind is harmless. Folders go too where nothing else is in them.
        let _ = std::fs::remove_file(&self.path);
        for folder in self.path.ancestors().skip(1).take(2) {
            let _ = std::fs::remove_dir(folder);
        }
    }
}
