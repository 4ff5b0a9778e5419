//! What a run directory says about itself without its data: for lists of runs, and before one is removed.

use super::layout::{run_directory, run_names};
use super::{Fingerprint, RunSummary, saved_layers};
use crate::config::Config;
use crate::loss::Scores;
use crate::loss::metrics::{mean, standard_deviation};
use crate::train::{EpochRecord, RunName};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::{files, lock};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// All of it is there.
    Finished,
    /// A process is writing it.
    Running,
    /// `--resume` would go on with it.
    Unfinished,
}

impl RunState {
    /// For people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            RunState::Finished => "finished",
            RunState::Running => "running",
            RunState::Unfinished => "unfinished",
        }
    }
}

/// One training, or all seeds and folds of a session.
#[derive(Clone, Debug)]
pub struct KnownRun {
    /// Its directory.
    pub path: PathBuf,
    /// Settings of the whole.
    pub config: Config,
    /// What its data are called.
    pub dataset: String,
    /// How far it has come.
    pub state: RunState,
    /// When something was last added to it.
    pub changed: Option<SystemTime>,
    /// Every seed and fold, in order; those that were not begun too.
    pub members: Vec<KnownMember>,
}

/// One training of a session.
#[derive(Clone, Debug)]
pub struct KnownMember {
    /// Seed and fold.
    pub name: RunName,
    /// Its directory.
    pub path: PathBuf,
    /// Where it is complete.
    pub summary: Option<RunSummary>,
    /// Epochs done.
    pub epochs: usize,
    /// The best epoch so far.
    pub best: Option<EpochRecord>,
}

/// Whether a directory has settings in it, as training leaves them.
pub fn is_run(path: &Path) -> bool {
    path.join("config.toml").is_file()
}

impl KnownRun {
    /// Reads what training has written.
    ///
    /// # Errors
    /// It is no run directory, or a file in it is damaged.
    pub fn read(path: &Path) -> Result<KnownRun> {
        let config = saved_layers(path)?.finish()?;
        let member = |name| KnownMember::read(name, run_directory(path, &config.run, name));
        let members = run_names(&config.run).into_iter().map(member).collect::<Result<Vec<_>>>()?;
        let is_finished = members.iter().all(|member| member.summary.is_some());
        let state = match is_finished {
            _ if lock::is_held(path) || members.iter().any(|member| lock::is_held(&member.path)) => RunState::Running,
            true => RunState::Finished,
            false => RunState::Unfinished,
        };
        let named = members.iter().find_map(|member| Fingerprint::read(&member.path).ok().flatten());
        let dataset = named.map_or_else(
            || {
                let path = Path::new(&config.data.dataset);
                path.file_name().map_or(config.data.dataset.clone(), |name| name.to_string_lossy().into_owned())
            },
            |data| data.dataset,
        );
        let times = members.iter().map(|member| member.path.as_path()).chain([path]).filter_map(changed);
        Ok(KnownRun { changed: times.max(), path: path.to_path_buf(), dataset, state, config, members })
    }

    /// Those below a directory, by name: itself, where it is one, or what it holds. What cannot be read is an error of its
    /// own beside its path.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn below(directory: &Path) -> Result<Vec<(PathBuf, Result<KnownRun>)>> {
        files::check_directory(directory)?;
        let mut paths = vec![directory.to_path_buf()];
        if !is_run(directory) {
            let entries = fs::read_dir(directory).map_err(Error::io("read", directory))?;
            paths = entries.flatten().map(|entry| entry.path()).filter(|path| is_run(path)).collect();
            paths.sort_by_cached_key(|path| numbered(path));
        }
        Ok(paths.into_iter().map(|path| (path.clone(), KnownRun::read(&path))).collect())
    }

    /// Names of all scores, in the order they are shown.
    pub fn score_names(&self) -> Vec<String> {
        let scores = self.members.iter().find_map(|member| member.validation());
        scores.map_or(Vec::new(), |scores| scores.names().map(String::from).collect())
    }

    /// (mean, sample standard deviation) over its runs of a score on the test units: of those that are complete.
    pub fn test(&self, name: &str) -> (Option<f64>, Option<f64>) {
        spread(self.members.iter().filter_map(|member| member.summary.as_ref()?.test.get(name)))
    }

    /// The same of always predicting the most frequent class, or the mean.
    pub fn constant(&self, name: &str) -> (Option<f64>, Option<f64>) {
        let constant = |member: &KnownMember| member.summary.as_ref()?.baselines.first()?.test.get(name);
        spread(self.members.iter().filter_map(constant))
    }

    /// The same on the validation units, of the best epoch so far.
    pub fn validation(&self, name: &str) -> (Option<f64>, Option<f64>) {
        spread(self.members.iter().filter_map(|member| member.validation()?.get(name)))
    }
}

impl KnownMember {
    fn read(name: RunName, path: PathBuf) -> Result<KnownMember> {
        let file = path.join("summary.json");
        let summary = match file.symlink_metadata().is_ok() {
            true => {
                let text = files::read_text(&file)?;
                let read: RunSummary = serde_json::from_str(&text)
                    .map_err(|error| Error::file(&file, format!("is not a run summary: {error}")))?;
                Some(read)
            }
            false => None,
        };
        let log = path.join("metrics.jsonl");
        let text = if log.is_file() { files::read_text(&log)? } else { String::new() };
        let history: Vec<EpochRecord> = text.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
        Ok(KnownMember {
            name,
            path,
            summary,
            epochs: history.last().map_or(0, |record| record.epoch),
            best: history.into_iter().rfind(|record| record.best),
        })
    }

    /// Scores of the best epoch: of the calibrated model where training is over.
    pub fn validation(&self) -> Option<&Scores> {
        let summary = self.summary.as_ref().map(|summary| &summary.validation);
        summary.or(self.best.as_ref().map(|record| &record.validation))
    }
}

fn spread(values: impl Iterator<Item = f64>) -> (Option<f64>, Option<f64>) {
    let values: Vec<f64> = values.collect();
    (mean(values.iter().copied()), standard_deviation(&values))
}

/// Name without its number, then the number: cora-2 comes before cora-10.
fn numbered(path: &Path) -> (String, u64) {
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    match name.rsplit_once('-').and_then(|(name, number)| Some((name.to_string(), number.parse().ok()?))) {
        Some(split) => split,
        None => (name, 0),
    }
}

/// When training last wrote here.
fn changed(directory: &Path) -> Option<SystemTime> {
    let files = ["config.toml", "metrics.jsonl", "summary.json"].map(|name| directory.join(name));
    files.iter().filter_map(|file| file.metadata().ok()?.modified().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_as_numbers() {
        let mut names = ["cora-10", "cora-2", "b", "cora-x", "a-1"].map(PathBuf::from);
        names.sort_by_cached_key(|path| numbered(path));
        assert_eq!(names, ["a-1", "b", "cora-2", "cora-10", "cora-x"].map(PathBuf::from));
    }
}
