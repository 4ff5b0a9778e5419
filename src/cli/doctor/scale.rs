//! `harmonia doctor --scale`: the time of a training step that several processes share, on paper.
//!
//! Bytes between processes are those of [`crate::plan::SharedSizes`], which tests hold against what is sent; bytes of states are those of
//! [`Plan::cost`], which decides how steps are computed. Everything else is an assumption, and is printed.

use super::shapes::{PRODUCTS, ReferenceDataset, grouped};
use crate::architecture::{Architecture, Layout};
use crate::config::Engine;
use crate::plan::{DatasetSizes, OwnSizes, Plan, SharedSizes, Space};
use crate::team::{Sharing, part};
use harmonia_graph::error::{Error, Result};
use serde_json::{Value, json};
use std::fmt::Write;

/// Seconds of a whole-graph step of products size on two cores, as `harmonia bench --case products` has measured them.
const MEASURED: f64 = 9.8;
/// The same of other sizes, which the model does not know of: it is held against them.
const CHECKS: [(&str, ReferenceDataset, f64); 2] = [
    ("a tenth of ogbn-products", ReferenceDataset { nodes: 244_903, entries: 12_371_828, ..PRODUCTS }, 0.76),
    ("size of ogbn-arxiv", super::shapes::REFERENCES[1], 0.56),
];
/// Bytes a second of an RTX 4090's memory, as in `--roofline`.
const GPU: f64 = 1008e9;
/// Part of the entries that lead to nodes of other ranks where a graph has been partitioned.
const CUT: f64 = 0.1;
const PAPERS: ReferenceDataset = ReferenceDataset {
    name: "ogbn-papers100M",
    nodes: 111_059_956,
    entries: 1_615_685_872,
    edges: "one direction, as published",
    features: 128,
    outputs: 172,
    train: 1_207_179,
};
/// Training and validation nodes: all of the split that count.
const DATASETS: [(&ReferenceDataset, usize); 2] = [(&PRODUCTS, 39_323), (&PAPERS, 125_265)];

/// What connects processes.
struct Link {
    name: &'static str,
    /// Bytes that one sends in a second while it receives as many.
    bytes: f64,
    /// Seconds that a call takes for each of the others, whatever is sent.
    call: f64,
}

const NETWORKS: [Link; 2] = [
    Link { name: "25 Gbit", bytes: 25e9 / 8.0, call: 20e-6 },
    Link { name: "100 Gbit", bytes: 100e9 / 8.0, call: 20e-6 },
];
const BUSES: [Link; 2] =
    [Link { name: "PCIe", bytes: 25e9, call: 10e-6 }, Link { name: "NVLink", bytes: 300e9, call: 10e-6 }];

/// How a whole graph is shared, and how well its nodes are dealt out.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Classes,
    /// Part of the entries that lead to others; none: as of an order of nodes that says nothing.
    Nodes(Option<f64>),
}

const WAYS: [(&str, Way); 3] =
    [("classes", Way::Classes), ("nodes, at random", Way::Nodes(None)), ("nodes, a tenth cut", Way::Nodes(Some(CUT)))];

/// A step of one of P processes.
struct Step {
    way: &'static str,
    ranks: usize,
    compute: f64,
    sent: f64,
    /// MPI calls.
    calls: f64,
    /// Bytes of states, features, responses and the walk.
    memory: f64,
}

impl Step {
    fn seconds(&self, link: &Link) -> f64 {
        self.compute + self.sent / link.bytes + self.calls * (self.ranks - 1) as f64 * link.call
    }
}

/// Dataset, model and how a step is computed.
struct Model {
    layout: Layout,
    engine: Engine,
    nodes: usize,
    entries: usize,
    train: usize,
    valid: usize,
}

impl Model {
    fn of(dataset: &ReferenceDataset, valid: usize) -> Result<Model> {
        let preset = if dataset.name == PAPERS.name { &PRODUCTS } else { dataset };
        let config = preset.config()?;
        let layout = Layout::new(config.architecture(dataset.features, dataset.outputs))?;
        let ReferenceDataset { nodes, entries, train, .. } = *dataset;
        Ok(Model { layout, engine: config.engine, nodes, entries, train, valid })
    }

    /// Bytes of states, features and responses that a step of a rank moves.
    fn moved(&self, nodes: usize, entries: usize, outputs: usize) -> Result<f64> {
        let layout = Layout::new(Architecture { outputs, ..self.layout.architecture.clone() })?;
        let sizes = DatasetSizes { nodes, entries, labelled_graphs: None, nonzeros: None };
        Ok(Plan::cost(Space::Classes, self.engine, sizes, &layout).bytes)
    }

