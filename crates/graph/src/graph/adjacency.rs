//! The adjacency matrix as the user gave it, cleaned: ids checked, duplicates merged, rows sorted.

use super::Csr;
use super::build::{self, Nothing};
use crate::array::Array;
use crate::error::{Error, Result};
use rayon::prelude::*;

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
        let outside = |&(i, j): &(u32, u32)| i as usize >= nodes || j as usize >= nodes;
        if let Some(row) = edges.par_iter().position_first(outside) {
            let (i, j) = edges[row];
            return Err(Error::Data(format!("edge {row} is ({i}, {j}): node ids must be below {nodes}")));
        }
        if let Some(row) = weights.and_then(|weights| weights.iter().position(|&weight| !valid(weight))) {
            let ((i, j), weight) = (edges[row], weights.map_or(0.0, |weights| weights[row]));
            return Err(Error::Data(format!("edge {row} ({i}, {j}) has weight {weight}: {EXPECTED_WEIGHT}")));
        }
        let both_ways = direction == Direction::Undirected;
        let (row_ptr, col_idx, weights) = match weights {
            None => {
                let (row_ptr, col_idx, _) = build::compress(nodes, edges, |_| Nothing, both_ways);
                (row_ptr, col_idx, None)
            }
            Some(weights) => {
                let (row_ptr, col_idx, weights) = build::compress(nodes, edges, |e| weights[e], both_ways);
                (row_ptr, col_idx, Some(weights))
            }
        };
        if weights.iter().flatten().any(|&weight| !valid(weight)) {
            return Err(Error::Data("weights of duplicate edges add up to more than f32 holds".into()));
        }
        let adjacency = Csr { row_ptr: row_ptr.into(), col_idx: col_idx.into(), weights: weights.map(Array::from) };
        Ok(Graph { adjacency, symmetric: both_ways })
    }

    /// The same graph with every edge entered both ways; where (i, j) and (j, i) both carry weights, they add up.
    ///
    /// # Errors
    /// Weights that add up to more than f32 holds.
    pub fn undirected(&self) -> Result<Graph> {
        if self.symmetric {
            return Ok(self.clone());
        }
        let (row_ptr, col_idx) = (&self.adjacency.row_ptr[..], &self.adjacency.col_idx[..]);
        let mut edges = Vec::with_capacity(col_idx.len());
        for i in 0..self.nodes() {
            let row = &col_idx[row_ptr[i] as usize..row_ptr[i + 1] as usize];
            edges.extend(row.iter().map(|&j| (i as u32, j)));
        }
        Graph::from_edges(self.nodes(), &edges, self.adjacency.weights.as_deref(), Direction::Undirected)
    }

    /// Takes rows that are already compressed, as a store holds them.
    ///
    /// # Errors
    /// Any breach of the contract of [`Csr`], with the first offending row.
    pub fn from_csr(adjacency: Csr) -> Result<Graph> {
        check_offsets(&adjacency)?;
        check_entries(&adjacency)?;
        let symmetric = adjacency.is_symmetric();
        Ok(Graph { adjacency, symmetric })
    }

    /// Rows that a store has checked before.
    pub fn from_checked(adjacency: Csr, symmetric: bool) -> Graph {
        Graph { adjacency, symmetric }
    }

    /// n, isolated nodes included.
    pub fn nodes(&self) -> usize {
        self.adjacency.rows()
    }

    /// Number of directed edges stored (an undirected edge counts twice, a self-loop once).
    pub fn directed_edges(&self) -> usize {
        self.adjacency.entries()
    }

    /// A: row i lists the nodes that node i reads from.
    pub fn adjacency(&self) -> &Csr {
        &self.adjacency
    }

    /// Whether the adjacency matrix equals its transpose.
    pub fn is_symmetric(&self) -> bool {
        self.symmetric
    }
}

/// Offsets alone: one pass over the rows, not over the edges.
///
/// # Errors
/// Offsets that do not run from 0 to the number of entries, or decrease.
pub fn check_offsets(adjacency: &Csr) -> Result<()> {
    let ptr = &adjacency.row_ptr[..];
    if ptr.first() != Some(&0) || ptr.last() != Some(&(adjacency.entries() as u64)) {
        let shown = |end: Option<&u64>| end.map_or("nothing".to_string(), u64::to_string);
        return Err(Error::Data(format!(
            "row_ptr must run from 0 to the {} entries of col_idx, it runs from {} to {}",
            adjacency.entries(),
            shown(ptr.first()),
            shown(ptr.last())
        )));
    }
    if let Some(i) = ptr.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(Error::Data(format!("row_ptr decreases after row {i}")));
    }
    let nodes = adjacency.rows();
    if nodes > u32::MAX as usize {
        return Err(Error::Data(format!("{nodes} nodes: at most {} are supported", u32::MAX)));
    }
    Ok(())
}

/// Every entry of rows whose offsets have been checked: ids in range and increasing, weights usable.
///
/// # Errors
/// The first row that breaks the contract of [`Csr`].
pub fn check_entries(adjacency: &Csr) -> Result<()> {
    let (row_ptr, col_idx, nodes) = (&adjacency.row_ptr[..], &adjacency.col_idx[..], adjacency.rows());
    let broken = (0..nodes).into_par_iter().with_min_len(1 << 12).find_map_first(|i| {
        let row = &col_idx[row_ptr[i] as usize..row_ptr[i + 1] as usize];
        if let Some(&j) = row.iter().max().filter(|&&j| j as usize >= nodes) {
            return Some(Error::Data(format!("row {i} has neighbour {j}: node ids must be below {nodes}")));
        }
        let increasing = row.windows(2).all(|pair| pair[0] < pair[1]);
        (!increasing).then(|| Error::Data(format!("col_idx of row {i} must be strictly increasing")))
    });
    if let Some(error) = broken {
        return Err(error);
    }
    if let Some(weights) = &adjacency.weights {
        if weights.len() != adjacency.entries() {
            return Err(Error::Data(format!("{} edges but {} edge weights", adjacency.entries(), weights.len())));
        }
        if let Some(at) = weights.par_iter().position_first(|&weight| !valid(weight)) {
            return Err(Error::Data(format!("edge weight {at} is {}: {EXPECTED_WEIGHT}", weights[at])));
        }
    }
    Ok(())
}
