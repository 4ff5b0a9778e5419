//! One file over HTTP into `<file>.part`, continued where an earlier transfer stopped.
//!
//! A transfer goes on only if the server confirms that the version is still the one the bytes belong to (`If-Range` with
//! its ETag or date) and sends exactly the range that is missing; anything else starts over.

use super::partial::{Version, describe, discard, length, resumable};
use super::{Stage, without_password};
use crate::catalogue::RemoteFile;
use harmonia_graph::stop::Stop;
use harmonia_graph::units::bytes as size;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use ureq::http::{HeaderMap, Response, StatusCode, header};

/// Tries after the first that fail one after the other; a try that brought [`GOOD_PIECE`] starts the count anew.
const RETRIES: u32 = 3;
const GOOD_PIECE: u64 = 16 << 20;
/// A server that keeps refusing to continue is not asked for ever.
const MAX_RESTARTS: u32 = 2;
const PIECE: usize = 128 << 10;

/// How long to wait for what.
pub(super) struct TransferLimits {
    pub connect: Duration,
    /// Without a single byte.
    pub stall: Duration,
    /// Before the first retry; doubles with each.
    pub back_off: Duration,
    /// Use the proxies that the environment names.
    pub proxies: bool,
}

impl Default for TransferLimits {
    fn default() -> TransferLimits {
        let seconds = Duration::from_secs;
        TransferLimits { connect: seconds(30), stall: seconds(60), back_off: seconds(1), proxies: true }
    }
}

/// One file to fetch: from where, and into which partial file.
pub(super) struct FileRequest<'a> {
    pub url: &'a str,
    pub part: PathBuf,
    pub file: &'a RemoteFile,
    pub stop: &'a Stop,
}

impl FileRequest<'_> {
    /// Bytes beyond which this cannot be the file.
    fn most(&self) -> u64 {
        self.file.bytes.saturating_mul(4).saturating_add(64 << 20)
    }
}

/// Why a transfer ended.
pub(super) enum Failure {
    /// The disk refused.
    Local(io::Error),
    /// The network or the server did; the text is for people.
    Remote(String),
    /// The user did; what has come so far is kept.
    Cancelled,
}

/// How one try ended short of success.
enum Stopped {
    /// Worth another try.
    Transient(String),
    /// What is there cannot be continued.
    StartOver,
    Final(Failure),
}

impl Stopped {
    fn remote(reason: impl Into<String>) -> Stopped {
        Stopped::Final(Failure::Remote(reason.into()))
    }
}

/// Called with the stage, the bytes so far and in all.
type Report<'a> = &'a dyn Fn(Stage, u64, Option<u64>);

/// A client for one or more transfers.
pub(super) fn agent(limits: &TransferLimits) -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .user_agent(concat!("harmonia/", env!("CARGO_PKG_VERSION")))
        // Compression on the way would make lengths and ranges count other bytes than those on disk.
        .accept_encoding("identity")
        .http_status_as_error(false)
        .timeout_resolve(Some(limits.connect))
        .timeout_connect(Some(limits.connect))
        .timeout_recv_response(Some(limits.stall))
        .timeout_per_read(Some(limits.stall))
        .timeout_per_write(Some(limits.stall));
    let config = if limits.proxies { config } else { config.proxy(None) };
    config.build().new_agent()
}

/// Transfers until `request.part` is complete.
pub(super) fn download(
    agent: &ureq::Agent,
    request: &FileRequest<'_>,
    limits: &TransferLimits,
    report: Report<'_>,
) -> Result<(), Failure> {
    let (mut failures, mut restarts) = (0, 0);
    loop {
        let before = length(&request.part);
        match attempt(agent, request, report) {
            Ok(()) => return Ok(()),
            Err(Stopped::Final(failure)) => return Err(failure),
            Err(Stopped::StartOver) if restarts < MAX_RESTARTS => {
                restarts += 1;
                discard(&request.part).map_err(Failure::Local)?;
            }
            Err(Stopped::StartOver) => {
                return Err(Failure::Remote("the server sends ranges that do not fit what was asked".into()));
            }
            Err(Stopped::Transient(reason)) => {
                let kept = length(&request.part);
                failures = if kept.saturating_sub(before) >= GOOD_PIECE { 1 } else { failures + 1 };
                if failures > RETRIES {
                    let kept = match kept {
                        0 => String::new(),
                        kept => format!("; {} are kept, the same command goes on from there", size(kept)),
                    };
                    return Err(Failure::Remote(format!("{reason}, after {RETRIES} retries{kept}")));
                }
                report(Stage::Retry, kept, None);
                pause(limits.back_off * 2u32.pow(failures - 1), request.stop)?;
            }
        }
    }
}

