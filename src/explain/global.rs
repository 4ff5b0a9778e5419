//! What a model does over many units: how much each feature matters, and in which direction.
//!
//! With `H[i,k]` the propagated response of unit i, centred like the responses, feature k adds w[k,class] `H[i,k]` to a
//! logit. Its importance for the class is the mean of the size of that over a split, |w[k,class]| mean |H|; its signed
//! effect is the mean itself. Over all outputs, importance is the mean of the outputs'. Of a feature that is several columns,
//! what these add is summed before its size is taken. No label is used.

use super::response::each_block;
use super::{Case, Edit, Factors, Target};
use crate::batch::{Batches, Reach};
use crate::config::Monb;
use crate::device::Device;
use crate::device::cpu::Cpu;
use crate::model::{FittedModel, Randomness, Resident};
use crate::plan::{Plan, Space};
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::watch::Watch;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Elements of H computed at once: four arrays of f32 of this many.
const ELEMENTS: usize = 1 << 26;

/// Mean size and mean of every feature's propagated response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Importance {
    /// Units that were averaged over; at least 1.
    pub units: usize,
    /// Mean of |H|, d.
    pub size: Vec<f64>,
    /// Mean of H, d.
    pub mean: Vec<f64>,
    /// Mean size of what each feature adds to each output, features x L; empty where every column is a feature.
    together: Vec<f64>,
}

impl Importance {
    /// Measures a trained model on some units. `dataset` has its features as the model sees them; `centre`: c_k, d values; `watch` hears
    /// how many features are done.
    ///
    /// # Errors
    /// There are no units, the device failed, or the user asked to stop.
    pub fn measure(
        model: &FittedModel,
        factors: &Factors,
        dataset: &Dataset,
        units: &[u32],
        centre: &[f64],
        watch: &Watch,
    ) -> Result<Importance> {
        Importance::measure_in(ELEMENTS, model, factors, dataset, units, centre, watch)
    }

    /// The same with `elements` of H at a time.
    ///
    /// # Errors
    /// As [`Importance::measure`].
    pub fn measure_in(
        elements: usize,
        model: &FittedModel,
        factors: &Factors,
        dataset: &Dataset,
        units: &[u32],
        centre: &[f64],
        watch: &Watch,
    ) -> Result<Importance> {
        if !model.layout.architecture.walks_by_feature() {
            return Importance::of_any(factors, dataset, units, centre, watch);
        }
        let mut importance = Importance::none(factors, units)?;
        match dataset.level {
            Level::Graph => importance.of_graphs(factors, dataset, units, centre),
            Level::Node => {
                states(elements, model, factors, dataset, watch, |part| {
                    importance.add_all(factors, part, units, centre)
                })?;
            }
        }
        Ok(importance.mean_over_units())
    }

    /// Whether it is a measurement of a model of so many columns, features and outputs.
    pub fn fits(&self, factors: &Factors) -> bool {
        let (d, groups) = (factors.features(), factors.groups());
        let together = if groups.is_single() { 0 } else { groups.len() * factors.outputs() };
        let finite = self.size.iter().chain(&self.mean).chain(&self.together).all(|number| number.is_finite());
        self.units > 0 && self.size.len() == d && self.mean.len() == d && self.together.len() == together && finite
    }

    /// Measures any additive model; the engine takes no part. Nodes are looked at one by one, each with all that it sees.
    ///
    /// # Errors
    /// There are no units, the dataset does not fit the model, or the user asked to stop.
    pub fn of_any(
        factors: &Factors,
        dataset: &Dataset,
        units: &[u32],
        centre: &[f64],
        watch: &Watch,
    ) -> Result<Importance> {
        let mut importance = Importance::none(factors, units)?;
        match dataset.level {
            Level::Graph => importance.of_graphs(factors, dataset, units, centre),
            Level::Node => {
                for (done, &unit) in units.iter().enumerate() {
                    watch.check()?;
                    watch.progress("importance of features", done as u64, units.len() as u64);
                    let case = Case::of(factors, dataset, Target::Node(unit as usize), &Edit::default())?;
                    let state = case.state().into_iter().enumerate();
                    let state: Vec<f64> = state.map(|(k, state)| state - centre[k] * case.total_theta(k)).collect();
                    importance.add(factors, &state);
                }
            }
        }
        Ok(importance.mean_over_units())
    }

