//! Device memory, and the pinned buffers through which data reaches it and comes back.
//!
//! What is freed is kept for the next that needs as much: with one stream, whoever gets it works behind those who used it, and
//! the scratch of a step is that of the step before. `HARMONIA_CUDA_SYNC=1` keeps nothing, so that a sanitizer sees where
//! allocations end.

use super::context::Stream;
use super::error::gibibytes;
use cudarc::driver::sys::{self, CUresult};
use harmonia_graph::error::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

/// An allocation on the device; dropping it frees it, in the order of the stream.
pub struct Memory {
    stream: Arc<Stream>,
    pub(super) address: u64,
    pub(super) size: usize,
    /// Bytes that were allocated for it.
    held: usize,
}

/// Freed memory by size.
#[derive(Default)]
pub(super) struct Spare {
    by_size: BTreeMap<usize, Vec<u64>>,
    pub(super) bytes: usize,
}

impl Spare {
    /// Memory of the least size that will do: (address, size). Of small sizes it may be a few times too large, so that batches of
    /// graphs find what a larger one left; of large ones nothing is wasted.
    fn take(&mut self, size: usize) -> Option<(u64, usize)> {
        let most = if size <= SMALL { WASTE * size } else { size };
        let (&held, addresses) = self.by_size.range_mut(size..=most).find(|(_, addresses)| !addresses.is_empty())?;
        let address = addresses.pop()?;
        self.bytes -= held;
        Some((address, held))
    }

    fn keep(&mut self, size: usize, address: u64) {
        self.by_size.entry(size).or_default().push(address);
        self.bytes += size;
    }

    /// Everything that is kept.
    pub(super) fn drain(&mut self) -> Vec<u64> {
        self.bytes = 0;
        std::mem::take(&mut self.by_size).into_values().flatten().collect()
    }
}

/// Sizes up to here may be given more than they need.
const SMALL: usize = 1 << 20;
/// How many times as much.
const WASTE: usize = 4;

/// Bytes that are allocated where `size` are needed: small sizes that differ a little are the same.
fn rounded(size: usize) -> usize {
    match size {
        0..=256 => 256,
        _ if size <= SMALL => size.next_multiple_of(size.next_power_of_two() / 8),
        _ => size.next_multiple_of(256),
    }
}

impl Memory {
    /// `size` bytes. Never at address zero, which kernels read as "absent".
    pub(super) fn new(stream: &Arc<Stream>, size: usize) -> Result<Memory> {
        stream.enter()?;
        let held = rounded(size);
        if let Some((address, held)) = stream.spare().take(held) {
            return Ok(Memory { stream: stream.clone(), address, size, held });
        }
        let mut address = 0;
        let mut code = allocate(stream, held, &mut address);
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            // What we keep, or the pool, may be in the way.
            stream.synchronize()?;
            stream.free_spare();
            if let Some(pool) = stream.pool {
                stream.synchronize()?;
                // SAFETY: the pool belongs to the device of the current context.
                let _ = unsafe { sys::cuMemPoolTrimTo(pool, 0) };
            }
            code = allocate(stream, held, &mut address);
        }
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let (free, total) = stream.memory()?;
            return Err(Error::Device(format!(
                "out of memory: needed {}, free {} of {} on {}: use a smaller train.batch_size, end other processes on the \
                 GPU (`nvidia-smi`), or set run.device = cpu",
                gibibytes(size),
                gibibytes(free),
                gibibytes(total),
                stream.name
            )));
        }
        stream.check(code, format_args!("allocate {}", gibibytes(size)))?;
        Ok(Memory { stream: stream.clone(), address, size, held })
    }

    /// Zeroes all of it.
    pub(super) fn clear(&mut self) -> Result<()> {
        if self.size == 0 {
            return Ok(());
        }
        self.stream.enter()?;
        // SAFETY: the allocation has `size` bytes, and the exclusive reference keeps it alive.
        let code = unsafe { sys::cuMemsetD8Async(self.address, 0, self.size, self.stream.raw) };
        self.stream.check(code, "zero device memory")
    }

    /// Copies its start to the host, after everything asked for before.
    pub(super) fn read(&self, bytes: &mut [u8]) -> Result<()> {
        self.holds(bytes.len(), "read")?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.stream.enter()?;
        let target = bytes.as_mut_ptr().cast::<c_void>();
        // SAFETY: `target` has that many bytes, and so has the allocation; `synchronize` ends the copy before it returns.
        let code = unsafe { sys::cuMemcpyDtoHAsync_v2(target, self.address, bytes.len(), self.stream.raw) };
        let copied = self.stream.check(code, format_args!("read {} from the device", gibibytes(bytes.len())));
        copied.and(self.stream.synchronize())
    }

    /// That it has at least `bytes` bytes.
    fn holds(&self, bytes: usize, doing: &str) -> Result<()> {
        if bytes <= self.size {
            return Ok(());
        }
        Err(Error::Device(format!("cannot {doing} {bytes} bytes: the device memory has {}", self.size)))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.stream.keeps {
            self.stream.spare().keep(self.held, self.address);
        } else if self.stream.enter().is_ok() {
            free(&self.stream, self.address);
        }
    }
}

