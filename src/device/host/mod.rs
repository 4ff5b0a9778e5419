//! The CPU as a machine that runs CUDA kernels: the `.cu` files compiled as C++, every thread a fiber.
//!
//! For testing and debugging kernels where there is no GPU; [`super::cpu`] is the fast way to compute on a CPU.
//! [`Host::new`] runs the kernels linked into this binary. [`Host::load`] runs those of a shared object, which may be a
//! build that checks every access (`kernels/host/checks.cpp`). Memory holds NaN until it is written, and launches end
//! with an error where a GPU would hang.
//!
//! [`Host::at_the_far_end`] runs kernels at sizes beyond 2^32 elements: memory is reserved and hardly touched, of a grid only
//! the last blocks run, and of an allocation only the end may be used, so that an index that was cut to 32 bits is out of
//! bounds.

#![allow(unsafe_code)]

mod engine;
mod lane;

use super::gemm::{View, gemm};
use super::launcher::{Driver, Fill, Gemm, Launch};
use engine::Engine;
use harmonia_graph::error::{Error, Result};
pub use lane::Lane;
use memmap2::{MmapMut, MmapOptions};
use std::alloc::Layout;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

/// Environment variable with a seed: threads of a block run in a random order, so that a missing barrier shows.
pub const ORDER_VARIABLE: &str = "HARMONIA_HOST_ORDER";

/// Dynamic shared memory of a block, as on GPUs of compute capability 8.6 and 8.9.
const SHARED_LIMIT: usize = 99 * 1024;

/// What [`Driver::allocate`] promises.
const ALIGNMENT: usize = 256;

/// NaN as float, half, bfloat16 and double; no valid index.
const POISON: u8 = 0xff;

/// Longest error message of a launch.
const MESSAGE_BYTES: usize = 2048;

/// Runs kernels on the CPU.
pub struct Host {
    engine: Arc<Engine>,
    /// 0: natural order of threads.
    order: u64,
    shared_limit: usize,
    /// Blocks at the end of each dimension of a grid that run; 0: all.
    last_blocks: u32,
}

/// From here on, memory at the far end is reserved only.
const FAR_BYTES: usize = 128 << 20;
/// What may be used of it: its end.
const FAR_END: usize = 64 << 20;
/// Blocks of each dimension that run at the far end.
const FAR_BLOCKS: u32 = 2;

/// Memory that kernels on the host may use.
pub struct Memory {
    address: NonNull<u8>,
    bytes: usize,
    /// Where what kernels may use begins.
    usable: usize,
    /// Where the memory is only reserved, its owner.
    reserved: Option<MmapMut>,
    engine: Arc<Engine>,
}

// SAFETY: a `Memory` owns its block, as a `Vec<u8>` would; kernels that change it run under the engine's lock.
unsafe impl Send for Memory {}
// SAFETY: as above; a shared `Memory` is only read, by `Driver::read`.
unsafe impl Sync for Memory {}

impl Host {
    /// The kernels of this binary.
    pub fn new() -> Result<Host> {
        Host::from_engine(Engine::linked()?)
    }

    /// The kernels of a shared object made from `kernels/host`.
    pub fn load(path: &Path) -> Result<Host> {
        Host::from_engine(Engine::open(path)?)
    }

    fn from_engine(engine: Engine) -> Result<Host> {
        let host = Host { engine: Arc::new(engine), order: 0, shared_limit: SHARED_LIMIT, last_blocks: 0 };
        match std::env::var(ORDER_VARIABLE) {
            Err(_) => Ok(host),
            Ok(seed) => match seed.parse() {
                Ok(seed) => Ok(host.in_random_order(seed)),
                Err(_) => Err(Error::Config(format!("{ORDER_VARIABLE}: expected a whole number, found `{seed}`"))),
            },
        }
    }

    /// Runs the threads of a block in an order that depends on `seed`, a new one between any two barriers.
    pub fn in_random_order(mut self, seed: u64) -> Host {
        // Neighbouring seeds start the engine's generator far apart, and never at 0.
        self.order = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        self
    }

    /// With less shared memory for a block, as on older GPUs.
    pub fn with_shared_limit(mut self, bytes: usize) -> Host {
        self.shared_limit = bytes.min(SHARED_LIMIT);
        self
    }

