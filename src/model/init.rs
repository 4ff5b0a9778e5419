//! How parameters start.
//!
//! | group | start |
//! |---|---|
//! | experts, weights and biases | uniform in +-1/sqrt(fan-in), then the output layer is calibrated |
//! | coefficients a | 1/B |
//! | embeddings e | standard normal |
//! | router | uniform in +-1/sqrt(q) |
//! | hop logits alpha | 1 + `hop_growth` * t (`free` hop weights: the same, divided to sum to one) |
//! | filter | (I - `hop_growth` L)^R by powers of L: 1, 0, 0, ... where it is 0; Fourier features: coefficients 0 |
//! | network of the distance | as experts, not calibrated |
//! | batch norm | scales 1, biases 0 |
//! | first layers of NAM's other units | w normal around 4, c around 0, with deviation 1/2 |
//! | network of pairs | as experts; biases of scores so that a pair that no walk joins starts with a score of 0 |
//! | readout | `readout_scale` * uniform in +-1/sqrt(d); bias 0 (with `frequencies`, `train` sets what classes have) |
//!
//! Calibration: the output layer of each expert is scaled, sign by sign, so that every basis starts at psi(0) =
//! `response_level` and rises from x = 0 to x = 1, by `response_slope` in the root mean square over bases. All
//! responses then start as gently rising functions of the same size, and what differs between features has to be
//! learned. With `response_slope = 0` nothing is calibrated and coefficients are normal with standard deviation
//! 1/sqrt(B).
//!
//! A readout that starts at zero starts from "no opinion": the first logits are the intercept alone instead of the sum
//! of d random responses, which the small learning rates would spend a hundred epochs undoing.

use super::mixture::hidden_units;
use crate::architecture::{Form, HopWeights, Layer, Layout, Spread, Tensor};
use crate::config::Initialisation;
use crate::real::Real;
use harmonia_graph::seed::{Purpose, Stream};

/// Fresh parameters; the same seed gives the same ones.
pub fn initial_parameters<T: Real>(layout: &Layout, initialisation: Initialisation, seed: u64) -> Vec<T> {
    let a = &layout.architecture;
    let (exu, normalised) = (a.family.exu, a.family.batch_norm);
    let mut parameters = vec![T::zero(); layout.len()];
    // One stream per tensor.
    for (index, tensor) in layout.tensors().iter().enumerate() {
        let stream = Stream::new(seed, Purpose::Initialisation, index as u32);
        let uniform = |bound: f64, at: usize| bound * (2.0 * stream.uniform(at as u64) - 1.0);
        let fan_in = |width: usize| 1.0 / (width as f64).sqrt();
        for (at, parameter) in parameters[tensor.range.clone()].iter_mut().enumerate() {
            let value = match tensor.name.as_str() {
                // Weights of waves start from nothing, as their problem is convex.
                "coefficients" if a.form() == Form::Fourier => 0.0,
                "coefficients" if initialisation.response_slope > 0.0 => 1.0 / a.bases as f64,
                "coefficients" => stream.normal(at as u64) * fan_in(a.bases),
                "embeddings" => stream.normal(at as u64),
                "router.gate" | "router.noise" => uniform(fan_in(a.embedding), at),
                "hop_logits" => hop_logit(at / a.features, initialisation.hop_growth, a.hops, a.hop_weights),
                "readout.weight" => initialisation.readout_scale * uniform(fan_in(a.features), at),
                "readout.bias" => 0.0,
                "filter" => filter_start(at, initialisation.hop_growth, a.family.reach),
                "pairs.scores" => uniform(fan_in(a.hops - 1), at),
                name if name.starts_with("distance") || name.starts_with("pairs") => {
                    uniform(fan_in(distance_inputs(layout, tensor)), at)
                }
                name if name.ends_with(".scale") => 1.0,
                name if normalised && name.starts_with("experts") && name.ends_with(".bias") => 0.0,
                name if exu && name.ends_with(".layers.0.weight") => 4.0 + 0.5 * stream.normal(at as u64),
                name if exu && name.ends_with(".layers.0.bias") => 0.5 * stream.normal(at as u64),
                _ => uniform(fan_in(expert_inputs(layout, index)), at),
            };
            *parameter = T::from_f64(value);
        }
    }
    calibrate_experts(&mut parameters, layout, initialisation);
    if a.spread() == Spread::Pairs {
        level_pairs(&mut parameters, layout);
    }
    parameters
}

/// What the power L^r counts in (I - growth L)^R. A half of it makes steps of a lazy walk, so that neighbours are heard from the start.
fn filter_start(r: usize, growth: f64, reach: usize) -> f64 {
    (0..r).map(|at| -growth * (reach - at) as f64 / (at + 1) as f64).product()
}

/// Gives a pair that no walk joins a score of 0. Nearly all pairs are such: by any other score every node would hear their sum.
fn level_pairs<T: Real>(parameters: &mut [T], layout: &Layout) {
    let (d, Some(hidden)) = (layout.architecture.features, layout.distance.first()) else { return };
    let units: Vec<T> = parameters[hidden.bias.clone()].iter().map(|bias| bias.max(T::zero())).collect();
    let (weights, biases) = parameters[layout.hop_logits.clone()].split_at_mut(hidden.outputs * d);
    for (k, bias) in biases.iter_mut().enumerate() {
        let weights = weights[k..].iter().step_by(d);
        *bias = -weights.zip(&units).map(|(&weight, &unit)| weight * unit).sum::<T>();
    }
}

