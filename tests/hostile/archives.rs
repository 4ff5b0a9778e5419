//! Archives made to do harm: names that lead outside, links, and members that decompress to far more than they weigh.

use crate::hostile::inputs::{self, Tree, add};
use crate::hostile::memory::{peak_of, turn};
use crate::hostile::verdict::{Form, Scratch, judge_conversion, judge_tree};
use harmonia::data::formats::{ConversionOptions, Format, convert};
use harmonia::watch::Watch;
use std::io::{Cursor, Write};
use std::time::{Duration, Instant};
use tar::EntryType;
use zip::write::SimpleFileOptions;

/// Bytes a bomb decompresses to.
const BOMB: usize = 100 << 20;
/// Long enough for a slow machine to decompress one bomb; none of them may be read to the end and stored.
const LONGEST: Duration = Duration::from_secs(20);

fn refused(result: Result<(), String>, expected: &str) {
    let message = result.unwrap_err();
    assert!(message.contains(expected), "expected `{expected}`: {message}");
}

#[test]
fn a_zip_whose_names_lead_outside_is_refused() {
    let _turn = turn();
    let absolute = std::env::temp_dir().join("hostile-escaped").to_string_lossy().into_owned();
    let sound = [(Format::Ogb, inputs::compressed(inputs::ogb())), (Format::TuDataset, inputs::tudataset("TINY"))];
    for (format, tree) in sound {
        for name in ["../x", "a/../../x", "..", &absolute, "C:/x", "..\\x", "a\\..\\..\\x", "a\0b"] {
            let mut tree = tree.clone();
            tree.push((name.to_string(), b"escaped".to_vec()));
            refused(judge_tree(format, &tree, Form::Zip), "lead outside");
            assert!(!std::path::Path::new(&absolute).exists());
        }
    }
}

#[test]
fn a_zip_with_a_link_is_refused() {
    let _turn = turn();
    for (format, file, member) in
        [(Format::Ogb, "tiny", "tiny/raw/edge.csv.gz"), (Format::TuDataset, "TINY", "TINY/TINY_A.txt")]
    {
        let scratch = Scratch::new();
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.add_symlink(member, "/etc/passwd", SimpleFileOptions::default()).unwrap();
        std::fs::write(scratch.path(file), zip.finish().unwrap().into_inner()).unwrap();
        refused(judge_conversion(&scratch, format, &scratch.path(file)), "symbolic link");
    }
}

#[test]
fn a_zip_of_endless_or_unprintable_names_is_refused_in_a_few_words() {
    let _turn = turn();
    let long = "a".repeat(60_000);
    for name in [format!("tiny/split/{long}/train.csv.gz"), long, "tiny/raw/a\x1b[31m\nb".into()] {
        let mut tree = inputs::compressed(inputs::ogb());
        tree.retain(|(name, _)| !name.ends_with("train.csv.gz"));
        tree.push((name, Vec::new()));
        judge_tree(Format::Ogb, &tree, Form::Zip).unwrap_err();
    }
}

#[test]
fn gzip_bombs_stop_early() {
    let _turn = turn();
    let lines = |line: &str| line.repeat(BOMB / line.len()).into_bytes();
    let bombs = [
        ("raw/edge.csv.gz", vec![0; BOMB], "line"),
        ("raw/edge.csv.gz", lines("0,1\n"), "found more"),
        ("raw/edge.csv.gz", lines("\n"), "line 1"),
        ("raw/node-feat.csv.gz", vec![0; BOMB], "raw/node-feat.csv.gz"),
        ("raw/node-feat.csv.gz", lines("1,1\n"), "found more"),
        ("raw/node-feat.csv.gz", lines("1,"), "raw/node-feat.csv.gz"),
        ("raw/node-label.csv.gz", lines("0\n"), "found more"),
        ("raw/node-label.csv.gz", lines("\n"), "found more"),
        ("raw/num-node-list.csv.gz", lines("6\n"), "at most"),
        ("split/time/train.csv.gz", lines("0\n"), "found more"),
        ("mapping/labelidx2class.csv.gz", lines("0,a\n"), "at most"),
    ];
    // Each thread holds a block or two: with one, the bound is that of the file, not of the machine.
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for (name, content, expected) in bombs {
        let mut tree = inputs::compressed(inputs::ogb());
        let member = tree.iter_mut().find(|(member, _)| member.ends_with(name)).unwrap();
        member.1 = inputs::gzipped(&content);
        for form in [Form::Directory, Form::Zip] {
            let start = Instant::now();
            let message = one_thread.install(|| judge_tree(Format::Ogb, &tree, form)).unwrap_err();
            assert!(message.contains(name) && message.contains(expected), "{message}");
            assert!(start.elapsed() < LONGEST, "{name} took {:?}", start.elapsed());
        }
    }
}

/// An edge that is repeated without end is one edge: what is held while it is read goes by what is kept, not by what a small
/// file unpacks to. [`judge_tree`] has the bound: a table of 12 million rows once took four times as much.
#[test]
fn a_small_packed_table_takes_no_more_memory_than_is_kept() {
    let _turn = turn();
    for (head, row) in [("source,target\n", "a,b\n"), ("source,target,weight\n", "a,b,0.5\n")] {
        let mut tree = inputs::tables();
        tree.retain(|(name, _)| name != "edges.csv");
        let text = head.to_string() + &row.repeat(48_000_000 / row.len());
        tree.push(("edges.csv.gz".into(), inputs::gzipped(text.as_bytes())));
        drop(text);
        judge_tree(Format::Table, &tree, Form::Directory).unwrap();
    }
    // The same text as nodes: rows are kept here, four bytes a number, and not the text beside them.
    let mut tree = inputs::tables();
    tree.retain(|(name, _)| name != "nodes.csv");
    let text = "size,label\n".to_string() + &"100000.5,a\n100000.5,b\n".repeat(500_000);
    tree.push(("nodes.csv.gz".into(), inputs::gzipped(text.as_bytes())));
    drop(text);
    refused(judge_tree(Format::Table, &tree, Form::Directory), "edge expected a node id from 0 to 999999");
}

