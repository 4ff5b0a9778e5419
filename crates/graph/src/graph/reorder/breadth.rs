//! Breadth-first order: neighbours of a node are met soon after it, so rows that read the same nodes stand together.
//!
//! Components come one after the other, in the order of their largest hubs; nodes without neighbours come last.

use super::{Neighbours, hubs_first};
use crate::error::Result;
use crate::stop::Stop;

/// Nodes between two looks at whether to go on.
const CHECK: usize = 1 << 20;

pub(super) fn order(neighbours: &Neighbours, stop: &Stop) -> Result<Vec<u32>> {
    let (row_ptr, col_idx) = (&neighbours.rows.row_ptr[..], &neighbours.rows.col_idx[..]);
    let mut met = vec![false; neighbours.nodes()];
    // What has been met and not yet looked at is the end of the order itself.
    let mut order: Vec<u32> = Vec::with_capacity(met.len());
    let mut looked_at = 0;
    for start in hubs_first(neighbours) {
        if std::mem::replace(&mut met[start as usize], true) {
            continue;
        }
        order.push(start);
        while let Some(&node) = order.get(looked_at) {
            if looked_at.is_multiple_of(CHECK) {
                stop.check()?;
            }
            looked_at += 1;
            let row = row_ptr[node as usize] as usize..row_ptr[node as usize + 1] as usize;
            order.extend(col_idx[row].iter().filter(|&&next| !std::mem::replace(&mut met[next as usize], true)));
        }
    }
    Ok(order)
}
