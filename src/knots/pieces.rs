//! An expert in its exact piecewise-linear form: where its slopes change, and the line it follows in between.
//!
//! A ReLU network of one number x is affine wherever no unit switches. Compiling walks through the layers: on a piece
//! of the layers before, every unit is s x + r, its root cuts the piece in two, and on each part the unit is either
//! that line or zero. The result evaluates an expert of any width by one look-up and one multiply-add per basis.
//!
//! Forward   psi(x) = slope[p] x + intercept[p], p = number of thresholds below x
//! Backward  with d_slope[p] = sum of g x and d_intercept[p] = sum of g over the points in p, the units that are on
//!           are a linear network, so both sums go back through the layers side by side:
//!           dW += d_slope (inputs' slope)^T + d_intercept (inputs' intercept)^T, db += d_intercept
//!
//! A unit is on where s x + r > 0, as in the direct path, and its threshold is a number of the points' own type T, so
//! that `threshold < x` alone decides for every finite x, knots included: the largest T not above the root of a rising
//! unit (on beyond it), the largest T strictly below the root of a falling one (off beyond it). A rising and a
//! falling unit with the same root leave a piece of one number between them, on which both are off.
//!
//! Invariant: thresholds are finite and strictly increasing, and at each of them some unit switches that the output can
//! see. All arithmetic is f64. Roots of the first layer are exact (unless a product underflows); those of deeper layers
//! carry the rounding of s and r, and as the network is continuous, a point that close to a knot has the same value on
//! either side.

#[cfg(test)]
mod tests;

use crate::architecture::{Architecture, Layer};
use crate::real::Real;
use std::cmp::Ordering;

/// One expert, compiled. Piece p holds all finite x with exactly p thresholds below x (`threshold < x`).
#[derive(Clone, Debug, Default)]
pub struct Pieces<T> {
    /// Strictly increasing, finite; one less than pieces.
    pub thresholds: Vec<T>,
    /// P x B.
    pub slope: Vec<f64>,
    /// P x B.
    pub intercept: Vec<f64>,
    /// What each layer reads; the first entry is x itself.
    levels: Vec<Level>,
    work: PieceWork<T>,
}

/// The inputs of one layer, affine on each piece that the layers before it make.
#[derive(Clone, Debug, Default)]
struct Level {
    /// Units.
    width: usize,
    /// pieces x width; slope and intercept are zero together exactly where the unit is off.
    lines: Lines,
    /// The piece of the level before that holds this one. Where no unit is on, a piece may span several, and names the
    /// first: nothing flows back through it.
    parents: Vec<usize>,
}

/// Many x -> slope x + intercept.
#[derive(Clone, Debug, Default)]
struct Lines {
    slope: Vec<f64>,
    intercept: Vec<f64>,
}

/// Buffers of [`Pieces::compile`].
#[derive(Clone, Debug, Default)]
struct PieceWork<T> {
    dense: Dense,
    /// Upper ends of the pieces after the layer at hand.
    ends: Vec<T>,
    /// Its units before ReLU, on one piece.
    units: Lines,
    /// Which of them are on.
    on: Vec<bool>,
    /// (threshold, unit) inside the piece.
    crossings: Vec<(T, usize)>,
}

/// A layer in f64, weights transposed: units are the SIMD lanes, and inputs that are off are skipped.
#[derive(Clone, Debug, Default)]
struct Dense {
    /// inputs x outputs.
    weights: Vec<f64>,
    biases: Vec<f64>,
}

/// Buffers of [`Pieces::backward`], for any number of experts of any size.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// Gradient of the layer's outputs on each piece of its inputs.
    outputs: Lines,
    /// Gradient of the outputs of the layer before, on each piece of its inputs.
    inputs: Lines,
    /// Gradient of the layer's inputs on one piece.
    row: Lines,
    weight: Vec<f64>,
    bias: Vec<f64>,
}

/// The largest number of pieces an expert with these hidden widths can have: every unit may cut every piece of the
/// layers before it.
pub fn most_pieces(hidden: &[usize]) -> usize {
    hidden.iter().fold(1, |pieces: usize, &width| pieces.saturating_mul(width.saturating_add(1)))
}

/// Pieces of an expert that there is room for at first. They are about as many as hidden units (Hanin and Rolnick, 2019).
pub fn planned_room(architecture: &Architecture) -> usize {
    let units: usize = architecture.hidden.iter().sum();
    (units + units / 2 + 1).min(most_pieces(&architecture.hidden))
}

