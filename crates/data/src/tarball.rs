//! The few files we need out of a tar or tar.gz, into a temporary directory beside the work.
//!
//! Members are found by the end of their name and written under that end, so no name of the archive becomes a path.

use crate::archive::limit;
use flate2::read::GzDecoder;
use harmonia_graph::error::{Error, Result, one_line};
use harmonia_graph::watch::Watch;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use tempfile::TempDir;

/// Extracts the members whose names end in one of `wanted` (with `/` before) into a new directory inside `beside`.
///
/// # Errors
/// Not a tar, damaged or truncated, a member that grows beyond all measure, or a disk that is full.
pub fn extract(path: &Path, beside: &Path, wanted: &[&str], watch: &Watch) -> Result<TempDir> {
    let damaged = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => Error::io("read", path)(error),
        _ => {
            let reason = one_line(error);
            Error::file(path, format!("expected a tar or tar.gz, found a damaged or truncated one ({reason})"))
        }
    };
    let file = File::open(path).map_err(Error::io("read", path))?;
    let bytes = file.metadata().map_err(Error::io("read", path))?.len();
    let most = limit(bytes);
    let mut file = BufReader::with_capacity(1 << 20, file);
    let start = std::io::BufRead::fill_buf(&mut file).map_err(damaged)?;
    if start.starts_with(b"PK") {
        return Err(Error::file(path, "expected a tar or tar.gz, found a zip; unpack it and give the directory"));
    }
    let gzip = start.starts_with(&[0x1f, 0x8b]);
    let stream: Box<dyn Read> = if gzip { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
    let target = tempfile::tempdir_in(beside).map_err(Error::io("create a directory in", beside))?;
    let mut archive = tar::Archive::new(stream.take(most));
    let mut block = vec![0; 1 << 20];
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let name = entry.path().map_err(damaged)?.to_string_lossy().replace('\\', "/");
        let ends =
            |wanted: &&&str| name.strip_suffix(**wanted).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
        let Some(wanted) = wanted.iter().find(ends).filter(|_| entry.header().entry_type().is_file()) else { continue };
        let place = target.path().join(wanted);
        let folder = place.parent().unwrap_or(target.path());
        std::fs::create_dir_all(folder).map_err(Error::io("create directory", folder))?;
        let mut out = File::create(&place).map_err(Error::io("write", &place))?;
        let (mut done, total) = (0, entry.size());
        loop {
            watch.check()?;
            let read = entry.read(&mut block).map_err(damaged)?;
            if read == 0 {
                break;
            }
            out.write_all(&block[..read]).map_err(Error::io("write", &place))?;
            done += read as u64;
            watch.progress(wanted, done, total);
        }
        if done != total {
            return Err(Error::file(
                path,
                format!("{wanted} has {done} of its {total} bytes; fetch the archive again"),
            ));
        }
    }
    Ok(target)
}
