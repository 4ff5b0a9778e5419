//! Random problems from a seed: a dataset, a model and its parameters. Edges keep self-loops, duplicates and, in every
//! graph of three nodes or more, a node without neighbours.

use super::oracle::{self, Matrix};
use harmonia::architecture::{Architecture, HopWeights, Layout};
use harmonia::batch::Batch;
use harmonia::dataset::{Dataset, Features, Labels, Level};
use harmonia::graph::{Direction, Graph, Split, Walk};
use harmonia::loss::Objective;
use harmonia::plan::Plan;
use harmonia::seed::{Purpose, Rng, Stream};

/// What is predicted.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// Sigmoid, one output.
    Binary,
    /// Softmax over this many classes, at least 3.
    Classes(usize),
    /// Sigmoid, this many outputs.
    Multi(usize),
    /// Squared error, this many outputs.
    Numbers(usize),
}

/// What features look like.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// Uniform in [-2, 2).
    Continuous,
    /// This many distinct values, zero the first of them.
    Few(usize),
}

/// A random problem before it is drawn. Printed by failing tests, it reproduces the problem.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub seed: u64,
    pub nodes: usize,
    pub graphs: usize,
    pub direction: Direction,
    pub weighted: bool,
    /// What weights are multiples of an eighth of; a power of two.
    pub weight_unit: f32,
    pub walk: Walk,
    pub level: Level,
    pub task: Task,
    /// Whether units do not count alike.
    pub unit_weights: bool,
    /// Another loss than the labels suggest.
    pub loss: Option<Objective>,
    pub values: Values,
    pub features: usize,
    pub experts: usize,
    pub active: usize,
    pub bases: usize,
    pub hidden: Vec<usize>,
    pub embedding: usize,
    pub hops: usize,
    pub hop_weights: HopWeights,
    /// Whether free hop weights are learned in a basis.
    pub hop_basis: bool,
    /// Neighbours of each hub, beside its random ones.
    pub hub: usize,
    /// Pairs of hubs: the first nodes, one of a pair with a long row of A, the other of A^T.
    pub hubs: usize,
}

impl Default for Recipe {
    fn default() -> Self {
        Recipe {
            seed: 1,
            nodes: 14,
            graphs: 1,
            direction: Direction::Undirected,
            weighted: false,
            weight_unit: 1.0,
            walk: Walk::default(),
            level: Level::Node,
            task: Task::Classes(3),
            unit_weights: false,
            loss: None,
            values: Values::Continuous,
            features: 3,
            experts: 3,
            active: 2,
            bases: 2,
            hidden: vec![5, 3],
            embedding: 2,
            hops: 3,
            hop_weights: HopWeights::Simplex,
            hop_basis: false,
            hub: 0,
            hubs: 1,
        }
    }
}

/// A drawn problem.
pub struct Problem {
    pub recipe: Recipe,
    pub dataset: Dataset,
    pub edges: Vec<(u32, u32)>,
    pub weights: Option<Vec<f32>>,
    /// How much each unit counts.
    pub unit_weights: Option<Vec<f32>>,
    pub layout: Layout,
    pub parameters: Vec<f64>,
    /// eps, d x C.
    pub noise: Vec<f64>,
}

/// First node of each of `graphs` nearly equal graphs, and the end.
fn offsets(nodes: usize, graphs: usize) -> Vec<usize> {
    (0..=graphs).map(|graph| nodes * graph / graphs).collect()
}

/// Edges inside each graph: random ones, some repeated, some self-loops; the last node of a graph stays alone.
pub fn random_edges(rng: &mut Rng, graph_ptr: &[usize]) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for graph in graph_ptr.windows(2) {
        let (first, size) = (graph[0] as u32, graph[1] - graph[0]);
        let reachable = if size > 2 { size - 1 } else { size };
        for _ in 0..2 * size {
            let edge = (first + rng.below(reachable) as u32, first + rng.below(reachable) as u32);
            edges.push(edge);
            if rng.uniform() < 0.1 {
                edges.push((edge.1, edge.0));
            }
        }
    }
    edges
}

/// Multiples of 1/8: sums of them are exact in f32, so that merged duplicates and lazy walks are too.
pub fn random_weights(rng: &mut Rng, edges: usize) -> Vec<f32> {
    (0..edges).map(|_| (1 + rng.below(24)) as f32 / 8.0).collect()
}