/// Waits, unless the user has had enough.
fn pause(time: Duration, stop: &Stop) -> Result<(), Failure> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        stop.check().map_err(|_| Failure::Cancelled)?;
        std::thread::sleep(end.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
    }
    Ok(())
}

fn attempt(agent: &ureq::Agent, request: &FileRequest<'_>, report: Report<'_>) -> Result<(), Stopped> {
    let (kept, version) = resumable(&request.part, request.url);
    if kept > 0 && version.total == Some(kept) {
        return Ok(());
    }
    // What began encrypted stays so, through redirects too.
    let encrypted = request.url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    let mut get = agent.get(request.url).config().https_only(encrypted).build();
    if let Some(validator) = version.validator().filter(|_| kept > 0) {
        get = get.header(header::RANGE, format!("bytes={kept}-")).header(header::IF_RANGE, validator);
    }
    let mut response = get.call().map_err(unreachable)?;
    let (start, version) = accept(&response, request, kept, &version)?;

    let local = |error| Stopped::Final(Failure::Local(error));
    let mut part = if start == 0 {
        let part = File::create(&request.part).map_err(local)?;
        // Before the first byte: the description never belongs to another version than the bytes do.
        describe(&request.part, &version).map_err(local)?;
        part
    } else {
        File::options().append(true).open(&request.part).map_err(local)?
    };
    let mut body = response.body_mut().as_reader();
    let (mut done, mut piece) = (start, vec![0; PIECE]);
    report(Stage::Download, done, version.total);
    loop {
        let read = body.read(&mut piece).map_err(|error| Stopped::Transient(interrupted(&error, done, &version)))?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        done += read as u64;
        if done > version.total.unwrap_or(request.most()) {
            discard(&request.part).map_err(local)?;
            return Err(Stopped::remote(format!("it sends more than {} bytes", done - read as u64)));
        }
        part.write_all(bytes).map_err(local)?;
        report(Stage::Download, done, version.total);
        if request.stop.asked() {
            return Err(Stopped::Final(Failure::Cancelled));
        }
    }
    let promised = version.total.or(Some(request.file.bytes).filter(|_| !request.file.approximate));
    if promised.is_some_and(|total| done < total) {
        return Err(Stopped::Transient(interrupted(&"the connection was closed", done, &version)));
    }
    Ok(())
}

/// Where the body of `response` starts in the file, and the version it belongs to.
fn accept<B>(
    response: &Response<B>,
    request: &FileRequest<'_>,
    kept: u64,
    version: &Version,
) -> Result<(u64, Version), Stopped> {
    let (status, headers) = (response.status(), response.headers());
    if text(headers, header::CONTENT_ENCODING).is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(Stopped::remote("it sends compressed bytes although none were asked for"));
    }
    let answer = Version {
        url: without_password(request.url),
        etag: text(headers, header::ETAG),
        last_modified: text(headers, header::LAST_MODIFIED),
        total: text(headers, header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
    };
    let (start, answer) = match status {
        StatusCode::OK => (0, answer),
        StatusCode::PARTIAL_CONTENT if kept > 0 => {
            let range = text(headers, header::CONTENT_RANGE).and_then(|range| content_range(&range));
            let same = |old: &Option<String>, new: &Option<String>| old.is_none() || new.is_none() || old == new;
            match range {
                Some((start, last, total))
                    if start == kept
                        && last.checked_add(1) == Some(total)
                        && version.total.is_none_or(|known| known == total)
                        && same(&version.etag, &answer.etag)
                        && same(&version.last_modified, &answer.last_modified) =>
                {
                    (kept, Version { total: Some(total), ..answer })
                }
                _ => return Err(Stopped::StartOver),
            }
        }
        StatusCode::RANGE_NOT_SATISFIABLE if kept > 0 => return Err(Stopped::StartOver),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            return Err(Stopped::Transient(format!("the server answers {status}")));
        }
        _ if status.is_server_error() => return Err(Stopped::Transient(format!("the server answers {status}"))),
        _ => return Err(Stopped::remote(format!("the server answers {status}"))),
    };
    if let Some(total) = answer.total.filter(|&total| total > request.most()) {
        let expected = size(request.file.bytes);
        return Err(Stopped::remote(format!("it announces {}, expected about {expected}", size(total))));
    }
    Ok((start, answer))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_string)
}

