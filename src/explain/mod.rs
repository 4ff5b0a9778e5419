//! Explanations: exact, and read off the trained model.
//!
//! [`Factors`] are what a model multiplies: a readout, a [`Response`] ([`Monb`]) and a [`Structure`] ([`Walks`]). One
//! prediction is a [`Case`]: the [`Ball`] of nodes it can see, and its sum by feature, source node and walk length.
//! [`Importance`] is what features add over many units, a [`Shape`] is the curve of a response, [`experts`] and
//! [`stability`] look at routing and at other seeds.

pub mod centre;
pub mod experts;
mod factors;
mod global;
mod groups;
mod local;
mod monb;
mod pass;
mod propagated;
mod response;
mod shapes;
pub mod stability;
mod structure;
mod top;
mod walks;

pub use factors::Factors;
pub use global::{Importance, ranking};
pub use groups::Groups;
pub use local::{By, Case, Edit, Explanation, Score, Target};
pub use monb::Monb;
pub use response::{LANES, Response};
pub use shapes::{BINS, Distribution, Shape, Units};
pub use structure::{Ball, Sources, Structure};
pub use top::{Term, Top};
pub use walks::{Steps, Walks};
