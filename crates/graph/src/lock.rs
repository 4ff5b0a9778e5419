//! One process at a time does something: an exclusive lock on a file made for it.
//!
//! The operating system drops the lock with the process, so a kill leaves no file locked. The lock file is removed with
//! the lock: whoever waited on the removed one notices that it is another file by now, and begins again.

use crate::error::{Error, Result, one_line};
use crate::files;
use crate::stop::Stop;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const POLL: Duration = Duration::from_millis(200);

/// Held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// Folders around it that go with it where nothing else is in them.
    folders: usize,
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
            Ok(()) if files::is_same(&file, path) => {
                return Ok(Lock { path: path.to_path_buf(), folders: 2, _file: file });
            }
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                stop.check().map_err(|error| io::Error::other(error.to_string()))?;
                std::thread::sleep(POLL);
            }
            // Some network file systems have no locks; two processes there at worst do the same twice.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                return Ok(Lock { path: path.to_path_buf(), folders: 2, _file: file });
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Takes the lock that says who writes a directory, or fails at once: another one must not wait for hours to spoil it.
///
/// # Errors
/// Somebody holds it: the message names the process. Or the file cannot be made.
pub fn claim(directory: &Path) -> Result<Lock> {
    // Whoever tidies up holds a lock for a moment, without a word in it.
    const TRIES: usize = 5;
    let path = directory.join(files::LOCK);
    for last in (0..TRIES).map(|at| at + 1 == TRIES) {
        let opened = File::options().create(true).truncate(false).write(true).open(&path);
        let mut file = opened.map_err(Error::io("write", &path))?;
        match file.try_lock() {
            Ok(()) if !files::is_same(&file, &path) => continue,
            // Some network file systems have no locks: nothing is known there.
            Ok(()) | Err(TryLockError::Error(_)) => {
                let lock =
                    Lock { path: path.clone(), folders: 0, _file: file.try_clone().map_err(Error::io("lock", &path))? };
                // Best effort: for people only.
                let _ = file.set_len(0).and_then(|()| io::Write::write_all(&mut file, who().as_bytes()));
                return Ok(lock);
            }
            Err(TryLockError::WouldBlock) if last => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(POLL / 4),
        }
    }
    let holder = files::read_text(&path).map(|text| one_line(text.trim())).unwrap_or_default();
    let holder = if holder.is_empty() { "another process".into() } else { holder };
    Err(Error::file(
        directory,
        format!("is being written by {holder}: wait until it is done, or choose another directory"),
    ))
}

/// This process, for people.
fn who() -> String {
    let host = files::read_text(Path::new("/proc/sys/kernel/hostname")).ok().or_else(|| std::env::var("HOSTNAME").ok());
    let host = host.map(|host| host.trim().to_string()).filter(|host| !host.is_empty());
    format!("process {} on {}\n", std::process::id(), host.as_deref().unwrap_or("this machine"))
}

/// Takes the lock on `path` if nobody holds it, and nothing else: for tidying up.
pub fn if_free(path: &Path) -> Option<Lock> {
    let file = File::options().write(true).open(path).ok()?;
    let free = file.try_lock().is_ok() && files::is_same(&file, path);
    free.then(|| Lock { path: path.to_path_buf(), folders: 0, _file: file })
}

/// Whether somebody writes a directory. Nothing is changed in it.
pub fn is_held(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join(files::LOCK)) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Best effort: an empty file left behind is harmless. Folders go too where nothing else is in them.
        let _ = std::fs::remove_file(&self.path);
        for folder in self.path.ancestors().skip(1).take(self.folders) {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_writer_is_told_who_the_first_one_is() {
        let home = tempfile::tempdir().unwrap();
        let lock = claim(home.path()).unwrap();
        let message = claim(home.path()).unwrap_err().to_string();
        assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
        assert!(is_held(home.path()));
        drop(lock);
        assert!(!is_held(home.path()));
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
        // What a kill leaves is nobody's.
        std::fs::write(home.path().join(files::LOCK), "process 1 on elsewhere").unwrap();
        drop(claim(home.path()).unwrap());
        assert!(home.path().exists() && std::fs::read_dir(home.path()).unwrap().count() == 0);
    }
}
