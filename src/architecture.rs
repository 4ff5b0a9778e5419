//! The sizes of a model and where each parameter lives in the one flat allocation that holds them all.
//!
//! Names are those of checkpoints: `experts.{c}.layers.{l}.weight|bias` (weights are out x in; with batch norm `scale` too), `coefficients`,
//! `embeddings`, `router.gate`, `router.noise`, `hop_logits`, `readout.weight`, `readout.bias`; of other members of the family
//! (`kind.rs`) those of them that they have, and `distance.layers.{l}.weight|bias`, `filter`, or `pairs.hidden.layers.0.weight|bias`
//! and `pairs.scores`. What a model does not learn is no parameter: it is made where it is read.

mod exu;
mod kind;
mod layout;
mod norm;
mod plain;
mod waves;

pub use kind::{Family, Form, Kind, Routes, Spread};
pub use layout::{Layer, Layout, Tensor};
pub use norm::Distribution;
pub use waves::Waves;

use harmonia_graph::error::{Error, Result};
use serde::{Deserialize, Serialize};

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
        let Family { kind, reach, bandwidth, exu, batch_norm } = self.family;
        if batch_norm && kind != Kind::Nbm {
            return Err(Error::Config("model.batch_norm is for model.kind = nbm: leave it out".into()));
        }
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
        let scales = if self.family.batch_norm { self.expert_widths().iter().skip(1).sum::<usize>() } else { 0 };
        let expert: u128 = match self.form() {
            Form::Networks => network(&self.expert_widths()) + scales as u128,
            Form::Fourier => 0,
        };
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
