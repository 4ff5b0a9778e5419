//! Which features matter, by which curve, and from how far away.
//!
//! Importance: mean over the targets of |contribution - its mean|, of model and generator alike (a constant belongs to the
//! intercept). Effective response: what the logit of a node does when the feature is x at every node, w_k (sum of theta) f_k(x); its
//! error is that of the centred curve on a grid; where that differs by node (rows of a structure need not sum to one), it is the mean over
//! all nodes. Hops: a probe moves a feature at one node from 0 to +-0.8 and fits the change of
//! all logits by walk powers M^t e_j; the coefficients, turned so that their sum is positive and scaled to size one, are the profile. A
//! probe counts where something moves and walk powers explain half of it ([`LEAST_EXPLAINED`]).

use super::scores::{centred_nrmse, mean, ndcg, precision};
use super::{Lens, TARGETS};
use crate::explain::stability::spearman;
use crate::studies::paper::world::World;
use harmonia_data::synthetic::FEATURES;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Transition, Walk};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Points of a curve.
const GRID: usize = 101;
/// Nodes that are moved, and where to.
const PROBED: [usize; 8] = [0, 8, 16, 24, 32, 40, 48, 56];
const MOVED: [f64; 2] = [0.8, -0.8];
/// Share of the squared change that walk powers must explain.
const LEAST_EXPLAINED: f64 = 0.5;
/// A change of all logits below this is none.
const LEAST_CHANGE: f64 = 1e-9;

/// Of one model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OfFeatures {
    /// Share of the first four that carry signal.
    pub precision: f64,
    /// Of the first four.
    pub ndcg: f64,
    /// Over all features.
    pub spearman: f64,
    /// Mean over the signals.
    pub effective_nrmse: f64,
    /// Of each signal.
    pub nrmse_by_signal: Vec<f64>,
    /// Mean over the probes that count; none where none does.
    pub hop_l1: Option<f64>,
    /// Share of them whose largest coefficient is at the true walk length.
    pub top_hop: Option<f64>,
    /// Share of the probes that count.
    pub coverage: f64,
    /// Mean profile of each signal.
    pub profiles: Vec<Vec<f64>>,
    /// Largest difference between a probe's profile and the model's own theta, where it is walks of as many lengths.
    pub probe_gap: Option<f64>,
}

impl OfFeatures {
    pub(super) fn of(
        learned: &Lens<'_>,
        truth: &Lens<'_>,
        world: &World,
        instances: Range<usize>,
    ) -> Result<OfFeatures> {
        let found = importances(learned, world, instances.clone());
        let [precision, ndcg, spearman] = rated(&found, truth, world, instances);
        let signals = &world.signals;
        let nrmse_by_signal: Vec<f64> = signals
            .iter()
            .map(|signal| {
                let k = signal.column;
                centred_nrmse(&effective(learned, k), &effective(truth, k))
            })
            .collect();
        let probes = Probes::of(world, changes(learned, world))?;
        let [hop_l1, top_hop, coverage] = probes.scores(world);
        Ok(OfFeatures {
            precision,
            ndcg,
            spearman,
            effective_nrmse: mean(&nrmse_by_signal),
            nrmse_by_signal,
            hop_l1,
            top_hop,
            coverage: coverage.unwrap_or(0.0),
            profiles: (0..signals.len()).map(|signal| probes.mean(signal)).collect(),
            probe_gap: probes.gap(learned, world),
        })
    }
}

/// Precision, NDCG and Spearman of importances that something gives the features.
pub(super) fn rated(found: &[f64], truth: &Lens<'_>, world: &World, instances: Range<usize>) -> [f64; 3] {
    let (relevance, count) = (importances(truth, world, instances), world.signals.len());
    let agreement = spearman(found, &relevance).unwrap_or(0.0);
    [precision(found, &relevance, count), ndcg(found, &relevance, count), agreement]
}

