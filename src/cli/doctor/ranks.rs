//! `harmonia doctor --ranks`: who the processes of `mpirun` or `srun` are, what each would compute with, and how fast bytes get
//! from one to the others.
//!
//! Sizes are those of training: a gradient is 40 kB, the state of a hop megabytes. The whole takes seconds: what a slow network
//! would take too long for is left out, and said.

use crate::cli::team;
use crate::device::machine;
use crate::team::{Team, numbers, of_first};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::memory;
use harmonia_graph::units::bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Bytes of a call: nearly nothing, a page, a gradient, what a hop sends.
const SIZES: [usize; 5] = [8, 4 << 10, 40 << 10, 1 << 20, 16 << 20];
/// Time of all measurements, at most.
const ALL: Duration = Duration::from_secs(8);
/// Of one.
const EACH: Duration = Duration::from_millis(400);
/// Calls that one is made of, at most.
const CALLS: f64 = 1000.0;
/// Bytes that a rank may have to hold of a call.
const HELD: usize = 1 << 28;
const ALONE: &str =
    "one process, which has nobody to talk to: start it by `mpirun -n 2 harmonia doctor --ranks`, or by srun";

/// What a rank says of itself.
#[derive(Serialize, Deserialize)]
struct Member {
    rank: usize,
    host: String,
    /// Cores it may use, and threads that training would give it.
    cores: usize,
    threads: usize,
    /// Cores of its host, whoever has them.
    processors: usize,
    /// What `--device auto` is there.
    device: String,
    /// Bytes of memory that it may have, where anybody says.
    memory: Option<usize>,
    library: String,
}

/// A kind of call with so many bytes.
#[derive(Clone, Copy)]
struct Measured {
    bytes: usize,
    /// Bytes that a rank sends to others in it.
    sent: usize,
    calls: usize,
    /// Seconds of one; none where it was left out.
    seconds: Option<f64>,
}

/// Text and JSON; none on ranks that only take part.
///
/// # Errors
/// This build cannot join; another rank has failed.
pub fn output() -> Result<Option<(String, Value)>> {
    team::join()?;
    let Some(team) = team::joined() else {
        return Ok(Some((format!("{ALONE}\n"), json!({ "ranks": 1, "note": ALONE }))));
    };
    let team = &**team;
    let members = members(team)?;
    let measured = measured(team)?;
    Ok((team.rank() == 0).then(|| (text(team, &members, &measured), value(team, &members, &measured))))
}

fn members(team: &dyn Team) -> Result<Vec<Member>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mine = Member {
        rank: team.rank(),
        host: team.host(),
        cores,
        threads: match team::threads(0) {
            0 => cores,
            threads => threads,
        },
        processors: std::fs::read_to_string("/proc/cpuinfo")
            .map_or(cores, |text| text.lines().filter(|line| line.starts_with("processor")).count()),
        device: match machine::automatic() {
            Ok(_) => "cuda:0".into(),
            Err(why) => format!("cpu: {why}"),
        },
        memory: memory::allowed(),
        library: library(),
    };
    let garbled = |error: serde_json::Error| Error::Internal(format!("between processes: {error}"));
    let all = team.gather(&serde_json::to_vec(&mine).map_err(garbled)?)?;
    all.iter().map(|bytes| serde_json::from_slice(bytes).map_err(garbled)).collect()
}

/// What MPI calls itself.
#[cfg(feature = "mpi")]
fn library() -> String {
    crate::team::mpi::library()
}

#[cfg(not(feature = "mpi"))]
fn library() -> String {
    String::new()
}

/// Of every size a gather and an exchange.
fn measured(team: &dyn Team) -> Result<Vec<[Measured; 2]>> {
    let (begun, others) = (Instant::now(), team.size() - 1);
    // Of what was sent last, so that a network that is too slow for more is not asked.
    let mut rates = [f64::INFINITY; 2];
    let mut rows = Vec::new();
    for size in SIZES {
        let mine = vec![team.rank() as u8; size];
        let pieces = || vec![mine[..size / team.size()].to_vec(); team.size()];
        let gather = Call { bytes: size, sent: size * others, held: size * team.size() };
        let exchange = Call { bytes: size, sent: size / team.size() * others, held: 2 * size };
        rows.push([
            gather.measure(team, begun, &mut rates[0], &mut || team.gather(&mine).map(drop))?,
            exchange.measure(team, begun, &mut rates[1], &mut || team.exchange(pieces()).map(drop))?,
        ]);
    }
    Ok(rows)
}

struct Call {
    bytes: usize,
    sent: usize,
    held: usize,
}

impl Call {
    /// Makes calls until they say something; how many is what the first rank says.
    fn measure(
        &self,
        team: &dyn Team,
        begun: Instant,
        rate: &mut f64,
        call: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Measured> {
        let left = || ALL.saturating_sub(begun.elapsed()).as_secs_f64();
        let told = |calls: u64| -> Result<u64> {
            let first: Vec<u64> = numbers(&of_first(team, &calls.to_le_bytes())?)?;
            first.first().copied().ok_or_else(|| Error::Internal("the first rank has said nothing".into()))
        };
        let Call { bytes, sent, held } = *self;
        // Twice: to find out how long it takes, and to know it.
        let likely = 2.0 * sent as f64 / *rate;
        if told(u64::from(held <= HELD && likely < left()))? == 0 {
            return Ok(Measured { bytes, sent, calls: 0, seconds: None });
        }
        let once = Instant::now();
        call()?;
        let fits = (EACH.as_secs_f64().min(left()) / once.elapsed().as_secs_f64().max(1e-7)).clamp(1.0, CALLS);
        let calls = told(fits as u64)?.max(1);
        let start = Instant::now();
        (0..calls).try_for_each(|_| call())?;
        let seconds = start.elapsed().as_secs_f64() / calls as f64;
        // Small ones say how long a call takes, not how many bytes go.
        if sent >= SIZES[2] {
            *rate = sent as f64 / seconds;
        }
        Ok(Measured { bytes, sent, calls: calls as usize, seconds: Some(seconds) })
    }
}

impl Measured {
    fn gigabytes(&self) -> Option<f64> {
        self.seconds.map(|seconds| self.sent as f64 / seconds.max(f64::MIN_POSITIVE) / 1e9)
    }

