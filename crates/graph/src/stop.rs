//! A request to stop, handed to long work: conversions, downloads, generators, diagnoses, training.
//!
//! Whoever starts the work keeps a clone of the token and may ask at any time; the work looks now and then and gives up
//! with [`Error::Cancelled`], so that what it wrote so far is removed on the way out. Nothing here is global: two pieces
//! of work in one process are stopped independently.

use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Clones are the same token. A new one asks for nothing.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
}

impl Stop {
    /// A token nobody has used yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks all work that holds the token to stop.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// [`Error::Cancelled`] once a stop was asked for.
    pub fn check(&self) -> Result<()> {
        if self.asked() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// The flag itself, for a signal handler to set.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stops_its_own_work_alone() {
        let (one, other) = (Stop::new(), Stop::new());
        let held = one.clone();
        assert!(held.check().is_ok());
        one.ask();
        assert!(matches!(held.check(), Err(Error::Cancelled)));
        assert!(other.check().is_ok());
    }
}
