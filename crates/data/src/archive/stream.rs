//! Streams that do not trust what they read: a limit on decompressed bytes, and the checksum of a zip member.
//!
//! A few kilobytes can decompress to petabytes, and a deflate stream that is cut off ends like a complete one. Both
//! become errors here, of kind `InvalidData`.

use flate2::Crc;
use flate2::read::MultiGzDecoder;
use std::io::{self, Read};

/// No text or array of numbers compresses better than this.
const MOST_RATIO: u64 = 256;
/// ... but for small files, which may be all zeros.
const ALWAYS_ALLOWED: u64 = 256 << 20;

/// Passes on at most 256 x the compressed bytes + 256 MiB, then fails.
pub(super) struct Limited<R> {
    inner: R,
    left: u64,
    compressed: u64,
}

/// The error of a stream that is too long, told from damage by [`is_limit`].
#[derive(Debug)]
struct Beyond {
    compressed: u64,
}

impl std::fmt::Display for Beyond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let most = limit(self.compressed);
        write!(
            f,
            "{} compressed bytes expand to more than {most}, which looks like a trap; if the file is sound, \
             decompress it yourself and pass the directory",
            self.compressed
        )
    }
}

impl std::error::Error for Beyond {}

pub(crate) fn limit(compressed: u64) -> u64 {
    compressed.saturating_mul(MOST_RATIO).saturating_add(ALWAYS_ALLOWED)
}

pub(super) fn is_limit(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Beyond>())
}

impl<R: Read> Limited<R> {
    pub(super) fn new(inner: R, compressed: u64) -> Limited<R> {
        Limited { inner, left: limit(compressed), compressed }
    }

    #[cfg(test)]
    pub(super) fn with_left(inner: R, left: u64) -> Limited<R> {
        Limited { inner, left, compressed: 0 }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            // At the limit the stream must end.
            return match self.inner.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::Error::new(io::ErrorKind::InvalidData, Beyond { compressed: self.compressed })),
            };
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.inner.read(buffer.get_mut(..most).unwrap_or_default())?;
        self.left -= read as u64;
        Ok(read)
    }
}

/// A gzip file of any number of members, decompressed; `compressed` is the size that sets the limit.
pub(super) fn gunzip(inner: impl Read + Send + 'static, compressed: u64) -> Box<dyn Read + Send> {
    Box::new(Limited::new(MultiGzDecoder::new(inner), compressed))
}

/// Checks length and checksum of a zip member against what its zip promises.
pub(super) struct Checked<R> {
    inner: R,
    crc: Crc,
    size: u64,
    read: u64,
    expected_crc: u32,
}

impl<R: Read> Checked<R> {
    pub(super) fn new(inner: R, size: u64, expected_crc: u32) -> Checked<R> {
        Checked { inner, crc: Crc::new(), size, read: 0, expected_crc }
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let read = self.inner.read(buffer)?;
        self.crc.update(buffer.get(..read).unwrap_or_default());
        self.read += read as u64;
        let wrong = |message: String| Err(io::Error::new(io::ErrorKind::InvalidData, message));
        if self.read > self.size || (read == 0 && self.read < self.size) {
            return wrong(format!("the zip promises {} bytes, found {}", self.size, self.read));
        }
        if read == 0 && self.crc.sum() != self.expected_crc {
            return wrong(format!("the zip promises checksum {:08x}, found {:08x}", self.expected_crc, self.crc.sum()));
        }
        Ok(read)
    }
}
