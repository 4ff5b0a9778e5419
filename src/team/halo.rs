//! What the rows of a rank read of nodes that others have: a row of a state for each, sent before every hop.
//!
//! States of a rank have its own nodes first and those of others behind them, in the order of nodes, and so in that of ranks.
//! Rows that read nobody else's are summed while the others are on their way.

use super::{Share, Team};
use bytemuck::{AnyBitPattern, NoUninit};
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Csr, RowSet};
use std::sync::Arc;

/// Who sends which rows to whom.
#[derive(Debug)]
pub struct Halo {
    team: Arc<dyn Team>,
    /// Nodes of this rank.
    own: usize,
    /// Of every rank, which of these it reads.
    wanted: Vec<Vec<u32>>,
    /// Nodes of others that this rank reads.
    others: usize,
}

impl Halo {
    /// Tells every rank which of its nodes are read here.
    ///
    /// # Errors
    /// Another rank has failed.
    pub fn new(share: &Share, matrix: &Csr, others: Vec<u32>) -> Result<Halo> {
        let team = Arc::clone(&share.team);
        let mut asked: Vec<Vec<u32>> = vec![Vec::new(); team.size()];
        for &node in &others {
            let owner = share.owner_of_node(node as usize);
            asked[owner].push(node - share.bounds[owner] as u32);
        }
        let pieces = asked.iter().map(|nodes| bytemuck::cast_slice(nodes).to_vec()).collect();
        let wanted = team.exchange(pieces)?.iter().map(|bytes| super::numbers(bytes)).collect::<Result<_>>()?;
        Ok(Halo { team, own: matrix.rows(), wanted, others: others.len() })
    }

    /// Nodes of this rank, behind which those of others stand.
    pub fn own(&self) -> usize {
        self.own
    }

    /// Nodes of others that are read here.
    pub fn others(&self) -> usize {
        self.others
    }

    /// Rows of this rank that are sent in a hop.
    pub fn sent_rows(&self) -> usize {
        self.wanted.iter().map(Vec::len).sum()
    }

    /// The rows that read nobody else's, and those that do.
    pub fn rows(&self, csr: &Csr) -> [RowSet; 2] {
        let reads = |i: usize| csr.col_idx[csr.row(i)].iter().any(|&j| j as usize >= self.own);
        [RowSet::of(csr, |i| !reads(i)), RowSet::of(csr, reads)]
    }

    /// What the rows of others are in a state whose own rows are at the beginning of `state`, `width` numbers each, of which `used`
    /// are sent; with work that is done meanwhile.
    ///
    /// # Errors
    /// Another rank has failed.
    pub fn exchange<S: NoUninit + AnyBitPattern>(
        &self,
        state: &[S],
        (width, used): (usize, usize),
        work: &mut dyn FnMut(),
    ) -> Result<Vec<S>> {
        let pieces = self.wanted.iter().map(|rows| {
            let mut piece = Vec::with_capacity(rows.len() * used * size_of::<S>());
            let row = |&i: &u32| &state[i as usize * width..][..used];
            rows.iter().for_each(|i| piece.extend_from_slice(bytemuck::cast_slice(row(i))));
            piece
        });
        let came = self.team.exchange_beside(pieces.collect(), work)?;
        // In the order of ranks, which is that of nodes.
        let rows = came.iter().map(|bytes| super::numbers::<S>(bytes)).collect::<Result<Vec<_>>>()?;
        Ok(rows.concat())
    }

    /// The largest of a number of every rank.
    ///
    /// # Errors
    /// Another rank has failed.
    pub fn largest(&self, own: f64) -> Result<f64> {
        let all = self.team.gather(&own.to_le_bytes())?;
        let numbers = all.iter().map(|bytes| super::numbers::<f64>(bytes)).collect::<Result<Vec<_>>>()?;
        Ok(numbers.into_iter().flatten().fold(0.0, f64::max))
    }
}
