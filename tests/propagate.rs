//! Propagation one hop at a time equals the dense tensor of walk probabilities, forward and backward.
//!
//! H = sum_t theta_t (*) M^t F; dF = sum_t theta_t (*) (M^t)^T dH; dtheta\[t\]\[k\] = <dH\[:,k\], (M^t F)\[:,k\]>

// Loops run over the indices of the formula.
#![allow(clippy::needless_range_loop)]
// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

mod common;

use common::oracle::{transition, walk_powers};
use common::problems::{random_edges, random_weights};
use common::{F64_TOLERANCE, assert_close};
use harmonia::batch::Batches;
use harmonia::dataset::{Dataset, Features, Labels};
use harmonia::device::Device;
use harmonia::device::cpu::Ops;
use harmonia::device::cpu::{Cpu, Panels};
use harmonia::graph::{Direction, Graph, Split, Walk};
use harmonia::plan::Plan;
use harmonia::seed::{Purpose, Stream};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rayon::prelude::*;

/// f32 keeps seven digits; sums over 8 hops and 40 nodes may lose two of them.
const F32_TOLERANCE: f64 = 1e-5;
/// The cases are always the same ones.
const PROPTEST_SEED: u64 = 20;
/// Around powers of two, where blocks of registers end, and around 64, where a panel ends.
const FEATURE_COUNTS: [usize; 16] = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 97];

/// A walk with responses, hop weights and a gradient of H to push through it.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    nodes: usize,
    features: usize,
    hops: usize,
    direction: Direction,
    weighted: bool,
    walk: Walk,
}

/// The arrays of a case.
struct Drawn {
    dataset: Dataset,
    edges: Vec<(u32, u32)>,
    weights: Option<Vec<f32>>,
    responses: Vec<f64>,
    d_state: Vec<f64>,
    hop_weights: Vec<f64>,
}

/// H, dF and dtheta, row-major.
struct Propagated<T> {
    state: Vec<T>,
    d_responses: Vec<T>,
    d_hop_weights: Vec<T>,
}

fn cases(nodes: impl Strategy<Value = usize>) -> impl Strategy<Value = Case> {
    let direction = prop::sample::select(vec![Direction::Undirected, Direction::Directed]);
    let features = prop::sample::select(FEATURE_COUNTS.to_vec());
    let flags = any::<[bool; 3]>();
    (0..10_000u64, nodes, features, 1..=8usize, direction, flags).prop_map(
        |(seed, nodes, features, hops, direction, [weighted, self_loops, lazy])| Case {
            seed,
            nodes,
            features,
            hops,
            direction,
            weighted,
            walk: Walk { self_loops, lazy },
        },
    )
}

impl Case {
    fn draw(&self) -> Drawn {
        let mut rng = Stream::new(self.seed, Purpose::SyntheticGraph, 0).rng();
        let edges = random_edges(&mut rng, &[0, self.nodes]);
        let weights = self.weighted.then(|| random_weights(&mut rng, edges.len()));
        let graph = Graph::from_edges(self.nodes, &edges, weights.as_deref(), self.direction).unwrap();
        let features = Features::new(self.nodes, self.features, vec![0.0; self.nodes * self.features]).unwrap();
        let labels = Labels::Classes { ids: vec![0; self.nodes], classes: 2 };
        let split = Split { train: vec![0], ..Split::default() };
        let dataset = Dataset::nodes("walk", graph, features, labels, split).unwrap();
        let mut random = |count: usize| (0..count).map(|_| 2.0 * rng.uniform() - 1.0).collect();
        let responses = random(self.nodes * self.features);
        let d_state = random(self.nodes * self.features);
        let hop_weights = random(self.hops * self.features);
        Drawn { dataset, edges, weights, responses, d_state, hop_weights }
    }
}

