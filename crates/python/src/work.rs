//! Long work beside the interpreter: on threads of the engine's own, without the interpreter's lock, stopped by Ctrl-C.
//!
//! The calling thread waits and looks after Python meanwhile: it runs signal handlers every 50 ms and calls back what the work has to
//! tell. A panic ends in `RuntimeError`, never beyond.

use crate::errors::to_python;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::stop::Stop;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long Ctrl-C may wait to be heard.
const PATIENCE: Duration = Duration::from_millis(50);
/// More are taken for a typing error.
const MOST_THREADS: usize = 4096;

/// Something to call back: a word for what it is, and JSON or plain text.
struct Told {
    what: &'static str,
    text: String,
    /// The work goes on once it was heard.
    heard: SyncSender<()>,
}

/// Tells the caller what is going on.
#[derive(Clone)]
pub struct Teller {
    told: Option<std::sync::mpsc::Sender<Told>>,
}

impl Teller {
    /// Waits until the callback has returned, so that what it asks for holds from here on.
    pub fn tell(&self, what: &'static str, text: String) {
        let Some(told) = &self.told else { return };
        let (heard, answer) = sync_channel(1);
        // Nobody there any more: the caller has gone, and the work is about to be stopped.
        if told.send(Told { what, text, heard }).is_ok() {
            let _ = answer.recv();
        }
    }
}

/// Runs `work` on `threads` threads (0: one per core). `listener(what, text)` is called back on the calling thread; what it raises stops
/// the work and is raised here, and so is what a signal handler raises.
pub fn run<R: Send>(
    py: Python<'_>,
    threads: usize,
    listener: Option<Py<PyAny>>,
    work: impl FnOnce(&Stop, &Teller) -> Result<R> + Send,
) -> PyResult<R> {
    let pool = pool(threads).map_err(to_python)?;
    let stop = Stop::new();
    let (told, events) = channel();
    let teller = Teller { told: listener.is_some().then(|| told.clone()) };
    // Dropped by the worker at its end: that is how the wait below ends.
    let ended = told;
    let (done, raised) = py.detach(|| {
        std::thread::scope(|scope| {
            let stop = &stop;
            let worker = scope.spawn(move || {
                let (_ended, teller) = (ended, teller);
                pool.install(|| work(stop, &teller))
            });
            let raised = wait(&events, listener.as_ref(), stop);
            // A callback that is waited for is none any more.
            drop(events);
            (worker.join(), raised)
        })
    });
    match (raised, done) {
        (Some(error), _) => Err(error),
        (None, Ok(done)) => done.map_err(to_python),
        (None, Err(panic)) => Err(PyRuntimeError::new_err(format!("a defect of harmonia: {}", words(&*panic)))),
    }
}

/// Runs short work on the engine's threads while the interpreter waits: arrays of Python are read meanwhile, and must not change.
pub fn hold<R: Send>(work: impl FnOnce() -> Result<R> + Send) -> PyResult<R> {
    let pool = pool(0).map_err(to_python)?;
    match std::panic::catch_unwind(AssertUnwindSafe(|| pool.install(work))) {
        Ok(done) => done.map_err(to_python),
        Err(panic) => Err(PyRuntimeError::new_err(format!("a defect of harmonia: {}", words(&*panic)))),
    }
}

/// Until the work is over. What was raised meanwhile, first of all.
fn wait(events: &Receiver<Told>, listener: Option<&Py<PyAny>>, stop: &Stop) -> Option<PyErr> {
    let mut raised = None;
    let mut note = |outcome: PyResult<()>| {
        if let Err(error) = outcome {
            stop.ask();
            raised.get_or_insert(error);
        }
    };
    loop {
        match events.recv_timeout(PATIENCE) {
            Ok(told) => {
                let call = |listener: &Py<PyAny>| {
                    Python::attach(|py| {
                        py.check_signals()?;
                        listener.call1(py, (told.what, told.text.as_str())).map(|_| ())
                    })
                };
                // After the first exception nothing more is said.
                if !stop.asked() {
                    note(listener.map_or(Ok(()), call));
                }
                let _ = told.heard.send(());
            }
            Err(RecvTimeoutError::Timeout) => note(Python::attach(|py| py.check_signals())),
            Err(RecvTimeoutError::Disconnected) => return raised,
        }
    }
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}

/// Threads of a size, and the process they live in: those of a parent are not there after a fork.
struct Kept {
    process: u32,
    threads: usize,
    pool: Arc<rayon::ThreadPool>,
}

static POOL: Mutex<Option<Kept>> = Mutex::new(None);

/// The pool of the last call where it fits, or a new one.
fn pool(threads: usize) -> Result<Arc<rayon::ThreadPool>> {
    if threads > MOST_THREADS {
        return Err(Error::Config(format!("run.threads is {threads}; expected at most {MOST_THREADS}")));
    }
    let process = std::process::id();
    let mut kept = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    match kept.take() {
        Some(known) if known.process == process && known.threads == threads => {
            let pool = Arc::clone(&known.pool);
            *kept = Some(known);
            return Ok(pool);
        }
        // Its threads are not there to be joined.
        Some(of_parent) if of_parent.process != process => std::mem::forget(of_parent),
        _ => {}
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| Error::Config(format!("cannot start {threads} threads: {error}")))?;
    let pool = Arc::new(pool);
    *kept = Some(Kept { process, threads, pool: Arc::clone(&pool) });
    Ok(pool)
}
