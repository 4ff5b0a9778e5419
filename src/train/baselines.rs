//! What simpler predictions get on the units of a run, to hold its scores against.
//!
//! Always: the best constant prediction. On request (`run.baselines`): the model with straight lines for responses, once of a unit's
//! own features alone and once with the means of its neighbours, z = beta + sum_k w_k x_k (+ v_k (M x)_k): a logistic or linear
//! regression, fitted by Newton's method in f64 with the ridge that the validation units like best. Of graphs, means over nodes.

use super::Prepared;
use super::regression::{Bent, Linear, RIDGES, newton};
use crate::config::Config;
use crate::loss::{Loss, Objective, Scored, Scores, Target, TargetScaling, Targets, on_loss};
use harmonia_graph::dataset::{Dataset, Labels, Level};
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Transition, Walk};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Numbers of a design that is still fitted: a gigabyte.
const MOST_NUMBERS: usize = 1 << 27;
/// Rows of a portion: sums are taken portion by portion, in order, so that bits do not depend on threads.
const PORTION: usize = 1 << 10;

/// A simpler prediction and its scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// `majority` or `mean`; `logistic` or `linear`, and the same `with neighbour means`.
    pub name: String,
    /// Of the test units.
    pub test: Scores,
    /// Of the validation units.
    pub validation: Scores,
}

/// All that the settings ask for. Linear ones are left out where their design would not fit into memory.
///
/// # Errors
/// Never in practice: targets are made for the loss.
pub fn of_run(run: &Prepared, config: &Config) -> Result<Vec<Baseline>> {
    let Prepared { dataset, objective, weights, .. } = run;
    let (labels, split) = (&dataset.labels, &dataset.split);
    let scaling = TargetScaling::of(labels, &split.train);
    let constant = |units: &[u32]| objective.constant_scores(labels, &split.train, units, scaling.as_ref());
    let name = objective.constant_name().to_string();
    let mut all = vec![Baseline { name, test: constant(&split.test), validation: constant(&split.valid) }];
    if config.run.baselines {
        for means in [false, true] {
            all.extend(linear(dataset, weights.as_deref(), *objective, config.walk, means)?);
        }
    }
    Ok(all)
}

/// The regression; none where it would be too large, or nothing trains.
fn linear(
    dataset: &Dataset,
    unit_weights: Option<&[f32]>,
    objective: Objective,
    walk: Walk,
    means: bool,
) -> Result<Option<Baseline>> {
    let (labels, split) = (&dataset.labels, &dataset.split);
    let parts = [&split.train, &split.valid, &split.test];
    let columns = dataset.features.cols * if means { 2 } else { 1 };
    let rows: usize = parts.iter().map(|part| part.len()).sum();
    if split.train.is_empty() || rows.saturating_mul(columns) > MOST_NUMBERS {
        return Ok(None);
    }
    let transition = means.then(|| Transition::new(&dataset.graph, walk));
    let mut designs = parts.map(|part| design(dataset, transition.as_ref(), part, columns));
    standardise(&mut designs, columns);
    let scaling = TargetScaling::of(labels, &split.train);
    let problem = |part: usize| {
        Problem::new(&designs[part], columns, labels, parts[part], objective, scaling.as_ref()).weighted(unit_weights)
    };
    let [train, valid, test] = [problem(0), problem(1), problem(2)];
    let mut weights = vec![0.0; (columns + 1) * labels.outputs()];
    let (mut best, mut lowest) = (weights.clone(), f64::INFINITY);
    for ridge in RIDGES {
        let penalty: Vec<f64> =
            (0..weights.len()).map(|at| if at / labels.outputs() < columns { ridge } else { 0.0 }).collect();
        newton(&mut weights, &train, &penalty);
        // Without validation units the strongest ridge stays.
        let loss = if split.valid.is_empty() { 0.0 } else { valid.loss(&valid.logits(&weights)) };
        if loss >= lowest {
            break;
        }
        (best, lowest) = (weights.clone(), loss);
    }
    let scores = |problem: &Problem<'_>| {
        let mut logits: Vec<f32> = problem.logits(&best).into_iter().map(|z| z as f32).collect();
        if let Some(scaling) = &scaling {
            scaling.restore(&mut logits);
        }
        objective.score(&Scored { labels, units: problem.units, logits: &logits, scaling: scaling.as_ref() })
    };
    let name = if objective.is_regression() { "linear" } else { "logistic" };
    let name = if means { format!("{name} with neighbour means") } else { name.to_string() };
    Ok(Some(Baseline { name, test: scores(&test), validation: scores(&valid) }))
}

/// Rows of units: x, and behind it M x; of a graph their means over its nodes.
fn design(dataset: &Dataset, transition: Option<&Transition>, units: &[u32], columns: usize) -> Vec<f64> {
    let features = &dataset.features;
    let mut rows = vec![0.0; units.len() * columns];
    rows.par_chunks_mut(columns.max(1)).zip(units).for_each(|(row, &unit)| {
        let nodes = match dataset.level {
            Level::Node => unit as usize..unit as usize + 1,
            Level::Graph => dataset.graph_nodes(unit as usize),
        };
        let (own, near) = row.split_at_mut(features.cols);
        let (share, mut scratch) = (1.0 / nodes.len().max(1) as f64, Vec::new());
        let mut add = |to: &mut [f64], node: usize, weight: f64| {
            let x = features.row(node, &mut scratch);
            to.iter_mut().zip(x).for_each(|(to, &x)| *to += weight * f64::from(x));
        };
        for node in nodes {
            add(own, node, share);
            if let Some(transition) = transition {
                for (j, weight) in transition.matrix().row_entries(node) {
                    add(near, j, share * f64::from(weight) / transition.degree()[node]);
                }
            }
        }
    });
    rows
}

