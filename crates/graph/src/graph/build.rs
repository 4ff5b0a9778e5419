//! Edges in any order to compressed sparse rows, in parallel.
//!
//! Two passes of a radix sort by row, then a small sort inside each row: entries are first dealt out to buckets of
//! neighbouring rows, whose rows and columns then fit the cache. A random write of a piece of work is thereby never further
//! than a bucket away. Invariant: the result depends on the edges alone, not on the number of threads: buckets keep the
//! order of the input, and duplicates are merged in that order.

use super::Csr;
use rayon::prelude::*;
use std::ops::{AddAssign, Range};

/// Entries of a bucket that a core keeps close.
const BUCKET_ENTRIES: usize = 1 << 17;
/// Streams that dealing writes to at once: more would not find room in the first levels of a cache.
const MOST_BUCKETS: usize = 1 << 11;
/// Edges dealt by one piece of work, at least.
const CHUNK_EDGES: usize = 1 << 16;
/// Pieces of work: each needs a counter for every bucket.
const MOST_CHUNKS: usize = 64;

/// What an entry carries beside its place: nothing, or a weight.
pub(super) trait Weight: Copy + Default + Send + Sync + AddAssign {}
impl Weight for f32 {}
impl Weight for Nothing {}

/// The weight of an entry of an unweighted graph. Two of them make one entry.
#[derive(Clone, Copy, Default)]
pub(super) struct Nothing;
impl AddAssign for Nothing {
    fn add_assign(&mut self, _: Nothing) {}
}

/// One entry of a matrix.
#[derive(Clone, Copy, Default)]
struct Entry<W> {
    row: u32,
    col: u32,
    weight: W,
}

/// Compressed rows of `edges`, which must all be below `rows`; with `both_ways` every edge but a loop counts for (j, i)
/// too. Equal entries merge; weights add up.
pub(super) fn compress<W: Weight>(
    rows: usize,
    edges: &[(u32, u32)],
    weight: impl Fn(usize) -> W + Sync,
    both_ways: bool,
) -> (Vec<u64>, Vec<u32>, Vec<W>) {
    let expected = edges.len() * (1 + usize::from(both_ways));
    let buckets = expected.div_ceil(BUCKET_ENTRIES).clamp(1, MOST_BUCKETS).next_power_of_two();
    // A power of two of rows per bucket, so that finding it is a shift.
    let shift = rows.div_ceil(buckets).next_power_of_two().trailing_zeros().min(31);
    let buckets = ((rows.max(1) - 1) >> shift) + 1;
    let chunk = edges.len().div_ceil(MOST_CHUNKS).max(CHUNK_EDGES);
    let dealt = deal(edges, &weight, both_ways, chunk, buckets, shift);

    let mut row_ptr = vec![0u64; rows + 1];
    let mut col_idx = vec![0u32; dealt.entries.len()];
    let mut weights = if size_of::<W>() == 0 { Vec::new() } else { vec![W::default(); dealt.entries.len()] };
    // Every bucket fills its own part of the output from the front; what merging leaves over is closed up below.
    let mut parts = Vec::with_capacity(buckets);
    let (mut ptr_rest, mut col_rest, mut weight_rest) = (&mut row_ptr[1..], &mut col_idx[..], &mut weights[..]);
    for (bucket, range) in dealt.buckets.iter().enumerate() {
        let bucket_rows = (1 << shift).min(rows - (bucket << shift));
        let (ptr, col, weight);
        (ptr, ptr_rest) = ptr_rest.split_at_mut(bucket_rows);
        (col, col_rest) = col_rest.split_at_mut(range.len());
        (weight, weight_rest) = weight_rest.split_at_mut(range.len().min(weight_rest.len()));
        parts.push((bucket << shift, range.clone(), ptr, col, weight));
    }
    let kept: Vec<usize> = (parts.into_par_iter())
        .map(|(first, range, ptr, col, weight)| fill(first, &dealt.entries[range], ptr, col, weight))
        .collect();
    close_up(&dealt.buckets, &kept, &mut row_ptr, &mut col_idx, &mut weights, shift);
    (row_ptr, col_idx, weights)
}

