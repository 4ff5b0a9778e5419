//! Can the hops of a feature be told apart from the data at all?
//!
//! The columns f, Mf, M^2 f, M^3 f of one informative feature over the training nodes form a regression design. On a
//! graph where two of them nearly coincide no method could recover the hop weights, so such graphs are not used.
//! Columns are centred (constants belong to the intercept) and scaled to length 1 (the scale of a hop is not what
//! makes it ambiguous) before anything is measured.

use super::truth::HOPS;

/// Bound on [`Design::condition`], which is also a check of full rank. Random graphs lie between 5.0 and 6.0 with
/// median 5.5, so this and the next bound refuse the worst tenth or so: extremes, not the ordinary case.
pub const MAX_CONDITION: f64 = 5.75;
/// Bound on [`Design::correlation`]. Random graphs lie between 0.92 and 0.95 with median 0.935: on sparse graphs one
/// step and three steps away always look alike, as two of the three steps often cancel.
pub const MAX_CORRELATION: f64 = 0.94;
/// Jacobi converges quadratically: a 4 x 4 matrix is diagonal to the last bit after five or six sweeps.
const SWEEPS: usize = 10;

/// How well separated the hops of a feature are; of several features, the worst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    /// Largest over smallest singular value of the scaled columns; infinite where the rank is deficient.
    pub condition: f64,
    /// Largest absolute correlation of two hops.
    pub correlation: f64,
}

impl Design {
    /// Measures the hop columns of one feature.
    pub fn of(columns: &[Vec<f64>; HOPS]) -> Design {
        let correlations = correlations(columns);
        let pairs = (0..HOPS).flat_map(|t| (0..t).map(move |u| (t, u)));
        let correlation = pairs.map(|(t, u)| correlations[t][u].abs()).fold(0.0, f64::max);
        let eigenvalues = eigenvalues(correlations);
        let largest = eigenvalues.iter().copied().fold(0.0, f64::max);
        let smallest = eigenvalues.iter().copied().fold(f64::INFINITY, f64::min).max(0.0);
        let condition = if smallest > 0.0 { (largest / smallest).sqrt() } else { f64::INFINITY };
        Design { condition, correlation }
    }

    /// The worse of two in each respect.
    pub fn worst(self, other: Design) -> Design {
        Design { condition: self.condition.max(other.condition), correlation: self.correlation.max(other.correlation) }
    }

    /// Whether both bounds hold.
    pub fn passes(&self) -> bool {
        self.condition < MAX_CONDITION && self.correlation < MAX_CORRELATION
    }
}

/// Gram matrix of the centred columns, scaled to a diagonal of ones (zeros where a column is constant).
fn correlations(columns: &[Vec<f64>; HOPS]) -> [[f64; HOPS]; HOPS] {
    let means = columns.each_ref().map(|column| column.iter().sum::<f64>() / column.len() as f64);
    let mut gram = [[0.0; HOPS]; HOPS];
    for t in 0..HOPS {
        for u in 0..HOPS {
            let products = columns[t].iter().zip(&columns[u]).map(|(a, b)| (a - means[t]) * (b - means[u]));
            gram[t][u] = products.sum();
        }
    }
    let scale: [f64; HOPS] = std::array::from_fn(|t| if gram[t][t] > 0.0 { gram[t][t].sqrt().recip() } else { 0.0 });
    std::array::from_fn(|t| std::array::from_fn(|u| gram[t][u] * scale[t] * scale[u]))
}

/// Eigenvalues of a symmetric matrix by cyclic Jacobi rotations, in no particular order.
fn eigenvalues(mut a: [[f64; HOPS]; HOPS]) -> [f64; HOPS] {
    for _ in 0..SWEEPS {
        for p in 0..HOPS {
            for q in p + 1..HOPS {
                if a[p][q] == 0.0 {
                    continue;
                }
                // The smaller of the two rotations that clear a[p][q].
                let tau = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let tangent = tau.signum() / (tau.abs() + tau.hypot(1.0));
                let cos = tangent.hypot(1.0).recip();
                let sin = tangent * cos;
                for row in &mut a {
                    (row[p], row[q]) = (cos * row[p] - sin * row[q], sin * row[p] + cos * row[q]);
                }
                let (upper, lower) = (a[p], a[q]);
                a[p] = std::array::from_fn(|k| cos * upper[k] - sin * lower[k]);
                a[q] = std::array::from_fn(|k| sin * upper[k] + cos * lower[k]);
            }
        }
    }
    std::array::from_fn(|t| a[t][t])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenvalues_of_a_path_are_the_textbook_ones() {
        // Second difference matrix: 2 - 2 cos(k pi / 5).
        let matrix = std::array::from_fn(|i| {
            std::array::from_fn(|j| match i.abs_diff(j) {
                0 => 2.0,
                1 => -1.0,
                _ => 0.0,
            })
        });
        let mut values = eigenvalues(matrix);
        values.sort_by(f64::total_cmp);
        for (k, value) in (1..).zip(values) {
            let expected = 2.0 - 2.0 * (f64::from(k) * std::f64::consts::PI / 5.0).cos();
            assert!((value - expected).abs() < 1e-14, "{value} {expected}");
        }
    }

    #[test]
    fn orthogonal_columns_pass_and_repeated_ones_do_not() {
        let unit = |t: usize| {
            (0..8)
                .map(|i| {
                    if i == t {
                        1.0
                    } else if i == t + 4 {
                        -1.0
                    } else {
                        0.0
                    }
                })
                .collect()
        };
        let orthogonal: [Vec<f64>; HOPS] = std::array::from_fn(unit);
        let design = Design::of(&orthogonal);
        assert!((design.condition - 1.0).abs() < 1e-14 && design.correlation == 0.0 && design.passes());

        let mut repeated = orthogonal.clone();
        repeated[3] = repeated[1].iter().map(|value| 2.0 * value + 5.0).collect();
        let design = Design::of(&repeated);
        assert!((design.correlation - 1.0).abs() < 1e-14 && design.condition > 1e6 && !design.passes());

        let mut constant = orthogonal;
        constant[2] = vec![7.0; 8];
        assert_eq!(Design::of(&constant).condition, f64::INFINITY);
    }
}
