//! What the tests share: random problems, the dense oracle, one pass of the CPU device, and comparison.

// Every test file is a crate of its own and uses a part of this.
#![allow(dead_code)]
// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

pub mod differences;
pub mod edges;
pub mod emulator;
pub mod forward;
pub mod host_library;
pub mod oracle;
pub mod parity;
pub mod penalties;
pub mod problems;
pub mod recorded;
pub mod selections;

use harmonia::architecture::Layout;
use harmonia::batch::{Batch, Batches};
use harmonia::config::DropoutPlace;
use harmonia::config::Monb;
use harmonia::dataset::{Dataset, Features, SparseRows, Values};
use harmonia::device::cpu::Cpu;
use harmonia::device::cpu::Ops;
use harmonia::device::{Device, Dropout, Responses};
use harmonia::graph::Walk;
use harmonia::model::{Pass, Randomness};
use harmonia::plan::{Plan, Space};
use problems::Problem;
use std::fmt::Debug;
use std::sync::Arc;

/// Sums of at most a few thousand f64 terms of size one, taken in two different orders.
pub const F64_TOLERANCE: f64 = 1e-12;

/// Every way to compute a step, the obvious one first.
pub fn plans() -> Vec<Plan> {
    let ways = |monb| {
        [(Space::Features, false), (Space::Classes, false), (Space::Classes, true)].map(|(space, sparse)| Plan {
            monb,
            space,
            sparse,
        })
    };
    [Monb::Direct, Monb::Knots].into_iter().flat_map(ways).collect()
}

/// Those that can drop at this place.
pub fn plans_for(dropout: Option<&Dropout>) -> Vec<Plan> {
    let hidden = dropout.is_some_and(|dropout| dropout.place == DropoutPlace::Hidden);
    plans().into_iter().filter(|plan| !hidden || (plan.monb == Monb::Direct && !plan.sparse)).collect()
}

/// Everything a pass computes.
pub struct Outcome<T> {
    /// theta, T x d.
    pub hop_weights: Vec<T>,
    /// F, n x d.
    pub responses: Vec<T>,
    /// H, n x d; none in class space.
    pub state: Option<Vec<T>>,
    /// rows x L.
    pub logits: Vec<T>,
    /// Mean over targets.
    pub loss: f64,
    /// By every parameter.
    pub gradient: Vec<T>,
}

/// Units of a dataset as a batch of the form a plan wants, whatever form its features have; `some`: only their graphs.
pub fn batch_of(dataset: &Dataset, walk: Walk, layout: &Layout, plan: Plan, units: &[u32], some: bool) -> Batch {
    let features = if plan.sparse { Arc::new(as_sparse(&dataset.features)) } else { Arc::clone(&dataset.features) };
    let dataset = Dataset { features, ..dataset.clone() };
    let batches = Batches::planned(&dataset, walk, plan, layout.architecture.walk_lengths());
    if some { batches.holding(units) } else { batches.whole(units) }
}

/// The same numbers as sparse rows.
pub fn as_sparse(features: &Features) -> Features {
    let row = |row: &[f32]| row.iter().enumerate().filter(|(_, x)| **x != 0.0).map(|(k, &x)| (k as u32, x)).collect();
    let rows = SparseRows::collect(features.dense().chunks(features.cols).map(row));
    Features::held(features.rows, features.cols, Values::Sparse(rows)).unwrap()
}

/// One pass forward and backward over a whole problem.
pub fn run<T: Ops>(problem: &Problem, plan: Plan, noise: Option<&[f64]>, dropout: Option<Dropout>) -> Outcome<T> {
    run_batch(&problem.batch(plan), &problem.layout, plan, &problem.parameters, noise, dropout)
}

/// One pass over a whole problem on a device with settings of its own.
pub fn run_on<T: Ops>(device: &Cpu<T>, problem: &Problem, plan: Plan) -> Outcome<T> {
    pass(device, &problem.batch(plan), &problem.layout, plan, &problem.parameters, None, None)
}

/// One pass forward and backward.
pub fn run_batch<T: Ops>(
    batch: &Batch,
    layout: &Layout,
    plan: Plan,
    parameters: &[f64],
    noise: Option<&[f64]>,
    dropout: Option<Dropout>,
) -> Outcome<T> {
    pass(&Cpu::<T>::new(), batch, layout, plan, parameters, noise, dropout)
}

fn pass<T: Ops>(
    device: &Cpu<T>,
    batch: &Batch,
    layout: &Layout,
    plan: Plan,
    parameters: &[f64],
    noise: Option<&[f64]>,
    dropout: Option<Dropout>,
) -> Outcome<T> {
    let rounded = |values: &[f64]| values.iter().map(|&value| T::from_f64(value)).collect::<Vec<T>>();
    let inputs = device.inputs(batch, plan).unwrap();
    let parameters = rounded(parameters);
    let randomness = Randomness { noise: noise.map(rounded), dropout };
    let mut pass = Pass::new(device, layout, plan, batch, &inputs).unwrap();
    let logits = pass.forward(&inputs, &parameters, &randomness).unwrap().clone();
    let hop_weights = device.download(pass.hop_weights()).unwrap();
    let responses = dense_responses(pass.responses(), &batch.features);
    let state = pass.state().map(|state| device.download_matrix(state).unwrap());
    let loss = pass.loss(&inputs).unwrap();
    let mut gradient = device.zeros(layout.len()).unwrap();
    pass.backward(&mut gradient, &inputs, &parameters, &randomness).unwrap();
    Outcome { hop_weights, responses, state, logits, loss, gradient }
}

/// F, n x d.
fn dense_responses<T: Ops>(responses: &Responses<Cpu<T>>, features: &Features) -> Vec<T> {
    match (responses, features.values()) {
        (Responses::Dense(matrix), _) => matrix.to_row_major(),
        (Responses::Sparse(values), Values::Sparse(sparse)) => {
            let (constants, values) = values.split_at(features.cols);
            let mut out: Vec<T> = constants.repeat(features.rows);
            let mut places: Vec<(u32, usize)> = Vec::new();
            (0..features.rows).for_each(|i| places.extend(sparse.row(i).map(|(k, _)| (k as u32, i))));
            // Column by column, rows in order.
            places.sort_unstable();
            for (&(k, i), &value) in places.iter().zip(values) {
                out[i * features.cols + k as usize] += value;
            }
            out
        }
        _ => unreachable!("sparse responses of dense features"),
    }
}

/// Largest |found - expected| in units of the largest |expected|, which counts as at least 1.
pub fn difference<T: Ops>(found: &[T], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "lengths");
    let scale = expected.iter().fold(1.0, |largest: f64, value| largest.max(value.abs()));
    let pairs = found.iter().zip(expected);
    // A NaN must not compare as small: it becomes infinite.
    let distance = |(found, expected): (&T, &f64)| {
        let distance = (found.widen() - expected).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    };
    pairs.map(distance).fold(0.0, f64::max) / scale
}

/// Stops where `found` is further than `tolerance` from `expected`; `context` says how to reproduce it.
#[track_caller]
pub fn assert_close<T: Ops>(what: &str, found: &[T], expected: &[f64], tolerance: f64, context: &dyn Debug) {
    let difference = difference(found, expected);
    assert!(difference <= tolerance, "{what} differ by {difference:e} (at most {tolerance:e}) in {context:?}");
}
