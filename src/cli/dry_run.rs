//! `--dry-run`: what would be trained, with how many parameters, in how much memory.

use crate::cli::train::table_line;
use crate::config::{Config, Monb};
use crate::device::Device;
use crate::model::{MemoryPlan, PanelPlan};
use crate::plan::{Cost, DatasetSizes, Plan, SharedPlan, Space};
use crate::settings::to_toml;
use crate::tabulate::Tabulation;
use crate::team::Sharing;
use crate::train::Prepared;
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::Result;
use harmonia_graph::units;
use serde_json::json;

/// What `--dry-run` prints.
pub fn text<D: Device<Real = f32>>(device: &D, config: &Config, run: &Prepared, as_json: bool) -> Result<String> {
    let Prepared { dataset, layout, plan, .. } = run;
    let (memory, plan) = (run.memory(device, config), *plan);
    let costs = [Space::Features, Space::Classes]
        .map(|space| (space, Plan::cost(space, config.engine, DatasetSizes::of(dataset), layout)));
    let total: usize = memory.buffers().map(|(_, bytes)| bytes).sum();
    let shared = run.shared.as_deref().map(|shared| (shared, most_memory(device, config, run, shared)));
    if as_json {
        let groups: serde_json::Map<_, _> =
            layout.counts().into_iter().map(|(name, count)| (name.to_string(), json!(count))).collect();
        let buffers: serde_json::Map<_, _> =
            memory.buffers().map(|(name, bytes)| (name.to_string(), json!(bytes))).collect();
        let mut text = json!({
            "dataset": dataset.name, "preset": config.preset, "recipe": config.recipe, "device": device.name(), "config": config,
            "parameters": layout.len(), "parameters_by_group": groups,
            "memory_bytes": total, "device_memory_bytes": memory.device_bytes(), "memory_bytes_by_buffer": buffers,
            "device_memory_allowed": memory.allowed, "scored_classes": memory.scored_classes,
            "panels": memory.panels.iter().map(|panels| json!({
                "what": panels.what, "panels": panels.panels, "panel_bytes": panels.panel_bytes, "step_bytes": panels.step_bytes,
            })).collect::<Vec<_>>(),
            "table": run.tabulation.plan().map(|plan| json!({
                "rows": plan.contents.units.len(), "points": plan.grid.most(), "bits": plan.bits.count(), "bytes": plan.bytes(),
                "exact": plan.grid.is_exact(), "walks": plan.walks, "build_bytes": plan.build_bytes(DatasetSizes::of(dataset)),
                "epoch_bytes": plan.epoch_bytes(dataset),
            })),
            "plan": { "monb": plan.monb, "propagate": space_name(plan.space), "sparse": plan.sparse },
            "estimates": costs.iter().map(|(space, cost)| (space_name(*space).to_string(), json!({
                "bytes": cost.bytes, "flops": cost.flops, "byte_equivalents": cost.total(),
            }))).collect::<serde_json::Map<_, _>>(),
        });
        if let Some((shared, memory)) = shared {
            let sent = shared.most_sent();
            text["share"] = json!(shared.sizes.sharing.name());
            text["ranks"] = json!(shared.sizes.ranks);
            text["sent_bytes_per_step"] = json!(sent.step);
            text["sent_bytes_per_validation"] = json!(sent.validation);
            text["memory_bytes_per_rank"] = json!(memory);
            text["halo_rows_per_rank"] = json!(shared.own.iter().map(|own| own.halo).max());
        }
        return Ok(format!("{text:#}\n"));
    }
    let mut out = format!("# effective configuration\n{}\n", to_toml(config)?);
    let unit = if dataset.level == Level::Node { "nodes" } else { "graphs" };
    out += &format!(
        "# dataset {}\n{} nodes, {} directed edges, {} graphs, {} features, {} outputs; {unit} to train, validate, test: \
         {} / {} / {}\n",
        dataset.name,
        dataset.graph.nodes(),
        dataset.graph.directed_edges(),
        dataset.graphs(),
        dataset.features.cols,
        dataset.labels.outputs(),
        dataset.split.train.len(),
        dataset.split.valid.len(),
        dataset.split.test.len(),
    );
    out += &plan_text(plan, config, dataset, &costs);
    out += &table_text(run);
    if let Some((shared, memory)) = shared {
        out += &shared_text(shared, memory);
    }
    out += "\n# parameters\n";
    for (name, count) in layout.counts() {
        out += &format!("{name:<28}{count:>14}\n");
    }
    out += &format!("{:<28}{:>14}\n\n# planned memory, {}\n", "total", layout.len(), device.name());
    for (name, bytes) in memory.buffers() {
        out += &format!("{name:<28}{:>14}\n", mebibytes(bytes));
    }
    out += &format!("{:<28}{:>14}\n", "total", mebibytes(total));
    if let Some(classes) = memory.scored_classes {
        out += &format!(
            "{:<28}{classes:>14} at a time, to hold less than half of the memory there is\n",
            "classes scored"
        );
    }
    out += &panels_text(&memory);
    Ok(out)
}

