//! Experts small enough to know their pieces by hand, where numbers end, meet or are none.

use super::network::{Case, Kind, MARGIN, Network};
use super::{assert_well_formed, compiled_value};
use harmonia::device::cpu::Ops;
use harmonia::knots::{Pieces, most_pieces};
use harmonia::seed::{Purpose, Stream};

fn compile<T: Ops>(network: &Network) -> Pieces<T> {
    let pieces = Pieces::new(&network.layers, &network.round::<T>());
    assert_well_formed(&pieces, network);
    pieces
}

#[test]
fn no_hidden_layer_is_one_line() {
    let mut network = Network::zeros(&[1, 2]);
    network.set(0, 0, &[3.0], -1.0);
    network.set(0, 1, &[0.0], 0.5);
    let pieces = compile::<f32>(&network);
    assert!(pieces.thresholds.is_empty());
    assert_eq!((&pieces.slope[..], &pieces.intercept[..]), (&[3.0, 0.0][..], &[-1.0, 0.5][..]));
}

#[test]
fn opposite_units_leave_one_number_between_them() {
    // x - 1 rises and 1 - x falls: both are off at 1 and nowhere else.
    let pieces = compile::<f32>(&Network::units(&[(1.0, -1.0), (-1.0, 1.0)]));
    assert_eq!(pieces.thresholds, [1f32.next_down(), 1.0]);
    assert_eq!(pieces.slope, [0.0, -1.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(pieces.intercept, [0.0, 1.0, 0.0, 0.0, -1.0, 0.0]);
    assert_eq!([0.5, 1.0, 1.5].map(|x| pieces.piece(x)), [0, 1, 2]);
}

#[test]
fn knots_at_zero_hold_for_both_zeros() {
    let pieces = compile::<f64>(&Network::units(&[(2.0, 0.0), (-3.0, 0.0), (1.0, -0.0), (-1.0, -0.0)]));
    assert_eq!(pieces.thresholds, [0f64.next_down(), 0.0]);
    assert!(pieces.thresholds[1].is_sign_positive());
    assert_eq!([0.0, -0.0, f64::from_bits(1), -f64::from_bits(1)].map(|x| pieces.piece(x)), [1, 1, 2, 0]);
}

#[test]
fn equal_units_share_a_threshold() {
    let pieces = compile::<f32>(&Network::units(&[(1.0, -0.5), (2.0, -1.0), (4.0, -2.0)]));
    assert_eq!(pieces.thresholds, [0.5]);
}

#[test]
fn constant_units_make_no_knot() {
    // On, off, and off at exactly zero.
    let pieces = compile::<f32>(&Network::units(&[(0.0, 0.75), (-0.0, -0.75), (0.0, 0.0), (0.0, -0.0)]));
    assert!(pieces.thresholds.is_empty());
    assert_eq!((&pieces.slope[..], &pieces.intercept[..]), (&[0.0; 4][..], &[0.75, 0.0, 0.0, 0.0][..]));
}

#[test]
fn roots_beyond_all_numbers_make_no_knot() {
    // Roots at +-1e39 and +-1e60: f64 has them, f32 does not.
    let units = [(1e-9, -1e30), (1e-9, 1e30), (-1e-9, 1e30), (-1e-9, -1e30), (1e-30, -1e30), (-1e-30, 1e30)];
    let narrow = compile::<f32>(&Network::units(&units));
    assert!(narrow.thresholds.is_empty(), "{:?}", narrow.thresholds);
    let on = narrow.intercept.iter().map(|&intercept| intercept != 0.0);
    assert_eq!(on.collect::<Vec<_>>(), [false, true, true, false, false, true]);
    // The roots lie between two numbers, so that rising and falling units share a threshold.
    let wide = compile::<f64>(&Network::units(&units));
    let near = |(&threshold, root): (&f64, f64)| (threshold / root - 1.0).abs() < 1e-14;
    assert!(wide.thresholds.len() == 3 && wide.thresholds.iter().zip([-1e39, 1e39, 1e60]).all(near));
    // Beyond f64 as well.
    let units = [(1e-200, -1e200), (1e-200, 1e200), (-1e-200, 1e200), (-1e-200, -1e200)];
    let wide = compile::<f64>(&Network::units(&units));
    assert!(wide.thresholds.is_empty());
    assert_eq!(wide.intercept, [0.0, 1e200, 1e200, 0.0]);
}

#[test]
fn the_largest_numbers_are_on_the_right_side() {
    let most = f64::from(f32::MAX);
    // Falling with its root at MAX: MAX alone is off. Rising with its root at -MAX: -MAX alone is off.
    let pieces = compile::<f32>(&Network::units(&[(-1.0, most), (1.0, most)]));
    assert_eq!(pieces.thresholds, [-f32::MAX, f32::MAX.next_down()]);
    assert_eq!(pieces.slope, [-1.0, 0.0, -1.0, 1.0, 0.0, 1.0]);
    // Rising with its root at MAX is never on, falling with its root at -MAX neither.
    let pieces = compile::<f32>(&Network::units(&[(1.0, -most), (-1.0, -most)]));
    assert!(pieces.thresholds.is_empty());
    assert_eq!(pieces.slope, [0.0, 0.0]);
}

#[test]
fn roots_smaller_than_all_numbers_keep_their_side_of_zero() {
    // Roots at +-1e-60: in f32 the neighbours are zero and the smallest number below it.
    let tiny = f32::from_bits(1);
    let rising = compile::<f32>(&Network::units(&[(1e30, -1e-30), (1e30, 1e-30)]));
    assert_eq!(rising.thresholds, [-tiny, 0.0]);
    assert_eq!(
        rising.slope.iter().map(|&slope| slope > 0.0).collect::<Vec<_>>(),
        [false, false, false, true, true, true]
    );
    let falling = compile::<f32>(&Network::units(&[(-1e30, -1e-30), (-1e30, 1e-30)]));
    assert_eq!(falling.thresholds, [-tiny, 0.0]);
    // Weights that are subnormal themselves: root at 3.
    let subnormal = compile::<f32>(&Network::units(&[(f64::from(tiny), -3.0 * f64::from(tiny))]));
    assert_eq!(subnormal.thresholds, [3.0]);
}

#[test]
fn a_unit_switches_on_every_piece_it_crosses() {
    // A zigzag, 0 then x then 2 - x, cut at heights 1/4 and 1/2: each unit on, and off again on the next line.
    let mut network = Network::zeros(&[1, 2, 2, 1]);
    network.set(0, 0, &[1.0], 0.0);
    network.set(0, 1, &[1.0], -1.0);
    network.set(1, 0, &[1.0, -2.0], -0.25);
    network.set(1, 1, &[1.0, -2.0], -0.5);
    network.set(2, 0, &[1.0, 1.0], 0.0);
    let pieces = compile::<f64>(&network);
    assert_eq!(pieces.thresholds, [0.25, 0.5, 1.0, 1.5f64.next_down(), 1.75f64.next_down()]);
    assert_eq!(pieces.slope, [0.0, 1.0, 2.0, -2.0, -1.0, 0.0]);
    assert_eq!(pieces.intercept, [0.0, -0.25, -0.75, 3.25, 1.75, 0.0]);
}

#[test]
fn folds_of_folds() {
    // ||x| - 1|, less 1/2, where positive. Each fold is a rising and a falling unit, both off on the knot itself.
    let mut network = Network::zeros(&[1, 2, 2, 1, 1]);
    network.set(0, 0, &[1.0], 0.0);
    network.set(0, 1, &[-1.0], 0.0);
    network.set(1, 0, &[1.0, 1.0], -1.0);
    network.set(1, 1, &[-1.0, -1.0], 1.0);
    network.set(2, 0, &[1.0, 1.0], -0.5);
    network.set(3, 0, &[1.0], 0.0);
    let pieces = compile::<f64>(&network);
    // What happens at -1 and 1 is below the last unit's reach.
    let expected = [(-1.5f64).next_down(), -0.5, 0f64.next_down(), 0.0, 0.5f64.next_down(), 1.5];
    assert_eq!(pieces.thresholds, expected);
    for x in (-20..=20).map(|step| f64::from(step) / 8.0) {
        assert_eq!(compiled_value(&pieces, 1, x), [((x.abs() - 1.0).abs() - 0.5).max(0.0)], "at {x}");
    }
}

#[test]
fn knots_nobody_sees_are_dropped() {
    // Five units below one that is on beyond x = 10 only: what they do before has no say.
    let mut network = Network::zeros(&[1, 5, 1, 2]);
    for u in 0..5 {
        network.set(0, u, &[1.0], -(u as f64));
    }
    network.set(1, 0, &[0.25, 0.0, 0.0, 0.0, 0.25], -4.0);
    network.set(2, 0, &[1.0], 0.5);
    network.set(2, 1, &[-2.0], 0.0);
    let pieces = compile::<f32>(&network);
    assert_eq!(pieces.thresholds, [10.0]);
    // Never on, and exactly zero, which is off.
    for (weight, bias) in [(-1.0, -1.0), (0.0, 0.0)] {
        network.set(1, 0, &[weight; 5], bias);
        let pieces = compile::<f32>(&network);
        assert!(pieces.thresholds.is_empty());
        assert_eq!((&pieces.slope[..], &pieces.intercept[..]), (&[0.0, 0.0][..], &[0.5, 0.0][..]));
    }
}

#[test]
fn the_most_pieces_are_one_more_than_the_most_knots() {
    assert_eq!(most_pieces(&[]), 1);
    assert_eq!(most_pieces(&[16, 8]), 1 + 16 + 8 * (16 + 1));
    assert_eq!(most_pieces(&[usize::MAX, 2]), usize::MAX);
    // One hidden layer reaches it.
    let network = Network::units(&[(1.0, -1.0), (-1.0, 2.0), (1.0, -3.0), (2.0, 1.0)]);
    assert_eq!(compile::<f32>(&network).count(), most_pieces(&[4]));
}

#[test]
fn parameters_that_are_no_numbers_do_not_break_the_form() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX] {
        for seed in 0..40 {
            let case = Case { seed, hidden: vec![4, 3], bases: 2, kind: Kind::Plain };
            let mut network = Network::draw(&case);
            let inside = network.parameters.len() - 2 * MARGIN;
            let mut rng = Stream::new(seed, Purpose::Noise, 2).rng();
            (0..3).for_each(|_| network.parameters[MARGIN + rng.below(inside)] = value);
            compile::<f64>(&network);
            compile::<f32>(&network);
        }
        // The output says so.
        let mut network = Network::zeros(&[1, 1, 1]);
        network.set(0, 0, &[1.0], 0.0);
        network.set(1, 0, &[value], 1.0);
        let pieces = compile::<f32>(&network);
        assert!(!pieces.slope[1].is_finite() || value == f64::MAX);
    }
}
