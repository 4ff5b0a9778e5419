//! How several processes share a run: what sizes say, or the settings.

use super::Prepared;
use crate::config::{Config, Engine, Propagate, ShareUse};
use crate::device::Device;
use crate::plan::{Plan, SharedPlan};
use crate::tabulate::Tabulation;
use crate::team::{Share, Sharing, Team, any, can_share_classes};
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::partition;
use harmonia_graph::memory;
use std::sync::Arc;

/// Gives this process its share of a run. Steps by a table share its rows, those over sets of graphs the graphs; of one graph the
/// classes are shared where there are enough of them and it fits the memory of each process, else its nodes.
///
/// # Errors
/// The run cannot be shared, or not as `engine.share` says.
pub fn share_out<D: Device<Real = f32>>(
    run: &mut Prepared,
    config: &Config,
    team: &Arc<dyn Team>,
    device: &D,
) -> Result<()> {
    let sharing = choose(run, config, &**team, device)?;
    if sharing != Sharing::Rows {
        run.tabulation = Tabulation::Walk { why: None };
        run.table = None;
    }
    if matches!(sharing, Sharing::Classes | Sharing::Nodes) {
        let engine = Engine { propagate: Propagate::Classes, ..config.engine };
        run.plan = Plan::new(&Config { engine, ..config.clone() }, &run.dataset, &run.layout);
    }
    let rows = run.tabulation.plan().map(|plan| plan.contents.units.clone()).unwrap_or_default();
    let bounds = if sharing == Sharing::Nodes { bounds(&run.dataset, team.size())? } else { Vec::new() };
    let share = Share::new(Arc::clone(team), sharing, &run.layout, rows, bounds)?;
    run.shared = Some(Arc::new(SharedPlan::of(&share, &run.dataset, &run.layout, config)));
    run.share = Some(Arc::new(share));
    Ok(())
}

/// Why a GPU cannot share a graph that has too few classes for it.
const NO_NODES: &str = "on GPUs one graph is shared by classes alone, a class or more for each process: start fewer, or set run.device = cpu";

fn choose<D: Device<Real = f32>>(run: &Prepared, config: &Config, team: &dyn Team, device: &D) -> Result<Sharing> {
    let (dataset, ranks) = (&run.dataset, team.size());
    let one_graph = dataset.graphs() == 1;
    let wrong = |share: &str, why: &str| Err(Error::Config(format!("engine.share = {share}, but {why}")));
    match config.engine.share {
        ShareUse::Auto if run.tabulation.plan().is_some() => Ok(Sharing::Rows),
        ShareUse::Auto if !one_graph => Ok(Sharing::Targets),
        ShareUse::Auto => {
            // Machines differ, and all have to choose alike. What is too large for a GPU comes to it in panels.
            let fits = |most| device.copies() || run.memory(device, config).device_bytes() <= most;
            let here = memory::allowed().is_none_or(fits);
            let fits = !any(team, !here)?;
            match can_share_classes(&run.layout.architecture, ranks) && fits {
                true => Ok(Sharing::Classes),
                false if device.copies() => wrong("auto", NO_NODES),
                false => Ok(Sharing::Nodes),
            }
        }
        ShareUse::Rows if run.tabulation.plan().is_none() => {
            wrong("rows", "steps read no table of walks: set engine.table = force, or engine.share = auto")
        }
        ShareUse::Rows => Ok(Sharing::Rows),
        ShareUse::Targets if one_graph => wrong(
            "targets",
            &format!("{} is one graph, which every step walks as a whole: set engine.share = auto", dataset.name),
        ),
        ShareUse::Targets => Ok(Sharing::Targets),
        ShareUse::Classes | ShareUse::Nodes if !one_graph => {
            let share = config.engine.share.name();
            wrong(share, &format!("{} is {} graphs: set engine.share = auto", dataset.name, dataset.graphs()))
        }
        ShareUse::Nodes if device.copies() => wrong("nodes", NO_NODES),
        ShareUse::Classes => Ok(Sharing::Classes),
        ShareUse::Nodes => Ok(Sharing::Nodes),
    }
}

/// Whose nodes are whose: the parts of a partitioned store, else stretches of nearly equal cost.
fn bounds(dataset: &Dataset, ranks: usize) -> Result<Vec<usize>> {
    let nodes = dataset.graph.nodes();
    if nodes < ranks {
        return Err(Error::Config(format!("{} has {nodes} nodes, too few for {ranks} processes", dataset.name)));
    }
    Ok(match &dataset.parts {
        Some(parts) if parts.len() == ranks + 1 => parts.to_vec(),
        _ => partition::ranges(&dataset.graph.adjacency().row_ptr, ranks),
    })
}
