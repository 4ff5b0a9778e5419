//! `diagnose` against closed forms, against a dense oracle that shares no code with it, against itself by its other
//! paths (Lanczos, restarts, probes), and as a user meets it on the command line.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "diagnose/closed_forms.rs"]
mod closed_forms;
#[path = "diagnose/command.rs"]
mod command;
#[path = "diagnose/oracle.rs"]
mod oracle;
mod program;

use harmonia::diagnose::{Bracket, Diagnosis, Options, Verdict, diagnose};
use harmonia::graph::{Direction, Graph, Walk};
use harmonia::seed::{Purpose, Stream};
use harmonia::watch::Watch;
use oracle::Oracle;
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
