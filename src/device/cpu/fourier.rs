//! Responses of Fourier features, evaluated at every point: f_k(x) = sum_s a[k,s] sqrt(2/S) cos(z_s x / w + c_s).
//!
//! Backward  da[k,s] = sum over points of g sqrt(2/S) cos(...); nothing else is learned.
//! Points that follow each other with the same x, as most of a column of zeros and ones do, are evaluated once. Cosines are computed in f64.
//! Deterministic: parts are cut by sizes only and combined in order.

use super::cosine::cosine;
use super::expert::{LANES, TILE, lane_sum};
use super::inputs::InputFeatures;
use super::monb::{JOBS, cut};
use super::panels::Panel;
use super::points::{ColumnSource, RowSource, Source};
use super::{Cpu, CpuInputs, Ops, chunks};
use crate::architecture::{Layout, Waves};
use crate::config::DropoutPlace;
use crate::device::{Dropout, Responses, mixed_forms};
use crate::real::Real;
use harmonia_graph::error::Result;
use harmonia_graph::simd::simd;
use rayon::prelude::*;
use std::marker::PhantomData;
use std::ops::Range;

/// The cosines and what they are multiplied by.
struct Evaluator<'a, T> {
    waves: Waves,
    dropout: Option<&'a Dropout>,
    of: PhantomData<T>,
}

impl<'a, T: Real> Evaluator<'a, T> {
    fn new(dropout: Option<&'a Dropout>, layout: &Layout) -> Self {
        Evaluator { waves: Waves::of(&layout.architecture), dropout, of: PhantomData }
    }

    /// Factor on f_k: 1, or the mask of the feature, and the height of the cosines.
    fn factor(&self, k: usize) -> T {
        let height = T::from_f64(self.waves.height);
        match self.dropout.filter(|dropout| dropout.place == DropoutPlace::Feature) {
            Some(dropout) if dropout.drops(k as u64) => T::zero(),
            Some(dropout) => height * T::from_f64(dropout.scale()),
            None => height,
        }
    }

    /// cos(z_s x + c_s) of every s; what is behind them stays.
    #[inline(always)]
    fn cosines(&self, cosines: &mut [T], x: T) {
        let x = x.widen();
        let waves = self.waves.frequencies.iter().zip(&self.waves.phases);
        cosines.iter_mut().zip(waves).for_each(|(to, (&z, &c))| *to = T::from_f64(cosine(z.mul_add(x, c))));
    }

    /// out[p * stride] = f_k(x_p) for all points of the source.
    fn respond(&self, source: &impl Source<T>, k: usize, a: &[T], out: &mut [T], stride: usize) {
        let (factor, mut x) = (self.factor(k), [T::zero(); TILE]);
        let (mut last, mut value) = (T::nan(), T::zero());
        // Whole lanes: what is behind the cosines is zero.
        let mut cosines = vec![T::zero(); a.len().next_multiple_of(LANES)];
        for start in (0..source.points(k)).step_by(TILE) {
            let count = TILE.min(source.points(k) - start);
            source.load(k, start, &mut x[..count], &mut []);
            simd(
                #[inline(always)]
                || {
                    for (p, &x) in x[..count].iter().enumerate() {
                        if x != last {
                            self.cosines(&mut cosines, x);
                            cosines.iter_mut().zip(a).for_each(|(wave, &a)| *wave *= a);
                            (last, value) = (x, factor * lane_sum(&cosines));
                        }
                        out[(start + p) * stride] = value;
                    }
                },
            );
        }
    }

    /// sums += g cos(...).
    #[inline(always)]
    fn add(&self, sums: &mut [T], cosines: &mut [T], x: T, g: T) {
        if g != T::zero() {
            self.cosines(cosines, x);
            sums.iter_mut().zip(cosines).for_each(|(sum, wave)| *sum += g * *wave);
        }
    }

    /// Gradients of the coefficients of some features over all points of the source.
    fn accumulate(&self, source: &impl Source<T>, features: Range<usize>) -> Vec<T> {
        let bases = self.waves.phases.len();
        let mut sums = vec![T::zero(); features.len() * bases];
        let (mut x, mut g) = ([T::zero(); TILE], [T::zero(); TILE]);
        let mut cosines = vec![T::zero(); bases];
        for (k, sums) in features.zip(sums.chunks_exact_mut(bases)) {
            let factor = self.factor(k);
            let (mut last, mut together) = (T::zero(), T::zero());
            for start in (0..source.points(k)).step_by(TILE) {
                let count = TILE.min(source.points(k) - start);
                source.load(k, start, &mut x[..count], &mut g[..count]);
                simd(
                    #[inline(always)]
                    || {
                        for (&x, &g) in x[..count].iter().zip(&g[..count]) {
                            if x != last {
                                self.add(sums, &mut cosines, last, factor * together);
                                (last, together) = (x, T::zero());
                            }
                            together += g;
                        }
                    },
                );
            }
            self.add(sums, &mut cosines, last, factor * together);
        }
        sums
    }
}

