//! Parts of the tests against hostile files: sound inputs, damage, and what a reader owes.

pub mod damage;
pub mod inputs;
pub mod memory;
pub mod verdict;
