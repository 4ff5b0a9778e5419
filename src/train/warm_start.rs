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
//! regression is solved by Newton's method with conjugate gradients, with the ridge that the validation graphs like
//! best, and coefficients, hop weights, readout and intercept are set to say the same. Training then starts at the best plain
//! sum and bends it, instead of looking for it. Sums are taken in one order, so that the bits do not depend on threads.

use super::Prepared;
use crate::architecture::{HopWeights, Layout};
use crate::loss::Objective;
use crate::model::expert_values;
use harmonia_graph::dataset::{Dataset, Features, Labels, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{NodeWeights, Transition, Walk};
use std::collections::{BTreeMap, HashMap};

/// Ridges that are tried, from strong to weak, on columns of unit mean square, until the validation graphs have had enough.
const RIDGES: [f64; 6] = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6];
/// Newton steps at most, and conjugate gradients for each.
const NEWTON_STEPS: usize = 20;
const CONJUGATE_STEPS: usize = 40;
/// A step that lowers the loss by less than this is the last.
const SETTLED: f64 = 1e-7;
/// Conjugate gradients stop when what is left is this share of where they began.
const SOLVED: f64 = 1e-2;
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
    let Prepared { dataset, layout, objective, .. } = run;
    check(dataset, layout, *objective)?;
    let Labels::Classes { ids, .. } = &dataset.labels else { return Err(unfit("labels of another kind")) };
    normalise(parameters, layout, &ends(&dataset.features));
    let columns = Columns::new(dataset, layout, walk, parameters);
    let pick = |units: &[u32]| Rows { columns: &columns, units: units.to_vec(), labels: ids };
    let solution = fit(&pick(&dataset.split.train), &pick(&dataset.split.valid));
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

/// z of every graph: columns k T + u that are not zero.
struct Columns {
    rows: Vec<Vec<(usize, f64)>>,
    /// d T.
    count: usize,
}

impl Columns {
    fn new(dataset: &Dataset, layout: &Layout, walk: Walk, parameters: &[f32]) -> Columns {
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

    /// Root mean square of each column over some rows; one where it is zero there.
    fn scales(&self, units: &[u32]) -> Vec<f64> {
        let mut sums = vec![0.0; self.count];
        for &unit in units {
            self.rows[unit as usize].iter().for_each(|&(column, z)| sums[column] += z * z);
        }
        let mean = |sum: f64| (sum / units.len() as f64).sqrt();
        sums.into_iter().map(|sum| if sum > 0.0 { mean(sum) } else { 1.0 }).collect()
    }
}

/// Some graphs and their labels.
struct Rows<'a> {
    columns: &'a Columns,
    units: Vec<u32>,
    labels: &'a [u32],
}

impl Rows<'_> {
    /// Logit of each, from weights of columns and, last, the intercept.
    fn logits(&self, weights: &[f64]) -> Vec<f64> {
        let logit = |&unit: &u32| {
            let row = &self.columns.rows[unit as usize];
            weights[self.columns.count] + row.iter().map(|&(column, z)| weights[column] * z).sum::<f64>()
        };
        self.units.iter().map(logit).collect()
    }

    /// sum_i of value_i times row i, over the number of rows.
    fn transposed(&self, values: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.columns.count + 1];
        for (&unit, &value) in self.units.iter().zip(values) {
            self.columns.rows[unit as usize].iter().for_each(|&(column, z)| sums[column] += value * z);
            sums[self.columns.count] += value;
        }
        sums.iter_mut().for_each(|sum| *sum /= self.units.len() as f64);
        sums
    }

    fn signs(&self) -> impl Iterator<Item = f64> + '_ {
        self.units.iter().map(|&unit| if self.labels[unit as usize] == 1 { 1.0 } else { -1.0 })
    }

    /// Mean negative log-likelihood.
    fn loss(&self, logits: &[f64]) -> f64 {
        let each = self.signs().zip(logits).map(|(sign, logit)| {
            let margin = sign * logit;
            // log(1 + exp(-margin)) without overflow.
            (-margin).max(0.0) + (-margin.abs()).exp().ln_1p()
        });
        each.sum::<f64>() / self.units.len().max(1) as f64
    }
}

/// Weights of columns and, last, the intercept: of each ridge the solution, of these the one with the lowest validation loss.
fn fit(train: &Rows<'_>, valid: &Rows<'_>) -> Vec<f64> {
    let scales = train.columns.scales(&train.units);
    let mut weights = vec![0.0; train.columns.count + 1];
    let (mut best, mut lowest) = (weights.clone(), f64::INFINITY);
    for ridge in RIDGES {
        // A ridge on columns of unit mean square is one on b times its scale.
        let mut penalty: Vec<f64> = scales.iter().map(|scale| ridge * scale * scale).collect();
        penalty.push(0.0);
        newton(&mut weights, train, &penalty);
        let judge = if valid.units.is_empty() { train } else { valid };
        let loss = judge.loss(&judge.logits(&weights));
        if loss > lowest {
            break;
        }
        (best, lowest) = (weights.clone(), loss);
    }
    best
}

