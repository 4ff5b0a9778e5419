//! Eigenvalues of small dense symmetric matrices, by two methods.
//!
//! [`eigenvalues`]: Householder reflections to tridiagonal form, then QL with implicit shifts; 2 n^3 flops, for
//! spectra of whole components. [`jacobi`]: plane rotations until nothing is left off the diagonal; slower, gives
//! eigenvectors, for matrices of at most a hundred rows. Both are accurate to a few units of rounding of the largest
//! eigenvalue.

/// Shifts for one eigenvalue; two are common.
const SHIFTS: usize = 100;
/// Sweeps over all pairs; ten are common.
const SWEEPS: usize = 60;

/// All eigenvalues, ascending. `matrix` is n x n, symmetric, and is used up.
pub(crate) fn eigenvalues(mut matrix: Vec<f64>, n: usize) -> Vec<f64> {
    let (mut diagonal, mut beside) = tridiagonal(&mut matrix, n);
    implicit_ql(&mut diagonal, &mut beside);
    diagonal.sort_by(f64::total_cmp);
    diagonal
}

/// (diagonal, entries beside it and a zero) of a tridiagonal matrix with the same eigenvalues.
fn tridiagonal(matrix: &mut [f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut diagonal, mut beside) = (vec![0.0; n], vec![0.0; n]);
    let (mut v, mut w) = (vec![0.0; n], vec![0.0; n]);
    for k in 0..n {
        diagonal[k] = matrix[k * n + k];
        let rest = k + 1..n;
        if rest.is_empty() {
            break;
        }
        v[rest.clone()].copy_from_slice(&matrix[k * n..][rest.clone()]);
        let norm = v[rest.clone()].iter().map(|x| x * x).sum::<f64>().sqrt();
        let first = v[k + 1];
        if norm == first.abs() {
            // Nothing to reflect.
            beside[k] = first;
            continue;
        }
        beside[k] = -norm.copysign(first);
        v[k + 1] -= beside[k];
        let factor = 2.0 / v[rest.clone()].iter().map(|x| x * x).sum::<f64>();
        for i in rest.clone() {
            let row = &matrix[i * n..][rest.clone()];
            w[i] = factor * row.iter().zip(&v[rest.clone()]).map(|(a, v)| a * v).sum::<f64>();
        }
        let half = 0.5 * factor * rest.clone().map(|i| w[i] * v[i]).sum::<f64>();
        rest.clone().for_each(|i| w[i] -= half * v[i]);
        for i in rest.clone() {
            let (vi, wi) = (v[i], w[i]);
            let row = &mut matrix[i * n..][rest.clone()];
            for ((a, v), w) in row.iter_mut().zip(&v[rest.clone()]).zip(&w[rest.clone()]) {
                *a -= vi * w + wi * v;
            }
        }
    }
    (diagonal, beside)
}

/// Turns the diagonal into the eigenvalues.
fn implicit_ql(diagonal: &mut [f64], beside: &mut [f64]) {
    let n = diagonal.len();
    let largest = diagonal.iter().chain(beside.iter()).fold(0.0, |largest: f64, x| largest.max(x.abs()));
    // Absolute, not relative: eigenvalues near zero are wanted to the same digits as the others.
    let negligible = f64::EPSILON * largest;
    for l in 0..n {
        for _ in 0..SHIFTS {
            let Some(m) = (l..n).find(|&m| m + 1 == n || beside[m].abs() <= negligible) else { break };
            if m == l {
                break;
            }
            let g = (diagonal[l + 1] - diagonal[l]) / (2.0 * beside[l]);
            let mut g = diagonal[m] - diagonal[l] + beside[l] / (g + g.hypot(1.0).copysign(g));
            let (mut sine, mut cosine, mut shift) = (1.0, 1.0, 0.0);
            let mut split = false;
            for i in (l..m).rev() {
                let (f, b) = (sine * beside[i], cosine * beside[i]);
                let r = f.hypot(g);
                beside[i + 1] = r;
                if r == 0.0 {
                    diagonal[i + 1] -= shift;
                    beside[m] = 0.0;
                    split = true;
                    break;
                }
                (sine, cosine) = (f / r, g / r);
                g = diagonal[i + 1] - shift;
                let r = (diagonal[i] - g) * sine + 2.0 * cosine * b;
                shift = sine * r;
                diagonal[i + 1] = g + shift;
                g = cosine * r - b;
            }
            if !split {
                diagonal[l] -= shift;
                beside[l] = g;
                beside[m] = 0.0;
            }
        }
    }
}

