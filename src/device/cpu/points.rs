//! The points x at which a step evaluates responses: every node, or every distinct value of a feature.

use super::ROW_CHUNK;
use super::inputs::{Coded, InputFeatures};
use super::panels::{Panel, Panels};
use crate::device::{Dropout, DropoutPlace, Real};
use rayon::prelude::*;
use std::ops::Range;

/// Values of a column fetched at once.
const LOADED: usize = 128;

/// Points x of one feature with their gradients, tile by tile.
pub trait Source<T>: Sync {
    /// Number of points of feature k.
    fn points(&self, k: usize) -> usize;
    /// Points start.. of feature k, and their gradients when there are any.
    fn load(&self, k: usize, start: usize, x: &mut [T], g: &mut [T]);
    /// Which element of X point `p` is, for masks that differ by element.
    fn element(&self, k: usize, p: usize) -> u64;
}

/// Every node is a point.
pub struct RowSource<'a, T> {
    /// X.
    pub features: &'a InputFeatures,
    /// Nodes.
    pub rows: Range<usize>,
    /// dF, in a backward pass.
    pub gradient: Option<&'a Panels<T>>,
    /// Masks of inputs.
    pub dropout: Option<&'a Dropout>,
    /// d.
    pub cols: usize,
}

impl<T: Real> Source<T> for RowSource<'_, T> {
    fn points(&self, _: usize) -> usize {
        self.rows.len()
    }

    fn load(&self, k: usize, start: usize, x: &mut [T], g: &mut [T]) {
        let dropout = self.dropout.filter(|dropout| dropout.place == DropoutPlace::Input);
        let mut column = [0f32; LOADED];
        for (portion, x) in x.chunks_mut(LOADED).enumerate() {
            let start = start + portion * LOADED;
            let column = &mut column[..x.len()];
            self.features.load(k, self.rows.start + start, self.cols, column);
            for (p, (x, &value)) in x.iter_mut().zip(&*column).enumerate() {
                let value = T::from_f32(value);
                *x = match dropout {
                    Some(dropout) if dropout.drops(self.element(k, start + p)) => T::zero(),
                    Some(dropout) => value * T::from_f64(dropout.scale()),
                    None => value,
                };
            }
        }
        if let Some(gradient) = self.gradient {
            let (column, stride) = gradient.column(k);
            for (p, g) in g.iter_mut().enumerate() {
                *g = column[(self.rows.start + start + p) * stride];
            }
        }
    }

    fn element(&self, k: usize, p: usize) -> u64 {
        (self.rows.start + p) as u64 * self.cols as u64 + k as u64
    }
}

/// Distinct values a step can meet: the table of each feature, plus 0 where inputs may be dropped.
pub struct Points<T> {
    /// First point of each feature, and the total.
    pub offsets: Vec<usize>,
    /// Their values.
    pub x: Vec<T>,
    input_dropout: bool,
}

impl<T: Real> Points<T> {
    /// Points of a step.
    pub fn new(coded: &Coded, dropout: Option<&Dropout>) -> Self {
        let dropout = dropout.filter(|dropout| dropout.place == DropoutPlace::Input);
        let scale = dropout.map_or(T::one(), |dropout| T::from_f64(dropout.scale()));
        let (mut offsets, mut x) = (vec![0], Vec::new());
        for range in coded.offsets.windows(2) {
            let values = &coded.values[range[0] as usize..range[1] as usize];
            x.extend(values.iter().map(|&value| T::from_f32(value) * scale));
            x.extend(dropout.map(|_| T::zero()));
            offsets.push(x.len());
        }
        Points { offsets, x, input_dropout: dropout.is_some() }
    }

    /// Calls `visit(column, point)` for the elements of row i in columns `first`.. of X, `width` of them.
    #[inline(always)]
    pub fn visit_row(
        &self,
        coded: &Coded,
        i: usize,
        first: usize,
        width: usize,
        dropout: Option<&Dropout>,
        mut visit: impl FnMut(usize, usize),
    ) {
        let start = i * coded.cols + first;
        let codes = &coded.codes[start..start + width];
        let offsets = &self.offsets[first..=first + width];
        let dropout = dropout.filter(|_| self.input_dropout);
        for (column, (&code, range)) in codes.iter().zip(offsets.windows(2)).enumerate() {
            let point = range[0] + usize::from(code);
            visit(
                column,
                match dropout {
                    // Zero stays zero whether dropped or not.
                    Some(dropout) if self.x[point] != T::zero() && dropout.drops((start + column) as u64) => {
                        range[1] - 1
                    }
                    _ => point,
                },
            );
        }
    }

    /// Sum of dF over the elements that share a point.
    pub fn gather_gradient(&self, coded: &Coded, d_responses: &Panels<T>, dropout: Option<&Dropout>) -> Vec<T> {
        let parts: Vec<Vec<T>> = d_responses
            .panels()
            .map(|Panel { first, width, data }| {
                let base = self.offsets[first];
                let size = self.offsets[first + width] - base;
                let chunks: Vec<Vec<T>> = (data.par_chunks(ROW_CHUNK * width).enumerate())
                    .map(|(chunk, rows)| {
                        let mut sums = vec![T::zero(); size];
                        for (r, row) in rows.chunks_exact(width).enumerate() {
                            let i = chunk * ROW_CHUNK + r;
                            self.visit_row(coded, i, first, width, dropout, |column, point| {
                                sums[point - base] += row[column];
                            });
                        }
                        sums
                    })
                    .collect();
                let mut total = vec![T::zero(); size];
                for sums in chunks {
                    total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
                }
                total
            })
            .collect();
        parts.concat()
    }
}

/// Every distinct value is a point.
pub struct PointSource<'a, T> {
    /// Values.
    pub points: &'a Points<T>,
    /// Gradient of each, in a backward pass.
    pub g: &'a [T],
}

impl<T: Real> Source<T> for PointSource<'_, T> {
    fn points(&self, k: usize) -> usize {
        self.points.offsets[k + 1] - self.points.offsets[k]
    }

    fn load(&self, k: usize, start: usize, x: &mut [T], g: &mut [T]) {
        let first = self.points.offsets[k] + start;
        x.copy_from_slice(&self.points.x[first..first + x.len()]);
        if !self.g.is_empty() {
            g.copy_from_slice(&self.g[first..first + g.len()]);
        }
    }

    fn element(&self, _: usize, _: usize) -> u64 {
        // A table is used only where masks do not differ by element.
        0
    }
}
