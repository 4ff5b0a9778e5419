//! The sizes of a model and where each parameter lives in the one flat allocation that holds them all.
//!
//! Names are those of checkpoints: `experts.{c}.layers.{l}.weight|bias` (weights are out x in), `coefficients`,
//! `embeddings`, `router.gate`, `router.noise`, `hop_logits`, `readout.weight`, `readout.bias`.

use harmonia_graph::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How hop weights theta come from hop logits alpha.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HopWeights {
    /// theta = (alpha^2 + 1e-8), normalised over walk lengths: non-negative, summing to one.
    #[default]
    Simplex,
    /// The same set of weights by theta = |alpha|, normalised: its slope does not vanish where a weight is zero, so that an
    /// optimizer can leave that place again.
    Absolute,
    /// theta = alpha, normalised so that the |theta| sum to one: a difference of two sets of weights. Lengths may count
    /// against a class, and the size of theta is still fixed, so that responses have a scale.
    Signed,
    /// theta = alpha (the paper's ablation).
    Free,
}

/// Larger models are taken for a typing error.
const MOST_PARAMETERS: u128 = 1 << 32;
/// More experts, too.
const MOST_EXPERTS: usize = 1 << 16;
/// More layers of all experts together, too: each has a name and a place.
const MOST_LAYERS: usize = 1 << 18;

/// All sizes of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Architecture {
    /// d, input features.
    pub features: usize,
    /// L, outputs: classes, or 1 for a binary task.
    pub outputs: usize,
    /// C, experts.
    pub experts: usize,
    /// m, experts each feature uses.
    pub active: usize,
    /// B, basis functions of each expert.
    pub bases: usize,
    /// Hidden widths of each expert.
    pub hidden: Vec<usize>,
    /// q, width of feature embeddings.
    pub embedding: usize,
    /// T, walk lengths 0..T-1.
    pub hops: usize,
    /// Constraint on hop weights.
    pub hop_weights: HopWeights,
}

impl Architecture {
    /// Refuses sizes no model can have.
    ///
    /// # Errors
    /// The first size out of range, by its configuration key.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("model.experts", self.experts),
            ("model.bases", self.bases),
            ("model.embedding", self.embedding),
            ("model.hops", self.hops),
            ("model.active", self.active),
            ("the number of features", self.features),
            ("the number of outputs", self.outputs),
        ];
        for (name, value) in positive.into_iter().chain(self.hidden.iter().map(|&width| ("model.hidden", width))) {
            if value == 0 || value > 1 << 24 {
                return Err(Error::Config(format!("{name} is {value}; it must be between 1 and {}", 1 << 24)));
            }
        }
        let total = self.parameters();
        if total > MOST_PARAMETERS || self.experts > MOST_EXPERTS {
            return Err(Error::Config(format!(
                "the model would have {total} parameters in {} experts; at most {MOST_PARAMETERS} in {MOST_EXPERTS} are \
                 supported, lower model.hidden, model.bases or model.experts",
                self.experts
            )));
        }
        if (self.hidden.len() + 1).saturating_mul(self.experts) > MOST_LAYERS {
            return Err(Error::Config(format!(
                "model.hidden has {} layers for each of {} experts; at most {MOST_LAYERS} in all are supported",
                self.hidden.len(),
                self.experts
            )));
        }
        if self.active > self.experts {
            return Err(Error::Config(format!(
                "model.active is {} but there are only {} experts (model.experts)",
                self.active, self.experts
            )));
        }
        Ok(())
    }

    /// Numbers that a model of these sizes has, without making any of them.
    pub fn parameters(&self) -> u128 {
        let expert: u128 = self.expert_widths().windows(2).map(|pair| (pair[0] as u128 + 1) * pair[1] as u128).sum();
        let per_feature = self.bases as u128 + self.embedding as u128 + self.hops as u128 + self.outputs as u128;
        let of_experts = self.experts as u128 * (expert + 2 * self.embedding as u128);
        of_experts + self.features as u128 * per_feature + self.outputs as u128
    }

    /// Widths of an expert from input to output: 1, hidden..., B.
    pub fn expert_widths(&self) -> Vec<usize> {
        std::iter::once(1).chain(self.hidden.iter().copied()).chain([self.bases]).collect()
    }
}

/// A named tensor inside the flat parameter array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Checkpoint name.
    pub name: String,
    /// Row-major shape.
    pub shape: Vec<usize>,
    /// Where its elements are among all parameters.
    pub range: Range<usize>,
}

/// One dense layer of an expert.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Input width.
    pub inputs: usize,
    /// Output width.
    pub outputs: usize,
    /// outputs x inputs.
    pub weight: Range<usize>,
    /// outputs.
    pub bias: Range<usize>,
}

