//! Damaged and malicious files: no panic, a readable message, bounded memory, nothing left behind.
//!
//! Each fuzz target starts from a small sound input and damages it at random; [`hostile::verdict`] says what must hold
//! whatever comes of it. Cases that chance would not find are in [`archives`] and [`stores`]. `PROPTEST_CASES` sets how
//! many cases a target runs.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "hostile/archives.rs"]
mod archives;
mod hostile;
#[path = "hostile/stores.rs"]
mod stores;

use harmonia::data::formats::Format;
use harmonia::data::npz::Npz;
use harmonia::data::pickle;
use harmonia::npy::Npy;
use harmonia::store::{self, Store};
use hostile::damage::{blow, ruin};
use hostile::inputs::{self, Tree};
use hostile::memory::turn;
use hostile::verdict::{Form, Scratch, judge, judge_conversion, judge_file, judge_tree};
use proptest::prelude::*;
use proptest::sample::select;
use std::path::Path;

/// So many cases, or what the environment asks for. Failures are printed, not written into the repository.
fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..default }
}

fn folder_or_zip() -> impl Strategy<Value = Form> {
    select(&[Form::Directory, Form::Zip][..])
}

#[test]
fn the_undamaged_inputs_are_read() {
    let _turn = turn();
    for pickled in inputs::pickles() {
        pickle::read(&pickled).unwrap();
    }
    for form in [Form::Directory, Form::Zip] {
        judge_tree(Format::Ogb, &inputs::compressed(inputs::ogb()), form).unwrap();
        for name in ["TINY", "AIDS"] {
            judge_tree(Format::TuDataset, &inputs::tudataset(name), form).unwrap();
        }
    }
    for form in [Form::Directory, Form::Tar] {
        judge_tree(Format::Igb, &inputs::igb(), form).unwrap();
    }
    judge_tree(Format::Heterophilous, &npz(&inputs::arrays()), Form::Directory).unwrap();
    judge_tree(Format::Smiles, &vec![("molecules.csv".into(), inputs::smiles())], Form::Directory).unwrap();
    for tables in [inputs::tables(), inputs::packed_tables()] {
        judge_tree(Format::Table, &tables, Form::Directory).unwrap();
    }
    for kind in 0..3 {
        read_store(&inputs::store(kind)).unwrap();
    }
}

fn npz(arrays: &Tree) -> Tree {
    vec![("input.npz".into(), inputs::zipped(arrays))]
}

