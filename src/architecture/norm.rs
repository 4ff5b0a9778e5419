//! Batch norm of the network that all features share: gamma (z - mean z) / sqrt(var z + eps) + beta behind every layer, z = W h.
//!
//! Means and variances are those over the numbers that the features have in the training part, all of them together, so they do not
//! depend on what is in a batch, and the network is the same while it learns and afterwards: W gamma / sd and beta - gamma mean / sd are
//! its plain weights and biases. Gradients go through means and variances, as anywhere. Sums over numbers are in f64 and in their order.

use super::Layout;
use crate::real::Real;
use rayon::prelude::*;
use std::sync::Arc;

/// What is added to variances.
const EPSILON: f64 = 1e-5;

/// Numbers that features have, and the share of each.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// The numbers, or what stands for many that are close.
    pub values: Arc<[f64]>,
    /// Their shares; together 1.
    pub shares: Arc<[f64]>,
}

impl Default for Distribution {
    /// Zero and one: what is usual of words and of flags, where nobody has looked at data.
    fn default() -> Self {
        Distribution { values: [0.0, 1.0].into(), shares: [0.5, 0.5].into() }
    }
}

/// One layer at all numbers.
struct Pass {
    inputs: usize,
    outputs: usize,
    weight: Vec<f64>,
    scale: Vec<f64>,
    /// inputs x numbers.
    h: Vec<f64>,
    /// outputs x numbers: W h.
    z: Vec<f64>,
    /// Mean and one over the deviation of each output.
    moments: Vec<(f64, f64)>,
    /// The plain bias of each output.
    bias: Vec<f64>,
}

impl Pass {
    /// What the layer gives, before it is rectified, of an output: its row of z and a factor and a shift on it.
    fn output(&self, u: usize, numbers: usize) -> (&[f64], f64, f64) {
        (&self.z[u * numbers..][..numbers], self.scale[u] * self.moments[u].1, self.bias[u])
    }
}

/// All layers, input to output.
fn passes<T: Real>(layout: &Layout, parameters: &[T]) -> Vec<Pass> {
    let Distribution { values, shares } = &layout.distribution;
    let numbers = values.len();
    let wide = |range: &std::ops::Range<usize>| parameters[range.clone()].iter().map(|p| p.widen()).collect::<Vec<_>>();
    let mut h = values.to_vec();
    let mut all = Vec::new();
    let layers = layout.experts.first().map_or(&[][..], Vec::as_slice);
    for (layer, scales) in layers.iter().zip(&layout.norm_scales) {
        let (inputs, outputs) = (layer.inputs, layer.outputs);
        let (weight, scale, beta) = (wide(&layer.weight), wide(scales), wide(&layer.bias));
        let mut z = vec![0.0; outputs * numbers];
        z.par_chunks_mut(numbers).zip(weight.par_chunks(inputs)).for_each(|(z, row)| {
            for (&w, h) in row.iter().zip(h.chunks_exact(numbers)) {
                z.iter_mut().zip(h).for_each(|(z, h)| *z += w * h);
            }
        });
        let moments = |z: &[f64]| {
            let mean = z.iter().zip(shares.iter()).map(|(z, share)| share * z).sum::<f64>();
            let variance = z.iter().zip(shares.iter()).map(|(z, share)| share * (z - mean) * (z - mean)).sum::<f64>();
            (mean, 1.0 / (variance + EPSILON).sqrt())
        };
        let moments: Vec<(f64, f64)> = z.par_chunks(numbers).map(moments).collect();
        let bias = (0..outputs).map(|u| beta[u] - scale[u] * moments[u].0 * moments[u].1).collect();
        let pass = Pass { inputs, outputs, weight, scale, h, z, moments, bias };
        h = (0..outputs)
            .flat_map(|u| {
                let (z, factor, shift) = pass.output(u, numbers);
                z.iter().map(move |z| (factor * z + shift).max(0.0))
            })
            .collect();
        all.push(pass);
    }
    all
}