#[test]
fn edges_in_arrays_are_not_copied_before_repeats_are_merged() {
    const EDGES: usize = 1 << 22;
    let _turn = turn();
    let array = inputs::integers(&[EDGES, 2], &[0, 1].repeat(EDGES));
    let bytes = array.len();
    let npz = inputs::zipped(&vec![("edge_index.npy".to_string(), array)]);
    let mut heterophilous = inputs::arrays();
    heterophilous[0].1 = inputs::integers(&[EDGES, 2], &[0, 1].repeat(EDGES));
    let mut tables: Tree = vec![("edges.npz".into(), npz), ("nodes.csv".into(), b"x,label\n1,0\n2,1\n3,0\n".to_vec())];
    tables.sort();
    let cases = [
        (Format::Table, tables),
        (Format::Heterophilous, vec![("input.npz".to_string(), inputs::zipped(&heterophilous))]),
    ];
    for (format, tree) in cases {
        let scratch = Scratch::new();
        inputs::write(&scratch.path("input"), &tree);
        let (options, watch) = (ConversionOptions::default(), Watch::silent());
        let (result, peak) =
            peak_of(|| convert(format, &scratch.path("input"), &scratch.path("store"), &options, &watch));
        result.unwrap();
        // The array itself, while it is unpacked, and no second one.
        assert!(peak < bytes * 9 / 4, "{format:?}: {peak} bytes for an array of {bytes}");
    }
}

#[test]
fn a_tar_whose_members_lead_outside_writes_nothing_there() {
    let _turn = turn();
    let link = |tar: &mut tar::Builder<Vec<u8>>, name: &str, kind: EntryType, to: &str| {
        let mut header = tar::Header::new_ustar();
        header.set_path(name).unwrap();
        header.set_entry_type(kind);
        header.set_link_name(to).unwrap();
        header.set_size(0);
        header.set_cksum();
        tar.append(&header, &[][..]).unwrap();
    };
    // Members that are not asked for are passed over, wherever they lead.
    let mut tar = tar::Builder::new(Vec::new());
    add(&mut tar, "../../evil", EntryType::Regular, b"escaped");
    let absolute = std::env::temp_dir().join("hostile-evil");
    add(&mut tar, &absolute.to_string_lossy(), EntryType::Regular, b"escaped");
    link(&mut tar, "igb/link", EntryType::Symlink, "/etc");
    for (name, bytes) in inputs::igb() {
        add(&mut tar, &name, EntryType::Regular, &bytes);
    }
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("deep")).unwrap();
    let input = scratch.path("deep/a.tar");
    std::fs::write(&input, tar.into_inner().unwrap()).unwrap();
    judge_conversion(&scratch, Format::Igb, &input).unwrap();
    assert!(!absolute.exists());

    // One that is asked for is found by the end of its name and written under that end alone.
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in inputs::igb() {
        add(&mut tar, &format!("../../../{name}"), EntryType::Regular, &bytes);
    }
    std::fs::write(&input, tar.into_inner().unwrap()).unwrap();
    judge_conversion(&scratch, Format::Igb, &input).unwrap();

    // A link in its place is no file.
    for kind in [EntryType::Symlink, EntryType::Link] {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, bytes) in inputs::igb().into_iter().skip(1) {
            add(&mut tar, &name, EntryType::Regular, &bytes);
        }
        link(&mut tar, "igb/processed/paper/node_feat.npy", kind, "/etc/passwd");
        std::fs::write(&input, tar.into_inner().unwrap()).unwrap();
        refused(judge_conversion(&scratch, Format::Igb, &input), "expected processed/paper/node_feat.npy");
    }
}

#[test]
fn a_tar_bomb_stops_at_the_limit() {
    let _turn = turn();
    let scratch = Scratch::new();
    let mut header = tar::Header::new_ustar();
    header.set_path("igb/processed/paper/node_feat.npy").unwrap();
    header.set_size(1 << 40);
    header.set_cksum();
    // A member that claims a tebibyte, of which more comes than is trusted of any archive.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(header.as_bytes()).unwrap();
    let zeros = vec![0; 1 << 20];
    (0..600).for_each(|_| encoder.write_all(&zeros).unwrap());
    let path = scratch.path("a.tar.gz");
    std::fs::write(&path, encoder.finish().unwrap()).unwrap();
    let start = Instant::now();
    refused(judge_conversion(&scratch, Format::Igb, &path), "a.tar.gz");
    assert!(start.elapsed() < LONGEST);
}

#[test]
fn an_archive_that_is_another_format_is_refused() {
    let _turn = turn();
    let trees: [Tree; 2] = [inputs::compressed(inputs::ogb()), inputs::tudataset("TINY")];
    let mixed = [(Format::Ogb, &trees[1], Form::Zip), (Format::TuDataset, &trees[0], Form::Zip)];
    for (format, tree, form) in
        mixed.into_iter().chain([(Format::Igb, &trees[0], Form::Tar), (Format::Ogb, &trees[0], Form::Tar)])
    {
        refused(judge_tree(format, tree, form), "expected");
    }
}