/// Pieces of a feature that plans count with. Should experts have more, the plan's reserve has room for them.
pub fn planned_pieces(architecture: &Architecture) -> usize {
    architecture.active * (planned_room(architecture) - 1) + 1
}

impl<T: Real> Pieces<T> {
    /// Compiles an expert; `layers` from input to output, the last one linear.
    pub fn new(layers: &[Layer], parameters: &[T]) -> Self {
        let mut pieces = Pieces::default();
        pieces.compile(layers, parameters);
        pieces
    }

    /// Compiles an expert in the memory of the one before; allocates only what more pieces need.
    pub fn compile(&mut self, layers: &[Layer], parameters: &[T]) {
        let Pieces { thresholds, slope, intercept, levels, work } = self;
        slope.clear();
        intercept.clear();
        // While compiling, the upper end of every piece; the last piece ends with the largest number there is.
        thresholds.clear();
        thresholds.push(T::max_value());
        levels.resize_with(layers.len(), Level::default);
        if let Some(input) = levels.first_mut() {
            input.begin(1);
            input.parents.push(0);
            input.lines.slope.push(1.0);
            input.lines.intercept.push(0.0);
        }
        for (l, layer) in layers.iter().enumerate() {
            work.dense.load(layer, parameters);
            let (before, after) = levels.split_at_mut(l + 1);
            if let Some(next) = after.first_mut() {
                work.split(next, thresholds, &before[l]);
                continue;
            }
            let pieces = before[l].parents.len();
            slope.resize(pieces * layer.outputs, 0.0);
            intercept.resize(pieces * layer.outputs, 0.0);
            let rows = slope.chunks_exact_mut(layer.outputs).zip(intercept.chunks_exact_mut(layer.outputs));
            for (p, (slope, intercept)) in rows.enumerate() {
                work.dense.apply(slope, intercept, before[l].row(p));
            }
        }
        thresholds.pop();
    }

    /// Compiles an expert at some points, increasing, instead of everywhere: a piece for each, on which it is the constant that
    /// it is there. Sums over points of a piece go back as ever.
    pub fn compile_at(&mut self, layers: &[Layer], parameters: &[T], points: &[T]) {
        let Pieces { thresholds, slope, intercept, levels, work } = self;
        thresholds.clear();
        thresholds.extend_from_slice(&points[..points.len().saturating_sub(1)]);
        levels.resize_with(layers.len(), Level::default);
        if let Some(input) = levels.first_mut() {
            input.begin(1);
            input.parents.extend(0..points.len());
            input.lines.slope.resize(points.len(), 0.0);
            input.lines.intercept.extend(points.iter().map(|x| x.widen()));
        }
        for (l, layer) in layers.iter().enumerate() {
            work.dense.load(layer, parameters);
            let width = layer.outputs;
            for values in [&mut *slope, &mut *intercept] {
                values.clear();
                values.resize(points.len() * width, 0.0);
            }
            let rows = slope.chunks_exact_mut(width).zip(intercept.chunks_exact_mut(width));
            rows.enumerate().for_each(|(p, (slope, intercept))| work.dense.apply(slope, intercept, levels[l].row(p)));
            if let Some(next) = levels.get_mut(l + 1) {
                next.begin(width);
                next.parents.extend(0..points.len());
                next.lines.slope.resize(slope.len(), 0.0);
                next.lines.intercept.extend(intercept.iter().map(|value| value.max(0.0)));
            }
        }
    }

    /// The piece that holds x.
    pub fn piece(&self, x: T) -> usize {
        self.thresholds.partition_point(|&threshold| threshold < x)
    }

    /// Number of pieces, P.
    pub fn count(&self) -> usize {
        self.thresholds.len() + 1
    }