/// First byte, last byte and total of `bytes 5-9/10`.
fn content_range(text: &str) -> Option<(u64, u64, u64)> {
    let (range, total) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?, total.trim().parse().ok()?))
}

/// Why a request got no answer, and whether another try may get one.
fn unreachable(error: ureq::Error) -> Stopped {
    use io::ErrorKind;
    let unknown_host = |reason: &dyn std::fmt::Display| {
        Stopped::remote(format!("the address of the host was not found ({reason}); is this machine online?"))
    };
    let insecure = |reason: &dyn std::fmt::Display| Stopped::remote(format!("no secure connection ({reason})"));
    match error {
        ureq::Error::HostNotFound => unknown_host(&"no such name"),
        ureq::Error::Io(error) if is_lookup_failure(&error) => unknown_host(&error),
        ureq::Error::Timeout(_) => Stopped::Transient("no answer in time".to_string()),
        ureq::Error::ConnectionFailed => Stopped::Transient("no connection".to_string()),
        ureq::Error::RequireHttpsOnly(_) => Stopped::remote("it redirects to an address that is not encrypted"),
        ureq::Error::Tls(reason) => insecure(&reason),
        ureq::Error::Rustls(reason) => insecure(&reason),
        ureq::Error::Io(error) => match error.kind() {
            // How most failures of TLS arrive.
            ErrorKind::InvalidData => insecure(&error),
            ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::PermissionDenied => Stopped::remote(error.to_string()),
            _ => Stopped::Transient(format!("the connection broke ({error})")),
        },
        other => Stopped::remote(other.to_string()),
    }
}

/// The standard library has no kind for it: a text of its own on Unix, the number of "host not found" on Windows.
fn is_lookup_failure(error: &io::Error) -> bool {
    error.raw_os_error().map_or_else(
        || error.to_string().contains("failed to lookup address"),
        |number| cfg!(windows) && (11001..=11004).contains(&number),
    )
}

fn interrupted(reason: &dyn std::fmt::Display, done: u64, version: &Version) -> String {
    match version.total {
        Some(total) => format!("the transfer stopped after {done} of {total} bytes ({reason})"),
        None => format!("the transfer stopped after {done} bytes ({reason})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_strictly() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, 9, 10)));
        for wrong in
            ["", "bytes", "bytes 5-9", "bytes 5-9/*", "bytes */10", "bytes -9/10", "lines 5-9/10", "bytes 5/10"]
        {
            assert_eq!(content_range(wrong), None, "{wrong}");
        }
        assert_eq!(content_range("bytes 0-99999999999999999999/1"), None, "no number of bytes");
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let io = |kind, text: &str| ureq::Error::Io(io::Error::new(kind, text.to_string()));
        let reason = |error| match unreachable(error) {
            Stopped::Final(Failure::Remote(reason)) => reason,
            Stopped::Transient(reason) => format!("again: {reason}"),
            _ => panic!("neither"),
        };
        use io::ErrorKind;
        assert!(reason(io(ErrorKind::Other, "failed to lookup address information: x")).contains("online?"));
        assert!(reason(io(ErrorKind::InvalidData, "bad certificate")).starts_with("no secure connection"));
        assert_eq!(reason(io(ErrorKind::ConnectionRefused, "refused")), "refused");
        assert!(reason(io(ErrorKind::ConnectionReset, "reset")).starts_with("again: "));
        assert!(reason(ureq::Error::Timeout(ureq::Timeout::Connect)).starts_with("again: "));
        assert!(reason(ureq::Error::TooManyRedirects).contains("redirect"));
    }
}
