//! One expert network on a tile of points: the dense-layer kernels of MoNB.
//!
//! Points are the SIMD lanes and every weight is a broadcast. A tile is stored in groups of [`LANES`] points, unit by
//! unit (`[group][unit][lane]`), so that a layer reads its input as one stream. The number of points is a multiple of
//! LANES; padding points carry zero gradient.
//!
//! Forward   h_0 = x, h_l = relu(W_l h_{l-1} + b_l)
//! Backward  d_l = dh_l * relu', dW_l += d_l h_{l-1}^T, db_l += d_l 1, dh_{l-1} = W_l^T d_l

use crate::architecture::Layer;
use crate::device::Dropout;
use crate::real::Real;
use std::ops::Range;

/// Points in one SIMD step: one AVX-512 register of f32.
pub const LANES: usize = 16;
/// Points in a tile: enough to amortise packing weights, few enough to stay in cache.
pub const TILE: usize = 256;
/// Units that share one load of their input.
const UNITS: usize = 8;

/// The hidden layers of an expert, weights rearranged for the kernels.
pub struct PackedExpert<T> {
    layers: Vec<PackedLayer<T>>,
}

struct PackedLayer<T> {
    inputs: usize,
    outputs: usize,
    /// Where the gradients go.
    weight: Range<usize>,
    bias: Range<usize>,
    biases: Vec<T>,
    /// W, [`UNITS`] rows side by side, block after block.
    rows: Vec<[T; UNITS]>,
    /// W^T, likewise.
    columns: Vec<[T; UNITS]>,
}

impl<T: Real> PackedExpert<T> {
    /// Rearranges the hidden layers of an expert.
    pub fn new(hidden: &[Layer], parameters: &[T]) -> Self {
        let layers = hidden.iter().map(|layer| {
            let weight = &parameters[layer.weight.clone()];
            PackedLayer {
                inputs: layer.inputs,
                outputs: layer.outputs,
                weight: layer.weight.clone(),
                bias: layer.bias.clone(),
                biases: parameters[layer.bias.clone()].to_vec(),
                rows: pack(layer.outputs, layer.inputs, |u, v| weight[u * layer.inputs + v]),
                columns: pack(layer.inputs, layer.outputs, |u, v| weight[v * layer.inputs + u]),
            }
        });
        PackedExpert { layers: layers.collect() }
    }
}

/// Weights of [`UNITS`] units side by side; beyond the last unit they are zero.
fn pack<T: Real>(units: usize, inputs: usize, weight: impl Fn(usize, usize) -> T) -> Vec<[T; UNITS]> {
    (0..units.div_ceil(UNITS) * inputs)
        .map(|at| {
            let (first, v) = (at / inputs * UNITS, at % inputs);
            std::array::from_fn(|r| if first + r < units { weight(first + r, v) } else { T::zero() })
        })
        .collect()
}

/// Hidden activations and gradients of one tile.
pub struct Scratch<T> {
    activations: Vec<Vec<T>>,
    delta: Vec<T>,
    next_delta: Vec<T>,
    outer: OuterBuffers<T>,
    dots: DotBuffers<T>,
}

/// Work space of [`add_dots`].
struct DotBuffers<T> {
    /// One group of g, once for every unit.
    repeated: Vec<T>,
    /// Sums of each unit, lane by lane.
    lanes: Vec<T>,
}

