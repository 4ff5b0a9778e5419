//! What is planned of a run that several processes share: bytes that each of them sends are those that it sends, and memory is that
//! of its own part. Processes are threads here.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use harmonia::config::{Config, ShareUse, States, TableUse};
use harmonia::dataset::{Dataset, Features, Labels, Level};
use harmonia::device::cpu::Cpu;
use harmonia::graph::{Direction, Graph, Split};
use harmonia::plan::Sent;
use harmonia::tabulate::Tables;
use harmonia::team::Team;
use harmonia::team::threads::{Threads, each};
use harmonia::train::{Prepared, RunName, Trainer, share_out};
use harmonia::watch::Watch;
use std::sync::Arc;

const NAME: RunName = RunName { seed: 3, fold: None };

/// A graph with edges between near nodes and a few to anywhere.
fn one_graph(nodes: usize, direction: Direction) -> Dataset {
    let edge = |e: usize| {
        let from = e / 3;
        let to = if e.is_multiple_of(17) { (e * e * 7 + 3) % nodes } else { (from + 1 + e % 5) % nodes };
        (from as u32, to as u32)
    };
    let edges: Vec<(u32, u32)> = (0..3 * nodes).map(edge).collect();
    let graph = Graph::from_edges(nodes, &edges, None, direction).unwrap();
    let values = (0..nodes * 6).map(|at| ((at * 31) % 101) as f32 / 50.0 - 1.0).collect();
    let labels = Labels::Classes { ids: (0..nodes as u32).map(|i| i % 7).collect(), classes: 7 };
    let all: Vec<u32> = (0..nodes as u32).collect();
    let third = |at: u32| all.iter().copied().filter(|i| i % 3 == at).collect::<Vec<_>>();
    // Validated on nodes of some ranks alone.
    let valid = all[nodes / 2..nodes * 3 / 4].iter().copied().filter(|i| i % 3 == 1).collect();
    let split = Split { train: third(0), valid, test: third(2) };
    Dataset::nodes("made", graph, Features::new(nodes, 6, values).unwrap(), labels, split).unwrap()
}

/// Rings of different sizes.
fn rings(count: usize) -> Dataset {
    let (mut graph_ptr, mut edges) = (vec![0usize], Vec::new());
    for at in 0..count {
        let (first, size) = (graph_ptr[at], 3 + at % 5);
        edges.extend((0..size).map(|i| ((first + i) as u32, (first + (i + 1) % size) as u32)));
        graph_ptr.push(first + size);
    }
    let nodes = graph_ptr[count];
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected).unwrap();
    let values = (0..nodes * 4).map(|at| ((at * 37) % 97) as f32 / 50.0 - 1.0).collect();
    let features = Features::new(nodes, 4, values).unwrap();
    let labels = Labels::Classes { ids: (0..count as u32).map(|i| i % 3).collect(), classes: 3 };
    let part = |at: u32| (0..count as u32).filter(|i| i % 4 == at).collect::<Vec<_>>();
    let split = Split { train: [part(0), part(1)].concat(), valid: part(2), test: part(3) };
    Dataset::new("rings", graph, graph_ptr, features, labels, Level::Graph, split).unwrap()
}

fn config(share: ShareUse) -> Config {
    let mut config = Config::default();
    config.train.epochs = 6;
    config.train.patience = 0;
    config.train.batch_size = 0;
    config.model.hops = 4;
    config.engine.share = share;
    config.engine.table = if share == ShareUse::Rows { TableUse::Force } else { TableUse::Off };
    config
}

/// Of every rank what is planned, and what it has sent in a step and in an epoch with its scores.
fn sent(dataset: &Dataset, config: &Config, ranks: usize) -> Vec<(Sent, u64, u64)> {
    let one = |team: Arc<dyn Team>| {
        let device = Cpu::with_states(config.engine.states);
        let mut run = Prepared::new(dataset, config, NAME)?;
        share_out(&mut run, config, &team, &device)?;
        run.tabulate(&Tables::of_team(&team), config.walk, &Watch::silent())?;
        let shared = run.shared.clone().unwrap();
        let planned = shared.sizes.sent(&shared.own[team.rank()]);
        let mut trainer = Trainer::new(&device, &run, config, None)?;
        trainer.steps()?;
        let before = team.sent();
        trainer.steps()?;
        let step = team.sent() - before;
        // The first step of the next epoch is asked for before the scores of this one.
        trainer.epoch()?;
        let before = team.sent();
        trainer.epoch()?;
        Ok((planned, step, team.sent() - before))
    };
    each(ranks, one).unwrap()
}

