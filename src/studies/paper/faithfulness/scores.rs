//! How well one ranking or vector agrees with another.

use crate::explain::ranking;

/// Share of the `count` largest by `scores` that are among the `count` largest by `relevance`. Ties: the lower index first.
pub fn precision(scores: &[f64], relevance: &[f64], count: usize) -> f64 {
    let count = count.min(scores.len()).max(1);
    let best = &ranking(relevance)[..count];
    ranking(scores)[..count].iter().filter(|at| best.contains(at)).count() as f64 / count as f64
}

/// Relevance of the `count` largest by `scores`, discounted by the logarithm of their position, as a share of the best there is;
/// 1 where nothing is relevant.
pub fn ndcg(scores: &[f64], relevance: &[f64], count: usize) -> f64 {
    let gain = |order: &[usize]| {
        let terms = order.iter().take(count).enumerate();
        terms.map(|(at, &item)| relevance[item] / (at as f64 + 2.0).log2()).sum::<f64>()
    };
    let ideal = gain(&ranking(relevance));
    if ideal > 0.0 { gain(&ranking(scores)) / ideal } else { 1.0 }
}

/// Root mean square of the difference over the standard deviation of `truth`.
pub fn nrmse(values: &[f64], truth: &[f64]) -> f64 {
    /// The paper's, against a truth that is constant.
    const LEAST: f64 = 1e-12;
    let count = truth.len() as f64;
    let mean = truth.iter().sum::<f64>() / count;
    let deviation = (truth.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
    let error = (values.iter().zip(truth).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / count).sqrt();
    error / (deviation + LEAST)
}

/// The same once both are centred: the error of a curve that a constant may be added to.
pub fn centred_nrmse(values: &[f64], truth: &[f64]) -> f64 {
    let centred = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| value - mean).collect::<Vec<f64>>()
    };
    nrmse(&centred(values), &centred(truth))
}

/// Mean of some numbers; 0 of none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let relevance = [3.0, 0.0, 2.0, 0.0];
        assert_eq!(precision(&[9.0, 8.0, 1.0, 0.0], &relevance, 2), 0.5);
        assert_eq!(precision(&[1.0, 0.0, 9.0, 0.5], &relevance, 2), 1.0);
        let gain = 3.0 + 0.0 / 3f64.log2();
        assert!((ndcg(&[9.0, 8.0, 1.0, 0.0], &relevance, 2) - gain / (3.0 + 2.0 / 3f64.log2())).abs() < 1e-12);
        assert_eq!(ndcg(&[1.0, 2.0], &[0.0, 0.0], 1), 1.0);
        // Off by one everywhere; the truth has deviation one.
        assert!((nrmse(&[0.0, 2.0], &[-1.0, 1.0]) - 1.0).abs() < 1e-9);
        assert!(centred_nrmse(&[0.0, 2.0], &[-1.0, 1.0]) < 1e-9);
    }
}