/// Gives memory back. The context is current.
pub(super) fn free(stream: &Stream, address: u64) {
    // SAFETY: allocated by the matching function, and freed once. What still uses it is ahead in the stream, or
    // waited for by cuMemFree. A failure means the context is lost, and the memory with it.
    let _ = unsafe {
        match stream.pool {
            Some(_) => sys::cuMemFreeAsync(address, stream.raw),
            None => sys::cuMemFree_v2(address),
        }
    };
}

/// From the pool, or directly where there is none. The context is current.
fn allocate(stream: &Stream, size: usize, address: &mut u64) -> CUresult {
    // SAFETY: the context is current and `address` outlives the call.
    unsafe {
        match stream.pool {
            Some(_) => sys::cuMemAllocAsync(address, size, stream.raw),
            None => sys::cuMemAlloc_v2(address, size),
        }
    }
}

/// Bytes of a pinned buffer.
const BUFFER: usize = 16 << 20;
/// Pieces start at multiples of this, as transfers like it.
const ALIGNMENT: usize = 256;

/// Two pinned buffers filled in turn: while one is on its way to the device, the other takes what comes next, be it
/// read from a mapped file page by page. Small writes share a buffer, so they wait for nothing.
pub(super) struct Staging {
    buffers: [Pinned; 2],
    current: usize,
}

impl Staging {
    pub(super) fn new(stream: &Arc<Stream>) -> Result<Staging> {
        Ok(Staging { buffers: [Pinned::new(stream, BUFFER)?, Pinned::new(stream, BUFFER)?], current: 0 })
    }

    /// Copies `bytes` to the start of `memory`. The bytes have been taken when it returns.
    pub(super) fn write(&mut self, memory: &mut Memory, bytes: &[u8]) -> Result<()> {
        memory.holds(bytes.len(), "write")?;
        memory.stream.enter()?;
        let mut done = 0;
        while done < bytes.len() {
            if self.buffers[self.current].used == BUFFER {
                self.current = 1 - self.current;
                self.buffers[self.current].reuse()?;
            }
            let rest = &bytes[done..];
            let piece = &rest[..rest.len().min(BUFFER - self.buffers[self.current].used)];
            self.buffers[self.current].send(memory.address + done as u64, piece)?;
            done += piece.len();
        }
        Ok(())
    }
}

/// Page-locked host memory that the device writes to by itself.
pub struct Mailbox {
    /// Its event is behind the last transfer into it.
    pinned: Pinned,
    bytes: usize,
}

// SAFETY: shared, it is only read, and only behind the transfer that wrote it.
unsafe impl Sync for Mailbox {}

impl Mailbox {
    pub(super) fn new(stream: &Arc<Stream>, bytes: usize) -> Result<Mailbox> {
        Ok(Mailbox { pinned: Pinned::new(stream, bytes)?, bytes })
    }

