//! The sizes of a model and where each parameter lives in the one flat allocation that holds them all.
//!
//! Names are those of checkpoints: `experts.{c}.layers.{l}.weight|bias` (weights are out x in), `coefficients`,
//! `embeddings`, `router.gate`, `router.noise`, `hop_logits`, `readout.weight`, `readout.bias`; of other members of the family
//! (`kind.rs`) those of them that they have, and `distance.layers.{l}.weight|bias`, `filter`, or `pairs.hidden.layers.0.weight|bias`
//! and `pairs.scores`. What a model does not learn is no parameter: it is made where it is read.

mod exu;
mod kind;
mod waves;

pub use kind::{Family, Form, Kind, Routes, Spread};
pub use waves::Waves;

use crate::real::Real;
use harmonia_graph::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
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
/// Farther distances, and higher powers, too.
const MOST_REACH: usize = 1 << 16;
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
    /// T, walk lengths 0..T-1; of pairs, the hidden units of their network, and one for its bias.
    pub hops: usize,
    /// Constraint on hop weights.
    pub hop_weights: HopWeights,
    /// Which additive model, where it is not HARMONIA.
    #[serde(default, skip_serializing_if = "Family::is_harmonia")]
    pub family: Family,
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
            ("model.embedding", if self.routes() == Routes::Learned { self.embedding } else { 1 }),
            match self.spread() {
                Spread::Pairs => ("model.pair_hidden", self.hops.saturating_sub(1)),
                _ => ("model.hops", self.hops),
            },
            ("model.active", self.active),
            ("the number of features", self.features),
            ("the number of outputs", self.outputs),
        ];
        for (name, value) in positive.into_iter().chain(self.hidden.iter().map(|&width| ("model.hidden", width))) {
            if value == 0 || value > 1 << 24 {
                return Err(Error::Config(format!("{name} is {value}; it must be between 1 and {}", 1 << 24)));
            }
        }
        let Family { kind, reach, bandwidth, exu } = self.family;
        if exu && (kind != Kind::Nam || self.hidden.is_empty()) {
            return Err(Error::Config("model.exu is for model.kind = nam with a hidden layer: leave it out".into()));
        }
        if kind.form() == Form::Fourier && !(bandwidth.is_finite() && bandwidth > 0.0) {
            return Err(Error::Config(format!("model.bandwidth is {bandwidth}; expected a number above 0")));
        }
        if reach > MOST_REACH {
            return Err(Error::Config(format!(
                "the reach of {} is {reach}; at most {MOST_REACH} is supported",
                kind.name()
            )));
        }
        let copies = kind.copies(self.outputs);
        let fits = match self.routes() {
            Routes::Learned => true,
            Routes::Single => self.experts == 1,
            Routes::Own => self.experts.checked_mul(copies) == Some(self.features) && self.bases == copies,
        };
        if !(fits
            && self.features.is_multiple_of(copies)
            && (kind.routes() == Routes::Learned || self.active * self.hops == 1))
        {
            return Err(Error::Config(format!(
                "sizes are not those of a {} of {} columns and {} outputs",
                kind.name(),
                self.features,
                self.outputs
            )));
        }
        let total = self.parameters();
        let own = if self.routes() == Routes::Own { self.features } else { 0 };
        if total > MOST_PARAMETERS || self.experts > MOST_EXPERTS.max(own) {
            return Err(Error::Config(format!(
                "the model would have {total} parameters in {} experts; at most {MOST_PARAMETERS} in {MOST_EXPERTS} are \
                 supported, lower model.hidden, model.bases or model.experts",
                self.experts
            )));
        }
        if (self.hidden.len() + 1).saturating_mul(self.experts) > MOST_LAYERS.max(8 * own) {
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
        let network = |widths: &[usize]| widths.windows(2).map(|pair| (pair[0] as u128 + 1) * pair[1] as u128).sum();
        let expert: u128 = if self.form() == Form::Networks { network(&self.expert_widths()) } else { 0 };
        let kind = self.family.kind;
        let sizes = |present: bool, size: usize| if present { size as u128 } else { 0 };
        let learned = self.routes() == Routes::Learned;
        let per_feature = sizes(kind.has_coefficients(), self.bases)
            + sizes(learned, self.embedding)
            + sizes(kind.has_hop_weights(), self.hops)
            + sizes(!kind.is_per_class(), self.outputs);
        let of_experts = self.experts as u128 * (expert + 2 * sizes(learned, self.embedding));
        let of_structure: u128 = match kind.spread() {
            Spread::Walks | Spread::Itself => 0,
            Spread::Shells => network(&self.distance_widths()),
            Spread::Filter => self.family.reach as u128 + 1,
            Spread::Pairs => network(&self.pair_widths()),
        };
        let intercept = sizes(kind.has_intercept(), self.outputs);
        of_experts + self.features as u128 * per_feature + of_structure + intercept
    }

    /// Who answers for a feature.
    pub fn routes(&self) -> Routes {
        self.family.kind.routes()
    }

    /// What responses are made of.
    pub fn form(&self) -> Form {
        self.family.kind.form()
    }

    /// How responses reach targets.
    pub fn spread(&self) -> Spread {
        self.family.kind.spread()
    }

    /// Walk lengths that nodes may be weighed by in advance; 0 where responses reach targets otherwise than by walks.
    pub fn walk_lengths(&self) -> usize {
        match self.spread() {
            Spread::Walks | Spread::Itself => self.hops,
            Spread::Shells | Spread::Filter | Spread::Pairs => 0,
        }
    }

    /// Walk lengths by which nodes are near enough to the rows that are scored to count for them in a step; where responses do not
    /// walk, the structure looks for itself.
    pub fn scoped_hops(&self) -> usize {
        if self.spread() == Spread::Pairs { 1 } else { self.hops }
    }

    /// Whether a feature is one column whose responses walk by themselves: importances can be had of all nodes at once.
    pub fn walks_by_feature(&self) -> bool {
        self.walk_lengths() > 0 && !self.family.kind.is_per_class()
    }

    /// Widths of the network of the distance.
    pub fn distance_widths(&self) -> Vec<usize> {
        std::iter::once(1).chain(self.hidden.iter().copied()).chain([1]).collect()
    }

    /// Widths of the hidden layer of the network of pairs: T walk probabilities to its units.
    pub fn pair_widths(&self) -> Vec<usize> {
        vec![self.family.reach.saturating_add(1), self.hops.saturating_sub(1)]
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
    /// alpha: T x d; of pairs, the output layer of their network, its biases in the last row.
    pub hop_logits: Range<usize>,
    /// rho: layers of the network of the distance, or the hidden layer of that of pairs; none where responses reach targets
    /// otherwise.
    pub distance: Vec<Layer>,
    /// h: weights of the powers of the Laplacian.
    pub filter: Range<usize>,
    /// Wo: d x L; empty where it is not learned, see [`Layout::readout_in`].
    pub readout_weight: Range<usize>,
    /// beta: L; empty where there is none.
    pub readout_bias: Range<usize>,
    /// Training only: the basis U (T x T) that free hop weights are learned in, theta = U alpha. A model that is saved has
    /// theta itself.
    pub hop_basis: Option<Vec<f64>>,
    /// Training only: what the mean square of responses costs.
    pub output_penalty: f64,
    /// Where first layers are not of ReLU units: the same model of ReLU units alone, see `exu.rs`.
    plain: Option<Box<Layout>>,
    tensors: Vec<Tensor>,
}