/// Mean deviation of every feature's contribution over the targets.
fn importances(lens: &Lens<'_>, world: &World, instances: Range<usize>) -> Vec<f64> {
    let of_feature = |k: usize| {
        let values: Vec<f64> = instances
            .clone()
            .flat_map(|instance| TARGETS.map(|target| lens.contribution(target, world.instance(instance), k)))
            .collect();
        let centre = mean(&values);
        mean(&values.iter().map(|value| (value - centre).abs()).collect::<Vec<_>>())
    };
    (0..FEATURES).map(of_feature).collect()
}

/// The effective response on the grid over [-1, 1].
fn effective(lens: &Lens<'_>, k: usize) -> Vec<f64> {
    let scale = lens.scale(k);
    let point = |at: usize| -1.0 + 2.0 * at as f64 / (GRID - 1) as f64;
    (0..GRID).map(|at| scale * lens.factors.response(k, point(at))).collect()
}

/// What all logits do in every probe of a model: one after the other as [`probes`] lists them.
fn changes(lens: &Lens<'_>, world: &World) -> Vec<Vec<f64>> {
    let change = |(signal, at, to): (usize, usize, f64)| {
        let (k, source) = (world.signals[signal].column, PROBED[at]);
        let moved = lens.weight(k) * (lens.factors.response(k, to) - lens.factors.response(k, 0.0));
        let of_target = |target: usize| {
            let terms = lens.reach(target).iter().enumerate();
            moved * terms.map(|(t, r)| lens.factors.theta(t, k) * r[source]).sum::<f64>()
        };
        (0..lens.nodes()).map(of_target).collect()
    };
    probes(world).map(change).collect()
}

/// Signal, place in [`PROBED`] and number that its feature is moved to.
fn probes(world: &World) -> impl Iterator<Item = (usize, usize, f64)> {
    let places = |signal: usize| (0..PROBED.len()).flat_map(move |at| MOVED.map(|to| (signal, at, to)));
    (0..world.signals.len()).flat_map(places)
}

/// Column, node and number of every probe.
pub(super) fn probed(world: &World) -> Vec<(usize, usize, f64)> {
    probes(world).map(|(signal, at, to)| (world.signals[signal].column, PROBED[at], to)).collect()
}

/// What the probes found.
pub(super) struct Probes {
    tried: usize,
    /// Signal and profile of each that counts.
    profiles: Vec<(usize, Vec<f64>)>,
}

impl Probes {
    /// Reads what all logits did in every probe.
    ///
    /// # Errors
    /// These are not as many changes as there are probes, or nodes.
    pub(super) fn of(world: &World, changes: Vec<Vec<f64>>) -> Result<Probes> {
        let hops = world.signals.first().map_or(1, |signal| signal.hop_weights.len());
        let (powers, nodes, tried) = (walk_columns(world, hops), world.topology.nodes(), probes(world).count());
        if changes.len() != tried || changes.iter().any(|change| change.len() != nodes) {
            return Err(Error::Data(format!("expected {tried} probes of {nodes} logits, found {}", changes.len())));
        }
        let read = |((signal, at, _), changes): ((usize, usize, f64), Vec<f64>)| {
            Some((signal, profile(&powers[at], &changes)?))
        };
        Ok(Probes { tried, profiles: probes(world).zip(changes).filter_map(read).collect() })
    }

    /// L1 distance from the true profile, share of right top hops, coverage.
    pub(super) fn scores(&self, world: &World) -> [Option<f64>; 3] {
        let signals = &world.signals;
        let apart = |signal: usize, profile: &[f64]| {
            profile.iter().zip(&signals[signal].hop_weights).map(|(a, b)| (a - b).abs()).sum()
        };
        let top = |signal: usize, profile: &[f64]| {
            let sizes: Vec<f64> = profile.iter().map(|weight| weight.abs()).collect();
            f64::from(u8::from(crate::explain::ranking(&sizes)[0] == signals[signal].dominant_hop()))
        };
        [self.over(apart), self.over(top), Some(self.profiles.len() as f64 / self.tried as f64)]
    }

    /// Mean of something over the probes that count.
    fn over(&self, value: impl Fn(usize, &[f64]) -> f64) -> Option<f64> {
        let values: Vec<f64> = self.profiles.iter().map(|(signal, profile)| value(*signal, profile)).collect();
        (!values.is_empty()).then(|| mean(&values))
    }

