//! Stretches of rows that take equally long, and tasks over them.
//!
//! Where stretches begin depends on sizes only, never on the number of threads; a task gets its own part of the output
//! as a plain slice, so results cannot depend on who computes them.

use std::ops::Range;

/// Entries a task handles at least, where an entry is a few columns of a walk: some ten microseconds of work.
pub const WALK_ENTRIES: u64 = 1 << 14;
/// The same where an entry is a non-zero feature, which meets all hops.
pub const FEATURE_ENTRIES: u64 = 1 << 12;
/// Stretches at most.
const MOST: u64 = 1 << 12;

/// Bounds of stretches of rows with nearly the same cost, given where the entries of each row begin: a row costs its
/// entries and a little more; a stretch has at least `least` of them.
pub fn balanced(row_ptr: &[u64], least: u64) -> Vec<usize> {
    let rows = row_ptr.len() - 1;
    let cost = |i: usize| row_ptr[i] + 4 * i as u64;
    let total = cost(rows);
    let parts = (total / least).clamp(1, MOST);
    let mut bounds = vec![0];
    for part in 1..parts {
        let aim = total * part / parts;
        // The first row that begins at or behind the aim; `cost` increases strictly.
        let (mut low, mut high) = (0, rows);
        while low < high {
            let middle = (low + high) / 2;
            if cost(middle) < aim { low = middle + 1 } else { high = middle }
        }
        if low > bounds[bounds.len() - 1] && low < rows {
            bounds.push(low);
        }
    }
    bounds.push(rows);
    bounds
}

/// Entries of a stretch, about; one row may have more.
pub fn stretch_entries(rows: usize, entries: usize, least: u64) -> usize {
    let total = (entries + 4 * rows) as u64;
    (total / (total / least).clamp(1, MOST)) as usize
}

/// Calls `task(rows, part of data)` for every stretch, in parallel; `data` has `width` elements per row.
pub fn each<A: Send>(bounds: &[usize], width: usize, data: &mut [A], task: &(impl Fn(Range<usize>, &mut [A]) + Sync)) {
    let at = |bound: usize| [bounds[bound] * width, 0, 0];
    let whole = Parts { a: data, b: &mut [(); 0], c: &mut [(); 0] };
    split(0..bounds.len() - 1, whole, &at, &|stretch, parts| task(bounds[stretch]..bounds[stretch + 1], parts.a));
}

/// Slices that belong to the same stretches.
pub struct Parts<'a, A, B, C> {
    /// Cut at the first of the three offsets of a bound.
    pub a: &'a mut [A],
    /// Cut at the second.
    pub b: &'a mut [B],
    /// Cut at the third.
    pub c: &'a mut [C],
}

/// Calls `task(stretch, its parts)` for every one of `stretches`, in parallel. `at(s)` is where the parts of stretch s begin
/// in each slice; the slices of `parts` begin where those of the first stretch do.
pub fn split<A: Send, B: Send, C: Send>(
    stretches: Range<usize>,
    parts: Parts<'_, A, B, C>,
    at: &(impl Fn(usize) -> [usize; 3] + Sync),
    task: &(impl Fn(usize, Parts<'_, A, B, C>) + Sync),
) {
    if stretches.len() == 1 {
        return task(stretches.start, parts);
    }
    let middle = stretches.start + stretches.len() / 2;
    let (begin, cut) = (at(stretches.start), at(middle));
    let (a, a_right) = parts.a.split_at_mut(cut[0] - begin[0]);
    let (b, b_right) = parts.b.split_at_mut(cut[1] - begin[1]);
    let (c, c_right) = parts.c.split_at_mut(cut[2] - begin[2]);
    rayon::join(
        || split(stretches.start..middle, Parts { a, b, c }, at, task),
        || split(middle..stretches.end, Parts { a: a_right, b: b_right, c: c_right }, at, task),
    );
}

/// The same for columns: those of `a` have `width` elements each, column k of `b` begins at `col_ptr[k]`.
pub fn each_column<A: Send, B: Send>(
    bounds: &[usize],
    (width, a): (usize, &mut [A]),
    (col_ptr, b): (&[usize], &mut [B]),
    task: &(impl Fn(Range<usize>, &mut [A], &mut [B]) + Sync),
) {
    let at = |bound: usize| [bounds[bound] * width, col_ptr[bounds[bound]], 0];
    let task = |stretch: usize, parts: Parts<'_, A, B, ()>| {
        task(bounds[stretch]..bounds[stretch + 1], parts.a, parts.b);
    };
    split(0..bounds.len() - 1, Parts { a, b, c: &mut [(); 0] }, &at, &task);
}

/// Calls `task(rows, parts)` for every stretch, in parallel, with the rows of several matrices of `width` columns.
pub fn each_of<A: Send, const COUNT: usize>(
    bounds: &[usize],
    width: usize,
    matrices: [&mut [A]; COUNT],
    task: &(impl Fn(Range<usize>, [&mut [A]; COUNT]) + Sync),
) {
    if bounds.len() <= 2 {
        return task(bounds[0]..bounds[bounds.len() - 1], matrices);
    }
    let middle = bounds.len() / 2;
    let cut = (bounds[middle] - bounds[0]) * width;
    let mut right = [const { None }; COUNT];
    let mut rest = right.iter_mut();
    let left = matrices.map(|matrix| {
        // A matrix that is not there is empty.
        let (here, there) = matrix.split_at_mut(cut.min(matrix.len()));
        if let Some(place) = rest.next() {
            *place = Some(there);
        }
        here
    });
    let right = right.map(Option::unwrap_or_default);
    rayon::join(|| each_of(&bounds[..=middle], width, left, task), || each_of(&bounds[middle..], width, right, task));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_share_the_entries_and_cover_all_rows() {
        // One row has half of all entries.
        let mut row_ptr = vec![0u64];
        (0..100_000u64).for_each(|i| row_ptr.push(row_ptr[i as usize] + if i == 500 { 1_000_000 } else { 10 }));
        let bounds = balanced(&row_ptr, WALK_ENTRIES);
        assert_eq!((bounds[0], bounds[bounds.len() - 1]), (0, 100_000));
        assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]));
        let largest = bounds.windows(2).map(|b| row_ptr[b[1]] - row_ptr[b[0]]).filter(|&e| e < 1_000_000).max();
        assert!(largest.unwrap() < 4 * WALK_ENTRIES, "{largest:?}");
        let mut seen = vec![0u8; 100_000 * 2];
        each(&bounds, 2, &mut seen, &|rows, part| {
            assert_eq!(part.len(), 2 * rows.len());
            part.iter_mut().for_each(|value| *value += 1);
        });
        assert!(seen.iter().all(|&value| value == 1));
    }

    #[test]
    fn no_rows_are_one_empty_stretch() {
        assert_eq!(balanced(&[0], WALK_ENTRIES), [0, 0]);
        each(&[0, 0], 3, &mut [0u8; 0], &|rows, part| assert!(rows.is_empty() && part.is_empty()));
    }
}