impl Layout {
    /// Lays out the parameters of an architecture.
    ///
    /// # Errors
    /// Sizes out of range (see [`Architecture::check`]).
    pub fn new(architecture: Architecture) -> Result<Layout> {
        architecture.check()?;
        let plain = architecture.plain().map(Layout::new).transpose()?.map(Box::new);
        let mut tensors: Vec<Tensor> = Vec::new();
        // What a model does not have has no tensor, and an empty range where it would be.
        let mut add = |present: bool, name: String, shape: &[usize]| {
            let start = tensors.last().map_or(0, |t| t.range.end);
            let range = start..start + if present { shape.iter().product::<usize>() } else { 0 };
            if present {
                tensors.push(Tensor { name, shape: shape.to_vec(), range: range.clone() });
            }
            range
        };
        let Architecture { features: d, outputs, experts: c, bases, embedding: q, hops, .. } = architecture;
        let kind = architecture.family.kind;
        let mut network = |name: String, widths: &[usize]| -> Vec<Layer> {
            (widths.windows(2).enumerate())
                .map(|(l, pair)| Layer {
                    inputs: pair[0],
                    outputs: pair[1],
                    weight: add(true, format!("{name}.layers.{l}.weight"), &[pair[1], pair[0]]),
                    bias: add(true, format!("{name}.layers.{l}.bias"), &[pair[1]]),
                })
                .collect()
        };
        let widths = architecture.expert_widths();
        let experts = match architecture.form() {
            Form::Networks => (0..c).map(|c| network(format!("experts.{c}"), &widths)).collect(),
            Form::Fourier => Vec::new(),
        };
        // Behind the experts, whose parameters come first.
        let distance = match kind.spread() {
            Spread::Shells => network("distance".into(), &architecture.distance_widths()),
            Spread::Pairs => network("pairs.hidden".into(), &architecture.pair_widths()),
            Spread::Walks | Spread::Itself | Spread::Filter => Vec::new(),
        };
        let learned = kind.routes() == Routes::Learned;
        let coefficients = add(kind.has_coefficients(), "coefficients".into(), &[d, bases]);
        let embeddings = add(learned, "embeddings".into(), &[d, q]);
        let router_gate = add(learned, "router.gate".into(), &[q, c]);
        let router_noise = add(learned, "router.noise".into(), &[q, c]);
        let weights = if kind.spread() == Spread::Pairs { "pairs.scores" } else { "hop_logits" };
        let hop_logits = add(kind.has_hop_weights(), weights.into(), &[hops, d]);
        let filter = add(kind.spread() == Spread::Filter, "filter".into(), &[architecture.family.reach + 1]);
        let readout_weight = add(!kind.is_per_class(), "readout.weight".into(), &[d, outputs]);
        let readout_bias = add(kind.has_intercept(), "readout.bias".into(), &[outputs]);
        Ok(Layout {
            architecture,
            experts,
            coefficients,
            embeddings,
            router_gate,
            router_noise,
            hop_logits,
            distance,
            filter,
            readout_weight,
            readout_bias,
            hop_basis: None,
            output_penalty: 0.0,
            plain,
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

    /// (group, parameters), for people, of the groups that there are.
    pub fn counts(&self) -> Vec<(&'static str, usize)> {
        let distance = self.distance.iter().map(|layer| layer.weight.len() + layer.bias.len()).sum::<usize>();
        let pairs = self.architecture.spread() == Spread::Pairs;
        let all = [
            ("experts", self.coefficients.start - distance),
            (if pairs { "hidden units of pairs" } else { "distance" }, distance),
            ("coefficients", self.coefficients.len()),
            ("embeddings", self.embeddings.len()),
            ("router", self.router_gate.len() + self.router_noise.len()),
            (if pairs { "scores of pairs" } else { "hop logits" }, self.hop_logits.len()),
            ("filter", self.filter.len()),
            ("readout", self.readout_weight.len() + self.readout_bias.len()),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// What the structure learns beside hop weights: the network of the distance, the filter, or the hidden layer of pairs.
    pub fn structure(&self) -> Range<usize> {
        match (self.distance.first(), self.distance.last()) {
            (Some(first), Some(last)) => first.weight.start..last.bias.end,
            _ => self.filter.clone(),
        }
    }

    /// The layers of that network, in a slice of [`Layout::structure`].
    pub fn distance_layers(&self) -> Vec<Layer> {
        let start = self.structure().start;
        let moved = |range: &Range<usize>| range.start - start..range.end - start;
        let layers = self.distance.iter();
        layers.map(|layer| Layer { weight: moved(&layer.weight), bias: moved(&layer.bias), ..layer.clone() }).collect()
    }

    /// Parameters of one expert.
    pub fn expert_size(&self) -> usize {
        let layers = self.experts.first().map_or(&[][..], Vec::as_slice);
        layers.iter().map(|layer| layer.weight.len() + layer.bias.len()).sum()
    }

    /// a, d x B: learned, or the basis of its class for every copy of a column.
    pub fn coefficients_in<'p, T: Real>(&self, parameters: &'p [T]) -> Cow<'p, [T]> {
        let bases = self.architecture.bases;
        match self.architecture.family.kind.has_coefficients() {
            true => Cow::Borrowed(&parameters[self.coefficients.clone()]),
            false => Cow::Owned(self.own_class(bases)),
        }
    }

    /// Wo, d x L: learned, or one for the class that a copy of a column is of.
    pub fn readout_in<'p, T: Real>(&self, parameters: &'p [T]) -> Cow<'p, [T]> {
        match self.architecture.family.kind.is_per_class() {
            false => Cow::Borrowed(&parameters[self.readout_weight.clone()]),
            true => Cow::Owned(self.own_class(self.architecture.outputs)),
        }
    }

    /// beta, L: learned, or zero.
    pub fn intercept_in<'p, T: Real>(&self, parameters: &'p [T]) -> Cow<'p, [T]> {
        match self.architecture.family.kind.has_intercept() {
            true => Cow::Borrowed(&parameters[self.readout_bias.clone()]),
            false => Cow::Owned(vec![T::zero(); self.architecture.outputs]),
        }
    }

    /// d x `width`: 1 where the row is a copy for the column.
    fn own_class<T: Real>(&self, width: usize) -> Vec<T> {
        let mut rows = vec![T::zero(); self.architecture.features * width];
        rows.chunks_exact_mut(width).enumerate().for_each(|(row, values)| values[row % width] = T::one());
        rows
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
            family: Default::default(),
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
