//! numpy's `.npz`: a zip with one `.npy` array per member, as `numpy.savez` writes it.
//!
//! Gives the bytes of an array for [`harmonia_graph::npy::Npy::parse`]; sizes, names and checksums are checked by [`Archive`].

use crate::archive::Archive;
use harmonia_graph::error::{Error, Result};
use std::path::{Path, PathBuf};

/// Larger than any array this crate reads from an .npz.
const MOST_BYTES: u64 = 1 << 36;
const EXTENSION: &str = ".npy";

/// An opened `.npz`.
#[derive(Clone, Debug)]
pub struct Npz {
    archive: Archive,
}

impl Npz {
    /// Opens a file.
    ///
    /// # Errors
    /// It is missing, a directory, or not a sound zip.
    pub fn open(path: &Path) -> Result<Npz> {
        if path.is_dir() {
            return Err(Error::file(path, "expected an .npz file, found a directory"));
        }
        Ok(Npz { archive: Archive::open(path)? })
    }

    /// Where it was opened; messages about its arrays name it.
    pub fn path(&self) -> &Path {
        self.archive.path()
    }

    /// Names of the arrays, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.archive.names().iter().filter_map(|name| name.strip_suffix(EXTENSION))
    }

    /// Whether there is an array of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Where an array is, for messages: `tolokers.npz/edges.npy`.
    pub fn location(&self, name: &str) -> PathBuf {
        self.archive.location(&format!("{name}{EXTENSION}"))
    }

    /// The bytes of an array, header included.
    ///
    /// # Errors
    /// No such array, or one that is damaged or beyond the decompression limit.
    pub fn array(&self, name: &str) -> Result<Vec<u8>> {
        if !self.contains(name) {
            let known: Vec<&str> = self.names().collect();
            return Err(Error::file(
                self.archive.path(),
                format!(
                    "expected an array `{name}`, found {}",
                    if known.is_empty() { "none".into() } else { known.join(", ") }
                ),
            ));
        }
        self.archive.read(&format!("{name}{EXTENSION}"), MOST_BYTES)
    }
}
