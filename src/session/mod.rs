//! Several runs: seeds and folds, one after the other or side by side, each in its own directory, interruptible and resumable.
//! What happens within a run is in `one_run`. A run may be [`Kept`] in memory instead.

mod kept;
mod one_run;
mod team;

pub use kept::Kept;

use crate::config::Config;
use crate::device::Device;
use crate::runs::{Fingerprint, Outcome, RunSummary, run_directory, run_names};
use crate::tabulate::Tables;
use crate::team::Team;
use crate::train::{EpochRecord, Prepared, RunName, share_out, structured};
use harmonia_graph::dataset::{Dataset, Scaling};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::stop::Stop;
use harmonia_graph::watch::Watch;
use harmonia_graph::{files, lock};
use one_run::{RunPlace, finished};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Hears of progress. All methods may do nothing. Small runs of a session are trained side by side.
pub trait Observer: Send {
    /// A run begins, or goes on after `done` of `epochs` epochs.
    fn begin(&mut self, run: RunName, done: usize, epochs: usize);
    /// An epoch of a run is over.
    fn epoch(&mut self, run: RunName, record: &EpochRecord);
    /// A run is over.
    fn end(&mut self, summary: &RunSummary);
    /// Something that the user should know.
    fn note(&mut self, run: RunName, text: &str) {
        let _ = (run, text);
    }
}

/// Says nothing.
pub struct Silent;

impl Observer for Silent {
    fn begin(&mut self, _: RunName, _: usize, _: usize) {}
    fn epoch(&mut self, _: RunName, _: &EpochRecord) {}
    fn end(&mut self, _: &RunSummary) {}
}

/// Settings, data and machine of a set of runs.
pub struct Session<'a, D: Device<Real = f32>> {
    /// Where to compute.
    pub device: &'a D,
    /// Of all runs: seeds and folds are among them.
    pub config: &'a Config,
    /// When asked: finish the epoch, save, stop.
    pub stop: &'a Stop,
}

