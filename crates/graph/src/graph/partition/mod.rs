//! Parts of a graph for several processes: stretches of consecutive nodes, given by their bounds.
//!
//! [`ranges`] cuts the nodes as they are numbered; [`Metis`] says which part each node is best in, and [`numbered`] numbers them so
//! that its parts are stretches too. [`Survey`] says what parts cost: entries that lead from one to another, and the nodes
//! of others that each of them reads.
//! Invariant: bounds rise from 0 to the number of nodes; every part has a node where there are enough of them.

mod metis;
mod survey;

pub use metis::Metis;
pub use survey::{Part, Survey};

use crate::error::{Error, Result};

/// What a row costs beside its entries, in entries: its own state is read and written.
const ROW_COST: u64 = 4;

/// Bounds of stretches of rows with nearly the same cost, given where the entries of each row begin: `parts` + 1 numbers from 0
/// to the number of rows. Of fewer rows than parts, each is a part and the last parts are empty.
pub fn ranges(row_ptr: &[u64], parts: usize) -> Vec<usize> {
    let (rows, parts) = (row_ptr.len().saturating_sub(1), parts.max(1));
    if parts >= rows {
        return (0..=parts).map(|part| part.min(rows)).collect();
    }
    let cost = |i: usize| row_ptr[i] - row_ptr[0] + ROW_COST * i as u64;
    let total = u128::from(cost(rows));
    let mut bounds = vec![0];
    for part in 1..parts {
        let aim = (total * part as u128 / parts as u128) as u64;
        // The first row that begins at or behind the aim, or the one before it, whichever is nearer; `cost` increases strictly.
        let (mut low, mut high) = (0, rows);
        while low < high {
            let middle = (low + high) / 2;
            if cost(middle) < aim { low = middle + 1 } else { high = middle }
        }
        if low > 0 && aim - cost(low - 1) < cost(low) - aim {
            low -= 1;
        }
        // A row of its own for this part and for each that follows.
        bounds.push(low.clamp(bounds[part - 1] + 1, rows - (parts - part)));
    }
    bounds.push(rows);
    bounds
}

/// Numbers nodes part by part: the node that takes each place, and the bounds of the parts. Inside a part the order stays. A
/// part that nobody is in gets a node of the largest one.
///
/// # Errors
/// There are fewer nodes than parts, or a node is in a part that there is not.
pub fn numbered(part_of: &[u32], parts: usize) -> Result<(Vec<u32>, Vec<usize>)> {
    if part_of.len() < parts || parts == 0 {
        return Err(Error::Data(format!("{parts} parts of {} nodes: expected at least a node each", part_of.len())));
    }
    let mut sizes = vec![0usize; parts];
    for (node, &part) in part_of.iter().enumerate() {
        match sizes.get_mut(part as usize) {
            Some(size) => *size += 1,
            None => return Err(Error::Data(format!("node {node} is in part {part}: there are {parts} parts"))),
        }
    }
    let mut part_of = std::borrow::Cow::Borrowed(part_of);
    for empty in 0..parts {
        if sizes[empty] == 0 {
            // The first of the largest; it has two at least, as there are no fewer nodes than parts.
            let largest = (0..parts).rev().max_by_key(|&part| sizes[part]).unwrap_or(0);
            if let Some(last) = part_of.iter().rposition(|&part| part as usize == largest) {
                part_of.to_mut()[last] = empty as u32;
                sizes[largest] -= 1;
                sizes[empty] = 1;
            }
        }
    }
    let mut bounds = vec![0];
    for size in &sizes {
        bounds.push(bounds[bounds.len() - 1] + size);
    }
    let (mut next, mut order) = (bounds.clone(), vec![0u32; part_of.len()]);
    for (node, &part) in part_of.iter().enumerate() {
        order[next[part as usize]] = node as u32;
        next[part as usize] += 1;
    }
    Ok((order, bounds))
}

/// Checks bounds that somebody else has written.
///
/// # Errors
/// They do not rise from 0 to the number of nodes.
pub fn check_bounds(bounds: &[usize], nodes: usize) -> Result<()> {
    let rising = bounds.len() >= 2 && bounds.windows(2).all(|pair| pair[0] < pair[1]);
    if rising && bounds[0] == 0 && bounds[bounds.len() - 1] == nodes {
        return Ok(());
    }
    Err(Error::Data(format!("bounds of parts must rise from 0 to the {nodes} nodes without empty parts")))
}

#[cfg(test)]
mod tests;
