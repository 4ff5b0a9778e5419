//! `harmonia doctor --kernels`: what each kernel takes of a multiprocessor, and what it moves.

use super::shapes::{PRODUCTS, grouped};
use crate::architecture::Layout;
use crate::config::States;
use crate::device::cuda;
use crate::device::launcher::traffic::{self, Problem, Work};
use crate::device::launcher::{Blocks, Kernel, kernel};
use crate::device::resources::{Occupancy, Resources, occupancy, parse, shared_limit};
use crate::plan::Plan;
use harmonia_graph::error::{Error, Result};
use serde_json::{Value, json};

/// A kernel on a generation.
struct Line<'a> {
    resources: &'a Resources,
    /// As the launcher starts it.
    kernel: &'static Kernel,
    /// Threads of a block and bytes of its dynamic shared memory on this generation.
    threads: u32,
    dynamic_shared: usize,
    occupancy: Option<Occupancy>,
    /// In a training step on the typical shape.
    work: Option<&'a Work>,
}

/// Text and JSON.
pub fn output(arch: Option<&str>) -> Result<(String, Value)> {
    let embedded = cuda::embedded();
    let report = parse(embedded.ptxas_report);
    if report.is_empty() {
        return Err(Error::Config(
            "this program was built without nvcc and holds no report on the kernels; put nvcc on the PATH, name it by NVCC \
             or CUDA_HOME, or get one with scripts/install-nvcc.sh, and build again"
                .into(),
        ));
    }
    let archs = chosen(&report, arch)?;
    let config = PRODUCTS.config()?;
    let layout = PRODUCTS.problem(&config, States::F32)?.layout;
    let steps = steps()?;
    let mut text = format!(
        "{} kernels by nvcc {}. Bytes per element (of n x d, logits or parameters) on {}, {} nodes,\n\
         {} entries, d {}: least = each operand once, reuse = caches keep every gathered state, none = no gather\n\
         is in cache. Shared memory in bytes per block, stack and spills in bytes per thread.\n",
        report.iter().filter(|line| line.arch == archs[0]).count(),
        embedded.nvcc_version,
        PRODUCTS.name,
        grouped(PRODUCTS.nodes),
        grouped(PRODUCTS.entries),
        PRODUCTS.features
    );
    let mut listed = Vec::new();
    for arch in archs {
        text += &format!(
            "\n{:<34}{:>7}{:>5}{:>6}{:>6}{:>7}{:>8}{:>10} {:<10}{:>8}{:>8}{:>8}\n",
            arch,
            "threads",
            "regs",
            "stack",
            "spill",
            "shared",
            "dynamic",
            "occupancy",
            "limit",
            "B least",
            "B reuse",
            "B none"
        );
        for line in lines(&report, arch, &layout, &steps) {
            text += &line.text();
            listed.push(line.json());
        }
    }
    let json = json!({ "nvcc": embedded.nvcc_version, "shape": PRODUCTS.name, "kernels": listed });
    Ok((text, json))
}

/// The generations to show, in the order of their numbers.
fn chosen<'a>(report: &'a [Resources], asked: Option<&str>) -> Result<Vec<&'a str>> {
    let mut archs: Vec<&str> = report.iter().map(|line| line.arch.as_str()).collect();
    archs.sort_by_key(|arch| (arch.len(), *arch));
    archs.dedup();
    let Some(asked) = asked else { return Ok(archs) };
    let name = if asked.starts_with("sm_") { asked.to_string() } else { format!("sm_{}", asked.replace('.', "")) };
    match archs.iter().find(|arch| **arch == name) {
        Some(arch) => Ok(vec![arch]),
        None => Err(Error::Config(format!("--arch {asked}: this program holds {}", archs.join(", ")))),
    }
}

