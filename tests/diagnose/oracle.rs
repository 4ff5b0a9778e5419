//! What `diagnose` finds, of a graph of a few dozen nodes, by dense matrices.

use harmonia::graph::{Graph, Transition, Walk};

/// Dense and by other means than the library: powers by products, norms by power iteration, gamma by inverse iteration.
pub struct Oracle {
    n: usize,
    /// M^t
    powers: Vec<Vec<f64>>,
    degree: Vec<f64>,
}

impl Oracle {
    pub fn new(graph: &Graph, walk: Walk, hops: usize) -> Oracle {
        let transition = Transition::new(graph, walk);
        let n = transition.nodes();
        let mut m = vec![0.0; n * n];
        for i in 0..n {
            for (j, weight) in transition.matrix().row_entries(i) {
                m[i * n + j] = f64::from(weight) / transition.degree()[i];
            }
        }
        let mut powers: Vec<Vec<f64>> = vec![(0..n * n).map(|at| f64::from(u8::from(at / n == at % n))).collect()];
        for t in 1..hops {
            powers.push(product(&powers[t - 1], &m, n));
        }
        Oracle { n, powers, degree: transition.degree().to_vec() }
    }

    pub fn gram(&self, s: usize, t: usize) -> f64 {
        self.powers[s].iter().zip(&self.powers[t]).map(|(a, b)| a * b).sum()
    }

    /// || M^{t+1} - M^t || weighted by degrees: the largest singular value of D^1/2 (...) D^-1/2.
    pub fn distance(&self, t: usize) -> f64 {
        let n = self.n;
        let scale = |at: usize| (self.degree[at / n] / self.degree[at % n]).sqrt();
        let matrix = (0..n * n).map(|at| (self.powers[t + 1][at] - self.powers[t][at]) * scale(at)).collect();
        operator_norm(matrix, n)
    }

    /// || M - 1 pi^T || in the same norm.
    pub fn rho(&self) -> f64 {
        let n = self.n;
        let total: f64 = self.degree.iter().sum();
        let scale = |at: usize| (self.degree[at / n] / self.degree[at % n]).sqrt();
        let matrix = (0..n * n).map(|at| (self.powers[1][at] - self.degree[at % n] / total) * scale(at)).collect();
        operator_norm(matrix, n)
    }

    /// The smallest eigenvalue of G on changes that sum to zero: the direction that does not is made the largest.
    pub fn gamma(&self, hops: usize) -> f64 {
        let n = hops;
        let mean = |s: usize| (0..n).map(|t| self.gram(s, t)).sum::<f64>() / n as f64;
        let all = (0..n).map(mean).sum::<f64>() / n as f64;
        let entry = |at: usize| {
            let (s, t) = (at / n, at % n);
            self.gram(s, t) - mean(s) - mean(t) + all + 1e3 * self.n as f64
        };
        let matrix: Vec<f64> = (0..n * n).map(entry).collect();
        let mut vector: Vec<f64> = (0..n).map(|i| (1.0 + i as f64).sin()).collect();
        let mut value = 0.0;
        for _ in 0..500 {
            let next = solve(matrix.clone(), vector.clone());
            let length = next.iter().map(|x| x * x).sum::<f64>().sqrt();
            vector = next.iter().map(|x| x / length).collect();
            value = 1.0 / length;
        }
        value.sqrt()
    }
}

fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    (0..n * n).map(|at| (0..n).map(|k| a[at / n * n + k] * b[k * n + at % n]).sum()).collect()
}

/// By repeated squaring of B^T B: the trace of a high power is the largest eigenvalue to that power.
fn operator_norm(b: Vec<f64>, n: usize) -> f64 {
    let transposed: Vec<f64> = (0..n * n).map(|at| b[at % n * n + at / n]).collect();
    let mut matrix = product(&transposed, &b, n);
    let (mut logarithm, mut power) = (0.0, 1.0);
    for _ in 0..24 {
        let size = matrix.iter().fold(0.0, |size: f64, x| size.max(x.abs()));
        if size == 0.0 {
            return 0.0;
        }
        matrix.iter_mut().for_each(|x| *x /= size);
        logarithm += size.ln() / power;
        matrix = product(&matrix, &matrix, n);
        power *= 2.0;
    }
    let trace: f64 = (0..n).map(|i| matrix[i * n + i]).sum();
    ((logarithm + trace.ln() / power) / 2.0).exp()
}

/// Gauss with pivots.
fn solve(mut a: Vec<f64>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| a[i * n + k].abs().total_cmp(&a[j * n + k].abs())).unwrap();
        (0..n).for_each(|j| a.swap(k * n + j, pivot * n + j));
        b.swap(k, pivot);
        for i in k + 1..n {
            let factor = a[i * n + k] / a[k * n + k];
            (k..n).for_each(|j| a[i * n + j] -= factor * a[k * n + j]);
            b[i] -= factor * b[k];
        }
    }
    for k in (0..n).rev() {
        let rest: f64 = (k + 1..n).map(|j| a[k * n + j] * b[j]).sum();
        b[k] = (b[k] - rest) / a[k * n + k];
    }
    b
}
