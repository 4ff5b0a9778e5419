//! Every op of a device against the CPU device in f64, which the dense oracle vouches for.
//!
//! Each op gets the same inputs on both sides, rounded to f32, so that an error is found in the op that made it.
//! Gradients start from values that are not zero: an op that overwrites where it should add is found out.

use super::assert_close;
use super::problems::{Problem, Recipe};
use harmonia::architecture::Layout;
use harmonia::batch::{Batch, Batches};
use harmonia::config::DropoutPlace;
use harmonia::config::Monb;
use harmonia::dataset::Values;
use harmonia::device::cpu::{Cpu, Panels};
use harmonia::device::{AdamStep, Device, Dropout, Op, Responses, Routing};
use harmonia::model::Timed;
use harmonia::plan::{Plan, Space};
use harmonia::seed::{Purpose, Stream};
use harmonia::tabulate::{Builder, TablePlan};
use harmonia::walk_table::CellBits;
use harmonia::watch::Watch;
use std::cell::RefCell;
use std::sync::Arc;

/// f32 keeps seven digits; sums of some thousand terms in another order may lose two of them.
pub const TOLERANCE: f64 = 2e-5;
/// Half keeps 11 bits, and every hop rounds once.
pub const HALF_TOLERANCE: f64 = 4e-3;
/// bfloat16 keeps 8 bits: 4e-3 of each stored state. Gradients of a few features are sums over thousands of neighbours of a hub that
/// nearly cancel, of which the largest result is what is left: ten times that is seen (2.9e-2 in some sixty graphs with hubs).
pub const BFLOAT_TOLERANCE: f64 = 4e-2;

/// Every so many rows are scored where not all are: with their neighbours, about half of them count.
const SCORED: usize = 11;

/// A value on the device under test and on the oracle.
type Both<A, B> = (A, B);

struct Parity<'a, D: Device<Real = f32>> {
    device: &'a D,
    /// The same device; its profile knows which ops were compared.
    ops: RefCell<Timed<'a, D>>,
    oracle: Cpu<f64>,
    recipe: &'a Recipe,
    rng: RefCell<harmonia::seed::Rng>,
}

/// Runs all ops of one problem. `states` is the tolerance of ops that read propagated states.
pub fn check<D: Device<Real = f32>>(device: &D, recipe: &Recipe, dropout: Option<Dropout>, states: f64) {
    let parity = Parity {
        device,
        ops: RefCell::new(Timed::new(device)),
        oracle: Cpu::new(),
        recipe,
        rng: RefCell::new(Stream::new(recipe.seed, Purpose::Initialisation, 9).rng()),
    };
    parity.ops.borrow_mut().profile();
    parity.run(dropout.as_ref(), states);
    // A new op that nobody compares is found out here.
    let profile = parity.ops.borrow_mut().take_profile().unwrap();
    let hidden = dropout.is_some_and(|dropout| dropout.place == DropoutPlace::Hidden);
    let is_possible = |op: &&Op| !hidden || !matches!(op, Op::KnotsCompile | Op::KnotsForward | Op::KnotsBackward);
    for op in Op::ALL.iter().filter(is_possible) {
        assert!(profile.ops().iter().any(|(compared, _)| compared == op), "{} is not compared", op.name());
    }
}

/// A table of walks, and what is done with it.
struct Tabled {
    bits: CellBits,
    points: usize,
    dropped: f64,
    walks: usize,
}