/// Minimises loss + 1/2 sum penalty weight^2 from where `weights` are.
fn newton(weights: &mut Vec<f64>, rows: &Rows<'_>, penalty: &[f64]) {
    let value = |weights: &[f64], logits: &[f64]| {
        rows.loss(logits) + 0.5 * weights.iter().zip(penalty).map(|(w, p)| p * w * w).sum::<f64>()
    };
    let mut logits = rows.logits(weights);
    let mut current = value(weights, &logits);
    for _ in 0..NEWTON_STEPS {
        let chance: Vec<f64> = logits.iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect();
        let errors: Vec<f64> = chance.iter().zip(rows.signs()).map(|(p, s)| p - f64::from(s > 0.0)).collect();
        let mut gradient = rows.transposed(&errors);
        gradient.iter_mut().zip(weights.iter().zip(penalty)).for_each(|(g, (w, p))| *g += p * w);
        let curvature: Vec<f64> = chance.iter().map(|p| p * (1.0 - p)).collect();
        let hessian = |direction: &[f64]| {
            let along: Vec<f64> = rows.logits(direction).iter().zip(&curvature).map(|(a, c)| a * c).collect();
            let mut out = rows.transposed(&along);
            out.iter_mut().zip(direction.iter().zip(penalty)).for_each(|(o, (d, p))| *o += p * d);
            out
        };
        let step = conjugate_gradients(&hessian, &gradient);
        let ahead = rows.logits(&step);
        let mut length = 1.0;
        loop {
            let next: Vec<f64> = weights.iter().zip(&step).map(|(w, s)| w - length * s).collect();
            let next_logits: Vec<f64> = logits.iter().zip(&ahead).map(|(logit, a)| logit - length * a).collect();
            let found = value(&next, &next_logits);
            if found < current {
                let settled = current - found < SETTLED;
                (*weights, logits, current) = (next, next_logits, found);
                if settled {
                    return;
                }
                break;
            }
            length *= 0.5;
            if length < 1e-6 {
                return;
            }
        }
    }
}

