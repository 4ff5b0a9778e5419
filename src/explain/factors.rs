//! The factors of every term of a prediction, in f64: a readout, a response and a structure.
//!
//! logit(i, class) = beta + sum_k sum_j sum_t w[k,class] theta[t,k] r_t[i,j] f_k(x[j,k]): beta and w are here, f_k is a
//! [`Response`], theta and r_t are a [`Structure`]'s; of a trained HARMONIA model, [`Monb`] and walks.

use super::response::response_of;
use super::structure::structure_of;
use super::{Groups, Monb, Response, Structure};
use crate::architecture::Routes;
use crate::model::FittedModel;
use harmonia_graph::error::{Error, Result};
use std::any::Any;
use std::sync::Arc;

/// What a model multiplies.
#[derive(Clone, Debug)]
pub struct Factors {
    /// beta, L.
    pub bias: Vec<f64>,
    /// w, d x L.
    pub weight: Vec<f64>,
    /// theta, T x d: the structure's, kept here because they are read once per number.
    pub hop_weights: Vec<f64>,
    /// d.
    features: usize,
    response: Arc<dyn Response>,
    structure: Arc<dyn Structure>,
    groups: Arc<Groups>,
}

impl Factors {
    /// Reads a trained model.
    ///
    /// # Errors
    /// Its parameters are not those of a model.
    pub fn of(model: &FittedModel) -> Result<Factors> {
        let widened = |parameters: &[f32]| parameters.iter().map(|&value| f64::from(value)).collect();
        Factors::new(
            widened(&model.layout.intercept_in(&model.parameters)),
            widened(&model.layout.readout_in(&model.parameters)),
            response_of(model)?,
            structure_of(model),
        )
    }

    /// Any additive model: beta (L), w (d x L), f and how it reaches targets.
    ///
    /// # Errors
    /// The sizes do not fit each other.
    pub fn new(
        bias: Vec<f64>,
        weight: Vec<f64>,
        response: Arc<dyn Response>,
        structure: Arc<dyn Structure>,
    ) -> Result<Factors> {
        let (d, outputs, terms) = (response.features(), bias.len(), structure.terms());
        if d == 0 || outputs == 0 || terms == 0 || weight.len() != d * outputs {
            return Err(Error::Data(format!(
                "a model of {d} features, {outputs} outputs and {terms} terms needs {} readout weights, found {}",
                d * outputs,
                weight.len()
            )));
        }
        let hop_weights = (0..terms).flat_map(|t| (0..d).map(move |k| (t, k))).map(|(t, k)| structure.weight(t, k));
        let groups = Arc::new(Groups::single(d));
        Ok(Factors { bias, weight, hop_weights: hop_weights.collect(), features: d, response, structure, groups })
    }

    /// The same, its columns shown by these features.
    pub fn grouped(self, groups: Groups) -> Factors {
        Factors { groups: Arc::new(groups), ..self }
    }

    /// Columns of X that are shown as one feature.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// d, columns of X.
    pub fn features(&self) -> usize {
        self.features
    }

    /// L.
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// T.
    pub fn hops(&self) -> usize {
        self.hop_weights.len() / self.features
    }

    /// theta of one feature at one walk length.
    pub fn theta(&self, t: usize, k: usize) -> f64 {
        self.hop_weights[t * self.features + k]
    }

    /// Sum of theta over walk lengths: what a constant response is multiplied by. 1 on the simplex, up to rounding.
    pub fn total_theta(&self, k: usize) -> f64 {
        self.structure.total(k)
    }

    /// What a response of feature k is multiplied by where all nodes that count have it; see [`Structure::reach`].
    pub fn reach(&self, k: usize) -> f64 {
        self.structure.reach(k)
    }

    /// f_k(x).
    pub fn response(&self, k: usize, x: f64) -> f64 {
        self.response.value(k, x)
    }

    /// f of all features.
    pub fn responses(&self) -> &dyn Response {
        &*self.response
    }

    /// How responses reach targets.
    pub fn structure(&self) -> &dyn Structure {
        &*self.structure
    }

    /// The experts and gates that responses are mixed from; none where they are not, or nothing was to be chosen.
    pub fn monb(&self) -> Option<&Monb> {
        let monb: Option<&Monb> = (self.responses() as &dyn Any).downcast_ref();
        monb.filter(|monb| monb.layout.architecture.routes() == Routes::Learned)
    }
}

const _: () = {
    const fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Factors>();
};
