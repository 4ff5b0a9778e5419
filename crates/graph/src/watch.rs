//! What long work tells whoever started it, and hears from them: progress out, a request to stop in.

use crate::error::Result;
use crate::stop::Stop;

/// Hears of the progress of long work, and may stop it.
pub struct Watch<'a> {
    report: &'a dyn Fn(Report<'_>),
    stop: Stop,
}

/// What is going on.
pub enum Report<'a> {
    /// Something without a measure has begun.
    Step(&'a str),
    /// So much of something is done; a total of 0 or `u64::MAX` is not known.
    Progress(&'a str, u64, u64),
}

impl<'a> Watch<'a> {
    /// Passes everything on to `report`; the work ends when `stop` asks for it.
    pub fn new(report: &'a dyn Fn(Report<'_>), stop: Stop) -> Self {
        Watch { report, stop }
    }

    /// Nobody listens, nobody stops it.
    pub fn silent() -> Watch<'static> {
        Watch::new(&|_| (), Stop::new())
    }

    /// Says what has begun.
    pub fn step(&self, what: &str) {
        (self.report)(Report::Step(what));
    }

    /// Says how far something is.
    pub fn progress(&self, what: &str, done: u64, total: u64) {
        (self.report)(Report::Progress(what, done, total));
    }

    /// The token that stops the work.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// [`crate::Error::Cancelled`] once a stop was asked for.
    pub fn check(&self) -> Result<()> {
        self.stop.check()
    }
}
