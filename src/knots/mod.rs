//! Exact piecewise-linear forms: of one expert ([`Pieces`]), and of the responses of all features ([`Tables`]).

mod pieces;
mod tables;

pub use pieces::{Pieces, Scratch, most_pieces, planned_pieces, planned_room};
pub use tables::{Combination, Tables, count_below};
