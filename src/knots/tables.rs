//! The responses of all features as lines over pieces, and gradients from sums over pieces.
//!
//! f_k(x) = sum_s gate_s a_k . psi_s(x). Where the experts of a feature change piece is decided by the experts alone, so
//! features that use the same experts share one list of thresholds, a [`Combination`]; only the lines differ:
//! f_k(x) = slope x + intercept on each of its pieces. With G0 = sum of g and G1 = sum of g x over the points of each piece,
//! every gradient follows: dgate_s = sum_p a_k . (slope_p G1 + intercept_p G0) and so on, in work that does not grow with
//! nodes.

use super::pieces::{Pieces, Scratch};
use crate::architecture::Layout;
use crate::real::Real;
use harmonia_graph::simd::simd;
use rayon::prelude::*;
use std::sync::Arc;

/// Features a task handles at least.
const FEATURES: usize = 32;

/// Thresholds that are compared one by one with every x.
const FEW: usize = 96;
/// Thresholds of a block where there are more.
const BLOCK: usize = 16;

/// A set of experts, and where any of them changes piece.
#[derive(Clone, Debug, Default)]
pub struct Combination<T> {
    /// Their numbers, increasing.
    experts: Vec<u32>,
    /// Merged thresholds, strictly increasing, then infinities up to one less than a power of two.
    thresholds: Vec<T>,
    /// Number of merged pieces.
    count: usize,
    /// Piece of each expert on each merged piece, experts x count.
    pieces: Vec<u32>,
}

impl<T: Real> Combination<T> {
    fn merge(&mut self, compiled: &[Pieces<T>]) {
        let Combination { experts, thresholds, count, pieces } = self;
        thresholds.clear();
        for &c in &*experts {
            thresholds.extend_from_slice(&compiled[c as usize].thresholds);
        }
        // Sorted runs one after the other: a stable sort merges them.
        thresholds.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        thresholds.dedup();
        *count = thresholds.len() + 1;
        pieces.clear();
        for &c in &*experts {
            let own = &compiled[c as usize].thresholds;
            let mut piece = 0;
            pieces.push(0);
            for &threshold in &*thresholds {
                piece += u32::from(own.get(piece as usize) == Some(&threshold));
                pieces.push(piece);
            }
        }
        thresholds.resize(count.next_power_of_two() - 1, T::infinity());
    }

    /// Number of thresholds below x: which piece it lies in.
    #[inline(always)]
    pub fn piece(&self, x: T) -> usize {
        self.pieces_of(&[x; 1])[0] as usize
    }

    /// The pieces of several x at once. No branch depends on x: thresholds are compared one by one with all of them, or,
    /// where there are many, blocks of thresholds first and then those of one block.
    #[inline(always)]
    pub fn pieces_of<const LANES: usize>(&self, x: &[T; LANES]) -> [u32; LANES] {
        let thresholds = &self.thresholds[..self.count - 1];
        if thresholds.len() <= FEW {
            return count_below(thresholds, x);
        }
        let mut pieces = [0; LANES];
        for &last in thresholds[BLOCK - 1..].iter().step_by(BLOCK) {
            for lane in 0..LANES {
                pieces[lane] += u32::from(last < x[lane]);
            }
        }
        for lane in 0..LANES {
            let first = pieces[lane] as usize * BLOCK;
            let mut inside = first as u32;
            // Padding is infinite, so the last block may be read to its end.
            let end = (first + BLOCK).min(self.thresholds.len());
            for &threshold in &self.thresholds[first..end] {
                inside += u32::from(threshold < x[lane]);
            }
            pieces[lane] = inside;
        }
        pieces
    }

    /// The thresholds, padded with infinities to one less than a power of two.
    pub fn thresholds(&self) -> &[T] {
        &self.thresholds
    }

    /// Merged pieces: one more than there are thresholds before the padding.
    pub fn pieces(&self) -> usize {
        self.count
    }
}

