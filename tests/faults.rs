//! Every operation on files of five jobs fails once, as on a full disk, and dies once, as by kill -9: the next command finds
//! what it needs, ends with the bits of a run that nothing happened to, and leaves no litter.
//!
//! `faults/shim.c` stands between the real programs and the C library and counts; the jobs are conversion (of tables, and of
//! a known dataset whose raw files changed), training (one seed, and two), the report, predictions and pictures, and a table
//! of walks.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod common;

use common::problems::Recipe;
use harmonia::tabulate::{TablePlan, kept};
use harmonia::walk_table::CellBits;
use harmonia::watch::Watch;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The shim, compiled; none without a C compiler, which is said.
fn shim() -> Option<&'static Path> {
    static SHIM: OnceLock<Option<(tempfile::TempDir, PathBuf)>> = OnceLock::new();
    let made = SHIM.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        let library = home.path().join("shim.so");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-O1", "-w", "-o"]).arg(&library).arg(source).arg("-ldl");
        match command.status() {
            Ok(status) => {
                assert!(status.success(), "the shim does not compile");
                Some((home, library))
            }
            Err(_) => {
                println!("skipped: no C compiler for the shim");
                None
            }
        }
    });
    made.as_ref().map(|(_, library)| library.as_path())
}

/// Files below a directory, without what differs between any two runs: seconds.
type Listing = BTreeMap<String, Vec<u8>>;

/// A directory of its own for each case; in memory where there is such a disk, because everything is flushed.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        Place(tempfile::Builder::new().prefix("faults-").tempdir_in(root).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = match words[0] {
            "harmonia-train" => Command::new(env!("CARGO_BIN_EXE_harmonia-train")),
            "harmonia" => Command::new(env!("CARGO_BIN_EXE_harmonia")),
            // This very file, as a program of its own.
            _ => Command::new(std::env::current_exe().unwrap()),
        };
        command.args(&words[1..]).current_dir(self.0.path()).env_remove("HARMONIA_DATA").env("RAYON_NUM_THREADS", "1");
        command.env("FAULT_TABLE", "1");
        command.env("XDG_CACHE_HOME", self.path("cache")).env("HOME", self.path("cache"));
        command
    }

    fn run(&self, words: &[&str]) {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn struck(&self, words: &[&str], at: usize, mode: &str) -> Output {
        let mut command = self.command(words);
        command.env("LD_PRELOAD", shim().unwrap()).env("FAULT_AT", at.to_string()).env("FAULT_MODE", mode);
        command.output().unwrap()
    }

    fn count(&self, words: &[&str]) -> usize {
        let count = Place::new();
        let mut command = self.command(words);
        command.env("LD_PRELOAD", shim().unwrap()).env("FAULT_AT", "0").env("FAULT_COUNT", count.path("count"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::read_to_string(count.path("count")).unwrap().parse().unwrap()
    }

    fn copy_to(&self, other: &Place) {
        fn copy(from: &Path, to: &Path) {
            std::fs::create_dir_all(to).unwrap();
            for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
                let target = to.join(entry.file_name());
                match entry.file_type().unwrap().is_dir() {
                    true => copy(&entry.path(), &target),
                    false => {
                        std::fs::copy(entry.path(), &target).unwrap();
                        let time = entry.metadata().unwrap().modified().unwrap();
                        std::fs::File::options().write(true).open(&target).unwrap().set_modified(time).unwrap();
                    }
                }
            }
        }
        copy(self.0.path(), other.0.path());
    }

    fn listing(&self) -> Listing {
        let mut found = Listing::new();
        list(self.0.path(), self.0.path(), &mut found);
        found
    }
}

fn list(root: &Path, directory: &Path, found: &mut Listing) {
    for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.path().strip_prefix(root).unwrap().to_string_lossy().into_owned();
        if entry.file_type().unwrap().is_dir() {
            found.insert(format!("{name}/"), Vec::new());
            list(root, &entry.path(), found);
        } else {
            let timed = [".jsonl", ".json", ".html", ".toml"].iter().any(|ending| name.ends_with(ending));
            let bytes = std::fs::read(entry.path()).unwrap();
            found.insert(name, if timed { without_times(&bytes) } else { bytes });
        }
    }
}

