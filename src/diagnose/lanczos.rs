//! Both ends of the spectrum of S = D^-1/2 A D^-1/2 on one component: Lanczos with full reorthogonalisation and thick
//! restarts (Wu and Simon 2000).
//!
//! The Krylov space of a random vector is spanned by an orthonormal basis V with S V = V H + beta v e^T. An eigenpair
//! (value, y) of the small matrix H gives the Ritz vector V y, whose residual has length beta |last entry of y|;
//! since S is symmetric, an eigenvalue of S lies no further than that from the Ritz value. When the basis is full,
//! the Ritz vectors at both ends are kept and the rest is given up. Eigenvectors that are known in advance are held
//! in front of the basis, where reorthogonalisation keeps everything else apart from them.
//!
//! What is certain: every Ritz value has an eigenvalue within its residual. What is true with probability one, by the
//! random start: a converged end is the end of the spectrum, and a Krylov space that closes has met every eigenvalue.

use super::basis::{Basis, norm};
use super::dense;
use super::matrix::Matrix;
use harmonia_graph::error::Result;
use harmonia_graph::seed::Stream;
use harmonia_graph::stop::Stop;
use rayon::prelude::*;

/// A new direction shorter than this is rounding: the space is closed under S, whose norm is 1.
const CLOSED: f64 = 1e-12;
/// No residual is believed to be smaller.
const ROUNDING: f64 = 1e-13;
/// Products between two looks at convergence before the first restart.
const LOOK: usize = 10;

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Vectors of the basis.
    pub basis: usize,
    /// Products with S.
    pub products: usize,
    /// An end has converged when its residual is below this times its distance from +-1.
    pub tolerance: f64,
}

/// An approximate eigenvalue; a true one lies within `residual` of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ritz {
    pub value: f64,
    pub residual: f64,
}

/// What was found of the spectrum apart from the known modes.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    /// Ascending.
    pub ritz: Vec<Ritz>,
    /// Whether these are all distinct eigenvalues.
    pub complete: bool,
    /// Whether the lower and the upper end have converged.
    pub converged: [bool; 2],
    /// Products with S.
    pub products: usize,
}

/// Searches the component on which `known[0]`, its stationary vector, is not zero.
///
/// # Errors
/// A stop was asked for.
pub(super) fn ends(
    matrix: &Matrix<'_>,
    known: &[Vec<f64>],
    limits: Limits,
    start: Stream,
    stop: &Stop,
    progress: &dyn Fn(usize),
) -> Result<Ends> {
    let size = known[0].iter().filter(|value| **value != 0.0).count();
    let room = size - known.len();
    let most = limits.basis.min(room);
    if most == 0 {
        return Ok(Ends { ritz: Vec::new(), complete: true, converged: [true; 2], products: 0 });
    }
    let ahead = known.len();
    let mut basis = Basis::new(matrix.nodes(), ahead + most);
    known.iter().enumerate().for_each(|(column, vector)| basis.set(column, vector, 1.0));
    let mut operator = Symmetric::new(*matrix);
    let mut vector: Vec<f64> = (0..matrix.nodes()).into_par_iter().map(|i| start.normal(i as u64)).collect();
    vector.par_iter_mut().zip(&known[0]).filter(|(_, known)| **known == 0.0).for_each(|(value, _)| *value = 0.0);
    basis.orthogonalise(ahead, &mut vector);
    let mut projected = vec![0.0; most * most];
    let (mut count, mut products, mut restarts, mut beta) = (0, 0, 0, norm(&vector));
    loop {
        stop.check()?;
        vector.par_iter_mut().for_each(|value| *value /= beta);
        basis.set(ahead + count, &vector, 1.0);
        vector = operator.apply(vector);
        let taken = basis.orthogonalise(ahead + count + 1, &mut vector);
        for (i, &taken) in taken[ahead..].iter().enumerate() {
            (projected[i * most + count], projected[count * most + i]) = (taken, taken);
        }
        beta = norm(&vector);
        count += 1;
        products += 1;
        progress(products);
        let closed = beta <= CLOSED || count == room;
        let last = closed || products >= limits.products;
        let look = count == most || (restarts == 0 && count.is_multiple_of(LOOK));
        if !(last || look) {
            continue;
        }
        let small = (0..count * count).map(|at| projected[at / count * most + at % count]).collect();
        let (values, vectors) = dense::jacobi(small, count);
        let residual = |i: usize| if closed { 0.0 } else { beta * vectors[(count - 1) * count + i].abs() };
        let ritz: Vec<Ritz> =
            values.iter().enumerate().map(|(i, &value)| Ritz { value, residual: residual(i).max(ROUNDING) }).collect();
        let good = |ritz: &Ritz| ritz.residual <= (limits.tolerance * (1.0 - ritz.value.abs())).max(CLOSED);
        let converged = [good(&ritz[0]), good(&ritz[count - 1])];
        if last || converged == [true; 2] {
            return Ok(Ends { ritz, complete: closed && restarts == 0, converged, products });
        }
        if count < most {
            continue;
        }
        // A quarter from each end stays: enough for the ends to go on converging, and room for as many new directions.
        let side = (most / 4).max(1);
        let kept: Vec<usize> = (0..side).chain(count - side..count).collect();
        let mixture = |&i: &usize| (0..count).map(|row| vectors[row * count + i]).collect();
        basis.mix(ahead, &kept.iter().map(mixture).collect::<Vec<Vec<f64>>>());
        projected.fill(0.0);
        kept.iter().enumerate().for_each(|(at, &i)| projected[at * most + at] = values[i]);
        (count, restarts) = (kept.len(), restarts + 1);
    }
}

/// x -> S x.
struct Symmetric<'a> {
    matrix: Matrix<'a>,
    /// 1 / sqrt(degree)
    scale: Vec<f64>,
    scaled: Vec<[f64; 1]>,
    image: Vec<[f64; 1]>,
}

impl<'a> Symmetric<'a> {
    fn new(matrix: Matrix<'a>) -> Self {
        let scale = matrix.degree().par_iter().map(|degree| 1.0 / degree.sqrt()).collect();
        Symmetric { matrix, scale, scaled: vec![[0.0]; matrix.nodes()], image: vec![[0.0]; matrix.nodes()] }
    }

    fn apply(&mut self, mut vector: Vec<f64>) -> Vec<f64> {
        let pairs = self.scaled.par_iter_mut().zip(&self.scale).zip(&vector);
        pairs.for_each(|((to, scale), value)| *to = [scale * value]);
        self.matrix.gather(&self.scale, &self.scaled, &mut self.image);
        vector.par_iter_mut().zip(&self.image).for_each(|(to, [from])| *to = *from);
        vector
    }
}
