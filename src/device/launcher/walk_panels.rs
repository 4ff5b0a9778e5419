//! A walk whose matrix has no room on the device: every hop goes through it panel by panel, states stay.
//!
//! A panel has some rows: their offsets, counted from the first of their entries, then columns, then weights. Rows are summed one
//! by one, so that panels change nothing.

use super::belt::{Belt, Panel};
use super::inputs::LongRows;
use super::{Driver, Launcher};
use bytemuck::cast_slice;
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Csr, Transition};
use std::ptr::null;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows that stay together: a word of the sets of rows.
const ROWS: usize = 64;

/// The panels of a matrix.
pub(super) struct PanelCsr<V: Driver> {
    transition: Arc<Transition>,
    transposed: bool,
    parts: Vec<Part<V>>,
    /// Shared by the matrix and its transpose.
    belt: Arc<Mutex<Belt<V>>>,
}

struct Part<V: Driver> {
    first: usize,
    rows: usize,
    /// Counted from the first row of the panel.
    long: Option<LongRows<V>>,
}

/// Rows of a matrix on the device.
pub(super) struct CsrRows<'a, V: Driver> {
    pub(super) first: usize,
    pub(super) rows: usize,
    pub(super) begin: *const u64,
    pub(super) col_idx: *const u32,
    /// Null where there are none.
    pub(super) weights: *const f32,
    pub(super) long: Option<&'a LongRows<V>>,
}

/// Bytes of some rows.
fn bytes(csr: &Csr, first: usize, rows: usize) -> usize {
    let entries = (csr.row_ptr[first + rows] - csr.row_ptr[first]) as usize;
    size_of::<u64>() * (rows + 1) + size_of::<u32>() * entries * (1 + usize::from(csr.weights.is_some()))
}

/// (first row, rows) of panels of at most so many bytes, or of as few rows as stay together.
fn cut(csr: &Csr, most: usize) -> Vec<(usize, usize)> {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for group in (0..csr.rows()).step_by(ROWS) {
        let size = ROWS.min(csr.rows() - group);
        match parts.last_mut() {
            Some((first, rows)) if bytes(csr, *first, *rows + size) <= most => *rows += size,
            _ => parts.push((group, size)),
        }
    }
    parts
}

impl<V: Driver> PanelCsr<V> {
    /// The matrix of a walk and, where it is another, its transpose, in panels of about so many bytes.
    pub(super) fn both(
        launcher: &Launcher<V>,
        transition: &Arc<Transition>,
        most: usize,
    ) -> Result<(PanelCsr<V>, Option<PanelCsr<V>>)> {
        let forward = cut(transition.matrix(), most);
        let backward = (!transition.is_symmetric()).then(|| cut(transition.transposed(), most));
        let largest = |csr: &Csr, parts: &[(usize, usize)]| {
            parts.iter().map(|&(first, rows)| bytes(csr, first, rows)).max().unwrap_or(0)
        };
        let other = backward.as_ref().map_or(0, |parts| largest(transition.transposed(), parts));
        let belt = Belt::new(launcher, largest(transition.matrix(), &forward).max(other))?;
        let belt = Arc::new(Mutex::new(belt));
        let panels = |parts: Vec<(usize, usize)>, transposed: bool| {
            let csr = if transposed { transition.transposed() } else { transition.matrix() };
            let part = |(first, rows): (usize, usize)| {
                let offsets = offsets(csr, first, rows);
                Ok(Part { first, rows, long: LongRows::new(launcher, &offsets, 0..rows)? })
            };
            let parts = parts.into_iter().map(part).collect::<Result<_>>()?;
            Ok(PanelCsr { transition: Arc::clone(transition), transposed, parts, belt: Arc::clone(&belt) })
        };
        Ok((panels(forward, false)?, backward.map(|parts| panels(parts, true)).transpose()?))
    }

    /// Work on all rows, panel by panel.
    pub(super) fn each(
        &self,
        launcher: &Launcher<V>,
        work: &mut dyn FnMut(&CsrRows<'_, V>) -> Result<()>,
    ) -> Result<()> {
        let csr = if self.transposed { self.transition.transposed() } else { self.transition.matrix() };
        let bring = |belt: &mut Belt<V>, panel: Panel| {
            let Part { first, rows, .. } = self.parts[panel.at];
            let offsets = offsets(csr, first, rows);
            let size = bytes(csr, first, rows);
            belt.bring(launcher, panel, size, &mut |from, piece| fill(piece, from, csr, first, &offsets))
        };
        let mut belt = self.belt.lock().unwrap_or_else(PoisonError::into_inner);
        // The next hop, or the next pass, begins with the first panel.
        belt.each(launcher, u64::from(self.transposed), self.parts.len(), true, &bring, &mut |at, address| {
            let Part { first, rows, long } = &self.parts[at];
            let entries = csr.row_ptr[first + rows] - csr.row_ptr[*first];
            let columns = address + (size_of::<u64>() * (rows + 1)) as u64;
            let behind = columns + size_of::<u32>() as u64 * entries;
            work(&CsrRows {
                first: *first,
                rows: *rows,
                begin: address as *const u64,
                col_idx: columns as *const u32,
                weights: if csr.weights.is_some() { behind as *const f32 } else { null() },
                long: long.as_ref(),
            })
        })
    }
}

/// Where the rows of a panel begin among its entries, and the end.
fn offsets(csr: &Csr, first: usize, rows: usize) -> Vec<u64> {
    csr.row_ptr[first..=first + rows].iter().map(|&at| at - csr.row_ptr[first]).collect()
}

/// Bytes from `from` on of a panel: offsets, columns, weights.
fn fill(piece: &mut [u8], from: usize, csr: &Csr, first: usize, offsets: &[u64]) {
    let entries = csr.row_ptr[first] as usize..csr.row_ptr[first + offsets.len() - 1] as usize;
    let weights: &[u8] = csr.weights.as_deref().map_or(&[], |weights| cast_slice(&weights[entries.clone()]));
    let mut begin = 0;
    for section in [cast_slice(offsets), cast_slice(&csr.col_idx[entries]), weights] {
        let (low, high) = (from.max(begin), (from + piece.len()).min(begin + section.len()));
        if low < high {
            piece[low - from..high - from].copy_from_slice(&section[low - begin..high - begin]);
        }
        begin += section.len();
    }
}
