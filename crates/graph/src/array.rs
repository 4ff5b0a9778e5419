//! A vector, or a part of a memory-mapped file: reads as a slice, clones by reference.
//!
//! Graphs and features are made of these, so that a store of any size is opened without being read and shared without
//! being copied. Invariant: a mapped array was checked for length and alignment when it was made.

use bytemuck::Pod;
use memmap2::Mmap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Immutable elements, owned or mapped.
pub struct Array<T> {
    inner: Inner<T>,
}

enum Inner<T> {
    Owned(Arc<Vec<T>>),
    Mapped { map: Arc<Mmap>, offset: usize, bytes: usize },
}

impl<T: Pod> Array<T> {
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
