//! The factors of every term of a prediction, read off a trained model in f64.
//!
//! logit(i, class) = beta + sum_k sum_j sum_t w[k,class] theta[t,k] (M^t)[i,j] f_k(x[j,k]): here are beta, w, theta and
//! f_k, the last as exact lines over pieces. Which experts a feature uses is decided in f32, as training decides it, so
//! that a near tie cannot fall differently here.

use crate::architecture::Layout;
use crate::device::cpu::{Cpu, hop_weights};
use crate::device::{Device, Routing};
use crate::knots::{Combination, Tables, count_below};
use crate::model::FittedModel;
use harmonia_graph::dataset::Features;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::simd::simd;
use std::ops::Range;

/// Nodes whose responses are looked up together.
pub(super) const LANES: usize = 64;

/// What a model multiplies.
#[derive(Clone, Debug)]
pub struct Factors {
    /// Sizes, and where parameters are.
    pub layout: Layout,
    /// beta, L.
    pub bias: Vec<f64>,
    /// w, d x L.
    pub weight: Vec<f64>,
    /// theta, T x d.
    pub hop_weights: Vec<f64>,
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

impl Factors {
    /// Reads a model.
    ///
    /// # Errors
    /// The routing could not be computed.
    pub fn of(model: &FittedModel) -> Result<Factors> {
        let (layout, a) = (&model.layout, &model.layout.architecture);
        let parameters: Vec<f64> = model.parameters.iter().map(|&value| f64::from(value)).collect();
        let routing = chosen_experts(model)?;
        let (embeddings, router) = (&parameters[layout.embeddings.clone()], &parameters[layout.router_gate.clone()]);
        let gate = |(slot, &expert): (usize, &u32)| {
            let embedding = &embeddings[slot / a.active * a.embedding..][..a.embedding];
            let column = router[expert as usize..].iter().step_by(a.experts);
            let score: f64 = embedding.iter().zip(column).map(|(e, w)| e * w).sum();
            1.0 / (1.0 + (-score).exp())
        };
        let gates: Vec<f64> = routing.iter().enumerate().map(gate).collect();
        let mut theta = vec![0.0; a.hops * a.features];
        hop_weights::weights(&mut theta, &parameters[layout.hop_logits.clone()], a);
        let mut tables = Tables::default();
        tables.compile(&routing, &gates, &parameters, layout);
        let bends = |combination: &Combination<f64>| {
            combination.thresholds()[..combination.pieces() - 1].iter().map(|&bend| rounded_down(bend)).collect()
        };
        Ok(Factors {
            bends: tables.combinations().iter().map(bends).collect(),
            bias: parameters[layout.readout_bias.clone()].to_vec(),
            weight: parameters[layout.readout_weight.clone()].to_vec(),
            hop_weights: theta,
            layout: layout.clone(),
            routing,
            gates,
            tables,
        })
    }

    /// d.
    pub fn features(&self) -> usize {
        self.layout.architecture.features
    }

    /// L.
    pub fn outputs(&self) -> usize {
        self.layout.architecture.outputs
    }

    /// T.
    pub fn hops(&self) -> usize {
        self.layout.architecture.hops
    }

    /// theta of one feature at one walk length.
    pub fn theta(&self, t: usize, k: usize) -> f64 {
        self.hop_weights[t * self.features() + k]
    }

    /// Sum of theta over walk lengths: what a constant response is multiplied by. 1 on the simplex, up to rounding.
    pub fn total_theta(&self, k: usize) -> f64 {
        (0..self.hops()).map(|t| self.theta(t, k)).sum()
    }

    /// f_k(x).
    pub fn response(&self, k: usize, x: f64) -> f64 {
        let (combination, lines) = self.tables.feature(k);
        let [slope, intercept] = lines[combination.piece(x)];
        slope.mul_add(x, intercept)
    }

    /// Where f_k may bend, increasing, and its line on each piece, one more than bends.
    pub fn pieces(&self, k: usize) -> (&[f64], &[[f64; 2]]) {
        let (combination, lines) = self.tables.feature(k);
        (&combination.thresholds()[..combination.pieces() - 1], &lines[..combination.pieces()])
    }

    /// psi_c at one point, B values.
    pub fn expert(&self, expert: usize, x: f64) -> Vec<f64> {
        let (pieces, bases) = (self.tables.expert(expert), self.layout.architecture.bases);
        let at = pieces.piece(x) * bases;
        (at..at + bases).map(|line| pieces.slope[line].mul_add(x, pieces.intercept[line])).collect()
    }

    /// `responses[k][lane]` = f_k of the nodes in a block.
    pub(super) fn responses<'b>(&self, block: &'b mut Block) -> &'b [[f64; LANES]] {
        let Block { x, responses } = block;
        responses.resize(x.len(), [0.0; LANES]);
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
        responses
    }

    /// Calls `visit(nodes, responses)` for all nodes of a range, a few at a time: `responses[k][lane]` is F of the node at
    /// that place of `nodes`.
    pub(super) fn each_block(
        &self,
        features: &Features,
        nodes: Range<usize>,
        mut visit: impl FnMut(Range<usize>, &[[f64; LANES]]),
    ) {
        let (mut block, mut scratch) = (Block::new(self.features()), Vec::new());
        for start in nodes.clone().step_by(LANES) {
            let nodes = start..nodes.end.min(start + LANES);
            nodes.clone().enumerate().for_each(|(lane, node)| block.set(lane, features.row(node, &mut scratch)));
            visit(nodes, self.responses(&mut block));
        }
    }
}

/// The largest f32 that is not above x.
fn rounded_down(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) > x { near.next_down() } else { near }
}

/// Features and responses of a few nodes, d x LANES.
pub(super) struct Block {
    x: Vec<[f32; LANES]>,
    responses: Vec<[f64; LANES]>,
}

impl Block {
    pub fn new(features: usize) -> Block {
        // Lanes without a node are looked up too: they must be numbers.
        Block { x: vec![[0.0; LANES]; features], responses: Vec::new() }
    }

    /// Features of a node.
    pub fn set(&mut self, lane: usize, row: &[f32]) {
        self.x.iter_mut().zip(row).for_each(|(x, &value)| x[lane] = value);
    }
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
