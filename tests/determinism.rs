//! A pass gives the same bits on any number of threads.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

mod common;

use common::problems::{Recipe, Task, Values};
use common::{plans_for, run};
use harmonia::config::DropoutPlace;
use harmonia::dataset::Level;
use harmonia::device::Dropout;
use harmonia::device::cpu::Ops;
use harmonia::graph::Direction;
use harmonia::plan::Plan;
use harmonia::seed::{Purpose, Stream};

const THREADS: [usize; 3] = [1, 2, 4];

/// Loss, logits and gradient as bits; f64 holds every f32 exactly.
fn bits<T: Ops>(recipe: &Recipe, plan: Plan, place: DropoutPlace, threads: usize) -> Vec<u64> {
    let problem = recipe.problem();
    let dropout = Dropout { place, rate: 0.4, stream: Stream::new(recipe.seed, Purpose::Dropout, 3) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let outcome = pool.install(|| {
        assert_eq!(rayon::current_num_threads(), threads);
        run::<T>(&problem, plan, Some(&problem.noise), Some(dropout))
    });
    let values = outcome.logits.iter().chain(&outcome.gradient).map(|value| value.widen());
    values.chain([outcome.loss]).map(f64::to_bits).collect()
}

fn assert_same_bits<T: Ops>(recipe: &Recipe, place: DropoutPlace) {
    let [first, rest @ ..] = THREADS;
    let dropout = Dropout { place, rate: 0.4, stream: Stream::new(recipe.seed, Purpose::Dropout, 3) };
    for plan in plans_for(Some(&dropout)) {
        let expected = bits::<T>(recipe, plan, place, first);
        assert!(expected.iter().all(|&bits| f64::from_bits(bits).is_finite()), "{recipe:?}");
        for threads in rest {
            let found = bits::<T>(recipe, plan, place, threads);
            let differing = expected.iter().zip(&found).filter(|(expected, found)| expected != found).count();
            let values = expected.len();
            assert_eq!(differing, 0, "of {values} values with {threads} threads, {plan:?}, {place:?}, {recipe:?}");
        }
    }
}

/// 9000 nodes are three chunks of rows and 36 tiles; 40 features are two panels.
fn large() -> Recipe {
    let direction = Direction::Directed;
    Recipe { seed: 31, nodes: 9000, features: 40, hidden: vec![9, 4], direction, weighted: true, ..Recipe::default() }
}

#[test]
fn dense_features() {
    for place in [DropoutPlace::None, DropoutPlace::Input, DropoutPlace::Feature, DropoutPlace::Hidden] {
        assert_same_bits::<f32>(&large(), place);
    }
    assert_same_bits::<f64>(&large(), DropoutPlace::Input);
}

#[test]
fn few_values() {
    let recipe = Recipe { values: Values::Few(5), task: Task::Multi(2), ..large() };
    for place in [DropoutPlace::None, DropoutPlace::Input, DropoutPlace::Feature] {
        assert_same_bits::<f32>(&recipe, place);
    }
    assert_same_bits::<f64>(&recipe, DropoutPlace::Input);
}

#[test]
fn graph_tasks() {
    let recipe = Recipe { level: Level::Graph, graphs: 600, task: Task::Binary, ..large() };
    assert_same_bits::<f32>(&recipe, DropoutPlace::Hidden);
    assert_same_bits::<f64>(&Recipe { values: Values::Few(4), ..recipe }, DropoutPlace::Input);
}
