//! Damaged inputs by the hundred thousand for every reader: no panic, no hang, bounded memory, a readable message.
//!
//! In CI 100,000 inputs in all; `scripts/fuzz.sh` runs as many as it is asked for (`HARMONIA_FUZZ_INPUTS`, in all, from
//! `HARMONIA_FUZZ_SEED`). An input is a function of the target, the seed and its number, which a failure names:
//! `HARMONIA_FUZZ_FROM` begins there.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, dead_code)]

mod common;
mod hostile;
#[path = "hostile/mutation.rs"]
mod mutation;
mod program;

use common::problems::Recipe;
use harmonia::config::Config;
use harmonia::data::formats::Format;
use harmonia::data::pickle;
use harmonia::dataset::Dataset;
use harmonia::device::cpu::Cpu;
use harmonia::model::Checkpoint;
use harmonia::npy::Npy;
use harmonia::runs::{ReadModel, TrainedRun, saved_layers};
use harmonia::session::{Session, Silent};
use harmonia::tabulate::{Builder, TablePlan, kept};
use harmonia::walk_table::CellBits;
use harmonia::watch::Watch;
use harmonia::{FittedModel, Stop};
use hostile::inputs::{self, Tree};
use hostile::memory::turn;
use hostile::verdict::{Form, Scratch, judge, judge_tree};
use mutation::Dice;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Inputs of all targets, where nobody asks for another number.
const INPUTS: u64 = 100_000;
/// An input that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(5);
/// ... this many times.
const TRIES: usize = 3;

fn asked(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Runs `per_mille` thousandths of all inputs through a target.
fn fuzz(target: &str, per_mille: u64, read: impl FnMut(&mut Dice) + Send) {
    let _turn = turn();
    // On a thread of the pool: what readers do in parallel then begins at once, not when another thread has woken up, which
    // takes seconds for a process of low priority on a busy machine.
    rayon::scope(|_| fuzz_here(target, per_mille, read));
}

fn fuzz_here(target: &str, per_mille: u64, mut read: impl FnMut(&mut Dice)) {
    let (inputs, seed) = (asked("HARMONIA_FUZZ_INPUTS", INPUTS) * per_mille / 1000, asked("HARMONIA_FUZZ_SEED", 0));
    let name = target.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let (start, first) = (Instant::now(), asked("HARMONIA_FUZZ_FROM", 0).min(inputs));
    for number in first..inputs {
        let start = name ^ seed.wrapping_mul(0xd134_2543_de82_ef95) ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d);
        // A reader that hangs does so each time; one that waits for a busy machine does not.
        let hangs = (0..TRIES).all(|_| {
            let (began, mut dice) = (Instant::now(), Dice(start));
            let case = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(&mut dice)));
            assert!(case.is_ok(), "{target}: input {number} of seed {seed}, see above");
            began.elapsed() >= LONGEST
        });
        assert!(!hangs, "{target}: input {number} of seed {seed} takes more than {LONGEST:?}");
    }
    println!("{target}: {} inputs in {:.1} s", inputs - first, start.elapsed().as_secs_f64());
}

/// The first line of a message: what is wrong with settings is shown below it, as it stands in the file.
fn first_line(error: harmonia::Error) -> String {
    error.to_string().lines().next().unwrap_or("nothing").to_string()
}

fn damaged(dice: &mut Dice, sound: &[u8]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    dice.strike(&mut bytes);
    bytes
}

fn damaged_tree(dice: &mut Dice, sound: &Tree) -> Tree {
    let mut tree = sound.clone();
    for _ in 0..1 + dice.below(2) {
        let file = dice.below(tree.len());
        dice.strike(&mut tree[file].1);
    }
    tree
}

#[test]
fn pickles() {
    let sound = inputs::pickles();
    fuzz("pickles", 300, |dice| {
        let bytes = damaged(dice, &sound[dice.0 as usize % 3]);
        let _ = judge(bytes.len(), || pickle::read(&bytes));
    });
}

#[test]
fn arrays() {
    let sound = inputs::arrays();
    fuzz("arrays", 300, |dice| {
        let which = dice.below(sound.len());
        let bytes = damaged(dice, &sound[which].1);
        let _ = judge(bytes.len(), || Npy::parse(&bytes, Path::new("a.npy")).map(|array| array.floats().len()));
    });
}

/// A trained run of a few nodes, with its data.
struct Run {
    scratch: Scratch,
    dataset: Dataset,
    files: Vec<(PathBuf, Vec<u8>)>,
}

fn run() -> Run {
    let scratch = Scratch::new();
    let (dataset, mut config) = (program::small_dataset(), Config::default());
    (config.model.hidden, config.model.experts, config.train.epochs) = (vec![3], 2, 2);
    (config.model.bases, config.model.embedding, config.data.dataset) = (2, 2, "ring".into());
    let (device, stop, path) = (Cpu::new(), Stop::new(), scratch.path("run"));
    Session { device: &device, config: &config, stop: &stop }.run(&dataset, Some(&path), &mut Silent).unwrap();
    let files = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_none_or(|ending| ending != "html"));
    let mut files: Vec<_> = files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    files.sort();
    Run { scratch, dataset, files }
}

