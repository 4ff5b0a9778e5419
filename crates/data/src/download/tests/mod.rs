//! Fetching from a server on the loopback address; see `test_support`.

mod failures;
mod files;
mod resume;

use super::test_support::{Reply, Request, Server, entry};
use super::transfer::TransferLimits;
use super::*;
use crate::catalogue::Checks;
use harmonia_graph::stop::Stop;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

const ETAG: &str = "\"v1\"";

fn limits() -> TransferLimits {
    TransferLimits {
        connect: Duration::from_secs(5),
        stall: Duration::from_secs(5),
        back_off: Duration::from_millis(5),
        proxies: false,
    }
}

/// Bytes without a period that a shift could hide in.
fn bytes(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// A directory, and the one file of [`entry`] in it.
struct Place {
    home: TempDir,
    target: PathBuf,
}

impl Place {
    fn new() -> Place {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("Toy").join("raw").join("data.bin");
        Place { home, target }
    }

    fn fetch(&self, entry: &Entry) -> Result<Raw> {
        fetch_within(entry, self.home.path(), &Access::default(), &limits(), &Stop::new(), &|_| ())
    }

    fn fetch_error(&self, entry: &Entry) -> String {
        self.fetch(entry).unwrap_err().to_string()
    }

    fn part(&self) -> PathBuf {
        partial::part_path(&self.target)
    }

    fn content(&self) -> Vec<u8> {
        std::fs::read(&self.target).unwrap()
    }

    /// Names in the folder of the file, sorted; none where the folder itself is gone.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.target.parent().unwrap()).into_iter().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// An entry for whatever `server` sends, without a checksum.
fn plain(server: &Server) -> Entry {
    entry(&format!("{}/data.bin", server.address), 1000, Checks::NONE)
}
