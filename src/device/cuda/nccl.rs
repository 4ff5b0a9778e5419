//! NCCL: what every process has of an array, put together by the GPUs themselves, as work in the order of work.
//!
//! A process has one communicator, for its device and its stream. NCCL waits for ever for a process that is gone or hangs; so a watch
//! asks it for errors, and looks how long this process has been waiting. What has failed is aborted, which ends what the device waits
//! for, and every call from then on is an error that names the one that failed.
//!
//! Opened by hand: cudarc looks for other names of the library than it has.

use super::context::Stream;
use super::library;
use super::memory::Memory;
use crate::team::{Team, of_first};
use cudarc::driver::sys::CUstream;
use harmonia_graph::error::{Error, Result};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// ncclComm_t.
type Comm = *mut c_void;

/// ncclUniqueId.
#[repr(C)]
#[derive(Clone, Copy)]
struct Id([u8; 128]);

/// ncclResult_t of a call that has worked, and of one that goes on.
const SUCCESS: c_int = 0;
const IN_PROGRESS: c_int = 7;
/// ncclDataType_t: bytes are only moved.
const UINT8: c_int = 1;

/// Seconds that a process waits for the others, where nobody says otherwise. Most of a step is no such wait, but an evaluation of a
/// large graph is minutes.
const PATIENCE: u64 = 600;
const PATIENCE_VARIABLE: &str = "HARMONIA_NCCL_TIMEOUT";
/// How often the watch looks.
const LOOK: Duration = Duration::from_millis(200);

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// What is called of NCCL; all of it is there since 2.13, and no signature has changed.
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn of(library: &Library) -> Result<Functions> {
                let missing = |name: &str| Error::Device(format!("libnccl is too old (it has no {name}): 2.13 is needed, or newer"));
                // SAFETY: the signatures are those of nccl.h.
                Ok(Functions { $($field: unsafe { *library.get($name.as_bytes()).map_err(|_| missing($name))? },)* })
            }
        }
    };
}
functions! {
    get_unique_id = "ncclGetUniqueId": fn(*mut Id) -> c_int;
    init_rank = "ncclCommInitRank": fn(*mut Comm, c_int, Id, c_int) -> c_int;
    all_gather = "ncclAllGather": fn(*const c_void, *mut c_void, usize, c_int, Comm, CUstream) -> c_int;
    get_async_error = "ncclCommGetAsyncError": fn(Comm, *mut c_int) -> c_int;
    abort = "ncclCommAbort": fn(Comm) -> c_int;
    destroy = "ncclCommDestroy": fn(Comm) -> c_int;
    error_string = "ncclGetErrorString": fn(c_int) -> *const c_char;
    last_error = "ncclGetLastError": fn(Comm) -> *const c_char;
}

impl Functions {
    /// What a code means, and what NCCL says beside it.
    fn describe(&self, code: c_int, comm: Comm) -> String {
        let text = |text: *const c_char| match text.is_null() {
            true => String::new(),
            // SAFETY: NCCL's texts end with a zero, and stay until its next call on this thread.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_string(),
        };
        // SAFETY: any code has a text; the communicator is none, or alive.
        let (meaning, more) = unsafe { (text((self.error_string)(code)), text((self.last_error)(comm))) };
        if more.is_empty() { meaning } else { format!("{meaning}: {more}") }
    }

    fn check(&self, code: c_int, call: &str, comm: Comm) -> Result<()> {
        match code {
            SUCCESS => Ok(()),
            _ => Err(Error::Device(format!("{call} failed: {}", self.describe(code, comm)))),
        }
    }
}

fn functions() -> Result<&'static Functions> {
    static FOUND: OnceLock<std::result::Result<Functions, String>> = OnceLock::new();
    let find = || library::nccl().and_then(Functions::of).map_err(|error| error.to_string());
    FOUND.get_or_init(find).as_ref().map_err(|message| Error::Device(message.clone()))
}

/// Whether NCCL can be called.
pub(super) fn is_there() -> Result<()> {
    functions().map(|_| ())
}

/// How long a process waits.
fn patience() -> Result<Duration> {
    let seconds = match std::env::var(PATIENCE_VARIABLE) {
        Ok(text) => text.parse::<u64>().map_err(|_| {
            Error::Config(format!(
                "{PATIENCE_VARIABLE} is `{text}`: give whole seconds, or leave it out for {PATIENCE}"
            ))
        })?,
        Err(_) => PATIENCE,
    };
    Ok(Duration::from_secs(seconds))
}

/// Since when this process waits, and whether there is anything left to watch.
#[derive(Default)]
struct Waits {
    since: Option<Instant>,
    over: bool,
}

/// What the watch sees.
struct Watched {
    functions: &'static Functions,
    raw: Comm,
    patience: Duration,
    /// Why nothing goes on: the communicator was aborted, and is gone.
    failed: Mutex<Option<String>>,
    waits: Mutex<Waits>,
    changed: Condvar,
}

