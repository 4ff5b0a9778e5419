//! A batch that a device puts together from graphs that are there is the batch that the host would have copied: the same loss
//! and the same gradient, bit by bit, by every way to compute a step.

use super::problems::{Recipe, Task, Values};
use super::{as_sparse, plans};
use harmonia::batch::Batches;
use harmonia::config::{DropoutPlace, States};
use harmonia::dataset::{Dataset, Level};
use harmonia::device::{Device, Dropout};
use harmonia::graph::Direction;
use harmonia::model::{Randomness, Resident};
use harmonia::plan::Plan;
use harmonia::seed::{Purpose, Stream};
use std::sync::Arc;

/// Graphs of both levels, walks of both directions; batches of more nodes, entries and non-zeros than a block has threads.
fn recipes() -> [Recipe; 3] {
    let base = Recipe { seed: 51, nodes: 700, graphs: 40, features: 14, values: Values::Few(3), ..Recipe::default() };
    [
        Recipe { level: Level::Graph, task: Task::Binary, ..base.clone() },
        Recipe { seed: 52, direction: Direction::Directed, weighted: true, hops: 2, ..base.clone() },
        Recipe { seed: 53, nodes: 120, graphs: 6, task: Task::Numbers(2), features: 3, ..base },
    ]
}

/// Every way on a device.
pub fn check<D: Device<Real = f32>>(device: &D, states: States) {
    let undirected = |recipe: &&Recipe| states != States::F16 || recipe.direction == Direction::Undirected;
    for recipe in recipes().iter().filter(undirected) {
        plans().into_iter().for_each(|plan| check_plan(device, recipe, plan));
    }
}

fn check_plan<D: Device<Real = f32>>(device: &D, recipe: &Recipe, plan: Plan) {
    let problem = recipe.problem();
    let features = Arc::clone(&problem.dataset.features);
    let features = if plan.sparse { Arc::new(as_sparse(&features)) } else { features };
    let dataset = Dataset { features, ..problem.dataset.clone() };
    let layout = &problem.layout;
    let batches = Batches::planned(&dataset, recipe.walk, plan, layout.architecture.hops).merged();
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
    let collection = device.collection(&batches.whole(&targets), plan).unwrap().unwrap();
    let parameters: Vec<f32> = problem.parameters.iter().map(|&value| value as f32).collect();
    let parameters = device.upload(&parameters).unwrap();
    let dropout = Dropout { place: DropoutPlace::Input, rate: 0.3, stream: Stream::new(9, Purpose::Dropout, 4) };
    let randomness = Randomness { noise: None, dropout: Some(dropout) };
    let gradient = |mut resident: Resident<'_, D>| loop {
        let mut gradient = device.zeros(layout.len()).unwrap();
        match resident.gradient(&mut gradient, &parameters, &randomness) {
            Ok(loss) => {
                let bits = |value: f32| value.to_bits();
                return (loss.to_bits(), device.download(&gradient).unwrap().into_iter().map(bits).collect::<Vec<_>>());
            }
            // Tables of pieces grow first.
            Err(error) => assert!(error.to_string().ends_with("ask again"), "{error}"),
        }
    };
    for graphs in [vec![last], vec![1, last, 0], shuffled] {
        let units = of(&graphs);
        let copied = Resident::new(device, layout, plan, batches.holding(&units)).unwrap();
        let other = Resident::new(device, layout, plan, batches.holding(&of(&[2, 3]))).unwrap();
        let selected = other.selected(&collection, &batches.selection(&units)).unwrap();
        assert_eq!(gradient(selected), gradient(copied), "{plan:?} {graphs:?} {recipe:?}");
    }
}
