//! The additive family: every kind of model against a dense oracle of its formula, gradients against central differences, counts
//! against published formulas, explanations against logits, and files that keep all of it.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

mod common;

use common::differences::{Differentiated, Tally};
use common::edges::assert_what_ifs;
use common::{F64_TOLERANCE, assert_close, batch_of, run_batch};
use harmonia::architecture::{Kind, Layout, Waves};
use harmonia::config::{Config, DropoutPlace, Monb};
use harmonia::dataset::{Dataset, Features, Labels, Level};
use harmonia::device::{Dropout, Machine};
use harmonia::explain::{By, Case, Edit, Factors, Importance, Score, Shape, Target, explain_nodes};
use harmonia::graph::{Direction, Graph, Split};
use harmonia::model::{FittedModel, initial_parameters};
use harmonia::plan::{Plan, Space};
use harmonia::seed::{Purpose, Stream};
use harmonia::train::{Prepared, RunName, Trainer, structured};
use harmonia::{Stop, fit};
use std::collections::HashMap;

const KINDS: [Kind; 6] = [Kind::Nbm, Kind::Nam, Kind::GpNam, Kind::Gnan, Kind::GNamrff, Kind::DnnRrwp];
/// Logits are f32, of a few dozen terms.
const F32_TOLERANCE: f64 = 2e-5;

/// Random graphs: the first has an isolated node, the last is one node.
fn dataset(seed: u32, level: Level, classes: usize, direction: Direction) -> Dataset {
    let stream = Stream::new(11, Purpose::Initialisation, seed);
    let graph_ptr = vec![0, 9, 14, 15];
    let mut edges = Vec::new();
    for pair in graph_ptr.windows(2) {
        let size = pair[1] - pair[0];
        for at in 0..size + 2 {
            let pick = |salt: usize| {
                let draw = stream.uniform((1000 + 2 * (pair[0] * 40 + at) + salt) as u64);
                // Never the first node of a graph: it is alone.
                1 + ((draw * (size as f64 - 1.0)) as usize).min(size.saturating_sub(2))
            };
            if size > 2 {
                edges.push(((pair[0] + pick(0)) as u32, (pair[0] + pick(1)) as u32));
            }
        }
    }
    let graph = Graph::from_edges(15, &edges, None, direction).unwrap();
    // Continuous, few values, mostly zero.
    let value = |i: usize, k: usize| {
        let x = stream.normal((i * 3 + k) as u64);
        [x, x.round(), if x > 0.3 { 1.0 } else { 0.0 }][k] as f32
    };
    let x = (0..15).flat_map(|i| (0..3).map(move |k| (i, k))).map(|(i, k)| value(i, k)).collect();
    let units = if level == Level::Node { 15 } else { 3 };
    let ids = (0..units).map(|unit| (unit % classes) as u32).collect();
    let labels = Labels::Classes { ids, classes };
    let split = match level {
        Level::Node => Split { train: (0..9).collect(), valid: vec![9, 10, 14], test: vec![11, 12, 13] },
        Level::Graph => Split { train: vec![0, 1], valid: vec![2], test: vec![] },
    };
    Dataset::new("f", graph, graph_ptr, Features::new(15, 3, x).unwrap(), labels, level, split).unwrap()
}

fn config(kind: Kind) -> Config {
    let mut config = Config::default();
    config.model.kind = kind;
    config.model.hidden = vec![5, 4];
    config.model.bases = 6;
    config.model.bandwidth = 0.8;
    (config.model.experts, config.model.active, config.model.embedding) = (3, 2, 3);
    (config.model.hops, config.model.pair_hidden) = (4, 5);
    config.init.response_slope = 0.0;
    config.init.readout_scale = 1.0;
    config.train.epochs = 6;
    config.train.learning_rate = 0.02;
    config
}

/// A layout on data that have a column per class where the kind wants them, and parameters of a fair size.
fn prepared(kind: Kind, data: &Dataset) -> (Prepared, Vec<f64>) {
    let config = config(kind);
    let data = structured(data.clone(), &config).unwrap();
    let run = Prepared::of(data, None, &config, RunName { seed: 3, fold: None }).unwrap();
    let stream = Stream::new(5, Purpose::Initialisation, 77);
    let start = initial_parameters::<f64>(&run.layout, config.init, 3);
    let parameters = start.iter().enumerate().map(|(at, p)| p + 0.3 * stream.normal(at as u64)).collect();
    (run, parameters)
}

