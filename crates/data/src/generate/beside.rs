//! Large files and folders written beside their place and renamed when complete.
//!
//! As [`harmonia_graph::files::write_atomic`], for what does not fit into memory. Invariant: after an error nothing new is left,
//! and what was there before is untouched.

use harmonia_graph::error::{Error, Result};
use std::fs::File;
use std::path::Path;

/// Prefix of unfinished files; [`harmonia_graph::files::remove_unfinished`] knows it.
const UNFINISHED: &str = ".writing-";

/// The error of the operating system alone: the name of a temporary file means nothing to the user.
fn plain(error: std::io::Error) -> std::io::Error {
    std::io::Error::from(error.kind())
}

/// Lets `fill` write a file, flushes it to disk and renames it to `path`, over what was there.
///
/// # Errors
/// The directory is missing or not writable, the disk is full, or `fill` fails.
pub(super) fn file(path: &Path, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(UNFINISHED);
    #[cfg(unix)]
    {
        // A temporary file is private by default; a result is an ordinary file.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut unfinished = builder.tempfile_in(directory).map_err(plain).map_err(Error::io("write", path))?;
    fill(unfinished.as_file_mut())?;
    unfinished.as_file().sync_all().map_err(Error::io("write", path))?;
    unfinished.persist(path).map_err(|failed| Error::io("write", path)(failed.error))?;
    Ok(())
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
    let mut builder = tempfile::Builder::new();
    let unfinished = (builder.prefix(UNFINISHED).tempdir_in(directory))
        .map_err(plain)
        .map_err(Error::io("write into directory", directory))?;
    // One level down, so that dropping the temporary folder has nothing to remove once the result has its place.
    let folder = unfinished.path().join("folder");
    std::fs::create_dir(&folder).map_err(plain).map_err(Error::io("create directory", place))?;
    fill(&folder)?;
    std::fs::rename(&folder, place).map_err(Error::io("write", place))
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
        assert!(!message.contains(UNFINISHED), "{message}");
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