/// Solves H s = g roughly.
fn conjugate_gradients(hessian: &dyn Fn(&[f64]) -> Vec<f64>, gradient: &[f64]) -> Vec<f64> {
    let mut step = vec![0.0; gradient.len()];
    let mut rest = gradient.to_vec();
    let mut direction = rest.clone();
    let (mut size, start) = (dot(&rest, &rest), dot(gradient, gradient));
    for _ in 0..CONJUGATE_STEPS {
        let ahead = hessian(&direction);
        let bend = dot(&direction, &ahead);
        if bend <= 0.0 {
            break;
        }
        let length = size / bend;
        step.iter_mut().zip(&direction).for_each(|(s, d)| *s += length * d);
        rest.iter_mut().zip(&ahead).for_each(|(r, a)| *r -= length * a);
        let next = dot(&rest, &rest);
        if next <= SOLVED * SOLVED * start {
            break;
        }
        let turn = next / size;
        direction.iter_mut().zip(&rest).for_each(|(d, r)| *d = r + turn * *d);
        size = next;
    }
    step
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
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
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::model::FittedModel;
    use crate::model::initial_parameters;
    use crate::train::{RunName, hop_basis};
    use harmonia_graph::graph::{Direction, Graph, Split};

    const HOPS: usize = 3;
    /// Coefficients are f32, and what they multiply nearly cancels at the zero of a feature.
    const ROUNDING: f64 = 1e-3;

    /// Rings with a tail, of 4 to 43 nodes, and features of two, one and seven values; large ones with many of the first are
    /// of class 1, but for some.
    fn dataset() -> Dataset {
        let (mut edges, mut graph_ptr, mut ids) = (Vec::new(), vec![0], Vec::new());
        for ring in 4..44u32 {
            let first = *graph_ptr.last().unwrap() as u32;
            edges.extend((0..ring).map(|i| (first + i, first + (i + 1) % ring)));
            edges.push((first, first + ring));
            graph_ptr.push((first + ring + 1) as usize);
            ids.push(u32::from(ring > 20) ^ u32::from(ring % 7 == 0));
        }
        let nodes = *graph_ptr.last().unwrap();
        let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
        let x = (0..nodes).flat_map(|i| [f32::from(i % 3 == 0), 2.0, (i * i % 7) as f32 - 3.0]).collect();
        let features = Features::new(nodes, 3, x).unwrap();
        let labels = Labels::Classes { ids, classes: 2 };
        let of = |part: u32| (0..40).filter(|unit| (unit % 5 == 0) == (part == 1)).collect::<Vec<u32>>();
        let split = Split { train: of(0), valid: of(1), test: Vec::new() };
        Dataset::new("rings", graph, graph_ptr, features, labels, Level::Graph, split).unwrap()
    }

    fn config() -> Config {
        let mut config = Config::default();
        (config.model.hops, config.model.hop_weights) = (HOPS, HopWeights::Free);
        config.train.hop_basis = crate::config::HopBasis::Orthogonal;
        config.init.warm_start = true;
        config
    }

    #[test]
    fn the_engine_says_what_the_regression_says() {
        let (dataset, config) = (dataset(), config());
        let run = Prepared::of(dataset, None, &config, RunName { seed: 3, fold: None }).unwrap();
        let mut parameters = initial_parameters::<f32>(&run.layout, config.init, 3);
        warm_start(&mut parameters, &run, config.walk).unwrap();
        let columns = Columns::new(&run.dataset, &run.layout, config.walk, &parameters);
        let Labels::Classes { ids, .. } = &run.dataset.labels else { panic!() };
        let rows = |units: &[u32]| Rows { columns: &columns, units: units.to_vec(), labels: ids };
        let (train, valid) = (rows(&run.dataset.split.train), rows(&run.dataset.split.valid));
        let solution = fit(&train, &valid);
        // The engine, with hop weights of walk lengths.
        let basis = run.layout.hop_basis.clone().unwrap();
        let range = run.layout.hop_logits.clone();
        let theta = hop_basis::weights(&basis, &parameters[range.clone()], 3);
        parameters[range].copy_from_slice(&theta);
        let mut layout = run.layout.clone();
        layout.hop_basis = None;
        let model = FittedModel {
            layout,
            parameters,
            walk: config.walk,
            objective: run.objective,
            scaling: None,
            calibration: None,
            structure: None,
        };
        let everything = rows(&(0..40).collect::<Vec<u32>>());
        let expected = everything.logits(&solution);
        for (logit, expected) in model.logits(&run.dataset).unwrap().iter().zip(&expected) {
            assert!((f64::from(*logit) - expected).abs() < ROUNDING * (1.0 + expected.abs()), "{logit} {expected}");
        }
        // It learned something that a constant does not know.
        let loss = train.loss(&train.logits(&solution));
        assert!(loss < 0.9 * std::f64::consts::LN_2, "{loss}");
    }

    #[test]
    fn no_small_step_lowers_the_penalised_loss() {
        let (dataset, config) = (dataset(), config());
        let run = Prepared::of(dataset, None, &config, RunName { seed: 3, fold: None }).unwrap();
        let parameters = initial_parameters::<f32>(&run.layout, config.init, 3);
        let columns = Columns::new(&run.dataset, &run.layout, config.walk, &parameters);
        let Labels::Classes { ids, .. } = &run.dataset.labels else { panic!() };
        let train = Rows { columns: &columns, units: run.dataset.split.train.clone(), labels: ids };
        let mut penalty: Vec<f64> = columns.scales(&train.units).iter().map(|scale| 1e-2 * scale * scale).collect();
        penalty.push(0.0);
        let value = |weights: &[f64]| {
            train.loss(&train.logits(weights)) + 0.5 * weights.iter().zip(&penalty).map(|(w, p)| p * w * w).sum::<f64>()
        };
        let mut weights = vec![0.0; columns.count + 1];
        newton(&mut weights, &train, &penalty);
        let least = value(&weights);
        assert!(least < 0.69);
        for at in 0..weights.len() {
            for step in [-1e-2, 1e-2] {
                let mut other = weights.clone();
                other[at] += step;
                assert!(value(&other) > least - 1e-6, "weight {at}, step {step}: {} below {least}", value(&other));
            }
        }
    }

    #[test]
    fn what_it_is_not_made_for_is_refused() {
        let (dataset, mut config) = (dataset(), config());
        config.model.hop_weights = HopWeights::Simplex;
        let refused = Prepared::of(dataset, None, &config, RunName { seed: 0, fold: None });
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("model.hop_weights = free; found other hop weights"), "{message}");
    }

    #[test]
    fn a_point_through_two_conditions_is_the_nearest() {
        let start = [1.0, 2.0, 3.0];
        let conditions = [(vec![1.0, 0.0, 1.0], 0.0), (vec![0.0, 1.0, 1.0], 1.0)];
        let point = through(&start, &conditions).unwrap();
        conditions.iter().for_each(|(vector, product)| assert!((dot(vector, &point) - product).abs() < 1e-12));
        // What was changed is a combination of the two: orthogonal to what both are orthogonal to.
        let change: Vec<f64> = point.iter().zip(start).map(|(a, b)| a - b).collect();
        assert!(dot(&change, &[1.0, 1.0, -1.0]).abs() < 1e-12);
        assert!(through(&start, &[(vec![1.0, 0.0, 0.0], 0.0), (vec![2.0, 0.0, 0.0], 1.0)]).is_none());
    }
}
