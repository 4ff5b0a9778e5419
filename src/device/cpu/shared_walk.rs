//! Class space along the walk of a rank's own nodes: as `walk`, with the rows of others fetched before every hop.
//!
//! A state is copied beside what came from others, and rows of the walk read both. Rows that read nobody else's are summed while
//! the others are on their way. Sums are taken in the order of entries, which is that of the whole graph: a hop has the same bits
//! as on one rank.

use super::Cpu;
use super::element::Element;
use super::gather::{self, Part};
use super::hops::{Hops, Stored, with_states};
use super::inputs::CpuWalk;
use super::walk::{half_scale, largest_by_degree};
use super::{ROW_CHUNK, chunks};
use crate::real::Real;
use crate::team::Halo;
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Csr, RowSet};
use harmonia_graph::simd::simd;
use rayon::prelude::*;
use std::sync::Arc;

/// Part of the entries from which on it pays to sum rows that read nobody else's apart from the others.
const APART: f64 = 0.125;

/// What hops of a rank's own nodes read of others.
pub struct CpuHalo {
    /// Who sends what to whom.
    pub halo: Arc<Halo>,
    /// Rows of A that read nobody else's, and those that do; none where the former are too few.
    matrix: Option<[RowSet; 2]>,
    /// The same of A^T.
    transposed: Option<[RowSet; 2]>,
}

impl CpuHalo {
    /// Of a walk on own nodes.
    pub fn new(halo: &Arc<Halo>, matrix: &Csr, transposed: &Csr) -> Self {
        let apart = |csr: &Csr| {
            let rows = halo.rows(csr);
            (rows[0].entries() as f64 >= APART * csr.entries() as f64).then_some(rows)
        };
        CpuHalo { matrix: apart(matrix), transposed: apart(transposed), halo: Arc::clone(halo) }
    }
}

/// What a hop is made of.
struct Hop<'a, T> {
    cpu: &'a Cpu<T>,
    csr: &'a Csr,
    bounds: &'a [usize],
    inverse_degree: &'a [T],
    halo: &'a Halo,
    rows: Option<&'a [RowSet; 2]>,
    width: usize,
    outputs: usize,
}

impl<T: Real> Hop<'_, T> {
    /// to (+)= D^-1 A from; `beside` holds from and the rows of others. Every row of `to`, of as many columns as are told with it, is
    /// put once, by `put(place, sum)`.
    fn take<S: Element<T>, R: Send>(
        &self,
        (to, columns): (&mut [R], usize),
        from: &[S],
        beside: &mut [S],
        put: &(impl Fn(&mut R, T) + Sync),
    ) -> Result<()> {
        let (width, outputs) = (self.width, self.outputs);
        let (own, others) = beside.split_at_mut(from.len());
        own.par_chunks_mut(ROW_CHUNK * width)
            .zip(from.par_chunks(ROW_CHUNK * width))
            .for_each(|(to, from)| to.copy_from_slice(from));
        let early = |to: &mut [R]| self.rows.iter().for_each(|rows| self.add((to, columns), own, Some(&rows[0]), put));
        let came = self.halo.exchange(from, (width, outputs), &mut || early(to))?;
        for (to, row) in others.chunks_exact_mut(width).zip(came.chunks_exact(outputs.max(1))) {
            to[..outputs].copy_from_slice(row);
        }
        self.add((to, columns), beside, self.rows.map(|rows| &rows[1]), put);
        Ok(())
    }

    fn add<S: Element<T>, R: Send>(
        &self,
        (to, columns): (&mut [R], usize),
        from: &[S],
        rows: Option<&RowSet>,
        put: &(impl Fn(&mut R, T) + Sync),
    ) {
        let width = self.width;
        let part = Part { rows, sources: None };
        chunks::each(self.bounds, columns, to, &|span, out| {
            simd(
                #[inline(always)]
                || {
                    let base = span.start;
                    gather::rows(&self.cpu.parts, from, width, self.csr, part, span, |i, first, sums| {
                        let scale = self.inverse_degree[i];
                        // What is padded has no place in rows that are not.
                        let end = columns.min(first + sums.len());
                        let out = &mut out[(i - base) * columns..][first.min(end)..end];
                        out.iter_mut().zip(sums).for_each(|(out, &sum)| put(out, sum * scale));
                    });
                },
            );
        });
    }
}

