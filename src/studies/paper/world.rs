//! Data with a known answer, as a model that can be asked: the topology, draws and split of a synthetic dataset, and the generator of
//! its labels as [`Factors`], so that truth and trained models are read by the same code.
//!
//! Invariant: all instances are copies of one topology of [`NODES`] nodes, one after the other.

use crate::explain::{Factors, Response, Shape, Walks};
use harmonia_data::synthetic::{self, FEATURES, NODES, TRAIN_INSTANCES, TrueResponse, balancing_intercept};
use harmonia_graph::dataset::{Dataset, Labels, sigmoid};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Direction, Graph, Walk};
use harmonia_graph::seed::{Purpose, Stream};
use std::sync::Arc;

/// What a feature truly does.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The formula.
    pub label: &'static str,
    /// Its value.
    pub value: fn(f64) -> f64,
}

/// A column that carries signal.
#[derive(Clone, Debug)]
pub struct Signal {
    /// Of X.
    pub column: usize,
    /// Its response, before centring.
    pub function: Function,
    /// theta* of walk lengths 0, 1, ...; sums to one.
    pub hop_weights: Vec<f64>,
}

impl Signal {
    /// The walk length that matters most.
    pub fn dominant_hop(&self) -> usize {
        crate::explain::ranking(&self.hop_weights)[0]
    }
}

/// A dataset and what it was made of.
pub struct World {
    /// What models are trained on.
    pub dataset: Dataset,
    /// Its features, row by row.
    x: Vec<f32>,
    /// One instance's graph.
    pub topology: Graph,
    /// The columns that matter.
    pub signals: Vec<Signal>,
    /// The generator: eta* is its logit.
    pub oracle: Factors,
}

/// The responses of a generator: f*(x) = phi(x) - centre on its columns, 0 on others.
#[derive(Debug)]
struct Known(Vec<Option<(Function, f64)>>);

impl Response for Known {
    fn features(&self) -> usize {
        self.0.len()
    }

    fn value(&self, k: usize, x: f64) -> f64 {
        self.0[k].map_or(0.0, |(function, centre)| (function.value)(x) - centre)
    }

    fn slope(&self, k: usize, x: f64) -> f64 {
        const STEP: f64 = 1e-6;
        (self.value(k, x + STEP) - self.value(k, x - STEP)) / (2.0 * STEP)
    }

    fn knots(&self, _: usize) -> Option<Shape> {
        None
    }
}

/// phi of the paper's study, in the order of [`TrueResponse::ALL`].
fn published(response: TrueResponse) -> Function {
    let value = match response {
        TrueResponse::Linear => |x| TrueResponse::Linear.value(x),
        TrueResponse::Quadratic => |x| TrueResponse::Quadratic.value(x),
        TrueResponse::Sine => |x| TrueResponse::Sine.value(x),
        TrueResponse::Tanh => |x| TrueResponse::Tanh.value(x),
    };
    Function { label: response.label(), value }
}

impl World {
    /// Synthetic dataset `index` as it is.
    ///
    /// # Errors
    /// Never in practice, see [`synthetic::generate`].
    pub fn published(index: u32) -> Result<World> {
        let dataset = synthetic::generate(index)?;
        let Some(truth) = dataset.truth.clone() else {
            return Err(Error::Internal("a synthetic dataset without its generator".into()));
        };
        let signal = |r: usize| Signal {
            column: truth.columns[r],
            function: published(truth.responses[r]),
            hop_weights: truth.hop_weights[r].to_vec(),
        };
        let signals: Vec<Signal> = (0..truth.columns.len()).map(signal).collect();
        let oracle = oracle(&signals, &truth.centres, truth.intercept)?;
        let x = dataset.features.dense().into_owned();
        Ok(World { topology: topology(&dataset)?, dataset, x, signals, oracle })
    }

