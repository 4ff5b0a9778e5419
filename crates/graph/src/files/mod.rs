//! Writing files so that a full disk or a kill leaves either the old file or the new one, never half of one.

mod unfinished;

pub use unfinished::{LOCK, UnfinishedFile, UnfinishedFolder, is_passing, remove_unfinished, rename, sync_directory};

use crate::error::{Error, Result};
use crate::memory;
use crate::stop::Stop;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// A text that is read whole may be so long: logs of millions of epochs are.
const LONGEST_TEXT: u64 = 1 << 30;

/// Where bytes for a path go.
enum Place {
    /// A file, which is replaced as a whole: the path itself, or what it links to.
    File(PathBuf),
    /// A pipe, a terminal, a device or an open file (`/dev/stdout`): written through, because a rename would put a file
    /// in its place.
    Stream,
}

impl Place {
    fn of(path: &Path) -> Result<Place> {
        // As many as Linux follows.
        const MOST_LINKS: usize = 40;
        let mut target = path.to_path_buf();
        for _ in 0..MOST_LINKS {
            if is_open_file(&target) {
                return Ok(Place::Stream);
            }
            match std::fs::read_link(&target) {
                // A relative link starts from where it stands; joining an absolute one gives the latter.
                Ok(link) => target = directory_of(&target).join(link),
                Err(_) => {
                    let special = std::fs::metadata(&target).is_ok_and(|data| !data.is_file() && !data.is_dir());
                    return Ok(if special { Place::Stream } else { Place::File(target) });
                }
            }
        }
        Err(Error::file(path, format!("is a chain of more than {MOST_LINKS} links; expected a file")))
    }
}

/// Whether a path names an open file of a process: `/proc/self/fd/1`, which `/dev/stdout` links to.
fn is_open_file(path: &Path) -> bool {
    path.starts_with("/dev/fd/") || (path.starts_with("/proc") && path.parent().is_some_and(|at| at.ends_with("fd")))
}

/// The directory that a file is in.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes beside `path`, flushes to disk, then renames over it. A link stays, what it links to is replaced. What is no
/// regular file (`/dev/stdout`, a pipe) is written through.
///
/// # Errors
/// The directory is not writable or the disk is full; nothing is left behind.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let target = match Place::of(path)? {
        Place::File(target) => target,
        Place::Stream => {
            let mut stream = std::fs::File::options().append(true).open(path).map_err(Error::io("write", path))?;
            return match stream.write_all(bytes) {
                // A reader that has gone away (`| head`) has what it wanted.
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("write", path)(error)),
                _ => Ok(()),
            };
        }
    };
    let write = || {
        let mut unfinished = UnfinishedFile::create(directory_of(&target))?;
        unfinished.file.write_all(bytes)?;
        unfinished.finish(&target)
    };
    write().map_err(Error::io("write", path))
}

/// Finds out whether [`write_atomic`] could write a file, before work that ends with it. Removes what kills have left in
/// its directory.
///
/// # Errors
/// The directory is missing or not writable, or `path` is a directory.
pub fn check_writable(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::file(path, "is a directory; give the name of a file"));
    }
    // A stream is not tried: opening a pipe waits for its reader.
    let Place::File(target) = Place::of(path)? else { return Ok(()) };
    let directory = directory_of(&target);
    if !directory.is_dir() {
        return Err(Error::file(path, format!("cannot be written: there is no directory {}", directory.display())));
    }
    remove_unfinished(directory);
    UnfinishedFile::create(directory).map(drop).map_err(Error::io("write", path))
}

/// Whether [`write_atomic`] writes through rather than replacing a file.
pub fn is_stream(path: &Path) -> bool {
    matches!(Place::of(path), Ok(Place::Stream))
}

/// Refuses a file where a directory is expected. One that does not exist yet is fine.
///
/// # Errors
/// `path` is a file.
pub fn check_directory(path: &Path) -> Result<()> {
    match path.exists() && !path.is_dir() {
        true => Err(Error::file(path, "is a file; expected a directory")),
        false => Ok(()),
    }
}

/// Opens a regular file: a pipe would wait for ever, a device may have no end.
///
/// # Errors
/// It is missing, unreadable or something else.
pub fn open(path: &Path) -> Result<std::fs::File> {
    let data = std::fs::metadata(path).map_err(Error::io("read", path))?;
    if !data.is_file() && !data.is_dir() {
        return Err(Error::file(path, "is a device, a pipe or a socket; expected a regular file"));
    }
    std::fs::File::open(path).map_err(Error::io("read", path))
}

