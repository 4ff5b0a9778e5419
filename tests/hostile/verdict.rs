//! What every reader owes, whatever it reads: an answer or a message, bounded memory, and nothing left behind.

use super::inputs::{self, Tree};
use super::memory::peak_of;
use harmonia::data::formats::Format;
use harmonia::data::formats::{ConversionOptions, convert};
use harmonia::watch::Watch;
use std::path::{Path, PathBuf};

/// Bytes a read may take in any case: a text is read, decompressed and parsed in a few blocks of 4 MiB, and a number in a
/// small file may stand for 65,536 columns of a few dozen nodes.
const ALWAYS: usize = 64 << 20;
/// ... and for each byte of input: gzip is trusted up to a ratio of 256, and an opcode of a pickle, one byte, becomes a
/// node and a value of together some 200 bytes.
const FOR_EACH_BYTE: usize = 300;
/// Characters of a message that somebody reads.
const LONGEST_MESSAGE: usize = 1000;

/// A directory of its own for each case.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new() -> Scratch {
        // Stores are synchronised to disk; thousands of them need a disk that is memory, where there is one.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        // Not the usual prefix: the names of the program's own temporary files must not appear in a message.
        Scratch(tempfile::Builder::new().prefix("hostile-").tempdir_in(place).unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }
}

/// Runs a read over `bytes` of input; panics, greed and unreadable messages fail the test.
pub fn judge<T, E: std::fmt::Display>(bytes: usize, read: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    let most = ALWAYS + FOR_EACH_BYTE * bytes;
    let (result, peak) = peak_of(read);
    assert!(peak <= most, "{peak} bytes of memory for {bytes} of input, expected at most {most}");
    result.map_err(|error| {
        let message = error.to_string();
        assert_readable(&message);
        message
    })
}

/// As [`judge`]; the message must also name a file below `root`.
pub fn judge_file<T>(root: &Path, bytes: usize, read: impl FnOnce() -> harmonia::Result<T>) -> Result<T, String> {
    let before = listing(root);
    let result = judge(bytes, read);
    if let Err(message) = &result {
        assert!(message.contains(&*root.to_string_lossy()), "names no file: {message}");
    }
    assert_eq!(listing(root), before, "a reader wrote something");
    result
}

/// Converts `input`, which lies in `scratch`; a failure must leave nothing, a success one store that can be read.
pub fn judge_conversion(scratch: &Scratch, format: Format, input: &Path) -> Result<(), String> {
    let target = scratch.path("store");
    let before = listing(scratch.root());
    let result =
        judge(size(input), || convert(format, input, &target, &ConversionOptions::default(), &Watch::silent()));
    match &result {
        Err(message) => {
            assert!(message.contains(&*scratch.root().to_string_lossy()), "names no file: {message}");
            assert_eq!(listing(scratch.root()), before, "left behind after: {message}");
        }
        Ok(_) => {
            harmonia::store::read(&target).unwrap();
            let is_part = |name: &str| name.ends_with(".npy") || ["meta.json", "node_names.txt"].contains(&name);
            for (path, _) in listing(&target) {
                let name = path.strip_prefix(&target).unwrap().to_string_lossy().into_owned();
                assert!(is_part(&name) && !name.contains('/'), "left in the store: {name}");
            }
            std::fs::remove_dir_all(&target).unwrap();
            assert_eq!(listing(scratch.root()), before, "left beside the store");
        }
    }
    result.map(|_| ())
}

/// As [`judge_conversion`], of files that are written first.
pub fn judge_tree(format: Format, tree: &Tree, form: Form) -> Result<(), String> {
    let scratch = Scratch::new();
    let input = scratch.path(form.name());
    match form {
        Form::Directory => inputs::write(&input, tree),
        Form::Zip => std::fs::write(&input, inputs::zipped(tree)).unwrap(),
        Form::Tar => std::fs::write(&input, inputs::gzipped(&inputs::tarred(tree))).unwrap(),
    }
    judge_conversion(&scratch, format, &input)
}

/// How the files of a dataset come.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    Directory,
    Zip,
    Tar,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Directory => "input",
            Form::Zip => "input.zip",
            Form::Tar => "input.tar.gz",
        }
    }
}

fn assert_readable(message: &str) {
    assert!(message.len() < LONGEST_MESSAGE, "{} characters: {message}", message.len());
    assert!(message.lines().count() <= 2, "too many lines: {message:?}");
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!message.is_empty() && !message.contains(control), "not text: {message:?}");
    // Names of temporary files mean nothing to anyone, nor does the inside of the program.
    for inside in ["/.tmp", "harmonia-writing", "Some(", "Err(", "Error(", "Custom {", "Counts {", "kind:"] {
        assert!(!message.contains(inside), "shows the inside ({inside}): {message}");
    }
}

/// Every file and folder below `root`, with its size.
fn listing(root: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let data = std::fs::symlink_metadata(&path).unwrap();
        if data.is_dir() {
            found.extend(listing(&path));
        }
        found.push((path, if data.is_dir() { 0 } else { data.len() }));
    }
    found.sort();
    found
}

fn size(input: &Path) -> usize {
    match input.is_dir() {
        true => listing(input).iter().map(|&(_, bytes)| bytes as usize).sum(),
        false => std::fs::metadata(input).unwrap().len() as usize,
    }
}
