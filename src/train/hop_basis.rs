//! A basis of walk lengths in which an optimizer sees independent directions.
//!
//! What a feature brings at t and at t + 2 steps is nearly the same column, and free weights of nearly equal columns move
//! together for thousands of steps. So theta is learned as U alpha, where U makes the columns orthogonal over the units of
//! the dataset: with K[s,t] the inner products of hops s and t of some random combinations of features, centred,
//! K = L L' and U = L'^-1. Training alone sees alpha; a model that is saved has theta.

use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::graph::{NodeWeights, Transition, Walk};
use harmonia_graph::seed::{Purpose, Stream};
use rayon::prelude::*;

/// Random combinations of features that hops are compared by.
const PROBES: usize = 8;
/// Added to K, as a share of its largest diagonal element: directions that hold less are not blown up.
const RIDGE: f64 = 1e-5;

/// U, T x T, upper triangular.
pub fn orthogonal(dataset: &Dataset, walk: Walk, hops: usize) -> Vec<f64> {
    let transition = Transition::new(&dataset.graph, walk);
    let probes = probes(dataset);
    let columns = match dataset.level {
        Level::Graph => of_graphs(dataset, &NodeWeights::new(&transition, hops), &probes),
        Level::Node => of_nodes(&transition, hops, probes),
    };
    inverse_transpose(&cholesky(gram(&columns), hops), hops)
}

/// alpha (T x d) such that U alpha = theta.
pub fn coordinates(basis: &[f64], theta: &[f32], features: usize) -> Vec<f32> {
    let hops = theta.len() / features;
    let mut alpha = vec![0.0f32; theta.len()];
    for k in 0..features {
        for t in (0..hops).rev() {
            let known: f64 = (t + 1..hops).map(|u| basis[t * hops + u] * f64::from(alpha[u * features + k])).sum();
            alpha[t * features + k] = ((f64::from(theta[t * features + k]) - known) / basis[t * hops + t]) as f32;
        }
    }
    alpha
}

/// theta = U alpha, T x d.
pub fn weights(basis: &[f64], alpha: &[f32], features: usize) -> Vec<f32> {
    let hops = alpha.len() / features;
    let theta = |at: usize| {
        let (t, k) = (at / features, at % features);
        (t..hops).map(|u| basis[t * hops + u] * f64::from(alpha[u * features + k])).sum::<f64>() as f32
    };
    (0..alpha.len()).map(theta).collect()
}

/// Every node's features, each with a random sign, added up: n x PROBES.
fn probes(dataset: &Dataset) -> Vec<f64> {
    let features = &dataset.features;
    let stream = Stream::new(0, Purpose::HopBasis, 0);
    let signs: Vec<f64> =
        (0..features.cols * PROBES).map(|at| if stream.uniform(at as u64) < 0.5 { -1.0 } else { 1.0 }).collect();
    (0..features.rows)
        .into_par_iter()
        .flat_map_iter(|i| {
            let mut scratch = Vec::new();
            let mut sums = [0.0; PROBES];
            for (&x, signs) in features.row(i, &mut scratch).iter().zip(signs.chunks_exact(PROBES)) {
                sums.iter_mut().zip(signs).for_each(|(sum, sign)| *sum += sign * f64::from(x));
            }
            sums
        })
        .collect()
}

/// One column per hop, over graphs and probes: what the sum readout sees of them.
fn of_graphs(dataset: &Dataset, weights: &NodeWeights, probes: &[f64]) -> Vec<Vec<f64>> {
    let hops = weights.hops();
    let sum = |t: usize, graph: usize| {
        let mut sums = [0.0; PROBES];
        for j in dataset.graph_nodes(graph) {
            let weight = weights.values()[j * hops + t];
            sums.iter_mut().zip(&probes[j * PROBES..]).for_each(|(sum, probe)| *sum += weight * probe);
        }
        sums
    };
    (0..hops).map(|t| (0..dataset.graphs()).flat_map(|graph| sum(t, graph)).collect()).collect()
}

/// One column per hop, over nodes and probes: M^t probes.
fn of_nodes(transition: &Transition, hops: usize, probes: Vec<f64>) -> Vec<Vec<f64>> {
    let mut columns = vec![probes];
    while columns.len() < hops {
        let state = &columns[columns.len() - 1];
        let row = |i: usize| {
            let mut sums = [0.0; PROBES];
            for (j, weight) in transition.matrix().row_entries(i) {
                let share = f64::from(weight) / transition.degree()[i];
                sums.iter_mut().zip(&state[j * PROBES..]).for_each(|(sum, value)| *sum += share * value);
            }
            sums
        };
        let next = (0..transition.nodes()).into_par_iter().flat_map_iter(row).collect();
        columns.push(next);
    }
    columns
}

