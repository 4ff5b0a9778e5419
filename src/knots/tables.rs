//! The responses of all features as lines over pieces, and gradients from sums over pieces.
//!
//! f_k(x) = sum_s gate_s a_k . psi_s(x). Where the experts of a feature change piece is decided by the experts alone, so
//! features that use the same experts share one list of thresholds, a [`Combination`]; only the lines differ:
//! f_k(x) = slope x + intercept on each of its pieces. With G0 = sum of g and G1 = sum of g x over the points of each piece,
//! every gradient follows: dgate_s = sum_p a_k . (slope_p G1 + intercept_p G0) and so on, in work that does not grow with
//! nodes.

use super::pieces::{Pieces, Scratch};
use crate::device::Real;
use crate::model::Layout;
use rayon::prelude::*;

/// Features a task handles at least.
const FEATURES: usize = 32;

/// A set of experts, and where any of them changes piece.
#[derive(Clone, Debug, Default)]
pub struct Combination<T> {
    /// Which, increasing.
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

    /// Number of thresholds below x: which piece it lies in. No branch depends on x.
    #[inline(always)]
    pub fn piece(&self, x: T) -> usize {
        let thresholds = &self.thresholds[..];
        let mut step = thresholds.len().div_ceil(2);
        let mut piece = 0;
        while step > 0 {
            piece += if thresholds[piece + step - 1] < x { step } else { 0 };
            step /= 2;
        }
        piece
    }

    /// The thresholds, padded with infinities to one less than a power of two.
    pub fn thresholds(&self) -> &[T] {
        &self.thresholds
    }

    /// Number of pieces.
    pub fn pieces(&self) -> usize {
        self.count
    }
}

/// Everything a step needs to evaluate responses and to turn sums into gradients.
#[derive(Clone, Debug, Default)]
pub struct Tables<T> {
    experts: Vec<Pieces<T>>,
    combinations: Vec<Combination<T>>,
    /// Combination of each feature.
    of_feature: Vec<u32>,
    /// (slope, intercept) of each piece of each feature; d x `stride`.
    lines: Vec<[T; 2]>,
    /// Lines of a feature.
    stride: usize,
    /// d_slope, then d_intercept, of the expert at hand.
    d_pieces: Vec<f64>,
    scratch: Scratch,
}

impl<T: Real> Tables<T> {
    /// Compiles the experts and folds gates and coefficients into lines. Memory is reused.
    pub fn compile(&mut self, routing: &[u32], gates: &[T], parameters: &[T], layout: &Layout) {
        let a = &layout.architecture;
        self.experts.resize_with(a.experts, Pieces::default);
        (self.experts.par_iter_mut().zip(&layout.experts)).for_each(|(pieces, layers)| {
            pieces.compile(layers, parameters);
        });
        self.combine(routing, a.active);
        let Tables { experts, combinations, of_feature, lines, stride, .. } = self;
        *stride = combinations.iter().map(|combination| combination.count).max().unwrap_or(1);
        lines.resize(a.features * *stride, [T::zero(); 2]);
        let coefficients = &parameters[layout.coefficients.clone()];
        let features = lines.par_chunks_mut(*stride).zip(routing.par_chunks(a.active)).zip(gates.par_chunks(a.active));
        features.zip(coefficients.par_chunks(a.bases)).zip(&*of_feature).with_min_len(FEATURES).for_each(
            |((((lines, slots), gates), a_k), &combination)| {
                let combination = &combinations[combination as usize];
                fold(lines, combination, experts, slots, gates, a_k);
            },
        );
    }

