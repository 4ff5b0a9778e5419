//! First layers of units clip(exp(w) (x - c), 0, 1): steep where w is large, so that a response may jump (NAM's "ExU", capped at one).
//!
//! Such a unit is two ReLU units, relu(s (x - c)) - relu(s (x - c) - 1) with s = exp(w), so the model is a plain one of twice as many
//! units in its first layer, whose parameters are made from those that are learned: everything that knows ReLU networks, knots
//! included, works on that one, and gradients are brought back from it. A model that is saved is the plain one.

use super::{Architecture, Family, Layer, Layout};
use crate::real::Real;
use std::borrow::Cow;

impl Architecture {
    /// The sizes of the plain model; none where it is plain.
    pub(super) fn plain(&self) -> Option<Architecture> {
        let mut plain = self.clone();
        plain.family = Family { exu: false, ..self.family };
        plain.hidden.first_mut().filter(|_| self.family.exu).map(|width| *width *= 2)?;
        Some(plain)
    }
}

impl Layout {
    /// A layout of ReLU networks alone, and its parameters: its own, or those made from them.
    pub fn plain<'p, T: Real>(&'p self, parameters: &'p [T]) -> (&'p Layout, Cow<'p, [T]>) {
        let Some(plain) = &self.plain else { return (self, Cow::Borrowed(parameters)) };
        let mut made = vec![T::zero(); plain.len()];
        for (from, to) in self.experts.iter().zip(&plain.experts) {
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
        let behind = self.experts.last().map_or(0, |layers| end(layers));
        let tail = &parameters[behind..];
        let first = made.len() - tail.len();
        made[first..].copy_from_slice(tail);
        (plain, Cow::Owned(made))
    }

    /// Gradients of networks += those of the plain model.
    pub fn add_from_plain<T: Real>(&self, gradient: &mut [T], parameters: &[T], of_plain: &[T]) {
        let Some(plain) = &self.plain else { return };
        for (to, from) in self.experts.iter().zip(&plain.experts) {
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

    /// Whether its networks are plain ReLU networks.
    pub fn is_plain(&self) -> bool {
        self.plain.is_none()
    }
}

/// exp(w) and c of a unit.
fn unit<T: Real>(parameters: &[T], layer: &Layer, u: usize) -> (T, T) {
    (parameters[layer.weight.start + u].exp(), parameters[layer.bias.start + u])
}

/// Behind the last parameter of a network.
fn end(layers: &[Layer]) -> usize {
    layers.last().map_or(0, |layer| layer.bias.end)
}
