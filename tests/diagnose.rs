//! `diagnose` against closed forms, against a dense oracle that shares no code with it, against itself by its other
//! paths (Lanczos, restarts, probes), and as a user meets it on the command line.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod program;

use harmonia::diagnose::{Bracket, Decay, Diagnosis, Options, Verdict, diagnose};
use harmonia::graph::{Direction, Graph, Transition, Walk};
use harmonia::seed::{Purpose, Stream};
use harmonia::watch::Watch;
use program::{Scratch, small_dataset};
use std::f64::consts::PI;

/// Eigenvalues and sums of a few hundred numbers of size one, in f64.
const EXACT: f64 = 1e-10;
/// What power iteration of the oracle leaves.
const ORACLE: f64 = 1e-6;
/// Edge weights are f32, and so is the weight by which a lazy walk stays on a weighted graph.
const SINGLE: f64 = 1e-6;
const PLAIN: Walk = Walk { self_loops: false, lazy: false };
const LAZY: Walk = Walk { self_loops: false, lazy: true };
const LOOPS: Walk = Walk { self_loops: true, lazy: false };

fn run(graph: &Graph, walk: Walk, options: &Options) -> Diagnosis {
    diagnose(graph, walk, options, &Watch::silent()).unwrap()
}

fn with_hops(hops: usize) -> Options {
    Options { hops, ..Options::default() }
}

/// Every component of several nodes by Lanczos, with the smallest basis, so that it has to restart; G by probes.
fn forced(hops: usize) -> Options {
    Options { hops, dense_nodes: 0, exact_work: 0, tolerance: 1e-8, memory: 1, ..Options::default() }
}

fn undirected(nodes: usize, edges: &[(u32, u32)]) -> Graph {
    Graph::from_edges(nodes, edges, None, Direction::Undirected).unwrap()
}

fn ring(n: u32) -> Graph {
    undirected(n as usize, &(0..n).map(|i| (i, (i + 1) % n)).collect::<Vec<_>>())
}

fn clique(first: u32, n: u32) -> Vec<(u32, u32)> {
    (first..first + n).flat_map(|i| (first..i).map(move |j| (i, j))).collect()
}

fn star(n: u32) -> Graph {
    undirected(n as usize, &(1..n).map(|i| (0, i)).collect::<Vec<_>>())
}

/// A connected graph: a ring and random chords.
fn random(n: u32, chords: usize, seed: u64, weighted: bool) -> Graph {
    let mut rng = Stream::new(seed, Purpose::SyntheticGraph, 0).rng();
    let mut edges: Vec<(u32, u32)> = (0..n).map(|i| (i, (i + 1) % n)).collect();
    edges.extend((0..chords).map(|_| (rng.below(n as usize) as u32, rng.below(n as usize) as u32)));
    let weights: Vec<f32> = edges.iter().map(|_| 0.25 + rng.uniform() as f32).collect();
    Graph::from_edges(n as usize, &edges, weighted.then_some(&weights[..]), Direction::Undirected).unwrap()
}

#[track_caller]
fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance * expected.abs().max(1.0), "found {found}, expected {expected}");
}

#[track_caller]
fn encloses(bracket: Bracket, expected: f64, tolerance: f64) {
    assert!(
        bracket.low <= expected + tolerance && bracket.high >= expected - tolerance && bracket.low <= bracket.high,
        "{bracket:?} does not hold {expected}"
    );
}

/// rho, D_t and H_epsilon that follow from all non-stationary eigenvalues.
#[track_caller]
fn follows(decay: &Decay, eigenvalues: &[f64], epsilon: f64, tolerance: f64) {
    let rho = eigenvalues.iter().fold(0.0, |rho: f64, x| rho.max(x.abs()));
    near(decay.rho.low, rho, tolerance);
    near(decay.rho.high, rho, tolerance);
    let distance =
        |t: i32| eigenvalues.iter().map(|x| x.abs().powi(t) * (1.0 - x).abs()).fold(0.0, |a: f64, b| a.max(b));
    for found in &decay.distances {
        near(found.low, distance(found.t as i32), tolerance);
        near(found.high, distance(found.t as i32), tolerance);
        assert!(found.high <= (1.0 + rho) * rho.powi(found.t as i32) + tolerance, "the theorem");
    }
    if rho >= 1.0 - tolerance {
        assert_eq!((decay.horizon.low, decay.bound, decay.recommended_hops), (None, None, None));
        return;
    }
    let horizon = (0..).find(|&t| distance(t) <= epsilon).unwrap() as u64;
    assert_eq!((decay.horizon.low, decay.horizon.high), (Some(horizon), Some(horizon)));
    assert_eq!(decay.recommended_hops, Some(horizon + 1));
    assert!(decay.bound.unwrap() >= horizon, "the theorem");
}