    /// Starts the transfer of the start of an allocation.
    pub(super) fn send(&mut self, memory: &Memory, bytes: usize) -> Result<()> {
        memory.holds(bytes, "send")?;
        self.holds(bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let Pinned { stream, start, sent, .. } = &self.pinned;
        stream.enter()?;
        // SAFETY: both places have that many bytes; whoever reads the mailbox waits for the event first, and the buffer is
        // freed when the stream is idle.
        unsafe {
            let code = sys::cuMemcpyDtoHAsync_v2(start.cast(), memory.address, bytes, stream.raw);
            stream.check(code, format_args!("read {} from the device", gibibytes(bytes)))?;
            stream.check(sys::cuEventRecord(*sent, stream.raw), "record an event")
        }
    }

    /// Waits for what was sent last.
    pub(super) fn receive(&self, bytes: &mut [u8]) -> Result<()> {
        self.holds(bytes.len())?;
        let Pinned { stream, start, sent, .. } = &self.pinned;
        stream.enter()?;
        // SAFETY: the event is alive; behind it nothing writes to the buffer, which has that many bytes.
        unsafe {
            stream.check(sys::cuEventSynchronize(*sent), "wait for a transfer")?;
            std::ptr::copy_nonoverlapping(start.cast_const(), bytes.as_mut_ptr(), bytes.len());
        }
        Ok(())
    }

    fn holds(&self, bytes: usize) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        Err(Error::Device(format!("a mailbox of {} bytes has no room for {bytes}", self.bytes)))
    }
}

/// Page-locked host memory, which the device reads by itself.
pub(super) struct Pinned {
    stream: Arc<Stream>,
    pub(super) start: *mut u8,
    pub(super) bytes: usize,
    used: usize,
    /// Behind the last transfer out of the buffer.
    pub(super) sent: sys::CUevent,
}

// SAFETY: the memory and the event belong to this value alone, and no function of the driver used here is tied to a thread.
unsafe impl Send for Pinned {}

impl Pinned {
    pub(super) fn new(stream: &Arc<Stream>, bytes: usize) -> Result<Pinned> {
        stream.enter()?;
        let (start, sent) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut buffer = Pinned { stream: stream.clone(), start, bytes, used: 0, sent };
        let mut start: *mut c_void = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the context is current, and both targets outlive the calls.
        unsafe {
            let code = sys::cuMemHostAlloc(&mut start, bytes.max(1), sys::CU_MEMHOSTALLOC_PORTABLE);
            stream.check(code, format_args!("lock {} of host memory", gibibytes(bytes)))?;
            buffer.start = start.cast();
            stream.check(sys::cuEventCreate(&mut buffer.sent, flags), "make an event")?;
        }
        Ok(buffer)
    }

    /// Takes bytes that fit behind what is used, and starts their transfer.
    fn send(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: `used + bytes.len()` is at most BUFFER, the bytes of the buffer; nothing on its way to the device lies behind
        // `used`; the target was checked to hold the bytes.
        unsafe {
            let piece = self.start.add(self.used);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), piece, bytes.len());
            self.used = (self.used + bytes.len()).next_multiple_of(ALIGNMENT);
            let code = sys::cuMemcpyHtoDAsync_v2(address, piece.cast(), bytes.len(), self.stream.raw);
            self.stream.check(code, format_args!("write {} to the device", gibibytes(bytes.len())))?;
            self.stream.check(sys::cuEventRecord(self.sent, self.stream.raw), "record an event")
        }
    }

    /// Waits until all of it has been sent, and starts over.
    pub(super) fn reuse(&mut self) -> Result<()> {
        // SAFETY: the event is alive; one never recorded counts as passed.
        self.stream.check(unsafe { sys::cuEventSynchronize(self.sent) }, "wait for a transfer")?;
        self.used = 0;
        Ok(())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.stream.enter().is_ok() {
            // SAFETY: made by the matching functions, and no transfer reads the buffer after the stream is idle.
            unsafe {
                let _ = sys::cuStreamSynchronize(self.stream.raw);
                if !self.sent.is_null() {
                    let _ = sys::cuEventDestroy_v2(self.sent);
                }
                if !self.start.is_null() {
                    let _ = sys::cuMemFreeHost(self.start.cast());
                }
            }
        }
    }
}
