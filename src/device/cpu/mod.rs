//! The native CPU device: rayon over fixed chunks of work, SIMD chosen at run time, f32 or f64.
//!
//! Invariant: every sum is taken in an order that depends on sizes only, never on the number of threads, so the same
//! seed gives the same bits on any number of them.

mod adam;
mod bends;
pub(crate) mod chunks;
mod cosine;
mod element;
mod expert;
mod filter;
mod fourier;
pub(crate) mod gather;
pub(crate) mod hop_weights;
mod hops;
mod inputs;
mod knots;
mod loss;
mod monb;
mod noise;
mod ops;
mod pairs;
mod panels;
mod points;
mod pool;
mod project;
mod propagate;
mod readout;
mod route;
mod shared_walk;
mod shells;
mod table;
mod table_rows;
mod table_walks;
mod walk;

use super::ops::each_op;
use super::{
    AdamStep, Bends, BufferOf, Device, Dropout, HopsOf, InputsOf, Judgement, KnotsOf, MatrixOf, Posted, Responses,
    Routing, ScopeOf, VerdictOf,
};
use crate::architecture::{Layout, Routes, Spread};
use crate::batch::{Batch, Selection};
use crate::config::{Monb, States};
use crate::knots::Tables;
use crate::plan::{BatchSizes, Plan, Space};
use crate::real::Real;
use gather::Copies;
use half::{bf16, f16};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::Neighbourhood;
use harmonia_graph::seed::Stream;
use harmonia_graph::simd::instruction_set;
pub use hops::Hops;
pub use inputs::CpuInputs;
use inputs::InputFeatures;
pub use ops::Ops;
pub use panels::Panels;
use pool::Pool;
use std::convert::Infallible;

/// Rows a task handles at a time where results of tasks are combined.
const ROW_CHUNK: usize = 4096;
/// Part of the entries that may be looked through for who is near a scored row. A mini-batch of products has 17 % of them within
/// one step: looking through those would take a seventh of a hop, and find everybody.
pub const LOOKED_THROUGH: f64 = 0.125;

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
    parts: Copies,
}

