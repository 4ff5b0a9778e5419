//! Tables on disk: made once, shared, never wrong, whatever happened to their files.

use super::common::problems::{Problem, Recipe};
use harmonia::tabulate::kept::{self, key, list};
use harmonia::tabulate::{Builder, TablePlan};
use harmonia::walk_table::{CellBits, WalkTable};
use harmonia::watch::{Report, Watch};
use harmonia::{Error, Stop};
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// A problem whose table has several blocks.
fn problem() -> (Problem, TablePlan) {
    let problem = Recipe { nodes: 50, features: 20, hops: 3, ..Recipe::default() }.problem();
    let plan = TablePlan::with(&problem.dataset, 3, 9, CellBits::Sixteen);
    (problem, plan)
}

fn keep(home: &Path, (problem, plan): &(Problem, TablePlan)) -> WalkTable {
    kept::keep(home, &problem.dataset, problem.recipe.walk, plan, &Watch::silent()).unwrap()
}

fn in_memory((problem, plan): &(Problem, TablePlan)) -> WalkTable {
    Builder::new(&problem.dataset, problem.recipe.walk, plan).table(&Watch::silent()).unwrap()
}

/// Every file of the only table, with its time of change.
fn files(home: &Path) -> Vec<(PathBuf, std::time::SystemTime)> {
    let tables = list(home).unwrap();
    assert_eq!(tables.len(), 1);
    let mut files: Vec<_> = (std::fs::read_dir(&tables[0].0).unwrap().flatten())
        .map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn a_table_that_is_there_is_read_and_not_made_again() {
    let (home, made) = (tempfile::tempdir().unwrap(), problem());
    let first = keep(home.path(), &made);
    assert_eq!(first, in_memory(&made));
    assert!(first.blocks().len() > 2, "several blocks");
    let before = files(home.path());
    assert_eq!(keep(home.path(), &made), first);
    assert_eq!(files(home.path()), before);
    let (_, description) = list(home.path()).unwrap().remove(0);
    let description = description.unwrap();
    assert_eq!((description.points, description.bits, description.bytes), (9, 16, first.bytes()));
    assert!(!home.path().join("lock").exists() && std::fs::read_dir(home.path()).unwrap().count() == 1, "no litter");
}

#[test]
fn damaged_and_missing_files_are_made_again() {
    let made = problem();
    let expected = in_memory(&made);
    let damage: [&dyn Fn(&Path); 7] = [
        &|path| std::fs::write(path, b"").unwrap(),
        &|path| std::fs::write(path, b"no array, no JSON").unwrap(),
        &|path| std::fs::remove_file(path).unwrap(),
        &|path| {
            let mut bytes = std::fs::read(path).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            std::fs::write(path, bytes).unwrap();
        },
        &|path| {
            let bytes = std::fs::read(path).unwrap();
            std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        },
        &|path| {
            let bytes = std::fs::read(path).unwrap();
            std::fs::write(path, [&bytes[..], b"more"].concat()).unwrap();
        },
        &|path| {
            let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).replace("0.", "1e39 ");
            std::fs::write(path, text).unwrap();
        },
    ];
    for file in ["block-00001.npy", "block-00001.json", "table.json"] {
        for (at, harm) in damage.iter().enumerate() {
            let home = tempfile::tempdir().unwrap();
            keep(home.path(), &made);
            let directory = list(home.path()).unwrap().remove(0).0;
            harm(&directory.join(file));
            assert_eq!(keep(home.path(), &made), expected, "{file}, damage {at}");
            assert_eq!(keep(home.path(), &made), expected, "{file}, damage {at}, the second time");
        }
    }
}

#[test]
fn what_is_no_file_is_named_and_left_alone() {
    let (home, made) = (tempfile::tempdir().unwrap(), problem());
    keep(home.path(), &made);
    let block = list(home.path()).unwrap().remove(0).0.join("block-00001.npy");
    std::fs::remove_file(&block).unwrap();
    std::fs::create_dir(&block).unwrap();
    let (problem, plan) = &made;
    let refused = kept::keep(home.path(), &problem.dataset, problem.recipe.walk, plan, &Watch::silent());
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("block-00001.npy") && block.is_dir(), "{message}");
}

#[test]
fn a_build_that_was_stopped_goes_on_where_it_was() {
    let (home, made) = (tempfile::tempdir().unwrap(), problem());
    let (stop, seen) = (Stop::new(), Cell::new(0));
    let report = |report: Report<'_>| {
        if let Report::Progress(_, done, _) = report {
            seen.set(done);
            if done == 2 {
                stop.ask();
            }
        }
    };
    let (problem, plan) = &made;
    let walk = problem.recipe.walk;
    let stopped = kept::keep(home.path(), &problem.dataset, walk, plan, &Watch::new(&report, stop.clone()));
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert_eq!(seen.get(), 2);
    let there = files(home.path());
    assert!(there.iter().any(|(path, _)| path.ends_with("block-00000.npy")));
    assert!(list(home.path()).unwrap()[0].1.is_none(), "not finished");
    assert_eq!(keep(home.path(), &made), in_memory(&made));
    // What was there is kept.
    let after = files(home.path());
    assert!(there.iter().all(|file| after.contains(file)));
}

#[test]
fn two_at_once_make_one_table() {
    let (home, made) = (tempfile::tempdir().unwrap(), problem());
    let tables: Vec<WalkTable> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(|| keep(home.path(), &made))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert!(tables.iter().all(|table| *table == in_memory(&made)));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "one table, no lock");
}

#[test]
fn other_data_have_other_keys() {
    let (made, plan) = problem();
    let base = key(&made.dataset, made.recipe.walk, &plan);
    let mut others = Vec::new();
    let finer = TablePlan::with(&made.dataset, 3, 10, CellBits::Sixteen);
    others.push(key(&made.dataset, made.recipe.walk, &finer));
    let bytes = TablePlan::with(&made.dataset, 3, 9, CellBits::Eight);
    others.push(key(&made.dataset, made.recipe.walk, &bytes));
    let longer = TablePlan::with(&made.dataset, 4, 9, CellBits::Sixteen);
    others.push(key(&made.dataset, made.recipe.walk, &longer));
    let mut walk = made.recipe.walk;
    walk.lazy = true;
    others.push(key(&made.dataset, walk, &plan));
    let other = Recipe { seed: 99, ..made.recipe.clone() }.problem();
    let mut swapped = made.dataset.clone();
    swapped.graph = other.dataset.graph.clone();
    others.push(key(&swapped, made.recipe.walk, &plan));
    let mut features = made.dataset.clone();
    features.features = other.dataset.features.clone();
    others.push(key(&features, made.recipe.walk, &plan));
    others.push(base.clone());
    let distinct: std::collections::BTreeSet<&String> = others.iter().collect();
    assert_eq!(distinct.len(), others.len());
    // What a table does not depend on does not change its key.
    let mut labels = made.dataset.clone();
    labels.labels = other.dataset.labels.clone();
    assert_eq!(key(&labels, made.recipe.walk, &plan), base);
}
