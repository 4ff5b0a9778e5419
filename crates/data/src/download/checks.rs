//! Checksums: of a file, of the members of a zip, and the one recorded at the first download.
//!
//! Files are read once, in pieces. A file without any known checksum must at least be what its name says: an error page
//! sent in place of an archive is never recorded as the truth.

use crate::catalogue::{Checks, Entry};
use crate::locate::{find_raw, target};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use harmonia_graph::stop::Stop;
use md5::Md5;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

const PIECE: usize = 1 << 20;
/// A record is one line; more is another file.
const MAX_RECORD: u64 = 4096;

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileCheck {
    /// Every known checksum holds, and there is at least one.
    Matches,
    /// No checksum is known.
    Unknown,
    /// A checksum or the kind of file is wrong.
    Differs {
        /// What was compared, as in "SHA-256".
        what: String,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
}

/// One file that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedFile {
    /// The file.
    pub path: PathBuf,
    /// Its SHA-256.
    pub sha256: String,
    /// Whether it is what it should be.
    pub verdict: FileCheck,
}

/// Hashes the files of `entry` that are in `directory` again. Files that are missing are not in the answer.
///
/// # Errors
/// A file cannot be read.
pub fn verify(entry: &Entry, directory: &Path, stop: &Stop) -> Result<Vec<VerifiedFile>> {
    let paths = match find_raw(entry, directory) {
        Some(raw) => raw.files,
        None => entry.files.iter().map(|file| target(entry, directory, file)).filter(|path| path.is_file()).collect(),
    };
    let verified = paths.into_iter().map(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (sha256, verdict) = check(&path, &name, &known(entry, &name), &record_path(&path), stop, &|_, _| ())?;
        Ok(VerifiedFile { path, sha256, verdict })
    });
    verified.collect()
}

/// What is published about a file of this name: as a download, or as a member of one that was extracted.
fn known(entry: &Entry, name: &str) -> Checks {
    if let Some(file) = entry.files.iter().find(|file| file.file_name() == name) {
        return file.checks;
    }
    let mut members = entry.files.iter().flat_map(|file| file.checks.members);
    members.find(|(member, _)| *member == name).map_or(Checks::NONE, |(_, digest)| Checks::sha256(digest))
}

/// Holds the file at `path`, which is or will be called `name`, against everything known about it. Returns its SHA-256.
pub(super) fn check(
    path: &Path,
    name: &str,
    checks: &Checks,
    record: &Path,
    stop: &Stop,
    progress: &dyn Fn(u64, u64),
) -> Result<(String, FileCheck)> {
    let (sha256, md5) = digests(path, checks.md5.is_some(), stop, progress)?;
    let recorded = read_record(record)?;
    let compared =
        [("SHA-256", checks.sha256, &sha256), ("MD5", checks.md5, &md5), ("SHA-256", recorded.as_deref(), &sha256)];
    for (what, expected, found) in compared {
        if let Some(expected) = expected.filter(|expected| !expected.eq_ignore_ascii_case(found)) {
            return Ok((sha256.clone(), differs(what, expected, found)));
        }
    }
    if checks.sha256.is_none()
        && checks.md5.is_none()
        && let Some(verdict) = kind(path, name)?
    {
        return Ok((sha256, verdict));
    }
    if let Some(verdict) = wrong_member(path, checks.members)? {
        return Ok((sha256, verdict));
    }
    let is_known = compared.iter().any(|(_, expected, _)| expected.is_some()) || !checks.members.is_empty();
    Ok((sha256.clone(), if is_known { FileCheck::Matches } else { FileCheck::Unknown }))
}

