//! The whole model as its formula reads: dense matrices, f64, one loop per index. It shares nothing with the engine but
//! the place of each parameter.

// Loops run over the indices of the formula.
#![allow(clippy::needless_range_loop)]

use super::problems::Problem;
use harmonia::architecture::{HopWeights, Layer};
use harmonia::config::DropoutPlace;
use harmonia::dataset::{Labels, Level};
use harmonia::device::Dropout;
use harmonia::graph::{Direction, Walk};
use harmonia::loss::Objective;

/// Rows of a dense matrix.
pub type Matrix = Vec<Vec<f64>>;

/// Every quantity of a forward pass.
pub struct Oracle {
    /// theta\[t\]\[k\].
    pub hop_weights: Matrix,
    /// F\[i\]\[k\].
    pub responses: Matrix,
    /// H\[i\]\[k\].
    pub state: Matrix,
    /// Nodes or graphs x L.
    pub logits: Matrix,
    /// Mean over the training units, each as often as it counts.
    pub loss: f64,
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// M, from the edges as the user gave them.
pub fn transition(
    nodes: usize,
    edges: &[(u32, u32)],
    weights: Option<&[f32]>,
    direction: Direction,
    walk: Walk,
) -> Matrix {
    let mut m = vec![vec![0.0; nodes]; nodes];
    for (edge, &(i, j)) in edges.iter().enumerate() {
        let (i, j) = (i as usize, j as usize);
        let ways = if direction == Direction::Undirected && i != j { vec![(i, j), (j, i)] } else { vec![(i, j)] };
        for (i, j) in ways {
            match weights {
                Some(weights) => m[i][j] += f64::from(weights[edge]),
                None => m[i][j] = 1.0,
            }
        }
    }
    for i in 0..nodes {
        if m[i][i] == 0.0 && (walk.self_loops || m[i].iter().all(|&weight| weight == 0.0)) {
            m[i][i] = 1.0;
        }
        let degree: f64 = m[i].iter().sum();
        for j in 0..nodes {
            m[i][j] /= degree;
            if walk.lazy {
                m[i][j] = (m[i][j] + if i == j { 1.0 } else { 0.0 }) / 2.0;
            }
        }
    }
    m
}

/// The relative random walk probabilities: M^0, M^1, ... M^(hops - 1).
pub fn walk_powers(m: &Matrix, hops: usize) -> Vec<Matrix> {
    let n = m.len();
    let identity = (0..n).map(|i| (0..n).map(|j| if i == j { 1.0 } else { 0.0 }).collect()).collect();
    let mut powers: Vec<Matrix> = vec![identity];
    for t in 1..hops {
        let mut next = vec![vec![0.0; n]; n];
        for i in 0..n {
            for via in 0..n {
                for j in 0..n {
                    next[i][j] += powers[t - 1][i][via] * m[via][j];
                }
            }
        }
        powers.push(next);
    }
    powers
}

/// psi(x): every layer, the output layer included.
fn expert(layers: &[Layer], parameters: &[f64], x: f64) -> Vec<f64> {
    let mut h = vec![x];
    for (l, layer) in layers.iter().enumerate() {
        let (weight, bias) = (&parameters[layer.weight.clone()], &parameters[layer.bias.clone()]);
        let unit = |u: usize| bias[u] + (0..layer.inputs).map(|v| weight[u * layer.inputs + v] * h[v]).sum::<f64>();
        h = (0..layer.outputs).map(|u| if l + 1 < layers.len() { unit(u).max(0.0) } else { unit(u) }).collect();
    }
    h
}

/// The loss of one unit; one formula per loss.
fn loss_of(objective: Objective, labels: &Labels, unit: usize, z: &[f64]) -> f64 {
    let codes: Vec<usize> = labels.codes(unit).map(|code| code as usize).collect();
    let binary = |z: f64, y: usize| -if y == 1 { sigmoid(z) } else { sigmoid(-z) }.ln();
    let errors = || z.iter().zip(labels.values(unit)).map(|(z, y)| z - f64::from(*y));
    match objective {
        Objective::Softmax => -(z[codes[0]].exp() / z.iter().map(|z| z.exp()).sum::<f64>()).ln(),
        Objective::Sigmoid => z.iter().zip(codes).map(|(&z, y)| binary(z, y)).sum(),
        Objective::Squared => errors().map(|error| error.powi(2) / 2.0).sum(),
    }
}

impl Oracle {
    /// Runs the model. Dropout of hidden units is not part of it.
    pub fn new(problem: &Problem, noise: Option<&[f64]>, dropout: Option<&Dropout>) -> Oracle {
        let (dataset, layout, p) = (&problem.dataset, &problem.layout, &problem.parameters);
        let a = &layout.architecture;
        let (n, d, outputs) = (dataset.graph.nodes(), a.features, a.outputs);
        let drop = |place: DropoutPlace, index: usize| match dropout {
            Some(dropout) if dropout.place == place && dropout.drops(index as u64) => 0.0,
            Some(dropout) if dropout.place == place => 1.0 / (1.0 - dropout.rate),
            _ => 1.0,
        };

        // Gates: Q = e Wg + eps * sigmoid(e Wn), the m largest of each feature, ties to the lower expert.
        let mut gates = vec![vec![0.0; a.experts]; d];
        for k in 0..d {
            let embedding = &p[layout.embeddings.clone()][k * a.embedding..][..a.embedding];
            let product =
                |w: &[f64], c: usize| -> f64 { (0..a.embedding).map(|j| embedding[j] * w[j * a.experts + c]).sum() };
            let score = |c: usize| {
                let eps = noise.map_or(0.0, |noise| noise[k * a.experts + c]);
                product(&p[layout.router_gate.clone()], c) + eps * sigmoid(product(&p[layout.router_noise.clone()], c))
            };
            let mut order: Vec<usize> = (0..a.experts).collect();
            order.sort_by(|&x, &y| score(y).total_cmp(&score(x)).then(x.cmp(&y)));
            for &c in &order[..a.active] {
                gates[k][c] = sigmoid(score(c));
            }
        }

        // F[i][k] = a_k . sum_c pi[k][c] psi_c(x[i][k])
        let mut responses = vec![vec![0.0; d]; n];
        for i in 0..n {
            for k in 0..d {
                let x = f64::from(dataset.features.dense()[i * d + k]) * drop(DropoutPlace::Input, i * d + k);
                for c in 0..a.experts {
                    let psi = expert(&layout.experts[c], p, x);
                    for b in 0..a.bases {
                        let coefficient = p[layout.coefficients.start + k * a.bases + b];
                        responses[i][k] += coefficient * gates[k][c] * psi[b] * drop(DropoutPlace::Feature, k);
                    }
                }
            }
        }

        // theta = (alpha^2 + 1e-8) / its sum over t, or as the other forms have it
        let alpha = |t: usize, k: usize| p[layout.hop_logits.start + t * d + k];
        let over_all = |term: &dyn Fn(usize) -> f64| (0..a.hops).map(term).sum::<f64>();
        let theta = |t: usize, k: usize| match (a.hop_weights, &layout.hop_basis) {
            (HopWeights::Free, None) => alpha(t, k),
            (HopWeights::Free, Some(basis)) => over_all(&|u| basis[t * a.hops + u] * alpha(u, k)),
            (HopWeights::Simplex, _) => (alpha(t, k).powi(2) + 1e-8) / over_all(&|u| alpha(u, k).powi(2) + 1e-8),
            (HopWeights::Absolute, _) => (alpha(t, k).abs() + 1e-8) / over_all(&|u| alpha(u, k).abs() + 1e-8),
            (HopWeights::Signed, _) => alpha(t, k) / over_all(&|u| alpha(u, k).abs() + 1e-8),
        };
        let hop_weights: Matrix = (0..a.hops).map(|t| (0..d).map(|k| theta(t, k)).collect()).collect();

        // H = sum_t theta_t (*) M^t F
        let powers = walk_powers(&problem.transition(), a.hops);
        let mut state = vec![vec![0.0; d]; n];
        for t in 0..a.hops {
            for i in 0..n {
                for j in 0..n {
                    for k in 0..d {
                        state[i][k] += hop_weights[t][k] * powers[t][i][j] * responses[j][k];
                    }
                }
            }
        }

        // logits = beta + H Wo, summed over the nodes of a graph for graph tasks
        let readout = |i: usize, class: usize| -> f64 {
            (0..d).map(|k| state[i][k] * p[layout.readout_weight.start + k * outputs + class]).sum()
        };
        let logit = |unit: usize, class: usize| {
            let nodes = if dataset.level == Level::Graph {
                dataset.graph_ptr[unit]..dataset.graph_ptr[unit + 1]
            } else {
                unit..unit + 1
            };
            p[layout.readout_bias.start + class] + nodes.map(|i| readout(i, class)).sum::<f64>()
        };
        let units = if dataset.level == Level::Graph { dataset.graph_ptr.len() - 1 } else { n };
        let logits: Matrix = (0..units).map(|u| (0..outputs).map(|class| logit(u, class)).collect()).collect();

        let targets = &dataset.split.train;
        let weight = |u: u32| problem.unit_weights.as_ref().map_or(1.0, |weights| f64::from(weights[u as usize]));
        let losses = targets
            .iter()
            .map(|&u| weight(u) * loss_of(problem.objective(), &dataset.labels, u as usize, &logits[u as usize]));
        let loss = losses.sum::<f64>() / targets.len() as f64;
        Oracle { hop_weights, responses, state, logits, loss }
    }
}
