//! Launches and milliseconds of each kernel, for whoever holds a GPU against `docs/roofline.md`.
//!
//! Written when the device is closed, as lines of `kernel launches milliseconds`; a failure to write is said and is no error.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// What was measured so far.
pub(super) struct Times {
    path: PathBuf,
    kernels: Mutex<BTreeMap<&'static str, (u64, f64)>>,
}

impl Times {
    /// Where `HARMONIA_CUDA_TIMES` names a file.
    pub(super) fn wanted() -> Option<Times> {
        let path = std::env::var_os("HARMONIA_CUDA_TIMES").filter(|path| !path.is_empty())?;
        Some(Times { path: path.into(), kernels: Mutex::default() })
    }

    pub(super) fn add(&self, kernel: &'static str, milliseconds: f32) {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let (launches, sum) = kernels.entry(kernel).or_default();
        *launches += 1;
        *sum += f64::from(milliseconds);
    }
}

impl Drop for Times {
    fn drop(&mut self) {
        let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = kernels.iter().map(|(kernel, (launches, sum))| format!("{kernel} {launches} {sum:.6}\n"));
        if let Err(error) = std::fs::write(&self.path, lines.collect::<String>()) {
            eprintln!("{}: cannot write times of kernels: {error}", self.path.display());
        }
    }
}
