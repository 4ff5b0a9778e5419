//! Exact outputs of nodes of a large graph, in little memory: responses are never held, states a few classes at a time.
//!
//! With G_t = F (theta_t (*) Wo), logits = beta + G_0 + M (G_1 + M (G_2 + ...)): for a panel of classes one state is carried from
//! the longest walk inwards, and G_t of a stretch of rows is computed where it is added, from responses of these rows. Two states of
//! n x panel floats are all that grows with the graph, whatever T, d and L are; responses are evaluated T times for every panel.
//! The last step is taken at the rows that are asked for alone. Deterministic: rows are summed in their order, stretches depend on sizes only.

use crate::architecture::Layout;
use crate::config::States;
use crate::device::cpu::{Cpu, chunks, gather};
use crate::device::gemm::{View, gemm};
use crate::device::{Device, Routing};
use crate::knots::Tables;
use harmonia_graph::dataset::{Dataset, Features, Level};
use harmonia_graph::error::Result;
use harmonia_graph::graph::Transition;
use harmonia_graph::memory;
use harmonia_graph::simd::simd;
use rayon::prelude::*;
use std::ops::Range;

/// Rows whose responses are evaluated together.
const TILE: usize = 64;

/// How outputs are computed where a pass over the whole graph would hold too much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PanelPlan {
    /// Classes of a panel.
    pub classes: usize,
}

impl PanelPlan {
    /// How a device scores nodes that are not in its memory already: in panels where it works in the host's and a whole pass would take too
    /// much of the limit on memory, or of what the machine has.
    pub fn of<D: Device>(device: &D, dataset: &Dataset, layout: &Layout, states: States) -> Option<PanelPlan> {
        let bytes = memory::allowed()?;
        let own = device.copies() || dataset.level != Level::Node;
        (!own).then(|| PanelPlan::within(bytes, dataset.graph.nodes(), layout, states.bytes())).flatten()
    }

    /// None where a whole pass, which holds F and the states of all hops, is within half of the bytes that there are; else as many
    /// classes as a quarter of them has room for.
    pub fn within(bytes: usize, nodes: usize, layout: &Layout, state_bytes: usize) -> Option<PanelPlan> {
        let a = &layout.architecture;
        let whole = nodes * (a.features * size_of::<f32>() + a.hops * a.outputs.next_multiple_of(8) * state_bytes);
        let most = (bytes / 4 / (2 * nodes * size_of::<f32>()).max(1)).clamp(1, gather::MOST_COLUMNS);
        // Panels of equal width: a narrow one costs nearly as much as a wide one.
        let panels = a.outputs.div_ceil(most);
        (whole > bytes / 2).then(|| PanelPlan { classes: a.outputs.div_ceil(panels.max(1)).max(1) })
    }

    /// Bytes of the states, which grow with the nodes.
    pub fn state_bytes(self, nodes: usize, hops: usize) -> usize {
        hops.saturating_sub(1).min(2) * nodes * self.classes * size_of::<f32>()
    }

    /// Bytes of what else there is: inverse degrees and weights, and per thread responses of a stretch of rows.
    pub fn work_bytes(self, nodes: usize, features: usize) -> usize {
        let stretch = features * (1 + TILE) + TILE * self.classes;
        size_of::<f32>() * (nodes + features * self.classes + rayon::current_num_threads() * stretch)
    }
}

/// The model without noise, ready to be evaluated.
struct Evaluated<'a> {
    layout: &'a Layout,
    parameters: &'a [f32],
    /// T x d.
    hop_weights: Vec<f32>,
    tables: Tables<f32>,
}

impl<'a> Evaluated<'a> {
    fn new(layout: &'a Layout, parameters: &'a [f32]) -> Result<Self> {
        let (device, a) = (Cpu::<f32>::new(), &layout.architecture);
        let slots = a.features * a.active;
        let mut routing =
            Routing { experts: device.indices(slots)?, gates: device.zeros(slots)?, noise_scale: device.zeros(slots)? };
        let mut hop_weights = device.zeros(a.hops * a.features)?;
        let mut tables = device.knots(layout)?;
        let basis: Option<Vec<f32>> =
            layout.hop_basis.as_ref().map(|basis| basis.iter().map(|&value| value as f32).collect());
        let parameters_held = device.upload(parameters)?;
        device.route_forward(&mut routing, &parameters_held, None, layout)?;
        device.hop_weights_forward(&mut hop_weights, &parameters_held, basis.as_ref(), layout)?;
        tables.compile(&routing.experts, &routing.gates, parameters, layout);
        Ok(Evaluated { layout, parameters, hop_weights, tables })
    }