/// How many thresholds lie below each x. Best with 64 of them: of 16, the compiler compares each x with many thresholds and
/// then adds up sideways, which takes twice the time.
#[inline(always)]
pub fn count_below<T: Copy + PartialOrd, const LANES: usize>(thresholds: &[T], x: &[T; LANES]) -> [u32; LANES] {
    let mut counts = [0; LANES];
    for &threshold in thresholds {
        for lane in 0..LANES {
            counts[lane] += u32::from(threshold < x[lane]);
        }
    }
    counts
}

/// Everything a step needs to evaluate responses and to turn sums into gradients.
#[derive(Clone, Debug, Default)]
pub struct Tables<T> {
    /// Of each expert, the values that it is looked up at, increasing, where they are known and few; an empty list says nothing.
    pub points: Option<Arc<Vec<Vec<T>>>>,
    experts: Vec<Pieces<T>>,
    combinations: Vec<Combination<T>>,
    /// Combination of each feature.
    of_feature: Vec<u32>,
    /// Slopes and then intercepts of each basis of each expert, all pieces side by side; C x 2 x B x `most`.
    columns: Vec<T>,
    /// Most pieces of an expert.
    most: usize,
    /// Slopes and then intercepts of a_k . psi on each piece of each slot; d x m x 2 x `most`.
    folded: Vec<T>,
    /// (slope, intercept) of each piece of each feature; d x `stride`.
    lines: Vec<[T; 2]>,
    /// Lines of a feature.
    stride: usize,
    work: Vec<TableWork>,
}

/// Working memory of one expert's gradient.
#[derive(Clone, Debug, Default)]
struct TableWork {
    d_slope: Vec<f64>,
    d_intercept: Vec<f64>,
    scratch: Scratch,
}

impl<T: Real> Tables<T> {
    /// Compiles the experts and folds gates and coefficients into lines. Memory is reused.
    pub fn compile(&mut self, routing: &[u32], gates: &[T], parameters: &[T], layout: &Layout) {
        let a = &layout.architecture;
        self.experts.resize_with(a.experts, Pieces::default);
        let points = self.points.as_deref();
        let known = |c: usize| points.and_then(|points| points.get(c)).filter(|points| !points.is_empty());
        self.experts.par_iter_mut().zip(&layout.experts).enumerate().for_each(|(c, (pieces, layers))| match known(c) {
            Some(points) => pieces.compile_at(layers, parameters, points),
            None => pieces.compile(layers, parameters),
        });
        self.combine(routing, a.active);
        self.transpose(a.bases);
        let Tables { experts, combinations, of_feature, columns, most, folded, lines, stride, .. } = self;
        *stride = combinations.iter().map(|combination| combination.count).max().unwrap_or(1);
        lines.resize(a.features * *stride, [T::zero(); 2]);
        folded.resize(routing.len() * 2 * *most, T::zero());
        let coefficients = layout.coefficients_in(parameters);
        let (size, most) = (2 * a.bases * *most, *most);
        let features = lines.par_chunks_mut(*stride).zip(folded.par_chunks_mut(a.active * 2 * most)).enumerate();
        features.with_min_len(FEATURES).for_each(|(k, (lines, folded))| {
            let slots = k * a.active..(k + 1) * a.active;
            let a_k = &coefficients[k * a.bases..][..a.bases];
            let combination = &combinations[of_feature[k] as usize];
            lines.fill([T::zero(); 2]);
            for (slot, folded) in slots.zip(folded.chunks_exact_mut(2 * most)) {
                let (expert, gate) = (routing[slot], gates[slot]);
                let count = experts[expert as usize].count();
                let columns = &columns[expert as usize * size..][..size];
                simd(
                    #[inline(always)]
                    || {
                        fold(folded, columns, a_k, most);
                        combination.add_lines(lines, folded, expert, gate, most, count);
                    },
                );
            }
        });
    }

