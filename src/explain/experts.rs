//! How the experts of [`Monb`] are used: by which features, and whether two of them do the same. Where responses are not mixed
//! from experts, there are none.

use super::{Factors, Monb};

/// Points at which experts are compared.
const POINTS: usize = 256;
/// Pairs at least this similar are reported.
pub const NEAR: f64 = 0.999;

/// Two experts that span nearly the same functions.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Similar {
    /// The lower number.
    pub a: usize,
    /// The higher number.
    pub b: usize,
    /// 1 for the same.
    pub similarity: f64,
}

/// Features that use each expert.
pub fn used_by(factors: &Factors) -> Vec<usize> {
    let Some(monb) = factors.monb() else { return Vec::new() };
    let mut used = vec![0; monb.layout.architecture.experts];
    monb.routing.iter().for_each(|&expert| used[expert as usize] += 1);
    used
}

/// Gate of each expert for a feature; none for one that it does not use.
pub fn gates(factors: &Factors, k: usize) -> Vec<Option<f64>> {
    let Some(monb) = factors.monb() else { return Vec::new() };
    let (a, mut gates) = (&monb.layout.architecture, vec![None; monb.layout.architecture.experts]);
    for slot in k * a.active..(k + 1) * a.active {
        gates[monb.routing[slot] as usize] = Some(monb.gates[slot]);
    }
    gates
}

/// Pairs of experts whose outputs over `range` are the same up to rotation, scale and a constant: linear centred kernel
/// alignment of [`NEAR`] or more. Coefficients undo any of those, so such a pair offers features no choice. An expert that
/// is constant there is similar to none.
pub fn near_duplicates(factors: &Factors, range: [f64; 2]) -> Vec<Similar> {
    let Some(monb) = factors.monb() else { return Vec::new() };
    let (count, bases) = (monb.layout.architecture.experts, monb.layout.architecture.bases);
    let outputs: Vec<Vec<f64>> = (0..count).map(|expert| centred(monb, expert, range, bases)).collect();
    let kernel = |a: &[f64], b: &[f64]| {
        // |A^T B|_F^2 of points x bases matrices.
        let mut sum = 0.0;
        for i in 0..bases {
            for j in 0..bases {
                let dot: f64 = (0..POINTS).map(|p| a[p * bases + i] * b[p * bases + j]).sum();
                sum += dot * dot;
            }
        }
        sum
    };
    let own: Vec<f64> = outputs.iter().map(|output| kernel(output, output).sqrt()).collect();
    let mut similar = Vec::new();
    for a in 0..count {
        for b in a + 1..count {
            let similarity = kernel(&outputs[a], &outputs[b]) / (own[a] * own[b]);
            if similarity >= NEAR {
                similar.push(Similar { a, b, similarity: similarity.min(1.0) });
            }
        }
    }
    similar
}

/// psi over equally spaced points, each basis with mean zero; points x B.
fn centred(monb: &Monb, expert: usize, [low, high]: [f64; 2], bases: usize) -> Vec<f64> {
    let x = |point: usize| low + (high - low) * point as f64 / (POINTS - 1) as f64;
    let mut values: Vec<f64> = (0..POINTS).flat_map(|point| monb.expert(expert, x(point))).collect();
    for b in 0..bases {
        let mean = values.iter().skip(b).step_by(bases).sum::<f64>() / POINTS as f64;
        values.iter_mut().skip(b).step_by(bases).for_each(|value| *value -= mean);
    }
    values
}
