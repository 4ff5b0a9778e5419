//! Routing of features to experts.
//!
//! Forward   N = e Wn, Q = e Wg + eps * sigmoid(N); top m of Q in each row, ties to the lower expert; pi = sigmoid(Q)
//! Backward  dQ = dpi * pi (1 - pi), dN = dQ * eps * sigmoid(N) (1 - sigmoid(N)) on the chosen entries;
//!           de += dQ Wg^T + dN Wn^T, dWg += e^T dQ, dWn += e^T dN
//! A model without a router has the experts it was made with, gates of one, and nothing to go back to.

use super::{Cpu, Ops};
use crate::architecture::{Layout, Routes};
use crate::device::Routing;
use crate::device::gemm::{View, gemm};
use crate::real::sigmoid;
use harmonia_graph::error::Result;
use rayon::prelude::*;

/// Features a task handles at least.
const FEATURES: usize = 128;

/// experts, gates, noise_scale = ...
pub fn forward<T: Ops>(
    cpu: &Cpu<T>,
    routing: &mut Routing<Cpu<T>>,
    parameters: &[T],
    noise: Option<&Vec<T>>,
    layout: &Layout,
) -> Result<()> {
    let (q, c, m) = sizes(layout);
    let d = layout.architecture.features;
    if layout.architecture.routes() != Routes::Learned {
        // Copies of a column share an expert; a single one has all of them.
        let copies = d / c;
        routing.experts.iter_mut().enumerate().for_each(|(k, expert)| *expert = (k / copies) as u32);
        routing.gates.fill(T::one());
        return Ok(());
    }
    let embeddings = View::new(&parameters[layout.embeddings.clone()], d, q);
    let [mut scores, mut scales] = [(); 2].map(|()| cpu.reals.take(d * c, T::zero()));
    gemm(&mut scores, embeddings, View::new(&parameters[layout.router_gate.clone()], q, c), false);
    gemm(&mut scales, embeddings, View::new(&parameters[layout.router_noise.clone()], q, c), false);
    (routing.experts.par_chunks_mut(m))
        .zip(routing.gates.par_chunks_mut(m))
        .zip(routing.noise_scale.par_chunks_mut(m))
        .zip(scores.par_chunks_mut(c).zip(scales.par_chunks_mut(c)))
        .enumerate()
        .with_min_len(FEATURES)
        .for_each(|(k, (((experts, gates), noise_scale), (scores, scales)))| {
            scales.iter_mut().for_each(|scale| *scale = sigmoid(*scale));
            if let Some(noise) = noise {
                let noise = &noise[k * c..][..c];
                scores.iter_mut().zip(noise).zip(&*scales).for_each(|((score, &eps), &scale)| *score += eps * scale);
            }
            for slot in 0..m {
                // Strictly greater, so a tie stays with the lower index.
                let mut best = usize::MAX;
                for expert in 0..c {
                    let taken = experts[..slot].contains(&(expert as u32));
                    if !taken && (best == usize::MAX || scores[expert] > scores[best]) {
                        best = expert;
                    }
                }
                experts[slot] = best as u32;
                gates[slot] = sigmoid(scores[best]);
                noise_scale[slot] = scales[best];
            }
        });
    Ok(())
}

/// Gradients of embeddings and router += ...
pub fn backward<T: Ops>(
    _: &Cpu<T>,
    gradient: &mut [T],
    d_gates: &[T],
    routing: &Routing<Cpu<T>>,
    parameters: &[T],
    noise: Option<&Vec<T>>,
    layout: &Layout,
) -> Result<()> {
    let (q, c, m) = sizes(layout);
    if layout.architecture.routes() != Routes::Learned {
        return Ok(());
    }
    let one = T::one();
    for (at, &d_gate) in d_gates.iter().enumerate() {
        let (k, expert) = (at / m, routing.experts[at] as usize);
        let (pi, scale) = (routing.gates[at], routing.noise_scale[at]);
        let d_score = d_gate * pi * (one - pi);
        let eps = noise.map_or(T::zero(), |noise| noise[k * c + expert]);
        let d_noise = d_score * eps * scale * (one - scale);
        for j in 0..q {
            let e = layout.embeddings.start + k * q + j;
            let gate = layout.router_gate.start + j * c + expert;
            let noisy = layout.router_noise.start + j * c + expert;
            gradient[e] += d_score * parameters[gate] + d_noise * parameters[noisy];
            gradient[gate] += d_score * parameters[e];
            gradient[noisy] += d_noise * parameters[e];
        }
    }
    Ok(())
}

fn sizes(layout: &Layout) -> (usize, usize, usize) {
    let a = &layout.architecture;
    (a.embedding, a.experts, a.active)
}
