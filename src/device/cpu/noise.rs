//! Routing noise: standard normal numbers of a stream.

use super::Cpu;
use crate::real::Real;
use harmonia_graph::error::Result;
use harmonia_graph::seed::Stream;
use rayon::prelude::*;

/// Pairs a task draws at least.
const TASK: usize = 1 << 10;

/// noise = scale * normals, rounded before they are scaled.
pub fn draw<T: Real>(_: &Cpu<T>, noise: &mut [T], stream: &Stream, scale: f64) -> Result<()> {
    let factor = T::from_f64(scale);
    noise.par_chunks_mut(2).enumerate().with_min_len(TASK).for_each(|(index, values)| {
        for (to, value) in values.iter_mut().zip(stream.normal_pair(index as u64)) {
            *to = T::from_f64(value) * factor;
        }
    });
    Ok(())
}
