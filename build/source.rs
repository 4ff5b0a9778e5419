//! All kernels as one text: `#include "..."` replaced by the file, so that NVRTC needs no include path.
//!
//! `#pragma once` is respected, `#line` keeps compiler messages pointing at the files, and what only the host build sees
//! (`#ifdef HARMONIA_HOST`) is left out. `#include <...>` stays as it is.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The text of `root` and everything it includes.
pub fn inline(root: &Path) -> Result<String, String> {
    let mut text = String::new();
    append(root, &mut text, &mut HashSet::new(), &mut Vec::new())?;
    Ok(text)
}

fn append(
    path: &Path,
    text: &mut String,
    once: &mut HashSet<PathBuf>,
    including: &mut Vec<PathBuf>,
) -> Result<(), String> {
    let identity = path.canonicalize().map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if once.contains(&identity) {
        return Ok(());
    }
    if including.contains(&identity) {
        return Err(format!("{} includes itself and has no #pragma once", path.display()));
    }
    let content = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    including.push(identity.clone());
    line_marker(text, 1, path);
    let mut regions = Regions::default();
    for (number, line) in (1..).zip(content.lines()) {
        let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
        let was_host = regions.host();
        let own = directive.is_some_and(|directive| regions.enter(directive));
        if was_host || regions.host() || own {
            text.push('\n'); // left out, and the numbers of lines stay right
        } else if directive.is_some_and(|directive| directive.split_whitespace().eq(["pragma", "once"])) {
            once.insert(identity.clone());
            text.push('\n');
        } else if let Some(name) = directive.and_then(quoted_include) {
            append(&path.with_file_name(name), text, once, including)?;
            line_marker(text, number + 1, path);
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    including.pop();
    Ok(())
}

fn line_marker(text: &mut String, number: usize, path: &Path) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "#line {number} \"{}\"", path.display());
}

/// `name` of `include "name"`.
fn quoted_include(directive: &str) -> Option<&str> {
    directive.strip_prefix("include")?.trim_start().strip_prefix('"')?.split('"').next()
}

/// The conditionals around a line; `Some(host)` for those on HARMONIA_HOST alone.
#[derive(Default)]
struct Regions(Vec<Option<bool>>);

impl Regions {
    /// Whether only the host build sees the line.
    fn host(&self) -> bool {
        self.0.contains(&Some(true))
    }

    /// Follows a directive; whether it belongs to a conditional on HARMONIA_HOST.
    fn enter(&mut self, directive: &str) -> bool {
        let mut words = directive.split_whitespace();
        let keyword = words.next().unwrap_or_default();
        let on_host = words.next() == Some("HARMONIA_HOST");
        match keyword {
            "ifdef" => self.0.push(on_host.then_some(true)),
            "ifndef" => self.0.push(on_host.then_some(false)),
            "if" => self.0.push(None),
            "else" => {
                if let Some(Some(host)) = self.0.last_mut() {
                    *host = !*host;
                }
            }
            "endif" => return self.0.pop().flatten().is_some(),
            _ => return false,
        }
        self.0.last().is_some_and(Option::is_some)
    }
}
