//! The T states of class space: T matrices of n x L, one after the other.
//!
//! Rows are padded so that a row begins where a cache line does, or at least does not straddle one line more than it must;
//! what is padded is zero and stays zero.

use crate::config::States;
use crate::real::Real;
use half::{bf16, f16};

/// Bytes of a cache line.
const LINE: usize = 64;

/// States, and what the ops on them work with.
pub struct Hops<T> {
    /// Every hop of every node, in the precision of `engine.states`.
    pub states: Stored<T>,
    /// n.
    pub rows: usize,
    /// T.
    pub hops: usize,
    /// Columns of a row, at least L.
    pub width: usize,
    /// What stored gradients were multiplied by: half precision has little range.
    pub scale: T,
    /// What the structure had learned when it was last gone through; the way back needs it.
    pub structure: Vec<T>,
}

/// States by how they are stored.
pub enum Stored<T> {
    /// As they are computed with.
    Native(Aligned<T>),
    /// IEEE half.
    F16(Aligned<f16>),
    /// bfloat16.
    Bf16(Aligned<bf16>),
}

impl<T: Real> Hops<T> {
    /// Zeroed states.
    pub fn new(rows: usize, hops: usize, outputs: usize, states: States) -> Self {
        let width = padded(outputs);
        let size = rows * hops * width;
        let states = match states {
            States::F32 => Stored::Native(Aligned::new(size)),
            States::F16 => Stored::F16(Aligned::new(size)),
            States::Bf16 => Stored::Bf16(Aligned::new(size)),
        };
        Hops { states, rows, hops, width, scale: T::one(), structure: Vec::new() }
    }

    /// Elements of all states, for a memory plan.
    pub fn elements(rows: usize, hops: usize, outputs: usize) -> usize {
        rows * hops * padded(outputs)
    }
}

/// Columns of a row of L columns.
pub fn padded(outputs: usize) -> usize {
    if outputs <= 8 { outputs.next_power_of_two() } else { outputs.next_multiple_of(8) }
}

/// A vector whose first element begins a cache line.
pub struct Aligned<S> {
    memory: Vec<S>,
    first: usize,
    length: usize,
}

impl<S: Copy + Default> Aligned<S> {
    fn new(length: usize) -> Self {
        let memory = vec![S::default(); length + LINE / size_of::<S>()];
        let behind = memory.as_ptr() as usize % LINE;
        Aligned { first: (LINE - behind) % LINE / size_of::<S>(), memory, length }
    }
}

impl<S> std::ops::Deref for Aligned<S> {
    type Target = [S];

    fn deref(&self) -> &[S] {
        &self.memory[self.first..][..self.length]
    }
}

impl<S> std::ops::DerefMut for Aligned<S> {
    fn deref_mut(&mut self) -> &mut [S] {
        &mut self.memory[self.first..][..self.length]
    }
}

/// Runs `$body` with `$states` as a slice of whatever type the states are stored as.
macro_rules! with_states {
    ($stored:expr, $states:ident => $body:expr) => {
        match $stored {
            $crate::device::cpu::hops::Stored::Native($states) => $body,
            $crate::device::cpu::hops::Stored::F16($states) => $body,
            $crate::device::cpu::hops::Stored::Bf16($states) => $body,
        }
    };
}
pub(super) use with_states;
