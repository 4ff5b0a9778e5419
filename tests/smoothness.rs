//! The penalty on responses that bend: its formula, its gradient by central differences in f64, the kernels, and what it does to a
//! training.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod common;

use common::oracle::Oracle;
use common::problems::{Problem, Recipe, Task, Values};
use harmonia::architecture::HopWeights;
use harmonia::config::{Config, Monb, Smoothness as Strengths};
use harmonia::dataset::{Dataset, Features, Labels};
use harmonia::device::cpu::Cpu;
use harmonia::device::host::Host;
use harmonia::device::launcher::Launcher;
use harmonia::device::{Device, Machine};
use harmonia::graph::{Direction, Graph, Split};
use harmonia::model::{FittedModel, Pass, Randomness, Smoothness};
use harmonia::plan::Plan;
use harmonia::real::Real;
use harmonia::seed::{Purpose, Stream};
use harmonia::stop::Stop;
use harmonia::train::{Prepared, RunName, Trainer};
use harmonia::walk_table::Grid;

const STRENGTH: f64 = 0.3;
/// The third derivative times the squared step and the rounding of the penalty over the step are both near 1e-9.
const STEP: f64 = 1e-5;
const TOLERANCE: f64 = 1e-5;
/// Sums of some dozen numbers of size one in f32, twice differenced.
const F32_TOLERANCE: f64 = 2e-4;

/// The penalty and its gradient by a device.
fn penalty<D: Device>(
    device: &D,
    problem: &Problem,
    monb: Monb,
    parameters: &[f64],
    noise: Option<&[f64]>,
) -> (f64, Vec<f64>) {
    let plan = Plan { monb, ..Plan::DIRECT };
    let real = |values: &[f64]| values.iter().map(|&value| D::Real::from_f64(value)).collect::<Vec<_>>();
    let batch = problem.batch(plan);
    let inputs = device.inputs(&batch, plan).unwrap();
    let mut pass = Pass::new(device, &problem.layout, plan, &batch, &inputs).unwrap();
    let mut smoothness = Smoothness::new(device, &problem.layout, plan, &problem.dataset.features, STRENGTH).unwrap();
    let parameters = device.upload(&real(parameters)).unwrap();
    let noise = noise.map(|noise| device.upload(&real(noise)).unwrap());
    let randomness = Randomness { noise, dropout: None };
    loop {
        pass.forward(&inputs, &parameters, &randomness).unwrap();
        let judgement = pass.judgement().unwrap();
        if !judgement.crowded {
            break;
        }
        pass.make_room(judgement.pieces).unwrap();
    }
    let mut gradient = device.zeros(problem.layout.len()).unwrap();
    smoothness.add(&mut pass, &mut gradient, &parameters, randomness.noise.as_ref()).unwrap();
    (smoothness.penalty().unwrap(), device.download(&gradient).unwrap().into_iter().map(Real::widen).collect())
}

/// As the formula reads: slopes to the left and right of every inner point.
fn by_formula(problem: &Problem, noise: Option<&[f64]>) -> f64 {
    let (layout, p) = (&problem.layout, &problem.parameters);
    let (d, outputs, hops) = (layout.architecture.features, layout.architecture.outputs, layout.architecture.hops);
    let grid = Grid::of(&problem.dataset.features, 17);
    let mut total = 0.0;
    for k in 0..d {
        let g = grid.points(k);
        // The oracle on nodes that have the points as their k-th feature.
        let x: Vec<f32> = g.iter().flat_map(|&x| (0..d).map(move |other| if other == k { x } else { 0.0 })).collect();
        let graph = Graph::from_edges(g.len(), &[], None, Direction::Undirected).unwrap();
        let labels = Labels::Values { values: vec![0.0; g.len() * outputs], width: outputs };
        let split = Split { train: vec![0], ..Split::default() };
        let features = Features::new(g.len(), d, x).unwrap();
        let recipe = Recipe { graphs: 1, level: harmonia::dataset::Level::Node, ..problem.recipe.clone() };
        let points = Problem {
            recipe,
            edges: Vec::new(),
            weights: None,
            ..problem.on(Dataset::nodes("points", graph, features, labels, split).unwrap())
        };
        let oracle = Oracle::new(&points, noise, None);
        let f = |q: usize| oracle.responses[q][k];
        let w: f64 = (0..outputs).map(|c| p[layout.readout_weight.start + k * outputs + c].powi(2)).sum();
        let reach: f64 = match layout.architecture.hop_weights {
            HopWeights::Free => (0..hops).map(|t| oracle.hop_weights[t][k].powi(2)).sum(),
            _ => 1.0,
        };
        for q in 1..g.len() - 1 {
            let [low, here, high] = [g[q - 1], g[q], g[q + 1]].map(f64::from);
            let line = f(q - 1) + (f(q + 1) - f(q - 1)) * (here - low) / (high - low);
            total += STRENGTH * w * reach * (2.0 * (g.len() - 1) as f64 * (f(q) - line)).powi(2);
        }
    }
    total
}