/// Reads a whole file; what does not fit memory is an error.
///
/// # Errors
/// It is missing, unreadable, not a regular file, or larger than memory.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let file = open(path)?;
    let bytes = file.metadata().map_err(Error::io("read", path))?.len();
    let mut content = Vec::new();
    let reserve =
        |content: &mut Vec<u8>| usize::try_from(bytes).is_ok_and(|bytes| content.try_reserve_exact(bytes).is_ok());
    if !memory::fits(bytes) || !reserve(&mut content) {
        return Err(Error::file(path, format!("has {bytes} bytes, more than memory holds")));
    }
    // Not beyond what was there at first: somebody may be adding to it.
    file.take(bytes).read_to_end(&mut content).map_err(Error::io("read", path))?;
    Ok(content)
}

/// Reads a whole text file.
///
/// # Errors
/// It is missing, unreadable, not a regular file, longer than any text of ours, or not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    text(open(path)?, path)
}

/// Reads text that the user hands over, perhaps through a pipe.
///
/// # Errors
/// It is missing, unreadable, longer than any text of ours, or not UTF-8.
pub fn read_handed(path: &Path) -> Result<String> {
    text(std::fs::File::open(path).map_err(Error::io("read", path))?, path)
}

fn text(file: std::fs::File, path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = file.take(LONGEST_TEXT + 1).read_to_string(&mut text).map_err(Error::io("read", path))?;
    match read as u64 > LONGEST_TEXT {
        true => Err(Error::file(path, format!("has more than {LONGEST_TEXT} bytes; expected a text"))),
        false => Ok(text),
    }
}

/// A path that can be written into JSON and settings, which are UTF-8.
///
/// # Errors
/// Its bytes are not UTF-8.
pub fn utf8(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        Error::file(path, "has a name that is not UTF-8, which settings and results cannot hold: rename it")
    })
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// It is missing or unreadable, or a stop was asked for.
pub fn sha256(path: &Path, stop: &Stop) -> Result<String> {
    use sha2::{Digest, Sha256};
    let mut file = open(path)?;
    let (mut hash, mut block) = (Sha256::new(), vec![0u8; 1 << 20]);
    loop {
        stop.check()?;
        match std::io::Read::read(&mut file, &mut block).map_err(Error::io("read", path))? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&block[..read]),
        }
    }
}

/// Whether an open file is still the one that `path` names.
pub fn is_same(file: &std::fs::File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |data: &std::fs::Metadata| (data.dev(), data.ino());
        matches!((file.metadata(), std::fs::metadata(path)), (Ok(a), Ok(b)) if identity(&a) == identity(&b))
    }
    #[cfg(not(unix))]
    {
        // There an open file cannot be removed.
        let _ = (file, path);
        true
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_and_what_it_links_to_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::fs::create_dir(at("deep")).unwrap();
        std::fs::write(at("deep/old"), "old").unwrap();
        std::os::unix::fs::symlink("deep/old", at("link")).unwrap();
        std::os::unix::fs::symlink(at("link"), at("link-to-link")).unwrap();
        check_writable(&at("link-to-link")).unwrap();
        write_atomic(&at("link-to-link"), b"new").unwrap();
        assert_eq!(std::fs::read(at("deep/old")).unwrap(), b"new");
        assert!(at("link").is_symlink() && at("link-to-link").is_symlink());
        // One that leads nowhere yet.
        std::os::unix::fs::symlink("deep/new", at("dangling")).unwrap();
        write_atomic(&at("dangling"), b"made").unwrap();
        assert!(at("dangling").is_symlink() && std::fs::read(at("deep/new")).unwrap() == b"made");
        std::os::unix::fs::symlink("circle", at("circle")).unwrap();
        assert!(check_writable(&at("circle")).unwrap_err().to_string().contains("links"));
        assert!(write_atomic(&at("circle"), b"").is_err());
    }

    #[test]
    fn what_is_no_regular_file_is_written_through() {
        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        check_writable(&pipe).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || {
                let mut text = String::new();
                std::fs::File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
                text
            }
        });
        write_atomic(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(is_stream(&pipe) && !std::fs::metadata(&pipe).unwrap().is_file());
        write_atomic(Path::new("/dev/null"), b"gone").unwrap();
        assert!(is_stream(Path::new("/dev/null")) && is_stream(Path::new("/dev/stdout")) && !is_stream(home.path()));
    }

    #[test]
    fn a_pipe_or_a_device_in_the_place_of_a_file_is_refused_at_once() {
        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("summary.json");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", home.path().join("zero")).unwrap();
        for path in [pipe, home.path().join("zero")] {
            for error in [read(&path).unwrap_err(), read_text(&path).unwrap_err()] {
                assert!(error.to_string().contains("expected a regular file"), "{error}");
            }
            assert!(sha256(&path, &Stop::new()).is_err());
        }
    }
}