fn ring_eigenvalues(n: u32) -> Vec<f64> {
    (1..n).map(|k| (2.0 * PI * f64::from(k) / f64::from(n)).cos()).collect()
}

#[test]
fn an_odd_ring() {
    let found = run(&ring(11), PLAIN, &with_hops(5));
    assert!(found.ergodic && found.reversible && found.notes.is_empty());
    follows(found.decay.as_ref().unwrap(), &ring_eigenvalues(11), 0.01, EXACT);
    near(found.decay.unwrap().rho.high, (PI / 11.0).cos(), EXACT);
    // 1 and five pairs.
    assert_eq!(found.spectrum.unwrap().distinct.at_least, 6);
    // M is symmetric and regular: <M^s, M^t> counts closed walks, which on a ring are binomials.
    let gram = &found.conditioning.gram;
    for (s, t, expected) in
        [(0, 0, 11.0), (0, 1, 0.0), (0, 2, 5.5), (1, 1, 5.5), (1, 3, 11.0 * 6.0 / 16.0), (1, 2, 0.0)]
    {
        near(gram[s][t], expected, EXACT);
    }
    assert_eq!(found.independence.verdict, Verdict::Independent);
    assert_eq!(run(&ring(11), PLAIN, &with_hops(6)).independence.verdict, Verdict::Independent);
    let dependent = run(&ring(11), PLAIN, &with_hops(7));
    assert_eq!(dependent.independence.verdict, Verdict::Dependent);
    assert!(dependent.conditioning.gamma.unwrap().value <= 10.0 * dependent.conditioning.gamma_floor);
}

#[test]
fn an_even_ring_alternates_and_a_lazy_walk_on_it_does_not() {
    let found = run(&ring(10), PLAIN, &with_hops(4));
    assert!(!found.ergodic);
    assert_eq!((found.components.bipartite, found.components.bipartite_nodes), (1, 10));
    let decay = found.decay.unwrap();
    assert!(decay.distances.iter().all(|d| d.low == 2.0 && d.high == 2.0));
    follows(&decay, &ring_eigenvalues(10), 0.01, EXACT);
    let others: Vec<f64> = ring_eigenvalues(10).into_iter().filter(|x| *x > -0.999).collect();
    follows(&found.apart_from_alternating.unwrap(), &others, 0.01, EXACT);
    assert!(found.notes.iter().any(|note| note.contains("walk.lazy=true")), "{:?}", found.notes);

    let lazy = run(&ring(10), LAZY, &with_hops(4));
    assert!(lazy.ergodic && lazy.apart_from_alternating.is_none() && lazy.components.bipartite == 0);
    let halves: Vec<f64> = ring_eigenvalues(10).iter().map(|x| (1.0 + x) / 2.0).collect();
    follows(&lazy.decay.unwrap(), &halves, 0.01, EXACT);
    let loops: Vec<f64> = ring_eigenvalues(10).iter().map(|x| (1.0 + 2.0 * x) / 3.0).collect();
    follows(&run(&ring(10), LOOPS, &with_hops(4)).decay.unwrap(), &loops, 0.01, EXACT);
}

#[test]
fn a_complete_graph_has_two_eigenvalues() {
    let n = 7.0;
    let graph = undirected(7, &clique(0, 7));
    for options in [with_hops(2), forced(2)] {
        let found = run(&graph, PLAIN, &options);
        follows(found.decay.as_ref().unwrap(), &[-1.0 / (n - 1.0)], 0.01, EXACT);
        let distinct = found.spectrum.unwrap().distinct;
        assert_eq!((distinct.at_least, distinct.all), (2, true));
        assert_eq!(found.independence.verdict, Verdict::Independent);
    }
    // ||(I - M) / sqrt(2)||_F, where I - M has n - 1 eigenvalues n / (n - 1).
    let gamma = run(&graph, PLAIN, &with_hops(2)).conditioning.gamma.unwrap();
    near(gamma.value, ((n - 1.0) * (n / (n - 1.0)).powi(2) / 2.0).sqrt(), EXACT);
    assert_eq!(gamma.error, 0.0);
    assert_eq!(run(&graph, PLAIN, &with_hops(3)).independence.verdict, Verdict::Dependent);
    assert_eq!(run(&graph, PLAIN, &forced(3)).independence.verdict, Verdict::Dependent);
}