/// Parameters of no special structure, so that every one of them matters; hop logits stay away from zero.
fn random_parameters(rng: &mut Rng, layout: &Layout) -> Vec<f64> {
    let mut parameters = vec![0.0; layout.len()];
    for tensor in layout.tensors() {
        let fan_in = match tensor.name.as_str() {
            "readout.weight" => layout.architecture.features,
            "coefficients" => layout.architecture.bases,
            name if name.starts_with("experts") && tensor.shape.len() == 2 => tensor.shape[1],
            _ => 1,
        };
        for parameter in &mut parameters[tensor.range.clone()] {
            let value = 3.0 * rng.uniform() - 1.5;
            *parameter = value / (fan_in as f64).sqrt();
            if tensor.name == "hop_logits" {
                *parameter += value.signum() * 0.5;
            }
        }
    }
    parameters
}

impl Recipe {
    /// Draws the problem.
    pub fn problem(&self) -> Problem {
        let mut rng = Stream::new(self.seed, Purpose::SyntheticGraph, 0).rng();
        let graph_ptr = offsets(self.nodes, self.graphs);
        let mut edges = random_edges(&mut rng, &graph_ptr);
        // Long rows of A and, on directed graphs, of A^T.
        for pair in 0..self.hubs as u32 {
            edges.extend((1..=self.hub as u32).flat_map(|leaf| [(2 * pair, leaf), (leaf, 2 * pair + 1)]));
        }
        let weights = self.weighted.then(|| random_weights(&mut rng, edges.len()));
        let weights: Option<Vec<f32>> = weights.map(|weights| weights.iter().map(|w| w * self.weight_unit).collect());
        let values = (0..self.nodes * self.features).map(|_| match self.values {
            Values::Continuous => (4.0 * rng.uniform() - 2.0) as f32,
            Values::Few(count) => [0.0, 1.0, -1.5, 0.75, 2.25][rng.below(count)],
        });
        let values = values.collect();
        let units = if self.level == Level::Graph { self.graphs } else { self.nodes };
        let labels = match self.task {
            Task::Binary => Labels::Classes { ids: (0..units).map(|_| rng.below(2) as u32).collect(), classes: 2 },
            Task::Classes(classes) => {
                Labels::Classes { ids: (0..units).map(|_| rng.below(classes) as u32).collect(), classes }
            }
            Task::Multi(width) => {
                Labels::Multi { bits: (0..units * width).map(|_| rng.below(2) as u8).collect(), width }
            }
            Task::Numbers(width) => {
                let values = (0..units * width).map(|_| (4.0 * rng.uniform() - 2.0) as f32);
                Labels::Values { values: values.collect(), width }
            }
        };
        // Every third unit has no label to learn from, and targets come in no particular order.
        let mut train: Vec<u32> = (0..units as u32).filter(|unit| unit % 3 != 1).collect();
        rng.shuffle(&mut train);

        let architecture = Architecture {
            features: self.features,
            outputs: labels.outputs(),
            experts: self.experts,
            active: self.active,
            bases: self.bases,
            hidden: self.hidden.clone(),
            embedding: self.embedding,
            hops: self.hops,
            hop_weights: self.hop_weights,
            family: Default::default(),
        };
        let mut layout = Layout::new(architecture).unwrap();
        let parameters = random_parameters(&mut rng, &layout);
        if self.hop_basis {
            layout.hop_basis = Some((0..self.hops * self.hops).map(|_| 2.0 * rng.uniform() - 1.0).collect());
        }
        let noise = Stream::new(self.seed, Purpose::Noise, 0);
        let noise = (0..self.features * self.experts).map(|at| noise.normal(at as u64)).collect();
        let dataset = self.dataset(&edges, weights.as_deref(), graph_ptr, values, labels, train);
        let unit_weights = self.unit_weights.then(|| {
            let mut rng = Stream::new(self.seed, Purpose::SyntheticGraph, 2).rng();
            (0..units).map(|_| (0.2 + 2.0 * rng.uniform()) as f32).collect()
        });
        Problem { recipe: self.clone(), dataset, edges, weights, unit_weights, layout, parameters, noise }
    }

