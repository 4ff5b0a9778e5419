//! The logit that terms are held against: by propagation, not from the terms.

use super::local::Case;
use crate::batch::{Batch, Reach};
use crate::config::Monb;
use crate::device::Device;
use crate::device::cpu::Cpu;
use crate::loss::Targets;
use crate::model::Resident;
use crate::plan::{Plan, Space};
use harmonia_graph::dataset::{Features, Level};
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Transition, Walk};
use rayon::prelude::*;
use std::sync::Arc;

/// Features of a neighbourhood up to which the engine computes the logit.
const ENGINE_VALUES: usize = 1 << 24;
/// Outputs pulled together.
const PULLED: usize = 8;

impl Case<'_> {
    /// Logits of some outputs by propagation, which the terms are held against: the engine's, or where the neighbourhood is
    /// so large that its pass would take longer than the explanation, hop by hop in f64.
    ///
    /// # Errors
    /// The engine failed.
    pub fn propagated_logits(&self, outputs: &[usize]) -> Result<Vec<f64>> {
        match self.ball.nodes.len().saturating_mul(self.factors.features()) <= ENGINE_VALUES {
            true => self.engine_logits(outputs),
            false => Ok(self.pulled_logits(outputs)),
        }
    }

    /// beta + G_0 + M (G_1 + M (G_2 + ...)), from the rim inwards; `G_t[j] = sum_k w[k] theta[t,k] f_k(x[j,k])`. A few
    /// outputs at a time: they are kept for every node.
    pub fn pulled_logits(&self, outputs: &[usize]) -> Vec<f64> {
        outputs.chunks(PULLED).flat_map(|outputs| self.pulled(outputs)).collect()
    }

    fn pulled(&self, outputs: &[usize]) -> Vec<f64> {
        let (width, hops, inner) = (outputs.len(), self.factors.hops(), self.inner());
        let near = self.pass(0..inner, outputs).projected;
        let mut state = near[hops - 1].clone();
        state.extend(self.rim_projection(outputs));
        // Of every node of the graph; of those the walks do not see, nothing is read.
        let mut spread = vec![0.0; self.steps.nodes() * width];
        for t in (0..hops - 1).rev() {
            for (&node, values) in self.ball.nodes.iter().zip(state.chunks_exact(width)) {
                spread[node as usize * width..][..width].copy_from_slice(values);
            }
            state = self.steps.pull(&self.ball.nodes[..self.ball.weights[t].len()], &spread, width);
            state.iter_mut().zip(&near[t]).for_each(|(value, g)| *value += g);
        }
        let starts = self.mass as usize;
        let sum = |at: usize| state.iter().skip(at).step_by(width).take(starts).sum::<f64>();
        outputs.iter().enumerate().map(|(at, &output)| self.factors.bias[output] + sum(at)).collect()
    }

    /// G_{T-1} of the rim: known where the outputs were guessed, looked up again otherwise.
    fn rim_projection(&self, outputs: &[usize]) -> Vec<f64> {
        let longest = self.factors.hops() - 1;
        let place = |output: &usize| self.rim.outputs.iter().position(|known| known == output);
        match outputs.iter().map(place).collect::<Option<Vec<usize>>>() {
            Some(columns) => {
                let rows = self.rim.projected[longest].chunks_exact(self.rim.outputs.len());
                rows.flat_map(|row| columns.iter().map(|&column| row[column])).collect()
            }
            None => self.pass(self.inner()..self.ball.nodes.len(), outputs).projected.swap_remove(longest),
        }
    }

    /// The engine's logits of some outputs: forward propagation in f32 over the neighbourhood.
    ///
    /// # Errors
    /// The engine failed.
    pub fn engine_logits(&self, outputs: &[usize]) -> Result<Vec<f64>> {
        let model = self.model.with_outputs(outputs)?;
        let graph = self.ball.graph(&self.steps)?;
        let (nodes, d) = (self.ball.nodes.len(), self.factors.features());
        let mut x = vec![0f32; nodes * d];
        let rows = x.par_chunks_mut(d).enumerate();
        rows.for_each_init(Vec::new, |scratch, (at, row)| row.copy_from_slice(self.row(at, scratch)));
        let batch = Batch {
            features: Arc::new(Features::new(nodes, d, x)?),
            reach: Reach::Walk(Arc::new(Transition::new(&graph, Walk::default()))),
            // Of a graph, all nodes count; of a node, it comes first.
            graph_ptr: vec![0, nodes],
            level: self.dataset.level,
            objective: model.objective,
            outputs: outputs.len(),
            targets: Targets::Codes(Vec::new()),
            units: Vec::new(),
        };
        // One or two columns walk; sums over graphs that walk at all are the business of feature space.
        let space = if self.dataset.level == Level::Graph { Space::Features } else { Space::Classes };
        let plan = Plan { monb: Monb::Knots, space, sparse: false };
        let device = Cpu::<f32>::new();
        let mut resident = Resident::new(&device, &model.layout, plan, batch)?;
        let logits = resident.logits(&device.upload(&model.parameters)?)?;
        Ok(logits[..outputs.len()].iter().map(|&logit| f64::from(logit)).collect())
    }
}
