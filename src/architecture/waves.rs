//! Fourier features of one number: phi_s(x) = sqrt(2/S) cos(z_s x / w + c_s), the same for every feature.
//!
//! z_s is the normal quantile of s / (S + 1), so that sums of phi_s(x) phi_s(y) stand for the kernel exp(-(x - y)^2 / 2 w^2), and c_s
//! goes through 2 pi / S times 0, 1, ..., S - 1 in an order that has nothing to do with that of z_s. Nothing is random and nothing
//! is learned here: a model of S features and bandwidth w always has the same ones.

use super::Architecture;
use std::f64::consts::PI;

/// The frequencies and phases of S cosines.
#[derive(Clone, Debug, PartialEq)]
pub struct Waves {
    /// z_s / w.
    pub frequencies: Vec<f64>,
    /// c_s.
    pub phases: Vec<f64>,
    /// sqrt(2 / S).
    pub height: f64,
}

impl Waves {
    /// Those of a model: as many as it has bases.
    pub fn of(architecture: &Architecture) -> Waves {
        Waves::new(architecture.bases, architecture.family.bandwidth)
    }

    /// S cosines of a bandwidth.
    pub fn new(count: usize, bandwidth: f64) -> Waves {
        let step = stride(count);
        Waves {
            frequencies: (1..=count).map(|s| normal_quantile(s as f64 / (count + 1) as f64) / bandwidth).collect(),
            phases: (0..count).map(|s| 2.0 * PI * (s * step % count) as f64 / count as f64).collect(),
            height: (2.0 / count as f64).sqrt(),
        }
    }
}

/// A step that visits all of 0..count, about the golden section of it: neighbours of frequency are far apart in phase.
fn stride(count: usize) -> usize {
    let golden = (count as f64 * 0.618).round() as usize;
    (golden..).find(|&step| step > 0 && common_divisor(step, count) == 1).unwrap_or(1)
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// The number below which a standard normal one lies with probability p, within 1e-8: Acklam's rational approximations.
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -39.696_830_286_653_76,
        220.946_098_424_520_5,
        -275.928_510_446_968_7,
        138.357_751_867_269,
        -30.664_798_066_147_16,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -54.476_098_798_224_06,
        161.585_836_858_040_9,
        -155.698_979_859_886_6,
        66.801_311_887_719_72,
        -13.280_681_552_885_72,
        1.0,
    ];
    const C: [f64; 6] = [
        -0.007_784_894_002_430_293,
        -0.322_396_458_041_136_5,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] =
        [0.007_784_695_709_041_462, 0.322_467_129_070_039_8, 2.445_134_137_142_996, 3.754_408_661_907_416, 1.0];
    /// Where the middle begins.
    const TAIL: f64 = 0.02425;
    let polynomial = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    match p {
        _ if p < TAIL => {
            let q = (-2.0 * p.ln()).sqrt();
            polynomial(&C, q) / polynomial(&D, q)
        }
        _ if p > 1.0 - TAIL => -normal_quantile(1.0 - p),
        _ => {
            let q = p - 0.5;
            q * polynomial(&A, q * q) / polynomial(&B, q * q)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_normal_distribution() {
        for (p, expected) in
            [(0.5, 0.0), (0.975, 1.959_963_985), (0.025, -1.959_963_985), (0.01, -2.326_347_874), (0.8413447461, 1.0)]
        {
            assert!((normal_quantile(p) - expected).abs() < 1e-7, "{p}: {}", normal_quantile(p));
        }
    }

    #[test]
    fn phases_are_a_permutation() {
        for count in [1, 2, 3, 64, 100, 128, 210] {
            let mut steps: Vec<usize> = Waves::new(count, 1.0)
                .phases
                .iter()
                .map(|c| (c * count as f64 / (2.0 * PI)).round() as usize)
                .collect();
            steps.sort_unstable();
            assert_eq!(steps, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn products_of_features_are_the_gaussian_kernel() {
        // A hundred cosines of a quadrature: the kernel within a few per cent.
        let waves = Waves::new(400, 0.7);
        let phi = |x: f64| -> Vec<f64> {
            waves.frequencies.iter().zip(&waves.phases).map(|(z, c)| waves.height * (z * x + c).cos()).collect()
        };
        for (x, y) in [(0.0, 0.0), (0.3, -0.2), (1.0, 0.0), (2.0, 1.9)] {
            let kernel: f64 = phi(x).iter().zip(phi(y)).map(|(a, b)| a * b).sum();
            let expected = (-(x - y) * (x - y) / (2.0 * 0.49_f64)).exp();
            assert!((kernel - expected).abs() < 0.06, "{x} {y}: {kernel} {expected}");
        }
    }
}
