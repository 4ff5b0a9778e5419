//! Files and folders that are being written: beside their place, under a name of ours, locked while somebody is at work.
//!
//! A kill leaves one of them, unlocked: whoever works in that directory next removes it. What is locked, or has any other
//! name, is never touched.

use crate::error::{Error, Result};
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// Names of what is being written are this and sixteen hexadecimal digits.
const PREFIX: &str = ".harmonia-writing-";
const DIGITS: usize = 16;
/// Whoever writes a directory as a whole holds a lock on a file of this name in it.
pub const LOCK: &str = ".harmonia-lock";

/// A file that is being written; removed when dropped, unless it was finished.
pub struct UnfinishedFile {
    path: Option<PathBuf>,
    /// Locked, by being open.
    pub file: File,
}

/// A folder that is being written; removed when dropped, unless it was finished.
pub struct UnfinishedFolder {
    path: Option<PathBuf>,
    /// Holds the lock; none where a system has no locks of folders.
    _lock: Option<File>,
}

fn new_name() -> String {
    // Random keys of the standard library: no two processes take the same name, and it is not to be guessed.
    format!("{PREFIX}{:0DIGITS$x}", RandomState::new().hash_one(std::process::id()))
}

/// Whether a name is one that only an unfinished file or folder, or a lock, has.
pub fn is_passing(name: &std::ffi::OsStr) -> bool {
    name == LOCK || is_ours(name)
}

fn is_ours(name: &std::ffi::OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl UnfinishedFile {
    /// A new file in a directory.
    ///
    /// # Errors
    /// The directory is missing or not writable, or the disk is full.
    pub fn create(directory: &Path) -> io::Result<UnfinishedFile> {
        loop {
            let path = directory.join(new_name());
            let file = match File::options().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            let unfinished = UnfinishedFile { path: Some(path.clone()), file };
            // Before the lock, somebody may have taken it for abandoned. Without locks nobody removes anything.
            match unfinished.file.try_lock() {
                Ok(()) | Err(TryLockError::WouldBlock) if !super::is_same(&unfinished.file, &path) => {}
                _ => return Ok(unfinished),
            }
        }
    }

    /// Flushes it to disk and gives it its name, over what was there.
    ///
    /// # Errors
    /// The disk is full, or the place cannot be written; then nothing is left.
    pub fn finish(mut self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        if let Some(path) = &self.path {
            fs::rename(path, target)?;
        }
        self.path = None;
        sync_directory(super::directory_of(target))
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Best effort: whoever writes there next tries again.
            let _ = fs::remove_file(path);
        }
    }
}

impl UnfinishedFolder {
    /// A new folder in a directory.
    ///
    /// # Errors
    /// The directory is missing or not writable, or the disk is full.
    pub fn create(directory: &Path) -> io::Result<UnfinishedFolder> {
        loop {
            let path = directory.join(new_name());
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // From here on it is removed on every way out.
            let mut unfinished = UnfinishedFolder { path: Some(path.clone()), _lock: None };
            let Ok(lock) = File::open(&path) else {
                match path.exists() {
                    true => return Ok(unfinished),
                    // Taken for abandoned before it was locked.
                    false => continue,
                }
            };
            match lock.try_lock() {
                Ok(()) | Err(TryLockError::WouldBlock) if !super::is_same(&lock, &path) => {}
                _ => {
                    unfinished._lock = Some(lock);
                    return Ok(unfinished);
                }
            }
        }
    }

    /// Where it is for the time being.
    pub fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    /// Flushes its list of files to disk and gives it its name, which must be free.
    ///
    /// # Errors
    /// The name is taken, or the place cannot be written; then nothing is left.
    pub fn finish(mut self, target: &Path) -> io::Result<()> {
        sync_directory(self.path())?;
        // An empty folder would be replaced without a word.
        if target.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(self.path(), target)?;
        self.path = None;
        sync_directory(super::directory_of(target))
    }
}

impl Drop for UnfinishedFolder {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Flushes the list of files of a directory to disk, so that a rename outlives the power.
///
/// # Errors
/// The disk fails. Systems that cannot flush a directory are let off.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let kinds = [io::ErrorKind::InvalidInput, io::ErrorKind::Unsupported, io::ErrorKind::PermissionDenied];
    match File::open(directory).and_then(|directory| directory.sync_all()) {
        Err(error) if !kinds.contains(&error.kind()) => Err(error),
        _ => Ok(()),
    }
}

/// Renames, and flushes the directories of both names.
///
/// # Errors
/// The rename fails, or the disk does.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    let renamed = fs::rename(from, to).and_then(|()| sync_directory(super::directory_of(to)));
    renamed.map_err(Error::io("rename", from))
}

/// Removes what kills have left in a directory: unfinished files and folders, and locks, that nobody holds.
pub fn remove_unfinished(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        if !is_passing(&name) {
            continue;
        }
        // Of the entry itself: what a link of that name leads to is somebody else's.
        let Ok(kind) = entry.file_type() else { continue };
        if !(kind.is_file() || kind.is_dir()) {
            continue;
        }
        let Ok(held) = File::open(&path) else { continue };
        if held.try_lock().is_err() || !super::is_same(&held, &path) {
            continue;
        }
        // Best effort: the next one tries again.
        let _ = if kind.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_of_the_user_that_is_called_writing_stays() {
        let home = tempfile::tempdir().unwrap();
        for name in [".writing-letters", ".harmonia-writing-", ".harmonia-writing-12345678901234xy"] {
            fs::write(home.path().join(name), "mine").unwrap();
        }
        let before = entries(home.path());
        fs::write(home.path().join(".harmonia-writing-0123456789abcdef"), "litter").unwrap();
        fs::create_dir_all(home.path().join(".harmonia-writing-00000000000000ff/deep")).unwrap();
        fs::write(home.path().join(LOCK), "process 1 on nowhere").unwrap();
        remove_unfinished(home.path());
        assert_eq!(entries(home.path()), before);
    }

    #[test]
    fn what_somebody_is_writing_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let file = UnfinishedFile::create(home.path()).unwrap();
        let folder = UnfinishedFolder::create(home.path()).unwrap();
        remove_unfinished(home.path());
        assert_eq!(entries(home.path()).len(), 2);
        file.finish(&home.path().join("a")).unwrap();
        folder.finish(&home.path().join("b")).unwrap();
        assert_eq!(entries(home.path()), ["a", "b"]);
        drop((UnfinishedFile::create(home.path()).unwrap(), UnfinishedFolder::create(home.path()).unwrap()));
        assert_eq!(entries(home.path()), ["a", "b"]);
        let taken = UnfinishedFolder::create(home.path()).unwrap().finish(&home.path().join("b"));
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(entries(home.path()), ["a", "b"]);
    }
}
