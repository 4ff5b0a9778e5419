//! Steps from a table of walks: against dense powers of the walk and interpolated responses, against the way that walks where
//! features have few values, and by central differences in f64.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

#[path = "table/choice.rs"]
mod choice;
mod common;
#[path = "table/kept.rs"]
mod kept;
#[path = "table/walks.rs"]
mod walks;

use common::differences::{Differentiated, Tally};
use common::oracle::{self, Oracle};
use common::problems::{Problem, Recipe, Task, Values};
use common::{as_sparse, assert_close, run_batch};
use harmonia::batch::{Batch, Batches};
use harmonia::config::{Config, DropoutPlace, Monb, TableUse};
use harmonia::dataset::{Dataset, Features, Level};
use harmonia::device::Dropout;
use harmonia::device::cpu::Cpu;
use harmonia::graph::{Direction, Walk};
use harmonia::plan::{Plan, Space};
use harmonia::seed::{Purpose, Stream};
use harmonia::tabulate::{Builder, TablePlan, Tables};
use harmonia::train::trainer::Which;
use harmonia::train::{Prepared, RunName, Trainer, honesty};
use harmonia::walk_table::{CellBits, WalkTable};
use harmonia::watch::Watch;
use std::sync::Arc;

const TABLE: Plan = Plan { monb: Monb::Knots, space: Space::Table, sparse: false };
/// Cells that are floats: sums of some hundred products of size one, in f32.
const FLOAT_TOLERANCE: f64 = 1e-5;
/// Half a step of a column's range, summed over the hats and hops of a feature.
const SIXTEEN_TOLERANCE: f64 = 2e-4;
const EIGHT_TOLERANCE: f64 = 5e-2;

fn table(problem: &Problem, points: usize, bits: CellBits) -> Arc<WalkTable> {
    table_of(&problem.dataset, problem.recipe.walk, problem.recipe.hops, points, bits)
}

fn table_of(dataset: &Dataset, walk: Walk, hops: usize, points: usize, bits: CellBits) -> Arc<WalkTable> {
    let plan = TablePlan::with(dataset, hops, points, bits);
    Arc::new(Builder::new(dataset, walk, &plan).table(&Watch::silent()).unwrap())
}

fn batch(problem: &Problem, table: &Arc<WalkTable>, dropped: f64) -> Batch {
    let objective = problem.objective();
    let batches = Batches::tabled(&problem.dataset, Arc::clone(table), dropped).for_loss(objective, None);
    let batches = batches.weighted(problem.unit_weights.clone().map(Arc::from));
    batches.holding(&problem.dataset.split.train)
}

/// Recipes of every kind of graph, walk and task.
fn recipes(values: Values) -> Vec<Recipe> {
    let mut all = Vec::new();
    for (at, direction) in [Direction::Undirected, Direction::Directed].into_iter().enumerate() {
        for flags in 0..4 {
            let walk = Walk { self_loops: flags & 1 != 0, lazy: flags & 2 != 0 };
            let seed = 100 + 10 * at as u64 + flags;
            let (weighted, hops) = (flags % 2 == 0, 2 + flags as usize);
            // Four features are interleaved in their block, five are not.
            let features = 4 + flags as usize / 2;
            let node =
                Recipe { seed, values, direction, walk, weighted, hops, features, nodes: 40, ..Recipe::default() };
            let node = Recipe { unit_weights: flags == 1, ..node };
            let task = [Task::Classes(3), Task::Binary, Task::Multi(2), Task::Numbers(2)][flags as usize];
            all.push(Recipe { task, ..node.clone() });
            all.push(Recipe { graphs: 5, task, ..node.clone() });
            all.push(Recipe { level: Level::Graph, graphs: 6, task, ..node });
        }
    }
    all
}

