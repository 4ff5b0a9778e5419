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
    buffers: Rearranged<T>,
}

/// Rearranged operands of one product.
struct Rearranged<T> {
    transposed: Vec<T>,
    product: Vec<T>,
    packed: Vec<[T; UNITS]>,
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
            buffers: Rearranged { transposed: Vec::new(), product: Vec::new(), packed: Vec::new() },
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
            dense(output, weight, [layer.inputs, 1], Some(bias), input, layer.inputs, &mut self.buffers.packed);
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
            outer(&mut gradient[layer.weight.clone()], delta, input, points, &mut self.buffers);
            for (bias, row) in gradient[layer.bias.clone()].iter_mut().zip(delta.chunks_exact(points)) {
                *bias += lane_sum(row);
            }
            if l > 0 {
                let next = &mut self.next_delta[..layer.inputs * points];
                let weight = &parameters[layer.weight.clone()];
                dense(next, weight, [1, layer.inputs], None, delta, layer.outputs, &mut self.buffers.packed);
                next.iter_mut().for_each(|value| *value *= keep);
                std::mem::swap(&mut self.delta, &mut self.next_delta);
            }
        }
    }
}

/// out[u][p] = bias[u] + sum_v weight[u * strides[0] + v * strides[1]] * input[v][p].
#[inline(always)]
fn dense<T: Real>(
    out: &mut [T],
    weight: &[T],
    strides: [usize; 2],
    bias: Option<&[T]>,
    input: &[T],
    inputs: usize,
    packed: &mut Vec<[T; UNITS]>,
) {
    let points = input.len() / inputs;
    let units = out.len() / points;
    for (block, out) in out.chunks_mut(UNITS * points).enumerate() {
        let first = block * UNITS;
        // The weights of a block side by side; units beyond the last have weight zero and are not stored.
        packed.clear();
        packed.extend((0..inputs).map(|v| {
            std::array::from_fn(|r| match first + r < units {
                true => weight[(first + r) * strides[0] + v * strides[1]],
                false => T::zero(),
            })
        }));
        let bias: [T; UNITS] =
            std::array::from_fn(|r| bias.and_then(|bias| bias.get(first + r)).copied().unwrap_or(T::zero()));
        dense_block(out, packed, bias, input, points);
    }
}

/// [`UNITS`] units of `dense`: each load of the input serves all of them.
#[inline(always)]
fn dense_block<T: Real>(out: &mut [T], packed: &[[T; UNITS]], bias: [T; UNITS], input: &[T], points: usize) {
    let steps = points / LANES;
    let input = input.as_chunks::<LANES>().0;
    for step in 0..steps {
        // Eight names, not an array of sums: the compiler would vectorise across the array, with gathers.
        let [b0, b1, b2, b3, b4, b5, b6, b7] = bias;
        let (mut s0, mut s1, mut s2, mut s3) = ([b0; LANES], [b1; LANES], [b2; LANES], [b3; LANES]);
        let (mut s4, mut s5, mut s6, mut s7) = ([b4; LANES], [b5; LANES], [b6; LANES], [b7; LANES]);
        for (w, x) in packed.iter().zip(input[step..].iter().step_by(steps)) {
            multiply_add(&mut s0, x, &[w[0]; LANES]);
            multiply_add(&mut s1, x, &[w[1]; LANES]);
            multiply_add(&mut s2, x, &[w[2]; LANES]);
            multiply_add(&mut s3, x, &[w[3]; LANES]);
            multiply_add(&mut s4, x, &[w[4]; LANES]);
            multiply_add(&mut s5, x, &[w[5]; LANES]);
            multiply_add(&mut s6, x, &[w[6]; LANES]);
            multiply_add(&mut s7, x, &[w[7]; LANES]);
        }
        for (row, sum) in out.chunks_exact_mut(points).zip([s0, s1, s2, s3, s4, s5, s6, s7]) {
            row[step * LANES..][..LANES].copy_from_slice(&sum);
        }
    }
}

/// d_weight[u][v] += sum_p delta[u][p] * input[v][p]: the same product as `dense`, with the units of the layer below
/// as lanes and the points summed over.
#[inline(always)]
fn outer<T: Real>(d_weight: &mut [T], delta: &[T], input: &[T], points: usize, buffers: &mut Rearranged<T>) {
    let inputs = input.len() / points;
    if inputs == 1 {
        for (d_weight, delta) in d_weight.iter_mut().zip(delta.chunks_exact(points)) {
            *d_weight += dot(delta, input);
        }
        return;
    }
    let padded = inputs.next_multiple_of(LANES);
    let Rearranged { transposed, product, packed } = buffers;
    transposed.clear();
    transposed.resize(points * padded, T::zero());
    for (v, row) in input.chunks_exact(points).enumerate() {
        row.iter().zip(transposed[v..].iter_mut().step_by(padded)).for_each(|(&h, to)| *to = h);
    }
    product.resize(delta.len() / points * padded, T::zero());
    dense(product, delta, [points, 1], None, transposed, points, packed);
    for (d_weight, product) in d_weight.chunks_exact_mut(inputs).zip(product.chunks_exact(padded)) {
        d_weight.iter_mut().zip(product).for_each(|(sum, &value)| *sum += value);
    }
}

/// sum += a * b in every lane.
#[inline(always)]
fn multiply_add<T: Real>(sum: &mut [T; LANES], a: &[T; LANES], b: &[T; LANES]) {
    for lane in 0..LANES {
        sum[lane] = a[lane].mul_add(b[lane], sum[lane]);
    }
}

/// sum_p a[p] * b[p], lane by lane.
#[inline(always)]
pub fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let mut sum = [T::zero(); LANES];
    let (a, b) = (a.as_chunks().0, b.as_chunks().0);
    a.iter().zip(b).for_each(|(a, b)| multiply_add(&mut sum, a, b));
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

/// Sum of all lanes, halving.
#[inline(always)]
fn tree_sum<T: Real>(lanes: [T; LANES]) -> T {
    let mut half = [T::zero(); LANES / 2];
    for lane in 0..LANES / 2 {
        half[lane] = lanes[lane] + lanes[lane + LANES / 2];
    }
    let mut quarter = [T::zero(); LANES / 4];
    for lane in 0..LANES / 4 {
        quarter[lane] = half[lane] + half[lane + LANES / 4];
    }
    (quarter[0] + quarter[2]) + (quarter[1] + quarter[3])
}
