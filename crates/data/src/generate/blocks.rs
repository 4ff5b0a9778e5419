//! Long tables in bounded memory: blocks of rows are made in parallel and handed on in order.
//!
//! Invariant: what is handed on does not depend on the number of threads; at most [`AHEAD`] blocks per thread are held.

use harmonia_graph::error::Result;
use harmonia_graph::stop::Stop;
use rayon::prelude::*;
use std::ops::Range;

/// Blocks made at once, for each thread: enough that no thread waits long for the last of them.
const AHEAD: usize = 8;

/// Calls `make` on `rows` rows, `block_rows` at a time, and `take` on each result in order with the rows done by then.
/// A table without rows is one empty block.
///
/// # Errors
/// The first error of `make` or `take`, in the order of rows.
pub(super) fn in_order<T: Send>(
    rows: usize,
    block_rows: usize,
    stop: &Stop,
    make: impl Fn(Range<usize>) -> Result<T> + Sync,
    mut take: impl FnMut(T, usize) -> Result<()>,
) -> Result<()> {
    let block_rows = block_rows.max(1);
    let blocks = rows.div_ceil(block_rows).max(1);
    let range = |block: usize| block * block_rows..((block + 1) * block_rows).min(rows);
    let at_once = AHEAD * rayon::current_num_threads();
    for first in (0..blocks).step_by(at_once) {
        stop.check()?;
        let made: Vec<Result<T>> =
            (first..(first + at_once).min(blocks)).into_par_iter().map(|block| make(range(block))).collect();
        for (block, result) in (first..).zip(made) {
            take(result?, range(block).end)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::error::Error;

    #[test]
    fn blocks_arrive_in_order_and_cover_all_rows() {
        for (rows, ends) in [(0, &[0][..]), (5, &[5]), (10, &[10]), (21, &[10, 20, 21])] {
            let mut seen = Vec::new();
            in_order(rows, 10, &Stop::new(), Ok, |range: Range<usize>, done| {
                assert_eq!((range.start, range.end), (seen.last().copied().unwrap_or(0), done));
                seen.push(done);
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, ends);
        }
        let mut rows = Vec::new();
        in_order(10_000, 3, &Stop::new(), Ok, |range: Range<usize>, _| {
            rows.extend(range);
            Ok(())
        })
        .unwrap();
        assert_eq!(rows, (0..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_error_wins_and_nothing_after_it_is_taken() {
        let mut taken = 0;
        let make = |range: Range<usize>| {
            if range.start >= 7 { Err(Error::Data(format!("row {}", range.start))) } else { Ok(()) }
        };
        let error = in_order(100, 1, &Stop::new(), make, |(), _| {
            taken += 1;
            Ok(())
        });
        assert_eq!((error.unwrap_err().to_string().as_str(), taken), ("row 7", 7));
    }
}