/// Entries grouped by bucket.
struct Dealt<W> {
    entries: Vec<Entry<W>>,
    buckets: Vec<Range<usize>>,
}

fn deal<W: Weight>(
    edges: &[(u32, u32)],
    weight: &(impl Fn(usize) -> W + Sync),
    both_ways: bool,
    chunk: usize,
    buckets: usize,
    shift: u32,
) -> Dealt<W> {
    let counts: Vec<Vec<usize>> = (edges.par_chunks(chunk))
        .map(|edges| {
            let mut counts = vec![0; buckets];
            for &(i, j) in edges {
                counts[(i >> shift) as usize] += 1;
                if both_ways && i != j {
                    counts[(j >> shift) as usize] += 1;
                }
            }
            counts
        })
        .collect();
    let mut bounds = Vec::with_capacity(buckets);
    let mut total = 0;
    for bucket in 0..buckets {
        let size: usize = counts.iter().map(|counts| counts[bucket]).sum();
        bounds.push(total..total + size);
        total += size;
    }
    let mut entries = vec![Entry::<W>::default(); total];
    // Each chunk owns a part of every bucket, in the order of the chunks.
    let mut parts: Vec<Vec<&mut [Entry<W>]>> = counts.iter().map(|_| Vec::with_capacity(buckets)).collect();
    let mut rest = &mut entries[..];
    for bucket in 0..buckets {
        for (parts, counts) in parts.iter_mut().zip(&counts) {
            let part;
            (part, rest) = rest.split_at_mut(counts[bucket]);
            parts.push(part);
        }
    }
    (edges.par_chunks(chunk)).zip(parts).enumerate().for_each(|(at, (edges, mut parts))| {
        let mut next = vec![0usize; buckets];
        let mut put = |row: u32, col: u32, weight: W| {
            let bucket = (row >> shift) as usize;
            parts[bucket][next[bucket]] = Entry { row, col, weight };
            next[bucket] += 1;
        };
        for (e, &(i, j)) in edges.iter().enumerate() {
            let weight = weight(at * chunk + e);
            put(i, j, weight);
            if both_ways && i != j {
                put(j, i, weight);
            }
        }
    });
    Dealt { entries, buckets: bounds }
}

/// Sorts one bucket into its part of the output and returns how many entries were left after merging. `ptr` receives
/// the end of each row, counted from the start of the bucket.
fn fill<W: Weight>(first: usize, entries: &[Entry<W>], ptr: &mut [u64], col: &mut [u32], weight: &mut [W]) -> usize {
    let rows = ptr.len();
    let mut next = vec![0usize; rows + 1];
    for entry in entries {
        next[entry.row as usize - first + 1] += 1;
    }
    for row in 0..rows {
        next[row + 1] += next[row];
    }
    let weighted = !weight.is_empty();
    let mut pairs = if weighted { vec![(0u32, W::default()); entries.len()] } else { Vec::new() };
    for entry in entries {
        let at = &mut next[entry.row as usize - first];
        if weighted {
            pairs[*at] = (entry.col, entry.weight);
        } else {
            col[*at] = entry.col;
        }
        *at += 1;
    }
    // `next` now holds the end of each row.
    let (mut start, mut kept) = (0, 0);
    for row in 0..rows {
        let end = next[row];
        if weighted {
            // Stable: weights of duplicates add up in the order of the input.
            let row = &mut pairs[start..end];
            row.sort_by_key(|&(col, _)| col);
            let first = kept;
            for &mut (j, w) in row {
                if kept > first && col[kept - 1] == j {
                    weight[kept - 1] += w;
                } else {
                    (col[kept], weight[kept]) = (j, w);
                    kept += 1;
                }
            }
        } else {
            col[start..end].sort_unstable();
            let first = kept;
            for e in start..end {
                let j = col[e];
                if kept == first || col[kept - 1] != j {
                    col[kept] = j;
                    kept += 1;
                }
            }
        }
        (start, ptr[row]) = (end, kept as u64);
    }
    kept
}