fn recipes() -> Vec<Recipe> {
    let base = Recipe { seed: 71, nodes: 40, features: 3, hidden: vec![6, 4], ..Recipe::default() };
    vec![
        base.clone(),
        Recipe { seed: 72, task: Task::Binary, hop_weights: HopWeights::Free, ..base.clone() },
        Recipe { seed: 73, hop_weights: HopWeights::Free, hop_basis: true, values: Values::Few(5), ..base.clone() },
        Recipe { seed: 74, task: Task::Numbers(2), hop_weights: HopWeights::Signed, hidden: vec![9], ..base.clone() },
        Recipe { seed: 75, hop_weights: HopWeights::Absolute, values: Values::Few(2), features: 2, ..base },
    ]
}

#[test]
fn the_penalty_is_its_formula_and_a_line_costs_nothing() {
    for recipe in recipes() {
        let problem = recipe.problem();
        for noise in [None, Some(&problem.noise[..])] {
            let expected = by_formula(&problem, noise);
            for monb in [Monb::Direct, Monb::Knots] {
                let found = penalty(&Cpu::<f64>::new(), &problem, monb, &problem.parameters, noise).0;
                // Points and lines are rounded where pieces meet.
                assert!((found - expected).abs() <= 1e-9 * expected.max(1.0), "{found} {expected} {monb:?} {recipe:?}");
            }
            assert_eq!(expected > 0.0, !matches!(recipe.values, Values::Few(2)), "{recipe:?}");
        }
        let straight = Recipe { hidden: vec![], ..recipe }.problem();
        let (value, gradient) = penalty(&Cpu::<f64>::new(), &straight, Monb::Knots, &straight.parameters, None);
        assert!(value < 1e-20 && gradient.iter().all(|d| d.abs() < 1e-9), "{value}");
    }
}

#[test]
fn its_gradient_is_that_of_central_differences() {
    let (mut telling, mut kinks) = (0, 0);
    for recipe in recipes() {
        let problem = recipe.problem();
        let device = Cpu::<f64>::new();
        let noise = Some(&problem.noise[..]);
        for monb in [Monb::Direct, Monb::Knots] {
            let gradient = penalty(&device, &problem, monb, &problem.parameters, noise).1;
            let largest = gradient.iter().fold(0.0f64, |most, d| most.max(d.abs()));
            for at in 0..problem.layout.len() {
                let difference = |step: f64| {
                    let mut moved = problem.parameters.clone();
                    moved[at] += step;
                    let above = penalty(&device, &problem, monb, &moved, noise).0;
                    moved[at] -= 2.0 * step;
                    (above - penalty(&device, &problem, monb, &moved, noise).0) / (2.0 * step)
                };
                let near = |expected: f64| (gradient[at] - expected).abs() <= TOLERANCE * expected.abs().max(largest);
                let expected = difference(STEP);
                telling += usize::from(expected.abs() > 1e-3 * largest && largest > 0.0);
                if !near(expected) {
                    // A difference across a kink is no derivative, and changes with the step.
                    assert!(!near(difference(2.0 * STEP)) || !near(difference(STEP / 4.0)), "{at} {recipe:?}");
                    kinks += 1;
                }
            }
        }
    }
    assert!(telling > 300 && kinks < telling / 50, "{telling} telling, {kinks} at a kink");
}

#[test]
fn kernels_compute_it_as_the_cpu_does() {
    let host = Launcher::new(Host::new().unwrap(), Default::default());
    for recipe in recipes() {
        let problem = recipe.problem();
        for monb in [Monb::Direct, Monb::Knots] {
            let noise = Some(&problem.noise[..]);
            let expected = penalty(&Cpu::<f64>::new(), &problem, monb, &problem.parameters, noise);
            let found = penalty(&host, &problem, monb, &problem.parameters, noise);
            assert!((found.0 - expected.0).abs() <= F32_TOLERANCE * expected.0.max(1.0), "{} {}", found.0, expected.0);
            let largest = expected.1.iter().fold(1.0f64, |most, d| most.max(d.abs()));
            for (found, expected) in found.1.iter().zip(&expected.1) {
                assert!((found - expected).abs() <= F32_TOLERANCE * largest, "{found} {expected} {monb:?} {recipe:?}");
            }
        }
    }
}

