//! How one quantity grows with another: the slope of a straight line through logarithms.

/// y = factor x^exponent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    pub exponent: f64,
    pub factor: f64,
}

impl Power {
    /// Least squares on logarithms; none for fewer than two different x, or for what has no logarithm.
    pub fn fit(points: &[(f64, f64)]) -> Option<Power> {
        if points.iter().any(|&(x, y)| !(x > 0.0 && y > 0.0)) {
            return None;
        }
        let logs: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (x.ln(), y.ln())).collect();
        let count = logs.len() as f64;
        let (mean_x, mean_y) =
            (logs.iter().map(|(x, _)| x).sum::<f64>() / count, logs.iter().map(|(_, y)| y).sum::<f64>() / count);
        let spread: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let together: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        let exponent = together / spread;
        exponent.is_finite().then(|| Power { exponent, factor: (mean_y - exponent * mean_x).exp() })
    }

    /// y at x.
    pub fn at(&self, x: f64) -> f64 {
        self.factor * x.powf(self.exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounding of a few logarithms.
    const ROUNDING: f64 = 1e-12;

    #[test]
    fn powers_are_found_again() {
        let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0].map(|x: f64| (x, 3.0 * x.powf(1.5))).to_vec();
        let power = Power::fit(&points).unwrap();
        assert!((power.exponent - 1.5).abs() < ROUNDING && (power.factor - 3.0).abs() < ROUNDING, "{power:?}");
        assert!((power.at(16.0) - 192.0).abs() < 192.0 * ROUNDING);
        let flat = Power::fit(&[(1.0, 5.0), (10.0, 5.0)]).unwrap();
        assert!(flat.exponent.abs() < ROUNDING);
    }

    #[test]
    fn what_has_no_slope_has_none() {
        assert_eq!(Power::fit(&[]), None);
        assert_eq!(Power::fit(&[(2.0, 1.0), (2.0, 3.0)]), None);
        assert_eq!(Power::fit(&[(1.0, 0.0), (2.0, 3.0)]), None);
        assert_eq!(Power::fit(&[(1.0, f64::NAN), (2.0, 3.0)]), None);
    }
}