/// F = ...
pub fn forward<T: Ops>(
    responses: &mut Responses<Cpu<T>>,
    inputs: &CpuInputs<T>,
    parameters: &[T],
    dropout: Option<&Dropout>,
    layout: &Layout,
) -> Result<()> {
    let waves = Evaluator::new(dropout, layout);
    let (cols, maskable, bases) = (layout.architecture.features, inputs.maskable(), layout.architecture.bases);
    let coefficients = &parameters[layout.coefficients.clone()];
    let of = |k: usize| &coefficients[k * bases..][..bases];
    match (responses, &inputs.features) {
        (Responses::Sparse(responses), InputFeatures::Sparse(columns)) => {
            let (constants, values) = responses.split_at_mut(cols);
            let source = ColumnSource { columns, gradient: None, dropout, cols };
            let chunks = (&columns.col_ptr[..], values);
            chunks::each_column(&columns.col_chunks, (1, constants), chunks, &|range, constants, mut values| {
                for (k, constant) in range.zip(constants) {
                    let mut at_points = vec![T::zero(); source.points(k)];
                    waves.respond(&source, k, of(k), &mut at_points, 1);
                    *constant = at_points[0];
                    let (here, rest) = values.split_at_mut(at_points.len() - 1);
                    here.iter_mut().zip(&at_points[1..]).for_each(|(to, &value)| *to = value - at_points[0]);
                    values = rest;
                }
            });
        }
        (Responses::Sparse(_), _) | (_, InputFeatures::Sparse(_)) => return Err(mixed_forms()),
        (Responses::Dense(responses), features) => {
            responses.panels_mut().for_each(|Panel { first, width, data }| {
                data.par_chunks_mut(TILE * width).enumerate().for_each(|(chunk, rows)| {
                    let start = chunk * TILE;
                    let rows_here = start..start + rows.len() / width;
                    let source = RowSource { features, rows: rows_here, gradient: None, dropout, maskable, cols };
                    (0..width).for_each(|c| waves.respond(&source, first + c, of(first + c), &mut rows[c..], width));
                });
            });
        }
    }
    Ok(())
}

/// Gradient of coefficients += ...
pub fn backward<T: Ops>(
    gradient: &mut [T],
    d_responses: &Responses<Cpu<T>>,
    inputs: &CpuInputs<T>,
    dropout: Option<&Dropout>,
    layout: &Layout,
) -> Result<()> {
    let waves = Evaluator::<T>::new(dropout, layout);
    let (cols, maskable, bases) = (layout.architecture.features, inputs.maskable(), layout.architecture.bases);
    let parts: Vec<(Range<usize>, Vec<T>)> = match (d_responses, &inputs.features) {
        (Responses::Sparse(d_responses), InputFeatures::Sparse(columns)) => {
            let source = ColumnSource { columns, gradient: Some(d_responses), dropout, cols };
            let parts = cut(cols, JOBS).into_par_iter();
            parts.map(|features| (features.clone(), waves.accumulate(&source, features))).collect()
        }
        (Responses::Sparse(_), _) | (_, InputFeatures::Sparse(_)) => return Err(mixed_forms()),
        (Responses::Dense(d_responses), features) => {
            let rows = cut(d_responses.rows().div_ceil(TILE), JOBS / 2);
            let columns = cut(cols, JOBS / rows.len().max(1));
            let grid: Vec<(Range<usize>, Range<usize>)> =
                rows.iter().flat_map(|r| columns.iter().map(|f| (r.clone(), f.clone()))).collect();
            (grid.into_par_iter())
                .map(|(tiles, columns)| {
                    let rows = tiles.start * TILE..(tiles.end * TILE).min(d_responses.rows());
                    let source = RowSource { features, rows, gradient: Some(d_responses), dropout, maskable, cols };
                    (columns.clone(), waves.accumulate(&source, columns))
                })
                .collect()
        }
    };
    for (features, part) in parts {
        let to = &mut gradient[layout.coefficients.start + features.start * bases..][..part.len()];
        to.iter_mut().zip(part).for_each(|(to, part)| *to += part);
    }
    Ok(())
}
