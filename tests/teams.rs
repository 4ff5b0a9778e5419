//! Several processes train the model that one trains: parameters, scores and best epoch, in each way to share the work, for any
//! number of them. Processes are threads here; `tests/mpirun.rs` has real ones.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used, missing_docs)]

mod program;

use harmonia::config::{Config, ShareUse, TableUse};
use harmonia::data::download::Access;
use harmonia::data::obtain::Context;
use harmonia::dataset::{Dataset, Features, Labels, Level};
use harmonia::device::cpu::Cpu;
use harmonia::graph::{Direction, Graph, Split};
use harmonia::loss::Calibration;
use harmonia::runs::load_dataset;
use harmonia::seed::{Purpose, Rng, Stream};
use harmonia::settings::{Layers, presets};
use harmonia::tabulate::Tables;
use harmonia::team::threads::each;
use harmonia::team::{Sharing, Team, sum_bytes};
use harmonia::train::{EpochRecord, Prepared, RunName, Trainer, share_out};
use harmonia::watch::Watch;
use program::{Scratch, real_data};
use std::sync::Arc;

/// What sums in another order leave after twenty steps, relative to the norm of all parameters.
const TOLERANCE: f64 = 1e-5;
/// The same of a loss.
const LOSS_TOLERANCE: f64 = 1e-5;
/// The same of logits. The readout starts at zero, and first steps of Adam are as long whatever the gradient: where that is all but
/// zero, its last bits say which way. Such weights are few, and small among all parameters, but logits are made of them.
const LOGIT_TOLERANCE: f64 = 1e-3;

/// What is left of a training: parameters, epochs, logits of the test units, bytes sent, how it was shared.
struct Trained {
    parameters: Vec<f32>,
    best: Vec<f32>,
    epochs: Vec<EpochRecord>,
    test: Vec<f32>,
    calibration: Option<Calibration>,
    sent: u64,
    sharing: Option<Sharing>,
}

fn trained(dataset: &Dataset, config: &Config, team: Option<&Arc<dyn Team>>) -> harmonia::Result<Trained> {
    let device = Cpu::new();
    let mut run = Prepared::new(dataset, config, RunName { seed: 3, fold: None })?;
    let tables = match team {
        Some(team) => {
            share_out(&mut run, config, team, &device)?;
            Tables::of_team(team)
        }
        None => Tables::default(),
    };
    run.tabulate(&tables, config.walk, &Watch::silent())?;
    let mut trainer = Trainer::new(&device, &run, config, None)?;
    let before = team.map_or(0, |team| team.sent());
    let mut epochs = Vec::new();
    while !trainer.finished() {
        epochs.push(trainer.epoch()?);
    }
    let sent = team.map_or(0, |team| team.sent()) - before;
    let test = trainer.evaluate(&run.dataset.split.test)?.logits;
    // The likelihood is flat where it is best: last bits of logits move the temperature. All ranks find the same.
    trainer.calibrate()?;
    let sharing = run.share.as_ref().map(|share| share.sharing);
    Ok(Trained {
        parameters: trainer.state()?.parameters,
        best: trainer.best()?,
        epochs,
        test,
        calibration: trainer.calibration(),
        sent,
        sharing,
    })
}

fn relative(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let off = square(&mut found.iter().zip(expected).map(|(&a, &b)| f64::from(a) - f64::from(b)));
    off / square(&mut expected.iter().map(|&value| f64::from(value))).max(f64::MIN_POSITIVE)
}

/// Trains with so many ranks in a way, and holds every one of them against one process.
fn check(dataset: &Dataset, config: &Config, share: ShareUse, ranks: &[usize], context: &str) {
    let alone = trained(dataset, config, None).unwrap();
    check_against(&alone, dataset, config, share, ranks, context);
}

