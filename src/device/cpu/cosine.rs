//! The cosine without a branch, so that many are computed in SIMD lanes; the same bits on every machine.
//!
//! a = n pi + r with |r| <= pi / 2: cos a = (-1)^n cos r, and cos r is its series up to r^22, whose rest is below 2e-17. Invariant: as exact as
//! f64 is (4e-16) for |a| < 10^6; of larger angles the remainder r loses digits as a itself does.

use std::f64::consts::FRAC_1_PI;

/// pi in three parts. The first two have 33 bits: products with n < 2^20 are exact.
const PI: [f64; 3] = [3.141_592_653_468_251_2, 1.215_420_101_260_793_2e-10, 4.044_532_497_591_901e-21];

/// (-1)^n / (2n)!.
const SERIES: [f64; 12] = {
    let mut series = [1.0; 12];
    let mut n = 1;
    while n < series.len() {
        series[n] = -series[n - 1] / ((2 * n - 1) * 2 * n) as f64;
        n += 1;
    }
    series
};

/// cos a.
#[inline(always)]
pub fn cosine(a: f64) -> f64 {
    let n = (a * FRAC_1_PI).round_ties_even();
    let r = n.mul_add(-PI[2], n.mul_add(-PI[1], n.mul_add(-PI[0], a)));
    let is_odd = n - 2.0 * (0.5 * n).floor();
    let square = r * r;
    (1.0 - 2.0 * is_odd) * SERIES.iter().rev().fold(0.0_f64, |sum, &term| sum.mul_add(square, term))
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::seed::{Purpose, Stream};

    #[test]
    fn it_is_the_cosine() {
        let stream = Stream::new(1, Purpose::Studies, 90);
        for scale in [1.0, 30.0, 1e3, 1e6] {
            for at in 0..20_000 {
                let a = scale * (2.0 * stream.uniform(at) - 1.0);
                assert!((cosine(a) - a.cos()).abs() < 4e-16, "{a}: {} {}", cosine(a), a.cos());
            }
        }
        // Where n changes, at zeros and at ends.
        for n in -40..40 {
            let a = f64::from(n) * std::f64::consts::FRAC_PI_2;
            for near in [a.next_down(), a, a.next_up()] {
                assert!((cosine(near) - near.cos()).abs() < 4e-16, "{near}");
            }
        }
        assert!(cosine(0.0) == 1.0 && cosine(f64::NAN).is_nan() && cosine(f64::INFINITY).is_nan());
    }
}
