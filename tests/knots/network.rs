//! The oracle of compiled experts: random networks, evaluated unit by unit.

use harmonia::architecture::Layer;
use harmonia::device::cpu::Ops;
use harmonia::seed::{Purpose, Rng, Stream};

/// Parameters around the expert, which its gradient must leave alone.
pub const MARGIN: usize = 3;

/// What the weights are like.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Uniform in [-1, 1).
    Plain,
    /// No biases: all knots of the first layer are at zero.
    Unbiased,
    /// Half of the weights are zero, in the first layer as well: units that are constant.
    Sparse,
    /// Every unit twice, so that knots coincide.
    Repeated,
    /// Every second unit is minus the one before: rising and falling units share their roots.
    Opposite,
    /// Biases so low that many units are never on near the points, and whole layers are off.
    Dead,
    /// Rows scaled by powers of ten from 1e-6 to 1e6.
    Scaled,
    /// Weights and biases are binary fractions of few digits, so that all arithmetic is exact.
    Dyadic,
}

pub const KINDS: [Kind; 8] =
    [Kind::Plain, Kind::Unbiased, Kind::Sparse, Kind::Repeated, Kind::Opposite, Kind::Dead, Kind::Scaled, Kind::Dyadic];

#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub hidden: Vec<usize>,
    pub bases: usize,
    pub kind: Kind,
}

/// The obvious expert: evaluated unit by unit, point by point, in f64.
#[derive(Clone, Debug)]
pub struct Network {
    pub layers: Vec<Layer>,
    pub parameters: Vec<f64>,
}

impl Network {
    /// Of these widths (1, hidden, bases), all parameters zero.
    pub fn zeros(widths: &[usize]) -> Network {
        let mut end = MARGIN;
        let layers = widths.windows(2).map(|pair| {
            let weight = end..end + pair[0] * pair[1];
            let bias = weight.end..weight.end + pair[1];
            end = bias.end;
            Layer { inputs: pair[0], outputs: pair[1], weight, bias }
        });
        let layers = layers.collect();
        Network { layers, parameters: vec![0.0; end + MARGIN] }
    }

    /// One hidden layer of these (weight, bias) and an output for each unit that is the unit itself.
    pub fn units(units: &[(f64, f64)]) -> Network {
        let mut network = Network::zeros(&[1, units.len(), units.len()]);
        for (u, &(weight, bias)) in units.iter().enumerate() {
            network.set(0, u, &[weight], bias);
            let mut row = vec![0.0; units.len()];
            row[u] = 1.0;
            network.set(1, u, &row, 0.0);
        }
        network
    }

    pub fn draw(case: &Case) -> Network {
        let widths: Vec<usize> = [1].into_iter().chain(case.hidden.iter().copied()).chain([case.bases]).collect();
        let mut network = Network::zeros(&widths);
        let mut rng = Stream::new(case.seed, Purpose::Initialisation, 0).rng();
        for l in 0..widths.len() - 1 {
            for u in 0..widths[l + 1] {
                let (mut weights, mut bias) = draw_unit(&mut rng, case.kind, l, widths[l]);
                let hidden = l + 2 < widths.len();
                if let (Kind::Repeated | Kind::Opposite, true, 1) = (case.kind, hidden, u % 2) {
                    let sign = if let Kind::Opposite = case.kind { -1.0 } else { 1.0 };
                    let layer = &network.layers[l];
                    let start = layer.weight.start + (u - 1) * layer.inputs;
                    weights = network.parameters[start..][..layer.inputs].iter().map(|w| sign * w).collect();
                    bias = sign * network.parameters[layer.bias.start + u - 1];
                }
                network.set(l, u, &weights, bias);
            }
        }
        network
    }

    pub fn set(&mut self, l: usize, unit: usize, weights: &[f64], bias: f64) {
        let layer = &self.layers[l];
        self.parameters[layer.weight.clone()][unit * layer.inputs..][..layer.inputs].copy_from_slice(weights);
        self.parameters[layer.bias.clone()][unit] = bias;
    }

    /// Parameters as numbers of type T.
    pub fn round<T: Ops>(&self) -> Vec<T> {
        self.parameters.iter().map(|&value| T::from_f64(value)).collect()
    }

