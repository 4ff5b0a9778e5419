//! `--metrics`: epochs as CSV and as TensorBoard events, complete after a run was resumed too.

use super::program::Scratch;
use super::quick;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A reader of event files that shares nothing with the writer: tag -> (step, value).
fn events(bytes: &[u8]) -> BTreeMap<String, Vec<(u64, f32)>> {
    let mut table = [0u32; 256];
    for (at, entry) in table.iter_mut().enumerate() {
        *entry = (0..8).fold(at as u32, |crc, _| (crc >> 1) ^ ((crc & 1) * 0x82f6_3b78));
    }
    let crc = |data: &[u8]| {
        let crc = data.iter().fold(u32::MAX, |crc, byte| (crc >> 8) ^ table[((crc ^ u32::from(*byte)) & 255) as usize]);
        let crc = crc ^ u32::MAX;
        crc.rotate_right(15).wrapping_add(0xa282_ead8)
    };
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut found, mut first) = (0, BTreeMap::<String, Vec<(u64, f32)>>::new(), true);
    while at < bytes.len() {
        let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        assert_eq!(word(at + 8), crc(&bytes[at..at + 8]));
        let message = &bytes[at + 12..at + 12 + length];
        assert_eq!(word(at + 12 + length), crc(message));
        at += 16 + length;
        let fields = fields(message);
        let of = |field: u64| fields.iter().filter(move |(number, _)| *number == field).map(|(_, value)| value);
        assert!(f64::from_le_bytes(of(1).next().unwrap()[..].try_into().unwrap()) > 1.6e9);
        if std::mem::take(&mut first) {
            assert_eq!(of(3).next().unwrap(), b"brain.Event:2");
            continue;
        }
        let step = u64::from_le_bytes(of(2).next().unwrap()[..].try_into().unwrap());
        for value in of(5).flat_map(|summary| self::fields(summary)) {
            let parts = self::fields(&value.1);
            let number = f32::from_le_bytes(parts[1].1[..].try_into().unwrap());
            found.entry(String::from_utf8(parts[0].1.clone()).unwrap()).or_default().push((step, number));
        }
    }
    found
}

/// (number, content) of every field of a message; numbers of variable length as eight bytes.
fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(message: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = message[0];
            *message = &message[1..];
            value |= u64::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                return value;
            }
        }
    }
    let mut all = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let length = match key & 7 {
            0 => {
                all.push((key >> 3, varint(&mut message).to_le_bytes().to_vec()));
                continue;
            }
            1 => 8,
            5 => 4,
            2 => varint(&mut message) as usize,
            kind => panic!("field kind {kind}"),
        };
        let (content, rest) = message.split_at(length);
        all.push((key >> 3, content.to_vec()));
        message = rest;
    }
    all
}

fn event_files(run: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_string_lossy().contains("tfevents")).collect()
}

#[test]
fn epochs_are_logged_in_every_form_also_after_resuming() {
    let scratch = Scratch::new();
    scratch.train_ok(&quick(&["--metrics", "csv,tensorboard", "--out", "r"]));
    scratch.train_ok(&["--resume", "r", "--epochs", "5"]);
    let run = scratch.path("r");
    let log = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let log: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(log.len(), 5);

    let csv = std::fs::read_to_string(run.join("metrics.csv")).unwrap();
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    assert_eq!(head[..6], ["epoch", "train_loss", "learning_rate", "best", "seconds", "validation_accuracy"]);
    let rows: Vec<Vec<&str>> = lines.collect();
    assert_eq!(rows.len(), 5);
    for (row, record) in rows.iter().zip(&log) {
        assert_eq!(row[0].parse::<u64>().unwrap(), record["epoch"]);
        for (name, value) in head.iter().zip(row).filter(|(name, _)| !["epoch", "best"].contains(name)) {
            let logged = match name.strip_prefix("validation_") {
                Some(score) => &record["validation"][score],
                None => &record[*name],
            };
            assert_eq!(value.parse::<f64>().unwrap(), logged.as_f64().unwrap(), "{name}");
        }
    }

    let files = event_files(&run);
    assert_eq!(files.len(), 1, "{files:?}");
    let found = events(&std::fs::read(&files[0]).unwrap());
    let logged = |of: &dyn Fn(&Value) -> &Value| -> Vec<(u64, f32)> {
        log.iter().map(|record| (record["epoch"].as_u64().unwrap(), of(record).as_f64().unwrap() as f32)).collect()
    };
    assert_eq!(found["train/loss"], logged(&|record| &record["train_loss"]));
    assert_eq!(found["train/learning_rate"], logged(&|record| &record["learning_rate"]));
    assert_eq!(found["validation/nll"], logged(&|record| &record["validation"]["nll"]));
    // They belong to the run: nothing is in the way of removing it.
    scratch.harmonia_ok(&["runs", "rm", "r", "--yes"]);
    assert!(scratch.entries().is_empty());
}

#[test]
fn forms_that_do_not_exist_are_refused_and_none_is_the_default() {
    let scratch = Scratch::new();
    scratch.refused("harmonia-train", &quick(&["--metrics", "xml"]), &["metrics", "xml", "csv", "tensorboard"]);
    scratch.refused("harmonia-train", &quick(&["--metrics", "csv,csv"]), &["run.metrics", "twice"]);
    scratch.refused("harmonia-train", &["--resume", "r", "--metrics", "csv"], &["--resume", "--metrics"]);
    scratch.train_ok(&quick(&["--out", "r"]));
    assert!(event_files(&scratch.path("r")).is_empty() && !scratch.path("r/metrics.csv").exists());
}
