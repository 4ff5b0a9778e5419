//! What parts of a graph cost: how evenly work is shared, and what has to travel.
//!
//! One pass over the entries. Memory: a bit per node, whatever the number of parts.

use super::{ROW_COST, check_bounds};
use crate::error::Result;
use crate::graph::Graph;
use crate::watch::Watch;
use serde::Serialize;

/// Rows between two looks at whether to go on.
const CHECK: usize = 1 << 14;

/// Sizes of one part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Number of its first node.
    pub first: usize,
    /// Nodes, which follow each other.
    pub nodes: usize,
    /// Entries of its rows.
    pub entries: u64,
    /// Those of them that read a node of another part.
    pub cut: u64,
    /// Different nodes of other parts that its rows read.
    pub halo: u64,
    /// Different nodes of other parts that read one of its own: what rows of the transpose read. The same as `halo` where every
    /// edge is stored both ways.
    pub halo_of_transpose: u64,
}

/// Sizes of all parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survey {
    /// In the order of their nodes.
    pub parts: Vec<Part>,
    /// Of the whole matrix.
    pub entries: u64,
    /// Entries that lead from one part to another.
    pub cut: u64,
    /// The same as a share of all entries.
    pub cut_share: f64,
    /// Cost of the most expensive part by the mean cost, where a row costs its entries and a little more; 1 is best.
    pub balance: f64,
}

impl Survey {
    /// Of a graph and the bounds of its parts.
    ///
    /// # Errors
    /// Bounds that do not fit the graph, or a stop was asked for.
    pub fn of(graph: &Graph, bounds: &[usize], watch: &Watch) -> Result<Survey> {
        check_bounds(bounds, graph.nodes())?;
        let csr = graph.adjacency();
        let (row_ptr, col_idx) = (&csr.row_ptr[..], &csr.col_idx[..]);
        let mut parts: Vec<Part> = bounds
            .windows(2)
            .map(|pair| Part {
                first: pair[0],
                nodes: pair[1] - pair[0],
                entries: row_ptr[pair[1]] - row_ptr[pair[0]],
                ..Part::default()
            })
            .collect();
        let mut seen = vec![0u64; graph.nodes().div_ceil(64)];
        for part in 0..parts.len() {
            seen.fill(0);
            for row in bounds[part]..bounds[part + 1] {
                if row.is_multiple_of(CHECK) {
                    watch.check()?;
                    watch.progress("counting what parts read of each other", row_ptr[row], csr.entries() as u64);
                }
                // Columns of a row increase, so their parts do.
                let (mut other, mut counted) = (0, usize::MAX);
                for &column in &col_idx[csr.row(row)] {
                    while bounds[other + 1] <= column as usize {
                        other += 1;
                    }
                    if other == part {
                        continue;
                    }
                    parts[part].cut += 1;
                    let (word, bit) = (column as usize / 64, 1 << (column % 64));
                    parts[part].halo += u64::from(seen[word] & bit == 0);
                    seen[word] |= bit;
                    if counted != other {
                        // This row is one of those outside that read the other part; it comes by once.
                        parts[other].halo_of_transpose += 1;
                        counted = other;
                    }
                }
            }
        }
        let (entries, cut) = (csr.entries() as u64, parts.iter().map(|part| part.cut).sum::<u64>());
        let cost = |part: &Part| part.entries + ROW_COST * part.nodes as u64;
        let (most, total) = (parts.iter().map(cost).max().unwrap_or(0), parts.iter().map(cost).sum::<u64>());
        Ok(Survey {
            cut_share: cut as f64 / entries.max(1) as f64,
            balance: most as f64 * parts.len() as f64 / total.max(1) as f64,
            parts,
            entries,
            cut,
        })
    }
}
