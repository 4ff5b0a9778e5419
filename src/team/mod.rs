//! Processes that train one model together: who they are, and how numbers get from one to the others.
//!
//! A team is what training asks of other processes and nothing more: bytes to everybody, bytes to each. [`mpi`] hands them to MPI,
//! [`threads`] to other threads of the same process, which is how tests have teams. Sums are taken in the order of ranks, by one
//! rank for each part of an array, so that every rank has the same bits, and the same number of ranks the same bits every time.
//!
//! All ranks call the same functions in the same order. A rank that cannot go on ends the job ([`Team::end`]): nobody waits for
//! one that is gone.

mod halo;
pub mod launched;
#[cfg(feature = "mpi")]
pub mod mpi;
mod share;
pub mod threads;

pub use halo::Halo;
pub use share::{OwnClasses, Share, Sharing, can_share_classes};

use bytemuck::cast_slice;
use harmonia_graph::error::{Error, Result};
use std::fmt::Debug;
use std::ops::Range;

/// One of several processes, as it sees all of them.
pub trait Team: Debug + Send + Sync {
    /// Which one this is, from 0.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// For people: what connects them, as `mpi`.
    fn name(&self) -> &'static str;

    /// The machine this one runs on.
    fn host(&self) -> String;

    /// Everybody's bytes, in the order of ranks; they may be of different lengths.
    ///
    /// # Errors
    /// Another rank has failed.
    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// `pieces[r]` goes to rank r; what came from each, in the order of ranks.
    ///
    /// # Errors
    /// Another rank has failed.
    fn exchange(&self, pieces: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>>;

    /// The same, with work that is done while bytes are on their way. Without it by default: first one, then the other.
    ///
    /// # Errors
    /// Another rank has failed.
    fn exchange_beside(&self, pieces: Vec<Vec<u8>>, work: &mut dyn FnMut()) -> Result<Vec<Vec<u8>>> {
        let came = self.exchange(pieces);
        work();
        came
    }

    /// Bytes that this rank has sent to others so far.
    fn sent(&self) -> u64;

    /// Ends the job on every rank, whatever they are doing.
    fn end(&self, code: i32);
}

/// The `at`-th of `count` nearly equal parts of 0..length.
pub fn part(length: usize, count: usize, at: usize) -> Range<usize> {
    let bound = |at: usize| (length as u128 * at as u128 / count as u128) as usize;
    bound(at)..bound(at + 1)
}

/// Adds up an array over all ranks: every rank sums its part in the order of ranks, in f64, and all get the same bits.
///
/// # Errors
/// Another rank has failed.
pub fn sum(team: &dyn Team, values: &mut [f32]) -> Result<()> {
    let of = |rank: usize| part(values.len(), team.size(), rank);
    let pieces = (0..team.size()).map(|rank| cast_slice(&values[of(rank)]).to_vec()).collect();
    let mut sums = vec![0f64; of(team.rank()).len()];
    for came in team.exchange(pieces)? {
        let came: Vec<f32> = numbers(&came)?;
        sums.iter_mut().zip(&came).for_each(|(sum, &value)| *sum += f64::from(value));
    }
    let sums: Vec<f32> = sums.into_iter().map(|sum| sum as f32).collect();
    let mut rest = values;
    for came in team.gather(cast_slice(&sums))? {
        let came: Vec<f32> = numbers(&came)?;
        let (here, behind) = std::mem::take(&mut rest).split_at_mut(came.len());
        here.copy_from_slice(&came);
        rest = behind;
    }
    Ok(())
}

/// Bytes that [`sum`] of so many numbers sends from one rank to the others.
pub fn sum_bytes(numbers: usize, ranks: usize) -> usize {
    // A part to each of the others, and its own sums to all of them.
    2 * 4 * numbers * (ranks - 1) / ranks
}

/// One number summed over all ranks, in their order.
///
/// # Errors
/// Another rank has failed.
pub fn sum_one(team: &dyn Team, value: f64) -> Result<f64> {
    let all = team.gather(&value.to_le_bytes())?;
    all.iter().map(|bytes| numbers::<f64>(bytes).map(|values| values.iter().sum::<f64>())).sum()
}

/// Whether anybody says so.
///
/// # Errors
/// Another rank has failed.
pub fn any(team: &dyn Team, mine: bool) -> Result<bool> {
    Ok(team.gather(&[u8::from(mine)])?.concat().contains(&1))
}

/// What the first rank has: the others hand in nothing.
///
/// # Errors
/// Another rank has failed.
pub fn of_first(team: &dyn Team, mine: &[u8]) -> Result<Vec<u8>> {
    let mine = if team.rank() == 0 { mine } else { &[] };
    Ok(team.gather(mine)?.swap_remove(0))
}

/// Refuses to go on with ranks that see something else than the first, as other data or other settings.
///
/// # Errors
/// The first rank that does, by number and host.
pub fn check_same(team: &dyn Team, what: &str, mine: &str) -> Result<()> {
    let all = team.gather(format!("{}\n{mine}", team.host()).as_bytes())?;
    let texts: Vec<String> = all.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    let parts = |rank: usize| texts[rank].split_once('\n').unwrap_or_default();
    let (first_host, first) = parts(0);
    match (1..texts.len()).find(|&rank| parts(rank).1 != first) {
        None => Ok(()),
        Some(rank) => Err(Error::Config(format!(
            "rank {rank} on {} has other {what} than rank 0 on {first_host}: {}, and there {first}; give every rank the same \
             files, flags and program",
            parts(rank).0,
            parts(rank).1
        ))),
    }
}

/// Numbers that came as bytes, wherever these are in memory.
///
/// # Errors
/// They are no whole numbers of that type: another program sent them.
pub fn numbers<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Result<Vec<T>> {
    match bytes.len() % size_of::<T>() {
        0 => Ok(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()),
        _ => Err(Error::Internal(format!("{} bytes came from another rank: no whole numbers", bytes.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::threads::together;
    use super::*;

    #[test]
    fn parts_cover_everything_once() {
        for (length, count) in [(10, 3), (2, 5), (0, 2), (7, 1)] {
            let all: Vec<usize> = (0..count).flat_map(|at| part(length, count, at)).collect();
            assert_eq!(all, (0..length).collect::<Vec<_>>());
        }
    }

    #[test]
    fn sums_are_the_same_bits_everywhere_and_every_time() {
        let sums = |size: usize| {
            together(size, |team| {
                let rank = team.rank() as f32;
                let mut values: Vec<f32> =
                    (0..7).map(|at| 0.1 + rank * 1e-3 + at as f32 * 1e7_f32.powf(rank - 1.0)).collect();
                sum(team, &mut values)?;
                assert!(any(team, team.rank() == 1)? && !any(team, false)?);
                assert_eq!(of_first(team, &[team.rank() as u8 + 7])?, [7]);
                assert_eq!(sum_one(team, f64::from(rank))?, (0..size).sum::<usize>() as f64);
                Ok((values, team.sent()))
            })
            .unwrap()
        };
        for size in [2, 3] {
            let (first, again) = (sums(size), sums(size));
            assert!(first.windows(2).all(|pair| pair[0].0 == pair[1].0));
            assert_eq!(first, again);
            let expected = |at: usize| -> f64 {
                (0..size)
                    .map(|r| 0.1f32 + r as f32 * 1e-3 + at as f32 * 1e7_f32.powf(r as f32 - 1.0))
                    .map(f64::from)
                    .sum()
            };
            first[0].0.iter().enumerate().for_each(|(at, &value)| assert_eq!(value, expected(at) as f32));
        }
        // 8 numbers over 4 ranks: 2 numbers to each of three others, and two sums to each of them.
        assert_eq!(sum_bytes(8, 4), 2 * 4 * 2 * 3);
    }

    #[test]
    fn who_sees_something_else_is_named() {
        let ends = together(3, |team| {
            let mine = if team.rank() == 2 { "b" } else { "a" };
            Ok(check_same(team, "data", mine).unwrap_err().to_string())
        });
        let messages = ends.unwrap();
        assert!(
            messages.iter().all(|message| message.starts_with("rank 2 on ") && message == &messages[0]),
            "{messages:?}"
        );
    }
}
