//! An unfinished transfer on disk: the bytes in `<file>.part`, and in `<file>.part.json` what the server said about the
//! version they belong to.
//!
//! Either file may be missing, old or damaged: then nothing can be continued, which costs time but never correctness.

use super::without_password;
use harmonia_graph::files;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use ureq::http::HeaderValue;

/// More than a description can need.
const MAX_DESCRIPTION: u64 = 64 << 10;

/// What the server said about the bytes in `<file>.part`.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Version {
    pub url: String,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    pub total: Option<u64>,
}

impl Version {
    /// What `If-Range` sends. A weak ETag does not promise equal bytes.
    pub(super) fn validator(&self) -> Option<&str> {
        let strong = self.etag.as_deref().filter(|etag| etag.starts_with('"'));
        strong.or(self.last_modified.as_deref())
    }
}

/// Bytes that can be continued, and what they belong to.
pub(super) fn resumable(part: &Path, url: &str) -> (u64, Version) {
    let path = description_path(part);
    let small = std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= MAX_DESCRIPTION);
    let version: Option<Version> =
        small.then(|| files::read(&path).ok()).flatten().and_then(|text| serde_json::from_slice(&text).ok());
    let kept = length(part);
    match version {
        Some(version)
            if version.url == without_password(url)
                && version.validator().is_some_and(is_header)
                && version.total.is_none_or(|total| kept <= total) =>
        {
            (kept, version)
        }
        // A file that someone else wrote or that belongs to another address: begin anew.
        _ => (0, Version::default()),
    }
}

fn is_header(text: &str) -> bool {
    HeaderValue::from_str(text).is_ok()
}

/// Keeps what the server said beside the bytes.
pub(super) fn describe(part: &Path, version: &Version) -> io::Result<()> {
    let text = serde_json::to_vec(version).map_err(io::Error::other)?;
    let mut file = File::create(description_path(part))?;
    file.write_all(&text)
}

/// `path` with `ending` added to its name.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    PathBuf::from(name)
}

pub(super) fn part_path(target: &Path) -> PathBuf {
    beside(target, ".part")
}

fn description_path(part: &Path) -> PathBuf {
    beside(part, ".json")
}

/// Bytes of a file, 0 where there is none.
pub(super) fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Removes an unfinished transfer.
pub(super) fn discard(part: &Path) -> io::Result<()> {
    for path in [part.to_path_buf(), description_path(part)] {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Flushes a finished transfer to disk and gives it its name.
pub(super) fn put_in_place(part: &Path, target: &Path) -> io::Result<()> {
    File::options().write(true).open(part)?.sync_all()?;
    std::fs::rename(part, target)?;
    // Best effort: the file is complete; its description is litter, and not every system can flush a directory.
    let _ = std::fs::remove_file(description_path(part));
    if let Some(parent) = target.parent() {
        let _ = File::open(parent).and_then(|directory| directory.sync_all());
    }
    Ok(())
}