/// logits = beta + A_0; the states are gone.
pub fn forward<T: Real>(
    cpu: &Cpu<T>,
    logits: &mut [T],
    hops: &mut Hops<T>,
    bias: &[T],
    walk: &CpuWalk<T>,
    halo: &CpuHalo,
) -> Result<()> {
    let (csr, bounds) = walk.matrix();
    let (width, outputs, count) = (hops.width, bias.len(), hops.hops);
    let inverse_degree = &walk.inverse_degree[..];
    let hop = Hop { cpu, csr, bounds, inverse_degree, halo: &halo.halo, rows: halo.matrix.as_ref(), width, outputs };
    let size = hops.rows * width;
    with_states!(&mut hops.states, states => {
        let mut beside = room(states, size + halo.halo.others() * width);
        for t in (1..count.saturating_sub(1)).rev() {
            let (before, from) = states.split_at_mut((t + 1) * size);
            let to = (&mut before[t * size..], width);
            hop.take(to, &from[..size], &mut beside, &|to, sum| *to = Element::<T>::store(Element::<T>::load(*to) + sum))?;
        }
        let rows = logits.par_chunks_mut((ROW_CHUNK * outputs).max(1)).zip(states[..size].par_chunks(ROW_CHUNK * width));
        rows.for_each(|(logits, states)| {
            for (row, state) in logits.chunks_exact_mut(outputs).zip(states.chunks_exact(width)) {
                row.iter_mut().zip(bias).zip(state).for_each(|((to, &bias), state)| *to = bias + state.load());
            }
        });
        // Not by way of a state, which may be stored in half precision.
        if count > 1 {
            hop.take((logits, outputs), &states[size..2 * size], &mut beside, &|to, sum| *to += sum)?;
        }
    });
    Ok(())
}

/// The states hold Z_t = D^-1 Y_t, times `hops.scale`, which is the same on all ranks.
pub fn backward<T: Real>(
    cpu: &Cpu<T>,
    hops: &mut Hops<T>,
    d_logits: &[T],
    outputs: usize,
    walk: &CpuWalk<T>,
    halo: &CpuHalo,
) -> Result<()> {
    hops.scale = match hops.states {
        Stored::Native(_) => T::one(),
        _ => {
            let largest = largest_by_degree(d_logits, &walk.inverse_degree, outputs);
            half_scale(T::from_f64(halo.halo.largest(largest.widen())?))
        }
    };
    let (csr, bounds) = walk.transposed();
    let (width, count, scale) = (hops.width, hops.hops, hops.scale);
    let inverse_degree = &walk.inverse_degree[..];
    let hop =
        Hop { cpu, csr, bounds, inverse_degree, halo: &halo.halo, rows: halo.transposed.as_ref(), width, outputs };
    let size = hops.rows * width;
    with_states!(&mut hops.states, states => {
        let rows = states[..size].par_chunks_mut(ROW_CHUNK * width).zip(d_logits.par_chunks((ROW_CHUNK * outputs).max(1)));
        rows.zip(walk.inverse_degree.par_chunks(ROW_CHUNK)).for_each(|((states, d_logits), inverse)| {
            let rows = states.chunks_exact_mut(width).zip(d_logits.chunks_exact(outputs));
            for ((state, d_row), &inverse) in rows.zip(inverse) {
                state.iter_mut().zip(d_row).for_each(|(to, &d)| *to = Element::store(d * scale * inverse));
            }
        });
        let mut beside = room(states, size + halo.halo.others() * width);
        for t in 1..count {
            let (before, next) = states.split_at_mut(t * size);
            hop.take((&mut next[..size], width), &before[(t - 1) * size..], &mut beside, &|to, sum: T| {
                *to = Element::store(sum);
            })?;
        }
    });
    Ok(())
}

/// Zeroed, of the type of some states.
fn room<S: Copy + Default>(_: &[S], length: usize) -> Vec<S> {
    vec![S::default(); length]
}
