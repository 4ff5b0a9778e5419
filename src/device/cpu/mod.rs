//! The native CPU device: rayon over fixed chunks of work, SIMD chosen at run time, f32 or f64.
//!
//! Invariant: every sum is taken in an order that depends on sizes only, never on the number of threads, so the same
//! seed gives the same bits on any number of them.

mod adam;
mod chunks;
mod element;
mod expert;
mod gather;
pub(crate) mod hop_weights;
mod hops;
mod inputs;
mod knots;
mod loss;
mod monb;
mod ops;
mod panels;
mod points;
mod pool;
mod project;
mod propagate;
mod readout;
pub(crate) mod request;
mod route;
mod walk;

use super::{AdamStep, Device, Dropout, Real, Responses, Routing};
use crate::batch::Batch;
use crate::config::States;
use crate::error::Result;
use crate::knots::Tables;
use crate::model::{BatchSizes, Layout, Plan, Space};
use half::{bf16, f16};
pub use hops::Hops;
pub use inputs::CpuInputs;
use inputs::InputFeatures;
pub use ops::Ops;
pub use panels::Panels;
use pool::Pool;

/// Rows a task handles at a time where results of tasks are combined.
const ROW_CHUNK: usize = 4096;

/// The native device: memory is ordinary memory, threads are the current rayon pool's. It keeps the working memory of its
/// ops, so that only the first step allocates.
#[derive(Debug, Default)]
pub struct Cpu<T> {
    states: States,
    reals: Pool<T>,
    sums: Pool<f64>,
    pairs: Pool<[f64; 2]>,
    copies: Pool<[[f64; 2]; knots::COPIES]>,
    places: Pool<usize>,
    words: Pool<u32>,
    halves: Pool<f16>,
    bfloats: Pool<bf16>,
}

impl<T: Real> Cpu<T> {
    /// The device.
    pub fn new() -> Self {
        Cpu::default()
    }

    /// One that stores propagated states as `states`.
    pub fn with_states(states: States) -> Self {
        Cpu { states, ..Cpu::default() }
    }
}

/// Runs `work` compiled for the best instruction set this processor has.
#[inline(always)]
pub(crate) fn simd<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

fn sigmoid<T: Real>(x: T) -> T {
    // Both branches keep the exponent negative, so nothing overflows.
    if x >= T::zero() {
        T::one() / (T::one() + (-x).exp())
    } else {
        let e = x.exp();
        e / (T::one() + e)
    }
}

impl<T: Real> Device for Cpu<T> {
    type Real = T;
    type Buffer = Vec<T>;
    type Indices = Vec<u32>;
    type Matrix = Panels<T>;
    type Inputs = CpuInputs<T>;
    type Knots = Tables<T>;
    type Hops = Hops<T>;

    fn name(&self) -> String {
        let threads = rayon::current_num_threads();
        format!("cpu ({threads} thread{}, SIMD {})", if threads == 1 { "" } else { "s" }, instruction_set())
    }

    fn copies(&self) -> bool {
        false
    }

    fn free_bytes(&self) -> Result<Option<usize>> {
        Ok(None)
    }

    fn inputs(&self, batch: &Batch, plan: Plan) -> Result<CpuInputs<T>> {
        if let Some(transition) = batch.transition() {
            self.states.check(transition.is_symmetric())?;
        }
        CpuInputs::new(batch, plan)
    }

    fn retarget(&self, inputs: &mut CpuInputs<T>, batch: &Batch) -> Result<()> {
        inputs.codes.clone_from(&batch.codes);
        inputs.targets = batch.targets.len();
        Ok(())
    }

    fn upload(&self, values: &[T]) -> Result<Vec<T>> {
        Ok(values.to_vec())
    }

    fn zeros(&self, length: usize) -> Result<Vec<T>> {
        Ok(vec![T::zero(); length])
    }

    fn clear(&self, buffer: &mut Vec<T>) -> Result<()> {
        buffer.fill(T::zero());
        Ok(())
    }

    fn indices(&self, length: usize) -> Result<Vec<u32>> {
        Ok(vec![0; length])
    }

    fn matrix(&self, nodes: usize, features: usize) -> Result<Panels<T>> {
        Ok(Panels::zeros(nodes, features))
    }

    fn responses(&self, inputs: &CpuInputs<T>, layout: &Layout, rows: bool) -> Result<Responses<Self>> {
        let d = layout.architecture.features;
        Ok(match &inputs.features {
            InputFeatures::Sparse(x) => Responses::Sparse(vec![T::zero(); d + x.values.len()]),
            _ if rows => Responses::Dense(Panels::zeroed_rows(inputs.nodes, d)),
            _ => Responses::Dense(Panels::zeros(inputs.nodes, d)),
        })
    }

