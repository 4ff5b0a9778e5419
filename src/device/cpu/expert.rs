//! One expert network on a tile of points: the dense-layer kernels of MoNB.
//!
//! Activations are stored unit by unit (`[unit][point]`), so that the points of a tile are the SIMD lanes and every
//! weight is a broadcast. The number of points is a multiple of [`LANES`]; padding points carry zero gradient.
//!
//! Forward   h_0 = x, h_l = relu(W_l h_{l-1} + b_l)
//! Backward  d_l = dh_l * relu', dW_l += d_l h_{l-1}^T, db_l += d_l 1, dh_{l-1} = W_l^T d_l

use crate::device::{Dropout, Real};
use crate::model::Layer;

/// Points in one SIMD step: one AVX-512 register of f32.
pub const LANES: usize = 16;
/// Points in a tile: enough to amortise the sums of weight gradients, few enough to stay in L2.
pub const TILE: usize = 256;
/// Units that share one load of their input.
const UNITS: usize = 8;

/// Hidden activations and gradients of one tile.
pub struct Scratch<T> {
    activations: Vec<Vec<T>>,
    delta: Vec<T>,
    next_delta: Vec<T>,
}

/// Masks of hidden units: dropout, and the index of the first mask of a point.
pub struct HiddenMask<'a> {
    /// Rate and stream.
    pub dropout: &'a Dropout,
    /// Index of point p, in units of the masks of one point.
    pub point: &'a dyn Fn(usize) -> u64,
}

impl<T: Real> Scratch<T> {
    /// For experts with these hidden widths.
    pub fn new(hidden: &[usize]) -> Self {
        let widest = hidden.iter().copied().max().unwrap_or(0);
        Scratch {
            activations: hidden.iter().map(|&width| vec![T::zero(); width * TILE]).collect(),
            delta: vec![T::zero(); widest * TILE],
            next_delta: vec![T::zero(); widest * TILE],
        }
    }

    /// Last hidden activations after [`Scratch::forward`]: `[unit][point]` (x itself without hidden layers).
    #[inline(always)]
    pub fn last<'a>(&'a self, x: &'a [T], width: usize) -> &'a [T] {
        self.activations.last().map_or(x, |last| &last[..width * x.len()])
    }

    /// Runs the hidden layers on x.
    #[inline(always)]
    pub fn forward(&mut self, hidden: &[Layer], parameters: &[T], x: &[T], mask: Option<&HiddenMask<'_>>) {
        let points = x.len();
        let units: usize = hidden.iter().map(|layer| layer.outputs).sum();
        let mut first_unit = 0;
        for (l, layer) in hidden.iter().enumerate() {
            let (before, after) = self.activations.split_at_mut(l);
            let input = before.last().map_or(x, |h| &h[..layer.inputs * points]);
            let output = &mut after[0][..layer.outputs * points];
            let (weight, bias) = (&parameters[layer.weight.clone()], &parameters[layer.bias.clone()]);
            dense(output, weight, [layer.inputs, 1], Some(bias), input, layer.inputs);
            output.iter_mut().for_each(|value| *value = value.max(T::zero()));
            if let Some(mask) = mask {
                let keep = T::from_f64(mask.dropout.scale());
                for (unit, row) in output.chunks_exact_mut(points).enumerate() {
                    for (p, value) in row.iter_mut().enumerate() {
                        let index = (mask.point)(p) * units as u64 + (first_unit + unit) as u64;
                        *value = if mask.dropout.drops(index) { T::zero() } else { *value * keep };
                    }
                }
            }
            first_unit += layer.outputs;
        }
    }

    /// After `forward`: adds the gradients of the hidden layers, given d_last(unit, point) = head[unit] * g[point].
    /// `keep` is the factor of kept units under dropout, else 1.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub fn backward(
        &mut self,
        gradient: &mut [T],
        hidden: &[Layer],
        parameters: &[T],
        x: &[T],
        g: &[T],
        head: &[T],
        keep: T,
    ) {
        let points = x.len();
        let Some(last) = hidden.last() else { return };
        for (unit, row) in self.delta[..last.outputs * points].chunks_exact_mut(points).enumerate() {
            let slope = head[unit] * keep;
            row.iter_mut().zip(g).for_each(|(delta, &g)| *delta = slope * g);
        }
        for (l, layer) in hidden.iter().enumerate().rev() {
            let delta = &mut self.delta[..layer.outputs * points];
            // A unit that is zero is off: cut by ReLU or dropped.
            for (delta, &h) in delta.iter_mut().zip(&self.activations[l]) {
                *delta = if h > T::zero() { *delta } else { T::zero() };
            }
            let input = if l == 0 { x } else { &self.activations[l - 1][..layer.inputs * points] };
            outer(&mut gradient[layer.weight.clone()], delta, input, points);
            for (bias, row) in gradient[layer.bias.clone()].iter_mut().zip(delta.chunks_exact(points)) {
                *bias += lane_sum(row);
            }
            if l > 0 {
                let next = &mut self.next_delta[..layer.inputs * points];
                dense(next, &parameters[layer.weight.clone()], [1, layer.inputs], None, delta, layer.outputs);
                next.iter_mut().for_each(|value| *value *= keep);
                std::mem::swap(&mut self.delta, &mut self.next_delta);
            }
        }
    }
}

