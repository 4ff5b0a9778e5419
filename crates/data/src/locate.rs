//! Where raw files live: the data directory, and the places in it where a dataset's files are looked for.
//!
//! Only looks, never writes. A dataset is present when all its files, or those of one of its other layouts, are in one
//! place; files that are fetched go to `<directory>/<Folder>/<path>` ([`target`]), which is one of the places.

use crate::catalogue::{Entry, RemoteFile};
use harmonia_graph::cache::{Platform, cache_by};
use harmonia_graph::error::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Environment variable that names the directory of raw files.
pub const DATA_VARIABLE: &str = "HARMONIA_DATA";

/// Raw files that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// What a reader is handed: the archive or table, or the directory of the files.
    pub path: PathBuf,
    /// The archive or table, or every file of the directory.
    pub files: Vec<PathBuf>,
}

/// The directory of raw files: `explicit`, else `HARMONIA_DATA`, else `harmonia` in the cache directory of the
/// platform. It need not exist.
///
/// # Errors
/// Nothing says where it should be: no home directory. Or it is a file.
pub fn data_directory(explicit: Option<&Path>) -> Result<PathBuf> {
    let directory = directory_by(explicit, Platform::HERE, &|name| std::env::var_os(name))?;
    harmonia_graph::files::check_directory(&directory)?;
    Ok(directory)
}

fn directory_by(
    explicit: Option<&Path>,
    platform: Platform,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<PathBuf> {
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(directory) = explicit.filter(|directory| !directory.as_os_str().is_empty()) {
        return Ok(directory.to_path_buf());
    }
    if let Some(directory) = path(DATA_VARIABLE) {
        return Ok(directory);
    }
    cache_by(platform, variable).ok_or_else(|| {
        let asked = if matches!(platform, Platform::Windows) { "LOCALAPPDATA" } else { "HOME" };
        Error::Config(format!(
            "no directory for datasets, because {asked} is not set: set data.dir = DIR, or the variable {DATA_VARIABLE}"
        ))
    })
}

/// Where a file is kept once it is downloaded.
pub fn target(entry: &Entry, directory: &Path, file: &RemoteFile) -> PathBuf {
    // Component by component, so that messages on Windows do not mix separators.
    file.path.split('/').fold(directory.join(entry.folder), |path, part| path.join(part))
}

/// The raw files of `entry` in `directory`: there, in `raw`, in the dataset's folder or in that one's `raw`. The
/// files that are downloaded win over other layouts.
pub fn find_raw(entry: &Entry, directory: &Path) -> Option<Raw> {
    let places = places(entry, directory);
    let downloaded = places.iter().find_map(|place| {
        let files: Vec<_> = entry.files.iter().map(|file| place.join(file.file_name())).collect();
        files
            .iter()
            .all(|file| file.is_file())
            .then(|| Raw { path: if let [only] = files.as_slice() { only.clone() } else { place.clone() }, files })
    });
    downloaded.or_else(|| {
        let layouts = entry.layouts.iter().flat_map(|layout| places.iter().map(move |place| (layout, place)));
        layouts.into_iter().find_map(|(layout, place)| {
            let root = if layout.root.is_empty() { place.clone() } else { place.join(layout.root) };
            let files: Vec<_> = match layout.is_file {
                true => vec![root.clone()],
                false => layout.files.iter().map(|file| root.join(file)).collect(),
            };
            files.iter().all(|file| file.is_file()).then_some(Raw { path: root, files })
        })
    })
}

/// What has to be fetched; nothing when the dataset is present in any layout.
pub(crate) fn missing_files<'a>(entry: &'a Entry, directory: &Path) -> Vec<&'a RemoteFile> {
    if find_raw(entry, directory).is_some() {
        return Vec::new();
    }
    entry.files.iter().filter(|file| !target(entry, directory, file).is_file()).collect()
}