/// Logits as the formulas stand, from named tensors: distances by relaxation, powers by dense products.
struct Oracle<'a> {
    kind: Kind,
    data: &'a Dataset,
    classes: usize,
    tensors: HashMap<String, (Vec<usize>, Vec<f64>)>,
    reach: usize,
}

impl<'a> Oracle<'a> {
    fn new(kind: Kind, data: &'a Dataset, layout: &Layout, parameters: &[f64]) -> Self {
        let named = |tensor: &harmonia::architecture::Tensor| {
            (tensor.name.clone(), (tensor.shape.clone(), parameters[tensor.range.clone()].to_vec()))
        };
        let tensors = layout.tensors().iter().map(named).collect();
        let reach = layout.architecture.family.reach;
        Oracle { kind, data, classes: data.labels.outputs(), tensors, reach }
    }

    fn values(&self, name: &str) -> &[f64] {
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
    fn own_response(&self, k: usize, x: f64) -> f64 {
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

    fn logits(&self) -> Vec<f64> {
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

fn plans(kind: Kind) -> Vec<Plan> {
    let all = [Monb::Direct, Monb::Knots].into_iter().flat_map(|monb| {
        [(Space::Features, false), (Space::Classes, false), (Space::Classes, true)].map(|(space, sparse)| Plan {
            monb,
            space,
            sparse,
        })
    });
    let waves = matches!(kind, Kind::GpNam | Kind::GNamrff);
    let by_feature = matches!(kind, Kind::Nbm | Kind::Nam);
    all.filter(|plan| (!waves || plan.monb == Monb::Direct) && (by_feature || plan.space == Space::Classes)).collect()
}

/// Directed or not, nodes or graphs, two classes or three.
fn problems(kind: Kind) -> Vec<Dataset> {
    let mut all = Vec::new();
    for (at, (level, classes, direction)) in [
        (Level::Node, 2, Direction::Undirected),
        (Level::Node, 3, Direction::Directed),
        (Level::Graph, 2, Direction::Directed),
        (Level::Graph, 3, Direction::Undirected),
    ]
    .into_iter()
    .enumerate()
    {
        all.push(dataset(10 * kind as u32 + at as u32, level, classes, direction));
    }
    all
}

#[test]
fn logits_are_those_of_the_dense_formula() {
    for kind in KINDS {
        for data in problems(kind) {
            let (run, parameters) = prepared(kind, &data);
            let expected = Oracle::new(kind, &data, &run.layout, &parameters).logits();
            for plan in plans(kind) {
                let units: Vec<u32> = (0..data.units() as u32).collect();
                let batch = batch_of(&run.dataset, Default::default(), &run.layout, plan, &units, false);
                let found = run_batch::<f64>(&batch, &run.layout, plan, &parameters, None, None).logits;
                assert_close("logits", &found, &expected, F64_TOLERANCE, &(kind.name(), data.level, plan));
            }
        }
    }
}

#[test]
fn gradients_are_central_differences() {
    let mut tally = Tally::default();
    for kind in KINDS {
        for data in problems(kind) {
            let (run, parameters) = prepared(kind, &data);
            let mut first: Option<Vec<f64>> = None;
            for plan in plans(kind) {
                let batch =
                    batch_of(&run.dataset, Default::default(), &run.layout, plan, &run.dataset.split.train, false);
                let found = run_batch::<f64>(&batch, &run.layout, plan, &parameters, None, None).gradient;
                match &first {
                    Some(first) => assert_close("gradients", &found, first, F64_TOLERANCE, &(kind.name(), plan)),
                    None => {
                        let (layout, parameters) = (&run.layout, &parameters[..]);
                        let of = Differentiated { batch: &batch, layout, plan, parameters, noise: None, dropout: None };
                        tally.check(&of, &found, &kind.name());
                        first = Some(found);
                    }
                }
            }
        }
    }
    tally.finish();
}

#[test]
fn dropped_inputs_are_the_same_by_every_plan() {
    // Of networks at the few values of a feature alone, what dropout makes of those is among the values.
    let dropout = Dropout { place: DropoutPlace::Input, rate: 0.4, stream: Stream::new(9, Purpose::Dropout, 1) };
    for kind in [Kind::Nam, Kind::Gnan] {
        for data in problems(kind) {
            let (run, parameters) = prepared(kind, &data);
            let of = |plan: Plan| {
                let units = &run.dataset.split.train;
                let batch = batch_of(&run.dataset, Default::default(), &run.layout, plan, units, false);
                run_batch::<f64>(&batch, &run.layout, plan, &parameters, None, Some(dropout))
            };
            let [direct, knots] = [Monb::Direct, Monb::Knots]
                .map(|monb| plans(kind).into_iter().filter(|plan| plan.monb == monb).map(of).collect::<Vec<_>>());
            assert!(!direct.is_empty() && !knots.is_empty());
            for (one, other) in direct.iter().zip(&knots) {
                assert_close("logits", &other.logits, &one.logits, F64_TOLERANCE, &(kind.name(), data.level));
                assert_close("gradients", &other.gradient, &one.gradient, F64_TOLERANCE, &(kind.name(), data.level));
            }
        }
    }
}

#[test]
fn counts_are_those_of_the_published_formulas() {
    let count = |kind: Kind, d: usize, outputs: usize, hidden: &[usize], bases: usize| {
        let mut config = Config::default();
        (config.model.kind, config.model.hidden, config.model.bases) = (kind, hidden.to_vec(), bases);
        let sizes = config.architecture(d * kind.copies(outputs), outputs);
        let layout = Layout::new(sizes.clone()).unwrap();
        assert_eq!(sizes.parameters(), layout.len() as u128);
        assert_eq!(layout.counts().iter().map(|(_, count)| count).sum::<usize>(), layout.len());
        layout.len()
    };
    let (d, l) = (50, 47);
    // Without batch norm, whose two numbers per unit the published 64,044 and 6,721 have.
    assert_eq!(count(Kind::Nbm, d, l, &[256, 128, 128], 100), 64_044 - 2 * 612 + d * (100 + l) + l);
    assert_eq!(count(Kind::Nam, d, l, &[64, 64, 32], 8), d * (6_721 - 2 * 160 + l) + l);
    assert_eq!(count(Kind::GpNam, d, l, &[16], 100), l * (d * 100 + 1));
    // D features are d columns of which one is of ones; the network of the distance has one output.
    let network = |outputs: usize| 64 * 64 + (2 + outputs + 1) * 64 + outputs;
    assert_eq!(count(Kind::Gnan, d, l, &[64, 64], 8), d * network(l) + network(1));
    assert_eq!(count(Kind::GNamrff, d, l, &[16], 64), d * 64 * l + 3 + 1);
    // HARMONIA without its d T hop logits, and a network of T-32-d: C P + 2 q C + d (B + q + L) + L + (T + 1) 32 + (32 + 1) d.
    let expert = 2 * 16 + 17 * 8 + 9 * 8;
    let harmonia = 4 * expert + 2 * 16 * 4 + d * (8 + 16 + l) + l;
    assert_eq!(count(Kind::DnnRrwp, d, l, &[16, 8], 8), harmonia + (4 + 1) * 32 + (32 + 1) * d);
}

fn machine() -> Machine {
    Machine::open("cpu", Default::default()).unwrap()
}

fn trained(kind: Kind, data: &Dataset) -> FittedModel {
    fit(data, &config(kind), &machine(), &Stop::new()).unwrap()
}

#[test]
fn explanations_sum_to_the_logit_and_models_survive_files() {
    let folder = tempfile::tempdir().unwrap();
    for kind in KINDS {
        for data in problems(kind) {
            let model = trained(kind, &data);
            let logits = model.logits(&data).unwrap();
            let (seen, factors) = (structured(data.clone(), &config(kind)).unwrap(), Factors::of(&model).unwrap());
            let outputs = factors.outputs();
            let centre: Vec<f64> = (0..factors.features()).map(|k| 0.1 * k as f64).collect();
            for unit in 0..data.units() {
                let target = if data.level == Level::Node { Target::Node(unit) } else { Target::Graph(unit) };
                let case = Case::new(&model, &factors, &seen, target, &Edit::default()).unwrap();
                for output in 0..outputs {
                    let own = f64::from(logits[unit * outputs + output]);
                    for (feature, node, hop) in
                        [(true, true, true), (true, false, false), (false, true, false), (false, false, true)]
                    {
                        let (score, by) = (Score { output, versus: None, sign: 1.0 }, By { feature, node, hop });
                        let explained = case.explain(score, by, usize::MAX, &centre).unwrap();
                        let sum = explained.intercept + explained.terms.iter().map(|term| term.value).sum::<f64>();
                        let scale = explained.terms.iter().map(|term| term.value.abs()).sum::<f64>().max(1.0);
                        let context = (kind.name(), data.level, unit, output, by);
                        assert!((sum - own).abs() < F32_TOLERANCE * scale, "{sum} is not {own} in {context:?}");
                        assert!(explained.residual < F32_TOLERANCE * scale, "{context:?}");
                    }
                }
            }
            assert_what_ifs(&factors, &seen, data.units() - 1, kind.name());
            let units: Vec<u32> = (0..data.units() as u32).collect();
            let watch = harmonia::watch::Watch::silent();
            let importance = Importance::measure(&model, &factors, &seen, &units, &centre, &watch).unwrap();
            assert!(importance.fits(&factors));
            if data.level == Level::Node {
                let score = |_: &[f64]| Ok(Score { output: 0, versus: None, sign: 1.0 });
                let nodes: Vec<usize> = (0..5).collect();
                let all = explain_nodes(&model, &factors, &seen, &nodes, score, (99, &centre), &watch).unwrap();
                for one in all {
                    let own = f64::from(logits[one.node * outputs]);
                    assert!((one.explanation.logit - own).abs() < F32_TOLERANCE * own.abs().max(1.0));
                }
            }
            // Lines where there are lines, and points of what is smooth.
            let shape = Shape::over(&factors, 0, [-2.0, 2.0]);
            assert_eq!(shape.exact, !matches!(kind, Kind::GpNam | Kind::GNamrff));
            let path = folder.path().join("model.safetensors");
            model.save(&path).unwrap();
            let read = FittedModel::load(&path).unwrap();
            assert_eq!((read.description(), &read.parameters), (model.description(), &model.parameters));
            assert_eq!(read.logits(&data).unwrap(), logits);
        }
    }
}

#[test]
fn training_learns_and_a_restored_trainer_goes_on_to_the_same_bits() {
    for kind in KINDS {
        let mut config = config(kind);
        config.train.epochs = 40;
        let data = structured(dataset(kind as u32, Level::Node, 3, Direction::Undirected), &config).unwrap();
        let run = Prepared::of(data, None, &config, RunName { seed: 1, fold: None }).unwrap();
        let device = harmonia::device::cpu::Cpu::<f32>::new();
        let mut whole = Trainer::new(&device, &run, &config, None).unwrap();
        let mut losses = Vec::new();
        let mut middle = None;
        while !whole.finished() {
            losses.push(whole.epoch().unwrap().train_loss);
            if losses.len() == 15 {
                middle = Some(whole.state().unwrap());
            }
        }
        assert!(losses[losses.len() - 1] < 0.9 * losses[0], "{} does not learn: {losses:?}", kind.name());
        let mut restored = Trainer::new(&device, &run, &config, middle).unwrap();
        while !restored.finished() {
            restored.epoch().unwrap();
        }
        assert_eq!(whole.state().unwrap(), restored.state().unwrap(), "{}", kind.name());
        // Any number of threads.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let other = pool.install(|| {
            let mut other = Trainer::new(&device, &run, &config, None).unwrap();
            while !other.finished() {
                other.epoch().unwrap();
            }
            other.state().unwrap()
        });
        assert_eq!(whole.state().unwrap(), other, "{}", kind.name());
    }
}

/// Points at which jumps are looked at one after the other.
const STEEP: f64 = 1e-5;

#[test]
fn units_that_jump_are_those_of_the_formula_and_are_saved_as_relu_units() {
    let mut config = config(Kind::Nam);
    config.model.exu = true;
    let data = dataset(3, Level::Node, 3, Direction::Undirected);
    let run = Prepared::of(data.clone(), None, &config, RunName { seed: 3, fold: None }).unwrap();
    let start = initial_parameters::<f64>(&run.layout, config.init, 3);
    // As many numbers as the plain form has.
    assert_eq!(run.layout.len(), prepared(Kind::Nam, &data).0.layout.len());
    // Gentler slopes than the start has, so that points lie on them.
    let gentle = |at: usize, p: f64| if p > 2.0 { p - 4.0 } else { p + 0.1 * (at % 3) as f64 };
    let parameters: Vec<f64> = start.iter().enumerate().map(|(at, &p)| gentle(at, p)).collect();
    let oracle = Oracle::new(Kind::Nam, &data, &run.layout, &parameters);
    let response = |k: usize, x: f64| {
        let of = |layer: usize, part: &str| oracle.values(&format!("experts.{k}.layers.{layer}.{part}"));
        let first = of(0, "weight").iter().zip(of(0, "bias"));
        let mut input: Vec<f64> = first.map(|(w, c)| (w.exp() * (x - c)).clamp(0.0, 1.0)).collect();
        for layer in 1..3 {
            let rows = of(layer, "weight").chunks(input.len()).zip(of(layer, "bias"));
            let unit = |(row, bias): (&[f64], &f64)| bias + row.iter().zip(&input).map(|(w, x)| w * x).sum::<f64>();
            let units = rows.map(unit).map(|z| if layer == 1 { z.max(0.0) } else { z });
            input = units.collect();
        }
        input[0]
    };
    let x = data.features.dense();
    let logit = |i: usize, c: usize| {
        let of = |k: usize| response(k, f64::from(x[i * 3 + k])) * oracle.values("readout.weight")[k * 3 + c];
        oracle.values("readout.bias")[c] + (0..3).map(of).sum::<f64>()
    };
    let expected: Vec<f64> = (0..15).flat_map(|i| (0..3).map(move |c| (i, c))).map(|(i, c)| logit(i, c)).collect();
    let mut tally = Tally::default();
    for sparse in [false, true] {
        let plan = Plan { monb: Monb::Knots, space: Space::Classes, sparse };
        let batch = batch_of(&run.dataset, Default::default(), &run.layout, plan, &run.dataset.split.train, false);
        let found = run_batch::<f64>(&batch, &run.layout, plan, &parameters, None, None);
        assert_close("logits", &found.logits, &expected, F64_TOLERANCE, &sparse);
        let (layout, parameters) = (&run.layout, &parameters[..]);
        let of = Differentiated { batch: &batch, layout, plan, parameters, noise: None, dropout: None };
        tally.check(&of, &found.gradient, &sparse);
    }
    tally.finish();
    // What is trained and saved is a plain network of twice as many units, with responses that jump.
    config.train.epochs = 30;
    let model = fit(&data, &config, &machine(), &Stop::new()).unwrap();
    assert_eq!(model.layout.architecture.hidden, [10, 4]);
    assert!(model.layout.is_plain());
    let factors = Factors::of(&model).unwrap();
    let steepest = (-3000..3000)
        .map(|at| f64::from(at) / 1000.0)
        .map(|x| (factors.response(0, x + STEEP) - factors.response(0, x)).abs() / STEEP);
    assert!(steepest.fold(0.0, f64::max) > 1.0);
    config.model.kind = Kind::Nbm;
    assert!(config.check().unwrap_err().to_string().contains("model.exu is for model.kind = nam"));
}

/// Batch norm by its formula, over all numbers of the training part at once.
fn normalised_response(oracle: &Oracle<'_>, training: &[f64], x: f64) -> Vec<f64> {
    // The last one is x.
    let mut columns: Vec<Vec<f64>> = training.iter().chain([&x]).map(|&value| vec![value]).collect();
    for layer in 0..3 {
        let of = |part: &str| oracle.values(&format!("experts.0.layers.{layer}.{part}"));
        let (weight, scale, shift) = (of("weight"), of("scale"), of("bias"));
        let z = |input: &Vec<f64>| -> Vec<f64> {
            weight.chunks(input.len()).map(|row| row.iter().zip(input).map(|(w, h)| w * h).sum()).collect()
        };
        let all: Vec<Vec<f64>> = columns.iter().map(z).collect();
        let count = training.len() as f64;
        let mut next = vec![vec![0.0; scale.len()]; all.len()];
        for u in 0..scale.len() {
            let mean = all[..training.len()].iter().map(|z| z[u]).sum::<f64>() / count;
            let variance = all[..training.len()].iter().map(|z| (z[u] - mean).powi(2)).sum::<f64>() / count;
            for (next, z) in next.iter_mut().zip(&all) {
                let y = scale[u] * (z[u] - mean) / (variance + 1e-5).sqrt() + shift[u];
                next[u] = if layer == 2 { y } else { y.max(0.0) };
            }
        }
        columns = next;
    }
    columns.pop().unwrap()
}

#[test]
fn batch_norm_is_that_of_the_formula_and_is_saved_in_weights() {
    let mut config = config(Kind::Nbm);
    config.model.batch_norm = true;
    let data = dataset(3, Level::Node, 3, Direction::Undirected);
    let run = Prepared::of(data.clone(), None, &config, RunName { seed: 3, fold: None }).unwrap();
    // gamma of every unit and basis, and nothing else, is more.
    let more: usize = run.layout.architecture.expert_widths()[1..].iter().sum();
    assert_eq!(run.layout.len(), prepared(Kind::Nbm, &data).0.layout.len() + more);
    assert_eq!(run.layout.architecture.parameters(), run.layout.len() as u128);
    let start = initial_parameters::<f64>(&run.layout, config.init, 3);
    // Scales and shifts apart from each other, some below zero.
    let moved = |(at, p): (usize, &f64)| p + 0.3 * ((at * 7 % 11) as f64 - 5.0) / 5.0;
    let parameters: Vec<f64> = start.iter().enumerate().map(moved).collect();
    let oracle = Oracle::new(Kind::Nbm, &data, &run.layout, &parameters);
    let x = data.features.dense();
    let training: Vec<f64> = (data.split.train.iter())
        .flat_map(|&i| x[i as usize * 3..i as usize * 3 + 3].iter().map(|&value| f64::from(value)))
        .collect();
    let coefficients = oracle.values("coefficients");
    let bases = coefficients.len() / 3;
    let response = |k: usize, x: f64| -> f64 {
        let found = normalised_response(&oracle, &training, x);
        coefficients[k * bases..][..bases].iter().zip(&found).map(|(a, psi)| a * psi).sum()
    };
    let logit = |i: usize, c: usize| {
        let of = |k: usize| response(k, f64::from(x[i * 3 + k])) * oracle.values("readout.weight")[k * 3 + c];
        oracle.values("readout.bias")[c] + (0..3).map(of).sum::<f64>()
    };
    let expected: Vec<f64> = (0..15).flat_map(|i| (0..3).map(move |c| (i, c))).map(|(i, c)| logit(i, c)).collect();
    let mut tally = Tally::default();
    for sparse in [false, true] {
        let plan = Plan { monb: Monb::Knots, space: Space::Classes, sparse };
        let batch = batch_of(&run.dataset, Default::default(), &run.layout, plan, &run.dataset.split.train, false);
        let found = run_batch::<f64>(&batch, &run.layout, plan, &parameters, None, None);
        assert_close("logits", &found.logits, &expected, F64_TOLERANCE, &sparse);
        let (layout, parameters) = (&run.layout, &parameters[..]);
        let of = Differentiated { batch: &batch, layout, plan, parameters, noise: None, dropout: None };
        tally.check(&of, &found.gradient, &sparse);
    }
    tally.finish();
    // What is saved is a plain network of the same sizes.
    config.train.epochs = 30;
    let model = fit(&data, &config, &machine(), &Stop::new()).unwrap();
    assert!(model.layout.is_plain() && model.layout.len() == run.layout.len() - more);
    config.model.kind = Kind::Nam;
    assert!(config.check().unwrap_err().to_string().contains("model.batch_norm is for model.kind = nbm"));
}

#[test]
fn an_output_penalty_adds_the_gradient_of_the_mean_square_of_responses() {
    for (at, kind) in [Kind::Nbm, Kind::Nam].into_iter().enumerate() {
        let data = dataset(at as u32, Level::Node, 3, Direction::Undirected);
        let (mut run, parameters) = prepared(kind, &data);
        let mut penalised = config(kind);
        penalised.train.output_penalty = 0.7;
        let plan = Plan::new(&penalised, &run.dataset, &run.layout);
        let batch = batch_of(&run.dataset, Default::default(), &run.layout, plan, &run.dataset.split.train, false);
        let gradient = |layout: &Layout| run_batch::<f64>(&batch, layout, plan, &parameters, None, None).gradient;
        let without = gradient(&run.layout);
        run.layout.output_penalty = 0.7;
        let found: Vec<f64> =
            gradient(&run.layout).iter().zip(&without).map(|(with, without)| with - without).collect();
        let x = data.features.dense();
        let cost = |parameters: &[f64]| {
            let oracle = Oracle::new(kind, &data, &run.layout, parameters);
            let f = |at: usize| oracle.own_response(at % 3, f64::from(x[at]));
            0.7 * (0..45).map(|at| f(at).powi(2)).sum::<f64>() / 45.0
        };
        let expected: Vec<f64> = (0..parameters.len())
            .map(|at| {
                let moved = |step: f64| {
                    let mut moved = parameters.clone();
                    moved[at] += step;
                    cost(&moved)
                };
                (moved(1e-6) - moved(-1e-6)) / 2e-6
            })
            .collect();
        assert!(expected.iter().filter(|d| d.abs() > 1e-3).count() > 20);
        // No kink is that near.
        assert_close("gradient of the penalty", &found, &expected, 1e-6, &kind.name());
    }
    let mut graph = config(Kind::Gnan);
    graph.train.output_penalty = 0.1;
    assert!(graph.check().unwrap_err().to_string().contains("train.output_penalty is for models without a graph"));
}

/// A few steps in f32, sums in another order.
const DEVICE_TOLERANCE: f64 = 1e-4;

#[test]
fn kernels_train_the_shared_network_as_the_cpu_does() {
    let host = Machine::open("host", Default::default()).unwrap();
    // Narrow, and as wide as it was published.
    for (hidden, bases) in [(vec![5, 4], 6), (vec![256, 128, 128], 100)] {
        for (monb, data) in [Monb::Knots, Monb::Direct].into_iter().zip(problems(Kind::Nbm).into_iter().skip(1)) {
            let mut config = config(Kind::Nbm);
            (config.model.hidden, config.model.bases, config.engine.monb) = (hidden.clone(), bases, monb);
            let logits = |machine: &Machine| {
                let model = fit(&data, &config, machine, &Stop::new()).unwrap();
                model.logits(&data).unwrap().iter().map(|&z| f64::from(z)).collect::<Vec<f64>>()
            };
            let (found, expected) = (logits(&host), logits(&machine()));
            assert!(expected.iter().any(|z| z.abs() > 0.05), "{expected:?}");
            assert_close("logits", &found, &expected, DEVICE_TOLERANCE, &(monb, bases));
        }
    }
}

#[test]
fn pairs_without_room_are_refused_before_any_of_them_is_looked_at() {
    let nodes = 3_000_000;
    let graph = Graph::from_edges(nodes, &[(0, 1)], None, Direction::Undirected).unwrap();
    let labels = Labels::Classes { ids: (0..nodes as u32).map(|i| i % 2).collect(), classes: 2 };
    let split = Split { train: vec![0, 1], valid: vec![2, 3], test: vec![4, 5] };
    let x = Features::new(nodes, 1, vec![1.0; nodes]).unwrap();
    let data = Dataset::new("large", graph, vec![0, nodes], x, labels, Level::Node, split).unwrap();
    let error = Prepared::of(data, None, &config(Kind::DnnRrwp), RunName { seed: 0, fold: None }).unwrap_err();
    let (said, needed) = (error.to_string(), (nodes * nodes * (4 + 1) * 4) as f64 / (1u64 << 30) as f64);
    assert!(said.contains(&format!("{needed:.1} GiB")) && said.contains("9000000000000 pairs"), "{said}");
    assert_eq!(error.exit_code(), 1);
    let error = Config {
        model: harmonia::config::Model { pair_hidden: 0, ..config(Kind::DnnRrwp).model },
        ..config(Kind::DnnRrwp)
    };
    assert!(error.check().unwrap_err().to_string().contains("model.pair_hidden is 0"));
}

#[test]
fn a_horizon_leaves_out_what_is_farther_and_settings_that_do_not_fit_are_refused() {
    let data = dataset(1, Level::Node, 2, Direction::Undirected);
    let mut near = config(Kind::Gnan);
    near.model.horizon = 1;
    let model = fit(&data, &near, &machine(), &Stop::new()).unwrap();
    assert_eq!(model.layout.architecture.family.reach, 1);
    let parameters: Vec<f64> = model.parameters.iter().map(|&p| f64::from(p)).collect();
    let expected = Oracle::new(Kind::Gnan, &data, &model.layout, &parameters).logits();
    assert_close("logits", &model.logits(&data).unwrap(), &expected, F32_TOLERANCE, &"horizon 1");
    for (change, expected) in [
        ((|c: &mut Config| c.train.calibrate = true) as fn(&mut Config), "train.calibrate"),
        (|c| c.init.warm_start = true, "init.warm_start"),
        (|c| c.train.smoothness = 1.0.into(), "train.smoothness"),
    ] {
        let mut config = config(Kind::Gnan);
        change(&mut config);
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("gnan"), "{error}");
    }
}
