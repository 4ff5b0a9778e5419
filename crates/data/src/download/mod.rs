//! Fetching the files of a catalogue entry: ask ([`consent`]), transfer, check, put in place ([`fetch`]); check
//! again later ([`verify`]).
//!
//! Invariant: a file appears under its own name only complete and checked. Until then it is `<file>.part`, which a
//! later call continues; `<file>.lock` makes other processes wait. Every failure says how to put the file there by hand.

mod checks;
mod lock;
mod partial;
mod transfer;

pub use checks::{FileCheck, VerifiedFile, verify};

use crate::catalogue::{Entry, RemoteFile};
use crate::locate::{DATA_VARIABLE, Raw, find_raw, missing_files, target};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::stop::Stop;
use harmonia_graph::units::bytes as size;
use std::fmt::Write as _;
use std::io::{BufRead, ErrorKind, Read, Write};
use std::path::Path;
use transfer::{Failure, FileRequest, TransferLimits};

/// What the user allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Never touch the network.
    pub offline: bool,
    /// Do not ask before downloading.
    pub yes: bool,
    /// Take `<mirror>/<Folder>/<path>` instead of the publisher's address.
    pub mirror: Option<String>,
}

/// What is being done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Another process is fetching the same file.
    Wait,
    /// Bytes arrive.
    Download,
    /// The transfer failed and starts again from `done` after a pause.
    Retry,
    /// The checksum is computed.
    Check,
}

/// How far a file has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// Name of the file.
    pub file: &'a str,
    /// What is being done.
    pub stage: Stage,
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all, where the server says.
    pub total: Option<u64>,
}

/// Fetches what is missing of `entry` into `directory` and returns what a reader needs. Touches no network when the
/// dataset is present in any layout. The caller has asked ([`consent`]).
///
/// # Errors
/// Offline access, a wrong mirror, a transfer that failed after retries, a wrong checksum, a directory that cannot be
/// written or a full disk. The message lists every missing file with its address and its place.
pub fn fetch(
    entry: &Entry,
    directory: &Path,
    access: &Access,
    stop: &Stop,
    progress: &dyn Fn(Transfer<'_>),
) -> Result<Raw> {
    fetch_within(entry, directory, access, &TransferLimits::default(), stop, progress)
}

fn fetch_within(
    entry: &Entry,
    directory: &Path,
    access: &Access,
    limits: &TransferLimits,
    stop: &Stop,
    progress: &dyn Fn(Transfer<'_>),
) -> Result<Raw> {
    let mirror = access.mirror.as_deref().map(checked_mirror).transpose()?;
    if let Some(raw) = find_raw(entry, directory) {
        return Ok(raw);
    }
    if access.offline {
        return Err(offline(entry, directory));
    }
    let agent = transfer::agent(limits);
    for file in missing_files(entry, directory) {
        fetch_file(&Fetch { entry, directory, file, mirror, limits, agent: &agent, stop, progress })?;
    }
    find_raw(entry, directory).ok_or_else(|| {
        Error::file(directory, format!("files of {} vanished while it was fetched; try again", entry.name))
    })
}

/// One file on its way.
struct Fetch<'a> {
    entry: &'a Entry,
    directory: &'a Path,
    file: &'a RemoteFile,
    mirror: Option<&'a str>,
    limits: &'a TransferLimits,
    agent: &'a ureq::Agent,
    stop: &'a Stop,
    progress: &'a dyn Fn(Transfer<'_>),
}

fn fetch_file(fetch: &Fetch<'_>) -> Result<()> {
    let Fetch { entry, directory, file, .. } = *fetch;
    let target = target(entry, directory, file);
    let report = |stage, done, total| (fetch.progress)(Transfer { file: file.file_name(), stage, done, total });
    let unwritable = |action, path: &Path, error| local_failure(fetch, action, path, error);
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent).map_err(|error| unwritable("create directory", parent, error))?;
    }
    let lock = lock::hold(&target, fetch.stop, &|| report(Stage::Wait, 0, None))
        .map_err(|error| unwritable("lock", &lock::path(&target), error));
    fetch.stop.check()?;
    let lock = lock?;
    // Another process may have finished it while this one waited.
    if target.is_file() {
        drop(lock);
        return Ok(());
    }

    let url = address(entry, file, fetch.mirror);
    let request = FileRequest { url: &url, part: partial::part_path(&target), file, stop: fetch.stop };
    transfer::download(fetch.agent, &request, fetch.limits, &report).map_err(|failure| match failure {
        Failure::Local(error) => unwritable("write", &request.part, error),
        Failure::Cancelled => Error::Cancelled,
        Failure::Remote(reason) => Error::file(
            &target,
            format!("could not be downloaded from {}: {reason}\n{}", without_password(&url), by_hand(entry, directory)),
        ),
    })?;

    let record = checks::record_path(&target);
    let check = |done, total| report(Stage::Check, done, Some(total));
    let (sha256, verdict) = checks::check(&request.part, file.path, &file.checks, &record, fetch.stop, &check)?;
    if let FileCheck::Differs { what, expected, found } = verdict {
        partial::discard(&request.part).map_err(Error::io("remove", &request.part))?;
        return Err(Error::file(
            &target,
            format!(
                "what {} sent is not the expected file: {what} should be {expected}, found {found}; it was removed{}\n{}",
                without_password(&url),
                if record.is_file() {
                    format!(" (expected since the first download, see {})", record.display())
                } else {
                    String::new()
                },
                by_hand(entry, directory)
            ),
        ));
    }
    // The record first: a file without its record would pass unchecked from then on.
    if file.checks.sha256.is_none() && !record.is_file() {
        checks::write_record(&record, file.file_name(), &sha256)?;
    }
    partial::put_in_place(&request.part, &target).map_err(|error| unwritable("write", &target, error))?;
    drop(lock);
    Ok(())
}