/// Directories in which all files of a dataset may lie, most likely first and each once.
fn places(entry: &Entry, directory: &Path) -> Vec<PathBuf> {
    let lower = entry.folder.to_lowercase();
    let mut places: Vec<PathBuf> = Vec::new();
    let folders = [entry.folder, &lower].into_iter().chain(entry.other_folders.iter().copied());
    // The dataset's own folder before the shared one: `raw` in a directory of all datasets could be another's.
    for base in folders.map(|folder| directory.join(folder)).chain([directory.to_path_buf()]) {
        for place in [base.join("raw"), base] {
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{self, find};

    fn touch(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"x").unwrap();
    }

    fn directory_of(explicit: Option<&str>, platform: Platform, variables: &[(&str, &str)]) -> Result<PathBuf> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
        directory_by(explicit.map(Path::new), platform, &variable)
    }

    #[test]
    fn what_is_given_wins_over_the_variable_and_that_over_the_cache() {
        let all = [("HARMONIA_DATA", "/data"), ("XDG_CACHE_HOME", "/xdg"), ("HOME", "/people/a")];
        let unix = |explicit, skipped: usize| directory_of(explicit, Platform::Unix, &all[skipped..]).unwrap();
        assert_eq!(unix(Some("here"), 0), Path::new("here"));
        assert_eq!(unix(None, 0), Path::new("/data"));
        assert_eq!(unix(Some(""), 0), Path::new("/data"));
        assert_eq!(unix(None, 1), Path::new("/xdg/harmonia"));
        assert_eq!(unix(None, 2), Path::new("/people/a/.cache/harmonia"));
    }

    #[test]
    fn each_platform_has_its_cache_directory() {
        let home = [("HARMONIA_DATA", ""), ("XDG_CACHE_HOME", "relative"), ("HOME", "/people/a")];
        assert_eq!(directory_of(None, Platform::Unix, &home).unwrap(), Path::new("/people/a/.cache/harmonia"));
        assert_eq!(directory_of(None, Platform::Mac, &home).unwrap(), Path::new("/people/a/Library/Caches/harmonia"));
        let windows = directory_of(None, Platform::Windows, &[("LOCALAPPDATA", "local")]).unwrap();
        assert_eq!(windows, Path::new("local").join("harmonia"));
        let message = directory_of(None, Platform::Windows, &home).unwrap_err().to_string();
        assert!(message.contains("LOCALAPPDATA is not set") && message.contains("set data.dir = DIR"), "{message}");
    }

    #[test]
    fn files_are_found_in_each_of_the_usual_places() {
        let cora = find("cora").unwrap();
        for place in ["", "raw", "Cora", "Cora/raw", "cora", "cora/raw"] {
            let home = tempfile::tempdir().unwrap();
            cora.files.iter().for_each(|file| touch(&home.path().join(place).join(file.file_name())));
            let raw = find_raw(cora, home.path()).unwrap_or_else(|| panic!("not found in `{place}`"));
            // Of all places, the one that exists: `cora` and `Cora` are one directory on some systems.
            assert_eq!(raw.path.canonicalize().unwrap(), home.path().join(place).canonicalize().unwrap());
            assert_eq!(raw.files.len(), 8);
            assert!(missing_files(cora, home.path()).is_empty());
        }
    }

    #[test]
    fn a_single_file_is_handed_over_itself_and_an_extracted_archive_as_its_directory() {
        let home = tempfile::tempdir().unwrap();
        let (arxiv, igb) = (find("ogbn-arxiv").unwrap(), find("igb-small").unwrap());
        let extracted = home.path().join("ogbn_arxiv");
        arxiv.layouts[0].files.iter().for_each(|file| touch(&extracted.join(file)));
        assert_eq!(find_raw(arxiv, home.path()).unwrap().path, extracted);
        std::fs::remove_file(extracted.join("split/time/test.csv.gz")).unwrap();
        assert_eq!(find_raw(arxiv, home.path()), None, "half a layout is none");
        touch(&home.path().join("ogbn-arxiv/raw/arxiv.zip"));
        let raw = find_raw(arxiv, home.path()).unwrap();
        assert_eq!(raw.path, home.path().join("ogbn-arxiv").join("raw").join("arxiv.zip"));
        assert_eq!(raw.files, std::slice::from_ref(&raw.path));

        let processed = home.path().join("IGB-Small/small");
        igb.layouts[0].files.iter().for_each(|file| touch(&processed.join(file)));
        assert_eq!(find_raw(igb, home.path()).unwrap().path, processed);

        let herg = find("herg-karim").unwrap();
        touch(&home.path().join("hERG-Karim/raw/herg_karim.csv"));
        assert!(find_raw(herg, home.path()).unwrap().path.ends_with("raw/herg_karim.csv"));
        touch(&home.path().join("hERG-Karim/raw/herg_karim.tab"));
        assert!(find_raw(herg, home.path()).unwrap().path.ends_with("raw/herg_karim.tab"), "the download wins");
    }

    #[test]
    fn only_files_that_are_not_there_are_missing() {
        let home = tempfile::tempdir().unwrap();
        let cora = find("cora").unwrap();
        assert_eq!(missing_files(cora, home.path()).len(), 8);
        touch(&home.path().join("Cora/raw/ind.cora.x"));
        // A directory is no file.
        std::fs::create_dir_all(home.path().join("Cora/raw/ind.cora.y")).unwrap();
        let missing: Vec<PathBuf> =
            missing_files(cora, home.path()).into_iter().map(|file| target(cora, home.path(), file)).collect();
        assert_eq!(missing.len(), 7);
        assert!(missing.contains(&home.path().join("Cora").join("raw").join("ind.cora.y")), "{missing:?}");
    }

    #[test]
    fn the_shared_data_is_found() {
        let Some(data) = crate::download::test_support::shared_data() else { return };
        for entry in catalogue::ALL {
            // The two OGB sets are there without edges, IGB not at all.
            let partial = ["ogbn-arxiv", "ogbn-products", "igb-small"].contains(&entry.name);
            assert_eq!(find_raw(entry, &data).is_none(), partial, "{}", entry.name);
        }
    }
}