    fn knots(&self, _: &Layout) -> Result<Tables<T>> {
        Ok(Tables::default())
    }

    fn hops(&self, inputs: &CpuInputs<T>, layout: &Layout) -> Result<Hops<T>> {
        Ok(Hops::new(inputs.nodes, layout.architecture.hops, layout.architecture.outputs, self.states))
    }

    fn write(&self, buffer: &mut Vec<T>, values: &[T]) -> Result<()> {
        buffer.copy_from_slice(values);
        Ok(())
    }

    fn read(&self, values: &mut [T], buffer: &Vec<T>) -> Result<()> {
        values.copy_from_slice(buffer);
        Ok(())
    }

    fn upload_matrix(&self, values: &[T], features: usize) -> Result<Panels<T>> {
        Ok(Panels::from_row_major(values, features))
    }

    fn download(&self, buffer: &Vec<T>) -> Result<Vec<T>> {
        Ok(buffer.clone())
    }

    fn read_rows(&self, values: &mut Vec<T>, buffer: &Vec<T>, width: usize, rows: &[u32]) -> Result<()> {
        values.clear();
        values.extend(rows.iter().flat_map(|&row| &buffer[row as usize * width..][..width]));
        Ok(())
    }

    fn download_matrix(&self, matrix: &Panels<T>) -> Result<Vec<T>> {
        Ok(matrix.to_row_major())
    }

    fn scratch_bytes(&self, batch: &BatchSizes, layout: &Layout, plan: Plan) -> usize {
        let a = &layout.architecture;
        match plan.space {
            Space::Features => propagate::scratch_bytes::<T>(batch.nodes, a.features, a.hops, self.states),
            Space::Classes => project::scratch_bytes::<T>(batch.nodes, layout),
        }
    }

    fn route_forward(
        &self,
        routing: &mut Routing<Self>,
        parameters: &Vec<T>,
        noise: Option<&Vec<T>>,
        layout: &Layout,
    ) -> Result<()> {
        T::route_forward(self, routing, parameters, noise.map(Vec::as_slice), layout);
        Ok(())
    }

    fn route_backward(
        &self,
        gradient: &mut Vec<T>,
        d_gates: &Vec<T>,
        routing: &Routing<Self>,
        parameters: &Vec<T>,
        noise: Option<&Vec<T>>,
        layout: &Layout,
    ) -> Result<()> {
        T::route_backward(gradient, d_gates, routing, parameters, noise.map(Vec::as_slice), layout);
        Ok(())
    }

    fn hop_weights_forward(&self, hop_weights: &mut Vec<T>, parameters: &Vec<T>, layout: &Layout) -> Result<()> {
        hop_weights::forward(hop_weights, &parameters[layout.hop_logits.clone()], &layout.architecture);
        Ok(())
    }

    fn hop_weights_backward(
        &self,
        gradient: &mut Vec<T>,
        d_hop_weights: &Vec<T>,
        hop_weights: &Vec<T>,
        parameters: &Vec<T>,
        layout: &Layout,
    ) -> Result<()> {
        let range = layout.hop_logits.clone();
        let d_logits = &mut gradient[range.clone()];
        hop_weights::backward(d_logits, d_hop_weights, hop_weights, &parameters[range], &layout.architecture);
        Ok(())
    }

    fn monb_forward(
        &self,
        responses: &mut Responses<Self>,
        inputs: &CpuInputs<T>,
        routing: &Routing<Self>,
        parameters: &Vec<T>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        T::monb_forward(responses, inputs, routing, parameters, dropout, layout);
        Ok(())
    }

    fn monb_backward(
        &self,
        gradient: &mut Vec<T>,
        d_gates: &mut Vec<T>,
        d_responses: &Responses<Self>,
        inputs: &CpuInputs<T>,
        routing: &Routing<Self>,
        parameters: &Vec<T>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        T::monb_backward(gradient, d_gates, d_responses, inputs, routing, parameters, dropout, layout);
        Ok(())
    }

    fn knots_compile(
        &self,
        knots: &mut Tables<T>,
        routing: &Routing<Self>,
        parameters: &Vec<T>,
        layout: &Layout,
    ) -> Result<()> {
        T::knots_compile(knots, &routing.experts, &routing.gates, parameters, layout);
        Ok(())
    }