    fn value(&self) -> Value {
        json!({
            "bytes": self.bytes, "sent_bytes": self.sent, "calls": self.calls, "seconds": self.seconds,
            "gb_per_second": self.gigabytes(),
        })
    }
}

fn text(team: &dyn Team, members: &[Member], measured: &[[Measured; 2]]) -> String {
    let mut hosts: Vec<&str> = members.iter().map(|member| &member.host[..]).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let library = members.first().map_or("", |member| &member.library[..]);
    let hosts = if hosts.len() == 1 { "1 host".into() } else { format!("{} hosts", hosts.len()) };
    let mut out = format!("{} ranks on {hosts}, by {}", team.size(), team.name());
    out += if library.is_empty() { "" } else { ": " };
    out += library;
    out += "\n\nrank  cores  threads    memory  host\n";
    // Writing to a string cannot fail.
    for Member { rank, host, cores, threads, device, memory, .. } in members {
        let memory = memory.map_or("unknown".into(), |memory| bytes(memory as u64));
        let _ = writeln!(out, "{rank:>4}  {cores:>5}  {threads:>7}  {memory:>8}  {host}; {device}");
    }
    let differs = members.iter().find(|member| member.library != library);
    if let Some(Member { rank, host, library, .. }) = differs {
        let _ = writeln!(out, "\nrank {rank} on {host} has another MPI: {library}");
    }
    let mut here: Vec<(&str, usize, usize)> = Vec::new();
    for member in members {
        match here.iter_mut().find(|(host, ..)| *host == member.host) {
            Some((_, threads, _)) => *threads += member.threads,
            None => here.push((&member.host, member.threads, member.processors)),
        }
    }
    for (host, threads, cores) in here.into_iter().filter(|(_, threads, cores)| threads > cores) {
        let _ = writeln!(
            out,
            "\n{host} has {threads} threads on {cores} cores: start fewer ranks there, or give each its cores"
        );
    }
    out += "\n            ------ gather ------  ----- exchange -----\n      size      time  sent, GB/s      time  sent, GB/s\n";
    for row in measured {
        let _ = write!(out, "{:>10}", bytes(row[0].bytes as u64));
        for cell in row {
            let time = cell.seconds.map_or("left out".into(), time);
            let rate = cell.gigabytes().map_or(String::new(), |rate| format!("{rate:.3}"));
            let _ = write!(out, "{time:>10}{rate:>12}");
        }
        out += "\n";
    }
    out + "\ngather: the size of every rank goes to all others; exchange: a part of the size to each. GB/s: what a rank sends\n"
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

fn value(team: &dyn Team, members: &[Member], measured: &[[Measured; 2]]) -> Value {
    json!({
        "ranks": team.size(), "by": team.name(),
        "library": members.first().map(|member| &member.library),
        "members": members.iter().map(|member| json!({
            "rank": member.rank, "host": member.host, "cores": member.cores, "threads": member.threads,
            "device": member.device, "memory_bytes": member.memory, "library": member.library,
        })).collect::<Vec<_>>(),
        "gather": measured.iter().map(|row| row[0].value()).collect::<Vec<_>>(),
        "exchange": measured.iter().map(|row| row[1].value()).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::threads::together;

    #[test]
    fn all_ranks_make_the_same_calls_and_tell_who_they_are() {
        let ends = together(3, |team| {
            let (members, measured) = (members(team)?, measured(team)?);
            let calls: Vec<usize> = measured.iter().flatten().map(|cell| cell.calls).collect();
            Ok((calls, text(team, &members, &measured), value(team, &members, &measured)))
        });
        let ends = ends.unwrap();
        assert!(ends.windows(2).all(|pair| pair[0].0 == pair[1].0));
        let (_, text, value) = &ends[0];
        assert!(text.starts_with("3 ranks on 1 host, by threads"), "{text}");
        assert_eq!(value["members"].as_array().unwrap().len(), 3);
        assert_eq!(value["gather"][2]["sent_bytes"], 2 * (40 << 10));
        assert!(value["exchange"][1]["seconds"].as_f64().unwrap() > 0.0);
    }

    #[test]
    fn what_would_take_too_long_is_left_out_by_all() {
        let ends = together(2, |team| {
            let call = Call { bytes: 1 << 20, sent: 1 << 20, held: 2 << 20 };
            // A megabyte in more than the eight seconds there are; only the first rank has seen that.
            let mut rate = if team.rank() == 0 { 1e5 } else { f64::INFINITY };
            let mut made = 0;
            let left = call.measure(team, Instant::now(), &mut rate, &mut || {
                made += 1;
                Ok(())
            })?;
            Ok((made, left.seconds.is_none()))
        });
        assert_eq!(ends.unwrap(), [(0, true), (0, true)]);
    }
}
