//! Graphs: compressed sparse rows ([`Csr`]), the adjacency a user gives ([`Graph`]), the random walk the model runs
//! on ([`Transition`]) and train/validation/test splits ([`Split`]).

mod adjacency;
mod build;
mod csr;
mod splits;
mod transition;

pub use adjacency::{Direction, Graph};
pub(crate) use adjacency::{check_entries, check_offsets};
pub use csr::Csr;
pub use splits::Split;
pub use transition::{Transition, Walk};
