//! A batch that a device puts together from what is there, graphs, rows of a table of walks, or targets of one graph, is the batch
//! that the host would have copied: the same loss and the same gradient, bit by bit, by every way to compute a step.

use super::problems::{Problem, Recipe, Task, Values};
use super::{as_sparse, plans};
use harmonia::batch::Batches;
use harmonia::config::{DropoutPlace, Monb, States};
use harmonia::dataset::{Dataset, Level};
use harmonia::device::{Device, Dropout};
use harmonia::graph::Direction;
use harmonia::model::{Randomness, Resident};
use harmonia::plan::{Plan, Space};
use harmonia::seed::{Purpose, Stream};
use harmonia::tabulate::{Builder, TablePlan};
use harmonia::walk_table::CellBits;
use harmonia::watch::Watch;
use std::sync::Arc;

/// Graphs of both levels, walks of both directions; batches of more nodes, entries and non-zeros than a block has threads.
fn recipes() -> [Recipe; 3] {
    let base = Recipe { seed: 51, nodes: 700, graphs: 40, features: 14, values: Values::Few(3), ..Recipe::default() };
    [
        Recipe { level: Level::Graph, task: Task::Binary, unit_weights: true, ..base.clone() },
        Recipe {
            seed: 52,
            direction: Direction::Directed,
            weighted: true,
            unit_weights: true,
            hops: 2,
            ..base.clone()
        },
        Recipe { seed: 53, nodes: 120, graphs: 6, task: Task::Numbers(2), features: 3, ..base },
    ]
}

/// Every way on a device.
pub fn check<D: Device<Real = f32>>(device: &D, states: States) {
    let undirected = |recipe: &&Recipe| states != States::F16 || recipe.direction == Direction::Undirected;
    for recipe in recipes().iter().filter(undirected) {
        plans().into_iter().for_each(|plan| check_plan(device, recipe, plan));
        let one_graph = Recipe { graphs: 1, level: Level::Node, ..recipe.clone() };
        plans().into_iter().for_each(|plan| check_targets(device, &one_graph, plan));
        for recipe in [recipe, &one_graph] {
            [0.0, 0.3].into_iter().for_each(|dropped| check_table(device, recipe, dropped));
        }
    }
}

fn check_plan<D: Device<Real = f32>>(device: &D, recipe: &Recipe, plan: Plan) {
    let problem = recipe.problem();
    let features = Arc::clone(&problem.dataset.features);
    let features = if plan.sparse { Arc::new(as_sparse(&features)) } else { features };
    let dataset = Dataset { features, ..problem.dataset.clone() };
    let layout = &problem.layout;
    let weights = problem.unit_weights.clone().map(Arc::from);
    let batches =
        Batches::planned(&dataset, recipe.walk, plan, layout.architecture.walk_lengths()).merged().weighted(weights);
    // Some units are never targets.
    let targets: Vec<u32> = (0..dataset.units() as u32).filter(|unit| unit % 5 != 2).collect();
    let of = |graphs: &[usize]| -> Vec<u32> {
        let held = |graph: &usize| -> Vec<u32> {
            targets.iter().copied().filter(|&unit| dataset.graph_of(unit as usize) == *graph).collect()
        };
        graphs.iter().flat_map(held).collect()
    };
    let last = dataset.graphs() - 1;
    let shuffled: Vec<usize> = (0..=last).map(|at| at * 7 % (last + 1)).filter(|graph| graph % 4 != 0).collect();
    let collection = device.collection(&batches.collected(&targets).unwrap(), plan).unwrap().unwrap();
    let gradient = |resident| gradient(device, &problem, resident);
    for graphs in [vec![last], vec![1, last, 0], shuffled] {
        let units = of(&graphs);
        let copied = Resident::new(device, layout, plan, batches.holding(&units)).unwrap();
        let other = Resident::new(device, layout, plan, batches.holding(&of(&[2, 3]))).unwrap();
        let selected = other.selected(&collection, &batches.selection(&units)).unwrap();
        assert_eq!(gradient(selected), gradient(copied), "{plan:?} {graphs:?} {recipe:?}");
    }
}

