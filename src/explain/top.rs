//! The largest terms of a sum that may have more terms than memory.

use std::cmp::Ordering;

/// One term: what it belongs to, and its size. Keys that were not asked for are `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// Column of X.
    pub feature: Option<usize>,
    /// Source node.
    pub node: Option<usize>,
    /// Walk length.
    pub hop: Option<usize>,
    /// What it adds to the logit.
    pub value: f64,
}

impl Term {
    /// Largest first; among equals the lower feature, node, hop.
    fn order(&self, other: &Term) -> Ordering {
        let key = |term: &Term| (term.feature, term.node, term.hop);
        other.value.abs().total_cmp(&self.value.abs()).then_with(|| key(self).cmp(&key(other)))
    }
}

/// The first few of many terms by size, and how many and how much all of them are.
#[derive(Clone, Debug, Default)]
pub struct Top {
    limit: usize,
    kept: Vec<Term>,
    /// Terms smaller than this are not among the largest.
    floor: f64,
    /// Terms seen.
    pub count: usize,
    /// Their sum.
    pub sum: f64,
}

impl Top {
    /// Keeps `limit` terms.
    pub fn new(limit: usize) -> Top {
        Top { limit, ..Top::default() }
    }

    /// Counts a term, and keeps it where it is among the largest.
    pub fn push(&mut self, term: Term) {
        self.count += 1;
        self.sum += term.value;
        self.keep(term);
    }

    /// Sees `count` terms: `term(at, value)` is the one of a value, or nothing, of a value 0 that belongs to no term. It is
    /// not asked where none of the values is among the largest.
    #[inline(always)]
    pub fn push_all(&mut self, values: &[f64], count: usize, term: impl Fn(usize, f64) -> Option<Term>) {
        self.count += count;
        self.sum += sum(values);
        if values.iter().any(|value| !self.is_below(*value)) {
            for (at, &value) in values.iter().enumerate() {
                term(at, value).into_iter().for_each(|term| self.keep(term));
            }
        }
    }

    /// Sees what another one has seen.
    pub fn merge(&mut self, other: Top) {
        self.count += other.count;
        self.sum += other.sum;
        other.kept.into_iter().for_each(|term| self.keep(term));
    }

    /// Whether a value is certainly not among the largest. Equals stay: their keys decide.
    #[inline(always)]
    fn is_below(&self, value: f64) -> bool {
        self.limit == 0 || value.abs() < self.floor
    }

    fn keep(&mut self, term: Term) {
        if self.is_below(term.value) {
            return;
        }
        self.kept.push(term);
        // Cut now and then, not at every term: the cost per term stays constant.
        if self.kept.len() >= self.limit.saturating_mul(2).max(1024) {
            self.kept.select_nth_unstable_by(self.limit - 1, Term::order);
            self.kept.truncate(self.limit);
            self.floor = self.kept[self.limit - 1].value.abs();
        }
    }

    /// The same with nothing kept that is not among the largest so far.
    pub fn cut(mut self) -> Top {
        if self.kept.len() > self.limit && self.limit > 0 {
            self.kept.select_nth_unstable_by(self.limit - 1, Term::order);
            self.kept.truncate(self.limit);
            self.floor = self.kept[self.limit - 1].value.abs();
        }
        self.kept.shrink_to_fit();
        self
    }

    /// The kept terms, largest first.
    pub fn finish(mut self) -> Vec<Term> {
        self.kept.sort_by(Term::order);
        self.kept.truncate(self.limit);
        self.kept
    }
}

/// In several sums side by side: one sum would wait for every addition.
#[inline(always)]
fn sum(values: &[f64]) -> f64 {
    const SUMS: usize = 16;
    let (chunks, rest) = values.as_chunks::<SUMS>();
    let mut sums = [0.0; SUMS];
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value);
    }
    sums.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_in_any_order_and_any_portions() {
        let term = |node: usize| {
            let value = ((node * 7919) % 3001) as f64 - 1500.0;
            Term { feature: None, node: Some(node), hop: None, value }
        };
        let mut expected: Vec<Term> = (0..3001).map(term).collect();
        expected.sort_by(Term::order);
        for portions in [1, 3] {
            let mut whole = Top::new(10);
            for portion in 0..portions {
                let mut part = Top::new(10);
                (0..3001).filter(|node| node % portions == portion).for_each(|node| part.push(term(node)));
                whole.merge(part);
            }
            assert_eq!((whole.count, whole.sum), (3001, 0.0));
            assert_eq!(whole.finish(), expected[..10]);
        }
        // Many at once, every third of which is none.
        let (mut together, mut alone) = (Top::new(10), Top::new(10));
        for first in (0..3001).step_by(64) {
            let terms: Vec<Option<Term>> =
                (first..3001.min(first + 64)).map(|node| (node % 3 != 0).then(|| term(node))).collect();
            let values: Vec<f64> = terms.iter().map(|term| term.map_or(0.0, |term| term.value)).collect();
            together.push_all(&values, terms.iter().flatten().count(), |at, _| terms[at]);
            terms.into_iter().flatten().for_each(|term| alone.push(term));
        }
        assert_eq!((together.count, together.sum), (alone.count, alone.sum));
        assert_eq!(together.finish(), alone.finish());
        let mut none = Top::new(0);
        none.push(term(3));
        assert_eq!((none.count, none.finish().len()), (1, 0));
    }
}