fn check_against(alone: &Trained, dataset: &Dataset, config: &Config, share: ShareUse, ranks: &[usize], context: &str) {
    let mut config = config.clone();
    config.engine.share = share;
    for &size in ranks {
        let all = each(size, |team| trained(dataset, &config, Some(&team))).unwrap();
        let context = format!("{context}, {} by {size}", share.name());
        for one in &all {
            assert_eq!(one.parameters, all[0].parameters, "{context}: ranks have the same bits");
            assert_eq!(one.epochs, all[0].epochs, "{context}");
            assert_eq!(one.calibration, all[0].calibration, "{context}");
        }
        let one = &all[0];
        if share != ShareUse::Auto {
            assert_eq!(one.sharing.unwrap().name(), share.name());
        }
        assert!(all.iter().all(|one| one.sent > 0), "{context}");
        let (last, best) = (relative(&one.parameters, &alone.parameters), relative(&one.best, &alone.best));
        assert!(
            last <= TOLERANCE && best <= TOLERANCE,
            "{context}: parameters are off by {last:.2e}, the best by {best:.2e}"
        );
        for (found, expected) in one.epochs.iter().zip(&alone.epochs) {
            let off = (found.train_loss - expected.train_loss).abs() / expected.train_loss;
            assert!(off <= LOSS_TOLERANCE, "{context}, epoch {}: loss off by {off:.2e}", found.epoch);
            assert_eq!(found.best, expected.best, "{context}, epoch {}", found.epoch);
        }
        assert_eq!(one.epochs.len(), alone.epochs.len());
        let logits = relative(&one.test, &alone.test);
        assert!(logits <= LOGIT_TOLERANCE, "{context}: logits off by {logits:.2e}");
    }
}

/// A graph whose labels follow from features of neighbours, some of its nodes alone.
fn graph_of(nodes: usize, direction: Direction, weighted: bool, outputs: u32) -> Dataset {
    let mut rng = Stream::new(17, Purpose::SyntheticGraph, nodes as u32).rng();
    let edges: Vec<(u32, u32)> = (0..4 * nodes).map(|_| (node(&mut rng, nodes), node(&mut rng, nodes))).collect();
    let weights: Vec<f32> = edges.iter().map(|_| 0.1 + rng.uniform() as f32).collect();
    let graph = Graph::from_edges(nodes, &edges, weighted.then_some(&weights[..]), direction).unwrap();
    let values: Vec<f32> = (0..nodes * 6).map(|_| rng.uniform() as f32 * 4.0 - 2.0).collect();
    let ids =
        (0..nodes).map(|i| ((values[i * 6] + values[(i * 7 % nodes) * 6 + 1] + 4.0) / 8.0 * outputs as f32) as u32);
    let labels = Labels::Classes { ids: ids.map(|id| id.min(outputs - 1)).collect(), classes: outputs as usize };
    let part = |from: usize, to: usize| (from as u32 * nodes as u32 / 10..to as u32 * nodes as u32 / 10).collect();
    // Nodes of all ranks train, those of one validate.
    let (valid, test): (Vec<u32>, Vec<u32>) = (part(9, 10), part(5, 8));
    let train = (0..nodes as u32).filter(|i| i % 3 == 0 && !valid.contains(i) && !test.contains(i)).collect();
    let split = Split { train, valid, test };
    Dataset::nodes("made", graph, Features::new(nodes, 6, values).unwrap(), labels, split).unwrap()
}

fn node(rng: &mut Rng, nodes: usize) -> u32 {
    // Nothing at the last few nodes: they are alone.
    rng.below(nodes - 3) as u32
}

fn config(epochs: usize, hops: usize) -> Config {
    let mut config = Config::default();
    (config.train.epochs, config.train.learning_rate, config.model.hops) = (epochs, 1e-2, hops);
    (config.init.readout_scale, config.engine.table) = (1.0, TableUse::Off);
    config.train.patience = 0;
    config
}

#[test]
fn classes_and_nodes_of_a_graph_are_shared() {
    for (direction, weighted) in
        [(Direction::Undirected, false), (Direction::Directed, true), (Direction::Undirected, true)]
    {
        let dataset = graph_of(240, direction, weighted, 5);
        let context = format!("{direction:?}, weighted {weighted}");
        check(&dataset, &config(20, 4), ShareUse::Classes, &[2, 4], &context);
        check(&dataset, &config(20, 4), ShareUse::Nodes, &[2, 3, 8], &context);
    }
}