    /// The network whose parameters are these.
    pub fn with<T: Ops>(&self, parameters: &[T]) -> Network {
        Network { layers: self.layers.clone(), parameters: parameters.iter().map(|value| value.widen()).collect() }
    }

    /// Every layer before ReLU; the last entry is psi(x).
    pub fn evaluate(&self, x: f64) -> Vec<Vec<f64>> {
        let mut all: Vec<Vec<f64>> = Vec::new();
        for layer in &self.layers {
            let mut outputs = Vec::new();
            for u in 0..layer.outputs {
                let mut sum = self.parameters[layer.bias.start + u];
                for v in 0..layer.inputs {
                    let input = all.last().map_or(x, |before| before[v].max(0.0));
                    sum += self.parameters[layer.weight.start + u * layer.inputs + v] * input;
                }
                outputs.push(sum);
            }
            all.push(outputs);
        }
        all
    }

    pub fn value(&self, x: f64) -> Vec<f64> {
        self.evaluate(x).pop().unwrap_or_default()
    }

    /// Adds the gradient of g . psi(x).
    pub fn backward(&self, gradient: &mut [f64], x: f64, g: &[f64]) {
        let all = self.evaluate(x);
        let mut delta = g.to_vec();
        for l in (0..self.layers.len()).rev() {
            let layer = &self.layers[l];
            let mut d_inputs = vec![0.0; layer.inputs];
            for u in 0..layer.outputs {
                gradient[layer.bias.start + u] += delta[u];
                for v in 0..layer.inputs {
                    let at = layer.weight.start + u * layer.inputs + v;
                    let input = if l == 0 { x } else { all[l - 1][v].max(0.0) };
                    gradient[at] += delta[u] * input;
                    if l > 0 && all[l - 1][v] > 0.0 {
                        d_inputs[v] += delta[u] * self.parameters[at];
                    }
                }
            }
            delta = d_inputs;
        }
    }

    /// The sizes of the terms that psi(x) is the sum of: what its rounding errors are measured in.
    pub fn size(&self, x: f64) -> Vec<f64> {
        let mut size = vec![x.abs()];
        for layer in &self.layers {
            let rows = self.parameters[layer.weight.clone()].chunks_exact(layer.inputs);
            let terms = rows.map(|row| row.iter().zip(&size).map(|(weight, size)| weight.abs() * size).sum::<f64>());
            size = terms.zip(&self.parameters[layer.bias.clone()]).map(|(terms, bias)| terms + bias.abs()).collect();
        }
        size
    }

    pub fn bases(&self) -> usize {
        self.layers[self.layers.len() - 1].outputs
    }

    pub fn hidden(&self) -> Vec<usize> {
        self.layers[..self.layers.len() - 1].iter().map(|layer| layer.outputs).collect()
    }
}

/// Weights and bias of one unit of layer l.
fn draw_unit(rng: &mut Rng, kind: Kind, l: usize, inputs: usize) -> (Vec<f64>, f64) {
    let mut symmetric = || 2.0 * rng.uniform() - 1.0;
    let mut weights: Vec<f64> = (0..inputs).map(|_| symmetric()).collect();
    let mut bias = symmetric();
    match kind {
        Kind::Plain | Kind::Repeated | Kind::Opposite => {}
        Kind::Unbiased => bias = 0.0,
        Kind::Sparse => weights.iter_mut().for_each(|weight| *weight *= rng.below(2) as f64),
        Kind::Dead => bias -= 2.5 * rng.uniform(),
        Kind::Scaled => {
            let scale = 10f64.powi(rng.below(13) as i32 - 6);
            weights.iter_mut().for_each(|weight| *weight *= scale);
            bias *= scale;
        }
        Kind::Dyadic => {
            // Powers of two in the first layer, so that its knots are multiples of 1/16.
            let first = [-2.0, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0, 2.0];
            for weight in &mut weights {
                *weight = if l == 0 { first[rng.below(8)] } else { rng.below(7) as f64 / 2.0 - 1.5 };
            }
            bias = rng.below(17) as f64 / 8.0 - 1.0;
        }
    }
    (weights, bias)
}
