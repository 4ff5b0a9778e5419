//! Remembers which large stores have been read through and found sound, so that opening one again takes milliseconds.
//!
//! A note in the user's cache directory, never in the store: a store from elsewhere cannot vouch for itself. It names
//! size, inode, time of the last change and time of the last change of any of these (which no program can set back) of
//! every file; any difference, or no note, means reading everything again.

use crate::cache::cache_directory;
use crate::files;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// Of the checks: notes of other ones do not count.
const VERSION: u32 = 2;
/// Smaller stores are read through in no time, each time.
const WORTH_A_NOTE: u64 = 64 << 20;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    version: u32,
    store: PathBuf,
    symmetric: bool,
    /// (name, bytes, nanoseconds, inode and change of it) of every file.
    files: Vec<(String, u64, u128, Identity)>,
}

/// Inode, and the second and nanosecond at which anything about it last changed.
type Identity = (u64, i64, i64);

/// Whether `directory` is as it was when it was last found sound, and if so whether its graph is symmetric.
pub fn recall(directory: &Path) -> Option<bool> {
    let note = fs::read(place(directory)?).ok()?;
    let note: Note = serde_json::from_slice(&note).ok()?;
    let same = note.version == VERSION && note.store == fs::canonicalize(directory).ok()?;
    (same && note.files == listing(directory)?).then_some(note.symmetric)
}

/// Notes that `directory` is sound. Best effort: without a note it is only read again.
pub fn remember(directory: &Path, symmetric: bool) {
    let note = || -> Option<()> {
        let files = listing(directory)?;
        if files.iter().map(|(_, bytes, ..)| bytes).sum::<u64>() < WORTH_A_NOTE {
            return None;
        }
        let note = Note { version: VERSION, store: fs::canonicalize(directory).ok()?, symmetric, files };
        let path = place(directory)?;
        fs::create_dir_all(path.parent()?).ok()?;
        files::remove_unfinished(path.parent()?);
        files::write_atomic(&path, &serde_json::to_vec(&note).ok()?).ok()
    };
    let _ = note();
}

/// From now on nothing is known of `directory`.
pub fn forget(directory: &Path) {
    if let Some(note) = place(directory) {
        let _ = fs::remove_file(note);
    }
}

fn place(directory: &Path) -> Option<PathBuf> {
    let store = fs::canonicalize(directory).ok()?;
    let name = files::hex(&Sha256::digest(store.as_os_str().as_encoded_bytes()));
    Some(cache_directory()?.join("checked").join(name + ".json"))
}

fn listing(directory: &Path) -> Option<Vec<(String, u64, u128, Identity)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).ok()? {
        let entry = entry.ok()?;
        let data = fs::metadata(entry.path()).ok()?;
        let changed = data.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?.as_nanos();
        files.push((entry.file_name().to_str()?.to_string(), data.len(), changed, identity(&data)));
    }
    files.sort();
    Some(files)
}

#[cfg(unix)]
fn identity(data: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (data.ino(), data.ctime(), data.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> Identity {
    (0, 0, 0)
}
