//! A team of processes that MPI connects.
//!
//! Bytes go through all-gather and all-to-all of the world; longer ones than MPI can count go in rounds. Calls are made by one
//! thread at a time, not always by the same.

use super::Team;
use harmonia_graph::error::{Error, Result};
use mpi::Threading;
use mpi::collective::CommunicatorCollectives;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::topology::{Communicator, SimpleCommunicator};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a rank sends or receives in one round, at most: MPI counts them in 32 bits with a sign.
const ROUND: usize = 1 << 30;

/// One process of the world.
#[derive(Debug)]
pub struct Mpi {
    rank: usize,
    size: usize,
    host: String,
    sent: AtomicU64,
}

/// MPI as long as it is up: ends it when dropped, after which no [`Mpi`] may be asked anything.
pub struct World {
    _universe: Universe,
}

impl Mpi {
    /// Joins the others.
    ///
    /// # Errors
    /// MPI is up already, or was built for programs of one thread.
    pub fn join() -> Result<(World, Mpi)> {
        let up = || Error::Device("MPI is up already: a process joins its team once".into());
        let (universe, provided) = mpi::initialize_with_threading(Threading::Serialized).ok_or_else(up)?;
        if provided < Threading::Serialized {
            return Err(Error::Device(format!(
                "this MPI supports {provided:?}, and calls come from more than one thread: it has to be built with thread support"
            )));
        }
        let world = universe.world();
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        let host = mpi::environment::processor_name().unwrap_or_else(|_| "a host without a name".into());
        Ok((World { _universe: universe }, Mpi { rank, size, host, sent: AtomicU64::new(0) }))
    }

    /// Lengths that every rank hands in for this one.
    fn lengths(&self, pieces: &[Vec<u8>]) -> Vec<usize> {
        let mine: Vec<u64> = pieces.iter().map(|piece| piece.len() as u64).collect();
        let mut theirs = vec![0u64; self.size];
        SimpleCommunicator::world().all_to_all_into(&mine[..], &mut theirs[..]);
        theirs.into_iter().map(|length| length as usize).collect()
    }

    fn count(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// What this MPI calls itself, in a line.
pub fn library() -> String {
    let (major, minor) = mpi::environment::version();
    let name = mpi::environment::library_version().unwrap_or_default();
    let name = name.lines().next().unwrap_or_default().split(", package").next().unwrap_or_default();
    format!("{} (MPI {major}.{minor})", name.trim_end_matches('\0').trim())
}

/// Where pieces of these lengths begin, one behind the other.
fn starts(lengths: &[i32]) -> Vec<i32> {
    lengths.iter().scan(0, |at, &length| Some(std::mem::replace(at, *at + length))).collect()
}

impl Team for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn name(&self) -> &'static str {
        "mpi"
    }

    fn host(&self) -> String {
        self.host.clone()
    }

    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let world = SimpleCommunicator::world();
        let mut lengths = vec![0u64; self.size];
        world.all_gather_into(&(mine.len() as u64), &mut lengths[..]);
        let lengths: Vec<usize> = lengths.into_iter().map(|length| length as usize).collect();
        let mut all: Vec<Vec<u8>> = lengths.iter().map(|&length| Vec::with_capacity(length)).collect();
        let most = ROUND / self.size;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        for first in (0..longest).step_by(most) {
            let of = |length: usize| length.saturating_sub(first).min(most);
            let counts: Vec<i32> = lengths.iter().map(|&length| of(length) as i32).collect();
            let begins = starts(&counts);
            let mut came = vec![0u8; counts.iter().map(|&count| count as usize).sum()];
            let piece = &mine[first.min(mine.len())..][..of(mine.len())];
            world.all_gather_varcount_into(piece, &mut PartitionMut::new(&mut came[..], &counts[..], &begins[..]));
            let mut rest = &came[..];
            for (all, &count) in all.iter_mut().zip(&counts) {
                let (here, behind) = rest.split_at(count as usize);
                all.extend_from_slice(here);
                rest = behind;
            }
        }
        self.count(mine.len() * (self.size - 1));
        Ok(all)
    }

    fn exchange(&self, pieces: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        self.exchange_beside(pieces, &mut || ())
    }

    fn exchange_beside(&self, pieces: Vec<Vec<u8>>, work: &mut dyn FnMut()) -> Result<Vec<Vec<u8>>> {
        let world = SimpleCommunicator::world();
        let theirs = self.lengths(&pieces);
        let others = |to: &usize| *to != self.rank;
        self.count((0..self.size).filter(others).map(|to| pieces[to].len()).sum());
        let most = ROUND / self.size;
        // All ranks go through as many rounds as the longest piece of any of them needs.
        let mine = pieces.iter().map(Vec::len).chain(theirs.iter().copied()).max().unwrap_or(0) as u64;
        let mut longest = vec![0u64; self.size];
        world.all_gather_into(&mine, &mut longest[..]);
        let rounds = (longest.into_iter().max().unwrap_or(0) as usize).div_ceil(most).max(1);
        let mut all: Vec<Vec<u8>> = theirs.iter().map(|&length| Vec::with_capacity(length)).collect();
        for round in 0..rounds {
            let first = round * most;
            let of = |length: usize| length.saturating_sub(first).min(most);
            let send: Vec<i32> = pieces.iter().map(|piece| of(piece.len()) as i32).collect();
            let receive: Vec<i32> = theirs.iter().map(|&length| of(length) as i32).collect();
            let mut bytes = Vec::with_capacity(send.iter().map(|&count| count as usize).sum());
            pieces
                .iter()
                .for_each(|piece| bytes.extend_from_slice(&piece[first.min(piece.len())..][..of(piece.len())]));
            let mut came = vec![0u8; receive.iter().map(|&count| count as usize).sum()];
            let (from, to) = (starts(&send), starts(&receive));
            {
                let sent = Partition::new(&bytes[..], &send[..], &from[..]);
                let mut received = PartitionMut::new(&mut came[..], &receive[..], &to[..]);
                mpi::request::scope(|scope| {
                    let request = world.immediate_all_to_all_varcount_into(scope, &sent, &mut received);
                    if round == 0 {
                        work();
                    }
                    request.wait();
                });
            }
            let mut rest = &came[..];
            for (all, &count) in all.iter_mut().zip(&receive) {
                let (here, behind) = rest.split_at(count as usize);
                all.extend_from_slice(here);
                rest = behind;
            }
        }
        Ok(all)
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    fn end(&self, code: i32) {
        SimpleCommunicator::world().abort(code)
    }
}