#[test]
fn penalties_mini_batches_and_masks_are_those_of_one_process() {
    let dataset = graph_of(240, Direction::Undirected, false, 5);
    let mut config = config(5, 3);
    config.train.smoothness = harmonia::config::Smoothness::from(0.01);
    config.train.batch_size = 20;
    config.train.class_weights = harmonia::config::ClassWeights::Balanced;
    check(&dataset, &config, ShareUse::Classes, &[2], "mini-batches");
    check(&dataset, &config, ShareUse::Nodes, &[2], "mini-batches");
    config.train.dropout = 0.3;
    config.train.dropout_place = harmonia::config::DropoutPlace::Input;
    check(&dataset, &config, ShareUse::Classes, &[2], "dropout of inputs");
    check(&dataset, &config, ShareUse::Nodes, &[3], "dropout of inputs");
    config.train.dropout_place = harmonia::config::DropoutPlace::Hidden;
    check(&dataset, &config, ShareUse::Nodes, &[3], "dropout of hidden units");
    config.train.dropout_place = harmonia::config::DropoutPlace::Feature;
    check(&dataset, &config, ShareUse::Nodes, &[2], "dropout of features");
    // Graphs of a rank follow each other in the batch.
    config.train.dropout_place = harmonia::config::DropoutPlace::Input;
    config.train.smoothness = harmonia::config::Smoothness::from(0.0);
    check(&graphs(Level::Node), &config, ShareUse::Targets, &[3], "dropout of inputs, graphs");
}

/// States are rounded to 11 bits in every hop, of all ranks alike, but sums that differ in a last bit may round to the next number.
const HALF_TOLERANCE: f64 = 1e-3;

#[test]
fn half_precision_states_are_those_of_one_process() {
    let dataset = graph_of(240, Direction::Undirected, true, 5);
    let mut config = config(5, 4);
    config.engine.states = harmonia::config::States::F16;
    config.engine.propagate = harmonia::config::Propagate::Classes;
    let alone = trained(&dataset, &config, None).unwrap();
    config.engine.share = ShareUse::Nodes;
    for one in each(3, |team| trained(&dataset, &config, Some(&team))).unwrap() {
        let off = relative(&one.parameters, &alone.parameters);
        assert!(off <= HALF_TOLERANCE, "parameters are off by {off:.2e}");
        // Logits are sums in single precision: as far apart as what they are made of, not as halves are.
        let logits = relative(&one.test, &alone.test);
        assert!(logits <= HALF_TOLERANCE, "logits are off by {logits:.2e}");
    }
}

#[test]
fn one_walk_length_and_one_output_are_shared_too() {
    let dataset = graph_of(90, Direction::Undirected, false, 2);
    check(&dataset, &config(5, 1), ShareUse::Nodes, &[2], "one hop");
    let (ids, classes) = match &dataset.labels {
        Labels::Classes { ids, classes } => (ids.clone(), *classes),
        _ => panic!("classes"),
    };
    assert_eq!(classes, 2);
    assert!(ids.contains(&0) && ids.contains(&1));
    // Two classes have one logit: there is nothing to share but nodes.
    check(&dataset, &config(5, 3), ShareUse::Auto, &[2], "auto");
}

#[test]
fn rows_of_a_table_are_shared() {
    let mut config = config(20, 4);
    config.engine.table = TableUse::Force;
    for size in [0, 16] {
        config.train.batch_size = size;
        let dataset = graph_of(240, Direction::Undirected, false, 5);
        check(&dataset, &config, ShareUse::Rows, &[2, 3], "table");
        // More ranks than classes score by themselves.
        check(&dataset, &config, ShareUse::Rows, &[8], "table");
    }
}

