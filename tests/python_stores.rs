//! Stores and Python: what the scripts write is read here, what is written here numpy opens.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use program::{Scratch, small_dataset};
use std::path::Path;
use std::process::{Command, Output};

fn python(scratch: &Scratch, arguments: &[&str]) -> Option<Output> {
    let numpy = Command::new("python3").args(["-c", "import numpy"]).output();
    if !numpy.is_ok_and(|output| output.status.success()) {
        println!("skipped: python3 with numpy is not here (pip install numpy)");
        return None;
    }
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let known = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(scripts).chain(std::env::split_paths(&known))).unwrap();
    let output = Command::new("python3")
        .args(arguments)
        .current_dir(scratch.path(""))
        .env("PYTHONPATH", path)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output();
    Some(output.unwrap())
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_converters_from_pyg_and_dgl_pass_their_own_tests() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let scratch = Scratch::new();
    let Some(output) = python(&scratch, &["-m", "unittest", "discover", "-s", tests.to_str().unwrap()]) else { return };
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && report.contains("OK") && !report.contains("Ran 0 tests"), "{report}");
}

#[test]
fn numpy_opens_what_is_written_here() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    let script = "import json, numpy\nmeta = json.load(open('ring/meta.json'))\n\
                  x = numpy.load('ring/features.npy', mmap_mode='r')\n\
                  ptr = numpy.load('ring/row_ptr.npy', mmap_mode='r')\nprint(meta['name'], x.shape, x.dtype, int(ptr[-1]))";
    let Some(output) = python(&scratch, &["-c", script]) else { return };
    assert_eq!(stdout(&output).trim(), "ring (12, 2) float32 24");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/open_store.py");
    let text = stdout(&python(&scratch, &[script.to_str().unwrap(), "ring"]).unwrap());
    assert!(text.contains("ring: node task, 3 classes") && text.contains("12 nodes, 24 directed edges"), "{text}");
    assert!(!text.contains("reordered"), "{text}");
    let original = (0..12).map(|i| (i + 5) % 12).collect();
    let order = harmonia::dataset::NodeOrder { method: "turned".into(), original };
    let turned = harmonia::dataset::Dataset { node_order: Some(order), ..small_dataset() };
    harmonia::store::write(&turned, &scratch.path("turned")).unwrap();
    let text = stdout(&python(&scratch, &[script.to_str().unwrap(), "turned"]).unwrap());
    assert!(text.contains("nodes were reordered (turned): node 0 is 5 in the source"), "{text}");
}

/// Objects with the attributes of PyG, without PyG.
#[test]
fn what_the_converter_writes_trains_here() {
    let scratch = Scratch::new();
    let script = "\
import types, numpy as np
from to_store import from_pyg
n = 40
mask = lambda part: np.arange(n) % 4 == part
ring = np.array([[i, (i + 1) % n] for i in range(n)] + [[(i + 1) % n, i] for i in range(n)]).T
node = types.SimpleNamespace(x=np.random.default_rng(0).normal(size=(n, 3)), y=np.arange(n) % 3, edge_index=ring,
                             train_mask=mask(0) | mask(1), val_mask=mask(2), test_mask=mask(3))
from_pyg(node, 'node', 'ring')
small = lambda y: types.SimpleNamespace(x=np.ones((3, 2)), y=np.array([y]), edge_index=np.array([[0, 1], [1, 0]]))
from_pyg([small(i % 2) for i in range(30)], 'graphs', 'pairs')
";
    let Some(output) = python(&scratch, &["-c", script]) else { return };
    stdout(&output);
    for (store, units) in [("node", "40 nodes, 80 directed edges"), ("graphs", "90 nodes, 60 directed edges")] {
        let output = scratch.train(&["--dataset", store, "--epochs", "2", "--out", &format!("run-{store}")]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && message.contains(units), "{message}");
    }
}
