//! Only what reaches a scored row is computed, and nobody can tell: logits of the rows that were asked for, the loss and
//! every parameter gradient have the same bits as from a pass over everything.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

mod common;

use common::problems::{Problem, Recipe, Task, Values};
use common::{batch_of, plans};
use harmonia::architecture::HopWeights;
use harmonia::batch::Batch;
use harmonia::config::States;
use harmonia::dataset::Level;
use harmonia::device::Device;
use harmonia::device::cpu::{Cpu, Ops};
use harmonia::device::host::Host;
use harmonia::device::launcher::Launcher;
use harmonia::graph::{Direction, Walk};
use harmonia::model::{Pass, Randomness, Resident};
use harmonia::plan::{Plan, Space};
use harmonia::real::Real;
use harmonia::seed::{Purpose, Stream};
use proptest::prelude::*;

/// Targets of a step at most: more than half of the smallest graphs, a few of the largest.
const MOST_TARGETS: usize = 12;

#[derive(Debug)]
struct Case {
    recipe: Recipe,
    /// Targets of two steps, and rows that are scored; in no order, some twice.
    units: [Vec<u32>; 3],
}

/// Isolated nodes, self-loops and repeated edges are in every graph of these.
fn cases(nodes: std::ops::Range<usize>, most_hops: usize) -> impl Strategy<Value = Case> {
    let task = prop::sample::select(vec![Task::Binary, Task::Classes(3), Task::Classes(11), Task::Multi(2)]);
    (0..10_000u64, nodes, 1..=most_hops, any::<[bool; 6]>(), task, 1..=MOST_TARGETS).prop_map(
        |(seed, nodes, hops, [directed, weighted, self_loops, lazy, free, few], task, most)| {
            let recipe = Recipe {
                seed,
                nodes,
                hops,
                task,
                weighted,
                direction: if directed { Direction::Directed } else { Direction::Undirected },
                walk: Walk { self_loops, lazy },
                hop_weights: if free { HopWeights::Free } else { HopWeights::Simplex },
                values: if few { Values::Few(3) } else { Values::Continuous },
                ..Recipe::default()
            };
            let mut rng = Stream::new(seed, Purpose::Splits, 0).rng();
            let units = [(); 3].map(|()| (0..=rng.below(most)).map(|_| rng.below(nodes) as u32).collect());
            Case { recipe, units }
        },
    )
}

/// Targets are different units.
fn distinct(units: &[u32]) -> Vec<u32> {
    let mut seen = std::collections::BTreeSet::new();
    units.iter().copied().filter(|&unit| seen.insert(unit)).collect()
}

fn batch(problem: &Problem, plan: Plan, units: &[u32]) -> Batch {
    batch_of(&problem.dataset, problem.recipe.walk, &problem.layout, plan, &distinct(units), false)
}

/// Logits, loss and gradient of a step over everything.
fn whole<D: Device>(device: &D, problem: &Problem, plan: Plan, units: &[u32]) -> (Vec<D::Real>, f64, Vec<D::Real>) {
    let (layout, batch) = (&problem.layout, batch(problem, plan, units));
    let parameters = parameters(device, problem);
    let inputs = device.inputs(&batch, plan).unwrap();
    let mut pass = Pass::new(device, layout, plan, &batch, &inputs).unwrap();
    let logits = device.download(pass.forward(&inputs, &parameters, &Randomness::none()).unwrap()).unwrap();
    let loss = pass.loss(&inputs).unwrap();
    let mut gradient = device.zeros(layout.len()).unwrap();
    pass.backward(&mut gradient, &inputs, &parameters, &Randomness::none()).unwrap();
    (logits, loss, device.download(&gradient).unwrap())
}

fn parameters<D: Device>(device: &D, problem: &Problem) -> D::Buffer {
    let values: Vec<D::Real> = problem.parameters.iter().map(|&value| D::Real::from_f64(value)).collect();
    device.upload(&values).unwrap()
}

fn bits<T: Real>(values: &[T]) -> Vec<u64> {
    values.iter().map(|value| value.widen().to_bits()).collect()
}

