//! Communities by label propagation: every node takes the label that most of its neighbours have, again and again.
//!
//! A label l with n_l nodes, k_l of them neighbours of the node in question, pulls with
//! ```text
//! k_l - (n_l - k_l) / ROOM,
//! ```
//! so that a community grows while its nodes know each other and not beyond: without the second term a label may flood a
//! whole component (Boldi, Rosa, Santini, Vigna: Layered label propagation, WWW 2011). All is done in integers.
//!
//! Deterministic: a quarter of the nodes moves at a time, all of them looking at the same labels. Were it all of them,
//! two neighbours could swap labels for ever; were it one by one, there would be nothing to share between threads.
//! Memory: 16 bytes per node, whatever the number of edges.

use super::Neighbours;
use crate::error::Result;
use crate::stop::Stop;
use rayon::prelude::*;
use std::cmp::Reverse;

/// Nodes of a community that cost as much as one neighbour is worth. So many rows of a state of 48 columns are 3 MB,
/// about what the cache of a core holds.
const ROOM: i64 = 1 << 14;
/// Shares of the nodes that move one after the other.
const TURNS: u32 = 4;
/// Most labels settle in five rounds; more than this are not worth their time.
const MOST_ROUNDS: usize = 10;
/// Rounds end when fewer than one node in this many moves.
const SETTLED: usize = 100;
/// Nodes of one piece of work.
const CHUNK: usize = 1 << 10;

/// By community, hubs first in each; communities in the order of their first nodes, so that some of an order that the
/// source had is kept.
pub(super) fn order(neighbours: &Neighbours, stop: &Stop) -> Result<Vec<u32>> {
    let labels = propagate(neighbours, stop)?;
    let mut first = vec![u32::MAX; labels.len()];
    for (node, &label) in labels.iter().enumerate().rev() {
        first[label as usize] = node as u32;
    }
    let degrees = neighbours.degrees();
    let mut order: Vec<u32> = (0..labels.len() as u32).collect();
    order.par_sort_unstable_by_key(|&node| {
        (first[labels[node as usize] as usize], Reverse(degrees[node as usize]), node)
    });
    Ok(order)
}

/// A label for every node: the number of some node.
pub(super) fn propagate(neighbours: &Neighbours, stop: &Stop) -> Result<Vec<u32>> {
    let (row_ptr, col_idx) = (&neighbours.rows.row_ptr[..], &neighbours.rows.col_idx[..]);
    let mut labels: Vec<u32> = (0..neighbours.nodes() as u32).collect();
    let mut next = labels.clone();
    let mut sizes = vec![1u32; labels.len()];
    for _ in 0..MOST_ROUNDS {
        let mut moved = 0;
        for turn in 0..TURNS {
            stop.check()?;
            next.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, next)| {
                let mut around = Vec::new();
                for (at, next) in next.iter_mut().enumerate() {
                    let node = chunk * CHUNK + at;
                    if mixed(node as u32) % TURNS == turn {
                        let row = &col_idx[row_ptr[node] as usize..row_ptr[node + 1] as usize];
                        *next = strongest(node as u32, row, &labels, &sizes, &mut around);
                    }
                }
            });
            for (label, &next) in labels.iter_mut().zip(&next).filter(|(label, next)| label != next) {
                sizes[*label as usize] -= 1;
                sizes[next as usize] += 1;
                *label = next;
                moved += 1;
            }
        }
        if moved * SETTLED < labels.len() {
            break;
        }
    }
    Ok(labels)
}

/// The label that pulls `node` most. Its own stays unless another pulls more; of several others that pull alike, one
/// by chance, but the same every time.
fn strongest(node: u32, row: &[u32], labels: &[u32], sizes: &[u32], around: &mut Vec<u32>) -> u32 {
    around.clear();
    around.extend(row.iter().filter(|&&j| j != node).map(|&j| labels[j as usize]));
    around.sort_unstable();
    let own = labels[node as usize];
    let pull = |label: u32, known: usize| {
        // The node itself is no reason to stay.
        let size = i64::from(sizes[label as usize]) - i64::from(label == own);
        known as i64 * (ROOM + 1) - size
    };
    let mut best = (pull(own, 0), u32::MAX, own);
    for same in around.chunk_by(|a, b| a == b) {
        let label = same[0];
        let chance = if label == own { u32::MAX } else { mixed(label ^ mixed(node)) >> 1 };
        best = best.max((pull(label, same.len()), chance, label));
    }
    best.2
}

/// Bits of a number, well mixed: a multiplicative hash with shifts between.
fn mixed(number: u32) -> u32 {
    let mut bits = number.wrapping_mul(0x9e37_79b1);
    bits ^= bits >> 15;
    bits = bits.wrapping_mul(0x85eb_ca77);
    bits ^ (bits >> 13)
}