/// Inner products of columns (units x PROBES), each probe centred, over the number of units.
fn gram(columns: &[Vec<f64>]) -> Vec<f64> {
    let units = columns[0].len() / PROBES;
    let centred: Vec<Vec<f64>> = (columns.iter())
        .map(|column| {
            let mean = |probe: usize| column.iter().skip(probe).step_by(PROBES).sum::<f64>() / units as f64;
            let means: [f64; PROBES] = std::array::from_fn(mean);
            column.iter().enumerate().map(|(at, value)| value - means[at % PROBES]).collect()
        })
        .collect();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / units as f64;
    centred.iter().flat_map(|a| centred.iter().map(|b| product(a, b)).collect::<Vec<_>>()).collect()
}

/// L of K scaled to a largest diagonal element of one, with the ridge; a K of zeros counts as the identity.
fn cholesky(mut gram: Vec<f64>, hops: usize) -> Vec<f64> {
    let largest = (0..hops).map(|t| gram[t * hops + t]).fold(0.0, f64::max);
    let scale = if largest > 0.0 { 1.0 / largest } else { 0.0 };
    gram.iter_mut().for_each(|value| *value *= scale);
    (0..hops).for_each(|t| gram[t * hops + t] += if scale > 0.0 { RIDGE } else { 1.0 });
    let mut lower = vec![0.0; hops * hops];
    for i in 0..hops {
        for j in 0..=i {
            let known: f64 = (0..j).map(|u| lower[i * hops + u] * lower[j * hops + u]).sum();
            let rest = gram[i * hops + j] - known;
            lower[i * hops + j] = if i == j { rest.max(RIDGE).sqrt() } else { rest / lower[j * hops + j] };
        }
    }
    lower
}

/// L'^-1 of a lower triangular L.
fn inverse_transpose(lower: &[f64], hops: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; hops * hops];
    for column in 0..hops {
        for row in column..hops {
            let known: f64 = (column..row).map(|u| lower[row * hops + u] * inverse[column * hops + u]).sum();
            let unit = if row == column { 1.0 } else { 0.0 };
            // Stored transposed: [column][row] of L^-1' is [row][column] of L^-1.
            inverse[column * hops + row] = (unit - known) / lower[row * hops + row];
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::dataset::{Features, Labels};
    use harmonia_graph::graph::{Direction, Graph, Split};

    /// Rings of 4 to 13 nodes with a tail, and two features.
    fn dataset(level: Level) -> Dataset {
        let (mut edges, mut graph_ptr) = (Vec::new(), vec![0]);
        for ring in 4..14u32 {
            let first = *graph_ptr.last().unwrap() as u32;
            edges.extend((0..ring).map(|i| (first + i, first + (i + 1) % ring)));
            edges.push((first, first + ring));
            graph_ptr.push((first + ring + 1) as usize);
        }
        let nodes = *graph_ptr.last().unwrap();
        let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
        let features = Features::new(nodes, 2, (0..2 * nodes).map(|at| (at * at % 7) as f32).collect()).unwrap();
        let units = if level == Level::Node { nodes } else { 10 };
        let labels = Labels::Classes { ids: (0..units as u32).map(|i| i % 2).collect(), classes: 2 };
        let split = Split { train: (0..units as u32).collect(), ..Split::default() };
        Dataset::new("rings", graph, graph_ptr, features, labels, level, split).unwrap()
    }

    #[test]
    fn hops_are_orthogonal_in_the_basis() {
        let hops = 4;
        for level in [Level::Node, Level::Graph] {
            let dataset = dataset(level);
            let basis = orthogonal(&dataset, Walk::default(), hops);
            let transition = Transition::new(&dataset.graph, Walk::default());
            let columns = match level {
                Level::Graph => of_graphs(&dataset, &NodeWeights::new(&transition, hops), &probes(&dataset)),
                Level::Node => of_nodes(&transition, hops, probes(&dataset)),
            };
            let mixed: Vec<Vec<f64>> = (0..hops)
                .map(|u| {
                    (0..columns[0].len())
                        .map(|at| (0..hops).map(|t| columns[t][at] * basis[t * hops + u]).sum())
                        .collect()
                })
                .collect();
            let (before, after) = (correlations(&gram(&columns), hops), correlations(&gram(&mixed), hops));
            assert!(before > 0.5 && after < 0.05, "{level:?}: {before} became {after}");
        }
    }

    /// The largest correlation between two different hops.
    fn correlations(gram: &[f64], hops: usize) -> f64 {
        let at = |s: usize, t: usize| gram[s * hops + t];
        let pairs = (0..hops).flat_map(|s| (0..s).map(move |t| (s, t)));
        pairs.map(|(s, t)| (at(s, t) / (at(s, s) * at(t, t)).sqrt()).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn coordinates_and_weights_are_inverse() {
        let basis = orthogonal(&dataset(Level::Graph), Walk::default(), 3);
        let theta = [0.5f32, -0.25, 0.125, 1.0, 0.0, 2.0];
        let again = weights(&basis, &coordinates(&basis, &theta, 2), 2);
        again.iter().zip(theta).for_each(|(again, theta)| assert!((again - theta).abs() < 1e-4, "{again} {theta}"));
    }
}