#[test]
fn a_star_is_bipartite_and_not_symmetric() {
    let n = 9.0;
    for options in [with_hops(3), forced(3)] {
        let found = run(&star(9), PLAIN, &options);
        assert_eq!(found.components.bipartite, 1);
        follows(&found.decay.unwrap(), &[-1.0, 0.0], 0.01, EXACT);
        // Apart from -1 only zeros are left: one step, and everything is over.
        let apart = found.apart_from_alternating.unwrap();
        assert_eq!((apart.horizon.high, apart.recommended_hops), (Some(1), Some(2)));
        near(apart.distances[0].high, 1.0, EXACT);
        near(apart.distances[1].high, 0.0, EXACT);
        assert_eq!(found.independence.verdict, Verdict::Independent);
    }
    // The hub gives 1 / (n - 1) to each leaf, leaves give all to the hub; nobody stays.
    let gram = run(&star(9), PLAIN, &with_hops(4)).conditioning.gram;
    near(gram[1][1], 1.0 / (n - 1.0) + n - 1.0, EXACT);
    near(gram[0][1], 0.0, EXACT);
    near(gram[1][3], gram[1][1], EXACT); // M^3 = M
    let gamma = run(&star(9), PLAIN, &with_hops(2)).conditioning.gamma.unwrap().value;
    near(gamma, ((n + 1.0 / (n - 1.0) + n - 1.0) / 2.0).sqrt(), EXACT);
    assert_eq!(run(&star(9), PLAIN, &with_hops(4)).independence.verdict, Verdict::Dependent);
}

#[test]
fn components_are_named_and_the_slowest_decides() {
    // Cliques of 4 and 6, and two nodes alone.
    let edges = [clique(0, 4), clique(4, 6)].concat();
    let graph = undirected(12, &edges);
    let found = run(&graph, PLAIN, &with_hops(3));
    assert!(!found.ergodic);
    let c = &found.components;
    assert_eq!((c.count, c.single_nodes, c.bipartite), (4, 2, 0));
    assert_eq!(c.largest.iter().map(|one| (one.nodes, one.first_node)).collect::<Vec<_>>()[..2], [(6, 4), (4, 0)]);
    follows(found.decay.as_ref().unwrap(), &[-1.0 / 3.0, -1.0 / 5.0], 0.01, EXACT);
    let spectrum = found.spectrum.unwrap();
    assert_eq!((spectrum.stationary, spectrum.distinct.at_least), (4, 3));
    // A node that steps to itself adds one to every entry.
    near(found.conditioning.gram[0][2], 4.0 / 3.0 + 6.0 / 5.0 + 2.0, EXACT);
    assert!(found.notes.iter().any(|note| note.contains("4 components")));
    // All alone: M = I.
    let alone = run(&undirected(5, &[]), PLAIN, &with_hops(2));
    let decay = alone.decay.unwrap();
    assert_eq!((decay.rho.high, decay.horizon.high, decay.recommended_hops), (0.0, Some(0), Some(1)));
    assert_eq!(alone.independence.verdict, Verdict::Dependent);
    assert_eq!(alone.conditioning.gamma.unwrap().value, 0.0);
}

#[test]
fn two_blocks_have_three_eigenvalues() {
    // Inside a block, loops included, weight 3; between blocks weight 1.
    let m = 8u32;
    let pairs = || (0..2 * m).flat_map(|i| (0..=i).map(move |j| (i, j)));
    let edges: Vec<(u32, u32)> = pairs().collect();
    // A loop is entered once, an edge both ways.
    let weights: Vec<f32> = pairs().map(|(i, j)| if i / m == j / m { 3.0 } else { 1.0 }).collect();
    let graph = Graph::from_edges(2 * m as usize, &edges, Some(&weights), Direction::Undirected).unwrap();
    for options in [with_hops(3), forced(3)] {
        let found = run(&graph, PLAIN, &options);
        follows(&found.decay.unwrap(), &[(3.0 - 1.0) / (3.0 + 1.0), 0.0], 0.01, EXACT);
        assert_eq!(found.spectrum.unwrap().distinct.at_least, 3);
        assert_eq!(found.independence.verdict, Verdict::Independent);
    }
    assert_eq!(run(&graph, PLAIN, &with_hops(4)).independence.verdict, Verdict::Dependent);
}

