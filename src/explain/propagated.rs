//! The logit that terms are held against: by propagation, not from the terms.

use super::local::Case;
use crate::batch::{Batch, Reach};
use crate::config::Monb;
use crate::device::Device;
use crate::device::cpu::Cpu;
use crate::loss::Targets;
use crate::model::Resident;
use crate::plan::{Plan, Space, Streamed};
use harmonia_graph::dataset::{Features, Level};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Transition, Walk};
use rayon::prelude::*;
use std::sync::Arc;

/// Features of a neighbourhood up to which the engine computes the logit.
const ENGINE_VALUES: usize = 1 << 24;
/// Outputs pulled together.
const PULLED: usize = 8;

impl Case<'_> {
    /// Logits of some outputs by propagation, which the terms are held against: the engine's, or where it takes no part or
    /// the neighbourhood is so large that its pass would take longer than the explanation, hop by hop in f64.
    ///
    /// # Errors
    /// The engine failed.
    pub fn propagated_logits(&self, outputs: &[usize]) -> Result<Vec<f64>> {
        let small = self.ball.nodes.len().saturating_mul(self.factors.features()) <= ENGINE_VALUES;
        match self.engine.is_some() && small {
            true => self.engine_logits(outputs),
            false => Ok(self.pulled_logits(outputs)),
        }
    }

    /// `beta + sum_t sum_j r_t[j] G_t[j]` as the structure propagates it, see [`super::Sources::pull`];
    /// `G_t[j] = sum_k w[k] theta[t,k] f_k(x[j,k])`. A few outputs at a time: they are kept for every node.
    pub fn pulled_logits(&self, outputs: &[usize]) -> Vec<f64> {
        outputs.chunks(PULLED).flat_map(|outputs| self.pulled(outputs)).collect()
    }

    fn pulled(&self, outputs: &[usize]) -> Vec<f64> {
        let mut projected = self.pass(0..self.ball.inner(), outputs).projected;
        projected[self.factors.hops() - 1].extend(self.rim_projection(outputs));
        let sums = self.sources.pull(&self.ball, projected, outputs.len());
        outputs.iter().zip(sums).map(|(&output, sum)| self.factors.bias[output] + sum).collect()
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
            None => self.pass(self.ball.inner()..self.ball.nodes.len(), outputs).projected.swap_remove(longest),
        }
    }

    /// The engine's logits of some outputs: forward propagation in f32 over the neighbourhood.
    ///
    /// # Errors
    /// The engine failed, or does not have this model.
    pub fn engine_logits(&self, outputs: &[usize]) -> Result<Vec<f64>> {
        let (Some(model), Some(graph)) = (self.engine, self.sources.graph(&self.ball)?) else {
            return Err(Error::Data("the engine does not compute this model: its logits are pulled".into()));
        };
        let model = model.with_outputs(outputs)?;
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
            weights: None,
            units: Vec::new(),
            streamed: Streamed::NOTHING,
            part: None,
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