impl Drawn {
    /// Through the device.
    fn propagate<T: Ops>(&self, walk: Walk) -> Propagated<T> {
        let device = Cpu::<T>::new();
        let inputs = device.inputs(&Batches::new(&self.dataset, walk).whole(&[0]), Plan::DIRECT).unwrap();
        let hop_weights: Vec<T> = self.hop_weights.iter().map(|&value| T::from_f64(value)).collect();
        let responses = self.matrix::<T>(&self.responses);
        // Outputs are overwritten, so what was there must not matter.
        let nothing = vec![f64::NAN; self.responses.len()];
        let mut state = self.matrix::<T>(&nothing);
        device.propagate_forward(&mut state, &responses, &hop_weights, &inputs, None).unwrap();
        let mut gradient = self.matrix::<T>(&self.d_state);
        let mut d_hop_weights = vec![T::nan(); hop_weights.len()];
        device.propagate_backward(&mut gradient, &mut d_hop_weights, &responses, &hop_weights, &inputs, None).unwrap();
        Propagated {
            state: device.download_matrix(&state).unwrap(),
            d_responses: device.download_matrix(&gradient).unwrap(),
            d_hop_weights,
        }
    }

    /// Row-major values in the layout of the device.
    fn matrix<T: Ops>(&self, values: &[f64]) -> Panels<T> {
        let features = &self.dataset.features;
        let mut matrix = Cpu::<T>::new().matrix(features.rows, features.cols).unwrap();
        matrix.panels_mut().for_each(|panel| {
            for (i, row) in panel.data.chunks_exact_mut(panel.width).enumerate() {
                for (c, value) in row.iter_mut().enumerate() {
                    *value = T::from_f64(values[i * features.cols + panel.first + c]);
                }
            }
        });
        matrix
    }

    /// Through dense matrices M^t.
    fn propagate_densely(&self, case: &Case) -> Propagated<f64> {
        let (n, d) = (case.nodes, case.features);
        let m = transition(n, &self.edges, self.weights.as_deref(), case.direction, case.walk);
        let powers = walk_powers(&m, case.hops);
        let (mut state, mut d_responses) = (vec![0.0; n * d], vec![0.0; n * d]);
        let mut d_hop_weights = vec![0.0; case.hops * d];
        for t in 0..case.hops {
            for i in 0..n {
                for j in 0..n {
                    for k in 0..d {
                        let (theta, probability) = (self.hop_weights[t * d + k], powers[t][i][j]);
                        state[i * d + k] += theta * probability * self.responses[j * d + k];
                        d_responses[j * d + k] += theta * probability * self.d_state[i * d + k];
                        d_hop_weights[t * d + k] += self.d_state[i * d + k] * probability * self.responses[j * d + k];
                    }
                }
            }
        }
        Propagated { state, d_responses, d_hop_weights }
    }

    /// Through a list of transitions (i, j, probability): for graphs too large for dense matrices.
    fn propagate_edge_by_edge(&self, case: &Case) -> Propagated<f64> {
        let (n, d) = (case.nodes, case.features);
        let mut weight = std::collections::BTreeMap::new();
        for (edge, &(i, j)) in self.edges.iter().enumerate() {
            let value = self.weights.as_ref().map_or(1.0, |weights| f64::from(weights[edge]));
            let mut add = |i: u32, j: u32| {
                let entry = weight.entry((i as usize, j as usize)).or_insert(0.0);
                *entry = if case.weighted { *entry + value } else { 1.0 };
            };
            add(i, j);
            if case.direction == Direction::Undirected && i != j {
                add(j, i);
            }
        }
        let mut degree = vec![0.0; n];
        weight.iter().for_each(|(&(i, _), value)| degree[i] += value);
        for i in 0..n {
            if degree[i] == 0.0 {
                weight.insert((i, i), 1.0);
                degree[i] = 1.0;
            }
        }
        let (mut state, mut d_responses) = (vec![0.0; n * d], vec![0.0; n * d]);
        let mut d_hop_weights = vec![0.0; case.hops * d];
        let (mut forward, mut backward) = (self.responses.clone(), self.d_state.clone());
        for t in 0..case.hops {
            for at in 0..n * d {
                let theta = self.hop_weights[t * d + at % d];
                state[at] += theta * forward[at];
                d_responses[at] += theta * backward[at];
                d_hop_weights[t * d + at % d] += self.responses[at] * backward[at];
            }
            let (mut next_forward, mut next_backward) = (vec![0.0; n * d], vec![0.0; n * d]);
            for (&(i, j), value) in &weight {
                let probability = value / degree[i];
                for k in 0..d {
                    next_forward[i * d + k] += probability * forward[j * d + k];
                    next_backward[j * d + k] += probability * backward[i * d + k];
                }
            }
            (forward, backward) = (next_forward, next_backward);
        }
        Propagated { state, d_responses, d_hop_weights }
    }
}

