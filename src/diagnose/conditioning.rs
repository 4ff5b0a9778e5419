//! How well hop weights can be told apart: the Gram matrix of walk powers, gamma_T, and whether they are independent.
//!
//! `G[s,t]` = <M^s, M^t>_F = sum_j <M^s e_j, M^t e_j>. M is not symmetric, so this is not tr M^{s+t}. A block-diagonal
//! walk adds up over its components: those that are cheap are summed over all unit vectors e_j, the others are
//! estimated by random signs z (Hutchinson), E <M^s z, M^t z> = <M^s, M^t>_F. gamma_T^2 is the smallest eigenvalue of
//! G on vectors that sum to zero. Error bars are those of the delete-one jackknife over the probes, its estimate of
//! the bias included.
//!
//! Invariant: sums are taken over fixed stretches that are added in order, so results do not depend on threads.

use super::Options;
use super::components::Components;
use super::dense;
use super::matrix::Matrix;
use super::spectrum::Distinct;
use harmonia_graph::error::Result;
use harmonia_graph::seed::{Purpose, Stream};
use harmonia_graph::stop::Stop;
use harmonia_graph::watch::Watch;
use rayon::prelude::*;
use serde::Serialize;

/// Columns walked at once: a cache line of states.
const LANES: usize = 8;
/// Rows of a stretch: with a few hops in f64 it fits the cache of a core.
const ROWS: usize = 512;
/// Tasks that unit vectors are shared out to.
const TASKS: usize = 64;
/// An eigenvalue of G that is smaller than this share of the largest is rounding.
const ROUNDING: f64 = 1e-13;

/// A number and its standard error; 0 where it was computed exactly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Exact, but for rounding, where `error` is 0.
    pub value: f64,
    /// Standard error.
    pub error: f64,
}

/// Whether I, M, ..., M^{T-1} are linearly independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// They are: every operator has one set of hop weights.
    Independent,
    /// They are not: some operator has several.
    Dependent,
    /// Neither was shown.
    Undecided,
}

/// The verdict and what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Independence {
    /// For the powers below T of the walk of this diagnosis.
    pub verdict: Verdict,
    /// What it rests on.
    pub reason: String,
}

/// The geometry of the powers of a walk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conditioning {
    /// T.
    pub hops: usize,
    /// Nodes whose part of G was computed exactly.
    pub exact_nodes: usize,
    /// Random probes for the others; 0 where there are none.
    pub probes: usize,
    /// G, T x T.
    pub gram: Vec<Vec<f64>>,
    /// gamma_T; `None` for T = 1, which has nothing to tell apart.
    pub gamma: Option<Estimate>,
    /// gamma_T / sqrt(n): what a change of one in the hop weights does to the operator, a node.
    pub gamma_per_node: Option<Estimate>,
    /// What rounding leaves of gamma: smaller values mean nothing.
    pub gamma_floor: f64,
    /// gamma_2, gamma_3, ..., gamma_T.
    pub gamma_by_hops: Vec<Estimate>,
    /// || M^{t+1} - M^t ||_F for t = 0, ..., T - 2; holds for any walk.
    pub frobenius: Vec<Estimate>,
    /// Smallest eigenvalue of G as a share of the largest.
    pub smallest_share: f64,
}

