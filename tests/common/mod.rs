//! What the tests share: random problems, the dense oracle, one pass of the CPU device, and comparison.

// Every test file is a crate of its own and uses a part of this.
#![allow(dead_code)]
// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

pub mod host_library;
pub mod oracle;
pub mod parity;
pub mod problems;

use harmonia::batch::Batch;
use harmonia::device::cpu::Cpu;
use harmonia::device::{Device, Dropout, Real};
use harmonia::model::{Layout, Pass, Randomness};
use std::fmt::Debug;

/// Sums of at most a few thousand f64 terms of size one, taken in two different orders.
pub const F64_TOLERANCE: f64 = 1e-12;

/// Everything a pass computes.
pub struct Outcome<T> {
    /// theta, T x d.
    pub hop_weights: Vec<T>,
    /// F, n x d.
    pub responses: Vec<T>,
    /// H, n x d.
    pub state: Vec<T>,
    /// rows x L.
    pub logits: Vec<T>,
    /// Mean over targets.
    pub loss: f64,
    /// By every parameter.
    pub gradient: Vec<T>,
}

/// One pass forward and backward.
pub fn run<T: Real>(
    batch: &Batch,
    layout: &Layout,
    parameters: &[f64],
    noise: Option<&[f64]>,
    dropout: Option<Dropout>,
) -> Outcome<T> {
    let device = Cpu::<T>::new();
    let rounded = |values: &[f64]| values.iter().map(|&value| T::from_f64(value)).collect::<Vec<T>>();
    let inputs = device.inputs(batch).unwrap();
    let parameters = rounded(parameters);
    let randomness = Randomness { noise: noise.map(rounded), dropout };
    let mut pass = Pass::new(&device, layout, batch.transition.nodes(), batch.rows()).unwrap();
    assert!(pass.fits(batch));
    let logits = pass.forward(&inputs, &parameters, &randomness).unwrap().clone();
    let hop_weights = device.download(pass.hop_weights()).unwrap();
    let responses = device.download_matrix(pass.responses()).unwrap();
    let state = device.download_matrix(pass.state()).unwrap();
    let loss = pass.loss(&inputs).unwrap();
    let mut gradient = device.zeros(layout.len()).unwrap();
    pass.backward(&mut gradient, &inputs, &parameters, &randomness).unwrap();
    Outcome { hop_weights, responses, state, logits, loss, gradient }
}

/// Largest |found - expected| in units of the largest |expected|, which counts as at least 1.
pub fn difference<T: Real>(found: &[T], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "lengths");
    let scale = expected.iter().fold(1.0, |largest: f64, value| largest.max(value.abs()));
    let pairs = found.iter().zip(expected);
    // A NaN must not compare as small: it becomes infinite.
    let distance = |(found, expected): (&T, &f64)| {
        let distance = (found.widen() - expected).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    };
    pairs.map(distance).fold(0.0, f64::max) / scale
}

/// Stops where `found` is further than `tolerance` from `expected`; `context` says how to reproduce it.
#[track_caller]
pub fn assert_close<T: Real>(what: &str, found: &[T], expected: &[f64], tolerance: f64, context: &dyn Debug) {
    let difference = difference(found, expected);
    assert!(difference <= tolerance, "{what} differ by {difference:e} (at most {tolerance:e}) in {context:?}");
}