#[test]
fn checkpoints() {
    let run = run();
    let (path, sound) = run.files.iter().find(|(path, _)| path.ends_with("best.safetensors")).unwrap();
    fuzz("checkpoints", 300, |dice| {
        let bytes = damaged(dice, sound);
        std::fs::write(path, &bytes).unwrap();
        let _ = judge(bytes.len(), || Checkpoint::read(path).and_then(|_| FittedModel::load(path)));
    });
}

#[test]
fn run_directories() {
    let run = run();
    let root = run.scratch.path("run");
    assert!(run.files.len() >= 8, "{:?}", run.files.iter().map(|(path, _)| path).collect::<Vec<_>>());
    fuzz("run directories", 20, |dice| {
        let (path, sound) = &run.files[dice.below(run.files.len())];
        let bytes = damaged(dice, sound);
        std::fs::write(path, &bytes).unwrap();
        let read = || {
            let opened = TrainedRun::open(&root, |_| Ok(run.dataset.clone()))?;
            opened.centres()?;
            ReadModel::open(&root)?;
            opened.history()
        };
        let _ = judge(bytes.len(), || read().map_err(first_line));
        std::fs::write(path, sound).unwrap();
    });
}

#[test]
fn settings() {
    let run = run();
    let (path, sound) = run.files.iter().find(|(path, _)| path.ends_with("config.toml")).unwrap();
    fuzz("settings", 10, |dice| {
        let bytes = damaged(dice, sound);
        std::fs::write(path, &bytes).unwrap();
        let read = || saved_layers(&run.scratch.path("run")).and_then(|layers| layers.finish());
        let _ = judge(bytes.len(), || read().map_err(first_line));
    });
}

#[test]
fn stores() {
    let sound = [0, 1, 2].map(inputs::store);
    let scratch = Scratch::new();
    let path = scratch.path("store");
    fuzz("stores", 30, |dice| {
        let tree = damaged_tree(dice, &sound[dice.0 as usize % 3]);
        let _ = std::fs::remove_dir_all(&path);
        inputs::write(&path, &tree);
        let bytes = tree.iter().map(|(_, bytes)| bytes.len()).sum();
        let _ = judge(bytes, || harmonia::store::read(&path));
    });
}

#[test]
fn tables_of_walks() {
    let problem = Recipe { nodes: 8, features: 2, hops: 2, ..Recipe::default() }.problem();
    let plan = TablePlan::with(&problem.dataset, 2, 4, CellBits::Sixteen);
    let scratch = Scratch::new();
    let home = scratch.path("store.tables");
    let keep = || kept::keep(&home, &problem.dataset, problem.recipe.walk, &plan, &Watch::silent());
    // Made in memory: a kept one is mapped, and what is mapped changes with the file that is damaged below.
    let expected = Builder::new(&problem.dataset, problem.recipe.walk, &plan).table(&Watch::silent()).unwrap();
    assert!(keep().unwrap() == expected);
    let directory = kept::list(&home).unwrap().remove(0).0;
    let files: Vec<(PathBuf, Vec<u8>)> = (std::fs::read_dir(&directory).unwrap())
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    fuzz("tables of walks", 20, |dice| {
        let (path, sound) = &files[dice.below(files.len())];
        let bytes = damaged(dice, sound);
        std::fs::write(path, &bytes).unwrap();
        // Whatever was there, what is read is the table.
        let read = judge(bytes.len(), keep);
        assert!(read.is_ok_and(|table| table == expected));
        for (path, sound) in &files {
            std::fs::write(path, sound).unwrap();
        }
    });
}

#[test]
fn formats() {
    let (ogb, molecules) = (inputs::compressed(inputs::ogb()), vec![("molecules.csv".into(), inputs::smiles())]);
    let npz = vec![("input.npz".into(), inputs::zipped(&inputs::arrays()))];
    let sound: [(Format, Tree, Form); 9] = [
        (Format::Ogb, ogb.clone(), Form::Directory),
        (Format::Ogb, ogb, Form::Zip),
        (Format::TuDataset, inputs::tudataset("TINY"), Form::Directory),
        (Format::TuDataset, inputs::tudataset("AIDS"), Form::Zip),
        (Format::Smiles, molecules, Form::Directory),
        (Format::Heterophilous, npz, Form::Directory),
        (Format::Igb, inputs::igb(), Form::Tar),
        (Format::Table, inputs::tables(), Form::Directory),
        (Format::Table, inputs::packed_tables(), Form::Directory),
    ];
    fuzz("formats", 20, |dice| {
        let (format, tree, form) = &sound[dice.below(sound.len())];
        let _ = judge_tree(*format, &damaged_tree(dice, tree), *form);
    });
}
