//! Eigenvalues of a reversible walk, component by component: all of them where components are small, both ends where
//! they are large.
//!
//! Invariant: the known modes (eigenvalue 1 of every component, -1 of every bipartite one) are taken out by what the
//! graph is, never by how close a computed number comes to +-1.

use super::Options;
use super::components::{Components, Rows};
use super::dense;
use super::horizon::{Interval, Modes};
use super::lanczos::{self, Ends, Limits};
use super::matrix::Matrix;
use harmonia_graph::error::Result;
use harmonia_graph::seed::{Purpose, Stream};
use harmonia_graph::stop::Stop;
use harmonia_graph::watch::Watch;
use rayon::prelude::*;
use serde::Serialize;

/// Flops spent on dense eigenvalues: some ten seconds of two cores.
const DENSE_FLOPS: f64 = 2e10;
/// Components solved between two looks at the stop request.
const GROUP: usize = 512;
/// Components with fewer nodes are solved side by side, larger ones by all threads together.
const SIDE_BY_SIDE: usize = 1 << 15;
/// Element steps (entries gathered, basis elements read) spent on products with one component: some minutes.
const PRODUCT_WORK: usize = 1 << 37;
/// Fewest and most products with one component, whatever its size.
const PRODUCTS: [usize; 2] = [200, 20_000];
/// Vectors of a basis, as memory allows.
const BASIS: [usize; 2] = [12, 60];
/// Two eigenvalues closer than this count as one.
pub const RESOLUTION: f64 = 1e-10;

/// How many different eigenvalues M has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Distinct {
    /// At least so many, told apart to [`RESOLUTION`].
    pub at_least: usize,
    /// Whether there are no more.
    pub all: bool,
}

/// An end of the spectrum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct End {
    /// Best approximation.
    pub value: f64,
    /// An eigenvalue lies no further from it than this.
    pub residual: f64,
    /// Whether the search ended because the residual was small enough.
    pub converged: bool,
}

/// What was found of the spectrum.
#[derive(Clone, Debug, Serialize)]
pub struct Spectrum {
    /// Components whose eigenvalues were all computed.
    pub exact_components: usize,
    /// Components of which Lanczos searched both ends.
    pub searched_components: usize,
    /// Products with the matrix it took, over all components.
    pub products: usize,
    /// An end counts as found when its residual is below this times its distance from +-1.
    pub tolerance: f64,
    /// Eigenvalues 1, one per component.
    pub stationary: usize,
    /// Eigenvalues -1, one per bipartite component.
    pub alternating: usize,
    /// The largest eigenvalue apart from those; `None` where there is no other.
    pub lambda_2: Option<End>,
    /// The smallest eigenvalue apart from those.
    pub lambda_min: Option<End>,
    /// How many different ones there are.
    pub distinct: Distinct,
    /// Everything that is known about the others.
    #[serde(skip)]
    pub modes: Modes,
}

impl Spectrum {
    /// Solves every component.
    ///
    /// # Errors
    /// A stop was asked for.
    pub(super) fn of(
        matrix: &Matrix<'_>,
        components: &Components,
        options: &Options,
        watch: &Watch,
    ) -> Result<Spectrum> {
        let stop = watch.stop();
        let order = components.by_size();
        let dense = densely(&order, components, options.dense_nodes);
        let (small, large) = order.split_at(dense);
        let mut gathered = Gathered::default();
        for (done, group) in small.chunks(GROUP).enumerate() {
            stop.check()?;
            watch.progress("eigenvalues of small components", (done * GROUP) as u64, small.len() as u64);
            let all: Vec<Vec<f64>> = group.par_iter().map(|&c| all_eigenvalues(matrix, components, c)).collect();
            gathered.modes.exact.extend(all.into_iter().flatten());
        }
        let medium = large.partition_point(|&component| components.nodes(component).len() < SIDE_BY_SIDE);
        let (medium, large) = large.split_at(medium);
        for (done, group) in medium.chunks(GROUP).enumerate() {
            watch.progress("ends of the spectrum", (done * GROUP) as u64, medium.len() as u64);
            let ends: Result<Vec<Ends>> = group
                .par_iter()
                .map(|&component| search(matrix, components, component, options, stop, &|_, _| ()))
                .collect();
            ends?.into_iter().for_each(|ends| gathered.add(ends));
        }
        for &component in large {
            let size = components.nodes(component).len();
            let what = format!("ends of the spectrum of {size} nodes");
            let ends = search(matrix, components, component, options, stop, &|done, most| {
                watch.progress(&what, done as u64, most as u64);
            })?;
            gathered.add(ends);
        }
        Ok(gathered.finish(components, dense, options.tolerance))
    }
}

/// How many of the smallest components are solved densely.
fn densely(order: &[usize], components: &Components, most: usize) -> usize {
    let mut flops = 0.0;
    let fits = |&&component: &&usize| {
        let nodes = components.nodes(component).len();
        flops += 2.0 * (nodes as f64).powi(3);
        nodes == 1 || (nodes <= most && flops <= DENSE_FLOPS)
    };
    order.iter().take_while(fits).count()
}