    /// Fills `columns`.
    fn transpose(&mut self, bases: usize) {
        let Tables { experts, columns, most, .. } = self;
        *most = experts.iter().map(Pieces::count).max().unwrap_or(1);
        columns.resize(experts.len() * 2 * bases * *most, T::zero());
        let most = *most;
        experts.par_iter().zip(columns.par_chunks_exact_mut(2 * bases * most)).for_each(|(pieces, columns)| {
            let (slopes, intercepts) = columns.split_at_mut(bases * most);
            for (to, from) in [(slopes, &pieces.slope), (intercepts, &pieces.intercept)] {
                for (b, to) in to.chunks_exact_mut(most).enumerate() {
                    to.iter_mut().zip(from[b..].iter().step_by(bases)).for_each(|(to, &from)| *to = T::from_f64(from));
                }
            }
        });
    }

    /// Finds the combinations the features use.
    fn combine(&mut self, routing: &[u32], active: usize) {
        let Tables { experts, combinations, of_feature, .. } = self;
        let mut used = 0;
        of_feature.clear();
        for slots in routing.chunks_exact(active) {
            let known = combinations[..used]
                .iter()
                // Copies of a column come one after the other.
                .rposition(|combination| slots.iter().all(|slot| combination.experts.contains(slot)));
            let at = known.unwrap_or_else(|| {
                if used == combinations.len() {
                    combinations.push(Combination::default());
                }
                let combination = &mut combinations[used];
                combination.experts.clear();
                combination.experts.extend_from_slice(slots);
                combination.experts.sort_unstable();
                combination.merge(experts);
                used += 1;
                used - 1
            });
            of_feature.push(at as u32);
        }
        combinations.truncate(used);
    }

    /// The combination of a feature, and its lines.
    #[inline(always)]
    pub fn feature(&self, k: usize) -> (&Combination<T>, &[[T; 2]]) {
        (&self.combinations[self.of_feature[k] as usize], &self.lines[k * self.stride..][..self.stride])
    }

    /// The pieces of one expert.
    pub fn expert(&self, expert: usize) -> &Pieces<T> {
        &self.experts[expert]
    }

    /// Places of a feature's lines, and of its sums.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Every set of experts that some feature uses, once.
    pub fn combinations(&self) -> &[Combination<T>] {
        &self.combinations
    }

    /// Combination of each feature.
    pub fn of_feature(&self) -> &[u32] {
        &self.of_feature
    }

    /// (slope, intercept), d x stride.
    pub fn lines(&self) -> &[[T; 2]] {
        &self.lines
    }

    /// Turns `sums` (G1, G0 of each piece of each feature, d x stride) into gradients: experts and coefficients +=,
    /// `d_gates` =. `routing`, `gates` and `parameters` are those of `compile`.
    #[allow(clippy::too_many_arguments)]
    pub fn finish(
        &mut self,
        gradient: &mut [T],
        d_gates: &mut [T],
        sums: &[[f64; 2]],
        routing: &[u32],
        gates: &[T],
        parameters: &[T],
        layout: &Layout,
    ) {
        let (active, bases) = (layout.architecture.active, layout.architecture.bases);
        let coefficients = layout.coefficients_in(parameters);
        let Tables { experts, combinations, of_feature, folded, most, stride, work, .. } = self;
        let (stride, most) = (*stride, *most);
        let d_coefficients = &mut gradient[layout.coefficients.clone()];
        let features = d_coefficients.par_chunks_mut(bases).zip(d_gates.par_chunks_mut(active));
        features.zip(sums.par_chunks(stride)).enumerate().with_min_len(FEATURES).for_each(
            |(k, ((d_a, d_gates), sums))| {
                let combination = &combinations[of_feature[k] as usize];
                for (slot, d_gate) in d_gates.iter_mut().enumerate() {
                    let at = k * active + slot;
                    let (expert, gate) = (routing[at], gates[at].widen());
                    let folded = &folded[at * 2 * most..][..2 * most];
                    let mut sum = 0.0;
                    for (piece, [g1, g0]) in combination.sums(expert, sums) {
                        sum += folded[piece].widen() * g1 + folded[most + piece].widen() * g0;
                        let [slopes, intercepts] = lines_of(&experts[expert as usize], piece, bases);
                        for b in 0..bases {
                            d_a[b] += T::from_f64(gate * (slopes[b] * g1 + intercepts[b] * g0));
                        }
                    }
                    *d_gate = T::from_f64(sum);
                }
            },
        );
        work.resize_with(experts.len(), TableWork::default);
        let slots = by_expert(routing, experts.len());
        experts.par_iter().zip(&mut *work).enumerate().for_each(|(c, (pieces, work))| {
            let TableWork { d_slope, d_intercept, .. } = work;
            for sums in [&mut *d_slope, &mut *d_intercept] {
                sums.clear();
                sums.resize(pieces.slope.len(), 0.0);
            }
            for &at in &slots[c] {
                let k = at / active;
                let (gate, a_k) = (gates[at].widen(), &coefficients[k * bases..][..bases]);
                let combination = &combinations[of_feature[k] as usize];
                for (piece, [g1, g0]) in combination.sums(c as u32, &sums[k * stride..]) {
                    let (d_slope, d_intercept) = (&mut d_slope[piece * bases..], &mut d_intercept[piece * bases..]);
                    for b in 0..bases {
                        let weight = gate * a_k[b].widen();
                        d_slope[b] += weight * g1;
                        d_intercept[b] += weight * g0;
                    }
                }
            }
        });
        // Experts come first, all of one size: places in one are those in the first, from where it begins.
        let (size, layers) = (layout.expert_size(), &layout.experts[0]);
        let gradients =
            gradient[..size * experts.len()].par_chunks_exact_mut(size).zip(parameters.par_chunks_exact(size));
        gradients.zip(experts.par_iter().zip(work)).for_each(|((gradient, parameters), (pieces, work))| {
            let TableWork { d_slope, d_intercept, scratch } = work;
            pieces.backward(gradient, scratch, layers, parameters, d_slope, d_intercept);
        });
    }
}

