//! Which additive model it is: how responses are made, how they reach targets, and what reads them.
//!
//! | kind | who answers for a feature | response | reaches targets by | readout |
//! |---|---|---|---|---|
//! | harmonia | a learned mixture of experts | networks | walks | learned |
//! | nbm | one network for all | networks, coefficients learned | itself | learned |
//! | nam | a network of its own | networks | itself | learned |
//! | gp-nam | the same waves for all | Fourier features, coefficients learned | itself | one column per class |
//! | gnan | a network of its own, an output per class | networks | distance shells | one column per class |
//! | g-namrff | the same waves for all | Fourier features, coefficients learned | a filter of the Laplacian | one column per class |
//! | dnn-rrwp | a learned mixture of experts | networks | a network of what walks say of a pair | learned |
//!
//! Where responses differ by class, X has a copy of every column for each class, and the readout, which is not learned, passes
//! each copy to its class. Invariant: nothing outside this file asks for a kind by name to decide what is computed.

use harmonia_graph::error::{Error, Result, suggestion};
use serde::{Deserialize, Serialize};

/// An additive model by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The mixture of neural bases along walks.
    #[default]
    Harmonia,
    /// Neural basis model: one network for all features.
    Nbm,
    /// Neural additive model: a network per feature.
    Nam,
    /// Gaussian processes by random Fourier features.
    GpNam,
    /// Graph neural additive network: distance shells.
    Gnan,
    /// Random Fourier features under a filter of the Laplacian.
    GNamrff,
    /// The mixture of neural bases, each pair of nodes weighed by a network of its walk probabilities.
    DnnRrwp,
}

/// Who answers for a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routes {
    /// The experts that a router chooses.
    Learned,
    /// The only one there is.
    Single,
    /// One of its own, which copies of a column share.
    Own,
}

/// What responses are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// ReLU networks: made of lines.
    Networks,
    /// Cosines: smooth.
    Fourier,
}

/// How responses reach targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Along walks, of which each length counts for each feature as it learns.
    Walks,
    /// A node speaks for itself alone: walks of no step.
    Itself,
    /// By means over the nodes at each distance.
    Shells,
    /// By powers of the normalised Laplacian.
    Filter,
    /// From every node of the graph, by a network of the walk probabilities of the pair.
    Pairs,
}

impl Kind {
    /// All, the default first.
    pub const ALL: [Kind; 7] =
        [Kind::Harmonia, Kind::Nbm, Kind::Nam, Kind::GpNam, Kind::Gnan, Kind::GNamrff, Kind::DnnRrwp];

    /// As settings and checkpoints have it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Harmonia => "harmonia",
            Kind::Nbm => "nbm",
            Kind::Nam => "nam",
            Kind::GpNam => "gp-nam",
            Kind::Gnan => "gnan",
            Kind::GNamrff => "g-namrff",
            Kind::DnnRrwp => "dnn-rrwp",
        }
    }

    /// The kind a user named.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn named(name: &str) -> Result<Kind> {
        let names = Kind::ALL.map(Kind::name);
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let close = suggestion(name, names);
            Error::Config(format!("model.kind is `{name}`{close}; expected {}", names.join(", ")))
        })
    }

    /// Who answers for a feature.
    pub fn routes(self) -> Routes {
        match self {
            Kind::Harmonia | Kind::DnnRrwp => Routes::Learned,
            Kind::Nbm | Kind::GpNam | Kind::GNamrff => Routes::Single,
            Kind::Nam | Kind::Gnan => Routes::Own,
        }
    }

    /// What responses are made of.
    pub fn form(self) -> Form {
        match self {
            Kind::Harmonia | Kind::Nbm | Kind::Nam | Kind::Gnan | Kind::DnnRrwp => Form::Networks,
            Kind::GpNam | Kind::GNamrff => Form::Fourier,
        }
    }

    /// How responses reach targets.
    pub fn spread(self) -> Spread {
        match self {
            Kind::Harmonia => Spread::Walks,
            Kind::Nbm | Kind::Nam | Kind::GpNam => Spread::Itself,
            Kind::Gnan => Spread::Shells,
            Kind::GNamrff => Spread::Filter,
            Kind::DnnRrwp => Spread::Pairs,
        }
    }

    /// Whether features weigh bases by coefficients of their own; else a copy of a column takes the basis of its class.
    pub fn has_coefficients(self) -> bool {
        self.routes() != Routes::Own
    }

    /// Whether features weigh the terms of the structure, each as it learns.
    pub fn has_hop_weights(self) -> bool {
        matches!(self.spread(), Spread::Walks | Spread::Pairs)
    }

    /// Whether every class has a response of its own to a feature, and a column of X; there is no readout to learn then.
    pub fn is_per_class(self) -> bool {
        matches!(self, Kind::GpNam | Kind::Gnan | Kind::GNamrff)
    }

    /// Whether logits have an intercept.
    pub fn has_intercept(self) -> bool {
        !matches!(self, Kind::Gnan | Kind::GNamrff)
    }

    /// Copies of every column that a model of so many outputs reads.
    pub fn copies(self, outputs: usize) -> usize {
        if self.is_per_class() { outputs } else { 1 }
    }

    /// Whether there are kernels for it.
    pub fn has_kernels(self) -> bool {
        matches!(self, Kind::Harmonia | Kind::Nbm)
    }
}

/// What an architecture has beside the sizes of HARMONIA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Family {
    /// Which model.
    pub kind: Kind,
    /// Of distance shells, the largest distance that counts; of a filter, its highest power; of pairs, the longest walk.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reach: usize,
    /// Of Fourier features, the length on which responses vary; 0 of others.
    #[serde(default, skip_serializing_if = "is_none")]
    pub bandwidth: f64,
    /// Whether first layers are of units clip(exp(w) (x - c), 0, 1), as NAM has them beside plain ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exu: bool,
    /// Whether there is batch norm behind every layer, as NBM has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub batch_norm: bool,
}

/// A bandwidth is a number: [`Architecture::check`](super::Architecture::check) refuses others.
impl Eq for Family {}

impl Family {
    /// Whether it says nothing.
    pub fn is_harmonia(&self) -> bool {
        self.kind == Kind::Harmonia
    }
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

fn is_none(value: &f64) -> bool {
    *value == 0.0
}
