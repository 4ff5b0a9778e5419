//! Do models of other seeds say the same? Rank correlation of importances, and the spread of effects.

use super::features::others_at_rest;
use super::{Factors, Shape, Units};
use harmonia_graph::dataset::Scaling;
use std::ops::Range;

/// Spearman's rank correlation, ties at their mean rank; none where either side is constant.
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let scale = (dot(&a, &a) * dot(&b, &b)).sqrt();
    (scale > 0.0).then(|| dot(&a, &b) / scale)
}

/// Rank of each value from 1; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = first as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|&at| ranks[at] = rank);
        first += equal.len();
    }
    ranks
}

/// Mean over all pairs; none where no pair has a correlation.
pub fn mean_spearman(importances: &[Vec<f64>]) -> Option<f64> {
    let pairs = (0..importances.len()).flat_map(|a| (a + 1..importances.len()).map(move |b| (a, b)));
    let correlations: Vec<f64> = pairs.filter_map(|(a, b)| spearman(&importances[a], &importances[b])).collect();
    (!correlations.is_empty()).then(|| correlations.iter().sum::<f64>() / correlations.len() as f64)
}

/// The effect of a feature on every output in one model, see [`FeatureShape`](super::FeatureShape).
struct Effect {
    /// Its response, in the units of the axis.
    shape: Shape,
    /// What is taken off it.
    centre: f64,
    /// What it is multiplied by then, by output.
    weights: Vec<f64>,
    /// What is added, by output.
    present: Vec<f64>,
}

/// Points of a band.
const GRID: usize = 41;

/// One of several models that are compared.
#[derive(Clone, Copy)]
pub struct Compared<'a> {
    /// What it multiplies.
    pub factors: &'a Factors,
    /// What is done to features before it sees them.
    pub scaling: Option<&'a Scaling>,
    /// Mean response of each feature, d.
    pub centres: &'a [f64],
}

/// Effects of the number in the first of some columns over several models, each centred by itself: equally spaced x over `range`, in
/// the units of the data, and one band per output. The other columns say that it is not missing.
pub fn bands(models: &[Compared<'_>], columns: Range<usize>, [low, high]: [f64; 2]) -> (Vec<f64>, Vec<Band>) {
    let x: Vec<f64> = (0..GRID).map(|at| low + (high - low) * at as f64 / (GRID - 1) as f64).collect();
    let k = columns.start;
    let effect = |model: &Compared<'_>| {
        let (factors, units) = (model.factors, Units::of(model.scaling, k));
        let weights = &factors.weight[k * factors.outputs()..][..factors.outputs()];
        Effect {
            shape: Shape::over(factors, k, [low, high].map(|x| units.read(x))).in_units(units),
            centre: model.centres[k],
            weights: weights.iter().map(|w| w * factors.reach(k)).collect(),
            present: others_at_rest(*model, &columns),
        }
    };
    let effects: Vec<Effect> = models.iter().map(effect).collect();
    let outputs = models.first().map_or(0, |model| model.factors.outputs());
    let bands = (0..outputs).map(|output| Band::of(&effects, output, &x)).collect();
    (x, bands)
}

/// Mean, lowest and highest effect over models at each x.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Band {
    /// Mean over models.
    pub mean: Vec<f64>,
    /// Lowest over models.
    pub low: Vec<f64>,
    /// Highest over models.
    pub high: Vec<f64>,
}

impl Band {
    /// Of an output.
    fn of(effects: &[Effect], output: usize, x: &[f64]) -> Band {
        let mut band = Band { mean: Vec::new(), low: Vec::new(), high: Vec::new() };
        for &x in x {
            let value = |effect: &Effect| {
                effect.weights[output] * (effect.shape.value(x) - effect.centre) + effect.present[output]
            };
            let values: Vec<f64> = effects.iter().map(value).collect();
            band.mean.push(values.iter().sum::<f64>() / values.len().max(1) as f64);
            band.low.push(values.iter().copied().fold(f64::INFINITY, f64::min));
            band.high.push(values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        }
        band
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few sums of small whole numbers.
    const ROUNDING: f64 = 1e-12;

    #[test]
    fn correlation_of_ranks_by_hand() {
        let is = |found: Option<f64>, expected: f64| assert!((found.unwrap() - expected).abs() < ROUNDING, "{found:?}");
        is(spearman(&[1.0, 2.0, 30.0], &[0.1, 0.2, 0.3]), 1.0);
        is(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), -1.0);
        // Ranks 1, 2, 3, 4 and 2, 1, 4, 3: 1 - 6 * 4 / (4 * 15)
        is(spearman(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0]), 0.6);
        // Ranks 1.5, 1.5, 3 and 1, 2, 3.
        is(spearman(&[5.0, 5.0, 6.0], &[1.0, 2.0, 3.0]), 1.5 / 3f64.sqrt());
        assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), None);
        is(mean_spearman(&[vec![1.0, 2.0], vec![2.0, 3.0], vec![2.0, 1.0]]), -1.0 / 3.0);
        assert_eq!(mean_spearman(&[vec![1.0, 2.0]]), None);
    }
}