/// What kernels do in a training step: as a run computes it and directly, with every type of states, and with the experts of
/// the synthetic study.
fn steps() -> Result<Vec<Work>> {
    let mut config = PRODUCTS.config()?;
    let mut all = Vec::new();
    for states in [States::F32, States::F16, States::Bf16] {
        let problem = PRODUCTS.problem(&config, states)?;
        all.extend(traffic::step(&problem));
        all.extend(traffic::step(&Problem { plan: Plan::DIRECT, ..problem }));
    }
    for hidden in [vec![64, 32], vec![32]] {
        config.model.hidden = hidden;
        let problem = PRODUCTS.problem(&config, States::F32)?;
        all.extend(traffic::step(&Problem { plan: Plan::DIRECT, ..problem }));
    }
    Ok(all)
}

fn lines<'a>(report: &'a [Resources], arch: &str, layout: &Layout, steps: &'a [Work]) -> Vec<Line<'a>> {
    let mut lines: Vec<Line> = report
        .iter()
        .filter(|resources| resources.arch == arch)
        .filter_map(|resources| Some((resources, kernel(&resources.kernel)?)))
        .map(|(resources, kernel)| {
            // Of a generation whose limits are not known here, what all have.
            let limit = shared_limit(arch).map_or(Blocks::default().shared, |bytes| bytes as usize);
            let (threads, dynamic_shared) = kernel.launched(&layout.architecture, limit);
            let shared = resources.static_shared + dynamic_shared as u32;
            Line {
                resources,
                kernel,
                threads,
                dynamic_shared,
                occupancy: occupancy(arch, threads, resources.registers, shared),
                work: steps.iter().find(|work| work.kernel == kernel.name),
            }
        })
        .collect();
    lines.sort_by_key(|line| line.kernel.name);
    lines
}

impl Line<'_> {
    /// Bytes per element: least, with reuse, without.
    fn element_bytes(&self) -> Option<[f64; 3]> {
        let work = self.work.filter(|work| work.elements > 0.0 && work.bytes.minimum > 0.0)?;
        Some([work.bytes.minimum, work.bytes.perfect_reuse, work.bytes.no_reuse].map(|bytes| bytes / work.elements))
    }

    fn text(&self) -> String {
        let Resources { registers, stack, spill_stores, spill_loads, static_shared, .. } = self.resources;
        let (share, limit) = self.occupancy.map_or(("-".into(), "-"), |occupancy| {
            (
                format!("{:.0} %", 100.0 * f64::from(occupancy.warps) / f64::from(occupancy.most_warps)),
                occupancy.limit.name(),
            )
        });
        let bytes = self.element_bytes().map_or_else(
            || format!("{:>8}{:>8}{:>8}", "-", "-", "-"),
            |bytes| bytes.iter().map(|bytes| format!("{bytes:>8.1}")).collect(),
        );
        format!(
            "{:<34}{:>7}{registers:>5}{stack:>6}{:>6}{static_shared:>7}{:>8}{share:>10} {limit:<10}{bytes}\n",
            self.kernel.name,
            self.threads,
            spill_stores + spill_loads,
            self.dynamic_shared,
        )
    }

    fn json(&self) -> Value {
        let resources = self.resources;
        let bytes = self.element_bytes();
        json!({
            "kernel": resources.kernel, "arch": resources.arch, "threads": self.threads,
            "registers": resources.registers, "stack_bytes": resources.stack,
            "spill_store_bytes": resources.spill_stores, "spill_load_bytes": resources.spill_loads,
            "static_shared_bytes": resources.static_shared, "dynamic_shared_bytes": self.dynamic_shared,
            "blocks_per_multiprocessor": self.occupancy.map(|occupancy| occupancy.blocks),
            "warps_per_multiprocessor": self.occupancy.map(|occupancy| occupancy.warps),
            "most_warps": self.occupancy.map(|occupancy| occupancy.most_warps),
            "limit": self.occupancy.map(|occupancy| occupancy.limit.name()),
            "bytes_per_element_minimum": bytes.map(|bytes| bytes[0]),
            "bytes_per_element_perfect_reuse": bytes.map(|bytes| bytes[1]),
            "bytes_per_element_no_reuse": bytes.map(|bytes| bytes[2]),
        })
    }
}
