//! Explanations: exact, and read off the trained model.
//!
//! [`Factors`] are what a model multiplies. One prediction is a [`Case`]: the [`Ball`] of nodes it can see, and its sum by
//! feature, source node and walk length. [`Importance`] is what features add over many units, a [`Shape`] is a response as
//! its knots, [`experts`] and [`stability`] look at routing and at other seeds.

mod ball;
pub mod centre;
pub mod experts;
mod factors;
mod global;
mod local;
mod pass;
mod propagated;
mod shapes;
pub mod stability;
mod top;

pub use ball::{Ball, Steps};
pub use factors::Factors;
pub use global::{Importance, ranking};
pub use local::{By, Case, Edit, Explanation, Score, Target};
pub use shapes::{BINS, Distribution, Shape, Units};
pub use top::{Term, Top};
