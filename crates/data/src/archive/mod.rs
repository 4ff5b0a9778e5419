//! A directory or a .zip as one read-only tree of members; members ending in `.gz` are decompressed on the way.
//!
//! The readers of datasets ask for members by name and do not care how they are kept. A member name is never used as a
//! path on disk unless the directory walk found it there: names in a zip that could lead outside (absolute, `..`,
//! backslash, drive, NUL, symbolic link) are refused when the archive is opened.

mod stream;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use stream::limit;

use harmonia_graph::error::{Error, Result, one_line};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use stream::{Checked, Limited};
use zip::{CompressionMethod, ZipArchive};

/// Most members of a zip, and most entries of a directory that are looked at.
const MOST_ENTRIES: usize = 100_000;
/// Capacity that is taken on the word of a zip; beyond it a buffer grows with what really comes.
const TRUSTED_CAPACITY: u64 = 1 << 26;
/// Bytes by which a buffer grows at least.
const SMALLEST_STEP: u64 = 1 << 16;
/// Bytes of a member's name: it is part of messages.
const LONGEST_NAME: usize = 255;

/// A tree of files, opened for reading.
#[derive(Clone, Debug)]
pub struct Archive {
    path: PathBuf,
    /// Sorted.
    names: Vec<String>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Directory,
    Zip {
        /// In the order of the names.
        members: Vec<Member>,
        /// Size of the zip.
        bytes: u64,
    },
}

/// Where the bytes of a zip member lie, and what they must turn into.
#[derive(Clone, Copy, Debug)]
struct Member {
    start: u64,
    compressed: u64,
    deflated: bool,
    size: u64,
    crc: u32,
}

impl Archive {
    /// Opens a directory, or any other file as a zip.
    ///
    /// # Errors
    /// Nothing is there, it is not a zip, a member is encrypted, compressed by another method than deflate or has an
    /// unsafe name, or there are too many entries.
    pub fn open(path: &Path) -> Result<Archive> {
        if std::fs::metadata(path).map_err(Error::io("open", path))?.is_dir() {
            let names = tree::walk(path, MOST_ENTRIES)?;
            return Ok(Archive { path: path.to_path_buf(), names, kind: Kind::Directory });
        }
        let (names, members, bytes) = open_zip(path)?;
        Ok(Archive { path: path.to_path_buf(), names, kind: Kind::Zip { members, bytes } })
    }