    fn mean(&self, signal: usize) -> Vec<f64> {
        let own: Vec<&Vec<f64>> = self.profiles.iter().filter(|(of, _)| *of == signal).map(|(_, own)| own).collect();
        let terms = own.first().map_or(0, |profile| profile.len());
        (0..terms).map(|t| mean(&own.iter().map(|profile| profile[t]).collect::<Vec<_>>())).collect()
    }

    fn gap(&self, lens: &Lens<'_>, world: &World) -> Option<f64> {
        let hops = world.signals.first()?.hop_weights.len();
        if lens.factors.structure().key() != "hop" || lens.terms() != hops {
            return None;
        }
        let apart = |(signal, profile): &(usize, Vec<f64>)| {
            let k = world.signals[*signal].column;
            let own = oriented((0..hops).map(|t| lens.factors.theta(t, k)).collect());
            own.map_or(0.0, |own| own.iter().zip(profile).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max))
        };
        Some(self.profiles.iter().map(apart).fold(0.0, f64::max))
    }
}

/// M^t e_j of every probed node j, T x n each.
fn walk_columns(world: &World, hops: usize) -> Vec<Vec<Vec<f64>>> {
    let walk = Transition::new(&world.topology, Walk::default());
    let nodes = world.topology.nodes();
    let step = |column: &[f64]| {
        let entry = |i: usize| {
            walk.matrix().row_entries(i).map(|(j, weight)| f64::from(weight) * column[j]).sum::<f64>()
                / walk.degree()[i]
        };
        (0..nodes).map(entry).collect::<Vec<f64>>()
    };
    let of = |&source: &usize| {
        let mut columns = vec![(0..nodes).map(|i| f64::from(u8::from(i == source))).collect::<Vec<f64>>()];
        (1..hops).for_each(|t| columns.push(step(&columns[t - 1])));
        columns
    };
    PROBED.iter().map(of).collect()
}

/// Least squares of the changes by walk powers; none where nothing moves, or walk powers do not explain it.
fn profile(columns: &[Vec<f64>], changes: &[f64]) -> Option<Vec<f64>> {
    let size: f64 = changes.iter().map(|change| change * change).sum();
    if size.sqrt() < LEAST_CHANGE {
        return None;
    }
    let coefficients = super::super::linear::least_squares(columns, changes)?;
    let fitted = |i: usize| columns.iter().zip(&coefficients).map(|(column, c)| column[i] * c).sum::<f64>();
    let left: f64 = changes.iter().enumerate().map(|(i, change)| (change - fitted(i)).powi(2)).sum();
    (1.0 - left / size >= LEAST_EXPLAINED).then_some(())?;
    oriented(coefficients)
}

/// Sum positive, sizes adding up to one.
fn oriented(coefficients: Vec<f64>) -> Option<Vec<f64>> {
    let size: f64 = coefficients.iter().map(|c| c.abs()).sum();
    let sign = coefficients.iter().sum::<f64>().signum();
    (size > 0.0).then(|| coefficients.iter().map(|c| sign * c / size).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_finds_itself() {
        let world = World::published(0).unwrap();
        let truth = Lens::new(&world.oracle, &world.topology);
        let found = OfFeatures::of(&truth, &truth, &world, 320..328).unwrap();
        assert_eq!((found.precision, found.coverage, found.top_hop), (1.0, 1.0, Some(1.0)));
        assert!((found.ndcg - 1.0).abs() < 1e-12 && found.effective_nrmse < 1e-9);
        assert!(found.hop_l1.unwrap() < 1e-9 && found.probe_gap.unwrap() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_change_that_walks_do_not_make_has_no_profile() {
        let columns = vec![vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0]];
        assert_eq!(profile(&columns, &[0.0, 0.0, 2.0]), None);
        assert_eq!(profile(&columns, &[0.0, 0.0, 0.0]), None);
        assert_eq!(profile(&columns, &[-3.0, -1.0, 0.0]), Some(vec![0.75, 0.25]));
    }
}
