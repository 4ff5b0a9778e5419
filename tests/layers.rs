//! Dependencies point one way: no module imports one that stands above it. `ARCHITECTURE.md` draws these lists.
//!
//! The order between crates is kept by cargo; the order between the top-level modules of a crate is kept here, by reading
//! every `crate::...` and `super::...` outside tests.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Bottom up; a module may import those before it.
const GRAPH: &[&str] = &[
    "error",
    "stop",
    "memory",
    "files",
    "lock",
    "cache",
    "units",
    "watch",
    "seed",
    "simd",
    "array",
    "npy",
    "graph",
    "dataset",
    "store",
    "walk_table",
];
const DATA: &[&str] = &[
    "pickle",
    "archive",
    "npz",
    "frame",
    "text",
    "tarball",
    "conversion",
    "ogb",
    "igb",
    "planetoid",
    "tudataset",
    "heterophilous",
    "smiles",
    "table",
    "formats",
    "statistics",
    "catalogue",
    "locate",
    "download",
    "obtain",
    "generate",
    "synthetic",
    "named",
];
const ENGINE: &[&str] = &[
    "real",
    "architecture",
    "loss",
    "config",
    "team",
    "plan",
    "batch",
    "knots",
    "device",
    "tabulate",
    "model",
    "train",
    "explain",
    "diagnose",
];
/// Behind the feature `runs`.
const RUNS: &[&str] = &["settings", "recovery", "runs", "answers", "export", "report", "session"];
/// Behind the feature `program`.
const PROGRAM: &[&str] = &["studies", "cli"];

#[test]
fn no_module_imports_one_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let whole = [ENGINE, RUNS, PROGRAM].concat();
    let crates = [(root.join("crates/graph"), GRAPH), (root.join("crates/data"), DATA), (root.to_path_buf(), &whole)];
    let wrong: Vec<String> = crates.iter().flat_map(|(path, order)| upward(&path.join("src"), order)).collect();
    assert!(wrong.is_empty(), "imports that point upwards:\n{}", wrong.join("\n"));
}

#[test]
fn the_engine_knows_neither_formats_nor_commands() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (path, text) in sources(&source) {
        let module = top_module(&source, &path);
        if ENGINE.contains(&module.as_str()) {
            for outside in ["harmonia_data", "clap::", "indicatif::", "toml::", "signal_hook"] {
                assert!(!text.contains(outside), "{} speaks of {outside}", path.display());
            }
        } else if RUNS.contains(&module.as_str()) {
            for outside in ["clap::", "indicatif::", "signal_hook", "anstream"] {
                assert!(!text.contains(outside), "{} speaks of {outside}", path.display());
            }
        }
    }
}

/// They propose settings and options; `src/cli/hint.rs` says how these are typed.
#[test]
fn the_crates_below_name_no_flags_and_no_commands() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (path, text) in ["crates/graph/src", "crates/data/src"].iter().flat_map(|source| sources(&root.join(source))) {
        let flag =
            text.match_indices("--").find(|(at, _)| text[at + 2..].starts_with(|c: char| c.is_ascii_lowercase()));
        let command = text.match_indices("harmonia data ").next();
        if let Some((at, _)) = flag.or(command) {
            panic!("{}: {}", path.display(), text[at..].lines().next().unwrap());
        }
    }
}

#[test]
fn the_library_alone_brings_no_formats_and_no_commands() {
    let tree = |more: &[&str]| {
        let mut cargo = std::process::Command::new(env!("CARGO"));
        cargo.args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}"]).args(more);
        let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split(' ').next().unwrap_or("").to_string()).collect::<BTreeSet<_>>()
    };
    let (alone, whole) = (tree(&["--no-default-features"]), tree(&[]));
    // What the Python package stands on: runs and formats, no commands.
    let runs = tree(&["--no-default-features", "--features", "runs"]);
    for name in ["clap", "indicatif", "anstream", "signal-hook", "harmonia-commit"] {
        assert!(!runs.contains(name) && whole.contains(name), "{name}");
    }
    assert!(runs.contains("harmonia-data") && runs.contains("toml"));
    for name in ["clap", "ureq", "parquet", "zip", "tar", "indicatif", "toml", "harmonia-data"] {
        assert!(!alone.contains(name) && whole.contains(name), "{name}");
    }
    assert!(2 * alone.len() < whole.len(), "{} of {} crates", alone.len(), whole.len());
}