impl<D: Device<Real = f32>> Parity<'_, D> {
    fn run(&self, dropout: Option<&Dropout>, states: f64) {
        let problem = self.recipe.problem();
        let layout = &problem.layout;
        let parameters = self.upload(&rounded(&problem.parameters));
        let routing = self.routing(&problem, &parameters);
        let hop_weights = self.hop_weights(layout, &parameters);
        for monb in [Monb::Direct, Monb::Knots] {
            for sparse in [false, true] {
                self.features(&problem, Plan { monb, space: Space::Classes, sparse }, &parameters, &routing, dropout);
            }
        }
        // Of all rows, and of some that leave others out; the oracle takes every hop whole.
        let some: Vec<u32> = (0..problem.dataset.graph.nodes() as u32).step_by(SCORED).collect();
        for scored in [None, Some(&some[..])] {
            for sparse in [false, true] {
                self.classes(&problem, sparse, scored, &parameters, &hop_weights, states);
            }
            self.propagation(&problem, scored, &hop_weights, states);
        }
        self.readout_and_loss(&problem, &parameters);
        self.other_targets_and_rows(&problem);
        for (bits, points, dropped, walks) in [
            (CellBits::Eight, 5, 0.0, 0),
            (CellBits::Sixteen, 5, 0.3, 2),
            (CellBits::Float, 5, 0.0, 0),
            (CellBits::Float, 1, 0.0, 3),
        ] {
            let table = Tabled { bits, points, dropped, walks };
            self.table(&problem, table, &parameters, &routing, &hop_weights);
        }
        self.update(layout);
        self.halt(layout);
        self.noise(&problem);
    }

    /// With noise and without; what comes of it with noise.
    fn routing(
        &self,
        problem: &Problem,
        parameters: &Both<D::Buffer, Vec<f64>>,
    ) -> Both<Routing<D>, Routing<Cpu<f64>>> {
        let (device, oracle, layout) = (self.device, &self.oracle, &problem.layout);
        let a = &layout.architecture;
        let noise = self.upload(&rounded(&problem.noise));
        for noise in [None, Some(&noise)] {
            let mut routing = (routing(device, layout), routing(oracle, layout));
            self.ops.borrow_mut().route_forward(&mut routing.0, &parameters.0, noise.map(|n| &n.0), layout).unwrap();
            oracle.route_forward(&mut routing.1, &parameters.1, noise.map(|n| &n.1), layout).unwrap();
            self.same("gates", &routing.0.gates, &routing.1.gates, TOLERANCE);
            self.same("noise scales", &routing.0.noise_scale, &routing.1.noise_scale, TOLERANCE);
            let d_gates = self.random(a.features * a.active);
            let mut gradient = self.random(layout.len());
            let n = noise.map(|n| &n.0);
            self.ops
                .borrow_mut()
                .route_backward(&mut gradient.0, &d_gates.0, &routing.0, &parameters.0, n, layout)
                .unwrap();
            let n = noise.map(|n| &n.1);
            oracle.route_backward(&mut gradient.1, &d_gates.1, &routing.1, &parameters.1, n, layout).unwrap();
            self.same("route_backward", &gradient.0, &gradient.1, TOLERANCE);
        }
        let mut routing = (routing(device, layout), routing(oracle, layout));
        self.ops.borrow_mut().route_forward(&mut routing.0, &parameters.0, Some(&noise.0), layout).unwrap();
        oracle.route_forward(&mut routing.1, &parameters.1, Some(&noise.1), layout).unwrap();
        routing
    }

    fn hop_weights(&self, layout: &Layout, parameters: &Both<D::Buffer, Vec<f64>>) -> Both<D::Buffer, Vec<f64>> {
        let (oracle, size) = (&self.oracle, layout.architecture.hops * layout.architecture.features);
        let mut hop_weights = (self.device.zeros(size).unwrap(), oracle.zeros(size).unwrap());
        let basis = layout.hop_basis.as_ref().map(|basis| self.upload(&rounded(basis)));
        let basis = (basis.as_ref().map(|basis| &basis.0), basis.as_ref().map(|basis| &basis.1));
        self.ops.borrow_mut().hop_weights_forward(&mut hop_weights.0, &parameters.0, basis.0, layout).unwrap();
        oracle.hop_weights_forward(&mut hop_weights.1, &parameters.1, basis.1, layout).unwrap();
        self.same("hop_weights_forward", &hop_weights.0, &hop_weights.1, TOLERANCE);
        let d_hop_weights = self.random(size);
        let mut gradient = self.random(layout.len());
        self.ops
            .borrow_mut()
            .hop_weights_backward(&mut gradient.0, &d_hop_weights.0, &hop_weights.0, &parameters.0, basis.0, layout)
            .unwrap();
        oracle
            .hop_weights_backward(&mut gradient.1, &d_hop_weights.1, &hop_weights.1, &parameters.1, basis.1, layout)
            .unwrap();
        self.same("hop_weights_backward", &gradient.0, &gradient.1, TOLERANCE);
        hop_weights
    }

    /// Feature space, of all rows or of some.
    fn propagation(
        &self,
        problem: &Problem,
        scored: Option<&[u32]>,
        hop_weights: &Both<D::Buffer, Vec<f64>>,
        states: f64,
    ) {
        let (device, oracle, layout) = (self.device, &self.oracle, &problem.layout);
        let (a, batch) = (&layout.architecture, problem.batch(Plan::DIRECT));
        let nodes = batch.nodes();
        let scope = scored.and_then(|rows| device.scope(&batch, rows, a.hops).unwrap());
        let scope = scope.as_ref();
        if scored.is_some() && scope.is_none() {
            return; // nothing to leave out
        }
        let inputs = (device.inputs(&batch, Plan::DIRECT).unwrap(), oracle.inputs(&batch, Plan::DIRECT).unwrap());
        let responses = self.random_matrix(nodes, a.features);
        let mut state = self.random_matrix(nodes, a.features);
        self.ops.borrow_mut().propagate_forward(&mut state.0, &responses.0, &hop_weights.0, &inputs.0, scope).unwrap();
        oracle.propagate_forward(&mut state.1, &responses.1, &hop_weights.1, &inputs.1, None).unwrap();
        let found = device.download_matrix(&state.0).unwrap();
        self.same_rows("propagate_forward", &found, &state.1.to_row_major(), scored, a.features, states);
        let mut gradient = self.zero_elsewhere(nodes, a.features, scored);
        let mut d_theta = self.random(a.hops * a.features);
        self.ops
            .borrow_mut()
            .propagate_backward(&mut gradient.0, &mut d_theta.0, &responses.0, &hop_weights.0, &inputs.0, scope)
            .unwrap();
        oracle
            .propagate_backward(&mut gradient.1, &mut d_theta.1, &responses.1, &hop_weights.1, &inputs.1, None)
            .unwrap();
        self.same_matrix("propagate_backward", &gradient.0, &gradient.1, states);
        self.same("d_hop_weights", &d_theta.0, &d_theta.1, states);
    }

    /// The rest of feature space.
    fn readout_and_loss(&self, problem: &Problem, parameters: &Both<D::Buffer, Vec<f64>>) {
        let (device, oracle, layout) = (self.device, &self.oracle, &problem.layout);
        let (a, batch) = (&layout.architecture, problem.batch(Plan::DIRECT));
        let (nodes, rows) = (batch.nodes(), batch.rows());
        let inputs = (device.inputs(&batch, Plan::DIRECT).unwrap(), oracle.inputs(&batch, Plan::DIRECT).unwrap());
        let mut state = self.random_matrix(nodes, a.features);
        let mut logits = self.random(rows * a.outputs);
        self.ops.borrow_mut().readout_forward(&mut logits.0, &state.0, &parameters.0, &inputs.0, layout).unwrap();
        oracle.readout_forward(&mut logits.1, &state.1, &parameters.1, &inputs.1, layout).unwrap();
        self.same("readout_forward", &logits.0, &logits.1, TOLERANCE);

        let logits = self.random(rows * a.outputs);
        let mut d_logits = self.random(rows * a.outputs);
        let mut verdict = (device.verdict().unwrap(), oracle.verdict().unwrap());
        self.ops.borrow_mut().loss(&mut verdict.0, &mut d_logits.0, &logits.0, &inputs.0).unwrap();
        oracle.loss(&mut verdict.1, &mut d_logits.1, &logits.1, &inputs.1).unwrap();
        let loss = device.judgement(&mut verdict.0).unwrap().loss;
        let expected = oracle.judgement(&mut verdict.1).unwrap().loss;
        assert!((loss - expected).abs() <= TOLERANCE * expected.max(1.0), "{loss} {expected} {:?}", self.recipe);
        self.same("d_logits", &d_logits.0, &d_logits.1, TOLERANCE);

        let d_logits = self.random(rows * a.outputs);
        let mut gradient = self.random(layout.len());
        let (g, s) = (&mut gradient.0, &mut state.0);
        self.ops.borrow_mut().readout_backward(g, s, &d_logits.0, &parameters.0, &inputs.0, layout).unwrap();
        let (g, s) = (&mut gradient.1, &mut state.1);
        oracle.readout_backward(g, s, &d_logits.1, &parameters.1, &inputs.1, layout).unwrap();
        self.same("readout_backward", &gradient.0, &gradient.1, TOLERANCE);
        self.same_matrix("d_state", &state.0, &state.1, TOLERANCE);
    }

    /// Other targets on the same nodes: the loss of a third of them, and some rows of what it leaves, read one by one.
    fn other_targets_and_rows(&self, problem: &Problem) {
        let (device, oracle, plan) = (self.device, &self.oracle, Plan::DIRECT);
        let (outputs, whole) = (problem.layout.architecture.outputs, problem.batch(plan));
        let mut inputs = (device.inputs(&whole, plan).unwrap(), oracle.inputs(&whole, plan).unwrap());
        let units: Vec<_> = whole.units.iter().copied().step_by(3).collect();
        let objective = problem.objective();
        let targets = objective.targets(&problem.dataset.labels, whole.rows(), &units, None);
        let other = Batch { targets, units, ..whole };
        device.retarget(&mut inputs.0, &other).unwrap();
        oracle.retarget(&mut inputs.1, &other).unwrap();
        let logits = self.random(other.rows() * outputs);
        let mut d_logits = self.random(other.rows() * outputs);
        let mut verdict = (device.verdict().unwrap(), oracle.verdict().unwrap());
        device.loss(&mut verdict.0, &mut d_logits.0, &logits.0, &inputs.0).unwrap();
        oracle.loss(&mut verdict.1, &mut d_logits.1, &logits.1, &inputs.1).unwrap();
        self.same("d_logits of other targets", &d_logits.0, &d_logits.1, TOLERANCE);
        let rows: Vec<u32> = (0..other.rows() as u32).rev().step_by(2).collect();
        let mut reader = device.row_reader(&rows, outputs).unwrap();
        device.send_rows(&mut reader, &d_logits.0).unwrap();
        let mut read = Vec::new();
        device.receive_rows(&mut read, &mut reader).unwrap();
        let all = device.download(&d_logits.0).unwrap();
        let expected: Vec<f32> =
            rows.iter().flat_map(|&row| &all[row as usize * outputs..][..outputs]).copied().collect();
        assert_eq!(read, expected, "{:?}", self.recipe);
    }

    /// States from a table of walks, corrected by sampled ones, and back, and masks that leave the points of its grid alone.
    fn table(
        &self,
        problem: &Problem,
        Tabled { bits, points, dropped, walks }: Tabled,
        parameters: &Both<D::Buffer, Vec<f64>>,
        routing: &Both<Routing<D>, Routing<Cpu<f64>>>,
        hop_weights: &Both<D::Buffer, Vec<f64>>,
    ) {
        let (device, oracle, layout) = (self.device, &self.oracle, &problem.layout);
        let a = &layout.architecture;
        let planned = TablePlan::with(&problem.dataset, a.hops, points, bits);
        let table = Builder::new(&problem.dataset, problem.recipe.walk, &planned).table(&Watch::silent()).unwrap();
        let walking = Batches::new(&problem.dataset, problem.recipe.walk);
        let batches = Batches::tabled(&problem.dataset, Arc::new(table), dropped).walking_as(&walking, walks);
        let batches = batches.for_loss(problem.objective(), None);
        let batch = batches.drawn(&problem.dataset.split.train, Stream::new(problem.recipe.seed, Purpose::Walks, 1));
        let plan = Plan { monb: Monb::Knots, space: Space::Table, sparse: false };
        let inputs = (device.inputs(&batch, plan).unwrap(), oracle.inputs(&batch, plan).unwrap());
        let what = |op: &str| format!("{op}, {bits:?}, dropped {dropped}, {walks} walks");

        let mut responses = self.random_rows(batch.nodes(), a.features);
        let mut state = self.random_rows(batch.rows(), a.features);
        self.ops.borrow_mut().table_forward(&mut state.0, &responses.0, &hop_weights.0, &inputs.0).unwrap();
        oracle.table_forward(&mut state.1, &responses.1, &hop_weights.1, &inputs.1).unwrap();
        self.same_matrix(&what("table_forward"), &state.0, &state.1, TOLERANCE);
        let d_state = self.random_rows(batch.rows(), a.features);
        let mut d_theta = self.random(a.hops * a.features);
        let (r, t) = (&mut responses, &mut d_theta);
        self.ops.borrow_mut().table_backward(&mut r.0, &mut t.0, &d_state.0, &hop_weights.0, &inputs.0).unwrap();
        oracle.table_backward(&mut r.1, &mut t.1, &d_state.1, &hop_weights.1, &inputs.1).unwrap();
        self.same_matrix(&what("table_backward"), &responses.0, &responses.1, TOLERANCE);
        self.same(&what("d_hop_weights"), &d_theta.0, &d_theta.1, TOLERANCE);

        let dropout = (dropped > 0.0).then(|| Dropout {
            place: DropoutPlace::Input,
            rate: dropped,
            stream: Stream::new(problem.recipe.seed, Purpose::Dropout, 3),
        });
        let mut knots = (device.knots(layout).unwrap(), oracle.knots(layout).unwrap());
        let mut verdict = (device.verdict().unwrap(), oracle.verdict().unwrap());
        device.knots_compile(&mut verdict.0, &mut knots.0, &routing.0, &parameters.0, layout).unwrap();
        oracle.knots_compile(&mut verdict.1, &mut knots.1, &routing.1, &parameters.1, layout).unwrap();
        let mut by_knots = (Responses::Dense(responses.0), Responses::Dense(responses.1));
        device.knots_forward(&mut by_knots.0, &knots.0, &inputs.0, dropout.as_ref(), layout).unwrap();
        oracle.knots_forward(&mut by_knots.1, &knots.1, &inputs.1, dropout.as_ref(), layout).unwrap();
        self.same_responses(&what("knots_forward"), &by_knots, TOLERANCE);
        device.monb_forward(&mut by_knots.0, &inputs.0, &routing.0, &parameters.0, dropout.as_ref(), layout).unwrap();
        self.same_responses(&what("monb_forward"), &by_knots, TOLERANCE);
    }

    /// The same numbers as contiguous rows on both sides.
    fn random_rows(&self, rows: usize, cols: usize) -> Both<D::Matrix, <Cpu<f64> as Device>::Matrix> {
        let values = self.numbers(rows * cols);
        let mut matrix = Panels::zeroed_rows(rows, cols);
        matrix.as_rows_mut().unwrap().copy_from_slice(&widened(&values));
        (self.device.upload_matrix(&values, cols).unwrap(), matrix)
    }

    /// What happens to a gradient.
    fn update(&self, layout: &Layout) {
        let (device, oracle) = (self.device, &self.oracle);
        let gradient = self.random(layout.len());
        let mut cleared = self.random(layout.len());
        self.ops.borrow_mut().clear(&mut cleared.0).unwrap();
        assert!(device.download(&cleared.0).unwrap().iter().all(|&value| value == 0.0), "clear");

        let mut verdict = (device.verdict().unwrap(), oracle.verdict().unwrap());
        self.ops.borrow_mut().norm(&mut verdict.0, &gradient.0).unwrap();
        oracle.norm(&mut verdict.1, &gradient.1).unwrap();
        let norm = device.judgement(&mut verdict.0).unwrap().norm;
        let expected = oracle.judgement(&mut verdict.1).unwrap().norm;
        assert!((norm - expected).abs() <= TOLERANCE * expected, "norm {norm}, expected {expected}");
        for decoupled in [false, true] {
            let [mut p, mut m] = [(); 2].map(|()| self.random(layout.len()));
            // A second moment is never negative.
            let mut v = self.upload(&vec![0.25; layout.len()]);
            let (learning_rate, weight_decay) = (1e-2, 1e-2);
            let step = AdamStep { learning_rate, weight_decay, decoupled, step: 3, clip_norm: 0.7 * expected };
            // Some of the parameters, then the others.
            for range in [0..layout.hop_logits.start, layout.hop_logits.start..layout.len()] {
                let (d, o) = (&verdict.0, &verdict.1);
                self.ops.borrow_mut().adam(&mut p.0, &mut m.0, &mut v.0, &gradient.0, d, &range, step).unwrap();
                oracle.adam(&mut p.1, &mut m.1, &mut v.1, &gradient.1, o, &range, step).unwrap();
            }
            self.same("adam: parameters", &p.0, &p.1, TOLERANCE);
            self.same("adam: first moment", &m.0, &m.1, TOLERANCE);
            self.same("adam: second moment", &v.0, &v.1, TOLERANCE);
        }
    }

    /// After a halt nothing is updated, until it is ended.
    fn halt(&self, layout: &Layout) {
        let device = self.device;
        let (mut verdict, all) = (device.verdict().unwrap(), 0..layout.len());
        let mut bad = self.numbers(layout.len());
        bad[layout.len() / 2] = f32::NAN;
        let values = self.numbers(layout.len());
        let [mut p, mut m] = [(); 2].map(|()| device.upload(&values).unwrap());
        let mut v = device.zeros(layout.len()).unwrap();
        let step = AdamStep { learning_rate: 0.1, weight_decay: 0.0, decoupled: false, step: 1, clip_norm: 0.0 };
        for (gradient, halted) in [(&values, false), (&bad, true), (&values, true)] {
            let before = device.download(&p).unwrap();
            let gradient = device.upload(gradient).unwrap();
            device.norm(&mut verdict, &gradient).unwrap();
            device.adam(&mut p, &mut m, &mut v, &gradient, &verdict, &all, step).unwrap();
            device.post(&mut verdict).unwrap();
            assert_eq!(device.collect(&mut verdict).unwrap().diverged, halted, "{:?}", self.recipe);
            assert_eq!(before == device.download(&p).unwrap(), halted, "{:?}", self.recipe);
        }
        device.resume(&mut verdict).unwrap();
        assert!(!device.judgement(&mut verdict).unwrap().is_halted());
    }

    /// The same numbers, whoever draws them; see `kernels/noise.cu` for those that may differ.
    fn noise(&self, problem: &Problem) {
        let length = problem.noise.len() + 1;
        let stream = Stream::new(self.recipe.seed, Purpose::Noise, 17);
        let mut noise = (self.device.zeros(length).unwrap(), self.oracle.zeros(length).unwrap());
        self.ops.borrow_mut().draw_noise(&mut noise.0, &stream, 0.75).unwrap();
        self.oracle.draw_noise(&mut noise.1, &stream, 0.75).unwrap();
        self.same("draw_noise", &noise.0, &noise.1, f64::from(f32::EPSILON));
    }

    /// Responses and what they are made of, by a plan.
    fn features(
        &self,
        problem: &Problem,
        plan: Plan,
        parameters: &Both<D::Buffer, Vec<f64>>,
        routing: &Both<Routing<D>, Routing<Cpu<f64>>>,
        dropout: Option<&Dropout>,
    ) {
        let hidden = dropout.is_some_and(|dropout| dropout.place == DropoutPlace::Hidden);
        if hidden && (plan.sparse || plan.monb == Monb::Knots) {
            return; // no plan does this
        }
        let (device, oracle, layout) = (self.device, &self.oracle, &problem.layout);
        let slots = layout.architecture.features * layout.architecture.active;
        let batch = problem.batch(plan);
        let inputs = (device.inputs(&batch, plan).unwrap(), oracle.inputs(&batch, plan).unwrap());
        let mut responses = self.random_responses(problem, plan);
        let d_responses = self.random_responses(problem, plan);
        // Of the other form: refused, not passed over.
        let mut mixed = self.random_responses(problem, Plan { sparse: !plan.sparse, ..plan });
        let mut gradient = self.random(layout.len());
        let mut d_gates = self.random(slots);
        let (p, r) = (parameters, routing);
        match plan.monb {
            Monb::Direct => {
                self.ops.borrow_mut().monb_forward(&mut responses.0, &inputs.0, &r.0, &p.0, dropout, layout).unwrap();
                oracle.monb_forward(&mut responses.1, &inputs.1, &r.1, &p.1, dropout, layout).unwrap();
                let (g, d) = (&mut gradient.0, &mut d_gates.0);
                self.ops
                    .borrow_mut()
                    .monb_backward(g, d, &d_responses.0, &inputs.0, &r.0, &p.0, dropout, layout)
                    .unwrap();
                let (g, d) = (&mut gradient.1, &mut d_gates.1);
                oracle.monb_backward(g, d, &d_responses.1, &inputs.1, &r.1, &p.1, dropout, layout).unwrap();
                let m = &mut mixed;
                assert!(device.monb_forward(&mut m.0, &inputs.0, &r.0, &p.0, dropout, layout).is_err());
                assert!(oracle.monb_forward(&mut m.1, &inputs.1, &r.1, &p.1, dropout, layout).is_err());
            }
            Monb::Knots => {
                let mut knots = (device.knots(layout).unwrap(), oracle.knots(layout).unwrap());
                let mut verdict = (device.verdict().unwrap(), oracle.verdict().unwrap());
                self.ops.borrow_mut().knots_compile(&mut verdict.0, &mut knots.0, &r.0, &p.0, layout).unwrap();
                oracle.knots_compile(&mut verdict.1, &mut knots.1, &r.1, &p.1, layout).unwrap();
                assert!(!device.judgement(&mut verdict.0).unwrap().is_halted());
                self.ops.borrow_mut().knots_forward(&mut responses.0, &knots.0, &inputs.0, dropout, layout).unwrap();
                oracle.knots_forward(&mut responses.1, &knots.1, &inputs.1, dropout, layout).unwrap();
                let (g, d, k) = (&mut gradient.0, &mut d_gates.0, &mut knots.0);
                self.ops
                    .borrow_mut()
                    .knots_backward(g, d, &d_responses.0, k, &inputs.0, &r.0, &p.0, dropout, layout)
                    .unwrap();
                let (g, d, k) = (&mut gradient.1, &mut d_gates.1, &mut knots.1);
                oracle.knots_backward(g, d, &d_responses.1, k, &inputs.1, &r.1, &p.1, dropout, layout).unwrap();
                assert!(device.knots_forward(&mut mixed.0, &knots.0, &inputs.0, dropout, layout).is_err());
                assert!(oracle.knots_forward(&mut mixed.1, &knots.1, &inputs.1, dropout, layout).is_err());
            }
        }
        self.same_responses(&format!("responses by {plan:?}"), &responses, TOLERANCE);
        self.same(&format!("gradient by {plan:?}"), &gradient.0, &gradient.1, TOLERANCE);
        self.same(&format!("d_gates by {plan:?}"), &d_gates.0, &d_gates.1, TOLERANCE);
    }

    /// Class space: what the states of hops are is the device's own affair, so ops are compared in pairs.
    fn classes(
        &self,
        problem: &Problem,
        sparse: bool,
        scored: Option<&[u32]>,
        parameters: &Both<D::Buffer, Vec<f64>>,
        hop_weights: &Both<D::Buffer, Vec<f64>>,
        states: f64,
    ) {
        let (device, oracle, layout) = (self.device, &self.oracle, &problem.layout);
        let (a, plan) = (&layout.architecture, Plan { monb: Monb::Knots, space: Space::Classes, sparse });
        let batch = problem.batch(plan);
        let scope = scored.and_then(|rows| device.scope(&batch, rows, a.hops).unwrap());
        let scope = scope.as_ref();
        if scored.is_some() && scope.is_none() {
            return; // nothing to leave out
        }
        let inputs = (device.inputs(&batch, plan).unwrap(), oracle.inputs(&batch, plan).unwrap());
        let mut responses = self.random_responses(problem, plan);
        let mut hops = (device.hops(&inputs.0, layout).unwrap(), oracle.hops(&inputs.1, layout).unwrap());
        let (p, theta) = (parameters, hop_weights);
        self.ops.borrow_mut().project_forward(&mut hops.0, &responses.0, &theta.0, &p.0, &inputs.0, layout).unwrap();
        oracle.project_forward(&mut hops.1, &responses.1, &theta.1, &p.1, &inputs.1, layout).unwrap();
        let mut logits = self.random(batch.rows() * a.outputs);
        self.ops.borrow_mut().walk_forward(&mut logits.0, &mut hops.0, &p.0, &inputs.0, scope, layout).unwrap();
        oracle.walk_forward(&mut logits.1, &mut hops.1, &p.1, &inputs.1, None, layout).unwrap();
        let found = device.download(&logits.0).unwrap();
        self.same_rows(&format!("walk_forward, sparse {sparse}"), &found, &logits.1, scored, a.outputs, states);

        let numbers = self.numbers_at(batch.rows(), a.outputs, scored);
        let d_logits = self.upload(&numbers);
        let mut gradient = self.random(layout.len());
        let mut d_theta = self.random(a.hops * a.features);
        let (g, h, r, d) = (&mut gradient.0, &mut hops.0, &mut responses.0, &mut d_theta.0);
        self.ops.borrow_mut().walk_backward(g, h, &d_logits.0, &inputs.0, scope, layout).unwrap();
        self.ops.borrow_mut().project_backward(g, d, r, h, &theta.0, &p.0, &inputs.0, layout).unwrap();
        let (g, h, r, d) = (&mut gradient.1, &mut hops.1, &mut responses.1, &mut d_theta.1);
        oracle.walk_backward(g, h, &d_logits.1, &inputs.1, None, layout).unwrap();
        oracle.project_backward(g, d, r, h, &theta.1, &p.1, &inputs.1, layout).unwrap();
        self.same(&format!("project_backward, sparse {sparse}"), &gradient.0, &gradient.1, states);
        self.same(&format!("d_hop_weights of classes, sparse {sparse}"), &d_theta.0, &d_theta.1, states);
        self.same_responses(&format!("d_responses of classes, sparse {sparse}"), &responses, states);
    }

    fn upload(&self, values: &[f32]) -> Both<D::Buffer, Vec<f64>> {
        (self.device.upload(values).unwrap(), widened(values))
    }

    /// Numbers in [-1, 1).
    fn numbers(&self, length: usize) -> Vec<f32> {
        (0..length).map(|_| (2.0 * self.rng.borrow_mut().uniform() - 1.0) as f32).collect()
    }

    /// Numbers in some rows, zeros in all others.
    fn numbers_at(&self, rows: usize, width: usize, scored: Option<&[u32]>) -> Vec<f32> {
        let mut numbers = self.numbers(rows * width);
        for (i, row) in numbers.chunks_exact_mut(width).enumerate() {
            if scored.is_some_and(|scored| !scored.contains(&(i as u32))) {
                row.fill(0.0);
            }
        }
        numbers
    }

    fn random(&self, length: usize) -> Both<D::Buffer, Vec<f64>> {
        self.upload(&self.numbers(length))
    }

    fn random_matrix(&self, rows: usize, cols: usize) -> Both<D::Matrix, <Cpu<f64> as Device>::Matrix> {
        self.zero_elsewhere(rows, cols, None)
    }

    /// Numbers in some rows, or in all.
    fn zero_elsewhere(
        &self,
        rows: usize,
        cols: usize,
        scored: Option<&[u32]>,
    ) -> Both<D::Matrix, <Cpu<f64> as Device>::Matrix> {
        let values = self.numbers_at(rows, cols, scored);
        let oracle = self.oracle.upload_matrix(&widened(&values), cols).unwrap();
        (self.device.upload_matrix(&values, cols).unwrap(), oracle)
    }

    /// In the form of a plan, with contiguous rows.
    fn random_responses(&self, problem: &Problem, plan: Plan) -> Both<Responses<D>, Responses<Cpu<f64>>> {
        let (batch, d) = (problem.batch(plan), problem.layout.architecture.features);
        if let (true, Values::Sparse(x)) = (plan.sparse, batch.features.values()) {
            let (found, expected) = self.random(d + x.values.len());
            return (Responses::Sparse(found), Responses::Sparse(expected));
        }
        let (found, expected) = self.random_rows(batch.nodes(), d);
        (Responses::Dense(found), Responses::Dense(expected))
    }

    #[track_caller]
    fn same_responses(&self, what: &str, responses: &Both<Responses<D>, Responses<Cpu<f64>>>, tolerance: f64) {
        match responses {
            (Responses::Dense(found), Responses::Dense(expected)) => {
                self.same_matrix(what, found, expected, tolerance);
            }
            (Responses::Sparse(found), Responses::Sparse(expected)) => self.same(what, found, expected, tolerance),
            _ => unreachable!("one device made its responses sparse, the other did not"),
        }
    }

    #[track_caller]
    fn same(&self, what: &str, found: &D::Buffer, expected: &[f64], tolerance: f64) {
        let found = self.device.download(found).unwrap();
        assert_close(what, &found, expected, tolerance, self.recipe);
    }

    /// Of some rows, or of all.
    #[track_caller]
    fn same_rows(
        &self,
        what: &str,
        found: &[f32],
        expected: &[f64],
        scored: Option<&[u32]>,
        width: usize,
        tolerance: f64,
    ) {
        let Some(rows) = scored else { return assert_close(what, found, expected, tolerance, self.recipe) };
        let some = |at: usize| rows.contains(&((at / width) as u32));
        let found: Vec<f32> = (0..found.len()).filter(|&at| some(at)).map(|at| found[at]).collect();
        let expected: Vec<f64> = (0..expected.len()).filter(|&at| some(at)).map(|at| expected[at]).collect();
        assert_close(&format!("{what}, some rows"), &found, &expected, tolerance, self.recipe);
    }

    #[track_caller]
    fn same_matrix(&self, what: &str, found: &D::Matrix, expected: &<Cpu<f64> as Device>::Matrix, tolerance: f64) {
        let found = self.device.download_matrix(found).unwrap();
        assert_close(what, &found, &expected.to_row_major(), tolerance, self.recipe);
    }
}

fn routing<D: Device>(device: &D, layout: &Layout) -> Routing<D> {
    let slots = layout.architecture.features * layout.architecture.active;
    Routing {
        experts: device.indices(slots).unwrap(),
        gates: device.zeros(slots).unwrap(),
        noise_scale: device.zeros(slots).unwrap(),
    }
}

fn rounded(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}