/// Every eigenvalue of one component but the known ones.
fn all_eigenvalues(matrix: &Matrix<'_>, components: &Components, component: usize) -> Vec<f64> {
    let members = components.nodes(component);
    let n = members.len();
    if n == 1 {
        return Vec::new();
    }
    let (csr, degree) = components.extract(matrix, component);
    let local = Matrix::new(&csr, &degree);
    let mut symmetric = vec![0.0; n * n];
    for i in 0..n {
        for (j, weight) in local.row(i) {
            symmetric[i * n + j] = weight / (degree[i] * degree[j]).sqrt();
        }
    }
    let mut values = dense::eigenvalues(symmetric, n);
    values.pop();
    if components.is_bipartite(component) {
        values.remove(0);
    }
    values
}

/// Both ends of one component.
fn search(
    whole: &Matrix<'_>,
    components: &Components,
    component: usize,
    options: &Options,
    stop: &Stop,
    progress: &dyn Fn(usize, usize),
) -> Result<Ends> {
    let start = Stream::new(options.seed, Purpose::DiagnoseStart, component as u32);
    let members = components.nodes(component);
    let limited = |matrix: &Matrix<'_>, known: &[Vec<f64>]| {
        let basis = (options.memory / (8 * matrix.nodes())).clamp(BASIS[0], BASIS[1]);
        let work = matrix.entries() + 4 * basis * matrix.nodes();
        let products = options.products.unwrap_or((PRODUCT_WORK / work).clamp(PRODUCTS[0], PRODUCTS[1]));
        let limits = Limits { basis, products, tolerance: options.tolerance };
        lanczos::ends(matrix, known, limits, start, stop, &|done| progress(done, products))
    };
    // A component that is most of the graph is searched in place: its vectors are zero elsewhere and stay so.
    if members.len() > whole.nodes() / 2 {
        return limited(whole, &components.modes(whole.degree(), component, Rows::Graph));
    }
    let (csr, degree) = components.extract(whole, component);
    limited(&Matrix::new(&csr, &degree), &components.modes(whole.degree(), component, Rows::Component))
}

#[derive(Default)]
struct Gathered {
    modes: Modes,
    ends: Vec<[End; 2]>,
    products: usize,
    searched: usize,
}

impl Gathered {
    fn add(&mut self, ends: Ends) {
        self.products += ends.products;
        self.searched += 1;
        if ends.complete {
            self.modes.exact.extend(ends.ritz.iter().map(|ritz| ritz.value));
            return;
        }
        let [Some(bottom), Some(top)] = [ends.ritz.first(), ends.ritz.last()] else { return };
        self.modes.held.extend(ends.ritz.iter().map(|ritz| Interval::around(ritz.value, ritz.residual)));
        // Of an end that has not converged only what holds for every walk is certain.
        let low = if ends.converged[0] { bottom.value - bottom.residual } else { -1.0 };
        let high = if ends.converged[1] { top.value + top.residual } else { 1.0 };
        self.modes.within.push(Interval { low: low.max(-1.0), high: high.min(1.0) });
        let end = |ritz: &lanczos::Ritz, converged| End { value: ritz.value, residual: ritz.residual, converged };
        self.ends.push([end(bottom, ends.converged[0]), end(top, ends.converged[1])]);
    }

    fn finish(self, components: &Components, dense: usize, tolerance: f64) -> Spectrum {
        let exact = |value: &f64| End { value: *value, residual: 0.0, converged: true };
        let below = |a: &End, b: &End| a.value.total_cmp(&b.value);
        let bottoms = self.modes.exact.iter().map(exact).chain(self.ends.iter().map(|ends| ends[0]));
        let tops = self.modes.exact.iter().map(exact).chain(self.ends.iter().map(|ends| ends[1]));
        let (lambda_min, lambda_2) = (bottoms.min_by(below), tops.max_by(below));
        let alternating = components.bipartite();
        Spectrum {
            exact_components: dense,
            searched_components: self.searched,
            products: self.products,
            tolerance,
            stationary: components.count(),
            alternating,
            lambda_2,
            lambda_min,
            distinct: distinct(&self.modes, alternating > 0),
            modes: self.modes,
        }
    }
}

/// Every interval holds an eigenvalue, so there are at least as many as intervals that do not touch each other; taking
/// those that end first finds the most of them.
fn distinct(modes: &Modes, alternating: bool) -> Distinct {
    let known = [Some(1.0), alternating.then_some(-1.0)].into_iter().flatten();
    let point = |value: f64| Interval { low: value - RESOLUTION / 2.0, high: value + RESOLUTION / 2.0 };
    let mut held: Vec<Interval> = known.chain(modes.exact.iter().copied()).map(point).collect();
    held.extend(&modes.held);
    held.sort_by(|a, b| a.high.total_cmp(&b.high));
    let (mut at_least, mut covered) = (0, f64::NEG_INFINITY);
    for interval in held {
        if interval.low > covered {
            (at_least, covered) = (at_least + 1, interval.high);
        }
    }
    Distinct { at_least, all: modes.within.is_empty() }
}
