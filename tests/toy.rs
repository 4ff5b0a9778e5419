//! A graph small enough to work out by hand: every number in the comments was found with pencil and paper.
//!
//! Nodes 0 - 1 - 2 on a path and node 3 alone. Two features, two experts, both active, hidden layer of two units.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

mod common;

use common::{F64_TOLERANCE, assert_close, batch_of, plans, run_batch};
use harmonia::architecture::{Architecture, HopWeights, Layout};
use harmonia::dataset::{Dataset, Features, Labels, Level};
use harmonia::device::cpu::Cpu;
use harmonia::device::{Device, Routing};
use harmonia::graph::{Direction, Graph, Split, Transition, Walk};
use std::ops::Range;

/// How far the 1e-8 inside the hop weights moves 4/5 and 1/5:
/// (4 + 1e-8) / (5 + 2e-8) = 0.8 - 1.2e-9, (1 + 1e-8) / (5 + 2e-8) = 0.2 + 1.2e-9, up to 1e-17.
const SHIFT: f64 = 1.2e-9;

fn architecture(outputs: usize) -> Architecture {
    Architecture {
        features: 2,
        outputs,
        experts: 2,
        active: 2,
        bases: 2,
        hidden: vec![2],
        embedding: 1,
        hops: 2,
        hop_weights: HopWeights::Simplex,
        family: Default::default(),
    }
}

fn set(parameters: &mut [f64], range: &Range<usize>, values: &[f64]) {
    parameters[range.clone()].copy_from_slice(values);
}

/// Everything but the readout.
///
/// Expert 0: h = (relu(x), relu(-x)), psi = (2 h1 + h2 + 1/2, h1 - h2)
/// Expert 1: h = (relu(x - 1), relu(x + 1)), psi = (h1 + 1, h2 - 2)
/// Coefficients: a_0 = (1, 2), a_1 = (2, -1)
/// Router: e = (1, -1), Wg = (0, ln 3): Q_0 = (0, ln 3), Q_1 = (0, -ln 3); gates (1/2, 3/4) and (1/2, 1/4)
/// Hop logits: (1, 1) for feature 0, (2, 1) for feature 1: theta (1/2, 1/2) and (4/5, 1/5)
fn parameters(layout: &Layout) -> Vec<f64> {
    let mut p = vec![0.0; layout.len()];
    let [first, second] = [&layout.experts[0], &layout.experts[1]];
    set(&mut p, &first[0].weight, &[1.0, -1.0]);
    set(&mut p, &first[1].weight, &[2.0, 1.0, 1.0, -1.0]);
    set(&mut p, &first[1].bias, &[0.5, 0.0]);
    set(&mut p, &second[0].weight, &[1.0, 1.0]);
    set(&mut p, &second[0].bias, &[-1.0, 1.0]);
    set(&mut p, &second[1].weight, &[1.0, 0.0, 0.0, 1.0]);
    set(&mut p, &second[1].bias, &[1.0, -2.0]);
    set(&mut p, &layout.coefficients, &[1.0, 2.0, 2.0, -1.0]);
    set(&mut p, &layout.embeddings, &[1.0, -1.0]);
    set(&mut p, &layout.router_gate, &[0.0, 3f64.ln()]);
    // Without noise the noise scale must not matter.
    set(&mut p, &layout.router_noise, &[7.0, -5.0]);
    set(&mut p, &layout.hop_logits, &[1.0, 2.0, 1.0, 1.0]);
    p
}