    /// Finds the combinations the features use.
    fn combine(&mut self, routing: &[u32], active: usize) {
        let Tables { experts, combinations, of_feature, .. } = self;
        let mut used = 0;
        of_feature.clear();
        for slots in routing.chunks_exact(active) {
            let known = combinations[..used]
                .iter()
                .position(|combination| slots.iter().all(|slot| combination.experts.contains(slot)));
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

    /// Places of a feature's lines, and of its sums.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// All combinations.
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
        let coefficients = &parameters[layout.coefficients.clone()];
        let Tables { experts, combinations, of_feature, stride, d_pieces, scratch, .. } = self;
        let d_coefficients = &mut gradient[layout.coefficients.clone()];
        let features = d_coefficients.par_chunks_mut(bases).zip(d_gates.par_chunks_mut(active));
        let features = features.zip(sums.par_chunks(*stride)).zip(coefficients.par_chunks(bases)).enumerate();
        features.with_min_len(FEATURES).for_each(|(k, (((d_a, d_gates), sums), a_k))| {
            let combination = &combinations[of_feature[k] as usize];
            for (slot, d_gate) in d_gates.iter_mut().enumerate() {
                let expert = routing[k * active + slot];
                let gate = gates[k * active + slot].widen();
                let mut sum = 0.0;
                for (piece, [g1, g0]) in combination.sums(expert, sums) {
                    let [slopes, intercepts] = lines_of(&experts[expert as usize], piece, bases);
                    for b in 0..bases {
                        let value = slopes[b] * g1 + intercepts[b] * g0;
                        sum += a_k[b].widen() * value;
                        d_a[b] += T::from_f64(gate * value);
                    }
                }
                *d_gate = T::from_f64(sum);
            }
        });
        for (c, pieces) in experts.iter().enumerate() {
            let size = pieces.slope.len();
            d_pieces.clear();
            d_pieces.resize(2 * size, 0.0);
            let (d_slope, d_intercept) = d_pieces.split_at_mut(size);
            for (at, _) in routing.iter().enumerate().filter(|&(_, &expert)| expert as usize == c) {
                let k = at / active;
                let (gate, a_k) = (gates[at].widen(), &coefficients[k * bases..][..bases]);
                let combination = &combinations[of_feature[k] as usize];
                for (piece, [g1, g0]) in combination.sums(c as u32, &sums[k * *stride..]) {
                    let (d_slope, d_intercept) = (&mut d_slope[piece * bases..], &mut d_intercept[piece * bases..]);
                    for b in 0..bases {
                        let weight = gate * a_k[b].widen();
                        d_slope[b] += weight * g1;
                        d_intercept[b] += weight * g0;
                    }
                }
            }
            pieces.backward(gradient, scratch, &layout.experts[c], parameters, d_slope, d_intercept);
        }
    }
}

impl<T> Combination<T> {
    /// (piece of an expert, sums) of the merged pieces that any point lies in.
    fn sums<'a>(&'a self, expert: u32, sums: &'a [[f64; 2]]) -> impl Iterator<Item = (usize, [f64; 2])> + 'a {
        let at = self.experts.iter().position(|&own| own == expert).unwrap_or(0);
        let pieces = self.pieces[at * self.count..][..self.count].iter();
        pieces.zip(sums).map(|(&piece, &sum)| (piece as usize, sum)).filter(|(_, [g1, g0])| *g1 != 0.0 || *g0 != 0.0)
    }
}

/// lines = sum over slots of gate * (a_k . slope, a_k . intercept) of the slot's piece.
fn fold<T: Real>(
    lines: &mut [[T; 2]],
    combination: &Combination<T>,
    experts: &[Pieces<T>],
    slots: &[u32],
    gates: &[T],
    a_k: &[T],
) {
    lines.fill([T::zero(); 2]);
    for (&expert, &gate) in slots.iter().zip(gates) {
        let at = combination.experts.iter().position(|&own| own == expert).unwrap_or(0);
        let pieces = &combination.pieces[at * combination.count..][..combination.count];
        let (mut known, mut line) = (u32::MAX, [T::zero(); 2]);
        for (to, &piece) in lines.iter_mut().zip(pieces) {
            if piece != known {
                let dot = |values: &[f64]| values.iter().zip(a_k).map(|(&v, a)| v * a.widen()).sum::<f64>();
                line = lines_of(&experts[expert as usize], piece as usize, a_k.len())
                    .map(|values| T::from_f64(gate.widen() * dot(values)));
                known = piece;
            }
            to[0] += line[0];
            to[1] += line[1];
        }
    }
}

/// Slopes and intercepts of all bases on a piece.
fn lines_of<T>(pieces: &Pieces<T>, piece: usize, bases: usize) -> [&[f64]; 2] {
    [&pieces.slope, &pieces.intercept].map(|values| &values[piece * bases..][..bases])
}