/// Where every parameter is.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The sizes it was made for.
    pub architecture: Architecture,
    /// Layers of each expert, input to output.
    pub experts: Vec<Vec<Layer>>,
    /// a: d x B.
    pub coefficients: Range<usize>,
    /// e: d x q.
    pub embeddings: Range<usize>,
    /// Wg: q x C.
    pub router_gate: Range<usize>,
    /// Wn: q x C.
    pub router_noise: Range<usize>,
    /// alpha: T x d.
    pub hop_logits: Range<usize>,
    /// Wo: d x L.
    pub readout_weight: Range<usize>,
    /// beta: L.
    pub readout_bias: Range<usize>,
    /// Training only: the basis U (T x T) that free hop weights are learned in, theta = U alpha. A model that is saved has
    /// theta itself.
    pub hop_basis: Option<Vec<f64>>,
    tensors: Vec<Tensor>,
}

impl Layout {
    /// Lays out the parameters of an architecture.
    ///
    /// # Errors
    /// Sizes out of range (see [`Architecture::check`]).
    pub fn new(architecture: Architecture) -> Result<Layout> {
        architecture.check()?;
        let mut tensors: Vec<Tensor> = Vec::new();
        let mut add = |name: String, shape: &[usize]| {
            let start = tensors.last().map_or(0, |t| t.range.end);
            let range = start..start + shape.iter().product::<usize>();
            tensors.push(Tensor { name, shape: shape.to_vec(), range: range.clone() });
            range
        };
        let Architecture { features: d, outputs, experts: c, bases, embedding: q, hops, .. } = architecture;
        let widths = architecture.expert_widths();
        let experts = (0..c)
            .map(|c| {
                (widths.windows(2).enumerate())
                    .map(|(l, pair)| Layer {
                        inputs: pair[0],
                        outputs: pair[1],
                        weight: add(format!("experts.{c}.layers.{l}.weight"), &[pair[1], pair[0]]),
                        bias: add(format!("experts.{c}.layers.{l}.bias"), &[pair[1]]),
                    })
                    .collect()
            })
            .collect();
        let coefficients = add("coefficients".into(), &[d, bases]);
        let embeddings = add("embeddings".into(), &[d, q]);
        let router_gate = add("router.gate".into(), &[q, c]);
        let router_noise = add("router.noise".into(), &[q, c]);
        let hop_logits = add("hop_logits".into(), &[hops, d]);
        let readout_weight = add("readout.weight".into(), &[d, outputs]);
        let readout_bias = add("readout.bias".into(), &[outputs]);
        Ok(Layout {
            architecture,
            experts,
            coefficients,
            embeddings,
            router_gate,
            router_noise,
            hop_logits,
            readout_weight,
            readout_bias,
            hop_basis: None,
            tensors,
        })
    }

    /// Parameters of all tensors.
    pub fn len(&self) -> usize {
        self.readout_bias.end
    }

    /// Never true: every model has parameters.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Every tensor in order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// (group, parameters), for people: experts, coefficients, embeddings, router, hop logits, readout.
    pub fn counts(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("experts", self.coefficients.start),
            ("coefficients", self.coefficients.len()),
            ("embeddings", self.embeddings.len()),
            ("router", self.router_gate.len() + self.router_noise.len()),
            ("hop logits", self.hop_logits.len()),
            ("readout", self.readout_weight.len() + self.readout_bias.len()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cora() -> Architecture {
        Architecture {
            features: 1433,
            outputs: 7,
            experts: 5,
            active: 2,
            bases: 8,
            hidden: vec![16, 8],
            embedding: 32,
            hops: 8,
            hop_weights: HopWeights::Simplex,
        }
    }

    #[test]
    fn the_count_is_the_formula_of_the_design() {
        let a = cora();
        let layout = Layout::new(a.clone()).unwrap();
        let expert = (1 + 1) * 16 + (16 + 1) * 8 + (8 + 1) * 8;
        let formula = a.experts * expert
            + 2 * a.embedding * a.experts
            + a.features * (a.bases + a.embedding + a.hops + a.outputs)
            + a.outputs;
        assert_eq!(layout.len(), formula);
        assert_eq!(a.parameters(), formula as u128);
        assert_eq!(layout.counts().iter().map(|(_, count)| count).sum::<usize>(), formula);
        assert_eq!(layout.tensors().last().unwrap().range.end, formula);
    }

    #[test]
    fn impossible_sizes_name_their_key() {
        let error = Layout::new(Architecture { active: 6, ..cora() }).unwrap_err().to_string();
        assert!(error.contains("model.active is 6"), "{error}");
        let error = Layout::new(Architecture { hidden: vec![1 << 24, 1 << 24], ..cora() }).unwrap_err().to_string();
        assert!(error.contains("parameters"), "{error}");
        let error = Layout::new(Architecture { experts: 65536, hidden: vec![1; 2000], ..cora() }).unwrap_err();
        assert!(error.to_string().contains("model.hidden has 2000 layers"), "{error}");
        let error = Layout::new(Architecture { hidden: vec![16, 0], ..cora() }).unwrap_err().to_string();
        assert!(error.contains("model.hidden"), "{error}");
    }
}
