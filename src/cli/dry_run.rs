//! `--dry-run`: what would be trained, with how many parameters, in how much memory.

use crate::config::Config;
use crate::datasets::{Dataset, Level};
use crate::device::cpu::Cpu;
use crate::error::Result;
use crate::model::{Layout, memory_plan};
use serde_json::json;

pub fn print(config: &Config, dataset: &Dataset, as_json: bool) -> Result<()> {
    let layout = Layout::new(config.architecture(dataset.features.cols, dataset.labels.outputs()))?;
    let plan = memory_plan(&Cpu::<f32>::new(), &layout, dataset, config);
    let total: usize = plan.iter().map(|(_, bytes)| bytes).sum();
    if as_json {
        let groups: serde_json::Map<_, _> =
            layout.counts().into_iter().map(|(name, count)| (name.to_string(), json!(count))).collect();
        let buffers: serde_json::Map<_, _> =
            plan.iter().map(|(name, bytes)| (name.to_string(), json!(bytes))).collect();
        println!(
            "{:#}",
            json!({
                "dataset": dataset.name, "preset": config.preset, "config": config,
                "parameters": layout.len(), "parameters_by_group": groups,
                "memory_bytes": total, "memory_bytes_by_buffer": buffers,
            })
        );
        return Ok(());
    }
    println!("# effective configuration\n{}", config.to_toml()?);
    let unit = if dataset.level == Level::Node { "nodes" } else { "graphs" };
    println!("# dataset {}", dataset.name);
    println!(
        "{} nodes, {} directed edges, {} graphs, {} features, {} outputs; {unit} to train, validate, test: {} / {} / {}\n",
        dataset.graph.nodes(),
        dataset.graph.directed_edges(),
        dataset.graphs(),
        dataset.features.cols,
        dataset.labels.outputs(),
        dataset.split.train.len(),
        dataset.split.valid.len(),
        dataset.split.test.len(),
    );
    println!("# parameters");
    for (name, count) in layout.counts() {
        println!("{name:<28}{count:>14}");
    }
    println!("{:<28}{:>14}\n", "total", layout.len());
    println!("# planned memory");
    for (name, bytes) in &plan {
        println!("{name:<28}{:>14}", mebibytes(*bytes));
    }
    println!("{:<28}{:>14}", "total", mebibytes(total));
    Ok(())
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64)
}