impl<D: Device<Real = f32>> Session<'_, D> {
    /// Trains every seed. With a directory, runs that it already holds are continued, and finished ones kept.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after a stop request; anything a run can fail with.
    pub fn run(&self, dataset: &Dataset, root: Option<&Path>, observer: &mut dyn Observer) -> Result<Outcome> {
        let dataset = structured(dataset.clone(), self.config)?;
        let first = Prepared::new(&dataset, self.config, self.names()[0])?;
        self.run_prepared(&dataset, first, root, observer)
    }

    /// The same, where the first run has been made ready already, of a dataset with its structural features.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_prepared(
        &self,
        dataset: &Dataset,
        first: Prepared,
        root: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let names = self.names();
        let team = first.share.as_ref().map(|share| Arc::clone(&share.team));
        // Others train with the first, which alone writes.
        let root = root.filter(|_| team::leads(team.as_deref()));
        let (workers, threads) = self.side_by_side(&first, names.len());
        // A single run locks its own directory, which is the root.
        let _lock = match root.filter(|_| names.len() > 1) {
            Some(root) => {
                std::fs::create_dir_all(root).map_err(Error::io("create directory", root))?;
                let lock = lock::claim(root)?;
                files::remove_unfinished(root);
                Some(lock)
            }
            None => None,
        };
        let all = Runs {
            dataset,
            names: &names,
            root,
            device_name: self.device.name(),
            tables: self.tables(&first),
            team,
            data: OnceLock::new(),
            first: Mutex::new(Some(first)),
            observer: Mutex::new(observer),
            abort: AtomicBool::new(false),
        };
        let runs = match workers {
            1 => self.one_by_one(&all)?,
            workers => self.in_parallel(&all, workers, threads)?,
        };
        let outcome = Outcome {
            dataset: dataset.name.clone(),
            preset: self.config.preset.clone(),
            recipe: self.config.recipe.clone(),
            run_dir: root.map(Path::to_path_buf),
            runs,
        };
        if let (Some(root), true) = (root, names.len() > 1) {
            let text = serde_json::to_string_pretty(&outcome.to_json())
                .map_err(|error| Error::file(root, error.to_string()))?;
            files::write_atomic(&root.join("summary.json"), text.as_bytes())?;
        }
        Ok(outcome)
    }

    /// The tables of the session; that of the first run may have been made already.
    fn tables(&self, first: &Prepared) -> Tables {
        let tables = match &first.share {
            Some(share) => Tables::of_team(&share.team),
            None => Tables::default(),
        };
        if let (Some(plan), Some(table)) = (first.tabulation.plan(), &first.table) {
            tables.remember(&first.dataset, self.config.walk, plan, table);
        }
        tables
    }

    /// Nobody listens to tables being made within a session, but they stop when asked to.
    fn watch(&self) -> Watch<'static> {
        Watch::new(&|_| (), self.stop.clone())
    }

    /// How many runs to train at once, and the threads of all together.
    fn side_by_side(&self, first: &Prepared, runs: usize) -> (usize, usize) {
        let threads = rayon::current_num_threads();
        match self.config.run.jobs {
            // All processes are at the same run.
            _ if first.share.is_some() => (1, threads),
            0 if first.is_small(self.device, self.config) => (threads.min(runs), threads.min(runs)),
            0 => (1, threads),
            jobs => (jobs.min(runs), threads),
        }
    }

    fn one_by_one(&self, all: &Runs<'_>) -> Result<Vec<RunSummary>> {
        let mut runs = Vec::new();
        for &name in all.names {
            runs.push(self.run_named(all, name)?);
            if team::agreed(all.team.as_deref(), self.stop.asked())? && runs.len() < all.names.len() {
                return Err(interrupted(all.root));
            }
        }
        Ok(runs)
    }

    fn in_parallel(&self, all: &Runs<'_>, workers: usize, threads: usize) -> Result<Vec<RunSummary>> {
        let halted = || all.abort.load(Ordering::Relaxed) || self.stop.asked();
        let work = |at: usize| {
            let run = self.run_named(all, all.names[at]);
            // One that fails ends the session: the others stop after their epoch.
            all.abort.fetch_or(run.is_err(), Ordering::Relaxed);
            run
        };
        let mut done = side_by_side(workers, threads, all.names.len(), &halted, &work)?;
        // What went wrong says more than that others were stopped for it.
        if let Some(at) = done.iter().position(|(_, run)| !matches!(run, Ok(_) | Err(Error::Interrupted { .. }))) {
            done.swap(0, at);
        }
        let runs = done.into_iter().map(|(_, run)| run).collect::<Result<Vec<_>>>()?;
        if runs.len() < all.names.len() { Err(interrupted(all.root)) } else { Ok(runs) }
    }

    /// One run of the session: kept where it is complete, else trained.
    fn run_named(&self, all: &Runs<'_>, name: RunName) -> Result<RunSummary> {
        let path = all.root.map(|root| run_directory(root, &self.config.run, name));
        let done = path.as_deref().map(finished).transpose()?.flatten();
        if let Some(summary) = team::told(all.team.as_deref(), done)? {
            // A kill at the very end leaves a lock.
            path.iter().for_each(|path| files::remove_unfinished(path));
            return Ok(summary);
        }
        let ready = all.first.lock().unwrap_or_else(PoisonError::into_inner).take_if(|first| first.name == name);
        let mut run = match ready {
            Some(run) => run,
            None => {
                let mut run = Prepared::new(all.dataset, self.config, name)?;
                all.team.iter().try_for_each(|team| share_out(&mut run, self.config, team, self.device))?;
                run
            }
        };
        run.tabulate(&all.tables, self.config.walk, &self.watch()).map_err(|error| stopped(error, all.root))?;
        let (device_name, abort) = (&all.device_name, &all.abort);
        let data = path.as_ref().map(|_| all.data.get_or_init(|| Fingerprint::of(all.dataset)));
        let place = RunPlace { path: path.as_deref(), data, device_name, abort, tables: &all.tables };
        match self.train(&run, place, &all.observer) {
            Ok(done) => Ok(done.summary),
            // What has to be resumed is the whole session, not the run that was under way.
            Err(Error::Interrupted { .. }) => Err(interrupted(all.root)),
            Err(error) => Err(error),
        }
    }

    /// Every run of the session, in order.
    pub fn names(&self) -> Vec<RunName> {
        run_names(&self.config.run)
    }

    /// Trains once, on a dataset whose split is settled, and returns the summary and the best parameters as training has
    /// them, without calibration. `scaling` is what was done to the features, for the model to remember.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_one(
        &self,
        dataset: &Dataset,
        scaling: Option<Scaling>,
        name: RunName,
        path: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<(RunSummary, Vec<f32>)> {
        let mut run = Prepared::of(dataset.clone(), scaling, self.config, name)?;
        let tables = Tables::default();
        run.tabulate(&tables, self.config.walk, &self.watch()).map_err(|error| stopped(error, path))?;
        let (device_name, abort) = (&self.device.name(), &AtomicBool::new(false));
        let place = RunPlace { path, data: None, device_name, abort, tables: &tables };
        let done = self.train(&run, place, &Mutex::new(observer))?;
        Ok((done.summary, done.best))
    }
}

