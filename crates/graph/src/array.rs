//! A vector, a part of a memory-mapped file, or memory that somebody lends: reads as a slice, clones by reference.
//!
//! Graphs and features are made of these, so that a store of any size is opened without being read and shared without
//! being copied. Invariant: a mapped array was checked for length and alignment when it was made.

#![allow(unsafe_code)]

use bytemuck::Pod;
use memmap2::Mmap;
use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// Immutable elements, owned, mapped or lent.
pub struct Array<T> {
    inner: Inner<T>,
}

enum Inner<T> {
    Owned(Arc<Vec<T>>),
    Mapped { map: Arc<Mmap>, offset: usize, bytes: usize },
    Lent(Arc<Lent<T>>),
}

/// Elements that belong to somebody else. No slice of them is kept: one is made for each use.
struct Lent<T> {
    first: NonNull<T>,
    length: usize,
    /// Keeps the memory.
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the pointer is only read through, as a `&[T]` would be, and the owner may be dropped on any thread.
unsafe impl<T: Sync> Send for Lent<T> {}
// SAFETY: as above; several threads may hold a `&[T]` where T is Sync.
unsafe impl<T: Sync> Sync for Lent<T> {}

impl<T: Pod> Array<T> {
    /// The elements of somebody else, without a copy.
    ///
    /// # Safety
    /// Until `owner` is dropped, the elements stay where they are and can be read. Nobody writes to them while any thread works with
    /// this array or a clone of it; between such work anybody may, and the array then has other values.
    pub unsafe fn lent(elements: &[T], owner: Box<dyn Any + Send + Sync>) -> Array<T> {
        let lent = Lent { first: NonNull::from(elements).cast(), length: elements.len(), _owner: owner };
        Array { inner: Inner::Lent(Arc::new(lent)) }
    }

    /// `len` elements from byte `offset` of a map; `None` where they do not fit it or are not aligned.
    pub fn mapped(map: Arc<Mmap>, offset: usize, len: usize) -> Option<Array<T>> {
        let bytes = len.checked_mul(size_of::<T>())?;
        let part = map.get(offset..offset.checked_add(bytes)?)?;
        bytemuck::try_cast_slice::<u8, T>(part).ok()?;
        Some(Array { inner: Inner::Mapped { map, offset, bytes } })
    }

    /// Whether the elements lie in a file rather than in memory of our own.
    pub fn is_mapped(&self) -> bool {
        matches!(self.inner, Inner::Mapped { .. })
    }
}

impl<T: Pod> Deref for Array<T> {
    type Target = [T];

    /// Cheap, but not free: take the slice once outside a hot loop.
    fn deref(&self) -> &[T] {
        match &self.inner {
            Inner::Owned(values) => values,
            Inner::Mapped { map, offset, bytes } => bytemuck::cast_slice(&map[*offset..offset + bytes]),
            // SAFETY: made of a slice of that many elements, which the caller of `lent` keeps readable until the owner is
            // dropped, with this array at the earliest, and still while the slice is in use.
            Inner::Lent(lent) => unsafe { std::slice::from_raw_parts(lent.first.as_ptr(), lent.length) },
        }
    }
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        let inner = match &self.inner {
            Inner::Owned(values) => Inner::Owned(Arc::clone(values)),
            Inner::Mapped { map, offset, bytes } => {
                Inner::Mapped { map: Arc::clone(map), offset: *offset, bytes: *bytes }
            }
            Inner::Lent(lent) => Inner::Lent(Arc::clone(lent)),
        };
        Array { inner }
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(values: Vec<T>) -> Self {
        Array { inner: Inner::Owned(Arc::new(values)) }
    }
}

impl<T> FromIterator<T> for Array<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Vec::from_iter(values).into()
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Pod + PartialEq> PartialEq for Array<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Pod + PartialEq, const N: usize> PartialEq<[T; N]> for Array<T> {
    fn eq(&self, other: &[T; N]) -> bool {
        **self == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_read_where_it_is_and_kept_until_the_last_clone_is_dropped() {
        let values = Arc::new(vec![1f32, 2.0, 3.0]);
        // SAFETY: the vector lives as long as the owner, which is a reference to it, and nobody changes it.
        let lent = unsafe { Array::lent(&values[1..], Box::new(Arc::clone(&values))) };
        assert!(std::ptr::eq(&*lent, &values[1..]) && lent == [2.0, 3.0] && !lent.is_mapped());
        let clone = lent.clone();
        drop(lent);
        assert_eq!(Arc::strong_count(&values), 2);
        assert_eq!(std::thread::spawn(move || clone.iter().sum::<f32>()).join().unwrap(), 5.0);
        assert_eq!(Arc::strong_count(&values), 1);
        // SAFETY: as above.
        let empty = unsafe { Array::<f32>::lent(&[], Box::new(())) };
        assert!(empty.is_empty());
    }
}
