//! Random walks drawn one by one: where a walker who steps by M is after 1, 2, ... steps.
//!
//! A step is a function of (stream, start, walk, step) and nothing else, so any thread may take any of them, and a start has the
//! same walks in whatever company it is asked for. First steps are stratified: each of R walks leaves through its own R-th of
//! the row, so that R walks of a node with few neighbours see nearly all of them. Every single walk is still a walk by M, so
//! means over walks are unbiased.

use super::Transition;
use crate::seed::Stream;
use rayon::prelude::*;

/// Starts of a task.
const TASK: usize = 64;

/// Nodes that `walks` walks from each start are at after 1 to `steps` steps: starts x walks x steps.
pub fn sampled_walks(transition: &Transition, starts: &[u32], walks: usize, steps: usize, stream: Stream) -> Vec<u32> {
    let mut ends = vec![0u32; starts.len() * walks * steps];
    if ends.is_empty() {
        return ends;
    }
    ends.par_chunks_mut(walks * steps).zip(starts).with_min_len(TASK).for_each(|(ends, &start)| {
        for (walk, ends) in ends.chunks_exact_mut(steps).enumerate() {
            let first = (u64::from(start) * walks as u64 + walk as u64) * steps as u64;
            let mut node = start as usize;
            for ((index, t), end) in (first..).zip(0..).zip(ends) {
                let uniform = stream.uniform(index);
                let share = if t == 0 { (walk as f64 + uniform) / walks as f64 } else { uniform };
                node = step(transition, node, share);
                *end = node as u32;
            }
        }
    });
    ends
}

/// Where a step from a node leads that goes by this share of its row.
fn step(transition: &Transition, node: usize, share: f64) -> usize {
    let matrix = transition.matrix();
    let span = matrix.row(node);
    let last = span.end - 1;
    let entry = match &matrix.weights {
        None => span.start + (share * span.len() as f64) as usize,
        Some(weights) => {
            let mut left = share * transition.degree()[node];
            span.clone()
                .find(|&entry| {
                    left -= f64::from(weights[entry]);
                    left < 0.0
                })
                .unwrap_or(last)
        }
    };
    // Rounding may lead past the end.
    matrix.col_idx[entry.min(last)] as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Direction, Graph, Walk};
    use crate::seed::Purpose;

    /// Counts of ends are binomial: with n walks the deviation of a share is at most 1 / (2 sqrt n).
    const WALKS: usize = 40_000;
    const TOLERANCE: f64 = 5.0 / (2.0 * 200.0);

    #[test]
    fn walks_end_where_powers_of_the_walk_say() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)];
        let weights = [1.0, 0.5, 2.0, 3.0, 0.25];
        for (weights, lazy) in [(None, false), (Some(&weights[..]), false), (Some(&weights[..]), true), (None, true)] {
            for direction in [Direction::Undirected, Direction::Directed] {
                // Node 4 has no neighbours.
                let graph = Graph::from_edges(5, &edges, weights, direction).unwrap();
                let transition = Transition::new(&graph, Walk { lazy, self_loops: false });
                let steps = 3;
                let stream = Stream::new(7, Purpose::Walks, 1);
                let starts: Vec<u32> = (0..5).collect();
                let ends = sampled_walks(&transition, &starts, WALKS, steps, stream);
                for start in 0..5 {
                    let mut state = vec![0.0; 5];
                    state[start] = 1.0;
                    for t in 0..steps {
                        let mut next = vec![0.0; 5];
                        for (i, &mass) in state.iter().enumerate() {
                            for (j, weight) in transition.matrix().row_entries(i) {
                                next[j] += mass * f64::from(weight) / transition.degree()[i];
                            }
                        }
                        state = next;
                        let mut counts = vec![0.0; 5];
                        for walk in 0..WALKS {
                            counts[ends[(start * WALKS + walk) * steps + t] as usize] += 1.0 / WALKS as f64;
                        }
                        for (count, mass) in counts.iter().zip(&state) {
                            assert!((count - mass).abs() < TOLERANCE, "{start} after {t}: {counts:?} {state:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn first_steps_are_stratified_and_company_does_not_matter() {
        // A star: four walks from its middle see all four ends.
        let edges = [(0, 1), (0, 2), (0, 3), (0, 4)];
        let graph = Graph::from_edges(5, &edges, None, Direction::Undirected).unwrap();
        let transition = Transition::new(&graph, Walk::default());
        let stream = |step| Stream::new(3, Purpose::Walks, step);
        let ends = sampled_walks(&transition, &[0], 4, 2, stream(0));
        assert_eq!(ends, [1, 0, 2, 0, 3, 0, 4, 0]);
        let alone = sampled_walks(&transition, &[3, 2], 2, 3, stream(1));
        let among = sampled_walks(&transition, &[0, 2, 3], 2, 3, stream(1));
        assert_eq!((&alone[..6], &alone[6..]), (&among[12..], &among[6..12]));
        assert_ne!(alone, sampled_walks(&transition, &[3, 2], 2, 3, stream(2)));
        assert!(sampled_walks(&transition, &[], 2, 3, stream(2)).is_empty());
        assert!(sampled_walks(&transition, &[1], 2, 0, stream(2)).is_empty());
    }
}