/// Of the rank that takes most memory, beside files that are mapped.
fn most_memory<D: Device<Real = f32>>(device: &D, config: &Config, run: &Prepared, shared: &SharedPlan) -> usize {
    let of = |rank| run.memory_of(device, config, Some(rank));
    let all = (0..shared.sizes.ranks).map(of);
    let bytes = |memory: MemoryPlan| if device.copies() { memory.device_bytes() } else { memory.process_bytes() };
    all.map(bytes).max().unwrap_or(0)
}

/// What of a step is whose, what that sends, and what it takes.
fn shared_text(shared: &SharedPlan, memory: usize) -> String {
    let what = match shared.sizes.sharing {
        Sharing::Targets => "some graphs of every batch each",
        Sharing::Rows => "some rows of the table each",
        Sharing::Classes => "some columns of the logits each",
        Sharing::Nodes => "some nodes of the graph each",
    };
    let sent = shared.most_sent();
    let mut out = format!(
        "engine.share      {}: {} ranks have {what}\n{:<18}{} sent per step, {} for the scores of an epoch, by a rank at most\n",
        shared.sizes.sharing.name(),
        shared.sizes.ranks,
        "",
        units::bytes(sent.step as u64),
        units::bytes(sent.validation as u64),
    );
    if let Some(halo) = shared.own.iter().map(|own| own.halo).max().filter(|&halo| halo > 0) {
        let nodes = shared.own.iter().map(|own| own.nodes.len()).max().unwrap_or(0);
        out += &format!("{:<18}{nodes} nodes of its own, {halo} rows of others, on a rank at most\n", "");
    }
    out + &format!("{:<18}{} of memory on a rank at most; what follows is of the first\n", "", mebibytes(memory))
}

/// What a device has no room for, and how it comes there.
fn panels_text(memory: &MemoryPlan) -> String {
    let Some(allowed) = memory.allowed else { return String::new() };
    let planned = memory.device_bytes();
    let mut out = format!(
        "{:<28}{:>14} of {} that it may take\n",
        "on the device at once",
        mebibytes(planned),
        mebibytes(allowed)
    );
    if planned > allowed {
        out += "this does not fit: training would be refused\n";
    }
    for PanelPlan { what, panels, panel_bytes, step_bytes } in &memory.panels {
        out += &format!(
            "{:<28}{:>14} panels of {}, two of them on the device; {} brought in a step\n",
            format!("{what}, in panels"),
            panels,
            mebibytes(*panel_bytes),
            mebibytes(*step_bytes),
        );
    }
    out
}

/// The table of walks that training reads, or why it reads none.
fn table_text(run: &Prepared) -> String {
    let plan = match &run.tabulation {
        Tabulation::Table(plan) => plan,
        Tabulation::Walk { why: Some(why) } => return format!("engine.table      no: {why}\n"),
        Tabulation::Walk { why: None } => return "engine.table      no\n".into(),
    };
    format!(
        "engine.table      {}\na table           made once by moving {:.3} GB, then {:.3} GB per epoch; the way above scores\n",
        table_line(plan, &run.dataset),
        plan.build_bytes(DatasetSizes::of(&run.dataset)) / 1e9,
        plan.epoch_bytes(&run.dataset) / 1e9,
    )
}

/// Which way a step is computed, and what each way would cost.
fn plan_text(plan: Plan, config: &Config, dataset: &Dataset, costs: &[(Space, Cost); 2]) -> String {
    let monb = match plan.monb {
        Monb::Knots => "knots: every expert compiled to its pieces once per step, a look-up per point",
        Monb::Direct if config.engine.monb == Monb::Knots => {
            "direct: dropped hidden units leave no pieces (train.dropout_place)"
        }
        Monb::Direct => "direct: every routed expert at every point",
    };
    let space = match (plan.space, dataset.level) {
        (Space::Features, _) => "features: d columns walk, then the readout",
        (Space::Classes, Level::Node) => "classes: the readout first, then L columns walk",
        (Space::Classes, Level::Graph) => "classes: every node has its weight in advance, nothing walks",
        (Space::Table, _) => "a table of walks: no edge is touched",
    };
    let sparse = if plan.sparse { "yes: zeros of X are never touched" } else { "no" };
    let mut out =
        format!("\n# plan\nengine.monb       {monb}\nengine.propagate  {space}\nengine.sparse     {sparse}\n");
    for (space, cost) in costs {
        out += &format!(
            "a step, in {:<9} {:>10.3} GB moved, {:>10.3} Gflop of products, as long as {:>10.3} GB{}\n",
            space_name(*space),
            cost.bytes / 1e9,
            cost.flops / 1e9,
            cost.total() / 1e9,
            if *space == plan.space { "  <- taken" } else { "" },
        );
    }
    out
}

fn space_name(space: Space) -> &'static str {
    match space {
        Space::Features => "features",
        Space::Classes => "classes",
        Space::Table => "table",
    }
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64)
}
