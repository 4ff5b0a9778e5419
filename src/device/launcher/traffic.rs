//! Bytes and flops of one training step, kernel by kernel: computed from sizes, not measured.
//!
//! Three counts of bytes, from the smallest:
//! - minimum: each operand of the op read once, each result written once;
//! - perfect reuse: what the kernels move if caches keep all that is read again. More than the minimum: indices once per tile of
//!   columns, partial sums of blocks, sums that are cleared and then added to;
//! - no reuse: every gathered state comes from memory, and rows that are read tile by tile move whole sectors of 32 bytes.
//!
//! In all three, weights and sums of MoNB stay in cache. An FMA is two flops; additions, products, maxima, exp and roots are one;
//! comparisons, index arithmetic, random numbers and sums between the threads of a block are none. For a node task with dense
//! features, without rows of more than `HARMONIA_LONG_ROW` neighbours; those are read once more, as sums of segments. Of
//! host and device nothing crosses the bus but a verdict.
//!
//! Hops are counted where they are taken: near the targets, which are taken for nodes of average degree without a neighbour
//! in common.

mod planned;
mod split;
mod tabled;

use super::monb::{Chunks, Sizes, Variant, global_workspace};
use super::propagate::{BACKWARD, FORWARD, Kernels, row_blocks};
use super::{Blocks, LOOKED_THROUGH, THREADS, abi, reduce, stretches};
use crate::architecture::{Architecture, Layout};
use crate::config::States;
use crate::device::Op;
use crate::plan::Plan;
use harmonia_graph::walk_table::CellBits;

/// Bytes of a float, and of an index.
const F: f64 = 4.0;
/// Bytes of a double.
const D: f64 = 8.0;
/// What memory moves at least.
const SECTOR: usize = 32;

/// What a step is computed for.
#[derive(Clone, Debug)]
pub struct Problem {
    /// n.
    pub nodes: usize,
    /// Entries of the walk matrix: directed edges.
    pub entries: usize,
    /// Whether edges have weights.
    pub weighted: bool,
    /// Nodes the loss is over.
    pub targets: usize,
    /// Element type of propagated states.
    pub states: States,
    /// How the step is computed; X is taken for dense.
    pub plan: Plan,
    /// Pieces of a response, at most over features.
    pub pieces: usize,
    /// Sizes of the model, and where its parameters are.
    pub layout: Layout,
    /// Cells of the table that a step by it reads, with a row for every one of the nodes above; X and F have a few rows more then,
    /// the points of the grid, which count for nothing.
    pub table: Option<TableCells>,
}

/// Sizes of a table of walks.
#[derive(Clone, Copy, Debug)]
pub struct TableCells {
    /// Cells of a row.
    pub columns: usize,
    /// Arrays these are cut into.
    pub blocks: usize,
    /// Of a cell.
    pub bits: CellBits,
}

/// Bytes by the three ways of counting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bytes {
    /// Each operand once.
    pub minimum: f64,
    /// With caches that keep everything.
    pub perfect_reuse: f64,
    /// With no cache for gathered states.
    pub no_reuse: f64,
}

impl Bytes {
    /// The same by any count.
    fn streamed(bytes: f64) -> Self {
        Bytes { minimum: bytes, perfect_reuse: bytes, no_reuse: bytes }
    }

    /// Beyond the minimum.
    fn extra(bytes: f64) -> Self {
        Bytes { minimum: 0.0, ..Bytes::streamed(bytes) }
    }
}

impl std::ops::Add for Bytes {
    type Output = Bytes;

    fn add(self, other: Bytes) -> Bytes {
        Bytes {
            minimum: self.minimum + other.minimum,
            perfect_reuse: self.perfect_reuse + other.perfect_reuse,
            no_reuse: self.no_reuse + other.no_reuse,
        }
    }
}

impl std::ops::Mul<f64> for Bytes {
    type Output = Bytes;

