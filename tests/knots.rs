//! A compiled expert is the expert: values and gradients equal those of the network evaluated unit by unit, on knots
//! too, whatever its weights.

// Loops run over the indices of the formula.
#![allow(clippy::needless_range_loop)]

#[path = "knots/edges.rs"]
mod edges;
#[path = "knots/network.rs"]
mod network;

use harmonia::architecture::Layer;
use harmonia::device::cpu::Ops;
use harmonia::knots::{Pieces, Scratch, most_pieces};
use harmonia::seed::{Purpose, Stream};
use network::{Case, KINDS, Kind, MARGIN, Network};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Sums of at most a few hundred f64 terms in another order, through four layers, some of which cancel.
const F64_TOLERANCE: f64 = 1e-10;
/// Rounding of a sum of at most 21 terms in each of four layers, at most 2^-53 of the terms' size for each operation.
const ROUNDING: f64 = 1e-14;
/// Slope, intercept and the value are each rounded to f32 once: a few units of 6e-8, where they cancel more.
const F32_VALUE_TOLERANCE: f64 = 1e-5;
/// Sums are f64 and rounded to f32 once, by at most 6e-8.
const F32_GRADIENT_TOLERANCE: f64 = 1e-7;
/// Points within this of zero are compared by themselves.
const NEAR: f64 = 4.0;
/// The cases are always the same ones.
const PROPTEST_SEED: u64 = 41;
/// What the gradient holds before where all sums are exact: it is added to.
const BEFORE: f64 = 0.25;

fn cases() -> impl Strategy<Value = Case> {
    let hidden = prop::collection::vec(1..=20usize, 0..=3);
    (0..10_000u64, hidden, 1..=8usize, prop::sample::select(KINDS.to_vec()))
        .prop_map(|(seed, hidden, bases, kind)| Case { seed, hidden, bases, kind })
}

/// Points on both sides of zero, near and far, and zero itself.
fn points<T: Ops>(seed: u64) -> Vec<T> {
    let mut rng = Stream::new(seed, Purpose::SyntheticFeatures, 0).rng();
    let near = (0..60).map(|_| NEAR * (2.0 * rng.uniform() - 1.0));
    near.chain([0.0, -0.0, 100.0, -100.0]).map(T::from_f64).collect()
}

fn next_up<T: Ops>(value: T) -> T {
    -(-value).next_down()
}

/// psi(x) by the compiled form, in f64.
fn compiled_value<T: Ops>(pieces: &Pieces<T>, bases: usize, x: T) -> Vec<f64> {
    let first = pieces.piece(x) * bases;
    (first..first + bases).map(|at| pieces.slope[at] * x.widen() + pieces.intercept[at]).collect()
}

/// The gradient of sum over points of g . psi(x), by the sums of each piece, added to `before`.
fn compiled_gradient<T: Ops>(
    pieces: &Pieces<T>,
    layers: &[Layer],
    parameters: &[T],
    points: &[(T, Vec<f64>)],
    before: f64,
) -> Vec<T> {
    let bases = layers[layers.len() - 1].outputs;
    let mut d_slope = vec![0.0; pieces.slope.len()];
    let mut d_intercept = vec![0.0; pieces.intercept.len()];
    for (x, g) in points {
        for (b, g) in g.iter().enumerate() {
            let at = pieces.piece(*x) * bases + b;
            d_slope[at] += g * x.widen();
            d_intercept[at] += g;
        }
    }
    let mut gradient = vec![T::from_f64(before); parameters.len()];
    pieces.backward(&mut gradient, &mut Scratch::default(), layers, parameters, &d_slope, &d_intercept);
    gradient
}

fn direct_gradient<T: Ops>(network: &Network, points: &[(T, Vec<f64>)]) -> Vec<f64> {
    let mut gradient = vec![0.0; network.parameters.len()];
    points.iter().for_each(|(x, g)| network.backward(&mut gradient, x.widen(), g));
    gradient
}

fn with_gradients<T: Ops>(points: Vec<T>, bases: usize, seed: u64) -> Vec<(T, Vec<f64>)> {
    let mut rng = Stream::new(seed, Purpose::Noise, 0).rng();
    points.into_iter().map(|x| (x, (0..bases).map(|_| 2.0 * rng.uniform() - 1.0).collect())).collect()
}

