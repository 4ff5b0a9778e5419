//! The fast ways: experts by pieces, and class space.

use super::super::knots::{Cut, Room, SUM_BYTES, chunk_rows};
use super::super::project::{LOAD, STORE, padded, stretch_rows};
use super::super::split;
use super::super::walk::{Lanes, START};
use super::split::SplitRows;
use super::{Blocks, Bytes, D, F, StepTraffic, part_sectors};
use crate::config::States;
use crate::knots::planned_pieces;

/// Sizes of class space.
#[derive(Clone, Copy)]
struct Classes {
    /// n, d, L and T.
    nodes: usize,
    features: usize,
    outputs: usize,
    hops: usize,
    /// L, padded.
    width: usize,
    /// T width.
    columns: usize,
    /// Bytes of an element of states.
    size: usize,
    /// Rows that sums over pieces are taken of one after the other.
    chunk: usize,
}

impl Classes {
    /// Columns of one hop over all rows, as stored.
    fn hop(&self, t: usize) -> Bytes {
        let bytes = (self.nodes * self.width * self.size) as f64;
        let sectors = part_sectors(self.columns, t * self.width, self.width, self.size);
        Bytes { minimum: bytes, perfect_reuse: bytes, no_reuse: self.nodes as f64 * sectors }
    }

    /// (rows of a stretch, ...) of what goes through floats.
    fn stretches(&self) -> impl Iterator<Item = usize> + use<> {
        let (size, nodes) = (stretch_rows(self.columns, self.chunk, Blocks::default()), self.nodes);
        (0..nodes).step_by(size).map(move |first| size.min(nodes - first))
    }
}

/// What part of a step is taken.
struct Taken {
    /// Rows that are computed.
    rows: f64,
    /// Entries whose states are gathered.
    read: f64,
    /// Rows these states are of.
    sources: f64,
}

impl Taken {
    /// A step forward at the rows within `steps` steps of the targets.
    fn forward(step: &StepTraffic<'_>, steps: usize) -> Taken {
        let rows = step.near(steps);
        Taken { rows, read: rows, sources: step.near(steps + 1) }
    }
}

/// Written by one kernel and read by the next: a cache that keeps anything keeps it.
fn passed_on(elements: usize) -> Bytes {
    Bytes { minimum: 0.0, perfect_reuse: 0.0, no_reuse: F * elements as f64 }
}

