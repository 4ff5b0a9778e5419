//! Outputs of a graph computed a few classes at a time: against one pass over the whole of it.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

mod common;

use common::problems::{Recipe, Task, Values};
use common::{assert_close, run};
use harmonia::architecture::{HopWeights, Layout};
use harmonia::batch::{Batches, Reach};
use harmonia::graph::{Direction, Walk};
use harmonia::model::panels::{self, PanelPlan};
use harmonia::plan::Plan;

/// Sums of some hundred products of size one in f32.
const TOLERANCE: f64 = 1e-4;

#[test]
fn panels_say_what_one_pass_says() {
    let mut seed = 300;
    for direction in [Direction::Undirected, Direction::Directed] {
        for hops in 1..=4 {
            for values in [Values::Continuous, Values::Few(3)] {
                seed += 1;
                let walk = Walk { self_loops: seed % 2 == 0, lazy: seed % 3 == 0 };
                let hop_basis = hops == 4;
                let hop_weights = if hop_basis { HopWeights::Free } else { HopWeights::Simplex };
                let shape = Recipe { seed, direction, hops, values, walk, hop_weights, hop_basis, ..Recipe::default() };
                // More rows than a tile has.
                let recipe = Recipe { nodes: 150, weighted: hops == 2, task: Task::Classes(5), ..shape };
                let problem = recipe.problem();
                let whole = run::<f64>(&problem, Plan::DIRECT, None, None).logits;
                let parameters: Vec<f32> = problem.parameters.iter().map(|&value| value as f32).collect();
                let batches = Batches::new(&problem.dataset, walk);
                let Reach::Walk(transition) = batches.reach() else { unreachable!() };
                let units: Vec<u32> = (0..150).filter(|unit| unit % 7 != 3).collect();
                for classes in [1, 2, 5] {
                    let x = &problem.dataset.features;
                    let plan = PanelPlan { classes };
                    let found = panels::logits(&problem.layout, &parameters, x, transition, &units, plan).unwrap();
                    for (&unit, found) in units.iter().zip(found.chunks_exact(5)) {
                        let found: Vec<f64> = found.iter().map(|&value| f64::from(value)).collect();
                        let expected = &whole[unit as usize * 5..][..5];
                        assert_close("logits", &found, expected, TOLERANCE, &(&recipe, classes));
                    }
                }
            }
        }
    }
}

#[test]
fn panels_are_taken_where_a_pass_would_fill_memory_and_are_as_wide_as_there_is_room() {
    let mut architecture = Recipe::default().problem().layout.architecture.clone();
    (architecture.features, architecture.outputs, architecture.hops) = (64, 47, 4);
    let layout = Layout::new(architecture).unwrap();
    // A pass over a million nodes holds 256 MB of responses and 768 MB of states.
    let within = |bytes: usize| PanelPlan::within(bytes, 1_000_000, &layout, 4);
    assert_eq!(within(2_048_000_000), None);
    // Half a gigabyte for two states of 8 MB per class: all at once, up to the columns of a step.
    assert_eq!(within(2_000_000_000), Some(PanelPlan { classes: 47 }));
    // 12 classes at most, in four panels of equal width.
    assert_eq!(within(400_000_000), Some(PanelPlan { classes: 12 }));
    assert_eq!(within(0), Some(PanelPlan { classes: 1 }));
}
