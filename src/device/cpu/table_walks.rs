//! What sampled walks add to a table that interpolates: the responses at their ends less what the table makes of these.
//!
//! With R walks of every row, w(i,r,t) where walk r is after t steps, g_q the points of a feature and F_q the responses there,
//! ramp_q(x) = (x - g_{q-1}) / (g_q - g_{q-1}) within [0, 1], and c_t = theta_tk (1 - p) / R where inputs are dropped with p:
//! Forward   H[i,k] += sum_{t,r} c_t v(w), v(w) = F[w,k] - F_0 - sum_q ramp_q(x_wk) (F_q - F_{q-1})
//! Backward  dF[w,k] = c_t dH[i,k]; dtheta[t,k] += sum_{i,r} (1 - p) / R dH[i,k] v(w);
//!           S_0 = sum c_t dH[i,k], S_q = sum c_t dH[i,k] ramp_q(x_wk): dF_q -= S_q - S_{q+1}
//! What is added vanishes at the points, and averaged over walks it is what the table lacks. Sums over rows are taken in
//! stretches that depend on sizes only.

use super::table::{JOBS, ROWS};
use crate::batch::TableRows;
use crate::real::Real;
use harmonia_graph::simd::simd;
use rayon::prelude::*;

/// What both directions read.
pub struct Walks<'a> {
    /// X of the batch, rows x d.
    x: &'a [f32],
    table: &'a TableRows,
    d: usize,
    /// Interpolated pieces: of the feature that has most.
    pieces: usize,
    /// 1 / (g_q - g_{q-1}), pieces x d; 0 where a feature has no such piece.
    inverse_gaps: Vec<f32>,
}

/// Sums over rows.
pub struct WalkSums {
    /// What is added to dtheta, steps x d.
    pub hop_weights: Vec<f64>,
    /// What is added to the gradients at points, points x d.
    pub points: Vec<f64>,
}

impl<'a> Walks<'a> {
    /// Of a batch whose walks were drawn; none where there are none.
    pub fn of(table: &'a TableRows, x: &'a [f32], d: usize) -> Option<Self> {
        (table.ends() > 0).then(|| {
            let (grid, pieces) = (&table.table.grid, table.table.grid.most() - 1);
            let points = &x[table.own() * d..][..(pieces + 1) * d];
            let gap = |at: usize| points[at + d] - points[at];
            let inverse = |at: usize| if at / d < grid.stored(at % d) { 1.0 / gap(at) } else { 0.0 };
            Walks { x, table, d, pieces, inverse_gaps: (0..pieces * d).map(inverse).collect() }
        })
    }

    fn points(&self) -> &[f32] {
        &self.x[self.table.own() * self.d..][..(self.pieces + 1) * self.d]
    }

    fn steps(&self) -> usize {
        self.table.table.contents.steps()
    }

    /// Rows of X at the ends of the walks of a row.
    fn ends_of_a_row(&self) -> usize {
        self.table.walks * self.steps()
    }

    /// What a walk counts: (1 - p) / R.
    fn share<T: Real>(&self) -> T {
        T::from_f64((1.0 - self.table.dropped) / self.table.walks as f64)
    }

    /// F_0, then F_q - F_{q-1} of every piece: (pieces + 1) x d.
    fn differences<T: Real>(&self, responses: &[T]) -> Vec<T> {
        let (d, points) = (self.d, &responses[self.table.own() * self.d..][..(self.pieces + 1) * self.d]);
        let mut differences = points.to_vec();
        for at in (d..differences.len()).rev() {
            differences[at] = points[at] - points[at - d];
        }
        differences
    }

    /// v of one end: its response less what is interpolated there.
    #[inline(always)]
    fn lacking<T: Real>(&self, out: &mut [T], response: &[T], x: &[f32], differences: &[T]) {
        for ((out, &response), &zero) in out.iter_mut().zip(response).zip(differences) {
            *out = response - zero;
        }
        for q in 0..self.pieces {
            let (low, inverse) = (&self.points()[q * self.d..][..self.d], &self.inverse_gaps[q * self.d..][..self.d]);
            let difference = &differences[(q + 1) * self.d..][..self.d];
            for k in 0..self.d {
                out[k] -= ramp::<T>(x[k], low[k], inverse[k]) * difference[k];
            }
        }
    }

