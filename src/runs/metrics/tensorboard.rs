//! `events.out.tfevents.*`: what TensorBoard reads.
//!
//! The file is a sequence of records: length (u64), its checksum, content, its checksum (all little-endian; checksums are CRC-32C,
//! masked). A content is a message `Event` of protocol buffers: wall_time (1, double), step (2, int64), then file_version (3,
//! string) in the first one and summary (5) in all others; a summary is repeated value (1): tag (1, string) and simple_value (2,
//! float).

use super::LogCopy;
use crate::train::EpochRecord;
use harmonia_graph::error::{Error, Result};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const PREFIX: &str = "events.out.tfevents.";
/// Names end in this, so that files of other programs are never taken for ours.
const SUFFIX: &str = ".harmonia";

/// Whether a file is one that was written here.
pub(super) fn is_ours(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// Open for adding.
pub(super) struct Events {
    path: PathBuf,
    file: File,
}

impl Events {
    /// A file under a name of its own, in place of that of an earlier sitting: who watches the directory sees a new one.
    pub(super) fn begin(directory: &Path, history: &[EpochRecord]) -> Result<Events> {
        let entries = fs::read_dir(directory).map_err(Error::io("read", directory))?.flatten();
        for entry in entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours)) {
            fs::remove_file(entry.path()).map_err(Error::io("remove", &entry.path()))?;
        }
        let now = now();
        let path = directory.join(format!("{PREFIX}{:010}.{}{SUFFIX}", now as u64, std::process::id()));
        let mut bytes = framed(&version(now));
        let last = history.last().map_or(0.0, |record| record.seconds);
        for record in history {
            // When it was: so long before the last one.
            bytes.extend(framed(&event(record, now - (last - record.seconds))));
        }
        fs::write(&path, bytes).map_err(Error::io("write", &path))?;
        let file = File::options().append(true).open(&path).map_err(Error::io("write", &path))?;
        Ok(Events { path, file })
    }
}

impl LogCopy for Events {
    fn add(&mut self, record: &EpochRecord) -> Result<()> {
        // In one piece: readers look at the file at any time.
        self.file.write_all(&framed(&event(record, now()))).map_err(Error::io("write", &self.path))
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn version(time: f64) -> Vec<u8> {
    let mut message = double(1, time);
    message.extend(bytes(3, b"brain.Event:2"));
    message
}

/// Every number of an epoch; scores that are not defined are left out.
fn event(record: &EpochRecord, time: f64) -> Vec<u8> {
    let scores = record.validation.names();
    let scores = scores.filter_map(|name| Some((format!("validation/{name}"), record.validation.get(name)?)));
    let own = [("train/loss", record.train_loss), ("train/learning_rate", record.learning_rate)];
    let mut summary = Vec::new();
    for (tag, value) in own.map(|(tag, value)| (tag.to_string(), value)).into_iter().chain(scores) {
        let mut entry = bytes(1, tag.as_bytes());
        entry.push((2 << 3) | 5);
        entry.extend((value as f32).to_le_bytes());
        summary.extend(bytes(1, &entry));
    }
    let mut message = double(1, time);
    message.push(2 << 3);
    message.extend(varint(record.epoch as u64));
    message.extend(bytes(5, &summary));
    message
}

fn double(field: u8, value: f64) -> Vec<u8> {
    [&[(field << 3) | 1][..], &value.to_le_bytes()].concat()
}

fn bytes(field: u8, value: &[u8]) -> Vec<u8> {
    [&[(field << 3) | 2][..], &varint(value.len() as u64), value].concat()
}

/// Seven bits a byte, lowest first; the top bit says that more follow.
fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A record of the file.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u64).to_le_bytes();
    [&length[..], &masked(&length).to_le_bytes(), message, &masked(message).to_le_bytes()].concat()
}

fn masked(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), bit by bit: an epoch has some hundred bytes.
fn crc32c(data: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !data.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| bit(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Scores;

    #[test]
    fn checksums_are_those_of_the_format() {
        // RFC 3720, B.4, and the check value of the catalogue of CRCs.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_message_is_what_protoc_makes_of_it() {
        let validation = Scores::new([("accuracy", Some(0.5)), ("roc_auc", None)]);
        let record =
            EpochRecord { epoch: 300, train_loss: 2.0, validation, learning_rate: 1.0, best: true, seconds: 0.0 };
        // protoc --encode of: wall_time: 1.5 step: 300 summary { value { tag: "train/loss" simple_value: 2 } ... }
        let mut expected = vec![0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 0xac, 0x02, 0x2a, 71];
        expected.extend(b"\x0a\x11\x0a\x0atrain/loss\x15\x00\x00\x00\x40");
        expected.extend(b"\x0a\x1a\x0a\x13train/learning_rate\x15\x00\x00\x80\x3f");
        expected.extend(b"\x0a\x1a\x0a\x13validation/accuracy\x15\x00\x00\x00\x3f");
        expected[13] = (expected.len() - 14) as u8;
        assert_eq!(event(&record, 1.5), expected);
    }
}