/// Eigenvalues ascending, and their unit eigenvectors as the columns of an n x n matrix.
pub(crate) fn jacobi(mut matrix: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut vectors = vec![0.0; n * n];
    (0..n).for_each(|i| vectors[i * n + i] = 1.0);
    for _ in 0..SWEEPS {
        let square = |i: usize, j: usize| matrix[i * n + j] * matrix[i * n + j];
        let off: f64 = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| square(i, j)).sum();
        let on: f64 = (0..n).map(|i| square(i, i)).sum();
        if off <= on * f64::EPSILON * f64::EPSILON {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut matrix, &mut vectors, n, p, q);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| matrix[a * n + a].total_cmp(&matrix[b * n + b]));
    let values = order.iter().map(|&i| matrix[i * n + i]).collect();
    let sorted = (0..n * n).map(|at| vectors[at / n * n + order[at % n]]).collect();
    (values, sorted)
}

/// Brings entry (p, q) to zero.
fn rotate(matrix: &mut [f64], vectors: &mut [f64], n: usize, p: usize, q: usize) {
    let entry = matrix[p * n + q];
    if entry == 0.0 {
        return;
    }
    let slope = (matrix[q * n + q] - matrix[p * n + p]) / (2.0 * entry);
    let tangent = 1.0 / (slope.abs() + slope.hypot(1.0));
    let tangent = tangent.copysign(slope);
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = tangent * cosine;
    let turn = |matrix: &mut [f64], a: usize, b: usize| {
        let (x, y) = (matrix[a], matrix[b]);
        (matrix[a], matrix[b]) = (cosine * x - sine * y, sine * x + cosine * y);
    };
    for i in 0..n {
        turn(matrix, i * n + p, i * n + q);
    }
    for i in 0..n {
        turn(matrix, p * n + i, q * n + i);
    }
    for i in 0..n {
        turn(vectors, i * n + p, i * n + q);
    }
    (matrix[p * n + q], matrix[q * n + p]) = (0.0, 0.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::seed::{Purpose, Stream};

    /// A few dozen roundings of numbers of size one.
    const TOLERANCE: f64 = 1e-12;

    fn random(n: usize, seed: u64) -> Vec<f64> {
        let stream = Stream::new(seed, Purpose::Noise, 0);
        let entry = |i: usize, j: usize| stream.normal((i.max(j) * n + i.min(j)) as u64) / (n as f64).sqrt();
        (0..n * n).map(|at| entry(at / n, at % n)).collect()
    }

    #[test]
    fn both_methods_agree_and_eigenvectors_are_eigenvectors() {
        for n in [1, 2, 3, 17, 40] {
            let matrix = random(n, n as u64);
            let (values, vectors) = jacobi(matrix.clone(), n);
            let other = eigenvalues(matrix.clone(), n);
            assert!(values.iter().zip(&other).all(|(a, b)| (a - b).abs() < TOLERANCE), "{values:?} {other:?}");
            for (k, value) in values.iter().enumerate() {
                for i in 0..n {
                    let image: f64 = (0..n).map(|j| matrix[i * n + j] * vectors[j * n + k]).sum();
                    assert!((image - value * vectors[i * n + k]).abs() < TOLERANCE);
                }
            }
        }
    }

    #[test]
    fn many_equal_and_zero_eigenvalues_are_no_trouble() {
        // A star: 1, -1 and zeros. Ones everywhere: n and zeros. Nothing: zeros.
        let n = 9;
        let star = |i: usize, j: usize| if (i == 0) != (j == 0) { 1.0 / (n as f64 - 1.0).sqrt() } else { 0.0 };
        type Entry<'a> = &'a dyn Fn(usize, usize) -> f64;
        let entries: [(Entry<'_>, f64, f64); 3] =
            [(&star, -1.0, 1.0), (&|_, _| 1.0, 0.0, n as f64), (&|_, _| 0.0, 0.0, 0.0)];
        for (entry, lowest, highest) in entries {
            let matrix: Vec<f64> = (0..n * n).map(|at| entry(at / n, at % n)).collect();
            for values in [eigenvalues(matrix.clone(), n), jacobi(matrix.clone(), n).0] {
                let mut expected = vec![0.0; n];
                (expected[0], expected[n - 1]) = (lowest, highest);
                assert!(values.iter().zip(&expected).all(|(a, b)| (a - b).abs() < TOLERANCE), "{values:?}");
            }
        }
    }
}