/// Many small graphs, with labels of their own or of their nodes.
fn graphs(level: Level) -> Dataset {
    let mut rng = Stream::new(5, Purpose::SyntheticGraph, 0).rng();
    let (count, each) = (30, 7);
    let nodes = count * each;
    let edges: Vec<(u32, u32)> = (0..count * 9)
        .map(|at| {
            let first = (at % count * each) as u32;
            (first + rng.below(each) as u32, first + rng.below(each) as u32)
        })
        .collect();
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
    let values: Vec<f32> = (0..nodes * 4).map(|_| (rng.uniform() * 5.0).floor() as f32).collect();
    let units = if level == Level::Graph { count } else { nodes };
    let ids = (0..units).map(|at| (at * 7 % 3) as u32).collect();
    let split = Split {
        train: (0..units as u32).filter(|at| at % 5 < 3).collect(),
        valid: (0..units as u32).filter(|at| at % 5 == 3).collect(),
        test: (0..units as u32).filter(|at| at % 5 == 4).collect(),
    };
    let graph_ptr = (0..=count).map(|at| at * each).collect();
    let labels = Labels::Classes { ids, classes: 3 };
    Dataset::new("graphs", graph, graph_ptr, Features::new(nodes, 4, values).unwrap(), labels, level, split).unwrap()
}

#[test]
fn graphs_of_a_batch_are_shared() {
    for level in [Level::Graph, Level::Node] {
        let dataset = graphs(level);
        for size in [0, 6] {
            let mut config = config(10, 3);
            config.train.batch_size = size;
            check(&dataset, &config, ShareUse::Targets, &[2, 3], &format!("{level:?}, batches of {size}"));
            check(&dataset, &config, ShareUse::Auto, &[2], &format!("{level:?}, batches of {size}"));
        }
        // More ranks than graphs in a batch: some have nothing to do.
        let mut config = config(4, 3);
        config.train.batch_size = 2;
        check(&dataset, &config, ShareUse::Targets, &[4], &format!("{level:?}, more ranks than graphs"));
    }
    let mut config = config(10, 3);
    config.engine.table = TableUse::Force;
    check(&graphs(Level::Graph), &config, ShareUse::Rows, &[3], "a table of graphs");
}

#[test]
fn a_step_sends_what_the_sums_of_gradients_need() {
    let mut config = config(1, 3);
    config.engine.share = ShareUse::Targets;
    let dataset = graphs(Level::Graph);
    let all = each(3, |team| trained(&dataset, &config, Some(&team))).unwrap();
    let parameters = all[0].parameters.len();
    let outputs = 3;
    let valid = dataset.split.valid.len();
    for one in &all {
        // Gradient, loss, and logits of the own validation graphs to two others.
        let expected = sum_bytes(parameters, 3) + 8 * 2 + 4 * outputs * valid / 3 * 2;
        let off = (one.sent as f64 - expected as f64).abs();
        assert!(off <= 8.0 * outputs as f64 * 4.0, "{} bytes sent, {expected} expected", one.sent);
    }
}

#[test]
fn what_cannot_be_shared_is_refused_with_the_way_out() {
    let refused = |dataset: &Dataset, config: &Config, share: ShareUse, expected: &[&str]| {
        let mut config = config.clone();
        config.engine.share = share;
        let message = match each(2, |team| trained(dataset, &config, Some(&team)).map(drop)) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{share:?} was taken"),
        };
        assert!(expected.iter().all(|part| message.contains(part)), "{message}");
    };
    let (one, many) = (graph_of(60, Direction::Undirected, false, 5), graphs(Level::Graph));
    refused(&one, &config(1, 2), ShareUse::Targets, &["engine.share = targets", "one graph"]);
    refused(&many, &config(1, 2), ShareUse::Classes, &["engine.share = classes", "30 graphs"]);
    refused(&many, &config(1, 2), ShareUse::Nodes, &["engine.share = nodes", "30 graphs"]);
    refused(&one, &config(1, 2), ShareUse::Rows, &["no table of walks", "engine.table = force"]);
    let mut penalised = config(1, 2);
    penalised.train.output_penalty = 0.1;
    refused(&one, &penalised, ShareUse::Nodes, &["train.output_penalty"]);
    let binary = graph_of(60, Direction::Undirected, false, 2);
    refused(&binary, &config(1, 2), ShareUse::Classes, &["a class for each of 2"]);
}