impl<T: Real> Combination<T> {
    /// lines += gate * the expert's own lines (2 x most), merged piece by merged piece.
    #[inline(always)]
    fn add_lines(&self, lines: &mut [[T; 2]], folded: &[T], expert: u32, gate: T, most: usize, count: usize) {
        let (slopes, intercepts) = (&folded[..count], &folded[most..][..count]);
        for (line, &piece) in lines.iter_mut().zip(self.pieces_in(expert)) {
            let piece = piece as usize;
            *line = [line[0] + gate * slopes[piece], line[1] + gate * intercepts[piece]];
        }
    }

    /// Piece of an expert on each merged piece.
    #[inline(always)]
    fn pieces_in(&self, expert: u32) -> &[u32] {
        let at = self.experts.iter().position(|&own| own == expert).unwrap_or(0);
        &self.pieces[at * self.count..][..self.count]
    }

    /// (piece of an expert, sums) of the merged pieces that any point lies in.
    fn sums<'a>(&'a self, expert: u32, sums: &'a [[f64; 2]]) -> impl Iterator<Item = (usize, [f64; 2])> + 'a {
        self.pieces_in(expert)
            .iter()
            .zip(sums)
            .map(|(&piece, &sum)| (piece as usize, sum))
            .filter(|(_, [g1, g0])| *g1 != 0.0 || *g0 != 0.0)
    }
}

/// folded (2 x most) = sum over bases of a_k * columns (2 x B x most).
#[inline(always)]
fn fold<T: Real>(folded: &mut [T], columns: &[T], a_k: &[T], most: usize) {
    for (to, columns) in folded.chunks_exact_mut(most).zip(columns.chunks_exact(a_k.len() * most)) {
        to.fill(T::zero());
        for (column, &a) in columns.chunks_exact(most).zip(a_k) {
            to.iter_mut().zip(column).for_each(|(to, &value)| *to = a.mul_add(value, *to));
        }
    }
}

/// Slots of each expert, in order.
fn by_expert(routing: &[u32], experts: usize) -> Vec<Vec<usize>> {
    let mut slots = vec![Vec::new(); experts];
    routing.iter().enumerate().for_each(|(at, &expert)| slots[expert as usize].push(at));
    slots
}

/// Slopes and intercepts of all bases on a piece.
fn lines_of<T>(pieces: &Pieces<T>, piece: usize, bases: usize) -> [&[f64]; 2] {
    [&pieces.slope, &pieces.intercept].map(|values| &values[piece * bases..][..bases])
}
