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
        layout: &Layout,
    ) -> Result<()> {
        let a = &layout.architecture;
        let arguments = abi::HopWeightsForward {
            hop_weights: self.at_mut(hop_weights, 0),
            hop_logits: self.at(parameters, layout.hop_logits.start),
            features: a.features as u32,
            hops: a.hops as u32,
            free_weights: u32::from(a.hop_weights == HopWeights::Free),
        };
        // SAFETY: hop_weights holds T x d, parameters the whole layout.
        unsafe { self.run("hop_weights_forward", Grid::flat(a.features), &arguments) }
    }

    pub(super) fn hop_weights_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_hop_weights: &Buffer<V, f32>,
        hop_weights: &Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        layout: &Layout,
    ) -> Result<()> {
        let a = &layout.architecture;
        let arguments = abi::HopWeightsBackward {
            d_hop_logits: self.at_mut(gradient, layout.hop_logits.start),
            d_hop_weights: self.at(d_hop_weights, 0),
            hop_weights: self.at(hop_weights, 0),
            hop_logits: self.at(parameters, layout.hop_logits.start),
            features: a.features as u32,
            hops: a.hops as u32,
            free_weights: u32::from(a.hop_weights == HopWeights::Free),
        };
        // SAFETY: gradient and parameters hold the whole layout, the others T x d.
        unsafe { self.run("hop_weights_backward", Grid::flat(a.features), &arguments) }
    }
}