    /// Adds to `gradient`, an array like `parameters`, the gradient of
    /// `sum_p sum_b d_slope[p][b] slope[p][b] + d_intercept[p][b] intercept[p][b]` by every weight and bias of the
    /// expert. `layers` and `parameters` are those that were compiled; sums are taken in f64 and rounded once.
    pub fn backward(
        &self,
        gradient: &mut [T],
        scratch: &mut Scratch,
        layers: &[Layer],
        parameters: &[T],
        d_slope: &[f64],
        d_intercept: &[f64],
    ) {
        debug_assert_eq!((d_slope.len(), d_intercept.len()), (self.slope.len(), self.intercept.len()));
        scratch.outputs.copy_from(d_slope, d_intercept);
        for (l, layer) in layers.iter().enumerate().rev() {
            let level = &self.levels[l];
            // On a piece of its inputs a layer is one affine map, whatever its own units cut the piece into: sums are
            // joined before they go through the weights.
            let below = l.checked_sub(1).map(|below| &self.levels[below]);
            scratch.layer_backward(layer, &parameters[layer.weight.clone()], level, below);
            add_rounded(&mut gradient[layer.weight.clone()], &scratch.weight);
            add_rounded(&mut gradient[layer.bias.clone()], &scratch.bias);
            std::mem::swap(&mut scratch.outputs, &mut scratch.inputs);
        }
    }
}

fn add_rounded<T: Real>(gradient: &mut [T], sums: &[f64]) {
    gradient.iter_mut().zip(sums).for_each(|(gradient, &sum)| *gradient += T::from_f64(sum));
}

/// The number up to which (inclusive) a unit keeps the state it comes with from minus infinity: off if it rises, on if
/// it falls. At or beyond the ends of all numbers where it never switches; NaN where slope and intercept say nothing.
fn threshold<T: Real>(slope: f64, intercept: f64) -> T {
    // The root rounded to T is one of the two neighbours of the true root, or the root itself. The sign of a fused
    // multiply-add is that of the exact result, so it tells on which side of the root the rounded one lies; a result
    // that underflows to zero counts as off, as in the direct path.
    let root = T::from_f64(-intercept / slope);
    let on = slope.mul_add(root.widen(), intercept) > 0.0;
    let last = if on == (slope < 0.0) { root } else { root.next_down() };
    // One zero only: bits of equal thresholds are equal.
    last + T::zero()
}

impl<T: Real> PieceWork<T> {
    /// Cuts every piece at the roots of the units of the loaded layer, and records the units after ReLU in `next`.
    fn split(&mut self, next: &mut Level, ends: &mut Vec<T>, level: &Level) {
        let PieceWork { dense, ends: next_ends, units, on, crossings } = self;
        let width = dense.biases.len();
        units.reset(width);
        next.begin(width);
        next_ends.clear();
        // Whether the piece pushed last has no unit on.
        let mut idle = false;
        let mut push = |end: T, parent: usize, on: &[bool], units: &Lines| {
            let nothing_on = !on.contains(&true);
            match next_ends.last_mut() {
                // Whatever switched below, later layers see zeros on both sides: one piece.
                Some(last) if idle && nothing_on => *last = end,
                _ => {
                    next_ends.push(end);
                    next.push(parent, on, units);
                }
            }
            idle = nothing_on;
        };
        let mut start = T::neg_infinity();
        for (parent, &end) in ends.iter().enumerate() {
            dense.apply(&mut units.slope, &mut units.intercept, level.row(parent));
            on.clear();
            crossings.clear();
            for (unit, (&slope, &intercept)) in units.slope.iter().zip(&units.intercept).enumerate() {
                if slope == 0.0 {
                    on.push(intercept > 0.0);
                    continue;
                }
                let at = threshold::<T>(slope, intercept);
                on.push(if slope < 0.0 { at > start } else { at <= start });
                if start < at && at < end {
                    crossings.push((at, unit));
                }
            }
            crossings.sort_unstable_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
            for together in crossings.chunk_by(|a, b| a.0 == b.0) {
                push(together[0].0, parent, on, units);
                together.iter().for_each(|&(_, unit)| on[unit] = !on[unit]);
            }
            push(end, parent, on, units);
            start = end;
        }
        std::mem::swap(ends, next_ends);
    }
}

impl Level {
    /// No pieces yet.
    fn begin(&mut self, width: usize) {
        self.width = width;
        self.parents.clear();
        self.lines.reset(0);
    }

    /// One more piece: the line of every unit that is on, zero for the others.
    fn push(&mut self, parent: usize, on: &[bool], units: &Lines) {
        let masked = |(&value, &on): (&f64, &bool)| if on { value } else { 0.0 };
        self.parents.push(parent);
        self.lines.slope.extend(units.slope.iter().zip(on).map(masked));
        self.lines.intercept.extend(units.intercept.iter().zip(on).map(masked));
    }

