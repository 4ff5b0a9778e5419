//! Launches of `kernels/hop_weights.cu`.

use super::{Buffer, Driver, Grid, Launcher, abi};
use crate::architecture::{HopWeights, Layout};
use harmonia_graph::error::Result;

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn hop_weights_forward(
        &self,
        hop_weights: &mut Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        basis: Option<&Buffer<V, f32>>,
        layout: &Layout,
    ) -> Result<()> {
        let a = &layout.architecture;
        // What is not learned has the weights that the pass began with.
        if layout.hop_logits.is_empty() {
            return Ok(());
        }
        let arguments = abi::HopWeightsForward {
            hop_weights: self.at_mut(hop_weights, 0),
            hop_logits: self.at(parameters, layout.hop_logits.start),
            basis: basis.map_or(std::ptr::null(), |basis| self.at(basis, 0)),
            features: a.features as u32,
            hops: a.hops as u32,
            kind: kind(a.hop_weights),
        };
        assert!(basis.is_none_or(|basis| basis.len() == a.hops * a.hops));
        // SAFETY: hop_weights holds T x d, parameters the whole layout, a basis T x T.
        unsafe { self.run("hop_weights_forward", Grid::flat(a.features), &arguments) }
    }

    pub(super) fn hop_weights_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_hop_weights: &Buffer<V, f32>,
        hop_weights: &Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        basis: Option<&Buffer<V, f32>>,
        layout: &Layout,
    ) -> Result<()> {
        let a = &layout.architecture;
        if layout.hop_logits.is_empty() {
            return Ok(());
        }
        let arguments = abi::HopWeightsBackward {
            d_hop_logits: self.at_mut(gradient, layout.hop_logits.start),
            d_hop_weights: self.at(d_hop_weights, 0),
            hop_weights: self.at(hop_weights, 0),
            hop_logits: self.at(parameters, layout.hop_logits.start),
            basis: basis.map_or(std::ptr::null(), |basis| self.at(basis, 0)),
            features: a.features as u32,
            hops: a.hops as u32,
            kind: kind(a.hop_weights),
        };
        assert!(basis.is_none_or(|basis| basis.len() == a.hops * a.hops));
        // SAFETY: gradient and parameters hold the whole layout, a basis T x T, the others T x d.
        unsafe { self.run("hop_weights_backward", Grid::flat(a.features), &arguments) }
    }
}

fn kind(hop_weights: HopWeights) -> u32 {
    match hop_weights {
        HopWeights::Simplex => abi::HARMONIA_HOPS_SIMPLEX,
        HopWeights::Absolute => abi::HARMONIA_HOPS_ABSOLUTE,
        HopWeights::Signed => abi::HARMONIA_HOPS_SIGNED,
        HopWeights::Free => abi::HARMONIA_HOPS_FREE,
    }
}
