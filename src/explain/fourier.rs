//! Responses of Fourier features: f_k(x) = sum_s a[k,s] sqrt(2/S) cos(z_s x / w + c_s). Smooth: there is no list of knots.

use super::response::Response;
use super::shapes::Shape;
use crate::architecture::Waves;
use crate::model::FittedModel;

/// The cosines of a model and what every feature makes of them.
#[derive(Clone, Debug)]
pub struct Fourier {
    waves: Waves,
    /// a, d x S.
    coefficients: Vec<f64>,
}

impl Fourier {
    /// Those of a trained model.
    pub fn of(model: &FittedModel) -> Fourier {
        let coefficients = model.parameters[model.layout.coefficients.clone()].iter().map(|&a| f64::from(a));
        Fourier { waves: Waves::of(&model.layout.architecture), coefficients: coefficients.collect() }
    }

    /// Sum over waves of a[k,s] times what `of` makes of a frequency and an angle.
    fn sum(&self, k: usize, x: f64, of: impl Fn(f64, f64) -> f64) -> f64 {
        let Waves { frequencies, phases, height } = &self.waves;
        let a = &self.coefficients[k * phases.len()..][..phases.len()];
        let waves = a.iter().zip(frequencies.iter().zip(phases));
        height * waves.map(|(a, (&z, c))| a * of(z, z.mul_add(x, *c))).sum::<f64>()
    }
}

impl Response for Fourier {
    fn features(&self) -> usize {
        self.coefficients.len() / self.waves.phases.len()
    }

    fn value(&self, k: usize, x: f64) -> f64 {
        self.sum(k, x, |_, angle| angle.cos())
    }

    fn slope(&self, k: usize, x: f64) -> f64 {
        self.sum(k, x, |frequency, angle| -frequency * angle.sin())
    }

    fn knots(&self, _: usize) -> Option<Shape> {
        None
    }

    fn block(&self, responses: &mut [[f64; super::LANES]], x: &[[f32; super::LANES]]) {
        for (k, (responses, x)) in responses.iter_mut().zip(x).enumerate() {
            // Columns of zeros and ones, and lanes without a node, repeat themselves.
            let (mut last, mut value) = (f32::NAN, 0.0);
            for (response, &x) in responses.iter_mut().zip(x) {
                if x != last {
                    (last, value) = (x, self.value(k, f64::from(x)));
                }
                *response = value;
            }
        }
    }
}