/// Opens, reads and verifies a store.
fn read_store(tree: &Tree) -> Result<(), String> {
    let scratch = Scratch::new();
    let path = scratch.path("store");
    inputs::write(&path, tree);
    let bytes = tree.iter().map(|(_, bytes)| bytes.len()).sum();
    let _ = judge_file(scratch.root(), bytes, || Store::verify(&path, &harmonia::Stop::new()));
    judge_file(scratch.root(), bytes, || store::read(&path)).map(|_| ())
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn pickles(which in 0..3usize, blow in blow()) {
        let _turn = turn();
        let mut bytes = inputs::pickles()[which].clone();
        blow.strike(&mut bytes);
        let _ = judge(bytes.len(), || pickle::read(&bytes));
    }

    #[test]
    fn npy_arrays(which in 0..6usize, blow in blow()) {
        let _turn = turn();
        let mut bytes = inputs::arrays()[which].1.clone();
        blow.strike(&mut bytes);
        let _ = judge(bytes.len(), || {
            let array = Npy::parse(&bytes, Path::new("a.npy"))?;
            assert_eq!(array.shape.iter().product::<usize>(), array.len());
            let (floats, integers) = (array.floats(), array.integers());
            assert!(floats.len() == array.len() && integers.is_none_or(|found| found.len() == array.len()));
            harmonia::Result::Ok(())
        });
    }

    #[test]
    fn store_files(kind in 0..3usize, ruin in ruin()) {
        let _turn = turn();
        let mut tree = inputs::store(kind);
        ruin.strike(&mut tree);
        let _ = read_store(&tree);
    }

    #[test]
    fn store_descriptions(kind in 0..3usize, blow in blow()) {
        let _turn = turn();
        let mut tree = inputs::store(kind);
        let meta = tree.iter_mut().find(|(name, _)| name == "meta.json").unwrap();
        blow.strike(&mut meta.1);
        let _ = read_store(&tree);
    }

    #[test]
    fn ogb_texts(ruin in ruin(), form in folder_or_zip()) {
        let _turn = turn();
        let mut tree = inputs::ogb();
        ruin.strike(&mut tree);
        let _ = judge_tree(Format::Ogb, &inputs::compressed(tree), form);
    }

    #[test]
    fn tudataset_texts(name in select(&["TINY", "AIDS"][..]), ruin in ruin(), form in folder_or_zip()) {
        let _turn = turn();
        let mut tree = inputs::tudataset(name);
        ruin.strike(&mut tree);
        let _ = judge_tree(Format::TuDataset, &tree, form);
    }

    #[test]
    fn smiles_tables(blow in blow(), ending in select(&["csv", "tab"][..])) {
        let _turn = turn();
        let mut bytes = inputs::smiles();
        blow.strike(&mut bytes);
        let _ = judge_tree(Format::Smiles, &vec![(format!("molecules.{ending}"), bytes)], Form::Directory);
    }
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn ogb_compressed(ruin in ruin(), form in folder_or_zip()) {
        let _turn = turn();
        let mut tree = inputs::compressed(inputs::ogb());
        ruin.strike(&mut tree);
        let _ = judge_tree(Format::Ogb, &tree, form);
    }

    #[test]
    fn zip_bytes(blow in blow(), ogb in any::<bool>()) {
        let _turn = turn();
        let scratch = Scratch::new();
        let (format, tree) = match ogb {
            true => (Format::Ogb, inputs::compressed(inputs::ogb())),
            false => (Format::TuDataset, inputs::tudataset("TINY")),
        };
        let mut bytes = inputs::zipped(&tree);
        blow.strike(&mut bytes);
        std::fs::write(scratch.path("input.zip"), &bytes).unwrap();
        let _ = judge_conversion(&scratch, format, &scratch.path("input.zip"));
    }

    #[test]
    fn npz_arrays(ruin in ruin()) {
        let _turn = turn();
        let mut arrays = inputs::arrays();
        ruin.strike(&mut arrays);
        let _ = judge_tree(Format::Heterophilous, &npz(&arrays), Form::Directory);
    }

    #[test]
    fn npz_bytes(blow in blow()) {
        let _turn = turn();
        let (scratch, mut bytes) = (Scratch::new(), inputs::zipped(&inputs::arrays()));
        blow.strike(&mut bytes);
        let path = scratch.path("input.npz");
        std::fs::write(&path, &bytes).unwrap();
        let _ = judge_file(scratch.root(), bytes.len(), || {
            let npz = Npz::open(&path)?;
            for name in npz.names() {
                let bytes = npz.array(name)?;
                Npy::parse(&bytes, &npz.location(name))?.floats();
            }
            Ok(())
        });
    }

    #[test]
    fn igb_files(ruin in ruin(), form in select(&[Form::Directory, Form::Tar][..])) {
        let _turn = turn();
        let mut tree = inputs::igb();
        ruin.strike(&mut tree);
        let _ = judge_tree(Format::Igb, &tree, form);
    }

    #[test]
    fn igb_archives(blow in blow(), compressed in any::<bool>()) {
        let _turn = turn();
        let (scratch, mut bytes) = (Scratch::new(), inputs::tarred(&inputs::igb()));
        if compressed {
            bytes = inputs::gzipped(&bytes);
        }
        blow.strike(&mut bytes);
        std::fs::write(scratch.path("input.tar.gz"), &bytes).unwrap();
        let _ = judge_conversion(&scratch, Format::Igb, &scratch.path("input.tar.gz"));
    }

    #[test]
    fn users_tables(packed in any::<bool>(), ruin in ruin()) {
        let _turn = turn();
        let mut tree = if packed { inputs::packed_tables() } else { inputs::tables() };
        ruin.strike(&mut tree);
        let _ = judge_tree(Format::Table, &tree, Form::Directory);
    }
}
