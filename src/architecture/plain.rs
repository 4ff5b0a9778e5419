//! Networks of other units as networks of ReLU units alone.
//!
//! Units that jump (`exu.rs`) and batch norm (`norm.rs`) are plain networks whose parameters are made from those that are learned.
//! Everything that knows ReLU networks, knots included, works on the plain one, and gradients are brought back from it. A model that is
//! saved is the plain one.

use super::{Architecture, Family, Layer, Layout, exu, norm};
use crate::real::Real;
use std::borrow::Cow;

impl Architecture {
    /// The sizes of the plain model; none where it is plain.
    pub(super) fn plain(&self) -> Option<Architecture> {
        let Family { exu, batch_norm, .. } = self.family;
        let mut plain = self.clone();
        plain.family = Family { exu: false, batch_norm: false, ..self.family };
        if exu {
            plain.hidden.first_mut().map(|width| *width *= 2)?;
        }
        (exu || batch_norm).then_some(plain)
    }
}

impl Layout {
    /// A layout of ReLU networks alone, and its parameters: its own, or those made from them.
    pub fn plain<'p, T: Real>(&'p self, parameters: &'p [T]) -> (&'p Layout, Cow<'p, [T]>) {
        let Some(plain) = &self.plain else { return (self, Cow::Borrowed(parameters)) };
        let mut made = vec![T::zero(); plain.len()];
        match self.norm_scales.is_empty() {
            true => exu::make(self, plain, parameters, &mut made),
            false => norm::make(self, plain, parameters, &mut made),
        }
        // What is behind the networks is alike.
        let tail = &parameters[self.behind_experts()..];
        let first = made.len() - tail.len();
        made[first..].copy_from_slice(tail);
        (plain, Cow::Owned(made))
    }

    /// Gradients += those of the plain model.
    pub fn add_from_plain<T: Real>(&self, gradient: &mut [T], parameters: &[T], of_plain: &[T]) {
        let Some(plain) = &self.plain else { return };
        match self.norm_scales.is_empty() {
            true => exu::bring_back(self, plain, gradient, parameters, of_plain),
            false => norm::bring_back(self, plain, gradient, parameters, of_plain),
        }
        let tail = gradient[self.behind_experts()..].iter_mut().zip(&of_plain[plain.behind_experts()..]);
        tail.for_each(|(to, &d)| *to += d);
    }

    /// Whether its networks are plain ReLU networks.
    pub fn is_plain(&self) -> bool {
        self.plain.is_none()
    }

    /// Behind the last parameter of the experts.
    pub(super) fn behind_experts(&self) -> usize {
        let networks = self.experts.last().map_or(0, |layers| end(layers));
        self.norm_scales.last().map_or(networks, |scales| scales.end)
    }
}

/// Behind the last parameter of a network.
pub(super) fn end(layers: &[Layer]) -> usize {
    layers.last().map_or(0, |layer| layer.bias.end)
}