    fn mul(self, share: f64) -> Bytes {
        Bytes {
            minimum: self.minimum * share,
            perfect_reuse: self.perfect_reuse * share,
            no_reuse: self.no_reuse * share,
        }
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(all: I) -> Bytes {
        all.fold(Bytes::default(), |a, b| a + b)
    }
}

/// What all launches of one kernel in a step do together.
#[derive(Clone, Debug)]
pub struct Work {
    /// The kernel; `gemm ...` is cuBLAS, `memset` the driver.
    pub kernel: &'static str,
    /// How often it is launched.
    pub launches: usize,
    /// What it works on, over all launches: elements of n x d, parameters, logits.
    pub elements: f64,
    /// Floating-point operations of all launches; a fused multiply-add is two.
    pub flops: f64,
    /// Bytes of global memory of all launches.
    pub bytes: Bytes,
}

/// One training step, op by op, in the order of first launches.
pub fn step(problem: &Problem) -> Vec<Work> {
    let mut step = StepTraffic { problem, work: Vec::new() };
    Op::of_step(problem.plan).for_each(|op| step.op(op));
    step.work
}

/// The launches of one training step, counted as they are added.
struct StepTraffic<'a> {
    problem: &'a Problem,
    work: Vec<Work>,
}

impl StepTraffic<'_> {
    /// One launch.
    fn add(&mut self, kernel: &'static str, elements: f64, flops: f64, bytes: Bytes) {
        match self.work.iter_mut().find(|work| work.kernel == kernel) {
            Some(work) => {
                work.launches += 1;
                work.elements += elements;
                work.flops += flops;
                work.bytes = work.bytes + bytes;
            }
            None => self.work.push(Work { kernel, launches: 1, elements, flops, bytes }),
        }
    }

    /// The launches of one op.
    fn op(&mut self, op: Op) {
        let a = self.architecture();
        let [n, d, t, outputs] = [self.problem.nodes, a.features, a.hops, a.outputs].map(|size| size as f64);
        let parameters = self.problem.layout.len() as f64;
        match op {
            Op::Clear => self.add("memset", parameters, 0.0, Bytes::extra(F * parameters)),
            Op::DrawNoise => self.draw_noise(),
            Op::RouteForward => self.route_forward(),
            Op::HopWeightsForward => {
                self.add("hop_weights_forward", t * d, 5.0 * t * d, Bytes::streamed(2.0 * F * t * d));
            }
            Op::MonbForward => self.monb_forward(),
            Op::KnotsCompile => self.knots_compile(),
            Op::KnotsForward => self.knots_forward(),
            Op::ProjectForward => self.project_forward(),
            Op::WalkForward => self.walk_forward(),
            Op::PropagateForward => self.propagate(false),
            Op::ReadoutForward => {
                self.add("readout_bias", n * outputs, 0.0, Bytes::streamed(F * (n + 1.0) * outputs));
                self.gemm("gemm logits += H Wo", n * outputs, [n * d, d * outputs, 2.0 * n * outputs]);
            }
            Op::Loss => self.loss(),
            Op::WalkBackward => {
                self.bias_backward();
                self.walk_backward();
            }
            Op::ProjectBackward => self.project_backward(),
            Op::ReadoutBackward => {
                self.bias_backward();
                self.readout_gradient();
                self.gemm("gemm dH = dlogits Wo'", n * d, [n * outputs, d * outputs, n * d]);
            }
            Op::TableForward => self.table_forward(),
            Op::TableBackward => self.table_backward(),
            Op::PropagateBackward => self.propagate(true),
            Op::HopWeightsBackward => {
                self.add("hop_weights_backward", t * d, 9.0 * t * d, Bytes::streamed(5.0 * F * t * d));
            }
            Op::MonbBackward => self.monb_backward(),
            Op::KnotsBackward => self.knots_backward(),
            Op::RouteBackward => self.route_backward(),
            Op::Norm => self.norm(),
            Op::Adam => self.add("adam", parameters, 17.0 * parameters, Bytes::streamed(7.0 * F * parameters)),
        }
    }

    /// The part of the rows within so many steps of the targets; 1 where the launcher looks at all of them.
    fn near(&self, steps: usize) -> f64 {
        let Problem { nodes, entries, targets, .. } = *self.problem;
        let grown = 1.0 + entries as f64 / nodes as f64;
        let mut share = targets as f64 / nodes as f64;
        for _ in 0..steps {
            share = if share <= LOOKED_THROUGH { share * grown } else { 1.0 };
        }
        if share <= 0.5 { share } else { 1.0 }
    }

    /// Sets of rows that a hop looks into, a bit per row: the rows it computes, or those it gathers from.
    fn sets(&self, share: f64) -> Bytes {
        Bytes::extra(if share < 1.0 { self.problem.nodes as f64 / 8.0 } else { 0.0 })
    }

    fn architecture(&self) -> &Architecture {
        &self.problem.layout.architecture
    }

    /// n x d elements of `size` bytes, read or written in tiles of `tile` columns.
    fn matrix(&self, tile: usize, size: usize) -> Bytes {
        let (n, d) = (self.problem.nodes as f64, self.architecture().features);
        let bytes = n * (d * size) as f64;
        Bytes { minimum: bytes, perfect_reuse: bytes, no_reuse: n * sectors(d, tile, size) }
    }

    /// Random numbers are no flops; their logarithms, roots and sines are.
    fn draw_noise(&mut self) {
        let [d, _, c, _] = self.router();
        self.add("draw_noise", d * c, 40.0 * d * c, Bytes::streamed(F * d * c));
    }

    fn route_forward(&mut self) {
        let [d, q, c, m] = self.router();
        let bytes = F * (d * q + 2.0 * q * c + d * c + 3.0 * d * m);
        self.add("route_forward", d * c, d * c * (4.0 * q + 6.0), Bytes::streamed(bytes));
    }

    fn route_backward(&mut self) {
        let [d, q, c, m] = self.router();
        let slots = F * d * m * 5.0; // d_gates, experts, gates, scales, noise
        let bytes = slots + F * (2.0 * d * q + 2.0 * q * c);
        self.add("route_backward_embeddings", d * q, d * q * m * 4.0, Bytes::streamed(bytes));
        let bytes = slots + F * (d * q + 4.0 * q * c);
        self.add("route_backward_router", q * c, d * q * m * 4.0, Bytes::streamed(bytes));
    }

    fn router(&self) -> [f64; 4] {
        let a = self.architecture();
        [a.features, a.embedding, a.experts, a.active].map(|size| size as f64)
    }

    fn fold(&mut self) {
        let (a, sizes) = (self.architecture(), Sizes::new(&self.problem.layout));
        let (heads, bases) = (sizes.heads as f64, a.bases as f64);
        let outputs = (a.experts * (sizes.width + 1)) as f64 * bases;
        let bytes = F * (heads + outputs + a.features as f64 * (bases + a.active as f64));
        self.add("monb_fold", heads, 2.0 * heads * bases, Bytes::streamed(bytes));
    }

    /// Experts' hidden layers, heads, gates and choices: read from memory once.
    fn weights(&self, sizes: &Sizes) -> Bytes {
        let a = self.architecture();
        Bytes::streamed(
            F * (a.experts as f64 * sizes.hidden as f64 + sizes.heads as f64 + 2.0 * (a.features * a.active) as f64),
        )
    }

    fn monb_forward(&mut self) {
        self.fold();
        let (a, sizes) = (self.architecture(), Sizes::new(&self.problem.layout));
        let variant = Variant::of(a, None);
        let elements = (self.problem.nodes * a.features) as f64;
        let flops = elements * a.active as f64 * monb_flops(&a.hidden, variant).0;
        let tile = self.matrix(abi::HARMONIA_MONB_FEATURES as usize, 4);
        let bytes = tile + tile + self.weights(&sizes);
        self.add(variant.forward, elements, flops, bytes);
    }

    fn monb_backward(&mut self) {
        self.fold();
        let a = self.architecture();
        let sizes = Sizes::new(&self.problem.layout);
        let variant = Variant::of(a, None);
        let workspace = global_workspace(a, variant, Blocks::default());
        let chunks = Chunks::new(self.problem.nodes, a, &sizes, variant, workspace, Blocks::default());
        let (teams, expert_parameters) = (chunks.teams(variant), a.experts * sizes.hidden as usize);
        let elements = (self.problem.nodes * a.features) as f64;
        let flops = elements * a.active as f64 * monb_flops(&a.hidden, variant).1;
        let team_sums = teams as f64 * F * expert_parameters as f64;
        let chunk_sums = chunks.chunks as f64 * F * sizes.heads as f64;
        let tile = self.matrix(abi::HARMONIA_MONB_FEATURES as usize, 4);
        let results = Bytes::streamed(F * (expert_parameters + sizes.heads) as f64);
        let bytes = tile + tile + self.weights(&sizes) + results + Bytes::extra(2.0 * (team_sums + chunk_sums));
        let [features, active, bases, width] = [a.features, a.active, a.bases, sizes.width].map(|size| size as f64);
        let (heads, pairs, experts) = (sizes.heads as f64, features * active, a.experts as f64);
        self.add("memset", team_sums / F, 0.0, Bytes::extra(team_sums));
        self.add("memset", chunk_sums / F, 0.0, Bytes::extra(chunk_sums));
        self.add(variant.backward, elements, flops, bytes);
        self.column_sums(teams, expert_parameters);
        self.column_sums(chunks.chunks, sizes.heads);
        let flops = 2.0 * heads;
        self.add("monb_finish_gates", pairs, flops, Bytes::streamed(F * (2.0 * heads + pairs)));
        let outputs = experts * bases * (width + 1.0);
        let bytes = F * (heads + 2.0 * pairs + outputs + 2.0 * features * bases);
        self.add("monb_finish_coefficients", features * bases, 2.0 * bases * heads, Bytes::streamed(bytes));
        let bytes = F * (heads + 2.0 * pairs + features * bases + 2.0 * outputs);
        self.add("monb_finish_outputs", outputs, 2.0 * bases * heads, Bytes::streamed(bytes));
        let parameters = expert_parameters as f64;
        self.add("monb_finish_hidden", parameters, parameters, Bytes::streamed(3.0 * F * parameters));
    }

    /// The scale of states as half: all that will be stored is looked at once.
    fn half_scale(&mut self, elements: f64, degrees: f64) {
        let (blocks, _) = stretches(elements as u64, 1 << 12, 1 << 10);
        let partial = F * blocks as f64;
        self.add("largest", elements, 2.0 * elements, Bytes::extra(F * (elements + degrees) + partial));
        self.add("half_scale", 1.0, blocks as f64, Bytes::extra(partial + F));
    }

    fn propagate(&mut self, backward: bool) {
        let Problem { nodes, entries, weighted, states, ref layout, .. } = *self.problem;
        let (d, hops, size) = (layout.architecture.features, layout.architecture.hops, states.bytes());
        let kernels: &Kernels = if backward { &BACKWARD } else { &FORWARD };
        let (blocks, _) = row_blocks(nodes, d, Blocks::default());
        let elements = (nodes * d) as f64;
        let kind = states as usize;
        if states == States::F16 {
            let degrees = if backward { nodes as f64 } else { 0.0 };
            self.half_scale(elements, degrees);
        }
        // <F, y> of every block.
        let partial = Bytes::extra(if backward { F * (blocks as usize * d) as f64 } else { 0.0 });

        // Hop 0 reads F (and dH) and writes the accumulator; F itself is the first state, where it is stored as f32.
        let wide = self.matrix(32, 4);
        let stored = hops > 1 && (backward || states != States::F32);
        let state = if stored { self.matrix(32, size) } else { Bytes::default() };
        let degrees = Bytes::streamed(if backward && stored { F * nodes as f64 } else { 0.0 });
        let (bytes, flops) = if backward { (wide + wide + wide, 5.0) } else { (wide + wide, 1.0) };
        self.add(kernels.start[kind], elements, flops * elements, bytes + state + degrees + partial);

        let (names, tile) = kernels.for_columns(d);
        let accumulator = self.matrix(tile, 4);
        let state = self.matrix(tile, size);
        let gathered = Bytes { no_reuse: entries as f64 * sectors(d, tile, size), ..state };
        // Columns and weights of entries, offsets and degrees of rows.
        let walk = entries as f64 * if weighted { 2.0 * F } else { F } + nodes as f64 * 3.0 * F;
        let tiles = d.div_ceil(tile) as f64;
        let walk = Bytes { minimum: walk, ..Bytes::streamed(walk * tiles) };
        let additions = (entries * d) as f64 * if weighted { 2.0 } else { 1.0 };
        let row_flops = elements * if backward { 6.0 } else { 3.0 };
        for t in 0..hops {
            if t > 0 {
                let next = if t + 1 < hops { state } else { Bytes::default() };
                let responses = if backward { accumulator } else { Bytes::default() };
                // Rows that are computed, entries that are gathered, and rows these are of.
                let [rows, read, sources] = if backward {
                    let from = self.near(t - 1);
                    [1.0, from, from]
                } else {
                    let at = self.near(hops - 1 - t);
                    [at, at, self.near(hops - t)]
                };
                let gathered = Bytes { no_reuse: gathered.no_reuse * read, ..state * sources };
                let bytes = gathered + (next + accumulator + accumulator + responses + walk) * rows;
                let bytes = bytes + partial + self.sets(read);
                self.add(names[kind], elements * rows, additions * read + row_flops * rows, bytes);
            }
            if backward {
                self.column_sums(blocks, d);
            }
        }
    }

    /// Sums over rows, in as many stages as the launcher takes.
    fn column_sums(&mut self, rows: u64, columns: usize) {
        let values = |rows: u64| rows as f64 * columns as f64;
        let parts = reduce::parts(rows).map(|(parts, _)| parts);
        let bytes = F * (values(rows) + values(parts.unwrap_or(1)));
        self.add("column_sums", values(rows), values(rows), Bytes::streamed(bytes));
        if let Some(parts) = parts {
            self.column_sums(parts, columns);
        }
    }

    fn gemm(&mut self, name: &'static str, elements: f64, operands: [f64; 3]) {
        let a = self.architecture();
        let flops = 2.0 * (self.problem.nodes * a.features) as f64 * a.outputs as f64;
        self.add(name, elements, flops, Bytes::streamed(F * operands.iter().sum::<f64>()));
    }

    /// Rows without a target are zeroed and not read. Softmax for several classes, as the presets of node tasks have.
    fn loss(&mut self) {
        let outputs = self.architecture().outputs;
        let (rows, targets) = (self.problem.nodes as f64, self.problem.targets as f64);
        let logits = outputs as f64;
        let (blocks, _) = stretches(self.problem.nodes as u64, u64::from(THREADS / 32), Blocks::default().rows);
        let bytes = F * (rows + targets * logits + rows * logits) + 8.0 * blocks as f64;
        self.add("loss_softmax", rows * logits, 9.0 * targets * logits, Bytes::streamed(bytes));
        self.judge("judge_loss", blocks);
    }

    fn bias_backward(&mut self) {
        self.column_sums(self.problem.nodes as u64, self.architecture().outputs);
    }

    fn norm(&mut self) {
        let parameters = self.problem.layout.len() as f64;
        let (blocks, _) = stretches(self.problem.layout.len() as u64, 1 << 12, 1 << 10);
        let bytes = Bytes::streamed(F * parameters + 8.0 * blocks as f64);
        self.add("square_sums", parameters, 2.0 * parameters, bytes);
        self.judge("judge_norm", blocks);
    }

    /// Sum of one double per block.
    fn judge(&mut self, kernel: &'static str, blocks: u64) {
        self.add(kernel, blocks as f64, blocks as f64, Bytes::streamed(8.0 * (blocks as f64 + 1.0)));
    }
}

