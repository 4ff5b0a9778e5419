//! Device and threads.

use crate::error::{Error, Result, suggestion};

const DEVICES: [&str; 2] = ["auto", "cpu"];

/// Refuses devices this build does not have.
pub fn check_device(name: &str) -> Result<()> {
    if DEVICES.contains(&name) {
        return Ok(());
    }
    let reason = match name {
        "cuda" | "host" => format!("device `{name}` is not part of this version"),
        _ => format!("there is no device `{name}`{}", suggestion(name, DEVICES)),
    };
    Err(Error::Config(format!("{reason}\nuse --device {}", DEVICES.join(" or --device "))))
}

/// Runs `work` on `threads` threads (0: one a core).
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
