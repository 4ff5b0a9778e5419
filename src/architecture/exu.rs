//! First layers of units clip(exp(w) (x - c), 0, 1): steep where w is large, so that a response may jump (NAM's "ExU", capped at one).
//!
//! Such a unit is two ReLU units, relu(s (x - c)) - relu(s (x - c) - 1) with s = exp(w), so the plain model has twice as many units in
//! its first layer.

use super::plain::end;
use super::{Layer, Layout};
use crate::real::Real;

/// The networks of the plain model.
pub(super) fn make<T: Real>(layout: &Layout, plain: &Layout, parameters: &[T], made: &mut [T]) {
    for (from, to) in layout.experts.iter().zip(&plain.experts) {
        let width = from[0].outputs;
        for u in 0..width {
            let (slope, start) = unit(parameters, &from[0], u);
            (made[to[0].weight.start + u], made[to[0].weight.start + width + u]) = (slope, slope);
            made[to[0].bias.start + u] = -slope * start;
            made[to[0].bias.start + width + u] = -slope * start - T::one();
        }
        let rows = parameters[from[1].weight.clone()].chunks_exact(width);
        for (row, made) in rows.zip(made[to[1].weight.clone()].chunks_exact_mut(2 * width)) {
            made[..width].copy_from_slice(row);
            made[width..].iter_mut().zip(row).for_each(|(to, &weight)| *to = -weight);
        }
        let alike = from[1].bias.start..end(from);
        made[to[1].bias.start..end(to)].copy_from_slice(&parameters[alike]);
    }
}

/// Gradients of networks += those of the plain model's.
pub(super) fn bring_back<T: Real>(
    layout: &Layout,
    plain: &Layout,
    gradient: &mut [T],
    parameters: &[T],
    of_plain: &[T],
) {
    for (to, from) in layout.experts.iter().zip(&plain.experts) {
        let width = to[0].outputs;
        for u in 0..width {
            let (slope, start) = unit(parameters, &to[0], u);
            let both = |first: usize| of_plain[first + u] + of_plain[first + width + u];
            let (d_slope, d_bias) = (both(from[0].weight.start), both(from[0].bias.start));
            gradient[to[0].weight.start + u] += slope * (d_slope - start * d_bias);
            gradient[to[0].bias.start + u] -= slope * d_bias;
        }
        let rows = of_plain[from[1].weight.clone()].chunks_exact(2 * width);
        for (row, to) in rows.zip(gradient[to[1].weight.clone()].chunks_exact_mut(width)) {
            let (up, down) = row.split_at(width);
            to.iter_mut().zip(up).zip(down).for_each(|((to, &up), &down)| *to += up - down);
        }
        let alike = gradient[to[1].bias.start..end(to)].iter_mut();
        alike.zip(&of_plain[from[1].bias.start..end(from)]).for_each(|(to, &d)| *to += d);
    }
}

/// exp(w) and c of a unit.
fn unit<T: Real>(parameters: &[T], layer: &Layer, u: usize) -> (T, T) {
    (parameters[layer.weight.start + u].exp(), parameters[layer.bias.start + u])
}