/// Dense and by other means than the library: powers by products, norms by power iteration, gamma by inverse iteration.
struct Oracle {
    n: usize,
    /// M^t
    powers: Vec<Vec<f64>>,
    degree: Vec<f64>,
}

impl Oracle {
    fn new(graph: &Graph, walk: Walk, hops: usize) -> Oracle {
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

    fn gram(&self, s: usize, t: usize) -> f64 {
        self.powers[s].iter().zip(&self.powers[t]).map(|(a, b)| a * b).sum()
    }

    /// || M^{t+1} - M^t || weighted by degrees: the largest singular value of D^1/2 (...) D^-1/2.
    fn distance(&self, t: usize) -> f64 {
        let n = self.n;
        let scale = |at: usize| (self.degree[at / n] / self.degree[at % n]).sqrt();
        let matrix = (0..n * n).map(|at| (self.powers[t + 1][at] - self.powers[t][at]) * scale(at)).collect();
        operator_norm(matrix, n)
    }

    /// || M - 1 pi^T || in the same norm.
    fn rho(&self) -> f64 {
        let n = self.n;
        let total: f64 = self.degree.iter().sum();
        let scale = |at: usize| (self.degree[at / n] / self.degree[at % n]).sqrt();
        let matrix = (0..n * n).map(|at| (self.powers[1][at] - self.degree[at % n] / total) * scale(at)).collect();
        operator_norm(matrix, n)
    }

    /// The smallest eigenvalue of G on changes that sum to zero: the direction that does not is made the largest.
    fn gamma(&self, hops: usize) -> f64 {
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

#[test]
fn random_graphs_agree_with_the_dense_oracle() {
    const HOPS: usize = 5;
    for seed in 0..6 {
        let graph = random(30 + seed as u32, 25, seed, seed % 2 == 1);
        for walk in [PLAIN, LAZY, LOOPS] {
            let oracle = Oracle::new(&graph, walk, HOPS + 1);
            let exact = run(&graph, walk, &with_hops(HOPS));
            let decay = exact.decay.as_ref().unwrap();
            near(decay.rho.high, oracle.rho(), ORACLE);
            for (t, found) in decay.distances.iter().take(HOPS).enumerate() {
                near(found.high, oracle.distance(t), ORACLE);
                assert_eq!(found.low, found.high);
            }
            let c = &exact.conditioning;
            for s in 0..HOPS {
                for t in 0..HOPS {
                    near(c.gram[s][t], oracle.gram(s, t), EXACT);
                }
            }
            for (hops, gamma) in (2..=HOPS).zip(&c.gamma_by_hops) {
                near(gamma.value, oracle.gamma(hops), SINGLE);
            }
            for (t, distance) in c.frobenius.iter().enumerate() {
                let squared = oracle.gram(t + 1, t + 1) - 2.0 * oracle.gram(t, t + 1) + oracle.gram(t, t);
                near(distance.value, squared.sqrt(), EXACT);
            }
            // Lanczos encloses what the dense solver finds, and comes as close as it says.
            let searched = run(&graph, walk, &forced(HOPS));
            let (found, expected) = (searched.spectrum.unwrap(), exact.spectrum.unwrap());
            assert_eq!((found.searched_components, expected.exact_components), (1, 1));
            for (found, expected) in [(found.lambda_2, expected.lambda_2), (found.lambda_min, expected.lambda_min)] {
                let (found, expected) = (found.unwrap(), expected.unwrap());
                assert!(found.converged);
                assert!((found.value - expected.value).abs() <= found.residual + EXACT, "{found:?} {expected:?}");
                near(found.value, expected.value, ORACLE);
            }
            assert!(found.distinct.at_least <= expected.distinct.at_least);
            let searched = searched.decay.unwrap();
            encloses(searched.rho, decay.rho.high, EXACT);
            for (bracket, exact) in searched.distances.iter().zip(&decay.distances) {
                encloses(Bracket { low: bracket.low, high: bracket.high }, exact.high, EXACT);
            }
            let (low, high) = (searched.horizon.low.unwrap(), searched.horizon.high.unwrap());
            assert!((low..=high).contains(&decay.horizon.high.unwrap()), "{low} {high} {:?}", decay.horizon);
        }
    }
}

#[test]
fn a_search_with_restarts_finds_both_ends_of_a_larger_graph() {
    let graph = random(900, 700, 3, false);
    let exact = run(&graph, PLAIN, &Options { dense_nodes: 900, ..with_hops(4) });
    let searched = run(&graph, PLAIN, &forced(4));
    let spectrum = searched.spectrum.unwrap();
    // The smallest basis is used up many times over.
    assert!(spectrum.products > 40, "{}", spectrum.products);
    let exact = exact.spectrum.unwrap();
    near(spectrum.lambda_2.unwrap().value, exact.lambda_2.unwrap().value, EXACT);
    near(spectrum.lambda_min.unwrap().value, exact.lambda_min.unwrap().value, EXACT);

    // A search that is cut short says so, and its bounds allow for it.
    let cut = run(&graph, PLAIN, &Options { products: Some(8), ..forced(4) });
    assert!(!cut.spectrum.unwrap().lambda_2.unwrap().converged);
    assert!(cut.notes.iter().any(|note| note.contains("stopped after 8 products")), "{:?}", cut.notes);
    let decay = cut.decay.unwrap();
    encloses(decay.rho, exact.lambda_2.unwrap().value.max(-exact.lambda_min.unwrap().value), 0.0);
    assert_eq!((decay.rho.high, decay.bound), (1.0, None));
}

#[test]
fn a_bipartite_component_beside_a_larger_one_is_searched_by_itself() {
    // An even ring of 40 in one half of the nodes, a random graph in the other.
    let mut edges: Vec<(u32, u32)> = (0..40).map(|i| (i, (i + 1) % 40)).collect();
    edges.extend((0..50).map(|i| (40 + i, 40 + (i + 1) % 50)));
    edges.extend((0..30).map(|i| (40 + i, 40 + (i * 6 + 3) % 50)));
    let graph = undirected(90, &edges);
    let (exact, searched) = (run(&graph, PLAIN, &with_hops(3)), run(&graph, PLAIN, &forced(3)));
    assert_eq!((searched.components.bipartite, searched.components.bipartite_nodes), (1, 40));
    let (exact, searched) = (exact.apart_from_alternating.unwrap(), searched.apart_from_alternating.unwrap());
    near(searched.rho.high, exact.rho.high, ORACLE);
    assert!(exact.rho.high < 1.0);
    assert!(exact.rho.high >= (2.0 * PI / 40.0).cos() - EXACT, "the ring's own second eigenvalue counts");
}

#[test]
fn probes_come_as_close_as_their_error_bars_say() {
    let graph = random(200, 300, 9, false);
    let exact = run(&graph, PLAIN, &with_hops(4)).conditioning;
    assert_eq!((exact.probes, exact.exact_nodes), (0, 200));
    let (mut inside, mut all) = (0, 0);
    for seed in 0..20 {
        let found = run(&graph, PLAIN, &Options { seed, exact_work: 0, ..with_hops(4) }).conditioning;
        assert_eq!((found.probes, found.exact_nodes), (32, 0));
        near(found.gram[0][0], 200.0, EXACT); // signs are exact there
        let pairs = found.gamma_by_hops.iter().chain(&found.frobenius);
        for (found, exact) in pairs.zip(exact.gamma_by_hops.iter().chain(&exact.frobenius)) {
            let (off, bar) = ((found.value - exact.value).abs(), found.error);
            assert!(bar > 0.0 && bar < 0.1 * exact.value, "a bar of {bar} around {}", exact.value);
            assert!(off < 5.0 * bar, "{off} with a bar of {bar}");
            (inside, all) = (inside + usize::from(off < 2.0 * bar), all + 1);
        }
    }
    // 95 of 100 for normal errors; these are correlated within a seed.
    assert!(inside * 100 >= all * 85, "{inside} of {all} within two bars");
}

#[test]
fn a_directed_graph_gets_what_holds_for_any_walk() {
    let cycle = Graph::from_edges(3, &[(0, 1), (1, 2), (2, 0)], None, Direction::Directed).unwrap();
    let found = run(&cycle, PLAIN, &with_hops(3));
    assert!(!found.reversible && !found.ergodic && found.spectrum.is_none() && found.decay.is_none());
    assert_eq!(found.components.count, 1);
    assert!(found.notes[0].contains("directed"));
    // Permutations: orthogonal to each other, of squared length 3.
    assert_eq!(found.independence.verdict, Verdict::Independent);
    near(found.conditioning.gamma.unwrap().value, 3f64.sqrt(), EXACT);
    near(found.conditioning.frobenius[1].value, 6f64.sqrt(), EXACT);
    assert_eq!(run(&cycle, PLAIN, &with_hops(4)).independence.verdict, Verdict::Dependent); // M^3 = I
    // Probes prove independence, and do not claim the contrary.
    assert_eq!(run(&cycle, PLAIN, &forced(3)).independence.verdict, Verdict::Independent);
    assert_eq!(run(&cycle, PLAIN, &forced(4)).independence.verdict, Verdict::Undecided);
}

#[test]
fn the_same_bits_on_any_number_of_threads() {
    let graph = random(3000, 4000, 5, true);
    let options = Options { exact_work: 0, products: Some(60), probes: 9, ..with_hops(4) };
    let found: Vec<String> = [1, 2, 3]
        .map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| serde_json::to_string(&run(&graph, PLAIN, &options)).unwrap())
        })
        .into();
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0], found[2]);
}