#[test]
fn bytes_are_those_that_ranks_send() {
    for direction in [Direction::Undirected, Direction::Directed] {
        let dataset = one_graph(400, direction);
        for share in [ShareUse::Classes, ShareUse::Nodes, ShareUse::Rows] {
            for ranks in [2, 3, 4] {
                for (rank, (planned, step, epoch)) in sent(&dataset, &config(share), ranks).into_iter().enumerate() {
                    let context = format!("{share:?}, rank {rank} of {ranks}, {direction:?}");
                    assert_eq!(step, planned.step as u64, "{context}");
                    assert_eq!(epoch, (planned.step + planned.validation) as u64, "{context}");
                }
            }
        }
    }
}

#[test]
fn states_in_half_precision_send_half() {
    let dataset = one_graph(400, Direction::Undirected);
    let mut config = config(ShareUse::Nodes);
    let whole = sent(&dataset, &config, 2);
    config.engine.states = States::F16;
    for ((planned, step, epoch), (in_full, ..)) in sent(&dataset, &config, 2).into_iter().zip(whole) {
        assert_eq!((step, epoch), (planned.step as u64, (planned.step + planned.validation) as u64));
        assert!(planned.step < in_full.step);
    }
}

/// Which graphs are whose depends on nodes that are merged, but those of all ranks are all.
#[test]
fn logits_of_shared_graphs_are_sent_once_by_all_together() {
    let ends = sent(&rings(80), &config(ShareUse::Targets), 3);
    let mut scores = [0, 0];
    for (planned, step, epoch) in ends {
        assert_eq!(step, planned.step as u64);
        scores[0] += planned.validation as u64;
        scores[1] += epoch - step;
    }
    assert_eq!(scores[0], scores[1]);
}

/// Buffers of a rank, by name.
type Buffers = Vec<(&'static str, usize)>;

/// Planned bytes of each rank and of one process, by all buffers.
fn planned(dataset: &Dataset, config: &Config, ranks: usize) -> (Vec<usize>, usize, Vec<Buffers>) {
    let device = Cpu::with_states(config.engine.states);
    let team: Arc<dyn Team> = Threads::team(ranks).swap_remove(0);
    let mut run = Prepared::new(dataset, config, NAME).unwrap();
    share_out(&mut run, config, &team, &device).unwrap();
    let of = |rank| run.memory_of(&device, config, rank);
    let each: Vec<_> = (0..ranks).map(|rank| of(Some(rank))).collect();
    let buffers = each.iter().map(|memory| memory.buffers().collect()).collect();
    assert_eq!(run.memory(&device, config).process_bytes(), each[0].process_bytes());
    (each.iter().map(|memory| memory.process_bytes()).collect(), of(None).process_bytes(), buffers)
}

fn named(buffers: &[(&'static str, usize)], name: &str) -> usize {
    buffers.iter().find(|(found, _)| *found == name).unwrap_or_else(|| panic!("no {name} in {buffers:?}")).1
}

#[test]
fn a_rank_plans_its_own_part() {
    let dataset = one_graph(20_000, Direction::Undirected);
    let ranks = 4;
    let (each, whole, buffers) = planned(&dataset, &config(ShareUse::Nodes), ranks);
    // A quarter, what is read of others, and what is on its way.
    assert!(each.iter().all(|&bytes| bytes < whole * 3 / 4), "{each:?} {whole}");
    let states = |buffers: &Vec<(&'static str, usize)>| named(buffers, "states of all hops");
    // Seven classes padded to eight, four hops.
    assert_eq!(buffers.iter().map(states).sum::<usize>(), 20_000 * 4 * 8 * 4);
    assert_eq!(buffers.iter().map(|buffers| named(buffers, "features of own nodes")).sum::<usize>(), 20_000 * 6 * 4);

    let (each, whole, buffers) = planned(&dataset, &config(ShareUse::Classes), ranks);
    // One column, two, two and two, padded to no more than twice as many.
    assert_eq!(buffers.iter().map(states).collect::<Vec<_>>(), [2, 4, 4, 4].map(|width| 20_000 * 4 * width * 4));
    assert!(each.iter().all(|&bytes| bytes < whole), "{each:?} {whole}");

    let (_, _, buffers) = planned(&dataset, &config(ShareUse::Rows), ranks);
    let alone = {
        let config = config(ShareUse::Rows);
        let run = Prepared::new(&dataset, &config, NAME).unwrap();
        run.tabulation.plan().unwrap().bytes()
    };
    assert_eq!(buffers.iter().map(|buffers| named(buffers, "table of walks")).sum::<usize>(), alone);

    let (each, whole, _) = planned(&rings(4000), &config(ShareUse::Targets), ranks);
    assert!(each.iter().all(|&bytes| bytes < whole), "{each:?} {whole}");
}
