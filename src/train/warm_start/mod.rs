//! A start from the convex problem inside the model.
//!
//! With its responses fixed, the logit of a graph G is
//!
//! ```text
//! beta + sum_k sum_u b[u,k] z[G,u,k],     z[G,u,k] = sum_{j in G} (sum_t U[t,u] v_t[j]) f_k(x_jk)
//! ```
//!
//! where b[u,k] = w_k alpha[u,k] and U is the basis that hop weights are learned in: a logistic regression in b. Responses are
//! fixed where they start, with f_k = 0 at the feature's zero (or least value) and 1 at the value farthest from it; a feature
//! of two values has no other responses up to scale, so that for one-hot features this is the best model there is. The
//! regression is solved by Newton's method with conjugate gradients, with the ridge that a cross-validation within the training
//! graphs likes best, and coefficients, hop weights, readout and intercept are set to say the same. Training then starts at the best plain
//! sum and bends it, instead of looking for it. Sums are taken in one order, so that the bits do not depend on threads.

use super::Prepared;
use super::regression::{Columns, Rows, dot, fit};
use crate::architecture::{HopWeights, Layout};
use crate::loss::Objective;
use crate::model::expert_values;
use harmonia_graph::dataset::{Dataset, Features, Labels, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{NodeWeights, Transition, Walk};
use std::collections::{BTreeMap, HashMap};

/// Responses at lo and hi whose mixtures are this close to parallel cannot be set to 0 and 1: squared sine of their angle.
const PARALLEL: f64 = 1e-8;
/// A response below this is zero, but for the rounding of coefficients to f32.
const NONE: f64 = 1e-5;

/// Refuses settings and data that a warm start is not made for.
///
/// # Errors
/// What was found instead.
pub fn check(dataset: &Dataset, layout: &Layout, objective: Objective) -> Result<()> {
    let graphs = dataset.level == Level::Graph;
    match (graphs, objective, layout.architecture.outputs, layout.architecture.hop_weights) {
        (true, Objective::Sigmoid, 1, HopWeights::Free) => Ok(()),
        (false, ..) => Err(unfit("a task of nodes")),
        (_, Objective::Sigmoid, 1, _) => Err(unfit("other hop weights")),
        _ => Err(unfit("labels of another kind")),
    }
}

/// Sets the parameters of a fresh model to the convex solution.
///
/// # Errors
/// As [`check`].
pub fn warm_start(parameters: &mut [f32], run: &Prepared, walk: Walk) -> Result<()> {
    let Prepared { dataset, layout, objective, weights, .. } = run;
    check(dataset, layout, *objective)?;
    let Labels::Classes { ids, .. } = &dataset.labels else { return Err(unfit("labels of another kind")) };
    normalise(parameters, layout, &ends(&dataset.features));
    let columns = columns(dataset, layout, walk, parameters);
    let (units, weights) = (dataset.split.train.clone(), weights.as_deref());
    let solution = fit(&Rows { columns: &columns, units, labels: ids, weights });
    set(parameters, layout, &solution);
    Ok(())
}

fn unfit(found: &str) -> Error {
    Error::Config(format!(
        "init.warm_start is for graph tasks of two classes with model.hop_weights = free; found {found}"
    ))
}

/// Of every feature where its response is to be 0 and where 1: zero, or else the least value; and the value farthest from it.
fn ends(features: &Features) -> Vec<[f32; 2]> {
    let mut ranges = vec![[f32::INFINITY, f32::NEG_INFINITY]; features.cols];
    let mut has_zero = vec![false; features.cols];
    let mut scratch = Vec::new();
    for i in 0..features.rows {
        for (k, &x) in features.row(i, &mut scratch).iter().enumerate() {
            let [lo, hi] = &mut ranges[k];
            (*lo, *hi) = (lo.min(x), hi.max(x));
            has_zero[k] |= x == 0.0;
        }
    }
    let end = |([lo, hi], has_zero): ([f32; 2], bool)| match has_zero {
        true => [0.0, if hi >= -lo { hi } else { lo }],
        false => [lo, hi],
    };
    ranges.into_iter().zip(has_zero).map(end).collect()
}

/// Sets f_k to 0 and 1 at its ends by the smallest change of a_k; where that is impossible, to 0 everywhere.
fn normalise(parameters: &mut [f32], layout: &Layout, ends: &[[f32; 2]]) {
    let bases = layout.architecture.bases;
    for (k, &[zero, one]) in ends.iter().enumerate() {
        let place = layout.coefficients.start + k * bases;
        let start: Vec<f64> = parameters[place..place + bases].iter().map(|&a| f64::from(a)).collect();
        let mixture = |x: f32| expert_values(parameters, layout, k, f64::from(x));
        let set = match zero == one {
            true => through(&start, &[(mixture(one), 1.0)]),
            false => through(&start, &[(mixture(zero), 0.0), (mixture(one), 1.0)]),
        };
        let set = set.unwrap_or_else(|| vec![0.0; bases]);
        parameters[place..place + bases].iter_mut().zip(set).for_each(|(a, set)| *a = set as f32);
    }
}

/// f_k at the points that occur, each evaluated once.
struct Responses<'a> {
    parameters: &'a [f32],
    layout: &'a Layout,
    known: HashMap<(usize, u32), f64>,
}