/// Does jobs 0, 1, ...: every worker has its share of the threads, at least one, and takes the next job when it is done with
/// one, until all are done or `halted`. What came of those that were begun, in their order.
///
/// # Errors
/// A thread cannot be started.
pub fn side_by_side<R: Send>(
    workers: usize,
    threads: usize,
    jobs: usize,
    halted: &(dyn Fn() -> bool + Sync),
    work: &(dyn Fn(usize) -> Result<R> + Sync),
) -> Result<Vec<(usize, Result<R>)>> {
    let next = AtomicUsize::new(0);
    let share = |at: usize| (threads / workers + usize::from(at < threads % workers)).max(1);
    let worker = |at: usize| -> Result<Vec<(usize, Result<R>)>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(share(at)).build();
        let pool = pool.map_err(|error| Error::Config(format!("cannot start a thread: {error}")))?;
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= jobs || halted() {
                return Ok(done);
            }
            done.push((at, pool.install(|| work(at))));
        }
    };
    let worker = &worker;
    let done = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|at| scope.spawn(move || worker(at))).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let mut done: Vec<_> = done.into_iter().flatten().collect();
    done.sort_by_key(|(at, _)| *at);
    Ok(done)
}

/// All runs of a session, and what they share.
struct Runs<'a> {
    /// Before splits are drawn, with structural features.
    dataset: &'a Dataset,
    names: &'a [RunName],
    root: Option<&'a Path>,
    /// Of `dataset`, once a run with a directory begins.
    data: OnceLock<Fingerprint>,
    /// For summaries.
    device_name: String,
    /// Tables of walks that runs share.
    tables: Tables,
    /// The processes that share every run.
    team: Option<Arc<dyn Team>>,
    /// The first run, made ready, until it begins.
    first: Mutex<Option<Prepared>>,
    observer: Mutex<&'a mut dyn Observer>,
    /// Set where a run has failed: the others stop.
    abort: AtomicBool,
}

/// A build that was stopped ends a session like an epoch that was.
fn stopped(error: Error, root: Option<&Path>) -> Error {
    if matches!(error, Error::Cancelled) { interrupted(root) } else { error }
}

fn interrupted(path: Option<&Path>) -> Error {
    Error::Interrupted { run: path.unwrap_or(Path::new(".")).to_path_buf() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_jobs_at_a_time_share_the_threads() {
        let (under_way, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |at: usize| {
            most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(20));
            under_way.fetch_sub(1, Ordering::SeqCst);
            Ok((at, rayon::current_num_threads()))
        };
        let done = side_by_side(2, 5, 6, &|| false, &work).unwrap();
        let (numbers, threads): (Vec<usize>, Vec<usize>) = done.into_iter().map(|(_, made)| made.unwrap()).unzip();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
        assert!(threads.contains(&2) && threads.contains(&3), "{threads:?}");
        assert_eq!(most.into_inner(), 2);
        // More jobs than threads: one each.
        let alone = side_by_side(3, 2, 3, &|| false, &|_| Ok(rayon::current_num_threads())).unwrap();
        assert!(alone.into_iter().all(|(_, threads)| threads.unwrap() == 1));
    }
}