#[test]
fn an_upward_import_would_be_found() {
    let order = &["low", "high"];
    let find = |module: &str, depth, text| violations(module, depth, text, order);
    assert_eq!(find("low", 0, "use crate::high::Thing;"), ["high"]);
    assert_eq!(find("low", 0, "use super::high;"), ["high"]);
    assert_eq!(find("low", 1, "use super::super::{high, low};"), ["high"]);
    assert_eq!(find("low", 0, "use crate::{high::Thing, low};"), ["high"]);
    assert_eq!(find("low", 0, "use crate::{low::{A, B}, high};"), ["high"]);
    assert_eq!(find("low", 0, "#[cfg(test)]\nmod tests;\nuse crate::high;"), ["high"]);
    assert!(find("high", 0, "use crate::low::Thing; use super::low::Other;").is_empty());
    assert!(find("low", 0, "use crate::{low::{high, A}, low};").is_empty());
    assert!(find("low", 1, "use super::high::Sibling;").is_empty());
    assert!(find("low", 0, "// crate::high is mentioned\n#[cfg(test)]\nmod tests { use crate::high; }").is_empty());
}

/// Every import below `source` that points upwards, and every module without a place in the order.
fn upward(source: &Path, order: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (path, text) in sources(source) {
        let module = top_module(source, &path);
        if module == "lib" || module == "bin" {
            continue;
        }
        let depth = path.strip_prefix(source).unwrap().components().count() - 1;
        // A `mod.rs` is the module its folder is named after.
        let depth = if path.ends_with("mod.rs") { depth - 1 } else { depth };
        for above in violations(&module, depth, &text, order) {
            wrong.push(format!("{}: {module} -> {above}", path.display()));
        }
        if !order.contains(&module.as_str()) && seen.insert(module.clone()) {
            wrong.push(format!("{}: `{module}` has no place in the order of tests/layers.rs", source.display()));
        }
    }
    wrong
}

/// Top-level modules that a file names although they stand above its own. `depth`: how far below the top it is.
fn violations(module: &str, depth: usize, text: &str, order: &[&str]) -> Vec<String> {
    let text: String = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
    let text = outside_tests(&text);
    let own = order.iter().position(|name| *name == module).unwrap_or(0);
    let root = "super::".repeat(depth + 1);
    let mut found = Vec::new();
    for start in ["crate::", &root] {
        for (at, _) in text.match_indices(start) {
            let is_longer = text[..at].ends_with("super::") || text[..at].ends_with(|c: char| c.is_alphanumeric());
            let rest = &text[at + start.len()..];
            if is_longer || rest.starts_with("super::") {
                continue;
            }
            for name in named(rest) {
                if order.iter().position(|other| *other == name).is_some_and(|other| other > own) {
                    found.push(name);
                }
            }
        }
    }
    found
}

/// What stands before the tests of a file; tests in a file of their own are only named here.
fn outside_tests(text: &str) -> &str {
    let opens_here = |(at, start): &(usize, &str)| {
        let line = text[at + start.len()..].lines().next().unwrap_or("");
        !line.trim_end().ends_with(';')
    };
    let tests = text.match_indices("#[cfg(test)]\nmod ").find(opens_here);
    tests.map_or(text, |(at, _)| &text[..at])
}

/// The first names of a path, or of each path in braces.
fn named(rest: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(list) = rest.strip_prefix('{') else { return vec![word(rest)] };
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            ',' | '}' if depth == 0 => {
                names.push(word(list[start..at].trim()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    names
}

/// Sources outside tests.
fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && !["tests.rs", "test_support.rs"].contains(&name.as_str()) {
            found.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

fn top_module(source: &Path, path: &Path) -> String {
    let first = path.strip_prefix(source).unwrap().components().next().unwrap();
    first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_string()
}
