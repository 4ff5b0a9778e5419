//! Writing files so that a full disk or a kill leaves either the old file or the new one, never half of one.

use crate::error::{Error, Result};
use crate::stop::Stop;
use std::io::Write;
use std::path::Path;

/// Names of files that are being written start with this.
const UNFINISHED: &str = ".writing-";

/// Writes beside `path`, flushes to disk, then renames over it.
///
/// # Errors
/// The directory is not writable or the disk is full; nothing is left behind.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(UNFINISHED);
    #[cfg(unix)]
    {
        // A temporary file is private by default; a result is an ordinary file.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    // The error of the operating system alone: the name of the temporary file means nothing to the user.
    let plain = |error: std::io::Error| std::io::Error::from(error.kind());
    let mut file = builder.tempfile_in(directory).map_err(plain).map_err(Error::io("write", path))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(Error::io("write", path))?;
    file.persist(path).map_err(|failed| Error::io("write", path)(failed.error))?;
    Ok(())
}

/// Finds out whether [`write_atomic`] could write a file, before work that ends with it.
///
/// # Errors
/// The directory is missing or not writable, or `path` is a directory.
pub fn check_writable(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::file(path, "is a directory; give the name of a file"));
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        return Err(Error::file(path, format!("cannot be written: there is no directory {}", directory.display())));
    }
    tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(directory).map_err(Error::io("write", path))?;
    Ok(())
}

/// Removes what a kill during [`write_atomic`] left in a directory.
pub fn remove_unfinished(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            // Best effort: litter is harmless.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Reads a whole file.
///
/// # Errors
/// It is missing or unreadable.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(Error::io("read", path))
}

/// Reads a whole text file.
///
/// # Errors
/// It is missing, unreadable or not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(Error::io("read", path))
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
    let mut file = std::fs::File::open(path).map_err(Error::io("read", path))?;
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
