//! Exact piecewise-linear forms: of one expert ([`Pieces`]), and of the responses of all features ([`Tables`]).

mod pieces;
mod tables;

pub use pieces::Pieces;
pub use tables::{Combination, Tables};
