//! Least squares and singular values of a few long columns, by orthogonalisation: nothing is squared that rounding could not bear.

/// The coefficients of some columns that come nearest to a vector; none where the columns are dependent up to rounding.
pub fn least_squares(columns: &[Vec<f64>], target: &[f64]) -> Option<Vec<f64>> {
    /// What is left of a column once the others are taken out, as a share of it.
    const DEPENDENT: f64 = 1e-12;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let count = columns.len();
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    let mut upper = vec![vec![0.0; count]; count];
    for (at, column) in columns.iter().enumerate() {
        let mut rest = column.clone();
        // Twice is enough (Kahan, Parlett).
        for _ in 0..2 {
            for (before, direction) in basis.iter().enumerate() {
                let along = dot(direction, &rest);
                upper[before][at] += along;
                rest.iter_mut().zip(direction).for_each(|(rest, direction)| *rest -= along * direction);
            }
        }
        let length = dot(&rest, &rest).sqrt();
        if length <= DEPENDENT * dot(column, column).sqrt() {
            return None;
        }
        upper[at][at] = length;
        rest.iter_mut().for_each(|rest| *rest /= length);
        basis.push(rest);
    }
    let mut rest = target.to_vec();
    let mut coefficients = vec![0.0; count];
    for (at, direction) in basis.iter().enumerate() {
        coefficients[at] = dot(direction, &rest);
        let along = coefficients[at];
        rest.iter_mut().zip(direction).for_each(|(rest, direction)| *rest -= along * direction);
    }
    for at in (0..count).rev() {
        let later: f64 = (at + 1..count).map(|other| upper[at][other] * coefficients[other]).sum();
        coefficients[at] = (coefficients[at] - later) / upper[at][at];
    }
    Some(coefficients)
}

/// The smallest singular value of some columns, by turning them pair by pair until they are orthogonal (Hestenes): small ones keep
/// their digits. None of no columns: infinite.
pub fn smallest_singular_value(mut columns: Vec<Vec<f64>>) -> f64 {
    /// Far more than the six or so that are common.
    const SWEEPS: usize = 60;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for _ in 0..SWEEPS {
        let mut turned = false;
        for p in 0..columns.len() {
            for q in p + 1..columns.len() {
                let (left, right) = columns.split_at_mut(q);
                let (a, b) = (&mut left[p], &mut right[0]);
                let (aa, bb, ab) = (dot(a, a), dot(b, b), dot(a, b));
                if ab.abs() <= f64::EPSILON * (aa * bb).sqrt() {
                    continue;
                }
                turned = true;
                let zeta = (bb - aa) / (2.0 * ab);
                let tangent = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
                let cosine = tangent.hypot(1.0).recip();
                let sine = cosine * tangent;
                for (a, b) in a.iter_mut().zip(b.iter_mut()) {
                    (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
                }
            }
        }
        if !turned {
            break;
        }
    }
    columns.iter().map(|column| dot(column, column).sqrt()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::{least_squares, smallest_singular_value};

    #[test]
    fn a_small_singular_value_keeps_its_digits() {
        // (1, 0), (1, s): the singular values multiply to s, the larger is about sqrt 2.
        let small = 1e-9;
        let found = smallest_singular_value(vec![vec![1.0, 0.0], vec![1.0, small]]);
        assert!((found * 2f64.sqrt() / small - 1.0).abs() < 1e-6, "{found}");
        // Rows orthogonal, columns of length 5 and 2 turned by some angle.
        let (sine, cosine) = 0.3f64.sin_cos();
        let columns = vec![vec![5.0 * cosine, 2.0 * sine], vec![-5.0 * sine, 2.0 * cosine]];
        assert!((smallest_singular_value(columns) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_plane_through_points_and_dependent_columns() {
        let columns = vec![vec![1.0, 1.0, 1.0, 1.0], vec![0.0, 1.0, 2.0, 3.0]];
        let found = least_squares(&columns, &[1.0, 3.0, 5.0, 7.0]).unwrap();
        assert!((found[0] - 1.0).abs() < 1e-12 && (found[1] - 2.0).abs() < 1e-12);
        // Mean and slope of 0, 1, 0, 1: 0.2 + 0.2 x.
        let found = least_squares(&columns, &[0.0, 1.0, 0.0, 1.0]).unwrap();
        assert!((found[0] - 0.2).abs() < 1e-12 && (found[1] - 0.2).abs() < 1e-12);
        assert_eq!(least_squares(&[vec![1.0, 2.0], vec![2.0, 4.0]], &[1.0, 0.0]), None);
    }
}
