//! Ctrl-C: the process has one, so its token is the program's, not the library's.

use harmonia_graph::error::{Error, Result};
use harmonia_graph::stop::Stop;
use std::sync::LazyLock;

static STOP: LazyLock<Stop> = LazyLock::new(Stop::new);

/// The token that Ctrl-C asks by.
pub fn stop() -> Stop {
    STOP.clone()
}

/// The first signal asks to stop: training finishes its epoch and saves, other work gives up and leaves nothing
/// half-written. A second Ctrl-C exits at once.
pub fn catch_interrupts() -> Result<Stop> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    // Order matters: the exit is armed by the flag that the next handler sets. Only Ctrl-C exits at once: `timeout` and
    // job managers may send SIGTERM twice, to the process and to its group.
    signal_hook::flag::register_conditional_shutdown(SIGINT, 130, STOP.flag())
        .and_then(|_| signal_hook::flag::register(SIGINT, STOP.flag()))
        .and_then(|_| signal_hook::flag::register(SIGTERM, STOP.flag()))
        .map_err(|error| Error::Config(format!("cannot catch signals: {error}")))?;
    Ok(stop())
}