impl Conditioning {
    /// Computes or estimates G.
    ///
    /// # Errors
    /// A stop was asked for.
    pub(super) fn of(
        matrix: &Matrix<'_>,
        components: &Components,
        options: &Options,
        watch: &Watch,
    ) -> Result<Conditioning> {
        let hops = options.hops;
        let mut exact = vec![0.0; hops * hops];
        let mut probed = vec![true; matrix.nodes()];
        let order = components.by_size();
        let (mut work, mut exact_nodes) = (0, 0);
        let affordable = |&&component: &&usize| {
            let members = components.nodes(component);
            let entries: u64 = members.iter().map(|&i| matrix.row(i as usize).len() as u64).sum();
            let (n, t) = (members.len() as u64, hops as u64);
            work += n * (entries * (t - 1) + n * t * (t + 1) / 2);
            n == 1 || work <= options.exact_work
        };
        let stop = watch.stop();
        let cheap = order.iter().take_while(affordable).count();
        for (done, group) in order[..cheap].chunks(TASKS).enumerate() {
            watch.progress("walks from every node", (done * TASKS) as u64, cheap as u64);
            let parts: Result<Vec<Vec<f64>>> =
                group.par_iter().map(|&c| exactly(matrix, components, c, hops, stop)).collect();
            parts?.iter().for_each(|part| add(&mut exact, part));
            for &component in group {
                exact_nodes += components.nodes(component).len();
                components.nodes(component).iter().for_each(|&i| probed[i as usize] = false);
            }
        }
        let estimates = if cheap == order.len() {
            Vec::new()
        } else {
            let states = options.memory / (8 * hops * matrix.nodes());
            match states {
                LANES.. => estimated::<LANES>(matrix, &probed, options, watch)?,
                4.. => estimated::<4>(matrix, &probed, options, watch)?,
                2.. => estimated::<2>(matrix, &probed, options, watch)?,
                _ => estimated::<1>(matrix, &probed, options, watch)?,
            }
        };
        Ok(Conditioning::finish(matrix.nodes(), hops, exact_nodes, exact, &estimates))
    }

    fn finish(nodes: usize, hops: usize, exact_nodes: usize, exact: Vec<f64>, estimates: &[Vec<f64>]) -> Conditioning {
        let gram = mean(&exact, estimates, None);
        let probes = estimates.len();
        let measure = |gram: &[f64]| {
            let mut values: Vec<f64> = (2..=hops).map(|upto| gamma(gram, hops, upto)).collect();
            values.extend((1..hops).map(|t| difference(gram, hops, t)));
            values
        };
        let without: Vec<Vec<f64>> =
            (0..probes).into_par_iter().map(|probe| measure(&mean(&exact, estimates, Some(probe)))).collect();
        let estimate = |(at, value): (usize, f64)| {
            let error = jackknife(value, without.iter().map(|values| values[at]));
            Estimate { value, error }
        };
        let mut gamma_by_hops: Vec<Estimate> = measure(&gram).into_iter().enumerate().map(estimate).collect();
        let frobenius = gamma_by_hops.split_off(hops - 1);
        let gamma = gamma_by_hops.last().copied();
        let root = (nodes as f64).sqrt();
        let (values, _) = dense::jacobi(gram.clone(), hops);
        let largest = values[hops - 1].max(f64::MIN_POSITIVE);
        Conditioning {
            hops,
            exact_nodes,
            probes,
            gamma,
            gamma_per_node: gamma.map(|g| Estimate { value: g.value / root, error: g.error / root }),
            gamma_floor: (ROUNDING * largest).sqrt(),
            gamma_by_hops,
            frobenius,
            smallest_share: values[0].max(0.0) / largest,
            gram: gram.chunks_exact(hops).map(<[f64]>::to_vec).collect(),
        }
    }

    /// Whether the walk powers are independent. Reversible walks are diagonalisable, so that the number of different
    /// eigenvalues decides; else G does. For probes z, too, a G that is not singular is proof: a combination of walk
    /// powers that is zero would take every z to zero.
    pub fn independence(&self, distinct: Option<Distinct>) -> Independence {
        let hops = self.hops;
        let judged = |verdict, reason: String| Independence { verdict, reason };
        match distinct {
            Some(Distinct { at_least, all }) if at_least >= hops => {
                let many = if all { "" } else { "at least " };
                return judged(
                    Verdict::Independent,
                    format!("M has {many}{at_least} different eigenvalues, T is {hops}"),
                );
            }
            Some(Distinct { at_least, all: true }) => {
                return judged(Verdict::Dependent, format!("M has only {at_least} different eigenvalues, T is {hops}"));
            }
            _ => {}
        }
        let share = self.smallest_share;
        if hops == 1 || share > ROUNDING {
            return judged(
                Verdict::Independent,
                format!("the smallest eigenvalue of the Gram matrix is {share:.1e} of the largest, far above rounding"),
            );
        }
        let reason = "the Gram matrix is singular up to rounding".to_string();
        judged(if self.probes == 0 { Verdict::Dependent } else { Verdict::Undecided }, reason)
    }
}

