//! Planted communities and the popularity of nodes inside them: a degree-corrected block model.
//!
//! Nodes take slots; every community owns a range of slots, and a permutation says which node sits in a slot, so ids
//! tell nothing. The node of rank r in its community is an endpoint with probability
//! ```text
//! p(r) ~ integral of x^(-2/3) over r + offset .. r + 1 + offset,
//! ```
//! which makes degrees follow a power law of exponent 1 + 1 / (2/3) = 2.5. The integral inverts to a cube, so drawing
//! an endpoint costs a handful of multiplications. The offset bounds the largest expected degree.
//! Invariant: slots and nodes are in one-to-one correspondence, and every community has at least one node.

use super::GraphShape;
use harmonia_graph::seed::{Purpose, Stream};

/// Communities are this far from equal: weights run from 1 - UNEVENNESS to 1 + UNEVENNESS.
const UNEVENNESS: f64 = 0.3;
/// Halvings of the interval of offsets; each adds a bit, 60 are more than the result shows.
const HALVINGS: usize = 60;

/// The popularity of the ranks of one community.
#[derive(Clone, Copy, Debug)]
struct Ranks {
    start: usize,
    size: usize,
    offset: f64,
    /// Cube roots of the ends of the interval that is drawn from.
    low: f64,
    high: f64,
}

impl Ranks {
    /// `largest` is the share of endpoints the first rank may have.
    fn new(start: usize, size: usize, largest: f64) -> Ranks {
        let ranks =
            |offset: f64| Ranks { start, size, offset, low: offset.cbrt(), high: (offset + size as f64).cbrt() };
        let first_share = |ranks: Ranks| ((ranks.offset + 1.0).cbrt() - ranks.low) / (ranks.high - ranks.low);
        // The share of the first rank falls with the offset, down to 1 / size where all ranks are alike.
        let (mut small, mut large) = (1e-3f64, 1e3 * size as f64);
        for _ in 0..HALVINGS {
            let middle = (small * large).sqrt();
            if first_share(ranks(middle)) > largest { small = middle } else { large = middle }
        }
        ranks(large)
    }

    /// Slot of the rank at quantile `uniform` in [0, 1).
    #[inline]
    fn slot(&self, uniform: f64) -> usize {
        let root = self.low + uniform * (self.high - self.low);
        let rank = (root * root * root - self.offset) as usize;
        self.start + rank.min(self.size - 1)
    }
}

/// Who belongs where, and how popular.
#[derive(Clone, Debug)]
pub(super) struct Communities {
    ranks: Vec<Ranks>,
    /// First slot of each community but the first, as the search wants it.
    ends: Vec<u32>,
    /// Node in each slot.
    node_at: Vec<u32>,
    /// Community of each node.
    community_of: Vec<u16>,
}

impl Communities {
    /// `shape` has been checked.
    pub fn new(shape: &GraphShape, seed: u64) -> Communities {
        let (nodes, classes) = (shape.nodes, shape.classes);
        let stream = Stream::new(seed, Purpose::GenerateCommunities, 0);
        let weight = |z: usize| 1.0 - UNEVENNESS + 2.0 * UNEVENNESS * stream.uniform(z as u64);
        let total: f64 = (0..classes).map(weight).sum();
        // Two nodes per class and weights no more than twice apart: rounding leaves a node for each.
        let mut starts = vec![0];
        let mut before = 0.0;
        for z in 0..classes {
            before += weight(z);
            starts.push(((nodes as f64 * before / total).round() as usize).min(nodes));
        }
        starts[classes] = nodes;

        // Endpoints of all rows.
        let endpoints = (2.0 * shape.edge_rows as f64).max(1.0);
        let mean_degree = endpoints / nodes as f64;
        let ranks: Vec<Ranks> = (starts.windows(2))
            .map(|pair| {
                let size = (pair[1] - pair[0]).max(1) as f64;
                // Pairs of nodes whose expected degrees stay near the root of all endpoints repeat little, and real
                // graphs reach about as far (ogbn-products: 17,481 with a root of 11,123). A small community runs out
                // of partners before that.
                let largest_degree = endpoints.sqrt().min(size / 4.0).max(2.0 * mean_degree);
                Ranks::new(pair[0], size as usize, largest_degree / (mean_degree * size))
            })
            .collect();

        let mut node_at: Vec<u32> = (0..nodes as u32).collect();
        Stream::new(seed, Purpose::GenerateCommunities, 1).rng().shuffle(&mut node_at);
        let mut community_of = vec![0; nodes];
        for (z, pair) in starts.windows(2).enumerate() {
            for &node in &node_at[pair[0]..pair[1]] {
                community_of[node as usize] = z as u16;
            }
        }
        let ends = starts[1..].iter().map(|&end| end as u32).collect();
        Communities { ranks, ends, node_at, community_of }
    }

