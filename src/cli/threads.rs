//! Threads.

use harmonia_graph::error::{Error, Result};

/// Runs `work` on `threads` threads (0: one per core).
pub fn with_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> Result<R> {
    const MOST: usize = 4096;
    if threads > MOST {
        return Err(Error::Config(format!("run.threads is {threads}; expected at most {MOST}")));
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| Error::Config(format!("cannot start {threads} threads: {error}")))?;
    Ok(pool.install(work))
}