/// Some rows of an array, and what they were when they were asked for.
#[derive(Debug)]
pub struct RowReader<T> {
    rows: Vec<u32>,
    width: usize,
    values: Vec<T>,
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

macro_rules! through_ops {
    ($($(#[$about:meta])* $op:ident: fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty
        = $module:ident::$function:ident;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> Result<$result> {
            T::$name(self, $($argument),*)
        })*
    };
}

impl<T: Ops> Device for Cpu<T> {
    type Real = T;
    type Buffer = Vec<T>;
    type Indices = Vec<u32>;
    type Matrix = Panels<T>;
    type Inputs = CpuInputs<T>;
    type Knots = Tables<T>;
    type Hops = Hops<T>;
    type Scope = Neighbourhood;
    /// Never made: batches are cut out where they are used.
    type Collection = Infallible;
    type Verdict = Posted;
    type RowReader = RowReader<T>;

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
        inputs.targets.clone_from(&batch.targets);
        inputs.weights.clone_from(&batch.weights);
        inputs.units = batch.counted();
        Ok(())
    }

    fn collection(&self, _: &Batch, _: Plan) -> Result<Option<Infallible>> {
        Ok(None)
    }

    fn select(&self, collection: &Infallible, _: &Selection) -> Result<CpuInputs<T>> {
        match *collection {}
    }

    fn retarget_to(&self, _: &mut CpuInputs<T>, collection: &Infallible, _: &[u32]) -> Result<()> {
        match *collection {}
    }

    fn scope(&self, batch: &Batch, rows: &[u32], hops: usize) -> Result<Option<Neighbourhood>> {
        Ok(batch.scope(rows, hops, LOOKED_THROUGH))
    }

    fn upload(&self, values: &[T]) -> Result<Vec<T>> {
        Ok(values.to_vec())
    }

    fn zeros(&self, length: usize) -> Result<Vec<T>> {
        Ok(vec![T::zero(); length])
    }

    fn indices(&self, length: usize) -> Result<Vec<u32>> {
        Ok(vec![0; length])
    }

    fn matrix(&self, nodes: usize, features: usize) -> Result<Panels<T>> {
        Ok(Panels::zeros(nodes, features))
    }

    fn row_matrix(&self, rows: usize, features: usize) -> Result<Panels<T>> {
        Ok(Panels::zeroed_rows(rows, features))
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

    fn expect_values(&self, tables: &mut Tables<T>, inputs: &CpuInputs<T>, scale: Option<f64>, layout: &Layout) {
        let a = &layout.architecture;
        // Other values may be looked up than those of a part of a batch.
        let alone = a.routes() == Routes::Own && !inputs.is_part;
        tables.points = alone.then(|| inputs.few_values(a.features / a.experts, scale.map(T::from_f64)));
    }

    /// Tables grow as they are compiled.
    fn make_room(&self, _: &mut Tables<T>, _: usize, _: &Layout) -> Result<()> {
        Ok(())
    }

    fn verdict(&self) -> Result<Posted> {
        Ok(Posted::default())
    }

    fn post(&self, verdict: &mut Posted) -> Result<()> {
        verdict.post();
        Ok(())
    }

    fn collect(&self, verdict: &mut Posted) -> Result<Judgement> {
        verdict.collect().ok_or_else(|| Error::Device("no step is under way".into()))
    }

    fn resume(&self, verdict: &mut Posted) -> Result<()> {
        verdict.now = Judgement::default();
        Ok(())
    }

    fn hops(&self, inputs: &CpuInputs<T>, layout: &Layout) -> Result<Hops<T>> {
        Ok(Hops::new(inputs.nodes, layout.architecture.hops, layout.architecture.outputs, self.states))
    }

    fn write(&self, buffer: &mut Vec<T>, values: &[T]) -> Result<()> {
        buffer.copy_from_slice(values);
        Ok(())
    }

    fn write_rows(&self, buffer: &mut Vec<T>, rows: &[u32], width: usize, values: &[T]) -> Result<()> {
        for (&row, values) in rows.iter().zip(values.chunks_exact(width.max(1))) {
            buffer[row as usize * width..][..width].copy_from_slice(values);
        }
        Ok(())
    }

    fn read(&self, values: &mut [T], buffer: &Vec<T>) -> Result<()> {
        values.copy_from_slice(buffer);
        Ok(())
    }

    fn keep(&self, kept: &mut Vec<T>, values: &Vec<T>) -> Result<()> {
        kept.copy_from_slice(values);
        Ok(())
    }

    fn keep_signs(&self, values: &mut Vec<T>, signs: &Vec<T>) -> Result<()> {
        let wrong = values.iter_mut().zip(signs).filter(|(value, sign)| **value * **sign < T::zero());
        wrong.for_each(|(value, _)| *value = T::zero());
        Ok(())
    }

    fn bend(
        &self,
        bends: &mut Bends<Self>,
        responses: &mut Panels<T>,
        gradient: &mut Vec<T>,
        hop_weights: &Vec<T>,
        parameters: &Vec<T>,
        layout: &Layout,
    ) -> Result<()> {
        bends::bend(bends, responses, gradient, hop_weights, parameters, layout);
        Ok(())
    }

    fn upload_matrix(&self, values: &[T], features: usize) -> Result<Panels<T>> {
        Ok(Panels::from_row_major(values, features))
    }

    fn download(&self, buffer: &Vec<T>) -> Result<Vec<T>> {
        Ok(buffer.clone())
    }

    fn row_reader(&self, rows: &[u32], width: usize) -> Result<RowReader<T>> {
        Ok(RowReader { rows: rows.to_vec(), width, values: Vec::new() })
    }

    fn send_rows(&self, reader: &mut RowReader<T>, buffer: &Vec<T>) -> Result<()> {
        let RowReader { rows, width, values } = reader;
        values.clear();
        // All at once: a vector that grows would take twice as much.
        values.reserve_exact(rows.len() * *width);
        values.extend(rows.iter().flat_map(|&row| &buffer[row as usize * *width..][..*width]));
        Ok(())
    }

    fn receive_rows(&self, values: &mut Vec<T>, reader: &mut RowReader<T>) -> Result<()> {
        std::mem::swap(values, &mut reader.values);
        Ok(())
    }

    fn download_matrix(&self, matrix: &Panels<T>) -> Result<Vec<T>> {
        Ok(matrix.to_row_major())
    }

    fn scratch_bytes(&self, batch: &BatchSizes, layout: &Layout, plan: Plan) -> usize {
        let a = &layout.architecture;
        let space = match plan.space {
            Space::Features => propagate::scratch_bytes::<T>(batch.nodes, a.features, a.hops, self.states),
            Space::Classes => {
                project::scratch_bytes::<T>(batch.nodes, layout) + pairs::scratch_bytes::<T>(batch.nodes, layout)
            }
            Space::Table => 0,
        };
        // Sparse responses are summed up feature by feature, in place.
        let pieces = match plan.monb {
            Monb::Knots if !plan.sparse => knots::scratch_bytes::<T>(batch.nodes, layout),
            _ => 0,
        };
        let shells = if a.spread() == Spread::Shells {
            batch.nodes.saturating_mul(4 * batch.nodes).min(shells::kept_bytes())
        } else {
            0
        };
        space + pieces + shells + Copies::planned_bytes(batch)
    }

    each_op!(through_ops, Self);
}
