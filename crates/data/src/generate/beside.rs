//! Large files and folders written beside their place and renamed when complete.
//!
//! As [`harmonia_graph::files::write_atomic`], for what does not fit into memory. Invariant: after an error nothing new is left,
//! and what was there before is untouched.

use harmonia_graph::error::{Error, Result};
use harmonia_graph::files::{self, UnfinishedFile, UnfinishedFolder};
use std::fs::File;
use std::path::Path;

/// Lets `fill` write a file, flushes it to disk and renames it to `path`, over what was there.
///
/// # Errors
/// The directory is missing or not writable, the disk is full, or `fill` fails.
pub(super) fn file(path: &Path, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let directory = files::directory_of(path);
    files::remove_unfinished(directory);
    let mut unfinished = UnfinishedFile::create(directory).map_err(Error::io("write", path))?;
    fill(&mut unfinished.file)?;
    unfinished.finish(path).map_err(Error::io("write", path))
}

/// Lets `fill` write into a new folder, which then becomes `name` in `directory`; `directory` itself may be new.
///
/// # Errors
/// `name` is there already, `directory` cannot be made or written, or `fill` fails.
pub(super) fn folder(directory: &Path, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let place = directory.join(name);
    // Refused before hours of work, not after.
    if place.symlink_metadata().is_ok() {
        return Err(Error::file(&place, "this is already there; remove it or choose another directory"));
    }
    let is_new = !directory.is_dir();
    if is_new {
        std::fs::create_dir(directory).map_err(Error::io("create directory", directory))?;
    }
    let made = fill_folder(directory, &place, fill);
    if made.is_err() && is_new {
        // Only an empty directory goes: nothing of anybody else's is in it.
        let _ = std::fs::remove_dir(directory);
    }
    made
}

fn fill_folder(directory: &Path, place: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    files::remove_unfinished(directory);
    let unfinished = UnfinishedFolder::create(directory).map_err(Error::io("write into directory", directory))?;
    fill(unfinished.path())?;
    unfinished.finish(place).map_err(Error::io("write", place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn entries(directory: &Path) -> Vec<String> {
        let names =
            std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn a_failure_leaves_the_old_file_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "old").unwrap();
        let failed = file(&path, |file| {
            file.write_all(b"half").map_err(Error::io("write", &path))?;
            Err(Error::Data("stopped".into()))
        });
        assert_eq!(failed.unwrap_err().to_string(), "stopped");
        assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), entries(directory.path()).len()), ("old", 1));
        file(&path, |file| file.write_all(b"new").map_err(Error::io("write", &path))).unwrap();
        assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), entries(directory.path()).len()), ("new", 1));
    }

    #[test]
    fn a_missing_directory_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing").join("a.zip");
        let message = file(&path, |_| Ok(())).unwrap_err().to_string();
        assert!(message.starts_with(&format!("cannot write {}", path.display())), "{message}");
        assert!(!message.contains("harmonia-writing"), "{message}");
    }

    #[test]
    fn a_folder_appears_whole_or_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("new");
        let failed = folder(&directory, "processed", |folder| {
            std::fs::write(folder.join("half"), "").unwrap();
            Err(Error::Data("stopped".into()))
        });
        assert_eq!(failed.unwrap_err().to_string(), "stopped");
        assert!(entries(root.path()).is_empty());
        let fill = |folder: &Path| std::fs::write(folder.join("whole"), "").map_err(Error::io("write", folder));
        folder(&directory, "processed", fill).unwrap();
        assert_eq!(entries(&directory), ["processed"]);
        assert_eq!(entries(&directory.join("processed")), ["whole"]);
        let message = folder(&directory, "processed", fill).unwrap_err().to_string();
        assert!(message.contains("processed: this is already there"), "{message}");
    }
}