/// Two steps and a score with one resident batch, each after the others have left their numbers in its buffers; how many of
/// them had something to leave out.
fn same_bits<D: Device>(device: &D, case: &Case, plan: Plan) -> usize {
    let problem = &case.recipe.problem();
    let (layout, parameters) = (&problem.layout, parameters(device, problem));
    let outputs = layout.architecture.outputs;
    let [first, second, scored] = &case.units;
    let mut resident = Resident::new(device, layout, plan, batch(problem, plan, first)).unwrap();
    let rows_of = |logits: &[D::Real], units: &[u32]| -> Vec<u64> {
        units.iter().flat_map(|&unit| bits(&logits[unit as usize * outputs..][..outputs])).collect()
    };
    for units in [first, second, first] {
        let context = format!("{case:?}, targets {units:?}, {plan:?}");
        resident.retarget(batch(problem, plan, units)).unwrap();
        let (logits, loss, gradient) = whole(device, problem, plan, units);
        let mut found = device.zeros(layout.len()).unwrap();
        let found_loss = resident.gradient(&mut found, &parameters, &Randomness::none()).unwrap();
        let found_logits = device.download(resident.pass.logits()).unwrap();
        assert_eq!(rows_of(&found_logits, units), rows_of(&logits, units), "logits of {context}");
        assert_eq!(found_loss.to_bits(), loss.to_bits(), "loss of {context}");
        assert_eq!(bits(&device.download(&found).unwrap()), bits(&gradient), "gradient of {context}");
        for units in [scored, &vec![units[0]], scored] {
            let mut some = Vec::new();
            resident.unit_logits(&mut some, &parameters, units, true).unwrap();
            assert_eq!(bits(&some), rows_of(&logits, units), "scores {units:?} of {context}");
        }
    }
    let scope = |units: &Vec<u32>| device.scope(resident.batch().unwrap(), units, layout.architecture.hops).unwrap();
    case.units.iter().filter(|units| scope(units).is_some()).count()
}

fn every_plan<T: Ops>(device: &Cpu<T>, case: &Case) -> usize {
    plans().into_iter().map(|plan| same_bits(device, case, plan)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_pass_over_what_counts_has_the_bits_of_one_over_everything(case in cases(1..200, 6)) {
        every_plan(&Cpu::<f32>::new(), &case);
        every_plan(&Cpu::<f64>::new(), &case);
    }

    #[test]
    fn states_in_half_precision_too(case in cases(30..200, 5)) {
        let case = Case { recipe: Recipe { direction: Direction::Undirected, weighted: false, ..case.recipe }, ..case };
        for states in [States::F16, States::Bf16] {
            every_plan(&Cpu::<f32>::with_states(states), &case);
        }
    }
}

/// Several stretches of rows, panels taken one after the other, a hub, and every form of work left out.
#[test]
fn large_graphs_too_on_any_number_of_threads() {
    for (direction, weighted) in [(Direction::Undirected, false), (Direction::Directed, true)] {
        let recipe = Recipe { nodes: 20_000, hops: 4, hub: 3000, direction, weighted, ..Recipe::default() };
        let few = (0..40).map(|i| i * 401).collect();
        // Within one step there is more than half of everything; of the last only within three.
        let many = (0..20_000).step_by(3).collect();
        let case = Case { recipe, units: [few, many, vec![19_999, 7, 4000]] };
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                for space in [Space::Classes, Space::Features] {
                    let plan = Plan { space, ..Plan::DIRECT };
                    assert_eq!(same_bits(&Cpu::<f32>::new(), &case, plan), 3, "{space:?}");
                }
            });
        }
    }
}

/// The kernels leave out the same.
#[test]
fn kernels_have_the_same_bits_too() {
    let base = Recipe { nodes: 400, hops: 4, hidden: vec![3], ..Recipe::default() };
    let loops = Walk { self_loops: true, lazy: false };
    let cases = [
        (base.clone(), States::F32),
        (Recipe { features: 5, task: Task::Classes(11), weighted: true, ..base.clone() }, States::F32),
        (Recipe { features: 40, task: Task::Binary, direction: Direction::Directed, ..base.clone() }, States::F32),
        (Recipe { features: 100, walk: loops, weighted: true, hops: 3, ..base.clone() }, States::F32),
        (Recipe { nodes: 1500, hub: 1300, features: 33, ..base.clone() }, States::F32),
        (Recipe { features: 9, ..base.clone() }, States::F16),
        (Recipe { features: 36, ..base }, States::Bf16),
    ];
    for (recipe, states) in cases {
        let device = Launcher::new(Host::new().unwrap(), states);
        let units = [vec![3, 9, 0], (0..200).step_by(7).collect(), vec![recipe.nodes as u32 - 1, 5]];
        let case = Case { recipe, units };
        for space in [Space::Classes, Space::Features] {
            assert!(same_bits(&device, &case, Plan { space, ..Plan::DIRECT }) >= 2, "{case:?}");
        }
    }
}

#[test]
fn where_everything_counts_nothing_is_left_out() {
    let device = Cpu::<f32>::new();
    let graphs = Recipe { nodes: 60, graphs: 6, level: Level::Graph, ..Recipe::default() }.problem();
    assert!(device.scope(&graphs.batch(Plan::DIRECT), &[1], 3).unwrap().is_none(), "logits of whole graphs");
    let nodes = Recipe { nodes: 60, ..Recipe::default() }.problem();
    let most: Vec<u32> = (0..31).collect();
    assert!(device.scope(&nodes.batch(Plan::DIRECT), &most, 3).unwrap().is_none(), "more than half of the nodes");
    assert!(device.scope(&nodes.batch(Plan::DIRECT), &[59], 3).unwrap().is_some(), "one of sixty");
}
