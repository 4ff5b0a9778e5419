//! The mixture of experts of one feature at one point, as the formulas stand: sum_c pi[k,c] psi_c(x), without noise.
//!
//! For starts of models, which look at a few points; a pass has ops of its own.

use crate::architecture::{Layer, Layout};
use crate::real::Real;

/// The bases that a_k is multiplied with, at x.
pub fn expert_values<T: Real>(parameters: &[T], layout: &Layout, k: usize, x: f64) -> Vec<f64> {
    let a = &layout.architecture;
    let embedding = &parameters[layout.embeddings.start + k * a.embedding..][..a.embedding];
    let router = &parameters[layout.router_gate.clone()];
    let score = |c: usize| -> f64 {
        let column = router.iter().skip(c).step_by(a.experts);
        embedding.iter().zip(column).map(|(e, w)| e.widen() * w.widen()).sum()
    };
    let mut ranked: Vec<(usize, f64)> = (0..a.experts).map(|c| (c, score(c))).collect();
    // Stable: of equals the lower expert.
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut values = vec![0.0; a.bases];
    for &(c, score) in &ranked[..a.active] {
        let gate = 1.0 / (1.0 + (-score).exp());
        let Some((output, hidden)) = layout.experts[c].split_last() else { continue };
        let units = hidden_units(parameters, hidden, x);
        let rows = parameters[output.weight.clone()].chunks_exact(output.inputs).zip(&parameters[output.bias.clone()]);
        for (value, (row, bias)) in values.iter_mut().zip(rows) {
            let psi = row.iter().zip(&units).map(|(w, h)| w.widen() * h).sum::<f64>() + bias.widen();
            *value += gate * psi;
        }
    }
    values
}

/// Last hidden activations at x.
pub fn hidden_units<T: Real>(parameters: &[T], hidden: &[Layer], x: f64) -> Vec<f64> {
    hidden.iter().fold(vec![x], |input, layer| {
        let rows = parameters[layer.weight.clone()].chunks_exact(layer.inputs).zip(&parameters[layer.bias.clone()]);
        rows.map(|(row, bias)| {
            (row.iter().zip(&input).map(|(w, h)| w.widen() * h).sum::<f64>() + bias.widen()).max(0.0)
        })
        .collect()
    })
}
