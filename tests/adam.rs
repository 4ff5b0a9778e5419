//! Adam and AdamW against steps worked out by hand (with decimal arithmetic), and the Euclidean norm.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

use harmonia::device::cpu::Cpu;
use harmonia::device::{AdamStep, Device, Judgement, Posted};

/// A handful of f64 operations on numbers of size one.
const TOLERANCE: f64 = 1e-14;
const LEARNING_RATE: f64 = 0.1;
const PLAIN: AdamStep =
    AdamStep { learning_rate: LEARNING_RATE, weight_decay: 0.0, decoupled: false, step: 0, clip_norm: 0.0 };

/// Of any gradient, as far as steps are told.
const NORM: f64 = 2.0;

fn verdict(norm: f64) -> Posted {
    let mut verdict = Posted::default();
    verdict.now = Judgement { norm, ..Judgement::default() };
    verdict
}

fn norm<D: Device>(device: &D, values: &D::Buffer) -> f64 {
    let mut verdict = device.verdict().unwrap();
    device.norm(&mut verdict, values).unwrap();
    device.judgement(&mut verdict).unwrap().norm
}

/// (p, m, v) after each step, starting at p = 1.
fn steps(gradients: &[f64], settings: AdamStep) -> Vec<[f64; 3]> {
    let device = Cpu::<f64>::new();
    let (mut p, mut m, mut v) = (vec![1.0], vec![0.0], vec![0.0]);
    let mut trace = Vec::new();
    for (before, &gradient) in gradients.iter().enumerate() {
        let step = AdamStep { step: before as u64 + 1, ..settings };
        device.adam(&mut p, &mut m, &mut v, &vec![gradient], &verdict(NORM), &(0..1), step).unwrap();
        trace.push([p[0], m[0], v[0]]);
    }
    trace
}

fn assert_trace(found: &[[f64; 3]], expected: &[[f64; 3]]) {
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (name, (found, expected)) in ["p", "m", "v"].iter().zip(found.iter().zip(expected)) {
            assert!((found - expected).abs() < TOLERANCE, "{name} after step {}: {found}, not {expected}", step + 1);
        }
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn adam_takes_the_steps_of_the_formula() {
    // 1: m = 0.1 * 0.5,                 v = 0.001 * 0.25;              m^ = 0.5, v^ = 0.25
    //    p = 1 - 0.1 * 0.5 / (0.5 + 1e-8) = 0.9 + 2e-9
    // 2: m = 0.9 * 0.05 - 0.1 * 0.25,   v = 0.999 * 0.00025 + 0.001 * 0.0625
    //    m^ = 0.02 / 0.19 = 0.105263157895, v^ = 0.00031225 / 0.001999 = 0.156203101551, p -= 0.026633703292
    // 3: m = 0.9 * 0.02,                v = 0.999 * 0.00031225
    //    m^ = 0.018 / 0.271 = 0.066420664207, v^ = 0.00031193775 / 0.002997001 = 0.104083298604, p -= 0.020587929720
    let expected = [
        [0.900_000_002, 0.05, 0.00025],
        [0.873_366_298_707_846_2, 0.02, 0.000_312_25],
        [0.852_778_368_987_468, 0.018, 0.000_311_937_75],
    ];
    assert_trace(&steps(&[0.5, -0.25, 0.0], PLAIN), &expected);
}

#[test]
fn adamw_takes_the_decay_off_the_parameter() {
    // The same moments as without decay; p is first multiplied by 1 - 0.1 * 0.2 = 0.98:
    // 0.98 - 0.1 + 2e-9, then 0.98 * 0.880000002 - 0.026633703292, then 0.98 * 0.835766298668 - 0.020587929720.
    let expected = [
        [0.880_000_002, 0.05, 0.00025],
        [0.835_766_298_667_846_2, 0.02, 0.000_312_25],
        [0.798_463_042_974_111_1, 0.018, 0.000_311_937_75],
    ];
    assert_trace(&steps(&[0.5, -0.25, 0.0], AdamStep { weight_decay: 0.2, decoupled: true, ..PLAIN }), &expected);
}

#[test]
fn adam_adds_the_decay_to_the_gradient() {
    // 1: g = 0.5 + 0.2 * 1 = 0.7, p = 1 - 0.1 * 0.7 / (0.7 + 1e-8)
    // 2: g = -0.25 + 0.2 * 0.900000001429 = -0.069999999714, m = 0.063 - 0.006999999971
    // 3: g = 0 + 0.2 * 0.840735151162 = 0.168147030232
    let expected = [
        [0.900_000_001_428_571_4, 0.07, 0.00049],
        [0.840_735_151_162_213_3, 0.056_000_000_028_571_43, 0.000_494_409_999_96],
        [0.781_316_257_447_359_5, 0.067_214_703_048_958_55, 0.000_522_189_013_736_03],
    ];
    assert_trace(&steps(&[0.5, -0.25, 0.0], AdamStep { weight_decay: 0.2, ..PLAIN }), &expected);
}

#[test]
fn clipping_scales_the_gradient_but_not_the_decay() {
    // Scale 1/2 on a gradient of 1 is a gradient of 1/2, to the bit.
    let scaled = AdamStep { clip_norm: NORM / 2.0, ..PLAIN };
    assert_eq!(steps(&[1.0, -0.5, 0.0], scaled), steps(&[0.5, -0.25, 0.0], PLAIN));
    // g = 0.5 * 0.6 + 0.2 * 1 = 0.5: the first step of plain Adam above. Scaling the decay too would give g = 0.4.
    let found = steps(&[0.6], AdamStep { weight_decay: 0.2, ..scaled });
    assert_trace(&found, &[[0.900_000_002, 0.05, 0.00025]]);
}

#[test]
fn every_parameter_of_a_long_array_takes_its_own_step() {
    // Longer than two chunks of work; the gradient depends on the position, its sign decides the first step.
    let count = 40_000;
    let device = Cpu::<f64>::new();
    let gradient: Vec<f64> = (0..count).map(|at| if at % 3 == 0 { -0.5 } else { 0.5 }).collect();
    let (mut p, mut m, mut v) = (vec![1.0; count], vec![0.0; count], vec![0.0; count]);
    let (all, step) = (0..gradient.len(), AdamStep { step: 1, ..PLAIN });
    device.adam(&mut p, &mut m, &mut v, &gradient, &verdict(NORM), &all, step).unwrap();
    for (at, p) in p.iter().enumerate() {
        let expected = if at % 3 == 0 { 1.1 - 2e-9 } else { 0.9 + 2e-9 };
        assert!((p - expected).abs() < TOLERANCE, "parameter {at}: {p}, not {expected}");
    }
}

#[test]
fn the_norm_is_euclidean_and_summed_in_f64() {
    assert_eq!(norm(&Cpu::<f64>::new(), &vec![3.0, 0.0, -4.0]), 5.0);
    assert_eq!(norm(&Cpu::<f64>::new(), &vec![]), 0.0);
    // 40 000 = 200^2 ones, over more than one chunk.
    assert_eq!(norm(&Cpu::<f32>::new(), &vec![1.0; 40_000]), 200.0);
    // The squares leave the range of f32.
    let norm = norm(&Cpu::<f32>::new(), &vec![3e20, 4e20]);
    assert!((norm / 5e20 - 1.0).abs() < f64::from(f32::EPSILON), "{norm}");
}
