//! Names of members: the walk of a directory, and the check of names that come from a zip.
//!
//! Both give names relative to the root, with `/` between folders and no empty, `.` or `..` component.

use harmonia_graph::error::{Error, Result};
use std::collections::{HashSet, VecDeque};
use std::path::Path;

/// Folders below the root that are looked into; what lies deeper is not seen.
const DEEPEST: usize = 8;

/// A name without double slashes and `.`; `None` for one that could lead outside.
pub(super) fn clean(name: &str) -> Option<String> {
    let drive = name.as_bytes().get(1) == Some(&b':');
    if drive || name.starts_with('/') || name.contains(['\\', '\0']) {
        return None;
    }
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.contains(&"..")).then(|| parts.join("/"))
}

/// Names of the files below `root`, sorted. Links to files and folders are followed, a folder is entered once.
pub(super) fn walk(root: &Path, most_entries: usize) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut entered = HashSet::from([root.canonicalize().map_err(Error::io("open", root))?]);
    let mut folders = VecDeque::from([(String::new(), 0)]);
    let mut entries = 0;
    // Breadth first, so that of a folder and a link to it the shallower name is the one that counts.
    while let Some((folder, depth)) = folders.pop_front() {
        let path = root.join(&folder);
        for entry in std::fs::read_dir(&path).map_err(Error::io("read directory", &path))? {
            entries += 1;
            if entries > most_entries {
                let message = format!("expected at most {most_entries} entries; pass the directory of one dataset");
                return Err(Error::file(root, message));
            }
            let entry = entry.map_err(Error::io("read directory", &path))?;
            // A name that is not UTF-8 is not one that a reader asks for.
            let Ok(own_name) = entry.file_name().into_string() else { continue };
            let name = if folder.is_empty() { own_name } else { format!("{folder}/{own_name}") };
            // Follows links; one that leads nowhere is no member.
            let Ok(metadata) = std::fs::metadata(entry.path()) else { continue };
            if metadata.is_file() {
                names.push(name);
            } else if metadata.is_dir()
                && depth < DEEPEST
                && entry.path().canonicalize().is_ok_and(|target| entered.insert(target))
            {
                folders.push_back((name, depth + 1));
            }
        }
    }
    names.sort();
    Ok(names)
}