#[test]
fn the_command_prints_every_key_and_says_what_it_means() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&scratch.harmonia_ok(&["diagnose", "ring", "--hops", "3", "--json"])).unwrap();
    for key in
        ["target", "dataset", "nodes", "epsilon", "hops", "components", "independence", "conditioning", "spectrum"]
    {
        assert!(!json[key].is_null(), "{key}");
    }
    assert!(json["responses"].is_null());
    assert!(json["decay"]["recommended_hops"].is_null());
    assert_eq!(json["decay"]["distances"][2]["high"], 2.0);
    assert_eq!(json["components"]["bipartite"], 1);
    assert!(json["apart_from_alternating"]["recommended_hops"].is_u64());
    let text = scratch.harmonia_ok(&["diagnose", "ring"]);
    for part in [
        "T = 8",
        "dependent: different hop weights",
        "only 7 different eigenvalues",
        "bipartite: 1 (12 nodes from node 0 on)",
        "walk.lazy=true",
        "gamma_T",
        "H_epsilon",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let lazy = scratch.harmonia_ok(&["diagnose", "ring", "--set", "walk.lazy=true", "--hops", "2"]);
    assert!(lazy.contains("recommended T") && !lazy.contains("alternating"), "{lazy}");
}

#[test]
fn a_run_is_diagnosed_with_its_own_walk_and_hops() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    let arguments = ["--dataset", "ring", "--epochs", "2", "--set", "model.hops=3", "--set", "walk.lazy=true"];
    scratch.train_ok(&[&arguments[..], &["--out", "run"]].concat());
    let json: serde_json::Value = serde_json::from_str(&scratch.harmonia_ok(&["diagnose", "run", "--json"])).unwrap();
    assert_eq!((&json["hops"], &json["walk"]["lazy"]), (&3.into(), &true.into()));
    let features = json["responses"]["features"].as_array().unwrap();
    assert_eq!(features.len(), 2);
    for feature in features {
        let theta: Vec<f64> = feature["hop_weights"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        near(theta.iter().sum(), 1.0, EXACT);
        let grid = json["responses"]["grid"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap());
        for (x, value) in grid.zip(feature["values"].as_array().unwrap()) {
            near(value.as_f64().unwrap(), theta[0] + theta[1] * x + theta[2] * x * x, EXACT);
        }
    }
    let text = scratch.harmonia_ok(&["diagnose", "run"]);
    assert!(text.contains("spectral response of 2 features") && text.contains("low-pass"), "{text}");
}

#[test]
fn bad_input_is_refused() {
    let scratch = Scratch::new();
    harmonia::store::write(&small_dataset(), &scratch.path("ring")).unwrap();
    std::fs::create_dir(scratch.path("empty")).unwrap();
    for (arguments, expected) in [
        (&["diagnose", "ring", "--epsilon", "0"][..], "epsilon is 0;"),
        (&["diagnose", "ring", "--epsilon", "NaN"], "epsilon is NaN;"),
        (&["diagnose", "ring", "--epsilon", "2"], "below 2"),
        (&["diagnose", "ring", "--hops", "0"], "hops is 0;"),
        (&["diagnose", "ring", "--hops", "100000"], "1 to 256"),
        (&["diagnose", "ring", "--probes", "1"], "probes is 1;"),
        (&["diagnose", "ring", "--set", "walk.lasy=true"], "walk.lasy"),
        (&["diagnose", "empty"], "neither a run directory"),
        (&["diagnose", "nothing-of-that-name"], "nothing-of-that-name"),
        (&["diagnose"], "RUN|STORE|NAME"),
    ] {
        scratch.refused("harmonia", arguments, &[expected]);
    }
}
