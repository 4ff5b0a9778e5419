//! One process at a time fetches a file: an exclusive lock on `<file>.lock`.

use super::partial::beside;
use harmonia_graph::lock::{self, Lock};
use harmonia_graph::stop::Stop;
use std::io;
use std::path::{Path, PathBuf};

pub(super) fn path(target: &Path) -> PathBuf {
    beside(target, ".lock")
}

/// Waits for the lock of `target`, calling `waiting` between tries.
pub(super) fn hold(target: &Path, stop: &Stop, waiting: &dyn Fn()) -> io::Result<Lock> {
    lock::hold(&path(target), stop, waiting)
}