/// Units of a table, in an order of their own, some of them a block's worth.
fn check_table<D: Device<Real = f32>>(device: &D, recipe: &Recipe, dropped: f64) {
    let problem = recipe.problem();
    let (dataset, layout) = (&problem.dataset, &problem.layout);
    let plan = Plan { monb: Monb::Knots, space: Space::Table, sparse: false };
    let planned = TablePlan::with(dataset, layout.architecture.hops, 5, CellBits::Sixteen);
    let table = Builder::new(dataset, recipe.walk, &planned).table(&Watch::silent()).unwrap();
    let batches = Batches::tabled(dataset, Arc::new(table), dropped).for_loss(problem.objective(), None);
    let units = &dataset.split.train;
    let collection = device.collection(&batches.collected(units).unwrap(), plan).unwrap().unwrap();
    let some = |step: usize| -> Vec<u32> { units.iter().rev().step_by(step).copied().collect() };
    for units in [some(units.len()), some(3), some(1)] {
        let copied = Resident::new(device, layout, plan, batches.holding(&units)).unwrap();
        let other = Resident::new(device, layout, plan, batches.holding(&some(7))).unwrap();
        let selected = other.selected(&collection, &batches.selection(&units)).unwrap();
        let [selected, copied] = [selected, copied].map(|resident| gradient(device, &problem, resident));
        assert_eq!(selected, copied, "dropped {dropped}, {} units, {recipe:?}", units.len());
    }
}

/// Targets of one graph after others.
fn check_targets<D: Device<Real = f32>>(device: &D, recipe: &Recipe, plan: Plan) {
    let problem = recipe.problem();
    let features = Arc::clone(&problem.dataset.features);
    let features = if plan.sparse { Arc::new(as_sparse(&features)) } else { features };
    let dataset = Dataset { features, ..problem.dataset.clone() };
    let layout = &problem.layout;
    let batches = Batches::planned(&dataset, recipe.walk, plan, layout.architecture.walk_lengths());
    let all: Vec<u32> = (0..dataset.units() as u32).collect();
    let collection = device.collection(&batches.collected(&all).unwrap(), plan).unwrap().unwrap();
    let mut resident = Resident::new(device, layout, plan, batches.whole(&all)).unwrap();
    for units in [vec![all.len() as u32 - 1], all.iter().rev().step_by(3).copied().collect(), vec![5, 2]] {
        let copied = Resident::new(device, layout, plan, batches.whole(&units)).unwrap();
        resident.retarget_to(&collection, &units).unwrap();
        let found = gradient_of(device, &problem, &mut resident);
        assert_eq!(found, gradient(device, &problem, copied), "{plan:?} {} units, {recipe:?}", units.len());
    }
}

fn gradient<D: Device<Real = f32>>(device: &D, problem: &Problem, mut resident: Resident<'_, D>) -> (u64, Vec<u32>) {
    gradient_of(device, problem, &mut resident)
}

/// Bits of the loss and of every number of its gradient.
fn gradient_of<D: Device<Real = f32>>(
    device: &D,
    problem: &Problem,
    resident: &mut Resident<'_, D>,
) -> (u64, Vec<u32>) {
    let parameters: Vec<f32> = problem.parameters.iter().map(|&value| value as f32).collect();
    let parameters = device.upload(&parameters).unwrap();
    let dropout = Dropout { place: DropoutPlace::Input, rate: 0.3, stream: Stream::new(9, Purpose::Dropout, 4) };
    let randomness = Randomness { noise: None, dropout: Some(dropout) };
    loop {
        let mut gradient = device.zeros(problem.layout.len()).unwrap();
        match resident.gradient(&mut gradient, &parameters, &randomness) {
            Ok(loss) => {
                let gradient = device.download(&gradient).unwrap();
                return (loss.to_bits(), gradient.into_iter().map(f32::to_bits).collect());
            }
            // Tables of pieces grow first.
            Err(error) => assert!(error.to_string().ends_with("ask again"), "{error}"),
        }
    }
}