    fn dataset(
        &self,
        edges: &[(u32, u32)],
        weights: Option<&[f32]>,
        graph_ptr: Vec<usize>,
        values: Vec<f32>,
        labels: Labels,
        train: Vec<u32>,
    ) -> Dataset {
        let nodes = values.len() / self.features;
        let graph = Graph::from_edges(nodes, edges, weights, self.direction).unwrap();
        let features = Features::new(nodes, self.features, values).unwrap();
        let split = Split { train, ..Split::default() };
        Dataset::new("random", graph, graph_ptr, features, labels, self.level, split).unwrap()
    }
}

impl Problem {
    /// M, dense.
    pub fn transition(&self) -> Matrix {
        let nodes = self.dataset.graph.nodes();
        oracle::transition(nodes, &self.edges, self.weights.as_deref(), self.recipe.direction, self.recipe.walk)
    }

    /// The whole dataset, its training units as targets.
    pub fn batch(&self, plan: Plan) -> Batch {
        let batch =
            super::batch_of(&self.dataset, self.recipe.walk, &self.layout, plan, &self.dataset.split.train, false);
        let objective = self.objective();
        let targets = objective.targets(&self.dataset.labels, batch.rows(), &batch.units, None);
        let weights = self.unit_weights.as_ref().map(|weights| {
            let mut rows = vec![1.0; batch.rows()];
            batch.units.iter().for_each(|&(row, unit)| rows[row as usize] = weights[unit as usize]);
            rows
        });
        Batch { objective, targets, weights, ..batch }
    }

    /// The loss.
    pub fn objective(&self) -> Objective {
        self.recipe.loss.unwrap_or(Objective::of(&self.dataset.labels))
    }

    /// The same model on other data.
    pub fn on(&self, dataset: Dataset) -> Problem {
        Problem {
            recipe: self.recipe.clone(),
            dataset,
            edges: self.edges.clone(),
            weights: self.weights.clone(),
            unit_weights: self.unit_weights.clone(),
            layout: self.layout.clone(),
            parameters: self.parameters.clone(),
            noise: self.noise.clone(),
        }
    }

    /// The same problem `count` times side by side: the same mean loss, the same gradient.
    pub fn copies(&self, count: usize) -> Problem {
        let (nodes, units) = (self.dataset.graph.nodes() as u32, self.dataset.units() as u32);
        let copy_numbers = || 0..count as u32;
        let edges: Vec<(u32, u32)> = copy_numbers()
            .flat_map(|copy| self.edges.iter().map(move |(i, j)| (i + copy * nodes, j + copy * nodes)))
            .collect();
        let weights = self.weights.as_ref().map(|weights| weights.repeat(count));
        let starts = &self.dataset.graph_ptr[..self.dataset.graphs()];
        let graph_ptr = (0..count)
            .flat_map(|copy| starts.iter().map(move |start| start + copy * nodes as usize))
            .chain([count * nodes as usize])
            .collect();
        let labels = match &self.dataset.labels {
            Labels::Classes { ids, classes } => Labels::Classes { ids: ids.repeat(count), classes: *classes },
            Labels::Multi { bits, width } => Labels::Multi { bits: bits.repeat(count), width: *width },
            Labels::Values { values, width } => Labels::Values { values: values.repeat(count), width: *width },
        };
        let targets = &self.dataset.split.train;
        let train = copy_numbers().flat_map(|copy| targets.iter().map(move |unit| unit + copy * units)).collect();
        let values = self.dataset.features.dense().repeat(count);
        let copied = self.with_data(edges, weights, graph_ptr, values, labels, train);
        Problem { unit_weights: self.unit_weights.as_ref().map(|weights| weights.repeat(count)), ..copied }
    }

    fn with_data(
        &self,
        edges: Vec<(u32, u32)>,
        weights: Option<Vec<f32>>,
        graph_ptr: Vec<usize>,
        values: Vec<f32>,
        labels: Labels,
        train: Vec<u32>,
    ) -> Problem {
        let dataset = self.recipe.dataset(&edges, weights.as_deref(), graph_ptr, values, labels, train);
        Problem { edges, weights, ..self.on(dataset) }
    }
}
