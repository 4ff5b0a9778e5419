//! Launches of `kernels/route.cu`.

use super::{Buffer, Driver, Grid, Launcher, abi};
use crate::architecture::{Architecture, Layout, Routes};
use crate::device::Routing;
use harmonia_graph::error::{Error, Result};

/// Warps of a block of `route_forward`, where their scores fit shared memory.
pub(super) const WARPS: u32 = 4;
/// Threads of a block of `route_backward_router`.
pub(super) const ROUTER_THREADS: u32 = 128;

/// Bytes of shared memory of a warp: scores and scales of all experts.
fn warp_bytes(architecture: &Architecture) -> usize {
    2 * size_of::<f32>() * architecture.experts
}

/// Bytes of shared memory of a block of `route_forward`.
pub(super) fn shared_bytes(architecture: &Architecture) -> usize {
    warp_bytes(architecture) * WARPS as usize
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn route_forward(
        &self,
        routing: &mut Routing<Self>,
        parameters: &Buffer<V, f32>,
        noise: Option<&Buffer<V, f32>>,
        layout: &Layout,
    ) -> Result<()> {
        let a = &layout.architecture;
        if !a.family.kind.has_kernels() {
            let kind = a.family.kind.name();
            return Err(Error::Config(format!("there are no kernels for model.kind = {kind}: set run.device = cpu")));
        }
        let lacking = [("train.output_penalty", layout.output_penalty > 0.0), ("model.batch_norm", !layout.is_plain())];
        if let Some((key, _)) = lacking.iter().find(|(_, lacks)| *lacks) {
            return Err(Error::Config(format!("there are no kernels for {key}: set run.device = cpu")));
        }
        // The only expert has the gate that the pass began with.
        if a.routes() != Routes::Learned {
            return Ok(());
        }
        let bytes = warp_bytes(a);
        let limit = self.driver.shared_limit();
        let warps = if shared_bytes(a) <= limit { WARPS } else { 1 };
        if bytes > limit {
            return Err(Error::Config(format!(
                "model.experts is {}; kernels route among at most {} experts: lower it, or set run.device = cpu",
                a.experts,
                limit / (2 * size_of::<f32>())
            )));
        }
        let arguments = abi::RouteForward {
            experts: self.at_mut(&mut routing.experts, 0),
            gates: self.at_mut(&mut routing.gates, 0),
            noise_scale: self.at_mut(&mut routing.noise_scale, 0),
            embeddings: self.at(parameters, layout.embeddings.start),
            router_gate: self.at(parameters, layout.router_gate.start),
            router_noise: self.at(parameters, layout.router_noise.start),
            noise: noise.map_or(std::ptr::null(), |noise| self.at(noise, 0)),
            features: a.features as u32,
            expert_count: a.experts as u32,
            active: a.active as u32,
            embedding: a.embedding as u32,
        };
        let mut grid = Grid::new([(a.features as u64).div_ceil(u64::from(warps)), 1], [32, warps]);
        grid.shared_bytes = bytes as u32 * warps;
        // SAFETY: outputs hold d x m, parameters the whole layout, noise d x C; a warp has 2 C floats of shared memory.
        unsafe { self.run("route_forward", grid, &arguments) }
    }

    pub(super) fn route_backward(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_gates: &Buffer<V, f32>,
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        noise: Option<&Buffer<V, f32>>,
        layout: &Layout,
    ) -> Result<()> {
        let a = &layout.architecture;
        if a.routes() != Routes::Learned {
            return Ok(());
        }
        let arguments = abi::RouteBackward {
            d_embeddings: self.at_mut(gradient, layout.embeddings.start),
            d_router_gate: self.at_mut(gradient, layout.router_gate.start),
            d_router_noise: self.at_mut(gradient, layout.router_noise.start),
            d_gates: self.at(d_gates, 0),
            experts: self.at(&routing.experts, 0),
            gates: self.at(&routing.gates, 0),
            noise_scale: self.at(&routing.noise_scale, 0),
            embeddings: self.at(parameters, layout.embeddings.start),
            router_gate: self.at(parameters, layout.router_gate.start),
            router_noise: self.at(parameters, layout.router_noise.start),
            noise: noise.map_or(std::ptr::null(), |noise| self.at(noise, 0)),
            features: a.features as u32,
            expert_count: a.experts as u32,
            active: a.active as u32,
            embedding: a.embedding as u32,
        };
        let router = Grid::new([(a.embedding * a.experts) as u64, 1], [ROUTER_THREADS, 1]);
        // SAFETY: gradient and parameters hold the whole layout, the routing d x m, noise d x C.
        unsafe {
            self.run("route_backward_embeddings", Grid::flat(a.features * a.embedding), &arguments)?;
            self.run("route_backward_router", router, &arguments)
        }
    }
}