    /// Before the first unit.
    fn none(factors: &Factors, units: &[u32]) -> Result<Importance> {
        if units.is_empty() {
            return Err(Error::Data("importance needs at least one unit to be measured on".into()));
        }
        let d = factors.features();
        let groups = factors.groups();
        let together = if groups.is_single() { 0 } else { groups.len() * factors.outputs() };
        Ok(Importance { units: units.len(), size: vec![0.0; d], mean: vec![0.0; d], together: vec![0.0; together] })
    }

    /// One unit more.
    fn add(&mut self, factors: &Factors, state: &[f64]) {
        for ((size, mean), value) in self.size.iter_mut().zip(&mut self.mean).zip(state) {
            *size += value.abs();
            *mean += value;
        }
        let outputs = factors.outputs();
        for (sizes, columns) in self.together.chunks_exact_mut(outputs).zip(factors.groups().iter()) {
            add_sizes(factors, columns.clone(), &state[columns], sizes);
        }
    }

    fn mean_over_units(mut self) -> Importance {
        let count = self.units as f64;
        self.size.iter_mut().chain(&mut self.mean).chain(&mut self.together).for_each(|sum| *sum /= count);
        self
    }

    /// Some units of a few features more.
    fn add_all(&mut self, factors: &Factors, part: &States<'_>, units: &[u32], centre: &[f64]) {
        let (first, end, width) = (part.columns.start, part.columns.end, part.columns.len());
        let constants: Vec<f64> = part.columns.clone().map(|k| centre[k] * factors.total_theta(k)).collect();
        let centred = |unit: u32, at: usize| f64::from(part.state[unit as usize * width + at]) - constants[at];
        let work = |(at, (size, mean)): (usize, (&mut f64, &mut f64))| {
            for &unit in units {
                let value = centred(unit, at);
                *size += value.abs();
                *mean += value;
            }
        };
        self.size[first..end].par_iter_mut().zip(&mut self.mean[first..end]).enumerate().for_each(work);
        if self.together.is_empty() {
            return;
        }
        let outputs = factors.outputs();
        let sizes = &mut self.together[part.features.start * outputs..part.features.end * outputs];
        sizes.par_chunks_exact_mut(outputs).zip(part.features.clone()).for_each(|(sizes, feature)| {
            let own = factors.groups().columns(feature);
            let mut values = vec![0.0; own.len()];
            for &unit in units {
                values.iter_mut().zip(own.clone()).for_each(|(value, k)| *value = centred(unit, k - first));
                add_sizes(factors, own.clone(), &values, sizes);
            }
        });
    }

    /// By the weights of nodes, which need no propagation.
    fn of_graphs(&mut self, factors: &Factors, dataset: &Dataset, units: &[u32], centre: &[f64]) {
        let (d, hops) = (factors.features(), factors.hops());
        let weights = factors.structure().graph_weights(dataset);
        let state = |&unit: &u32| {
            let mut state = vec![0.0; d];
            let nodes = dataset.graph_nodes(unit as usize);
            each_block(factors.responses(), &dataset.features, nodes, |nodes, responses| {
                let weights = &weights[nodes.start * hops..nodes.end * hops];
                for (k, responses) in responses.iter().enumerate() {
                    for (weights, response) in weights.chunks_exact(hops).zip(responses) {
                        let reach: f64 =
                            weights.iter().enumerate().map(|(t, weight)| weight * factors.theta(t, k)).sum();
                        state[k] += reach * (response - centre[k]);
                    }
                }
            });
            state
        };
        // In portions, added up in order.
        for units in units.chunks(1 << 10) {
            for state in units.par_iter().map(state).collect::<Vec<_>>() {
                self.add(factors, &state);
            }
        }
    }

    /// Mean size of what feature k adds to an output.
    pub fn of(&self, factors: &Factors, k: usize, output: usize) -> f64 {
        factors.weight[k * factors.outputs() + output].abs() * self.size[k]
    }

    /// Mean of what feature k adds to an output.
    pub fn signed(&self, factors: &Factors, k: usize, output: usize) -> f64 {
        factors.weight[k * factors.outputs() + output] * self.mean[k]
    }