/// Gives the output layers of all experts the level and slope they start with, where they are to have any.
pub fn calibrate_experts<T: Real>(parameters: &mut [T], layout: &Layout, initialisation: Initialisation) {
    if initialisation.response_slope > 0.0 && !layout.architecture.family.batch_norm {
        for layers in &layout.experts {
            calibrate(parameters, layers, initialisation);
        }
    }
}

/// Rises below this are those of an expert that is off at both points.
const FLAT: f64 = 1e-2;

/// Gives every basis of an expert the same level at 0 and a rise of the same sign.
fn calibrate<T: Real>(parameters: &mut [T], layers: &[Layer], start: Initialisation) {
    let Some((output, hidden)) = layers.split_last() else { return };
    let (at_zero, at_one) = (hidden_units(parameters, hidden, 0.0), hidden_units(parameters, hidden, 1.0));
    let value = |parameters: &[T], row: usize, units: &[f64]| -> f64 {
        let weights = &parameters[output.weight.start + row * output.inputs..][..output.inputs];
        weights.iter().zip(units).map(|(w, h)| w.widen() * h).sum()
    };
    let rises: Vec<f64> =
        (0..output.outputs).map(|b| value(parameters, b, &at_one) - value(parameters, b, &at_zero)).collect();
    let size = (rises.iter().map(|rise| rise * rise).sum::<f64>() / rises.len() as f64).sqrt();
    // An expert whose hidden units hardly move between the two points keeps its scale: blown up to reach the slope it
    // would be huge elsewhere.
    let scale = if size < FLAT { 1.0 } else { start.response_slope / size };
    for (b, rise) in rises.iter().enumerate() {
        let factor = T::from_f64(if *rise < 0.0 { -scale } else { scale });
        let row = output.weight.start + b * output.inputs;
        parameters[row..row + output.inputs].iter_mut().for_each(|weight| *weight *= factor);
        let level = value(parameters, b, &at_zero);
        parameters[output.bias.start + b] = T::from_f64(start.response_level - level);
    }
}

/// Fan-in of the layer that expert tensor `index` belongs to; weights and biases alternate.
fn expert_inputs(layout: &Layout, index: usize) -> usize {
    let layers = layout.experts[0].len();
    layout.experts[0][index / 2 % layers].inputs
}

/// Fan-in of the layer of the network of the structure that a tensor belongs to.
fn distance_inputs(layout: &Layout, tensor: &Tensor) -> usize {
    let of = |layer: &&Layer| layer.weight == tensor.range || layer.bias == tensor.range;
    layout.distance.iter().find(of).map_or(1, |layer| layer.inputs)
}

fn hop_logit(t: usize, growth: f64, hops: usize, mode: HopWeights) -> f64 {
    let value = 1.0 + growth * t as f64;
    match mode {
        HopWeights::Simplex => value,
        HopWeights::Absolute | HopWeights::Signed => value * value,
        HopWeights::Free => value / (0..hops).map(|t| 1.0 + growth * t as f64).sum::<f64>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::Architecture;

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
            family: Default::default(),
        })
        .unwrap();
        let start = Initialisation {
            readout_scale: 1.0,
            hop_growth: 0.5,
            response_slope: 0.0,
            response_level: 0.0,
            frequencies: false,
            warm_start: false,
        };
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
    }

    #[test]
    fn calibrated_experts_rise_from_a_common_level() {
        let layout = Layout::new(Architecture {
            features: 3,
            outputs: 2,
            experts: 5,
            active: 1,
            bases: 8,
            hidden: vec![16, 8],
            embedding: 4,
            hops: 2,
            hop_weights: HopWeights::Free,
            family: Default::default(),
        })
        .unwrap();
        let p = initial_parameters::<f64>(&layout, Initialisation::default(), 1);
        assert!(p[layout.readout_weight.clone()].iter().all(|&w| w == 0.0));
        assert!(p[layout.coefficients.clone()].iter().all(|&a| a == 0.125));
        assert!(p[layout.hop_logits.clone()].iter().all(|&alpha| alpha == 0.5));
        for layers in &layout.experts {
            let psi = |x: f64| {
                let h = hidden_units(&p, &layers[..2], x);
                let rows = p[layers[2].weight.clone()].chunks_exact(8).zip(&p[layers[2].bias.clone()]);
                rows.map(|(w, b)| w.iter().zip(&h).map(|(w, h)| w * h).sum::<f64>() + b).collect::<Vec<_>>()
            };
            let rises: Vec<f64> = psi(0.0).iter().zip(psi(1.0)).map(|(zero, one)| one - zero).collect();
            assert!(psi(0.0).iter().all(|level| (level - 0.3).abs() < 1e-12));
            assert!(rises.iter().all(|&rise| rise >= 0.0));
            let size = (rises.iter().map(|rise| rise * rise).sum::<f64>() / 8.0).sqrt();
            assert!((size - 0.3).abs() < 1e-12, "{size}");
        }
    }
}
