//! Gradients against central differences of the loss, in f64.
//!
//! Entries are compared one by one: |gradient - difference| / max(|difference|, FLOOR) < TOLERANCE.
//! The loss has kinks (ReLU) and jumps (a change of the chosen experts). A difference taken across one is no derivative
//! and shows itself by changing with the step; such entries are counted, and few are allowed.

use harmonia::architecture::Layout;
use harmonia::batch::Batch;
use harmonia::device::cpu::Cpu;
use harmonia::device::{Device, Dropout};
use harmonia::model::{Pass, Randomness};
use harmonia::plan::Plan;
use std::fmt::Debug;

/// The third derivative times STEP^2 / 6 and the rounding of the loss over STEP are both near 1e-11.
const STEP: f64 = 1e-5;
const TOLERANCE: f64 = 1e-6;
/// Below this size an error of 1e-10 in the difference itself would look like an error of TOLERANCE.
const FLOOR: f64 = 1e-4;
/// Largest part of the entries that may lie at a kink.
const KINKS_ALLOWED: f64 = 0.01;
/// Smallest part of the entries that must be larger than FLOOR: else a check would be a check of nothing.
const TELLING: f64 = 0.3;

/// What a gradient is of.
pub struct Differentiated<'a> {
    pub batch: &'a Batch,
    pub layout: &'a Layout,
    pub plan: Plan,
    pub parameters: &'a [f64],
    pub noise: Option<&'a [f64]>,
    pub dropout: Option<Dropout>,
}

/// Entries looked at by one test.
#[derive(Default)]
pub struct Tally {
    entries: usize,
    telling: usize,
    kinks: usize,
}

impl Tally {
    /// Compares every entry of a gradient.
    pub fn check(&mut self, of: &Differentiated<'_>, gradient: &[f64], context: &dyn Debug) {
        let Differentiated { batch, layout, plan, parameters, noise, dropout } = *of;
        let device = Cpu::<f64>::new();
        let inputs = device.inputs(batch, plan).unwrap();
        let randomness = Randomness { noise: noise.map(<[f64]>::to_vec), dropout };
        let mut pass = Pass::new(&device, layout, plan, batch, &inputs).unwrap();
        let mut parameters = parameters.to_vec();
        for tensor in layout.tensors() {
            for at in tensor.range.clone() {
                let mut difference = |step: f64| {
                    let value = parameters[at];
                    let mut loss = |moved: f64| {
                        parameters[at] = moved;
                        pass.forward(&inputs, &parameters, &randomness).unwrap();
                        pass.loss(&inputs).unwrap()
                    };
                    let quotient = (loss(value + step) - loss(value - step)) / (2.0 * step);
                    parameters[at] = value;
                    quotient
                };
                let expected = difference(STEP);
                let error = |found: f64| (found - expected).abs() / expected.abs().max(FLOOR);
                self.entries += 1;
                self.telling += usize::from(expected.abs() > FLOOR);
                if error(gradient[at]) < TOLERANCE {
                    continue;
                }
                let is_kink = error(difference(2.0 * STEP)) > TOLERANCE || error(difference(STEP / 2.0)) > TOLERANCE;
                assert!(
                    is_kink,
                    "d {}[{}] is {:e}, central difference {expected:e}, in {context:?} with noise {}, dropout {:?}",
                    tensor.name,
                    at - tensor.range.start,
                    gradient[at],
                    noise.is_some(),
                    dropout.map(|dropout| dropout.place),
                );
                self.kinks += 1;
            }
        }
    }

    /// Refuses a test that skipped too much or compared zeros.
    pub fn finish(self) {
        let Tally { entries, telling, kinks } = self;
        println!("{entries} entries, {telling} above {FLOOR:e}, {kinks} at a kink");
        assert!((kinks as f64) < KINKS_ALLOWED * entries as f64, "{kinks} of {entries} entries lie at a kink");
        assert!((telling as f64) > TELLING * entries as f64, "only {telling} of {entries} entries exceed {FLOOR:e}");
    }
}