/// out[u][p] = bias[u] + sum_v weight[u * strides[0] + v * strides[1]] * input[v][p].
#[inline(always)]
fn dense<T: Real>(out: &mut [T], weight: &[T], strides: [usize; 2], bias: Option<&[T]>, input: &[T], inputs: usize) {
    let points = input.len() / inputs;
    let bias = |unit: usize| bias.map_or(T::zero(), |bias| bias[unit]);
    let units = out.len() / points;
    let mut unit = 0;
    while unit + UNITS <= units {
        for p in (0..points).step_by(LANES) {
            let mut sum = [[T::zero(); LANES]; UNITS];
            for (r, sum) in sum.iter_mut().enumerate() {
                *sum = [bias(unit + r); LANES];
            }
            for v in 0..inputs {
                let x = &input[v * points + p..][..LANES];
                for (r, sum) in sum.iter_mut().enumerate() {
                    let w = weight[(unit + r) * strides[0] + v * strides[1]];
                    for lane in 0..LANES {
                        sum[lane] = x[lane].mul_add(w, sum[lane]);
                    }
                }
            }
            for (r, sum) in sum.iter().enumerate() {
                out[(unit + r) * points + p..][..LANES].copy_from_slice(sum);
            }
        }
        unit += UNITS;
    }
    for unit in unit..units {
        for p in (0..points).step_by(LANES) {
            let mut sum = [bias(unit); LANES];
            for v in 0..inputs {
                let x = &input[v * points + p..][..LANES];
                let w = weight[unit * strides[0] + v * strides[1]];
                for lane in 0..LANES {
                    sum[lane] = x[lane].mul_add(w, sum[lane]);
                }
            }
            out[unit * points + p..][..LANES].copy_from_slice(&sum);
        }
    }
}

/// d_weight[u][v] += sum_p delta[u][p] * input[v][p].
#[inline(always)]
fn outer<T: Real>(d_weight: &mut [T], delta: &[T], input: &[T], points: usize) {
    let (units, inputs) = (delta.len() / points, input.len() / points);
    const BLOCK: usize = 4;
    for first in (0..units).step_by(BLOCK) {
        let block = BLOCK.min(units - first);
        for v in 0..inputs {
            let x = &input[v * points..][..points];
            let mut sum = [[T::zero(); LANES]; BLOCK];
            if block == BLOCK {
                for p in (0..points).step_by(LANES) {
                    let x = &x[p..][..LANES];
                    for (r, sum) in sum.iter_mut().enumerate() {
                        let delta = &delta[(first + r) * points + p..][..LANES];
                        for lane in 0..LANES {
                            sum[lane] = x[lane].mul_add(delta[lane], sum[lane]);
                        }
                    }
                }
            } else {
                for (r, sum) in sum.iter_mut().enumerate().take(block) {
                    let row = &delta[(first + r) * points..][..points];
                    for (x, delta) in x.chunks_exact(LANES).zip(row.chunks_exact(LANES)) {
                        for lane in 0..LANES {
                            sum[lane] = x[lane].mul_add(delta[lane], sum[lane]);
                        }
                    }
                }
            }
            for (r, sum) in sum.iter().enumerate().take(block) {
                d_weight[(first + r) * inputs + v] += tree_sum(*sum);
            }
        }
    }
}

/// sum_p a[p] * b[p], lane by lane.
#[inline(always)]
pub fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let mut sum = [T::zero(); LANES];
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            sum[lane] = a[lane].mul_add(b[lane], sum[lane]);
        }
    }
    tree_sum(sum)
}

/// sum_p a[p], lane by lane.
#[inline(always)]
pub fn lane_sum<T: Real>(a: &[T]) -> T {
    let mut sum = [T::zero(); LANES];
    for a in a.chunks_exact(LANES) {
        for lane in 0..LANES {
            sum[lane] += a[lane];
        }
    }
    tree_sum(sum)
}

#[inline(always)]
fn tree_sum<T: Real>(mut lanes: [T; LANES]) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            let other = lanes[lane + half];
            lanes[lane] += other;
        }
        half /= 2;
    }
    lanes[0]
}