/// Shifts and scales columns to mean 0 and deviation 1 over the first design, the one that trains.
fn standardise(designs: &mut [Vec<f64>; 3], columns: usize) {
    let count = (designs[0].len() / columns.max(1)).max(1) as f64;
    for k in 0..columns {
        let column = || designs[0].iter().skip(k).step_by(columns);
        let mean = column().sum::<f64>() / count;
        let deviation = (column().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
        let deviation = if deviation > 1e-12 { deviation } else { 1.0 };
        for design in designs.iter_mut() {
            design.iter_mut().skip(k).step_by(columns).for_each(|x| *x = (*x - mean) / deviation);
        }
    }
}

/// A linear model of some units: weights of column c and output l at c L + l, the intercepts last.
struct Problem<'a> {
    rows: &'a [f64],
    columns: usize,
    outputs: usize,
    units: &'a [u32],
    targets: Targets,
    /// How much each row counts.
    weights: Vec<f64>,
    objective: Objective,
}

impl<'a> Problem<'a> {
    fn new(
        rows: &'a [f64],
        columns: usize,
        labels: &Labels,
        units: &'a [u32],
        objective: Objective,
        scaling: Option<&TargetScaling>,
    ) -> Problem<'a> {
        let pairs: Vec<(u32, u32)> = units.iter().enumerate().map(|(row, &unit)| (row as u32, unit)).collect();
        let targets = objective.targets(labels, units.len(), &pairs, scaling);
        let weights = vec![1.0; units.len()];
        Problem { rows, columns, outputs: labels.outputs(), units, targets, weights, objective }
    }

    /// As a run is weighted.
    fn weighted(mut self, weights: Option<&[f32]>) -> Problem<'a> {
        if let Some(weights) = weights {
            self.weights = self.units.iter().map(|&unit| f64::from(weights[unit as usize])).collect();
        }
        self
    }

    /// The weighted sum of losses, and their gradients by the logits.
    fn losses(&self, logits: &[f64]) -> (f64, Vec<f64>) {
        let mut slopes = vec![0.0; logits.len()];
        let width = self.objective.width(self.outputs);
        let loss = on_loss!(self.objective, L => {
            // Targets are made for this loss.
            let targets = <<L as Loss>::Target as Target>::of(&self.targets).unwrap_or(&[]);
            let rows = slopes.chunks_mut(self.outputs).zip(logits.chunks(self.outputs)).zip(targets.chunks(width));
            let each = rows.zip(&self.weights).map(|(((slope, row), targets), weight)| {
                let loss = weight * L::row::<f64>(slope, row, targets);
                slope.iter_mut().for_each(|slope| *slope *= weight);
                loss
            });
            each.sum::<f64>()
        });
        (loss, slopes)
    }

    /// Z' values over the number of rows, in the order of weights.
    fn transposed(&self, values: &[f64]) -> Vec<f64> {
        let (columns, outputs) = (self.columns, self.outputs);
        let partial: Vec<Vec<f64>> = (0..self.units.len().div_ceil(PORTION))
            .into_par_iter()
            .map(|portion| {
                let mut sums = vec![0.0; (columns + 1) * outputs];
                for i in portion * PORTION..((portion + 1) * PORTION).min(self.units.len()) {
                    let values = &values[i * outputs..][..outputs];
                    let row = self.rows[i * columns..][..columns].iter().chain([&1.0]);
                    for (sums, x) in sums.chunks_mut(outputs).zip(row) {
                        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += x * value);
                    }
                }
                sums
            })
            .collect();
        let mut total = vec![0.0; (columns + 1) * outputs];
        partial.iter().for_each(|part| total.iter_mut().zip(part).for_each(|(total, part)| *total += part));
        total.iter_mut().for_each(|sum| *sum /= self.units.len().max(1) as f64);
        total
    }
}

impl Linear for Problem<'_> {
    fn logits(&self, weights: &[f64]) -> Vec<f64> {
        let (columns, outputs) = (self.columns, self.outputs);
        let mut logits = vec![0.0; self.units.len() * outputs];
        logits.par_chunks_mut(outputs).with_min_len(1 << 8).enumerate().for_each(|(i, logits)| {
            let row = self.rows[i * columns..][..columns].iter().chain([&1.0]);
            for (weights, x) in weights.chunks(outputs).zip(row) {
                logits.iter_mut().zip(weights).for_each(|(logit, weight)| *logit += x * weight);
            }
        });
        logits
    }

    fn loss(&self, logits: &[f64]) -> f64 {
        self.losses(logits).0 / self.units.len().max(1) as f64
    }

    fn bend<'a>(&'a self, logits: &[f64]) -> (Vec<f64>, Bent<'a>) {
        let gradient = self.transposed(&self.losses(logits).1);
        let mut chances = logits.to_vec();
        chances.chunks_mut(self.outputs).for_each(|row| self.objective.predict(row));
        let bent = move |ahead: &[f64]| {
            let mut along = ahead.to_vec();
            let rows = along.chunks_mut(self.outputs).zip(chances.chunks(self.outputs)).zip(&self.weights);
            for ((along, p), weight) in rows {
                // The second derivative of the loss of a row, times where the direction points.
                let mean: f64 = along.iter().zip(p).map(|(along, p)| along * p).sum();
                for (along, p) in along.iter_mut().zip(p) {
                    match self.objective {
                        Objective::Softmax => *along = p * (*along - mean),
                        Objective::Sigmoid => *along *= p * (1.0 - p),
                        Objective::Squared => {}
                    }
                    *along *= weight;
                }
            }
            self.transposed(&along)
        };
        (gradient, Box::new(bent))
    }
}

#[cfg(test)]
mod tests;
