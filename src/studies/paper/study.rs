//! What a study is: jobs, each with a key, that make a record each; and findings read off all records.
//!
//! Invariant: a job depends on its key and its study alone, so that records of several sittings make one result.

use super::findings::Findings;
use super::peers::Peers;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::stop::Stop;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How much of a study is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Seconds: every step of the study once, for tests. Its figures mean little, its theorems all.
    Smallest,
    /// Minutes: enough to see what the full study shows.
    Quick,
    /// The protocol of the paper.
    Full,
}

impl Size {
    /// For files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Size::Smallest => "smallest",
            Size::Quick => "quick",
            Size::Full => "full",
        }
    }

    /// One of three, by size.
    pub fn of<T>(self, smallest: T, quick: T, full: T) -> T {
        match self {
            Size::Smallest => smallest,
            Size::Quick => quick,
            Size::Full => full,
        }
    }
}

/// What jobs share.
pub struct Scene<'a> {
    /// When asked: give up, nothing half-done is written.
    pub stop: &'a Stop,
    /// Where datasets are, as `data.dir` has it.
    pub data_dir: &'a str,
    /// A Python with PyTorch Geometric, where the user has named one.
    pub peers: Option<&'a Peers>,
}

impl Scene<'_> {
    /// The Python of jobs that need one.
    ///
    /// # Errors
    /// There is none.
    pub fn python(&self) -> Result<&Peers> {
        self.peers.ok_or_else(|| Error::Config("this job needs a Python with PyTorch Geometric (--peers)".into()))
    }
}

/// A part of a study that is done at one go, on one thread where others are done beside it.
pub struct Job {
    /// Its name in the journal.
    pub key: String,
    work: Box<Work>,
}

type Work = dyn Fn(&Scene<'_>) -> Result<Made> + Send + Sync;

/// What came of a job.
pub struct Made {
    /// As its study reads it.
    pub record: Value,
    /// Whether it is of this machine alone (data that are not here, memory that it does not have): then the job is tried again next time.
    pub is_passing: bool,
}

impl Job {
    /// A job and what it makes; a record says itself what it is of.
    pub fn new<R: Serialize + 'static>(
        key: impl Into<String>,
        work: impl Fn(&Scene<'_>) -> Result<R> + Send + Sync + 'static,
    ) -> Job {
        Job::of_machine(key, work, |_| false)
    }

    /// A job whose record may be of this machine alone.
    pub fn of_machine<R: Serialize + 'static>(
        key: impl Into<String>,
        work: impl Fn(&Scene<'_>) -> Result<R> + Send + Sync + 'static,
        is_passing: fn(&R) -> bool,
    ) -> Job {
        let work = move |scene: &Scene<'_>| {
            let made = work(scene)?;
            let record = serde_json::to_value(&made).map_err(|error| Error::Internal(format!("a record: {error}")))?;
            Ok(Made { record, is_passing: is_passing(&made) })
        };
        Job { key: key.into(), work: Box::new(work) }
    }

    /// Does it.
    ///
    /// # Errors
    /// Whatever it can fail with; [`Error::Cancelled`] after a stop request.
    pub fn run(&self, scene: &Scene<'_>) -> Result<Made> {
        (self.work)(scene).map_err(|error| match error {
            // What a training had so far is not kept: the job is done anew.
            Error::Interrupted { .. } => Error::Cancelled,
            error => error,
        })
    }
}

/// What came of all jobs, in their order.
pub struct Records(Vec<(String, Value)>);

impl Records {
    /// Of jobs, by key.
    pub fn new(records: Vec<(String, Value)>) -> Records {
        Records(records)
    }

    /// All of them, as their study made them.
    ///
    /// # Errors
    /// A journal that another version of the program wrote.
    pub fn read<R: DeserializeOwned>(&self) -> Result<Vec<R>> {
        let one = |(key, value): &(String, Value)| {
            serde_json::from_value(value.clone())
                .map_err(|error| Error::Data(format!("the record of {key} is of another version: {error}")))
        };
        self.0.iter().map(one).collect()
    }

    /// Key and record of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }
}

/// A table or figure of the paper, made anew.
pub trait Study: Sync {
    /// On the command line.
    fn name(&self) -> &'static str;
    /// What it measures, in a line.
    fn about(&self) -> &'static str;
    /// What of the paper it reproduces.
    fn source(&self) -> &'static str;
    /// Raised when its records mean something else than before: older ones are then refused.
    fn version(&self) -> u32 {
        1
    }
    /// Everything there is to do.
    ///
    /// # Errors
    /// Settings that do not fit together.
    fn jobs(&self, size: Size) -> Result<Vec<Job>>;
    /// What PyTorch Geometric is asked, where there is one; records of the same kind as those of [`jobs`](Study::jobs).
    ///
    /// # Errors
    /// Settings that do not fit together.
    fn peer_jobs(&self, _: Size) -> Result<Vec<Job>> {
        Ok(Vec::new())
    }
    /// Reads tables, figures and claims off the records.
    ///
    /// # Errors
    /// Records of another version.
    fn findings(&self, size: Size, records: &Records) -> Result<Findings>;
}
