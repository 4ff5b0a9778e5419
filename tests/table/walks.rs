//! Sampled walks that correct a table: against the responses at their ends, on average against the exact model, and in training.

use super::common::oracle::Oracle;
use super::common::problems::{Problem, Recipe, Values};
use super::common::{assert_close, run_batch};
use super::{FLOAT_TOLERANCE, TABLE, batch, interpolated_logits, recipes, table};
use harmonia::batch::{Batch, Batches, Reach};
use harmonia::config::{Config, TableUse};
use harmonia::dataset::Level;
use harmonia::device::cpu::Cpu;
use harmonia::graph::sampled_walks;
use harmonia::plan::Plan;
use harmonia::seed::{Purpose, Stream};
use harmonia::tabulate::{Tables, Tabulation};
use harmonia::train::{Prepared, RunName, Trainer, honesty};
use harmonia::walk_table::{CellBits, WalkTable};
use harmonia::watch::Watch;
use std::sync::Arc;

fn stream(step: u32) -> Stream {
    Stream::new(11, Purpose::Walks, step)
}

/// Batches from a table with so many walks of every unit; of graphs, and for none, without.
fn batches<'a>(problem: &'a Problem, table: &Arc<WalkTable>, dropped: f64, walks: usize) -> Batches<'a> {
    let walking = Batches::new(&problem.dataset, problem.recipe.walk);
    Batches::tabled(&problem.dataset, Arc::clone(table), dropped)
        .walking_as(&walking, walks)
        .for_loss(problem.objective(), None)
}

/// The training units of a problem.
pub fn corrected(problem: &Problem, table: &Arc<WalkTable>, dropped: f64, walks: usize) -> Batch {
    batches(problem, table, dropped, walks).drawn(&problem.dataset.split.train, stream(5))
}

#[test]
fn what_walks_add_is_what_the_table_lacks_at_their_ends() {
    const WALKS: usize = 3;
    for recipe in recipes(Values::Continuous).into_iter().filter(|recipe| recipe.level == Level::Node) {
        let problem = recipe.problem();
        let (dataset, layout) = (&problem.dataset, &problem.layout);
        let (d, outputs) = (recipe.features, layout.architecture.outputs);
        let exact = Oracle::new(&problem, None, None);
        for points in [1, 2, 4] {
            let table = table(&problem, points, CellBits::Float);
            let batch = corrected(&problem, &table, 0.0, WALKS);
            let found = run_batch::<f64>(&batch, layout, TABLE, &problem.parameters, None, None);
            let by_table = interpolated_logits(&problem, &table);
            let interpolated = interpolated_responses(&problem, &table);
            let Reach::Walk(transition) = Batches::new(dataset, recipe.walk).reach().clone() else { unreachable!() };
            for (&(row, unit), logits) in batch.units.iter().zip(found.logits.chunks(outputs)) {
                let ends = sampled_walks(&transition, &[unit], WALKS, recipe.hops - 1, stream(5));
                let expected: Vec<f64> = (0..outputs)
                    .map(|class| {
                        let weight = |k: usize| problem.parameters[layout.readout_weight.start + k * outputs + class];
                        let lacking = |end: usize, k: usize| exact.responses[end][k] - interpolated[end][k];
                        let added: f64 = (ends.iter().enumerate())
                            .flat_map(|(at, &end)| (0..d).map(move |k| (1 + at % (recipe.hops - 1), end as usize, k)))
                            .map(|(t, end, k)| weight(k) * exact.hop_weights[t][k] * lacking(end, k) / WALKS as f64)
                            .sum();
                        by_table[unit as usize][class] + added
                    })
                    .collect();
                assert_close("logits", logits, &expected, FLOAT_TOLERANCE, &(&recipe, points, row));
            }
        }
    }
}

/// Responses of every node as the grid interpolates them.
fn interpolated_responses(problem: &Problem, table: &WalkTable) -> Vec<Vec<f64>> {
    let d = problem.recipe.features;
    let x = problem.dataset.features.dense();
    let at_points = super::responses_at_points(problem, table);
    (0..problem.dataset.graph.nodes())
        .map(|j| (0..d).map(|k| super::interpolated(table, &at_points, k, x[j * d + k])).collect())
        .collect()
}

#[test]
fn few_valued_features_have_nothing_to_correct() {
    for recipe in recipes(Values::Few(4)).into_iter().filter(|recipe| recipe.level == Level::Node) {
        let problem = recipe.problem();
        let table = table(&problem, 4, CellBits::Float);
        let run = |batch: &Batch| run_batch::<f64>(batch, &problem.layout, TABLE, &problem.parameters, None, None);
        let (plain, walked) = (run(&batch(&problem, &table, 0.0)), run(&corrected(&problem, &table, 0.0, 2)));
        assert_close("logits", &walked.logits, &plain.logits, 1e-6, &recipe);
    }
}

