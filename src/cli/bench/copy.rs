//! How fast this machine copies memory, on all threads of the current pool: the yardstick of every GB/s.
//!
//! As in STREAM, bytes read and bytes written both count, and the best of several runs is taken: all else is
//! disturbance.

use rayon::prelude::*;
use std::time::Instant;

/// Elements of each array: 256 MiB, several times the last cache of all but a few processors made for it.
const LENGTH: usize = 1 << 25;
/// Times the array is copied.
const RUNS: usize = 6;

/// Bytes per second.
pub fn bandwidth() -> f64 {
    // Written before they are timed: memory that was never touched is not there yet.
    let from = vec![1u64; LENGTH];
    let mut to = vec![2u64; LENGTH];
    let part = LENGTH.div_ceil(rayon::current_num_threads());
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        to.par_chunks_mut(part).zip(from.par_chunks(part)).for_each(|(to, from)| to.copy_from_slice(from));
        best = best.min(start.elapsed().as_secs_f64());
        // Without a reader the copy could be left out.
        std::hint::black_box(&mut to);
    }
    (2 * LENGTH * size_of::<u64>()) as f64 / best
}