#[test]
fn cells_are_the_walks_of_hats() {
    for recipe in recipes(Values::Continuous) {
        let problem = recipe.problem();
        let table = table(&problem, 5, CellBits::Float);
        let (n, walk) = (problem.dataset.graph.nodes(), problem.transition());
        let x = problem.dataset.features.dense();
        for k in 0..recipe.features {
            for q in 0..table.grid.points(k).len() {
                let mut state: Vec<f64> = (0..n)
                    .map(|i| {
                        let (below, share) = table.grid.place(k, x[i * recipe.features + k]);
                        match q {
                            q if q == below => 1.0 - f64::from(share),
                            q if q == below + 1 => f64::from(share),
                            _ => 0.0,
                        }
                    })
                    .collect();
                let first = table.contents.first_hop();
                for t in 0..recipe.hops {
                    if t > 0 {
                        state = (0..n).map(|i| (0..n).map(|j| walk[i][j] * state[j]).sum()).collect();
                    }
                    if t < first {
                        continue;
                    }
                    for (row, &unit) in table.contents.units.iter().enumerate() {
                        let expected = match recipe.level {
                            Level::Node => state[unit as usize],
                            Level::Graph => problem.dataset.graph_nodes(unit as usize).map(|i| state[i]).sum(),
                        };
                        let cell = table.value(row, t - first, k, q);
                        assert!(
                            (cell - expected).abs() < 1e-5 * (1.0 + expected.abs()),
                            "{recipe:?}: {cell} {expected}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn few_valued_features_lose_nothing() {
    for recipe in recipes(Values::Few(4)) {
        let problem = recipe.problem();
        let noise = Some(problem.noise.as_slice());
        let whole = problem.batch(Plan::DIRECT);
        let walked = run_batch::<f64>(&whole, &problem.layout, Plan::DIRECT, &problem.parameters, noise, None);
        for (bits, tolerance) in [
            (CellBits::Float, FLOAT_TOLERANCE),
            (CellBits::Sixteen, SIXTEEN_TOLERANCE),
            (CellBits::Eight, EIGHT_TOLERANCE),
        ] {
            let table = table(&problem, 4, bits);
            assert!(table.grid.is_exact());
            let batch = batch(&problem, &table, 0.0);
            for monb in [Monb::Direct, Monb::Knots] {
                let plan = Plan { monb, ..TABLE };
                let tabled = run_batch::<f64>(&batch, &problem.layout, plan, &problem.parameters, noise, None);
                let outputs = batch.outputs;
                let at = |rows: &[f64], row: u32| rows[row as usize * outputs..][..outputs].to_vec();
                for (&(row, unit), &(other, same)) in batch.units.iter().zip(&whole.units) {
                    assert_eq!(unit, same);
                    assert_close("logits", &at(&tabled.logits, row), &at(&walked.logits, other), tolerance, &recipe);
                }
                assert!((tabled.loss - walked.loss).abs() < tolerance * (1.0 + walked.loss.abs()), "{recipe:?}");
                assert_close("gradients", &tabled.gradient, &walked.gradient, tolerance, &(&recipe, bits, monb));
            }
        }
    }
}

/// Every number of a table.
fn cells(table: &WalkTable) -> Vec<f64> {
    let mut all = Vec::new();
    for row in 0..table.contents.units.len() {
        for t in 0..table.contents.steps() {
            for k in 0..table.grid.features() {
                all.extend((0..table.grid.points(k).len()).map(|q| table.value(row, t, k, q)));
            }
        }
    }
    all
}

#[test]
fn sparse_features_have_the_same_table() {
    for recipe in recipes(Values::Few(3)) {
        let problem = recipe.problem();
        let features = Arc::new(as_sparse(&problem.dataset.features));
        let sparse = Dataset { features, ..problem.dataset.clone() };
        let tables = [&problem.dataset, &sparse]
            .map(|dataset| table_of(dataset, recipe.walk, recipe.hops, 5, CellBits::Sixteen));
        match recipe.level {
            Level::Node => assert_eq!(tables[0], tables[1], "{recipe:?}"),
            // What stands at zero is what the others leave of a graph: rounded otherwise.
            Level::Graph => assert_close("cells", &cells(&tables[0]), &cells(&tables[1]), SIXTEEN_TOLERANCE, &recipe),
        }
        let batches = [(&problem.dataset, &tables[0]), (&sparse, &tables[1])].map(|(dataset, table)| {
            let batches = Batches::tabled(dataset, Arc::clone(table), 0.2);
            batches.holding(&dataset.split.train).features.dense().into_owned()
        });
        assert_eq!(batches[0], batches[1]);
    }
}

/// f_k at the points of a grid, by point.
fn responses_at_points(problem: &Problem, table: &WalkTable) -> Vec<Vec<f64>> {
    // Those of a dataset whose first nodes are the points.
    let (n, d) = (problem.dataset.graph.nodes(), problem.recipe.features);
    let point = |i: usize, k: usize| table.grid.points(k)[i.min(table.grid.points(k).len() - 1)];
    let values = (0..n * d).map(|at| point(at / d, at % d)).collect();
    let features = Arc::new(Features::new(n, d, values).unwrap());
    Oracle::new(&problem.on(Dataset { features, ..problem.dataset.clone() }), None, None).responses
}

/// f_k(x) between the points of a grid.
fn interpolated(table: &WalkTable, at_points: &[Vec<f64>], k: usize, x: f32) -> f64 {
    let (q, share) = table.grid.place(k, x);
    let above = (q + 1).min(table.grid.points(k).len() - 1);
    (1.0 - f64::from(share)) * at_points[q][k] + f64::from(share) * at_points[above][k]
}

/// Logits as the formula reads, but for responses at the end of walks, which are interpolated between points.
fn interpolated_logits(problem: &Problem, table: &WalkTable) -> Vec<Vec<f64>> {
    let (dataset, layout, p) = (&problem.dataset, &problem.layout, &problem.parameters);
    let (n, d, outputs) = (dataset.graph.nodes(), problem.recipe.features, layout.architecture.outputs);
    let x = dataset.features.dense();
    let exact = Oracle::new(problem, None, None);
    let at_points = responses_at_points(problem, table);
    let interpolated = |j: usize, k: usize| interpolated(table, &at_points, k, x[j * d + k]);
    let powers = oracle::walk_powers(&problem.transition(), problem.recipe.hops);
    let state = |i: usize, k: usize| -> f64 {
        (0..problem.recipe.hops)
            .map(|t| {
                let walked: f64 = match t < table.contents.first_hop() {
                    true => exact.responses[i][k],
                    false => (0..n).map(|j| powers[t][i][j] * interpolated(j, k)).sum(),
                };
                exact.hop_weights[t][k] * walked
            })
            .sum()
    };
    let logit = |unit: usize, class: usize| {
        let nodes = if dataset.level == Level::Graph { dataset.graph_nodes(unit) } else { unit..unit + 1 };
        let weight = |k: usize| p[layout.readout_weight.start + k * outputs + class];
        p[layout.readout_bias.start + class]
            + nodes.map(|i| (0..d).map(|k| state(i, k) * weight(k)).sum::<f64>()).sum::<f64>()
    };
    (0..dataset.units()).map(|unit| (0..outputs).map(|class| logit(unit, class)).collect()).collect()
}

#[test]
fn many_valued_features_are_interpolated_between_points() {
    for recipe in recipes(Values::Continuous) {
        let problem = recipe.problem();
        let table = table(&problem, 6, CellBits::Float);
        let batch = batch(&problem, &table, 0.0);
        let found = run_batch::<f64>(&batch, &problem.layout, TABLE, &problem.parameters, None, None);
        let expected = interpolated_logits(&problem, &table);
        for (&(row, unit), logits) in batch.units.iter().zip(found.logits.chunks(batch.outputs)) {
            assert_eq!(row as usize * batch.outputs + logits.len(), (row as usize + 1) * batch.outputs);
            assert_close("logits", logits, &expected[unit as usize], FLOAT_TOLERANCE, &recipe);
        }
    }
}

#[test]
fn gradients_are_those_of_the_loss() {
    let mut tally = Tally::default();
    for (at, recipe) in recipes(Values::Continuous).into_iter().enumerate() {
        let problem = Recipe { nodes: 24, ..recipe }.problem();
        let place = [DropoutPlace::None, DropoutPlace::Input, DropoutPlace::Feature][at % 3];
        let dropout = Dropout { place, rate: 0.3, stream: Stream::new(at as u64, Purpose::Dropout, 5) };
        let dropped = if place == DropoutPlace::Input { 0.3 } else { 0.0 };
        let table = table(&problem, 5, [CellBits::Eight, CellBits::Sixteen, CellBits::Float][at % 3]);
        // Every other case of nodes has walks that correct its table.
        let batch = match at % 2 {
            0 => walks::corrected(&problem, &table, dropped, 3),
            _ => batch(&problem, &table, dropped),
        };
        let plan = Plan { monb: [Monb::Direct, Monb::Knots][at / 2 % 2], ..TABLE };
        let noise = Some(problem.noise.as_slice());
        let gradient =
            run_batch::<f64>(&batch, &problem.layout, plan, &problem.parameters, noise, Some(dropout)).gradient;
        let (layout, parameters) = (&problem.layout, &problem.parameters);
        let of = Differentiated { batch: &batch, layout, plan, parameters, noise, dropout: Some(dropout) };
        tally.check(&of, &gradient, &problem.recipe);
    }
    tally.finish();
}

#[test]
fn a_step_does_not_depend_on_threads() {
    // More rows than a job of the sums has.
    let recipe = Recipe { nodes: 3000, features: 20, hops: 4, ..Recipe::default() };
    let bits = |threads: usize, walks: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let problem = recipe.problem();
            let table = table(&problem, 9, CellBits::Sixteen);
            let batch = walks::corrected(&problem, &table, 0.0, walks);
            let outcome = run_batch::<f32>(&batch, &problem.layout, TABLE, &problem.parameters, None, None);
            (table, outcome.logits, outcome.gradient)
        })
    };
    for walks in [0, 2] {
        let (one, three) = (bits(1, walks), bits(3, walks));
        assert_eq!(one.0, three.0);
        let exact = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(exact(&one.1), exact(&three.1));
        assert_eq!(exact(&one.2), exact(&three.2));
    }
}

#[test]
fn a_run_that_went_over_to_a_finer_table_resumes_with_it() {
    let problem = Recipe { nodes: 60, hops: 4, ..Recipe::default() }.problem();
    let mut dataset = problem.dataset;
    let units = std::mem::take(&mut dataset.split.train);
    (dataset.split.train, dataset.split.valid) = (units[..25].to_vec(), units[25..].to_vec());
    let mut config = Config::default();
    (config.engine.table, config.engine.table_points) = (TableUse::Force, 3);
    (config.train.epochs, config.train.batch_size, config.train.dropout) = (6, 8, 0.2);
    let run = Prepared::of(dataset, None, &config, RunName { seed: 5, fold: None }).unwrap();
    let (tables, device, watch) = (Tables::default(), Cpu::<f32>::new(), Watch::silent());
    let mut whole = Trainer::new(&device, &run, &config, None).unwrap();
    whole.epoch().unwrap();
    let finer = run.tabulation.plan().unwrap().better(&config, &run.dataset).unwrap();
    assert_eq!(finer.points, 5);
    whole.replace_table(tables.table(&run.dataset, config.walk, &finer, &watch).unwrap(), &finer).unwrap();
    whole.epoch().unwrap();
    let state = whole.state().unwrap();
    let mut resumed = Trainer::new(&device, &run, &config, Some(state)).unwrap();
    honesty::restore(&mut resumed, &run, &config, &tables, &watch).unwrap();
    assert_eq!(resumed.table().unwrap(), whole.table().unwrap());
    while !whole.finished() {
        assert_eq!(whole.epoch().unwrap(), resumed.epoch().unwrap());
    }
    assert_eq!(whole.state().unwrap(), resumed.state().unwrap());
    let losses = whole.table_losses(Which::Best).unwrap().unwrap();
    assert!(losses.gap() > 0.0 && losses.gap() < 0.2, "{losses:?}");
}
