//! The arithmetic of scores.

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

/// (the first of the largest, log sum exp without overflow) of a row.
pub(super) fn summary(row: &[f32]) -> (usize, f64) {
    // Side by side: one after the other, a row would take as long as its exponentials.
    const LANES: usize = 8;
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let mut parts = row.chunks_exact(LANES);
    for part in &mut parts {
        lanes.iter_mut().zip(part).for_each(|(most, &z)| *most = if z > *most { z } else { *most });
    }
    let most = lanes.iter().chain(parts.remainder()).copied().fold(f32::NEG_INFINITY, f32::max);
    let first = row.iter().position(|&z| z == most).unwrap_or(0);
    let most = f64::from(most);
    (first, most + row.iter().map(|&z| (f64::from(z) - most).exp()).sum::<f64>().ln())
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
    fn summaries_are_those_of_plain_loops() {
        for classes in 1..40 {
            let row: Vec<f32> = (0..classes).map(|k| ((k * 37 % 11) as f32 - 5.0) / 3.0).collect();
            let doubles: Vec<f64> = row.iter().map(|&z| f64::from(z)).collect();
            let most = doubles.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let log_sum = most + doubles.iter().map(|z| (z - most).exp()).sum::<f64>().ln();
            assert_eq!(summary(&row), (arg_max(&doubles), log_sum));
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