/// G of one component, over all its unit vectors.
fn exactly(
    whole: &Matrix<'_>,
    components: &Components,
    component: usize,
    hops: usize,
    stop: &Stop,
) -> Result<Vec<f64>> {
    let n = components.nodes(component).len();
    if n == 1 {
        // The walk stays: every power is 1.
        return Ok(vec![1.0; hops * hops]);
    }
    let (csr, degree) = components.extract(whole, component);
    let matrix = Matrix::new(&csr, &degree);
    let inverse: Vec<f64> = degree.iter().map(|degree| 1.0 / degree).collect();
    let blocks = n.div_ceil(LANES);
    let tasks = blocks.min(TASKS);
    let task = |task: usize| -> Result<Vec<f64>> {
        let mut states = vec![vec![[0.0; LANES]; n]; hops];
        let mut gram = vec![0.0; hops * hops];
        for block in blocks * task / tasks..blocks * (task + 1) / tasks {
            stop.check()?;
            states[0].fill([0.0; LANES]);
            (0..LANES)
                .filter(|lane| block * LANES + lane < n)
                .for_each(|lane| states[0][block * LANES + lane][lane] = 1.0);
            walk(&matrix, &inverse, &mut states, stop, &|| ())?;
            let pairs = pairs(&states);
            add(&mut gram, &pairs.iter().map(|lanes| lanes.iter().sum()).collect::<Vec<f64>>());
        }
        Ok(gram)
    };
    let parts: Result<Vec<Vec<f64>>> = (0..tasks).into_par_iter().map(task).collect();
    let mut gram = vec![0.0; hops * hops];
    parts?.iter().for_each(|part| add(&mut gram, part));
    Ok(gram)
}

/// G of every probe, on the nodes that are probed.
fn estimated<const W: usize>(
    matrix: &Matrix<'_>,
    probed: &[bool],
    options: &Options,
    watch: &Watch,
) -> Result<Vec<Vec<f64>>> {
    /// Signs in a random word.
    const SIGNS: usize = 32;
    let (hops, probes) = (options.hops, options.probes);
    let inverse: Vec<f64> = matrix.degree().par_iter().map(|degree| 1.0 / degree).collect();
    let mut states = vec![vec![[0.0; W]; matrix.nodes()]; hops];
    let mut grams = Vec::with_capacity(probes);
    for first in (0..probes).step_by(W) {
        // Lanes divide a word, so those of a group have their signs in the same word.
        let stream = Stream::new(options.seed, Purpose::DiagnoseProbes, (first / SIGNS) as u32);
        states[0].par_iter_mut().enumerate().for_each(|(i, state)| {
            let word = if probed[i] { stream.bits(i as u64) >> (first % SIGNS) } else { 0 };
            *state = std::array::from_fn(|lane| match (probed[i], word >> lane & 1) {
                (false, _) => 0.0,
                (true, 0) => 1.0,
                (true, _) => -1.0,
            });
        });
        let step = std::cell::Cell::new(0);
        walk(matrix, &inverse, &mut states, watch.stop(), &|| {
            step.set(step.get() + 1);
            watch.progress("random probes", (first / W * hops + step.get()) as u64, (probes.div_ceil(W) * hops) as u64);
        })?;
        let pairs = pairs(&states);
        let lanes = W.min(probes - first);
        grams.extend((0..lanes).map(|lane| pairs.iter().map(|lanes| lanes[lane]).collect::<Vec<f64>>()));
    }
    Ok(grams)
}

/// states[t] = M states[t - 1].
fn walk<const W: usize>(
    matrix: &Matrix<'_>,
    inverse: &[f64],
    states: &mut [Vec<[f64; W]>],
    stop: &Stop,
    stepped: &dyn Fn(),
) -> Result<()> {
    for t in 1..states.len() {
        stop.check()?;
        let (from, to) = states.split_at_mut(t);
        matrix.gather(inverse, &from[t - 1], &mut to[0]);
        stepped();
    }
    Ok(())
}

