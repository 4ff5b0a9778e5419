//! What a step does to parameters beside the pass: costs of bends and signs that are kept, against the CPU in f64.

use super::assert_close;
use super::parity::TOLERANCE;
use super::problems::{Recipe, Task};
use harmonia::architecture::HopWeights;
use harmonia::device::cpu::{Cpu, Panels};
use harmonia::device::{Bends, Device};
use harmonia::seed::{Purpose, Stream};

/// More features than a block has threads; of one, two and many points.
const FEATURES: usize = 300;
const POINTS: usize = 7;

/// Both, on a device.
pub fn check<D: Device<Real = f32>>(device: &D) {
    signs(device);
    for (hop_weights, task) in [(HopWeights::Free, Task::Classes(5)), (HopWeights::Simplex, Task::Binary)] {
        let recipe = Recipe { seed: 61, features: FEATURES, hop_weights, task, ..Recipe::default() };
        bends(device, &recipe);
    }
}

/// Numbers that are on the wrong side of zero turn into it, and no others change.
fn signs<D: Device<Real = f32>>(device: &D) {
    let values: Vec<f32> = (0..700).map(|at| (at % 7) as f32 - 3.0).collect();
    let signs: Vec<f32> = (0..700).map(|at| (at % 3) as f32 - 1.0).collect();
    let expected: Vec<f32> = values.iter().zip(&signs).map(|(v, s)| if v * s < 0.0 { 0.0 } else { *v }).collect();
    let mut kept = device.upload(&values).unwrap();
    device.keep_signs(&mut kept, &device.upload(&signs).unwrap()).unwrap();
    assert_eq!(device.download(&kept).unwrap(), expected);
    assert!(expected != values && expected.iter().any(|value| *value < 0.0));
}

fn bends<D: Device<Real = f32>>(device: &D, recipe: &Recipe) {
    let problem = recipe.problem();
    let (layout, a) = (&problem.layout, &problem.layout.architecture);
    let mut rng = Stream::new(recipe.seed, Purpose::Initialisation, 9).rng();
    let mut random = |length: usize| (0..length).map(|_| rng.uniform() as f32 - 0.5).collect::<Vec<f32>>();
    let (responses, gradient) = (random(POINTS * FEATURES), random(layout.len()));
    let (hop_weights, steps) = (random(a.hops * FEATURES), random(POINTS * FEATURES));
    let parameters: Vec<f32> = problem.parameters.iter().map(|&value| value as f32).collect();
    // Points increase, at uneven distances.
    let points: Vec<f32> = (steps.iter().enumerate()).map(|(at, step)| (at / FEATURES) as f32 + 0.8 * step).collect();
    let counts: Vec<f32> = (0..FEATURES).map(|k| (1 + k % POINTS) as f32).collect();
    let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<f64>>();

    let oracle = Cpu::<f64>::new();
    let mut expected = Bends::<Cpu<f64>> {
        strength: 0.3,
        points: wide(&points),
        counts: wide(&counts),
        penalties: vec![0.0; FEATURES],
        d_hop_weights: vec![0.0; a.hops * FEATURES],
    };
    let (mut f, mut sums) = (Panels::from_row_major(&wide(&responses), FEATURES), wide(&gradient));
    oracle.bend(&mut expected, &mut f, &mut sums, &wide(&hop_weights), &wide(&parameters), layout).unwrap();

    let upload = |values: &[f32]| device.upload(values).unwrap();
    let mut found = Bends::<D> {
        strength: 0.3,
        points: upload(&points),
        counts: upload(&counts),
        penalties: device.zeros(FEATURES).unwrap(),
        d_hop_weights: device.zeros(a.hops * FEATURES).unwrap(),
    };
    let (mut on, mut added) = (device.upload_matrix(&responses, FEATURES).unwrap(), upload(&gradient));
    let (theta, all) = (upload(&hop_weights), upload(&parameters));
    device.bend(&mut found, &mut on, &mut added, &theta, &all, layout).unwrap();

    let same = |what: &str, found: &[f32], expected: &[f64]| assert_close(what, found, expected, TOLERANCE, recipe);
    same("gradients by responses", &device.download_matrix(&on).unwrap(), &f.to_row_major());
    same("gradients by parameters", &device.download(&added).unwrap(), &sums);
    same("penalties", &device.download(&found.penalties).unwrap(), &expected.penalties);
    same("gradients by hop weights", &device.download(&found.d_hop_weights).unwrap(), &expected.d_hop_weights);
    assert!(expected.penalties.iter().filter(|penalty| **penalty > 0.0).count() > FEATURES / 2);
}