fn assert_same<T: Ops>(found: &Propagated<T>, expected: &Propagated<f64>, tolerance: f64, case: &Case) {
    assert_close("H", &found.state, &expected.state, tolerance, case);
    assert_close("dF", &found.d_responses, &expected.d_responses, tolerance, case);
    assert_close("dtheta", &found.d_hop_weights, &expected.d_hop_weights, tolerance, case);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        rng_seed: RngSeed::Fixed(PROPTEST_SEED),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn hops_equal_the_dense_tensor(case in cases(1..40usize)) {
        let drawn = case.draw();
        let expected = drawn.propagate_densely(&case);
        assert_same(&drawn.propagate::<f64>(case.walk), &expected, F64_TOLERANCE, &case);
        assert_same(&drawn.propagate::<f32>(case.walk), &expected, F32_TOLERANCE, &case);
    }

    #[test]
    fn tiny_graphs_equal_the_dense_tensor(case in cases(1..4usize)) {
        let drawn = case.draw();
        let expected = drawn.propagate_densely(&case);
        assert_same(&drawn.propagate::<f64>(case.walk), &expected, F64_TOLERANCE, &case);
    }
}

#[test]
fn a_lone_node_keeps_its_response() {
    // M = (1): H = F * sum of theta, dF = dH * sum of theta, dtheta = F * dH at every hop.
    for hops in 1..=8 {
        let walk = Walk::default();
        let case =
            Case { seed: 3, nodes: 1, features: 1, hops, direction: Direction::Undirected, weighted: false, walk };
        let mut drawn = case.draw();
        let graph = Graph::from_edges(1, &[], None, Direction::Undirected).unwrap();
        drawn.dataset.graph = graph;
        let found = drawn.propagate::<f64>(walk);
        let (f, d_h, total) = (drawn.responses[0], drawn.d_state[0], drawn.hop_weights.iter().sum::<f64>());
        assert_close("H", &found.state, &[f * total], F64_TOLERANCE, &case);
        assert_close("dF", &found.d_responses, &[d_h * total], F64_TOLERANCE, &case);
        assert_close("dtheta", &found.d_hop_weights, &vec![f * d_h; hops], F64_TOLERANCE, &case);
    }
}

#[test]
fn more_nodes_than_one_chunk_of_rows() {
    // 4096 rows are one chunk; at this size panels are 64 (f32) or 32 (f64) columns wide, so 70 make two or three.
    for (seed, direction, weighted) in
        [(1, Direction::Undirected, false), (2, Direction::Directed, true), (3, Direction::Undirected, true)]
    {
        let walk = Walk::default();
        let case = Case { seed, nodes: 4500, features: 70, hops: 4, direction, weighted, walk };
        let drawn = case.draw();
        let expected = drawn.propagate_edge_by_edge(&case);
        assert_same(&drawn.propagate::<f64>(walk), &expected, F64_TOLERANCE, &case);
        assert_same(&drawn.propagate::<f32>(walk), &expected, F32_TOLERANCE, &case);
    }
}
