//! Whole directories in, datasets or messages out.

mod binary;
mod columns;
mod damage;
mod real;
mod text;

use super::*;
use harmonia_graph::dataset::{Dataset, Labels, Level, UNLABELLED};
use harmonia_graph::graph::Split;

/// A directory with these files.
fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(root.path().join(name), bytes).unwrap();
    }
    root
}

fn options(root: &tempfile::TempDir) -> Options {
    Options { directory: root.path().to_path_buf(), ..Options::default() }
}

fn texts<'a>(files: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a [u8])> {
    files.iter().map(|(name, text)| (*name, text.as_bytes())).collect()
}

fn loaded(files: &[(&str, &str)]) -> Dataset {
    let root = directory(&texts(files));
    load("own", &options(&root)).unwrap()
}

/// The message, in which the directory is cut off.
fn refused(files: &[(&str, &str)]) -> String {
    refused_with(files, |_| {})
}

fn refused_with(files: &[(&str, &str)], change: impl FnOnce(&mut Options)) -> String {
    let root = directory(&texts(files));
    let mut options = options(&root);
    change(&mut options);
    let message = load("own", &options).unwrap_err().to_string();
    message.replace(&format!("{}/", root.path().display()), "")
}

fn neighbours(dataset: &Dataset, node: usize) -> Vec<(usize, f32)> {
    dataset.graph.adjacency().row_entries(node).collect()
}

fn classes(ids: &[u32], classes: usize) -> Labels {
    Labels::Classes { ids: ids.to_vec(), classes }
}

fn split(train: &[u32], valid: &[u32], test: &[u32]) -> Split {
    Split { train: train.to_vec(), valid: valid.to_vec(), test: test.to_vec() }
}

/// Three nodes that fit the edges 0-1, 1-2.
const NODES: (&str, &str) = ("nodes.csv", "size,label\n0.5,0\n1.5,1\n2.5,0\n");
const EDGES: (&str, &str) = ("edges.csv", "source,target\n0,1\n1,2\n");