/// <states[s], states[t]> of every lane, T x T.
fn pairs<const W: usize>(states: &[Vec<[f64; W]>]) -> Vec<[f64; W]> {
    let hops = states.len();
    let rows = states[0].len();
    let stretch = |start: usize| {
        let end = (start * ROWS + ROWS).min(rows);
        let mut sums = vec![[0.0; W]; hops * hops];
        for s in 0..hops {
            for t in s..hops {
                let sum = &mut sums[s * hops + t];
                for (a, b) in states[s][start * ROWS..end].iter().zip(&states[t][start * ROWS..end]) {
                    (0..W).for_each(|lane| sum[lane] += a[lane] * b[lane]);
                }
            }
        }
        sums
    };
    let parts: Vec<Vec<[f64; W]>> = (0..rows.div_ceil(ROWS)).into_par_iter().map(stretch).collect();
    let mut sums = vec![[0.0; W]; hops * hops];
    for part in &parts {
        for (sum, part) in sums.iter_mut().zip(part) {
            (0..W).for_each(|lane| sum[lane] += part[lane]);
        }
    }
    for s in 0..hops {
        (0..s).for_each(|t| sums[s * hops + t] = sums[t * hops + s]);
    }
    sums
}

fn add(to: &mut [f64], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// The exact part and the mean over the probes but one.
fn mean(exact: &[f64], estimates: &[Vec<f64>], without: Option<usize>) -> Vec<f64> {
    let mut sums = vec![0.0; exact.len()];
    let taken = || estimates.iter().enumerate().filter(|(probe, _)| Some(*probe) != without);
    taken().for_each(|(_, gram)| add(&mut sums, gram));
    let count = taken().count().max(1) as f64;
    exact.iter().zip(sums).map(|(exact, sum)| exact + sum / count).collect()
}

/// Standard error of an estimate, from the estimates that leave out one probe each; its bias counts as error.
fn jackknife(value: f64, without: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = without.len() as f64;
    if count < 2.0 {
        return 0.0;
    }
    let mean = without.clone().sum::<f64>() / count;
    let variance = (count - 1.0) / count * without.map(|one| (one - mean).powi(2)).sum::<f64>();
    let bias = (count - 1.0) * (mean - value);
    (variance + bias * bias).sqrt()
}

/// gamma of the first `upto` walk lengths: on the orthonormal directions (1, ..., 1, -k, 0, ...) / sqrt(k (k + 1)),
/// which span all changes that keep the sum.
fn gamma(gram: &[f64], hops: usize, upto: usize) -> f64 {
    let direction = |k: usize, t: usize| {
        let length = ((k * (k + 1)) as f64).sqrt();
        match t.cmp(&k) {
            std::cmp::Ordering::Less => 1.0 / length,
            std::cmp::Ordering::Equal => -(k as f64) / length,
            std::cmp::Ordering::Greater => 0.0,
        }
    };
    let size = upto - 1;
    let mut half = vec![0.0; size * upto];
    for k in 0..size {
        for t in 0..upto {
            half[k * upto + t] = (0..upto).map(|s| direction(k + 1, s) * gram[s * hops + t]).sum();
        }
    }
    let entry = |at: usize| {
        let (k, l) = (at / size, at % size);
        (0..upto).map(|t| half[k * upto + t] * direction(l + 1, t)).sum()
    };
    let (values, _) = dense::jacobi((0..size * size).map(entry).collect(), size);
    values[0].max(0.0).sqrt()
}

/// || M^t - M^{t-1} ||_F
fn difference(gram: &[f64], hops: usize, t: usize) -> f64 {
    let entry = |s: usize, t: usize| gram[s * hops + t];
    (entry(t, t) - 2.0 * entry(t, t - 1) + entry(t - 1, t - 1)).max(0.0).sqrt()
}
