//! `--dry-run`: what would be trained, with how many parameters, in how much memory.

use crate::config::Config;
use crate::datasets::{Dataset, Level};
use crate::device::Device;
use crate::error::Result;
use crate::model::{Layout, MemoryPlan};
use serde_json::json;

/// What `--dry-run` prints.
pub fn text<D: Device<Real = f32>>(device: &D, config: &Config, dataset: &Dataset, as_json: bool) -> Result<String> {
    let layout = Layout::new(config.architecture(dataset.features.cols, dataset.labels.outputs()))?;
    let plan = MemoryPlan::new(device, &layout, dataset, config);
    let total: usize = plan.buffers().map(|(_, bytes)| bytes).sum();
    if as_json {
        let groups: serde_json::Map<_, _> =
            layout.counts().into_iter().map(|(name, count)| (name.to_string(), json!(count))).collect();
        let buffers: serde_json::Map<_, _> =
            plan.buffers().map(|(name, bytes)| (name.to_string(), json!(bytes))).collect();
        let text = json!({
            "dataset": dataset.name, "preset": config.preset, "device": device.name(), "config": config,
            "parameters": layout.len(), "parameters_by_group": groups,
            "memory_bytes": total, "device_memory_bytes": plan.device_bytes(), "memory_bytes_by_buffer": buffers,
        });
        return Ok(format!("{text:#}\n"));
    }
    let mut out = format!("# effective configuration\n{}\n", config.to_toml()?);
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
    out += "\n# parameters\n";
    for (name, count) in layout.counts() {
        out += &format!("{name:<28}{count:>14}\n");
    }
    out += &format!("{:<28}{:>14}\n\n# planned memory, {}\n", "total", layout.len(), device.name());
    for (name, bytes) in plan.buffers() {
        out += &format!("{name:<28}{:>14}\n", mebibytes(bytes));
    }
    out += &format!("{:<28}{:>14}\n", "total", mebibytes(total));
    Ok(out)
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64)
}