impl Responses<'_> {
    fn at(&mut self, k: usize, x: f32) -> f64 {
        let Responses { parameters, layout, known } = self;
        *known.entry((k, x.to_bits())).or_insert_with(|| {
            let bases = layout.architecture.bases;
            let a = &parameters[layout.coefficients.start + k * bases..][..bases];
            let mixture = expert_values(parameters, layout, k, f64::from(x));
            a.iter().zip(mixture).map(|(&a, value)| f64::from(a) * value).sum()
        })
    }
}

/// z of every graph.
fn columns(dataset: &Dataset, layout: &Layout, walk: Walk, parameters: &[f32]) -> Columns {
    let (hops, features) = (layout.architecture.hops, layout.architecture.features);
    let weights = NodeWeights::new(&Transition::new(&dataset.graph, walk), hops);
    let mut responses = Responses { parameters, layout, known: HashMap::new() };
    let mut scratch = Vec::new();
    let mut row = |graph: usize| {
        let mut sums: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for j in dataset.graph_nodes(graph) {
            let weights = &weights.values()[j * hops..][..hops];
            for (k, &x) in dataset.features.row(j, &mut scratch).iter().enumerate() {
                let response = responses.at(k, x);
                // Rounding of a zero response is none.
                if response.abs() > NONE {
                    let sums = sums.entry(k).or_insert_with(|| vec![0.0; hops]);
                    sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += response * weight);
                }
            }
        }
        let mixed = |sums: &[f64], u: usize| match &layout.hop_basis {
            Some(basis) => (0..hops).map(|t| basis[t * hops + u] * sums[t]).sum(),
            None => sums[u],
        };
        let columns = sums.iter().flat_map(|(k, sums)| (0..hops).map(move |u| (k * hops + u, mixed(sums, u))));
        columns.collect()
    };
    Columns { rows: (0..dataset.graphs()).map(&mut row).collect(), count: features * hops }
}

/// Writes the solution into a model: w_k is the size of b_k and alpha_k its direction.
fn set(parameters: &mut [f32], layout: &Layout, solution: &[f64]) {
    let (hops, features) = (layout.architecture.hops, layout.architecture.features);
    for k in 0..features {
        let b = &solution[k * hops..][..hops];
        let size = dot(b, b).sqrt();
        parameters[layout.readout_weight.start + k] = size as f32;
        // A feature that says nothing keeps the hop weights it has.
        for (u, b) in b.iter().enumerate().filter(|_| size > 0.0) {
            parameters[layout.hop_logits.start + u * features + k] = (b / size) as f32;
        }
    }
    parameters[layout.readout_bias.start] = solution[features * hops] as f32;
}

/// The point nearest to `start` whose products with one or two vectors are given; none where they contradict each other.
fn through(start: &[f64], conditions: &[(Vec<f64>, f64)]) -> Option<Vec<f64>> {
    let missing = |(vector, product): &(Vec<f64>, f64)| product - dot(vector, start);
    let add = |parts: &[(&[f64], f64)]| {
        let mut point = start.to_vec();
        for (vector, factor) in parts {
            point.iter_mut().zip(*vector).for_each(|(value, part)| *value += factor * part);
        }
        point
    };
    match conditions {
        [one] => {
            let size = dot(&one.0, &one.0);
            (size > 0.0).then(|| add(&[(&one.0, missing(one) / size)]))
        }
        [first, second] => {
            let (a, b, c) = (dot(&first.0, &first.0), dot(&first.0, &second.0), dot(&second.0, &second.0));
            let determinant = a * c - b * b;
            let (one, two) = (missing(first), missing(second));
            (determinant > PARALLEL * a * c).then(|| {
                add(&[(&first.0, (c * one - b * two) / determinant), (&second.0, (a * two - b * one) / determinant)])
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