    /// Lines of all units on a piece.
    fn row(&self, piece: usize) -> (&[f64], &[f64]) {
        self.lines.row(piece, self.width)
    }
}

impl Lines {
    fn reset(&mut self, length: usize) {
        for values in [&mut self.slope, &mut self.intercept] {
            values.clear();
            values.resize(length, 0.0);
        }
    }

    fn copy_from(&mut self, slope: &[f64], intercept: &[f64]) {
        self.slope.clear();
        self.slope.extend_from_slice(slope);
        self.intercept.clear();
        self.intercept.extend_from_slice(intercept);
    }

    fn row(&self, row: usize, width: usize) -> (&[f64], &[f64]) {
        let range = row * width..(row + 1) * width;
        (&self.slope[range.clone()], &self.intercept[range])
    }
}

impl Dense {
    fn load<T: Real>(&mut self, layer: &Layer, parameters: &[T]) {
        let weight = &parameters[layer.weight.clone()];
        self.weights.clear();
        for v in 0..layer.inputs {
            self.weights.extend(weight.iter().skip(v).step_by(layer.inputs).map(|weight| weight.widen()));
        }
        self.biases.clear();
        self.biases.extend(parameters[layer.bias.clone()].iter().map(|bias| bias.widen()));
    }

    /// The layer before ReLU, of inputs that are lines.
    fn apply(&self, slope: &mut [f64], intercept: &mut [f64], inputs: (&[f64], &[f64])) {
        slope.fill(0.0);
        intercept.copy_from_slice(&self.biases);
        let columns = self.weights.chunks_exact(self.biases.len());
        for (column, (&input_slope, &input_intercept)) in columns.zip(inputs.0.iter().zip(inputs.1)) {
            if input_slope == 0.0 && input_intercept == 0.0 {
                continue;
            }
            for ((slope, intercept), &weight) in slope.iter_mut().zip(intercept.iter_mut()).zip(column) {
                *slope += weight * input_slope;
                *intercept += weight * input_intercept;
            }
        }
    }
}

impl Scratch {
    /// From `outputs`: gradients of one layer, and `inputs`, the gradient of the outputs of the layer before on the
    /// pieces of its own inputs, `below` (none before the first).
    fn layer_backward<T: Real>(&mut self, layer: &Layer, weight: &[T], level: &Level, below: Option<&Level>) {
        let Scratch { outputs, inputs, row, weight: d_weight, bias: d_bias } = self;
        d_weight.clear();
        d_weight.resize(weight.len(), 0.0);
        d_bias.clear();
        d_bias.resize(layer.outputs, 0.0);
        inputs.reset(below.map_or(0, |below| below.parents.len() * layer.inputs));
        for (piece, &parent) in level.parents.iter().enumerate() {
            let (input_slope, input_intercept) = level.row(piece);
            let (d_slope, d_intercept) = outputs.row(piece, layer.outputs);
            row.reset(layer.inputs);
            let units = d_weight.chunks_exact_mut(layer.inputs).zip(weight.chunks_exact(layer.inputs));
            for (u, (d_weight, weight)) in units.enumerate() {
                let (d_slope, d_intercept) = (d_slope[u], d_intercept[u]);
                if d_slope == 0.0 && d_intercept == 0.0 {
                    continue;
                }
                d_bias[u] += d_intercept;
                for ((sum, &slope), &intercept) in d_weight.iter_mut().zip(input_slope).zip(input_intercept) {
                    *sum += d_slope * slope + d_intercept * intercept;
                }
                for ((slope, intercept), weight) in row.slope.iter_mut().zip(&mut row.intercept).zip(weight) {
                    *slope += d_slope * weight.widen();
                    *intercept += d_intercept * weight.widen();
                }
            }
            if below.is_some() {
                let range = parent * layer.inputs..(parent + 1) * layer.inputs;
                let sums = inputs.slope[range.clone()].iter_mut().zip(&mut inputs.intercept[range]);
                let lines = input_slope.iter().zip(input_intercept);
                for ((sums, line), (&slope, &intercept)) in sums.zip(lines).zip(row.slope.iter().zip(&row.intercept)) {
                    if *line.0 != 0.0 || *line.1 != 0.0 {
                        *sums.0 += slope;
                        *sums.1 += intercept;
                    }
                }
            }
        }
    }
}
