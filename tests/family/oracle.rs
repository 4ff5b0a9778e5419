//! Logits of every kind as its formula stands, densely, from named tensors alone.

use harmonia::architecture::{Kind, Layout, Waves};
use harmonia::dataset::{Dataset, Level};
use std::collections::HashMap;

/// Logits as the formulas stand, from named tensors: distances by relaxation, powers by dense products.
pub struct Oracle<'a> {
    kind: Kind,
    data: &'a Dataset,
    classes: usize,
    tensors: HashMap<String, (Vec<usize>, Vec<f64>)>,
    reach: usize,
}

impl<'a> Oracle<'a> {
    pub fn new(kind: Kind, data: &'a Dataset, layout: &Layout, parameters: &[f64]) -> Self {
        let named = |tensor: &harmonia::architecture::Tensor| {
            (tensor.name.clone(), (tensor.shape.clone(), parameters[tensor.range.clone()].to_vec()))
        };
        let tensors = layout.tensors().iter().map(named).collect();
        let reach = layout.architecture.family.reach;
        Oracle { kind, data, classes: data.labels.outputs(), tensors, reach }
    }

    pub fn values(&self, name: &str) -> &[f64] {
        &self.tensors[name].1
    }

    fn network(&self, name: &str, x: f64) -> Vec<f64> {
        let mut input = vec![x];
        for layer in 0.. {
            let Some((shape, weight)) = self.tensors.get(&format!("{name}.layers.{layer}.weight")) else { break };
            if layer > 0 {
                input.iter_mut().for_each(|value| *value = value.max(0.0));
            }
            let bias = self.values(&format!("{name}.layers.{layer}.bias"));
            let unit =
                |u: usize| bias[u] + input.iter().enumerate().map(|(v, x)| weight[u * shape[1] + v] * x).sum::<f64>();
            input = (0..shape[0]).map(unit).collect();
        }
        input
    }

    /// f_k of a kind whose readout is learned and whose experts are not.
    pub fn own_response(&self, k: usize, x: f64) -> f64 {
        if self.kind == Kind::Nam {
            return self.network(&format!("experts.{k}"), x)[0];
        }
        let bases = self.network("experts.0", x);
        let a = &self.values("coefficients")[k * bases.len()..];
        bases.iter().zip(a).map(|(b, a)| a * b).sum()
    }

    /// What feature k of a node says of every class.
    fn response(&self, k: usize, x: f64) -> Vec<f64> {
        let through =
            |f: f64| (0..self.classes).map(|c| f * self.values("readout.weight")[k * self.classes + c]).collect();
        match self.kind {
            Kind::Nbm | Kind::Nam => through(self.own_response(k, x)),
            Kind::DnnRrwp => {
                let mut f = 0.0;
                for (expert, gate) in self.gates(k) {
                    let bases = self.network(&format!("experts.{expert}"), x);
                    let a = &self.values("coefficients")[k * bases.len()..];
                    f += gate * bases.iter().zip(a).map(|(b, a)| a * b).sum::<f64>();
                }
                through(f)
            }
            Kind::Gnan => self.network(&format!("experts.{k}"), x),
            _ => {
                let waves = Waves::new(6, 0.8);
                let of_class = |c: usize| {
                    let a = &self.values("coefficients")[(k * self.classes + c) * 6..][..6];
                    let wave = |s: usize| (2.0f64 / 6.0).sqrt() * (waves.frequencies[s] * x + waves.phases[s]).cos();
                    (0..6).map(|s| a[s] * wave(s)).sum()
                };
                (0..self.classes).map(of_class).collect()
            }
        }
    }

    /// The two experts of feature k with the largest scores, and sigmoid of those.
    fn gates(&self, k: usize) -> Vec<(usize, f64)> {
        let (embedding, gate) = (&self.values("embeddings")[3 * k..][..3], self.values("router.gate"));
        let score = |c: usize| embedding.iter().enumerate().map(|(j, e)| e * gate[j * 3 + c]).sum::<f64>();
        let mut all: Vec<(usize, f64)> = (0..3).map(|c| (c, 1.0 / (1.0 + (-score(c)).exp()))).collect();
        all.sort_by(|x, y| y.1.total_cmp(&x.1));
        all.truncate(2);
        all
    }

    /// The score of a pair for feature k, from its walk probabilities.
    fn score(&self, k: usize, walks: &[f64]) -> f64 {
        let hidden = self.values("pairs.hidden.layers.0.weight").chunks(walks.len());
        let biases = self.values("pairs.hidden.layers.0.bias");
        let mut score = self.values("pairs.scores")[biases.len() * 3 + k];
        for (h, (weights, bias)) in hidden.zip(biases).enumerate() {
            let unit = bias + weights.iter().zip(walks).map(|(w, p)| w * p).sum::<f64>();
            score += self.values("pairs.scores")[h * 3 + k] * unit.max(0.0);
        }
        score
    }