    /// Only the last blocks of grids, and only the ends of large allocations, whose memory is zero and not poisoned.
    pub fn at_the_far_end(mut self) -> Host {
        self.last_blocks = FAR_BLOCKS;
        self
    }

    /// Names of all kernels, sorted.
    pub fn kernels(&self) -> Vec<String> {
        self.engine.kernels()
    }
}

/// Layout of a block of `bytes` > 0 bytes.
fn layout(bytes: usize) -> Result<Layout> {
    Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| out_of_memory(bytes))
}

fn out_of_memory(bytes: usize) -> Error {
    Error::Device(format!("cannot allocate {bytes} bytes on the host"))
}

/// Whether a copy of `wanted` bytes fits into an allocation.
fn check_copy(wanted: usize, memory: &Memory) -> Result<()> {
    if wanted <= memory.bytes {
        return Ok(());
    }
    Err(Error::Device(format!("copy of {wanted} bytes to or from an allocation of {} bytes", memory.bytes)))
}

impl Driver for Host {
    type Memory = Memory;
    type Mailbox = Vec<u8>;
    type Lane = Lane;

    fn name(&self) -> String {
        "host (CUDA kernels on the CPU)".to_string()
    }

    fn shared_limit(&self) -> usize {
        self.shared_limit
    }

    fn free_bytes(&self) -> Result<Option<usize>> {
        Ok(None)
    }

    /// A block of exactly this size, so that address sanitizers see where it ends.
    fn allocate(&self, bytes: usize) -> Result<Memory> {
        let engine = Arc::clone(&self.engine);
        if bytes == 0 {
            let nowhere = NonNull::new(std::ptr::without_provenance_mut(ALIGNMENT)).ok_or_else(|| out_of_memory(0))?;
            return Ok(Memory { address: nowhere, bytes, usable: 0, reserved: None, engine });
        }
        if self.last_blocks > 0 && bytes >= FAR_BYTES {
            let mut map =
                MmapOptions::new().len(bytes).no_reserve_swap().map_anon().map_err(|_| out_of_memory(bytes))?;
            let address = NonNull::new(map.as_mut_ptr()).ok_or_else(|| out_of_memory(bytes))?;
            let usable = bytes - FAR_END;
            // SAFETY: the end of the mapping, live until `Memory::drop`, which says so.
            unsafe { (engine.allocated)(address.as_ptr().add(usable).cast(), FAR_END) };
            return Ok(Memory { address, bytes, usable, reserved: Some(map), engine });
        }
        // SAFETY: the size is not zero.
        let address = NonNull::new(unsafe { std::alloc::alloc(layout(bytes)?) }).ok_or_else(|| out_of_memory(bytes))?;
        // SAFETY: a fresh block of this size.
        unsafe { address.write_bytes(POISON, bytes) };
        // SAFETY: live until `Memory::drop`, which says so.
        unsafe { (engine.allocated)(address.as_ptr().cast(), bytes) };
        Ok(Memory { address, bytes, usable: 0, reserved: None, engine })
    }

    fn address(&self, memory: &Memory) -> u64 {
        memory.address.as_ptr() as u64
    }

    fn size(&self, memory: &Memory) -> usize {
        memory.bytes
    }