/// The network of the plain model.
pub(super) fn make<T: Real>(layout: &Layout, plain: &Layout, parameters: &[T], made: &mut [T]) {
    for (pass, to) in passes(layout, parameters).iter().zip(plain.experts.iter().flatten()) {
        let rows = made[to.weight.clone()].chunks_exact_mut(pass.inputs).zip(pass.weight.chunks_exact(pass.inputs));
        for (u, (made, row)) in rows.enumerate() {
            let factor = pass.scale[u] * pass.moments[u].1;
            made.iter_mut().zip(row).for_each(|(made, w)| *made = T::from_f64(factor * w));
        }
        made[to.bias.clone()].iter_mut().zip(&pass.bias).for_each(|(made, &bias)| *made = T::from_f64(bias));
    }
}

/// Gradients of the network += those of the plain model's.
pub(super) fn bring_back<T: Real>(
    layout: &Layout,
    plain: &Layout,
    gradient: &mut [T],
    parameters: &[T],
    of_plain: &[T],
) {
    let shares = &layout.distribution.shares;
    let numbers = shares.len();
    let layers = layout.experts.iter().flatten().zip(&layout.norm_scales).zip(plain.experts.iter().flatten());
    let layers: Vec<_> = layers.zip(passes(layout, parameters)).collect();
    // Of what the layer gives at the numbers, after it is rectified: moments of later layers are made of it. None behind the last.
    let mut d_next: Vec<f64> = Vec::new();
    for (((to, scales), from), pass) in layers.into_iter().rev() {
        let Pass { inputs, outputs, ref weight, ref scale, ref h, ref z, ref moments, .. } = pass;
        let mut d_z = vec![0.0; outputs * numbers];
        // (d scale, d beta) of each output, and its row of d z.
        let of_output = |(u, d_z): (usize, &mut [f64])| {
            let ((mean, inverse), z) = (moments[u], &z[u * numbers..][..numbers]);
            let (_, factor, shift) = pass.output(u, numbers);
            if !d_next.is_empty() {
                let next = d_next[u * numbers..][..numbers].iter();
                let kept = z.iter().zip(next).map(|(z, d)| if factor * z + shift > 0.0 { *d } else { 0.0 });
                d_z.iter_mut().zip(kept).for_each(|(to, d)| *to = d);
            }
            let row = from.weight.start + u * inputs..from.weight.start + (u + 1) * inputs;
            let own = of_plain[row].iter().zip(&weight[u * inputs..]).map(|(d, w)| d.widen() * w).sum::<f64>();
            let d_beta = of_plain[from.bias.start + u].widen() + d_z.iter().sum::<f64>();
            // Of gamma / sd.
            let d_factor = own + d_z.iter().zip(z).map(|(d, z)| d * z).sum::<f64>() - mean * d_beta;
            let d_mean = -factor * d_beta;
            let d_variance = -0.5 * inverse.powi(3) * scale[u] * d_factor;
            let by_moments = |z: &f64, share: &f64| share * (d_mean + 2.0 * (z - mean) * d_variance);
            let both = d_z.iter_mut().zip(z).zip(shares.iter());
            both.for_each(|((d, z), share)| *d = factor * *d + by_moments(z, share));
            (inverse * d_factor, d_beta)
        };
        let found: Vec<(f64, f64)> = d_z.par_chunks_mut(numbers).enumerate().map(of_output).collect();
        for (u, (d_scale, d_beta)) in found.into_iter().enumerate() {
            gradient[scales.start + u] += T::from_f64(d_scale);
            gradient[to.bias.start + u] += T::from_f64(d_beta);
        }
        let rows = gradient[to.weight.clone()].par_chunks_mut(inputs).zip(d_z.par_chunks(numbers));
        rows.enumerate().for_each(|(u, (row, d_z))| {
            let (_, factor, _) = pass.output(u, numbers);
            for (j, (d, h)) in row.iter_mut().zip(h.chunks_exact(numbers)).enumerate() {
                let of_plain = of_plain[from.weight.start + u * inputs + j].widen();
                *d += T::from_f64(factor * of_plain + dot(d_z, h));
            }
        });
        d_next = vec![0.0; inputs * numbers];
        d_next.par_chunks_mut(numbers).enumerate().for_each(|(j, d_h)| {
            for (u, d_z) in d_z.chunks_exact(numbers).enumerate() {
                let w = weight[u * inputs + j];
                d_h.iter_mut().zip(d_z).for_each(|(to, d)| *to += w * d);
            }
        });
    }
}

/// Sums in eight lanes, so that they can be added side by side.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut lanes = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (a, b))| *lane += a * b);
    }
    lanes.iter().sum::<f64>() + rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum::<f64>()
}