/// Stops where `found` differs from `expected` by more than `tolerance` of the largest expected.
#[track_caller]
fn assert_relative(what: &str, found: &[f64], expected: &[f64], tolerance: f64, context: &dyn std::fmt::Debug) {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        // Written so that a NaN fails.
        let close = (found - expected).abs() <= tolerance * scale;
        assert!(close, "{what}: entry {at} is {found:e}, expected {expected:e} (largest {scale:e}) in {context:?}");
    }
}

/// What holds of every compiled form.
#[track_caller]
fn assert_well_formed<T: Ops>(pieces: &Pieces<T>, network: &Network) {
    assert!(pieces.thresholds.iter().all(|threshold| threshold.is_finite()));
    assert!(pieces.thresholds.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", pieces.thresholds);
    assert_eq!(pieces.count(), pieces.thresholds.len() + 1);
    assert_eq!(pieces.slope.len(), pieces.count() * network.bases());
    assert_eq!(pieces.intercept.len(), pieces.count() * network.bases());
    assert!(pieces.count() <= most_pieces(&network.hidden()));
}

/// Values and gradients at random points, and values on every knot, against the network with the same parameters.
fn check<T: Ops>(case: &Case, gradient_tolerance: f64) {
    let drawn = Network::draw(case);
    let parameters = drawn.round::<T>();
    let network = drawn.with(&parameters);
    let pieces = Pieces::new(&network.layers, &parameters);
    assert_well_formed(&pieces, &network);

    let knots = pieces.thresholds.iter().flat_map(|&threshold| [threshold, next_up(threshold)]);
    let far_from_overflow = |x: &T| x.widen().abs() < 1e20;
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    for x in points(case.seed).into_iter().chain(knots.filter(far_from_overflow)) {
        let (compiled, direct) = (compiled_value(&pieces, case.bases, x), network.value(x.widen()));
        for ((compiled, direct), size) in compiled.iter().zip(&direct).zip(network.size(x.widen())) {
            // Products with the smallest numbers of all are rounded to multiples of those.
            let close = (compiled - direct).abs() <= ROUNDING * size + f64::MIN_POSITIVE;
            let x = x.widen();
            assert!(close, "psi({x:e}) is {compiled:e}, expected {direct:e}, terms of size {size:e} in {case:?}");
        }
        // Far points are larger and would hide what happens near zero.
        if x.widen().abs() <= NEAR {
            found.extend(compiled);
            expected.extend(direct);
        }
    }
    // Values of scaled experts may be differences of terms a million times larger: the size of the terms decides there.
    if !matches!(case.kind, Kind::Scaled) {
        assert_relative("psi", &found, &expected, F64_TOLERANCE, case);
    }

    let points = with_gradients(points::<T>(case.seed), case.bases, case.seed);
    let found = compiled_gradient(&pieces, &network.layers, &parameters, &points, 0.0);
    let found: Vec<f64> = found.iter().map(|value| value.widen()).collect();
    let expected = direct_gradient(&network, &points);
    for (l, layer) in network.layers.iter().enumerate() {
        for (name, range) in [("weight", &layer.weight), ("bias", &layer.bias)] {
            let what = format!("gradient of layer {l}'s {name}");
            let (found, expected) = (&found[range.clone()], &expected[range.clone()]);
            assert_relative(&what, found, expected, gradient_tolerance, case);
        }
    }
    let end = network.parameters.len() - MARGIN;
    assert!(found[..MARGIN].iter().chain(&found[end..]).all(|&value| value == 0.0), "parameters beyond the expert");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(PROPTEST_SEED),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn in_f64_the_compiled_expert_is_the_expert(case in cases()) {
        check::<f64>(&case, F64_TOLERANCE);
    }

    #[test]
    fn in_f32_the_compiled_expert_is_the_expert(case in cases()) {
        check::<f32>(&case, F32_GRADIENT_TOLERANCE);
    }

    #[test]
    fn a_table_of_f32_keeps_five_digits(case in cases()) {
        let drawn = Network::draw(&case);
        let parameters = drawn.round::<f32>();
        let network = drawn.with(&parameters);
        let pieces = Pieces::new(&network.layers, &parameters);
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        for x in points::<f32>(case.seed).into_iter().filter(|x| f64::from(x.abs()) <= NEAR) {
            let first = pieces.piece(x) * case.bases;
            let table = (first..first + case.bases).map(|at| (pieces.slope[at] as f32, pieces.intercept[at] as f32));
            found.extend(table.map(|(slope, intercept)| f64::from(slope * x + intercept)));
            expected.extend(network.value(f64::from(x)));
        }
        assert_relative("psi", &found, &expected, F32_VALUE_TOLERANCE, &case);
    }
}

/// With exact arithmetic nothing is left to rounding: on a grid that meets many knots, values and gradients are equal.
fn check_on_exact_knots<T: Ops>() {
    let grid = |steps: i32| (-steps..=steps).map(|step| T::from_f64(f64::from(step) / 32.0));
    let (mut on_first, mut on_deeper) = (0, 0);
    for seed in 0..300 {
        let hidden = [vec![4], vec![3, 4], vec![4, 3, 3]][seed as usize % 3].clone();
        let case = Case { seed, hidden, bases: 3, kind: Kind::Dyadic };
        let network = Network::draw(&case);
        let parameters = network.round::<T>();
        let pieces = Pieces::new(&network.layers, &parameters);
        assert_well_formed(&pieces, &network);
        let mut rng = Stream::new(seed, Purpose::Noise, 1).rng();
        let mut gradient = || (0..3).map(|_| rng.below(17) as f64 / 4.0 - 2.0).collect::<Vec<f64>>();
        let points: Vec<(T, Vec<f64>)> = grid(128).map(|x| (x, gradient())).collect();
        for (x, g) in &points {
            let all = network.evaluate(x.widen());
            assert_eq!(compiled_value(&pieces, 3, *x), all[all.len() - 1], "psi({x}) of {case:?}");
            let zeros = |units: &[f64]| units.iter().filter(|&&unit| unit == 0.0).count();
            on_first += zeros(&all[0]);
            // A layer whose inputs are all off is constant: a zero there is no knot.
            let moving = (1..all.len() - 1).filter(|&l| all[l - 1].iter().any(|&input| input > 0.0));
            on_deeper += moving.map(|l| zeros(&all[l])).sum::<usize>();
            // Alone, so that no other point can make up for a unit that is on when it should not be.
            let alone = [(*x, g.clone())];
            let found = compiled_gradient(&pieces, &network.layers, &parameters, &alone, BEFORE);
            assert_eq!(found, network_gradient(&network, &alone), "gradient at {x} of {case:?}");
        }
        let found = compiled_gradient(&pieces, &network.layers, &parameters, &points, BEFORE);
        assert_eq!(found, network_gradient(&network, &points), "gradient of {case:?}");
    }
    assert!(on_first > 500 && on_deeper > 100, "too few points on knots: {on_first} and {on_deeper}");
}

/// The direct gradient added to `BEFORE`, as T.
fn network_gradient<T: Ops>(network: &Network, points: &[(T, Vec<f64>)]) -> Vec<T> {
    direct_gradient(network, points).into_iter().map(|value| T::from_f64(value + BEFORE)).collect()
}

#[test]
fn on_exact_knots_values_and_gradients_are_equal() {
    check_on_exact_knots::<f64>();
    check_on_exact_knots::<f32>();
}

/// Units of the first layer switch between the same two numbers as `w x + b > 0` does, fused as in the direct path.
fn check_first_layer<T: Ops>() {
    let mut rng = Stream::new(7, Purpose::Initialisation, 0).rng();
    let mut thresholds = 0;
    for scale in [1.0, 1e-3, 1e5] {
        let units: Vec<(f64, f64)> =
            (0..200).map(|_| (2.0 * rng.uniform() - 1.0, scale * (2.0 * rng.uniform() - 1.0))).collect();
        let network = Network::units(&units);
        let parameters = network.round::<T>();
        let pieces = Pieces::new(&network.layers, &parameters);
        thresholds += pieces.thresholds.len();
        for &threshold in &pieces.thresholds {
            for x in [threshold.next_down(), threshold, next_up(threshold)] {
                for (u, &(weight, bias)) in units.iter().enumerate() {
                    let on = T::from_f64(weight).mul_add(x, T::from_f64(bias)) > T::zero();
                    let slope = if on { T::from_f64(weight).widen() } else { 0.0 };
                    assert_eq!(pieces.slope[pieces.piece(x) * units.len() + u], slope, "unit {u} at {x}");
                }
            }
        }
    }
    assert!(thresholds > 590, "{thresholds}");
}

#[test]
fn first_layer_units_switch_exactly_where_the_direct_path_does() {
    check_first_layer::<f64>();
    check_first_layer::<f32>();
}