    /// theta_t (*) Wo of some classes: d x panel.
    fn weights(&self, t: usize, classes: Range<usize>) -> Vec<f32> {
        let (d, outputs) = (self.layout.architecture.features, self.layout.architecture.outputs);
        let readout = &self.parameters[self.layout.readout_weight.clone()];
        let theta = &self.hop_weights[t * d..][..d];
        let row = |k: usize| readout[k * outputs..][classes.clone()].iter().map(move |weight| theta[k] * weight);
        (0..d).flat_map(row).collect()
    }

    /// Adds F of some nodes times weights (d x panel) to `out`, nodes x panel.
    fn add_projected(&self, out: &mut [f32], x: &Features, mut nodes: impl Iterator<Item = usize>, weights: &[f32]) {
        let d = self.layout.architecture.features;
        let panel = weights.len() / d.max(1);
        let (mut row, mut columns) = (vec![0f32; d], vec![0f32; d * TILE]);
        for out in out.chunks_mut(TILE * panel) {
            let count = out.len() / panel;
            for r in 0..count {
                let Some(node) = nodes.next() else { break };
                x.fill_row(node, &mut row);
                (0..d).for_each(|k| columns[k * TILE + r] = row[k]);
            }
            simd(
                #[inline(always)]
                || {
                    for (k, x) in columns.as_chunks_mut::<TILE>().0.iter_mut().enumerate() {
                        let (combination, lines) = self.tables.feature(k);
                        let pieces = combination.pieces_of(x);
                        for r in 0..TILE {
                            let [slope, intercept] = lines[pieces[r] as usize];
                            x[r] = slope * x[r] + intercept;
                        }
                    }
                },
            );
            // d x TILE, of which `count` columns are nodes.
            let responses = View::new(&columns, d, TILE).columns(0, count).transposed();
            gemm(out, responses, View::new(weights, d, panel), true);
        }
    }
}

/// Outputs of some nodes, nodes x L.
///
/// # Errors
/// Memory ran out.
pub fn logits(
    layout: &Layout,
    parameters: &[f32],
    x: &Features,
    transition: &Transition,
    units: &[u32],
    plan: PanelPlan,
) -> Result<Vec<f32>> {
    let (a, model) = (&layout.architecture, Evaluated::new(layout, parameters)?);
    let bias = &parameters[layout.readout_bias.clone()];
    let mut logits: Vec<f32> = units.iter().flat_map(|_| bias.iter().copied()).collect();
    let (nodes, csr) = (transition.nodes(), transition.matrix());
    let inverse: Vec<f32> = transition.degree().iter().map(|&degree| (1.0 / degree) as f32).collect();
    let bounds = chunks::balanced(&csr.row_ptr, chunks::WALK_ENTRIES);
    let (copies, whole) = (&gather::Copies::default(), gather::Part::default());
    for first in (0..a.outputs).step_by(plan.classes) {
        let classes = first..(first + plan.classes).min(a.outputs);
        let w = classes.len();
        let step = |from: &[f32], rows: Range<usize>, to: &mut [f32]| {
            let start = rows.start;
            simd(
                #[inline(always)]
                || {
                    gather::rows::<f32, f32>(copies, from, w, csr, whole, rows, |i, at, sums| {
                        let to = &mut to[(i - start) * w + at..][..sums.len()];
                        to.iter_mut().zip(sums).for_each(|(to, &sum)| *to += sum * inverse[i]);
                    });
                },
            );
        };
        let inner = if a.hops > 1 { nodes * w } else { 0 };
        let (mut state, mut next) = (vec![0f32; inner], vec![0f32; if a.hops > 2 { inner } else { 0 }]);
        for t in (1..a.hops).rev() {
            let weights = model.weights(t, classes.clone());
            if t + 1 == a.hops {
                chunks::each(&bounds, w, &mut state, &|rows, part| {
                    model.add_projected(part, x, rows, &weights);
                });
                continue;
            }
            chunks::each(&bounds, w, &mut next, &|rows, part| {
                part.fill(0.0);
                model.add_projected(part, x, rows.clone(), &weights);
                step(&state, rows, part);
            });
            std::mem::swap(&mut state, &mut next);
        }
        let weights = model.weights(0, classes.clone());
        let rows = logits.par_chunks_mut(TILE * a.outputs).zip(units.par_chunks(TILE));
        rows.for_each(|(logits, units)| {
            let mut own = vec![0f32; units.len() * w];
            model.add_projected(&mut own, x, units.iter().map(|&unit| unit as usize), &weights);
            for ((logits, own), &unit) in logits.chunks_exact_mut(a.outputs).zip(own.chunks_exact_mut(w)).zip(units) {
                if a.hops > 1 {
                    step(&state, unit as usize..unit as usize + 1, own);
                }
                logits[classes.clone()].iter_mut().zip(own).for_each(|(to, value)| *to += *value);
            }
        });
    }
    Ok(logits)
}
