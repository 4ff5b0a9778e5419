//! Edges: row e is a function of (seed, e), so rows are drawn in parallel and in any order.
//!
//! The first endpoint is any node by popularity; the second lies in the same community with probability [`HOMOPHILY`]
//! and is any node otherwise. Invariant: exactly as many rows as the shape says and no self-loops. A pair may repeat.

use super::Generator;
use harmonia_graph::seed::{Purpose, Stream};
use rayon::prelude::*;

/// Share of rows that are drawn inside a community; some of the others fall into one by chance.
pub const HOMOPHILY: f64 = 0.7;

impl Generator {
    /// All rows of the list of edges.
    pub fn edges(&self) -> Vec<(u32, u32)> {
        let stream = Stream::new(self.seed, Purpose::GenerateEdges, 0);
        (0..self.shape.edge_rows).into_par_iter().map(|row| self.edge(&stream, row as u64)).collect()
    }

    #[inline]
    fn edge(&self, stream: &Stream, row: u64) -> (u32, u32) {
        let communities = &self.communities;
        // The second number decides where the second endpoint lies and, rescaled, which it is.
        let (anywhere, choice) = stream.uniform_pair(row);
        let (first, z) = communities.slot_anywhere(anywhere);
        let mut second = if choice < HOMOPHILY {
            communities.slot_in(z, choice / HOMOPHILY)
        } else {
            communities.slot_anywhere((choice - HOMOPHILY) / (1.0 - HOMOPHILY)).0
        };
        if second == first {
            // A neighbour in popularity instead of another draw, which might have to be repeated.
            second = communities.next_slot(first, z);
        }
        (communities.node(first), communities.node(second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{GraphShape, like};

    fn generator(name: &str, scale: f64) -> Generator {
        Generator::new(like(name).unwrap().scaled(scale).unwrap(), 7).unwrap()
    }

    #[test]
    fn exactly_the_rows_asked_for_and_no_self_loops() {
        for (name, scale) in [("ogbn-products", 0.01), ("ogbn-arxiv", 0.1), ("cora", 1.0), ("cora", 0.001)] {
            let generator = generator(name, scale);
            let (edges, nodes) = (generator.edges(), generator.shape().nodes);
            assert_eq!(edges.len(), generator.shape().edge_rows, "{name}");
            assert!(edges.iter().all(|&(i, j)| i != j && (i as usize) < nodes && (j as usize) < nodes), "{name}");
        }
    }

    #[test]
    fn homophily_is_what_was_set() {
        let generator = generator("ogbn-products", 0.02);
        let edges = generator.edges();
        let z = |i: u32| generator.communities.of(i as usize);
        let same = edges.iter().filter(|&&(i, j)| z(i) == z(j)).count() as f64 / edges.len() as f64;
        // The rest falls into the same community once in about 47 times. Standard error 0.0004.
        let expected = HOMOPHILY + (1.0 - HOMOPHILY) / 47.0;
        assert!((same - expected).abs() < 0.003, "{same} against {expected}");
    }

    #[test]
    fn degrees_follow_a_power_law() {
        let generator = generator("ogbn-products", 0.1);
        let edges = generator.edges();
        let mut degrees = vec![0usize; generator.shape().nodes];
        edges.iter().for_each(|&(i, j)| {
            degrees[i as usize] += 1;
            degrees[j as usize] += 1;
        });
        degrees.sort_unstable_by(|a, b| b.cmp(a));
        // The bound on the largest expected degree: a quarter of the largest community, which has up to 1.3 times the
        // average size, and below the root of the number of endpoints (3517).
        let bound = 1.3 * generator.shape().nodes as f64 / 47.0 / 4.0;
        let mean = 2.0 * edges.len() as f64 / degrees.len() as f64;
        assert!(degrees[0] as f64 > 20.0 * mean, "{} {mean}", degrees[0]);
        assert!((degrees[0] as f64) < 1.3 * bound && degrees[0] as f64 > 0.5 * bound, "{} {bound}", degrees[0]);
        // Hill's estimate of the tail index on the upper twentieth (above the bend that the bound makes); the density
        // has exponent one more. Offsets make the very top lighter, which raises the estimate.
        let top = degrees.len() / 20;
        let threshold = (degrees[top] as f64).ln();
        let hill = degrees[..top].iter().map(|&degree| (degree as f64).ln() - threshold).sum::<f64>() / top as f64;
        let exponent = 1.0 + 1.0 / hill;
        assert!((2.3..2.9).contains(&exponent), "{exponent}");
    }

    #[test]
    fn repeats_are_rare() {
        let generator = generator("ogbn-products", 0.1);
        let mut pairs: Vec<(u32, u32)> = generator.edges().into_iter().map(|(i, j)| (i.min(j), i.max(j))).collect();
        let rows = pairs.len();
        pairs.sort_unstable();
        pairs.dedup();
        let share = 1.0 - pairs.len() as f64 / rows as f64;
        assert!(share < 0.08, "{share}");
    }

    #[test]
    fn the_same_rows_on_any_number_of_threads_and_others_for_another_seed() {
        let generator = generator("ogbn-arxiv", 0.1);
        let on = |threads| {
            rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| generator.edges())
        };
        let edges = on(1);
        assert_eq!(edges, on(2));
        let other = Generator::new(*generator.shape(), 8).unwrap();
        assert_ne!(edges, other.edges());
    }

    #[test]
    fn communities_of_one_node_do_not_loop() {
        let shape =
            GraphShape { nodes: 12, edge_rows: 500, classes: 6, train: 6, valid: 1, test: 1, ..like("cora").unwrap() };
        for seed in 0..20 {
            let generator = Generator::new(shape, seed).unwrap();
            assert!(generator.edges().iter().all(|(i, j)| i != j));
        }
    }
}