impl StepTraffic<'_> {
    fn classes(&self) -> Classes {
        let a = self.architecture();
        let width = padded(a.outputs);
        Classes {
            nodes: self.problem.nodes,
            features: a.features,
            outputs: a.outputs,
            hops: a.hops,
            width,
            columns: a.hops * width,
            size: self.problem.states.bytes(),
            chunk: chunk_rows(self.problem.nodes, a.features, planned_pieces(a), Blocks::default()).1 as usize,
        }
    }

    /// Thresholds of a feature: one less than a power of two.
    fn thresholds(&self) -> usize {
        self.problem.pieces.next_power_of_two() - 1
    }

    /// What compiled experts are: (pieces of one, their parameters, lines of all levels and bases on one piece).
    fn compiled(&self) -> (f64, f64, f64) {
        let a = self.architecture();
        let widths = a.expert_widths();
        let pieces = (self.problem.pieces - 1).div_ceil(a.active) + 1;
        (pieces as f64, self.problem.layout.coefficients.start as f64, widths.iter().sum::<usize>() as f64)
    }

    pub(super) fn knots_compile(&mut self) {
        let (own, parameters, lines) = self.compiled();
        let a = self.architecture();
        let [d, c, m, bases] = [a.features, a.experts, a.active, a.bases].map(|size| size as f64);
        // Lines are pairs of doubles; every weight meets a slope and an intercept on every piece.
        let bytes = F * (parameters + c * own) + 2.0 * D * c * own * lines;
        self.add("knots_experts", c * own, 4.0 * own * parameters, Bytes::streamed(bytes));
        let folded = 2.0 * d * m * own;
        let tables = (d as usize * (self.thresholds() + 2 * self.problem.pieces)) as f64;
        let bytes = F * (c * own + d * bases + 2.0 * d * m + folded + tables) + 2.0 * D * c * own * bases;
        self.add("knots_lines", tables, 2.0 * folded * bases, Bytes::streamed(bytes));
    }

    pub(super) fn knots_forward(&mut self) {
        let (d, pieces, thresholds) = (self.architecture().features, self.problem.pieces, self.thresholds());
        let cut = Cut::forward(self.problem.nodes, d, pieces, Blocks::default());
        let elements = (self.problem.nodes * d) as f64;
        let tile = self.matrix(cut.lanes, 4);
        let table = F * (d * (thresholds + 2 * pieces)) as f64;
        let tables = Bytes { no_reuse: table * cut.chunks as f64, ..Bytes::streamed(table) };
        // An FMA and the factor of the feature.
        self.add("knots_forward", elements, 3.0 * elements, tile + tile + tables);
    }

    pub(super) fn knots_backward(&mut self) {
        let (d, pieces, thresholds) = (self.architecture().features, self.problem.pieces, self.thresholds());
        let room = Room { most: Blocks::default(), shared: SUM_BYTES };
        let cut = Cut::backward(self.problem.nodes, d, planned_pieces(self.architecture()), pieces, room);
        let (elements, sums) = ((self.problem.nodes * d) as f64, 2 * pieces * d);
        let chunk_sums = F * cut.chunks as f64 * sums as f64;
        let tile = self.matrix(cut.lanes, 4);
        let table = F * (d * thresholds) as f64;
        let tables = Bytes { no_reuse: table * cut.chunks as f64, ..Bytes::streamed(table) };
        // The factor of the feature, an FMA and a sum.
        let bytes = tile + tile + tables + Bytes::streamed(F * sums as f64) + Bytes::extra(chunk_sums);
        self.add("knots_backward", elements, 4.0 * elements, bytes);
        let bytes = Bytes::extra(chunk_sums + F * sums as f64);
        self.add("knots_sums", sums as f64, chunk_sums / F, bytes);
        self.knots_finish(sums as f64);
    }

    /// From sums to gradients of gates, coefficients and experts.
    fn knots_finish(&mut self, sums: f64) {
        let (own, parameters, lines) = self.compiled();
        let a = self.architecture();
        let [d, c, m, bases] = [a.features, a.experts, a.active, a.bases].map(|size| size as f64);
        let slot_sums = 2.0 * d * m * own;
        let expert_lines = 2.0 * D * c * own * bases;
        let bytes = F * (sums + slot_sums + 2.0 * d * bases + 3.0 * d * m) + D * slot_sums + expert_lines;
        self.add("knots_gates", d * bases, slot_sums * (2.0 + 2.0 * bases), Bytes::streamed(bytes));
        let bytes = F * (d * bases + 2.0 * d * m) + D * slot_sums + expert_lines;
        self.add("knots_parts", c * own * bases, 2.0 * slot_sums * bases, Bytes::streamed(bytes));
        let bytes = F * 3.0 * parameters + 2.0 * D * c * own * lines + expert_lines;
        self.add("knots_experts_backward", parameters, 8.0 * own * parameters, Bytes::streamed(bytes));
    }

    fn project_weights(&mut self) {
        let Classes { features, outputs, hops, columns, .. } = self.classes();
        let elements = (features * columns) as f64;
        let bytes = F * (elements + (features * (hops + outputs)) as f64);
        self.add("project_weights", elements, elements, Bytes::streamed(bytes));
    }

    pub(super) fn project_forward(&mut self) {
        let classes @ Classes { nodes, features, columns, size, .. } = self.classes();
        self.project_weights();
        let product = |rows: usize| 2.0 * (rows * features) as f64 * columns as f64;
        let [responses, weights, states] =
            [nodes * features, features * columns, nodes * columns].map(|elements| elements as f64);
        if self.problem.states == States::F32 {
            let bytes = Bytes::streamed(F * (responses + weights + states));
            self.add("gemm G = F W", states, product(nodes), bytes);
            return;
        }
        for (at, rows) in classes.stretches().enumerate() {
            let elements = rows * columns;
            let weights = if at == 0 { Bytes::streamed(F * weights) } else { Bytes::default() };
            let responses = Bytes::streamed(F * (rows * features) as f64);
            self.add("gemm G = F W", elements as f64, product(rows), responses + weights + passed_on(elements));
            let stored = Bytes::streamed((elements * size) as f64);
            let kernel = STORE[self.problem.states as usize];
            self.add(kernel, elements as f64, 0.0, stored + passed_on(elements));
        }
    }

    pub(super) fn project_backward(&mut self) {
        let classes @ Classes { nodes, features, outputs, hops, columns, size, .. } = self.classes();
        self.project_weights();
        let weights = F * (features * columns) as f64;
        let degrees = F * nodes as f64;
        let parts =
            classes.stretches().next().map_or(1, |rows| split::parts(features, columns, rows, Blocks::default()));
        for (at, rows) in classes.stretches().enumerate() {
            let elements = rows * columns;
            let first = |bytes: f64| if at == 0 { Bytes::streamed(bytes) } else { Bytes::default() };
            let flops = 2.0 * (elements * features) as f64;
            let responses = Bytes::streamed(F * (rows * features) as f64);
            let stored = Bytes::streamed((elements * size) as f64);
            let kernel = LOAD[self.problem.states as usize];
            self.add(kernel, elements as f64, 2.0 * elements as f64, stored + first(degrees) + passed_on(elements));
            let sums = (features * columns) as f64;
            let read = responses + passed_on(elements);
            self.parts("gemm S += F' Y", sums, flops, read, SplitRows { parts, rows, is_first: at == 0 });
            let bytes = responses + first(weights) + passed_on(elements);
            self.add("gemm dF = Y W'", (rows * features) as f64, flops, bytes);
        }
        self.sum_parts(parts, features * columns);
        let (readout, theta) = ((features * outputs) as f64, (features * hops) as f64);
        let flops = 2.0 * readout * hops as f64;
        let bytes = Bytes::streamed(weights + F * (theta + 2.0 * readout));
        self.add("project_readout_gradient", readout, flops, bytes);
        let bytes = Bytes::streamed(weights + F * (theta + readout));
        self.add("project_hops_gradient", theta, flops, bytes);
    }

    pub(super) fn walk_forward(&mut self) {
        let classes @ Classes { nodes, outputs, hops, .. } = self.classes();
        for t in (1..hops.saturating_sub(1)).rev() {
            self.walk_rows(Some(t + 1), classes.hop(t) + classes.hop(t), 0.0, Taken::forward(self, t));
        }
        let logits = (nodes * outputs) as f64;
        let written = classes.hop(0) + Bytes::streamed(F * (logits + outputs as f64));
        self.walk_rows((hops > 1).then_some(1), written, logits, Taken::forward(self, 0));
    }

    pub(super) fn walk_backward(&mut self) {
        let classes @ Classes { nodes, outputs, hops, width, .. } = self.classes();
        let logits = (nodes * outputs) as f64;
        if self.problem.states == States::F16 {
            self.half_scale(logits, nodes as f64);
        }
        let elements = (nodes * width) as f64;
        let bytes = Bytes::streamed(F * (logits + nodes as f64)) + classes.hop(0);
        self.add(START[self.problem.states as usize], elements, 2.0 * elements, bytes);
        for t in 1..hops {
            let from = self.near(t - 1);
            self.walk_rows(Some(t - 1), classes.hop(t), 0.0, Taken { rows: 1.0, read: from, sources: from });
        }
    }

    /// A step that gathers from a hop, if any; `rows` is what it reads and writes a row.
    fn walk_rows(&mut self, from: Option<usize>, rows: Bytes, more_flops: f64, taken: Taken) {
        let classes @ Classes { nodes, width, columns, size, .. } = self.classes();
        let lanes = Lanes::of(width);
        let tiles = width.div_ceil(lanes.tile) as f64;
        let (entries, elements) = (self.problem.entries, (nodes * width) as f64 * taken.rows);
        let mut bytes = (rows + Bytes::streamed(F * nodes as f64)) * taken.rows + self.sets(taken.read);
        let mut flops = 2.0 * elements + more_flops * taken.rows;
        if let Some(t) = from {
            let sectors = part_sectors(columns, t * width, width, size);
            let gathered = Bytes { no_reuse: entries as f64 * taken.read * sectors, ..classes.hop(t) * taken.sources };
            // Columns and weights of entries, offsets of rows.
            let walk = entries as f64 * if self.problem.weighted { 2.0 * F } else { F } + nodes as f64 * 2.0 * F;
            bytes = bytes + gathered + Bytes { minimum: walk, ..Bytes::streamed(walk * tiles) } * taken.rows;
            flops += 2.0 * (entries * width) as f64 * taken.read;
        }
        self.add(lanes.kernels[self.problem.states as usize], elements, flops, bytes);
    }
}