fn differs(what: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> FileCheck {
    FileCheck::Differs { what: what.into(), expected: expected.into(), found: found.into() }
}

/// SHA-256 and, if wanted, MD5 of a file, in one pass.
fn digests(path: &Path, with_md5: bool, stop: &Stop, progress: &dyn Fn(u64, u64)) -> Result<(String, String)> {
    let mut file = File::open(path).map_err(Error::io("read", path))?;
    let total = file.metadata().map_err(Error::io("read", path))?.len();
    let (mut sha256, mut md5, mut done) = (Sha256::new(), Md5::new(), 0);
    let mut piece = vec![0; PIECE];
    loop {
        stop.check()?;
        let read = file.read(&mut piece).map_err(Error::io("read", path))?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        sha256.update(bytes);
        if with_md5 {
            md5.update(bytes);
        }
        done += read as u64;
        progress(done, total);
    }
    Ok((files::hex(&sha256.finalize()), files::hex(&md5.finalize())))
}

/// `Some` when the content cannot be what the name says.
fn kind(path: &Path, name: &str) -> Result<Option<FileCheck>> {
    let (what, magic): (&str, &[u8]) = match name.rsplit('.').next() {
        Some("zip") => ("a zip archive", b"PK"),
        Some("npz") => ("a .npz archive", b"PK"),
        Some("gz") => ("a gzip file", &[0x1f, 0x8b]),
        _ => return Ok(None),
    };
    let mut start = Vec::new();
    let file = File::open(path).map_err(Error::io("read", path))?;
    file.take(16).read_to_end(&mut start).map_err(Error::io("read", path))?;
    if !start.starts_with(magic) {
        let beginning = format!("a file that begins with `{}`", start.escape_ascii());
        return Ok(Some(differs("its content", what, beginning)));
    }
    if magic != b"PK" {
        return Ok(None);
    }
    // The directory of a zip stands at its end: a truncated one has none.
    Ok(match open_zip(path)? {
        Ok(_) => None,
        Err(error) => Some(differs("its content", what, format!("a damaged one ({error})"))),
    })
}

type Zip = zip::ZipArchive<BufReader<File>>;

fn open_zip(path: &Path) -> Result<std::result::Result<Zip, zip::result::ZipError>> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    Ok(zip::ZipArchive::new(BufReader::new(file)))
}

/// The first member whose content is not what is known, or that is missing.
fn wrong_member(path: &Path, members: &[(&str, &str)]) -> Result<Option<FileCheck>> {
    if members.is_empty() {
        return Ok(None);
    }
    let damaged = |error: &dyn std::fmt::Display| Some(differs("its content", "a zip archive", error.to_string()));
    let mut archive = match open_zip(path)? {
        Ok(archive) => archive,
        Err(error) => return Ok(damaged(&error)),
    };
    let most = growth_limit(path)?;
    for (member, expected) in members {
        let mut seen = false;
        for index in 0..archive.len() {
            let name = archive.name_for_index(index).and_then(|name| name.ok()).unwrap_or_default();
            if name.rsplit(['/', '\\']).next() != Some(member) {
                continue;
            }
            seen = true;
            let digest = match archive.by_index(index) {
                Ok(content) => member_digest(content, most),
                Err(error) => return Ok(damaged(&error)),
            };
            match digest {
                Ok(digest) if digest == *expected => {}
                Ok(digest) => return Ok(Some(differs(format!("SHA-256 of its member {member}"), *expected, digest))),
                Err(error) => return Ok(damaged(&error)),
            }
        }
        if !seen {
            return Ok(Some(differs("its content", format!("an archive with {member}"), "none of that name")));
        }
    }
    Ok(None)
}

/// Bytes a member may grow to: real tables shrink to a tenth, an archive made to harm grows a thousandfold.
fn growth_limit(path: &Path) -> Result<u64> {
    let packed = std::fs::metadata(path).map_err(Error::io("read", path))?.len();
    Ok(crate::archive::limit(packed))
}

fn member_digest(mut content: impl Read, most: u64) -> std::io::Result<String> {
    let (mut sha256, mut total) = (Sha256::new(), 0u64);
    let mut piece = vec![0; PIECE];
    loop {
        let read = content.read(&mut piece)?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        total += read as u64;
        if total > most {
            return Err(std::io::Error::other(format!("a member that grows beyond {most} bytes")));
        }
        sha256.update(bytes);
    }
    Ok(files::hex(&sha256.finalize()))
}

/// Where the SHA-256 of the first download of a file is kept.
pub(super) fn record_path(path: &Path) -> PathBuf {
    super::partial::beside(path, ".sha256")
}

/// Records a checksum in the form that `sha256sum -c` reads.
pub(super) fn write_record(record: &Path, name: &str, sha256: &str) -> Result<()> {
    files::write_atomic(record, format!("{sha256}  {name}\n").as_bytes())
}

fn read_record(record: &Path) -> Result<Option<String>> {
    let Ok(metadata) = std::fs::metadata(record) else { return Ok(None) };
    let text = if metadata.len() <= MAX_RECORD { files::read(record)? } else { Vec::new() };
    let text = String::from_utf8_lossy(&text);
    let digest = text.split_whitespace().next().unwrap_or_default();
    if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(Some(digest.to_lowercase()));
    }
    Err(Error::file(
        record,
        "line 1: expected a SHA-256 of 64 hexadecimal digits and a file name; remove this file to forget the record",
    ))
}