#[test]
fn on_average_walks_are_exact() {
    // The deviation of a mean over n draws of R walks falls with their root: 400 x 8 leave some 2 % of that of a walk.
    const DRAWS: u32 = 400;
    const TOLERANCE: f64 = 0.03;
    let recipe = Recipe { nodes: 60, hops: 4, features: 3, ..Recipe::default() };
    let problem = recipe.problem();
    let whole = problem.batch(Plan::DIRECT);
    let exact = run_batch::<f64>(&whole, &problem.layout, Plan::DIRECT, &problem.parameters, None, None);
    let outputs = whole.outputs;
    let spread = exact.logits.iter().fold(0.0f64, |most, logit| most.max(logit.abs()));
    for points in [1, 2] {
        let table = table(&problem, points, CellBits::Float);
        let batches = batches(&problem, &table, 0.0, 8);
        let mut sums = vec![0.0; problem.dataset.split.train.len() * outputs];
        for draw in 0..DRAWS {
            let batch = batches.drawn(&problem.dataset.split.train, stream(draw));
            let drawn = run_batch::<f64>(&batch, &problem.layout, TABLE, &problem.parameters, None, None);
            sums.iter_mut().zip(&drawn.logits).for_each(|(sum, logit)| *sum += logit / f64::from(DRAWS));
        }
        let plain =
            run_batch::<f64>(&batch(&problem, &table, 0.0), &problem.layout, TABLE, &problem.parameters, None, None);
        let (mut off, mut off_without) = (0.0f64, 0.0f64);
        for (at, &(row, _)) in whole.units.iter().enumerate() {
            for class in 0..outputs {
                let truth = exact.logits[row as usize * outputs + class];
                off = off.max((sums[at * outputs + class] - truth).abs());
                off_without = off_without.max((plain.logits[at * outputs + class] - truth).abs());
            }
        }
        assert!(off < TOLERANCE * spread, "{points} points: {off} of {spread}");
        assert!(off < off_without / 2.0, "{points} points: {off} with walks, {off_without} without");
    }
}

/// A run from a table of so many points.
fn run_of(points: usize, bytes: usize) -> (Prepared, Config) {
    let problem = Recipe { nodes: 60, hops: 4, ..Recipe::default() }.problem();
    let mut dataset = problem.dataset;
    let units = std::mem::take(&mut dataset.split.train);
    (dataset.split.train, dataset.split.valid) = (units[..25].to_vec(), units[25..].to_vec());
    let mut config = Config::default();
    (config.engine.table, config.engine.table_points, config.engine.table_bytes) = (TableUse::Force, points, bytes);
    (config.engine.walks, config.train.epochs, config.train.batch_size, config.train.dropout) = (2, 6, 8, 0.2);
    (Prepared::of(dataset, None, &config, RunName { seed: 5, fold: None }).unwrap(), config)
}

#[test]
fn a_budget_leads_to_fewer_points_and_then_to_walks() {
    let plan = |points, bytes| run_of(points, bytes).0.tabulation.plan().cloned().unwrap();
    let whole = plan(9, 1 << 30);
    assert_eq!((whole.points, whole.walks), (9, 0));
    assert_eq!((plan(5, whole.bytes()).points, plan(5, whole.bytes()).walks), (5, 0));
    // A byte per cell of five points is an eighth of four bytes per cell of nine.
    let few = plan(9, whole.bytes() / 8 - 1);
    assert_eq!((few.points, few.walks), (3, 2));
    let none = plan(9, 1);
    assert_eq!((none.points, none.walks, none.bytes()), (1, 2, 0));
    assert_eq!((plan(1, 1 << 30).points, plan(1, 1 << 30).walks), (1, 2));
    let (run, mut config) = run_of(9, 1);
    config.engine.walks = 0;
    let refused = Tabulation::choose(&config, &run.dataset, &run.layout, run.plan).unwrap_err().to_string();
    assert!(refused.contains("engine.table_bytes") && refused.contains("engine.walks"), "{refused}");
    // Coarser than asked for, walks are doubled until they are many.
    let mut more = none;
    let mut seen = Vec::new();
    while let Some(better) = more.better(&config, &run.dataset) {
        seen.push(better.walks);
        more = better;
    }
    assert_eq!(seen, [4, 8, 16, 32, 64]);
}

#[test]
fn a_run_from_walks_resumes_with_the_same_bits() {
    for points in [1, 9] {
        let (run, config) = run_of(points, 1 << 30);
        let (tables, device, watch) = (Tables::default(), Cpu::<f32>::new(), Watch::silent());
        let mut whole = Trainer::new(&device, &run, &config, None).unwrap();
        whole.epoch().unwrap();
        // Walks come in where a finer table would be too large, or double.
        let mut within = config.clone();
        within.engine.table_bytes = 1;
        let better = run.tabulation.plan().unwrap().better(&within, &run.dataset).unwrap();
        assert_eq!(better.walks, if points == 1 { 4 } else { 2 });
        whole.replace_table(tables.table(&run.dataset, config.walk, &better, &watch).unwrap(), &better).unwrap();
        whole.epoch().unwrap();
        let mut resumed = Trainer::new(&device, &run, &config, Some(whole.state().unwrap())).unwrap();
        honesty::restore(&mut resumed, &run, &config, &tables, &watch).unwrap();
        assert_eq!((resumed.table_walks(), whole.table_walks()), (better.walks, better.walks));
        while !whole.finished() {
            assert_eq!(whole.epoch().unwrap(), resumed.epoch().unwrap());
        }
        assert_eq!(whole.state().unwrap(), resumed.state().unwrap());
    }
}
