//! Which nodes a prediction can see: the rows of a walk within so many steps of some rows.
//!
//! A walk of t steps from the rows that are scored ends within t steps of them, forward and backward; whatever else a hop
//! would compute is multiplied by zero or never read. Sets grow with every step, and one that has grown beyond half of the
//! graph is not worth a look-up per entry: from there on, a step goes over everything.

use super::Csr;

const WORD: usize = u64::BITS as usize;

/// Some rows of a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSet {
    members: Vec<u64>,
    rows: usize,
    entries: usize,
}

/// The rows within 0, 1, 2, ... steps of some rows, as far as they are few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbourhood {
    levels: Vec<RowSet>,
}

impl RowSet {
    /// The rows of a matrix that are so.
    pub fn of(csr: &Csr, so: impl Fn(usize) -> bool) -> RowSet {
        let mut set = RowSet { members: vec![0; csr.rows().div_ceil(WORD)], rows: 0, entries: 0 };
        for i in (0..csr.rows()).filter(|&i| so(i)) {
            set.insert(csr, i);
        }
        set
    }

    /// Whether row i is one of them.
    #[inline(always)]
    pub fn contains(&self, i: usize) -> bool {
        self.members[i / WORD] >> (i % WORD) & 1 == 1
    }

    /// How many there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Entries of the matrix in them.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Bit i % 64 of word i / 64 stands for row i.
    pub fn words(&self) -> &[u64] {
        &self.members
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.checked_sub(1)?;
                Some(at * WORD + bit)
            })
        })
    }

    /// Adds row i; whether it is new.
    fn insert(&mut self, csr: &Csr, i: usize) -> bool {
        let (word, bit) = (&mut self.members[i / WORD], 1 << (i % WORD));
        let new = *word & bit == 0;
        if new {
            *word |= bit;
            self.rows += 1;
            self.entries += csr.row(i).len();
        }
        new
    }

    /// Whether a step that looks up who is one of them is quicker than one over everything.
    fn is_few(&self, csr: &Csr) -> bool {
        2 * self.rows <= csr.rows() && 2 * self.entries <= csr.entries()
    }
}

impl Neighbourhood {
    /// Up to `steps` steps from `rows` along the entries of a matrix; whatever is more than `most_entries` entries away is
    /// not looked for: finding it would take longer than leaving it out saves.
    pub fn new(csr: &Csr, rows: impl IntoIterator<Item = u32>, steps: usize, most_entries: usize) -> Self {
        let mut set = RowSet { members: vec![0; csr.rows().div_ceil(WORD)], rows: 0, entries: 0 };
        let mut newest: Vec<u32> = rows.into_iter().filter(|&i| set.insert(csr, i as usize)).collect();
        let mut levels = Vec::new();
        for step in 0..=steps {
            if !set.is_few(csr) {
                break;
            }
            levels.push(set.clone());
            if step == steps || set.entries > most_entries {
                break;
            }
            // Neighbours of older rows are there already.
            let mut next = Vec::new();
            for &i in &newest {
                next.extend(csr.col_idx[csr.row(i as usize)].iter().filter(|&&j| set.insert(csr, j as usize)));
            }
            newest = next;
        }
        Neighbourhood { levels }
    }

    /// The rows within `steps` steps; none stands for all rows.
    pub fn within(&self, steps: usize) -> Option<&RowSet> {
        self.levels.get(steps)
    }

    /// Every set, from the rows themselves on.
    pub fn levels(&self) -> &[RowSet] {
        &self.levels
    }

    /// Bytes of the sets within so many steps of anything, at most.
    pub fn planned_bytes(rows: usize, steps: usize) -> usize {
        (steps + 1) * rows.div_ceil(WORD) * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Direction, Graph, Transition, Walk};

    fn path(nodes: u32, direction: Direction) -> Csr {
        let edges: Vec<(u32, u32)> = (1..nodes).map(|i| (i - 1, i)).collect();
        let graph = Graph::from_edges(nodes as usize, &edges, None, direction).unwrap();
        Transition::new(&graph, Walk::default()).matrix().clone()
    }

    fn rows(set: &RowSet) -> Vec<usize> {
        let rows: Vec<usize> = (0..set.words().len() * WORD).filter(|&i| set.contains(i)).collect();
        assert!(set.iter().eq(rows.iter().copied()));
        rows
    }

    #[test]
    fn sets_grow_along_the_entries_and_end_at_half_of_the_rows() {
        let csr = path(100, Direction::Undirected);
        let near = Neighbourhood::new(&csr, [70, 0, 70], 4, usize::MAX);
        assert_eq!(rows(near.within(0).unwrap()), [0, 70]);
        assert_eq!(rows(near.within(2).unwrap()), [0, 1, 2, 68, 69, 70, 71, 72]);
        assert_eq!((near.within(2).unwrap().rows(), near.within(2).unwrap().entries()), (8, 15));
        assert!(near.within(4).is_some() && near.within(5).is_none());
        // 51 rows are more than half.
        assert_eq!(Neighbourhood::new(&csr, [50], 40, usize::MAX).levels().len(), 25);
        assert_eq!(Neighbourhood::new(&csr, 0..51, 3, usize::MAX).levels(), []);
    }

    #[test]
    fn edges_are_followed_as_a_walk_follows_them_and_only_so_far() {
        // 2 steps to 3; 99 has nowhere to go but to itself.
        let csr = path(100, Direction::Directed);
        let near = Neighbourhood::new(&csr, [2, 99], 1, usize::MAX);
        assert_eq!(rows(near.within(1).unwrap()), [2, 3, 99]);
        assert_eq!(Neighbourhood::new(&csr, [2, 99], 3, 1).levels().len(), 1);
        assert_eq!(Neighbourhood::new(&csr, [], 1, 0).within(1).map(RowSet::rows), Some(0));
        let planned = Neighbourhood::planned_bytes(100, 1);
        assert_eq!(planned, near.levels().iter().map(|set| size_of_val(set.words())).sum::<usize>());
    }
}
