//! Asks git for the commit.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let commit = match std::env::var("PROFILE").as_deref() {
        Ok("release") => {
            let (commit, moved) = find(Path::new("../.."));
            if let Some(path) = moved {
                println!("cargo:rerun-if-changed={}", path.display());
            }
            commit
        }
        _ => "development".into(),
    };
    println!("cargo:rustc-env=HARMONIA_COMMIT={commit}");
}

/// Short hash of HEAD of the repository whose top directory is `root`, and the file that changes whenever HEAD moves.
fn find(root: &Path) -> (String, Option<PathBuf>) {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).arg("rev-parse").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim_end().to_string())
    };
    // A repository that these sources merely lie in has a HEAD that says nothing about them.
    if git(&["--show-prefix"]).is_none_or(|prefix| !prefix.is_empty()) {
        return ("unknown".into(), None);
    }
    let hash = git(&["--short", "HEAD"]).filter(|hash| !hash.is_empty()).unwrap_or_else(|| "unknown".into());
    // The log of HEAD has a line per commit and checkout. A file that is missing would make cargo build every time.
    let moved = git(&["--git-path", "logs/HEAD"]).map(|path| root.join(path)).filter(|path| path.is_file());
    (hash, moved)
}
