//! What a graph lets hop weights say, before any training and after it.
//!
//! A model weighs walk lengths t = 0, ..., T-1. Whether those weights mean anything depends on the walk alone:
//!
//! - [`conditioning`]: are I, M, ..., M^{T-1} independent, and how far apart are they (gamma_T)?
//! - [`horizon`]: from which t on does one more step change nothing of note (D_t, H_epsilon)?
//! - [`spectrum`]: the eigenvalues both rest on; [`components`]: where the walk falls apart or alternates.
//! - [`spectral`]: what the hop weights of a trained model do to slow and fast modes.
//!
//! Invariant: the same graph, walk and options give the same bits, on any number of threads.

mod basis;
pub mod components;
pub mod conditioning;
pub(crate) mod dense;
pub mod horizon;
mod lanczos;
mod matrix;
pub mod spectral;
pub mod spectrum;
mod text;

pub use components::{ComponentSize, ComponentSummary, Components};
pub use conditioning::{Conditioning, Estimate, Independence, Verdict};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::{Graph, Transition, Walk};
use harmonia_graph::watch::Watch;
pub use horizon::{Bracket, Decay, Distance, Horizon, Interval, Modes};
use matrix::Matrix;
use serde::Serialize;
pub use spectral::{Reading, SpectralResponse, SpectralResponses};
pub use spectrum::{Distinct, End, Spectrum};

/// epsilon where nothing else is said.
pub const DEFAULT_EPSILON: f64 = 0.01;
/// T where no model says it.
pub const DEFAULT_HOPS: usize = 8;
/// Probes of a graph that is too large for exact sums. Their relative error on large graphs is far below one percent.
pub const DEFAULT_PROBES: usize = 32;
/// More walk lengths than this are taken for a typing error.
pub const MOST_HOPS: usize = 256;
/// More probes than this are taken for a typing error, too.
pub const MOST_PROBES: usize = 1 << 16;

/// What to compute, and how much may be spent on it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Resolution: a step that changes the operator by no more does not count.
    pub epsilon: f64,
    /// T, walk lengths 0..T-1.
    pub hops: usize,
    /// Seed of probes and starting vectors.
    pub seed: u64,
    /// Random probes where G is estimated, at least 2.
    pub probes: usize,
    /// Components up to this size have all their eigenvalues computed, as far as that takes seconds.
    pub dense_nodes: usize,
    /// Multiply-adds that may be spent on exact Gram matrices; 0: every component of several nodes is probed.
    pub exact_work: u64,
    /// An end of a spectrum has converged when its residual is below this times its distance from +-1.
    pub tolerance: f64,
    /// Products with the matrix of one component; `None`: as many as take a few minutes.
    pub products: Option<usize>,
    /// Bytes for the vectors of the eigensolver, and then for the states of the probes.
    pub memory: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            epsilon: DEFAULT_EPSILON,
            hops: DEFAULT_HOPS,
            seed: 0,
            probes: DEFAULT_PROBES,
            dense_nodes: 640,
            exact_work: 20_000_000_000,
            tolerance: 1e-4,
            products: None,
            memory: 1_500_000_000,
        }
    }
}

impl Options {
    /// Refuses values that mean nothing.
    ///
    /// # Errors
    /// The first of them, by its name.
    pub fn check(&self) -> Result<()> {
        let bad = |name: &str, found: &dyn std::fmt::Display, expected: &str| {
            Err(Error::Config(format!("{name} is {found}; expected {expected}")))
        };
        if !(self.epsilon > 0.0 && self.epsilon < 2.0) {
            return bad("epsilon", &self.epsilon, "a number above 0 and below 2, which no D_t exceeds");
        }
        if !(1..=MOST_HOPS).contains(&self.hops) {
            return bad("hops", &self.hops, &format!("1 to {MOST_HOPS}"));
        }
        if !(2..=MOST_PROBES).contains(&self.probes) {
            return bad("probes", &self.probes, &format!("2 to {MOST_PROBES}; an error bar takes two"));
        }
        Ok(())
    }
}

