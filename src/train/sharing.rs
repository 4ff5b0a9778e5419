//! How several processes share a run: what sizes say, or the settings.

use super::Prepared;
use crate::config::{Config, Engine, Propagate, ShareUse};
use crate::device::Device;
use crate::plan::{Plan, SharedPlan};
use crate::tabulate::Tabulation;
use crate::team::{Share, Sharing, Team, can_share_classes};
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
    let sharing = choose(run, config, team.size(), device)?;
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

fn choose<D: Device<Real = f32>>(run: &Prepared, config: &Config, ranks: usize, device: &D) -> Result<Sharing> {
    let dataset = &run.dataset;
    let one_graph = dataset.graphs() == 1;
    let wrong = |share: &str, why: &str| Err(Error::Config(format!("engine.share = {share}, but {why}")));
    match config.engine.share {
        ShareUse::Auto if run.tabulation.plan().is_some() => Ok(Sharing::Rows),
        ShareUse::Auto if !one_graph => Ok(Sharing::Targets),
        ShareUse::Auto => {
            let fits = || match memory::allowed() {
                Some(allowed) => run.memory(device, config).device_bytes() <= allowed,
                None => true,
            };
            Ok(if can_share_classes(&run.layout.architecture, ranks) && fits() {
                Sharing::Classes
            } else {
                Sharing::Nodes
            })
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
