//! X of numpy where it is: the engine reads the user's memory and makes no copy.
//!
//! While the engine works, the array and what it is a view of are read-only for Python, so that a write from another thread is an
//! exception there and no data race here. Between calls the array is the user's: what was written by then is noticed, because a model
//! knows what its data were. Memory that cannot be held still like that is not lent, but copied.

use harmonia_graph::array::Array;
use harmonia_graph::dataset::{Features, Values};
use numpy::{PyArray2, PyReadonlyArray2, PyUntypedArray};
use pyo3::prelude::*;
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// An array that a dataset reads, and what it is a view of.
pub struct Lent {
    /// The array comes first, the owner of the memory last.
    chain: Vec<Py<PyAny>>,
}

impl Lent {
    /// For another that reads the same.
    pub fn another(&self, py: Python<'_>) -> Lent {
        Lent { chain: self.chain.iter().map(|array| array.clone_ref(py)).collect() }
    }
}

/// The elements of a contiguous array, and their lender; none where Python could write to them meanwhile.
///
/// # Errors
/// The array is not contiguous.
pub fn lend(x: &PyReadonlyArray2<'_, f32>) -> PyResult<Option<(Array<f32>, Lent)>> {
    let mut chain = vec![x.as_any().clone()];
    loop {
        let last = &chain[chain.len() - 1];
        let base = last.getattr("base")?;
        if base.is_none() {
            break;
        }
        if base.cast::<PyUntypedArray>().is_err() {
            // Memory of somebody who knows no flag: a tensor, a file, a buffer.
            if is_writeable(last)? {
                return Ok(None);
            }
            break;
        }
        chain.push(base);
    }
    let chain: Vec<Py<PyAny>> = chain.into_iter().map(Bound::unbind).collect();
    let owner: Py<PyArray2<f32>> = (**x).clone().unbind();
    // SAFETY: the array is kept by its reference; numpy does not move the elements of an array that others refer to. It is read by
    // calls of this module alone, and each holds it still ([`Still`]) or the lock of the interpreter. What can write nevertheless
    // is code that made a view of the memory before, or that never asks Python: it races with every reader of numpy's memory that
    // lets go of the lock, and documentation says so. Any bits are an f32, and none is used as an address.
    #[allow(unsafe_code)]
    let elements = unsafe { Array::lent(x.as_slice()?, Box::new(owner)) };
    Ok(Some((elements, Lent { chain })))
}

fn is_writeable(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    array.getattr("flags")?.getattr("writeable")?.extract()
}

fn set_writeable(array: &Bound<'_, PyAny>, writeable: bool) -> PyResult<()> {
    array.call_method1("setflags", (writeable,)).map(|_| ())
}

/// Of all values and where they stand, at the speed of memory; the same for any number of threads.
pub fn fingerprint(features: &Features) -> u64 {
    const PORTION: usize = 1 << 16;
    /// Values read side by side: each step of one waits for the one before.
    const LANES: usize = 16;
    // Both steps can be undone, so that one value that changes always changes the result.
    let step = |mixed: u32, bits: u32| (mixed ^ bits).wrapping_mul(0x9E37_79B1).rotate_left(15);
    let join = |mixed: u64, part: u64| (mixed ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
    let Values::Dense(values) = features.values() else { return 0 };
    let of_portion = |values: &[f32]| {
        let mut lanes = [0u32; LANES];
        let groups = values.chunks_exact(LANES);
        let rest = groups.remainder();
        for group in groups {
            lanes.iter_mut().zip(group).for_each(|(lane, value)| *lane = step(*lane, value.to_bits()));
        }
        lanes.iter_mut().zip(rest).for_each(|(lane, value)| *lane = step(*lane, value.to_bits()));
        lanes.iter().fold(values.len() as u64, |mixed, &lane| join(mixed, u64::from(lane)))
    };
    let parts: Vec<u64> = values.par_chunks(PORTION).map(of_portion).collect();
    parts.into_iter().fold(0, join)
}

/// Arrays that were writeable and are held still, by their addresses, with the number of calls that do.
static HELD: Mutex<Option<Arrays>> = Mutex::new(None);
type Arrays = HashMap<usize, (Py<PyAny>, usize)>;

/// Reads and changes the list. Nothing of Python runs in it: that could come back here.
fn held<R>(change: impl FnOnce(&mut Arrays) -> R) -> R {
    change(HELD.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// While this lives, Python cannot write to some arrays.
#[must_use]
pub struct Still {
    arrays: Vec<Py<PyAny>>,
}

impl Still {
    /// Holds what some datasets read.
    ///
    /// # Errors
    /// Python's own.
    pub fn hold<'a>(py: Python<'_>, lent: impl IntoIterator<Item = Option<&'a Lent>>) -> PyResult<Still> {
        let mut still = Still { arrays: Vec::new() };
        for array in lent.into_iter().flatten().flat_map(|lent| &lent.chain) {
            let place = array.as_ptr() as usize;
            let known = held(|held| held.get_mut(&place).map(|(_, calls)| *calls += 1).is_some());
            if !known {
                let array = array.bind(py);
                if !is_writeable(array)? {
                    continue;
                }
                set_writeable(array, false)?;
                held(|held| held.insert(place, (array.clone().unbind(), 1)));
            }
            still.arrays.push(array.clone_ref(py));
        }
        Ok(still)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        let arrays = std::mem::take(&mut self.arrays);
        if arrays.is_empty() {
            return;
        }
        Python::attach(|py| {
            held(|held| {
                for array in &arrays {
                    if let Some((_, calls)) = held.get_mut(&(array.as_ptr() as usize)) {
                        *calls = calls.saturating_sub(1);
                    }
                }
            });
            // A view becomes writeable after what it is a view of, which another call may still hold: then that call does both.
            let mut free: Vec<Py<PyAny>> = held(|held| {
                held.values().filter(|(_, calls)| *calls == 0).map(|(array, _)| array.clone_ref(py)).collect()
            });
            loop {
                let before = free.len();
                free.retain(|array| match set_writeable(array.bind(py), true) {
                    Ok(()) => {
                        let gone = held(|held| held.remove(&(array.as_ptr() as usize)));
                        drop(gone);
                        false
                    }
                    Err(_) => true,
                });
                if free.is_empty() || free.len() == before {
                    break;
                }
            }
        });
    }
}