/// A text without seconds and without the random part of where it is.
fn without_times(bytes: &[u8]) -> Vec<u8> {
    let text = without(&String::from_utf8_lossy(bytes), "\"seconds\":", &[',', '}', ']', '\n']);
    without(&text, "/faults-", &['/', '"', '\n', ' ']).into_bytes()
}

/// A text without a word and all that follows it up to one of the signs.
fn without(text: &str, word: &str, ends: &[char]) -> String {
    let mut parts = text.split(word);
    let mut out = parts.next().unwrap_or_default().to_string();
    parts.for_each(|part| out += part.find(ends).map_or("", |at| &part[at..]));
    out
}

/// A job: what there is before, the command, and the command that comes after it, whatever became of the first.
struct Job<'a> {
    before: &'a Place,
    command: &'a [&'a str],
    /// None where nothing is left to do.
    next: &'a dyn Fn(&Place) -> Option<Vec<&'a str>>,
    /// Of files that were there before: they have the old or the new content at any time.
    kept: &'a [&'a str],
}

fn check(job: &Job<'_>) {
    let whole = Place::new();
    job.before.copy_to(&whole);
    let operations = whole.count(job.command);
    let (old, expected) = (job.before.listing(), whole.listing());
    assert!(operations > 3, "nothing was counted");
    println!("{:?}: {operations} operations, each failed once and died at once", job.command);
    for mode in ["die", "fail"] {
        for at in 1..=operations {
            let place = Place::new();
            job.before.copy_to(&place);
            let output = place.struck(job.command, at, mode);
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            let case = format!("{:?}, {mode} at {at} of {operations}", job.command);
            if mode == "fail" {
                let code = output.status.code();
                assert!(matches!(code, Some(0..=2)) && !message.contains("panicked"), "{case}: {code:?} {message}");
                assert!(!message.contains("harmonia-writing"), "{case}: {message}");
            }
            let now = place.listing();
            for file in job.kept {
                let is = now.get(*file);
                assert!(is == old.get(*file) || is == expected.get(*file), "{case}: {file} is neither old nor new");
            }
            if let Some(next) = (job.next)(&place) {
                place.run(&next);
            }
            let found = place.listing();
            let names = |listing: &Listing| listing.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&found), names(&expected), "{case}: litter, or a loss");
            for (name, bytes) in &expected {
                assert!(found.get(name) == Some(bytes), "{case}: other bits in {name}; {message}");
            }
        }
    }
}

const EDGES: &str = "source,target\na,b\nb,c\nc,d\nd,e\ne,f\nf,a\n";
const NODES: &str = "id,age,noise,label,split\na,1,3,yes,train\nb,2,1,no,train\nc,3,2,yes,valid\nd,4,0,no,valid\ne,5,2,yes,test\nf,6,1,no,test\n";
const CONVERT: [&str; 7] = ["harmonia", "data", "convert", "tables", "--format", "table", "--out"];
const SIZES: [&str; 10] = [
    "--set",
    "model.hidden=[2]",
    "--set",
    "model.hops=2",
    "--set",
    "run.checkpoint_seconds=0",
    "--set",
    "train.calibrate=true",
    "--threads",
    "1",
];

fn tables() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("tables")).unwrap();
    std::fs::write(place.path("tables/edges.csv"), EDGES).unwrap();
    std::fs::write(place.path("tables/nodes.csv"), NODES).unwrap();
    place
}

fn trained() -> Place {
    let place = tables();
    place.run(&[&CONVERT[..], &["store"]].concat());
    place.run(&[&["harmonia-train", "--dataset", "store", "--epochs", "2", "--out", "run"], &SIZES[..]].concat());
    place
}

#[test]
fn conversion_of_tables() {
    if shim().is_none() {
        return;
    }
    let command = [&CONVERT[..], &["store", "--reorder", "degree", "--threads", "1"]].concat();
    let again = command.clone();
    let next = move |place: &Place| (!place.path("store").exists()).then(|| again.clone());
    check(&Job { before: &tables(), command: &command, next: &next, kept: &[] });
}

