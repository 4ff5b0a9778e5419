//! Launches of `kernels/bends.cu`.

use super::{Buffer, DeviceMatrix, Driver, Grid, Launcher, abi};
use crate::architecture::{HopWeights, Layout};
use crate::device::Bends;
use harmonia_graph::error::{Error, Result};

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn bend_responses(
        &self,
        bends: &mut Bends<Self>,
        responses: &mut DeviceMatrix<V>,
        gradient: &mut Buffer<V, f32>,
        hop_weights: &Buffer<V, f32>,
        parameters: &Buffer<V, f32>,
        layout: &Layout,
    ) -> Result<()> {
        let a = &layout.architecture;
        let (points, theta) = (responses.rows * a.features, a.hops * a.features);
        let found = [bends.points.len(), bends.counts.len(), bends.penalties.len(), bends.d_hop_weights.len()];
        if responses.cols != a.features || found != [points, a.features, a.features, theta] {
            return Err(Error::Device("points of other features than the model has".into()));
        }
        let arguments = abi::Bends {
            responses: self.at_mut(&mut responses.values, 0),
            d_hop_weights: self.at_mut(&mut bends.d_hop_weights, 0),
            d_readout: self.at_mut(gradient, layout.readout_weight.start),
            penalties: self.at_mut(&mut bends.penalties, 0),
            points: self.at(&bends.points, 0),
            counts: self.at(&bends.counts, 0),
            hop_weights: self.at(hop_weights, 0),
            readout: self.at(parameters, layout.readout_weight.start),
            strength: bends.strength,
            rows: responses.rows as u32,
            features: a.features as u32,
            hops: a.hops as u32,
            outputs: a.outputs as u32,
            free_hops: u32::from(a.hop_weights == HopWeights::Free),
        };
        // SAFETY: sizes are those checked above; counts are at most the rows (`model::Smoothness`), gradient and parameters hold the
        // whole layout, hop weights T x d.
        unsafe { self.run("bends", Grid::flat(a.features), &arguments) }
    }
}
