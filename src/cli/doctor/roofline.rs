//! `harmonia doctor --roofline`: bytes, flops and the least time of each kernel of a training step.

use super::shapes::{REFERENCES, ReferenceDataset, grouped};
use crate::config::{Monb, States};
use crate::device::launcher::traffic::{self, Bytes, Problem, Work};
use crate::plan::{Plan, Space};
use harmonia_graph::error::{Error, Result};
use serde_json::{Value, json};
use std::fmt::Write;

/// An RTX 4090.
const BANDWIDTH: f64 = 1008.0;
const TFLOPS: f64 = 82.0;
/// Kernels below this share of the step's bytes and of its flops are shown as one line.
const SMALL: f64 = 1e-3;

/// What a GPU can do at most.
#[derive(Clone, Copy)]
pub struct Peak {
    /// GB/s.
    bandwidth: f64,
    tflops: f64,
    /// Whether it is that of an RTX 4090.
    usual: bool,
}

impl Peak {
    pub fn new(bandwidth: Option<f64>, tflops: Option<f64>) -> Result<Peak> {
        let usual = bandwidth.is_none() && tflops.is_none();
        let peak = Peak { bandwidth: bandwidth.unwrap_or(BANDWIDTH), tflops: tflops.unwrap_or(TFLOPS), usual };
        for (flag, value) in [("--bandwidth", peak.bandwidth), ("--tflops", peak.tflops)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::Config(format!("{flag} {value}: expected a number above 0")));
            }
        }
        Ok(peak)
    }

    /// Milliseconds that `bytes` and `flops` take at least, and whether the bytes decide.
    fn time(&self, bytes: f64, flops: f64) -> (f64, bool) {
        let (memory, compute) = (bytes / self.bandwidth / 1e6, flops / self.tflops / 1e9);
        (memory.max(compute), memory >= compute)
    }
}

/// A line of the table.
struct KernelRow {
    name: String,
    work: Work,
    /// Milliseconds with perfect and with no reuse, and whether memory decides.
    times: [(f64, bool); 2],
}

impl KernelRow {
    fn new(name: String, work: Work, peak: Peak) -> KernelRow {
        let times = [work.bytes.perfect_reuse, work.bytes.no_reuse].map(|bytes| peak.time(bytes, work.flops));
        KernelRow { name, work, times }
    }

    fn bound(&self) -> &'static str {
        match self.times.map(|(_, memory)| memory) {
            [true, _] => "memory",
            [false, false] => "compute",
            [false, true] => "compute; memory",
        }
    }

    fn text(&self) -> String {
        let Work { launches, flops, bytes, .. } = &self.work;
        format!(
            "{:<29}{launches:>5}{:>10}{:>10}{:>10}{:>11}{:>8}{:>10.3}{:>10.3}  {}\n",
            self.name,
            giga(bytes.minimum),
            giga(bytes.perfect_reuse),
            giga(bytes.no_reuse),
            giga(*flops),
            format!("{:.1}", flops / bytes.perfect_reuse.max(1.0)),
            self.times[0].0,
            self.times[1].0,
            self.bound()
        )
    }

    fn json(&self) -> Value {
        let Work { launches, flops, bytes, .. } = &self.work;
        json!({
            "kernel": self.name, "launches": launches, "flops": flops,
            "bytes_minimum": bytes.minimum, "bytes_perfect_reuse": bytes.perfect_reuse, "bytes_no_reuse": bytes.no_reuse,
            "ms_perfect_reuse": self.times[0].0, "ms_no_reuse": self.times[1].0, "bound": self.bound(),
        })
    }
}

fn giga(value: f64) -> String {
    format!("{:.3}", value / 1e9)
}

/// Lines for a step; small kernels as one.
fn rows(problem: &Problem, peak: Peak) -> Vec<KernelRow> {
    let step = traffic::step(problem);
    let (bytes, flops): (f64, f64) =
        (step.iter().map(|work| work.bytes.perfect_reuse).sum(), step.iter().map(|work| work.flops).sum());
    let (large, small): (Vec<Work>, Vec<Work>) =
        step.into_iter().partition(|work| work.bytes.perfect_reuse > SMALL * bytes || work.flops > SMALL * flops);
    let together = Work {
        kernel: "",
        launches: small.iter().map(|work| work.launches).sum(),
        elements: 0.0,
        flops: small.iter().map(|work| work.flops).sum(),
        bytes: small.iter().map(|work| work.bytes).sum::<Bytes>(),
    };
    let mut rows: Vec<KernelRow> =
        large.into_iter().map(|work| KernelRow::new(work.kernel.to_string(), work, peak)).collect();
    rows.push(KernelRow::new(format!("{} small kernels", small.len()), together, peak));
    rows
}

/// Milliseconds of a step with perfect and with no reuse.
fn total(rows: &[KernelRow]) -> [f64; 2] {
    [0, 1].map(|at| rows.iter().map(|row| row.times[at].0).sum())
}

/// Were states of the backward pass stored as products take them: `project_load` goes, and what it has read, the first product
/// of a stretch reads instead.
fn without_load(rows: &[KernelRow], peak: Peak) -> [f64; 2] {
    let is_load = |row: &&KernelRow| row.name.starts_with("project_load");
    let read: f64 = rows.iter().filter(is_load).map(|row| row.work.bytes.minimum).sum();
    let others = rows.iter().filter(|row| !is_load(row)).map(|row| {
        let mut work = row.work.clone();
        if work.kernel.starts_with("gemm S") {
            work.bytes.perfect_reuse += read;
        }
        KernelRow::new(row.name.clone(), work, peak)
    });
    total(&others.collect::<Vec<_>>())
}

