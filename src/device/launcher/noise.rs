//! Launches of `kernels/noise.cu`.

use super::{Buffer, Driver, Grid, Launcher, abi};
use harmonia_graph::error::Result;
use harmonia_graph::seed::Stream;

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn draw_noise(&self, noise: &mut Buffer<V, f32>, stream: &Stream, scale: f64) -> Result<()> {
        let (key, purpose, step) = stream.words();
        let length = noise.len();
        let arguments = abi::DrawNoise {
            noise: self.at_mut(noise, 0),
            length: length as u64,
            key,
            purpose,
            step,
            scale: scale as f32,
        };
        // SAFETY: a thread per pair, the last of which may be half outside.
        unsafe { self.run("draw_noise", Grid::flat(length.div_ceil(2)), &arguments) }
    }
}