    /// Adds to H, rows x d.
    pub fn forward<T: Real>(&self, state: &mut [T], responses: &[T], theta: &[T]) {
        let (d, steps, share) = (self.d, self.steps(), self.share::<T>());
        let differences = self.differences(responses);
        state.par_chunks_mut(ROWS * d.max(1)).enumerate().for_each(|(task, rows)| {
            simd(
                #[inline(always)]
                || {
                    let mut lacking = vec![T::zero(); d];
                    for (at, row) in rows.chunks_exact_mut(d).enumerate() {
                        let first = self.table.first_end() + (task * ROWS + at) * self.ends_of_a_row();
                        for end in 0..self.ends_of_a_row() {
                            let place = (first + end) * d;
                            self.lacking(&mut lacking, &responses[place..][..d], &self.x[place..][..d], &differences);
                            let theta = &theta[(1 + end % steps) * d..][..d];
                            for ((value, &lacking), &theta) in row.iter_mut().zip(&lacking).zip(theta) {
                                *value += theta * share * lacking;
                            }
                        }
                    }
                },
            );
        });
    }

    /// In: `responses` = F. Out: rows of the ends = dF, and what is to be added elsewhere.
    pub fn backward<T: Real>(&self, responses: &mut [T], d_state: &[T], theta: &[T]) -> WalkSums {
        let d = self.d;
        let differences = self.differences(responses);
        let rows = self.table.rows.len();
        let job_rows = rows.div_ceil(ROWS).div_ceil(JOBS).max(1) * ROWS;
        let ends = &mut responses[self.table.first_end() * d..];
        let parts: Vec<WalkSums> = (ends.par_chunks_mut(job_rows * self.ends_of_a_row() * d).enumerate())
            .map(|(job, ends)| {
                let mut sums = self.zeros();
                for (at, ends) in ends.chunks_mut(ROWS * self.ends_of_a_row() * d).enumerate() {
                    self.add(&mut sums, ends, d_state, theta, &differences, job * job_rows + at * ROWS);
                }
                sums
            })
            .collect();
        let mut total = self.zeros();
        for part in &parts {
            let add = |to: &mut [f64], from: &[f64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
            add(&mut total.hop_weights, &part.hop_weights);
            add(&mut total.points, &part.points);
        }
        // S_q - S_{q+1}, taken off.
        for at in 0..total.points.len() {
            let above = total.points.get(at + d).copied().unwrap_or(0.0);
            total.points[at] = above - total.points[at];
        }
        total
    }

    fn zeros(&self) -> WalkSums {
        WalkSums { hop_weights: vec![0.0; self.steps() * self.d], points: vec![0.0; (self.pieces + 1) * self.d] }
    }

    /// Some rows from `first` on: summed as `T` among them, then widened.
    fn add<T: Real>(
        &self,
        sums: &mut WalkSums,
        ends: &mut [T],
        d_state: &[T],
        theta: &[T],
        differences: &[T],
        first: usize,
    ) {
        let (d, steps, share) = (self.d, self.steps(), self.share::<T>());
        simd(
            #[inline(always)]
            || {
                let mut lacking = vec![T::zero(); d];
                let mut hop_weights = vec![T::zero(); steps * d];
                let mut points = vec![T::zero(); (self.pieces + 1) * d];
                for (at, response) in ends.chunks_exact_mut(d).enumerate() {
                    let (row, t) = (first + at / self.ends_of_a_row(), at % steps);
                    let x = &self.x[(self.table.first_end() + first * self.ends_of_a_row() + at) * d..][..d];
                    self.lacking(&mut lacking, response, x, differences);
                    let (d_row, theta) = (&d_state[row * d..][..d], &theta[(1 + t) * d..][..d]);
                    let sum = &mut hop_weights[t * d..][..d];
                    for k in 0..d {
                        let weighed = share * d_row[k];
                        sum[k] += weighed * lacking[k];
                        response[k] = theta[k] * weighed;
                        points[k] += response[k];
                    }
                    for q in 0..self.pieces {
                        let (low, inverse) = (&self.points()[q * d..][..d], &self.inverse_gaps[q * d..][..d]);
                        let sum = &mut points[(q + 1) * d..][..d];
                        for k in 0..d {
                            sum[k] += response[k] * ramp::<T>(x[k], low[k], inverse[k]);
                        }
                    }
                }
                for (sums, found) in [(&mut sums.hop_weights, &hop_weights), (&mut sums.points, &points)] {
                    sums.iter_mut().zip(found.iter()).for_each(|(sum, found)| *sum += found.widen());
                }
            },
        );
    }
}

/// How far x is along a piece, from 0 to 1.
#[inline(always)]
fn ramp<T: Real>(x: f32, low: f32, inverse_gap: f32) -> T {
    let along = (T::from_f32(x) - T::from_f32(low)) * T::from_f32(inverse_gap);
    if along < T::zero() {
        T::zero()
    } else if along > T::one() {
        T::one()
    } else {
        along
    }
}
