//! Which runs a session has, and where in its directory each of them is.

use crate::config::RunSettings;
use crate::train::RunName;
use harmonia_graph::error::{Error, Result};
use std::path::{Path, PathBuf};

/// Every run of a session, in order.
pub fn run_names(run: &RunSettings) -> Vec<RunName> {
    let folds = |seed| {
        let folds = (0..run.folds).map(Some).chain((run.folds == 0).then_some(None));
        folds.map(move |fold| RunName { seed, fold })
    };
    (run.seed..).take(run.seeds).flat_map(folds).collect()
}

/// Where a run of a session is: the directory of the session itself where it is the only one.
pub fn run_directory(root: &Path, run: &RunSettings, name: RunName) -> PathBuf {
    let seed = (run.seeds > 1).then(|| format!("seed-{}", name.seed));
    let fold = name.fold.map(|fold| format!("fold-{fold}"));
    root.join([seed, fold].into_iter().flatten().collect::<PathBuf>())
}

/// The directory of the session that a directory is one run of; none where it stands for itself.
///
/// # Errors
/// The directory does not exist.
pub fn session_of(path: &Path) -> Result<Option<PathBuf>> {
    let whole = path.canonicalize().map_err(Error::io("read", path))?;
    let is_part = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = ["seed-", "fold-"].iter().find_map(|prefix| name.strip_prefix(prefix));
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    // A fold of a seed has its session two levels up.
    let outside = whole.ancestors().take(2).take_while(|path| is_part(path)).filter_map(Path::parent);
    Ok(outside.filter(|parent| parent.join("config.toml").is_file()).last().map(Path::to_path_buf))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn runs_of_a_session_are_found_and_know_it() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap().join("seed-7");
        let mut run = Config::default().run;
        (run.seed, run.seeds, run.folds) = (3, 2, 3);
        let names = run_names(&run);
        assert_eq!(names.len(), 6);
        assert_eq!(names[4], RunName { seed: 4, fold: Some(1) });
        let one = run_directory(&root, &run, names[4]);
        assert_eq!(one, root.join("seed-4/fold-1"));
        std::fs::create_dir_all(&one).unwrap();
        // A directory that is called like a part of a session is none where nothing around it is a session.
        assert_eq!(session_of(&root).unwrap(), None);
        assert_eq!(session_of(&one).unwrap(), None);
        std::fs::write(root.join("config.toml"), "").unwrap();
        assert_eq!(session_of(&one).unwrap(), Some(root.clone()));
        assert_eq!(session_of(&root.join("seed-4")).unwrap(), Some(root.clone()));
        assert_eq!(session_of(&root).unwrap(), None);
        assert!(session_of(&root.join("nowhere")).is_err());
        (run.seeds, run.folds) = (1, 0);
        assert_eq!(run_directory(&root, &run, run_names(&run)[0]), root);
    }
}
