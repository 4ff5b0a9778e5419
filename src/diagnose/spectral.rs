//! What the hop weights of a feature do to the modes of a graph: g_k(x) = sum_t `theta[t,k]` x^t.
//!
//! A mode with eigenvalue x is scaled by g_k(x). x near 1: slowly varying over the graph; x near or below 0: changing
//! from neighbour to neighbour. Weights that are not negative and sum to one give g(1) = 1 and |g| <= 1, so a feature
//! can damp fast modes or keep them, but never prefer them; free weights (`model.hop_weights = "free"`) can.

use serde::Serialize;

/// Points from -1 to 1 at which responses are given.
const POINTS: usize = 41;
/// A response that keeps at least this share of its largest value everywhere lets everything pass.
const FLAT: f64 = 0.8;
/// Fast modes that come through with less than this share of the slow ones are damped.
const DAMPED: f64 = 0.5;

/// What a response does, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Fast modes come through with at most half of their size: the feature is smoothed over the graph.
    LowPass,
    /// Everything comes through nearly alike: the feature is read at the node itself.
    AllPass,
    /// Some fast modes come through, others do not.
    Mixed,
    /// Fast modes come through more than twice as strongly as slow ones.
    HighPass,
}

/// The response of one feature.
#[derive(Clone, Debug, Serialize)]
pub struct SpectralResponse {
    /// k.
    pub feature: usize,
    /// As the dataset calls it.
    pub name: String,
    /// `theta[t,k]` for every t.
    pub hop_weights: Vec<f64>,
    /// g_k at the points of the grid.
    pub values: Vec<f64>,
    /// g_k at the largest eigenvalue below the stationary one.
    pub at_lambda_2: Option<f64>,
    /// g_k(0) = `theta[0,k]`.
    pub at_zero: f64,
    /// g_k at the smallest eigenvalue.
    pub at_lambda_min: Option<f64>,
    /// What kind of filter that is.
    pub reading: Reading,
    /// Distance of its hop weights from the mean over all features.
    pub distance_from_mean: f64,
}

/// SpectralResponses of all features.
#[derive(Clone, Debug, Serialize)]
pub struct SpectralResponses {
    /// Points at which `values` are given.
    pub grid: Vec<f64>,
    /// The smallest eigenvalue and the largest below the stationary one, -1 where the walk alternates.
    pub span: Option<[f64; 2]>,
    /// One per feature.
    pub features: Vec<SpectralResponse>,
}

/// sum_t theta_t x^t
pub fn response(hop_weights: &[f64], x: f64) -> f64 {
    hop_weights.iter().rev().fold(0.0, |sum, theta| sum * x + theta)
}

impl SpectralResponses {
    /// Of hop weights theta, T x d. `span` holds the ends of the spectrum, where there is one.
    pub fn new(hop_weights: &[f64], names: &[String], span: Option<[f64; 2]>) -> SpectralResponses {
        let d = names.len();
        let grid: Vec<f64> = (0..POINTS).map(|i| 2.0 * i as f64 / (POINTS - 1) as f64 - 1.0).collect();
        let column = |k: usize| hop_weights.iter().skip(k).step_by(d.max(1)).copied();
        let mean: Vec<f64> = hop_weights.chunks_exact(d.max(1)).map(|row| row.iter().sum::<f64>() / d as f64).collect();
        let feature = |(k, name): (usize, &String)| {
            let hop_weights: Vec<f64> = column(k).collect();
            let at = |x: f64| response(&hop_weights, x);
            let apart: f64 = hop_weights.iter().zip(&mean).map(|(theta, mean)| (theta - mean).powi(2)).sum();
            SpectralResponse {
                feature: k,
                name: name.clone(),
                values: grid.iter().map(|&x| at(x)).collect(),
                at_lambda_2: span.map(|[_, high]| at(high)),
                at_zero: at(0.0),
                at_lambda_min: span.map(|[low, _]| at(low)),
                reading: read(&hop_weights, &grid, span.map_or(-1.0, |[low, _]| low)),
                distance_from_mean: apart.sqrt(),
                hop_weights,
            }
        };
        SpectralResponses { features: names.iter().enumerate().map(feature).collect(), grid, span }
    }
}

/// Compares modes from `low` to 0 with the stationary one.
fn read(hop_weights: &[f64], grid: &[f64], low: f64) -> Reading {
    let size = |x: f64| response(hop_weights, x).abs();
    let points = || grid.iter().copied().filter(|&x| x >= low).chain([low]);
    let fast = points().filter(|&x| x <= 0.0).chain([0.0]).map(size).fold(0.0, f64::max);
    let slow = size(1.0);
    let (least, most) = points().map(size).fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), x| (a.min(x), b.max(x)));
    if least >= FLAT * most {
        Reading::AllPass
    } else if fast <= DAMPED * slow {
        Reading::LowPass
    } else if slow <= DAMPED * fast {
        Reading::HighPass
    } else {
        Reading::Mixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(hop_weights: &[f64]) -> Reading {
        SpectralResponses::new(hop_weights, &["x".into()], None).features[0].reading
    }

    #[test]
    fn the_papers_example_and_readings_of_plain_profiles() {
        let theta = [0.2, 0.3, 0.5];
        assert!((response(&theta, 0.5) - 0.475).abs() < 1e-15);
        assert!((response(&theta, 1.0) - 1.0).abs() < 1e-15);
        assert_eq!(reading(&[0.95, 0.05]), Reading::AllPass);
        assert_eq!(reading(&[0.25; 4]), Reading::LowPass);
        // Even steps only: the alternating mode comes through whole, the modes near zero do not.
        assert_eq!(reading(&[0.1, 0.0, 0.9]), Reading::Mixed);
        assert_eq!(reading(&[1.0, -1.0]), Reading::HighPass);
    }

    #[test]
    fn features_are_columns() {
        let names = ["a".to_string(), "b".to_string()];
        let responses = SpectralResponses::new(&[1.0, 0.0, 0.0, 1.0], &names, Some([-0.5, 0.9]));
        assert_eq!(responses.features[1].hop_weights, [0.0, 1.0]);
        assert_eq!((responses.features[1].at_lambda_min, responses.features[0].at_lambda_2), (Some(-0.5), Some(1.0)));
        assert_eq!(responses.grid[20], 0.0);
    }
}