    /// Mean over the outputs of [`Importance::of`], for every column.
    pub fn overall(&self, factors: &Factors) -> Vec<f64> {
        let outputs = factors.outputs();
        (0..factors.features())
            .map(|k| (0..outputs).map(|output| self.of(factors, k, output)).sum::<f64>() / outputs as f64)
            .collect()
    }

    /// Mean size of what a feature, with all its columns, adds to an output.
    pub fn of_feature(&self, factors: &Factors, feature: usize, output: usize) -> f64 {
        match self.together.is_empty() {
            true => self.of(factors, feature, output),
            false => self.together[feature * factors.outputs() + output],
        }
    }

    /// Mean of what a feature, with all its columns, adds to an output.
    pub fn signed_of_feature(&self, factors: &Factors, feature: usize, output: usize) -> f64 {
        factors.groups().columns(feature).map(|k| self.signed(factors, k, output)).sum()
    }

    /// Mean over the outputs of [`Importance::of_feature`], for every feature.
    pub fn of_features(&self, factors: &Factors) -> Vec<f64> {
        let outputs = factors.outputs();
        let of = |feature| (0..outputs).map(|output| self.of_feature(factors, feature, output)).sum::<f64>();
        (0..factors.groups().len()).map(|feature| of(feature) / outputs as f64).collect()
    }
}

/// `H[i,k]` of every node and a few features.
pub(super) struct States<'a> {
    /// Which.
    pub features: Range<usize>,
    /// Their columns.
    pub columns: Range<usize>,
    /// n x columns.
    pub state: &'a [f32],
}

/// H by the engine, in feature space, as many features at once as `elements` has room for. `watch` hears how many are done.
pub(super) fn states(
    elements: usize,
    model: &FittedModel,
    factors: &Factors,
    dataset: &Dataset,
    watch: &Watch,
    mut visit: impl FnMut(&States<'_>),
) -> Result<()> {
    let device = Cpu::<f32>::new();
    let Reach::Walk(transition) = Batches::new(dataset, model.walk).whole(&[]).reach else { return Ok(()) };
    let width = (elements / dataset.graph.nodes().max(1)).clamp(1, factors.features());
    for features in portions(factors, width) {
        let first = factors.groups().columns(features.start).start;
        let columns = first..factors.groups().columns(features.end - 1).end;
        let chosen: Vec<usize> = columns.clone().collect();
        watch.check()?;
        watch.progress("importance of features", first as u64, factors.features() as u64);
        let part = model.with_features(&chosen)?;
        let mut batch = Batches::with(dataset, Reach::Walk(Arc::clone(&transition))).whole(&[]);
        batch.features = Arc::new(dataset.features.columns(&chosen));
        let plan = Plan { monb: Monb::Knots, space: Space::Features, sparse: false };
        let mut resident = Resident::new(&device, &part.layout, plan, batch)?;
        let parameters = device.upload(&part.parameters)?;
        resident.pass.forward(&resident.inputs, &parameters, &Randomness::none())?;
        let state = resident.pass.state().map(|state| device.download_matrix(state)).transpose()?.unwrap_or_default();
        visit(&States { features, columns, state: &state });
    }
    Ok(())
}

/// Adds the size of what one unit's feature adds to every output; `state` is of its columns.
fn add_sizes(factors: &Factors, columns: Range<usize>, state: &[f64], sizes: &mut [f64]) {
    let outputs = factors.outputs();
    for (output, size) in sizes.iter_mut().enumerate() {
        let terms = columns.clone().zip(state).map(|(k, state)| factors.weight[k * outputs + output] * state);
        *size += terms.sum::<f64>().abs();
    }
}

/// Features in portions of about so many columns; none is cut.
fn portions(factors: &Factors, width: usize) -> Vec<Range<usize>> {
    let (mut portions, mut start, mut columns) = (Vec::new(), 0, 0);
    for (feature, own) in factors.groups().iter().enumerate() {
        if columns > 0 && columns + own.len() > width {
            portions.push(start..feature);
            (start, columns) = (feature, 0);
        }
        columns += own.len();
    }
    portions.push(start..factors.groups().len());
    portions
}

/// Positions from the largest value to the smallest; among equals the lower first.
pub fn ranking(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order
}