    /// None where there are too few classes.
    fn step(&self, (name, way): (&'static str, Way), ranks: usize, bandwidth: f64) -> Result<Option<Step>> {
        let a = &self.layout.architecture;
        if way == Way::Classes && ranks > a.outputs {
            return Ok(None);
        }
        // The last rank has the largest part.
        let rank = ranks - 1;
        let largest = |all: usize| (0..ranks).map(|rank| part(all, ranks, rank).len()).max().unwrap_or(0);
        let (nodes, entries, outputs) = match way {
            Way::Classes => (self.nodes, self.entries, largest(a.outputs)),
            Way::Nodes(_) => (largest(self.nodes), largest(self.entries), a.outputs),
        };
        // Of one's own rows each of the others reads those that one of its entries leads to.
        let others = (ranks - 1) as f64;
        let degree = self.entries as f64 / self.nodes as f64;
        let to_each = match way {
            Way::Nodes(None) => degree / ranks as f64,
            Way::Nodes(Some(cut)) if ranks > 1 => cut * degree / others,
            _ => 0.0,
        };
        let sent_rows = nodes as f64 * others * (1.0 - (-to_each).exp());
        let sizes = SharedSizes {
            sharing: if way == Way::Classes { Sharing::Classes } else { Sharing::Nodes },
            ranks,
            parameters: self.layout.len(),
            outputs: a.outputs,
            hops: a.hops,
            state_bytes: self.engine.states.bytes(),
            targets: self.train,
            valid: self.valid,
        };
        // As many rows come as go where all ranks are alike.
        let own = OwnSizes {
            rank,
            nodes: 0..nodes,
            entries,
            halo: sent_rows as usize,
            sent_rows: sent_rows as usize,
            rows: 0,
            valid: largest(self.valid),
        };
        let state = self.engine.states.bytes() as f64;
        let width = outputs.next_multiple_of(8).min(2 * outputs) as f64;
        let memory = nodes as f64 * (a.hops as f64 * width * state + 2.0 * 4.0 * a.features as f64 + 20.0)
            + 4.0 * entries as f64
            + if way == Way::Classes { 0.0 } else { (nodes as f64 + sent_rows) * width * state };
        // An exchange is three calls of MPI and a gather two: lengths come first.
        let (exchange, gather) = (3.0, 2.0);
        let calls = match way {
            _ if ranks == 1 => 0.0,
            Way::Classes => exchange + 3.0 * gather,
            Way::Nodes(_) => exchange * (1.0 + 2.0 * (a.hops - 1) as f64) + 2.0 * gather,
        };
        let compute = self.moved(nodes, entries, outputs)? / bandwidth;
        Ok(Some(Step { way: name, ranks, compute, sent: sizes.sent(&own).step as f64, calls, memory }))
    }
}

/// Text and JSON.
pub fn output(host_bandwidth: Option<f64>) -> Result<(String, Value)> {
    let products = Model::of(&PRODUCTS, 0)?;
    let whole = products.moved(products.nodes, products.entries, PRODUCTS.outputs)?;
    let host = match host_bandwidth {
        None => whole / MEASURED,
        Some(given) if given.is_finite() && given > 0.0 => given * 1e9,
        Some(given) => return Err(Error::Config(format!("--host-bandwidth {given}: expected a number above 0"))),
    };
    let whose = match host_bandwidth {
        None => format!("two cores: {MEASURED} s measured for the {:.1} GB of a step of products", whole / 1e9),
        Some(_) => "as given".into(),
    };
    let mut text = format!(
        "On paper: seconds of one training step on the whole graph, shared by P processes.\n\
         - Hosts move {:.1} GB/s of states, gathers counted as a row per entry;\n  {whose}.\n\
         - GPUs move {:.0} GB/s, as an RTX 4090.\n\
         - Products of matrices overlap with that; the loss, the optimizer, and packing what is sent take no time.\n\
         - Links carry their figure both ways at once: 25 and 100 Gbit/s a host; PCIe {:.0} GB/s, NVLink {:.0} GB/s a GPU.\n\
         - A call of MPI takes {:.0} us, between GPUs {:.0} us, for every other process. Nothing is sent beside computing.\n\
         - All processes have equal parts. Nodes at random: entries lead anywhere, all nodes alike, as bad as an order of nodes\n  \
           can be; a tenth cut: a tenth of the entries lead to other processes, as evenly.\n\
         - Models are those of the preset of ogbn-products, states f32. Memory: states, X, F and the walk, one direction.\n",
        host / 1e9,
        GPU / 1e9,
        BUSES[0].bytes / 1e9,
        BUSES[1].bytes / 1e9,
        NETWORKS[0].call * 1e6,
        BUSES[0].call * 1e6,
    );
    let mut checks = Vec::new();
    if host_bandwidth.is_none() {
        text += "\nheld against steps of one process that were measured on the same two cores, and that it was not made from:\n";
        for (name, dataset, measured) in &CHECKS {
            let model = Model::of(dataset, 0)?;
            let modelled = model.moved(dataset.nodes, dataset.entries, dataset.outputs)? / host;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{name:<26}{modelled:>7.2} s by the model, {measured:.2} s measured: {:.2} times",
                modelled / measured
            );
            checks.push(json!({ "case": name, "modelled_seconds": modelled, "measured_seconds": measured }));
        }
    }
    let mut tables = Vec::new();
    for (dataset, valid) in DATASETS {
        let model = Model::of(dataset, valid)?;
        let kinds =
            [("hosts", host, &NETWORKS, &[1, 2, 4, 8, 16, 32, 64][..]), ("GPUs", GPU, &BUSES, &[1, 2, 4, 8][..])];
        for (what, bandwidth, links, counts) in kinds {
            let steps = steps(&model, bandwidth, counts)?;
            table(&mut text, dataset, what, links, &steps);
            tables.push(value(dataset, what, links, &steps));
        }
    }
    let json = json!({
        "measured": false, "host_gb_per_s": host / 1e9, "gpu_gb_per_s": GPU / 1e9, "cut": CUT, "checks": checks, "tables": tables,
    });
    Ok((text, json))
}