/// Asks once whether to download what is missing; `true` means go on. Asks nothing when nothing is missing or
/// [`Access::yes`] is set.
///
/// # Errors
/// Offline access; nobody to ask and no [`Access::yes`]; the terminal cannot be read or written.
pub fn consent(
    entry: &Entry,
    directory: &Path,
    access: &Access,
    input: &mut dyn BufRead,
    is_terminal: bool,
    out: &mut dyn Write,
) -> Result<bool> {
    let mirror = access.mirror.as_deref().map(checked_mirror).transpose()?;
    let missing = missing_files(entry, directory);
    if missing.is_empty() {
        return Ok(true);
    }
    if access.offline {
        return Err(offline(entry, directory));
    }
    if access.yes {
        return Ok(true);
    }
    let about = if missing.iter().any(|file| file.approximate) { "about " } else { "" };
    let mut hosts: Vec<_> = missing.iter().map(|file| host(&address(entry, file, mirror))).collect();
    hosts.dedup();
    let what = format!(
        "{}: {about}{} from {} to {}, licence: {}",
        entry.name,
        size(missing.iter().map(|file| file.bytes).sum()),
        hosts.join(", "),
        directory.join(entry.folder).display(),
        entry.licence
    );
    if !is_terminal {
        return Err(Error::Config(format!(
            "{what}; not downloaded, because there is no terminal to ask on: to allow it set yes = true\n{}",
            by_hand(entry, directory)
        )));
    }
    let terminal = Path::new("terminal");
    write!(out, "{what}; download? [y/N] ").and_then(|()| out.flush()).map_err(Error::io("write to", terminal))?;
    let mut answer = String::new();
    input.take(1024).read_line(&mut answer).map_err(Error::io("read from", terminal))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Where `file` comes from.
fn address(entry: &Entry, file: &RemoteFile, mirror: Option<&str>) -> String {
    match mirror {
        Some(mirror) => format!("{mirror}/{}/{}", entry.folder, file.path),
        None => file.url.to_string(),
    }
}

/// A mirror's address without the slash at its end.
fn checked_mirror(mirror: &str) -> Result<&str> {
    let refused = |why: &str| {
        let shown = without_password(mirror);
        Error::Config(format!("mirror {shown}: {why}; set mirror = URL, such as https://example.org/datasets"))
    };
    let uri: ureq::http::Uri = mirror.parse().map_err(|error| refused(&format!("not an address ({error})")))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return Err(refused("expected http:// or https:// and a host"));
    }
    if mirror.contains(['?', '#']) {
        return Err(refused("file names are added at its end, so it cannot hold ? or #"));
    }
    Ok(mirror.trim_end_matches('/'))
}

/// An address as messages show it: a mirror's may hold a user's name and password.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_string() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}://{}{path}", authority.rsplit('@').next().unwrap_or(authority))
}

fn host(url: &str) -> String {
    let shown = without_password(url);
    shown.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or(&shown).to_string()
}

fn offline(entry: &Entry, directory: &Path) -> Error {
    Error::Config(format!(
        "{} is not in {}, and nothing is downloaded offline (set offline = false)\n{}",
        entry.name,
        directory.display(),
        by_hand(entry, directory)
    ))
}

/// The next step that always works: every missing file, its publisher's address and its place.
fn by_hand(entry: &Entry, directory: &Path) -> String {
    let mut text = "to fetch it yourself, put each file here:".to_string();
    for file in missing_files(entry, directory) {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {}\n    -> {}", file.url, target(entry, directory, file).display());
    }
    text
}

/// A disk or directory that refuses: the operating system's reason, and what to do about it.
fn local_failure(fetch: &Fetch<'_>, action: &'static str, path: &Path, error: std::io::Error) -> Error {
    let next = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space and give the same command again: it goes on where it stopped".to_string()
        }
        _ => format!("set data.dir = DIR, one that can be written, or the variable {DATA_VARIABLE}"),
    };
    let url = address(fetch.entry, fetch.file, fetch.mirror);
    let text = format!(
        "{error}, while fetching {}; {next}\n{}",
        without_password(&url),
        by_hand(fetch.entry, fetch.directory)
    );
    Error::Io { action, path: path.to_path_buf(), source: std::io::Error::new(error.kind(), text) }
}

#[cfg(test)]
pub(crate) mod test_support;
#[cfg(test)]
mod tests;
