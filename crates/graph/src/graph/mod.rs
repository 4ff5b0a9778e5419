//! Graphs: compressed sparse rows ([`Csr`]), the adjacency a user gives ([`Graph`]), the random walk the model runs
//! on ([`Transition`]), what nodes weigh by it ([`NodeWeights`]) and see along it ([`Neighbourhood`]), walks drawn one by one
//! ([`sampled_walks`]), orders of nodes that
//! are kind to caches ([`Reorder`]), parts for several processes ([`partition`]) and train/validation/test splits ([`Split`]).

mod adjacency;
mod build;
mod csr;
mod edge_list;
mod neighbourhood;
mod node_weights;
pub mod partition;
mod reorder;
mod sampled;
mod shells;
mod splits;
mod transition;

pub use adjacency::{Direction, Graph};
pub use adjacency::{check_entries, check_offsets};
pub use csr::Csr;
pub use edge_list::{EdgeList, WeightedEdgeList};
pub use neighbourhood::{Neighbourhood, RowSet};
pub use node_weights::NodeWeights;
pub use reorder::Reorder;
pub use reorder::{places, renumbered_offsets, renumbered_rows};
pub use sampled::sampled_walks;
pub use shells::ShellSearch;
pub use splits::Split;
pub use transition::walk_row;
pub use transition::{Transition, Walk};
