//! A program that `mpirun` or `srun` has started several times: it joins the others, the first speaks, and none goes on alone.

use super::voice;
use crate::config::Config;
use crate::runs::Fingerprint;
use crate::settings::to_toml;
use crate::team::launched::{Launched, launched};
use crate::team::{Team, check_same, of_first};
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
#[cfg(feature = "mpi")]
use std::sync::PoisonError;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A process is of one team or none.
static TEAM: OnceLock<Arc<dyn Team>> = OnceLock::new();
/// What keeps it together.
#[cfg(feature = "mpi")]
static WORLD: std::sync::Mutex<Option<crate::team::mpi::World>> = std::sync::Mutex::new(None);
/// Others say what the first has not said in this time: a mistake that all have made is told once.
const FIRST_SAYS: Duration = Duration::from_millis(2500);
/// And one after the other; of very many some say it together.
const NEXT_SAYS: Duration = Duration::from_millis(100);
const MOST_WAIT: usize = 50;

/// Joins the team that this process was started as one of; alone it does nothing. All but the first are quiet from here on.
///
/// # Errors
/// This build has no MPI, or MPI does not start.
pub fn join() -> Result<()> {
    let Some(launched) = launched() else { return Ok(()) };
    let team = connected(launched)?;
    if team.size() != launched.size {
        return Err(Error::Config(format!(
            "{} has started {} processes, and MPI knows {}: start this program with the mpirun of the MPI it was built with",
            launched.by,
            launched.size,
            team.size()
        )));
    }
    if team.rank() > 0 {
        voice::quiet();
    }
    drop(TEAM.set(team));
    Ok(())
}

#[cfg(feature = "mpi")]
fn connected(_: Launched) -> Result<Arc<dyn Team>> {
    let (world, team) = crate::team::mpi::Mpi::join()?;
    *WORLD.lock().unwrap_or_else(PoisonError::into_inner) = Some(world);
    Ok(Arc::new(team))
}

#[cfg(not(feature = "mpi"))]
fn connected(launched: Launched) -> Result<Arc<dyn Team>> {
    Err(Error::Config(format!(
        "{} has started {} processes, but this build cannot share a run among them: build it with `cargo build --release --features \
         mpi` (it needs the headers of an MPI library and libclang; Debian: apt install libopenmpi-dev libclang-dev), or start one",
        launched.by, launched.size
    )))
}

/// The team, where there is one.
pub fn joined() -> Option<&'static Arc<dyn Team>> {
    TEAM.get()
}

/// Whether this process speaks and writes.
pub fn leads() -> bool {
    joined().is_none_or(|team| team.rank() == 0)
}

/// Whether somebody else will say what there is to say about the command line.
pub fn is_follower() -> bool {
    launched().is_some_and(|launched| launched.rank > 0)
}

/// Threads of this process: so many as were asked for; else the cores it was given, or its part of those that all processes here
/// may use.
pub fn threads(asked: usize) -> usize {
    let (0, Some(Launched { here, .. })) = (asked, launched()) else { return asked };
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let all = std::fs::read_to_string("/proc/cpuinfo")
        .map_or(usable, |text| text.lines().filter(|line| line.starts_with("processor")).count());
    // Fewer than the machine has: whoever started this process has dealt them out.
    if usable < all { usable } else { (usable / here).max(1) }
}

/// What the first process finds out for all of them.
///
/// # Errors
/// It failed, or another rank has.
pub fn told<T: Serialize + DeserializeOwned>(find: impl FnOnce() -> Result<T>) -> Result<T> {
    let Some(team) = joined() else { return find() };
    let garbled = |error: serde_json::Error| Error::Internal(format!("between processes: {error}"));
    let mine = match team.rank() {
        0 => serde_json::to_vec(&find()?).map_err(garbled)?,
        _ => Vec::new(),
    };
    serde_json::from_slice(&of_first(&**team, &mine)?).map_err(garbled)
}

/// Refuses processes that would train different models.
///
/// # Errors
/// The first rank that has other data, settings or another program.
pub fn check(config: &Config, data: &Dataset) -> Result<()> {
    let Some(team) = joined() else { return Ok(()) };
    check_same(&**team, "program", &format!("version {}", env!("CARGO_PKG_VERSION")))?;
    // Where things are may differ from machine to machine.
    let mut config = config.clone();
    (config.data.dir, config.run.device, config.run.threads) = (String::new(), String::new(), 0);
    if harmonia_data::is_store(&config.data.dataset) {
        config.data.dataset = String::new();
    }
    let lines = to_toml(&config)?;
    check_same(&**team, "settings", &digest(&lines))?;
    let data = serde_json::to_string(&Fingerprint::of(data)).map_err(|error| Error::Internal(error.to_string()))?;
    check_same(&**team, "data", &digest(&data))
}

fn digest(text: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = harmonia_graph::files::hex(&Sha256::digest(text.as_bytes()));
    format!("{}...", &digest[..12])
}

/// Tells what has gone wrong, once, with the rank and the host it went wrong on, and ends all processes; alone it does nothing.
/// What all have agreed on, as to stop, ends each by itself.
pub fn fail(error: &Error, tell: &dyn Fn(&str)) {
    let Some(team) = joined() else { return };
    if matches!(error, Error::Interrupted { .. }) {
        if team.rank() == 0 {
            tell("");
        }
        return leave();
    }
    if team.rank() > 0 {
        std::thread::sleep(FIRST_SAYS + NEXT_SAYS * team.rank().min(MOST_WAIT) as u32);
    }
    // Some messages say whose they are.
    match error.to_string().starts_with("rank ") {
        true => tell(""),
        false => tell(&format!("rank {} of {} on {}: ", team.rank(), team.size(), team.host())),
    }
    team.end(error.exit_code());
}

/// The work is done: waits for the others.
pub fn leave() {
    // MPI is down once nobody has it.
    #[cfg(feature = "mpi")]
    drop(WORLD.lock().unwrap_or_else(PoisonError::into_inner).take());
}