/// Everything that was found out about a walk.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// n of the whole graph, all components.
    pub nodes: usize,
    /// Entries of the adjacency matrix.
    pub directed_edges: usize,
    /// How the walk is derived from it.
    pub walk: Walk,
    /// What D_t stays below from the horizon H_epsilon on; above 0 and below 2.
    pub epsilon: f64,
    /// T.
    pub hops: usize,
    /// Seed of what was random.
    pub seed: u64,
    /// Whether every edge goes both ways, so that the spectral part applies.
    pub reversible: bool,
    /// Whether the theorem's assumption holds: reversible, connected, not alternating.
    pub ergodic: bool,
    /// The parts of the graph.
    pub components: ComponentSummary,
    /// Are the walk powers independent?
    pub independence: Independence,
    /// How far apart they are.
    pub conditioning: Conditioning,
    /// Eigenvalues; `None` for a directed graph.
    pub spectrum: Option<Spectrum>,
    /// rho, D_t, H_epsilon; `None` for a directed graph.
    pub decay: Option<Decay>,
    /// The same without the eigenvalues -1 of bipartite components; `None` where there are none.
    pub apart_from_alternating: Option<Decay>,
    /// What to keep in mind, in sentences.
    pub notes: Vec<String>,
}

/// Diagnoses the walk of a graph, or of a block-diagonal set of graphs.
///
/// # Errors
/// Options out of range, a graph without nodes, or a stop that was asked for.
pub fn diagnose(graph: &Graph, walk: Walk, options: &Options, watch: &Watch) -> Result<Diagnosis> {
    options.check()?;
    if graph.nodes() == 0 {
        return Err(Error::Data("a graph without nodes has no walk to diagnose".into()));
    }
    watch.progress("components", 0, 0);
    let transition = Transition::new(graph, walk);
    let components = Components::of(&transition, watch.stop())?;
    let matrix = Matrix::of(&transition);
    let conditioning = Conditioning::of(&matrix, &components, options, watch)?;
    let reversible = transition.is_symmetric();
    let spectrum = match reversible {
        true => Some(Spectrum::of(&matrix, &components, options, watch)?),
        false => None,
    };
    let alternating = components.bipartite() > 0;
    let decay = spectrum.as_ref().map(|spectrum| {
        let mut modes = spectrum.modes.clone();
        modes.exact.extend(alternating.then_some(-1.0));
        modes.decay(options.epsilon, options.hops)
    });
    let apart = spectrum.as_ref().filter(|_| alternating);
    let mut diagnosis = Diagnosis {
        nodes: graph.nodes(),
        directed_edges: graph.directed_edges(),
        walk,
        epsilon: options.epsilon,
        hops: options.hops,
        seed: options.seed,
        reversible,
        ergodic: reversible && components.count() == 1 && !alternating,
        components: components.summary(),
        independence: conditioning.independence(spectrum.as_ref().map(|spectrum| spectrum.distinct)),
        conditioning,
        decay,
        apart_from_alternating: apart.map(|spectrum| spectrum.modes.decay(options.epsilon, options.hops)),
        spectrum,
        notes: Vec::new(),
    };
    diagnosis.notes = text::notes(&diagnosis);
    Ok(diagnosis)
}

/// Probes of [`hop_warning`] on a graph that is too large for exact sums.
const WARNING_PROBES: usize = 8;
/// Multiply-adds [`hop_warning`] may spend on exact sums.
const WARNING_WORK: u64 = 2_000_000_000;

/// What not to conclude from the weights of `hops` walk lengths on a graph, in plain words; nothing where they can be told
/// apart. Quicker than a whole diagnosis: conditioning only.
///
/// # Errors
/// A stop was asked for.
pub fn hop_warning(graph: &Graph, walk: Walk, hops: usize, watch: &Watch) -> Result<Option<String>> {
    let options = Options { hops, probes: WARNING_PROBES, exact_work: WARNING_WORK, ..Options::default() };
    let transition = Transition::new(graph, walk);
    let components = Components::of(&transition, watch.stop())?;
    let conditioning = Conditioning::of(&Matrix::of(&transition), &components, &options, watch)?;
    Ok(conditioning.warning())
}

impl Conditioning {
    /// What not to conclude from hop weights, in plain words.
    pub fn warning(&self) -> Option<String> {
        let gamma = self.gamma_per_node?;
        let last = self.hops - 1;
        if self.independence(None).verdict == Verdict::Dependent {
            return Some(format!(
                "the split over hops is not identifiable: walks of 0 to {last} steps are linearly dependent on this graph, so \
                 that other hop weights give the very same predictions"
            ));
        }
        (gamma.value < DEFAULT_EPSILON).then(|| {
            format!(
                "the split over hops is hardly identifiable: hop weights can be changed by a vector of length one while the walk \
                 operator changes by {:.1e} a node (gamma_T / sqrt(n)); read single hop weights with care",
                gamma.value
            )
        })
    }
}