    fn knots_forward(
        &self,
        responses: &mut Responses<Self>,
        knots: &Tables<T>,
        inputs: &CpuInputs<T>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        T::knots_forward(self, responses, knots, inputs, dropout, layout);
        Ok(())
    }

    fn knots_backward(
        &self,
        gradient: &mut Vec<T>,
        d_gates: &mut Vec<T>,
        d_responses: &Responses<Self>,
        knots: &mut Tables<T>,
        inputs: &CpuInputs<T>,
        routing: &Routing<Self>,
        parameters: &Vec<T>,
        dropout: Option<&Dropout>,
        layout: &Layout,
    ) -> Result<()> {
        T::knots_backward(self, gradient, d_gates, d_responses, knots, inputs, routing, parameters, dropout, layout);
        Ok(())
    }

    fn project_forward(
        &self,
        hops: &mut Hops<T>,
        responses: &Responses<Self>,
        hop_weights: &Vec<T>,
        parameters: &Vec<T>,
        inputs: &CpuInputs<T>,
        layout: &Layout,
    ) -> Result<()> {
        T::project_forward(self, hops, responses, hop_weights, parameters, inputs, layout)
    }

    fn project_backward(
        &self,
        gradient: &mut Vec<T>,
        d_hop_weights: &mut Vec<T>,
        responses: &mut Responses<Self>,
        hops: &mut Hops<T>,
        hop_weights: &Vec<T>,
        parameters: &Vec<T>,
        inputs: &CpuInputs<T>,
        layout: &Layout,
    ) -> Result<()> {
        T::project_backward(self, gradient, d_hop_weights, responses, hops, hop_weights, parameters, inputs, layout)
    }

    fn walk_forward(
        &self,
        logits: &mut Vec<T>,
        hops: &mut Hops<T>,
        parameters: &Vec<T>,
        inputs: &CpuInputs<T>,
        layout: &Layout,
    ) -> Result<()> {
        T::walk_forward(logits, hops, parameters, inputs, layout);
        Ok(())
    }

    fn walk_backward(
        &self,
        gradient: &mut Vec<T>,
        hops: &mut Hops<T>,
        d_logits: &Vec<T>,
        inputs: &CpuInputs<T>,
        layout: &Layout,
    ) -> Result<()> {
        T::walk_backward(self, gradient, hops, d_logits, inputs, layout);
        Ok(())
    }

    fn propagate_forward(
        &self,
        state: &mut Panels<T>,
        responses: &Panels<T>,
        hop_weights: &Vec<T>,
        inputs: &CpuInputs<T>,
    ) -> Result<()> {
        T::propagate_forward(self, state, responses, hop_weights, inputs)
    }

    fn propagate_backward(
        &self,
        gradient: &mut Panels<T>,
        d_hop_weights: &mut Vec<T>,
        responses: &Panels<T>,
        hop_weights: &Vec<T>,
        inputs: &CpuInputs<T>,
    ) -> Result<()> {
        T::propagate_backward(self, gradient, d_hop_weights, responses, hop_weights, inputs)
    }

    fn readout_forward(
        &self,
        logits: &mut Vec<T>,
        state: &Panels<T>,
        parameters: &Vec<T>,
        inputs: &CpuInputs<T>,
        layout: &Layout,
    ) -> Result<()> {
        T::readout_forward(logits, state, parameters, inputs, layout);
        Ok(())
    }

    fn readout_backward(
        &self,
        gradient: &mut Vec<T>,
        state: &mut Panels<T>,
        d_logits: &Vec<T>,
        parameters: &Vec<T>,
        inputs: &CpuInputs<T>,
        layout: &Layout,
    ) -> Result<()> {
        T::readout_backward(gradient, state, d_logits, parameters, inputs, layout);
        Ok(())
    }

    fn loss(&self, d_logits: &mut Vec<T>, logits: &Vec<T>, inputs: &CpuInputs<T>) -> Result<f64> {
        Ok(T::loss(d_logits, logits, inputs))
    }

    fn norm(&self, buffer: &Vec<T>) -> Result<f64> {
        Ok(adam::norm(buffer))
    }

    fn adam(
        &self,
        parameters: &mut Vec<T>,
        first_moment: &mut Vec<T>,
        second_moment: &mut Vec<T>,
        gradient: &Vec<T>,
        step: AdamStep,
    ) -> Result<()> {
        T::adam_step(parameters, first_moment, second_moment, gradient, step);
        Ok(())
    }
}

fn instruction_set() -> String {
    format!("{:?}", pulp::Arch::new()).split(['(', ' ']).next().unwrap_or("scalar").to_lowercase()
}
