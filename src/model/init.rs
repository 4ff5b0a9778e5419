//! How parameters start.
//!
//! | group | start |
//! |---|---|
//! | experts, weights and biases | uniform in +-1/sqrt(fan-in) |
//! | coefficients a | normal, standard deviation 1/sqrt(B) |
//! | embeddings e | standard normal |
//! | router | uniform in +-1/sqrt(q) |
//! | hop logits alpha | 1 + `hop_growth` * t (`free` hop weights: the same, divided to sum to one) |
//! | readout | `readout_scale` * uniform in +-1/sqrt(d); bias 0 |
//!
//! A readout that starts at zero starts from "no opinion": the first logits are the intercept alone instead of the sum
//! of d random responses, which the small learning rates would spend a hundred epochs undoing.

use super::{HopWeights, Layout};
use crate::device::Real;
use crate::seed::{Purpose, Stream};
use serde::{Deserialize, Serialize};

/// The two choices that are open.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Initialisation {
    /// Factor on the readout's usual start; 0 starts from the intercept alone.
    pub readout_scale: f64,
    /// Hop logits start at 1 + hop_growth * t.
    pub hop_growth: f64,
}

impl Default for Initialisation {
    fn default() -> Self {
        Initialisation { readout_scale: 0.0, hop_growth: 0.0 }
    }
}

/// Fresh parameters; the same seed gives the same ones.
pub fn initial_parameters<T: Real>(layout: &Layout, initialisation: Initialisation, seed: u64) -> Vec<T> {
    let a = &layout.architecture;
    let mut parameters = vec![T::zero(); layout.len()];
    // One stream a tensor: adding an expert does not change how the embeddings start.
    for (index, tensor) in layout.tensors().iter().enumerate() {
        let stream = Stream::new(seed, Purpose::Initialisation, index as u32);
        let uniform = |bound: f64, at: usize| bound * (2.0 * stream.uniform(at as u64) - 1.0);
        let fan_in = |width: usize| 1.0 / (width as f64).sqrt();
        for (at, parameter) in parameters[tensor.range.clone()].iter_mut().enumerate() {
            let value = match tensor.name.as_str() {
                "coefficients" => stream.normal(at as u64) * fan_in(a.bases),
                "embeddings" => stream.normal(at as u64),
                "router.gate" | "router.noise" => uniform(fan_in(a.embedding), at),
                "hop_logits" => hop_logit(at / a.features, initialisation.hop_growth, a.hops, a.hop_weights),
                "readout.weight" => initialisation.readout_scale * uniform(fan_in(a.features), at),
                "readout.bias" => 0.0,
                _ => uniform(fan_in(expert_inputs(layout, index)), at),
            };
            *parameter = T::from_f64(value);
        }
    }
    parameters
}

/// Fan-in of the layer that expert tensor `index` belongs to; weights and biases alternate.
fn expert_inputs(layout: &Layout, index: usize) -> usize {
    let layers = layout.experts[0].len();
    layout.experts[0][index / 2 % layers].inputs
}

fn hop_logit(t: usize, growth: f64, hops: usize, mode: HopWeights) -> f64 {
    let value = 1.0 + growth * t as f64;
    match mode {
        HopWeights::Simplex => value,
        HopWeights::Free => value / (0..hops).map(|t| 1.0 + growth * t as f64).sum::<f64>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Architecture;

    #[test]
    fn each_group_starts_as_documented() {
        let layout = Layout::new(Architecture {
            features: 50,
            outputs: 3,
            experts: 4,
            active: 2,
            bases: 64,
            hidden: vec![16, 8],
            embedding: 25,
            hops: 4,
            hop_weights: HopWeights::Simplex,
        })
        .unwrap();
        let start = Initialisation { readout_scale: 1.0, hop_growth: 0.5 };
        let p = initial_parameters::<f64>(&layout, start, 9);
        let largest = |range: &std::ops::Range<usize>| p[range.clone()].iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        for expert in &layout.experts {
            for layer in expert {
                let bound = 1.0 / (layer.inputs as f64).sqrt();
                assert!(largest(&layer.weight) <= bound && largest(&layer.weight) > 0.7 * bound);
                assert!(largest(&layer.bias) <= bound && largest(&layer.bias) > 0.4 * bound);
            }
        }
        let variance = p[layout.coefficients.clone()].iter().map(|v| v * v).sum::<f64>() / (50.0 * 64.0);
        assert!((variance * 64.0 - 1.0).abs() < 0.15, "{variance}");
        assert!(largest(&layout.router_gate) <= 0.2 && largest(&layout.readout_weight) <= 1.0 / 50f64.sqrt());
        assert_eq!(p[layout.hop_logits.start], 1.0);
        assert_eq!(p[layout.hop_logits.end - 1], 2.5);
        assert_eq!(p[layout.readout_bias.clone()], [0.0; 3]);
        assert_eq!(p, initial_parameters::<f64>(&layout, start, 9));
        assert_ne!(p, initial_parameters::<f64>(&layout, start, 10));
        let zero = initial_parameters::<f64>(&layout, Initialisation::default(), 9);
        assert!(zero[layout.readout_weight.clone()].iter().all(|&w| w == 0.0));
    }
}
