//! The intercept that makes both classes equally likely.

use harmonia_graph::dataset::sigmoid;

/// The b with mean sigmoid(b + score) = 1/2, by bisection to the last bit.
pub fn balancing_intercept(scores: &[f64]) -> f64 {
    let mean = |b: f64| scores.iter().map(|score| sigmoid(b + score)).sum::<f64>() / scores.len() as f64;
    // At b = -max no logit is above 0, at b = -min none is below: the root lies between.
    let mut low = -scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut high = -scores.iter().copied().fold(f64::INFINITY, f64::min);
    loop {
        let middle = 0.5 * (low + high);
        if !(low < middle && middle < high) {
            return middle;
        }
        if mean(middle) < 0.5 {
            low = middle;
        } else {
            high = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_intercept_balances_a_lopsided_sample() {
        let scores = [3.0, 5.0, -1.0, 40.0];
        let b = balancing_intercept(&scores);
        let mean = scores.iter().map(|score| sigmoid(b + score)).sum::<f64>() / 4.0;
        assert!((mean - 0.5).abs() < 1e-15, "{mean}");
        assert_eq!(balancing_intercept(&[2.0, 2.0]), -2.0);
    }
}
