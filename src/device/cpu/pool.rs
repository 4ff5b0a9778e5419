//! Working memory that outlives an op: the epoch loop allocates nothing once it has been around.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Vectors that are lent out and come back.
#[derive(Debug, Default)]
pub struct Pool<T> {
    free: Mutex<Vec<Vec<T>>>,
}

/// A vector on loan; dropping it gives it back.
pub struct Loan<'a, T> {
    pool: &'a Pool<T>,
    values: Vec<T>,
}

impl<T: Copy> Pool<T> {
    /// `length` elements with any contents: `fill`, or what an earlier loan left.
    pub fn take(&self, length: usize, fill: T) -> Loan<'_, T> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // The smallest that is large enough, else the largest, which then grows.
        let fitting = (0..free.len()).filter(|&at| free[at].capacity() >= length).min_by_key(|&at| free[at].capacity());
        let at = fitting.or_else(|| (0..free.len()).max_by_key(|&at| free[at].capacity()));
        let mut values = at.map(|at| free.swap_remove(at)).unwrap_or_default();
        drop(free);
        if values.capacity() < length {
            // Its contents are of no use: they need not be there while a larger one is made.
            values = Vec::new();
            values.reserve_exact(length);
        }
        values.resize(length, fill);
        Loan { pool: self, values }
    }

    /// `length` times `fill`.
    pub fn filled(&self, length: usize, fill: T) -> Loan<'_, T> {
        let mut loan = self.take(length, fill);
        loan.fill(fill);
        loan
    }
}

impl<T> Drop for Loan<'_, T> {
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.values);
        self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(values);
    }
}

impl<T> Deref for Loan<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T> DerefMut for Loan<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}