/// Flops of a (node, feature, slot), forward and backward, with the output layer folded.
fn monb_flops(hidden: &[usize], variant: &Variant) -> (f64, f64) {
    let widths: Vec<f64> = std::iter::once(1.0).chain(hidden.iter().map(|&width| width as f64)).collect();
    let products: Vec<f64> = widths.windows(2).map(|pair| pair[0] * pair[1]).collect();
    let (weights, units) = (products.iter().sum::<f64>(), hidden.iter().sum::<usize>() as f64);
    let last = widths[widths.len() - 1];
    // Through all layers but the first, whose input needs no gradient.
    let passed_on = weights - products.first().copied().unwrap_or(0.0);
    // A thread of a specialised kernel takes eight units of the second layer, and evaluates the first layer itself; backward,
    // it does so once more for the units it differentiates.
    let (again, once_more) = match (variant.is_generic(), hidden) {
        (false, [first, second]) => ((second / 8 - 1) * first, *first),
        _ => (0, 0),
    };
    let forward = 2.0 * (weights + again as f64 + last);
    // Forward again; S; gradients of weights and of activations. Beside FMAs: delta of the last layer, biases, G.
    let fmas = weights + again as f64 + last + once_more as f64 + weights + passed_on;
    (forward, 2.0 * fmas + last + units + 1.0)
}

/// Bytes of the sectors a row of `columns` elements touches where it is read `tile` columns at a time, on average over rows.
fn sectors(columns: usize, tile: usize, size: usize) -> f64 {
    let tile = tile.max(1);
    (0..columns).step_by(tile).map(|start| part_sectors(columns, start, tile.min(columns - start), size)).sum()
}

/// Bytes of the sectors that `count` of the `columns` elements of a row touch, from `start` on, on average over rows.
fn part_sectors(columns: usize, start: usize, count: usize, size: usize) -> f64 {
    // Rows begin at all offsets the row's length leads to; after a sector's worth of rows they repeat.
    let touched = |row: usize| {
        let begin = (row * columns + start) * size;
        (begin + count * size).div_ceil(SECTOR) - begin / SECTOR
    };
    let rows = SECTOR;
    (0..rows).map(touched).sum::<usize>() as f64 / rows as f64 * SECTOR as f64
}

#[cfg(test)]
mod tests;