    fn write(&self, memory: &mut Memory, bytes: &[u8]) -> Result<()> {
        check_copy(bytes.len(), memory)?;
        // SAFETY: the block is large enough, and a borrowed slice cannot overlap memory only `Memory` knows of.
        unsafe { memory.address.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], memory: &Memory) -> Result<()> {
        check_copy(bytes.len(), memory)?;
        // SAFETY: as in `write`.
        unsafe { memory.address.as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn mailbox(&self, bytes: usize) -> Result<Vec<u8>> {
        Ok(vec![0; bytes])
    }

    fn send(&self, mailbox: &mut Vec<u8>, memory: &Memory, bytes: usize) -> Result<()> {
        let held = mailbox.len();
        let place = mailbox.get_mut(..bytes);
        let place = place.ok_or_else(|| Error::Device(format!("{bytes} bytes sent to a mailbox of {held}")))?;
        self.read(place, memory)
    }

    fn receive(&self, bytes: &mut [u8], mailbox: &Vec<u8>) -> Result<()> {
        let sent = mailbox.get(..bytes.len());
        bytes.copy_from_slice(sent.ok_or_else(|| Error::Device(format!("a mailbox holds {} bytes", mailbox.len())))?);
        Ok(())
    }

    fn lane(&self, bytes: usize) -> Result<Lane> {
        Ok(Lane::new([self.allocate(bytes)?, self.allocate(bytes)?]))
    }

    fn place(&self, lane: &Lane, place: usize) -> u64 {
        self.address(lane.memory(place))
    }

    fn bring(&self, lane: &mut Lane, place: usize, bytes: usize, fill: Fill<'_>) -> Result<()> {
        lane.bring(place, bytes, fill)
    }

    fn arrive(&self, lane: &mut Lane, place: usize) -> Result<()> {
        lane.arrive(place)
    }

    fn leave(&self, lane: &mut Lane, place: usize) -> Result<()> {
        lane.leave(place)
    }

    fn clear(&self, memory: &mut Memory) -> Result<()> {
        if memory.reserved.is_some() {
            // SAFETY: the end of the mapping; the rest was never written.
            unsafe { memory.address.add(memory.usable).write_bytes(0, memory.bytes - memory.usable) };
            return Ok(());
        }
        // SAFETY: the block has this many bytes.
        unsafe { memory.address.write_bytes(0, memory.bytes) };
        Ok(())
    }

    unsafe fn launch(&self, launch: &Launch) -> Result<()> {
        if launch.shared_bytes as usize > self.shared_limit {
            return Err(Error::Device(format!(
                "kernel `{}` asks for {} bytes of shared memory; a block has at most {}",
                launch.kernel, launch.shared_bytes, self.shared_limit
            )));
        }
        let name = CString::new(launch.kernel)
            .map_err(|_| Error::Device(format!("kernel name `{}` contains a zero", launch.kernel)))?;
        let mut message: [c_char; MESSAGE_BYTES] = [0; MESSAGE_BYTES];
        // SAFETY: grid and block are arrays of three, the message has the size given, and the caller vouches for the
        // arguments.
        let code = unsafe {
            (self.engine.launch)(
                name.as_ptr(),
                launch.grid.as_ptr(),
                launch.block.as_ptr(),
                launch.shared_bytes,
                launch.arguments,
                self.order,
                self.last_blocks,
                message.as_mut_ptr(),
                message.len(),
            )
        };
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the engine ends its messages with a zero.
        let message = unsafe { CStr::from_ptr(message.as_ptr()) };
        Err(Error::Device(message.to_string_lossy().into_owned()))
    }

    unsafe fn gemm(&self, product: &Gemm) -> Result<()> {
        let Gemm { m, n, k, .. } = *product;
        if product.beta != 0.0 && product.beta != 1.0 {
            return Err(Error::Device(format!("matrix product with beta = {}, expected 0 or 1", product.beta)));
        }
        // SAFETY: the caller vouches that a matrix of m x k floats lies there.
        let a = unsafe { floats(product.a, m * k) };
        // SAFETY: and one of k x n here.
        let b = unsafe { floats(product.b, k * n) };
        let a = if product.transpose_a { View::new(a, k, m).transposed() } else { View::new(a, m, k) };
        let b = if product.transpose_b { View::new(b, n, k).transposed() } else { View::new(b, k, n) };
        if m * n > 0 {
            // SAFETY: m x n floats lie there and overlap neither a nor b, says the caller.
            let c = unsafe { std::slice::from_raw_parts_mut(product.c as *mut f32, m * n) };
            gemm(c, a, b, product.beta == 1.0);
        }
        Ok(())
    }
}

/// A matrix in memory.
///
/// # Safety
/// `length` floats lie at `address` and do not change while the slice is used.
unsafe fn floats<'a>(address: u64, length: usize) -> &'a [f32] {
    if length == 0 {
        return &[];
    }
    // SAFETY: as the caller says; not null, for something lies there.
    unsafe { std::slice::from_raw_parts(address as *const f32, length) }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: announced by `allocate`.
        unsafe { (self.engine.freed)(self.address.as_ptr().add(self.usable).cast()) };
        if self.reserved.is_some() {
            return; // unmapped by its owner
        }
        if let Ok(layout) = layout(self.bytes) {
            // SAFETY: allocated by `allocate` with the same layout.
            unsafe { std::alloc::dealloc(self.address.as_ptr(), layout) };
        }
    }
}
