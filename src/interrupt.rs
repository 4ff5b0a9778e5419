//! A request to stop, for work that is not a training run: conversions, downloads, generators.
//!
//! The command line sets the flag from a signal; long loops ask now and then and give up with
//! [`Error::Cancelled`], so that what they wrote so far is removed on the way out.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// The flag, for a signal handler to set.
pub fn flag() -> Arc<AtomicBool> {
    Arc::clone(&STOP)
}

/// Whether to go on.
///
/// # Errors
/// [`Error::Cancelled`] once a stop was asked for.
pub fn check() -> Result<()> {
    if STOP.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
}