/// Moves what the buckets kept together and turns ends within buckets into offsets of the whole.
fn close_up<W: Weight>(
    buckets: &[Range<usize>],
    kept: &[usize],
    row_ptr: &mut [u64],
    col_idx: &mut Vec<u32>,
    weights: &mut Vec<W>,
    shift: u32,
) {
    let mut total = 0;
    for (range, &kept) in buckets.iter().zip(kept) {
        if range.start != total {
            col_idx.copy_within(range.start..range.start + kept, total);
            if !weights.is_empty() {
                weights.copy_within(range.start..range.start + kept, total);
            }
        }
        total += kept;
    }
    col_idx.truncate(total);
    weights.truncate(total);
    let mut before = 0;
    for (ends, &kept) in row_ptr[1..].chunks_mut(1 << shift).zip(kept) {
        ends.iter_mut().for_each(|end| *end += before);
        before += kept as u64;
    }
}

/// A^T by the same road; entries arrive in the order of rows, so columns of the result are increasing.
pub(super) fn transposed(csr: &Csr) -> Csr {
    let (row_ptr, col_idx) = (&csr.row_ptr[..], &csr.col_idx[..]);
    let edges: Vec<(u32, u32)> = (0..csr.rows())
        .into_par_iter()
        .flat_map_iter(|i| col_idx[row_ptr[i] as usize..row_ptr[i + 1] as usize].iter().map(move |&j| (j, i as u32)))
        .collect();
    match &csr.weights {
        None => {
            let (row_ptr, col_idx, _) = compress(csr.rows(), &edges, |_| Nothing, false);
            Csr { row_ptr: row_ptr.into(), col_idx: col_idx.into(), weights: None }
        }
        Some(weights) => {
            let weights = &weights[..];
            let (row_ptr, col_idx, weights) = compress(csr.rows(), &edges, |e| weights[e], false);
            Csr { row_ptr: row_ptr.into(), col_idx: col_idx.into(), weights: Some(weights.into()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Purpose, Stream};
    use std::collections::BTreeMap;

    /// The obvious way: a sorted map.
    fn naive(rows: usize, edges: &[(u32, u32)], weights: &[f32], both_ways: bool) -> (Vec<u64>, Vec<u32>, Vec<f32>) {
        let mut map: BTreeMap<(u32, u32), f32> = BTreeMap::new();
        for (&(i, j), &w) in edges.iter().zip(weights) {
            *map.entry((i, j)).or_default() += w;
            if both_ways && i != j {
                *map.entry((j, i)).or_default() += w;
            }
        }
        let mut ptr = vec![0u64; rows + 1];
        map.keys().for_each(|&(i, _)| ptr[i as usize + 1] += 1);
        (0..rows).for_each(|i| ptr[i + 1] += ptr[i]);
        (ptr, map.keys().map(|&(_, j)| j).collect(), map.values().copied().collect())
    }

    #[test]
    fn rows_equal_a_sorted_map() {
        for (rows, count, seed) in [(1, 0, 0), (1, 3, 1), (7, 40, 2), (300, 100, 3), (1000, 400_000, 4)] {
            let mut rng = Stream::new(seed, Purpose::SyntheticGraph, 0).rng();
            let edges: Vec<(u32, u32)> =
                (0..count).map(|_| (rng.below(rows) as u32, (rng.below(rows) * rng.below(2)) as u32)).collect();
            let weights: Vec<f32> = (0..count).map(|_| 0.5 + rng.below(8) as f32).collect();
            for both_ways in [false, true] {
                let expected = naive(rows, &edges, &weights, both_ways);
                let found = compress(rows, &edges, |e| weights[e], both_ways);
                assert_eq!(found, expected, "{rows} rows, {count} edges, both ways {both_ways}");
                let (ptr, col, _) = compress(rows, &edges, |_| Nothing, both_ways);
                assert_eq!((ptr, col), (expected.0, expected.1));
            }
        }
    }
}