/// Operands of a weight gradient, rearranged.
struct OuterBuffers<T> {
    /// Activations of the layer below, units as lanes: `[group of units][point][lane]`.
    inputs: Vec<T>,
    /// Gradients of the layer above, [`UNITS`] side by side.
    deltas: Vec<[T; UNITS]>,
    /// `[group of units below][unit above][lane]`.
    product: Vec<T>,
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
            outer: OuterBuffers { inputs: Vec::new(), deltas: Vec::new(), product: Vec::new() },
            dots: DotBuffers { repeated: Vec::new(), lanes: Vec::new() },
        }
    }

    /// Last hidden activations after [`Scratch::forward`], group by group (x itself without hidden layers).
    #[inline(always)]
    pub fn last<'a>(&'a self, x: &'a [T], width: usize) -> &'a [T] {
        self.activations.last().map_or(x, |last| &last[..width * x.len()])
    }

    /// sums[unit] += sum over points of the last hidden activation * g, after [`Scratch::forward`].
    #[inline(always)]
    pub fn add_last_dots(&mut self, sums: &mut [T], x: &[T], g: &[T]) {
        let last = self.activations.last().map_or(x, |last| &last[..sums.len() * x.len()]);
        add_dots(sums, last, g, &mut self.dots);
    }

    /// Runs the hidden layers on x.
    #[inline(always)]
    pub fn forward(&mut self, expert: &PackedExpert<T>, x: &[T], mask: Option<&HiddenMask<'_>>) {
        let points = x.len();
        let all_units: usize = expert.layers.iter().map(|layer| layer.outputs).sum();
        let mut first_unit = 0;
        for (l, layer) in expert.layers.iter().enumerate() {
            let (before, after) = self.activations.split_at_mut(l);
            let input = before.last().map_or(x, |h| &h[..layer.inputs * points]);
            let output = &mut after[0][..layer.outputs * points];
            dense(output, layer.outputs, &layer.rows, Some(&layer.biases), input, layer.inputs);
            output.iter_mut().for_each(|value| *value = value.max(T::zero()));
            if let Some(mask) = mask {
                let keep = T::from_f64(mask.dropout.scale());
                for (at, value) in output.iter_mut().enumerate() {
                    let (group, unit) = (at / (layer.outputs * LANES), at / LANES % layer.outputs);
                    let point = (mask.point)(group * LANES + at % LANES);
                    let index = point * all_units as u64 + (first_unit + unit) as u64;
                    *value = if mask.dropout.drops(index) { T::zero() } else { *value * keep };
                }
            }
            first_unit += layer.outputs;
        }
    }

    /// After `forward`: adds the gradients of the hidden layers, given d_last(unit, point) = head[unit] * g[point].
    /// `keep` is the factor of kept units under dropout, else 1.
    #[inline(always)]
    pub fn backward(&mut self, gradient: &mut [T], expert: &PackedExpert<T>, x: &[T], g: &[T], head: &[T], keep: T) {
        let points = x.len();
        let Some(last) = expert.layers.last() else { return };
        let groups = self.delta[..last.outputs * points].chunks_exact_mut(last.outputs * LANES);
        for (group, g) in groups.zip(g.chunks_exact(LANES)) {
            for (row, &slope) in group.chunks_exact_mut(LANES).zip(head) {
                row.iter_mut().zip(g).for_each(|(delta, &g)| *delta = slope * keep * g);
            }
        }
        for (l, layer) in expert.layers.iter().enumerate().rev() {
            let delta = &mut self.delta[..layer.outputs * points];
            // A unit that is zero is off: cut by ReLU or dropped.
            for (delta, &h) in delta.iter_mut().zip(&self.activations[l]) {
                *delta = if h > T::zero() { *delta } else { T::zero() };
            }
            add_dots(&mut gradient[layer.bias.clone()], delta, &[T::one(); TILE][..points], &mut self.dots);
            let d_weight = &mut gradient[layer.weight.clone()];
            if l == 0 {
                add_dots(d_weight, delta, x, &mut self.dots);
                return;
            }
            let input = &self.activations[l - 1][..layer.inputs * points];
            outer(d_weight, delta, layer.outputs, input, layer.inputs, &mut self.outer);
            let next = &mut self.next_delta[..layer.inputs * points];
            dense(next, layer.inputs, &layer.columns, None, delta, layer.outputs);
            next.iter_mut().for_each(|value| *value *= keep);
            std::mem::swap(&mut self.delta, &mut self.next_delta);
        }
    }
}

/// out[u] = bias[u] + sum_v weight[u][v] * input[v], in every lane of every group; weights packed.
#[inline(always)]
fn dense<T: Real>(out: &mut [T], units: usize, weights: &[[T; UNITS]], bias: Option<&[T]>, input: &[T], inputs: usize) {
    let groups = out.chunks_exact_mut(units * LANES).zip(input.chunks_exact(inputs * LANES));
    for (out, input) in groups {
        let input = input.as_chunks::<LANES>().0;
        for (block, (out, weights)) in out.chunks_mut(UNITS * LANES).zip(weights.chunks_exact(inputs)).enumerate() {
            let bias: [T; UNITS] = std::array::from_fn(|r| {
                bias.and_then(|bias| bias.get(block * UNITS + r)).copied().unwrap_or(T::zero())
            });
            let sums = dense_block(weights, input, bias);
            out.as_chunks_mut::<LANES>().0.iter_mut().zip(&sums).for_each(|(out, sum)| *out = *sum);
        }
    }
}

/// [`UNITS`] units of one group: each load of the input serves all of them.
#[inline(always)]
fn dense_block<T: Real>(weights: &[[T; UNITS]], input: &[[T; LANES]], bias: [T; UNITS]) -> [[T; LANES]; UNITS] {
    // Eight names, not an array of sums: the compiler would vectorise across the array, with gathers.
    let [b0, b1, b2, b3, b4, b5, b6, b7] = bias;
    let (mut s0, mut s1, mut s2, mut s3) = ([b0; LANES], [b1; LANES], [b2; LANES], [b3; LANES]);
    let (mut s4, mut s5, mut s6, mut s7) = ([b4; LANES], [b5; LANES], [b6; LANES], [b7; LANES]);
    for (w, x) in weights.iter().zip(input) {
        multiply_add(&mut s0, x, &[w[0]; LANES]);
        multiply_add(&mut s1, x, &[w[1]; LANES]);
        multiply_add(&mut s2, x, &[w[2]; LANES]);
        multiply_add(&mut s3, x, &[w[3]; LANES]);
        multiply_add(&mut s4, x, &[w[4]; LANES]);
        multiply_add(&mut s5, x, &[w[5]; LANES]);
        multiply_add(&mut s6, x, &[w[6]; LANES]);
        multiply_add(&mut s7, x, &[w[7]; LANES]);
    }
    [s0, s1, s2, s3, s4, s5, s6, s7]
}

