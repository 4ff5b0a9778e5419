//! Where each parameter lives in the one flat allocation that holds them all.

use super::norm::Distribution;
use super::{Architecture, Form, Routes, Spread};
use crate::real::Real;
use harmonia_graph::error::Result;
use std::borrow::Cow;
use std::ops::Range;

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
    /// gamma of each layer of the network, where there is batch norm; its biases are beta then.
    pub norm_scales: Vec<Range<usize>>,
    /// Training only, of batch norm: the numbers that means and variances are of.
    pub distribution: Distribution,
    /// Where networks are not of ReLU units alone: the same model of those, see `plain.rs`.
    pub(super) plain: Option<Box<Layout>>,
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
        let normalised = experts.iter().flatten().filter(|_| architecture.family.batch_norm).enumerate();
        let norm_scales: Vec<Range<usize>> =
            normalised.map(|(l, layer)| add(true, format!("experts.0.layers.{l}.scale"), &[layer.outputs])).collect();
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
            norm_scales,
            distribution: Distribution::default(),
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