/// Text and JSON.
pub fn output(peak: Peak) -> Result<(String, Value)> {
    let gpu = if peak.usual { "an RTX 4090" } else { "a GPU" };
    let mut text = format!(
        "Computed from sizes, not measured: least times of one training step on {gpu} with {} GB/s and {} TFLOP/s.\n\
         GB: least = each operand once; reuse = caches keep every gathered state; none = each gather goes to memory.\n\
         ms: the larger of bytes / bandwidth and flops / arithmetic, by both counts; launches themselves take none.\n",
        peak.bandwidth, peak.tflops
    );
    let mut datasets = Vec::new();
    for reference in &REFERENCES {
        datasets.push(dataset(&mut text, reference, peak)?);
    }
    let json = json!({
        "measured": false, "bandwidth_gb_per_s": peak.bandwidth, "tflops": peak.tflops, "datasets": datasets,
    });
    Ok((text, json))
}

fn space(problem: &Problem) -> &'static str {
    match problem.plan.space {
        Space::Features => "propagation of features",
        Space::Classes => "propagation of classes",
        Space::Table => "tables of walks",
    }
}

/// How a step is computed.
fn way(problem: &Problem) -> String {
    let monb = match problem.plan.monb {
        Monb::Direct => "every expert evaluated".to_string(),
        Monb::Knots => format!("experts by pieces ({} per feature)", problem.pieces),
    };
    format!("{monb}, {}", space(problem))
}

fn dataset(text: &mut String, reference: &ReferenceDataset, peak: Peak) -> Result<Value> {
    let config = reference.config()?;
    let problem = reference.problem(&config, States::F32)?;
    let rows_f32 = rows(&problem, peak);
    let half_problem = reference.problem(&config, States::F16)?;
    let half = total(&rows(&half_problem, peak));
    let direct = total(&rows(&Problem { plan: Plan::DIRECT, ..problem.clone() }, peak));
    let [reuse, none] = total(&rows_f32);
    let unloaded = without_load(&rows_f32, peak);
    let sum = Work {
        kernel: "",
        launches: rows_f32.iter().map(|row| row.work.launches).sum(),
        elements: 0.0,
        flops: rows_f32.iter().map(|row| row.work.flops).sum(),
        bytes: rows_f32.iter().map(|row| row.work.bytes).sum(),
    };
    let a = &problem.layout.architecture;
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\n{}: {} nodes, {} entries ({}), d {}, L {}\nT {}, C {}, m {}, B {}, hidden {:?}, {} parameters, {} targets per step\n\
         {}\n\
         {:<29}{:>5}{:>10}{:>10}{:>10}{:>11}{:>8}{:>10}{:>10}  bound by\n",
        reference.name,
        grouped(problem.nodes),
        grouped(problem.entries),
        reference.edges,
        a.features,
        a.outputs,
        a.hops,
        a.experts,
        a.active,
        a.bases,
        a.hidden,
        grouped(problem.layout.len()),
        grouped(problem.targets),
        way(&problem),
        "kernel",
        "runs",
        "GB least",
        "GB reuse",
        "GB none",
        "Gflop",
        "flop/B",
        "ms reuse",
        "ms none"
    );
    rows_f32.iter().for_each(|row| text.push_str(&row.text()));
    let _ = write!(
        text,
        "{:<29}{:>5}{:>10}{:>10}{:>10}{:>11}{:>8}{reuse:>10.3}{none:>10.3}\n{:<83}{:>10.3}{:>10.3}\n{:<83}{:>10.3}{:>10.3}\n\
         {:<83}{:>10.3}{:>10.3}\n",
        "step",
        sum.launches,
        giga(sum.bytes.minimum),
        giga(sum.bytes.perfect_reuse),
        giga(sum.bytes.no_reuse),
        giga(sum.flops),
        format!("{:.1}", sum.flops / sum.bytes.perfect_reuse),
        format!("step with states as f16, {}", space(&half_problem)),
        half[0],
        half[1],
        "step without project_load, were it fused into hops at no cost",
        unloaded[0],
        unloaded[1],
        "step with every expert evaluated, propagation of features",
        direct[0],
        direct[1],
    );
    Ok(json!({
        "dataset": reference.name, "nodes": problem.nodes, "entries": problem.entries, "features": a.features,
        "outputs": a.outputs, "targets": problem.targets, "parameters": problem.layout.len(),
        "kernels": rows_f32.iter().map(KernelRow::json).collect::<Vec<_>>(),
        "ms_perfect_reuse": reuse, "ms_no_reuse": none,
        "ms_perfect_reuse_f16_states": half[0], "ms_no_reuse_f16_states": half[1],
        "ms_perfect_reuse_without_load": unloaded[0], "ms_no_reuse_without_load": unloaded[1],
        "ms_perfect_reuse_direct": direct[0], "ms_no_reuse_direct": direct[1],
        "monb": problem.plan.monb, "class_space": problem.plan.space == Space::Classes, "pieces": problem.pieces,
    }))
}
