//! Typed allocations, and their addresses as kernels want them.

use super::{Driver, Launcher};
use bytemuck::Pod;
use harmonia_graph::error::Result;
use std::marker::PhantomData;

/// An array on the device.
pub struct Buffer<V: Driver, T> {
    memory: V::Memory,
    length: usize,
    element: PhantomData<T>,
}

/// A row-major matrix on the device.
pub struct DeviceMatrix<V: Driver> {
    /// rows x cols.
    pub values: Buffer<V, f32>,
    /// Nodes.
    pub rows: usize,
    /// Features.
    pub cols: usize,
}

impl<V: Driver, T: Pod> Buffer<V, T> {
    /// Elements, not bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl<V: Driver> Launcher<V> {
    /// `length` elements, contents undefined.
    pub(super) fn allocate<T: Pod>(&self, length: usize) -> Result<Buffer<V, T>> {
        let memory = self.driver.allocate(length * size_of::<T>())?;
        Ok(Buffer { memory, length, element: PhantomData })
    }

    /// `length` zeros.
    pub(super) fn zeroed<T: Pod>(&self, length: usize) -> Result<Buffer<V, T>> {
        let mut buffer = self.allocate(length)?;
        self.driver.clear(&mut buffer.memory)?;
        Ok(buffer)
    }

    /// A copy of `values`.
    pub(super) fn copy<T: Pod>(&self, values: &[T]) -> Result<Buffer<V, T>> {
        let mut buffer = self.allocate(values.len())?;
        self.driver.write(&mut buffer.memory, bytemuck::cast_slice(values))?;
        Ok(buffer)
    }

    /// A copy on the host.
    pub(super) fn fetch<T: Pod>(&self, buffer: &Buffer<V, T>) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); buffer.length];
        self.fetch_into(&mut values, buffer)?;
        Ok(values)
    }

    /// A copy in memory that is there.
    pub(super) fn fetch_into<T: Pod>(&self, values: &mut [T], buffer: &Buffer<V, T>) -> Result<()> {
        assert_eq!(buffer.length, values.len(), "a copy keeps its length");
        self.driver.read(bytemuck::cast_slice_mut(values), &buffer.memory)
    }

    /// Sends a copy to a mailbox of its size; nobody waits.
    pub(super) fn send<T: Pod>(&self, mailbox: &mut V::Mailbox, buffer: &Buffer<V, T>) -> Result<()> {
        self.driver.send(mailbox, &buffer.memory, buffer.length * size_of::<T>())
    }

    /// What every connected process has of a buffer, one behind the other; nobody waits.
    pub(super) fn gather_ranks<T: Pod>(&self, all: &mut Buffer<V, T>, mine: &Buffer<V, T>) -> Result<()> {
        assert_eq!(all.length, self.driver.connected() * mine.length, "room for all");
        self.driver.gather(&mut all.memory, &mine.memory, mine.length * size_of::<T>())
    }

    /// Overwrites a buffer with as many values.
    pub(super) fn overwrite<T: Pod>(&self, buffer: &mut Buffer<V, T>, values: &[T]) -> Result<()> {
        assert_eq!(buffer.length, values.len(), "a copy keeps its length");
        self.driver.write(&mut buffer.memory, bytemuck::cast_slice(values))
    }

    /// Zeroes a buffer.
    pub(super) fn wipe<T: Pod>(&self, buffer: &mut Buffer<V, T>) -> Result<()> {
        self.driver.clear(&mut buffer.memory)
    }

    /// Address of element `first`.
    pub(super) fn at<T: Pod>(&self, buffer: &Buffer<V, T>, first: usize) -> *const T {
        assert!(first <= buffer.length, "element {first} of a buffer of {}", buffer.length);
        (self.driver.address(&buffer.memory) + (first * size_of::<T>()) as u64) as *const T
    }

    /// The same, to write to.
    pub(super) fn at_mut<T: Pod>(&self, buffer: &mut Buffer<V, T>, first: usize) -> *mut T {
        self.at(buffer, first).cast_mut()
    }
}