#[test]
fn a_rank_that_diverges_ends_all_with_its_reason() {
    let mut dataset = graph_of(120, Direction::Undirected, false, 5);
    let mut config = config(30, 3);
    (config.train.learning_rate, config.engine.share) = (1e30, ShareUse::Nodes);
    config.train.clip_norm = 0.0;
    dataset.name = "far".into();
    let Err(error) = each(2, |team| trained(&dataset, &config, Some(&team)).map(drop)) else { panic!("it went on") };
    assert!(matches!(error, harmonia::Error::Diverged(_)), "{error}");
}

/// Settings of a preset.
fn preset(name: &str, sets: &[&str]) -> Config {
    let mut layers = Layers::new().unwrap();
    presets::lay(&mut layers, name, presets::Recipe::Paper).unwrap();
    sets.iter().for_each(|set| layers.set(set).unwrap());
    layers.finish().unwrap()
}

fn silent() -> Context<'static> {
    Context {
        access: Access { offline: true, ..Access::default() },
        download: &|_| (),
        watch: Watch::silent(),
        note: &|_| (),
    }
}

fn real(name: &str, folder: &str, sets: &[&str]) -> Option<(Dataset, Config)> {
    let data = real_data(folder)?;
    let scratch = Scratch::new();
    let copied = scratch.copy_data(folder);
    assert!(copied, "{} is there", data.display());
    let mut config = preset(name, sets);
    config.data.dataset = name.into();
    config.data.dir = scratch.path("data").display().to_string();
    let dataset = load_dataset(&config.data, &silent()).unwrap();
    config.data.dir = String::new();
    Some((dataset, config))
}

#[test]
fn cora_is_shared_by_classes_by_nodes_and_by_rows() {
    let Some((dataset, config)) = real("cora", "Cora", &["train.epochs=20"]) else { return };
    let alone = trained(&dataset, &config, None).unwrap();
    check_against(&alone, &dataset, &config, ShareUse::Classes, &[2, 4], "Cora");
    check_against(&alone, &dataset, &config, ShareUse::Nodes, &[2], "Cora");
    let mut tabled = config.clone();
    (tabled.engine.table, tabled.train.dropout) = (TableUse::Force, 0.0);
    check(&dataset, &tabled, ShareUse::Rows, &[2], "Cora from a table");
}

#[test]
fn mutag_is_shared_by_graphs_and_by_rows() {
    let Some((dataset, config)) = real("mutag", "MUTAG", &["train.epochs=20", "train.dropout=0"]) else { return };
    let mut walking = config.clone();
    walking.engine.table = TableUse::Off;
    check(&dataset, &walking, ShareUse::Targets, &[2, 4], "MUTAG");
    let mut tabled = config;
    tabled.engine.table = TableUse::Force;
    check(&dataset, &tabled, ShareUse::Rows, &[2], "MUTAG from a table");
}

#[test]
fn the_synthetic_study_is_shared_by_graphs() {
    // Twenty steps: an epoch has several.
    let mut config = preset("synthetic", &["train.epochs=20", "train.dropout=0", "train.batch_size=0"]);
    config.engine.table = TableUse::Off;
    let dataset = load_dataset(&config.data, &silent()).unwrap();
    check(&dataset, &config, ShareUse::Auto, &[2, 4], "synthetic");
}

/// A hundredth of ogbn-products: 24,490 nodes, 1.2 million directed edges.
fn products() -> (Dataset, Config) {
    let scratch = Scratch::new();
    let archive = ["data", "generate", "--like", "ogbn-products", "--scale", "0.01", "--out", "store", "--quiet"];
    scratch.harmonia_ok(&archive);
    let dataset = harmonia::store::read(&scratch.path("store")).unwrap();
    let sets = ["train.epochs=20", "train.dropout=0", "train.batch_size=0", "train.patience=0", "engine.table=off"];
    (dataset, preset("ogbn-products", &sets))
}

#[test]
fn a_hundredth_of_products_is_shared_in_every_way() {
    let (dataset, mut config) = products();
    let alone = trained(&dataset, &config, None).unwrap();
    check_against(&alone, &dataset, &config, ShareUse::Classes, &[2], "products");
    check_against(&alone, &dataset, &config, ShareUse::Nodes, &[2], "products");
    config.engine.table = TableUse::Force;
    check(&dataset, &config, ShareUse::Rows, &[2], "products");
}