    /// The directory or zip.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of all members, sorted, with `/` between folders.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The member whose last path components equal `suffix`, as in `raw/edge.csv.gz`; of several the one in the
    /// fewest folders.
    pub fn find(&self, suffix: &str) -> Option<&str> {
        let suffix = tree::clean(suffix)?;
        let ends =
            |name: &&String| name.strip_suffix(&suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
        self.names.iter().filter(ends).min_by_key(|name| name.matches('/').count()).map(String::as_str)
    }

    /// Where a member is, for messages: `arxiv.zip/raw/edge.csv.gz`.
    pub fn location(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a member whole, decompressed.
    ///
    /// # Errors
    /// No such member, more than `most` bytes, damaged, truncated or beyond the decompression limit.
    pub fn read(&self, name: &str, most: u64) -> Result<Vec<u8>> {
        let declared = match &self.kind {
            Kind::Zip { members, .. } if !name.ends_with(".gz") => {
                members.get(self.index(name)?).map(|member| member.size)
            }
            _ => None,
        };
        let mut bytes: Vec<u8> = Vec::with_capacity(declared.unwrap_or(0).min(most).min(TRUSTED_CAPACITY) as usize);
        let mut limited = self.reader(name)?.take(most.saturating_add(1));
        loop {
            let room = bytes.capacity() - bytes.len();
            let read = limited.by_ref().take(room as u64).read_to_end(&mut bytes);
            if read.map_err(|error| self.failed(name, error))? < room {
                break;
            }
            // Twice as much, but not more than the member is said to have: it may have far less, or lie.
            let length = bytes.len() as u64;
            let left = declared.and_then(|declared| declared.checked_sub(length)).unwrap_or(u64::MAX).saturating_add(1);
            bytes.reserve_exact(length.max(SMALLEST_STEP).min(left) as usize);
        }
        if bytes.len() as u64 > most {
            return Err(Error::file(&self.location(name), format!("expected at most {most} bytes, found more")));
        }
        Ok(bytes)
    }

    /// A member as a stream, decompressed. It reads the file anew, so it may outlive the archive.
    ///
    /// # Errors
    /// No such member, or the file cannot be opened. The stream itself fails with `InvalidData` beyond the
    /// decompression limit, and where the data are damaged or truncated; [`Archive::failed`] words such an error.
    pub fn reader(&self, name: &str) -> Result<Box<dyn Read + Send>> {
        let (location, gzip, index) = (self.location(name), name.ends_with(".gz"), self.index(name)?);
        let Kind::Zip { members, bytes } = &self.kind else {
            let file = File::open(&location).map_err(Error::io("open", &location))?;
            let bytes = file.metadata().map_err(Error::io("read", &location))?.len();
            return Ok(if gzip { stream::gunzip(file, bytes) } else { Box::new(file) });
        };
        let Some(&member) = members.get(index) else { return Err(self.missing(name)) };
        let mut file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        file.seek(SeekFrom::Start(member.start)).map_err(Error::io("read", &self.path))?;
        let raw = file.take(member.compressed);
        let plain: Box<dyn Read + Send> =
            if member.deflated { Box::new(flate2::read::DeflateDecoder::new(raw)) } else { Box::new(raw) };
        let checked = Checked::new(plain, member.size, member.crc);
        Ok(if gzip { stream::gunzip(checked, *bytes) } else { Box::new(Limited::new(checked, *bytes)) })
    }

    /// Words an error that a stream of [`Archive::reader`] gave.
    pub fn failed(&self, name: &str, error: io::Error) -> Error {
        let location = self.location(name);
        match error.kind() {
            io::ErrorKind::InvalidData if stream::is_limit(&error) => Error::file(&location, error.to_string()),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => Error::file(
                &location,
                format!("expected compressed data, found damaged or truncated ones ({error}); fetch the file again"),
            ),
            _ => Error::io("read", &location)(error),
        }
    }

    fn index(&self, name: &str) -> Result<usize> {
        self.names.binary_search_by(|known| known.as_str().cmp(name)).map_err(|_| self.missing(name))
    }

    fn missing(&self, name: &str) -> Error {
        let near = harmonia_graph::error::suggestion(name, self.names.iter().map(String::as_str));
        Error::file(&self.path, format!("expected a member `{name}`, found none among {}{near}", self.names.len()))
    }
}

fn open_zip(path: &Path) -> Result<(Vec<String>, Vec<Member>, u64)> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let bytes = file.metadata().map_err(Error::io("read", path))?.len();
    let damaged = |error: zip::result::ZipError| {
        Error::file(
            path,
            format!("expected a directory or a .zip, found neither ({}); fetch the file again", one_line(error)),
        )
    };
    let mut zip = ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
    if zip.len() > MOST_ENTRIES {
        return Err(Error::file(path, format!("expected at most {MOST_ENTRIES} members, found {}", zip.len())));
    }
    let mut members = Vec::with_capacity(zip.len());
    for index in 0..zip.len() {
        let entry = zip.by_index_raw(index).map_err(damaged)?;
        let raw_name = entry.name().map_err(damaged)?.into_owned();
        let refused = |reason: &str| {
            let name = one_line(format!("{raw_name:?}"));
            Error::file(path, format!("member {name} {reason}; unpack it yourself and pass the directory"))
        };
        let Some(name) = tree::clean(&raw_name) else {
            return Err(refused("has a name that could lead outside the archive"));
        };
        if name.len() > LONGEST_NAME || name.contains(char::is_control) {
            return Err(refused("has a name that is too long or not printable"));
        }
        if entry.is_symlink() {
            return Err(refused("is a symbolic link, expected a file"));
        }
        if entry.is_dir() {
            continue;
        }
        if name.is_empty() {
            return Err(refused("has no name, expected one"));
        }
        if entry.encrypted() {
            return Err(refused("is encrypted, expected one without a password"));
        }
        let deflated = match entry.compression() {
            CompressionMethod::Stored => false,
            method if method == CompressionMethod::DEFLATE => true,
            method => return Err(refused(&format!("is compressed by {method}, expected deflate"))),
        };
        let Some(start) = entry.data_start() else { return Err(refused("has no data")) };
        let (compressed, size, crc) = (entry.compressed_size(), entry.size(), entry.crc32());
        members.push((name, Member { start, compressed, deflated, size, crc }));
    }
    members.sort_by(|(a, _), (b, _)| a.cmp(b));
    if let Some((name, _)) = members.windows(2).find(|pair| pair[0].0 == pair[1].0).and_then(|pair| pair.first()) {
        return Err(Error::file(
            path,
            format!("expected distinct members, found `{name}` twice; fetch the file again"),
        ));
    }
    let (names, members) = members.into_iter().unzip();
    Ok((names, members, bytes))
}
