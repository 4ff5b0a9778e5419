//! Does the jobs of a study, side by side, and keeps what is finished: `jobs.jsonl` in its directory. The same command goes on
//! where it was stopped.

use super::findings::Findings;
use super::study::{Job, Records, Scene, Size, Study};
use crate::session::side_by_side;
use crate::studies::journal::Lines;
use harmonia_graph::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Hears of progress.
pub trait Listener: Sync {
    /// Work begins: so many jobs, of which some are finished already.
    fn begin(&self, jobs: usize, known: usize);
    /// A job is over.
    fn job(&self, key: &str);
}

/// Says nothing.
pub struct Silent;

impl Listener for Silent {
    fn begin(&self, _: usize, _: usize) {}
    fn job(&self, _: &str) {}
}

/// What came of a study.
pub struct Outcome {
    /// What every job made, in their order.
    pub records: Records,
    /// What follows from it.
    pub findings: Findings,
    /// Seconds of all jobs, over all sittings.
    pub seconds: f64,
}

/// A line of the journal.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    seconds: f64,
    record: Value,
}

/// Does what is not finished, `workers` jobs at a time. `only`: words that keys must have, all of them; jobs without them are left for
/// later, and findings are of what is finished.
///
/// # Errors
/// [`Error::Cancelled`] after a stop request: what is finished is kept. A directory of another study. No job has these words. Whatever
/// a job can fail with.
pub fn run(
    study: &dyn Study,
    size: Size,
    only: &[String],
    directory: &Path,
    workers: usize,
    scene: &Scene<'_>,
    listener: &dyn Listener,
) -> Result<Outcome> {
    let mut jobs = study.jobs(size)?;
    let asked = json!({ "name": study.name(), "size": size.name(), "version": study.version(), "jobs": jobs.len() });
    let (lines, known) = Lines::open::<Line>(directory, "jobs.jsonl", "study", &asked)?;
    let known: HashMap<String, Line> = known.into_iter().map(|line| (line.key.clone(), line)).collect();
    // Rows of PyTorch may be added later, and stay once they are there.
    let peers = study.peer_jobs(size)?.into_iter();
    jobs.extend(peers.filter(|job| scene.peers.is_some() || known.contains_key(&job.key)));
    jobs = wanted(study, jobs, only, &known)?;
    let missing: Vec<&Job> = jobs.iter().filter(|job| !known.contains_key(&job.key)).collect();
    listener.begin(jobs.len(), jobs.len() - missing.len());
    let inside = Mutex::new((lines, known));
    let abort = AtomicBool::new(false);
    let halted = || abort.load(Ordering::Relaxed) || scene.stop.asked();
    let work = |at: usize| {
        let job = missing[at];
        let start = Instant::now();
        let done = job.run(scene).and_then(|made| {
            let line = Line { key: job.key.clone(), seconds: start.elapsed().as_secs_f64(), record: made.record };
            let mut inside = inside.lock().unwrap_or_else(PoisonError::into_inner);
            if !made.is_passing {
                inside.0.add(&line)?;
            }
            inside.1.insert(line.key.clone(), line);
            Ok(())
        });
        match &done {
            Ok(()) => listener.job(&job.key),
            // One that fails ends the study: no other begins.
            Err(_) => abort.store(true, Ordering::Relaxed),
        }
        done
    };
    if !missing.is_empty() {
        let workers = workers.clamp(1, missing.len());
        let threads = rayon::current_num_threads().max(workers);
        let mut done = side_by_side(workers, threads, missing.len(), &halted, &work)?;
        // What went wrong says more than that others were stopped for it.
        if let Some(at) = done.iter().position(|(_, done)| !matches!(done, Ok(()) | Err(Error::Cancelled))) {
            done.swap(0, at);
        }
        done.into_iter().try_for_each(|(_, done)| done)?;
    }
    let (_, mut known) = inside.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut seconds = 0.0;
    let record = |job: &Job| {
        let line = known.remove(&job.key).ok_or(Error::Cancelled)?;
        seconds += line.seconds;
        Ok((line.key, line.record))
    };
    let records = Records::new(jobs.iter().map(record).collect::<Result<_>>()?);
    let findings = study.findings(size, &records)?;
    Ok(Outcome { records, findings, seconds })
}

/// Jobs that are asked for, and those that are finished already.
fn wanted(study: &dyn Study, jobs: Vec<Job>, only: &[String], known: &HashMap<String, Line>) -> Result<Vec<Job>> {
    let asked = |job: &Job| only.iter().all(|words| format!(" {} ", job.key).contains(&format!(" {words} ")));
    if !jobs.iter().any(asked) {
        let example = jobs.first().map_or("", |job| job.key.as_str());
        let words = only.join("`, `");
        return Err(Error::Config(format!(
            "no job of {} has the words `{words}`; one is called `{example}`",
            study.name()
        )));
    }
    Ok(jobs.into_iter().filter(|job| asked(job) || known.contains_key(&job.key)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::stop::Stop;
    use std::sync::atomic::AtomicUsize;

    static DONE: AtomicUsize = AtomicUsize::new(0);
    static FAILS: AtomicBool = AtomicBool::new(true);

    /// Three squares, the last of which fails as long as it is asked to.
    struct Squares;

    impl Study for Squares {
        fn name(&self) -> &'static str {
            "squares"
        }
        fn about(&self) -> &'static str {
            ""
        }
        fn source(&self) -> &'static str {
            ""
        }
        fn jobs(&self, _: Size) -> Result<Vec<Job>> {
            let job = |number: u32| {
                let work = move |_: &Scene<'_>| {
                    if number == 2 && FAILS.load(Ordering::SeqCst) {
                        return Err(Error::Data("two".into()));
                    }
                    DONE.fetch_add(1, Ordering::SeqCst);
                    Ok(number * number)
                };
                // What the first one lacks, the next sitting may have.
                Job::of_machine(number.to_string(), work, |&square| square == 0)
            };
            Ok((0..3).map(job).collect())
        }
        fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
            let found = records.read::<u32>()?;
            assert!(found == [0, 1, 4] || found == [1]);
            Ok(Findings::default())
        }
    }

    #[test]
    fn what_is_finished_is_not_done_again() {
        let home = tempfile::tempdir().unwrap();
        let stop = Stop::new();
        let scene = Scene { stop: &stop, data_dir: "", peers: None };
        let run_part = |only: &[String], place: &Path| run(&Squares, Size::Quick, only, place, 1, &scene, &Silent);
        let run = || run_part(&[], home.path());
        assert_eq!(run().err().unwrap().to_string(), Error::Data("two".into()).to_string());
        assert_eq!(DONE.load(Ordering::SeqCst), 2);
        FAILS.store(false, Ordering::SeqCst);
        let outcome = run().unwrap();
        assert_eq!(DONE.load(Ordering::SeqCst), 4);
        assert_eq!(outcome.records.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["0", "1", "2"]);
        run().unwrap();
        assert_eq!(DONE.load(Ordering::SeqCst), 5);
        // A part of it alone, somewhere else.
        let other = tempfile::tempdir().unwrap();
        let part = |words: &str| run_part(&[words.to_string()], other.path());
        let message = part("10").err().unwrap().to_string();
        assert!(message.contains("no job of squares") && message.contains("`10`"), "{message}");
        assert_eq!(part("1").unwrap().records.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["1"]);
        assert_eq!(DONE.load(Ordering::SeqCst), 6);
        stop.ask();
        std::fs::remove_file(home.path().join("jobs.jsonl")).unwrap();
        assert!(matches!(run(), Err(Error::Cancelled)));
    }
}
