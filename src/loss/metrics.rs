//! The arithmetic of scores.

/// Probability that a random positive scores above a random negative, ties counting half.
pub(super) fn roc_auc(scores: &[f64], positive: &[bool]) -> Option<f64> {
    let positives = positive.iter().filter(|&&p| p).count();
    let negatives = positive.len() - positives;
    if positives == 0 || negatives == 0 {
        return None;
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    // Sum of the ranks of positives, ties sharing their mean rank.
    let (mut rank_sum, mut before) = (0.0, 0);
    for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let mean_rank = before as f64 + (tied.len() + 1) as f64 / 2.0;
        rank_sum += mean_rank * tied.iter().filter(|&&i| positive[i]).count() as f64;
        before += tied.len();
    }
    let least = (positives * (positives + 1)) as f64 / 2.0;
    Some((rank_sum - least) / (positives as f64 * negatives as f64))
}

/// F1 of one class; `None` where it neither occurs nor is predicted.
pub(super) fn f1(truth: &[usize], predicted: &[usize], class: usize) -> Option<f64> {
    let count = |values: &[usize]| values.iter().filter(|&&value| value == class).count();
    let hits = truth.iter().zip(predicted).filter(|&(&a, &b)| a == class && b == class).count();
    let total = count(truth) + count(predicted);
    (total > 0).then(|| 2.0 * hits as f64 / total as f64)
}

/// The first of the largest.
pub(super) fn arg_max(row: &[f64]) -> usize {
    row.iter().enumerate().fold(0, |best, (i, &value)| if value > row[best] { i } else { best })
}

/// log sum exp, without overflow.
pub(super) fn log_sum_exp(row: &[f64]) -> f64 {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + row.iter().map(|&z| (z - largest).exp()).sum::<f64>().ln()
}

/// Mean, or `None` of nothing.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sample standard deviation (n - 1), or `None` of fewer than two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let centre = mean(values.iter().copied())?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auc_by_counting_pairs() {
        let positive = [true, false, true, false, false];
        assert_eq!(roc_auc(&[3.0, 1.0, 2.0, 0.0, 1.5], &positive), Some(1.0));
        assert_eq!(roc_auc(&[0.0; 5], &positive), Some(0.5));
        // Pairs (positive, negative): 2>1, 2>0, 2=2 half; 1=1 half, 1>0, 1<2: 4 of 6.
        assert_eq!(roc_auc(&[2.0, 1.0, 1.0, 0.0, 2.0], &positive), Some(4.0 / 6.0));
        assert_eq!(roc_auc(&[1.0, 2.0], &[true, true]), None);
    }

    #[test]
    fn spread_is_the_sample_deviation() {
        assert_eq!(standard_deviation(&[1.0, 2.0, 3.0]), Some(1.0));
        assert_eq!(standard_deviation(&[1.0]), None);
        assert_eq!(mean([]), None);
    }
}