fn steps(model: &Model, bandwidth: f64, counts: &[usize]) -> Result<Vec<Step>> {
    let all = WAYS.iter().flat_map(|&way| counts.iter().map(move |&ranks| (way, ranks)));
    // One process has nothing to share.
    let all = all.filter(|(way, ranks)| *ranks > 1 || way.1 == Way::Classes);
    all.filter_map(|(way, ranks)| model.step(way, ranks, bandwidth).transpose()).collect()
}

fn table(text: &mut String, dataset: &ReferenceDataset, what: &str, links: &[Link; 2], steps: &[Step]) {
    let ReferenceDataset { name, nodes, entries, edges, features, outputs, .. } = dataset;
    let _ = write!(
        text,
        "\n{name} on {what}: {} nodes, {} entries ({edges}), d {features}, L {outputs}\n\
         {:<20}{:>4}{:>12}{:>11}{:>12}{:>8}{:>12}{:>8}{:>10}\n",
        grouped(*nodes),
        grouped(*entries),
        "way",
        "P",
        "compute s",
        "sent MB",
        links[0].name,
        "times",
        links[1].name,
        "times",
        "GiB each",
    );
    for step in steps {
        let way = if step.ranks == 1 { "one process" } else { step.way };
        let _ = write!(text, "{way:<20}{:>4}{:>12.3}{:>11.2}", step.ranks, step.compute, step.sent / 1e6);
        for link in links {
            let seconds = step.seconds(link);
            let _ = write!(text, "{seconds:>12.3}{:>8.1}", steps[0].compute / seconds);
        }
        let _ = writeln!(text, "{:>10.1}", step.memory / f64::from(1 << 30));
    }
}

fn value(dataset: &ReferenceDataset, what: &str, links: &[Link; 2], steps: &[Step]) -> Value {
    let step = |step: &Step| {
        let seconds = links.iter().map(|link| (link.name.to_string(), json!(step.seconds(link))));
        json!({
            "share": step.way, "ranks": step.ranks, "compute_seconds": step.compute, "sent_bytes": step.sent,
            "calls": step.calls, "seconds": seconds.collect::<serde_json::Map<_, _>>(), "memory_bytes": step.memory,
        })
    };
    json!({ "dataset": dataset.name, "on": what, "steps": steps.iter().map(step).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_takes_what_was_measured_and_sends_nothing() {
        let (_, json) = output(None).unwrap();
        let first = &json["tables"][0]["steps"][0];
        assert!((first["compute_seconds"].as_f64().unwrap() - MEASURED).abs() < 1e-9);
        assert_eq!(first["sent_bytes"], 0.0);
        assert_eq!(first["seconds"]["25 Gbit"], first["compute_seconds"]);
    }

    #[test]
    fn shares_of_nodes_take_a_part_of_the_time_and_the_memory() {
        let model = Model::of(&PRODUCTS, 100).unwrap();
        let step = |way, ranks| model.step(("", way), ranks, 1e9).unwrap().unwrap();
        let (one, four) = (step(Way::Nodes(None), 1), step(Way::Nodes(None), 4));
        assert!((one.compute / four.compute - 4.0).abs() < 1e-4, "{} {}", one.compute, four.compute);
        // At 50 entries a node everybody reads nearly everything: 3 others, 3 hops there and back, rows of 47 numbers.
        let all = 3.0 * 6.0 * 47.0 * 4.0 * (PRODUCTS.nodes as f64 / 4.0);
        assert!(four.sent < 1.01 * all && four.sent > 0.99 * all, "{} {all}", four.sent);
        assert!(step(Way::Nodes(Some(CUT)), 4).sent < 0.9 * four.sent);
        // 47 columns are no more than 47 shares, of which the features are no part.
        let classes = step(Way::Classes, 4);
        assert!(classes.sent < 0.05 * four.sent && classes.compute > four.compute && classes.memory > four.memory);
        assert!(model.step(("", Way::Classes), 64, 1e9).unwrap().is_none());
    }

    #[test]
    fn hosts_of_no_speed_are_refused() {
        assert!(output(Some(0.0)).unwrap_err().to_string().contains("--host-bandwidth 0"));
        assert!(output(Some(f64::NAN)).is_err());
    }
}
