//! Launches of `kernels/compile.cu` and `kernels/differentiate.cu`: experts to pieces, and gradients from sums over pieces, all on the device.
//!
//! How many pieces an expert has is known to the device alone, so there is room for some number of them, and a verdict says
//! whether that was enough. The first compilation is looked at at once and has room made for it; from then on whoever
//! reads the verdict answers for it (`Device::make_room`). Results do not depend on how much room there is.

use super::knots::warps;
use super::verdict::DeviceVerdict;
use super::{Buffer, Driver, Grid, Launcher, abi, stretches};
use crate::architecture::{Architecture, Layout};
use crate::device::Routing;
use crate::knots::{most_pieces, planned_room};
use harmonia_graph::error::Result;

/// Threads of the blocks that compile an expert.
pub(super) const THREADS: u32 = 128;
/// Features whose gradients of lines are added up one after the other, at least; and stretches of them, at most.
const STRETCH: u64 = 64;
const STRETCHES: u64 = 32;

/// Compiled experts on the device.
pub struct DeviceKnots<V: Driver> {
    /// Pieces of an expert there is room for.
    pub(super) room: usize,
    /// Pieces of a feature there is room for.
    pub(super) stride: usize,
    /// Whether a compilation was seen to fit.
    seen: bool,
    pub(super) thresholds: Buffer<V, f32>,
    pub(super) threshold_count: Buffer<V, u32>,
    pub(super) piece_count: Buffer<V, u32>,
    pub(super) lines: Buffer<V, f32>,
    pub(super) sums: Buffer<V, f32>,
    /// Sums of chunks, from panel to panel of X.
    pub(super) carried: Option<Buffer<V, f32>>,
    folded: Buffer<V, f32>,
    experts: ExpertTables<V>,
}

/// What `abi::Compiled` points to.
struct ExpertTables<V: Driver> {
    thresholds: Buffer<V, f32>,
    slopes: Buffer<V, f64>,
    intercepts: Buffer<V, f64>,
    level_slopes: Buffer<V, f64>,
    level_intercepts: Buffer<V, f64>,
    parents: Buffer<V, u32>,
    counts: Buffer<V, u32>,
    needed: Buffer<V, u32>,
    widths: Buffer<V, u32>,
}

/// Sizes of everything that has room for pieces.
struct Sizes {
    experts: usize,
    slots: usize,
    layers: usize,
    /// Units of all levels.
    units: usize,
    widest: usize,
    bases: usize,
    features: usize,
    room: usize,
    stride: usize,
    stretches: u64,
    stretch: u64,
}

impl Sizes {
    fn new(a: &Architecture, room: usize) -> Sizes {
        let widths = a.expert_widths();
        let layers = widths.len() - 1;
        let (stretches, stretch) = stretches(a.features as u64, STRETCH, STRETCHES);
        Sizes {
            experts: a.experts,
            slots: a.features * a.active,
            layers,
            units: widths[..layers].iter().sum(),
            widest: widths.iter().copied().max().unwrap_or(1),
            bases: a.bases,
            features: a.features,
            room,
            stride: a.active * (room - 1) + 1,
            stretches,
            stretch,
        }
    }

    /// Lines of one expert.
    fn lines(&self) -> usize {
        self.room * self.bases
    }

    /// Units of the widest layer on all pieces of all experts.
    fn work(&self) -> usize {
        self.experts * self.room * self.widest
    }

    /// Bytes of all that stays, for training and for validation, and of what the larger of compiling and finishing takes beside it.
    fn bytes(&self) -> usize {
        let levels = self.experts * self.units * self.room;
        let stays = 8 * (2 * self.experts * self.lines() + 2 * levels)
            + 4 * (self.experts * (self.room + self.layers * (self.room + 1) + 1))
            + 4 * (self.features * (padded(self.stride) + 4 * self.stride + 2) + 2 * self.slots * self.room);
        let compiling =
            self.work() * (16 + 4 + 12) + 4 * self.experts * 7 * self.room + 4 * self.features * self.stride;
        let parts = self.stretches as usize * self.experts * 2 * self.lines();
        let finishing = 8 * (2 * self.slots * self.room + parts + 4 * self.work());
        2 * stays + compiling.max(finishing)
    }
}

/// Thresholds of a feature with so many pieces at most.
pub(super) fn padded(stride: usize) -> usize {
    stride.next_power_of_two() - 1
}