fn dataset(labels: Labels, level: Level, graph_ptr: Vec<usize>, train: &[u32]) -> Dataset {
    let graph = Graph::from_edges(4, &[(0, 1), (1, 2)], None, Direction::Undirected).unwrap();
    let features = Features::new(4, 2, vec![1.0, 0.0, -1.0, 3.0, 2.0, -2.0, 0.0, 1.0]).unwrap();
    let split = Split { train: train.to_vec(), ..Split::default() };
    Dataset::new("toy", graph, graph_ptr, features, labels, level, split).unwrap()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn the_walk_is_the_degree_normalised_adjacency() {
    // D = (1, 2, 1), node 3 stays: M = [0 1 0 0; 1/2 0 1/2 0; 0 1 0 0; 0 0 0 1]
    let graph = Graph::from_edges(4, &[(0, 1), (1, 2)], None, Direction::Undirected).unwrap();
    let transition = Transition::new(&graph, Walk::default());
    assert_eq!(transition.degree(), [1.0, 2.0, 1.0, 1.0]);
    let rows: Vec<Vec<(usize, f32)>> = (0..4).map(|i| transition.matrix().row_entries(i).collect()).collect();
    assert_eq!(rows, [vec![(1, 1.0)], vec![(0, 1.0), (2, 1.0)], vec![(1, 1.0)], vec![(3, 1.0)]]);
}

#[test]
fn a_binary_node_task_by_hand() {
    let labels = Labels::Classes { ids: vec![1, 0, 0, 1], classes: 2 };
    let dataset = dataset(labels, Level::Node, vec![0, 4], &[0, 2]);
    let layout = Layout::new(architecture(1)).unwrap();
    let mut p = parameters(&layout);
    set(&mut p, &layout.readout_weight, &[2.0, -1.0]);
    set(&mut p, &layout.readout_bias, &[1.0]);
    for plan in plans() {
        let batch = batch_of(&dataset, Walk::default(), &layout, plan, &[0, 2], false);
        let found = run_batch::<f64>(&batch, &layout, plan, &p, None, None);

        assert_close("theta", &found.hop_weights, &[0.5, 0.8 - SHIFT, 0.5, 0.2 + SHIFT], F64_TOLERANCE, &"toy");

        // x[:,0] = (1, -1, 2, 0)   psi_0: (5/2, 1) (3/2, -1) (9/2, 2) (1/2, 0)    a_0 . psi_0 = 9/2, -1/2, 17/2, 1/2
        //                          psi_1: (1, 0)   (1, -2)   (2, 1)   (1, -1)     a_0 . psi_1 = 1, -3, 4, -1
        //   f_0 = 1/2 (a_0 . psi_0) + 3/4 (a_0 . psi_1) = 3, -5/2, 29/4, -1/2
        // x[:,1] = (0, 3, -2, 1)   psi_0: (1/2, 0) (13/2, 3) (5/2, -2) (5/2, 1)   a_1 . psi_0 = 1, 10, 7, 4
        //                          psi_1: (1, -1)  (3, 2)    (1, -2)   (1, 0)     a_1 . psi_1 = 3, 4, 4, 2
        //   f_1 = 1/2 (a_1 . psi_0) + 1/4 (a_1 . psi_1) = 5/4, 6, 9/2, 5/2
        let responses = [3.0, 1.25, -2.5, 6.0, 7.25, 4.5, -0.5, 2.5];
        assert_close("F", &found.responses, &responses, F64_TOLERANCE, &"toy");

        // M F = (-5/2, 6), (41/8, 23/8), (-5/2, 6), (-1/2, 5/2)
        // H[:,0] = 1/2 F + 1/2 M F = 1/4, 21/16, 19/8, -1/2
        // H[:,1] = 4/5 F + 1/5 M F = 2.2, 5.375, 4.8, 2.5, less SHIFT * (F - M F) = SHIFT * (-4.75, 3.125, -1.5, 0)
        let (h0, h1) =
            ([0.25, 1.3125, 2.375, -0.5], [2.2 + 4.75 * SHIFT, 5.375 - 3.125 * SHIFT, 4.8 + 1.5 * SHIFT, 2.5]);
        let state: Vec<f64> = h0.iter().zip(h1).flat_map(|(&a, b)| [a, b]).collect();
        assert_close("H", found.state.as_ref().unwrap_or(&state), &state, F64_TOLERANCE, &"toy");

        // logit = 1 + 2 H0 - H1 = -0.7, -1.75, 0.95, -2.5
        let logits = [-0.7 - 4.75 * SHIFT, -1.75 + 3.125 * SHIFT, 0.95 - 1.5 * SHIFT, -2.5];
        assert_close("logits", &found.logits, &logits, F64_TOLERANCE, &"toy");

        // Node 0 has label 1, node 2 label 0: (ln(1 + e^0.7) + ln(1 + e^0.95)) / 2 = (1.10319 + 1.27696) / 2
        let loss = ((1.0 + (-logits[0]).exp()).ln() + (1.0 + logits[2].exp()).ln()) / 2.0;
        assert!((loss - 1.190_07).abs() < 1e-5, "{loss}");
        assert!((found.loss - loss).abs() < F64_TOLERANCE, "{} {loss}", found.loss);

        // dlogit = ((sigmoid(-0.7) - 1) / 2, 0, sigmoid(0.95) / 2, 0); dbeta is its sum, dWo = H^T dlogit
        let (d0, d2) = ((sigmoid(logits[0]) - 1.0) / 2.0, sigmoid(logits[2]) / 2.0);
        assert_close("dbeta", &found.gradient[layout.readout_bias.clone()], &[d0 + d2], F64_TOLERANCE, &"toy");
        let d_weight = [0.25 * d0 + 2.375 * d2, h1[0] * d0 + h1[2] * d2];
        assert_close("dWo", &found.gradient[layout.readout_weight.clone()], &d_weight, F64_TOLERANCE, &"toy");
    }
}

#[test]
fn a_graph_task_sums_over_its_nodes() {
    // Graph 0 is the path, graph 1 the lone node. With beta = 1 counted once per graph:
    // 1 + (-1.7 - 2.75 - 0.05) = -3.5 (and SHIFT * (-4.75 + 3.125 - 1.5) = -3.125 SHIFT), and -2.5.
    let labels = Labels::Classes { ids: vec![0, 1], classes: 2 };
    let dataset = dataset(labels, Level::Graph, vec![0, 3, 4], &[0, 1]);
    let layout = Layout::new(architecture(1)).unwrap();
    let mut p = parameters(&layout);
    set(&mut p, &layout.readout_weight, &[2.0, -1.0]);
    set(&mut p, &layout.readout_bias, &[1.0]);
    for plan in plans() {
        let batch = batch_of(&dataset, Walk::default(), &layout, plan, &[0, 1], false);
        let found = run_batch::<f64>(&batch, &layout, plan, &p, None, None);
        assert_close("logits", &found.logits, &[-3.5 - 3.125 * SHIFT, -2.5], F64_TOLERANCE, &"toy");
        let loss = ((1.0 + found.logits[0].exp()).ln() + (1.0 + 2.5f64.exp()).ln()) / 2.0;
        assert!((found.loss - loss).abs() < F64_TOLERANCE, "{} {loss}", found.loss);
    }
}

#[test]
fn softmax_by_hand() {
    // A zero readout leaves the intercepts (0, ln 2, 0): probabilities (1/4, 1/2, 1/4) at every node.
    // Node 0 has class 0, node 1 class 1: loss (ln 4 + ln 2) / 2, dbeta = ((-3/4, 1/2, 1/4) + (1/4, -1/2, 1/4)) / 2
    let labels = Labels::Classes { ids: vec![0, 1, 2, 2], classes: 3 };
    let dataset = dataset(labels, Level::Node, vec![0, 4], &[0, 1]);
    let layout = Layout::new(architecture(3)).unwrap();
    let mut p = parameters(&layout);
    set(&mut p, &layout.readout_bias, &[0.0, 2f64.ln(), 0.0]);
    for plan in plans() {
        let batch = batch_of(&dataset, Walk::default(), &layout, plan, &[0, 1], false);
        let found = run_batch::<f64>(&batch, &layout, plan, &p, None, None);
        assert!((found.loss - 1.5 * 2f64.ln()).abs() < F64_TOLERANCE, "{}", found.loss);
        let d_bias = &found.gradient[layout.readout_bias.clone()];
        assert_close("dbeta", d_bias, &[-0.25, 0.0, 0.25], F64_TOLERANCE, &"toy");
    }
}

#[test]
fn multi_label_losses_are_summed_over_outputs() {
    // Intercepts (ln 3, 0), labels (1, 1): ln(4/3) + ln 2.
    let labels = Labels::Multi { bits: vec![1, 1, 0, 0, 0, 0, 0, 0], width: 2 };
    let dataset = dataset(labels, Level::Node, vec![0, 4], &[0]);
    let layout = Layout::new(architecture(2)).unwrap();
    let mut p = parameters(&layout);
    set(&mut p, &layout.readout_bias, &[3f64.ln(), 0.0]);
    for plan in plans() {
        let batch = batch_of(&dataset, Walk::default(), &layout, plan, &[0], false);
        let found = run_batch::<f64>(&batch, &layout, plan, &p, None, None);
        assert!((found.loss - (8f64 / 3.0).ln()).abs() < F64_TOLERANCE, "{}", found.loss);
    }
}

/// Routes one feature with e = 1 among three experts; returns (experts, gates, noise scales).
fn route(
    gate: [f64; 3],
    noise_weight: [f64; 3],
    noise: Option<[f64; 3]>,
    active: usize,
) -> (Vec<u32>, Vec<f64>, Vec<f64>) {
    let sizes = Architecture { features: 1, experts: 3, active, ..architecture(1) };
    let layout = Layout::new(sizes).unwrap();
    let mut p = vec![0.0; layout.len()];
    set(&mut p, &layout.embeddings, &[1.0]);
    set(&mut p, &layout.router_gate, &gate);
    set(&mut p, &layout.router_noise, &noise_weight);
    let device = Cpu::<f64>::new();
    let mut routing: Routing<Cpu<f64>> =
        Routing { experts: vec![9; active], gates: vec![9.0; active], noise_scale: vec![9.0; active] };
    device.route_forward(&mut routing, &p, noise.map(|noise| noise.to_vec()).as_ref(), &layout).unwrap();
    (routing.experts, routing.gates, routing.noise_scale)
}

#[test]
fn a_tie_goes_to_the_lower_expert() {
    let ln3 = 3f64.ln();
    assert_eq!(route([0.0, ln3, ln3], [0.0; 3], None, 1).0, [1]);
    let (experts, gates, _) = route([ln3, 0.0, ln3], [0.0; 3], None, 2);
    assert_eq!(experts, [0, 2]);
    assert_close("gates", &gates, &[0.75, 0.75], F64_TOLERANCE, &"tie");
    assert_eq!(route([0.0; 3], [0.0; 3], None, 3).0, [0, 1, 2]);
    // Noise can make the tie: Q = (1/2 + 1/2 * 1, 1, 1/2 * 2).
    assert_eq!(route([0.5, 1.0, 0.0], [0.0; 3], Some([1.0, 0.0, 2.0]), 2).0, [0, 1]);
}

#[test]
fn noise_is_scaled_by_the_sigmoid_and_may_change_the_choice() {
    // Without noise: ln 3 twice, then 0. sigmoid(N) = (1/2, 1/2, 3/4), eps = (2, 0, -4):
    // Q = (0 + 1, ln 3 + 0, ln 3 - 3): experts 1 and 0, gates 3/4 and sigmoid(1).
    let ln3 = 3f64.ln();
    let (experts, gates, scales) = route([0.0, ln3, ln3], [0.0, 0.0, ln3], Some([2.0, 0.0, -4.0]), 2);
    assert_eq!(experts, [1, 0]);
    assert_close("gates", &gates, &[0.75, sigmoid(1.0)], F64_TOLERANCE, &"noise");
    assert_close("noise scales", &scales, &[0.5, 0.5], F64_TOLERANCE, &"noise");
    let (experts, _, scales) = route([0.0, ln3, ln3], [0.0, 0.0, ln3], None, 3);
    assert_eq!(experts, [1, 2, 0]);
    assert_close("noise scales", &scales, &[0.5, 0.75, 0.5], F64_TOLERANCE, &"no noise");
}

#[test]
fn hop_weights_by_hand() {
    // T = 2, alpha = (1, 1), (2, 1), (0, 3), (0, 0): theta = (1/2, 1/2), (4/5, 1/5), (~1e-9, ~1), (1/2, 1/2)
    let sizes = Architecture { features: 4, ..architecture(1) };
    let layout = Layout::new(sizes.clone()).unwrap();
    let logits = [1.0, 2.0, 0.0, 0.0, 1.0, -1.0, 3.0, 0.0];
    let mut p = vec![0.0; layout.len()];
    set(&mut p, &layout.hop_logits, &logits);
    let device = Cpu::<f64>::new();
    let mut theta = vec![f64::NAN; 8];
    device.hop_weights_forward(&mut theta, &p, None, &layout).unwrap();
    let rare = 1e-8 / (9.0 + 2e-8);
    let expected = [0.5, 0.8 - SHIFT, rare, 0.5, 0.5, 0.2 + SHIFT, 1.0 - rare, 0.5];
    assert_close("theta", &theta, &expected, F64_TOLERANCE, &"by hand");

    // Backward, dtheta = (1, 0) everywhere: dalpha_t = 2 alpha_t (dtheta_t - theta_0) / s
    //   feature 0: 2 (1 - 1/2) / 2 = 1/2 and -1/2; feature 1: 4 (1 - 4/5) / 5 = 4/25 and -2 (0 - 4/5) / 5 = 8/25,
    //   to the 1e-8 of the normaliser; features 2 and 3: 0 where alpha is 0, and 6 (0 - rare) / 9.
    let mut gradient = vec![0.0; layout.len()];
    let d_theta = vec![1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    device.hop_weights_backward(&mut gradient, &d_theta, &theta, &p, None, &layout).unwrap();
    let expected = [0.5, 0.16, 0.0, 0.0, -0.5, 0.32, -6.0 * rare / 9.0, 0.0];
    assert_close("dalpha", &gradient[layout.hop_logits.clone()], &expected, 1e-8, &"by hand");

    let free = Layout::new(Architecture { hop_weights: HopWeights::Free, ..sizes }).unwrap();
    device.hop_weights_forward(&mut theta, &p, None, &free).unwrap();
    assert_eq!(theta, logits);
    gradient.fill(1.0);
    device.hop_weights_backward(&mut gradient, &d_theta, &theta, &p, None, &free).unwrap();
    assert_eq!(gradient[free.hop_logits.clone()], [2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0]);
}
