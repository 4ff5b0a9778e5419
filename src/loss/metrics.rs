//! The arithmetic of scores.

/// Probability that a random positive scores above a random negative, ties counting half.
pub(super) fn roc_auc(scores: &[f64], positive: &[bool]) -> Option<f64> {
    let (mut positives, mut negatives) = (Vec::new(), Vec::new());
    for (&score, &positive) in scores.iter().zip(positive) {
        (if positive { &mut positives } else { &mut negatives }).push(score);
    }
    let pairs = positives.len() * negatives.len();
    if pairs == 0 {
        return None;
    }
    // The fewer are sorted, and each of the others finds how many of them are below it: of forty classes a sort of all would take
    // longer than the training step before.
    let rare = positives.len() <= negatives.len();
    let (mut few, many) = if rare { (positives, negatives) } else { (negatives, positives) };
    few.sort_unstable_by(f64::total_cmp);
    let twice_below = |x: f64| {
        let below = few.partition_point(|&other| other < x);
        let is_tied = few.get(below).is_some_and(|&other| other == x);
        2 * below + if is_tied { few[below..].partition_point(|&other| other <= x) } else { 0 }
    };
    let twice: usize = many.into_iter().map(twice_below).sum();
    // Halves of pairs in which a positive is above.
    let above = if rare { 2 * pairs - twice } else { twice };
    Some(above as f64 / 2.0 / pairs as f64)
}

/// F1 of each class; `None` where it neither occurs nor is predicted.
pub(super) fn f1(truth: &[usize], predicted: &[usize], classes: usize) -> Vec<Option<f64>> {
    let (mut hits, mut total) = (vec![0usize; classes], vec![0usize; classes]);
    for (&truth, &predicted) in truth.iter().zip(predicted) {
        total[truth] += 1;
        total[predicted] += 1;
        hits[truth] += usize::from(truth == predicted);
    }
    let each = |(hits, total): (usize, usize)| (total > 0).then(|| 2.0 * hits as f64 / total as f64);
    hits.into_iter().zip(total).map(each).collect()
}

/// The first of the largest.
pub(super) fn arg_max<T: PartialOrd + Copy>(row: &[T]) -> usize {
    row.iter().enumerate().fold(0, |best, (i, &value)| if value > row[best] { i } else { best })
}

/// log sum exp, without overflow.
pub(super) fn log_sum_exp(row: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = row.clone().fold(f64::NEG_INFINITY, f64::max);
    largest + row.map(|z| (z - largest).exp()).sum::<f64>().ln()
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
        // Many, with ties, where either kind is the rare one.
        for rare in [true, false] {
            let scores: Vec<f64> = (0..300).map(|i| f64::from(i * 71 % 97) - 40.0).collect();
            let positive: Vec<bool> = (0..300).map(|i| (i % 7 == 0) == rare).collect();
            let (mut above, mut pairs) = (0.0, 0.0);
            for (a, _) in scores.iter().zip(&positive).filter(|(_, positive)| **positive) {
                for (b, _) in scores.iter().zip(&positive).filter(|(_, positive)| !**positive) {
                    above += if a > b { 1.0 } else { f64::from(u8::from(a == b)) / 2.0 };
                    pairs += 1.0;
                }
            }
            assert_eq!(roc_auc(&scores, &positive), Some(above / pairs));
        }
    }

    #[test]
    fn f1_of_classes_by_hand() {
        // Class 0: one hit of two and one; class 1: one of one and two; class 2 is nowhere.
        assert_eq!(f1(&[0, 0, 1], &[0, 1, 1], 3), [Some(2.0 / 3.0), Some(2.0 / 3.0), None]);
    }

    #[test]
    fn spread_is_the_sample_deviation() {
        assert_eq!(standard_deviation(&[1.0, 2.0, 3.0]), Some(1.0));
        assert_eq!(standard_deviation(&[1.0]), None);
        assert_eq!(mean([]), None);
    }
}