// SAFETY: NCCL allows to ask a communicator for errors, and to abort it, while another thread uses it; all else is asked for by one
// thread at a time (`Team`).
unsafe impl Send for Watched {}
// SAFETY: as above.
unsafe impl Sync for Watched {}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    /// Aborts, once.
    fn fail(&self, why: impl FnOnce() -> String) {
        let mut failed = locked(&self.failed);
        if failed.is_none() {
            *failed = Some(why());
            // SAFETY: alive until here, and never used again: whoever does looks at `failed` first.
            let _ = unsafe { (self.functions.abort)(self.raw) };
        }
    }

    fn check(&self) -> Result<()> {
        locked(&self.failed).clone().map_or(Ok(()), |why| Err(Error::Device(why)))
    }

    /// What NCCL has found out by itself, as that a connection is gone.
    fn look(&self) {
        let code = {
            let failed = locked(&self.failed);
            let mut code = SUCCESS;
            if failed.is_none() {
                // SAFETY: nobody aborts while `failed` is held; `code` outlives the call, and stays as it is where that fails.
                let _ = unsafe { (self.functions.get_async_error)(self.raw, &mut code) };
            }
            code
        };
        if code != SUCCESS && code != IN_PROGRESS {
            self.fail(|| format!("ncclAllGather failed: {}", self.functions.describe(code, self.raw)));
        }
        let since = locked(&self.waits).since;
        if since.is_some_and(|since| since.elapsed() >= self.patience) {
            self.fail(|| {
                format!(
                    "ncclAllGather has not ended for {} s ({PATIENCE_VARIABLE}): another process hangs or is gone; see what it \
                     does, end all, and resume from the last checkpoint",
                    self.patience.as_secs()
                )
            });
        }
    }

    fn watch(&self) {
        let mut waits = locked(&self.waits);
        while !waits.over {
            waits = self.changed.wait_timeout(waits, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            if !waits.over {
                drop(waits);
                self.look();
                waits = locked(&self.waits);
            }
        }
    }
}

/// This process among those whose GPUs are connected.
pub(super) struct Communicator {
    watched: Arc<Watched>,
    watch: Option<JoinHandle<()>>,
    stream: Arc<Stream>,
    ranks: usize,
}

impl Communicator {
    /// Connects with all processes of a team, which ask for it at the same time.
    pub(super) fn new(stream: &Arc<Stream>, team: &dyn Team) -> Result<Communicator> {
        let (functions, patience) = (functions()?, patience()?);
        let mut id = Id([0; 128]);
        if team.rank() == 0 {
            // SAFETY: `id` outlives the call.
            functions.check(unsafe { (functions.get_unique_id)(&mut id) }, "ncclGetUniqueId", std::ptr::null_mut())?;
        }
        let told = of_first(team, &id.0)?;
        id.0 = told.try_into().map_err(|_| Error::Internal("an id of NCCL of another length".into()))?;
        stream.enter()?;
        let mut raw: Comm = std::ptr::null_mut();
        let (ranks, rank) = (team.size(), team.rank());
        // SAFETY: the context of this process's device is current, the id is that of all ranks, and `raw` outlives the call.
        let code = unsafe { (functions.init_rank)(&mut raw, ranks as c_int, id, rank as c_int) };
        functions.check(code, "ncclCommInitRank", std::ptr::null_mut())?;
        let watched = Arc::new(Watched {
            functions,
            raw,
            patience,
            failed: Mutex::default(),
            waits: Mutex::default(),
            changed: Condvar::new(),
        });
        let watching = Arc::clone(&watched);
        let watch = std::thread::Builder::new().name("nccl".into()).spawn(move || watching.watch()).ok();
        Ok(Communicator { watched, watch, stream: Arc::clone(stream), ranks })
    }

    /// How many processes there are.
    pub(super) fn ranks(&self) -> usize {
        self.ranks
    }

    /// Work that may wait for other processes: an error of theirs is one of its own.
    pub(super) fn wait<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.watched.check()?;
        locked(&self.watched.waits).since = Some(Instant::now());
        let done = work();
        locked(&self.watched.waits).since = None;
        self.watched.check()?;
        done
    }

    /// So many bytes of every rank, one behind the other.
    pub(super) fn all_gather(&self, all: &mut Memory, mine: &Memory, bytes: usize) -> Result<()> {
        if mine.size < bytes || all.size < self.ranks * bytes {
            let (ranks, all, mine) = (self.ranks, all.size, mine.size);
            return Err(Error::Internal(format!("{bytes} bytes of {ranks} ranks, from {mine} to {all}")));
        }
        self.wait(|| {
            self.stream.enter()?;
            let Watched { functions, raw, .. } = &*self.watched;
            let (from, to) = (mine.address as *const c_void, all.address as *mut c_void);
            // SAFETY: both allocations have the bytes and are in the order of the stream, which is of the communicator's device.
            let code = unsafe { (functions.all_gather)(from, to, bytes, UINT8, *raw, self.stream.raw) };
            if code != SUCCESS {
                self.watched.fail(|| format!("ncclAllGather failed: {}", functions.describe(code, *raw)));
            }
            Ok(())
        })
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let idle = !std::thread::panicking() && self.wait(|| self.stream.synchronize()).is_ok();
        locked(&self.watched.waits).over = true;
        self.watched.changed.notify_all();
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
        if !idle {
            return self.watched.fail(|| "the run has ended".into());
        }
        if self.watched.check().is_ok() {
            // SAFETY: nothing of it is under way, and it was not aborted.
            let _ = unsafe { (self.watched.functions.destroy)(self.watched.raw) };
        }
    }
}