    /// How much node j counts for node i by feature k, n x n; of nodes of different graphs, not at all.
    fn structure_of(&self, k: usize) -> Vec<Vec<f64>> {
        if self.kind != Kind::DnnRrwp {
            return self.structure();
        }
        let n = self.data.graph.nodes();
        let unit = |i: usize, j: usize| f64::from(i == j);
        let mut m: Vec<Vec<f64>> = (0..n).map(|_| vec![0.0; n]).collect();
        for (i, row) in m.iter_mut().enumerate() {
            self.data.graph.adjacency().row_entries(i).for_each(|(j, weight)| row[j] = f64::from(weight));
            if row.iter().all(|weight| *weight == 0.0) {
                row[i] = 1.0;
            }
            let degree: f64 = row.iter().sum();
            row.iter_mut().for_each(|weight| *weight /= degree);
        }
        let mut powers = vec![(0..n).map(|i| (0..n).map(|j| unit(i, j)).collect()).collect::<Vec<Vec<f64>>>()];
        for t in 1..4 {
            let next = |i: usize, j: usize| (0..n).map(|l| powers[t - 1][i][l] * m[l][j]).sum();
            let power = (0..n).map(|i| (0..n).map(|j| next(i, j)).collect()).collect();
            powers.push(power);
        }
        let graph = |i: usize| self.data.graph_ptr.iter().filter(|&&first| first <= i).count();
        let weight = |i: usize, j: usize| {
            let walks: Vec<f64> = powers.iter().map(|power| power[i][j]).collect();
            if graph(i) == graph(j) { self.score(k, &walks) } else { 0.0 }
        };
        (0..n).map(|i| (0..n).map(|j| weight(i, j)).collect()).collect()
    }

    /// How much node j counts for node i by any feature, n x n.
    fn structure(&self) -> Vec<Vec<f64>> {
        let n = self.data.graph.nodes();
        let mut a = vec![vec![0.0; n]; n];
        for (i, row) in a.iter_mut().enumerate() {
            for (j, weight) in self.data.graph.adjacency().row_entries(i) {
                row[j] = f64::from(weight);
            }
        }
        match self.kind {
            Kind::Gnan => {
                let mut distance = vec![vec![usize::MAX; n]; n];
                (0..n).for_each(|i| distance[i][i] = 0);
                for _ in 0..n {
                    for (i, j, k) in (0..n * n * n).map(|at| (at / n / n, at / n % n, at % n)) {
                        if distance[i][j] != usize::MAX && a[j][k] > 0.0 {
                            distance[i][k] = distance[i][k].min(distance[i][j] + 1);
                        }
                    }
                }
                let weight = |i: usize, j: usize| {
                    let d = distance[i][j];
                    let count = distance[i].iter().filter(|&&other| other == d).count() as f64;
                    if d > self.reach { 0.0 } else { self.network("distance", 1.0 / (1.0 + d as f64))[0] / count }
                };
                (0..n).map(|i| (0..n).map(|j| weight(i, j)).collect()).collect()
            }
            Kind::GNamrff => {
                // A node that reads from nobody reads from itself.
                (0..n)
                    .filter(|&i| a[i].iter().sum::<f64>() == 0.0)
                    .collect::<Vec<_>>()
                    .iter()
                    .for_each(|&i| a[i][i] = 1.0);
                let degree: Vec<f64> = a.iter().map(|row| row.iter().sum()).collect();
                let unit = |i: usize, j: usize| f64::from(i == j);
                let lap = |i: usize, j: usize| unit(i, j) - a[i][j] / (degree[i] * degree[j]).sqrt();
                let mut power: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| unit(i, j)).collect()).collect();
                let mut sum = vec![vec![0.0; n]; n];
                for h in self.values("filter") {
                    (0..n * n).for_each(|at| sum[at / n][at % n] += h * power[at / n][at % n]);
                    let next = |i: usize, j: usize| (0..n).map(|l| power[i][l] * lap(l, j)).sum();
                    power = (0..n).map(|i| (0..n).map(|j| next(i, j)).collect()).collect();
                }
                sum
            }
            _ => (0..n).map(|i| (0..n).map(|j| f64::from(i == j)).collect()).collect(),
        }
    }

    pub fn logits(&self) -> Vec<f64> {
        let (n, columns, x) = (self.data.graph.nodes(), self.data.features.cols, self.data.features.dense());
        let said: Vec<Vec<Vec<f64>>> =
            (0..columns).map(|k| (0..n).map(|j| self.response(k, f64::from(x[j * columns + k]))).collect()).collect();
        let structure: Vec<Vec<Vec<f64>>> = (0..columns).map(|k| self.structure_of(k)).collect();
        let of_feature = |k: usize, i: usize, c: usize| (0..n).map(|j| structure[k][i][j] * said[k][j][c]).sum::<f64>();
        let heard = |i: usize, c: usize| (0..columns).map(|k| of_feature(k, i, c)).sum::<f64>();
        let bias = |c: usize| self.tensors.get("readout.bias").map_or(0.0, |bias| bias.1[c]);
        let units: Vec<Vec<usize>> = match self.data.level {
            Level::Node => (0..n).map(|i| vec![i]).collect(),
            Level::Graph => self.data.graph_ptr.windows(2).map(|pair| (pair[0]..pair[1]).collect()).collect(),
        };
        let of = |unit: &Vec<usize>, c: usize| bias(c) + unit.iter().map(|&i| heard(i, c)).sum::<f64>();
        units.iter().flat_map(|unit| (0..self.classes).map(|c| of(unit, c)).collect::<Vec<_>>()).collect()
    }
}