#[test]
fn training_of_one_seed() {
    if shim().is_none() {
        return;
    }
    let before = tables();
    before.run(&[&CONVERT[..], &["store"]].concat());
    let command = [&["harmonia-train", "--dataset", "store", "--epochs", "2", "--out", "run"], &SIZES[..]].concat();
    let next = |place: &Place| {
        Some(match place.path("run/config.toml").exists() {
            true => vec!["harmonia-train", "--resume", "run"],
            false => command.clone(),
        })
    };
    check(&Job { before: &before, command: &command, next: &next, kept: &[] });
}

#[test]
fn training_of_two_seeds_in_a_directory_of_their_own() {
    if shim().is_none() {
        return;
    }
    let before = tables();
    before.run(&[&CONVERT[..], &["store"]].concat());
    let command = [&["harmonia-train", "--dataset", "store", "--epochs", "1", "--seeds", "2"], &SIZES[..]].concat();
    let next = |place: &Place| {
        Some(match place.path("runs/tables-1/config.toml").exists() {
            true => vec!["harmonia-train", "--resume", "runs/tables-1"],
            false => command.clone(),
        })
    };
    check(&Job { before: &before, command: &command, next: &next, kept: &[] });
}

#[test]
fn report_predictions_pictures_and_exports() {
    if shim().is_none() {
        return;
    }
    let before = trained();
    std::fs::write(before.path("old.csv"), "what was there before").unwrap();
    let jobs: [(&[&str], &str); 5] = [
        (&["harmonia", "report", "run", "--quick"], "run/report.html"),
        (&["harmonia", "predict", "run", "--out", "old.csv"], "old.csv"),
        (&["harmonia", "shapes", "run", "--out", "shapes.svg"], "shapes.svg"),
        (&["harmonia", "explain", "run", "--out", "terms.parquet"], "terms.parquet"),
        (&["harmonia", "export", "run", "--format", "onnx", "--out", "model.onnx"], "model.onnx"),
    ];
    for (command, file) in jobs {
        check(&Job { before: &before, command, next: &|_| Some(command.to_vec()), kept: &[file] });
    }
}

#[test]
fn conversion_of_a_known_dataset_whose_raw_files_changed() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let shared = std::env::var_os("HARMONIA_DATA").map_or(shared, PathBuf::from);
    if shim().is_none() || !shared.join("MUTAG/raw").is_dir() {
        println!("skipped: no raw files of MUTAG (set HARMONIA_DATA)");
        return;
    }
    let before = Place::new();
    let raw = before.path("data/MUTAG/raw");
    std::fs::create_dir_all(&raw).unwrap();
    for entry in std::fs::read_dir(shared.join("MUTAG/raw")).unwrap().map(|entry| entry.unwrap()) {
        std::fs::write(raw.join(entry.file_name()), std::fs::read(entry.path()).unwrap()).unwrap();
    }
    let command = ["harmonia-train", "--dataset", "mutag", "--data-dir", "data", "--dry-run", "--threads", "1"];
    before.run(&command);
    // Not the files that the store was made of, by their times.
    for entry in std::fs::read_dir(&raw).unwrap().map(|entry| entry.unwrap()) {
        let file = std::fs::File::options().write(true).open(entry.path()).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).unwrap();
    }
    check(&Job { before: &before, command: &command, next: &|_| Some(command.to_vec()), kept: &[] });
}

/// What the program of the next test does.
#[test]
fn child_that_makes_a_table() {
    if std::env::var_os("FAULT_TABLE").is_none() {
        return;
    }
    let problem = Recipe { nodes: 12, features: 12, hops: 2, ..Recipe::default() }.problem();
    let plan = TablePlan::with(&problem.dataset, 2, 9, CellBits::Sixteen);
    let made = kept::keep(Path::new("store.tables"), &problem.dataset, problem.recipe.walk, &plan, &Watch::silent());
    if let Err(error) = made {
        eprintln!("{error}");
        std::process::exit(error.exit_code());
    }
}

#[test]
fn a_table_of_walks() {
    if shim().is_none() {
        return;
    }
    let command = ["this", "child_that_makes_a_table", "--exact", "--test-threads=1", "--nocapture"];
    check(&Job { before: &Place::new(), command: &command, next: &|_| Some(command.to_vec()), kept: &[] });
}
