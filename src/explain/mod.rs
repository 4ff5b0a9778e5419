//! Explanations: exact, and read off the trained model.
//!
//! [`Factors`] are what a model multiplies: a readout, a [`Response`] ([`Monb`], [`Fourier`]) and a [`Structure`] ([`Walks`],
//! [`Shells`], [`Filter`]). One
//! prediction is a [`Case`]: the [`Ball`] of nodes it can see, and its sum by feature, source node and walk length.
//! [`Importance`] is what features add over many units, a [`Shape`] is the curve of a response and a [`FeatureShape`] that of a column of
//! a table, [`explain_nodes`] explains many predictions at once, [`edge_effects`] takes every edge out by itself, [`experts`] and [`stability`] look at routing and at other seeds.

pub mod centre;
mod edges;
pub mod experts;
mod factors;
mod features;
mod filter;
mod fourier;
mod global;
mod groups;
mod local;
mod many;
mod monb;
mod pairs;
mod pass;
mod propagated;
mod response;
mod shapes;
mod shells;
pub mod stability;
mod structure;
mod top;
mod walks;

pub use edges::{EdgeEffect, edge_effects};
pub use factors::Factors;
pub use features::{FeatureShape, ValueEffect};
pub use filter::Filter;
pub use fourier::Fourier;
pub use global::{Importance, ranking};
pub use groups::Groups;
pub use local::{By, Case, Edit, Explanation, Score, Target};
pub use many::{Batched, explain_nodes};
pub use monb::Monb;
pub use pairs::Pairs;
pub use response::{LANES, Response};
pub use shapes::{BINS, Distribution, Shape, Units};
pub use shells::Shells;
pub use structure::{Ball, Sources, Structure};
pub use top::{Term, Top};
pub use walks::{Steps, Walks};
