//! A run that is to go on to more epochs than it was begun with: also one that is complete, or that patience has ended.
//!
//! Everything is looked at first and changed later, in an order that a kill does no harm to: what is not yet extended is as it
//! was, and the same command goes on.

use super::directory::check_data;
use super::layout::{run_directory, run_names, session_of};
use super::{Fingerprint, saved_layers};
use crate::config::Config;
use crate::model::Checkpoint;
use crate::settings::to_toml;
use crate::train::RunName;
use crate::train::trainer::Progress;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::{files, lock};
use std::fs;
use std::path::{Path, PathBuf};

/// A run that can go on.
pub struct Extension {
    root: PathBuf,
    /// Settings of the whole, with the epochs it had.
    before: Config,
    epochs: usize,
    /// Seeds and folds that were begun.
    members: Vec<(RunName, PathBuf, Progress)>,
}

impl Extension {
    /// Looks whether a run can go on to `epochs` epochs; nothing is changed.
    ///
    /// # Errors
    /// It is no run directory or one of several of a session, or it has trained so many epochs already.
    pub fn new(root: &Path, epochs: usize) -> Result<Extension> {
        let before = saved_layers(root)?.finish()?;
        if let Some(session) = session_of(root)? {
            let message = format!("is one of the runs of {}: extend that", session.display());
            return Err(Error::file(root, message));
        }
        let names = run_names(&before.run);
        let mut members = Vec::new();
        for &name in &names {
            let path = run_directory(root, &before.run, name);
            if let Some(progress) = progress(&path)? {
                members.push((name, path, progress));
            }
        }
        let done = || members.iter().map(|(_, _, progress)| progress.epoch);
        let (least, most) = (done().min().unwrap_or(0), done().max().unwrap_or(0));
        if most > epochs || (least == epochs && members.len() == names.len()) {
            let message = format!("has trained {most} epochs already: give --epochs a larger number than that");
            return Err(Error::file(root, message));
        }
        Ok(Extension { root: root.to_path_buf(), before, epochs, members })
    }

    /// Settings of the run as it was.
    pub fn before(&self) -> &Config {
        &self.before
    }

    /// Epochs that the run which is furthest has done.
    pub fn done(&self) -> usize {
        self.members.iter().map(|(_, _, progress)| progress.epoch).max().unwrap_or(0)
    }

    /// Runs that patience had ended, and after how many epochs: it is counted anew from there.
    pub fn stopped(&self) -> impl Iterator<Item = (RunName, usize)> {
        self.members
            .iter()
            .filter(|(_, _, progress)| progress.stopped)
            .map(|(name, _, progress)| (*name, progress.epoch))
    }

    /// Makes it so: from here on it is an unfinished run of more epochs. `data` is what it would be trained on.
    ///
    /// # Errors
    /// It was begun with other data, another process is writing it, or the disk is full or not writable.
    pub fn apply(&self, data: &Fingerprint) -> Result<()> {
        self.members.iter().try_for_each(|(_, path, _)| check_data(path, data))?;
        let mut locks = vec![lock::claim(&self.root)?];
        for (_, path, _) in self.members.iter().filter(|(_, path, _)| *path != self.root) {
            locks.push(lock::claim(path)?);
        }
        for (_, path, _) in self.members.iter().filter(|(_, _, progress)| progress.stopped) {
            go_on(path)?;
        }
        for path in self.members.iter().map(|(_, path, _)| path).filter(|path| **path != self.root) {
            set_epochs(path, self.epochs)?;
            remove_summary(path)?;
        }
        set_epochs(&self.root, self.epochs)?;
        remove_summary(&self.root)
    }
}

/// How far a training has come; none where it has no checkpoint.
fn progress(directory: &Path) -> Result<Option<Progress>> {
    let path = directory.join("last.safetensors");
    if !path.exists() {
        return Ok(None);
    }
    read_progress(&Checkpoint::read(&path)?).map(Some)
}

fn read_progress(checkpoint: &Checkpoint) -> Result<Progress> {
    let text = checkpoint.metadata.as_deref();
    text.and_then(|text| serde_json::from_str(text).ok())
        .ok_or_else(|| Error::file(&checkpoint.path, "has no training state; it is not a checkpoint of a run"))
}

/// The checkpoint of a training that patience had ended, without that end.
fn go_on(directory: &Path) -> Result<()> {
    let checkpoint = Checkpoint::read(&directory.join("last.safetensors"))?;
    let mut progress = read_progress(&checkpoint)?;
    progress.stopped = false;
    progress.stopping.count_from(progress.epoch);
    let text = serde_json::to_string(&progress).map_err(|error| Error::file(&checkpoint.path, error.to_string()))?;
    // They are f32 in the file: no bit is lost.
    let values: Vec<Vec<f32>> =
        checkpoint.tensors.values().map(|tensor| tensor.values.iter().map(|&x| x as f32).collect()).collect();
    let tensors = checkpoint.tensors.iter().zip(&values);
    let tensors = tensors.map(|((name, tensor), values)| (name.clone(), tensor.shape.clone(), values.as_slice()));
    Checkpoint::write(&checkpoint.path, tensors.collect(), Some(text))
}

fn set_epochs(directory: &Path, epochs: usize) -> Result<()> {
    let mut config = saved_layers(directory)?.finish()?;
    config.train.epochs = epochs;
    files::write_atomic(&directory.join("config.toml"), to_toml(&config)?.as_bytes())
}

/// Its presence says that a run is complete.
fn remove_summary(directory: &Path) -> Result<()> {
    let path = directory.join("summary.json");
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", &path)(error)),
        _ => Ok(()),
    }
}