/// One feature in [-1, 1], a step of it in noise, no edges.
fn noisy_step() -> Dataset {
    let mut rng = Stream::new(5, Purpose::SyntheticGraph, 0).rng();
    let x: Vec<f32> = (0..200).map(|i| i as f32 / 99.5 - 1.0).collect();
    let y: Vec<f32> = x.iter().map(|&x| f32::from(x > 0.2) + (rng.uniform() - 0.5) as f32).collect();
    let graph = Graph::from_edges(200, &[], None, Direction::Undirected).unwrap();
    let units: Vec<u32> = (0..200).collect();
    let split = Split::fractions(&units, [60.0, 20.0, 20.0], 0);
    let labels = Labels::Values { values: y, width: 1 };
    Dataset::nodes("step", graph, Features::new(200, 1, x).unwrap(), labels, split).unwrap()
}

#[test]
fn more_of_it_makes_straighter_responses() {
    let bent = |smoothness: f64| {
        let mut config = Config::default();
        (config.train.epochs, config.train.patience, config.train.learning_rate) = (300, 0, 1e-2);
        (config.model.hops, config.init.readout_scale, config.train.smoothness) = (1, 1.0, smoothness.into());
        let run = Prepared::of(noisy_step(), None, &config, RunName { seed: 2, fold: None }).unwrap();
        let device = Cpu::<f32>::new();
        let mut trainer = Trainer::new(&device, &run, &config, None).unwrap();
        while !trainer.finished() {
            trainer.epoch().unwrap();
        }
        let (effects, _) = trainer.contributions(&(0..200).collect::<Vec<_>>()).unwrap();
        let rise = effects[199] - effects[0];
        // How far the effect lies from the straight line between its ends, as a part of its rise.
        let line = |i: usize| effects[0] + rise * i as f64 / 199.0;
        let off = (0..200).map(|i| (effects[i] - line(i)).abs()).fold(0.0, f64::max);
        (off / rise.abs(), rise)
    };
    let [(free, rise), (some, _), (much, still)] = [0.0, 1e-3, 10.0].map(bent);
    assert!(free > 0.2 && rise > 0.5, "a step is no line: {free} {rise}");
    assert!(some < free && much < 0.05 && still > 0.2, "{free} {some} {much}, {still}");
}

#[test]
fn of_several_the_best_on_validation_is_trained_and_nothing_else() {
    let (dataset, stop) = (noisy_step(), Stop::new());
    let mut config = Config::default();
    (config.train.epochs, config.train.learning_rate, config.model.hops, config.run.seed) = (60, 1e-2, 1, 2);
    config.init.readout_scale = 1.0;
    let machine = Machine::open("cpu", config.engine).unwrap();
    let mut fitted = |smoothness: Strengths| {
        config.train.smoothness = smoothness;
        harmonia::fit(&dataset, &config, &machine, &stop)
    };
    let loss = |model: &FittedModel| {
        let (predicted, Labels::Values { values, .. }) = (model.logits(&dataset).unwrap(), &dataset.labels) else {
            unreachable!()
        };
        let error = |&i: &u32| f64::from(predicted[i as usize] - values[i as usize]).powi(2);
        dataset.split.valid.iter().map(error).sum::<f64>()
    };
    // The last one is more than single precision can bear: it counts as worst.
    let strengths = [1e-4, 10.0, 1e30];
    let alone = strengths[..2].iter().map(|&strength| fitted(strength.into()).unwrap()).collect::<Vec<_>>();
    assert!(fitted(strengths[2].into()).is_err());
    let best = alone.iter().min_by(|a, b| loss(a).total_cmp(&loss(b))).unwrap();
    let other = alone.iter().find(|model| model.parameters != best.parameters).unwrap();
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let chosen = fitted(Strengths::among(&order.map(|at| strengths[at]))).unwrap();
        assert!(chosen.parameters == best.parameters && chosen.parameters != other.parameters);
    }
    let error = fitted(Strengths::among(&[1e30, 1e31])).unwrap_err().to_string();
    assert!(error.contains("diverged"), "{error}");
    // A trainer alone has nobody to ask.
    config.train.smoothness = Strengths::among(&strengths);
    let run = Prepared::of(dataset.clone(), None, &config, RunName { seed: 2, fold: None }).unwrap();
    let error = Trainer::new(&Cpu::<f32>::new(), &run, &config, None).err().unwrap().to_string();
    assert!(error.contains("train.smoothness is a list"), "{error}");
}

#[test]
fn a_penalty_is_no_negative_number() {
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let mut config = Config::default();
        config.train.smoothness = bad.into();
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains("train.smoothness") && error.contains("at least 0"), "{error}");
    }
}