/// d_weight[u][v] += sum over points of delta[u] * input[v]: the same product as `dense`, with the units of the layer
/// below as lanes and the points summed over.
#[inline(always)]
fn outer<T: Real>(
    d_weight: &mut [T],
    delta: &[T],
    units: usize,
    input: &[T],
    inputs: usize,
    buffers: &mut OuterBuffers<T>,
) {
    let points = input.len() / inputs;
    let padded = inputs.next_multiple_of(LANES);
    if padded > inputs {
        // Lanes beyond the last unit must be zero.
        buffers.inputs.clear();
    }
    buffers.inputs.resize(points * padded, T::zero());
    for (group, block) in input.chunks_exact(inputs * LANES).enumerate() {
        for (v, row) in block.as_chunks::<LANES>().0.iter().enumerate() {
            let first = (v / LANES * points + group * LANES) * LANES + v % LANES;
            let column = &mut buffers.inputs[first..first + (LANES - 1) * LANES + 1];
            for lane in 0..LANES {
                column[lane * LANES] = row[lane];
            }
        }
    }
    let groups = points / LANES;
    buffers.deltas.clear();
    buffers.deltas.resize(units.div_ceil(UNITS) * points, [T::zero(); UNITS]);
    for (block, to) in buffers.deltas.chunks_exact_mut(points).enumerate() {
        for r in 0..UNITS.min(units - block * UNITS) {
            for group in 0..groups {
                let row = &delta[(group * units + block * UNITS + r) * LANES..][..LANES];
                to[group * LANES..][..LANES].iter_mut().zip(row).for_each(|(to, &delta)| to[r] = delta);
            }
        }
    }
    buffers.product.resize(units * padded, T::zero());
    dense(&mut buffers.product, units, &buffers.deltas, None, &buffers.inputs, points);
    for (group, rows) in buffers.product.chunks_exact(units * LANES).enumerate() {
        let first = group * LANES;
        let count = LANES.min(inputs - first);
        for (u, row) in rows.chunks_exact(LANES).enumerate() {
            let d_weight = &mut d_weight[u * inputs + first..][..count];
            d_weight.iter_mut().zip(row).for_each(|(sum, &value)| *sum += value);
        }
    }
}

/// sums[u] += sum over groups and lanes of rows[group][u][lane] * g[group][lane].
///
/// Written as passes over contiguous memory: with the sixteen lanes as an inner loop the compiler would unroll it and
/// vectorise across units instead, with gathers, at a fifth of the speed.
#[inline(always)]
fn add_dots<T: Real>(sums: &mut [T], rows: &[T], g: &[T], buffers: &mut DotBuffers<T>) {
    let DotBuffers { repeated, lanes } = buffers;
    let size = sums.len() * LANES;
    repeated.resize(size, T::zero());
    lanes.clear();
    lanes.resize(size, T::zero());
    for (rows, g) in rows.chunks_exact(size).zip(g.chunks_exact(LANES)) {
        repeated.chunks_exact_mut(LANES).for_each(|to| to.copy_from_slice(g));
        for ((sum, &row), &g) in lanes.iter_mut().zip(rows).zip(repeated.iter()) {
            *sum = row.mul_add(g, *sum);
        }
    }
    for (sum, lanes) in sums.iter_mut().zip(lanes.as_chunks().0) {
        *sum += tree_sum(lanes);
    }
}

/// sum += a * b in every lane.
#[inline(always)]
fn multiply_add<T: Real>(sum: &mut [T; LANES], a: &[T; LANES], b: &[T; LANES]) {
    for lane in 0..LANES {
        sum[lane] = a[lane].mul_add(b[lane], sum[lane]);
    }
}

/// sum_p a[p], lane by lane.
#[inline(always)]
pub fn lane_sum<T: Real>(a: &[T]) -> T {
    let mut sum = [T::zero(); LANES];
    for a in a.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            sum[lane] += a[lane];
        }
    }
    tree_sum(&sum)
}

/// Sum of all lanes, halving.
#[inline(always)]
fn tree_sum<T: Real>(lanes: &[T; LANES]) -> T {
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
