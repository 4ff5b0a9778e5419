//! MoNB: responses mixed from a few small expert networks, f_k(x) = a_k . sum_c gate[k,c] psi_c(x), as exact lines.
//!
//! Which experts a feature uses is decided in f32, as training decides it, so that a near tie cannot fall differently here.
//! Everything after that is f64.

use super::response::{LANES, Response};
use super::shapes::Shape;
use crate::architecture::{Layout, Routes};
use crate::device::cpu::Cpu;
use crate::device::{Device, Routing};
use crate::knots::{Combination, Tables, count_below};
use crate::model::FittedModel;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::simd::simd;

/// Responses as tables of knots, and the experts they are mixed from.
#[derive(Clone, Debug)]
pub struct Monb {
    /// Sizes, and where parameters are.
    pub layout: Layout,
    /// Experts of each feature, d x m, the one with the largest gate first.
    pub routing: Vec<u32>,
    /// Their gates, d x m.
    pub gates: Vec<f64>,
    /// f_k as lines.
    tables: Tables<f64>,
    /// Of each set of experts, where any of them bends, rounded down to f32: an x of f32 lies above the one exactly where
    /// it lies above the other.
    bends: Vec<Vec<f32>>,
}

impl Monb {
    /// Reads a model.
    ///
    /// # Errors
    /// The routing could not be computed.
    pub fn of(model: &FittedModel) -> Result<Monb> {
        let (layout, a) = (&model.layout, &model.layout.architecture);
        let parameters: Vec<f64> = model.parameters.iter().map(|&value| f64::from(value)).collect();
        let routing = chosen_experts(model)?;
        let (embeddings, router) = (&parameters[layout.embeddings.clone()], &parameters[layout.router_gate.clone()]);
        let gate = |(slot, &expert): (usize, &u32)| {
            if a.routes() != Routes::Learned {
                return 1.0;
            }
            let embedding = &embeddings[slot / a.active * a.embedding..][..a.embedding];
            let column = router[expert as usize..].iter().step_by(a.experts);
            let score: f64 = embedding.iter().zip(column).map(|(e, w)| e * w).sum();
            1.0 / (1.0 + (-score).exp())
        };
        let gates: Vec<f64> = routing.iter().enumerate().map(gate).collect();
        let mut tables = Tables::default();
        tables.compile(&routing, &gates, &parameters, layout);
        let bends = |combination: &Combination<f64>| {
            combination.thresholds()[..combination.pieces() - 1].iter().map(|&bend| rounded_down(bend)).collect()
        };
        let bends = tables.combinations().iter().map(bends).collect();
        Ok(Monb { layout: layout.clone(), routing, gates, tables, bends })
    }

    /// psi_c at one point, B values.
    pub fn expert(&self, expert: usize, x: f64) -> Vec<f64> {
        let (pieces, bases) = (self.tables.expert(expert), self.layout.architecture.bases);
        let at = pieces.piece(x) * bases;
        (at..at + bases).map(|line| pieces.slope[line].mul_add(x, pieces.intercept[line])).collect()
    }

    /// Slope and intercept of the line of f_k at x.
    fn line(&self, k: usize, x: f64) -> [f64; 2] {
        let (combination, lines) = self.tables.feature(k);
        lines[combination.piece(x)]
    }
}

impl Response for Monb {
    fn features(&self) -> usize {
        self.layout.architecture.features
    }

    fn value(&self, k: usize, x: f64) -> f64 {
        let [slope, intercept] = self.line(k, x);
        slope.mul_add(x, intercept)
    }

    fn slope(&self, k: usize, x: f64) -> f64 {
        self.line(k, x)[0]
    }

    fn knots(&self, k: usize) -> Option<Shape> {
        let (combination, lines) = self.tables.feature(k);
        let pieces = combination.pieces();
        Some(Shape::of_lines(&combination.thresholds()[..pieces - 1], &lines[..pieces]))
    }

    fn block(&self, responses: &mut [[f64; LANES]], x: &[[f32; LANES]]) {
        simd(
            #[inline(always)]
            || {
                for (k, (x, responses)) in x.iter().zip(&mut *responses).enumerate() {
                    let pieces = count_below(&self.bends[self.tables.of_feature()[k] as usize], x);
                    let (_, lines) = self.tables.feature(k);
                    for lane in 0..LANES {
                        let [slope, intercept] = lines[pieces[lane] as usize];
                        responses[lane] = slope.mul_add(f64::from(x[lane]), intercept);
                    }
                }
            },
        );
    }
}

/// The largest f32 that is not above x.
fn rounded_down(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) > x { near.next_down() } else { near }
}

/// Experts of each feature as training finds them, without noise.
fn chosen_experts(model: &FittedModel) -> Result<Vec<u32>> {
    let device = Cpu::<f32>::new();
    let slots = model.layout.architecture.features * model.layout.architecture.active;
    let mut routing =
        Routing { experts: device.indices(slots)?, gates: device.zeros(slots)?, noise_scale: device.zeros(slots)? };
    device.route_forward(&mut routing, &model.parameters, None, &model.layout)?;
    match routing.experts.iter().any(|&expert| expert as usize >= model.layout.architecture.experts) {
        true => Err(Error::Data("the model routes a feature to an expert it does not have".into())),
        false => Ok(routing.experts),
    }
}

#[cfg(test)]
mod tests {
    use super::rounded_down;

    #[test]
    fn rounding_down_decides_for_every_f32_as_the_number_itself() {
        let bends =
            [0.1, -0.1, 1.0, 1.0 + 1e-12, 1.0 - 1e-12, 0.0, -1e-300, 1e-300, 1e300, -1e300, 3.4e38, 16_777_217.0];
        for bend in bends {
            let rounded = rounded_down(bend);
            let near = bend as f32;
            for x in [near.next_down(), near, near.next_up(), 0.0, 1.0, -1.0, f32::MAX, f32::MIN] {
                assert_eq!(rounded < x, bend < f64::from(x), "{bend} {x}");
            }
        }
    }
}