    /// Community of a node.
    #[inline]
    pub fn of(&self, node: usize) -> usize {
        self.community_of[node] as usize
    }

    /// A slot anywhere, by popularity, and its community.
    #[inline]
    pub fn slot_anywhere(&self, uniform: f64) -> (usize, usize) {
        // A community is drawn by its size; where the number falls inside it is again uniform.
        let position = uniform * self.node_at.len() as f64;
        let z = self.ends.partition_point(|&end| f64::from(end) <= position).min(self.ranks.len() - 1);
        let ranks = &self.ranks[z];
        (ranks.slot((position - ranks.start as f64) / ranks.size as f64), z)
    }

    /// A slot of community `z`, by popularity.
    #[inline]
    pub fn slot_in(&self, z: usize, uniform: f64) -> usize {
        self.ranks[z].slot(uniform)
    }

    /// The slot after `slot`, in the same community where that has another.
    pub fn next_slot(&self, slot: usize, z: usize) -> usize {
        let Ranks { start, size, .. } = self.ranks[z];
        if size > 1 { start + (slot - start + 1) % size } else { (slot + 1) % self.node_at.len() }
    }

    /// The node in a slot.
    #[inline]
    pub fn node(&self, slot: usize) -> u32 {
        self.node_at[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::like;

    #[test]
    fn quantiles_of_a_hand_computed_community() {
        // Offset 1 and 26 ranks: roots run from 1 to 3, so quantile 1/2 is 2^3 - 1 = rank 7.
        let ranks = Ranks { start: 100, size: 26, offset: 1.0, low: 1.0, high: 3.0 };
        assert_eq!(ranks.slot(0.0), 100);
        assert_eq!(ranks.slot(0.5), 107);
        assert_eq!(ranks.slot(1.0), 125);
    }

    #[test]
    fn the_first_rank_has_the_share_that_was_asked_for() {
        let ranks = Ranks::new(0, 50_000, 0.004);
        let share = ((ranks.offset + 1.0).cbrt() - ranks.low) / (ranks.high - ranks.low);
        assert!((share - 0.004).abs() < 1e-9, "{share}");
        // Fewer than an equal share cannot be had: then all are alike.
        let flat = Ranks::new(0, 10, 0.01);
        assert_eq!(
            (0..10).map(|r| flat.slot((r as f64 + 0.5) / 10.0)).collect::<Vec<_>>(),
            (0..10).collect::<Vec<_>>()
        );
    }

    #[test]
    fn every_node_has_one_slot_and_sizes_are_mildly_unequal() {
        let shape = like("ogbn-arxiv").unwrap().scaled(0.1).unwrap();
        let communities = Communities::new(&shape, 1);
        let mut sorted = communities.node_at.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..shape.nodes as u32).collect::<Vec<_>>());
        let mut sizes = vec![0; shape.classes];
        (0..shape.nodes).for_each(|i| sizes[communities.of(i)] += 1);
        let mean = shape.nodes / shape.classes;
        assert!(sizes.iter().all(|&size| size > mean / 2 && size < 2 * mean), "{sizes:?}");
        assert!(sizes.iter().max() > sizes.iter().min());
        // Ids tell nothing: neighbours in id share a community about one time in forty.
        let same = (1..shape.nodes).filter(|&i| communities.of(i) == communities.of(i - 1)).count();
        assert!(same < shape.nodes / 20, "{same}");
    }
}
