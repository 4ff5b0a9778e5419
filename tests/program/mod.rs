//! Runs the real binaries in a directory of their own, and finds the real data files.

// Every test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A scratch directory that a test's programs run in, and a cache of their own.
pub struct Scratch {
    directory: tempfile::TempDir,
    cache: tempfile::TempDir,
}

impl Scratch {
    pub fn new() -> Self {
        Scratch { directory: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// In the cache of the programs.
    pub fn cache(&self, name: &str) -> PathBuf {
        self.cache.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// Names of everything in the directory.
    pub fn entries(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    pub fn command(&self, binary: &str, arguments: &[&str]) -> Command {
        let path = match binary {
            "harmonia-train" => env!("CARGO_BIN_EXE_harmonia-train"),
            _ => env!("CARGO_BIN_EXE_harmonia"),
        };
        let mut command = Command::new(path);
        command.args(arguments).current_dir(self.directory.path()).env_remove("HARMONIA_DATA");
        command.env("XDG_CACHE_HOME", self.cache.path()).env("HOME", self.cache.path());
        command
    }

    pub fn run(&self, binary: &str, arguments: &[&str]) -> Output {
        self.command(binary, arguments).output().unwrap()
    }

    /// Copies the raw files of a real dataset to `data`, where a store may be made of them: the originals stay as they
    /// are. A line that says why, and `false`, where they are absent.
    pub fn copy_data(&self, folder: &str) -> bool {
        let Some(directory) = real_data(folder) else { return false };
        let (from, to) = (directory.join(folder).join("raw"), self.path("data").join(folder).join("raw"));
        std::fs::create_dir_all(&to).unwrap();
        for file in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
            std::fs::write(to.join(file.file_name()), std::fs::read(file.path()).unwrap()).unwrap();
        }
        true
    }

    /// Runs `harmonia` and insists on success; returns stdout.
    pub fn harmonia_ok(&self, arguments: &[&str]) -> String {
        stdout_of(&self.run("harmonia", arguments), arguments)
    }

    /// Runs a binary that must refuse with exit code 2, one message with all `expected` parts and no new files.
    pub fn refused(&self, binary: &str, arguments: &[&str], expected: &[&str]) {
        let before = self.entries();
        let output = self.run(binary, arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        for part in expected {
            assert!(message.contains(part), "{arguments:?}: no {part:?} in: {message}");
        }
        assert!(!message.contains("panicked"), "{message}");
        assert_eq!(self.entries(), before, "{arguments:?} left files behind");
    }

    pub fn train(&self, arguments: &[&str]) -> Output {
        self.run("harmonia-train", arguments)
    }

    /// Runs and insists on success; returns stdout.
    pub fn train_ok(&self, arguments: &[&str]) -> String {
        stdout_of(&self.train(arguments), arguments)
    }
}

/// stdout of a program that succeeded.
pub fn stdout_of(output: &Output, arguments: &[&str]) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} ended with {}:\n{error}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The real data files, or a line that says why a test does nothing.
pub fn real_data(needed: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let directory = std::env::var_os("HARMONIA_DATA").map_or(beside, PathBuf::from);
    if directory.join(needed).is_dir() {
        return Some(directory);
    }
    println!("skipped: {needed} not found in {} (set HARMONIA_DATA)", directory.display());
    None
}

/// A small store: 12 nodes on a ring, 2 features, 3 classes.
pub fn small_dataset() -> harmonia::dataset::Dataset {
    use harmonia::dataset::{Dataset, Features, Labels};
    use harmonia::graph::{Direction, Graph, Split};
    let edges: Vec<(u32, u32)> = (0..12).map(|i| (i, (i + 1) % 12)).collect();
    let graph = Graph::from_edges(12, &edges, None, Direction::Undirected).unwrap();
    let features = Features::new(12, 2, (0..24).map(|v| (v as f32 * 0.7).sin()).collect()).unwrap();
    let labels = Labels::Classes { ids: (0..12).map(|i| i % 3).collect(), classes: 3 };
    let split = Split { train: (0..6).collect(), valid: (6..9).collect(), test: (9..12).collect() };
    Dataset::nodes("ring", graph, features, labels, split).unwrap()
}
