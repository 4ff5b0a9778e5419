//! Two places on the device, filled in turn by a stream of their own while the other is worked on.
//!
//! Bytes go through two page-locked buffers. Each of three parties waits for exactly one event before it overwrites what another
//! reads: the host for the last transfer out of a page-locked buffer, the transfer for the work that used the place before, the
//! work for the transfer. Only the first is a wait of the host, and it is over when half of what was brought has gone.

use super::context::Stream;
use super::error::gibibytes;
use super::memory::{Memory, Pinned};
use crate::device::launcher::Fill;
use cudarc::driver::sys;
use harmonia_graph::error::{Error, Result};
use std::sync::Arc;

/// Bytes of a page-locked buffer, at most: large enough for the full rate of a bus, small enough to have the next one filled
/// while it goes.
const PIECE: usize = 8 << 20;

/// Two places and what brings panels to them.
pub struct Lane {
    /// The stream of work.
    work: Arc<Stream>,
    transfers: sys::CUstream,
    /// Behind what fills each place.
    filled: [sys::CUevent; 2],
    /// Behind the work that used each place.
    left: [sys::CUevent; 2],
    buffers: [Pinned; 2],
    next: usize,
    places: [Memory; 2],
}

// SAFETY: stream and events belong to this value alone, and no function of the driver used here is tied to a thread.
unsafe impl Send for Lane {}
// SAFETY: shared, it tells addresses only.
unsafe impl Sync for Lane {}

impl Lane {
    pub(super) fn new(work: &Arc<Stream>, bytes: usize) -> Result<Lane> {
        super::library::wait_event()?;
        let piece = bytes.clamp(1, PIECE);
        let places = [Memory::new(work, bytes)?, Memory::new(work, bytes)?];
        let null = std::ptr::null_mut();
        // From here on Drop gives back what there is.
        let mut lane = Lane {
            work: work.clone(),
            transfers: std::ptr::null_mut(),
            filled: [null; 2],
            left: [null; 2],
            buffers: [Pinned::new(work, piece)?, Pinned::new(work, piece)?],
            next: 0,
            places,
        };
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        let beside = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current (`Pinned::new`), and all targets outlive the calls.
        unsafe {
            work.check(sys::cuStreamCreate(&mut lane.transfers, beside), "make a stream")?;
            for event in lane.filled.iter_mut().chain(&mut lane.left) {
                work.check(sys::cuEventCreate(event, flags), "make an event")?;
            }
            // Memory is there in the order of work: nothing is brought before it.
            for &event in &lane.left {
                work.check(sys::cuEventRecord(event, work.raw), "record an event")?;
            }
        }
        Ok(lane)
    }

    pub(super) fn address(&self, place: usize) -> u64 {
        self.places[place].address
    }

    pub(super) fn bring(&mut self, place: usize, bytes: usize, fill: Fill<'_>) -> Result<()> {
        let Memory { address, size, .. } = self.places[place];
        if bytes > size {
            return Err(Error::Device(format!("{bytes} bytes brought to a place of {size}")));
        }
        self.work.enter()?;
        // SAFETY: stream and event are alive and of the current context.
        self.work.check(unsafe { sys::cuStreamWaitEvent(self.transfers, self.left[place], 0) }, "wait for an event")?;
        let piece = self.buffers[0].bytes;
        for first in (0..bytes).step_by(piece) {
            let length = piece.min(bytes - first);
            let buffer = &mut self.buffers[self.next];
            self.next = 1 - self.next;
            buffer.reuse()?;
            // SAFETY: the buffer has at least so many bytes, and no transfer reads them any more.
            fill(first, unsafe { std::slice::from_raw_parts_mut(buffer.start, length) });
            // SAFETY: the place has `bytes` bytes, and the buffer is not written to before the event behind the transfer.
            unsafe {
                let to = address + first as u64;
                let code = sys::cuMemcpyHtoDAsync_v2(to, buffer.start.cast_const().cast(), length, self.transfers);
                self.work.check(code, format_args!("write {} to the device", gibibytes(length)))?;
                self.work.check(sys::cuEventRecord(buffer.sent, self.transfers), "record an event")?;
            }
        }
        // SAFETY: as above.
        self.work.check(unsafe { sys::cuEventRecord(self.filled[place], self.transfers) }, "record an event")
    }

    pub(super) fn arrive(&mut self, place: usize) -> Result<()> {
        self.work.enter()?;
        // SAFETY: stream and event are alive and of the current context.
        self.work.check(unsafe { sys::cuStreamWaitEvent(self.work.raw, self.filled[place], 0) }, "wait for an event")
    }

    pub(super) fn leave(&mut self, place: usize) -> Result<()> {
        self.work.enter()?;
        // SAFETY: stream and event are alive and of the current context.
        self.work.check(unsafe { sys::cuEventRecord(self.left[place], self.work.raw) }, "record an event")
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.work.enter().is_err() {
            return;
        }
        // SAFETY: each made once and destroyed once, when no transfer is under way: places and buffers go after it.
        unsafe {
            if !self.transfers.is_null() {
                let _ = sys::cuStreamSynchronize(self.transfers);
            }
            for event in self.filled.into_iter().chain(self.left).filter(|event| !event.is_null()) {
                let _ = sys::cuEventDestroy_v2(event);
            }
            if !self.transfers.is_null() {
                let _ = sys::cuStreamDestroy_v2(self.transfers);
            }
        }
    }
}