    /// Topology, features and split of synthetic dataset `index`, with other signals: columns from a random permutation, labels drawn
    /// anew.
    ///
    /// # Errors
    /// More signals than columns.
    pub fn with_signals(index: u32, kinds: &[(Function, &[f64])]) -> Result<World> {
        let mut dataset = synthetic::generate(index)?;
        let stream = |step| Stream::new(u64::from(index), Purpose::Studies, step);
        let mut order: Vec<usize> = (0..FEATURES).collect();
        stream(1).rng().shuffle(&mut order);
        if kinds.len() > FEATURES {
            return Err(Error::Config(format!("{} signals in {FEATURES} columns", kinds.len())));
        }
        let signal = |(&(function, hop_weights), column): (&(Function, &[f64]), usize)| Signal {
            column,
            function,
            hop_weights: hop_weights.to_vec(),
        };
        let signals: Vec<Signal> = kinds.iter().zip(order).map(signal).collect();
        let training = TRAIN_INSTANCES * NODES;
        let x = dataset.features.dense().into_owned();
        let centre = |signal: &Signal| {
            let column = x.iter().skip(signal.column).step_by(FEATURES).take(training);
            column.map(|&x| (signal.function.value)(f64::from(x))).sum::<f64>() / training as f64
        };
        let centres: Vec<f64> = signals.iter().map(centre).collect();
        let topology = topology(&dataset)?;
        let scores = super::faithfulness::Lens::new(&oracle(&signals, &centres, 0.0)?, &topology).all_logits(&x);
        let intercept = balancing_intercept(&scores[..training]);
        let labels = stream(2);
        let drawn = |(i, score): (usize, &f64)| u32::from(labels.uniform(i as u64) < sigmoid(score + intercept));
        dataset.labels = Labels::Classes { ids: scores.iter().enumerate().map(drawn).collect(), classes: 2 };
        dataset.truth = None;
        let oracle = oracle(&signals, &centres, intercept)?;
        Ok(World { dataset, x, topology, signals, oracle })
    }

    /// Rows of X of an instance, nodes x d.
    pub fn instance(&self, at: usize) -> &[f32] {
        &self.x[at * NODES * FEATURES..][..NODES * FEATURES]
    }

    /// Mean of every column over the training nodes.
    pub fn training_mean(&self) -> Vec<f64> {
        let rows = || self.x.chunks_exact(FEATURES).take(TRAIN_INSTANCES * NODES);
        let mut sums = [0.0; FEATURES];
        rows().for_each(|row| sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x)));
        sums.iter().map(|sum| sum / rows().len() as f64).collect()
    }
}

/// The graph of the first instance.
fn topology(dataset: &Dataset) -> Result<Graph> {
    let adjacency = dataset.graph.adjacency();
    let edges: Vec<(u32, u32)> = (0..NODES)
        .flat_map(|i| adjacency.col_idx[adjacency.row(i)].iter().map(move |&j| (i as u32, j)))
        .filter(|(i, j)| i < j)
        .collect();
    Graph::from_edges(NODES, &edges, None, Direction::Undirected)
}

/// A generator as a model.
fn oracle(signals: &[Signal], centres: &[f64], intercept: f64) -> Result<Factors> {
    let hops = signals.first().map_or(1, |signal| signal.hop_weights.len());
    let mut responses = vec![None; FEATURES];
    let mut theta = vec![0.0; hops * FEATURES];
    for (signal, &centre) in signals.iter().zip(centres) {
        responses[signal.column] = Some((signal.function, centre));
        signal.hop_weights.iter().enumerate().for_each(|(t, weight)| theta[t * FEATURES + signal.column] = *weight);
    }
    Factors::new(
        vec![intercept],
        vec![1.0; FEATURES],
        Arc::new(Known(responses)),
        Arc::new(Walks::new(Walk::default(), FEATURES, theta)?),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::paper::faithfulness::Lens;

    /// Sums of some hundred products of numbers near one, in two orders.
    const ROUNDING: f64 = 1e-10;

    #[test]
    fn the_oracle_is_the_generator() {
        let world = World::published(3).unwrap();
        let truth = world.dataset.truth.clone().unwrap();
        let logits = Lens::new(&world.oracle, &world.topology).all_logits(&world.x);
        assert_eq!(logits.len(), truth.logits.len());
        let apart = logits.iter().zip(&truth.logits).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart < ROUNDING, "{apart}");
    }

    #[test]
    fn other_signals_have_balanced_labels_and_their_own_columns() {
        let kinds: [(Function, &[f64]); 2] = [
            (Function { label: "x", value: |x| 3.0 * x }, &[1.0, 0.0]),
            (Function { label: "x^2", value: |x| x * x }, &[0.0, 1.0]),
        ];
        let world = World::with_signals(1, &kinds).unwrap();
        assert_ne!(world.signals[0].column, world.signals[1].column);
        assert_eq!((world.signals[1].dominant_hop(), world.signals[1].function.label), (1, "x^2"));
        let Labels::Classes { ids, .. } = &world.dataset.labels else { panic!("classes") };
        let ones = ids.iter().filter(|&&label| label == 1).count() as f64 / ids.len() as f64;
        // 24576 draws of a half: a deviation is 0.0032.
        assert!((ones - 0.5).abs() < 0.015, "{ones}");
        world.dataset.check().unwrap();
    }
}