/// Bytes of tables and of what is needed to make them, by plan.
pub(super) fn planned_bytes(architecture: &Architecture) -> usize {
    Sizes::new(architecture, planned_room(architecture)).bytes()
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn new_knots(&self, layout: &Layout) -> Result<DeviceKnots<V>> {
        self.knots_with(planned_room(&layout.architecture).min(self.blocks.pieces), layout)
    }

    fn knots_with(&self, room: usize, layout: &Layout) -> Result<DeviceKnots<V>> {
        let sizes = Sizes::new(&layout.architecture, room);
        let (d, levels) = (sizes.features, sizes.experts * sizes.units * room);
        let widths: Vec<u32> = layout.architecture.expert_widths().iter().map(|&width| width as u32).collect();
        Ok(DeviceKnots {
            room,
            stride: sizes.stride,
            seen: false,
            thresholds: self.allocate(d * padded(sizes.stride))?,
            threshold_count: self.allocate(d)?,
            piece_count: self.allocate(d)?,
            lines: self.allocate(d * sizes.stride * 2)?,
            sums: self.allocate(d * sizes.stride * 2)?,
            carried: None,
            folded: self.allocate(sizes.slots * 2 * room)?,
            experts: ExpertTables {
                thresholds: self.allocate(sizes.experts * room)?,
                slopes: self.allocate(sizes.experts * sizes.lines())?,
                intercepts: self.allocate(sizes.experts * sizes.lines())?,
                level_slopes: self.allocate(levels)?,
                level_intercepts: self.allocate(levels)?,
                parents: self.allocate(sizes.experts * sizes.layers * room)?,
                counts: self.allocate(sizes.experts * sizes.layers)?,
                needed: self.allocate(sizes.experts)?,
                widths: self.copy(&widths)?,
            },
        })
    }

    pub(super) fn make_knot_room(&self, knots: &mut DeviceKnots<V>, pieces: usize, layout: &Layout) -> Result<()> {
        let most = most_pieces(&layout.architecture.hidden);
        let room = pieces.max(2 * knots.room).min(most.max(pieces));
        // Freed first: two of them are never there at once.
        *knots = self.knots_with(1, layout)?;
        *knots = self.knots_with(room, layout)?;
        Ok(())
    }

    pub(super) fn knots_compile(
        &self,
        verdict: &mut DeviceVerdict<V>,
        knots: &mut DeviceKnots<V>,
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        layout: &Layout,
    ) -> Result<()> {
        loop {
            self.compile_experts(knots, parameters, layout)?;
            if knots.seen {
                break;
            }
            let needed = self.fetch(&knots.experts.needed)?.into_iter().max().unwrap_or(0) as usize;
            if needed <= knots.room {
                knots.seen = true;
                break;
            }
            self.make_knot_room(knots, needed, layout)?;
        }
        self.merge_experts(verdict, knots, routing, parameters, layout)
    }

    /// Pieces and lines of every expert.
    fn compile_experts(&self, knots: &mut DeviceKnots<V>, parameters: &Buffer<V, f32>, layout: &Layout) -> Result<()> {
        let sizes = Sizes::new(&layout.architecture, knots.room);
        let (mut unit_slopes, mut unit_intercepts) = (self.allocate(sizes.work())?, self.allocate(sizes.work())?);
        let (mut unit_ends, mut unit_on) = (self.allocate(sizes.work())?, self.allocate(sizes.work())?);
        let mut unit_ranks = self.allocate(2 * sizes.work())?;
        let (mut ends, mut parts) =
            (self.allocate(3 * sizes.experts * knots.room)?, self.allocate(4 * sizes.experts * knots.room)?);
        let arguments = abi::KnotsExperts {
            compiled: self.compiled(knots, parameters, layout),
            unit_slopes: self.at_mut(&mut unit_slopes, 0),
            unit_intercepts: self.at_mut(&mut unit_intercepts, 0),
            unit_ends: self.at_mut(&mut unit_ends, 0),
            unit_on: self.at_mut(&mut unit_on, 0),
            unit_ranks: self.at_mut(&mut unit_ranks, 0),
            ends: self.at_mut(&mut ends, 0),
            parts: self.at_mut(&mut parts, 0),
        };
        // SAFETY: every array is as large as abi.h says for `room` pieces, and no expert gets more.
        unsafe { self.run("knots_experts", Grid::new([sizes.experts as u64, 1], [THREADS, 1]), &arguments) }
    }

    /// Thresholds and lines of every feature.
    fn merge_experts(
        &self,
        verdict: &mut DeviceVerdict<V>,
        knots: &mut DeviceKnots<V>,
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        layout: &Layout,
    ) -> Result<()> {
        let a = &layout.architecture;
        let mut sorted = self.allocate(a.features * knots.stride)?;
        let arguments = abi::KnotsLines {
            thresholds: self.at_mut(&mut knots.thresholds, 0),
            threshold_count: self.at_mut(&mut knots.threshold_count, 0),
            piece_count: self.at_mut(&mut knots.piece_count, 0),
            lines: self.at_mut(&mut knots.lines, 0),
            folded: self.at_mut(&mut knots.folded, 0),
            sorted: self.at_mut(&mut sorted, 0),
            verdict: self.verdict_at(verdict),
            compiled: self.compiled(knots, parameters, layout),
            experts: self.at(&routing.experts, 0),
            gates: self.at(&routing.gates, 0),
            coefficients: self.at(parameters, layout.coefficients.start),
            features: a.features as u32,
            active: a.active as u32,
            stride: knots.stride as u32,
            most: padded(knots.stride) as u32,
        };
        // SAFETY: the routing is d x m, its experts below C; a feature has at most m (room - 1) + 1 pieces, which is `stride`.
        unsafe { self.run("knots_lines", warps(a.features), &arguments) }
    }

    /// From sums of pieces to gradients of experts, coefficients and gates.
    pub(super) fn finish_knots(
        &self,
        gradient: &mut Buffer<V, f32>,
        d_gates: &mut Buffer<V, f32>,
        knots: &DeviceKnots<V>,
        routing: &Routing<Self>,
        parameters: &Buffer<V, f32>,
        layout: &Layout,
    ) -> Result<()> {
        let sizes = Sizes::new(&layout.architecture, knots.room);
        let mut slot_sums = self.allocate(2 * sizes.slots * knots.room)?;
        let mut parts = self.allocate(sizes.stretches as usize * sizes.experts * 2 * sizes.lines())?;
        let (mut d_outputs, mut d_inputs) = (self.allocate(2 * sizes.work())?, self.allocate(2 * sizes.work())?);
        let arguments = abi::KnotsFinish {
            gradient: self.at_mut(gradient, 0),
            d_coefficients: self.at_mut(gradient, layout.coefficients.start),
            d_gates: self.at_mut(d_gates, 0),
            slot_sums: self.at_mut(&mut slot_sums, 0),
            parts: self.at_mut(&mut parts, 0),
            d_outputs: self.at_mut(&mut d_outputs, 0),
            d_inputs: self.at_mut(&mut d_inputs, 0),
            compiled: self.compiled(knots, parameters, layout),
            sums: self.at(&knots.sums, 0),
            thresholds: self.at(&knots.thresholds, 0),
            piece_count: self.at(&knots.piece_count, 0),
            folded: self.at(&knots.folded, 0),
            experts: self.at(&routing.experts, 0),
            gates: self.at(&routing.gates, 0),
            coefficients: self.at(parameters, layout.coefficients.start),
            features: sizes.features as u32,
            active: layout.architecture.active as u32,
            most: padded(knots.stride) as u32,
            stretch: sizes.stretch as u32,
            stretches: sizes.stretches as u32,
        };
        let experts = sizes.experts as u64;
        // SAFETY: experts come first in the gradient; tables are those of `knots_compile`, with the routing and the parameters
        // they were made from; the rest is as large as abi.h says.
        unsafe {
            self.run("knots_gates", warps(sizes.features), &arguments)?;
            self.run("knots_parts", Grid::new([experts, sizes.stretches], [THREADS, 1]), &arguments)?;
            self.run("knots_experts_backward", Grid::new([experts, 1], [THREADS, 1]), &arguments)
        }
    }

    /// The experts as kernels see them, those that write to them too.
    fn compiled(&self, knots: &DeviceKnots<V>, parameters: &Buffer<V, f32>, layout: &Layout) -> abi::Compiled {
        let (tables, sizes) = (&knots.experts, Sizes::new(&layout.architecture, knots.room));
        abi::Compiled {
            thresholds: self.at(&tables.thresholds, 0).cast_mut(),
            slopes: self.at(&tables.slopes, 0).cast_mut(),
            intercepts: self.at(&tables.intercepts, 0).cast_mut(),
            level_slopes: self.at(&tables.level_slopes, 0).cast_mut(),
            level_intercepts: self.at(&tables.level_intercepts, 0).cast_mut(),
            parents: self.at(&tables.parents, 0).cast_mut(),
            counts: self.at(&tables.counts, 0).cast_mut(),
            needed: self.at(&tables.needed, 0).cast_mut(),
            parameters: self.at(parameters, 0),
            widths: self.at(&tables.widths, 0),
            expert_size: (layout.coefficients.start / sizes.experts) as u64,
            expert_count: sizes.experts as u32,
            layers: sizes.layers as u32,
            units: sizes.units as u32,
            widest: sizes.widest as u32,
            bases: sizes.bases as u32,
            room: knots.room as u32,
        }
    }
}
