//! The adjacency matrix as the user gave it, cleaned: ids checked, duplicates merged, rows sorted.

use super::Csr;
use crate::error::{Error, Result};

/// Whether an edge (i, j) also stands for (j, i).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Each edge is entered both ways.
    Undirected,
    /// An edge (i, j) lets node i read from node j.
    Directed,
}

const EXPECTED_WEIGHT: &str = "weights must be > 0, finite and not below 1.2e-38";

/// Positive, and far enough from zero that 1 / degree is finite.
fn valid(weight: f32) -> bool {
    weight.is_normal() && weight > 0.0
}

/// A graph: n nodes and a cleaned adjacency matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    adjacency: Csr,
    symmetric: bool,
}

impl Graph {
    /// Builds a graph from edges. Duplicate edges merge into one; where weights are given they are summed.
    ///
    /// # Errors
    /// An id outside 0..nodes, a weight that is not a positive finite number, or lengths that differ.
    pub fn from_edges(
        nodes: usize,
        edges: &[(u32, u32)],
        weights: Option<&[f32]>,
        direction: Direction,
    ) -> Result<Graph> {
        if nodes > u32::MAX as usize {
            return Err(Error::Data(format!("{nodes} nodes: at most {} are supported", u32::MAX)));
        }
        if let Some(weights) = weights
            && weights.len() != edges.len()
        {
            return Err(Error::Data(format!("{} edges but {} edge weights", edges.len(), weights.len())));
        }
        let mut entries = Vec::with_capacity(2 * edges.len());
        for (row, &(i, j)) in edges.iter().enumerate() {
            if i as usize >= nodes || j as usize >= nodes {
                return Err(Error::Data(format!("edge {row} is ({i}, {j}): node ids must be below {nodes}")));
            }
            let weight = weights.map_or(1.0, |w| w[row]);
            if !valid(weight) {
                return Err(Error::Data(format!("edge {row} ({i}, {j}) has weight {weight}: {EXPECTED_WEIGHT}")));
            }
            entries.push((i, j, weight));
            if direction == Direction::Undirected && i != j {
                entries.push((j, i, weight));
            }
        }
        let adjacency = Csr::from_entries(nodes, &entries, weights.is_some());
        if adjacency.weights.iter().flatten().any(|&weight| !valid(weight)) {
            return Err(Error::Data("weights of duplicate edges add up to more than f32 holds".into()));
        }
        Ok(Graph { adjacency, symmetric: direction == Direction::Undirected })
    }

    /// Takes rows that are already compressed, as a store holds them.
    ///
    /// # Errors
    /// Any breach of the contract of [`Csr`], with the first offending row.
    pub fn from_csr(adjacency: Csr) -> Result<Graph> {
        let ptr = &adjacency.row_ptr;
        if ptr.first() != Some(&0) || ptr.last() != Some(&(adjacency.entries() as u64)) {
            let shown = |end: Option<&u64>| end.map_or("nothing".to_string(), u64::to_string);
            return Err(Error::Data(format!(
                "row_ptr must run from 0 to the {} entries of col_idx, it runs from {} to {}",
                adjacency.entries(),
                shown(ptr.first()),
                shown(ptr.last())
            )));
        }
        // Monotone first: only then is every row a valid range.
        if let Some(i) = ptr.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(Error::Data(format!("row_ptr decreases after row {i}")));
        }
        let nodes = adjacency.rows();
        if nodes > u32::MAX as usize {
            return Err(Error::Data(format!("{nodes} nodes: at most {} are supported", u32::MAX)));
        }
        for i in 0..nodes {
            let row = &adjacency.col_idx[adjacency.row(i)];
            if let Some(&j) = row.iter().max().filter(|&&j| j as usize >= nodes) {
                return Err(Error::Data(format!("row {i} has neighbour {j}: node ids must be below {nodes}")));
            }
            if row.windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(Error::Data(format!("col_idx of row {i} must be strictly increasing")));
            }
        }
        if let Some(weights) = &adjacency.weights {
            if weights.len() != adjacency.entries() {
                return Err(Error::Data(format!("{} edges but {} edge weights", adjacency.entries(), weights.len())));
            }
            if let Some(at) = weights.iter().position(|&weight| !valid(weight)) {
                return Err(Error::Data(format!("edge weight {at} is {}: {EXPECTED_WEIGHT}", weights[at])));
            }
        }
        let symmetric = adjacency.transposed() == adjacency;
        Ok(Graph { adjacency, symmetric })
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.adjacency.rows()
    }

    /// Number of directed edges stored (an undirected edge counts twice, a self-loop once).
    pub fn directed_edges(&self) -> usize {
        self.adjacency.entries()
    }

    /// The adjacency matrix.
    pub fn adjacency(&self) -> &Csr {
        &self.adjacency
    }

    /// Whether the adjacency matrix equals its transpose.
    pub fn is_symmetric(&self) -> bool {
        self.symmetric
    }
}
